"""The memory behind tensors: another size of it, and another place.

Promises that all tensors of one memory go on sharing it whatever becomes of it: memory that grows is found by every one of them, or the
call is refused. Who shares memory is asked here, at a call that is rare, and not noted where a view is made, which has to be quick.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from nbgrad.base import collector
from nbgrad.base.switches import determinism, recorded
from nbgrad.base.warn import warn
from nbgrad.core.tensor import Tensor, hooks, requires, storage_of, wrap
from nbgrad.core.writes import check_write, written
from nbgrad.dispatch.stanza import method
from nbgrad.dispatch.transforms import moves
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.storage import Batched, Spec, Storage, spec
from nbgrad.ops.views.copy import fill_memory
from nbgrad.ops.views.views import _sizes
from nbgrad.tape.modes import state

FIXED = "Trying to resize storage that is not resizable"
_one_at_a_time = threading.RLock()


# What users see of memories, by the array: one object for as long as somebody has it.
shown: WeakValueDictionary[int, Any] = WeakValueDictionary()


def is_mapped(memory: Any) -> bool:
    """Whether it is a mapping (`memory/shared.py`, which need not have been loaded)."""
    return hasattr(getattr(memory, "base", None), "mapped")


def allot(storage: Storage, nbytes: int, at_least: bool = False) -> None:
    """Give the memory of a storage another size, and the new memory to every tensor that has the old."""
    with _one_at_a_time:
        if at_least and nbytes <= len(storage.memory):
            return  # another thread was here
        tensors, records = _sharers(storage)
        serves = backend.of_memory(storage.memory)
        start = serves.address(storage.memory)
        for t in tensors:
            if t._spec.numel and serves.address(t._buf) - start + t._spec.nbytes > nbytes:
                raise RuntimeError(
                    f"a tensor of shape {list(t.shape)} reads past the first {nbytes} bytes of its storage"
                )
        _replace(storage.memory, serves.empty(nbytes), tensors, records)


def share(storages: Sequence[Storage]) -> None:
    """Lay the memory of storages where other processes can see it, with all tensors over it. An array of NumPy's keeps the old one."""
    from nbgrad.memory import shared

    with _one_at_a_time:
        wanted = {id(s.memory): s.memory for s in storages if shared.mapping_of(s.memory) is None}
        if not wanted:
            return
        tensors: dict[int, list[Tensor]] = {key: [] for key in wanted}
        records: dict[int, list[Storage]] = {key: [] for key in wanted}
        frozen = collector.thaw()  # or tensors that were made before would not be found
        # All memories at once: to look for each by itself takes 20 ms and more.
        for record in collector.alive(Storage):
            if id(getattr(record, "memory", None)) in wanted:
                records[id(record.memory)].append(record)
        for t in collector.alive(Tensor):
            kept = getattr(t, "_storage", None)
            memory = getattr(t, "_buf", None) if kept is None else kept.memory
            if id(memory) in wanted:
                tensors[id(memory)].append(t)
        if frozen:
            gc.freeze()
        import_module("nbgrad.multiprocessing")  # from here on Python's own sends tensors as handles
        for key, memory in wanted.items():
            _replace(memory, shared.empty(len(memory)), tensors[key], records[key])


def _replace(memory: Any, fresh: Any, tensors: list[Tensor], records: list[Storage]) -> None:
    serves = backend.of_memory(memory)
    start = serves.address(memory)
    at = [serves.address(t._buf) - start for t in tensors]
    serves.copy(fresh, memory, min(len(fresh), len(memory)))
    buffers = {offset: serves.view(fresh, offset) for offset in at}
    _show(memory, fresh)
    for record in records:
        record.memory = fresh
    for t, offset in zip(tensors, at):
        t._buf = buffers[offset]


def _show(memory: Any, fresh: Any) -> None:
    """What was seen of the one memory is what is seen of the other."""
    if (seen := shown.pop(id(memory), None)) is not None:
        shown[id(fresh)] = seen


