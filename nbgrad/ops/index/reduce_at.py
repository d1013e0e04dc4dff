"""Reductions into places: scatter_reduce and index_reduce, whose elements meet where an index says.

Both are one op in two ways of saying where: how to read at the places, add there, and fill them. The rules are PyTorch's; they read the
index as a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nbgrad.base.records import NamedTuple
from nbgrad.base.warn import warn_once
from nbgrad.core.op import PUBLIC
from nbgrad.core.refusals import lacks_kernel, no_complex_gradient
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable, into, no_overlap
from nbgrad.dispatch.quick import Quick, quickly, replayed
from nbgrad.dispatch.stanza import method
from nbgrad.kernels import faults
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.index.gather import (
    _as_vector,
    _check_slices,
    _need_tensor,
    _scattered,
    _vector,
    gather,
    index_add,
    index_fill,
    index_select,
    masked_fill,
    scatter,
    scatter_add,
)
from nbgrad.ops.index.place import Place, _write
from nbgrad.ops.index.planned import grid, joining, vector, without_dims
from nbgrad.ops.views.copy import clone, dense_copy, full, in_place, scalar, to_dtype, zeros
from nbgrad.ops.views.shape import reshape

_MOVES = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


class _Where(NamedTuple):
    """One of the two: its name, PyTorch's name of the source, its reads and writes, each of a tensor, a dim and an index, and
    PyTorch's name of what has no tangent."""

    name: str
    source: str
    place: Callable[[Tensor, int, Tensor, Tensor], Place]
    read: Callable[..., Tensor]
    add: Callable[..., Tensor]
    fill: Callable[..., Tensor]
    unmoved: str | None = None


def _identity(reduce: str, dtype: Any) -> Any:
    """What joins anything without changing it."""
    if reduce in ("amax", "amin"):
        info = dtypes.finfo(dtype) if dtype.is_floating_point else None
        if dtype is dtypes.bool_:
            return reduce == "amin"
        if info is not None:
            return float("-inf" if reduce == "amax" else "inf")
        return dtypes.iinfo(dtype).min if reduce == "amax" else dtypes.iinfo(dtype).max
    return 1 if reduce == "prod" else 0


def _counts(like: Tensor, source: Tensor, place: Place, include_self: bool) -> Tensor:
    """How many elements meet in each place, at least one."""
    sp, ones = like._spec.dense(), source._spec.dense()
    if sp.dtype.is_complex:
        sp, ones = sp.like(dtype=sp.dtype.to_real()), ones.like(dtype=sp.dtype.to_real())
    counts = full(sp, int(include_self))
    _write(counts, full(ones, 1), place, "add")
    return counts.clamp_(min=1)


def _no_second(text: str) -> Callable[[Tensor], Tensor]:
    def refuse(g: Tensor) -> Tensor:
        raise RuntimeError(text)

    return differentiable("Error", input=refuse)(lambda input: clone(input))


