"""Choices between elements: maximum, minimum, clamping, where, and steps from one to the other."""

from __future__ import annotations

from typing import Any

from nbgrad.base.warn import warn_once
from nbgrad.core.op import ElementwiseOp
from nbgrad.core.plan import dtypes_of
from nbgrad.core.refusals import lacks_complex
from nbgrad.core.tensor import Tensor, requires
from nbgrad.dispatch.elementwise import check_out, inplace, operands_of, usual_write, usually_writes
from nbgrad.dispatch.stanza import SAME, method, refuse, stanza
from nbgrad.expr import prims as p
from nbgrad.expr.prims import where as choose
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec


@stanza(
    inplace=False,
    tensors=("input", "other"),
    vjp=lambda g, input, other: (
        choose(p.eq(input, other), g / 2, choose(p.lt(input, other), 0.0, g)),
        choose(p.eq(input, other), g / 2, choose(p.gt(input, other), 0.0, g)),
    ),
)
def maximum(input, other):
    """The larger of `input` and `other`, element by element and broadcast; NaN if one of them is. The larger has the gradient, equals
    share it.

    >>> torch.maximum(torch.tensor([1.0, 5.0]), torch.tensor([3.0, 2.0]))
    tensor([3., 5.])
    >>> torch.func.grad(torch.maximum)(torch.tensor(2.0), torch.tensor(2.0))
    tensor(0.5000)
    """
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
    """The smaller of `input` and `other`, element by element and broadcast; NaN if one of them is. The smaller has the gradient, equals
    share it.

    >>> torch.minimum(torch.tensor([1.0, 5.0]), torch.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return p.minimum(input, other)


# With numbers for bounds the gradient passes at the edge; a NaN passes through, and so does a zero's sign.
_REFUSED = "clamp is not supported for complex types"


def _no_complex(name: str, kernel: str) -> Any:
    """Bounds that are tensors are refused by the kernel, but by `clamp` where what is clamped is complex."""

    def check(compute: Any, operands: Any) -> None:
        if compute.is_complex and not (name == "clamp" and operands[0].dtype.is_complex):
            lacks_complex(kernel, compute)

    return check


def _bound(bound: Any) -> Any:
    if isinstance(bound, complex):
        raise NotImplementedError(_REFUSED)
    return bound


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
    check=_no_complex("clamp", "clamp_cpu"),
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
        check=_no_complex(name, "maximum_cpu"),
        vjp=lambda g, input, min: (choose(p.ge(input, min), g, 0.0), choose(p.lt(input, min), g, 0.0)),
    )(lambda input, min: p.maximum(input, min))


def _high_tensor(name: str, node: str) -> Any:
    return stanza(
        name=name,
        node=node,
        method=False,
        check=_no_complex(name, "minimum_cpu"),
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


def _real_bound(input: Tensor, bound: Any) -> Any:
    return (
        dtypes.fitting(bound, dtypes.float64)
        if isinstance(bound, complex) and not input.is_complex()
        else bound
    )


def _alike(min: Any, max: Any) -> tuple[Any, Any]:
    """Both bounds; beside a number PyTorch takes a tensor of one number that wants no gradient for a number, too."""
    if isinstance(min, Tensor) is not isinstance(max, Tensor) and min is not None and max is not None:
        return _number(min), _number(max)
    return min, max


def _number(bound: Any) -> Any:
    return bound.item() if isinstance(bound, Tensor) and not bound.ndim and not requires(bound) else bound


def _clamped(input: Tensor, min: Any, max: Any) -> tuple[ElementwiseOp, tuple[Any, ...]]:
    min, max = _alike(min, max)
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
    if usual_write(op, args[0], args):
        return args[0]
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
    """Each element moved to the nearest in `min` to `max`: numbers or tensors, of which one may be missing. Where `min` is above `max`, it
    is `max`. What was not moved has the gradient; otherwise a tensor that is the bound has it.

    >>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    >>> torch.func.grad(lambda x: torch.clamp(x, max=1).sum())(torch.tensor([0.5, 1.0, 3.0]))
    tensor([1., 1., 0.])
    """
    if isinstance(min, complex) or isinstance(max, complex):
        min, max = (_real_bound(input, bound) for bound in (min, max))
    if min is None or max is None:
        op, args = _clamped(input, min, max)
        return op.function(*args, out=out)
    min, max = _alike(min, max)
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return _clamp_tensors(input, min, max, out=out)
    return _clamp_both(input, min, max, out=out)


@method
@usually_writes(_clamp_both.op)
def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    return _clamp_into(*_clamped(input, _real_bound(input, min), _real_bound(input, max)))


@method
def clamp_min(input: Tensor, min: Any, *, out: Tensor | None = None) -> Tensor:
    """Each element, but nothing less than `min`, a number or a tensor. The gradient is `g` from `min` upwards, 0 below.

    >>> torch.clamp_min(torch.tensor([-2.0, 0.5]), 0)
    tensor([0.0000, 0.5000])
    """
    return _CLAMP_MIN[isinstance(min, Tensor)](input, _bound(min), out=out)


@method
def clamp_max(input: Tensor, max: Any, *, out: Tensor | None = None) -> Tensor:
    """Each element, but nothing more than `max`, a number or a tensor. The gradient is `g` up to `max`, 0 above.

    >>> torch.clamp_max(torch.tensor([0.5, 3.0]), 1)
    tensor([0.5000, 1.0000])
    """
    return _CLAMP_MAX[isinstance(max, Tensor)](input, _bound(max), out=out)


@method
@usually_writes(_CLAMP_MIN[False].op)
def clamp_min_(input: Tensor, min: Any) -> Tensor:
    return _clamp_into(_CLAMP_MIN[isinstance(min, Tensor)].op, (input, _bound(min)))


@method
@usually_writes(_CLAMP_MAX[False].op)
def clamp_max_(input: Tensor, max: Any) -> Tensor:
    return _clamp_into(_CLAMP_MAX[isinstance(max, Tensor)].op, (input, _bound(max)))


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
    """`input` where the bool `condition` holds and `other` elsewhere, all broadcast; each gets the gradient of what was taken from it. With
    `condition` alone, the indices at which it is not zero, as `nonzero(as_tuple=True)` gives them.

    >>> x = torch.tensor([-1.0, 2.0])
    >>> torch.where(x > 0, x, 0.1 * x)
    tensor([-0.1000,  2.0000])
    >>> torch.where(x > 0)
    (tensor([1]),)
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if not isinstance(condition, Tensor):
        raise TypeError(
            f"where(): argument 'condition' (position 1) must be Tensor, not {type(condition).__name__}"
        )
    if condition._spec.dtype is dtypes.uint8:
        warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. "
            "Use a boolean condition instead."
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
        if not d.narrow:  # one too large for float16 is inf here
            for value in (input, other):
                if not isinstance(value, Tensor):
                    dtypes.fitting(value, d)
    return _where(condition, input, other, out=out)


