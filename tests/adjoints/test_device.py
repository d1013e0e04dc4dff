"""Adjoints as functions of a device: compiled without a GPU, values by the plain function."""

import math
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable


@differentiable
def bent(x, a):
    t = math.exp(-x * a)
    if t > 0.5:
        t = t * math.sqrt(t)
    for k in range(5):
        t += a * k * x
    return t * x


@differentiable
def row(x, i, a):
    s = 0.0
    for j in range(x.shape[1]):
        s += x[i, j] * x[i, j] * a
    return s


def test_values() -> None:
    f = bent.device(0.3, 0.7)
    value, by_x, by_a = f(0.3, 0.7, 1.0)
    assert value == pytest.approx(bent(0.3, 0.7))
    assert (by_x, by_a) == pytest.approx(bent.grad(0.3, 0.7))
    x, xb = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    row.device(x, 1, 2.0)(x, 1, 2.0, xb, 1.0)
    assert np.array_equal(xb, row.grad(x, 1, 2.0)[0])


def test_memory_is_refused() -> None:
    @differentiable
    def powers(x, n):
        s = 1.0
        for _ in range(n):
            s = s * s * x
        return s

    with pytest.raises(
        NotImplementedError, match="powers: its adjoint needs the array saved_s, which a function of a device"
    ):
        powers.device(1.0, 3)


@pytest.mark.cuda
def test_it_compiles() -> None:
    """As functions that kernels call; a kernel that calls a jitted one compiles only where there is a GPU."""
    cuda: Any = pytest.importorskip("numba.cuda")
    types: Any = pytest.importorskip("numba").types
    float_, matrix = types.float64, types.Array(types.float64, 2, "C")
    for f, given in (
        (bent.device(0.3, 0.7), (float_, float_, float_)),
        (row.device(np.ones((2, 2)), 1, 2.0), (matrix, types.int64, float_, matrix, float_)),
    ):
        text, _ = cuda.compile_ptx(f, given, device=True, cc=(9, 0))
        assert ".target sm_90" in text and ".f64" in text
