"""Convolution as modules, plain and transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Ints
from nbgrad.nn import functional as F
from nbgrad.nn import init
from nbgrad.nn._made import empty
from nbgrad.nn.modules.module import Module, with_own_init
from nbgrad.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from nbgrad.nn.parameter import Parameter

_MODES = {"zeros", "reflect", "replicate", "circular"}
_WORDS = {"same", "valid"}


class _ConvNd(Module):
    """Weights and settings of a window over as many dimensions as `kernel_size` has entries."""

    bias: Parameter | None
    padding: Ints | str

    def __init_subclass__(cls) -> None:
        with_own_init(cls)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints | str,
        dilation: Ints,
        transposed: bool,
        output_padding: Ints,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in _WORDS:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {_WORDS}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {_MODES}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.transposed, self.output_padding = transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = self._around()
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(
            empty((first, second // groups, *self.kernel_size), device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _around(self) -> Sequence[int]:
        """What another mode than zeros pads first, as `F.pad` takes it."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        whole = [
            d * (k - 1) if self.padding == "same" else 0 for d, k in zip(self.dilation, self.kernel_size)
        ]
        return [n for each in reversed(whole) for n in (each // 2, each - each // 2)]

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, as at the beginning."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts += [f"kernel_size={self.kernel_size}, stride={self.stride}"]
        usual = {
            "padding": (0,) * len(self.padding),
            "dilation": (1,) * len(self.dilation),
            "output_padding": (0,) * len(self.output_padding),
            "groups": 1,
        }
        parts += [
            f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value
        ]
        parts += ["bias=False"] if self.bias is None else []
        parts += [f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []
        return ", ".join(parts)


class _Plain(_ConvNd):
    dims = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        each = _ntuple(self.dims)
        pads = padding if isinstance(padding, str) else each(padding)
        windows = (each(kernel_size), each(stride), pads, each(dilation), False, each(0))
        super().__init__(in_channels, out_channels, *windows, groups, bias, padding_mode, device, dtype)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        convolve, padding = getattr(F, f"conv{self.dims}d"), self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self.dims
        got: Tensor = convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)
        return got

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    padding: Ints

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints,
        dilation: Ints,
        transposed: bool,
        output_padding: Ints,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        windows = (kernel_size, stride, padding, dilation, transposed, output_padding)
        super().__init__(in_channels, out_channels, *windows, groups, bias, padding_mode, device, dtype)

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Ints,
        padding: Ints,
        kernel_size: Ints,
        num_spatial_dims: int,
        dilation: Ints | None = None,
    ) -> Sequence[int]:
        """How much is added at the ends so that the result has the size that was asked for."""
        if output_size is None:
            return self.output_padding
        dims = num_spatial_dims
        before = input.dim() - dims if input.dim() == dims + 2 else 1
        sizes = output_size
        if len(sizes) == before + dims:
            sizes = sizes[before:]
        if len(sizes) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.dim()}D input, output_size must have {dims} or "
                f"{before + dims} elements (got {len(sizes)})"
            )
        low = [
            (input.size(d + before) - 1) * s - 2 * p + dil * (k - 1) + 1
            for d, (s, p, dil, k) in enumerate(zip(stride, padding, dilation or (1,) * dims, kernel_size))
        ]
        high = [n + s - 1 for n, s in zip(low, stride)]
        if any(not a <= n <= b for n, a, b in zip(sizes, low, high)):
            raise ValueError(
                f"requested an output size of {sizes}, but valid sizes range from {low} to {high} (for an input of "
                f"{input.size()[2:]})"
            )
        return [n - a for n, a in zip(sizes, low)]


class _Transposed(_ConvTransposeNd):
    dims = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        each = _ntuple(self.dims)
        windows = (each(kernel_size), each(stride), each(padding), each(dilation), True, each(output_padding))
        super().__init__(in_channels, out_channels, *windows, groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        convolve = getattr(F, f"conv_transpose{self.dims}d")
        windows = self.stride, self.padding, self.kernel_size, self.dims, self.dilation
        more = self._output_padding(input, output_size, *windows)
        got: Tensor = convolve(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )
        return got


class Conv1d(_Plain):
    """A window of `kernel_size` weights that moves over lines: [n, in_channels, length] becomes [n, out_channels, places]. It moves by
    `stride`, shows every `dilation`-th element, and `padding` elements stand at both ends: zeros, or by `padding_mode` what
    `F.pad` would put there; "same" keeps the length. With `groups` channels meet only those of their group. Weight and bias begin
    uniform between -1/sqrt(n) and 1/sqrt(n), n weights being summed over.

    >>> layer = nn.Conv1d(2, 3, 5)
    >>> layer(torch.ones(1, 2, 8)).shape, layer.weight.shape
    (torch.Size([1, 3, 4]), torch.Size([3, 2, 5]))
    """


class Conv2d(_Plain):
    """`Conv1d` of images: [n, in_channels, height, width] becomes [n, out_channels, rows, columns]. A setting is one number for both
    dimensions, or two.

    >>> nn.Conv2d(3, 8, 3, stride=2, padding=1)(torch.ones(1, 3, 8, 8)).shape
    torch.Size([1, 8, 4, 4])
    """

    dims = 2


class Conv3d(_Plain):
    """`Conv1d` of volumes: [n, in_channels, depth, height, width]. A setting is one number for all dimensions, or three.

    >>> nn.Conv3d(1, 2, (1, 3, 5), padding="same")(torch.ones(1, 1, 4, 4, 4)).shape
    torch.Size([1, 2, 4, 4, 4])
    """

    dims = 3


class ConvTranspose1d(_Transposed):
    """The other way round: what the gradient of a `Conv1d` with these settings is to its input, so that lengths grow by the stride.
    `output_padding` adds to the end of the result; called with `output_size`, the module finds how much that must be.

    >>> layer = nn.ConvTranspose1d(2, 1, 3, stride=2)
    >>> layer(torch.ones(1, 2, 4)).shape, layer(torch.ones(1, 2, 4), output_size=(10,)).shape
    (torch.Size([1, 1, 9]), torch.Size([1, 1, 10]))
    """


class ConvTranspose2d(_Transposed):
    """`ConvTranspose1d` of images.

    >>> nn.ConvTranspose2d(4, 2, 2, stride=2)(torch.ones(1, 4, 3, 3)).shape
    torch.Size([1, 2, 6, 6])
    """

    dims = 2


class ConvTranspose3d(_Transposed):
    """`ConvTranspose1d` of volumes.

    >>> nn.ConvTranspose3d(4, 2, 2)(torch.ones(1, 4, 3, 3, 3)).shape
    torch.Size([1, 2, 4, 4, 4])
    """

    dims = 3


__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
