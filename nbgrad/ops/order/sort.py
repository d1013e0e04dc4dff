"""Order: sorting, ranks and what is asked of sorted values.

Everything rests on one kernel, which gives the elements of some ranks along a dimension with their places. A gradient goes back
to the places that values came from. Equal elements of lines that are not long stand where PyTorch's sorts leave them; others, and those
on a device, keep their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nbgrad.base.tables import PLANS, cached
from nbgrad.base.warn import warn_once
from nbgrad.core.arguments import unset
from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.elementwise import differentiable, into, no_overlap, undifferentiable
from nbgrad.dispatch.prepared import Run, call_of, prepared, settled
from nbgrad.dispatch.quick import Quick, quickly, replayed
from nbgrad.dispatch.return_types import EXPECTED, maker, results
from nbgrad.dispatch.stanza import method, method_alone, stanza
from nbgrad.expr import prims as p
from nbgrad.kernels.cpu import sort as templates
from nbgrad.kernels.cpu import ties
from nbgrad.kernels.cuda import sort as device
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.index.gather import gather, scatter_add
from nbgrad.ops.pointwise.choices import lerp_body
from nbgrad.ops.reduce.extremes import share_among
from nbgrad.ops.reduce.walk import Walk, as_lines, still, walk, without
from nbgrad.ops.views.copy import clone, contiguous, full, to_dtype, zeros
from nbgrad.ops.views.order import transpose
from nbgrad.ops.views.shape import reshape, squeeze, unsqueeze

_bytes = np.dtype(np.uint8)


def ranks(
    sp: Spec,
    dim: int,
    descending: bool = False,
    first: int = 0,
    count: int = -1,
    which: str = "given",
    keepdim: bool = True,
    placed: bool = True,
    way: str = "",
) -> Run:
    """What finds the elements of `count` ranks along `dim`, in order, and their places (if `placed`); of one rank also without the
    dimension. Equal ones keep their order, or stand as a way of PyTorch's leaves them (`ties.py`)."""
    shape = tuple(sp.shape) or (1,)
    if count < 0:  # all of them, which lie as the input does
        count, values = (
            shape[dim],
            sp.like(strides=layout.kept_strides(sp.shape, sp.strides)),
        )
    else:
        wanted = (*shape[:dim], count, *shape[dim + 1 :]) if sp.ndim else ()
        values = spec(sp.dtype, wanted, None, sp.device)
    places = values.like(dtype=dtypes.int64)
    how = walk(shape, dim, (values.strides or (1,), sp.strides or (1,)), wide=1, few=1)
    code = sp.dtype.code
    if sp.device.type == "cuda" and values.numel:
        outs = (values, places) if keepdim or not sp.ndim else (without(values, dim), without(places, dim))
        by_tiles = _by_tiles(sp, how, code, descending, which, outs, first, count)
        return by_tiles if placed else lambda t: by_tiles(t)[0]
    serves = sp.backend
    way = way if serves is backend.cpu and ties.is_followed(way, shape[dim], count) else ""
    if way in ("", "sort"):
        source, signature = templates.ranks(code, descending, which, way == "sort")
    else:
        source, signature = ties.ranks(code, descending, way)
    name = f"ranks_{code}_{'descending' if descending else 'ascending'}_{way or which}"
    scratch = len(signature) - 8
    address = serves.kernel(name, source, signature).address
    items = how.items if values.numel else 0
    launch = serves.launch(4 + scratch, "qq", 16 * sp.numel if items > 1 else items, sp.numel < FEW)

    if not keepdim and sp.ndim:
        values, places = without(values, dim), without(places, dim)
    room, meta, allocate = 8 * sp.numel, serves.constants(how.meta), sp.allocate
    long = shape[dim] > templates.SHORT  # sorted by digits, from one buffer to the other and back
    both = long or bool(way)

    def rank(t: Tensor) -> tuple[Tensor, Tensor]:
        value, place, a = empty(values), empty(places), allocate(room, _bytes)
        b = allocate(room, _bytes) if both else a
        if scratch == 2:
            launch(address, items, meta, value._buf, place._buf, a, b, t._buf, first, count)
            return value, place
        came = allocate(room, _bytes)
        other = allocate(room, _bytes) if both else came
        launch(address, items, meta, value._buf, place._buf, a, b, came, other, t._buf, first, count)
        return value, place

    if scratch != 2 or long or sp.numel >= FEW:
        return rank if placed else lambda t: rank(t)[0]
    # Python's lock is kept over a launch of few, so such launches can share what they work in.
    kept, apart, spare = allocate(room, _bytes), allocate(room, _bytes), allocate(places.nbytes, _bytes)

    def rank_few(t: Tensor) -> tuple[Tensor, Tensor]:
        value, place = empty(values), empty(places)
        launch(address, items, meta, value._buf, place._buf, kept, apart, t._buf, first, count)
        return value, place

    def values_of_few(t: Tensor) -> Tensor:
        value = empty(values)
        launch(address, items, meta, value._buf, spare, kept, apart, t._buf, first, count)
        return value

    return rank_few if placed else values_of_few


