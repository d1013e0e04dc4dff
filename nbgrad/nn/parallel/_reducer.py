"""Gradients of several processes become one while a backward still runs.

Promises `DistributedDataParallel` that each bucket of gradients, in the order in which they come, is sent as soon as it and those before it
are full, and that at the backward's end all gradients are the mean over the processes. Hooks on the leaves see a gradient
arrive. A small one is divided on its way into the bucket's memory; a large one is divided and sent where it is, so that its bytes are
copied neither there nor back. MPI goes on only while it is called, so between machines each hook asks it about what is under way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor, hooks, meta, wrap
from nbgrad.distributed._buckets import GradBucket
from nbgrad.distributed._collectives import all_reduce
from nbgrad.distributed._groups import ProcessGroup
from nbgrad.distributed._mpi import Work, mpi
from nbgrad.futures import Future
from nbgrad.memory import backend, layout
from nbgrad.memory.storage import Batched, Spec
from nbgrad.ops.make.filled import zeros
from nbgrad.ops.pointwise.arithmetic import mul
from nbgrad.tape.modes import state
from nbgrad.tape.node import RemovableHandle

FIRST = 1 << 20  # bytes of the first bucket, which is sent early
LARGE = 1 << 18  # bytes from which a gradient is sent by itself: a message costs less than two copies of it

_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has "
    "parameters that were not used in producing loss. You can enable unused parameter detection by passing the keyword argument "
    "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by \nmaking sure all `forward` function outputs "
    "participate in calculating loss. \nIf you already have done the above, then the distributed data parallel module wasn't able to "
    "locate the output tensors in the return value of your module's `forward` function. Please include the loss function and the "
    "structure of the return value of `forward` of your module when reporting this issue (e.g. list, dict, iterable).\nParameter "
    "indices which did not receive grad for rank {rank}: {indices}\n In addition, you can set the environment variable "
    "TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print out information about which particular parameters did not receive "
    "gradient on this rank as part of this error"
)
_TWICE = (
    "Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter "
    "outside the `forward` function. Please make sure model parameters are not shared across multiple concurrent forward-backward "
    "passes. or try to use _set_static_graph() as a workaround if this module graph does not change during training loop.2) Reused "
    "parameters in multiple reentrant backward passes. For example, if you use multiple `checkpoint` functions to wrap the same part "
    "of your model, it would result in the same set of parameters been used by different reentrant backward passes multiple times, "
    "and hence marking a variable ready multiple times. DDP does not support such use cases in default. You can try to use "
    "_set_static_graph() as a workaround if your module graph does not change over iterations."
)


class Bucket:
    """Gradients of one dtype that are sent together. Each has a place in one memory, the small ones before the large ones, of which a
    hook of communication sees all and `sent` says what is sent: that memory, or the gradient's own."""

    def __init__(self, indices: list[int], parameters: Sequence[Tensor]) -> None:
        chosen = [parameters[k] for k in indices]
        self.indices, self.parameters = indices, chosen
        self.buffer = zeros(sum(p.numel() for p in chosen), dtype=chosen[0].dtype, device=chosen[0].device)
        self.large = [p.nbytes >= LARGE for p in chosen]
        starts, start = [0] * len(chosen), 0
        for large in (False, True):
            for at, p in enumerate(chosen):
                if self.large[at] is large:
                    starts[at] = start
                    start += p.numel()
            if not large:
                self.together = self.buffer[:start]
        self.views: list[Tensor] = []
        self.places: list[Tensor] = []
        for p, start in zip(chosen, starts):
            sp = p._spec.plain
            placed = sp if layout.is_dense(sp.shape, sp.strides) else sp.dense()
            self.views.append(_part(self.buffer, start, placed))
            self.places.append(self.buffer[start : start + p.numel()])
        self.sent = list(self.places)
        self.missing = 0
        self.begun: Future[Any] | list[Work] | None = None

    def begin(self, group: ProcessGroup) -> None:
        """Send what all processes send of it, wherever it lies here."""
        todo = [sent for sent, large in zip(self.sent, self.large) if large]
        if self.together.numel():
            todo.insert(0, self.together)
        begun = [all_reduce(each, group=group, async_op=True) for each in todo]
        self.begun = [work for work in begun if work is not None]

    def is_done(self) -> bool:
        """Ask, which lets MPI go on."""
        if isinstance(self.begun, list):
            return all(work.is_completed() for work in self.begun)
        return self.begun is None or self.begun.done()

    def wait(self) -> None:
        if isinstance(self.begun, list):
            for work in self.begun:
                work.wait()
        elif self.begun is not None:
            found = self.begun.wait()
            found = found[0] if isinstance(found, list) else found
            if found is not self.buffer:
                self.buffer.copy_(found.reshape(-1))
        self.begun = None


