"""Nested tensors: parts of different sizes as one tensor, `torch.nested`.

`torch.strided` keeps parts of any sizes one after another; `torch.jagged` those that differ along one dimension, whose values stay one
tensor. Linear layers, norms, softmax, attention, products and what is pointwise take them, as `nbgrad.nested._forms` has it.

>>> t = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
>>> torch.nn.functional.linear(t, torch.ones(1, 3)).to_padded_tensor(0.0).squeeze(-1)
tensor([[3., 3.],
        [3., 0.]])
"""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.nested import _forms as _forms
from nbgrad.nested._tensor import (
    Nested,
    ends,
    in_parts,
    jagged,
    jagged_of,
    jagged_of_parts,
    of_parts,
)
from nbgrad.ops.host.attributes import strided
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.data import tensor
from nbgrad.ops.views.copy import to_dtype


def _unsupported(layout: Any, what: str = "tensors") -> RuntimeError:
    return RuntimeError(f"Specified layout is unsupported for nested {what}: {layout}")


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor with copies of these parts, which are tensors or lists of numbers. It is a leaf.

    >>> torch.nested.nested_tensor([[1.0, 2.0], [3.0]])
    nested_tensor([
      tensor([1., 2.]),
      tensor([3.])
    ])
    """
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    layout = strided if layout is None else layout
    if layout not in (strided, jagged):
        raise _unsupported(layout)
    given = [t.detach() if isinstance(t, Tensor) else tensor(t, dtype=dtype) for t in tensor_list]
    if layout is jagged:
        made: Any = jagged_of_parts(given)
    else:
        given = [to_dtype(t, given[0].dtype) for t in given]
        made = of_parts(given, "NestedTensorFromTensorList")
    made = made.to(dtype=dtype or made.dtype, device=device or made.device)
    found: Tensor = made.requires_grad_(requires_grad)
    return found.pin_memory() if pin_memory else found


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of parts, or of those of a dense tensor, to which gradients flow.

    >>> a = torch.ones(2, requires_grad=True)
    >>> torch.nested.as_nested_tensor([a, torch.ones(3)]).to_padded_tensor(0.0).sum().backward()
    >>> a.grad
    tensor([1., 1.])
    """
    several = isinstance(ts, (list, tuple)) and all(isinstance(t, Tensor) for t in ts)
    if not several and not isinstance(ts, Tensor):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors "
        )
    if not several and not isinstance(ts, Nested) and ts.dim() < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    if isinstance(ts, Nested):
        if layout != ts.layout:
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not supported"
            )
        made: Any = ts
    elif layout is jagged:
        if several:
            made = jagged_of_parts([*ts])
        else:
            b, n = ts.shape[:2]
            at = arange(0, b * n + 1, max(n, 1), device=ts.device) if n else tensor([0] * (b + 1))
            made = jagged_of(ts.flatten(0, 1), at)
    elif layout in (strided, None):
        if several:
            made = of_parts([*ts], "NestedTensorFromTensorList")
        else:
            made = in_parts(ts.reshape(-1), [tuple(ts.shape)[1:]] * ts.shape[0])
    else:
        raise _unsupported(layout)
    same = made.dtype if dtype is None else dtype, made.device if device is None else device
    found: Tensor = made.to(dtype=same[0], device=same[1])
    return found


def to_padded_tensor(input: Any, padding: float, output_size: Any = None, out: Any = None) -> Tensor:
    """A dense tensor with all parts, filled up with `padding` to the largest one's sizes, or to `output_size`.

    >>> t = torch.nested.nested_tensor([[1.0, 2.0], [3.0]])
    >>> torch.nested.to_padded_tensor(t, 0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    found: Tensor = input.to_padded_tensor(padding, output_size)
    return found if out is None else out.copy_(found)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = strided) -> Tensor:
    """Of each row of a dense tensor `length` elements from `start` on: for `torch.jagged` tensors of one for each row, and a view.

    >>> x = torch.arange(6.0).reshape(2, 3)
    >>> t = torch.nested.narrow(x, 1, torch.tensor([0, 1]), torch.tensor([1, 2]), layout=torch.jagged)
    >>> t.unbind()
    (tensor([0.]), tensor([4., 5.]))
    """
    for name, given in (("start", start), ("length", length)):
        if not isinstance(given, (int, Tensor)):
            raise RuntimeError(f"{name} must be an integer or a tensor")
    if layout is strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        found: Tensor = as_nested_tensor(tensor.unbind()).narrow(dim, start, length)
        return found
    if layout is not jagged:
        raise _unsupported(layout, "narrow")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    b, n = tensor.shape[:2]
    rows: list[Tensor] = []
    for given in (start, length):
        one = given if isinstance(given, Tensor) else tensor.new_tensor([given], dtype=dtypes.int64)
        if tuple(one.shape) not in ((), (1,), (b,)):
            raise RuntimeError(
                "When constructing a jagged nested tensor using narrow(), your start and length must be Tensors that broadcast to "
                "input.shape[0]"
            )
        rows.append(one.expand(b))
    first, long = rows
    begin = first + arange(b, device=tensor.device) * n
    values = tensor.view(-1, *tensor.shape[2:])
    ends_ = begin + long
    if bool((begin[1:] == ends_[:-1]).all()):
        return jagged_of(values[int(begin[0]) : int(ends_[-1])], ends(long))
    offsets = begin.new_zeros(b + 1)
    offsets[:-1], offsets[-1] = begin, ends_[-1]
    return jagged_of(values, offsets, long)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A nested tensor of values that are cut where `offsets` say, or into parts of these `lengths`; both leave something between parts.

    >>> torch.nested.nested_tensor_from_jagged(torch.arange(5.0), lengths=torch.tensor([2, 3])).unbind()
    (tensor([0., 1.]), tensor([2., 3., 4.]))
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = ends(lengths), None
    if jagged_dim is not None and jagged_dim < 1:
        raise ValueError(f"Expected jagged_dim >=1, but got {jagged_dim}.")
    return jagged_of(values, offsets, lengths, jagged_dim or 1)


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """What a mask lets through, cut into what it lets through of each row.

    >>> torch.nested.masked_select(torch.arange(4.0).reshape(2, 2), torch.tensor([[True, True], [False, True]])).unbind()
    (tensor([0., 1.]), tensor([3.]))
    """
    for name, given in (("tensor", tensor), ("mask", mask)):
        if given.layout is not strided:
            sign = ", given" if name == "tensor" else ", given:"
            raise RuntimeError(f"torch.nested.masked_select requires a strided {name}{sign} {given.layout}")
    counted = mask.expand(tensor.shape).sum(-1).reshape(-1)
    return jagged_of(tensor.masked_select(mask), ends(counted))


__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
