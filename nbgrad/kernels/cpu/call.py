"""Into machine code and on: a buffer taken from Python by the address of its memory, and a C function called by its own.

Promises a launcher that `buffer`, the type of an argument, costs one read of the array object's field where NumPy's C interface has
the pointer to the data. Numba's own array type counts references that the caller holds anyway: measured 35 ns more a buffer. Nothing
is checked, so only the memory of tensors, which is never anything but a NumPy array of bytes, may be handed in.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, register_model, unbox

_INT = ir.IntType(64)
_BEHIND_THE_HEAD = ir.Constant(_INT, object.__basicsize__)


class Buffer(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__("buffer")


buffer = Buffer()


@register_model(Buffer)
class _Address(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _INT)


@unbox(Buffer)
def _read(kind: Any, array: Any, c: Any) -> NativeValue:
    field = c.builder.gep(c.builder.bitcast(array, ir.IntType(8).as_pointer()), [_BEHIND_THE_HEAD])
    return NativeValue(c.builder.load(c.builder.bitcast(field, _INT.as_pointer())))


@intrinsic
def pointer(typing: Any, memory: Any) -> Any:
    """The address that a buffer is."""
    return types.int64(memory), lambda context, builder, signature, values: values[0]


@intrinsic
def call(typing: Any, address: Any, args: Any) -> Any:
    """The C function at an address, of arguments as they come."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = cgutils.unpack_tuple(builder, values[1])
        function = ir.FunctionType(ir.VoidType(), [a.type for a in given])
        builder.call(builder.inttoptr(values[0], function.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(types.int64, args), codegen
