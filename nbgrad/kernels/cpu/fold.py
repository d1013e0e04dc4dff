"""Operations that may be carried out in any order: what lets LLVM keep a running total in several vector registers.

The leave is given for these operations alone, where a kernel says it; all other arithmetic of a kernel stays as it is written. The order
that LLVM takes depends on the loop and the machine, never on values, so a kernel gives the same on every call. Un-jitted, the order
is that of the loop.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, overload, type_callable


def add_up(total: Any, x: Any) -> Any:
    return total + x


def larger(top: Any, x: Any) -> Any:
    """The larger of the two, of which `top` is no NaN; if `x` is, `top`."""
    return x if x > top else top


def multiply_up(total: Any, x: Any) -> Any:
    return total * x


def highest(top: Any, x: Any) -> Any:
    """The larger of the two; if one is a NaN, that."""
    return top if top > x or top != top else x


def lowest(bottom: Any, x: Any) -> Any:
    """The smaller of the two; if one is a NaN, that."""
    return bottom if bottom < x or bottom != bottom else x


def rise(top: Any, x: Any) -> Any:
    """Python's `max(top, x)`, but for the sign of a zero."""
    return x if x > top else top


def fall(bottom: Any, x: Any) -> Any:
    """Python's `min(bottom, x)`, but for the sign of a zero."""
    return x if x < bottom else bottom


def clear(a: Any) -> None:
    """All of an array is zero."""
    a[...] = 0


def add_whole(x: Any, into: Any) -> None:
    """`into += x` of an array of its shape, or of a number."""
    into += x


@overload(add_whole)
def _of_whole_arrays(x: Any, into: Any) -> Any:
    """By loops: for `+=` of two arrays Numba compiles the words of its complaint as well, which takes 4 s of CPU."""
    rank = into.ndim

    def number(x: Any, into: Any) -> None:
        for i in np.ndindex(into.shape):
            into[i] += x

    def line(x: Any, into: Any) -> None:
        if x.shape != into.shape:
            raise ValueError("a seed of another shape than its result")
        for i in range(into.shape[0]):
            into[i] += x[i]

    def matrix(x: Any, into: Any) -> None:
        if x.shape != into.shape:
            raise ValueError("a seed of another shape than its result")
        for i in range(into.shape[0]):
            for j in range(into.shape[1]):
                into[i, j] += x[i, j]

    def any_rank(x: Any, into: Any) -> None:
        if x.shape != into.shape:
            raise ValueError("a seed of another shape than its result")
        for i in np.ndindex(into.shape):
            into[i] += x[i]

    if not isinstance(x, types.Array):
        return number
    return line if rank == 1 else matrix if rank == 2 else any_rank


def one_by_one() -> None:
    """In a loop's turn: that it is of few turns, and shall be no vectors."""


@type_callable(one_by_one)
def _nothing(context: Any) -> Any:
    return lambda: types.none


@lower_builtin(one_by_one)
def _emit_one_by_one(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Text of assembler, of which there is none: no loop with it becomes vectors, and nothing is done for it."""
    builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], True)
    return context.get_dummy_value()


@type_callable(clear)
def _of_an_array(context: Any) -> Any:
    return lambda a: types.none if isinstance(a, types.Array) and a.layout == "C" else None


@lower_builtin(clear, types.Array)
def _emit_clear(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    cgutils.memset(builder, array.data, builder.mul(array.itemsize, array.nitems), 0)
    return context.get_dummy_value()


@type_callable(add_up)
@type_callable(multiply_up)
@type_callable(larger)
@type_callable(highest)
@type_callable(lowest)
@type_callable(rise)
@type_callable(fall)
def _same_type(context: Any) -> Any:
    return lambda a, b: a if a == b else None


@lower_builtin(add_up, types.Float, types.Float)
def _emit_add_up(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fadd(*args, flags=("reassoc", "nsz", "contract"))


@lower_builtin(multiply_up, types.Float, types.Float)
def _emit_multiply_up(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fmul(*args, flags=("reassoc", "nsz", "contract"))


def _emit_extreme(function: Any, name: str) -> None:
    @lower_builtin(function, types.Float, types.Float)
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(args[0].type, [a.type for a in args])
        return builder.call(
            builder.module.declare_intrinsic(name, [args[0].type], of), args, fastmath=("nsz",)
        )


_emit_extreme(highest, "llvm.maximum")
_emit_extreme(lowest, "llvm.minimum")


def _emit_pythons(function: Any, number: str, extreme: str, least: float) -> None:
    """A NaN that comes is passed over, one that was there stays."""

    @lower_builtin(function, types.Float, types.Float)
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        so_far, x = args
        of = ir.FunctionType(x.type, [x.type, x.type])
        chosen, passed_over = (
            builder.module.declare_intrinsic(name, [x.type], of) for name in (extreme, number)
        )
        x = builder.call(passed_over, [x, ir.Constant(x.type, least)])
        return builder.call(chosen, [so_far, x], fastmath=("nsz",))


_emit_pythons(rise, "llvm.maxnum", "llvm.maximum", -inf)
_emit_pythons(fall, "llvm.minnum", "llvm.minimum", inf)


@lower_builtin(larger, types.Float, types.Float)
def _emit_larger(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    top, x = args
    of = ir.FunctionType(x.type, [x.type, x.type])
    number = builder.module.declare_intrinsic("llvm.maxnum", [x.type], of)
    x = builder.call(
        number, [x, ir.Constant(x.type, -inf)]
    )  # which makes no choice of a NaN, so that none is compared
    free = ("nnan", "nsz")
    return builder.select(builder.fcmp_ordered(">", top, x, flags=free), top, x, flags=free)