@method
def _t_where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """`torch.where(condition, self, other)`: what the bool `condition` does not hold for is taken from `other`.

    >>> torch.tensor([1.0, -2.0]).where(torch.tensor([True, False]), 0.0)
    tensor([1., 0.])
    """
    chosen: Tensor = where(condition, self, other)
    return chosen


def _fits_any(value: Any) -> bool:
    """A tensor, or a number that each dtype that it can lead to holds."""
    return isinstance(value, Tensor) or (type(value) in (int, float) and -128 <= value <= 127)


# PyTorch's formula changes at weight 0.5, so that both ends are exact.
def lerp_body(input: Any, end: Any, weight: Any) -> Any:
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
    return lerp_body(input, end, weight)


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
    return lerp_body(input, end, weight)


@method
def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Tensor | None = None) -> Tensor:
    """From `input` to `end` in a straight line: `input + weight * (end - input)`, exact at both ends. `weight` is a number or a tensor.
    The gradients are `g * (1 - weight)`, `g * weight` and `g * (end - input)`.

    >>> torch.lerp(torch.tensor([0.0, 10.0]), torch.tensor([4.0, 20.0]), 0.25)
    tensor([ 1.0000, 12.5000])
    """
    if not isinstance(weight, Tensor):
        return _lerp_number(input, end, weight, out=out)
    if out is not None and weight.ndim:
        args = (input, end, weight)
        check_out("lerp", out, dtypes_of(_lerp_tensor.op, operands_of(_lerp_tensor.op, args))[1], args, SAME)
    return _lerp_tensor(input, end, weight, out=out)


@method
@usually_writes(_lerp_number.op)
def lerp_(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    return inplace((_lerp_tensor if isinstance(weight, Tensor) else _lerp_number).op, (input, end, weight))


__all__ = [
    "clamp",
    "clamp_",
    "clamp_max",
    "clamp_max_",
    "clamp_min",
    "clamp_min_",
    "lerp",
    "maximum",
    "minimum",
    "where",
]
