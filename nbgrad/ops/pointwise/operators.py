"""Sums and quotients with a keyword beside their operands; PyTorch's other names; Python's operators on tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

from nbgrad.core.op import ElementwiseOp
from nbgrad.core.plan import number_type, plan_for
from nbgrad.core.tensor import Tensor, hooks
from nbgrad.dispatch.elementwise import (
    add_into,
    elementwise_function,
    inplace,
    reflected,
    usually,
    usually_writes,
)
from nbgrad.dispatch.stanza import in_place_functions, method, refuse, stanza
from nbgrad.expr import prims as p
from nbgrad.memory import dtypes
from nbgrad.ops.pointwise.arithmetic import (
    _add,
    _floor_divide,
    _floor_divided,
    _floor_divided_,
    _pow_tensor,
    _refuse_zero,
    _rsub,
    _sub,
    _t_pow_,
    _true_divide,
    _trunc_divide,
    abs,
    mul,
    neg,
    no_bool_sub,
    pow,
    reciprocal,
    remainder,
)
from nbgrad.ops.pointwise.choices import clamp
from nbgrad.ops.pointwise.comparisons import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
)

# ---------------------------------------------------------------- ops with a keyword beside their operands


@stanza(
    name="add",
    node="AddBackward0",
    method=False,
    settings=("alpha",),
    rounds=("alpha",),
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
    rounds=("alpha",),
    fits=("alpha",),
    vjp=lambda g, alpha: (g, -g * alpha, None),
    check=no_bool_sub,
)
def _sub_scaled(input, other, alpha):
    return input - alpha * other


def _alpha(input: Any, other: Any, alpha: Any) -> None:
    if type(alpha) is int or (
        type(alpha) is float and input.__class__ is Tensor and input._spec.dtype.is_floating_point
    ):
        return
    kinds = [x.dtype if isinstance(x, Tensor) else dtypes.number_dtype(x) for x in (input, other)]
    if isinstance(alpha, complex) and not any(k.is_complex for k in kinds):
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if isinstance(alpha, float) and not any(k.inexact for k in kinds):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, bool) and not all(k is dtypes.bool_ for k in kinds):
        raise RuntimeError("Boolean alpha only supported for Boolean results.")


@method
@usually(_add.op, alpha=1)
def add(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """`input + alpha * other`, element by element and broadcast; `other` may be a number. The gradients are `g` and `g * alpha`.

    >>> torch.add(torch.tensor([1.0, 2.0]), torch.tensor([[10.0], [20.0]]))
    tensor([[11., 12.],
            [21., 22.]])
    >>> torch.add(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), alpha=2)
    tensor([ 7., 10.])
    """
    _alpha(input, other, alpha)
    return _add_scaled(input, other, alpha, out=out)


@method
@usually(_sub.op, alpha=1)
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """`input - alpha * other`, element by element and broadcast; `other` may be a number. The gradients are `g` and `-g * alpha`.
    Bools are refused.

    >>> torch.sub(torch.tensor([5.0, 6.0]), torch.tensor([1.0, 2.0]), alpha=2)
    tensor([3., 2.])
    """
    _alpha(input, other, alpha)
    return _sub_scaled(input, other, alpha, out=out)


@method
@usually_writes(_add.op, _add_scaled.op, alpha=1)
def add_(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    if type(alpha) is int and alpha == 1:
        return inplace(_add.op, (input, other))
    _alpha(input, other, alpha)
    return inplace(_add_scaled.op, (input, other, alpha))


@method
@usually_writes(_sub.op, _sub_scaled.op, alpha=1)
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
        rounds=("alpha",),
        vjp=lambda g, alpha: (-g * alpha, g, None),
        check=no_bool_sub,
    )


_RSUB_SCALED = {True: _rsub_scaled("RsubBackward0"), False: _rsub_scaled("RsubBackward1")}


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """`other - alpha * input`: `sub` with its operands exchanged. The gradients are `-g * alpha` and `g`.

    >>> torch.rsub(torch.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
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
    """`input / other`, element by element and broadcast; `other` may be a number. Integers give floats. With a `rounding_mode` the
    quotient is rounded, "trunc" towards zero or "floor" downwards, and integers stay integers. The gradients are `g / other` and
    `-g * input / other**2`; of what is rounded, 0.

    >>> torch.div(torch.tensor([-7, 7]), 2)
    tensor([-3.5000,  3.5000])
    >>> torch.div(torch.tensor([-7, 7]), 2, rounding_mode="trunc")
    tensor([-3,  3])
    >>> torch.div(torch.tensor([-7, 7]), 2, rounding_mode="floor")
    tensor([-4,  3])
    """
    op, args = _divided(input, other, rounding_mode)
    return op.function(*args, out=out)


@method
@usually_writes(_true_divide.op, rounding_mode=None)
def div_(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    return inplace(*_divided(input, other, rounding_mode))


@method
def floor_divide(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """`input / other` rounded down, as Python's `//`; integers stay integers, for which division by zero is refused. So is a
    gradient: `div` with `rounding_mode="floor"` has one, which is 0.

    >>> torch.floor_divide(torch.tensor([-7, 7]), 2)
    tensor([-4,  3])
    >>> torch.floor_divide(torch.tensor([-7.0, 7.0]), 2)
    tensor([-4.,  3.])
    """
    return _floor_divided(input, other, out=out)


@method
@usually_writes(_floor_divided_.op)
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
for _alias, _name in _ALIASES.items():
    for _suffix in ("", "_"):
        setattr(Tensor, _alias + _suffix, getattr(Tensor, _name + _suffix))


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


def _in_place(op_function: Any, op: Any) -> Any:
    def operator(self: Tensor, other: Any) -> Any:
        if isinstance(other, Tensor) or number_type(other) is not None:
            return op_function(self, other)
        return NotImplemented

    return operator if op is None else usually_writes(op)(operator)


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
    floordiv=_floor_divided,
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
    rfloordiv=_floor_divided,
    rmod=remainder,
    rpow=_pow_tensor,
    rand=bitwise_and,
    ror=bitwise_or,
    rxor=bitwise_xor,
    rlshift=bitwise_left_shift,
    rrshift=bitwise_right_shift,
).items():
    setattr(Tensor, f"__{_name}__", reflected(_function.op))
Tensor.__div__ = Tensor.__truediv__  # type: ignore[attr-defined]
for _name, _function, _op in (
    ("iadd", add_, _add.op),
    ("isub", sub_, _sub.op),
    ("itruediv", div_, _true_divide.op),
    ("idiv", div_, _true_divide.op),
    ("ifloordiv", floor_divide_, _floor_divided_.op),
    ("ipow", _t_pow_, None),
):
    setattr(Tensor, f"__{_name}__", _in_place(_function, _op))
for _name, _function in dict(
    imul=mul,
    imod=remainder,
    iand=bitwise_and,
    ior=bitwise_or,
    ixor=bitwise_xor,
    ilshift=bitwise_left_shift,
    irshift=bitwise_right_shift,
).items():
    setattr(Tensor, f"__{_name}__", _in_place(getattr(Tensor, f"{_function.op.name}_"), _function.op))


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
    if self.dtype.inexact:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


for _name, _function in dict(
    neg=neg, abs=abs, invert=_invert, pos=_pos, rsub=_from_number, rtruediv=_number_over, rdiv=_number_over
).items():
    setattr(Tensor, f"__{_name}__", _function)
_IN_PLACE = ("abs", "clip", "exp", "log", "neg", "negative", "reciprocal", "rsqrt", "sqrt", "square")
globals().update(in_place_functions(_IN_PLACE))
hooks.add = _add
hooks.add_ = partial(add_into, _add.op)
hooks.adding = lambda total, grad: plan_for(_add.op, (total, grad), total)


__all__ = [
    "absolute",
    "add",
    "clip",
    "div",
    "divide",
    "floor_divide",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "multiply",
    "negative",
    "not_equal",
    "rsub",
    "sub",
    "subtract",
    "true_divide",
    *(f"{_name}_" for _name in _IN_PLACE),
]