def _reduction(at: _Where) -> Callable[..., Tensor]:
    refuse_second = _no_second(
        f"{at.name}(): Double backward is unsupported for {at.source} when >1 zeros in {at.source} are scattered to the same position "
        "in self"
    )

    def kept(g: Tensor, index: Tensor, dim: int, include_self: bool) -> Tensor:
        return g if include_self else at.fill(g, dim, index, 0)

    def share(g: Tensor, input: Tensor, source: Tensor, index: Tensor, dim: int, y: Tensor) -> Any:
        """Of an extreme, one part for each that is it: the part, and where the input and the source are it."""
        own = to_dtype(e.eq(input, y), g.dtype)
        theirs = to_dtype(e.eq(source, at.read(y, dim, index)), g.dtype)
        return e.div(g, at.add(own, dim, index, theirs)), own, theirs

    def to_input(
        g: Tensor,
        input: Tensor,
        source: Tensor,
        index: Tensor,
        dim: int,
        reduce: str,
        include_self: bool,
        y: Tensor,
    ) -> Tensor:
        if reduce == "mean":
            g = e.div(g, _counts(g.detach(), source, at.place(g, dim, index, source), include_self))
        elif reduce == "prod":
            filled = masked_fill(input, e.eq(input, 0), 1)
            g = e.div(
                e.mul(g, reduced(filled, source, index, dim=dim, reduce=reduce, include_self=include_self)),
                filled,
            )
        elif reduce != "sum":
            part, own, _ = share(g, input, source, index, dim, y)
            g = e.mul(own, part)
        return kept(g, index, dim, include_self)

    def to_source(
        g: Tensor,
        input: Tensor,
        source: Tensor,
        index: Tensor,
        dim: int,
        reduce: str,
        include_self: bool,
        y: Tensor,
    ) -> Tensor:
        if reduce == "mean":
            g = e.div(g, _counts(g.detach(), source, at.place(g, dim, index, source), include_self))
        elif reduce == "prod":
            zero = e.eq(source, 0)
            d = g.dtype.to_real() if g.is_complex() else g.dtype
            none = zeros(input._spec.plain.dense().like(dtype=d))
            met = at.read(at.add(none, dim, index, to_dtype(zero, d)), dim, index)
            single = e.logical_and(zero, e.eq(met, 1))
            others = reduced(
                input,
                masked_fill(source, single, 1),
                index,
                dim=dim,
                reduce=reduce,
                include_self=include_self,
            )
            quotient = e.div(at.read(e.mul(g, y), dim, index), masked_fill(source, zero, 1))
            back: Tensor = e.where(single, at.read(e.mul(g, others), dim, index), quotient)
            return refuse_second(back) if not met.is_meta and bool(e.gt(met, 1).any()) else back
        elif reduce != "sum":
            part, _, theirs = share(g, input, source, index, dim, y)
            return e.mul(theirs, at.read(part, dim, index))
        return at.read(g, dim, index)

    words = "".join(w.capitalize() for w in at.name.split("_"))

    @differentiable(words, unmoved=at.unmoved, input=to_input, source=to_source)
    def reduced(
        input: Tensor, source: Tensor, index: Tensor, *, dim: int, reduce: str, include_self: bool
    ) -> Tensor:
        place, d = at.place(input, dim, index, source), input.dtype
        out = dense_copy(input.detach())
        if not include_self:
            _write(out, scalar(_identity(reduce, d), d), place, "write")
        _write(out, source, place, _MOVES[reduce])
        if reduce == "mean":
            counts = _counts(out, source, place, include_self)
            out = e.div(out, counts) if d.inexact else e.floor_divide(out, counts)
        out._storage = None
        return out

    reduced.op.public = {**PUBLIC, "source": at.source}  # type: ignore[attr-defined]
    return reduced


# ---------------------------------------------------------------- an index for each element


