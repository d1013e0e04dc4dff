"""Sparse matrices of layout `sparse_csr`: entries by rows, which are told by where each begins.

They are sparse tensors whose entries stand in that order, so products read them as they are, and a form of theirs is the one of `_forms`,
with a result that is laid out so again. The transposed of one is of layout `sparse_coo`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.ops.arrange.orders import repeat_interleave
from nbgrad.ops.host import printing
from nbgrad.ops.host.attributes import layout as _layout
from nbgrad.ops.make.data import tensor
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.join import stack
from nbgrad.sparse import _forms
from nbgrad.sparse._pattern import Pattern
from nbgrad.sparse._tensor import (
    SparseTensor,
    coalesced,
    complete,
    forms,
    in_order,
    instance,
    of_dense,
    sparse_coo_tensor,
    suffixes,
    text,
)

sparse_csr = _layout("sparse_csr")


class RowTensor(SparseTensor):
    """What `torch.sparse_csr_tensor` makes. To programs it is a `torch.Tensor` whose `layout` is `torch.sparse_csr`.

    >>> torch.eye(2).to_sparse_csr().layout
    torch.sparse_csr
    """

    __slots__ = ()

    layout = property(lambda self: sparse_csr, doc="How elements are stored: `torch.sparse_csr`.")
    is_sparse = property(lambda self: False, doc="Whether elements are stored by index: only columns are.")
    is_sparse_csr = property(lambda self: True, doc="Whether elements are stored by rows: they are.")
    T = mT = H = mH = property(lambda self: _forms.t(_by_index(self)), doc="The transposed matrix.")

    def _text(self) -> str:
        named = (
            ("crow_indices", self.crow_indices()),
            ("col_indices", self.col_indices()),
            ("values", self._held),
        )
        said = "tensor(" + ",\n       ".join([text(n, t) for n, t in named])
        return printing.add_suffixes(said, suffixes(self), 7)

    def crow_indices(self) -> Tensor:
        """Where each row begins, and the last one ends."""
        return self._pattern.way(0).first

    def col_indices(self) -> Tensor:
        """The column of each entry."""
        return self._pattern.way(0).other

    def values(self) -> Tensor:
        """The entries."""
        return self._held[:]

    def indices(self) -> Tensor:
        """Of layout `sparse_coo` alone."""
        raise RuntimeError("indices expected sparse coordinate tensor layout but got SparseCsr")

    def coalesce(self) -> Tensor:
        """Of layout `sparse_coo` alone."""
        raise RuntimeError("coalesce expected sparse coordinate tensor layout but got SparseCsr")

    def to_sparse_csr(self, dense_dim: int | None = None) -> Tensor:
        """The matrix itself."""
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        way = self._pattern.way(0)
        return sparse_csr_tensor, (way.first, way.other, self._held.detach(), tuple(self.shape))


def _by_index(t: Any) -> Any:
    """The same as a tensor of layout `sparse_coo`; what is none stays as it is."""
    if isinstance(t, (tuple, list)):
        return [_by_index(one) for one in t]
    return instance(SparseTensor, t._pattern, t._held) if isinstance(t, RowTensor) else t


def _by_rows(t: Any) -> Any:
    """A sparse matrix laid out by rows; what is none stays as it is."""
    if isinstance(t, tuple):
        return tuple([_by_rows(one) for one in t])
    return instance(RowTensor, t._pattern, t._held) if type(t) is SparseTensor else t


def of(t: Any) -> RowTensor:
    """A matrix laid out by rows."""
    if t.ndim != 2 or (isinstance(t, SparseTensor) and len(t._pattern.sizes) != 2):
        raise RuntimeError(f"nbgrad has matrices by rows alone, and the tensor has the size {list(t.shape)}")
    s = t if isinstance(t, SparseTensor) else of_dense(t, 2)
    return t if isinstance(t, RowTensor) else instance(RowTensor, coalesced(s)._pattern, coalesced(s)._held)


def _turned(form: Callable[..., Any], back: bool) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        found = form(*_by_index(args), **{n: _by_index(v) for n, v in named.items()})
        return _by_rows(found) if back else found

    return function


_BACK = """
    neg negative positive abs sqrt square sin asin sinh asinh tan atan tanh atanh erf expm1 log1p floor ceil round trunc sign sgn relu
    deg2rad rad2deg isnan isinf clone detach to type_as float double half bfloat16 int long bool cpu cuda mul multiply div add sub mm
    matmul addmm zeros_like __add__ __sub__ __mul__ __rmul__ __truediv__ __neg__ __abs__ __matmul__ __rmatmul__
    __radd__ __rsub__ __deepcopy__
"""
_AWAY = "to_dense to_sparse to_sparse_coo mv linear sum norm t transpose backward retain_grad _nnz numpy __len__ sparse_mask"
_FORMS: dict[str, Callable[..., Any]] = {
    **{name: _turned(forms[name], True) for name in _BACK.split()},
    **{name: _turned(forms[name], False) for name in _AWAY.split()},
}
# What makes nothing, or changes the matrix itself.
_KEPT = frozenset(
    [
        *("requires_grad_", "register_hook", "is_contiguous", "sparse_dim", "dense_dim", "_dimI", "_dimV"),
        *("zero_", "copy_", "mul_", "div_", "__imul__", "__itruediv__"),
    ]
)
_FORMS |= {name: forms[name] for name in ("grad", *_KEPT)}  # which see what layout there is
complete(RowTensor, _FORMS, "SparseCsrCPU")


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
    first, columns = (
        to_dtype(t if isinstance(t, Tensor) else tensor(t), dtypes.int64) for t in (crow_indices, col_indices)
    )
    held = values if isinstance(values, Tensor) else tensor(values, dtype=dtype)
    if first.ndim != 1 or columns.ndim != 1 or held.ndim != 1:
        raise NotImplementedError(
            "nbgrad has single matrices of numbers by rows alone; see torch.sparse_coo_tensor"
        )
    if columns.size(0) != held.size(0):
        raise RuntimeError(
            f"col_indices.shape[-1] must be equal to nnz (={held.size(0)}) as defined by values.shape[0], but got {columns.size(0)}"
        )
    count = first.diff()
    if int(first[0]) or int(first[-1]) != held.size(0) or bool((count < 0).any()):
        raise RuntimeError(
            f"crow_indices must rise from 0 to nnz (={held.size(0)}), but they are {first.tolist()[:8]} and so on"
        )
    rows = first.size(0) - 1
    sizes = (rows, int(columns.max()) + 1 if columns.numel() else 0) if size is None else tuple(size)
    if len(sizes) != 2 or sizes[0] != rows:
        raise RuntimeError(
            f"crow_indices.shape[-1] must be equal to nrows + 1 = {sizes[0] + 1}, but got {rows + 1}"
        )
    s: Any = sparse_coo_tensor(
        stack([repeat_interleave(count), columns]),
        held,
        sizes,
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        is_coalesced=False,
    )
    pattern = s._pattern
    return instance(RowTensor, Pattern(pattern.at, pattern.sizes, in_order(pattern)), s._held)
