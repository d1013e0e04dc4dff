"""A module that several processes train together, each on its part of the batch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nbgrad.autograd.function import Function
from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.pytree import tree_flatten, tree_unflatten
from nbgrad.core.tensor import Tensor, accumulation, hooks
from nbgrad.distributed._buckets import GradBucket
from nbgrad.distributed._collectives import all_reduce, broadcast
from nbgrad.distributed._groups import Group, ProcessGroup, chosen
from nbgrad.distributed._mpi import ReduceOp
from nbgrad.distributed.algorithms.join import Join, Joinable, JoinHook
from nbgrad.futures import Future
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parallel._reducer import FIRST, Reducer
from nbgrad.nn.parameter import UninitializedParameter
from nbgrad.tape.modes import state
from nbgrad.tape.node import Node

__all__ = ["DistributedDataParallel"]

_AT_ONCE = 250 << 20  # bytes of what is sent together at the start


class _Sink(Function):
    """Outputs of which a loss may use some only: to the parameters behind the others a gradient comes, too, that is None."""

    @staticmethod
    def forward(ctx: Any, *outputs: Any) -> Any:
        ctx.set_materialize_grads(False)
        return tuple(o.clone() if isinstance(o, Tensor) else o for o in outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class DistributedDataParallel(Module, Joinable):
    """`module`, whose gradients after each backward are the mean over all processes, each of which gives it another part of the batch. All
    begin with the parameters and buffers of process 0. Gradients are sent in buckets of `bucket_cap_mb` while the backward still runs.

    Where not every parameter takes part in every loss, `find_unused_parameters` is needed; with `gradient_as_bucket_view` the buckets
    are the gradients' memory, so that nothing is copied back; `static_graph` says that each forward is like the first.

    >>> if torch.distributed.is_initialized():
    ...     net = nn.parallel.DistributedDataParallel(nn.Linear(2, 3))
    ...     net(torch.rand(4, 2)).sum().backward()  # net.module.weight.grad is the same everywhere
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Group = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        self.process_group: ProcessGroup = chosen(process_group)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in module.named_parameters() if n not in self.parameters_to_ignore]
        _check(named, device_ids, output_device)
        if broadcast_buffers is not None:
            warnings.warn(
                _BOTH if forward_sync_buffers is not None else _BUFFERS, FutureWarning, stacklevel=2
            )
        first = broadcast_buffers is not False if forward_sync_buffers is None else True
        self.forward_sync_buffers = first if forward_sync_buffers is None else forward_sync_buffers
        if check_reduction:
            warnings.warn(
                "The `check_reduction` argument in `DistributedDataParallel` module is deprecated. Please avoid using it.",
                FutureWarning,
                stacklevel=2,
            )
        self.module, self.dim, self.device_ids, self.output_device = module, dim, None, None
        self.device = named[0][1].device
        self.device_type = self.device.type
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * 1024 * 1024)
        wanting = [(n, p) for n, p in named if p.requires_grad]
        settings = {
            "bucket_cap_mb": bucket_cap_mb,
            "find_unused_parameters": find_unused_parameters,
            "static_graph": static_graph,
        }
        _check_settings(self.process_group, settings)
        if init_sync:
            _check_alike(self.process_group, wanting)
            self._send([p for _, p in named], 0)
            if first:
                self._send(self._buffers_here(), 0)
        limits = [FIRST, self.bucket_bytes_cap] if bucket_cap_mb is None else [self.bucket_bytes_cap]
        self._of = {id(p): k for k, (_, p) in enumerate(wanting)}
        self.reducer = Reducer(
            [p for _, p in wanting],
            [n for n, _ in wanting],
            self.process_group,
            limits,
            find_unused_parameters and not static_graph,
            gradient_as_bucket_view,
        )
        self.reducer.static = static_graph
        self._divides_by_all = True

    def _buffers_here(self) -> list[Tensor]:
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def _send(self, tensors: list[Tensor], source: int) -> None:
        """Give all processes what one has: tensors of a dtype together, and not counted as writes."""
        by_kind: dict[Any, list[Tensor]] = {}
        for t in tensors:
            of_kind = by_kind.setdefault((t.dtype, t.device), [])
            of_kind.append(t.detach())
        with no_grad():
            for every in by_kind.values():
                while every:
                    some, size = [every.pop(0)], 0
                    while every and (size := size + some[-1].nbytes) < _AT_ONCE:
                        some.append(every.pop(0))
                    whole = hooks.cat([t.reshape(-1) for t in some])
                    broadcast(whole, group=self.process_group, group_src=source)
                    if self.process_group.rank() != source:
                        for t, part in zip(some, whole.split([t.numel() for t in some])):
                            hooks.copy_memory(t, part.view(t.shape))

    # -- forward ------------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        syncs = state.grad and self.require_backward_grad_sync
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
            count = self.process_group.size() if self._divides_by_all else int(work.result()[0].item())
            self.reducer.divide_by = count
        else:
            self.reducer.divide_by = self.process_group.size()
        if syncs:
            self.reducer.rebuild()
        if self._join_config.enable:
            self._tell_if_synced(syncs)
        if self._will_send_buffers():
            with no_grad():
                self._send(self._buffers_here(), self._common_rank(True) if self._join_config.enable else 0)
        output = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = syncs
        if not syncs:
            self.reducer.expecting = False
            return output
        if not self.reducer.find_unused:
            self.reducer.prepare(set())
            return output
        leaves, spec = tree_flatten(output)
        self.reducer.prepare(self._unused_by(leaves))
        computed = [k for k, o in enumerate(leaves) if isinstance(o, Tensor) and o.grad_fn is not None]
        if len(computed) > 1:  # else the loss uses the one that there is
            for k, o in zip(computed, _Sink.apply(*[leaves[k] for k in computed])):
                leaves[k] = o
        return tree_unflatten(leaves, spec)

    def _unused_by(self, outputs: list[Any]) -> set[int]:
        """The parameters to which no output leads."""
        todo: list[Node] = [
            node for o in outputs if isinstance(o, Tensor) and (node := o.grad_fn) is not None
        ]
        found = set(todo)
        used = {self._of[id(o)] for o in outputs if id(o) in self._of}
        while todo:
            node = todo.pop()
            if node.rule is accumulation:
                used.add(self._of.get(id(node.static()), -1))
            for target in node.next:
                if target is not None and target not in found:
                    found.add(target)
                    todo.append(target)
        return set(self._of.values()) - used

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose forwards' gradients stay this process's own: they are added up, and sent with those of the next forward outside.

        >>> if torch.distributed.is_initialized():
        ...     net = nn.parallel.DistributedDataParallel(nn.Linear(2, 3))
        ...     with net.no_sync():
        ...         net(torch.rand(4, 2)).sum().backward()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Let `hook(state, bucket)` say what is done with a bucket of gradients: a future of the tensor that takes its place. Hooks of
        PyTorch's are in `torch.distributed.algorithms.ddp_comm_hooks.default_hooks`.

        >>> if torch.distributed.is_initialized():
        ...     net = nn.parallel.DistributedDataParallel(nn.Linear(2, 3))
        ...     hooks = torch.distributed.algorithms.ddp_comm_hooks.default_hooks
        ...     net.register_comm_hook(None, hooks.fp16_compress_hook)
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        told = inspect.signature(hook, eval_str=True)
        if told.parameters["bucket"].annotation not in (inspect.Parameter.empty, GradBucket):
            raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
        if told.return_annotation not in (inspect.Signature.empty, Future[Tensor]):
            raise ValueError(
                "Communication hook: return annotation should be torch.futures.Future[torch.Tensor]."
            )
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.hook = lambda bucket: hook(state, bucket)

    def _set_static_graph(self) -> None:
        self.static_graph = self.reducer.static = True
        self.reducer.find_unused = False

    # -- uneven inputs ------------------------------------------------------------------------------------------------

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A block in which processes may have different numbers of inputs: gradients of one that has none any more count as zeros.

        >>> if torch.distributed.is_initialized():
        ...     net = nn.parallel.DistributedDataParallel(nn.Linear(2, 3))
        ...     with net.join():
        ...         for _ in range(torch.distributed.get_rank()):
        ...             net(torch.rand(4, 2)).sum().backward()
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this process does in a `Join` when its inputs have ended.

        >>> if torch.distributed.is_initialized():
        ...     hook = nn.parallel.DistributedDataParallel(nn.Linear(2, 3)).join_hook()
        """
        self._divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _Ended(self)

    @property
    def join_device(self) -> Any:
        """The parameters' device.

        >>> if torch.distributed.is_initialized():
        ...     device = nn.parallel.DistributedDataParallel(nn.Linear(2, 3)).join_device
        """
        return self.device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The processes that train it.

        >>> if torch.distributed.is_initialized():
        ...     group = nn.parallel.DistributedDataParallel(nn.Linear(2, 3)).join_process_group
        """
        return self.process_group

    def _will_send_buffers(self) -> bool:
        return self.require_forward_param_sync and self.forward_sync_buffers and bool(self._buffers_here())

    def _tell_if_synced(self, syncs: bool) -> bool:
        """Whether any process will send gradients in this step."""
        told = hooks.tensor([1.0 if syncs else 0.0])
        all_reduce(told, group=self.process_group)
        return bool(told.item())

    def _common_rank(self, candidate: bool) -> int:
        told = hooks.tensor([self.process_group.rank() if candidate else -1])
        all_reduce(told, ReduceOp.MAX, group=self.process_group)
        return int(told.item())


