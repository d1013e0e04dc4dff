"""What Numba makes of the helpers that the texts of elementary functions call: their types, and LLVM's instructions.

Promises a kernel, which imports the helpers from here, that they are known to Numba once they are. Only who compiles gets here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

from nbgrad.kernels.vmath import (
    F as F,
)
from nbgrad.kernels.vmath import (
    copysign,
    down,
    f2i,
    fabs,
    fma,
    i2f4,
    i2f8,
    mad,
    narrow,
    number4,
    opaque,
    or_cos,
    or_fmod,
    or_pow,
    or_sin,
    or_tan,
    poly,
    root,
    select,
    select_int,
    truncated,
    widen,
    wrap4,
    wrap8,
)


def _is_float(*args: Any) -> bool:
    return isinstance(args[0], types.Float) and all(a == args[0] for a in args)


def _lowered(
    helper: Callable[..., Any], typer: Callable[..., Any], types_: tuple[Any, ...], emit: Any
) -> None:
    """Tells Numba the type of a helper's result (None: not for these operands) and how it is made."""
    type_callable(helper)(lambda context: typer)
    lower_builtin(helper, *types_)(emit)


def _widen_vectors(function: Any) -> None:
    """Asks for the machine's full vectors in a function, and for a stack on which they do not straddle cache lines.

    LLVM prefers 256 bits on AVX-512 machines, and these loops compute, they do not wait for memory (measured: 1.3 to 1.7 times as
    fast with 512). What does not fit into the registers, as the coefficients of long polynomials, is read from the stack. llvmlite
    refuses attributes it does not know, hence the plain set.add. Elsewhere the attributes mean nothing, but to NVVM, which refuses them.
    """
    if function.module.triple.startswith("nvptx"):
        return
    set.add(function.attributes, '"prefer-vector-width"="512"')
    set.add(function.attributes, "alignstack(64)")


def _intrinsic(builder: Any, name: str, *args: Any) -> Any:
    """Calls an LLVM intrinsic on operands of one float type."""
    width = "f32" if isinstance(args[0].type, ir.FloatType) else "f64"
    signature = ir.FunctionType(args[0].type, [a.type for a in args])
    _widen_vectors(builder.function)
    return builder.call(
        cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.{width}"), args
    )


def _emit_intrinsic(name: str) -> Callable[..., Any]:
    return lambda context, builder, sig, args: _intrinsic(builder, name, *args)


