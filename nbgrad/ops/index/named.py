"""Reads and writes between brackets whose index tensors kernels take as they lie: what such an index comes to is worked out once.

Promises `x[...]` that all it cannot do (other dtypes, layouts that differ, transforms, an index that points nowhere) it leaves
alone, so that one place refuses and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.base.tables import PLANS, Table, cached
from nbgrad.core.tensor import Tensor, empty, requires, storage_of, wrap
from nbgrad.core.writes import check_write, written
from nbgrad.dispatch.elementwise import inplace, meets, quiet
from nbgrad.dispatch.look import Look, one
from nbgrad.dispatch.look import learn as seen
from nbgrad.history.record import written_by
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Marked, Spec, spec
from nbgrad.ops.index.gather import _masked_put, _read_first
from nbgrad.ops.index.place import (
    OUTSIDE,
    Named,
    Place,
    _as_kind,
    _index,
    _index_put,
    checking,
    held_copy,
    number_for,
    record_at,
    walking,
    where_true,
)
from nbgrad.ops.index.place import _read as read_at
from nbgrad.ops.index.place import _write as write_at
from nbgrad.ops.views.copy import copier, scalar
from nbgrad.ops.views.shape import reshape
from nbgrad.tape.modes import shared, state

# Of a tensor (or a view of it), the index tensors, and of a writer what is written and whether nothing need be recorded. None and False
# where the long way is due.
Reader = Callable[[Tensor, Sequence[Tensor]], Tensor | None]
_readers: Table[tuple[Any, ...], Reader] = Table("ops.index.named.readers", PLANS)
_reader_of = _readers.get


Writer = Callable[[Tensor, Sequence[Tensor], Any, bool], bool]
_writers: Table[tuple[Any, ...], Writer] = Table("ops.index.named.writers", PLANS)
_writer_of = _writers.get


def read(t: Tensor, index: Any) -> Tensor | None:
    """What an index tensor shows, or a tuple of such and basic indices, where that was read before."""
    if index.__class__ is Tensor:
        run = _reader_of((t._spec, index._spec)) if index._spec.ndim else None
        return None if run is None else run(t, (index,))
    given = _named(index)
    if given is None:
        return None
    run = _reader_of((t._spec, *given[1]))
    return None if run is None else run(t, given[0])


def write(t: Tensor, index: Any, value: Any) -> bool:
    """Write where index tensors point, or where a mask is true, if that is known to be usual; whether it was."""
    if index.__class__ is Tensor:
        tensors: Sequence[Tensor] = (index,)
        run = _writer_of((t._spec, index._spec))
    else:
        given = _named(index)
        if given is None:
            return False
        tensors = given[0]
        run = _writer_of((t._spec, *given[1]))
    if run is None:
        return False
    if run.__class__ is _Filling and not (isinstance(value, Tensor) and value._spec.ndim):
        return run(t, tensors, value, True)  # which sees to the rest itself
    if quiet(t, *tensors, value) if isinstance(value, Tensor) else quiet(t, *tensors):
        return run(t, tensors, value, True)
    storage = t._storage
    if state.active or shared.rare or (storage is not None and storage.inference):
        return False
    if any([meets(t, x) for x in tensors]) or (isinstance(value, Tensor) and meets(t, value)):
        return False
    return run(t, tensors, value, False)


def learn(t: Tensor, index: Any, shown: Tensor, rest: Sequence[Tensor | None], written: bool = False) -> None:
    """After a call that was fine, of an index whose basic part gives a view, `shown`, which the `rest` is the index of: the next one's
    way."""
    index = index if index.__class__ is tuple else (index,)
    given = _named(index)
    tensors = [x for x in rest if x is not None]
    if given is None or len(tensors) != len(given[0]) or not all([a is b for a, b in zip(tensors, given[0])]):
        return
    look = None
    if shown is not t:
        if not t._spec.numel or type(t._spec) is Marked or max(t._spec.shape) >= LONGEST:
            return
        basic = tuple(
            [x for one in index for x in ((_WHOLE,) * _covers(one) if one.__class__ is Tensor else (one,))]
        )
        look = seen(t, lambda leaf: leaf[basic])
        if look is None or look[0] is not shown._spec:
            return
    sp, at = shown._spec, [None if x is None else x._spec for x in rest]
    if written and layout.overlaps(sp.shape, sp.strides):
        return
    make, table = (_writing, _writers) if written else (_reading, _readers)
    specs = [x._spec for x in tensors]
    run: Any = None
    if dims := _simple(sp, at):
        run = make(sp, dims, specs[0])
    elif len(specs) == 1 and _is_mask(sp, specs[0], len(at) - 1):
        run = _Filling(len(at) - 1) if written else _read_masked(len(at) - 1)
    elif (block := _common(sp, at)) is not None:
        dims = tuple([d for d, x in enumerate(at) if x is not None])
        run = _as_one(make(sp, dims, block), specs, block)
    if run is not None:
        table.keep((t._spec, *given[1]), run if look is None else _through(look, run))


def _through(look: Look, run: Any) -> Any:
    """The same of the view that basic indices show."""
    sp, byte = look[:2]
    part = sp.backend.view

    def of_view(t: Tensor, given: Sequence[Tensor], *value: Any) -> Any:
        """Read, where nothing is `value`, or written, of which the last says if it is quiet."""
        if not value[-1] if value else t._rg and state.grad:
            view = one(t, look)
            return view is not None and run(view, given, *value)
        view = wrap(part(t._buf, byte) if byte else t._buf, sp)
        if value:
            view._storage = storage_of(t)
        return run(view, given, *value)

    return of_view


def place(t: Tensor, indices: Sequence[Tensor | None], kept: bool) -> Place | None:
    """The place that these tensors name, if kernels can take them as they lie, and all is well."""
    sp, at = t._spec, [None if x is None else x._spec for x in indices]
    dims = _simple(sp, at)
    if dims:
        given = [x for x in indices if x is not None]
        first, sizes = given[0]._spec, tuple([tuple.__getitem__(sp.shape, d) for d in dims])
        for n, x in zip(sizes, given):
            if not checking(first.backend, first.numel, -n, n)(x._buf):
                return None
        buffers = [held_copy(x._buf, first.nbytes) if kept or meets(t, x) else x._buf for x in given]
        return Named(dims, sizes, buffers, tuple(first.shape), OUTSIDE)
    *before, mask = indices
    if mask is None or before.count(None) < len(before) or not _is_mask(sp, mask._spec, len(before)):
        return None
    return where_true(mask, len(before))


_WHOLE = slice(None)
# What stands for the end of a dimension while an index is looked up: `slice.indices` makes a key of a slice in one call, in which -1 and
# this less 1 are the same. So it is a number that no program has, and above the size of any dimension that has a plan.
END = 0x2B7E151628AED2A6
LONGEST = 1 << 60


def _named(index: tuple[Any, ...]) -> tuple[list[Tensor], list[Any]] | None:
    """The tensors of a tuple that holds such and basic indices, and by position how they lie, or what is known of the others."""
    given: list[Tensor] = []
    at: list[Any] = []
    for x in index:
        kind = x.__class__
        if kind is Tensor:
            if not x._spec.ndim:
                return None  # a number
            given.append(x)
            at.append(x._spec)
        elif kind is slice:
            if x.start is None and x.stop is None and x.step is None:
                at.append(None)
            else:
                try:
                    at.append(x.indices(END))
                except (TypeError, ValueError):
                    return None
        elif kind is int or x is ...:
            at.append(x)
        elif x is None:
            at.append(_NEW)
        else:
            return None
    return (given, at) if given else None


_NEW = ()  # a dimension


def _covers(x: Tensor) -> int:
    """How many dimensions an index tensor is for."""
    return x._spec.ndim if x._spec.dtype is dtypes.bool_ else 1


def _simple(sp: Spec, specs: Sequence[Spec | None]) -> Ints:
    """The dimensions of index tensors that lie alike and contiguous; of others, and inside of transforms, none."""
    dims = tuple([d for d, at in enumerate(specs) if at is not None])
    if dims[-1] >= sp.ndim:
        return ()
    at = specs[dims[0]]
    simple = at is not None and at.dtype is dtypes.int64 and at.ndim and at.numel and at.contiguous
    alike = all([other is None or other is at for other in specs])
    near = at is not None and at.device is sp.device
    return dims if simple and alike and near and Marked not in (type(sp), type(at)) else ()


def _common(sp: Spec, specs: Sequence[Spec | None]) -> Spec | None:
    """How index tensors that lie otherwise would lie in common, if they may be copied to lie so."""
    given = [at for at in specs if at is not None]
    if len(specs) > sp.ndim or type(sp) is Marked:
        return None
    if not all([type(at) is Spec and at.ndim and at.numel and at.dtype in _INTS for at in given]):
        return None
    if any([at.device is not sp.device for at in given]):
        return None
    return spec(dtypes.int64, tuple(layout.broadcast_shapes(*[at.shape for at in given])), None, sp.device)


_INTS = (dtypes.int64, dtypes.int32)


def _as_one(run: Any, specs: Sequence[Spec], block: Spec) -> Any:
    """What runs on index tensors once they are copied to lie in common."""
    copies = [
        None if at is block else copier(at.like(*layout.expand(at.shape, at.strides, block.shape)), block)
        for at in specs
    ]

    def copied(t: Tensor, given: Sequence[Tensor], *value: Any) -> Any:
        return run(t, [x if copy is None else copy(x) for copy, x in zip(copies, given)], *value)

    return copied


def _is_mask(sp: Spec, at: Spec, dim: int) -> bool:
    """Whether a mask that lies so is contiguous and fits the dimensions from one on."""
    fits = tuple(sp.shape)[dim : dim + at.ndim] == tuple(at.shape) and at.numel > 0 and at.ndim > 0
    simple = at.contiguous and at.device is sp.device and Marked not in (type(sp), type(at))
    return fits and at.dtype is dtypes.bool_ and simple


def _read_masked(dim: int) -> Reader:
    def run(input: Tensor, given: Sequence[Tensor]) -> Tensor:
        place = where_true(given[0], dim)
        made = read_at(input, place)
        if input._rg and state.grad:
            record_at(_index, made, input, place)
        return made

    return run


def _reading(sp: Spec, dims: Ints, at: Spec) -> Reader:
    """None where an index points nowhere."""
    block = tuple(at.shape)
    sizes = tuple([tuple.__getitem__(sp.shape, d) for d in dims])
    fine = [checking(at.backend, at.numel, -n, n) for n in sizes]
    how = Place(dims, (), block).of(sp)
    move = walking("read", sp, how, len(dims), how.elements < FEW, OUTSIDE)
    out, held = how.out, at.nbytes

    def run(input: Tensor, given: Sequence[Tensor]) -> Tensor | None:
        buffers = [t._buf for t in given]
        for judge, buf in zip(fine, buffers):
            if not judge(buf):
                return None
        made = empty(out)
        move(made._buf, input._buf, *buffers)
        if input._rg and state.grad:
            kept = [held_copy(buf, held) for buf in buffers]
            record_at(_index, made, input, Named(dims, sizes, kept, block, OUTSIDE))
        return made

    return run


def _writing(sp: Spec, dims: Ints, at: Spec) -> Writer:
    """Of a number, or of values that lie as what is read there does, or can be spread to that."""
    block, sizes = tuple(at.shape), tuple([tuple.__getitem__(sp.shape, d) for d in dims])
    fine = [checking(at.backend, at.numel, -n, n) for n in sizes]
    how = Place(dims, (), block).of(sp)
    quick, out, one_of, held = how.elements < FEW, how.out, number_for(sp), at.nbytes
    moves = [walking(move, sp, how, len(dims), quick, OUTSIDE) for move in ("write", "fill")]

    def run(t: Tensor, given: Sequence[Tensor], value: Any, quiet: bool) -> bool:
        number, wide = not isinstance(value, Tensor), None
        if number:
            value = one_of(value)
        elif value._spec is not out:
            wide = spreading(value._spec, out)
            if wide is None:
                return False
        buffers = [x._buf for x in given]
        for judge, buf in zip(fine, buffers):
            if not judge(buf):
                return False
        if not quiet:
            check_write(t, state.grad and (requires(t) or requires(value)))
        values = value if wide is None else wide(value)
        moves[number](values._buf, t._buf, *buffers)
        if quiet:
            written(t)
        else:
            kept = [held_copy(buf, held) for buf in buffers]
            written_by(t, _index_put.op, (t, value), {"place": Named(dims, sizes, kept, block, OUTSIDE)})  # type: ignore[attr-defined]
        return True

    return run


@cached(PLANS)
def spread(sp: Spec, out: Spec) -> Spec | None:
    """How values that lie so are read for all places that they are for, if they fit."""
    if type(sp) is Marked or sp.device is not out.device or sp.ndim > out.ndim:
        return None
    if any([n not in (1, m) for n, m in zip(sp.shape[::-1], out.shape[::-1])]):
        return None
    return sp.like(*layout.expand(sp.shape, sp.strides, out.shape))


@cached(PLANS)
def spreading(sp: Spec, out: Spec) -> Callable[[Tensor], Tensor] | None:
    """What copies values of that dtype which lie so to all places."""
    wide = spread(sp, out) if sp.dtype is out.dtype else None
    return None if wide is None else copier(wide, out)


class _Filling:
    """Where a mask of the dimensions from one on is true: with a number, or a tensor that holds one of the same dtype; or with as many
    values as there are marked."""

    __slots__ = ("dim",)

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __call__(self, t: Tensor, given: Sequence[Tensor], value: Any, quiet: bool) -> bool:
        sp, kind = t._spec, value.__class__
        if kind is Tensor:
            if type(value._spec) is not Spec or value._spec.dtype is not sp.dtype:
                return False
            if value._spec.ndim:
                return _put_masked(t, given[0], self.dim, value, quiet)
            value = _read_first(t, value)
        elif kind is not int and kind is not float:
            return False
        elif (
            not t._rg and -128 * sp.dtype.is_signed <= value <= 127 and value == int(value)
        ):  # which it holds
            value = _as_kind(value, t)
        else:
            value = scalar(_as_kind(value, t), sp.dtype)
        (mask,) = given
        behind = sp.ndim - self.dim - mask._spec.ndim
        mask = reshape(mask, (*mask._spec.shape, *(1,) * behind)) if behind else mask
        inplace(_masked_put.op, (t, mask, value))
        return True


def _put_masked(t: Tensor, mask: Tensor, dim: int, value: Tensor, quiet: bool) -> bool:
    if value._spec.numel == 1:  # which fills
        return False
    place = where_true(mask, dim)
    out = place.of(t._spec).out
    if value._spec is not out and spreading(value._spec, out) is None:
        return False
    if not quiet:
        check_write(t, state.grad and (requires(t) or requires(value)))
    write_at(t, value, place, "write")
    if quiet:
        written(t)
    else:
        written_by(t, _index_put.op, (t, value), {"place": place})  # type: ignore[attr-defined]
    return True
