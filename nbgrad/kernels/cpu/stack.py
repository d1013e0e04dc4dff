"""Small arrays on the stack of a kernel: `stack_f8(64)` is a pointer to 64 float64, gone when the kernel returns.

LLVM knows that nothing else points there, so lanes live in vector registers. Un-jitted, they are NumPy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

_KINDS = {
    "f4": (types.float32, np.float32),
    "f8": (types.float64, np.float64),
    "c16": (types.complex128, np.complex128),
    "i8": (types.int64, np.int64),
    "i4": (types.int32, np.int32),
    "i2": (types.int16, np.int16),
    "i1": (types.int8, np.int8),
    "u8": (types.uint64, np.uint64),
    "u4": (types.uint32, np.uint32),
    "u2": (types.uint16, np.uint16),
    "u1": (types.uint8, np.uint8),
    "b1": (types.uint8, np.bool_),
}


def _define(code: str) -> Any:
    element, numpy_type = _KINDS[code]

    def stack(n: int) -> Any:
        return np.empty(n, numpy_type)

    @type_callable(stack)
    def typing(context: Any) -> Any:
        return lambda n: types.CPointer(element) if isinstance(n, types.IntegerLiteral) else None

    @lower_builtin(stack, types.Integer)
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = signature.args[0].literal_value
        llvm = context.get_data_type(element)
        # By count, not as an ArrayType: Numba zeroes what it allocates, and LLVM takes 2 s to merge 4096 such stores.
        array = cgutils.alloca_once(builder, llvm, count)
        array.align = 64
        return array

    return stack


stack_f4, stack_f8, stack_c16 = _define("f4"), _define("f8"), _define("c16")
stack_i8, stack_i4, stack_i2, stack_i1, stack_u1 = (_define(c) for c in ("i8", "i4", "i2", "i1", "u1"))
stack_u8, stack_u4, stack_u2 = (_define(c) for c in ("u8", "u4", "u2"))
stack_b1 = _define("b1")
