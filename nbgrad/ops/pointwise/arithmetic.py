"""Elementwise ops: the scalar function is the op. Easy ones first.

Rules are declared where PyTorch saves another value than derivation would read, where the derived form is unstable, or at a kink;
everything else is derived from the body.
"""

from __future__ import annotations

import math
from typing import Any

from nbgrad.core.op import ElementwiseOp
from nbgrad.core.plan import check_cast, common_dtype, number_type
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import inplace
from nbgrad.dispatch.stanza import SAME, method, refuse, stanza
from nbgrad.expr import prims as p
from nbgrad.expr.prims import where as choose
from nbgrad.memory import dtypes
from nbgrad.ops.pointwise.comparisons import bitwise_or
from nbgrad.ops.views.copy import to_dtype

# ---------------------------------------------------------------- arithmetic


def no_bool_sub(compute: Any, operands: Any) -> None:
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


@stanza(name="sub", check=no_bool_sub)
def _sub(input, other):
    return input - other


@stanza(name="rsub", node="RsubBackward0", number_node="RsubBackward1", method=False, check=no_bool_sub)
def _rsub(input, other):
    return other - input


@stanza(opmath=True)
def mul(input, other):
    """`input * other`, element by element and broadcast; `other` may be a number. The gradients are `g * other` and `g * input`.

    >>> torch.mul(torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    return input * other


@stanza(
    name="div",
    opmath=True,
    promote="float",
    vjp=lambda g, input, other: (g / other, -g * ((input / other) / other)),
)
def _true_divide(input, other):
    return input / other


def _cast_to_zero(input: Any, other: int) -> bool:
    """Whether a number is a multiple of the range of the tensor's integers."""
    d = input.dtype if isinstance(input, Tensor) else dtypes.int64
    return other % (1 << (64 if d is dtypes.bool_ else 8 * d.itemsize)) == 0


def _refuse_zero(input: Any, other: Any) -> None:
    """Integer division by zero is an error before anything is written; of tensors on a GPU, which would have to be waited for, nobody
    looks, as in PyTorch, and the result is anything."""
    if isinstance(other, Tensor):
        zero = other.is_cpu and not other._host().all()
    else:
        zero = other == 0 or (not -256 < other < 256 and _cast_to_zero(input, other))
    if zero and not (isinstance(input, Tensor) and (input.is_meta or not input.numel())):
        raise RuntimeError("ZeroDivisionError")


