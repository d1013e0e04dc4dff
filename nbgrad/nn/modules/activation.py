"""Activations as modules: the functions of `nn.functional`, with what else they are given kept."""

from __future__ import annotations

import warnings
from typing import Any

from nbgrad.core.overrides import public
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.nn import functional, init
from nbgrad.nn._made import empty
from nbgrad.nn.modules.attention import MultiheadAttention as MultiheadAttention  # where PyTorch has it
from nbgrad.nn.modules.module import Module, with_own_init
from nbgrad.nn.parameter import Parameter

F: Any = functional


class _Activation(Module):
    """`shown` are the settings that `repr` names; `inplace` is named where it is set."""

    shown: tuple[str, ...] = ()
    inplace: bool

    def extra_repr(self) -> str:
        said = [f"{name}={getattr(self, name)!r}" for name in self.shown]
        return ", ".join([*said, *(["inplace=True"] if getattr(self, "inplace", False) else [])])


class _Plain(_Activation):
    """A function without settings, by its name in `nn.functional`."""

    function: str

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.function)(input)


class _Op(_Plain):
    """One that is a function of `torch`."""

    def forward(self, input: Tensor) -> Tensor:
        return public(self.function, getattr(F, self.function))(input)


class Tanh(_Op):
    """`tanh(x)`: between -1 and 1. The shape stays.

    >>> nn.Tanh()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    function = "tanh"


class Sigmoid(_Op):
    """`1 / (1 + exp(-x))`: between 0 and 1. The shape stays.

    >>> nn.Sigmoid()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    function = "sigmoid"


class LogSigmoid(_Plain):
    """`log(sigmoid(x))`, exact also where the sigmoid underflows. The shape stays.

    >>> nn.LogSigmoid()(torch.tensor([-200.0, 0.0]))
    tensor([-200.0000,   -0.6931])
    """

    function = "logsigmoid"


