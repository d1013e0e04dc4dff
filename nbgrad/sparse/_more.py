"""What else makes or changes sparse tensors: products that stay sparse, diagonals, other sizes, factories by layout."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nbgrad._holding import complete, refuse
from nbgrad.core import overrides
from nbgrad.core.signatures import kind_name
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.ops.arrange.orders import repeat_interleave
from nbgrad.ops.host.attributes import layout as Layout
from nbgrad.ops.index.gather import index_select
from nbgrad.ops.make.counted import arange
from nbgrad.ops.order.sort import searchsorted
from nbgrad.ops.order.unique import unique
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.join import cat, stack
from nbgrad.sparse._compressed import Compressed, compressed, of
from nbgrad.sparse._pattern import Pattern
from nbgrad.sparse._products import dots, product
from nbgrad.sparse._tensor import (
    SparseTensor,
    dense,
    form,
    forms,
    instance,
    made,
    sparse_coo,
    sparse_coo_tensor,
)

# ---------------------------------------------------------------- products that stay sparse


def _name(t: Any) -> str:
    """How PyTorch's messages call a tensor's layout."""
    return _called(t.layout)


def _called(layout: Any) -> str:
    return str(layout).removeprefix("torch.").title().replace("_", "").removesuffix("Coo")


def _rows_there(s: SparseTensor, dense: Tensor) -> tuple[Tensor, Tensor]:
    """Of a product the rows that have entries, and which these are."""
    rows = unique(s._pattern.at[0])
    return rows, index_select(product(s._held, dense, pattern=s._pattern, d=0), 0, rows)


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)` of a dense `mat2`, which stays sparse: rows of the product without entries of `mat1` are
    left out.

    >>> s = torch.sparse_coo_tensor([[1], [0]], [2.0], (2, 2))
    >>> torch.sspaddmm(s, s, torch.ones(2, 2))
    tensor(indices=tensor([[1, 1, 1],
                           [0, 0, 1]]),
           values=tensor([2., 2., 2.]),
           size=(2, 2), nnz=3, layout=torch.sparse_coo)
    """
    _need("mat1", mat1, sparse_coo)
    if isinstance(mat2, SparseTensor):
        raise RuntimeError(
            f"sspaddmm: expected 'mat2' to have strided layout, got 'mat2' with layout {_name(mat2)}"
        )
    if not isinstance(input, SparseTensor):
        raise RuntimeError("sspaddmm: expected 'self' to have sparse layout, got 'self' with layout Strided")
    (rows, inner), columns = mat1.shape, mat2.size(1)
    if mat2.size(0) != inner:
        raise RuntimeError(f"sspaddmm: Argument #3: Expected dim 0 size {inner}, got {mat2.size(0)}")
    for d, (own, wanted) in enumerate(zip(input.shape, (rows, columns))):
        if own != wanted:
            raise RuntimeError(f"sspaddmm: Argument #1: Expected dim {d} size {wanted}, got {own}")
    there, values = _rows_there(mat1, mat2)
    at = stack(
        [
            repeat_interleave(there, columns),
            arange(columns, device=there.device).repeat(there.size(0)),
        ]
    )
    p = input._pattern
    both = Pattern(cat([p.at, at], 1), p.sizes, False)
    result = made(both, cat([input._held * beta, values.reshape(-1) * alpha]))
    return result if out is None else out.copy_(result)


def _need(name: str, t: Any, layout: Layout) -> None:
    if not isinstance(t, Tensor) or t.layout is not layout:
        kind = _name(t) if isinstance(t, Tensor) else kind_name(t)
        raise RuntimeError(
            f"sspaddmm: expected '{name}' to have sparse layout, got '{name}' with layout {kind}"
        )


def smm(input: Any, mat2: Any) -> Tensor:
    """The product of a sparse matrix and a dense one, which stays sparse: rows without entries are left out.

    >>> torch.smm(torch.sparse_coo_tensor([[1], [0]], [2.0], (2, 2)), torch.ones(2, 2)).to_dense()
    tensor([[0., 0.],
            [2., 2.]])
    """
    _need("mat1", input, sparse_coo)
    nothing = sparse_coo_tensor((input.size(0), mat2.size(-1)), dtype=input.dtype, device=input.device)
    return sspaddmm(nothing, input, mat2)


