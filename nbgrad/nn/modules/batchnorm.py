"""Normalisation of channels over a batch."""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype, int64
from nbgrad.nn import functional as F
from nbgrad.nn import init
from nbgrad.nn._made import empty, ones, zeros
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter
from nbgrad.ops.make.data import tensor
from nbgrad.ops.views.join import cat


class _NormBase(Module):
    """Weights and running statistics per channel."""

    _version = 2  # from which on state dicts have num_batches_tracked
    weight: Parameter
    bias: Parameter
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, there in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(empty(num_features, device=device, dtype=dtype)) if there else None
            self.register_parameter(name, made)
        tracked = track_running_stats
        self.register_buffer(
            "running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None
        )
        self.register_buffer(
            "running_var", ones(num_features, device=device, dtype=dtype) if tracked else None
        )
        self.register_buffer(
            "num_batches_tracked", tensor(0, dtype=int64, device=device) if tracked else None
        )
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """The running mean is 0 again, the running variance 1, and no batch was seen."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Statistics as at the beginning, weights of 1, biases of 0."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        version, key = local_metadata.get("version"), prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """Mean 0 and variance 1 per channel: by the batch's statistics while training (which the running ones follow), by the running
    ones in evaluation."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        followed = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if followed else None,
            self.running_var if followed else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Mean 0 and variance 1 for each channel of [batch, channels] or [batch, channels, length], then `weight` and `bias` of the
    channel: by the batch's own statistics in training, where the running ones move towards them by the share `momentum` (with
    None, they are the mean of all batches); by the running ones in evaluation. The shape stays.

    >>> norm = nn.BatchNorm1d(1, affine=False)
    >>> norm(torch.tensor([[1.0], [3.0]])).flatten(), norm.running_mean
    (tensor([-1.0000,  1.0000]), tensor([0.2000]))
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """`BatchNorm1d` of [batch, channels, height, width]: each channel over the batch and all places.

    >>> nn.BatchNorm2d(2)(torch.rand(4, 2, 3, 3)).mean((0, 2, 3)).abs() < 1e-6
    tensor([True, True])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """`BatchNorm1d` of [batch, channels, depth, height, width]: each channel over the batch and all places.

    >>> nn.BatchNorm3d(2)(torch.rand(4, 2, 3, 3, 3)).mean((0, 2, 3, 4)).abs() < 1e-6
    tensor([True, True])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class SyncBatchNorm(_BatchNorm):
    """A batch norm of [batch, features, ...] whose statistics, while it trains, are those of all processes of a group, or of all that there
    are. Of one process it is `BatchNorm`.

    >>> net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    >>> net[1]
    SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device | None = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Tensor) -> Tensor:
        from nbgrad.distributed._groups import chosen, is_initialized, is_outside

        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        if not (by_batch and self.training and is_initialized()) or is_outside(self.process_group):
            return super().forward(input)
        group = chosen(self.process_group)
        if group.size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        return self._by_all(input, group)

    def _by_all(self, input: Tensor, group: Any) -> Tensor:
        """Sums travel, and squares of what differs from the mean of all: so nothing is lost of a small variance beside a large mean."""
        from nbgrad.distributed.nn.functional import all_reduce

        over = [d for d in range(input.dim()) if d != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        wide = input.float() if input.dtype.itemsize == 2 else input
        count = tensor([input.numel() / input.size(1)], dtype=wide.dtype, device=wide.device)
        told = all_reduce(cat([wide.sum(over), count]), group=group)
        mean, number = told[:-1] / told[-1], told[-1].detach()
        apart = wide - mean.view(shape)
        var = all_reduce((apart * apart).sum(over), group=group) / number
        if self.track_running_stats:
            self._follow(mean.detach(), var.detach() * (number / (number - 1)))
        out = apart * (var + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        if self.bias is not None:
            out = out + self.bias.view(shape)
        return out.to(input.dtype)

    def _follow(self, mean: Tensor, var: Tensor) -> None:
        share = 0.0 if self.momentum is None else self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else share
        for running, now in ((self.running_mean, mean), (self.running_var, var)):
            if running is not None:
                running.mul_(1 - share).add_(now.to(running.dtype), alpha=share)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module` with such a layer, of the same parameters and buffers, in place of each batch norm.

        >>> nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3))
        SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        """
        made: Any = module
        if isinstance(module, _BatchNorm):
            settings = (module.num_features, module.eps, module.momentum, module.affine)
            made = SyncBatchNorm(
                *settings, module.track_running_stats, process_group, bias=module.bias is not None
            )
            if module.affine:
                made.weight, made.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        whole: Module = made
        return whole


__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"]
