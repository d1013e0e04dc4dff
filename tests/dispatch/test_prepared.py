"""What is kept per layout and settings: a call finds it again, and is what the first one was."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.support import T

F = T.nn.functional


def leaf(*shape: int, wanted: bool = True) -> Any:
    return T.tensor(np.random.default_rng(len(shape)).normal(size=shape), requires_grad=wanted)


@pytest.mark.fast
@pytest.mark.parametrize("mask", list(itertools.product((False, True), repeat=3)))
def test_each_choice_of_gradients_is_recorded_again_as_at_first(mask: tuple[bool, ...]) -> None:
    x, w, b = leaf(3, 4, wanted=mask[0]), leaf(4, wanted=mask[1]), leaf(4, wanted=mask[2])
    found = []
    for _ in range(3):  # the second call finds the plan, the third also what records it
        y = F.layer_norm(x, (4,), w, b)
        assert y.requires_grad == any(mask)
        if any(mask):
            assert [node is not None for node, _ in y.grad_fn.next_functions] == list(mask)
            y.exp().sum().backward()
        found.append([None if t.grad is None else t.grad.tolist() for t in (x, w, b)])
        x.grad = w.grad = b.grad = None
    assert found[0] == found[1] == found[2]
    assert [g is not None for g in found[0]] == list(mask)


@pytest.mark.fast
def test_a_write_to_what_was_read_is_noticed_on_the_short_way_too() -> None:
    x, w = leaf(3, 4), leaf(4)
    for _ in range(3):
        read = x * 1
        y = F.layer_norm(read, (4,), w)
        read.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@pytest.mark.fast
def test_a_view_that_was_written_to_through_its_base_is_read_anew() -> None:
    target = T.tensor([0, 2])
    for _ in range(2):
        x = leaf(2, 3)
        base = x * 1
        view = base[:]
        F.cross_entropy(view, target)
        base.mul_(3)
        F.cross_entropy(view, target).backward()
        y = (x.detach() * 3).requires_grad_()
        F.cross_entropy(y, target).backward()
        np.testing.assert_allclose(x.grad.tolist(), (3 * y.grad).tolist(), rtol=1e-15)


@pytest.mark.fast
@pytest.mark.parametrize("kept", ["", "by a hook", "by retain_grad"])
def test_a_gradient_that_somebody_has_is_not_written_over(kept: str) -> None:
    x, w = leaf(300, 128), leaf(128)  # large enough for its memory to be taken over
    middle = F.layer_norm(x, (128,), w)
    held: list[Any] = []
    if kept == "by a hook":
        middle.register_hook(held.append)
    elif kept:
        middle.retain_grad()
    (middle * middle).sum().backward()
    if kept:
        seen = held[0] if held else middle.grad
        np.testing.assert_array_equal(seen.numpy(), 2 * middle.detach().numpy())
    again = leaf(300, 128)
    g = 2 * F.layer_norm(again, (128,), w.detach()).detach()
    F.layer_norm(again, (128,), w.detach()).backward(g)
    np.testing.assert_allclose(x.grad.numpy(), again.grad.numpy(), 1e-9, 1e-12)
    np.testing.assert_array_equal(g.numpy(), 2 * middle.detach().numpy())
