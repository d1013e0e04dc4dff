"""What the texts of elementary functions (`kernels/texts`) call.

Promises them helpers that Numba compiles to an instruction or two at the width of their operands, and whole vectors of the machine
for the loops that call them. Each is a plain Python function too, with the same result to the bit.
"""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np

from nbgrad.expr import prims

F = np.float32

# ----------------------------------------------------------------------------------------------------------------
# The helpers. Each is a plain Python function (the twin, for kernels run without Numba); `cpu/vmath.py` has how Numba types and
# lowers it.
# ----------------------------------------------------------------------------------------------------------------


def f2i(x: Any) -> int:
    """The bits of a float as a signed integer."""
    if isinstance(x, np.float32):
        return int(x.view(np.int32))
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def i2f4(i: int) -> Any:
    """The float32 whose bits are the low 32 bits of i."""
    return np.uint32(i & 0xFFFFFFFF).view(np.float32)


def i2f8(i: int) -> Any:
    """The float64 whose bits are the low 64 bits of i."""
    return np.uint64(i & 0xFFFFFFFFFFFFFFFF).view(np.float64)


def number4(i: int) -> Any:
    """The low 32 bits of i, signed, as a float32."""
    return F(wrap4(i))


def wrap4(i: int) -> int:
    """The low 32 bits of i, signed. Numba computes int32 + int32 in int64; LLVM narrows +, -, *, & and << again when
    only the low half is used, but not >> or a comparison: wrap what is shifted right or compared."""
    return (i + 0x80000000) % 0x100000000 - 0x80000000


def wrap8(i: int) -> int:
    return (i + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000


def mad(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, in one rounding where the machine has the instruction."""
    if isinstance(a, np.float32):
        return F(np.float64(a) * np.float64(b) + np.float64(c))
    total = np.float64(a) * b + c
    if not np.isfinite(total):
        return total
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return np.float64(float(exact)) if exact else total


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c in one rounding on every machine: a slow call where it is no instruction."""
    return mad(a, b, c)


def poly(x: Any, coefficients: tuple[float, ...]) -> Any:
    """The polynomial with these coefficients, constant one first, by Horner's rule in mad."""
    kind = F if isinstance(x, np.float32) else np.float64
    total = kind(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = mad(total, x, kind(c))
    return total


def select(condition: Any, a: Any, b: Any) -> Any:
    """a if condition else b, as LLVM's select: both are computed, nothing branches."""
    return a if condition else b


def select_int(condition: Any, a: int, b: int) -> int:
    return a if condition else b


def opaque(x: Any) -> Any:
    """x, from which LLVM sees no way back to where it was read: what is chosen between it and another number is stored as a whole. A store
    of those elements only that change takes AMD's processors five times as long with AVX2."""
    return x


def truncated(x: Any) -> Any:
    return np.trunc(x)


def down(x: Any) -> Any:
    """x rounded to a whole number, towards minus infinity."""
    return np.floor(x)


def fabs(x: Any) -> Any:
    return np.abs(x)


def copysign(x: Any, sign: Any) -> Any:
    return np.copysign(x, sign)


def root(x: Any) -> Any:
    return np.sqrt(x)


def or_sin(v: Any, x: Any) -> Any:
    """v, or where v is NaN what the C library says of x: see `_emit_or` in `cpu/vmath.py`."""
    return v if v == v else np.sin(x)


def or_cos(v: Any, x: Any) -> Any:
    return v if v == v else np.cos(x)


def or_tan(v: Any, x: Any) -> Any:
    return v if v == v else np.tan(x)


def or_fmod(v: Any, x: Any, y: Any) -> Any:
    return v if v == v else np.fmod(x, y)


def or_pow(v: Any, x: Any, y: Any) -> Any:
    return v if v == v else np.float64(prims.pow.python(float(x), float(y)))


def widen(x: Any) -> Any:
    return np.float64(x)


def narrow(x: Any) -> Any:
    return np.float32(x)


HELPERS = (
    *("F", "f2i", "i2f4", "i2f8", "number4", "wrap4", "wrap8", "mad", "fma", "poly", "select", "select_int"),
    *("opaque",),
    *("truncated", "down", "fabs", "copysign", "root", "widen", "narrow"),
    *("or_sin", "or_cos", "or_tan", "or_fmod", "or_pow"),
)
PREAMBLE = f"from nbgrad.kernels.cpu.vmath import {', '.join(HELPERS)}\n"
