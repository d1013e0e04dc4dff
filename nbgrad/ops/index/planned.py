"""Calls by name whose index tensors kernels take as they lie: found again by how their tensors lie, and run without a place between.

Promises the functions that it stands before that what it does not know (other dtypes and layouts, transforms, histories of what is
written to, an index that points nowhere) is left to them, so that one place refuses and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any

from nbgrad.base.tables import PLANS, Table
from nbgrad.core import arguments
from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor, empty
from nbgrad.core.writes import written
from nbgrad.dispatch.elementwise import quiet
from nbgrad.history.record import recorder
from nbgrad.kernels import faults
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes, layout
from nbgrad.memory.storage import Spec
from nbgrad.ops.index.place import (
    OUTSIDE,
    Fault,
    Grid,
    Named,
    Numbered,
    Place,
    checking,
    held_copy,
    moving,
    number_for,
    record_at,
    walking,
)
from nbgrad.ops.views.copy import clone_spec, copier
from nbgrad.tape.modes import state

Run = Callable[..., Tensor | None]  # None where the long way is due


class Way:
    """Where indices that lie so point in a tensor that lies so: `fine` says of their memory if all are within bounds, `place` makes of
    copies of so many bytes (`held`) what a graph keeps, and `out` is how what is read there lies. `move(verb, sp, other)` gives a function
    of three memories: of what lies as `other`, or is one number, of a tensor that lies as `sp`, and of the indices. Without `place` no
    graph can keep it, and what would be recorded goes the long way."""

    __slots__ = ("fine", "held", "move", "out", "place")

    def __init__(
        self,
        fine: Callable[..., bool],
        held: int,
        place: Callable[..., Place] | None,
        out: Spec,
        move: Callable[[str, Spec, Spec | None], Callable[..., None]],
    ) -> None:
        self.fine, self.held, self.place, self.out, self.move = fine, held, place, out, move


def without_dims(way: Callable[..., Way | None]) -> Callable[..., Way | None]:
    """The same way to what has no dimensions, by an index that has none: it is a line of one element."""

    def found(sp: Spec, *given: Any) -> Way | None:
        at = given[-1]
        if sp.ndim or at.ndim or type(sp) is not Spec or type(at) is not Spec:
            return way(sp, *given)
        line = way(sp.like((1,)), *given[:-1], at.like((1,)))
        if line is None:
            return None

        def move(verb: str, sp: Spec, other: Spec | None) -> Callable[..., None]:
            assert line is not None
            return line.move(verb, sp.like((1,)), None if other is None else other.like((1,)))

        return Way(line.fine, line.held, None, sp.dense(), move)

    return found


def plain(at: Spec) -> bool:
    """Whether an index that lies so can be read as it is."""
    return type(at) is Spec and at.dtype is dtypes.int64 and at.contiguous and at.numel > 0


def grid(sp: Spec, dim: int, at: Spec) -> Way | None:
    """An index for each element, along a dimension."""
    if type(sp) is not Spec or type(at) is not Spec or at.dtype is not dtypes.int64 or not at.numel:
        return None
    if not 0 < sp.ndim == at.ndim or at.device is not sp.device:
        return None
    d = layout.wrap_dim(dim, sp.ndim)
    out = sp.like(at.shape)

    def move(verb: str, sp: Spec, other: Spec | None) -> Callable[..., None]:
        other = sp.like(at.shape, (0,) * at.ndim) if other is None else other
        return moving(verb, sp, d, at, other)

    fine = checking(at.backend, at.extent, 0, tuple.__getitem__(sp.shape, d))
    return Way(fine, at.nbytes, lambda buffer: Grid(d, buffer, at), out, move)


def vector(
    sp: Spec, dim: int, at: Spec, told: Callable[[Spec, int], int], negative: bool = False
) -> Way | None:
    """An index for each slice along a dimension; `told` is the number of the fault that one is which names none."""
    if type(sp) is not Spec or not sp.numel or not sp.ndim or not plain(at) or at.ndim > 1:
        return None
    if at.device is not sp.device:
        return None
    d = layout.wrap_dim(dim, sp.ndim)
    return each(sp, (d,), at, (at.numel,), Fault(told(sp, d), negative, d))


def each(sp: Spec, dims: Sequence[int], at: Spec, block: Sequence[int], fault: Fault) -> Way:
    """An index for each of these dimensions; all lie as `at`."""
    dims, block = tuple(dims), tuple(block)
    sizes = tuple([tuple.__getitem__(sp.shape, d) for d in dims])
    judges = [checking(at.backend, at.numel, fault.low(n), n) for n in sizes]
    return Way(
        judges[0] if len(judges) == 1 else lambda *buffers: all([f(b) for f, b in zip(judges, buffers)]),
        at.nbytes,
        lambda *buffers: Named(dims, sizes, buffers, block, fault),
        Place(dims, (), block).of(sp).out,
        lambda verb, sp, other: _walking(verb, sp, dims, block, other is None, fault),
    )


def numbered(sp: Spec, at: Spec) -> Way | None:
    """The number of each element, counted as if all lay in one row."""
    if type(sp) is not Spec or not sp.contiguous or not sp.numel or not sp.ndim or not plain(at):
        return None
    if at.device is not sp.device:
        return None
    row, shape, block = sp.like((sp.numel,)), tuple(sp.shape), tuple(at.shape)
    found = each(row, (0,), at, block, Fault(faults.NUMBER))
    dims, sizes = tuple(range(sp.ndim)), (sp.numel,)
    found.place = lambda *buffers: Numbered(dims, sizes, buffers, block, shape)
    found.move = lambda verb, sp, other: _walking(verb, row, (0,), block, other is None, Fault(faults.NUMBER))
    return found


def _walking(
    verb: str, sp: Spec, dims: tuple[int, ...], block: tuple[int, ...], one: bool, fault: Fault
) -> Callable[..., None]:
    how = Place(dims, (), block).of(sp)
    move = "fill" if one and verb == "write" else verb
    return walking(move, sp, how, len(dims), how.elements < FEW, fault)


# ---------------------------------------------------------------- what is run


def _as_read(way: Way, kind: Any) -> Spec | None:
    """How what is read of a source lies; None of a number."""
    return kind.like(way.out.shape, kind.strides) if type(kind) is Spec else None


def reading(op_function: Any, way: Way, sp: Spec) -> Run:
    fine, out = way.fine, way.out
    move, place, held = way.move("read", sp, out), way.place, way.held

    def run(input: Tensor, index: Tensor) -> Tensor | None:
        if not fine(index._buf) or (place is None and input._rg and state.grad):
            return None
        made = empty(out)
        move(made._buf, input._buf, index._buf)
        if place is not None and input._rg and state.grad:
            record_at(op_function, made, input, place(held_copy(index._buf, held)))
        return made

    return run


def writing(op_function: Any, way: Way, sp: Spec, kind: Any, verb: str, dense: bool) -> Run:
    """Of a copy of the tensor, with its history; `kind` is the values' Spec or the type of a number."""
    fine, op, number, place_of = way.fine, op_function.op, type(kind) is not Spec, way.place
    to = sp.dense() if dense else clone_spec(sp)
    copy, move = copier(sp, to), way.move(verb, to, _as_read(way, kind))
    one = number_for(sp)
    apart = (
        not number and kind.shape != way.out.shape
    )  # of a larger source a view is taken, which has a history

    def run(input: Tensor, indices: Sequence[Tensor], value: Any) -> Tensor | None:
        buffers = [t._buf for t in indices]
        if not fine(*buffers):
            return None
        if number:
            value = one(value)
        if place_of is None and state.grad and (input._rg or value._rg):
            return None
        if apart and value._rg and state.grad:
            return None
        made: Tensor = copy(input)
        move(value._buf, made._buf, *buffers)
        if state.grad and (input._rg or value._rg):
            asked = input._rg | value._rg << 2
            assert place_of is not None
            place = place_of(*[held_copy(buf, way.held) for buf in buffers])
            (op.recorders.get(asked) or recorder(op, asked))(made, {"place": place}, input, value)
        return made

    return run


