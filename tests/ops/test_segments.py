"""Reductions of segments: what PyTorch leaves open or reads beside its memory."""

import numpy as np
import pytest

from tests.support import T


@pytest.mark.parametrize("way", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0.65])
def test_gradients_to_second_order(way: str, initial: float | None) -> None:
    x = T.tensor(np.random.default_rng(3).permutation(12).reshape(6, 2) / 5.0 - 1.1, requires_grad=True)
    ends = T.tensor([0, 2, 2, 5])

    def reduced(t: object) -> object:
        return T.segment_reduce(t, way, offsets=ends, initial=initial)

    x.grad = T.autograd.grad(reduced(x).sin().sum(), x)[0]
    assert not x.grad[5].any()
    filled = 0.5 if initial is None else initial  # of nothing no number is finite
    assert T.autograd.gradcheck(lambda t: T.nan_to_num(reduced(t), filled, filled, filled), (x,))
    assert T.autograd.gradgradcheck(lambda t: T.nan_to_num(reduced(t), filled, filled, filled), (x,))


def test_zeros_of_a_product_have_no_second_derivative() -> None:
    x = T.tensor([2.0, 0.0, 3.0], requires_grad=True)
    (g,) = T.autograd.grad(T.segment_reduce(x, "prod", lengths=T.tensor([3])).sum(), x, create_graph=True)
    assert g.tolist() == [0.0, 6.0, 0.0]
    with pytest.raises(RuntimeError, match="_segment_reduce_backward is not implemented"):
        g.sum().backward()


@pytest.mark.parametrize(
    "given",
    [
        {"offsets": [0, 7]},
        {"offsets": [-1, 2]},
        {"offsets": [[0, 1], [0, 2]], "axis": 1},
        {"lengths": [4, 9], "unsafe": True},
        {"lengths": [[2, 2]], "axis": 1},
    ],
)
def test_nothing_beside_the_data_is_read(given: dict[str, object]) -> None:
    more = {k: T.tensor(v) if isinstance(v, list) else v for k, v in given.items()}
    data = T.ones(3, 4) if "axis" in given else T.ones(6)
    fine = {"offsets": [0, 6]} if "offsets" in given else {"lengths": [6]}
    for _ in range(3):  # a later call of its kind goes another way
        if "axis" not in given and "unsafe" not in given:
            found = T.segment_reduce(data, "sum", **{k: T.tensor(v) for k, v in fine.items()})
            assert found.tolist() == [6.0]
        with pytest.raises(RuntimeError, match="segment_reduce"):
            T.segment_reduce(data, "sum", **more)


@pytest.mark.parametrize("way", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0.65])
@pytest.mark.parametrize("ends", [[0, 2, 2, 6], [1, 4], [3, 3, 5], [0]])
def test_offsets_say_what_the_parts_hold(way: str, initial: float | None, ends: list[int]) -> None:
    x = T.tensor(np.random.default_rng(3).permutation(12).reshape(6, 2) / 5.0 - 1.1)
    for _ in range(3):
        found = T.segment_reduce(x, way, offsets=T.tensor(ends, dtype=T.int32), initial=initial)
        assert found.shape == (len(ends) - 1, 2)
        for one, begin, end in zip(found, ends, ends[1:], strict=False):
            part = x[begin:end]
            alone = T.segment_reduce(part, way, lengths=T.tensor([end - begin]), initial=initial)[0]
            T.testing.assert_close(one, alone, equal_nan=True)


def test_in_vmap() -> None:
    x = T.arange(12.0).reshape(2, 6)
    ends = T.tensor([2, 0, 4])
    found = T.vmap(lambda t: T.segment_reduce(t, "max", lengths=ends, initial=3))(x)
    assert found.tolist() == [[3.0, 3.0, 5.0], [7.0, 3.0, 11.0]]
    each = T.vmap(T.func.grad(lambda t: T.segment_reduce(t, "mean", lengths=ends, initial=0).sum()))(x)
    assert each.tolist() == [[0.5, 0.5, 0.25, 0.25, 0.25, 0.25]] * 2


def test_lengths_that_change_are_seen_by_the_gradient() -> None:
    x, ends = T.arange(6.0, requires_grad=True), T.tensor([2, 4])
    for _ in range(4):  # a later call of its kind goes another way
        found = T.segment_reduce(x * 1, "mean", lengths=ends)
        assert T.autograd.grad(found[1], x, retain_graph=True)[0].tolist() == [0, 0, 0.25, 0.25, 0.25, 0.25]
        ends += T.tensor([1, -1])
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            T.autograd.grad(found[1], x)
        ends -= T.tensor([1, -1])
