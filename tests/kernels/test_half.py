"""float16 in kernels: every bit pattern, both ways, compiled and un-jitted, against NumPy."""

import numpy as np
import pytest

from nbgrad.kernels.cpu import half
from tests.support import T

BITS = np.arange(65536, dtype=np.uint16)
HALVES = BITS.view(np.float16)
SIGNALLING = np.isnan(HALVES) & (BITS & 0x200 == 0)


def test_every_float16_as_float32() -> None:
    got = T.from_numpy(HALVES).float().numpy().view(np.uint32)
    want = HALVES.astype(np.float32).view(np.uint32)
    # A signalling NaN becomes a quiet one, as IEEE 754 (and PyTorch) has it; NumPy keeps it.
    np.testing.assert_array_equal(got, np.where(SIGNALLING, want | 0x400000, want))


def test_every_float16_from_float32() -> None:
    got = T.from_numpy(HALVES.astype(np.float32)).half().numpy().view(np.uint16)
    np.testing.assert_array_equal(got, np.where(SIGNALLING, BITS | 0x200, BITS))


def test_rounding_to_float16() -> None:
    """Both neighbours of each midpoint, the midpoint itself (to even), denormals, what overflows, and random bits."""
    finite = np.sort(HALVES[np.isfinite(HALVES)].astype(np.float32))
    middle = (finite[1:] + finite[:-1]) / 2
    limits = np.array(
        [65504, 65519.996, 65520, 65536, 1e38, np.inf, 2**-24, 2**-25, 2**-26, 1e-45], np.float32
    )
    random = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    up, down = (np.nextafter(middle, np.float32(way)) for way in (np.inf, -np.inf))
    x = np.concatenate([finite, middle, up, down, limits, -limits, random[~np.isnan(random)]])
    with np.errstate(over="ignore"):
        want = x.astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(T.from_numpy(x).half().numpy().view(np.uint16), want)


@pytest.mark.parametrize("at", [0x0000, 0x8000, 0x0001, 0x03FF, 0x3C00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00])
def test_the_helpers_say_the_same_un_jitted(at: int) -> None:
    wide = half.from_half(BITS[at])
    assert wide.dtype == np.float32
    assert half.to_half(wide) == BITS[at]
