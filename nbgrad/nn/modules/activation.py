"""Activations as modules: the functions of `nn.functional`, with what else they are given kept."""

from __future__ import annotations

import warnings
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.nn import functional, init
from nbgrad.nn._made import empty
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


class Tanh(_Plain):
    function = "tanh"


class Sigmoid(_Plain):
    function = "sigmoid"


class LogSigmoid(_Plain):
    function = "logsigmoid"


class Softsign(_Plain):
    function = "softsign"


class Tanhshrink(_Plain):
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
    function = "relu"


class ReLU6(_MaybeInPlace):
    function = "relu6"


class SiLU(_MaybeInPlace):
    function = "silu"


class Mish(_MaybeInPlace):
    function = "mish"


class SELU(_MaybeInPlace):
    function = "selu"


class Hardsigmoid(_MaybeInPlace):
    function = "hardsigmoid"

    def extra_repr(self) -> str:
        return ""


class Hardswish(_MaybeInPlace):
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
    function = "softshrink"


class Hardshrink(_Shrink):
    function = "hardshrink"


class ELU(_Activation):
    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Activation):
    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_Activation):
    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class Threshold(_Activation):
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
    shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)


class GLU(_Activation):
    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class Hardtanh(_Activation):
    shown = ("min_val", "max_val")

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


def _renamed(old: str, new: str) -> None:
    warnings.warn(
        f"keyword argument `{old}` is deprecated and renamed to `{new}`", FutureWarning, stacklevel=3
    )


class RReLU(_Activation):
    shown = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(_Activation):
    """A slope for negative numbers that is trained."""

    shown = ("num_parameters",)

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        self.num_parameters = num_parameters  # before the base: a module is refused as PyTorch does
        super().__init__()
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
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
    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(_Activation):
    """Over the channels of [batch, channels, height, width], or without a batch."""

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
