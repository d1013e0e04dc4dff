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


classes.known["sparse"] = _of_file


@method
def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> Tensor:
    """The elements that are not zero, by their indices along the first `sparse_dim` dimensions (all, unless told).

    >>> torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=torch.sparse_coo)
    """
    if layout is not None and f"{layout!r}" == "torch.sparse_csr":
        return to_sparse_csr(self)
    coo = _coo()
    if layout is not None and layout is not coo.sparse_coo:
        raise NotImplementedError(
            f"nbgrad has no sparse tensors of layout {layout}; use torch.sparse_coo or torch.sparse_csr"
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
    """The elements of a matrix that are not zero, by rows. Values with dimensions of their own (`dense_dim`) are not built.

    >>> torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csr()
    tensor(crow_indices=tensor([0, 1, 3]),
           col_indices=tensor([1, 0, 1]),
           values=tensor([2., 3., 4.]), size=(2, 2), nnz=3,
           layout=torch.sparse_csr)
    """
    if dense_dim:
        raise NotImplementedError("nbgrad has no sparse tensors by rows of which values have dimensions")
    made: Tensor = _coo("_rows").of(self)
    return made


@method
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements of the tensor where `mask`, a sparse one, has some.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).sparse_mask(torch.eye(2).to_sparse()).values()
    tensor([1., 4.])
    """
    raise RuntimeError("sparse_mask(): mask must be sparse")


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
