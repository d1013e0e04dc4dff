"""`torch.nn.init`: what parameters hold at first. Each function fills its tensor in place, outside the graph, drawing as PyTorch does."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, cast

import numpy as np

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.signatures import kind_name
from nbgrad.core.tensor import Tensor
from nbgrad.ops.host.values import of_array
from nbgrad.ops.make import counted
from nbgrad.ops.make.drawn import randperm
from nbgrad.ops.make.filled import empty_like
from nbgrad.ops.make.generator import Generator
from nbgrad.ops.pointwise.arithmetic import sign
from nbgrad.ops.pointwise.choices import where

_FIXED_GAINS: dict[str, float] = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "sigmoid"), 1),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much a layer's values are to be scaled up so that a nonlinearity behind it keeps their variance: `sqrt(2)` for "relu",
    5/3 for "tanh", 1 for "linear" and "sigmoid", `sqrt(2 / (1 + param**2))` for "leaky_relu", where `param` is the slope, 3/4 for
    "selu".

    >>> nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    fixed = _FIXED_GAINS.get(nonlinearity) if isinstance(nonlinearity, str) else None
    if fixed is not None:
        return fixed
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        slope = 0.01
    elif isinstance(param, (int, float)) and not isinstance(param, bool):
        slope = param
    else:
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


Given = ParamSpec("Given")


def _in_place(fill: Callable[Given, None]) -> Callable[Given, Tensor]:
    @functools.wraps(fill)
    def outside_the_graph(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        with no_grad():
            fill(tensor, *args, **kwargs)
        return tensor

    return cast(Callable[Given, Tensor], outside_the_graph)


def _uniform(tensor: Tensor, a: float, b: float, generator: Generator | None) -> Tensor:
    return tensor.uniform_(a, b, generator=generator)


def _normal(tensor: Tensor, mean: float, std: float, generator: Generator | None) -> Tensor:
    return tensor.normal_(mean, std, generator=generator)


@_in_place
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> None:
    """Fill with numbers that are uniform between `a` and `b`, outside the graph, and give the tensor.

    >>> nn.init.uniform_(torch.empty(3), -1.0, 1.0)
    tensor([-0.0075,  0.5364, -0.8230])
    """
    _uniform(tensor, a, b, generator)


@_in_place
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> None:
    """Fill with normal numbers of this mean and standard deviation, outside the graph, and give the tensor.

    >>> nn.init.normal_(torch.empty(3), std=0.1)
    tensor([ 0.1541, -0.0293, -0.2179])
    """
    _normal(tensor, mean, std, generator)


@_in_place
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> None:
    """Fill with normal numbers, of which those outside [a, b] are drawn again, and give the tensor.

    >>> nn.init.trunc_normal_(torch.empty(1000), a=-0.5, b=0.5).abs().max() <= 0.5
    tensor(True)
    """
    if not isinstance(tensor, Tensor):
        raise AttributeError(f"'{kind_name(tensor)}' object has no attribute 'is_meta'")
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=3,
        )

    def below(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    if below((b - mean) / std) - below((a - mean) / std) > 0.3:
        low, high = (tensor.new_tensor(edge).item() for edge in (a, b))
        found = _normal(tensor, mean, std, generator)
        while (outside := (found < low) | (found > high)).any():
            found = where(outside, _normal(empty_like(found), mean, std, generator), found)
        if found is not tensor:
            tensor.copy_(found)
        return
    # The interval is far out: uniform numbers, each kept with a probability in proportion to the density there.
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    chance = empty_like(tensor)

    def rejected(candidates: Tensor) -> Tensor:
        density = candidates.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        answer: Tensor = _uniform(chance, 0.0, 1.0, generator).log_().gt(density)
        return answer

    found = _uniform(tensor, a, b, generator)
    pending = rejected(found)
    while pending.any():
        candidates = _uniform(empty_like(tensor), a, b, generator)
        found = where(pending, candidates, found)
        pending = where(pending, rejected(candidates), pending)
    if found is not tensor:
        tensor.copy_(found)


@_in_place
def constant_(tensor: Tensor, val: float) -> None:
    """Fill with `val`, outside the graph, and give the tensor.

    >>> nn.init.constant_(torch.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    tensor.fill_(val)


@_in_place
def ones_(tensor: Tensor) -> None:
    """Fill with 1, outside the graph, and give the tensor.

    >>> nn.init.ones_(torch.empty(2))
    tensor([1., 1.])
    """
    tensor.fill_(1.0)


@_in_place
def zeros_(tensor: Tensor) -> None:
    """Fill with 0, outside the graph, and give the tensor.

    >>> nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    tensor.zero_()


@_in_place
def eye_(tensor: Tensor) -> None:
    """Fill a matrix with 1 on the diagonal and 0 elsewhere, and give it.

    >>> nn.init.eye_(torch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.copy_(counted.eye(*tensor.shape))


@_in_place
def dirac_(tensor: Tensor, groups: int = 1) -> None:
    """As the weight of a convolution, [out, in, places...], the identity of as many channels as there are, in each of `groups`
    parts: 1 in the middle place, 0 elsewhere.

    >>> nn.init.dirac_(torch.empty(2, 2, 3))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]],
    <BLANKLINE>
            [[0., 0., 0.],
             [0., 1., 0.]]])
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups:
        raise ValueError("dim 0 must be divisible by groups")
    out = tensor.size(0) // groups
    centre = tuple(n // 2 for n in tensor.shape[2:])
    tensor.zero_()
    for g in range(groups):
        for d in range(min(out, tensor.size(1))):
            tensor[(g * out + d, d, *centre)] = 1


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers that are uniform between -b and b, `b = gain * sqrt(6 / (fan_in + fan_out))`: what keeps the variance on
    both ways. The fans are the sizes of dimensions 1 and 0, times the number of places of the others.

    >>> nn.init.xavier_uniform_(torch.empty(2, 3)).abs().max() < (6 / 5) ** 0.5
    tensor(True)
    """
    high = math.sqrt(3.0) * _xavier_std(tensor, gain)
    low = -high
    with no_grad():
        return _uniform(tensor, low, high, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers of standard deviation `gain * sqrt(2 / (fan_in + fan_out))`: see `xavier_uniform_`.

    >>> nn.init.xavier_normal_(torch.empty(500, 300)).std()
    tensor(0.0500)
    """
    std = _xavier_std(tensor, gain)
    with no_grad():
        return _normal(tensor, 0.0, std, generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=4)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@_in_place
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> None:
    """Fill with numbers that are uniform between -b and b, `b = gain * sqrt(3 / fan)`, where `fan` is the one that `mode` names and
    the gain that of the nonlinearity (of `leaky_relu`, with the slope `a`).

    >>> nn.init.kaiming_uniform_(torch.empty(2, 3)).abs().max() < 2**0.5
    tensor(True)
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is not None:
        bound = math.sqrt(3.0) * std
        _uniform(tensor, -bound, bound, generator)


@_in_place
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> None:
    """Fill with normal numbers of standard deviation `gain / sqrt(fan)`: see `kaiming_uniform_`.

    >>> nn.init.kaiming_normal_(torch.empty(500, 200)).std()
    tensor(0.1001)
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is not None:
        _normal(tensor, 0.0, std, generator)


@_in_place
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> None:
    """Rows (or columns, if these are fewer) of length `gain` at right angles, uniformly so; dimensions from the second on count as
    one.

    >>> w = nn.init.orthogonal_(torch.empty(2, 3))
    >>> torch.allclose(w @ w.T, torch.eye(2), atol=1e-6)
    True
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel():
        return
    if tensor.is_complex():  # whose signs PyTorch asks for
        sign(tensor)
    rows = tensor.size(0)
    drawn = _normal(tensor.new_empty((rows, tensor.numel() // rows)), 0.0, 1.0, generator).numpy()
    wide = drawn.shape[0] < drawn.shape[1]
    q, r = np.linalg.qr(drawn.T if wide else drawn)
    q = q * np.sign(np.diagonal(r))
    tensor.copy_(of_array(np.ascontiguousarray(q.T if wide else q)).view(tensor.shape))
    tensor.mul_(gain)


@_in_place
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> None:
    """Fill a matrix with normal numbers of standard deviation `std`; in each column the share `sparsity` of the rows is 0.

    >>> (nn.init.sparse_(torch.empty(4, 2), sparsity=0.5) == 0).sum(0)
    tensor([2, 2])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    _normal(tensor, 0.0, std, generator)
    for k in range(columns):
        tensor[randperm(rows)[:zeros], k] = 0


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    new, old = function.__name__, function.__name__[:-1]

    @functools.wraps(function)
    def old_name(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    old_name.__name__ = old
    return old_name


uniform, normal, constant = _deprecated(uniform_), _deprecated(normal_), _deprecated(constant_)
dirac, orthogonal, sparse = _deprecated(dirac_), _deprecated(orthogonal_), _deprecated(sparse_)
eye = _deprecated(eye_)
xavier_uniform, xavier_normal = _deprecated(xavier_uniform_), _deprecated(xavier_normal_)
kaiming_uniform, kaiming_normal = _deprecated(kaiming_uniform_), _deprecated(kaiming_normal_)

# PyTorch's private names, which libraries call: all of these are without history.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_


__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]
