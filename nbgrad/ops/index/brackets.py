"""What stands between brackets: `x[...]`, `x[...] = y`, and `index_put`.

Promises users PyTorch's (NumPy's) meaning of every index: basic indices are views, all others are reads and writes at places.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import prod
from operator import index as _to_int
from typing import Any

import numpy as np

from nbgrad.base.source import Lines, fill, function
from nbgrad.base.tables import Table
from nbgrad.base.warn import warn
from nbgrad.core.plan import number_type
from nbgrad.core.refusals import OVERLAP
from nbgrad.core.tensor import Tensor, common, edge, requires, storage_of, wrap
from nbgrad.core.writes import copied_slices
from nbgrad.dispatch.elementwise import no_overlap
from nbgrad.dispatch.look import ANY, SCOPE, Look, following, learn, looking, rule_of
from nbgrad.dispatch.stanza import method
from nbgrad.history.record import op_rule
from nbgrad.kernels import faults
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Batched, Marked, Spec, spec
from nbgrad.ops.index import named
from nbgrad.ops.index.gather import _fill_marked, _masked_put, _read_first
from nbgrad.ops.index.place import (
    OUTSIDE,
    Fault,
    Named,
    Place,
    _Array,
    _as_kind,
    _index,
    _index_put,
    _index_put_add,
    _kept,
    _levels,
    _of_array,
    _own_index,
    _put_,
    checked,
    one_for,
    warn_expanded,
    where_true,
)
from nbgrad.ops.index.planned import puts_at
from nbgrad.ops.views.copy import (
    copied,
    copy_,
    copy_of,
    copying,
    dense_copy,
    fill_,
    fill_of,
    filled,
    filling,
    moved,
    scalar,
    to_dtype,
)
from nbgrad.ops.views.shape import _unsqueeze, expand, reshape
from nbgrad.ops.views.slices import _select, _select_geometry, _slice
from nbgrad.ops.views.views import alias
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import Node, blank, node_type, sequence

# ---------------------------------------------------------------- what stands between the brackets

_ONLY = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})"
_NOT_INDEX = "tensors used as indices must be long, int, byte or bool tensors"


def _is_sequence(x: Any) -> bool:
    return isinstance(x, (list, tuple, str, builtins.range))


def _as_items(index: Any) -> tuple[Any, ...]:
    """One item per position. A list that itself holds sequences, slices, None or ... is taken for a
    tuple, as PyTorch still does."""
    if type(index) is tuple:
        return index
    if isinstance(index, tuple):
        return tuple(index)
    if isinstance(index, list) and len(index) < 32 and any(map(_makes_tuple, index)):
        warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch "
            "2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, "
            "x[torch.tensor(seq)], which will result either in an error or a different result"
        )
        return tuple(index)
    return (index,)


def _makes_tuple(x: Any) -> bool:
    return x is None or x is Ellipsis or isinstance(x, (Tensor, slice, np.ndarray)) or _is_sequence(x)


def _as_item(x: Any) -> Any:
    """An int, slice, None, Ellipsis or bool as it is; anything else as an array of integers or bools."""
    kind = type(x)
    if kind is int or kind is slice or x is None or x is Ellipsis or kind is bool:
        return x
    if isinstance(x, Tensor):
        return x
    if isinstance(x, np.ndarray):
        mask = dtypes.from_numpy_dtype(x.dtype) is dtypes.uint8
        return _of_array(x) if mask else _from_sequence(x)
    if _is_sequence(x):
        if _holds_text(x):
            raise TypeError("new(): invalid data type 'str'")
        values = [_unwrapped(v) for v in x]
        return _from_sequence(np.array(values, None if values else np.int64))
    if isinstance(x, np.integer) or (hasattr(x, "__index__") and not isinstance(x, (np.bool_, type))):
        return _to_int(x)
    raise IndexError(_ONLY.format(_type_name(x)))


def _type_name(x: Any) -> str:
    return f"numpy.{type(x).__name__}" if isinstance(x, (np.generic, np.ndarray)) else type(x).__name__


def _holds_text(x: Any) -> bool:
    return isinstance(x, str) or (_is_sequence(x) and any(_holds_text(v) for v in x))


def _unwrapped(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x._host()
    return [_unwrapped(v) for v in x] if isinstance(x, (list, tuple)) else x


def _from_sequence(array: _Array) -> Tensor:
    """PyTorch makes an index of any numbers by truncating them."""
    if array.dtype.kind != "b":
        try:
            array = array.astype(np.int64)
        except OverflowError:
            raise ValueError("Overflow when unpacking long long") from None
    return _of_array(array)


def _dims_taken(x: Any) -> int:
    if x is None or x is Ellipsis or type(x) is bool:
        return 0
    return x.ndim if isinstance(x, Tensor) and x._spec.dtype is dtypes.bool_ else 1


def _masked_bytes(x: Tensor) -> Tensor:
    """An index of uint8 is a mask, as all were before PyTorch had bool."""
    if x._spec.ndim:
        warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
    return to_dtype(x, dtypes.bool_)


def _holds_bytes(index: Any) -> bool:
    """Whether one of the masks is of uint8, which one value is not written by."""
    items = index if isinstance(index, (tuple, list)) else (index,)
    return any(
        isinstance(x, (Tensor, np.ndarray)) and x.ndim and x.dtype in (dtypes.uint8, np.uint8) for x in items
    )


_FILLED_BYTES = "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"


def _basic(self: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None]]:
    """Apply what is a view, and leave the rest: per dimension of the view, an index tensor or None; a mask for several at once."""
    given = _as_items(index)
    items = [x if isinstance(x, (str, float)) else _as_item(x) for x in given]
    items = [
        _masked_bytes(x) if isinstance(x, Tensor) and x._spec.dtype is dtypes.uint8 else x for x in items
    ]
    taken = sum(_dims_taken(x) for x in items)
    if taken > self._spec.ndim:
        if len(items) == 1 and type(items[0]) is int and index is not given:
            raise _no_item(items[0])
        if len(items) == 1 and type(items[0]) is slice and index is not given:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        if len(items) == 1 and isinstance(items[0], str):
            _as_item(items[0])
        raise IndexError(f"too many indices for tensor of dimension {self._spec.ndim}")
    out, dim = self, 0
    rest: dict[int, Tensor] = {}
    for position, x in enumerate(items):
        if x is None:
            out = _unsqueeze(out, dim=dim)
            dim += 1
        elif x is Ellipsis:
            dim += self._spec.ndim - taken
        elif type(x) is int:
            out = _select_at(out, dim, x, position)
        elif type(x) is slice:
            start, length, step = _slice_of(x, tuple.__getitem__(out._spec.shape, dim))
            whole = (
                length == tuple.__getitem__(out._spec.shape, dim) and step == 1 and not _to_int(x.start or 0)
            )
            if not whole or index is x:
                out = _slice(out, dim=dim, start=start, length=length, step=step)
            dim += 1
        elif type(x) is bool:
            out = _unsqueeze(out, dim=dim)
            rest[dim] = _of_array(np.zeros(1 if x else 0, np.int64))
            dim += 1
        elif isinstance(x, Tensor):
            if x._spec.dtype.inexact:
                raise IndexError(_NOT_INDEX)
            if x._spec.ndim == 0 and type(x._buf) is not Batched:
                if x._spec.dtype is dtypes.bool_:
                    out = _unsqueeze(out, dim=dim)
                    rest[dim] = _of_array(np.zeros(1 if x.item() else 0, np.int64))
                    dim += 1
                else:
                    out = _select_at(out, dim, int(x.item()), position)
                continue
            rest[dim] = x
            dim += x._spec.ndim if x._spec.dtype is dtypes.bool_ else 1
        else:
            _as_item(x)  # raises
    indices: list[Tensor | None] = []
    at = 0
    while rest and at <= max(rest):
        x = rest.get(at)
        indices.append(x)
        at += max(_dims_taken(x), 1)  # a mask stands for all the dimensions that it covers
    return out, indices


def _no_item(index: int) -> IndexError:
    """Why a tensor without dimensions has no item: PyTorch gives a hint to who asks for the first."""
    return IndexError(f"index {index} is out of bounds for dimension 0 with size 0" if index else _ZERO_DIM)


_ZERO_DIM = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert "
    "a 0-dim tensor to a number"
)


def _out_of_bounds(i: int, position: int, n: int) -> Exception:
    if not -(2**63) <= i < 2**63:
        return ValueError("Overflow when unpacking long long")
    return IndexError(f"index {i} is out of bounds for dimension {position} with size {n}")


def _select_at(t: Tensor, dim: int, i: int, position: int) -> Tensor:
    n = tuple.__getitem__(t._spec.shape, dim)
    if not -n <= i < n:
        raise _out_of_bounds(i, position, n)
    return _select(t, dim=dim, index=i + n if i < 0 else i)


def _slice_of(x: slice, size: int) -> tuple[int, int, int]:
    start, stop, step = map(int, x.indices(size))
    if step < 0:
        raise ValueError("step must be greater than zero")
    return start, max(0, (stop - start + step - 1) // step), step


def _check_mask(mask: Tensor, shape: Ints, dim: int) -> None:
    for j, n in enumerate(tuple(mask._spec.shape)):
        if dim + j >= len(shape) or shape[dim + j] != n:
            raise IndexError(
                f"The shape of the mask {list(mask._spec.shape)} at index {j} does not match the "
                "shape of the indexed tensor "
                f"{list(shape)} at index {dim + j}"
            )


def _place(t: Tensor, indices: Sequence[Tensor | None], kept: bool) -> Place:
    """Where index tensors and masks point, after they have been checked against `t`'s shape."""
    place = named.place(t, indices, kept)
    if place is not None:
        return place
    shape = tuple(t._spec.shape)
    dims: list[int] = []
    arrays: list[Tensor] = []
    indices = [x if x is None or x._spec.dtype is not dtypes.bool_ else common(x) for x in indices]
    mapped = [x for x in indices if x is not None and type(x._buf) is Batched]
    if mapped:
        return _own_places(t, indices, mapped, kept)
    dim = 0
    for x in indices:
        if x is None:
            dim += 1
        elif x._spec.dtype is dtypes.bool_:
            _check_mask(x, shape, dim)
            found = _where_marked(x, t).indices
            dims += range(dim, dim + len(found))
            arrays += found
            dim += len(found)
        elif x._spec.dtype not in (dtypes.int64, dtypes.int32):
            raise IndexError(_NOT_INDEX)
        else:
            if dim >= len(shape):
                raise IndexError(
                    f"too many indices for tensor of dimension {len(shape)} (got {len(indices)})"
                )
            arrays.append(_inside(x, t, shape[dim], len(arrays), kept))
            dims.append(dim)
            dim += 1
    try:
        block = layout.broadcast_shapes(*[a._spec.shape for a in arrays])
    except RuntimeError:
        shapes = ", ".join(str(list(a.shape)) for a in arrays)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    return Place(tuple(dims), arrays, tuple(block), fault=OUTSIDE)


