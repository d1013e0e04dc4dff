"""Sparse matrices of layouts `sparse_csr` and `sparse_csc`: entries by rows, or by columns, which are told by where each begins.

They are sparse tensors whose entries stand in that order, so products read them as they are, and a form of theirs is the one of `_forms`,
with a result that is laid out so again. The transposed of one is of the other layout, of the same entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad._holding import complete
from nbgrad.core.tensor import Tensor
from nbgrad.exchange.files.tensors import Layout, rebuild_sparse
from nbgrad.memory import dtypes
from nbgrad.ops.arrange.orders import repeat_interleave
from nbgrad.ops.host import printing
from nbgrad.ops.host.attributes import layout as _layout
from nbgrad.ops.index.gather import index_select
from nbgrad.ops.make.data import tensor
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.join import stack
from nbgrad.sparse import _forms
from nbgrad.sparse._pattern import Pattern
from nbgrad.sparse._tensor import (
    SparseTensor,
    coalesced,
    forms,
    instance,
    of_dense,
    sparse_coo_tensor,
    suffixes,
    text,
)

sparse_csr, sparse_csc = _layout("sparse_csr"), _layout("sparse_csc")


class Compressed(SparseTensor):
    """What both have in common. `_along` is the dimension of which the entries of each index lie together."""

    __slots__ = ()
    _along = 0
    _named = "crow_indices", "col_indices"
    _kind = "SparseCsr"

    is_sparse = property(
        lambda self: False, doc="Whether elements are stored by index: only along one dimension."
    )
    T = mT = property(lambda self: turned(self), doc="The transposed matrix.")
    H = mH = property(lambda self: turned(self.conj()), doc="The conjugates of the transposed matrix.")

    def _text(self) -> str:
        way = self._pattern.way(self._along)
        named = zip((*self._named, "values"), (way.first, way.other, self._held))
        said = "tensor(" + ",\n       ".join([text(n, t) for n, t in named])
        return printing.add_suffixes(said, suffixes(self), 7)

    def values(self) -> Tensor:
        """The entries."""
        return self._held[:]

    def indices(self) -> Tensor:
        """Of layout `sparse_coo` alone."""
        raise RuntimeError(f"indices expected sparse coordinate tensor layout but got {self._kind}")

    def coalesce(self) -> Tensor:
        """Of layout `sparse_coo` alone."""
        raise RuntimeError(f"coalesce expected sparse coordinate tensor layout but got {self._kind}")

    def crow_indices(self) -> Tensor:
        """Where each row begins, and the last one ends."""
        return self._part("crow_indices", "row")

    def col_indices(self) -> Tensor:
        """The column of each entry."""
        return self._part("col_indices", "row")

    def ccol_indices(self) -> Tensor:
        """Where each column begins, and the last one ends."""
        return self._part("ccol_indices", "column")

    def row_indices(self) -> Tensor:
        """The row of each entry."""
        return self._part("row_indices", "column")

    def _part(self, name: str, kind: str) -> Tensor:
        if name not in self._named:
            raise RuntimeError(f"{name} expected sparse {kind} compressed tensor layout but got {self._kind}")
        way = self._pattern.way(self._along)
        return (way.first, way.other)[self._named.index(name)]

    def to_sparse_csr(self, dense_dim: int | None = None) -> Tensor:
        """The matrix by rows."""
        return of(self, RowTensor)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Tensor:
        """The matrix by columns."""
        return of(self, ColumnTensor)

    def told(self) -> Any:
        way = self._pattern.way(self._along)
        parts = way.first, way.other, self._held.detach(), tuple(self.shape)
        return rebuild_sparse, (Layout(f"{self.layout}"), parts)


class RowTensor(Compressed):
    """What `torch.sparse_csr_tensor` makes. To programs it is a `torch.Tensor` whose `layout` is `torch.sparse_csr`.

    >>> torch.eye(2).to_sparse_csr().layout
    torch.sparse_csr
    """

    __slots__ = ()
    layout = property(lambda self: sparse_csr, doc="How elements are stored: `torch.sparse_csr`.")
    is_sparse_csr = property(lambda self: True, doc="Whether elements are stored by rows: they are.")


class ColumnTensor(Compressed):
    """What `torch.sparse_csc_tensor` makes. To programs it is a `torch.Tensor` whose `layout` is `torch.sparse_csc`.

    >>> torch.eye(2).to_sparse_csc().layout
    torch.sparse_csc
    """

    __slots__ = ()
    _along = 1
    _named = "ccol_indices", "row_indices"
    _kind = "SparseCsc"
    layout = property(lambda self: sparse_csc, doc="How elements are stored: `torch.sparse_csc`.")


compressed: dict[str, type[Compressed]] = {"torch.sparse_csr": RowTensor, "torch.sparse_csc": ColumnTensor}


def _by_index(t: Any) -> Any:
    """The same as a tensor of layout `sparse_coo`, its entries by rows; what is none stays as it is."""
    if isinstance(t, (tuple, list)):
        return [_by_index(one) for one in t]
    if not isinstance(t, Compressed):
        return t
    s = instance(SparseTensor, t._pattern, t._held)
    return coalesced(s) if t._along else s


def _as(t: Any, kind: type[Compressed]) -> Any:
    """A sparse matrix laid out so, which names every place once and by rows; what is none stays as it is."""
    if isinstance(t, tuple):
        return tuple([_as(one, kind) for one in t])
    if type(t) is not SparseTensor:
        return t
    p = t._pattern
    order = p.way(1).order if kind._along else None
    if order is None:
        return instance(kind, p, t._held)
    way = p.way(1)
    pattern = Pattern(stack([way.other, index_select(p.at[1], 0, order)]), p.sizes, False)
    return instance(kind, pattern, index_select(t._held, 0, order))


def of(t: Any, kind: type[Compressed] = RowTensor, dense_dim: int = 0) -> Any:
    """A matrix laid out by rows, or by columns, of numbers or of what has dimensions of its own."""
    if isinstance(t, kind):
        return t
    dims = len(t._pattern.sizes) if isinstance(t, SparseTensor) else t.ndim - dense_dim
    if dims != 2:
        raise NotImplementedError(
            f"nbgrad has single matrices by rows and columns alone, and the tensor has the size {list(t.shape)}"
        )
    found = coalesced(_by_index(t)) if isinstance(t, SparseTensor) else of_dense(t, 2)
    by_rows = kind is RowTensor and type(t) is SparseTensor  # which lie as they did
    held = found._held[:] if by_rows else found._held.clone()
    return _as(instance(SparseTensor, found._pattern, held), kind)  # a tensor of its own


def turned(t: Any) -> Any:
    """The transposed matrix, which is of the other layout."""
    return instance(RowTensor if t._along else ColumnTensor, t._pattern.turned(), t._held[:])


def _form_of(form: Callable[..., Any], kind: type[Compressed] | None) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        found = form(*_by_index(args), **{n: _by_index(v) for n, v in named.items()})
        return found if kind is None else _as(found, kind)

    return function


_BACK = """
    neg negative positive conj conj_physical resolve_conj real imag abs sqrt square sin asin sinh asinh tan atan tanh atanh erf expm1
    log1p floor ceil round trunc sign sgn relu deg2rad rad2deg isnan isinf clone detach to type_as float double half bfloat16 int long
    bool cpu cuda mul multiply div add sub mm matmul addmm zeros_like __add__ __sub__ __mul__ __rmul__ __truediv__ __neg__ __abs__
    __matmul__ __rmatmul__ __radd__ __rsub__ __deepcopy__ absolute arcsin arcsinh arctan arctanh erfinv frac fix isposinf isneginf
    signbit short char byte cfloat cdouble
