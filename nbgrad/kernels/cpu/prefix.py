"""Running sums and products of `WIDTH` neighbours at a time: `running_sums(o, at, x, x_at, before)` for kernels.

It writes `before + x[0]`, `before + x[0] + x[1]` and so on, and gives the last of them. Within a vector each number is added to those one,
two and four places on, so that one addition, not eight, waits for the result before. The type of `before` is that in which sums
are taken. `_back` goes from higher places to lower ones, from `at` and `x_at` down. Un-jitted, they are loops.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, type_callable

from nbgrad.kernels.cpu.scan import WIDTH


def _converted(builder: Any, vector: Any, source: Any, to: Any) -> Any:
    """A vector whose elements Numba calls `source`, as one of the LLVM type `to`."""
    of = ir.VectorType(to, WIDTH)
    if vector.type == of:
        return vector
    if isinstance(source, types.Float):
        narrow = isinstance(to, ir.FloatType)
        return builder.fptrunc(vector, of) if narrow else builder.fpext(vector, of)
    if source.bitwidth > to.width:
        return builder.trunc(vector, of)
    return builder.sext(vector, of) if source.signed else builder.zext(vector, of)


def _define(join: Any, operations: tuple[str, str], neutral: int, step: int) -> Any:
    def running(o: Any, at: int, x: Any, x_at: int, before: Any) -> Any:
        for k in range(0, WIDTH * step, step):
            before = join(before, x[x_at + k])
            o[at + k] = before
        return before

    @type_callable(running)
    def typing(context: Any) -> Any:
        return lambda o, at, x, x_at, before: before

    @lower_builtin(running, types.CPointer, types.Integer, types.CPointer, types.Integer, types.Number)
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        o_type, _, x_type, _, kept = signature.args
        o, at, x, x_at, before = args
        element = before.type
        operate = getattr(builder, operations[isinstance(kept, types.Integer)])
        places = range(WIDTH) if step > 0 else range(WIDTH - 1, -1, -1)
        order = _mask(list(places))

        def where(pointer: Any, index: Any, of: Any) -> Any:
            lowest = index if step > 0 else builder.sub(index, ir.Constant(index.type, WIDTH - 1))
            vector = ir.VectorType(context.get_data_type(of.dtype), WIDTH)
            return vector, builder.bitcast(builder.gep(pointer, [lowest]), vector.as_pointer())

        vector, place = where(x, x_at, x_type)
        size = context.get_abi_sizeof(vector.element)
        v = builder.load(place, align=size)
        v = _converted(builder, builder.shuffle_vector(v, v, order), x_type.dtype, element)
        nothing = ir.Constant(v.type, [neutral] * WIDTH)
        for far in (1, 2, 4):
            moved = [WIDTH + k - far if k >= far else 0 for k in range(WIDTH)]
            v = operate(v, builder.shuffle_vector(nothing, v, _mask(moved)))
        last = operate(before, builder.extract_element(v, ir.Constant(ir.IntType(32), WIDTH - 1)))
        first = builder.insert_element(
            ir.Constant(v.type, ir.Undefined), before, ir.Constant(ir.IntType(32), 0)
        )
        v = operate(v, builder.shuffle_vector(first, first, _mask([0] * WIDTH)))
        vector, place = where(o, at, o_type)
        v = _converted(builder, v, kept, vector.element)
        builder.store(
            builder.shuffle_vector(v, v, order), place, align=context.get_abi_sizeof(vector.element)
        )
        return last

    return running


def _mask(places: list[int]) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), places)


_SUM = (lambda a, b: a + b, ("fadd", "add"), 0)
_PRODUCT = (lambda a, b: a * b, ("fmul", "mul"), 1)
running_sums, running_sums_back = (_define(*_SUM, step) for step in (1, -1))
running_products, running_products_back = (_define(*_PRODUCT, step) for step in (1, -1))
