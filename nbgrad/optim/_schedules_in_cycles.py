"""Schedules that fall along a cosine, or rise and fall, once or over and over."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from nbgrad.optim._schedule import (
    LRScheduler,
    Rates,
    _check_optimizer,
    _per_group,
    _put,
    _rates,
)
from nbgrad.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate down to `eta_min` in `T_max` steps, and up again: `eta_min + (lr - eta_min) * (1 + cos(pi *
    step / T_max)) / 2`.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> for _ in range(6):
    ...     print(round(schedule.get_last_lr()[0], 3), end=" ")
    ...     optimizer.step()
    ...     schedule.step()
    1.0 0.854 0.5 0.146 0.0 0.146
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_if_called()
        epoch, low, half = self.last_epoch, self.eta_min, self.T_max
        groups = self.optimizer.param_groups
        if self._is_initial:
            return _rates(self.optimizer)
        if self._step_count == 1 and epoch > 0:
            return [low + (lr - low) * (1 + math.cos(epoch * math.pi / half)) / 2 for lr in self.base_lrs]
        if (epoch - 1 - half) % (2 * half) == 0:  # from the bottom, where a factor would divide by zero
            rise = 1 - math.cos(math.pi / half)
            return [g["lr"] + (lr - low) * rise / 2 for lr, g in zip(self.base_lrs, groups, strict=True)]
        now, before = (1 + math.cos(math.pi * e / half) for e in (epoch, epoch - 1))
        return [now / before * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self) -> Rates:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (lr - self.eta_min) * height / 2 for lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the first rate down to `eta_min` in `T_0` steps, then from the first rate again, each `T_mult` times as
    long as the one before.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for _ in range(6):
    ...     print(round(schedule.get_last_lr()[0], 3), end=" ")
    ...     optimizer.step()
    ...     schedule.step()
    1.0 0.5 1.0 0.5 1.0 0.5
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_if_called()
        low, height = self.eta_min, 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [low + (lr - low) * height / 2 for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr)

    def _jump(self, epoch: float) -> None:
        """Find the cosine that a step, perhaps a fractional one, lies in."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            past = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**past - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**past


class _WithMomentum(LRScheduler):
    """A schedule that moves momentum (beta1, where an optimiser has betas) against the rate."""

    def _start_momentum(self, base: Any, top: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        lows = _per_group("base_momentum", self.optimizer, base)
        highs = _per_group("max_momentum", self.optimizer, top)
        if last_epoch == -1:
            for low, high, group in zip(lows, highs, self.optimizer.param_groups):
                self._put_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        return lows, highs

    def _put_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class OneCycleLR(_WithMomentum):
    """Once up from `max_lr / div_factor` to `max_lr` and down to almost nothing, in `total_steps` steps (or `epochs *
    steps_per_epoch`), of which the share `pct_start` goes up; momentum, or beta1, goes the other way.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0, momentum=0.9)
    >>> schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=6)
    >>> for _ in range(6):
    ...     print(round(schedule.get_last_lr()[0], 3), end=" ")
    ...     optimizer.step()
    ...     schedule.step()
    0.04 0.994 0.812 0.463 0.133 0.0
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            if total_steps <= 0 or not isinstance(total_steps, int):
                raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
            self.total_steps = total_steps
        else:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            for name, n in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if not isinstance(n, int) or n <= 0:
                    raise ValueError(f"Expected positive integer {name}, but got {n}")
            self.total_steps = epochs * steps_per_epoch
        self._schedule_phases = self._phases(pct_start, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        tops = _per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for top, group in zip(tops, optimizer.param_groups):
                group["initial_lr"], group["max_lr"] = top / div_factor, top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _phases(self, share: float, three: bool) -> list[dict[str, Any]]:
        """Where each phase ends, and the options that it leads from and to."""

        def phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
            names = dict(zip(("start_lr", "end_lr", "start_momentum", "end_momentum"), (*lr, *momentum)))
            return {"end_step": end, **names}

        last = self.total_steps - 1
        up = phase(
            float(share * self.total_steps) - 1, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum")
        )
        if not three:
            return [up, phase(last, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))]
        down = float(2 * share * self.total_steps) - 2
        return [
            up,
            phase(down, ("max_lr", "initial_lr"), ("base_momentum", "max_momentum")),
            phase(last, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
        ]

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self) -> Rates:
        self._warn_if_called()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        begin = 0.0
        for phase in self._schedule_phases[:-1]:
            if step <= phase["end_step"]:
                break
            begin = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        share = (step - begin) / (phase["end_step"] - begin)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for g in groups:
                momentum = self._between(g[phase["start_momentum"]], g[phase["end_momentum"]], share)
                self._put_momentum(g, momentum)
        return [self._between(g[phase["start_lr"]], g[phase["end_lr"]], share) for g in groups]


class CyclicLR(_WithMomentum):
    """Up from `base_lr` to `max_lr` in `step_size_up` steps and down again, over and over; momentum, or beta1, goes the other way.
    The height halves with every cycle in `mode="triangular2"`, is multiplied by `gamma` at every step in "exp_range", or is what
    `scale_fn` says.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2, cycle_momentum=False)
    >>> for _ in range(6):
    ...     print(round(schedule.get_last_lr()[0], 3), end=" ")
    ...     optimizer.step()
    ...     schedule.step()
    0.0 0.5 1.0 0.5 0.0 0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        lows = _per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for low, group in zip(lows, optimizer.param_groups):
                _put(group, "lr", low)
        self.max_lrs = _per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(
                base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """By what the height of a cycle is multiplied: a function of the number of the cycle, or of the step, as `scale_mode` says.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> options = dict(mode="triangular2", cycle_momentum=False)
        >>> torch.optim.lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, **options).scale_fn(3)
        0.25
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> Rates:
        self._warn_if_called()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [
            low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            for group, low, high in zip(groups, self.base_momentums, self.max_momentums, strict=True):
                self._put_momentum(group, high - (high - low) * height * scale)
        return rates

    def state_dict(self) -> dict[str, Any]:
        f = self._scale_fn_custom
        saved = None if f is None or isinstance(f, FunctionType) else f.__dict__.copy()
        return super().state_dict() | {"_scale_fn_custom": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])
