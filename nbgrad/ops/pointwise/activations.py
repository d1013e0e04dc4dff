"""Activations: their values, and their gradients with PyTorch's conventions at kinks, at infinities and at NaN."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import inplace as write
from nbgrad.dispatch.quick import quickly
from nbgrad.dispatch.stanza import SAME, in_place_of, method, refuse, stanza
from nbgrad.expr import prims as p
from nbgrad.expr import special as s
from nbgrad.expr.prims import where as choose
from nbgrad.memory import dtypes
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import narrow


def _only_floats(kernel: str) -> Any:
    return refuse(kernel, ints=True, bools=True)


def _no_bool(words: str) -> Any:
    def check(compute: Any, operands: Any) -> None:
        if compute is dtypes.bool_:
            raise RuntimeError(words)

    return check


# ---------------------------------------------------------------- pieces of lines


@stanza(  # 0 at 0; what a NaN gets passes
    check=_no_bool("Boolean inputs not supported for relu"),
    backward_op=True,
    vjp=lambda g, y: choose(p.le(y, 0), 0.0, g),
)
def relu(input):
    """Each element, but 0 for what is negative. The gradient is `g` above 0, and 0 elsewhere, at 0 too.

    >>> torch.relu(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    >>> torch.func.grad(lambda x: torch.relu(x).sum())(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 1.])
    """
    return p.maximum(0, input)


@method
def relu_(input: Tensor) -> Tensor:
    return write(relu.op, (input,))


@stanza(
    name="threshold",
    settings=("threshold", "value"),
    method=False,
    exact=SAME,
    kernel=refuse("threshold_cpu", bools=True),
    backward_op=True,
    vjp=lambda g, input, threshold: (choose(p.le(input, threshold), 0.0, g), None, None),
)
def _threshold(input, threshold, value):
    return choose(p.le(input, threshold), value, input)


@stanza(
    name="hardtanh",
    settings=("low", "high"),
    method=False,
    check=_no_bool("Bool inputs not supported for hardtanh"),
    backward_op=True,
    vjp=lambda g, input, low, high: (
        choose(p.logical_and(p.gt(input, low), p.lt(input, high)), g, 0.0),  # nothing for NaN
        None,
        None,
    ),
)
def _hardtanh(input, low, high):
    return p.minimum(high, p.maximum(low, input))


def _leaky(
    name: str,
    node: str,
    vjp: Any = lambda g, input, slope: (choose(p.gt(input, 0), g, g * slope), None),
) -> Any:
    return stanza(
        lambda input, slope: choose(p.gt(input, 0), input, input * slope),
        name=name,
        node=node,
        settings=("slope",),
        method=False,
        kernel=_only_floats("leaky_relu_cpu"),
        backward_op=True,
        shared=False,
        vjp=vjp,
    )


_leaky_relu = _leaky("leaky_relu", "LeakyReluBackward0")
# In place PyTorch reads the result, whose sign is the input's if the slope is not negative.
_leaky_relu_in_place = _leaky(
    "leaky_relu",
    "LeakyReluBackward1",
    lambda g, y, slope: (choose(p.gt(y, 0), g, g * slope), None),
)
_rrelu_steady = _leaky("rrelu_with_noise", "RreluWithNoiseBackward0")


@stanza(
    name="rrelu_with_noise",
    node="RreluWithNoiseBackward0",
    method=False,
    vjp=lambda g, noise: (g * noise, None),
)
def _rrelu_noisy(input, noise):
    return input * noise


@stanza(name="prelu", node="PreluKernelBackward0", method=False, kernel=_only_floats("prelu_cpu"))
def _prelu(input, weight):
    return choose(p.gt(input, 0), input, weight * input)


_SIXTH = 0.1666666716337204  # PyTorch's is a float's, in float64 too


@stanza(
    method=False,
    kernel=_only_floats("hardsigmoid_cpu"),
    vjp=lambda g, input: choose(p.logical_and(p.gt(input, -3), p.lt(input, 3)), g * _SIXTH, 0.0),
)
def hardsigmoid(input):
    return p.minimum(p.maximum(input + 3, 0), 6) / 6


@stanza(
    method=False,
    kernel=_only_floats("hardswish_cpu"),
    vjp=lambda g, input: choose(p.ge(input, 3), g, choose(p.le(input, -3), 0.0, g * (input / 3 + 0.5))),
)
def hardswish(input):
    return input * p.minimum(p.maximum(input + 3, 0), 6) / 6


def _between(input: Any, lambd: Any) -> Any:
    return p.logical_and(p.ge(input, -lambd), p.le(input, lambd))


def _beyond(input: Any, lambd: Any) -> Any:
    """NaN is neither between nor beyond."""
    return p.logical_or(p.gt(input, lambd), p.lt(input, -lambd))


@stanza(
    name="softshrink",
    settings=("lambd",),
    method=False,
    exact=SAME,
    kernel=_only_floats("softshrink_check"),
    backward_op=True,
    vjp=lambda g, input, lambd: (choose(_beyond(input, lambd), g, 0.0), None),
)
def _softshrink(input, lambd):
    return choose(_between(input, lambd), input * 0, choose(p.gt(input, 0), input - lambd, input + lambd))


@stanza(
    name="hardshrink",
    settings=("lambd",),
    rounds=("lambd",),
    method=False,
    exact=SAME,
    kernel=_only_floats("hardshrink_cpu"),
    backward_op=True,
    vjp=lambda g, input, lambd: (choose(_beyond(input, lambd), g, 0.0), None),
)
def _hardshrink(input, lambd):
    return choose(_between(input, lambd), 0.0, input)


# ---------------------------------------------------------------- smooth ones


def _exponential(name: str, node: str, rule: Any, fall: Any = s.expm1_below) -> Any:
    """input * positive above 0, (exp(input * inner) - 1) * negative to 0: elu, selu and celu are this with their numbers."""
    return stanza(
        lambda input, negative, positive, inner: choose(
            p.le(input, 0), fall(input * inner) * negative, input * positive
        ),
        name=name,
        node=node,
        settings=("negative", "positive", "inner"),
        method=False,
        kernel=_only_floats("elu_cpu"),
        shared=False,
        vjp=rule,
    )


def _below(input: Any) -> Any:
    """The curve ends before 0: at 0 itself PyTorch's second derivative is 0."""
    return choose(p.ge(input, 0), 0.0, input)