"""
_AWAY = "to_dense to_sparse to_sparse_coo mv linear sum norm backward retain_grad _nnz numpy __len__ unbind"
# What makes nothing, or changes the matrix itself.
_KEPT = frozenset(
    [
        *("requires_grad_", "register_hook", "is_contiguous", "sparse_dim", "dense_dim", "_dimI", "_dimV"),
        *("zero_", "copy_", "mul_", "div_", "__imul__", "__itruediv__"),
        *(f"{name}_" for name in (*_forms.IN_PLACE.split(), "neg", "negative")),
    ]
)


def _t(input: Any) -> Any:
    return turned(input)


def _transpose(input: Any, dim0: int, dim1: int) -> Any:
    return turned(input) if dim0 % 2 != dim1 % 2 else input


def _uncompressed(self: Any, sparse_dim: Any = None, *, layout: Any = None) -> Any:
    """Entries in the order in which they are, which both tensors hold."""
    held = self._held.clone() if self.requires_grad else self._held[:]
    return forms["to_sparse"](instance(SparseTensor, self._pattern, held), sparse_dim, layout=layout)


def _detached(self: Any) -> Any:
    self._held = self._held.detach()
    return self


def _ones_like(input: Any, *, dtype: Any = None, **named: Any) -> Any:
    """Ones where there are entries."""
    ones = input._held.new_ones(tuple(input._held.shape), dtype=dtype)
    return instance(type(input), input._pattern, ones).requires_grad_(bool(named.get("requires_grad")))


def _select(input: Any, dim: int, index: int) -> Any:
    return forms["select"](_by_index(input), dim, index)


def _brackets(self: Any, key: Any) -> Any:
    return forms["__getitem__"](_by_index(self), key)


def _mask(self: Any, mask: Any) -> Any:
    return forms["sparse_mask"](_by_index(self), mask)


def _added(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    if not isinstance(self, Compressed):
        return forms["add_"](self, _by_index(other), alpha=alpha)
    found = _form_of(forms["add"], type(self))(self, other, alpha=alpha)
    return _forms._become(self, found)


def _sum(input: Any, *args: Any, **named: Any) -> Any:
    found = forms["sum"](_by_index(input), *args, **named)
    return _as(found, type(input)) if isinstance(found, SparseTensor) and found.ndim == 2 else found


def _plus(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Which takes a dense one on either side."""
    if isinstance(input, Compressed) and isinstance(other, Tensor) and not isinstance(other, SparseTensor):
        return forms["add"](other, _by_index(input * alpha if alpha != 1 else input))
    return _form_of(forms["add"], type(input) if isinstance(input, Compressed) else None)(
        input, other, alpha=alpha
    )


