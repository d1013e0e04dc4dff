"""Reads and writes that a tensor of indices or a mask guides, by name: gather, scatter, index_select, take, masked_fill and their kin."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from nbgrad.base.tables import PLANS, Table
from nbgrad.base.warn import warn_once
from nbgrad.core.plan import number_type
from nbgrad.core.refusals import NO_VALUES
from nbgrad.core.tensor import Tensor, common
from nbgrad.dispatch.elementwise import differentiable, inplace, into, no_overlap, overlap, usually_writes
from nbgrad.dispatch.stanza import method, stanza
from nbgrad.expr import prims as p
from nbgrad.kernels import faults
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Batched, Spec
from nbgrad.ops.index.place import (
    _SCATTERED,
    GRID,
    Fault,
    Grid,
    Named,
    Numbered,
    Place,
    _as_kind,
    _gather,
    _index_add,
    _index_fill,
    _index_fill_tensor,
    _index_select,
    _kept,
    _levels,
    _masked_select,
    _own_index,
    _put_,
    _scatter_add,
    _scatter_src,
    _scatter_value,
    _take,
    by_number,
    checked,
    checking,
    counting,
    distinct,
    one_for,
    own_copy,
    warn_expanded,
    where_true,
)
from nbgrad.ops.index.planned import grid, numbered, puts, reads, vector
from nbgrad.ops.pointwise.arithmetic import remainder
from nbgrad.ops.reduce.sums import any as any_of
from nbgrad.ops.views.copy import clone, dense_copy, scalar, to_dtype, zeros
from nbgrad.ops.views.shape import expand, reshape
from nbgrad.ops.views.slices import narrow
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- an index per element: gather, scatter


def _need_tensor(name: str, argument: str, position: int, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(x).__name__}"
        )


def _grid(name: str, input: Tensor, dim: int, index: Tensor, word: str, kept: bool) -> Place:
    """The places that have `index` along `dim` and stand, along other dimensions, where their index stands."""
    _need_tensor(name, "index", 2, index)
    d = layout.wrap_dim(dim, input.ndim)
    if index.dtype not in (dtypes.int64, dtypes.int32) and index.numel():
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    shape, at = tuple(input.shape), tuple(index.shape)
    levels = _levels(index)
    every = tuple(builtins.range(len(shape)))
    if 0 in at:  # of any shape
        nowhere = zeros(input._spec.plain.like((*[v.size for v in levels], *at), dtype=dtypes.int64))
        return Place(every, [nowhere] * len(shape), at, levels, index)
    if max(len(at), 1) != max(len(shape), 1):
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {word} tensor")
    n = shape[d] if shape else 1
    found = _simple_grid(input._spec, d, index, kept)
    if found is not None:
        return found
    own = checked(_own_index(index, input, kept), n, GRID, d)
    if len(at) != len(shape) or not shape:  # one of the two has no dimension, and stands for a vector of one
        own = reshape(own, (*[v.size for v in levels], *at))
        return Place(every, [own] * len(shape), at, levels, index, GRID)
    if not levels:
        return Grid(d, own._buf, own._spec)
    indices = [own if e == d else counting(n, len(at) - e - 1, own) for e, n in enumerate(at)]
    return Place(every, indices, at, levels, index, GRID)


def _simple_grid(sp: Spec, dim: int, index: Tensor, kept: bool) -> Grid | None:
    """The place as a kernel finds it, if all indices are within bounds."""
    at = index._spec
    if type(at) is not Spec or at.dtype is not dtypes.int64 or not 0 < sp.ndim == at.ndim:
        return None
    if at.device is not sp.device:
        return None
    if not checking(at.backend, at.extent, 0, tuple.__getitem__(sp.shape, dim))(index._buf):
        return None
    return Grid(dim, own_copy(index, kept), at)


def _apart_into(name: str, out: Tensor, result: Tensor, input: Tensor, by: Tensor) -> Tensor:
    """`out=` of what reads in another order than it writes, so that the two must share no memory."""
    if isinstance(out, Tensor):
        no_overlap(out, input, by)
    return into(name, out, result, (input,))


def _sparse_gradient(g: Tensor, input_spec: Spec, dim: int, index: Tensor) -> Tensor:
    from_index = import_module(f"{__name__.partition('.')[0]}.sparse._gradients").of_places
    made: Tensor = from_index(g, dim, index, tuple(input_spec.shape))
    return made


@differentiable("Gather", input=_sparse_gradient)
def _gather_of_places(input: Tensor, *, dim: int, index: Tensor) -> Tensor:
    return gather(input, dim, index)


@reads(_gather, grid)
def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None
) -> Tensor:
    """For every element of `index` the one of `input` at the same place but along `dim`, where `index` says: for `dim` 0
    `out[i][j] = input[index[i][j]][j]`. The gradient adds up where it was read.

    >>> x = torch.tensor([[1, 2], [3, 4]])
    >>> x.gather(1, torch.tensor([[1, 1], [0, 1]]))
    tensor([[2, 2],
            [3, 4]])
    """
    d = layout.wrap_dim(dim, input.ndim)
    if isinstance(index, Tensor) and len(index.shape) == len(input.shape) and index.numel():
        for e, (a, b) in enumerate(zip(tuple(index.shape), tuple(input.shape))):
            if e != d and a > b:
                raise RuntimeError(
                    f"Size does not match at dimension {e} expected index {list(index.shape)} to "
                    "be no larger than self "
                    f"{list(input.shape)} apart from dimension {d}"
                )
    if sparse_grad and state.grad and input._rg and input.is_leaf and not state.active:
        return _gather_of_places(input, dim=d, index=index.detach().clone())
    result = _gather(input, place=_grid("gather", input, dim, index, "input", _kept(input)))
    return result if out is None else _apart_into("gather", out, result, input, index)


# The dimension along which tensors that lie so are scattered, all of the source, which has been judged.
_scatters: Table[tuple[Spec, int, Spec, Spec], int] = Table("ops.index.gather.scatters", PLANS)


def _scattered(name: str, input: Tensor, dim: int, index: Tensor, src: Any) -> tuple[Tensor, Place]:
    """What a scatter writes, as a tensor that fits the index, and where."""
    kept = _kept(input) or (isinstance(src, Tensor) and _kept(src))
    key = (
        (input._spec, dim, index._spec, src._spec)
        if isinstance(index, Tensor) and isinstance(src, Tensor)
        else None
    )
    if key is not None and dim.__class__ is int and key in _scatters:
        simple = _simple_grid(input._spec, _scatters[key], index, kept)
        if simple is not None:
            return src, simple
    d = layout.wrap_dim(dim, input.ndim)
    _need_tensor(name, "index", 2, index)
    if isinstance(src, Tensor):
        if src.dtype is not input.dtype:
            raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    elif number_type(src) is None:
        raise TypeError(f"{name}(): argument 'src' (position 3) must be Tensor, not {type(src).__name__}")
    at, shape = [tuple(t.shape) or (1,) for t in (index, input)]  # without dimensions, a vector of one
    if 0 not in at and len(at) == len(shape) and index.dtype in (dtypes.int64, dtypes.int32):
        fits = all([n <= shape[e] or e == d for e, n in enumerate(at)])
        if isinstance(src, Tensor):
            given = tuple(src.shape) or (1,)
            fits = fits and all([n <= m for n, m in zip(at, given)])
            if fits and 0 < src.ndim < len(at):
                layout.wrap_dim(len(given), src.ndim)  # raises, as what PyTorch asks next is not there
            if len(given) != len(at):
                raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
        if not fits:
            source = (
                f" and to be no larger size than src {list(src.shape)}" if isinstance(src, Tensor) else ""
            )
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart from dimension {d}{source}"
            )
    place = _grid("scatter", input, dim, index, "self", kept)
    if not isinstance(src, Tensor):
        return scalar(_as_kind(src, input), input.dtype), place
    at = tuple(index.shape)
    if type(place) is Grid and tuple(src.shape) == at and type(src._spec) is Spec and key is not None:
        _scatters.keep(key, d)
    if not index.numel() or src.ndim != len(at):
        return reshape(narrow(reshape(src, (-1,)), 0, 0, index.numel()), at), place
    for e, n in enumerate(at):
        if n != tuple(src.shape)[e]:
            src = narrow(src, e, 0, n)
    return src, place


_missing: Any = object()


def _source(name: str, src: Any, value: Any) -> Any:
    if src is _missing and value is _missing:
        raise TypeError(f'{name}() missing 1 required positional arguments: "src"')
    return value if src is _missing else src


def _scatter_op(suffix: str, reduce: str | None, src: Any) -> Any:
    if reduce is None:
        return _scatter_src if isinstance(src, Tensor) else _scatter_value
    if reduce not in _SCATTERED[suffix]:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return _SCATTERED[suffix][reduce]


def _told(result: Tensor, reduce: str | None, src: Any) -> Tensor:
    """The result, of which PyTorch warns once it is there."""
    if reduce is not None and isinstance(src, Tensor):
        warn_once(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch release. Use "
            "torch.scatter_reduce instead for more reduction options."
        )
    return result


@puts(grid, "write", False, _scatter_src, _scatter_value)
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = _missing,
    *,
    value: Any = _missing,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with the elements of `src` (or one number) written along `dim` where `index` says: the inverse of `gather`.
    `src` gets the gradient read there, `input` that of what was not written over. `reduce` may be "add" or "multiply".

    >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), torch.tensor([[5.0], [6.0]]))
    tensor([[0., 0., 5.],
            [6., 0., 0.]])
    """
    src = _source("scatter", src, value)
    op = _scatter_op("", reduce, src)
    values, place = _scattered("scatter", input, dim, index, src)
    result = _told(op(input, values, place=place), reduce, src)
    return result if out is None else into("scatter", out, result, (input, values))


