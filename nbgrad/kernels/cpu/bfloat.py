"""bfloat16 in a kernel: `from_bfloat(bits)` is a float32, `to_bfloat(x)` the bits of the bfloat16 nearest to a float32.

It is the upper half of a float32, so both are a few operations on its bits, which vectorise. NaN becomes the one that PyTorch makes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, type_callable

_BITS, _WIDE, _FLOAT = ir.IntType(16), ir.IntType(32), ir.FloatType()


def from_bfloat(bits: Any) -> Any:
    return (np.uint32(bits) << np.uint32(16)).view(np.float32)


def to_bfloat(x: Any) -> Any:
    x = np.float32(x)
    if x != x:
        return np.uint16(0x7FC0)
    bits = int(x.view(np.uint32))
    return np.uint16((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


@type_callable(from_bfloat)
def _from_bfloat_type(context: Any) -> Any:
    return lambda bits: types.float32 if bits == types.uint16 else None


@type_callable(to_bfloat)
def _to_bfloat_type(context: Any) -> Any:
    return lambda x: types.uint16 if x == types.float32 else None


@lower_builtin(from_bfloat, types.Integer)
def _emit_from_bfloat(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(builder.shl(builder.zext(args[0], _WIDE), _WIDE(16)), _FLOAT)


@lower_builtin(to_bfloat, types.Float)
def _emit_to_bfloat(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    bits = builder.bitcast(args[0], _WIDE)
    odd = builder.and_(builder.lshr(bits, _WIDE(16)), _WIDE(1))
    rounded = builder.lshr(builder.add(bits, builder.add(odd, _WIDE(0x7FFF))), _WIDE(16))
    nan = builder.fcmp_unordered("uno", args[0], _FLOAT(0.0))
    return builder.select(nan, _BITS(0x7FC0), builder.trunc(rounded, _BITS))