def _by_tiles(
    sp: Spec,
    how: Walk,
    code: str,
    descending: bool,
    which: str,
    outs: tuple[Spec, Spec],
    first: int,
    count: int,
) -> Run:
    """On a device: tiles of each line are put in order, and merged where they are several."""
    values, places = outs
    n, lines, serves = how.meta[1], how.items, sp.backend
    per = -(-n // device.TILE)
    levels = (min(n, device.TILE) - 1).bit_length()
    segments, wide = lines * per, code[1] == "8"
    blocks, short = -(-segments >> (device.TILE.bit_length() - 1 - levels)), per == 1
    way = f"{code}_{'descending' if descending else 'ascending'}"
    text = device.tiles(code, descending, which if short else "given", short)
    tiles = serves.kernel(f"tiles_{way}_{which}" if short else f"tiles_{way}_long", *text).address
    meta = serves.constants(how.meta)
    if short:
        sort_lines = serves.launch(4, "qqqqq", max(sp.numel, 2))

        def ranked_lines(t: Tensor) -> tuple[Tensor, Tensor]:
            value, place = empty(values), empty(places)
            sort_lines(
                tiles, blocks, meta, value._buf, place._buf, t._buf, levels, segments, per, first, count
            )
            return value, place

        return ranked_lines
    merging = serves.kernel(f"merged_{'pairs' if wide else 'keys'}", *device.merged(wide)).address
    ranking = serves.kernel(f"ranked_{code}_{which}", *device.ranked(code, which)).address
    scratch = 1 + wide
    sort_tiles = serves.launch(2 + scratch, "qqqqq", sp.numel)
    merge, rank = (
        serves.launch(2 * scratch, "qq", sp.numel),
        serves.launch(4 + scratch, "qq", lines * count + 1),
    )
    room, allocate = 8 * lines * n, sp.allocate

    def ranked(t: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ([allocate(room, _bytes) for _ in range(scratch)] for _ in range(2))
        sort_tiles(tiles, blocks, meta, *a, t._buf, levels, segments, per, first, count)
        run = device.TILE
        while run < n:
            merge(merging, lines * n, *b, *a, n, run)
            a, b, run = b, a, 2 * run
        value, place = empty(values), empty(places)
        rank(ranking, lines * count, meta, value._buf, place._buf, *a, t._buf, first, count)
        return value, place

    return ranked


def _to_places(g: Any, y1: Tensor, input_spec: Spec, dim: int) -> Tensor:
    """Each value's gradient goes to the place that it came from."""
    return scatter_add(zeros(input_spec.dense()), dim, y1, g[0]) if input_spec.ndim else g[0]


def _to_place(g: Any, y1: Tensor, input_spec: Spec, dim: int, keepdim: bool) -> Tensor:
    """The same for one value of each line."""
    if keepdim or not input_spec.ndim:
        return _to_places(g, y1, input_spec, dim)
    return _to_places((unsqueeze(g[0], dim),), unsqueeze(y1, dim), input_spec, dim)


_MEDIAN_OUT = (
    "Expected tensor for 'values' to have the same type as tensor for argument #2 'self'; but type torch.{got}Tensor does not equal "
    "torch.{want}Tensor (while checking arguments for median)",
    "Expected tensor for argument #1 'indices' to have scalar type {want}; but got torch.{got}Tensor instead (while checking "
    "arguments for median)",
)
_KTHVALUE_OUT = "output values must be of same type as input", "output indices must be of scalar type Long"
_MODE_OUT = tuple(
    f"expected scalar type '{{want}}' but got '{{got}}' for {which} output" for which in ("values", "indices")
)


def _ordered(name: str, sp: Spec) -> None:
    """Complex numbers have no order."""
    if sp.dtype.is_complex:
        raise RuntimeError(f" {name} does not support complex dtypes on CPU")


def _full(name: str, input: Tensor, dim: Any) -> int:
    d = layout.wrap_dim(dim, input.ndim)
    if not input._spec.numel and input.ndim and tuple.__getitem__(input.shape, d) == 0:
        raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
    return d


# ---------------------------------------------------------------- sorting


def _sorter(node_name: str, way: str) -> Any:
    @prepared(node_name, result=maker("sort"), input=_to_places)
    def sorted_along(input: Spec, *, dim: int, descending: bool) -> Run:
        return ranks(input, dim, descending, way=way)

    return sorted_along


_sort, _any_way, _sort_stable = (
    _sorter("SortBackward0", "sort"),
    _sorter("SortBackward1", "sort"),
    _sorter("SortBackward1", ""),
)


@method
@settled
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None, out: Any = None
) -> Any:
    """The elements in order along `dim`, and the places they had, as `values` and `indices`; from the greatest down if `descending`. NaN
    counts as the greatest. Equals keep their order where `stable` asks for it. The gradient goes back to where the elements were.

    >>> torch.sort(torch.tensor([3.0, 1.0, 2.0]))
    torch.return_types.sort(
    values=tensor([1., 2., 3.]),
    indices=tensor([1, 2, 0]))
    """
    _ordered("Sort", input._spec)
    op = _sort if stable is None else _sort_stable if stable else _any_way
    d = layout.wrap_dim(dim, input.ndim)
    if out is None:
        return call_of(op, input, dim=d, descending=bool(descending))
    return results("sort", op(input, dim=d, descending=bool(descending)), out, (input,), apart=True)


@prepared()
def _argsort(input: Spec, *, dim: int, descending: bool, stable: bool) -> Run:
    ranked = ranks(input, dim, descending, way="" if stable else "sort")
    return lambda t: ranked(t)[1]


@method
@settled
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False, out: Tensor | None = None
) -> Any:
    """The places that elements would have to be taken from to stand in order along `dim`: the `indices` of `sort`, with the same arguments.

    >>> torch.argsort(torch.tensor([3.0, 1.0, 2.0]), descending=True)
    tensor([0, 2, 1])
    """
    _ordered("Sort", input._spec)
    d = layout.wrap_dim(dim, input.ndim)
    if out is None:
        return call_of(_argsort, input, dim=d, descending=bool(descending), stable=bool(stable))
    places = _argsort(input, dim=d, descending=bool(descending), stable=bool(stable))
    return into("argsort", out, places, (), EXPECTED)


