"""What many threads do to one place of memory: `add_at(p, i, v)` adds there in one go, `claimed(p, i, v)` writes where 0 stands, and says
whether it did.

Only texts for a device call these: there, they are its atomics. On the CPU, which runs such a text on one thread, and un-jitted, they are
what they say.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

CODES = ("f4", "f8", "i4", "i8")  # of what can be added in one go
_SUMS = {"float": "llvm.nvvm.atomic.load.add.f32.p0f32", "double": "llvm.nvvm.atomic.load.add.f64.p0f64"}


def add_at(p: Any, i: int, v: Any) -> None:
    p[i] += v


def claimed(p: Any, i: int, v: int) -> bool:
    free = bool(p[i] == 0)
    if free:
        p[i] = v
    return free


@type_callable(add_at)
def _add_at_type(context: Any) -> Any:
    return lambda p, i, v: types.void if isinstance(p, types.CPointer) else None


@type_callable(claimed)
def _claimed_type(context: Any) -> Any:
    return lambda p, i, v: types.boolean if isinstance(p, types.CPointer) else None


def _on_a_device(builder: Any) -> bool:
    return str(builder.module.triple).startswith("nvptx")


@lower_builtin(add_at, types.CPointer, types.Integer, types.Any)
def _emit_add_at(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    pointer, i, value = args
    place = builder.gep(pointer, [i])
    value = context.cast(builder, value, signature.args[2], signature.args[0].dtype)
    real = isinstance(value.type, (ir.FloatType, ir.DoubleType))
    if not _on_a_device(builder):
        total = builder.fadd(builder.load(place), value) if real else builder.add(builder.load(place), value)
        builder.store(total, place)
    elif real:
        kind = ir.FunctionType(value.type, [place.type, value.type])
        builder.call(
            cgutils.get_or_insert_function(builder.module, kind, _SUMS[str(value.type)]), [place, value]
        )
    else:
        builder.atomic_rmw("add", place, value, "monotonic")
    return context.get_dummy_value()


@lower_builtin(claimed, types.CPointer, types.Integer, types.Integer)
def _emit_claimed(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    pointer, i, value = args
    place = builder.gep(pointer, [i])
    value = context.cast(builder, value, signature.args[2], signature.args[0].dtype)
    none = ir.Constant(value.type, 0)
    if _on_a_device(builder):
        return builder.extract_value(builder.cmpxchg(place, none, value, "monotonic", "monotonic"), 1)
    free = builder.icmp_signed("==", builder.load(place), none)
    with builder.if_then(free):
        builder.store(value, place)
    return free
