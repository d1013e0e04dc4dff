"""Normalisation of each channel of each example."""

from __future__ import annotations

import warnings
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.nn import functional as F
from nbgrad.nn.modules.batchnorm import _NormBase


class _InstanceNorm(_NormBase):
    """Mean 0 and variance 1 per channel of an example; running statistics, where they are kept, serve in evaluation."""

    dims = 1

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device | None = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        return self.dims + 1

    def _handle_no_batch_input(self, input: Tensor) -> Tensor:
        got: Tensor = self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return got

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        got: Tensor = F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return got

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(
                f"expected {self.dims + 1}D or {self.dims + 2}D input (got {input.dim()}D input)"
            )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing: list[str],
        unexpected: list[str],
        errors: list[str],
    ) -> None:
        kept = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
        if local_metadata.get("version") is None and not self.track_running_stats and kept:
            own, names = type(self).__name__, " and ".join([f'"{k}"' for k in kept])
            errors.append(
                f"Unexpected running stats buffer(s) {names} for {own} with track_running_stats=False. If "
                f"state_dict is a checkpoint saved before 0.4.0, this may be expected because {own} does not track running stats by "
                "default since 0.4.0. Please remove these keys from state_dict. If the running stats are actually needed, instead set "
                f"track_running_stats=True in {own} to enable them. See the documentation of {own} for details."
            )
            for key in kept:
                del state_dict[key]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        dim = input.dim() - self._get_no_batch_dim()
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: "
                    f"{input.size(dim)}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in "
                "num_features, which is not used because affine=False",
                stacklevel=2,
            )
        return self._apply_instance_norm(input) if dim else self._handle_no_batch_input(input)


class InstanceNorm1d(_InstanceNorm):
    """Mean 0 and variance 1 for each channel of each example of [batch, channels, length], or without the batch. With `affine` each
    channel has a weight and a bias; with `track_running_stats` evaluation uses running statistics. The shape stays.

    >>> nn.InstanceNorm1d(2)(torch.tensor([[1.0, 3.0], [10.0, 30.0]]))
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """


class InstanceNorm2d(_InstanceNorm):
    """`InstanceNorm1d` of [batch, channels, height, width], or without the batch: each channel over all its places.

    >>> nn.InstanceNorm2d(1)(torch.tensor([[[1.0, 3.0], [3.0, 1.0]]]))
    tensor([[[-1.0000,  1.0000],
             [ 1.0000, -1.0000]]])
    """

    dims = 2


class InstanceNorm3d(_InstanceNorm):
    """`InstanceNorm1d` of [batch, channels, depth, height, width], or without the batch: each channel over all its places.

    >>> nn.InstanceNorm3d(2)(torch.rand(2, 3, 3, 3)).mean((1, 2, 3)).abs() < 1e-6
    tensor([True, True])
    """

    dims = 3


__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]
