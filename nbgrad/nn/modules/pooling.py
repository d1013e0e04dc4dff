"""Pooling as modules: by what is made of a window, and by how many dimensions it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.nn import functional as F
from nbgrad.nn.modules.module import Module, with_own_init
from nbgrad.nn.modules.utils import _ntuple, _single

Sizes = int | Sequence[int]


class _Pool(Module):
    dims = 1
    kind = ""

    def __init_subclass__(cls) -> None:
        with_own_init(cls)

    def _function(self) -> Any:
        return getattr(F, f"{self.kind}{self.dims}d")


class _MaxPoolNd(_Pool):
    kind = "max_pool"

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        settings = (self.kernel_size, self.stride, self.padding, self.dilation)
        return self._function()(input, *settings, self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest of each window of the last dimension: `F.max_pool1d`.

    >>> nn.MaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """


class MaxPool2d(_MaxPoolNd):
    """The largest of each window of the last two dimensions: `F.max_pool2d`.

    >>> nn.MaxPool2d(2)(torch.arange(8.0).reshape(1, 2, 4))
    tensor([[[5., 7.]]])
    """

    dims = 2


class MaxPool3d(_MaxPoolNd):
    """The largest of each window of the last three dimensions: `F.max_pool3d`.

    >>> nn.MaxPool3d(2)(torch.arange(16.0).reshape(1, 2, 2, 4))
    tensor([[[[13., 15.]]]])
    """

    dims = 3