def _part(whole: Tensor, start: int, sp: Spec) -> Tensor:
    """A tensor of its own over a part of the memory, not a view: as a gradient it has no history, and nothing of the others'."""
    buffer = sp.backend.view(whole._buf, start * sp.itemsize) if start else whole._buf
    return wrap(buffer, sp)


def assigned(parameters: Sequence[Tensor], order: Sequence[int], limits: Sequence[int]) -> list[list[int]]:
    """Numbers of parameters, by buckets: each is closed when it has as many bytes as its limit, of which the last counts for all that
    follow; each dtype has its own."""
    done: list[list[int]] = []
    open_: dict[Any, tuple[list[int], list[int]]] = {}
    passed: dict[Any, int] = {}
    for k in order:
        p = parameters[k]
        key = p.dtype, p.device
        indices, size = open_.setdefault(key, ([], [0]))
        indices.append(k)
        size[0] += p.nbytes
        if size[0] >= limits[min(passed.get(key, 0), len(limits) - 1)]:
            done.append(indices)
            del open_[key]
            passed[key] = passed.get(key, 0) + 1
    return done + [indices for indices, _ in open_.values()]


def _is_of_one_machine(group: ProcessGroup) -> bool:
    """Then the processor itself moves what is sent: asked for during the backward it takes as long, and takes the caches from it."""
    beside = group.comm.Split_type(mpi().COMM_TYPE_SHARED)
    found: bool = beside.Get_size() == group.size()
    beside.Free()
    return found


def _remove(handles: list[RemovableHandle]) -> None:
    for handle in handles:
        handle.remove()