@method_alone
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements in order along the first dimension: the values of `sort(dim=0)`. The gradient goes back to where the elements were.

    >>> torch.msort(torch.tensor([[3, 1], [2, 4]]))
    tensor([[2, 1],
            [3, 4]])
    """
    _ordered("Sort", input._spec)
    values: Tensor = _sort(input, dim=0, descending=False)[0]
    return values if out is None else into("msort", out, values, (input,), EXPECTED, apart=(input,))


@prepared("Topk", result=maker("topk"), input=_to_places)
def _topk(input: Spec, *, dim: int, largest: bool, k: int) -> Run:
    return ranks(input, dim, largest, 0, k if input.ndim else 1, way="topk")


@method
@settled
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> Any:
    """The `k` largest elements along `dim` and their places, as `values` and `indices`; the smallest with `largest=False`. The values come
    in order also where `sorted` does not ask for it. The gradient goes to the places.

    >>> torch.topk(torch.tensor([3.0, 1.0, 4.0, 2.0]), 2)
    torch.return_types.topk(
    values=tensor([4., 3.]),
    indices=tensor([2, 0]))
    """
    d = layout.wrap_dim(dim, input.ndim)
    if not 0 <= k <= (tuple.__getitem__(input.shape, d) if input.ndim else 1):
        raise RuntimeError("selected index k out of range")
    _ordered("topk", input._spec)
    if input._spec.dtype is dtypes.bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    if out is None:
        return call_of(_topk, input, dim=d, largest=bool(largest), k=k)
    return results("topk", _topk(input, dim=d, largest=bool(largest), k=k), out, (input,), apart=True)


# ---------------------------------------------------------------- one rank


@prepared("Kthvalue", result=maker("kthvalue"), input=_to_place)
def _kthvalue(input: Spec, *, dim: int, keepdim: bool, k: int) -> Run:
    return ranks(input, dim, False, k - 1, 1, "given", keepdim, way="kthvalue")


@method
@settled
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The `k`-th smallest element along `dim`, counted from 1, and its place, as `values` and `indices`; `keepdim` keeps the dimension with
    size 1. The gradient goes to the place.

    >>> torch.kthvalue(torch.tensor([3.0, 1.0, 2.0]), 2)
    torch.return_types.kthvalue(
    values=tensor(2.),
    indices=tensor(2))
    """
    d = _full("kthvalue", input, dim)
    if not 1 <= k <= (tuple.__getitem__(input.shape, d) if input.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}")
    if _alone(input, out):
        return _itself("kthvalue", input)
    _not_bool("kthvalue_cpu", input)
    if out is None:
        return call_of(_kthvalue, input, dim=d, keepdim=keepdim, k=k)
    no_overlap(out[0], input)
    pair = _kthvalue(input, dim=d, keepdim=keepdim, k=k)
    return results("kthvalue", pair, out, (input,), True, _KTHVALUE_OUT)


