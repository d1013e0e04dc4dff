"""What dense tensors answer to what is asked of sparse ones, whose module is loaded when one is made."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.stanza import method
from nbgrad.exchange import classes


def _coo(part: str = "_tensor") -> Any:
    return import_module(f"{__name__.partition('.')[0]}.sparse.{part}")


def _of_file(at: Tensor, values: Tensor, size: Any, whole: bool | None) -> Tensor:
    """What a file tells of one, which is not believed."""
    made: Tensor = _coo().sparse_coo_tensor(at, values, size, is_coalesced=whole, check_invariants=True)
    return made


def _compressed_of_file(layout: str, first: Tensor, other: Tensor, values: Tensor, size: Any) -> Tensor:
    parts = _coo("_compressed")
    made: Tensor = parts.made_of(parts.compressed[layout], first, other, values, size)
    return made


classes.known |= {"sparse": _of_file, "compressed": _compressed_of_file}


@method
def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> Tensor:
    """The elements that are not zero, by their indices along the first `sparse_dim` dimensions (all, unless told).

    >>> torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=torch.sparse_coo)
    """
    kind = f"{layout!r}"
    if kind in ("torch.sparse_csr", "torch.sparse_csc"):
        return to_sparse_csr(self) if kind[-1] == "r" else to_sparse_csc(self)
    coo = _coo()
    if layout is not None and layout is not coo.sparse_coo:
        raise NotImplementedError(
            f"nbgrad has no sparse tensors of layout {layout}; use torch.sparse_coo, torch.sparse_csr or torch.sparse_csc"
        )
    dims = self.ndim if sparse_dim is None else sparse_dim
    if not 0 <= dims <= self.ndim:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.ndim}] range, but {dims} is given"
        )
    if self.ndim and not dims:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    made: Tensor = coo.of_dense(self, dims)
    return made


@method
def to_sparse_coo(self: Tensor) -> Tensor:
    """The elements that are not zero, by their indices.

    >>> torch.eye(2).to_sparse_coo().values()
    tensor([1., 1.])
    """
    return to_sparse(self)


@method
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The elements of a matrix that are not zero, by rows; with `dense_dim` values have as many dimensions of their own, the last ones.

    >>> torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csr()
    tensor(crow_indices=tensor([0, 1, 3]),
           col_indices=tensor([1, 0, 1]),
           values=tensor([2., 3., 4.]), size=(2, 2), nnz=3,
           layout=torch.sparse_csr)
    """
    made: Tensor = _coo("_compressed").of(self, dense_dim=dense_dim or 0)
    return made


@method
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The elements of a matrix that are not zero, by columns; with `dense_dim` values have as many dimensions of their own, the last ones.

    >>> torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csc().row_indices()
    tensor([1, 0, 1])
    """
    parts = _coo("_compressed")
    made: Tensor = parts.of(self, parts.ColumnTensor, dense_dim or 0)
    return made


@method
def smm(self: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one, which stays sparse.

    >>> torch.eye(2).to_sparse().smm(torch.ones(2, 2))._nnz()
    4
    """
    raise RuntimeError("sspaddmm: expected 'mat1' to have sparse layout, got 'mat1' with layout Strided")


@method
def sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """`torch.sspaddmm`, of sparse tensors.

    >>> s = torch.eye(2).to_sparse()
    >>> s.sspaddmm(s, torch.ones(2, 2))._nnz()
    6
    """
    made: Tensor = _coo("_more").sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return made


@method
def resize_as_sparse_(self: Tensor, the_template: Tensor) -> Tensor:
    """`torch.resize_as_sparse_`, of sparse tensors.

    >>> torch.sparse_coo_tensor((1, 1)).resize_as_sparse_(torch.eye(2).to_sparse()).shape
    torch.Size([2, 2])
    """
    made: Tensor = _coo("_more").resize_as_sparse_(self, the_template)
    return made


@method
def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Give a sparse tensor other sizes, within which its entries are; without entries any.

    >>> torch.eye(2).to_sparse().sparse_resize_((2, 3), 2, 0).shape
    torch.Size([2, 3])
    """
    raise NotImplementedError("Could not run 'aten::sparse_resize_' with arguments from the 'CPU' backend.")


@method
def sparse_resize_and_clear_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Give a sparse tensor other sizes, and no entries.

    >>> torch.eye(2).to_sparse().sparse_resize_and_clear_((4,), 1, 0)._nnz()
    0
    """
    raise NotImplementedError(
        "Could not run 'aten::sparse_resize_and_clear_' with arguments from the 'CPU' backend."
    )


@method
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements of the tensor where `mask`, a sparse one, has some.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).sparse_mask(torch.eye(2).to_sparse()).values()
    tensor([1., 4.])
    """
    raise NotImplementedError("Could not run 'aten::sparse_mask' with arguments from the 'CPU' backend.")


def _refusing(name: str, kind: str = "sparse coordinate") -> None:
    def refuse(self: Tensor) -> Any:
        raise RuntimeError(f"{name} expected {kind} tensor layout but got Strided")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = """Of sparse tensors; see `torch.sparse_coo_tensor`.

    >>> torch.eye(2).to_sparse().coalesce().indices()
    tensor([[0, 1],
            [0, 1]])
    """
    method(refuse)


for _name in ("coalesce", "is_coalesced", "indices"):
    _refusing(_name)
_refusing("values", "sparse")
_refusing("crow_indices", "sparse row compressed")
_refusing("col_indices", "sparse row compressed")
_refusing("ccol_indices", "sparse column compressed")
_refusing("row_indices", "sparse column compressed")
