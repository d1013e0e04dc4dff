"""Floats of 8 bits in a kernel: `from_e4m3fn(byte)` is a float32, `to_e4m3fn(x)` the byte of the nearest, ties to even; so of each kind.

The names are of the bits of exponent and mantissa. What ends in fn has no infinity, in fnuz no minus zero either; e8m0fnu holds exponents
alone, no sign and no zero. What is too large becomes the largest number (e4m3fn), infinity (e5m2) or NaN, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from nbgrad.kernels.cpu.vmath import f2i, i2f4, select, select_int  # type: ignore[attr-defined]

_INFINITE, _NAN = 0x7F800000, 0x7FC00000


@register_jitable(error_model="numpy")
def _whole(byte: Any) -> Any:
    return np.int64(byte)


@register_jitable(error_model="numpy")
def _wide(byte: Any, mantissa: Any, bias: Any) -> Any:
    """The number of a byte of so many bits of mantissa, whose sign comes first: below the smallest exponent multiples of one step."""
    low = _whole(byte) & 127
    step = i2f4((128 - bias - mantissa) << 23)
    size = select(
        low < (1 << mantissa), np.float32(low) * step, i2f4((low << (23 - mantissa)) + ((127 - bias) << 23))
    )
    return i2f4(f2i(size) | ((_whole(byte) & 128) << 24))


@register_jitable(error_model="numpy")
def _short(x: Any, mantissa: Any, bias: Any, top: Any, beyond: Any, nan: Any) -> Any:
    """The seven bits of |x|, `beyond` of what is above `top`. A sum with what has the smallest step as its last bit rounds the smallest."""
    size = f2i(x) & 0x7FFFFFFF
    cut = 23 - mantissa
    near = (size - ((127 - bias) << 23) + (1 << (cut - 1)) - 1 + ((size >> cut) & 1)) >> cut
    step = (127 + 24 - bias - mantissa) << 23
    small = f2i(i2f4(size) + i2f4(step)) - step
    code = select_int(size < ((128 - bias) << 23), small, near)
    code = select_int(code > top, beyond, code)
    return select_int(size > _INFINITE, nan, code)


@register_jitable(error_model="numpy")
def _signed(x: Any, code: Any) -> Any:
    return np.uint8(code | ((f2i(x) >> 24) & 128))


@register_jitable(error_model="numpy")
def _once(x: Any, code: Any) -> Any:
    """With a sign, but for zero and NaN, of which there is one each."""
    return np.uint8(select_int((code & 127) == 0, code, code | ((f2i(x) >> 24) & 128)))


@register_jitable(error_model="numpy")
def from_e4m3fn(byte: Any) -> Any:
    nan = i2f4(_NAN | ((_whole(byte) & 128) << 24))
    return select((_whole(byte) & 127) == 127, nan, _wide(byte, 3, 7))


@register_jitable(error_model="numpy")
def to_e4m3fn(x: Any) -> Any:
    return _signed(x, _short(x, 3, 7, 126, 126, 127))


@register_jitable(error_model="numpy")
def from_e5m2(byte: Any) -> Any:
    low = _whole(byte) & 127
    past = i2f4(select_int(low == 124, _INFINITE, _NAN) | ((_whole(byte) & 128) << 24))
    return select(low >= 124, past, _wide(byte, 2, 15))


@register_jitable(error_model="numpy")
def to_e5m2(x: Any) -> Any:
    return _signed(x, _short(x, 2, 15, 123, 124, 127))


@register_jitable(error_model="numpy")
def from_e4m3fnuz(byte: Any) -> Any:
    return select(_whole(byte) == 128, i2f4(_NAN), _wide(byte, 3, 8))


@register_jitable(error_model="numpy")
def to_e4m3fnuz(x: Any) -> Any:
    return _once(x, _short(x, 3, 8, 127, 128, 128))


@register_jitable(error_model="numpy")
def from_e5m2fnuz(byte: Any) -> Any:
    return select(_whole(byte) == 128, i2f4(_NAN), _wide(byte, 2, 16))


@register_jitable(error_model="numpy")
def to_e5m2fnuz(x: Any) -> Any:
    return _once(x, _short(x, 2, 16, 127, 128, 128))


@register_jitable(error_model="numpy")
def from_e8m0fnu(byte: Any) -> Any:
    exponent = _whole(byte)
    bits = select_int(exponent == 0, 0x400000, exponent << 23)  # the smallest is below float32's normal ones
    return i2f4(select_int(exponent == 255, _NAN, bits))


@register_jitable(error_model="numpy")
def to_e8m0fnu(x: Any) -> Any:
    """A tie goes up, but from below the smallest exponent of a float32."""
    size = f2i(x) & 0x7FFFFFFF
    exponent = size >> 23
    up = select_int(exponent == 0, 0x400001, 0x400000)
    more = select_int((size & 0x7FFFFF) >= up, exponent + 1, exponent)
    return np.uint8(select_int(exponent == 255, 255, more))
