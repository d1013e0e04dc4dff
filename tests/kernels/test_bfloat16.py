"""bfloat16 in kernels: every bit pattern, both ways, compiled by either front and un-jitted, against what its bits say."""

import numpy as np
import pytest

from nbgrad.kernels import build
from nbgrad.kernels.cpu import bfloat
from nbgrad.memory import dtypes
from tests.support import T

BITS = np.arange(65536, dtype=np.uint16)
NUMBERS = (BITS.astype(np.uint32) << 16).view(np.float32)


def stored(bits: np.ndarray) -> T.Tensor:
    return T.from_numpy(bits.view(np.int16)).view(T.bfloat16)


def bits_of(t: T.Tensor) -> np.ndarray:
    return t.view(T.int16).numpy().view(np.uint16)


def nearest(x: np.ndarray) -> np.ndarray:
    """By the two neighbours' distances, in float64; of equal ones the even."""
    low = (x.view(np.uint32) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        beside = (low + np.uint16(1)).astype(np.uint16)
    with np.errstate(invalid="ignore"):
        return _nearest(low, beside, x)


def _nearest(low: np.ndarray, beside: np.ndarray, x: np.ndarray) -> np.ndarray:
    ends = [(b.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for b in (low, beside)]
    ends[1] = np.where(
        np.isinf(ends[1]), np.copysign(2.0**128, ends[1]), ends[1]
    )  # as if there were one more
    below, above = (np.abs(e - x.astype(np.float64)) for e in ends)
    up = (above < below) | ((above == below) & (low & 1 == 1))
    return np.where(up & ~np.isinf(x), beside, low)


def test_every_bfloat16_as_float32() -> None:
    got = stored(BITS).float().numpy()
    np.testing.assert_array_equal(got.view(np.uint32), NUMBERS.view(np.uint32))
    assert np.array_equal(np.array(stored(BITS).tolist(), np.float32), NUMBERS, equal_nan=True)


def test_rounding_to_bfloat16() -> None:
    """Midpoints, which go to even, and their neighbours, denormals, what overflows, and random bits; NaN is PyTorch's."""
    middle = ((BITS.astype(np.uint32) << 16) | 0x8000).view(np.float32)
    with np.errstate(invalid="ignore"):
        up, down = (np.nextafter(middle, np.float32(way)) for way in (np.inf, -np.inf))
    random = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([NUMBERS, middle, up, down, random])
    x = x[~np.isnan(x)]
    got = T.from_numpy(x).bfloat16()
    np.testing.assert_array_equal(bits_of(got), nearest(x))
    np.testing.assert_array_equal(dtypes.packed(x, dtypes.bfloat16), nearest(x))
    assert bits_of(T.tensor([float("nan"), -float("nan")], dtype=T.bfloat16)).tolist() == [0x7FC0] * 2


@pytest.mark.parametrize("at", [0x0000, 0x8000, 0x0001, 0x007F, 0x3F80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0])
def test_the_helpers_say_the_same_un_jitted(at: int) -> None:
    wide = bfloat.from_bfloat(BITS[at])
    assert wide.dtype == np.float32
    assert bfloat.to_bfloat(wide) == BITS[at]


@pytest.mark.slow
def test_numba_makes_the_same(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Numba's own front makes of a kernel in bfloat16."""
    monkeypatch.setenv("NBGRAD_COMPILER", "numba")
    source = """
from nbgrad.kernels.cpu.bfloat import from_bfloat, to_bfloat


def @NAME@(start, stop, o, x):
    for i in range(start, stop):
        o[i] = to_bfloat(from_bfloat(x[i]) * from_bfloat(x[i]))
"""
    made = build.kernel("squared_bfloat16", source, ("i8", "i8", "*g2", "*g2"))
    import ctypes

    out = np.empty_like(BITS)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2)(made.address)
    run(0, len(BITS), out.ctypes.data, BITS.ctypes.data)
    x = stored(BITS)
    np.testing.assert_array_equal(out, bits_of(x * x))