def _sharers(storage: Storage) -> tuple[list[Tensor], list[Storage]]:
    """All tensors over a storage's memory and all records of it, if nothing else has it."""
    if is_mapped(storage.memory):
        raise RuntimeError(FIXED)
    tensors, records, all_known = _search(storage)
    if not all_known and not _lent(records):
        for record in list(recorded.records):
            record.forget("memory gets another size")
        gc.collect()  # a circle that nobody reaches has no share; threads that search at once leave some
        tensors, records, all_known = _search(storage)
    if not all_known or _lent(records):
        raise RuntimeError(FIXED)
    return tensors, records


def _lent(records: list[Storage]) -> bool:
    return any(getattr(r, "lent", False) for r in records)


def _search(storage: Storage) -> tuple[list[Tensor], list[Storage], bool]:
    """Python's collector knows which objects refer to which; an array of NumPy's, an exported buffer or a tensor that was not found shows
    in the number of references: then not all are known."""
    near = gc.get_referrers(storage.memory)
    records = [r for r in near if issubclass(type(r), Storage)]
    found = {id(x): x for x in (*near, *gc.get_referrers(*records)) if issubclass(type(x), Tensor)}
    del near
    tensors = [t for t in found.values() if isinstance(getattr(t, "_buf", None), backend.BUFFERS)]
    given = (storage.memory, storage.memory.base, *[t._buf for t in tensors])
    arrays = {id(b): b for b in given if isinstance(b, backend.BUFFERS)}
    del given
    known = Counter(
        [id(r.memory) for r in records]
        + [id(t._buf) for t in tensors]
        + [id(b.base) for b in arrays.values()]
    )
    if not _all_known(arrays, known):
        # An optimiser lists the buffers that it has seen, to know them again.
        lists = [x for x in gc.get_referrers(*arrays.values()) if type(x) is list]
        known.update([id(b) for x in lists for b in x])
        if not _all_known(arrays, known):
            return tensors, records, False
    return tensors, records, True


def _all_known(arrays: dict[int, Any], known: Counter[int]) -> bool:
    """Whether that many references to each array are all: but for those of `arrays` and of getrefcount's argument."""
    return all(sys.getrefcount(arrays[key]) == known[key] + 2 for key in arrays)


def _alone(t: Tensor, storage: Storage) -> bool:
    """Whether this tensor is all that has its memory, seen without a search. Counted are the buffer's places in the tensor and in its
    record, and the argument; of the array that it was made of, its own and the argument."""
    if t._buf is not storage.memory or sys.getrefcount(t._buf) != 3 or hasattr(storage, "lent"):
        return False
    if is_mapped(t._buf):
        return False
    return type(t._buf.base) is not np.ndarray or sys.getrefcount(t._buf.base) == 2


def _make_room(t: Tensor, nbytes: int) -> None:
    """See that the memory of `t` has so many bytes."""
    storage = storage_of(t)
    if nbytes <= len(storage.memory):
        return
    if _alone(t, storage):
        fresh = t._spec.backend.empty(nbytes)
        t._spec.backend.copy(fresh, t._buf, len(t._buf))
        _show(t._buf, fresh)
        t._buf = storage.memory = fresh
    else:
        allot(storage, nbytes, at_least=True)


def lay(t: Tensor, sp: Spec, start: int) -> None:
    """Let `t` read its storage as `sp`, from an element on."""
    offset = start * sp.itemsize
    _make_room(t, offset + sp.nbytes if sp.numel else 0)
    t._buf = sp.backend.view(storage_of(t).memory, offset)
    t._spec = sp


