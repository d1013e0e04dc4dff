"""Averages of a model's weights over training: equal (stochastic weight averaging) or exponential."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import int64
from nbgrad.nn.modules.batchnorm import _BatchNorm
from nbgrad.nn.modules.module import Module
from nbgrad.ops.make.data import tensor
from nbgrad.optim.lr_scheduler import LRScheduler, Rates, _per_group
from nbgrad.optim.optimizer import Optimizer

Average = Callable[[Any, Any, Any], Any]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """`fn(average, value, count)`: the exponential moving average of one tensor, `decay * average + (1 - decay) * value`.

    >>> torch.optim.swa_utils.get_ema_avg_fn(0.9)(torch.tensor([0.0]), torch.tensor([1.0]), 1)
    tensor([0.1000])
    """
    _check_decay(decay)

    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """`fn(average, value, count)`: the mean of one tensor and the `count` before it, of which `average` is the mean.

    >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.tensor([0.0]), torch.tensor([1.0]), 3)
    tensor([0.2500])
    """

    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Average:
    """`fn(averages, values, count)`: the exponential moving averages of lists of tensors, in place.

    >>> average = torch.tensor([0.0])
    >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)([average], [torch.tensor([1.0])], 1)
    >>> average
    tensor([0.1000])
    """
    _check_decay(decay)

    def ema_update(ema_param_list: Any, current_param_list: Any, _: Any) -> None:
        with no_grad():
            for average, value in zip(ema_param_list, current_param_list, strict=True):
                if average.is_floating_point():
                    average.lerp_(value, 1 - decay)
                else:
                    average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Average:
    """`fn(averages, values, count)`: the means of lists of tensors and of the `count` before them, in place.

    >>> average = torch.tensor([0.0])
    >>> torch.optim.swa_utils.get_swa_multi_avg_fn()([average], [torch.tensor([1.0])], 3)
    >>> average
    tensor([0.2500])
    """

    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        with no_grad():
            share = 1 / (float(num_averaged) + 1)
            for average, value in zip(averaged_param_list, current_param_list, strict=True):
                if average.is_floating_point():
                    average.lerp_(value, share)
                else:
                    average.copy_(average + (value - average) * share)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters (with `use_buffers`, buffers too) are averages of those that it was shown by
    `update_parameters`: their mean, or what `avg_fn` or `multi_avg_fn` makes. It is called as the model is.

    >>> net = nn.Linear(1, 1, bias=False)
    >>> averaged = torch.optim.swa_utils.AveragedModel(net)
    >>> for value in (1.0, 2.0):
    ...     _ = net.weight.data.fill_(value)
    ...     averaged.update_parameters(net)
    >>> averaged.module.weight.data
    tensor([[1.5000]])
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Device | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Average | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's weights into the averages; the first ones are taken as they are.

        >>> averaged = torch.optim.swa_utils.AveragedModel(nn.Linear(1, 1))
        >>> averaged.update_parameters(nn.Linear(1, 1))
        >>> averaged.n_averaged
        tensor(1)
        """
        with no_grad():
            pairs = [
                (a.detach(), b.detach()) for a, b in zip(self._averaged(self.module), self._averaged(model))
            ]
            by_dtype: dict[Any, list[tuple[Any, Any]]] = {}
            for pair in pairs:
                by_dtype.setdefault(pair[0].dtype, []).append(pair)
            if self.n_averaged.item() == 0:
                for average, value in pairs:
                    average.copy_(value)
            elif self.avg_fn is not None:
                for average, value in pairs:
                    average.copy_(self.avg_fn(average, value, self.n_averaged))
            else:
                update = self.multi_avg_fn or get_swa_multi_avg_fn()
                for alike in by_dtype.values():
                    update([a for a, _ in alike], [b for _, b in alike], self.n_averaged)
            if not self.use_buffers:
                for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                    own.detach().copy_(other.detach())
            self.n_averaged.add_(1)

    def _averaged(self, model: Module) -> Iterable[Tensor]:
        return chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()


def update_bn(loader: Iterable[Any], model: Module, device: Device | None = None) -> None:
    """Let the model's batch normalisations take their statistics anew, from one pass over the batches of `loader` (or their first
    elements).

    >>> net = nn.BatchNorm1d(1)
    >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])], net)
    >>> net.running_mean
    tensor([4.])
    """
    with no_grad():
        norms = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
        if not norms:
            return
        was_training = model.training
        model.train()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        for batch in loader:
            input = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(input if device is None else input.to(device))
        for norm, momentum in norms.items():
            norm.momentum = momentum
        model.train(was_training)


def _cosine(t: float) -> float:
    return (1 - math.cos(math.pi * t)) / 2


def _linear(t: float) -> float:
    return t


class SWALR(LRScheduler):
    """From the rates as they are to `swa_lr` within `anneal_epochs` steps, along half a cosine or (`anneal_strategy="linear"`) a
    line; then they stay.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.0, anneal_epochs=4)
    >>> for _ in range(6):
    ...     print(round(schedule.get_last_lr()[0], 3), end=" ")
    ...     optimizer.step()
    ...     schedule.step()
    1.0 0.854 0.5 0.146 0.0 0.0
    """

    _unsaved = ("optimizer", "anneal_func")

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(_per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        self._anneal_strategy = anneal_strategy
        self.anneal_func = _cosine if anneal_strategy == "cos" else _linear

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where the schedule that gave this state stood, along its curve."""
        super().load_state_dict(state_dict)
        self._set_anneal_func(self._anneal_strategy)

    def get_lr(self) -> Rates:
        self._warn_if_called()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (
            self.anneal_func(max(0, min(1, k / max(1, self.anneal_epochs)))) for k in (step - 1, step)
        )

        def rate(lr: Any, goal: Any) -> Any:
            start = goal if before == 1 else (lr - before * goal) / (1 - before)
            return goal * now + start * (1 - now)

        return [rate(group["lr"], group["swa_lr"]) for group in self.optimizer.param_groups]


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
