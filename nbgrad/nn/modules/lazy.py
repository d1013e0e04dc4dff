"""Modules that wait for their first input to learn how many features or channels it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype, int64
from nbgrad.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from nbgrad.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from nbgrad.nn.modules.instancenorm import (
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from nbgrad.nn.modules.linear import Linear
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from nbgrad.ops.make.data import tensor

Sizes = int | Sequence[int]


class LazyModuleMixin:
    """To stand before a module's class: what is made of `UninitializedParameter` gets its shape by `initialize_parameters`, which the
    subclass defines, from the first input; then the module becomes a `cls_to_become`. State dicts hold what is uninitialised, and
    load into it what is not.

    >>> layer = nn.LazyLinear(2)
    >>> layer, layer.has_uninitialized_params()
    (LazyLinear(in_features=0, out_features=2, bias=True), True)
    >>> layer(torch.ones(1, 3)).shape, layer
    (torch.Size([1, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become: type[Module] | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self: Any, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        kept = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        for name, t in (*self._parameters.items(), *kept.items()):
            if t is not None:
                destination[prefix + name] = t if is_lazy(t) or keep_vars else t.detach()

    def _lazy_load_hook(self: Any, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """What comes with a shape gives it to what has none."""
        for name, t in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(t) and given is not None and not is_lazy(given):
                with no_grad():
                    t.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, and values, by the arguments of a first call; a subclass says how.

        >>> layer = nn.LazyConv1d(4, 3)
        >>> layer.initialize_parameters(torch.ones(1, 2, 8))
        >>> layer.weight.shape
        torch.Size([4, 2, 3])
        """
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer of its own waits for its shape.

        >>> nn.LazyBatchNorm2d().has_uninitialized_params()
        True
        """
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class _Lazy(LazyModuleMixin):
    """Of a module whose size is the attribute `size_name`, 0 as long as it is not known."""

    size_name = ""

    def reset_parameters(self) -> None:
        """Draw the parameters anew, where they are there."""
        if not self.has_uninitialized_params() and getattr(self, self.size_name) != 0:
            super().reset_parameters()  # type: ignore[misc]

    def _wait(self, names: Sequence[str], kind: type, device: Device | None, dtype: dtype | None) -> None:
        """Have parameters, or buffers, without a shape."""
        for name in names:
            setattr(self, name, kind(device=device, dtype=dtype))


class LazyLinear(_Lazy, Linear):
    """A `Linear` whose `in_features` are those of its first input.

    >>> layer = nn.LazyLinear(4)
    >>> layer(torch.ones(2, 3)).shape, layer
    (torch.Size([2, 4]), Linear(in_features=3, out_features=4, bias=True))
    """

    cls_to_become = Linear
    size_name = "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: Device | None = None, dtype: dtype | None = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self._wait(["weight", "bias"][: 1 + bias], UninitializedParameter, device, dtype)

    def initialize_parameters(self: Any, input: Tensor) -> None:
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # a state dict has brought the weights
            known = self.weight.shape[-1]
            if input.shape[-1] != known:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from self.weight: {known}"
                )
            self.in_features = input.shape[-1]


class _LazyConvolution(_Lazy):
    size_name = "in_channels"

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._channels_of(input)
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _channels_of(self: Any, input: Tensor) -> int:
        alone = self.dims + 1
        if input.dim() not in (alone, alone + 1):
            raise RuntimeError(
                f"Expected {alone}D (unbatched) or {alone + 1}D (batched) input to {type(self).__name__}, but got input of size: "
                f"{input.shape}"
            )
        return int(input.shape[input.dim() - alone])


class _LazyPlain(_LazyConvolution):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        windows = (kernel_size, stride, padding, dilation)
        super().__init__(0, 0, *windows, groups, False, padding_mode, device, dtype)
        self.out_channels = out_channels
        self._wait(["weight", "bias"][: 1 + bias], UninitializedParameter, device, dtype)


class _LazyTransposed(_LazyConvolution):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        windows = (kernel_size, stride, padding, output_padding)
        super().__init__(0, 0, *windows, groups, False, dilation, padding_mode, device, dtype)
        self.out_channels = out_channels
        self._wait(["weight", "bias"][: 1 + bias], UninitializedParameter, device, dtype)


class LazyConv1d(_LazyPlain, Conv1d):
    """A `Conv1d` whose `in_channels` are those of its first input.

    >>> layer = nn.LazyConv1d(4, 3)
    >>> layer(torch.ones(1, 2, 8)).shape, layer
    (torch.Size([1, 4, 6]), Conv1d(2, 4, kernel_size=(3,), stride=(1,)))
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlain, Conv2d):
    """A `Conv2d` whose `in_channels` are those of its first input.

    >>> nn.LazyConv2d(4, 3)(torch.ones(1, 2, 8, 8)).shape
    torch.Size([1, 4, 6, 6])
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlain, Conv3d):
    """A `Conv3d` whose `in_channels` are those of its first input.

    >>> nn.LazyConv3d(4, 3)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 4, 2, 2, 2])
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """A `ConvTranspose1d` whose `in_channels` are those of its first input.

    >>> nn.LazyConvTranspose1d(4, 3)(torch.ones(1, 2, 8)).shape
    torch.Size([1, 4, 10])
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """A `ConvTranspose2d` whose `in_channels` are those of its first input.

    >>> nn.LazyConvTranspose2d(4, 3)(torch.ones(1, 2, 8, 8)).shape
    torch.Size([1, 4, 10, 10])
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """A `ConvTranspose3d` whose `in_channels` are those of its first input.

    >>> nn.LazyConvTranspose3d(4, 3)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 4, 6, 6, 6])
    """

    cls_to_become = ConvTranspose3d


class _LazyNorm(_Lazy):
    size_name = "num_features"

    def __init__(
        self: Any,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self._wait(["weight", "bias"][: 1 + bias], UninitializedParameter, device, dtype)
        if track_running_stats:
            self._wait(["running_mean", "running_var"], UninitializedBuffer, device, dtype)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def initialize_parameters(self: Any, input: Tensor) -> None:
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for t in (self.weight, self.bias, self.running_mean, self.running_var):
                if t is not None:
                    t.materialize((self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A `BatchNorm1d` of as many channels as its first input has.

    >>> norm = nn.LazyBatchNorm1d()
    >>> norm(torch.ones(2, 3)).shape, norm.num_features
    (torch.Size([2, 3]), 3)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A `BatchNorm2d` of as many channels as its first input has.

    >>> nn.LazyBatchNorm2d()(torch.ones(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A `BatchNorm3d` of as many channels as its first input has.

    >>> nn.LazyBatchNorm3d()(torch.ones(2, 3, 2, 2, 2)).shape
    torch.Size([2, 3, 2, 2, 2])
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An `InstanceNorm1d` of as many channels as its first input has.

    >>> nn.LazyInstanceNorm1d()(torch.ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """An `InstanceNorm2d` of as many channels as its first input has.

    >>> nn.LazyInstanceNorm2d()(torch.ones(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """An `InstanceNorm3d` of as many channels as its first input has.

    >>> nn.LazyInstanceNorm3d()(torch.ones(2, 3, 2, 2, 2)).shape
    torch.Size([2, 3, 2, 2, 2])
    """

    cls_to_become = InstanceNorm3d


__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]