def _alone(input: Tensor, out: Any) -> bool:
    """Whether it is one complex number, for which PyTorch has to compare nothing."""
    return input.is_complex() and not input.ndim and out is None


def _itself(name: str, input: Tensor) -> Any:
    return maker(name)((clone(input), zeros(input._spec.plain.like(dtype=dtypes.int64))))


def _not_bool(kernel: str, input: Tensor) -> None:
    lacks_kernel(kernel, input._spec.dtype)
    if input._spec.dtype is dtypes.bool_:
        raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")


def _median_of_all(node_name: str, which: str) -> Any:
    @prepared(node_name, input=lambda g, input, y: share_among(g, input, y))
    def median_of_all(input: Spec) -> Run:
        if not input.numel:
            return lambda t: to_dtype(full(input.like((), dtype=dtypes.float64), float("nan")), input.dtype)
        line, line_of = as_lines(input, tuple(range(input.ndim)))
        ranked = ranks(line, 0, False, 0, 1, which, False, placed=False)
        return ranked if line is input else lambda t: ranked(line_of(t))

    return median_of_all


def _median_along(node_name: str, which: str) -> Any:
    @prepared(node_name, result=maker(which), input=_to_place)
    def median_along(input: Spec, *, dim: int, keepdim: bool) -> Run:
        return ranks(input, dim, False, 0, 1, which, keepdim)

    return median_along


_MEDIANS = {
    "median": (_median_of_all("MedianBackward0", "median"), _median_along("MedianBackward1", "median")),
    "nanmedian": (
        _median_of_all("NanmedianBackward0", "nanmedian"),
        _median_along("NanmedianBackward1", "nanmedian"),
    ),
}