class Softsign(_Plain):
    """`x / (1 + |x|)`: between -1 and 1. The shape stays.

    >>> nn.Softsign()(torch.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    function = "softsign"


class Tanhshrink(_Plain):
    """`x - tanh(x)`. The shape stays.

    >>> nn.Tanhshrink()(torch.tensor([-1.0, 3.0]))
    tensor([-0.2384,  2.0049])
    """

    function = "tanhshrink"


class _MaybeInPlace(_Activation):
    """The same of one that may write over its input."""

    function: str

    def __init_subclass__(cls) -> None:
        with_own_init(cls)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.function)(input, self.inplace)


class ReLU(_MaybeInPlace):
    """`max(x, 0)`; with `inplace` written over the input. The shape stays.

    >>> nn.ReLU()(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """

    function = "relu"


class SiLU(_MaybeInPlace):
    """`x * sigmoid(x)`, also called swish. The shape stays.

    >>> nn.SiLU()(torch.tensor([-1.0, 1.0]))
    tensor([-0.2689,  0.7311])
    """

    function = "silu"


class Mish(_MaybeInPlace):
    """`x * tanh(softplus(x))`. The shape stays.

    >>> nn.Mish()(torch.tensor([-1.0, 1.0]))
    tensor([-0.3034,  0.8651])
    """

    function = "mish"


class SELU(_MaybeInPlace):
    """An `ELU` with the scale and the `alpha` that let mean 0 and variance 1 pass from layer to layer. The shape stays.

    >>> nn.SELU()(torch.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """

    function = "selu"


class Hardsigmoid(_MaybeInPlace):
    """`x / 6 + 1/2`, kept between 0 and 1. The shape stays.

    >>> nn.Hardsigmoid()(torch.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    function = "hardsigmoid"

    def extra_repr(self) -> str:
        return ""


class Hardswish(_MaybeInPlace):
    """`x * hardsigmoid(x)`: 0 below -3, the input above 3. The shape stays.

    >>> nn.Hardswish()(torch.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """

    function = "hardswish"

    def extra_repr(self) -> str:
        return ""


class _Shrink(_Activation):
    """The same of one that takes a width."""

    function: str

    def __init_subclass__(cls) -> None:
        with_own_init(cls)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.function)(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(_Shrink):
    """Moved towards 0 by `lambd`, and 0 where it was nearer than that. The shape stays.

    >>> nn.Softshrink(1.0)(torch.tensor([-3.0, 0.5, 3.0]))
    tensor([-2.,  0.,  2.])
    """

    function = "softshrink"


class Hardshrink(_Shrink):
    """0 where `|x|` is at most `lambd`, else the input. The shape stays.

    >>> nn.Hardshrink(1.0)(torch.tensor([-3.0, 0.5, 3.0]))
    tensor([-3.,  0.,  3.])
    """

    function = "hardshrink"


class ELU(_Activation):
    """The input where it is above 0, else `alpha * (exp(x) - 1)`. The shape stays.

    >>> nn.ELU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Activation):
    """`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`. The shape stays.

    >>> nn.CELU(alpha=0.5)(torch.tensor([-1.0, 2.0]))
    tensor([-0.4323,  2.0000])
    """

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_Activation):
    """The input where it is above 0, else `negative_slope * x`. The shape stays.

    >>> nn.LeakyReLU(0.5)(torch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class Threshold(_Activation):
    """The input where it is above `threshold`, else `value`. The shape stays.

    >>> nn.Threshold(1.0, -7.0)(torch.tensor([0.5, 1.5]))
    tensor([-7.0000,  1.5000])
    """

    shown = (
        "threshold",
        "value",
    )

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class Softplus(_Activation):
    """`log(1 + exp(beta * x)) / beta`, a smooth `ReLU`; the input itself where `beta * x` is above `threshold`. The shape stays.

    >>> nn.Softplus()(torch.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """

    shown = (
        "beta",
        "threshold",
    )

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class GELU(_Activation):
    """`x` times the probability that a standard normal number is below x; with `approximate="tanh"` by a formula with tanh. The
    shape stays.

    >>> nn.GELU()(torch.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """

    shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)


class GLU(_Activation):
    """The first half along `dim` times the sigmoid of the second half: that dimension becomes half as long.

    >>> nn.GLU()(torch.tensor([[1.0, 2.0, 0.0, 100.0]]))
    tensor([[0.5000, 2.0000]])
    """

    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class Hardtanh(_Activation):
    """The input, kept between `min_val` and `max_val`. The shape stays.

    >>> nn.Hardtanh()(torch.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    shown: tuple[str, ...] = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None:
            _renamed("min_value", "min_val")
            min_val = min_value
        if max_value is not None:
            _renamed("max_value", "max_val")
            max_val = max_value
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """The input, kept between 0 and 6. The shape stays.

    >>> nn.ReLU6()(torch.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """

    shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


def _renamed(old: str, new: str) -> None:
    warnings.warn(
        f"keyword argument `{old}` is deprecated and renamed to `{new}`", FutureWarning, stacklevel=3
    )


class RReLU(_Activation):
    """The input where it is above 0, else a slope times it, in training drawn for each number between `lower` and `upper`, in
    evaluation the middle of the two. The shape stays.

    >>> nn.RReLU(0.25, 0.75).eval()(torch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    shown = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(_Activation):
    """The input where it is above 0, else `weight * x`, with a slope that is trained: one for all, or with `num_parameters` one per
    channel (dimension 1). It begins as `init`. The shape stays.

    >>> nn.PReLU()(torch.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    shown = ("num_parameters",)

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        self.num_parameters = num_parameters  # before the base: a module is refused as PyTorch does
        super().__init__()
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Let the slopes be `init` again."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


class _AlongDim(_Activation):
    shown = ("dim",)

    def __init_subclass__(cls) -> None:
        with_own_init(cls)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(_AlongDim):
    """`exp(x)`, divided by its sum along `dim`: numbers above 0 whose sum is 1. The shape stays.

    >>> nn.Softmax(dim=1)(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    tensor([[0.5000, 0.5000],
            [0.2689, 0.7311]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """`softmax(-x)` along `dim`: the smallest gets the most. The shape stays.

    >>> nn.Softmin(dim=0)(torch.tensor([0.0, 1.0]))
    tensor([0.7311, 0.2689])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """The logarithm of the `softmax` along `dim`, exact also where that underflows. The shape stays.

    >>> nn.LogSoftmax(dim=0)(torch.tensor([0.0, 1000.0]))
    tensor([-1000.,     0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(_Activation):
    """`softmax` over the channels of [batch, channels, height, width], or without a batch. The shape stays.

    >>> nn.Softmax2d()(torch.zeros(4, 1, 2))[0]
    tensor([[0.2500, 0.2500]])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]
