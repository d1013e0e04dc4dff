"""Elementwise ops: the scalar function is the op. Easy ones first.

Rules are declared where PyTorch saves another value than derivation would read, where the derived form is unstable, or at a kink;
everything else is derived from the body.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from nbgrad.core.op import ElementwiseOp
from nbgrad.core.plan import dtypes_of, number_type
from nbgrad.core.tensor import Tensor, hooks
from nbgrad.dispatch.elementwise import (
    add_into,
    check_out,
    elementwise_function,
    inplace,
    operands_of,
    usually,
)
from nbgrad.dispatch.stanza import SAME, in_place_functions, method, refuse, stanza
from nbgrad.expr import prims as p
from nbgrad.expr.prims import where as choose
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec

# ---------------------------------------------------------------- arithmetic


def _no_bool_sub(compute: Any, operands: Any) -> None:
    bools = [getattr(o, "dtype", None) is dtypes.bool_ or o is bool for o in operands]
    if any(bools):
        both = all(bools)
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
            if both
            else "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the "
            "`~` or `logical_not()` operator instead."
        )


def _no_bool_neg(compute: Any, operands: Any) -> None:
    if compute is dtypes.bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
            "`logical_not()` operator instead."
        )


@stanza(name="add")
def _add(input, other):
    return input + other


@stanza(name="sub", check=_no_bool_sub)
def _sub(input, other):
    return input - other


@stanza(name="rsub", node="RsubBackward0", number_node="RsubBackward1", method=False, check=_no_bool_sub)
def _rsub(input, other):
    return other - input


@stanza(opmath=True)
def mul(input, other):
    return input * other


@stanza(
    name="div",
    opmath=True,
    promote="float",
    vjp=lambda g, input, other: (g / other, -g * ((input / other) / other)),
)
def _true_divide(input, other):
    return input / other


def _refuse_zero(input: Any, other: Any) -> None:
    """Integer division by zero is an error before anything is written."""
    zero = not other._host().all() if isinstance(other, Tensor) else other == 0
    if zero and (not isinstance(input, Tensor) or input.numel()):
        raise RuntimeError("ZeroDivisionError")


@stanza(
    name="div_floor",
    opmath=True,
    node="DivBackward2",
    kernel=refuse("div_floor_cpu", bools=True),
    integers=_refuse_zero,
)
def _floor_divide(input, other):
    return p.floor_divide(input, other)


# Floor division by its own name is an op for which PyTorch has no derivative, unlike `div` of that rounding mode.
_no_derivative = dict(
    name="div_floor",
    node="NotImplemented",
    kernel=refuse("div_floor_cpu", bools=True),
    integers=_refuse_zero,
    method=False,
    shared=False,
    opmath=True,
)


@stanza(refuses="aten::floor_divide", **_no_derivative)
def _floor_divided(input, other):
    return p.floor_divide(input, other)


@stanza(refuses="aten::floor_divide_", **_no_derivative)
def _floor_divided_(input, other):
    return p.floor_divide(input, other)


@stanza(name="div_trunc", opmath=True, node="DivBackward2", kernel=refuse("div_trunc_cpu", bools=True))
def _trunc_divide(input, other):
    return p.trunc(input / other)


@stanza(
    node="RemainderBackward1",
    number_node="RemainderBackward0",
    kernel=refuse("remainder_cpu", bools=True),
    integers=_refuse_zero,
)
def remainder(input, other):
    return p.remainder(input, other)


@stanza(
    node="FmodBackward1",
    number_node="FmodBackward0",
    kernel=refuse("fmod_cpu", bools=True),
    integers=_refuse_zero,
)
def fmod(input, other):
    return p.fmod(input, other)


@stanza(exact=SAME, check=_no_bool_neg)
def neg(input):
    return -input


@stanza(exact=SAME, vjp=lambda g, input: g * p.sign(input), kernel=refuse("abs_cpu", bools=True))
def abs(input):
    return p.abs(input)


@stanza(exact=SAME)
def sign(input):
    return p.sign(input)


@stanza(promote="float", vjp=lambda g, y: g / (2 * y))
def sqrt(input):
    return p.sqrt(input)


@stanza(promote="float", vjp=lambda g, y: -0.5 * g * y * y * y)
def rsqrt(input):
    return p.rsqrt(input)


@stanza(promote="float", vjp=lambda g, y: -g * y * y)
def reciprocal(input):
    return p.reciprocal(input)


@stanza(name="square", node="PowBackward0", method=False, shared=False)
def _square(input):
    return input * input


@stanza(promote="float", vjp=lambda g, y: g * y)
def exp(input):
    return p.exp(input)


@stanza(promote="float", vjp=lambda g, input: g / input)
def log(input):
    return p.log(input)


# ---------------------------------------------------------------- powers


@stanza(
    name="pow_number",
    node="PowBackward0",
    method=False,
    fits=("exponent",),
    vjp=lambda g, input, exponent: (
        choose(p.eq(exponent, 0), 0.0, g * (exponent * p.pow(input, exponent - 1))),
        None,
    ),
)
def _pow_number(input, exponent):
    return p.pow(input, exponent)


@stanza(name="cube", node="PowBackward0", method=False, shared=False)
def _cube(input):
    return input * input * input


# Roots are not pow in PyTorch: they keep the sign of zero, and of -inf they are NaN.
@stanza(
    name="pow_half",
    node="PowBackward0",
    promote="float",
    method=False,
    shared=False,
    vjp=lambda g, input: g * (0.5 * p.rsqrt(input)),
)
def _pow_half(input):
    return p.sqrt(input)


@stanza(
    name="pow_minus_half",
    node="PowBackward0",
    promote="float",
    method=False,
    shared=False,
    vjp=lambda g, input: g * (-0.5 * p.pow(input, -1.5)),
)
def _pow_minus_half(input):
    return p.rsqrt(input)


@stanza(name="pow_zero", node="PowBackward0", method=False, shared=False, vjp=lambda g, input: (None,))
def _pow_zero(input):
    return choose(p.eq(input, input), 1.0, 1.0)


@stanza(
    name="pow_tensor",
    node="PowBackward1",
    number_node="PowBackward2",
    method=False,
    kernel=refuse("pow", bools=True),
    vjp=lambda g, input, exponent, y: (
        choose(p.eq(exponent, 0), 0.0, g * (exponent * p.pow(input, exponent - 1))),
        g * choose(p.logical_and(p.eq(input, 0), p.ge(exponent, 0)), 0.0, y * p.log(input)),
    ),
)
def _pow_tensor(input, exponent):
    return p.pow(input, exponent)


def power(input: Any, exponent: Any) -> tuple[ElementwiseOp, tuple[Any, ...]]:
    if isinstance(exponent, Tensor) or not isinstance(input, Tensor):
        return _pow_tensor.op, (input, exponent)
    kind = number_type(exponent)
    if kind is None:
        return _pow_tensor.op, (input, exponent)
    if kind is bool and input.dtype is dtypes.bool_:  # True ** True, and all to the power False
        return bitwise_or.op, (input, not exponent)
    if not input.dtype.is_floating_point and kind is not float:
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return _pow_number.op, (input, exponent)
    if not -_FLOAT_MAX <= exponent <= _FLOAT_MAX and input.dtype not in (dtypes.float16, dtypes.float64):
        exponent = math.copysign(math.inf, exponent) if exponent == exponent else exponent
    # The exponents that PyTorch, too, computes without pow; a number otherwise stays an argument of the kernel.
    special = (_FLOAT_POWERS if input.dtype.is_floating_point else _ROOTS).get(exponent)
    return (_pow_number.op, (input, exponent)) if special is None else (special.op, (input,))


_FLOAT_MAX = dtypes.finfo(dtypes.float32).max  # beyond it float32's pow takes an exponent for infinite
_ROOTS: dict[Any, Any] = {0.5: _pow_half, -0.5: _pow_minus_half}
_FLOAT_POWERS: dict[Any, Any] = {0: _pow_zero, 2: _square, 3: _cube, **_ROOTS}


def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    if isinstance(exponent, Tensor):
        return _pow_tensor(input, exponent, out=out)
    op, args = power(input, exponent)
    return op.function(*args, out=out)


def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    if isinstance(input, Tensor) and input.dtype is not dtypes.bool_:
        return _square(input, out=out)
    return pow(input, 2, out=out)


def _pow_(self: Tensor, exponent: Any) -> Tensor:
    op, args = power(self, exponent)
    return inplace(op, args)


# ---------------------------------------------------------------- choices


@stanza(
    inplace=False,
    tensors=("input", "other"),
    vjp=lambda g, input, other: (
        choose(p.eq(input, other), g / 2, choose(p.lt(input, other), 0.0, g)),
        choose(p.eq(input, other), g / 2, choose(p.gt(input, other), 0.0, g)),
    ),
)
def maximum(input, other):
    return p.maximum(input, other)


@stanza(
    inplace=False,
    tensors=("input", "other"),
    vjp=lambda g, input, other: (
        choose(p.eq(input, other), g / 2, choose(p.gt(input, other), 0.0, g)),
        choose(p.eq(input, other), g / 2, choose(p.lt(input, other), 0.0, g)),
    ),
)
def minimum(input, other):
    return p.minimum(input, other)


# With numbers for bounds the gradient passes at the edge; a NaN passes through, and so does a zero's sign.
@stanza(
    name="clamp",
    node="ClampBackward1",
    method=False,
    exact=SAME,
    fits=("min", "max"),
    kernel=refuse("clamp_scalar_cpu", bools=True),
    vjp=lambda g, input, min, max: (
        choose(p.logical_and(p.ge(input, min), p.le(input, max)), g, 0.0),
        None,
        None,
    ),
)
def _clamp_both(input, min, max):
    return p.minimum(max, p.maximum(min, input))


# With tensors for bounds, what is not the input's goes to the bound; at the edge the input has it.
@stanza(
    name="clamp",
    node="ClampBackward0",
    method=False,
    kernel=refuse("clamp_cpu", bools=True),
    vjp=lambda g, input, min, max: (
        choose(p.logical_and(p.ge(input, min), p.le(input, max)), g, 0.0),
        choose(p.logical_and(p.lt(input, min), p.lt(min, max)), g, 0.0),
        choose(p.logical_or(p.gt(input, max), p.lt(max, min)), g, 0.0),
    ),
)
def _clamp_tensors(input, min, max):
    return p.minimum(p.maximum(input, min), max)


def _low(name: str, node: str) -> Any:
    return stanza(
        name=name,
        node=node,
        method=False,
        exact=SAME,
        fits=("min",),
        kernel=refuse("clamp_min_scalar_cpu", bools=True),
        vjp=lambda g, input, min: (choose(p.ge(input, min), g, 0.0), None),
    )(lambda input, min: p.maximum(min, input))


def _high(name: str, node: str) -> Any:
    return stanza(
        name=name,
        node=node,
        method=False,
        exact=SAME,
        fits=("max",),
        kernel=refuse("clamp_max_scalar_cpu", bools=True),
        vjp=lambda g, input, max: (choose(p.le(input, max), g, 0.0), None),
    )(lambda input, max: p.minimum(max, input))


def _low_tensor(name: str, node: str) -> Any:
    return stanza(
        name=name,
        node=node,
        method=False,
        vjp=lambda g, input, min: (choose(p.ge(input, min), g, 0.0), choose(p.lt(input, min), g, 0.0)),
    )(lambda input, min: p.maximum(input, min))


def _high_tensor(name: str, node: str) -> Any:
    return stanza(
        name=name,
        node=node,
        method=False,
        vjp=lambda g, input, max: (choose(p.le(input, max), g, 0.0), choose(p.gt(input, max), g, 0.0)),
    )(lambda input, max: p.minimum(input, max))


# By whether the bound is a tensor. clamp with one bound and the op of that one bound show different nodes.
_LOW = {False: _low("clamp", "ClampBackward1"), True: _low_tensor("clamp", "ClampBackward0")}
_HIGH = {False: _high("clamp", "ClampBackward1"), True: _high_tensor("clamp", "ClampBackward0")}
_CLAMP_MIN = {
    False: _low("clamp_min", "ClampMinBackward0"),
    True: _low_tensor("clamp_min", "ClampMinBackward1"),
}
_CLAMP_MAX = {
    False: _high("clamp_max", "ClampMaxBackward0"),
    True: _high_tensor("clamp_max", "ClampMaxBackward1"),
}


def _clamped(input: Tensor, min: Any, max: Any) -> tuple[ElementwiseOp, tuple[Any, ...]]:
    tensors = isinstance(min, Tensor) or isinstance(max, Tensor)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if min is None:
        return _HIGH[tensors].op, (input, max)
    if max is None:
        return _LOW[tensors].op, (input, min)
    return (_clamp_tensors if tensors else _clamp_both).op, (input, min, max)


def _clamp_into(op: ElementwiseOp, args: tuple[Any, ...]) -> Tensor:
    """In place; with numbers for bounds PyTorch says in C's words which dtype the result does not fit."""
    operands = operands_of(op, args)
    if op.exact is not None:
        d, to = dtypes_of(op, operands)[1], args[0].dtype
        if not dtypes.can_cast(d, to):
            raise RuntimeError(
                f"result type {d.scalar_name} can't be cast to the desired output type {to.c_name}"
            )
    return inplace(op, args)


