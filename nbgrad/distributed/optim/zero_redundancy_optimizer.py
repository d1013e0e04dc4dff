"""An optimiser whose state is shared out: each process steps some of the parameters, and gives them to the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor, hooks
from nbgrad.distributed._collectives import broadcast
from nbgrad.distributed._groups import Group, chosen
from nbgrad.distributed.algorithms.join import Join, Joinable, JoinHook
from nbgrad.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class Part(dict[Any, Any]):
    """A state dict of which each process has other entries, as `checkpoint.save` takes it."""


class _Ended(JoinHook):
    """A process without inputs steps its share with the gradients that come of the others'."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        self.optimizer._step(None)


def _checked(params: Any) -> list[Any]:
    if isinstance(params, Tensor):
        raise TypeError(f"`params` argument should be an iterable of Tensors, but got {params.type()}")
    try:
        every = list(params)
    except TypeError:
        raise TypeError(
            f"`params` argument should be an iterable of Tensors or dicts, but got {type(params).__name__}"
        ) from None
    if not every:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    if not all(isinstance(p, Tensor) for p in every) and not all(isinstance(p, dict) for p in every):
        raise TypeError("`params` argument should be an iterable of Tensors or dicts")
    return every


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An `optimizer_class` whose state each process keeps for its share of the parameters alone: after a step it gives those to the others.
    With `parameters_as_bucket_view` they lie together in memory, so that they are sent without a copy.

    >>> if torch.distributed.is_initialized():
    ...     net = nn.parallel.DistributedDataParallel(nn.Linear(2, 3))
    ...     kind = torch.distributed.optim.ZeroRedundancyOptimizer
    ...     optimizer = kind(net.parameters(), torch.optim.Adam, lr=0.01)
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Group = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer(): overlap_with_ddp is not supported by this release"
            )
        self.process_group = chosen(process_group)
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._class, self._settings = optimizer_class, defaults
        self._consolidated: dict[int, Any] | None = None
        super().__init__(_checked(params), defaults)
        self._share_out()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """More parameters, which are shared out anew with those that there are.

        >>> if torch.distributed.is_initialized():
        ...     kind = torch.distributed.optim.ZeroRedundancyOptimizer
        ...     optimizer = kind([nn.Parameter(torch.ones(2))], torch.optim.SGD, lr=0.1)
        ...     optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
        """
        super().add_param_group(param_group)
        if hasattr(self, "optim"):
            before = self.optim.state
            self._share_out()
            self.optim.state.update({p: s for p, s in before.items() if self._owner[id(p)] == self.rank})

    def _share_out(self) -> None:
        """The largest first, each to who has least."""
        every = [p for group in self.param_groups for p in group["params"]]
        sizes = [0] * self.world_size
        self._owner: dict[int, int] = {}
        for p in sorted(every, key=lambda p: -p.numel()):
            least = sizes.index(min(sizes))
            self._owner[id(p)] = least
            sizes[least] += p.numel()
        self._number = {id(p): k for k, p in enumerate(every)}
        own = [
            {**group, "params": [p for p in group["params"] if self._owner[id(p)] == self.rank]}
            for group in self.param_groups
        ]
        self.optim = self._class(own, **self._settings)
        self._copy_options(self.optim, self)
        kinds: dict[Any, list[Tensor]] = {}
        for p in every:
            kinds.setdefault((self._owner[id(p)], p.dtype, p.device), []).append(p)
        self._sent: list[tuple[int, list[Tensor], Tensor | None]] = []
        for (owner, *_), some in kinds.items():
            self._sent.append((owner, some, self._together(some) if self.parameters_as_bucket_view else None))

    @staticmethod
    def _together(some: list[Tensor]) -> Tensor:
        whole = hooks.cat([p.detach().reshape(-1) for p in some])
        for p, part in zip(some, whole.split([p.numel() for p in some])):
            p.data = part.view(p.shape)
        return whole

    @staticmethod
    def _copy_options(source: Optimizer, to: Optimizer) -> None:
        for theirs, ours in zip(source.param_groups, to.param_groups):
            ours.update({name: value for name, value in theirs.items() if name != "params"})

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Step this process's parameters, and take the others' from those who stepped them.

        >>> if torch.distributed.is_initialized():
        ...     p = nn.Parameter(torch.ones(2))
        ...     optimizer = torch.distributed.optim.ZeroRedundancyOptimizer([p], torch.optim.SGD, lr=0.1)
        ...     optimizer.step()
        """
        Join.notify_join_context(self)
        return self._step(closure, **kwargs)

    def _step(self, closure: Callable[[], Any] | None, **kwargs: Any) -> Any:
        self._copy_options(self, self.optim)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        self._copy_options(self.optim, self)
        self._give()
        return loss

    def _give(self) -> None:
        with no_grad():
            begun = []
            for owner, some, together in self._sent:
                whole = hooks.cat([p.detach().reshape(-1) for p in some]) if together is None else together
                work = broadcast(whole, group=self.process_group, group_src=owner, async_op=True)
                begun.append((work, owner, some, whole, together is None))
            for work, owner, some, whole, copies in begun:
                assert work is not None
                work.wait()
                if copies and owner != self.rank:
                    for p, part in zip(some, whole.split([p.numel() for p in some])):
                        p.detach().copy_(part.view(p.shape))

    # -- uneven inputs ------------------------------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this process does in a `Join` when its inputs have ended.

        >>> if torch.distributed.is_initialized():
        ...     p = nn.Parameter(torch.ones(2))
        ...     hook = torch.distributed.optim.ZeroRedundancyOptimizer([p], torch.optim.SGD, lr=0.1).join_hook()
        """
        return _Ended(self)

    @property
    def join_device(self) -> Any:
        """The parameters' device.

        >>> if torch.distributed.is_initialized():
        ...     p = nn.Parameter(torch.ones(2))
        ...     device = torch.distributed.optim.ZeroRedundancyOptimizer([p], torch.optim.SGD, lr=0.1).join_device
        """
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The processes that share its state.

        >>> if torch.distributed.is_initialized():
        ...     p = nn.Parameter(torch.ones(2))
        ...     group = torch.distributed.optim.ZeroRedundancyOptimizer([p], torch.optim.SGD, lr=0.1).join_process_group
        """
        return self.process_group

    # -- state --------------------------------------------------------------------------------------------------------

    def _own(self) -> dict[int, Any]:
        return {self._number[id(p)]: state for p, state in self.optim.state.items()}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring all state to process `to`, for its `state_dict`. Every process calls it.

        >>> if torch.distributed.is_initialized():
        ...     p = nn.Parameter(torch.ones(2))
        ...     optimizer = torch.distributed.optim.ZeroRedundancyOptimizer([p], torch.optim.SGD, lr=0.1)
        ...     optimizer.consolidate_state_dict(to=0)
        """
        self._copy_options(self, self.optim)
        every = self.process_group.comm.gather(self._own(), to)
        self._consolidated = None if every is None else {k: s for part in every for k, s in part.items()}

    def _groups(self) -> list[dict[str, Any]]:
        return [
            {**group, "params": [self._number[id(p)] for p in group["params"]]} for group in self.param_groups
        ]

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters as it was brought here, in the form that `optimizer_class` has it.

        >>> if torch.distributed.is_initialized():
        ...     p = nn.Parameter(torch.ones(2))
        ...     optimizer = torch.distributed.optim.ZeroRedundancyOptimizer([p], torch.optim.SGD, lr=0.1)
        ...     optimizer.consolidate_state_dict(to=torch.distributed.get_rank())
        """
        if self._consolidated is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        return {"state": dict(sorted(self._consolidated.items())), "param_groups": self._groups()}

    def shared_state_dict(self) -> Part:
        """This process's part of the state alone, of which `checkpoint.save` writes all parts."""
        return Part(state=Part(self._own()), param_groups=self._groups())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this process's part of the state of all, whoever had it before.

        >>> if torch.distributed.is_initialized():
        ...     p = nn.Parameter(torch.ones(2))
        ...     optimizer = torch.distributed.optim.ZeroRedundancyOptimizer([p], torch.optim.SGD, lr=0.1)
        ...     optimizer.load_state_dict({"state": {}, "param_groups": optimizer.shared_state_dict()["param_groups"]})
        """
        number = {
            self._number[id(p)]: k
            for k, p in enumerate([p for group in self.optim.param_groups for p in group["params"]])
        }
        groups = [
            {**theirs, "params": [number[self._number[id(p)]] for p in ours["params"]]}
            for theirs, ours in zip(state_dict["param_groups"], self.optim.param_groups)
        ]
        state = {number[k]: s for k, s in state_dict["state"].items() if k in number}
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self._copy_options(self.optim, self)
