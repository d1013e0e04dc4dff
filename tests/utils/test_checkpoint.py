"""Checkpoints keep nothing that they need not; what they show is in scenes.txt."""

import gc
import re
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import T


def intermediates(reentrant: bool) -> tuple[Any, list[Any]]:
    """A result, and weak references to the memory of what was computed on the way to it, forward and again."""
    seen: list[Any] = []

    def function(x: Any) -> Any:
        for _ in range(3):
            x = x.sin()
            seen.append(weakref.ref(x._buf))
        return x.exp()

    x = T.ones(3, requires_grad=True)
    return T.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant), seen


@pytest.mark.parametrize("reentrant", [True, False])
def test_nothing_is_kept_before_or_after_backward(reentrant: bool) -> None:
    gc.disable()  # what only a collection would free is kept
    try:
        y, seen = intermediates(reentrant)
        assert len(seen) == 3 and all(memory() is None for memory in seen)
        y.sum().backward()
        assert len(seen) == 6 and all(memory() is None for memory in seen)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_what_was_recomputed_goes_as_it_is_used() -> None:
    y, seen = intermediates(False)
    held: list[int] = []
    node = y.grad_fn
    while node.next_functions:  # exp, and each sin
        node.register_hook(lambda *_: held.append(sum(memory() is not None for memory in seen[3:])))
        node = node.next_functions[0][0]
    y.sum().backward(retain_graph=True)
    assert held == sorted(held, reverse=True) and held[-1] <= 1


def test_threads_recompute_for_themselves() -> None:
    x = T.linspace(0, 1, 50, requires_grad=True)
    checkpoint = T.utils.checkpoint.checkpoint
    y = checkpoint(lambda x: (x.sin() * x).exp(), x, use_reentrant=False).sum()
    (want,) = T.autograd.grad(y, x, retain_graph=True)
    with ThreadPoolExecutor(4) as pool:
        for (got,) in pool.map(lambda _: T.autograd.grad(y, x, retain_graph=True), range(40)):
            assert T.equal(got, want)


def test_debug_tells_both_runs_apart() -> None:
    count = [0]

    def function(x: Any) -> Any:
        count[0] += 1
        return (x.sin() if count[0] == 1 else x[:1].tanh()).exp()

    module = T.utils.checkpoint
    x = T.ones(3, requires_grad=True)
    with module.set_checkpoint_debug_enabled(True):
        y = module.checkpoint(function, x, use_reentrant=False)
    with pytest.raises(module.CheckpointError, match="because you passed `debug=True`") as caught:
        y.sum().backward()
    assert "have different metadata" in str(caught.value.__cause__)
    forward, again = str(caught.value).partition("original forward:")[2].split("during recomputation:")
    assert re.findall(r"\$.*", forward) == ["$1: f32[3] = aten::sin($0)", "$2: f32[3] = aten::exp($1)"]
    assert re.findall(r"\$.*", again)[:2] == ["$1: f32[1] = aten::slice($0)", "$2: f32[1] = aten::tanh($1)"]
    assert f"{__file__}:{function.__code__.co_firstlineno + 2}:function" in str(caught.value)


def test_a_retained_graph_goes_without_a_collection() -> None:
    gc.disable()
    try:
        y, seen = intermediates(False)
        for _ in range(2):
            y.sum().backward(retain_graph=True)
        assert len(seen) == 9 and all(memory() is None for memory in seen)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()