@method
def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    if min is None or max is None:
        op, args = _clamped(input, min, max)
        return op.function(*args, out=out)
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return _clamp_tensors(input, min, max, out=out)
    return _clamp_both(input, min, max, out=out)


@method
def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    return _clamp_into(*_clamped(input, min, max))


@method
def clamp_min(input: Tensor, min: Any, *, out: Tensor | None = None) -> Tensor:
    return _CLAMP_MIN[isinstance(min, Tensor)](input, min, out=out)


@method
def clamp_max(input: Tensor, max: Any, *, out: Tensor | None = None) -> Tensor:
    return _CLAMP_MAX[isinstance(max, Tensor)](input, max, out=out)


@method
def clamp_min_(input: Tensor, min: Any) -> Tensor:
    return _clamp_into(_CLAMP_MIN[isinstance(min, Tensor)].op, (input, min))


@method
def clamp_max_(input: Tensor, max: Any) -> Tensor:
    return _clamp_into(_CLAMP_MAX[isinstance(max, Tensor)].op, (input, max))


@stanza(
    name="where",
    logical=("condition",),
    method=False,
    exact="Expected out type to be {want} but got {got}",
    vjp=lambda g, condition: (choose(condition, g, 0.0), choose(condition, 0.0, g)),
)
def _where(condition, input, other):
    return choose(condition, input, other)


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None) -> Any:
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if not isinstance(condition, Tensor):
        raise TypeError(
            f"where(): argument 'condition' (position 1) must be Tensor, not {type(condition).__name__}"
        )
    if condition._spec.dtype is dtypes.uint8:
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. "
            "Use a boolean condition instead.",
            UserWarning,
            stacklevel=2,
        )
        condition = condition.bool()
    if condition._spec.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.scalar_name}"
        )
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)) and not (
        _fits_any(input) and _fits_any(other)
    ):
        d = dtypes_of(_where.op, operands_of(_where.op, (condition, input, other)))[0]
        if d is not dtypes.float16:  # one too large for float16 is inf here
            for value in (input, other):
                if not isinstance(value, Tensor):
                    dtypes.fitting(value, d)
    return _where(condition, input, other, out=out)


