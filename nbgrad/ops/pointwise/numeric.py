"""What is done to numbers as numbers: rounding, signs, extremes that skip NaN, the parts of a float, common divisors, sums of products."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from nbgrad.core.op import ElementwiseOp
from nbgrad.core.plan import common_dtype, number_type
from nbgrad.core.refusals import lacks_complex, no_complex_gradient
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.dispatch.elementwise import inplace as write
from nbgrad.dispatch.elementwise import into, usually, usually_writes
from nbgrad.dispatch.return_types import results
from nbgrad.dispatch.stanza import SAME, in_place_functions, method, method_alone, refuse, stanza
from nbgrad.expr import prims as p
from nbgrad.expr.prims import where as choose
from nbgrad.memory import dtypes
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.parts import complex_spec, view_as_real

# ---------------------------------------------------------------- rounding


@stanza(exact=SAME, kernel=refuse("floor_vml_cpu", bools=True))
def floor(input):
    """The largest whole number that is not above each element, in the same dtype. The gradient is 0.

    >>> torch.floor(torch.tensor([-1.5, 0.5, 2.0]))
    tensor([-2.,  0.,  2.])
    """
    return p.floor(input)


@stanza(exact=SAME, kernel=refuse("ceil_vml_cpu", bools=True))
def ceil(input):
    """The smallest whole number that is not below each element, in the same dtype. The gradient is 0.

    >>> torch.ceil(torch.tensor([-1.5, 0.5, 2.0]))
    tensor([-1.,  1.,  2.])
    """
    return p.ceil(input)


@stanza(exact=SAME, kernel=refuse("trunc_vml_cpu", bools=True))
def trunc(input):
    """Each element without its fraction, that is, rounded towards zero. The gradient is 0.

    >>> torch.trunc(torch.tensor([-1.5, 1.5, 2.0]))
    tensor([-1.,  1.,  2.])
    """
    return p.trunc(input)


@stanza(exact=SAME, kernel=refuse("frac_cpu", ints=True, bools=True))
def frac(input):
    """The fraction of each element, with its sign: `input - trunc(input)`. The gradient is `g`.

    >>> torch.frac(torch.tensor([-1.5, 2.25]))
    tensor([-0.5000,  0.2500])
    """
    return input - p.trunc(input)


@stanza(name="round", exact=SAME, method=False, kernel=refuse("round_vml_cpu", bools=True))
def _round(input):
    return p.round(input)


def _rounded(name: str, body: Any) -> Any:
    return stanza(
        body,
        name="round",
        node="RoundBackward1",
        exact=SAME,
        method=False,
        settings=("scale",),
        kernel=refuse("round_cpu", ints=True, bools=True),
        shared=False,
        vjp=lambda g, input, scale: (None, None),
    )


_round_decimals = _rounded("decimals", lambda input, scale: p.round(input * scale) / scale)
_round_tens = _rounded("tens", lambda input, scale: p.round(input / scale) * scale)


def _rounding(input: Tensor, decimals: int) -> tuple[Any, tuple[Any, ...]]:
    if decimals == 0:
        return _round.op, (input,)
    lacks_complex("round_cpu", input._spec.dtype)
    made = _round_decimals if decimals > 0 else _round_tens
    return made.op, (input, 10.0 ** abs(decimals))


@method
@usually(_round.op, decimals=0)
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest whole number, of two equally near ones the even one. With `decimals`, so many digits after the point are left; a negative
    number of them rounds to tens, hundreds and so on. The gradient is 0.

    >>> torch.round(torch.tensor([0.5, 1.5, -2.6]))
    tensor([ 0.,  2., -3.])
    >>> torch.round(torch.tensor([1234.5678]), decimals=-2)
    tensor([1200.])
    """
    op, args = _rounding(input, decimals)
    return op.function(*args, out=out)


@method
def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    return write(*_rounding(input, decimals))


# ---------------------------------------------------------------- signs


_ONLY_BOOL = "{name} does not support non-boolean outputs."


@stanza(promote="compare", inplace=False, exact=_ONLY_BOOL.format(name="signbit"))
def signbit(input):
    """Whether each element has its sign bit set, as a bool. Unlike `input < 0` it tells -0.0 from 0.0.

    >>> torch.signbit(torch.tensor([-1.0, -0.0, 0.0]))
    tensor([ True,  True, False])
    """
    return p.signbit(input)