class _Ended(JoinHook):
    """A process without inputs takes part in the others' steps."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        ddp = self.ddp
        # In the order in which `forward` sends.
        if ddp.require_backward_grad_sync:
            ddp.reducer.rebuild()
        syncs = ddp._tell_if_synced(False)
        if ddp._will_send_buffers():
            with no_grad():
                ddp._send(ddp._buffers_here(), ddp._common_rank(False))
        ddp.require_forward_param_sync = syncs
        if syncs:
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        ddp = self.ddp
        source = ddp._common_rank(is_last_joiner)
        ddp._send([p for n, p in ddp.module.named_parameters() if n not in ddp.parameters_to_ignore], source)
        if ddp.forward_sync_buffers:
            ddp._send(ddp._buffers_here(), source)


def _check(named: list[tuple[str, Any]], device_ids: Any, output_device: Any) -> None:
    if not any(p.requires_grad for _, p in named):
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
        )
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    kinds = {p.device.type for _, p in named}
    if len(kinds) != 1:
        raise ValueError(
            "DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate in "
            f"{kinds}."
        )
    if (device_ids or output_device) and kinds == {"cpu"}:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules "
            f"or CPU modules, but got device_ids {device_ids}, output_device {output_device}, and module parameters "
            f"{ {p.device for _, p in named} }."
        )
    if any(isinstance(p, UninitializedParameter) for _, p in named):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )


def _check_settings(group: ProcessGroup, mine: dict[str, Any]) -> None:
    """By them it is settled what is sent when: where they differ, gradients would be added to what is none of theirs."""
    every = group.comm.allgather(mine)
    for rank, theirs in enumerate(every):
        for name, value in theirs.items():
            if value != every[0][name]:
                raise RuntimeError(
                    f"DDP expects same settings across all ranks, but Rank {rank} has {name}={value}, while rank 0 has "
                    f"{name}={every[0][name]}."
                )


def _check_alike(group: ProcessGroup, named: list[tuple[str, Any]]) -> None:
    """Every process looks at what all have, so that all of them say what is wrong."""
    mine = [(n, list(p.shape), str(p.dtype)) for n, p in named]
    every = group.comm.allgather(mine)
    first = every[0]
    for rank, theirs in enumerate(every):
        if len(theirs) != len(first):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {rank} has {len(theirs)} params, while rank 0 has inconsistent "
                f"{len(first)} params."
            )
        for k, ((name, shape, dtype), (_, want, want_dtype)) in enumerate(zip(theirs, first)):
            if shape != want:
                raise RuntimeError(
                    f"[{rank}]: params[{k}] in this process with sizes {shape} appears not to match sizes of the same param in process "
                    f"0. ({name}: {want} there)"
                )
            if dtype != want_dtype:
                raise RuntimeError(
                    f"[{rank}]: params[{k}] in this process with dtype {dtype} appears not to match the dtype of the same param in "
                    f"process 0. ({name}: {want_dtype} there)"
                )


_BOTH = (
    "Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated and its value is ignored when "
    "`forward_sync_buffers` is provided."
)
_BUFFERS = (
    "`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead. IMPORTANT: unlike `broadcast_buffers=False`, "
    "`forward_sync_buffers=False` still syncs buffers at init. If you rely on buffers NOT being synced at init (e.g. rank-local "
    "buffers), keep using `broadcast_buffers=False` until `init_sync_buffers` is available."
)