def _fits_any(value: Any) -> bool:
    """A tensor, or a number that each dtype that it can lead to holds."""
    return isinstance(value, Tensor) or (type(value) in (int, float) and -128 <= value <= 127)


# PyTorch's formula changes at weight 0.5, so that both ends are exact.
def _lerp_body(input: Any, end: Any, weight: Any) -> Any:
    near = p.lt(p.abs(weight), 0.5)
    return choose(near, input, end) + choose(near, weight, weight - 1) * (end - input)


def _one_dtype(compute: Any, operands: Any) -> None:
    for name, o in zip(("end", "weight"), operands[1:]):
        if isinstance(o, Spec) and o.dtype is not operands[0].dtype:
            raise RuntimeError(
                f"expected dtype {operands[0].dtype.c_name} for `{name}` but got dtype {o.dtype.c_name}"
            )


@stanza(
    name="lerp",
    node="LerpBackward0",
    method=False,
    settings=("weight",),
    tensors=("input", "end"),
    check=_one_dtype,
    kernel=refuse("lerp_kernel_scalar", ints=True, bools=True),
    vjp=lambda g, weight: (g * (1 - weight), g * weight, None),
)
def _lerp_number(input, end, weight):
    return _lerp_body(input, end, weight)


@stanza(
    name="lerp",
    node="LerpBackward1",
    method=False,
    tensors=("input", "end", "weight"),
    check=_one_dtype,
    kernel=refuse("lerp_kernel_tensor", ints=True, bools=True),
    vjp=lambda g, input, end, weight: (g * (1 - weight), g * weight, g * (end - input)),
)
def _lerp_tensor(input, end, weight):
    return _lerp_body(input, end, weight)


