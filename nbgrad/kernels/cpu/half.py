"""float16 in a kernel: `from_half(bits)` is a float32, `to_half(x)` the bits of the float16 nearest to a float32.

Numba's CPU target refuses float16, even to load it, so kernels see float16 memory as uint16 and these two convert, each one
instruction of LLVM, which vectorises. Un-jitted, NumPy does the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, type_callable

_BITS, _HALF = ir.IntType(16), ir.HalfType()


def from_half(bits: Any) -> Any:
    return np.float32(bits.view(np.float16))


def to_half(x: Any) -> Any:
    with np.errstate(over="ignore"):  # what is too large is inf
        return np.float16(x).view(np.uint16)


@type_callable(from_half)
def _from_half_type(context: Any) -> Any:
    return lambda bits: types.float32 if bits == types.uint16 else None


@type_callable(to_half)
def _to_half_type(context: Any) -> Any:
    return lambda x: types.uint16 if x == types.float32 else None


@lower_builtin(from_half, types.Integer)
def _emit_from_half(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fpext(builder.bitcast(args[0], _HALF), ir.FloatType())


@lower_builtin(to_half, types.Float)
def _emit_to_half(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(builder.fptrunc(args[0], _HALF), _BITS)