def check_sizes(shape: Sequence[int], itemsize: int) -> None:
    numel = 1
    for n in shape:
        numel *= n
        if n < 0 or numel > layout.MAX_NUMEL:
            raise RuntimeError("numel: integer multiplication overflow")
    if numel * itemsize > layout.MAX_NUMEL:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    if shape and layout.contiguous_strides(shape)[0] > layout.MAX_NUMEL:  # which may be so of no elements
        raise RuntimeError("Stride calculation overflowed")


def _resize(t: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
    """Another shape over the same memory, which grows if it must; what is new in it is not set. No count."""
    check_sizes(shape, t._spec.itemsize)
    if tuple(t._spec.shape) != shape or strides is not None:
        lay(t, t._spec.like(shape, strides), t.storage_offset())


def resize(out: Tensor, shape: Any, strides: tuple[int, ...] | None = None) -> None:
    """Give `out=` the shape (and strides) of the result; PyTorch warns unless it was empty."""
    if out._spec.numel:
        warn(
            f"An output with one or more elements was resized since it had shape {list(out._spec.shape)}, which does not match the "
            f"required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch release outputs will not be "
            "resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero "
            "elements with t.resize_(0)."
        )
    _resize(out, tuple(shape), strides)


hooks.resize = resize


@method
def resize_(self: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Give the tensor the shape `sizes` (and the `memory_format`), its memory growing if it must: elements keep their places in memory,
    new ones have no set value. Refused where the tensor requires grad.

    >>> torch.arange(4).resize_(3)
    tensor([0, 1, 2])
    """
    shape = _sizes(sizes if size is None else (size,), "resize_")
    if requires(self) and not state.modes.inference:
        raise RuntimeError("cannot resize variables that require grad")
    if state.duals and moves((self,)):
        raise RuntimeError("cannot resize variables that has a forward grad")
    if memory_format is layout.preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve")
    strides = None if memory_format is None else layout.format_strides(shape, memory_format)
    if tuple(self._spec.shape) == shape and (strides is None or self._spec.strides == strides):
        return self
    if type(self._buf) is Batched:
        raise RuntimeError("vmap: resize_ of a tensor that is mapped over is not supported")
    check_write(self, False, filled=True)
    held = len(storage_of(self).memory) if determinism.level and determinism.fills else -1
    _resize(self, shape, strides)
    if 0 <= held < len(storage_of(self).memory):
        memory, kind = storage_of(self).memory[held:], self.dtype
        fill_memory(
            wrap(memory, spec(kind, (len(memory) // kind.itemsize,), None, self.device)), dtypes.unset(kind)
        )
    written(self)
    return self


@method
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of `the_template`, and with `memory_format=torch.preserve_format` to its format.

    >>> torch.arange(4).resize_as_(torch.ones(3))
    tensor([0, 1, 2])
    """
    like = the_template._spec
    shape = tuple(like.shape)
    if memory_format is layout.preserve_format:
        memory_format = layout.suggested_format(shape, like.strides)
    return resize_(self, shape, memory_format=memory_format)


@method
def _t_resize(self: Tensor, *sizes: Any) -> Tensor:
    """Deprecated: a `view`, or a copy of another shape where the elements do not lie in order; better written so:

    >>> torch.arange(4).reshape(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    warn("non-inplace resize is deprecated")
    return _reshaped(self, _sizes(sizes, "resize"))


@method
def _t_resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Deprecated: a `view` of the shape of another tensor; better written so:

    >>> torch.arange(4).reshape_as(torch.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    warn("non-inplace resize_as is deprecated")
    return _reshaped(self, tuple(tensor.shape))


def _reshaped(t: Tensor, sizes: tuple[int, ...]) -> Tensor:
    if math.prod(sizes) != t.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, sizes))} ({math.prod(sizes)} elements in total), but the given tensor has a size of "
            f"{'x'.join(map(str, t.shape))} ({t.numel()} elements). autograd's resize can only change the shape of a given tensor, while "
            "preserving the number of elements. "
        )
    return t.contiguous().view(sizes)


__all__ = ["resize_as_"]