def _by_input(g: Any, input: Any, negative: Any, positive: Any, inner: Any) -> Any:
    below = g * inner * negative * p.exp(_below(input) * inner)
    return choose(p.gt(input, 0), g * positive, below), None, None, None


def _by_result(g: Any, y: Any, negative: Any, positive: Any, inner: Any) -> Any:
    return choose(p.gt(y, 0), g * positive, g * inner * (_below(y) + negative)), None, None, None


# In place PyTorch reads the result, whose sign is the input's if `negative` is not.
_elu = _exponential("elu", "EluBackward0", _by_input)
_elu_in_place = _exponential("elu", "EluBackward1", _by_result)
_celu = _exponential("celu", "CeluBackward0", _by_input)
_celu_in_place = _exponential("celu", "CeluBackward1", _by_result)
_celu_rising = _exponential("celu", "CeluBackward0", _by_input, p.expm1)  # for a negative alpha


@stanza(method=False, kernel=_only_floats("silu_cpu"))
def silu(input):
    return input * p.sigmoid(input)


# With w = e^x and n = w (w + 2), tanh(softplus(x)) is n / (n + 2); from 40 on that is 1, and its derivative 0.


def _mish_rule(g: Any, input: Any) -> Any:
    w = p.exp(p.minimum(input, 40))
    n, q = w * (w + 2), 1 / (w * (w + 2) + 2)
    slope = choose(p.gt(input, 40), 0.0, 4 * (w * (w + 1) * q) * q)
    return g * (n * q + input * slope)