class Reducer:
    """The gradients of some parameters, and who is to have their mean."""

    def __init__(
        self,
        parameters: list[Tensor],
        names: list[str],
        group: ProcessGroup,
        limits: Sequence[int],
        find_unused: bool,
        views: bool,
    ) -> None:
        self.parameters, self.names, self.group, self.limits = parameters, names, group, limits
        self.find_unused, self.as_views, self.static = find_unused, views, False
        self.hook: Callable[[GradBucket], Any] | None = None
        self.divide_by = group.size()
        self.asks = not _is_of_one_machine(group)
        self.expecting = False  # gradients that are to be reduced
        self.rebuilt = find_unused
        self.arrived: list[int] = []  # in the first backward, in order
        self.counts: list[int] | None = None  # of a static graph: how often each is used
        self.finished = True
        # Not on the leaves' sinks: one that somebody holds keeps its number, and so would run after all that is not a leaf.
        # They hold it weakly: a module may be wrapped anew, and its first wrapper's buckets go with it.
        here = weakref.ref(self)

        def arrive(_: Tensor, k: int) -> None:
            reducer = here()
            if reducer is not None:
                reducer._arrive(k)

        handles = [
            p.register_post_accumulate_grad_hook(partial(arrive, k=k)) for k, p in enumerate(parameters)
        ]
        weakref.finalize(self, _remove, handles).atexit = False
        self._build(list(range(len(parameters)))[::-1])
        self.nowhere: set[int] | None = None

    def _build(self, order: Sequence[int]) -> None:
        self.buckets = [Bucket(b, self.parameters) for b in assigned(self.parameters, order, self.limits)]
        self.place = {k: (b, at) for b in self.buckets for at, k in enumerate(b.indices)}

    def rebuild(self) -> None:
        """Once, after the first backward: buckets in the order in which gradients came on the first process."""
        if self.rebuilt or not self.arrived:
            return
        self.rebuilt = True
        every = list(dict.fromkeys(self.arrived))
        every += [k for k in reversed(range(len(self.parameters))) if k not in set(every)]
        self._build(self.group.comm.bcast(every, 0))

    def prepare(self, unused: set[int]) -> None:
        """A forward has been run whose backward is to be reduced; nothing will come for what is `unused`."""
        if self.expecting and not self.finished:
            missing = [k for k in range(len(self.parameters)) if k not in self.ready]
            raise RuntimeError(
                _UNFINISHED.format(rank=self.group.rank(), indices=" ".join(map(str, missing)))
            )
        self.expecting, self.finished = True, False
        self.ready: set[int] = set()
        self.seen: list[int] = [0] * len(self.parameters)
        self.next = self.done = 0  # buckets that have been begun, and those that have come back
        self.arrived = []
        self.unused = unused
        self.kept: dict[int, Tensor] = {}  # gradients of what is used by nobody, perhaps
        for bucket in self.buckets:
            bucket.missing, bucket.begun = len(bucket.indices), None
        if self.static and self.counts is not None:
            self.unused = {k for k, count in enumerate(self.counts) if count == 0}

    def _arrive(self, k: int) -> None:
        if not self.expecting:
            return
        with no_grad():
            if self.static and self.counts is None:
                self.seen[k] += 1
                if sum(self.seen) == 1 and state.task is not None:
                    state.task.call_at_end(self._first_of_static)
                return
            if self.unused:
                for other in sorted(self.unused - self.ready):
                    self._mark(other)
            self.seen[k] += 1
            if self.static and self.counts is not None and self.seen[k] < self.counts[k]:
                return
            self._mark(k)

    def _first_of_static(self) -> None:
        self.counts = list(self.seen)
        self.unused = {k for k, count in enumerate(self.counts) if count == 0}
        with no_grad():
            for k in reversed(range(len(self.parameters))):
                self._mark(k)

    def _mark(self, k: int) -> None:
        if k in self.ready:
            name = self.names[k]
            raise RuntimeError(
                f"{_TWICE}\nParameter at index {k} with name {name} has been marked as ready twice. This means that multiple autograd "
                "engine  hooks have fired for this particular parameter during this iteration."
            )
        self.ready.add(k)
        self.arrived.append(k)
        bucket, at = self.place[k]
        self._fill(bucket, at)
        bucket.missing -= 1
        while self.asks and self.done < self.next and self.buckets[self.done].is_done():
            self.done += 1
        while self.next < len(self.buckets) and not self.buckets[self.next].missing:
            self._begin(self.buckets[self.next], self.next)
            self.next += 1
            if self.next == len(self.buckets):
                if state.task is None:
                    self._finish()
                else:
                    state.task.call_at_end(self._finish)

    def _fill(self, bucket: Bucket, at: int) -> None:
        """A gradient goes into its bucket, divided if nobody else divides it."""
        view, parameter = bucket.views[at], bucket.parameters[at]
        grad = meta(parameter).grad
        share = 1.0 if self.hook is not None else 1.0 / self.divide_by
        bucket.sent[at] = bucket.places[at]
        if grad is None:
            view.zero_()
        elif self.as_views and grad._buf is view._buf:
            if bucket.indices[at] in self.unused:
                self.kept[bucket.indices[at]] = view.clone()
            if share != 1:
                grad.mul_(share)
        elif bucket.large[at] and self._stays(bucket.indices[at], grad, view):
            grad = grad.detach()
            if share != 1:
                grad.mul_(share)
            bucket.sent[at] = grad
        else:
            if share != 1 and grad.dtype is view.dtype:
                mul(grad.detach(), share, out=view)
            else:
                view.copy_(grad.detach())
            if self.as_views:
                meta(parameter).grad = view

    def _stays(self, k: int, grad: Tensor, view: Tensor) -> bool:
        """Whether a gradient can be sent where it is: it lies as its place does, and nobody's hook is to see it before the end."""
        sp = grad._spec
        watchers = meta(self.parameters[k]).post_hooks
        return (
            self.hook is None
            and k not in self.unused
            and sp.contiguous
            and sp.dtype is view.dtype
            and sp.backend is backend.cpu
            and type(grad._buf) is not Batched
            and (watchers is None or len(watchers) == 1)
        )

    def _begin(self, bucket: Bucket, index: int) -> None:
        if self.hook is None:
            bucket.begin(self.group)
            return
        told = GradBucket(
            index, bucket.buffer, bucket.views, bucket.parameters, index == len(self.buckets) - 1
        )
        bucket.begun = self.hook(told)
        if not isinstance(bucket.begun, Future):
            kind = type(bucket.begun)
            raise RuntimeError(
                f"Unable to cast Python instance of type {kind} to C++ type '?' (#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in "
                "debug mode for details). DDP communication hook's callback must return a torch.futures.Future object, but got "
                f"{kind.__module__.split('.')[0].replace('nbgrad', 'torch')}.{kind.__name__}"
            )

    def _finish(self) -> None:
        """Wait for what is under way, and give the leaves their gradients."""
        with no_grad():
            nowhere = self._used_nowhere(
                [0.0 if k in self.unused else 1.0 for k in range(len(self.parameters))]
            )
            for bucket in self.buckets:
                bucket.wait()
                for at, k in enumerate(bucket.indices):
                    if bucket.sent[at] is bucket.places[at]:
                        self._give(k, bucket.views[at], bucket.parameters[at], nowhere)
                    else:
                        bucket.sent[at] = bucket.places[at]  # nothing of a gradient is held
        self.finished, self.expecting = True, False

    def _used_nowhere(self, here: list[float]) -> set[int]:
        """The parameters that no process has used: asked of all in each backward, but of a static graph in its first alone."""
        if self.find_unused or (self.static and self.nowhere is None):
            used = hooks.tensor(here)
            all_reduce(used, group=self.group)
            self.nowhere = {k for k, n in enumerate(used.tolist()) if n == 0}
        return self.nowhere or set()

    def _give(self, k: int, view: Tensor, parameter: Tensor, nowhere: set[int]) -> None:
        ad = meta(parameter)
        if k in nowhere:  # used by none: what was there before stays
            if k in self.kept:
                view.copy_(self.kept[k])
            return
        if self.as_views:
            ad.grad = view
        elif ad.grad is None:
            ad.grad = view.clone()
        else:
            ad.grad.detach().copy_(view)

    def shadow(self) -> None:
        """What the others' backward sends, from a process that has no more inputs: zeros. It gets their mean, for an optimiser of which it
        has a share."""
        with no_grad():
            self.prepare(set(range(len(self.parameters))))
            for bucket in self.buckets:
                bucket.buffer.zero_()
            for index, bucket in enumerate(self.buckets):
                self._begin(bucket, index)
            nowhere = self._used_nowhere([0.0] * len(self.parameters))
            for bucket in self.buckets:
                bucket.wait()
                for k, view, parameter in zip(bucket.indices, bucket.views, bucket.parameters):
                    self._give(k, view, parameter, nowhere)
            self.arrived = self.arrived or list(range(len(self.parameters)))[::-1]
            self.finished, self.expecting = True, False
