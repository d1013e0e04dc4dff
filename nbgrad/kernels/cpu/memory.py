"""Memory by its address: `at_f4(address)` is a pointer to float32, for kernels that walk tables of buffers, and `address_of(pointer)` the
address again.

Un-jitted, it is a pointer of ctypes, which reads and writes at an index in the same way, and an array of NumPy has an address.
"""

from __future__ import annotations

import ctypes
from typing import Any

from numba import types
from numba.extending import lower_builtin, type_callable

_KINDS: dict[str, tuple[Any, Any]] = {
    "f4": (types.float32, ctypes.c_float),
    "f8": (types.float64, ctypes.c_double),
    "i8": (types.int64, ctypes.c_int64),
}


def _define(code: str) -> Any:
    element, c_type = _KINDS[code]

    def at(address: int) -> Any:
        return ctypes.cast(int(address), ctypes.POINTER(c_type))

    @type_callable(at)
    def typing(context: Any) -> Any:
        return lambda address: types.CPointer(element) if isinstance(address, types.Integer) else None

    @lower_builtin(at, types.Integer)
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return at


at_f4, at_f8, at_i8 = (_define(c) for c in _KINDS)


def address_of(pointer: Any) -> int:
    return int(pointer.ctypes.data)


@type_callable(address_of)
def _type_of_address(context: Any) -> Any:
    return lambda pointer: types.int64 if isinstance(pointer, types.CPointer) else None


@lower_builtin(address_of, types.CPointer)
def _emit_address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.ptrtoint(args[0], context.get_value_type(types.int64))
