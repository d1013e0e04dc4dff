"""Products by name, of tensors of any dimensions: matmul, linear, inner, and the operator."""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.stanza import method
from nbgrad.memory import layout
from nbgrad.ops.linear.products import (
    _called,
    _dot,
    _matrix_product,
    _mm_nt,
    _outer,
    _rows,
    _squeeze,
    _unsafe_view,
    _view,
)
from nbgrad.ops.linear.refusals import _refuse
from nbgrad.ops.linear.sums_of_products import _addmm_nt
from nbgrad.ops.pointwise.arithmetic import mul
from nbgrad.ops.pointwise.operators import add


@method
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of matrices, vectors and batches of matrices: `input @ other`. Of two vectors it is their `dot`; a vector before a matrix
    is a row, after one a column, and that dimension goes again; dimensions before the last two are batches, and broadcast. The gradients
    are `g @ other.mT` and `input.mT @ g`, summed over what was broadcast.

    >>> torch.matmul(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    >>> torch.matmul(torch.ones(5, 1, 2, 3), torch.ones(4, 3, 6)).shape
    torch.Size([5, 4, 2, 6])
    """
    return _called("matmul", ("input", "other"), _matrix_product, input, other, out)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias` along the last dimension: of (..., n) and a weight (m, n) it makes (..., m); the weight is read as it lies.
    The gradients are `g @ weight`, `g.T @ input`, and for the bias the sum of `g` over the rows.

    >>> F.linear(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 1.0], [0.0, 3.0]]), torch.tensor([10.0, 20.0]))
    tensor([[13., 26.]])
    """
    if out is not None:
        return into("linear", out, linear(input, weight, bias), (input, weight, bias))
    try:
        a, w = input._spec, weight._spec
        if w.ndim == 2 and a.ndim == 2:
            return _mm_nt(input, weight) if bias is None else _addmm_nt(bias, input, weight)
        if bias is not None:
            bias._spec  # noqa: B018
    except AttributeError:
        _refuse(
            "linear", ("input", "weight", "bias"), (input, weight) if bias is None else (input, weight, bias)
        )
        raise
    if not a.ndim or not w.ndim:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {a.ndim}D and {w.ndim}D"
        )
    if w.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {w.ndim}D")
    if w.ndim == 1:
        if bias is None:
            return _matrix_product(input, weight)
        return (
            _addmm_nt(bias, input, weight) if a.ndim == 2 else _raised(_matrix_product(input, weight), bias)
        )
    shape = (*tuple(a.shape)[:-1], w.shape[0])
    if bias is not None and a.contiguous and (bias.ndim == 1 or sum([n != 1 for n in bias.shape]) == 1):
        return _view(_addmm_nt(bias, _rows(input), weight), shape)
    product = (_unsafe_view if a.ndim > 1 else _squeeze)(_mm_nt(_rows(input), weight), shape)
    return product if bias is None else _raised(product, bias)


def _raised(product: Tensor, bias: Tensor) -> Tensor:
    """PyTorch adds in place, so that no bias makes the result larger."""
    layout.check_target(product.shape, layout.broadcast_shapes(product.shape, bias.shape))
    return add(product, bias)


@method
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The older name of `outer`.

    >>> torch.ger(torch.tensor([1, 2]), torch.tensor([1, 10]))
    tensor([[ 1, 10],
            [ 2, 20]])
    """
    return _outer("ger", input, vec2, out)


@method
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sums of products along the last dimension of both: of (..., k) and (**, k) it makes (..., **). Of a single number it is the
    product.

    >>> torch.inner(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 10]))
    tensor([21, 43])
    """
    return _called("inner", ("input", "other"), _inner_product, input, other, out)


def _inner_product(a: Tensor, b: Tensor) -> Tensor:
    if not a.ndim or not b.ndim:
        return mul(a, b)
    if a._spec.dtype is not b._spec.dtype:
        raise RuntimeError("both inputs should have same dtype")
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(a.shape)} and {list(b.shape)}"
        )
    if a.ndim == b.ndim == 1:
        return _view(_dot(a, b), ())
    return _view(_mm_nt(_rows(a), _rows(b)), (*tuple(a.shape)[:-1], *tuple(b.shape)[:-1]))


def _operator(self: Tensor, other: Any) -> Any:
    return _matrix_product(self, other) if isinstance(other, Tensor) else NotImplemented


def _reflected(self: Tensor, other: Any) -> Any:
    return _matrix_product(other, self) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__, Tensor.__rmatmul__ = _operator, _reflected  # type: ignore[assignment, method-assign]


__all__ = ["ger", "inner", "matmul"]