def _median(name: str, input: Tensor, dim: Any, keepdim: bool, out: Any) -> Any:
    if dim is unset:
        if input.numel():
            _not_bool("median_cpu", input)
        return call_of(_MEDIANS[name][0], input)
    d = _full("median", input, dim)
    _not_bool("median_out", input)
    along = _MEDIANS[name][1]
    if out is None:
        return call_of(along, input, dim=d, keepdim=keepdim)
    return results(name, along(input, dim=d, keepdim=keepdim), out, (input,), True, _MEDIAN_OUT)


@method
@settled
def median(input: Tensor, dim: int = unset, keepdim: bool = False, *, out: Any = None) -> Any:
    """The middle one of the elements in order, of an even number the lower of two: of all, or along `dim`, then with its place, as `values`
    and `indices`. NaN if there is one. The gradient goes to the place; of all elements, those that equal the median share it.

    >>> torch.median(torch.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    >>> torch.median(torch.tensor([[1, 5, 3], [9, 8, 7]]), dim=1)
    torch.return_types.median(
    values=tensor([3, 8]),
    indices=tensor([2, 1]))
    """
    return _median("median", input, dim, keepdim, out)


@method
@settled
def nanmedian(input: Tensor, dim: int = unset, keepdim: bool = False, *, out: Any = None) -> Any:
    """`median` of the elements that are not NaN, with the same arguments; NaN where there is no other.

    >>> torch.nanmedian(torch.tensor([1.0, float("nan"), 3.0, 2.0]))
    tensor(2.)
    """
    return _median("nanmedian", input, dim, keepdim, out)


@prepared("Mode", result=maker("mode"), input=_to_place)
def _mode(input: Spec, *, dim: int, keepdim: bool) -> Run:
    shape = layout.reduced_shape(tuple(input.shape), (dim,), True) if input.ndim else ()
    values = input.like(shape)
    places = values.like(dtype=dtypes.int64)
    ranked = ranks(input, dim, way="sort")
    lines = input.like(strides=layout.kept_strides(input.shape, input.strides))
    how = walk(tuple(input.shape), dim, (still(values, dim), lines.strides), wide=1, few=1)
    address = input.backend.kernel(f"mode_{input.dtype.code}", *templates.mode(input.dtype.code)).address
    launch = input.backend.launch(5, "", input.numel if how.items > 1 else how.items)
    shown = [without(sp, dim) if not keepdim and input.ndim else sp for sp in (values, places)]
    meta = input.backend.constants(how.meta)

    def find(t: Tensor) -> tuple[Tensor, Tensor]:
        ordered, at = ranked(t)
        value, place = (empty(sp) for sp in shown)
        launch(address, how.items, meta, value._buf, place._buf, ordered._buf, at._buf)
        return value, place

    return find