def writing_over(way: Way, sp: Spec, kind: Any, verb: str) -> Run:
    """Of the tensor itself, where nothing is recorded."""
    fine, number, one = way.fine, type(kind) is not Spec, number_for(sp)
    move = way.move(verb, sp, _as_read(way, kind))

    def one_index(t: Tensor, indices: Sequence[Tensor], value: Any) -> Tensor | None:
        (index,) = indices
        if not quiet(t, index, value) or not fine(index._buf):
            return None
        move(value._buf, t._buf, index._buf)
        written(t)
        return t

    def run(t: Tensor, indices: Sequence[Tensor], value: Any) -> Tensor | None:
        if len(indices) == 1 and not number:
            return one_index(t, indices, value)
        buffers = [x._buf for x in indices]
        if not (quiet(t, *indices) if number else quiet(t, *indices, value)) or not fine(*buffers):
            return None
        if number:
            value = one(value)
        move(value._buf, t._buf, *buffers)
        written(t)
        return t

    return run


def _fits(way: Way, elements: bool, source: Spec) -> bool:
    """Whether what lies so can be read as it is: by slices, or elements of which there may be more than indices."""
    if not elements:
        return source is way.out
    larger = source.ndim == way.out.ndim and all([n >= m for n, m in zip(source.shape, way.out.shape)])
    return larger and source.dtype is way.out.dtype and source.device is way.out.device