def _inside(x: Tensor, t: Tensor, size: int, number: int, kept: bool) -> Tensor:
    """The index of a dimension of `t`, the `number`-th that has one, if it is within bounds."""
    fault = OUTSIDE if size else Fault(faults.NOWHERE)
    return checked(_own_index(x, t, kept, True), size, fault, number)


def _where_marked(mask: Tensor, t: Tensor) -> Named:
    """Where a mask is true, in its dimensions, wherever it lies."""
    if mask._spec.device.type != "cpu":
        backend.same((t._spec.device, mask._spec.device))
    mask = moved(mask, dtypes.bool_, t._spec.device)
    return where_true(mask if mask._spec.contiguous else dense_copy(mask))


def _own_places(t: Tensor, indices: Sequence[Tensor | None], mapped: Sequence[Tensor], kept: bool) -> Place:
    """The same where a vmap's examples have indices of their own."""
    levels = tuple(sorted({v for x in mapped for v in _levels(x)}, key=lambda v: v.index))
    dims = tuple([d for d, x in enumerate(indices) if x is not None])
    if dims and dims[-1] >= t._spec.ndim:
        raise IndexError(f"too many indices for tensor of dimension {t._spec.ndim} (got {len(indices)})")
    given = [x for x in indices if x is not None]
    block = tuple(layout.broadcast_shapes(*(x._spec.shape for x in given)))
    arrays: list[Tensor] = []
    for d, x in zip(dims, given):
        if x._spec.dtype is dtypes.bool_:
            raise RuntimeError(
                "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a "
                "boolean mask."
            )
        n, own = tuple.__getitem__(t._spec.shape, d), _levels(x)
        array = _inside(x, t, n, len(arrays), kept)
        shape = tuple(x._spec.shape)
        lead = tuple([v.size if v in own else 1 for v in levels])
        arrays.append(reshape(array, (*lead, *(1,) * (len(block) - len(shape)), *shape)))
    return Place(dims, arrays, block, levels, max(mapped, key=lambda x: len(_levels(x))), OUTSIDE)