def _grid(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Place:
    return _scattered("scatter_reduce", input, dim, index, source)[1]


_scatter_reduce = _reduction(_Where("scatter_reduce", "src", _grid, gather, scatter_add, scatter))


def _planned(
    input: Spec,
    dim: Any,
    index: Spec,
    src: Spec,
    reduce: Any,
    *,
    include_self: Any,
    out: Any,
    over: bool = False,
) -> Quick | None:
    verb = _MOVES.get(f"a{reduce}" if reduce in ("max", "min") else reduce)
    if out is not None or reduce == "mean" or include_self is not True or type(dim) is not int or not verb:
        return None
    return joining(without_dims(grid)(input, dim, index), input, src, verb, True, over)


@method
@quickly(_planned)
@replayed
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """As `scatter`, but what meets at one place is combined by `reduce`: "sum", "prod", "mean", "amax" or "amin", with what `input`
    has there unless `include_self` is false. The gradient is that of the reduction; equal extremes share it.

    >>> at, src = torch.tensor([0, 0, 1]), torch.tensor([1.0, 5.0, 2.0])
    >>> torch.zeros(2).scatter_reduce(0, at, src, "amax")
    tensor([5., 2.])
    """
    _need_tensor("scatter_reduce", "src", 3, src)
    no_complex_gradient("scatter_reduce", input, src)  # which the form in place has
    return _scatter_reduced(input, dim, index, src, reduce, include_self, out)


def _scatter_reduced(
    input: Tensor, dim: int, index: Tensor, src: Any, reduce: str, include_self: bool = True, out: Any = None
) -> Tensor:
    _need_tensor("scatter_reduce", "src", 3, src)
    if reduce in ("max", "min"):  # as PyTorch takes them, and says so nowhere
        reduce = f"a{reduce}"
    if reduce not in _MOVES:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    narrowed, _ = _scattered("scatter_reduce", input, dim, index, src)
    if reduce in ("amax", "amin"):
        lacks_kernel(f"scatter_gather_tensor_cpu_reduce_{reduce}", input.dtype)
    if reduce == "mean" and input.dtype is dtypes.bool_:
        raise NotImplementedError("\"scatter_gather_tensor_cpu_reduce_mean\" not implemented for 'Bool'")
    result = _scatter_reduce(input, narrowed, index, dim=dim, reduce=reduce, include_self=include_self)
    if out is None:
        return result
    no_overlap(out, index, src)
    return into("scatter_reduce", out, result, (input, src), apart=(input,))


in_place(scatter_reduce, no_overlap, _scatter_reduced, quickly(partial(_planned, over=True), False))

# ---------------------------------------------------------------- an index for each slice


def _slices(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Place:
    return _vector(input, dim, index, faults.ROW, True, always=True)


_index_reduce = _reduction(
    _Where("index_reduce", "source", _slices, index_select, index_add, index_fill, "index_reduce")
)


def _planned_slices(
    input: Spec,
    dim: Any,
    index: Spec,
    source: Spec,
    reduce: Any,
    *,
    include_self: Any,
    out: Any,
    over: bool = False,
) -> Quick | None:
    if out is not None or reduce in ("mean", "sum") or include_self is not True or reduce not in _MOVES:
        return None
    if type(dim) is not int or input.ndim < 2:
        return None
    at = vector(input, dim, index, lambda sp, d: faults.ROW, True)
    return joining(at, input, source, _MOVES[reduce], False, over)


@method
@quickly(_planned_slices)
@replayed
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """As `index_add`, but what meets at one slice is combined by `reduce`: "prod", "mean", "amax" or "amin", with what `input` has
    there unless `include_self` is false.

    >>> at, source = torch.tensor([0, 0, 1]), torch.tensor([2.0, 3.0, 4.0])
    >>> torch.ones(2).index_reduce(0, at, source, "prod")
    tensor([6., 4.])
    """
    _need_tensor("index_reduce", "source", 3, source)
    no_complex_gradient("index_reduce", input, source)  # which the form in place has
    return _index_reduced(input, dim, index, source, reduce, include_self, out)


def _index_reduced(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Any,
    reduce: str,
    include_self: bool = True,
    out: Any = None,
) -> Tensor:
    _check_slices("index_reduce", input, dim, index, source)
    if reduce not in _MOVES or reduce == "sum":
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    if input.dtype is dtypes.bool_ and (reduce == "mean" or not include_self):
        kernel = "div_floor_cpu" if include_self else "index_reduce_func_exclude_input_init"
        raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")
    if not include_self:
        lacks_kernel("index_reduce_func_exclude_input_init", input.dtype)
    if input.ndim < 2:
        lacks_kernel("index_func_", input.dtype)
    if reduce in ("amax", "amin"):
        lacks_kernel("maximum_cpu" if reduce == "amax" else "minimum_cpu", input.dtype)
    if not include_self:  # PyTorch fills the slices first
        _vector(input, dim, index, faults.INDEX, False, always=True)
    result = _index_reduce(
        _as_vector(input), _as_vector(source), index, dim=dim, reduce=reduce, include_self=include_self
    )
    warn_once("index_reduce() is in beta and the API may change at any time.")
    if not input.ndim:
        result = reshape(result, ())
    if out is None:
        return result
    no_overlap(out, index, source)
    return into("index_reduce", out, result, (input, source), apart=(input,))


in_place(index_reduce, no_overlap, _index_reduced, quickly(partial(_planned_slices, over=True), False))
__all__ = ["index_reduce", "scatter_reduce"]
