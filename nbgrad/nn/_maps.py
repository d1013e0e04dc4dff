"""What `Embedding` and `Bilinear` compute."""

from __future__ import annotations

from math import prod
from typing import Any

from nbgrad.core.refusals import kind_of, no_complex_gradient
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.prepared import call_of, settled_by
from nbgrad.memory.dtypes import int64
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.index import gather as at
from nbgrad.ops.linear import products
from nbgrad.ops.linear.norms import vector_norm
from nbgrad.ops.rows import classes
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.order import permute
from nbgrad.ops.views.shape import reshape, squeeze, unsqueeze
from nbgrad.tape.modes import state


def rows_alone(weight: Tensor) -> bool:
    """Whether a gradient of the rows that are named can reach a table: one that was computed passes a dense one on."""
    return bool(state.grad and weight._rg and weight._node is None and weight.is_leaf and not state.active)


def _gradient_of_rows(g: Tensor, weight_spec: Spec, index: Tensor, padding: int, by_freq: bool) -> Tensor:
    if by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    from nbgrad.sparse._gradients import of_rows

    return of_rows(g, index, weight_spec, padding)


@differentiable("Embedding", weight=_gradient_of_rows)
def _embedding_rows(weight: Tensor, index: Tensor, *, padding: int, by_freq: bool) -> Tensor:
    made: Tensor = classes.embedding(weight, to_dtype(index, int64), padding=-1, by_freq=False)[0]
    return made


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of `weight` that the integers in `input` name: of the input's shape, with one more dimension. The gradient of a row
    is the sum over the places that name it, with `scale_grad_by_freq` over their number; the row `padding_idx` gets none. A `sparse`
    gradient holds no other rows than those that were named. With `max_norm`, rows whose `norm_type` norm is greater are first shortened
    in place.

    >>> w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> F.embedding(torch.tensor([1, 1, 0]), w).sum().backward()
    >>> w.grad
    tensor([[1., 1.],
            [2., 2.]])
    """
    if sparse:
        sparse = isinstance(weight, Tensor) and rows_alone(weight)
    return _embedding(weight, input, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)


@settled_by("input")
def _embedding(
    weight: Any,
    input: Any,
    padding_idx: int | None,
    max_norm: float | None,
    norm_type: float,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Any:
    for position, (name, t) in enumerate((("weight", weight), ("indices", input))):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"embedding(): argument '{name}' (position {position + 1}) must be Tensor, not {type(t).__name__}"
            )
    n = weight.shape[0] if weight.ndim else 0
    if padding_idx is not None and not -n <= padding_idx < n:
        raise AssertionError("Padding_idx must be within num_embeddings")
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if input.dtype.name not in ("int64", "int32"):
        place, judge = (1, "embedding") if max_norm is None else (2, "embedding_renorm_")
        raise RuntimeError(
            f"Expected tensor for argument #{place} 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{kind_of(input.dtype)} instead (while checking arguments for {judge})"
        )
    if max_norm is not None:
        shorten(weight, input, float(max_norm), float(norm_type))
    settings = {
        "padding": -1 if padding_idx is None else padding_idx % n,
        "by_freq": bool(scale_grad_by_freq),
    }
    no_complex_gradient("embedding", weight)
    if sparse:
        return _embedding_rows(weight, input, **settings)
    if max_norm is None and input.dtype is int64 and not weight.is_complex():
        return call_of(classes.embedding, weight, input, **settings)
    return classes.embedding(weight, to_dtype(input, int64), **settings)[0]


def shorten(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows that integers name, shortened in place where their norm is greater."""
    weight = weight.detach()  # neither history nor tangents hear of it
    recorded, state.grad = state.grad, False
    try:
        named = input.reshape(-1).unique()
        for beyond in named[named >= weight.shape[0]][:1].tolist():
            raise IndexError(
                f"select(): index {beyond} out of range for tensor of size {list(weight.shape)} at dimension 0"
            )
        chosen = at.index_select(weight, 0, named)
        norms = vector_norm(chosen, norm_type, 1, True)
        factor = e.where(e.gt(norms, max_norm), e.div(max_norm, e.add(norms, 1e-7)), 1.0)
        weight[named] = e.mul(chosen, factor)
    finally:
        state.grad = recorded


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x1 @ weight[k] @ x2 + bias[k]` along the last dimensions, for each k: [..., a], [..., b] and weights [out, a, b] give [...,
    out].

    >>> F.bilinear(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.eye(2)[None])
    tensor([[11.]])
    """
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for d, (a, b) in enumerate(zip(input1.shape[:-1], input2.shape[:-1])):
        if a != b:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {d}: got {a} and {b}")
    for d, t in ((1, input1), (2, input2)):
        if t.shape[-1] != (n := weight.size(d)):
            raise RuntimeError(
                f"bilinear(): input{d} size does not match weight size: got {t.shape[-1]} but expected {n}"
            )
    no_complex_gradient("_trilinear", input1, input2, weight)
    out, first, second = weight.shape
    if bias is not None and bias.shape[0] != out:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {out}"
        )
    count = prod(input1.shape[:-1])
    x1, x2 = reshape(input1, (count, first)), reshape(input2, (count, second))
    by_first = products.mm(x1, reshape(permute(weight, 1, 0, 2), (first, out * second)))
    pairs = products.bmm(reshape(by_first, (count, out, second)), unsqueeze(x2, -1))
    got = reshape(squeeze(pairs, -1), (*input1.shape[:-1], out))
    return got if bias is None else e.add(got, bias)


__all__ = ["bilinear", "embedding"]