# ---------------------------------------------------------------- x[...]

# Of a layout, what one integer shows, and what two do: for x[i] in a loop over a long dimension one plan serves.
Row = tuple[Spec, int, int, Any, tuple[Spec]]
Element = tuple[Row, int, int, Any, tuple[Spec], Spec]
_rows: Table[Spec, Row] = Table("ops.index.brackets.rows", 4096)
_elements: Table[Spec, Element] = Table("ops.index.brackets.elements", 4096)
_views: Table[tuple[Any, ...], Look] = Table("ops.index.brackets.views", 8192)  # of any other index
_planless: Table[tuple[Any, ...], Spec] = Table(
    "ops.index.brackets.planless", 4096
)  # shown without a plan: nothing

_GETITEM = """
def _getitem(self, index):
    kind = index.__class__
    if kind is int:
        row = row_of(self._spec)
        if row is not None:
            shown, size, step, rule, layouts = row
            at = index + size if index < 0 else index
            if 0 <= at < size:
                byte = at * step
                {row}
    elif kind is tuple or kind is slice or index is None or index is ...:
        try:
            {key}
        except (TypeError, ValueError):
            return anew(self, index)
        look = view_of(key)
        if look is not None:
            shown, byte, rule, kept, more = look
            {view}
    return anew(self, index)
"""
_SELECTED = '({{"dim": 0, "index": {}}}, {}, {})'.format
_ELEMENT: Lines = [
    "element = element_of(self._spec)",
    "if element is not None:",
    [
        "(row, size, step, rule, layouts), columns, width, further, lower, shown = element",
        "at = first + size if first < 0 else first",
        "to = second + columns if second < 0 else second",
        "if 0 <= at < size and 0 <= to < columns:",
        [
            "byte = at * step + to * width",
            *looking(
                "self",
                _SELECTED("at", "layouts", "row"),
                following("further", _SELECTED("to", "lower", "shown")),
            ),
        ],
    ],
    "return anew(self, index)",
]
_DOUBTFUL = "elif kind is not int and {0} is not None and {0} is not ...:"
_KEY: Lines = [
    "if kind is slice:",
    ["key = self._spec, index.indices(end)"],
    "elif kind is not tuple:",
    ["key = self._spec, None, None, None, None, index"],
    "elif len(index) == 2:",
    [
        "first, second = index",
        "kind = first.__class__",
        "if kind is slice:",
        ["first = first.indices(end)"],
        _DOUBTFUL.format("first"),
        ["return anew(self, index)"],
        "one, kind = kind, second.__class__",
        "if kind is slice:",
        ["second = second.indices(end)"],
        "elif kind is int:",
        ["if one is int:", _ELEMENT],
        "elif second is not None and second is not ...:",
        ["return anew(self, index)"],
        "key = self._spec, first, second",
    ],
    "else:",
    ["key = key_of(self._spec, index)"],
]