@stanza(
    name="div_floor",
    opmath=True,
    node="DivBackward2",
    kernel=refuse("div_floor_cpu", bools=True),
    integers=_refuse_zero,
    method=False,
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


@stanza(
    name="div_trunc",
    opmath=True,
    node="DivBackward2",
    kernel=refuse("div_trunc_cpu", bools=True),
    method=False,
)
def _trunc_divide(input, other):
    return p.trunc(input / other)


def _left_over(name: str) -> Any:
    return stanza(
        node=f"{name.capitalize()}Backward1",
        number_node=f"{name.capitalize()}Backward0",
        kernel=refuse(f"{name}_cpu", bools=True),
        integers=_refuse_zero,
    )


@_left_over("remainder")
def remainder(input, other):
    """What `input` exceeds a whole multiple of `other` by, with the quotient rounded down: it has the sign of `other`, as Python's `%`.
    Integers modulo zero are refused. The gradients are `g` and `-g * floor(input / other)`.

    >>> torch.remainder(torch.tensor([-5, 5, 7]), 3)
    tensor([1, 2, 1])
    """
    return p.remainder(input, other)


@_left_over("fmod")
def fmod(input, other):
    """What is left of `input` after division by `other` with the quotient rounded towards zero: it has the sign of `input`, as C's `fmod`.
    Integers modulo zero are refused. The gradients are `g` and `-g * trunc(input / other)`.

    >>> torch.fmod(torch.tensor([-5, 5, 7]), 3)
    tensor([-2,  2,  1])
    """
    return p.fmod(input, other)


@stanza(exact=SAME, check=_no_bool_neg)
def neg(input):
    """Each element with its sign turned. The gradient is `-g`; bools are refused.

    >>> torch.neg(torch.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """
    return -input


@stanza(exact=SAME, vjp=lambda g, input: g * p.sign(input), kernel=refuse("abs_cpu", bools=True))
def abs(input):
    """Each element without its sign. The gradient is `g * sign(input)`, which is 0 at 0.

    >>> torch.abs(torch.tensor([-1.5, 2.0]))
    tensor([1.5000, 2.0000])
    >>> torch.func.grad(torch.abs)(torch.tensor(-1.5))
    tensor(-1.)
    """
    return p.abs(input)


@stanza(exact=SAME)
def sign(input):
    """-1, 0 or 1 for each element, as it is negative, zero or positive. The gradient is 0.

    >>> torch.sign(torch.tensor([-3.0, 0.0, 0.5]))
    tensor([-1.,  0.,  1.])
    """
    return p.sign(input)


@stanza(promote="float", vjp=lambda g, y: g / (2 * y))
def sqrt(input):
    """The square root of each element, NaN of negative ones. The gradient is `g / (2 * sqrt(input))`.

    >>> torch.sqrt(torch.tensor([4.0, 2.0, -1.0]))
    tensor([2.0000, 1.4142,    nan])
    >>> torch.func.grad(torch.sqrt)(torch.tensor(4.0))
    tensor(0.2500)
    """
    return p.sqrt(input)


@stanza(promote="float", vjp=lambda g, y: -0.5 * g * y * y * y)
def rsqrt(input):
    """One over the square root of each element. The gradient is `-g / (2 * input * sqrt(input))`.

    >>> torch.rsqrt(torch.tensor([4.0, 0.25, 0.0]))
    tensor([0.5000, 2.0000,    inf])
    """
    return p.rsqrt(input)


@stanza(promote="float", vjp=lambda g, y: -g * y * y)
def reciprocal(input):
    """One over each element; integers become floats. The gradient is `-g / input**2`.

    >>> torch.reciprocal(torch.tensor([2, 4]))
    tensor([0.5000, 0.2500])
    """
    return p.reciprocal(input)


@stanza(name="square", node="PowBackward0", method=False, shared=False)
def _square(input):
    return input * input


@stanza(promote="float", vjp=lambda g, y: g * y)
def exp(input):
    """e to the power of each element. The gradient is `g * exp(input)`.

    >>> torch.exp(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """
    return p.exp(input)


@stanza(promote="float", vjp=lambda g, input: g / input)
def log(input):
    """The natural logarithm of each element: -inf of 0, NaN of negative ones. The gradient is `g / input`.

    >>> torch.log(torch.tensor([1.0, 10.0, 0.0]))
    tensor([0.0000, 2.3026,   -inf])
    >>> torch.func.grad(torch.log)(torch.tensor(4.0))
    tensor(0.2500)
    """
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


@stanza(name="pow_one", node="PowBackward0", method=False, shared=False)
def _pow_one(input):
    return input


@stanza(name="pow_minus_one", node="PowBackward0", method=False, shared=False)
def _pow_minus_one(input):
    return p.reciprocal(input)


@stanza(name="pow_minus_two", node="PowBackward0", method=False, shared=False)
def _pow_minus_two(input):
    return p.reciprocal(input * input)


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
    kind, d = number_type(exponent), input._spec.dtype
    if kind is None:
        return _pow_tensor.op, (input, exponent)
    if kind is bool and d is dtypes.bool_:  # True ** True, and all to the power False
        return bitwise_or.op, (input, not exponent)
    if kind is complex or d.is_complex:
        x = to_dtype(input, common_dtype([input._spec, kind]))
        special = _COMPLEX_POWERS.get(exponent)
        return (_pow_number.op, (x, exponent)) if special is None else (special.op, (x,))
    if not d.is_floating_point and kind is not float:
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return _pow_number.op, (input, exponent)
    if not -_FLOAT_MAX <= exponent <= _FLOAT_MAX and not (d.narrow or d is dtypes.float64):
        exponent = math.copysign(math.inf, exponent) if exponent == exponent else exponent
    # The exponents that PyTorch, too, computes without pow; a number otherwise stays an argument of the kernel.
    special = (_FLOAT_POWERS if d.is_floating_point else _ROOTS).get(exponent)
    return (_pow_number.op, (input, exponent)) if special is None else (special.op, (input,))


_FLOAT_MAX = dtypes.finfo(dtypes.float32).max  # beyond it float32's pow takes an exponent for infinite
_ROOTS: dict[Any, Any] = {0.5: _pow_half, -0.5: _pow_minus_half}
_FLOAT_POWERS: dict[Any, Any] = {0: _pow_zero, 2: _square, 3: _cube, **_ROOTS}
_COMPLEX_POWERS: dict[Any, Any] = {**_FLOAT_POWERS, 1: _pow_one, -1: _pow_minus_one, -2: _pow_minus_two}


@method
def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """`input` to the power of `exponent`, broadcast; one of the two may be a number. Of integers a negative number as exponent is
    refused. The gradients are `g * exponent * input ** (exponent - 1)` and `g * log(input) * input ** exponent`.

    >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    >>> torch.pow(2, torch.tensor([0, 1, 2]))
    tensor([1, 2, 4])
    """
    if isinstance(exponent, Tensor):
        return _pow_tensor(input, exponent, out=out)
    op, args = power(input, exponent)
    return op.function(*args, out=out)


@method
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`input * input`. The gradient is `2 * g * input`.

    >>> torch.square(torch.tensor([-1.0, 3.0]))
    tensor([1., 9.])
    """
    if isinstance(input, Tensor) and input.dtype is not dtypes.bool_:
        return _square(input, out=out)
    return pow(input, 2, out=out)


@method
def _t_pow_(self: Tensor, exponent: Any) -> Tensor:
    op, args = power(self, exponent)
    if args[0] is not self:  # it became complex for a complex exponent, as which it has no room
        check_cast(args[0].dtype, self.dtype)
    return inplace(op, args)


@method
def _t_square_(self: Tensor) -> Tensor:
    return _t_pow_(self, 2)


__all__ = [
    "abs",
    "exp",
    "fmod",
    "log",
    "mul",
    "neg",
    "pow",
    "reciprocal",
    "remainder",
    "rsqrt",
    "sign",
    "sqrt",
    "square",
]