@puts(grid, "write", True, _scatter_src, _scatter_value)
def scatter_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Any = _missing,
    *,
    value: Any = _missing,
    reduce: str | None = None,
) -> Tensor:
    src = _source("scatter_", src, value)
    op = _scatter_op("_", reduce, src)
    values, place = _scattered("scatter_", self, dim, index, src)
    move = {None: "write", "add": "add", "multiply": "mul"}[reduce]
    return _told(_put_(op, self, values, place, move, index), reduce, src)


@puts(grid, "add", False, _scatter_add)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with the elements of `src` added along `dim` where `index` says. `input` gets the whole gradient, `src` what
    `gather` reads of it.

    >>> torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 2]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """
    _need_tensor("scatter_add", "src", 3, src)
    src, place = _scattered("scatter_add", input, dim, index, src)
    result: Tensor = _scatter_add(input, src, place=place)
    return result if out is None else into("scatter_add", out, result, (input, src))


@puts(grid, "add", True, _scatter_add)
def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    _need_tensor("scatter_add_", "src", 3, src)
    src, place = _scattered("scatter_add_", self, dim, index, src)
    return _put_(_scatter_add, self, src, place, "add", index)


def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """As `gather`, but `input` and `indices` are spread to each other beside `dim`; without `dim` both are read as if in one row.

    >>> x = torch.tensor([[3, 1, 2]])
    >>> x.take_along_dim(x.argsort(1), dim=1)
    tensor([[1, 2, 3]])
    """
    _need_tensor("take_along_dim", "indices", 1, indices)
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)), out=out)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of "
            f"dimensions, but got {input.ndim} dimensions for "
            f"input, and {indices.ndim} dimensions for indices"
        )
    if indices.dtype is not dtypes.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.scalar_name}"
        )
    d = layout.own_dim(layout.wrap_dim(dim, input.ndim), input.ndim)
    a, b = list(input.shape), list(indices.shape)
    a[d] = b[d] = 1
    common = list(layout.broadcast_shapes(tuple(a), tuple(b)))
    n, m = tuple(input.shape)[d], tuple(indices.shape)[d]
    at, wide = indices._spec, (*common[:d], m, *common[d + 1 :])
    simple = type(at) is Spec and at.numel and at.backend.prompt
    if not simple or not checking(at.backend, at.extent, 0, n)(indices._buf):
        indices = remainder(indices, n)
    if indices._spec.shape != wide:
        indices = expand(indices, wide)
    input = expand(input, (*common[:d], n, *common[d + 1 :]))
    return gather(input, d, indices) if out is None else gather(input, d, indices, out=out)


# ---------------------------------------------------------------- an index per slice: index_select and its kin


def _vector(
    input: Tensor,
    dim: int,
    index: Tensor,
    number: int | Callable[[int], int],
    kept: bool,
    negative: bool = False,
    always: bool = False,
    once: bool = False,
) -> Place:
    """The slices that an index of at most one dimension names; of a tensor without dimensions, itself. As in PyTorch indices to slices
    without elements are looked at only where the op does so `always`. `once` leaves out what is named again. `number` says what is told
    of what names none."""
    d = layout.wrap_dim(dim, input.ndim)
    shape = tuple(input.shape) or (1,)
    at, n = index._spec, shape[d]
    fault = Fault(number if isinstance(number, int) else number(d), negative, d)
    if (
        not once
        and type(at) is Spec
        and at.dtype is dtypes.int64
        and at.contiguous
        and at.numel
        and input.ndim
        and 0 not in shape
        and at.device is input._spec.device
        and checking(at.backend, at.numel, fault.low(n), n)(index._buf)
    ):
        return Named((d,), (n,), [own_copy(index, kept)], (at.numel,), fault)
    levels = _levels(index)
    own = _own_index(index, input, kept)
    if always or 0 not in shape[:d] + shape[d + 1 :]:
        checked(own, n, fault)
    else:
        own = zeros(own._spec)
    own = reshape(own, (*[v.size for v in levels], index.numel()))
    block = tuple(own.shape)[len(levels) :]
    if not levels and input.ndim:
        named = Named((d,), (n,), [own._buf], block, fault)
        return distinct(named) if once and own.numel() else named
    if once and not levels:
        block = (min(block[0], 1),)
    dims, indices = ((d,), [own]) if input.ndim else ((), [])
    return Place(dims, indices, block, levels, index, fault)


def _need_vector(name: str, index: Any) -> None:
    _need_tensor(name, "index", 2, index)
    if index.ndim > 1:
        raise IndexError(
            f"{name}_(): Index is supposed to be a vector, but got dim: {index.ndim} with type: {index.dtype.scalar_name} and size: "
            f"{list(index.shape)}"
        )
    if index.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            f"{name}_(): Expected dtype int32/int64 for index but got: {index.dtype.scalar_name}"
        )


def _check_slices(name: str, input: Tensor, dim: int, index: Any, source: Any) -> None:
    """What index_add and index_reduce ask of a source: a slice for each index, and the input's shape else."""
    _need_vector(name, index)
    _need_tensor(name, "source", 3, source)
    d = layout.wrap_dim(dim, input.ndim)
    shape, given = list(input.shape), list(source.shape)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}_(): self ({input.dtype.scalar_name}) and source ({source.dtype.scalar_name}) must have the same scalar type"
        )
    if 0 < d >= len(given):
        raise RuntimeError(
            f"{name}_(): Indexing dim {d} is out of bounds of the source tensor with dim {len(given)}"
        )
    n = given[d] if given else 1
    if index.numel() != n:
        layout.own_dim(d, len(given))
        raise RuntimeError(
            f"{name}_(): Number of indices ({index.numel()}) should be equal to source.size(dim): ({n}), for dim: {d}"
        )
    if shape and given:
        del shape[d], given[d]
    if shape != given:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(input.shape)} source.shape = {list(source.shape)}"
        )
    check_one_device(f"{name}()", input, index, source)