def joining(
    by: Way | None, sp: Spec, source: Spec, verb: str, elements: bool, over: bool
) -> Callable[..., Tensor | None] | None:
    """Of a copy of the tensor, or of itself, whose elements or slices join those of a source, where nothing is recorded."""
    if by is None or not _fits(by, elements, source):
        return None
    if over:
        run_over = writing_over(by, sp, source, verb)
        laps = layout.overlaps(sp.shape, sp.strides)
        return None if laps else lambda input, index, value: run_over(input, (index,), value)
    fine, to = by.fine, sp.dense()
    copy, move = copier(sp, to), by.move(verb, to, _as_read(by, source))

    def run(input: Tensor, index: Tensor, value: Tensor) -> Tensor | None:
        if not fine(index._buf):
            return None
        made: Tensor = copy(input)
        move(value._buf, made._buf, index._buf)
        return made

    return run


def _never(*_: Any) -> None:
    """The run of what the long way is always due for."""


def reads(op_function: Any, way: Callable[..., Way | None]) -> Callable[[Any], Any]:
    """Let what reads of a tensor, by an index along a dimension or by elements' numbers, be found again."""
    count = 2 if way is numbered else 3
    names = ("input", "index") if count == 2 else ("input", "dim", "index")
    way = without_dims(way)

    def shortened(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
        known: Table[Any, Run] = Table("ops.index.planned.reads", PLANS)
        find = known.get

        def short(*args: Any, **more: Any) -> Tensor:
            given = arguments.placed(names, args, more) if more else args
            if given is None or len(given) != count or not (count == 2 or given[1].__class__ is int):
                return slow(*args, **more)
            input, index = given[0], given[-1]
            try:
                key = (input._spec, given[1], index._spec) if count == 3 else (input._spec, index._spec)
            except AttributeError:
                return slow(*args, **more)
            run = find(key)
            if run is not None:
                found = run(input, index)
                return slow(*args, **more) if found is None else found
            result = slow(*args, **more)
            if type(key[0]) is type(key[-1]) is Spec:
                by = way(*key)
                known.keep(key, _never if by is None else reading(op_function, by, key[0]))
            return result

        return short

    return partial(arguments.before_guard, shortened)


def puts(
    way: Callable[..., Way | None],
    verb: str,
    over: bool,
    of_tensor: Any,
    of_number: Any = None,
    dense: bool = True,
) -> Callable[[Any], Any]:
    """The same of what puts a tensor, or a number, where an index says along a dimension: into a copy, or `over` what is there."""
    elements, way = way is grid, without_dims(way)

    def shortened(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
        known: Table[Any, Run] = Table("ops.index.planned.puts", PLANS)
        find = known.get

        def learn(sp: Spec, dim: int, at: Spec, kind: Any) -> None:
            number = type(kind) is not Spec
            op = of_number if number else of_tensor
            by = None if op is None or (over and layout.overlaps(sp.shape, sp.strides)) else way(sp, dim, at)
            fits = number or (by is not None and _fits(by, elements, kind))
            run: Run = _never
            if by is not None and fits:
                run = writing_over(by, sp, kind, verb) if over else writing(op, by, sp, kind, verb, dense)
            known.keep((sp, dim, at, kind), run)

        named, scales = (
            ["input", "dim", "index", [*signature(slow).parameters][3]],
            "alpha" in signature(slow).parameters,
        )

        def by_name(args: Any, more: dict[str, Any]) -> Any:
            """A scatter's number has a name of its own; of a multiple, which is a step before, the source may be one."""
            if scales and [*more] == ["alpha"]:
                return multiple(args, more["alpha"])
            if more.get("src").__class__ in (float, int, bool):
                at = slow.__qualname__.startswith("Tensor.")
                check(slow.__qualname__, args[at:], more)
            if "value" not in more or named[3] == "value":
                return arguments.placed(named, args, more)
            return (
                arguments.placed([*named[:3], "value"], args, more)
                if more["value"].__class__ in (float, int)
                else None
            )

        def multiple(args: Any, alpha: Any) -> Any:
            if len(args) != 4 or alpha.__class__ not in (float, int):
                return None
            source = args[3]
            return (
                (*args[:3], source * alpha) if type(source) is Tensor and source._spec.dtype.inexact else None
            )

        def short(*args: Any, **more: Any) -> Tensor:
            given = by_name(args, more) if more else args
            if given is None or len(given) != 4 or given[1].__class__ is not int:
                return slow(*args, **more)
            input, dim, index, value = given
            kind = value.__class__
            try:
                if kind is not float and kind is not int:
                    kind = value._spec
                elif more and "value" not in more and named[3] != "value" and len(args) < 4:
                    return slow(*args, **more)
                key = (input._spec, dim, index._spec, kind)
            except AttributeError:
                return slow(*args, **more)
            run = find(key)
            if run is not None:
                found = run(input, (index,), value)
                return slow(*args, **more) if found is None else found
            result = slow(*args, **more)
            if type(key[0]) is type(key[2]) is Spec and (type(kind) is Spec or type(kind) is type):
                learn(*key)
            return result

        return short

    return partial(arguments.before_guard, shortened)


def puts_at(over: bool, of_tensor: Any, adding: Any, by_number: bool = False) -> Callable[[Any], Any]:
    """The same of what puts values where index tensors say, one for each of the first dimensions, or one that has elements' numbers."""
    kinds = (Tensor,) if by_number else (tuple, list)

    def shortened(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
        known: Table[Any, Run] = Table("ops.index.planned.puts_at", PLANS)
        find = known.get

        def learn(key: tuple[Any, ...]) -> None:
            sp, kind, adds, *specs = key
            at, verb = specs[0], "add" if adds else "write"
            run: Run = _never
            by = numbered(sp, at) if by_number else named(sp, at, specs)
            if by is not None and kind is by.out and not (over and layout.overlaps(sp.shape, sp.strides)):
                if over:
                    run = writing_over(by, sp, kind, verb)
                else:
                    run = writing(adding if adds else of_tensor, by, sp, kind, verb, False)
            known.keep(key, run)

        def named(sp: Spec, at: Spec, specs: Sequence[Spec]) -> Way | None:
            alike = plain(at) and at.ndim and len(specs) <= sp.ndim and all([other is at for other in specs])
            if not alike or not sp.numel or at.device is not sp.device:
                return None
            return each(sp, range(len(specs)), at, at.shape, OUTSIDE)

        def short(*args: Any, **more: Any) -> Tensor:
            if len(args) == 3 and (not more or [*more] == ["accumulate"]):
                input, indices, values = args
                adds = more.get("accumulate", False)
            elif len(args) == 4 and not more:
                input, indices, values, adds = args
            else:
                return slow(*args, **more)
            if adds.__class__ is not bool or indices.__class__ not in kinds:
                return slow(*args, **more)
            try:
                if by_number:
                    key: Any = (input._spec, values._spec, adds, indices._spec)
                    indices = (indices,)
                elif not indices:
                    return slow(*args, **more)
                else:
                    key = (input._spec, values._spec, adds, *[x._spec for x in indices])
            except AttributeError:
                return slow(*args, **more)
            run = find(key)
            if run is not None:
                found = run(input, indices, values)
                return slow(*args, **more) if found is None else found
            result = slow(*args, **more)
            if all([type(part) is Spec for part in key if part is not adds]):
                learn(key)
            return result

        return short

    return partial(arguments.before_guard, shortened)