@method
@settled
def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The most frequent value along `dim`, of several the smallest, and the last place where it stands, as `values` and `indices`;
    `keepdim` keeps the dimension with size 1. The gradient goes to the place.

    >>> torch.mode(torch.tensor([2, 3, 3, 2, 1]))
    torch.return_types.mode(
    values=tensor(2),
    indices=tensor(3))
    """
    d = _full("mode", input, dim)
    if _alone(input, out):
        return _itself("mode", input)
    lacks_kernel("mode_cpu", input._spec.dtype)
    if out is None:
        return call_of(_mode, input, dim=d, keepdim=keepdim)
    return results("mode", _mode(input, dim=d, keepdim=keepdim), out, (input,), True, _MODE_OUT)


# ---------------------------------------------------------------- quantiles

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@differentiable("SqueezeBackward4", raw=True, input=lambda g: unsqueeze(g, -1))
def _last_gone(input: Tensor) -> Tensor:
    """PyTorch ends with a squeeze in place."""
    return wrap(input._buf, without(input._spec, input.ndim - 1))


def _quantile(
    name: str, input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, out: Tensor | None
) -> Tensor:
    """Ranks of sorted values, and what lies between two of them: ops all, so the gradient is theirs."""
    d = input._spec.dtype
    if not isinstance(q, Tensor) and not 0 <= q <= 1:
        raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q:g}")
    if not input.numel():
        raise RuntimeError("quantile() input tensor must be non-empty")
    if not isinstance(q, Tensor):
        q = full(spec(d, (), None, input.device), q)
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if d not in (dtypes.float32, dtypes.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if q._spec.dtype is not d:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if q._spec.device is not input._spec.device:
        raise RuntimeError(f"{name}() q tensor must be on the same device as the input tensor")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if q.is_cpu and not ((q._host() >= 0) & (q._host() <= 1)).all():
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    at = 0 if dim is None else layout.wrap_dim(dim, input.ndim)
    # As PyTorch has it: what is reduced stands last, and leaves ones where it stood.
    lines = (
        reshape(input, (*(1,) * input.ndim, -1)) if dim is None else transpose(unsqueeze(input, -1), at, -1)
    )
    ordered = sort(lines, -1)[0]
    n = tuple.__getitem__(lines.shape, -1)
    flat = reshape(q, (-1,))
    bad = e.isnan(ordered).sum(-1, keepdim=True)
    last = e.sub(n - 1, bad) if name == "nanquantile" else full(bad._spec.plain.like(()), n - 1)
    ranks = e.mul(flat, to_dtype(last, d)).clamp(min=0)
    if name == "quantile":  # a line with NaN has no other quantile
        ranks = e.where(bad > 0, full(ranks._spec.plain.like(()), n - 1), ranks)
    below = to_dtype(ranks, dtypes.int64)
    part = e.sub(ranks, to_dtype(below, d))
    above = e.add(below, e.gt(part, 0))
    if interpolation == "nearest":  # the even one of two as near
        odd = e.logical_and(e.eq(part, 0.5), e.bitwise_and(below, 1))
        got = gather(ordered, -1, e.where(e.logical_or(e.gt(part, 0.5), odd), above, below))
    elif interpolation in ("lower", "higher"):
        got = gather(ordered, -1, below if interpolation == "lower" else above)
    else:
        weight = part if interpolation == "linear" else full(ranks._spec.plain.like(()), 0.5)
        got = e.lerp(gather(ordered, -1, below), gather(ordered, -1, above), weight)
    if not keepdim:
        got = squeeze(got, tuple(range(input.ndim)) if dim is None else (at,))
    if q.ndim:
        got = transpose(unsqueeze(got, 0), 0, -1)
    got = _last_gone(got)
    return got if out is None else into(name, out, got, (input,))


_between = stanza(
    lambda low, high, last, weight: p.where(p.isnan(last), last, lerp_body(low, high, weight)),
    name="quantile_between",
    method=False,
    shared=False,
)
_ranked = stanza(
    lambda value, last: p.where(p.isnan(last), last, value),
    name="quantile_ranked",
    method=False,
    shared=False,
)


def _rank(q: float, n: int, d: dtypes.dtype, interpolation: str) -> tuple[int, int, float]:
    """The ranks that a quantile of `n` values lies between, and how far it is from the first to the second."""
    kind = np.dtype(d.code).type
    rank = kind(q) * kind(n - 1)
    below = int(rank)
    part = float(rank - kind(below))
    above = below + (part > 0)
    if interpolation == "nearest":
        even = part == 0.5 and not below % 2
        return (below, below, 0.0) if part < 0.5 or even else (above, above, 0.0)
    if interpolation in ("lower", "higher"):
        return (below, below, 0.0) if interpolation == "lower" else (above, above, 0.0)
    return below, above, part if interpolation == "linear" else 0.5


def _quick_quantile(
    input: Spec, q: Any, dim: Any, keepdim: Any, *, interpolation: Any, out: Any
) -> Quick | None:
    """Of a number `q`, by which the ranks are known. Where a line has a NaN, that is its last, and its quantile."""
    if out is not None or type(q) not in (int, float) or type(keepdim) is not bool or not input.canonical:
        return None
    if input.dtype.is_complex or (dim is not None and (type(dim) is not int or not input.ndim)):
        return None
    d, lines = (0, input.like((input.numel,))) if dim is None else (layout.wrap_dim(dim, input.ndim), input)
    n, step = tuple.__getitem__(lines.shape, d), lines.strides[d]
    ordered, part = ranks(lines, d, placed=False), without(lines, d)
    low, high, weight = _rank(q, n, input.dtype, interpolation)
    gone = tuple(range(input.ndim)) if dim is None else (d,)
    made = input.like(layout.reduced_shape(tuple(input.shape), gone, keepdim))
    view, size = input.backend.view, step * input.itemsize
    between = interpolation in ("linear", "midpoint")

    def found(t: Tensor) -> Tensor:
        buf = ordered(wrap(t._buf, lines))._buf
        first, last = wrap(view(buf, low * size), part), wrap(view(buf, (n - 1) * size), part)
        got = (
            _between(first, wrap(view(buf, high * size), part), last, weight)
            if between
            else _ranked(first, last)
        )
        return wrap(got._buf, made)

    return found


@method
@quickly(_quick_quantile, devices=True)
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The value below which a share `q` of the elements lies, `q` being a number or a line of numbers from 0 to 1: of all elements, or
    along `dim`. It stands at rank `q * (n - 1)`; between two ranks `interpolation` decides: "linear", "lower", "higher", "nearest" or
    "midpoint". For a line of `q` the result has a first dimension more. The gradient goes to the elements at the two ranks.

    >>> torch.quantile(torch.tensor([1.0, 2.0, 3.0, 4.0]), 0.5)
    tensor(2.5000)
    >>> torch.quantile(torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([0.0, 0.75]), dim=1)
    tensor([[1.0000, 3.0000],
            [1.7500, 4.5000]])
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, out)


@method
@replayed
def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """`quantile` of the elements that are not NaN, with the same arguments.

    >>> torch.nanquantile(torch.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, out)