def check_one_device(name: str, input: Tensor, index: Tensor, source: Tensor) -> None:
    devices = (input._spec.device, index._spec.device, source._spec.device)
    if len(set(devices)) > 1 and all(
        d.type != "cuda" for d in devices
    ):  # the backend tells what is beside a GPU
        raise RuntimeError(
            f"{name}: self, index and source expected to be in the same device, but got (self) {input.device}, (index) "
            f"{index.device}, and (source) {source.device}"
        )


def _as_vector(t: Tensor) -> Tensor:
    return t if t.ndim else reshape(t, (1,))


@reads(_index_select, partial(vector, told=lambda sp, d: faults.SLICE if d else faults.ROW))
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the slices along `dim` that `index` names, in its order. The gradient adds up where a slice was named several times.

    >>> torch.arange(6).view(3, 2).index_select(0, torch.tensor([2, 0]))
    tensor([[4, 5],
            [0, 1]])
    """
    _need_tensor("index_select", "index", 2, index)
    d = layout.wrap_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not input.ndim and index.numel() != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)"
        )
    if input.ndim > 1 and index.numel() and not input.shape[d]:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")

    # PyTorch walks the first dimension in another way than the others, and what is empty as those.
    other = d or (not input.numel() and input.ndim > 1)
    missing = faults.SLICE if other else faults.ROW
    result = _index_select(input, place=_vector(input, d, index, missing, _kept(input), always=True))
    if not input.ndim:
        result = reshape(result, ())
    return result if out is None else _apart_into("index_select", out, result, input, index)


def _added(input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> tuple[Tensor, Place]:
    _check_slices("index_add", input, dim, index, source)
    missing = faults.ELEMENT if input.ndim > 1 else faults.ROW  # which depends on how PyTorch walks
    place = _vector(input, dim, index, missing, _kept(input, source))
    source = _as_vector(source)
    if not source.dtype.inexact:
        alpha = int(alpha)  # as PyTorch cuts it
    return (source if type(alpha) is int and alpha == 1 else source * alpha), place


_added_at = partial(vector, told=lambda sp, d: faults.ELEMENT if sp.ndim > 1 else faults.ROW)
_filled_at = partial(vector, told=lambda sp, d: faults.INDEX, negative=True)


@puts(_added_at, "add", False, _index_add)
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """A copy of `input` with `alpha` times each slice of `source` added to the slice along `dim` that `index` names. `input` gets the
    whole gradient, `source` `alpha` times what `index_select` reads of it.

    >>> torch.zeros(3).index_add(0, torch.tensor([0, 2, 0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    source, place = _added(input, dim, index, source, alpha)
    result: Tensor = _index_add(input, source, place=place)
    return result if out is None else into("index_add", out, result, (input, source))


@puts(_added_at, "add", True, _index_add)
def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    source, place = _added(self, dim, index, source, alpha)
    return _put_(_index_add, self, source, place, "add", index)


def _filling(input: Tensor, dim: int, index: Tensor, value: Any) -> tuple[Tensor, Place]:
    kind = value.is_complex() if isinstance(value, Tensor) else isinstance(value, complex)
    if kind and not input.is_complex():
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    filled = _fill_value("index_fill_", input, value)
    _need_tensor("index_fill_", "index", 2, index)
    if index.dtype is not dtypes.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    # A slice that is named twice is filled once, and is one share of the value's gradient.
    place = _vector(
        input,
        dim,
        index,
        faults.INDEX,
        _kept(input, filled),
        True,
        once=_kept(filled),
    )
    return filled, place


def _fill_value(name: str, input: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"{name} only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        return to_dtype(value, input.dtype)
    if number_type(value) is None:
        raise TypeError(f"{name}(): argument 'value' (position 2) must be Number, not {type(value).__name__}")
    return scalar(_as_kind(value, input), input.dtype)


@puts(_filled_at, "write", False, None, _index_fill, False)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of `input` with `value` in the slices along `dim` that `index` names; these get no gradient.

    >>> torch.zeros(2, 3).index_fill(1, torch.tensor([0, 2]), 5)
    tensor([[5., 0., 5.],
            [5., 0., 5.]])
    """
    filled, place = _filling(input, dim, index, value)
    return (_index_fill_tensor if isinstance(value, Tensor) else _index_fill)(input, filled, place=place)


def _read_first(t: Tensor, value: Any) -> Any:
    """PyTorch reads the number with which it fills a part of `t` before it writes, so it may stand in that memory."""
    return clone(value) if isinstance(value, Tensor) and overlap(t, value) != "none" else value


@puts(_filled_at, "write", True, None, _index_fill)
def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    value = _read_first(self, value)
    filled, place = _filling(self, dim, index, value)
    return _put_(
        _index_fill_tensor if isinstance(value, Tensor) else _index_fill, self, filled, place, by=index
    )


def _numbered(input: Tensor, index: Tensor, kept: bool) -> Place:
    """The elements that have these numbers in the flattened input."""
    n, shape, block = input.numel(), tuple(input.shape), tuple(index.shape)
    own, levels, fault = _own_index(index, input, kept), _levels(index), Fault(faults.NUMBER)
    checked(own, n, fault)
    dims = tuple(builtins.range(len(shape)))
    if not levels and shape:
        return Numbered(dims, (n,), [own._buf], block, shape)
    return Place(dims, by_number(own, shape), block, levels, index, fault)


@reads(_take, numbered)
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements that `index` names, counted as if `input` lay in one row; in the shape of `index`. The gradient adds up where it
    was read.

    >>> torch.tensor([[5, 6], [7, 8]]).take(torch.tensor([3, 0]))
    tensor([8, 5])
    """
    _need_tensor("take", "index", 2, index)
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.scalar_name}")
    if not input.numel() and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    result = _take(input, place=_numbered(input, index, _kept(input)))
    return result if out is None else _apart_into("take", out, result, input, index)


# ---------------------------------------------------------------- masks


_masked = stanza(
    name="masked_fill",
    node="MaskedFillBackward0",
    method=False,
    logical=("mask",),
    fits=("value",),
    vjp=lambda g, mask: (p.where(mask, 0.0, g), p.where(mask, g, 0.0)),
)(lambda input, mask, value: p.where(mask, value, input))

_masked_by = stanza(
    name="masked_fill",
    node="MaskedFillBackward1",
    method=False,
    logical=("mask",),
    fits=("value",),
    vjp=_masked.op.rule,
    shared=False,
)(lambda input, mask, value: p.where(mask, value, input))

_masked.op.dense = _masked_by.op.dense = True

# Writing one value where a mask says: what a mask between brackets does, under the name that PyTorch gives that.
_masked_put = stanza(
    name="masked_fill",
    node="IndexPutBackward0",
    method=False,
    logical=("mask",),
    vjp=_masked.op.rule,
    shared=False,
)(lambda input, mask, value: p.where(mask, value, input))


def _masking(input: Tensor, mask: Any, value: Any, inplace: bool = False) -> tuple[Any, Any]:
    _need_tensor("masked_fill", "mask", 1, mask)
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.c_name}"
        )
    shapes = tuple(mask.shape), tuple(input.shape)
    layout.broadcast_shapes(*(reversed(shapes) if inplace else shapes))  # in the order in which they are told
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        return mask, one_for(value, input)
    if number_type(value) is None:
        raise TypeError(
            f"masked_fill(): argument 'value' (position 2) must be Number, not {type(value).__name__}"
        )
    return mask, _as_kind(value, input)


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """A copy of `input` with `value` wherever `mask` is true; there `input` gets no gradient.

    >>> x = torch.tensor([1.0, -2.0, 3.0])
    >>> x.masked_fill(x < 0, 0)
    tensor([1., 0., 3.])
    """
    mask, filled = _masking(input, mask, value)
    return (_masked_by if isinstance(value, Tensor) else _masked)(input, mask, filled)


@usually_writes(_masked.op)
def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    mask, value = _masking(self, mask, value, inplace=True)
    _fill_marked(_masked_by if isinstance(value, Tensor) else _masked, self, mask, value)
    return self


def _fill_marked(function: Any, self: Tensor, mask: Tensor, value: Any) -> None:
    """Write one value where a mask says. In an expanded tensor an element is written if any of those that show it is marked."""
    part, value = self, _read_first(self, value)
    if self._spec.repeats:
        repeated = [
            d for d, (n, s) in enumerate(zip(self._spec.shape, self._spec.strides)) if n > 1 and not s
        ]
        warn_expanded("masked_fill_", "tensor[mask] = scalar")
        mask = any_of(expand(mask, self.shape), repeated, True)
        for d in repeated:
            part = narrow(part, d, 0, 1)
    inplace(function.op, (part, mask, value))


def _marked(input: Tensor, mask: Tensor, shape: Ints) -> Place:
    """Where a mask, once it is broadcast to the shape, is true in a tensor that has it."""
    if type(mask._buf) is Batched:
        raise RuntimeError(NO_VALUES)
    if mask._spec.device is not input._spec.device:
        backend.same((input._spec.device, mask._spec.device))
    if mask._spec.shape != shape:
        mask = expand(mask, shape)
    if type(mask._spec) is not Spec or not mask._spec.contiguous:
        mask = dense_copy(mask.detach())
    return where_true(mask)


def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where `mask` is true, in one row. The gradient goes back to their places, 0 elsewhere.

    >>> x = torch.tensor([1.0, -2.0, 3.0])
    >>> x.masked_select(x > 0)
    tensor([1., 3.])
    """
    _need_tensor("masked_select", "mask", 1, mask)
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = layout.broadcast_shapes(tuple(mask.shape), tuple(input.shape))
    read = input if tuple(input.shape) == shape else expand(input, shape)
    mask = common(mask)
    if type(mask._buf) is Batched:
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch this "
            "would return a differently shaped Tensor. Please file an issue at https://github.com/pytorch/pytorch/issues if you need "
            "this feature."
        )
    if not shape:
        read, shape = reshape(read, (1,)), (1,)
    result = _masked_select(read, place=_marked(read, mask, shape))
    return result if out is None else _apart_into("masked_select", out, result, input, mask)


__all__ = [
    "gather",
    "index_add",
    "index_fill",
    "index_select",
    "masked_fill",
    "masked_select",
    "scatter",
    "scatter_add",
    "take",
    "take_along_dim",
]

for _function in (
    gather,
    index_add,
    index_add_,
    index_fill,
    index_fill_,
    index_select,
    masked_fill,
    masked_fill_,
    masked_select,
    scatter,
    scatter_,
    scatter_add,
    scatter_add_,
    take,
    take_along_dim,
):
    method(_function)