class _MaxUnpoolNd(_Pool):
    kind = "max_unpool"

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = _ntuple(self.dims)(kernel_size)
        self.stride = _ntuple(self.dims)(kernel_size if stride is None else stride)
        self.padding = _ntuple(self.dims)(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        settings = (self.kernel_size, self.stride, self.padding)
        found: Tensor = self._function()(input, indices, *settings, output_size)
        return found

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """What `MaxPool1d` took out, back at its places: `F.max_unpool1d`.

    >>> nn.MaxUnpool1d(2)(torch.tensor([[3.0, 5.0]]), torch.tensor([[1, 2]]))
    tensor([[0., 3., 5., 0.]])
    """


class MaxUnpool2d(_MaxUnpoolNd):
    """What `MaxPool2d` took out, back at its places: `F.max_unpool2d`.

    >>> nn.MaxUnpool2d(2)(torch.tensor([[[3.0]]]), torch.tensor([[[2]]]))
    tensor([[[0., 0.],
             [3., 0.]]])
    """

    dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """What `MaxPool3d` took out, back at its places: `F.max_unpool3d`.

    >>> nn.MaxUnpool3d((1, 1, 2))(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64))
    tensor([[[[1., 0.]]]])
    """

    dims = 3


class _AvgPoolNd(_Pool):
    kind = "avg_pool"

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        found: Tensor = self._function()(input, *settings, self.divisor_override)
        return found

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of the last dimension: `F.avg_pool1d`.

    >>> nn.AvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        Module.__init__(self)
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        return F.avg_pool1d(input, *settings)


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of the last two dimensions: `F.avg_pool2d`.

    >>> nn.AvgPool2d(2)(torch.arange(8.0).reshape(1, 2, 4))
    tensor([[[2.5000, 4.5000]]])
    """

    dims = 2


class AvgPool3d(_AvgPoolNd):
    """The mean of each window of the last three dimensions: `F.avg_pool3d`.

    >>> nn.AvgPool3d(2)(torch.arange(16.0).reshape(1, 2, 2, 4))
    tensor([[[[6.5000, 8.5000]]]])
    """

    dims = 3


class _FractionalMaxPool(_Pool):
    kind = "fractional_max_pool"

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self._check_kernel(kernel_size)
        self.kernel_size = _ntuple(self.dims)(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _ntuple(self.dims)(output_size)
        self.output_ratio = None if output_ratio is None else _ntuple(self.dims)(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < n < 1 for n in self.output_ratio[: self.dims]):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _check_kernel(self, kernel_size: Sizes) -> None:
        pass

    def forward(self, input: Tensor) -> Any:
        settings = (self.kernel_size, self.output_size, self.output_ratio, self.return_indices)
        return self._function()(input, *settings, _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest of each window of the last two dimensions, where windows lie at random: `F.fractional_max_pool2d`.

    >>> nn.FractionalMaxPool2d(2, output_size=3)(torch.randn(1, 5, 5)).shape
    torch.Size([1, 3, 3])
    """

    dims = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest of each window of the last three dimensions, where windows lie at random: `F.fractional_max_pool3d`.

    >>> nn.FractionalMaxPool3d(2, output_ratio=0.5)(torch.randn(1, 6, 6, 6)).shape
    torch.Size([1, 3, 3, 3])
    """

    dims = 3

    def _check_kernel(self, kernel_size: Sizes) -> None:
        if any(k <= 0 for k in _single(kernel_size)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")


class _LPPoolNd(_Pool):
    kind = "lp_pool"

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = (
            norm_type,
            kernel_size,
            stride,
            ceil_mode,
        )

    def forward(self, input: Tensor) -> Tensor:
        settings = (float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
        found: Tensor = self._function()(input, *settings)
        return found

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The `norm_type`-norm of each window of the last dimension: `F.lp_pool1d`.

    >>> nn.LPPool1d(2, 2)(torch.tensor([[3.0, 4.0, 6.0, 8.0]]))
    tensor([[ 5., 10.]])
    """


class LPPool2d(_LPPoolNd):
    """The `norm_type`-norm of each window of the last two dimensions: `F.lp_pool2d`.

    >>> nn.LPPool2d(2, (1, 2))(torch.tensor([[[3.0, 4.0, 6.0, 8.0]]]))
    tensor([[[ 5., 10.]]])
    """

    dims = 2


class LPPool3d(_LPPoolNd):
    """The `norm_type`-norm of each window of the last three dimensions: `F.lp_pool3d`.

    >>> nn.LPPool3d(2, (1, 1, 2))(torch.tensor([[[[3.0, 4.0, 6.0, 8.0]]]]))
    tensor([[[[ 5., 10.]]]])
    """

    dims = 3


class _AdaptiveMaxPoolNd(_Pool):
    kind = "adaptive_max_pool"

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return self._function()(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest of each of `output_size` stretches of the last dimension: `F.adaptive_max_pool1d`.

    >>> nn.AdaptiveMaxPool1d(2)(torch.tensor([[1.0, 4.0, 3.0, 2.0, 5.0]]))
    tensor([[4., 5.]])
    """


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest of each window, where so many share the last two dimensions evenly: `F.adaptive_max_pool2d`.

    >>> nn.AdaptiveMaxPool2d((1, 2))(torch.arange(12.0).reshape(1, 3, 4))
    tensor([[[ 9., 11.]]])
    """

    dims = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest of each window, where so many share the last three dimensions evenly: `F.adaptive_max_pool3d`.

    >>> nn.AdaptiveMaxPool3d((1, None, 1))(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[5.],
              [7.]]]])
    """

    dims = 3


class _AdaptiveAvgPoolNd(_Pool):
    kind = "adaptive_avg_pool"

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        found: Tensor = self._function()(input, self.output_size)
        return found

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of each of `output_size` stretches of the last dimension: `F.adaptive_avg_pool1d`.

    >>> nn.AdaptiveAvgPool1d(2)(torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]))
    tensor([[2., 4.]])
    """


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of each window, where so many share the last two dimensions evenly: `F.adaptive_avg_pool2d`.

    >>> nn.AdaptiveAvgPool2d((1, 2))(torch.arange(12.0).reshape(1, 3, 4))
    tensor([[[4.5000, 6.5000]]])
    """

    dims = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of each window, where so many share the last three dimensions evenly: `F.adaptive_avg_pool3d`.

    >>> nn.AdaptiveAvgPool3d((1, None, 1))(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[2.5000],
              [4.5000]]]])
    """

    dims = 3


__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]
