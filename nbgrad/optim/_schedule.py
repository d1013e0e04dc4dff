"""What a schedule is: which rates follow from which, by whom `step` was called, what is saved.

Promises users PyTorch's schedules, number for number, and `state_dict()`s that either loads. Most schedules say by what factor
the rate changes from one step to the next (`_factor`), some what each rate is (`get_lr`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.optim.optimizer import Optimizer, tracks_steps

Rates = list[Any]  # a float per group, or a Tensor where the user gave one


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group, of one given for all or of as many as there are groups."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * groups
    elif len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {groups}."
        )
    return [_copied(v) for v in value]


def _put(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option; a tensor that the user holds is written to."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def _rates(optimizer: Optimizer, key: str = "lr") -> Rates:
    return [_copied(group[key]) for group in optimizer.param_groups]


def _check_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


_SEE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_EPOCH = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed form is "
    "used instead of the new chainable form, where available. Please open an issue if you are unable to replicate your use "
    "case: https://github.com/pytorch/pytorch/issues/new/choose."
)


class LRScheduler:
    """The base of schedules: made once from an optimiser, whose rates it sets by a `step()` after each of the optimiser's (or each
    epoch's). A subclass says what `get_lr` is; `last_epoch` counts the steps, `base_lrs` are the rates at the beginning.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> for _ in range(4):
    ...     print(round(schedule.get_last_lr()[0], 3), end=" ")
    ...     optimizer.step()
    ...     schedule.step()
    1.0 0.5 0.25 0.125
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: Rates
    _unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= "
                    "0.\nThis typically happens when:\n1. You're trying to resume training from a checkpoint but haven't "
                    "properly loaded the optimizer state\n2. You're using last_epoch >= 0 for a fresh training run (not "
                    "recommended)"
                )
        self.base_lrs = _rates(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        optimizer.__dict__.setdefault("_opt_called", False)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows but the optimiser, as a dict.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> schedule.state_dict()["base_lrs"]
        [1.0]
        """
        return {k: v for k, v in self.__dict__.items() if k not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where the schedule that gave this dict was.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> schedule.load_state_dict({**schedule.state_dict(), "last_epoch": 7})
        >>> schedule.last_epoch
        7
        """
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> Rates:
        """The rates that were set last, one for each group.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> schedule.get_last_lr()
        [1.0]
        """
        return self._last_lr

    def get_lr(self) -> Rates:
        """The rates for the step `last_epoch`, one for each group: what a subclass says. It is called by `step`; users ask
        `get_last_lr`.

        >>> class Halving(torch.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> schedule = Halving(optimizer)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
        """
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Count one step and set the rates for it; called after the optimiser's.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> optimizer.step()
        >>> schedule.step()
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        if self._step_count == 1:
            if not tracks_steps(self.optimizer):
                warnings.warn(
                    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                    "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. " + _SEE,
                    UserWarning,
                    stacklevel=2,
                )
            elif not self.optimizer._opt_called:
                warnings.warn(
                    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                    "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to "
                    "do this will result in PyTorch skipping the first value of the learning rate schedule. "
                    + _SEE,
                    UserWarning,
                    stacklevel=2,
                )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(_EPOCH, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        closed = getattr(self, "_get_closed_form_lr", None)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr if epoch is None or closed is None else closed)

    def _set(self, rates: Callable[[], Rates]) -> None:
        self._get_lr_called_within_step = True
        try:
            values = rates()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            _put(group, "lr", value)
        self._last_lr = _rates(self.optimizer)

    def _warn_if_called(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=2,
            )


class _LRScheduler(LRScheduler):
    """The base under its old name, from which scripts still derive."""


_KEPT: Any = object()


class _ByFactor(LRScheduler):
    """A schedule that is the same for all groups: each step multiplies their rates by one number."""

    def _factor(self) -> Any:
        """From the step before to this one; _KEPT leaves the rates as they are."""
        raise NotImplementedError

    def _closed_factor(self) -> float:
        """From the start to this step."""
        raise NotImplementedError

    def get_lr(self) -> Rates:
        self._warn_if_called()
        factor = self._factor()
        if factor is _KEPT:
            return _rates(self.optimizer)
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> Rates:
        factor = self._closed_factor()
        return [lr * factor for lr in self.base_lrs]