def _forms_of(kind: type[Compressed]) -> dict[str, Callable[..., Any]]:
    found = {
        **{name: _form_of(forms[name], kind) for name in _BACK.split()},
        **{name: _form_of(forms[name], None) for name in _AWAY.split()},
        **{name: forms[name] for name in ("grad", *_KEPT)},  # which see what layout there is
    }
    products = "mm", "matmul", "__matmul__", "__rmatmul__", "addmm"
    found |= {name: _form_of(forms[name], RowTensor) for name in products}
    found |= dict.fromkeys(("to_sparse", "to_sparse_coo"), _uncompressed)
    found |= {
        "t": _t,
        "transpose": _transpose,
        "select": _select,
        "detach_": _detached,
        "ones_like": _ones_like,
        "__getitem__": _brackets,
        "sparse_mask": _mask,
        "sum": _sum,
    }
    return found | {"add_": _added, "__iadd__": _added, "add": _plus, "__add__": _plus, "__radd__": _plus}


for _kind in (RowTensor, ColumnTensor):
    complete(_kind, _forms_of(_kind), f"{_kind._kind}CPU")


_SAID = {
    "crow_indices": ("crow_indices", "col_indices", "rows", "nrows", "ncols"),
    "ccol_indices": ("ccol_indices", "row_indices", "columns", "ncols", "nrows"),
}