def _key_of(sp: Spec, index: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What a tuple of plain integers, slices, None and ... is known by: no key of a single index is."""
    items: list[Any] = [sp, *[None] * 4] if len(index) < 2 else [sp]
    for x in index:
        kind = type(x)
        if kind is slice:
            items.append(x.indices(named.END))
        elif kind is int or x is None or x is Ellipsis:
            items.append(x)
        else:
            return None
    return tuple(items)


_AS_INT = dtypes.int64, dtypes.int32  # of one element


def _with_tensors(index: Any) -> Any:
    """Lists of ints and ranges as the tensors that they stand for, which are the quicker way."""
    kind = type(index)
    if kind is tuple and not _LISTS.isdisjoint(map(type, index)):
        made = tuple([_with_tensors(x) if type(x) in _LISTS else x for x in index])
        return index if all([a is b for a, b in zip(index, made)]) else made
    if kind is range and index and -(2**63) <= min(index[0], index[-1]) <= max(index[0], index[-1]) < 2**63:
        return _of_array(np.arange(index.start, index.stop, index.step, dtype=np.int64))
    if kind is list and {*map(type, index)} == {int} and max(map(abs, index)) < 2**63:
        return _of_array(np.array(index, np.int64))
    return (
        _of_array(np.array(index)) if kind is np.ndarray and index.ndim and index.dtype in _PLAIN else index
    )


_LISTS = {list, range, np.ndarray}
_PLAIN = np.dtype(np.int64), np.dtype(np.bool_)


def _with_numbers(index: Any) -> Any:
    """An index with numbers in the place of NumPy's, and of tensors of one integer, if it has any and no other tensors; else None."""
    kind = index.__class__
    if kind is Tensor:
        at = index._spec
        return None if at.ndim or at.read is None or at.dtype not in _AS_INT else index.item()
    if kind is not tuple:
        return int(index) if isinstance(index, np.integer) else None
    found = False
    for x in index:
        kind = x.__class__
        if kind is Tensor:
            at = x._spec
            if at.ndim or at.read is None or at.dtype not in _AS_INT:
                return None
            found = True
        elif kind is int or kind is slice:
            pass
        elif isinstance(x, np.integer):
            found = True
        elif isinstance(x, Tensor):
            return None
    if not found:
        return None
    return tuple([x.item() if x.__class__ is Tensor or isinstance(x, np.integer) else x for x in index])


def _anew(self: Tensor, index: Any) -> Tensor:
    """What has no plan, or none yet."""
    kind = type(index)
    if kind is Tensor or kind is tuple:
        numbers = None if kind is Tensor and index._spec.ndim else _with_numbers(index)
        if numbers is not None and self._spec.ndim:
            return _getitem(self, numbers)
        if (found := named.read(self, index)) is not None:
            return found
    if kind is not Tensor and (tensors := _with_tensors(index)) is not index:
        return _anew(self, tensors)
    if kind is not tuple and self._spec.ndim and (numbers := _with_numbers(index)) is not None:
        return _getitem(self, numbers)
    if kind is int or kind is slice or kind is tuple:
        if _planned(self, index):
            return _getitem(self, index)
    elif index is None or index is Ellipsis:
        return _getitem(self, (index,))
    out, rest = _basic(self, index)
    if rest:
        result = _index(out, place=_place(out, rest, _kept(out)))
        named.learn(self, index, out, rest)
        return result
    return alias(out) if out is self else out


def _planned(t: Tensor, index: Any) -> bool:
    """Make the plan of an index, if there was none; whether there is one now."""
    sp = t._spec
    if type(sp) is Marked or shared.rare or not t._spec.numel or max(sp.shape, default=0) >= named.LONGEST:
        return False
    if t._storage is not None and t._storage.inference:
        return False
    if type(index) is int:
        return sp.ndim > 0 and sp not in _rows and bool(_rows.keep(sp, _row(sp)))
    if type(index) is slice:
        key: Any = (sp, index.indices(named.END))
    elif len(index) == 2 and type(index[0]) is type(index[1]) is int:
        return sp.ndim > 1 and sp not in _elements and bool(_elements.keep(sp, _element(sp)))
    else:
        key = _key_of(sp, index)
    if key is None or key in _views or key in _planless:
        return False
    look = learn(t, lambda leaf: _shown(leaf, index))
    if look is None and not state.active:
        _planless.keep(key, _shown(wrap(t._buf, sp), index)._spec)
    return look is not None and bool(_views.keep(key, look))


def _shown(t: Tensor, index: Any) -> Tensor:
    out, _ = _basic(t, index)
    return alias(out) if out is t else out


def _row(sp: Spec) -> Row:
    out, step = _select_geometry(sp, dim=0, index=1)
    return out, tuple.__getitem__(sp.shape, 0), step * sp.itemsize, rule_of(_select.op, sp), (sp,)  # type: ignore[attr-defined]


def _element(sp: Spec) -> Element:
    out, size, step, rule, layouts = _row(_row(sp)[0])
    return _row(sp), size, step, rule, layouts, out


_row_of, _element_of, _view_of = _rows.get, _elements.get, _views.get
_scope = {**SCOPE, "row_of": _row_of, "element_of": _element_of, "view_of": _view_of}
_getitem = function(
    "_getitem",
    fill(
        _GETITEM,
        row=looking("self", _SELECTED("at", "layouts", "shown")),
        key=_KEY,
        view=looking("self", "kept", ANY),
    ),
    _scope | {"anew": _anew, "end": named.END, "key_of": _key_of, "__name__": __name__},
    "x[...]",
    "basic indices",
)
_getitem.__doc__ = """What the index shows. Numbers, slices, `...` and None give a view; index tensors, lists and masks a copy,
    in which their common shape takes the place of the dimensions they read. The gradient goes back to where it was read, and adds up
    there.

    >>> x = torch.arange(6).view(2, 3)
    >>> x[:, 1], x[torch.tensor([1, 0]), 2], x[x > 3]
    (tensor([1, 4]), tensor([5, 2]), tensor([4, 5]))
    >>> y = torch.zeros(3, requires_grad=True)
    >>> y[[0, 0, 2]].sum().backward()
    >>> y.grad
    tensor([2., 0., 1.])
    """


# ---------------------------------------------------------------- x[...] = y


def _seen(t: Tensor, index: Any) -> tuple[Spec, int] | None:
    """What a basic index shows, and from which byte on, where that is planned."""
    sp, kind = t._spec, index.__class__
    if kind is int:
        row = _row_of(sp)
        if row is not None:
            shown, size, step, _, _ = row
            at = index + size if index < 0 else index
            return (shown, at * step) if 0 <= at < size else None
    elif kind is tuple and len(index) == 2 and index[0].__class__ is index[1].__class__ is int:
        element = _element_of(sp)
        if element is not None:
            (_, size, step, _, _), columns, width, _, _, shown = element
            first, second = index
            at, to = first + size if first < 0 else first, second + columns if second < 0 else second
            return (shown, at * step + to * width) if 0 <= at < size and 0 <= to < columns else None
    elif kind is tuple or kind is slice:
        try:
            key: Any = (sp, index.indices(named.END)) if kind is slice else _key_of(sp, index)
        except (TypeError, ValueError):
            return None
        look = _view_of(key)
        if look is not None:
            return look[0], look[1]
        nothing = _planless.get(key)
        if nothing is not None:
            return None if nothing.numel else (nothing, 0)
    elif index is None or index is ...:
        return _seen(t, (index,))
    else:
        return None
    return _seen(t, index) if _planned(t, index) else None


def _write(t: Tensor, index: Any, value: Any) -> bool:
    """Write without the view between, and leave the record that the write to a view would: whether this could be done. The long way is
    due where more is asked than these lines know: of a record for views and leaves, of gradients that are to be kept, of memory that both
    share."""
    kind, storage = value.__class__, t._storage
    if not (kind is Tensor or kind is float or kind is int) or shared.rare:
        return False
    recorded = state.grad and (
        (t._rg and (t._rg == 1 or requires(t)))
        or (kind is Tensor and value._rg and (value._rg == 1 or requires(value)))
    )
    if (recorded and (t._view is not None or t._ad is not None or (t._rg and t._node is None))) or (
        storage is not None and storage.inference
    ):
        return False
    seen = _seen(t, index)
    if seen is None:
        return False
    shown, byte = seen
    if shown.repeats or (recorded and shown.numel == t._spec.numel):
        return False
    buf = t._spec.backend.view(t._buf, byte) if byte else t._buf
    if kind is Tensor:
        sp, other = value._spec, value._storage
        if type(sp) is Marked or value is t:
            return False
        if sp.ndim and sp.shape != shown.shape:
            wide = None if recorded and value._rg else named.spread(sp, shown)
            if wide is None:
                return False
            sp = wide
        if other is not None and other.inference:
            return False
        if other is not None and storage is not None and other.memory is storage.memory:
            start, begin = t.storage_offset() * shown.itemsize + byte, value.storage_offset() * sp.itemsize
            if sp is shown and begin == start:
                if recorded and shown.dtype.inexact:
                    _record_write(t, shown, byte // shown.itemsize, value)
                storage.version += 1  # onto itself, as `t[k] += 1` does: there is nothing to write
                return True
            # Columns may lie between each other's elements; of anything else that meets the long way sees what meets.
            beside = sp is shown and sp.ndim == 1 and (start - begin) % ((sp.strides[0] or 1) * sp.itemsize)
            if begin < start + shown.nbytes and start < begin + sp.nbytes and not beside:
                return False
        k = copy_of((shown, sp)) or copying(shown, sp)
        k.launch(k.address, k.n, buf, value._buf)
    else:
        k, low, high, fitting = fill_of(shown) or filling(shown)
        if shown.dtype.narrow and not low <= value <= high:
            return False
        number = value if kind is float and low <= value <= high else fitting(value, shown.dtype)
        k.launch(k.address, k.n, buf, number)
    if storage is None:  # before it loses its node, which may have saved it
        storage = storage_of(t)
    if recorded and shown.dtype.inexact:
        _record_write(t, shown, byte // shown.itemsize, value if kind is Tensor else None)
    storage.version += 1
    return True


_CopySlices = node_type("CopySlices")
_NOTHING: dict[str, Any] = {}


def _record_write(t: Tensor, shown: Spec, offset: int, value: Tensor | None) -> None:
    """What `rebase` makes of a write through a view that nobody has."""
    node, into, number = blank(), None, 0
    if value is not None and value._rg and (value._rg == 1 or requires(value)):
        into, number = edge(value)
        if value._node is None:
            node.leaves = value
    if into is None and not t._rg:
        return
    old = t._node
    op = filled if value is None or not value._spec.ndim else copied
    rule = op_rule(op, (t._rg != 0, into is not None), (True, True), False)
    sp = spec(shown.dtype, (), None, shown.device) if value is None else value._spec
    node.next, node.rule, node.static = (old, into), rule, (_NOTHING, (shown, sp), shown)
    node.numbers = (0, number)
    node.seq = next(sequence)
    slices: Node = blank(_CopySlices)
    slices.next, slices.numbers = (old, into), (t._nr, number)
    slices.saved, slices.versions, slices.static, slices.leaves = (node,), (0,), None, node.leaves
    slices.rule = copied_slices(shown, offset, t._spec, rule)
    slices.seq = next(sequence)
    t._node, t._nr, t._rg = slices, 0, 1


def _setitem(self: Tensor, index: Any, value: Any, /) -> None:
    """Write `value`, a number or a tensor, spread to the shape of what the index shows. The gradient goes to `value`; what was
    written over gets none.

    >>> x = torch.zeros(2, 2)
    >>> x[0, 1] = 5.0
    >>> x[:, 0] = torch.tensor([1.0, 2.0])
    >>> x
    tensor([[1., 5.],
            [2., 0.]])
    """
    if value.__class__ is bool:
        value = int(value)  # which each dtype takes as it takes that
    if index.__class__ is Tensor or (
        index.__class__ is tuple and index and (index[0].__class__ is Tensor or index[-1].__class__ is Tensor)
    ):
        if value.__class__ in _USUAL and named.write(self, index, value):
            return
    elif _write(self, index, value):
        return
    if self._spec.ndim and (numbers := _with_numbers(index)) is not None:
        return _setitem(self, numbers, value)
    if not isinstance(value, Tensor) and (number_type(value) is None or _own_scalar(value)):
        if isinstance(value, complex):
            raise RuntimeError(f"value cannot be converted to type {self.dtype.c_name} without overflow")
        raise TypeError(f"can't assign a {_type_name(value)} to a {self._spec.dtype.type_name}")
    rest: list[Tensor | None] = []
    index = _with_tensors(index)
    kind = type(index)
    tensors = kind is Tensor or kind is tuple
    if tensors and named.write(self, index, value):
        return
    if type(self._spec) is Marked:
        out, rest = _basic(self, index)
    elif kind is int or (kind is slice and not (index.start is None and index.stop is None)):
        out = _getitem(self, index)
    elif kind is bool:
        if not index:
            return
        out = _unsqueeze(self, dim=0)
    elif kind is Tensor and index._spec.ndim and index._spec.dtype is dtypes.int64 and self._spec.ndim:
        out, rest = self, [index]
    else:
        out, rest = _basic(self, (index,) if kind is slice else index)
    if not rest:
        if not isinstance(value, Tensor) or value._spec.ndim == 0:
            if out._spec.repeats:
                raise RuntimeError(OVERLAP)  # `fill_` would allow it
            fill_(
                out,
                value
                if isinstance(value, Tensor) or not (out._rg and state.grad)
                else scalar(value, out._spec.dtype),
            )
        else:
            copy_(out, _fitted(value, out._spec.shape))
        return
    if not isinstance(value, Tensor):
        value = scalar(_as_kind(value, out), out._spec.dtype)
    mask = rest[-1]
    if (
        mask is not None
        and mask._spec.dtype is dtypes.bool_
        and value._spec.numel == 1
        and rest.count(None) == len(rest) - 1
    ):
        _check_mask(mask, tuple(out._spec.shape), len(rest) - 1)
        if _holds_bytes(index):
            raise RuntimeError(_FILLED_BYTES)
        behind = out._spec.ndim - mask._spec.ndim - len(rest) + 1
        mask = reshape(mask, (*mask._spec.shape, *(1,) * behind)) if behind else mask
        if out._spec.repeats:
            warn_expanded("index_put_", "tensor[indices] = tensor")
        value = reshape(value, ()) if value._spec.ndim else value
        _fill_marked(_masked_put, out, mask, one_for(value, out))
    else:
        place = _place(out, rest, _kept(out, value))
        value = _without_ones(value, place.of(out._spec).out.ndim)
        _check_put(out, value, place)
        _put_(_index_put, out, value, place)
    if tensors:
        named.learn(self, index, out, rest, True)


_USUAL = frozenset((Tensor, float, int))


def _own_scalar(value: Any) -> bool:
    """Whether a scalar of NumPy's is none of Python's numbers: PyTorch takes its integers and float64 only."""
    return isinstance(value, np.generic) and not isinstance(value, (np.integer, float))


def _without_ones(value: Tensor, ndim: int) -> Tensor:
    """The value without leading dimensions of size 1 that what it is written to does not have."""
    shape = tuple(value._spec.shape)
    extra = len(shape) - ndim
    return reshape(value, shape[extra:]) if extra > 0 and prod(shape[:extra]) == 1 else value


def _fitted(value: Tensor, to: Ints) -> Tensor:
    shape = tuple(value._spec.shape)
    if shape == tuple(to):
        return value
    while shape and shape[0] == 1:
        shape = shape[1:]
    if shape != tuple(value._spec.shape):
        value = reshape(value, shape)
    return value if shape == tuple(to) else expand(value, tuple(to))


def _check_put(t: Tensor, value: Tensor, place: Place) -> None:
    have, want = tuple(value._spec.shape), tuple(place.of(t._spec).out.shape)
    if len(have) > len(want) or any(a not in (1, b) for a, b in zip(have[::-1], want[::-1])):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value._spec.shape)} cannot be broadcast "
            f"to indexing result of shape {list(want)}"
        )
    if value._spec.dtype is not t._spec.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{t._spec.dtype.scalar_name} for the destination and "
            f"{value._spec.dtype.scalar_name} for the source."
        )