def _emit_poly(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    x, packed = args
    values = cgutils.unpack_tuple(builder, packed)
    cast = [context.cast(builder, v, t, sig.args[0]) for v, t in zip(values, sig.args[1], strict=True)]
    total = cast[-1]
    for c in cast[-2::-1]:
        total = _intrinsic(builder, "fmuladd", total, x, c)
    return total


def _emit_cast(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(builder, args[0], sig.args[0], sig.return_type)


def _emit_number(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(
        builder, context.cast(builder, args[0], sig.args[0], types.int32), types.int32, types.float32
    )


def _emit_f2i(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(sig.return_type))


def _emit_i2f(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    to = types.int32 if sig.return_type == types.float32 else types.int64
    bits = context.cast(builder, args[0], sig.args[0], to)
    return builder.bitcast(bits, context.get_value_type(sig.return_type))


def _emit_select(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.select(*args)


def _emit_select_int(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    a, b = (context.cast(builder, v, t, types.int64) for v, t in zip(args[1:], sig.args[1:], strict=True))
    return builder.select(args[0], a, b)


def _emit_or(c_name: str) -> Callable[..., Any]:
    """v, or where v is NaN what the C library says: how a text leaves to a call the few numbers that are not worth a lane of vectors.

    A branch in the loop would keep LLVM from vectorising it. This is a call of a function that is not inlined but has variants for
    vectors, named in the call's attribute: each looks once whether any of its lanes is NaN (measured: 80 us for 1e6 float32).
    """

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        width = "f" if sig.return_type == types.float32 else ""
        name = f"nbgrad_or_{c_name}{width}"
        scalar = builder.module.globals.get(name) or _define_or(builder.module, name, c_name + width, args)
        call = builder.call(scalar, args)
        variants = ",".join(f"_ZGV_LLVM_N{n}{'v' * len(args)}_{name}({name}_{n})" for n in _LANES)
        set.add(call.attributes, f'"vector-function-abi-variant"="{variants}"')
        _widen_vectors(builder.function)
        return call

    return emit


_LANES = (2, 4, 8, 16)


def _define_or(module: Any, name: str, libm: str, args: Any) -> Any:
    def function(name: str, kind: Any) -> Any:
        made = ir.Function(module, ir.FunctionType(kind, [kind] * len(args)), name)
        made.linkage = "weak_odr"  # kept, though nothing calls it until loops are vectors
        for attribute in ("noinline", "nounwind", "willreturn", "memory(none)"):
            set.add(made.attributes, attribute)
        return made, ir.IRBuilder(made.append_basic_block())

    kind = args[0].type
    called = cgutils.get_or_insert_function(module, ir.FunctionType(kind, [kind] * (len(args) - 1)), libm)
    scalar, builder = function(name, kind)
    v = scalar.args[0]
    with builder.if_then(builder.fcmp_unordered("uno", v, v), likely=False):
        builder.ret(builder.call(called, scalar.args[1:]))
    builder.ret(v)
    for n in _LANES:
        vector, builder = function(f"{name}_{n}", ir.VectorType(kind, n))
        v = vector.args[0]
        undecided = builder.bitcast(builder.fcmp_unordered("uno", v, v), ir.IntType(n))
        with builder.if_then(builder.icmp_unsigned("!=", undecided, undecided.type(0)), likely=False):
            for k in map(ir.IntType(32), range(n)):
                lane = builder.call(scalar, [builder.extract_element(a, k) for a in vector.args])
                v = builder.insert_element(v, lane, k)
            builder.ret(v)
        builder.ret(vector.args[0])
    return scalar


def _integer_to(to: Any) -> Callable[..., Any]:
    return lambda i: to if isinstance(i, types.Integer) else None


# fmuladd is one rounding or two, whichever is quick; llvm.fma without the instruction calls libm for each element
_lowered(
    mad, lambda a, b, c: a if _is_float(a, b, c) else None, (types.Float,) * 3, _emit_intrinsic("fmuladd")
)
_lowered(fma, lambda a, b, c: a if _is_float(a, b, c) else None, (types.Float,) * 3, _emit_intrinsic("fma"))
_lowered(
    select_int,
    lambda c, a, b: types.int64 if c == types.boolean else None,
    (types.Boolean, types.Integer, types.Integer),
    _emit_select_int,
)
for _or in (or_sin, or_cos, or_tan):
    _lowered(_or, lambda v, x: v if _is_float(v, x) else None, (types.Float,) * 2, _emit_or(_or.__name__[3:]))
for _or_2 in (or_fmod, or_pow):
    _lowered(
        _or_2,
        lambda v, x, y: v if _is_float(v, x, y) else None,
        (types.Float,) * 3,
        _emit_or(_or_2.__name__[3:]),
    )
_lowered(
    opaque, lambda x: x, (types.Any,), lambda context, builder, sig, args: args[0]
)  # llvmlite has no `freeze`
_lowered(truncated, lambda x: x if _is_float(x) else None, (types.Float,), _emit_intrinsic("trunc"))
_lowered(down, lambda x: x if _is_float(x) else None, (types.Float,), _emit_intrinsic("floor"))
_lowered(root, lambda x: x if _is_float(x) else None, (types.Float,), _emit_intrinsic("sqrt"))
_lowered(fabs, lambda x: x if _is_float(x) else None, (types.Float,), _emit_intrinsic("fabs"))
_lowered(
    copysign, lambda x, y: x if _is_float(x, y) else None, (types.Float,) * 2, _emit_intrinsic("copysign")
)
_lowered(poly, lambda x, c: x if _is_float(x) else None, (types.Float, types.BaseTuple), _emit_poly)
_lowered(
    select,
    lambda c, a, b: a if c == types.boolean and _is_float(a, b) else None,
    (types.Boolean, types.Float, types.Float),
    _emit_select,
)
_lowered(
    f2i, lambda x: {types.float32: types.int32, types.float64: types.int64}.get(x), (types.Float,), _emit_f2i
)
_lowered(i2f4, _integer_to(types.float32), (types.Integer,), _emit_i2f)
_lowered(i2f8, _integer_to(types.float64), (types.Integer,), _emit_i2f)
_lowered(number4, _integer_to(types.float32), (types.Integer,), _emit_number)
_lowered(wrap4, _integer_to(types.int32), (types.Integer,), _emit_cast)
_lowered(wrap8, _integer_to(types.int64), (types.Integer,), _emit_cast)
_lowered(widen, lambda x: types.float64 if x == types.float32 else None, (types.Float,), _emit_cast)
_lowered(narrow, lambda x: types.float32 if x == types.float64 else None, (types.Float,), _emit_cast)
