"""Elements that are moved, beside NumPy: every layout of a small block, and the numbers that a look-up by value would confuse."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nbgrad as T
from nbgrad.ops.linear import lapack
from nbgrad.ops.views.copy import copy_memory

BLOCK = np.arange(3 * 4 * 5, dtype=np.float32).reshape(3, 4, 5)
LAYOUTS = [(order, step) for order in itertools.permutations(range(3)) for step in (1, 2)]


def laid(order: tuple[int, ...], step: int) -> tuple[T.Tensor, np.ndarray]:
    return T.from_numpy(BLOCK).permute(order)[:, ::step], BLOCK.transpose(order)[:, ::step]


@pytest.mark.parametrize(("order", "step"), LAYOUTS)
def test_turned_and_shifted(order: tuple[int, ...], step: int) -> None:
    x, a = laid(order, step)
    for dims in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        assert np.array_equal(x.flip(dims).numpy(), np.flip(a, dims))
        by = tuple(range(-2, len(dims) - 2))
        assert np.array_equal(x.roll(by, dims).numpy(), np.roll(a, by, dims))
    for k, dims in itertools.product(range(-1, 4), ((0, 1), (2, 0))):
        assert np.array_equal(x.rot90(k, dims).numpy(), np.rot90(a, k, dims))
    assert np.array_equal(x.roll(7).numpy(), np.roll(a, 7))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(60,), (5, 12), (12, 5), (60, 1), (3, 4, 5), (0, 3)])
def test_where_elements_are_not_0(shape: tuple[int, ...], share: float) -> None:
    a = np.random.default_rng(0).random(shape) < share
    for mask, known in (
        (T.from_numpy(a), a),
        (T.from_numpy(a).mT if a.ndim > 1 else T.from_numpy(a), a.swapaxes(-1, -2) if a.ndim > 1 else a),
    ):
        assert np.array_equal(mask.nonzero().numpy(), np.argwhere(known))
        for found, at in zip(mask.nonzero(as_tuple=True), known.nonzero(), strict=True):
            assert np.array_equal(found.numpy(), at)
        assert np.array_equal(
            T.arange(60)[: known.size].reshape(known.shape)[mask].numpy(),
            np.arange(known.size)[known.reshape(-1)],
        )


def test_padding_keeps_apart_what_compares_equal() -> None:
    x = T.ones(1)
    ends = [float(T.nn.functional.pad(x, (0, 1), value=v)[1]) for v in (0.0, -0.0, 0, math.nan, -0.0, 0.0)]
    assert [math.copysign(1, v) for v in ends if v == v] == [1, -1, 1, -1, 1]
    assert math.isnan(ends[3])


def test_joins_of_other_layouts_and_dtypes() -> None:
    x, a = laid((2, 0, 1), 1)
    whole = np.arange(a.size).reshape(a.shape)
    for dim in range(3):
        for _ in range(2):  # the long way, and the short one
            joined = T.cat((x, T.from_numpy(whole)), dim)
            assert np.array_equal(joined.numpy(), np.concatenate((a, whole), dim))
            assert np.array_equal(T.stack((x, x), dim).numpy(), np.stack((a, a), dim))
    large = np.arange(90000.0).reshape(300, 300)
    for _ in range(2):
        assert np.array_equal(
            T.cat((T.from_numpy(large), T.from_numpy(large).t()), 1).numpy(), np.hstack((large, large.T))
        )


@pytest.mark.parametrize("code", ["f4", "f8"])
def test_elimination(code: str) -> None:
    g = np.random.default_rng(1)
    for shape in ((5, 5), (2, 4, 7), (3, 7, 4), (2, 0, 3)):
        a = g.standard_normal(shape).astype(code)
        LU, pivots, infos = lapack.eliminated(a)
        L = np.tril(LU[..., : min(shape[-2:])], -1) + np.eye(shape[-2], min(shape[-2:]))
        P = np.broadcast_to(np.eye(shape[-2]), (*shape[:-1], shape[-2])).copy()
        for at in np.ndindex(shape[:-2]):
            for k, other in enumerate(pivots[at] - 1):
                P[at][[k, other]] = P[at][[other, k]]
        assert np.allclose(
            P.mT @ L @ np.triu(LU[..., : min(shape[-2:]), :]), a, atol=1e-5 if code == "f4" else 1e-13
        )
        assert not infos.any()
    assert lapack.eliminated(np.array([[1.0, 2.0], [2.0, 4.0]]))[2] == 2
    a, b = np.tril(g.standard_normal((2, 5, 5))) + 3 * np.eye(5), g.standard_normal((2, 5, 3)).astype(code)
    junk = a + np.triu(np.full((5, 5), np.nan), 1)
    assert np.allclose(a @ lapack.triangular(junk, b, False, False), b, atol=1e-5 if code == "f4" else 1e-13)


@pytest.mark.parametrize("dtype", [T.bfloat16, T.float32, T.int32])
def test_a_copy_into_memory_that_repeats_stays_in_it(dtype: T.dtype) -> None:
    """As a product makes of an operand that is expanded and to be cast."""
    memory = T.zeros(100)
    for shape, steps, size in (((2, 20, 3), (0, 3, 1), 60), ((20, 2, 3), (3, 0, 1), 60), ((4, 5), (0, 0), 1)):
        memory.zero_()
        values = T.ones(1, dtype=dtype).expand(shape)
        copy_memory(memory.as_strided(shape, steps), T.ones(size, dtype=dtype).as_strided(shape, steps))
        assert memory.tolist() == [1.0] * size + [0.0] * (100 - size)
        copy_memory(memory[7:].as_strided(shape, steps), values * 2)
        assert memory[7 : 7 + size].eq(2).all() and memory[7 + size :].max() <= 1