def hspmm(mat1: Any, mat2: Any, *, out: Any = None) -> Tensor:
    """The same as a tensor of whole rows: of one sparse dimension, and one dense.

    >>> torch.hspmm(torch.sparse_coo_tensor([[1], [0]], [2.0], (2, 2)), torch.ones(2, 3))
    tensor(indices=tensor([[1]]),
           values=tensor([[2., 2., 2.]]),
           size=(2, 3), nnz=1, layout=torch.sparse_coo)
    """
    if not isinstance(mat1, SparseTensor) or mat1.ndim != 2 or len(mat1._pattern.sizes) != 2:
        n = len(mat1._pattern.sizes) if isinstance(mat1, SparseTensor) else 0
        raise RuntimeError(f"hspmm: Argument #2: matrices expected, got {n}D tensor")
    if isinstance(mat2, SparseTensor):
        raise RuntimeError(
            f"addmm_sparse_dense: expected strided result tensor, got tensor with layout {_name(mat2)}"
        )
    if mat2.size(0) != mat1.size(1):
        raise RuntimeError(f"hspmm: Argument #3: Expected dim 0 size {mat1.size(1)}, got {mat2.size(0)}")
    rows, values = _rows_there(mat1, mat2)
    result = made(Pattern(rows.reshape(1, -1), (mat1.size(0),), False), values)
    return result if out is None else out.copy_(result)


hsmm, saddmm = hspmm, sspaddmm
form("smm")(smm)
form("sspaddmm")(sspaddmm)


