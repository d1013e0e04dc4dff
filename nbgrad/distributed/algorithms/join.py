"""PyTorch's `torch.distributed.algorithms.join`: a process whose inputs have ended answers those that still have some."""

from __future__ import annotations

from typing import Any, NamedTuple

from nbgrad.distributed._collectives import all_reduce
from nbgrad.distributed._groups import get_rank
from nbgrad.ops.make.filled import ones, zeros

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process does for one that takes part after its inputs have ended: `main_hook` for each step of the others, `post_hook` at
    the end of all.

    >>> hook = torch.distributed.algorithms.join.JoinHook()
    """

    def main_hook(self) -> None:
        """As the others' collectives of one step."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """When all have ended."""


class _JoinConfig(NamedTuple):
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable:
    """What can take part in a `Join`: `join_hook`, `join_device` and `join_process_group` are its own.

    >>> kind = torch.distributed.algorithms.join.Joinable
    """

    _join_config = _JoinConfig()

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process that has ended does for it."""
        raise NotImplementedError

    @property
    def join_device(self) -> Any:
        """Where it is."""
        raise NotImplementedError

    @property
    def join_process_group(self) -> Any:
        """With whom it works."""
        raise NotImplementedError


class Join:
    """A block in which each process may have as many inputs as it has: one that leaves early answers the collectives of those inside.

    >>> kind = torch.distributed.algorithms.join.Join
    """

    def __init__(
        self,
        joinables: list[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable, self._throws = enable, throw_on_early_termination
        for k, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, k == 0)
        self._group = joinables[0].join_process_group
        if any(joinable.join_process_group is not self._group for joinable in joinables):
            raise ValueError("Using join context manager with multiple process groups")
        self._device = joinables[0].join_device

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if not self._enable or kind:
            return
        last = True
        while True:
            others = zeros(1, device=self._device)
            work = all_reduce(
                others, group=self._group, async_op=True
            )  # as the others' call, which MPI asks for
            assert work is not None
            work.wait()
            if others.item() == 0:
                break
            if self._throws:
                all_reduce(ones(1, device=self._device), group=self._group)
                raise RuntimeError(f"Rank {get_rank(self._group)} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            last = False
        for hook in self._hooks:
            hook.post_hook(last)
        for joinable in self._joinables:
            joinable._join_config = _JoinConfig()

    @staticmethod
    def notify_join_context(joinable: Any) -> Any:
        """Tell the processes that have ended that this one has not; the number of those that have not comes with what is given back."""
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        group, device = joinable.join_process_group, joinable.join_device
        work = all_reduce(ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = zeros(1, device=device)
            all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work