@method
def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Tensor | None = None) -> Tensor:
    if not isinstance(weight, Tensor):
        return _lerp_number(input, end, weight, out=out)
    if out is not None and weight.ndim:
        args = (input, end, weight)
        check_out("lerp", out, dtypes_of(_lerp_tensor.op, operands_of(_lerp_tensor.op, args))[1], args, SAME)
    return _lerp_tensor(input, end, weight, out=out)


@method
def lerp_(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    return inplace((_lerp_tensor if isinstance(weight, Tensor) else _lerp_number).op, (input, end, weight))


# ---------------------------------------------------------------- comparisons, logic, bits


def _comparison(name: str) -> Any:
    """An op whose result is a bool. Where it takes the place of floats, its gradients are zeros; logic there is no step of a graph."""
    return stanza(promote="compare", node=f"{name}Backward1", number_node=f"{name}Backward0")


alike = stanza(
    lambda a, b: p.logical_or(p.eq(a, b), p.logical_and(p.ne(a, a), p.ne(b, b))),
    name="alike",
    promote="compare",
    method=False,
    shared=False,
)  # equal, or both not a number


@_comparison("Eq")
def eq(input, other):
    return p.eq(input, other)


@_comparison("Ne")
def ne(input, other):
    return p.ne(input, other)


@_comparison("Lt")
def lt(input, other):
    return p.lt(input, other)


@_comparison("Le")
def le(input, other):
    return p.le(input, other)


@_comparison("Gt")
def gt(input, other):
    return p.gt(input, other)


@_comparison("Ge")
def ge(input, other):
    return p.ge(input, other)


@stanza(promote="compare", tensors=("input", "other"), constant=True)
def logical_and(input, other):
    return p.logical_and(p.ne(input, 0), p.ne(other, 0))


@stanza(promote="compare", tensors=("input", "other"), constant=True)
def logical_or(input, other):
    return p.logical_or(p.ne(input, 0), p.ne(other, 0))


@stanza(promote="compare", tensors=("input", "other"), constant=True)
def logical_xor(input, other):
    return p.logical_xor(p.ne(input, 0), p.ne(other, 0))


@stanza(promote="compare", constant=True)
def logical_not(input):
    return p.logical_not(p.ne(input, 0))


@stanza(promote="compare", inplace=False)
def isnan(input):
    return p.isnan(input)


@stanza(promote="compare", inplace=False)
def isinf(input):
    return p.isinf(input)


@stanza(promote="compare", inplace=False)
def isfinite(input):
    return p.isfinite(input)


@stanza(kernel=refuse("bitwise_and_cpu", floats=True))
def bitwise_and(input, other):
    return p.bitwise_and(input, other)


@stanza(kernel=refuse("bitwise_or_cpu", floats=True))
def bitwise_or(input, other):
    return p.bitwise_or(input, other)


@stanza(kernel=refuse("bitwise_xor_cpu", floats=True))
def bitwise_xor(input, other):
    return p.bitwise_xor(input, other)


@stanza(kernel=refuse("lshift_cpu", floats=True, bools=True))
def bitwise_left_shift(input, other):
    return p.lshift(input, other)


@stanza(kernel=refuse("rshift_cpu", floats=True, bools=True))
def bitwise_right_shift(input, other):
    return p.rshift(input, other)


@stanza(exact=SAME, kernel=refuse("bitwise_not_cpu", floats=True))
def bitwise_not(input):
    return p.bitwise_not(input)


# ---------------------------------------------------------------- ops with a keyword beside their operands


@stanza(
    name="add",
    node="AddBackward0",
    method=False,
    settings=("alpha",),
    fits=("alpha",),
    vjp=lambda g, alpha: (g, g * alpha, None),
)
def _add_scaled(input, other, alpha):
    return input + alpha * other


@stanza(
    name="sub",
    node="SubBackward0",
    method=False,
    settings=("alpha",),
    fits=("alpha",),
    vjp=lambda g, alpha: (g, -g * alpha, None),
    check=_no_bool_sub,
)
def _sub_scaled(input, other, alpha):
    return input - alpha * other


def _alpha(input: Any, other: Any, alpha: Any) -> None:
    if type(alpha) is int:
        return
    kinds = [x.dtype if isinstance(x, Tensor) else dtypes.number_dtype(x) for x in (input, other)]
    if isinstance(alpha, float) and not any(k.is_floating_point for k in kinds):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, bool) and not all(k is dtypes.bool_ for k in kinds):
        raise RuntimeError("Boolean alpha only supported for Boolean results.")


