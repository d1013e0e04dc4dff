"""Reads and writes between brackets whose index tensors kernels take as they lie: what such an index comes to is worked out once.

Promises `x[...]` that all it cannot do (other dtypes, layouts that differ, transforms, an index that points nowhere) it leaves
alone, so that one place refuses and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.base.tables import PLANS, Table
from nbgrad.core.tensor import Tensor, empty
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Marked, Spec
from nbgrad.ops.index.place import Named, Place, _address, _index, checking, held_copy, record_at, where_true
from nbgrad.ops.index.place import _read as read_at
from nbgrad.tape.modes import state

Reader = Callable[[Tensor, Sequence[Tensor]], Tensor | None]
_readers: Table[tuple[Any, ...], Reader] = Table("ops.index.named.readers", PLANS)
_reader_of = _readers.get


def read(t: Tensor, index: Any) -> Tensor | None:
    """What an index tensor shows, or a tuple of such and `:`, where that was read before."""
    if index.__class__ is Tensor:
        run = _reader_of((t._spec, index._spec))
        return None if run is None else run(t, (index,))
    if index.__class__ is tuple and (given := _named(index)) is not None:
        run = _reader_of((t._spec, *given[1]))
        return None if run is None else run(t, given[0])
    return None


def learn(t: Tensor, index: Any) -> None:
    """After a read that was fine: the next one's way."""
    given = _named(index if index.__class__ is tuple else (index,))
    if given is None:
        return
    at, sp = given[1], t._spec
    dims = _simple(sp, at)
    if dims:
        _readers.keep((sp, *at), _reading(sp, dims, at[dims[0]]))
    elif len(at) == 1 and at[0] is not None and _is_mask(sp, at[0]):
        _readers.keep((sp, *at), _read_masked)


def _named(index: tuple[Any, ...]) -> tuple[list[Tensor], list[Any]] | None:
    """The tensors of a tuple that holds nothing else but `:`, and how they lie by position."""
    given: list[Tensor] = []
    at: list[Any] = []
    for x in index:
        if x.__class__ is Tensor:
            given.append(x)
            at.append(x._spec)
        elif x.__class__ is slice and x.start is None and x.stop is None and x.step is None:
            at.append(None)
        else:
            return None
    return (given, at) if given else None


def _simple(sp: Spec, specs: Sequence[Spec | None]) -> Ints:
    """The dimensions of index tensors that lie alike and contiguous; of others, and inside of transforms, none."""
    dims = tuple([d for d, at in enumerate(specs) if at is not None])
    at = specs[dims[0]]
    simple = at is not None and at.dtype is dtypes.int64 and at.ndim and at.numel and at.contiguous
    alike = all([other is None or other is at for other in specs])
    return dims if simple and alike and Marked not in (type(sp), type(at)) else ()


def _is_mask(sp: Spec, at: Spec) -> bool:
    """Whether a mask that lies so is contiguous and fits the first dimensions."""
    fits = tuple(sp.shape)[: at.ndim] == tuple(at.shape) and at.numel > 0 and at.ndim > 0
    return fits and at.dtype is dtypes.bool_ and at.contiguous and Marked not in (type(sp), type(at))


def _read_masked(input: Tensor, given: Sequence[Tensor]) -> Tensor:
    place = where_true(given[0])
    made = read_at(input, place)
    if input._rg and state.grad:
        record_at(_index, made, input, place)
    return made


def _reading(sp: Spec, dims: Ints, at: Spec) -> Reader:
    """None where an index points nowhere."""
    block = tuple(at.shape)
    sizes = tuple([tuple.__getitem__(sp.shape, d) for d in dims])
    fine = [checking(at.numel, -n, n) for n in sizes]
    how = Place(dims, (), block).of(sp)
    address = _address("read", sp, how.points, len(dims))
    launch = backend.of(sp.device).launch(3 + len(dims), "", how.elements, how.elements < FEW)
    out, meta, items, held = how.out, how.meta, how.items, at.nbytes

    def run(input: Tensor, given: Sequence[Tensor]) -> Tensor | None:
        buffers = [t._buf for t in given]
        for judge, buf in zip(fine, buffers):
            if not judge(buf):
                return None
        made = empty(out)
        launch(address, items, meta, made._buf, input._buf, *buffers)
        if input._rg and state.grad:
            kept = [held_copy(buf, held) for buf in buffers]
            record_at(_index, made, input, Named(dims, sizes, kept, block))
        return made

    return run