def sampled_addmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)` where `input`, a matrix by rows, has entries: only these are computed.

    >>> s = torch.eye(2).to_sparse_csr()
    >>> torch.sparse.sampled_addmm(s, torch.ones(2, 3), torch.ones(3, 2), beta=0).values()
    tensor([3., 3.])
    """
    if not isinstance(input, Compressed) or input._along != 0:
        refuse("sparse_sampled_addmm", "SparseCPU" if isinstance(input, SparseTensor) else "CPU")
    (a, b), (c, d) = mat1.shape[-2:], mat2.shape[-2:]
    if b != c:
        raise RuntimeError(f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({a}x{b} and {c}x{d})")
    if input.size(0) != a:
        raise RuntimeError("sampled_addmm: self.shape[-2] must match mat1.shape[-2]")
    if input.size(1) != d:
        raise RuntimeError("sampled_addmm: self.shape[-1] must match mat2.shape[-1]")
    found = dots(mat1, mat2.t(), pattern=input._pattern, d=0) * alpha
    result = instance(type(input), input._pattern, found if beta == 0 else found + input._held * beta)
    return result if out is None else out.copy_(result)


def mm_by(mat1: Any, mat2: Any, reduce: Any) -> Tensor:
    """The product of a matrix by rows and a dense one in which what meets at an element is combined by `reduce`."""
    if not isinstance(reduce, str):
        raise TypeError(f"_sparse_mm(): argument 'reduce' (position 3) must be str, not {kind_name(reduce)}")
    if mat1.layout is sparse_coo or not (isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor)):
        refuse("_sparse_mm_reduce_impl", "SparseCPU" if isinstance(mat1, SparseTensor) else "CPU")
    if not isinstance(mat1, Compressed) or mat1._along != 0:
        raise RuntimeError(f"sparse_mm_reduce: expect self to be SparseCsr, got {_name(mat1)}")
    if isinstance(mat2, SparseTensor):
        raise RuntimeError(
            f"Expected tensor to have Strided Layout, but got tensor with {_name(mat2)} Layout "
            "(while checking arguments for sparse_mm_reduce)"
        )
    p, held = mat1._pattern, mat1._held
    if mat2.ndim != 2 or mat2.size(0) != p.sizes[1]:
        raise RuntimeError(
            f"Expected a tensor of dimension 2 and tensor.size[0] == {p.sizes[1]} but got: dimension {mat2.ndim} and "
            f"tensor.size[0] = {mat2.size(0)}"
        )
    if mat1.dtype is not mat2.dtype:
        raise RuntimeError(
            f"Expected tensor for argument #1 'other' to have scalar type {mat1.dtype.scalar_name}; but got {mat2.type()} "
            "instead (while checking arguments for sparse_mm_reduce)"
        )
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("sum", "mean", "amax", "amin", "prod"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if reduce == "prod":
        raise RuntimeError("sparse_mm_reduce: reduce type of prod has not been enabled.")
    if not mat1.dtype.is_floating_point:
        raise NotImplementedError(f"\"spmm_reduce_kernel\" not implemented for '{mat1.dtype.scalar_name}'")
    if reduce in ("sum", "mean") or not p.count:
        found = product(held, mat2, pattern=p, d=0)
        return found if reduce != "mean" else found / p.way(0).first.diff().clamp(min=1).unsqueeze(1)
    # The first of equal extremes has the gradient, which the reductions by index share among all.
    rows, columns = p.at
    each = held.detach().unsqueeze(1) * index_select(mat2.detach(), 0, columns)
    index, shape = rows.unsqueeze(1).expand_as(each), (p.sizes[0], each.size(1))
    best = each.new_zeros(shape).scatter_reduce(0, index, each, reduce, include_self=False)
    hit = (each == index_select(best, 0, rows)) | each.isnan()
    place = arange(p.count, device=each.device).unsqueeze(1).where(hit, p.count)
    chosen = place.new_full(shape, p.count).scatter_reduce(0, index, place, "amin")
    taken = chosen.clamp(max=p.count - 1)
    return (held[taken] * mat2.gather(0, columns[taken])).masked_fill(chosen == p.count, 0)


def _convert_indices_from_coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each of `size` rows begins, of the rows of entries in order.

    >>> torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 3)
    tensor([0, 2, 2, 3])
    """
    first = searchsorted(self, arange(size + 1, dtype=self.dtype, device=self.device))
    return to_dtype(first, dtypes.int32 if out_int32 else dtypes.int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Rows and columns of entries, of where each row begins and their columns; `transpose` gives columns and rows.

    >>> torch._convert_indices_from_csr_to_coo(torch.tensor([0, 2, 2, 3]), torch.tensor([1, 0, 1]))
    tensor([[0, 0, 2],
            [1, 0, 1]])
    """
    pair = [to_dtype(repeat_interleave(crow_indices.diff()), col_indices.dtype), col_indices]
    return to_dtype(stack(pair[::-1] if transpose else pair), dtypes.int32 if out_int32 else dtypes.int64)


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Tensor:
    """The sparse matrix of this shape that has the rows of `diagonals` on its diagonals, `offsets` to the right of the main one: what
    stands in column j comes from place j of its row.

    >>> torch.sparse.spdiags(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([1]), (3, 3)).to_dense()
    tensor([[0., 2., 0.],
            [0., 0., 3.],
            [0., 0., 0.]])
    """
    rows, lines = diagonals.reshape(1, -1) if diagonals.ndim == 1 else diagonals, offsets.reshape(-1)
    if rows.ndim != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if offsets.ndim > 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if rows.size(0) != lines.size(0):
        raise RuntimeError(
            f"Number of diagonals ({rows.size(0)}) does not match the number of offsets ({lines.size(0)})"
        )
    if layout is not None and str(layout) not in ("torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc"):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {str(layout).removeprefix('torch.').title()}"
        )
    if lines.dtype is not dtypes.int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {lines.dtype.scalar_name}")
    if unique(lines).size(0) != lines.size(0):
        raise RuntimeError("Offset tensor contains duplicate values")
    n, m = (int(k) for k in shape)
    columns = arange(min(rows.size(1), m), device=lines.device).expand(rows.size(0), -1)
    down = columns - lines.unsqueeze(1)
    there = ((down >= 0) & (down < n)).nonzero()
    line, column = there[:, 0], there[:, 1]
    at = stack([down[line, column], column])
    result = made(Pattern(at, (n, m), False), rows[line, column])
    return result if layout is None else result.to_sparse(layout=layout)


# ---------------------------------------------------------------- sizes


_OPTIONS = (
    " on a non-empty sparse tensor is not supported.\nYou could try the following options:\n1. If you need an empty sparse tensor of this "
    "size, call `x = torch.sparse_coo_tensor(size)`.\n"
)


def _check_dims(size: Any, sparse_dim: int, dense_dim: int) -> None:
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {sparse_dim}, dense_dim = "
            f"{dense_dim}"
        )


@form("sparse_resize_")
def sparse_resize_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    _check_dims(size, sparse_dim, dense_dim)
    p, held = self._pattern, self._held
    if not p.count:
        return sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)
    for kind, have, wanted in (("sparse", len(p.sizes), sparse_dim), ("dense", held.ndim - 1, dense_dim)):
        if have != wanted:
            raise RuntimeError(
                f"changing the number of {kind} dimensions (from {have} to {wanted}){_OPTIONS}"
            )
    for kind, have_, wanted_ in (
        ("sparse", p.sizes, tuple(size)[:sparse_dim]),
        ("dense", tuple(held.shape)[1:], tuple(size)[sparse_dim:]),
    ):
        if any([b < a for a, b in zip(have_, wanted_)]):
            raise RuntimeError(
                f"shrinking the size of {kind} dimensions (from {list(have_)} to {list(wanted_)}){_OPTIONS}"
            )
    inner = tuple(size)[sparse_dim:]
    if inner != tuple(held.shape)[1:]:
        grown = held.new_zeros((held.size(0), *inner))
        grown[tuple([slice(n) for n in held.shape])] = held
        held = grown
    return _replaced(self, Pattern(p.at, tuple(size)[:sparse_dim], p.whole), held)


@form("sparse_resize_and_clear_")
def sparse_resize_and_clear_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    _check_dims(size, sparse_dim, dense_dim)
    at = self._pattern.at.new_zeros((sparse_dim, 0))
    values = self._held.detach().new_zeros((0, *tuple(size)[sparse_dim:]))
    return _replaced(self, Pattern(at, tuple(size)[:sparse_dim], True), values)


def _replaced(self: Any, pattern: Pattern, values: Tensor) -> Any:
    found = instance(type(self), pattern, values)
    self._pattern, self._held, self._spec = found._pattern, found._held, found._spec
    return self


@form("resize_as_sparse_", "resize_as_")
def resize_as_sparse_(self: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """Give a sparse tensor the sizes of another one, which it may have entries beside only if they stay within.

    >>> torch.resize_as_sparse_(torch.sparse_coo_tensor((1, 1)), torch.eye(2).to_sparse()).shape
    torch.Size([2, 2])
    """
    if not isinstance(self, SparseTensor) or not isinstance(the_template, SparseTensor):
        refuse("resize_", "SparseCPU")
    n = len(the_template._pattern.sizes)
    if tuple(self.shape) == tuple(the_template.shape) and len(self._pattern.sizes) == n:
        return self
    return sparse_resize_(self, tuple(the_template.shape), n, the_template.ndim - n)


# ---------------------------------------------------------------- factories


@form("new_zeros", "new_empty")
def new_zeros(
    self: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any
) -> Tensor:
    sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size or named["size"]
    made_ = sparse_coo_tensor(tuple(sizes), dtype=dtype or self.dtype, device=device or self.device)
    return made_.requires_grad_(requires_grad)


@form("new")
def new(self: Any, *args: Any, device: Any = None) -> Tensor:
    if args and isinstance(args[0], Tensor):
        return sparse_coo_tensor(*args, dtype=self.dtype, device=self.device)
    return new_zeros(self, *args) if args else new_zeros(self, (0,))


def _sized(layout: Any, size: Any, dtype: Any, device: Any, requires_grad: Any) -> Tensor:
    nothing = sparse_coo_tensor(size, dtype=dtype, device=device)
    found = nothing if layout is sparse_coo else of(nothing, compressed[str(layout)])
    return found.requires_grad_(bool(requires_grad))


def _zeros(
    *size: Any,
    layout: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
    **named: Any,
) -> Tensor:
    if (out := named.get("out")) is not None and out.layout is not layout:
        raise RuntimeError(f"layout {_called(layout)} does not match layout of out parameter ({_name(out)})")
    sizes = (
        named["size"] if not size else size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    )
    return _sized(layout, tuple(sizes), dtype, device, requires_grad)


def _zeros_like(
    input: Any,
    *,
    layout: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    return _sized(layout, tuple(input.shape), dtype or input.dtype, device or input.device, requires_grad)


def _not_filled(*_: Any, **named: Any) -> None:
    raise RuntimeError("full(...) is not implemented for sparse layout")


_BY_LAYOUT: dict[str, Callable[..., Any]] = {"zeros": _zeros, "empty": _zeros}
_BY_LAYOUT |= {"zeros_like": _zeros_like, "empty_like": _zeros_like, "ones": _not_filled, "full": _not_filled}
_NAMES_OF_OPS = {"eye": "eye.m_out", "arange": "arange.start_out", "rand": "uniform_", "randn": "normal_"}


def _by_layout(name: str, args: Any, named: Any) -> Callable[..., Any] | None:
    """A factory that is given a layout."""
    layout = named.get("layout")
    if layout is None or repr(layout) == "torch.strided" or name[:3] == "to_" or name not in _MAKING:
        return None
    if name in _BY_LAYOUT:
        return partial(_BY_LAYOUT[name], *args, **named)
    return partial(refuse, _NAMES_OF_OPS.get(name, name))


_MAKING = frozenset((*_BY_LAYOUT, *_NAMES_OF_OPS))
overrides.elsewhere[Layout] = _by_layout
_like = forms["zeros_like"]


@form("zeros_like", "empty_like")
def zeros_like(input: Any, *, layout: Any = None, **named: Any) -> Any:
    if layout is None or layout is sparse_coo:
        return _like(input, **named)
    if repr(layout) == "torch.strided":
        return dense(_like(input, **named))
    return _zeros_like(input, layout=layout, **named)


complete(SparseTensor, forms, "SparseCPU")