@stanza(method=False, kernel=_only_floats("mish_cpu"), vjp=_mish_rule)
def mish(input):
    w = p.exp(p.minimum(input, 40))
    n = w * (w + 2)
    return input * (n / (n + 2))


@stanza(
    name="gelu",
    node="GeluBackward0",
    method=False,
    exact=SAME,
    kernel=_only_floats("GeluKernelImpl"),
    vjp=lambda g, input: g * s.gelu_slope(input),
)
def _gelu_erf(input):
    return input * s.ndtr(input)


@stanza(
    name="gelu_tanh", node="GeluBackward0", method=False, exact=SAME, kernel=_only_floats("GeluKernelImpl")
)
def _gelu_tanh(input):
    return 0.5 * input * (1 + p.tanh(math.sqrt(2 / math.pi) * (input + 0.044715 * input * input * input)))


@stanza(
    name="softplus",
    settings=("beta", "threshold"),
    method=False,
    exact=SAME,
    kernel=_only_floats("softplus_cpu"),
    vjp=lambda g, input, beta, threshold: (
        choose(p.gt(input * beta, threshold), g, g * p.sigmoid(input * beta)),
        None,
        None,
    ),
)
def _softplus(input, beta, threshold):
    scaled = input * beta
    rounded = (p.maximum(0, scaled) + s.soft_corner(scaled)) / beta
    return choose(p.gt(scaled, threshold), input, rounded)


def _logsigmoid_rule(g: Any, input: Any) -> Any:
    z = p.exp(choose(p.lt(input, 0), input, -input))  # as -abs, which has another derivative at 0
    return g * (choose(p.lt(input, 0), 1.0, 0.0) - choose(p.lt(input, 0), 1.0, -1.0) * (z / (1 + z)))


@stanza(
    name="logsigmoid",
    node="LogSigmoidBackward0",
    method=False,
    exact="expected scalar type {want} but found {got}",
    kernel=_only_floats("log_sigmoid_cpu"),
    vjp=_logsigmoid_rule,
)
def logsigmoid(input):
    """`log(sigmoid(input))`, exact also where `sigmoid` is too small to be held. The gradient is `g * sigmoid(-input)`.

    >>> F.logsigmoid(torch.tensor([-200.0, 0.0, 2.0]))
    tensor([-2.0000e+02, -6.9315e-01, -1.2693e-01])
    """
    return p.minimum(input, 0) - s.soft_corner(input)


# PyTorch composes these two, of floats and of integers; of floats each is one pass here, under the name of its last step.
@stanza(node="DivBackward0", method=False, shared=False)
def softsign(input):
    return input / (p.abs(input) + 1)


@stanza(node="SubBackward0", method=False, shared=False)
def tanhshrink(input):
    return input - p.tanh(input)


@stanza(name="glu", node="GluBackward0", method=False, kernel=_only_floats("glu_cpu"))
def _gated(input, gate):
    return input * p.sigmoid(gate)


# ---------------------------------------------------------------- as functions of PyTorch's arguments

_Call = tuple[Any, tuple[Any, ...]]

# What an activation is called with, so that the plain and the in-place form say it once.


def _double(value: Any) -> float:
    """A setting, if PyTorch has room for it."""
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise OverflowError(
            "int too big to convert" if value > 0 else "can't convert negative int to unsigned"
        )
    return float(value)


def _number(input: Tensor, value: Any) -> Any:
    """A setting as the kernel takes it: truncated where the tensor holds integers."""
    number = _double(value)
    return number if input.dtype.is_floating_point else int(value)


def threshold_call(input: Tensor, threshold: float, value: float) -> _Call:
    return _threshold.op, (input, _number(input, threshold), _number(input, value))