@stanza(promote="float", tensors=("input",), number_node="CopysignBackward1")
def copysign(input, other):
    """The size of `input` with the sign of `other`, a tensor or a number. The gradient is `g` where that left the sign, `-g` where it
    turned it, and 0 where `input` is 0; that of `other` is 0.

    >>> torch.copysign(torch.tensor([1.0, -2.0]), torch.tensor([-1.0, 0.0]))
    tensor([-1.,  2.])
    """
    return p.copysign(input, other)


@method
def positive(input: Tensor) -> Tensor:
    """`+input`: the tensor itself. Bools are refused.

    >>> torch.positive(torch.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    return +input


# ---------------------------------------------------------------- classes of floats


@stanza(promote="compare", inplace=False, exact=_ONLY_BOOL.format(name="isposinf"))
def isposinf(input):
    """Whether each element is inf, as a bool.

    >>> torch.isposinf(torch.tensor([float("inf"), float("-inf"), 1.0]))
    tensor([ True, False, False])
    """
    return p.logical_and(p.isinf(input), p.gt(input, 0))


@stanza(promote="compare", inplace=False, exact=_ONLY_BOOL.format(name="isneginf"))
def isneginf(input):
    """Whether each element is -inf, as a bool.

    >>> torch.isneginf(torch.tensor([float("inf"), float("-inf"), 1.0]))
    tensor([False,  True, False])
    """
    return p.logical_and(p.isinf(input), p.lt(input, 0))


@stanza(
    name="nan_to_num",
    node="NanToNumBackward0",
    method=False,
    settings=("nan", "posinf", "neginf"),
    exact="nan_to_num: dtype of out: {got} should be same as input: {want}",
    vjp=lambda g, input: (g * choose(p.isfinite(input), 1.0, 0.0), None, None, None),
)
def _nan_to_num(input, nan, posinf, neginf):
    finite = choose(p.isfinite(input), input, choose(p.gt(input, 0), posinf, neginf))
    return choose(p.isnan(input), nan, finite)


def _numbers(input: Tensor, nan: Any, posinf: Any, neginf: Any) -> tuple[Any, Any, Any]:
    d = input._spec.dtype
    least, largest = dtypes.limits(d) if d.is_floating_point else (0, 0)
    if nan is posinf is neginf is None:
        return 0, largest, least
    for k, (name, value) in enumerate((("nan", nan), ("posinf", posinf), ("neginf", neginf)), 2):
        if value is not None and number_type(value) is None:
            kind = type(value).__name__
            raise TypeError(f"nan_to_num(): argument '{name}' (position {k}) must be float, not {kind}")
    given = ((nan, 0), (posinf, largest), (neginf, least))
    nan, posinf, neginf = [
        default if value is None else float(value) if type(value) is int and abs(value) >> 63 else value
        for value, default in given
    ]
    return nan, posinf, neginf


@method
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`nan` for NaN, `posinf` for inf and `neginf` for -inf; without them 0 and the dtype's largest and least number. The gradient is `g`
    where the element is finite, else 0.

    >>> torch.nan_to_num(torch.tensor([1.0, float("nan"), float("inf")]), posinf=9.0)
    tensor([1., 0., 9.])
    """
    no_complex_gradient("nan_to_num", input)
    if input._spec.dtype.is_complex:
        parts = nan_to_num(view_as_real(input), nan, posinf, neginf)
        found = wrap(parts._buf, complex_spec(parts._spec)[0])
        return found if out is None else into("nan_to_num", out, found, (input,))
    zero, largest, least = _numbers(input, nan, posinf, neginf)
    return _nan_to_num(input, zero, largest, least, out=out)