# ---------------------------------------------------------------- searching

_INTEGERS = (
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag "
    "is True, but we got output tensor's dtype {{got}} and out_int32 flag is {}"
)


def _quick_search(
    sorted_sequence: Spec, input: Any, *, out_int32: Any, right: Any, side: Any, sorter: Any, out: Any
) -> Quick | None:
    edges, usual = sorted_sequence, not out_int32 and side is sorter is out is None
    if not usual or type(input) is not Spec or edges.dtype is not input.dtype:
        return None
    if edges.dtype.narrow or edges.dtype.is_complex:
        return None
    if not (edges.contiguous and input.contiguous and input.numel):
        return None
    found, run = _searching(edges, input, bool(right))

    def search(edges: Tensor, values: Tensor) -> Tensor:
        made = empty(found)
        run(made._buf, values._buf, edges._buf)
        return made

    return search


def _quick_buckets(input: Any, boundaries: Spec, *, out_int32: Any, right: Any, out: Any) -> Quick | None:
    others = {"side": None, "sorter": None, "out": out}
    search = _quick_search(boundaries, input, out_int32=out_int32, right=right, **others)
    return None if search is None else lambda values, edges: search(edges, values)


@quickly(_quick_search, records=False, devices=True)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Where in each line of `sorted_sequence` each value of `input` would be put so that the line stays in order: before equals, or behind
    them with `right=True` (or `side="right"`). `sorter` holds the places in order of a sequence that is not.

    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 4, 9]))
    tensor([1, 2, 3])
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 4, 9]), right=True)
    tensor([2, 2, 3])
    """
    words = "torch.searchsorted(): "
    if not isinstance(input, Tensor):
        input = full(sorted_sequence._spec.plain.like(()), input) if sorted_sequence.ndim == 1 else input
    if not isinstance(input, Tensor):
        raise RuntimeError(
            f"{words}input value can be a scalar only when boundaries tensor dimension is 1, "
            f"but we got boundaries tensor dim({sorted_sequence.ndim}) and input value's dim(0) numel(1)"
        )
    edges, shape = sorted_sequence, tuple(sorted_sequence.shape)
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"{words}side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            f"{words}side and right can't be set to opposites, got side of left while right was True"
        )
    if not shape:
        raise RuntimeError(f"{words}boundaries tensor should have positive dimension, but got 0 dimension")
    if len(shape) != 1 and (len(shape) != input.ndim or shape[:-1] != tuple(input.shape)[:-1]):
        raise RuntimeError(
            f"{words}boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            f"input value tensor must match, but we got boundaries tensor {list(shape)} and input value tensor "
            f"{list(input.shape)}"
        )
    if sorter is not None:
        if tuple(sorter.shape) != shape:
            raise RuntimeError(
                f"{words}boundary and sorter must have the same size, but got boundary tensor {list(shape)}and got "
                f"sorter tensor {list(sorter.shape)}"
            )
        if sorter._spec.dtype is not dtypes.int64:
            raise RuntimeError(
                f"{words}sorter must be a tensor of long dtype but got dtype {sorter._spec.dtype.scalar_name}"
            )
        at = sorter._host()
        if at.size and (at.min() < 0 or at.max() >= shape[-1]):
            raise RuntimeError(f"{words}sorter index out of range")
        edges = gather(edges, -1, sorter)
    if edges._spec.dtype is input._spec.dtype is dtypes.bool_ and input.numel():
        raise NotImplementedError("\"searchsorted_out_cpu\" not implemented for 'Bool'")
    if not input.numel() and (input.is_complex() or edges.is_complex()):
        found = zeros(input._spec.plain.dense().like(dtype=dtypes.int32 if out_int32 else dtypes.int64))
        return (
            found if out is None else into("searchsorted", out, found, (), _INTEGERS.format(bool(out_int32)))
        )
    lacks_kernel("searchsorted_out_cpu", dtypes.promote_types(edges._spec.dtype, input._spec.dtype))
    for name, t in (("input value", input), ("boundary", edges)):
        if not t._spec.contiguous and input._spec.numel:
            warn_once(
                f"{words}{name} tensor is non-contiguous, this will lower the performance due to extra data copy when "
                f"converting non-contiguous tensor to contiguous, please use contiguous {name} tensor if possible. This "
                "message will only appear once per program."
            )
    got = _searched(edges, input, right=side == "right" or bool(right))
    got = to_dtype(got, dtypes.int32 if out_int32 else dtypes.int64)
    return got if out is None else into("searchsorted", out, got, (), _INTEGERS.format(bool(out_int32)))


@undifferentiable()
def _searched(edges: Tensor, values: Tensor, *, right: bool) -> Tensor:
    backend.same((edges.device, values.device))
    d = dtypes.promote_types(edges._spec.dtype, values._spec.dtype)
    if d.narrow:
        d = dtypes.float32  # in the same order, and numbers to a kernel
    edges, values = (contiguous(to_dtype(t.detach(), d)) for t in (edges, values))
    out, run = _searching(edges._spec, values._spec, right)
    got = empty(out)
    run(got._buf, values._buf, edges._buf)
    return got


@cached(PLANS)
def _searching(edges: Spec, values: Spec, right: bool) -> tuple[Spec, Any]:
    """How what is found lies, and what finds it."""
    out, code = values.like(dtype=dtypes.int64), edges.dtype.code
    name = f"search_{code}_{'right' if right else 'left'}"
    address = out.backend.kernel(name, *templates.search(code, right)).address
    n = tuple.__getitem__(edges.shape, -1)
    per = tuple.__getitem__(values.shape, -1) if values.ndim else 1
    launch = out.backend.launch(3, "qqq", 8 * out.numel)
    how = max(per, 1), n, edges.ndim == 1
    return out, lambda got, values, edges: launch(address, out.numel, got, values, edges, *how)


@quickly(_quick_buckets, records=False, devices=True)
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """The bucket that each element falls into: between which of the `boundaries`, a line in order, it lies. An element on a boundary
    belongs to the bucket below it, or above it with `right=True`.

    >>> torch.bucketize(torch.tensor([0.5, 1.0, 7.0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([0, 0, 3])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


__all__ = [
    "argsort",
    "bucketize",
    "kthvalue",
    "median",
    "mode",
    "msort",
    "nanmedian",
    "nanquantile",
    "quantile",
    "searchsorted",
    "sort",
    "topk",
]