def _delitem(self: Tensor, index: Any) -> None:
    """Refused: a tensor has no elements to lose."""
    raise TypeError("Tensor does not support deleting items")


for _name, _method in {"__getitem__": _getitem, "__setitem__": _setitem, "__delitem__": _delitem}.items():
    setattr(Tensor, _name, _method)


# ---------------------------------------------------------------- index_put


def _indices(name: str, self: Tensor, indices: Any, values: Any, accumulate: bool) -> tuple[Tensor, Place]:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'indices' (position 1) must be tuple of Tensors, not "
            f"{type(indices).__name__}"
        )
    for k, x in enumerate(indices):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(x).__name__}")
    if not isinstance(values, Tensor):
        raise TypeError(
            f"{name}(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}"
        )
    if not indices and self.numel():
        raise RuntimeError("at least one index must be provided")
    bytes_in = _holds_bytes(indices)
    indices = [_masked_bytes(x) if x.dtype is dtypes.uint8 else x for x in indices]
    taken = sum(x.ndim if x.dtype is dtypes.bool_ else 1 for x in indices)
    if taken > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim} (got {taken})")
    place = _place(self, indices, _kept(self, values))
    if _fills(indices, values, accumulate):
        if bytes_in:
            raise RuntimeError(_FILLED_BYTES)
        values = to_dtype(
            reshape(values, ()) if values.ndim > 1 else values, self.dtype
        )  # a fill: any is fine
        values = _read_first(self, values)
    _check_put(self, values, place)
    return values, place


def _fills(indices: Sequence[Tensor], values: Tensor, accumulate: bool) -> bool:
    return not accumulate and values.numel() == 1 and [x.dtype for x in indices] == [dtypes.bool_]


@method
@puts_at(False, _index_put, _index_put_add)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `values` written at `indices`, a tuple of index tensors as in `input[indices] = values`; with
    `accumulate` they are added. `values` gets the gradient read at the indices, `input` that beside them (with `accumulate` all).

    >>> at = (torch.tensor([0, 1]), torch.tensor([1, 0]))
    >>> torch.zeros(2, 2).index_put(at, torch.tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [6., 0.]])
    """
    values, place = _indices("index_put", input, indices, values, accumulate)
    return (_index_put_add if accumulate else _index_put)(input, values, place=place)


@method
@puts_at(True, _index_put, _index_put_add)
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    fills = _fills(indices, values, accumulate)
    values, place = _indices("index_put_", input, indices, values, accumulate)
    if not fills:
        no_overlap(input, *indices)
    return _put_(
        _index_put_add if accumulate else _index_put, input, values, place, "add" if accumulate else "write"
    )


__all__ = ["index_put", "index_put_"]