def made_of(
    kind: type[Compressed],
    first: Any,
    other: Any,
    values: Any,
    size: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The matrix of a kind, of what tells it, which is looked at."""
    first, other = (
        to_dtype(t if isinstance(t, Tensor) else tensor(t, dtype=dtypes.int64), dtypes.int64)
        for t in (first, other)
    )
    held = values if isinstance(values, Tensor) else tensor(values, dtype=dtype)
    if first.ndim != 1 or other.ndim != 1 or not held.ndim:
        raise NotImplementedError(
            "nbgrad has single matrices by rows and columns alone; see torch.sparse_coo_tensor"
        )
    begins, places, lines, count_name, bound = _SAID[kind._named[0]]
    nnz = held.size(0)
    if other.size(0) != nnz:
        raise RuntimeError(
            f"{places}.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[0], but got {other.size(0)}"
        )
    count = first.size(0) - 1
    beyond = int(other.max()) + 1 if nnz else 0
    along = kind._along
    sizes = ((beyond, count) if along else (count, beyond)) if size is None else tuple(size)
    inner = tuple(held.shape)[1:]
    sizes = sizes if size is not None else (*sizes, *inner)
    if len(sizes) != 2 + len(inner) or sizes[along] != count:
        raise RuntimeError(
            f"{begins}.shape[-1] must be equal to the number of {lines} + 1 (={sizes[along] + 1}), but got {count + 1}"
        )
    each = first.diff()
    runs = f"{places}[..., {begins}[..., i - 1]:{begins}[..., i]] for all i = 1, ..., {count_name}"
    runs += " are sorted and distinct along the last dimension values"
    for holds, said in (
        (int(first[0]) == 0, f"{begins}[..., 0] == 0"),
        (int(first[-1]) == nnz, f"{begins}[..., -1] == nnz"),
        (
            not bool((each < 0).any()),
            f"0 <= {begins}[..., 1:] - {begins}[..., :-1] <= {bound}",
        ),
        (not nnz or (int(other.min()) >= 0 and beyond <= sizes[1 - along]), f"0 <= {places} < {bound}"),
    ):
        if not holds:
            raise RuntimeError(f"`{said}` is not satisfied.")
    lines_of = repeat_interleave(each)
    if nnz > 1 and not bool(((other[1:] > other[:-1]) | (lines_of[1:] != lines_of[:-1])).all()):
        raise RuntimeError(f"`{runs}` is not satisfied.")
    at = stack([other, lines_of] if along else [lines_of, other])
    s: Any = sparse_coo_tensor(
        at, held, sizes, dtype=dtype, device=device, requires_grad=requires_grad, is_coalesced=False
    )
    return instance(kind, Pattern(s._pattern.at, s._pattern.sizes, not along), s._held)


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """The sparse matrix whose row `i` has the `values` from `crow_indices[i]` to `crow_indices[i + 1]`, in the columns of `col_indices`
    there. Gradients flow to `values`.

    >>> torch.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [2.0, 3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 2., 0.],
            [3., 0., 4.]])
    """
    return made_of(RowTensor, crow_indices, col_indices, values, size, dtype, device, requires_grad)


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """The sparse matrix whose column `i` has the `values` from `ccol_indices[i]` to `ccol_indices[i + 1]`, in the rows of `row_indices`
    there. Gradients flow to `values`.

    >>> torch.sparse_csc_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0], (2, 2)).to_dense()
    tensor([[0., 3.],
            [2., 4.]])
    """
    return made_of(ColumnTensor, ccol_indices, row_indices, values, size, dtype, device, requires_grad)


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """The sparse matrix of `layout` `torch.sparse_csr` or `torch.sparse_csc`, as the functions of these names make them.

    >>> torch.sparse_compressed_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0], (2, 2), layout=torch.sparse_csc).layout
    torch.sparse_csc
    """
    kind = compressed.get(str(layout))
    if kind is None:
        got = (
            "none"
            if layout is None
            else str(layout).removeprefix("torch.").title().replace("_", "").removesuffix("Coo")
        )
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {got}")
    return made_of(kind, compressed_indices, plain_indices, values, size, dtype, device, requires_grad)