@method
@usually(_add.op, alpha=1)
def add(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    _alpha(input, other, alpha)
    return _add_scaled(input, other, alpha, out=out)


@method
@usually(_sub.op, alpha=1)
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    _alpha(input, other, alpha)
    return _sub_scaled(input, other, alpha, out=out)


@method
def add_(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    if type(alpha) is int and alpha == 1:
        return inplace(_add.op, (input, other))
    _alpha(input, other, alpha)
    return inplace(_add_scaled.op, (input, other, alpha))


@method
def sub_(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    if type(alpha) is int and alpha == 1:
        return inplace(_sub.op, (input, other))
    _alpha(input, other, alpha)
    return inplace(_sub_scaled.op, (input, other, alpha))


def _rsub_scaled(node: str) -> Any:
    return stanza(
        lambda input, other, alpha: other - alpha * input,
        name="rsub",
        node=node,
        method=False,
        settings=("alpha",),
        vjp=lambda g, alpha: (-g * alpha, g, None),
        check=_no_bool_sub,
    )


_RSUB_SCALED = {True: _rsub_scaled("RsubBackward0"), False: _rsub_scaled("RsubBackward1")}


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    if type(alpha) is int and alpha == 1:
        return _rsub(input, other)
    _alpha(input, other, alpha)
    return _RSUB_SCALED[isinstance(other, Tensor)](input, other, alpha)


def _integers(*operands: Any) -> bool:
    kinds = [x.dtype if isinstance(x, Tensor) else dtypes.number_dtype(x) for x in operands]
    return not any(k.is_floating_point for k in kinds) and not all(k is dtypes.bool_ for k in kinds)


def _divided(input: Any, other: Any, rounding_mode: str | None) -> tuple[ElementwiseOp, tuple[Any, ...]]:
    if rounding_mode is None:
        return _true_divide.op, (input, other)
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    if rounding_mode == "floor":
        return _floor_divide.op, (input, other)
    return (_int_trunc_divide if _integers(input, other) else _trunc_divide).op, (input, other)


@stanza(
    name="div_trunc_int",
    node="DivBackward2",
    method=False,
    kernel=refuse("div_trunc_cpu", bools=True),
    integers=_refuse_zero,
)
def _int_trunc_divide(input, other):
    return (input - p.fmod(input, other)) // other


@method
@usually(_true_divide.op, rounding_mode=None)
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    op, args = _divided(input, other, rounding_mode)
    return op.function(*args, out=out)


@method
def div_(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    return inplace(*_divided(input, other, rounding_mode))


@method
def floor_divide(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    return _floor_divided(input, other, out=out)


@method
def floor_divide_(input: Tensor, other: Any) -> Tensor:
    return inplace(_floor_divided_.op, (input, other))


# ---------------------------------------------------------------- PyTorch's other names, and the operators

absolute, negative, multiply, divide, true_divide, subtract = abs, neg, mul, div, div, sub
greater, greater_equal, less, less_equal, not_equal, clip = gt, ge, lt, le, ne, clamp

_ALIASES = dict(
    absolute="abs",
    negative="neg",
    multiply="mul",
    divide="div",
    true_divide="div",
    subtract="sub",
    greater="gt",
    greater_equal="ge",
    less="lt",
    less_equal="le",
    not_equal="ne",
    clip="clamp",
)
Tensor.pow, Tensor.pow_ = pow, _pow_  # type: ignore[attr-defined]
Tensor.square, Tensor.square_ = square, lambda self: _pow_(self, 2)  # type: ignore[attr-defined]
for _alias, _name in _ALIASES.items():
    for _suffix in ("", "_"):
        setattr(Tensor, _alias + _suffix, getattr(Tensor, _name + _suffix))
Tensor.where = lambda self, condition, other: where(condition, self, other)  # type: ignore[attr-defined]


def _operator(function: Any) -> Any:
    """As an operator: an operand of a foreign type gets its chance, then Python's own TypeError."""
    op = function.op if hasattr(function, "op") else None

    def operator(self: Tensor, other: Any) -> Any:
        if isinstance(other, Tensor) or number_type(other) is not None:
            return function(self, other)
        return NotImplemented

    # The fast functions are used as they are where a foreign operand is told apart inside.
    return operator if op is None else elementwise_function(op, foreign=NotImplemented)


def _is_operand(other: Any) -> bool:
    return isinstance(other, Tensor) or number_type(other) is not None


def _reflected(function: Any) -> Any:
    def operator(self: Tensor, other: Any) -> Any:
        return function(other, self) if _is_operand(other) else NotImplemented

    return operator


def _in_place(op_function: Any) -> Any:
    def operator(self: Tensor, other: Any) -> Any:
        if isinstance(other, Tensor) or number_type(other) is not None:
            return op_function(self, other)
        return NotImplemented

    return operator


for _name, _function in dict(
    add=_add,
    sub=_sub,
    mul=mul,
    truediv=_true_divide,
    eq=eq,
    ne=ne,
    lt=lt,
    le=le,
    gt=gt,
    ge=ge,
    floordiv=floor_divide,
    mod=remainder,
    pow=pow,
    and_=bitwise_and,
    or_=bitwise_or,
    xor=bitwise_xor,
    lshift=bitwise_left_shift,
    rshift=bitwise_right_shift,
).items():
    setattr(Tensor, f"__{_name.strip('_')}__", _operator(_function))
for _name, _function in dict(radd=_add, rmul=mul).items():
    setattr(Tensor, f"__{_name}__", _operator(_function))
for _name, _function in dict(
    rfloordiv=floor_divide,
    rmod=remainder,
    rpow=pow,
    rand=bitwise_and,
    ror=bitwise_or,
    rxor=bitwise_xor,
    rlshift=bitwise_left_shift,
    rrshift=bitwise_right_shift,
).items():
    setattr(Tensor, f"__{_name}__", _reflected(_function))
Tensor.__div__ = Tensor.__truediv__  # type: ignore[attr-defined]
for _name, _function in dict(
    iadd=add_, isub=sub_, itruediv=div_, idiv=div_, ifloordiv=floor_divide_, ipow=_pow_
).items():
    setattr(Tensor, f"__{_name}__", _in_place(_function))
for _name, _method in dict(
    imul="mul_",
    imod="remainder_",
    iand="bitwise_and_",
    ior="bitwise_or_",
    ixor="bitwise_xor_",
    ilshift="bitwise_left_shift_",
    irshift="bitwise_right_shift_",
).items():
    setattr(Tensor, f"__{_name}__", _in_place(getattr(Tensor, _method)))


def _from_number(self: Tensor, other: Any) -> Any:
    return _rsub(self, other) if _is_operand(other) else NotImplemented


def _number_over(self: Tensor, other: Any) -> Any:
    """PyTorch computes number / tensor as reciprocal() * number, and its graph shows MulBackward0."""
    return mul(reciprocal(self), other) if _is_operand(other) else NotImplemented


def _pos(self: Tensor) -> Tensor:
    if self.dtype is dtypes.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


def _invert(self: Tensor) -> Tensor:
    if self.dtype.is_floating_point:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


for _name, _function in dict(
    neg=neg, abs=abs, invert=_invert, pos=_pos, rsub=_from_number, rtruediv=_number_over, rdiv=_number_over
).items():
    setattr(Tensor, f"__{_name}__", _function)

_IN_PLACE = ("abs", "clip", "exp", "log", "neg", "negative", "reciprocal", "rsqrt", "sqrt", "square")
globals().update(in_place_functions(_IN_PLACE))
hooks.add = _add
hooks.add_ = lambda total, grad: add_into(_add.op, total, grad)
__all__ = [
    "abs",
    "absolute",
    "add",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "clamp",
    "clamp_",
    "clamp_max",
    "clamp_max_",
    "clamp_min",
    "clamp_min_",
    "clip",
    "div",
    "divide",
    "eq",
    "exp",
    "floor_divide",
    "fmod",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "lerp",
    "less",
    "less_equal",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "maximum",
    "minimum",
    "mul",
    "multiply",
    "ne",
    "neg",
    "negative",
    "not_equal",
    "pow",
    "reciprocal",
    "remainder",
    "rsqrt",
    "rsub",
    "sign",
    "sqrt",
    "square",
    "sub",
    "subtract",
    "true_divide",
    "where",
    *(f"{_name}_" for _name in _IN_PLACE),
]