@method
def nan_to_num_(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    if input._spec.dtype.is_complex:
        no_complex_gradient("nan_to_num_", input)
        nan_to_num_(view_as_real(input), nan, posinf, neginf)
        return input
    return write(_nan_to_num.op, (input, *_numbers(input, nan, posinf, neginf)))


# ---------------------------------------------------------------- extremes where NaN is no number


def _counts(first: Any) -> Any:
    """One of two elements, the first where `first(input, other)` says so: it has the gradient."""
    return stanza(
        inplace=False,
        tensors=("input", "other"),
        vjp=lambda g, input, other: (
            choose(first(input, other), g, 0.0),
            choose(first(input, other), 0.0, g),
        ),
    )


def _larger(input: Any, other: Any) -> Any:
    return p.logical_or(p.ge(input, other), p.isnan(other))


def _smaller(input: Any, other: Any) -> Any:
    return p.logical_or(p.le(input, other), p.isnan(other))


@_counts(_larger)
def fmax(input, other):
    """The larger of `input` and `other`, of which one that is NaN does not count (`maximum` would be NaN). The larger has the gradient; of
    equals, `input`.

    >>> torch.fmax(torch.tensor([1.0, float("nan")]), torch.tensor([3.0, 2.0]))
    tensor([3., 2.])
    """
    return choose(_larger(input, other), input, other)


@_counts(_smaller)
def fmin(input, other):
    """The smaller of `input` and `other`, of which one that is NaN does not count (`minimum` would be NaN). The smaller has the gradient;
    of equals, `input`.

    >>> torch.fmin(torch.tensor([1.0, float("nan")]), torch.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return choose(_smaller(input, other), input, other)


_ONE_DTYPE = "heaviside is not yet implemented for tensors with different dtypes."


def _one_dtype(compute: Any, operands: Any) -> None:
    if operands[0].dtype is not operands[1].dtype:
        raise RuntimeError(_ONE_DTYPE)


@stanza(
    name="heaviside",
    node="NotImplemented",
    refuses="aten::heaviside",
    tensors=("input", "values"),
    check=_one_dtype,
    exact=_ONE_DTYPE,
)
def _heaviside(input, values):
    """The unit step: 0 below 0, 1 above, and at 0 the element of `values`, which is broadcast. A gradient of it is refused.

    >>> torch.heaviside(torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return choose(p.eq(input, 0), values, choose(p.gt(input, 0), 1, 0))


@method
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _heaviside(input, values, out=out)


# ---------------------------------------------------------------- the parts of a float


_next = dict(
    name="nextafter",
    node="NextafterBackward0",
    tensors=("input", "other"),
    kernel=refuse("nextafter_cpu", ints=True, bools=True),
)


def _moved(g, input, other, *settings):
    return (choose(p.eq(input, other), 0.0, g), *[None] * (1 + len(settings)))


_nextafter = stanza(vjp=lambda g, input, other: _moved(g, input, other), **_next)(
    lambda input, other: p.nextafter(input, other)
)


@stanza(
    method=False,
    shared=False,
    settings=("part", "least", "largest"),
    vjp=lambda g, input, other, part, least, largest: _moved(g, input, other, part, least, largest),
    **_next,
)
def _nextafter_narrow(input, other, part, least, largest):
    """Of 16 bits, computed in float32: a step of 0.6 to 1.2 units in the last place (and of 0.6 at a power of two, below which they
    are half as large) rounds to the neighbour."""
    size = p.abs(input)
    step = p.maximum(size * part, least)
    moved = choose(
        p.gt(size, largest), p.copysign(largest, input), input + choose(p.gt(other, input), step, -step)
    )
    known = choose(p.ne(input, input), input, moved)
    return choose(p.logical_or(p.eq(input, other), p.ne(other, other)), other, known)


def _next_of(input: Any, other: Any) -> tuple[ElementwiseOp, tuple[Any, ...]]:
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        d = common_dtype([input._spec.plain, other._spec.plain])
        if d in (dtypes.float16, dtypes.bfloat16):
            info = dtypes.finfo(d)
            return _nextafter_narrow.op, (
                input,
                other,
                0.6 * info.eps,
                0.6 * info.smallest_normal * info.eps,
                info.max,
            )
    return _nextafter.op, (input, other)


@method
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The number of the dtype that comes next to `input` on the way to `other`. The gradient in `input` is `g`, and 0 where they are
    equal.

    >>> torch.nextafter(torch.tensor([1.0]), torch.tensor([2.0])) - 1
    tensor([1.1921e-07])
    """
    op, args = _next_of(input, other)
    return op.function(*args, out=out)


@method
def nextafter_(input: Tensor, other: Tensor) -> Tensor:
    return write(*_next_of(input, other))


@stanza(
    name="ldexp",
    promote="float",
    tensors=("input", "other"),
    vjp=lambda g, other, y: (g * p.exp2(other), g * y * math.log(2)),
)
def _ldexp(input, other):
    return input * p.exp2(other)


def _no_bools(compute: Any, operands: Any) -> None:
    if operands[1].dtype is dtypes.bool_:
        raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool'")


def _times_power(x, n):
    """`x * 2**n` where 2**n need not be a number: a third of `n` at a time."""
    third = p.trunc(n / 3)
    power = p.exp2(third)
    made = x * power * power * p.exp2(n - 2 * third)
    return choose(p.logical_or(p.eq(x, 0), p.logical_not(p.isfinite(x))), x, made)


@stanza(
    name="ldexp_whole",
    node="LdexpBackward0",
    promote="float",
    method=False,
    shared=False,
    vjp=lambda g, other: (_times_power(g, other), None),
    kernel=_no_bools,
)
def _ldexp_whole(input, other):
    return _times_power(input, other)


def _by_whole(input: Any, other: Any) -> bool:
    """Whether a float is scaled by a whole power, which PyTorch does bit by bit; else it is multiplied by one that was computed."""
    both = isinstance(input, Tensor) and isinstance(other, Tensor)
    return both and input.dtype.is_floating_point and not other.dtype.inexact


def _not_into(t: Tensor) -> None:
    if not t.dtype.inexact:
        raise RuntimeError(f"ldexp can't be cast to the desired output type {t.dtype.scalar_name}")


@method
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`input * 2**other`. The gradients are `g * 2**other` and `g * log(2) * y` with the result `y`.

    >>> torch.ldexp(torch.tensor([1.0, -3.0]), torch.tensor([3, 1]))
    tensor([ 8., -6.])
    """
    if out is not None:
        _not_into(out)
    return (_ldexp_whole if _by_whole(input, other) else _ldexp)(input, other, out=out)


_ldexp_in_place = Tensor.ldexp_


@method
def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    if isinstance(other, Tensor):
        _not_into(input)
    return (
        write(_ldexp_whole.op, (input, other)) if _by_whole(input, other) else _ldexp_in_place(input, other)
    )


_exponent = stanza(lambda input: p.exponent(input), name="frexp_exponent", method=False, shared=False)


@stanza(
    name="frexp",
    node="FrexpBackward0",
    method=False,
    shared=False,
    settings=("exponent",),
    vjp=lambda g, exponent: (g / p.exp2(exponent), None),  # which overflows to 0
)
def _mantissa(input, exponent):
    return p.mantissa(input)


_FREXP_OUT = (
    "torch.frexp() expects mantissa to have dtype {c_want} but got {c_got}",
    "torch.frexp() expects exponent to have int dtype but got {c_got}",
)


@method_alone
def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Any:
    """The `mantissa`, from 0.5 to 1 in size, and the whole `exponent` of which each element is made: `input == mantissa * 2**exponent`. The
    gradient goes through the mantissa: `g / 2**exponent`.

    >>> torch.frexp(torch.tensor([1.0, -6.0]))
    torch.return_types.frexp(
    mantissa=tensor([ 0.5000, -0.7500]),
    exponent=tensor([1, 3], dtype=torch.int32))
    """
    if not input.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    exponent = to_dtype(_exponent(input.detach()), dtypes.int32)
    return results("frexp", (_mantissa(input, exponent), exponent), out, (input,), True, _FREXP_OUT)


# ---------------------------------------------------------------- common divisors


@stanza(tensors=("input", "other"), kernel=refuse("gcd_cpu", floats=True, bools=True))
def gcd(input, other):
    """The greatest common divisor of two integers, which is not negative; `gcd(0, 0)` is 0.

    >>> torch.gcd(torch.tensor([12, -7, 0]), torch.tensor([18, 14, 5]))
    tensor([6, 7, 5])
    """
    return p.gcd(input, other)


@stanza(tensors=("input", "other"), kernel=refuse("lcm_cpu", floats=True, bools=True))
def lcm(input, other):
    """The least common multiple of two integers, which is not negative; 0 if one of them is.

    >>> torch.lcm(torch.tensor([4, -3, 0]), torch.tensor([6, 5, 5]))
    tensor([12, 15,  0])
    """
    divisor = p.gcd(input, other)
    return choose(p.eq(divisor, 0), 0, p.abs(p.floor_divide(input, divisor) * other))


# ---------------------------------------------------------------- sums of products


@stanza(
    name="addcmul",
    settings=("value",),
    method=False,
    tensors=("input", "tensor1", "tensor2"),
    kernel=refuse("addcmul_cpu_out", bools=True),
    vjp=lambda g, tensor1, tensor2, value: (g, g * (tensor2 * value), g * (tensor1 * value), None),
)
def _addcmul(input, tensor1, tensor2, value):
    return input + value * tensor1 * tensor2


def _no_integers(compute: Any, operands: Any) -> None:
    if not any([o.dtype.inexact for o in operands[1:]]):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true "
            "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
            "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) "
            "for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / "
            "tensor2), for all dtypes."
        )


@stanza(
    name="addcdiv",
    settings=("value",),
    method=False,
    tensors=("input", "tensor1", "tensor2"),
    check=_no_integers,
    vjp=lambda g, tensor1, tensor2, value: (
        g,
        g * (value / tensor2),
        -g * (value * tensor1 / (tensor2 * tensor2)),
        None,
    ),
)
def _addcdiv(input, tensor1, tensor2, value):
    return input + value * tensor1 / tensor2


def _value(operands: tuple[Any, ...], value: Any) -> Any:
    """A factor as the kernel takes it: of integers, without its fraction."""
    if type(value) is int:
        return value
    kinds = [t._spec.dtype for t in operands if isinstance(t, Tensor)]
    if isinstance(value, complex) and not any([d.is_complex for d in kinds]):
        value = dtypes.fitting(value, reduce(dtypes.promote_types, kinds))
    if type(value) is int or any([d.inexact for d in kinds]):
        return value
    return int(value)


@method
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """`input + value * tensor1 * tensor2`, broadcast. The gradients are `g`, `g * value * tensor2` and `g * value * tensor1`.

    >>> torch.addcmul(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0]), value=0.5)
    tensor([ 8.5000, 14.0000])
    """
    return _addcmul(input, tensor1, tensor2, _value((input, tensor1, tensor2), value), out=out)


@method
@usually_writes(None, _addcmul.op, value=1)
def addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    return write(_addcmul.op, (input, tensor1, tensor2, _value((input, tensor1, tensor2), value)))


@method
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """`input + value * tensor1 / tensor2`, broadcast. The gradients are `g`, `g * value / tensor2` and
    `-g * value * tensor1 / tensor2**2`. Division of integers by integers is refused.

    >>> torch.addcdiv(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([2.0, 8.0]), value=2)
    tensor([4., 3.])
    """
    return _addcdiv(input, tensor1, tensor2, _value((input, tensor1, tensor2), value), out=out)


@method
@usually_writes(None, _addcdiv.op, value=1)
def addcdiv_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    return write(_addcdiv.op, (input, tensor1, tensor2, _value((input, tensor1, tensor2), value)))


# ---------------------------------------------------------------- PyTorch's other names

fix = trunc
Tensor.fix, Tensor.fix_ = trunc, Tensor.trunc_  # type: ignore[method-assign]
_IN_PLACE = ("ceil", "fix", "floor", "frac", "gcd", "lcm", "trunc")
globals().update(in_place_functions(_IN_PLACE))
__all__ = [
    *(
        "addcdiv",
        "addcmul",
        "ceil",
        "copysign",
        "fix",
        "floor",
        "fmax",
        "fmin",
        "frac",
        "frexp",
        "gcd",
        "heaviside",
    ),
    *("isneginf", "isposinf", "lcm", "ldexp", "ldexp_", "nan_to_num", "nan_to_num_", "nextafter"),
    *("positive", "round", "round_", "signbit", "trunc"),
    *(f"{_name}_" for _name in _IN_PLACE),
]
