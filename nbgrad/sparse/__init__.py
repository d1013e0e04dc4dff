"""Sparse tensors: `torch.sparse`, and what makes and takes them.

A sparse tensor holds indices and values of its elements; `torch.sparse_coo_tensor` and `Tensor.to_sparse` make one. Products, sums and
other functions of `torch` and methods take them, as `nbgrad.sparse._forms` has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.core.arguments import unset
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Size
from nbgrad.sparse import _forms
from nbgrad.sparse._compressed import Compressed as _Compressed
from nbgrad.sparse._compressed import sparse_compressed_tensor as sparse_compressed_tensor
from nbgrad.sparse._compressed import sparse_csc as sparse_csc
from nbgrad.sparse._compressed import sparse_csc_tensor as sparse_csc_tensor
from nbgrad.sparse._compressed import sparse_csr as sparse_csr
from nbgrad.sparse._compressed import sparse_csr_tensor as sparse_csr_tensor
from nbgrad.sparse._more import _convert_indices_from_coo_to_csr as _convert_indices_from_coo_to_csr
from nbgrad.sparse._more import _convert_indices_from_csr_to_coo as _convert_indices_from_csr_to_coo
from nbgrad.sparse._more import hsmm as hsmm
from nbgrad.sparse._more import hspmm as hspmm
from nbgrad.sparse._more import mm_by as _mm_by
from nbgrad.sparse._more import resize_as_sparse_ as resize_as_sparse_
from nbgrad.sparse._more import saddmm as saddmm
from nbgrad.sparse._more import sampled_addmm as sampled_addmm
from nbgrad.sparse._more import smm as smm
from nbgrad.sparse._more import spdiags as spdiags
from nbgrad.sparse._more import sspaddmm as sspaddmm
from nbgrad.sparse._tensor import SparseTensor as _SparseTensor
from nbgrad.sparse._tensor import sparse_coo as sparse_coo
from nbgrad.sparse._tensor import sparse_coo_tensor as sparse_coo_tensor


def _need_sparse(t: Any) -> Any:
    if not isinstance(t, _SparseTensor) or isinstance(t, _Compressed):
        kind = t._kind if isinstance(t, _Compressed) else "Strided"
        raise RuntimeError(f"coalesce expected sparse coordinate tensor layout but got {kind}")
    return t


def mm(mat1: Tensor, mat2: Tensor, reduce: Any = unset) -> Tensor:
    """The product of two matrices, either of which may be sparse: dense, or sparse if both are. A sparse leaf gets a gradient where it has
    elements. With `reduce`, of a matrix by rows and a dense one, what meets at an element is combined by "sum", "mean", "amax" or "amin"; a
    row without entries is 0.

    >>> a = torch.eye(2).to_sparse()
    >>> torch.sparse.mm(a, torch.ones(2, 3))
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    >>> rows = torch.ones(1, 2).to_sparse_csr()
    >>> torch.sparse.mm(rows, torch.tensor([[1.0, 5.0], [3.0, 2.0]]), "amax")
    tensor([[3., 5.]])
    """
    return mat1.mm(mat2) if reduce is unset else _mm_by(mat1, mat2, reduce)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`, of a sparse `mat1`.

    >>> torch.sparse.addmm(torch.ones(2, 2), torch.eye(2).to_sparse(), torch.ones(2, 2), alpha=3)
    tensor([[4., 4.],
            [4., 4.]])
    """
    return input.addmm(mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all elements, or along `dim`: sparse as long as a dimension that is stored by index is left.

    >>> s = torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse()
    >>> torch.sparse.sum(s), torch.sparse.sum(s, 0).to_dense()
    (tensor(9.), tensor([3., 6.]))
    """
    return _forms.sum(_need_sparse(input), dim, dtype=dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along `dim` over the elements that are there; those that are not stay so.

    >>> s = torch.tensor([[0.0, 2.0], [3.0, 3.0]]).to_sparse()
    >>> torch.sparse.softmax(s, 1).to_dense()
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    return _forms.softmax_of(_need_sparse(input), dim, False, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`, computed as one.

    >>> s = torch.tensor([[0.0, 2.0], [3.0, 3.0]]).to_sparse()
    >>> torch.sparse.log_softmax(s, 1).values()
    tensor([ 0.0000, -0.6931, -0.6931])
    """
    return _forms.softmax_of(_need_sparse(input), dim, True, dtype)


class check_sparse_tensor_invariants:
    """Whether indices of sparse tensors are to be looked at when one is made, which they always are here: a context, a decorator, or
    `enable()` and `disable()`.

    >>> with torch.sparse.check_sparse_tensor_invariants():
    ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    _on = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        return check_sparse_tensor_invariants._on

    @staticmethod
    def enable() -> None:
        check_sparse_tensor_invariants._on = True

    @staticmethod
    def disable() -> None:
        check_sparse_tensor_invariants._on = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager instance for context nesting."
            )
        self.saved_state = self.is_enabled()
        check_sparse_tensor_invariants._on = self.state

    def __exit__(self, *error: object) -> None:
        assert self.saved_state is not None
        check_sparse_tensor_invariants._on, self.saved_state = self.saved_state, None

    def __call__(self, mth: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **kwargs: Any) -> Any:
            with check_sparse_tensor_invariants(self.state):
                return mth(*args, **kwargs)

        return checked


class _Typed(type):
    """`torch.sparse.FloatTensor` and its like, which older programs make sparse tensors with."""

    dtype: dtypes.dtype

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if args and isinstance(args[0], Tensor):
            return sparse_coo_tensor(*args, device=device)
        size = args[0] if len(args) == 1 and isinstance(args[0], (Size, tuple, list)) else args
        return sparse_coo_tensor(tuple(size), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _SparseTensor) and instance.dtype is cls.dtype and instance.is_cpu

    def __repr__(cls) -> str:
        return f"<class 'torch.sparse.{cls.__name__}'>"


_WORDS = """The old constructor of sparse tensors: of indices, values and sizes, or of sizes alone.

    >>> torch.sparse.FloatTensor(torch.tensor([[0], [1]]), torch.tensor([5.0]), torch.Size([1, 2])).to_dense()
    tensor([[0., 5.]])
    """
_KINDS = [dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64]
_KINDS += [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
(
    ByteTensor,
    CharTensor,
    ShortTensor,
    IntTensor,
    LongTensor,
    HalfTensor,
    BFloat16Tensor,
    FloatTensor,
    DoubleTensor,
) = (_Typed(f"{d.scalar_name}Tensor", (), {"dtype": d, "__doc__": _WORDS}) for d in _KINDS)

__all__ = [
    "addmm",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]