def hardtanh_call(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> _Call:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype is dtypes.uint8 and min_val < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return _hardtanh.op, (input, _number(input, min_val), _number(input, max_val))


def leaky_relu_call(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> _Call:
    by_result = inplace and negative_slope >= 0
    return (_leaky_relu_in_place if by_result else _leaky_relu).op, (input, _double(negative_slope))


def elu_call(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> _Call:
    return (_elu_in_place if inplace and alpha >= 0 else _elu).op, (input, _double(alpha), 1.0, 1.0)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def selu_call(input: Tensor, inplace: bool = False) -> _Call:
    op = (_elu_in_place if inplace else _elu).op
    return op, (input, _SELU_ALPHA * _SELU_SCALE, _SELU_SCALE, 1.0)


def celu_call(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> _Call:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    fit = _celu_rising if alpha < 0 else _celu_in_place if inplace else _celu
    return fit.op, (input, _double(alpha), 1.0, 1.0 / alpha)


def threshold(input: Tensor, threshold: float, value: float, *, out: Tensor | None = None) -> Tensor:
    """Each element above `threshold`, and `value` for the others. The gradient is `g` above `threshold`, else 0.

    >>> torch.threshold(torch.tensor([-1.0, 0.5, 2.0]), 0.5, 9.0)
    tensor([9., 9., 2.])
    """
    op, args = threshold_call(input, threshold, value)
    return op.function(*args, out=out)


@in_place_of(threshold)
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    if input._spec.repeats:  # whose elements PyTorch writes several times
        once = [min(n, 1) if step == 0 else n for n, step in zip(input.shape, input.stride())]
        threshold_(input.as_strided(once, input.stride()), threshold, value)
        return input
    return write(*threshold_call(input, threshold, value))


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place: the tensor itself is clamped to `min_val` to `max_val`. The gradient is `g` strictly between them, else 0.

    >>> F.hardtanh_(torch.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    return write(*hardtanh_call(input, min_val, max_val))


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place: the tensor's negative elements are multiplied by `negative_slope`. The gradient is `g` above 0, else
    `g * negative_slope`.

    >>> F.leaky_relu_(torch.tensor([-2.0, 3.0]), 0.1)
    tensor([-0.2000,  3.0000])
    """
    return write(*leaky_relu_call(input, negative_slope, True))


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place: of the tensor's elements the negative ones become `alpha * (exp(input) - 1)`. The gradient is `g` above 0, else
    `g * alpha * exp(input)`.

    >>> F.elu_(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return write(*elu_call(input, alpha, True))


def selu(input: Tensor) -> Tensor:
    """`scale * elu(input, alpha)` with `scale = 1.0507...` and `alpha = 1.6732...`, for which layers keep mean 0 and variance 1. The
    gradient is `g * scale` above 0, else `g * scale * alpha * exp(input)`.

    >>> torch.selu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1113,  0.0000,  1.0507])
    """
    op, args = selu_call(input)
    return op.function(*args)


@in_place_of(selu)
def selu_(input: Tensor) -> Tensor:
    return write(*selu_call(input, True))


def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`input` above 0, else `alpha * (exp(input / alpha) - 1)`. The gradient is `g` above 0, else `g * exp(input / alpha)`.

    >>> torch.celu(torch.tensor([-1.0, 0.0, 1.0]), alpha=0.5)
    tensor([-0.4323,  0.0000,  1.0000])
    """
    op, args = celu_call(input, alpha)
    return op.function(*args)


@in_place_of(celu)
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    return write(*celu_call(input, alpha, True))


def gelu(input: Tensor, *, approximate: str = "none", out: Tensor | None = None) -> Tensor:
    """`input * ndtr(input)`: each element times the probability that a standard normal draw is below it. With `approximate="tanh"`, its
    approximation `input / 2 * (1 + tanh(sqrt(2 / pi) * (input + 0.044715 * input**3)))`. The gradient of the first is
    `g * (ndtr(input) + input * exp(-input**2 / 2) / sqrt(2 * pi))`.

    >>> F.gelu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    >>> F.gelu(torch.tensor([-1.0, 0.0, 1.0]), approximate="tanh")
    tensor([-0.1588,  0.0000,  0.8412])
    """
    if approximate == "none":
        return _gelu_erf(input, out=out)
    if approximate == "tanh":
        return _gelu_tanh(input, out=out)
    raise RuntimeError("approximate argument must be either none or tanh.")


def softplus(
    input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None
) -> Tensor:
    """`log(1 + exp(beta * input)) / beta`, a smooth `relu`; `input` itself where `beta * input` is above `threshold`. The gradient is
    `g * sigmoid(beta * input)`, and `g` there.

    >>> F.softplus(torch.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """
    return _softplus(input, _double(beta), _double(threshold), out=out)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Each element moved by `lambd` towards 0, and 0 for those within `lambd` of it. The gradient is `g` outside, 0 within.

    >>> F.softshrink(torch.tensor([-1.0, 0.25, 2.0]), lambd=0.5)
    tensor([-0.5000,  0.0000,  1.5000])
    """
    if not 0 <= lambd <= 65504 and not 0 <= lambd <= dtypes.finfo(input.dtype).max:
        largest = dtypes.finfo(input.dtype).max
        raise RuntimeError(
            f"lambda must be in range [0, {largest:g}] for input dtype {input.dtype.scalar_name}, but found {lambd:g}"
        )
    return _softshrink(input, _double(lambd), out=out)


@method
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Each element, but 0 for those within `lambd` of 0. The gradient is `g` outside, 0 within.

    >>> torch.hardshrink(torch.tensor([-1.0, 0.25, 2.0]), lambd=0.5)
    tensor([-1.,  0.,  2.])
    """
    return _hardshrink(input, _double(lambd), out=out)


@method
@quickly(devices=True)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Each element above 0, and `weight * input` for the others. `weight` holds one number, or one for each channel (dim 1 of `input`). The
    gradients are `g` above 0, else `g * weight`; and in `weight`, the sum of `g * input` where it is not above 0.

    >>> torch.prelu(torch.tensor([[-1.0, -2.0], [3.0, 4.0]]), torch.tensor([0.1, 0.5]))
    tensor([[-0.1000, -1.0000],
            [ 3.0000,  4.0000]])
    """
    if not isinstance(weight, Tensor):
        raise TypeError(
            f"prelu(): argument 'weight' (position 2) must be Tensor, not {type(weight).__name__}"
        )
    if weight.dtype is not input.dtype:
        got = f"{input.dtype.scalar_name} and {weight.dtype.scalar_name}"
        raise RuntimeError(f"prelu: Type promoting not supported. Got {got}")
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.numel() != 1:
        if not input.ndim:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and "
                f"channel size = {channels}."
            )
    if input.ndim != weight.ndim:
        weight = reshape(
            weight, (1, weight.numel(), *(1,) * (input.ndim - 2)) if input.ndim > 1 else (-1,) * input.ndim
        )
    return _prelu(input, weight)


@quickly(devices=True)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """`a * sigmoid(b)` of the two halves `a` and `b` of `input` along `dim`, so that size `n` there becomes `n / 2`. The gradients of the
    halves are `g * sigmoid(b)` and `g * a * sigmoid(b) * (1 - sigmoid(b))`.

    >>> F.glu(torch.tensor([1.0, 2.0, 0.0, 100.0]))
    tensor([0.5000, 2.0000])
    """
    if not input.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {dim})"
        )
    dim %= input.ndim
    if input.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}")
    half = input.shape[dim] // 2
    lacks_kernel("glu_cpu", input.dtype)
    return _gated(narrow(input, dim, 0, half), narrow(input, dim, half, half))


__all__ = [
    *("celu", "celu_", "hardshrink", "prelu", "relu", "relu_", "selu", "selu_", "threshold", "threshold_"),
]
