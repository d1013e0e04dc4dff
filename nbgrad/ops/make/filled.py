"""Tensors of one value, or of none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nbgrad.base.switches import determinism
from nbgrad.core import arguments
from nbgrad.core import tensor as _core
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.core.tensor import empty as _empty
from nbgrad.dispatch.transforms import batched
from nbgrad.memory import dtypes
from nbgrad.memory import layout as _layout
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.storage import Batched, Spec, spec
from nbgrad.ops.make.factories import (
    _NUMBERS,
    Function,
    _copies,
    _finish,
    _Given,
    _named,
    _of_a_like,
    _of_out,
    _of_size_and_value,
    _of_sizes,
    _sized,
    _spec,
    of_sizes,
)
from nbgrad.ops.views.copy import full as _full
from nbgrad.ops.views.copy import laid_in
from nbgrad.ops.views.copy import zeros as _zeros


def _unset(sp: Spec) -> Tensor:
    return _full(sp, dtypes.unset(sp.dtype)) if determinism.level and determinism.fills else _empty(sp)


@_of_sizes(_copies)
def empty(
    *sizes: Any,
    size: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of these sizes, given one by one or as a sequence, whose values are whatever memory holds. `dtype` is the default one unless
    given; `requires_grad` makes it a leaf to find a gradient for, `memory_format` says how it lies.

    >>> torch.empty(2, 3).shape
    torch.Size([2, 3])
    """
    if out is not None:
        if memory_format is not None:
            raise RuntimeError("'memory_format' argument is incompatible with 'out' tensor argument")
        dtype = _of_out("empty", out, dtype)
    sp = _spec("empty", sizes if size is None else (size,), dtype, device, requires_grad)
    if memory_format is not None:
        strides = laid_in(sp, memory_format)
        if strides is None:
            raise RuntimeError("unsupported memory format Preserve")
        sp = sp.like(strides=strides)
    if out is not None and not (determinism.level and determinism.fills):
        t = _sized(out, sp.shape)  # nothing is written
        return _finish(t, requires_grad) if requires_grad else t
    t = _unset(sp)
    return t if out is None and not requires_grad else _finish(t, requires_grad, out)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of sizes `size` without values, whose elements lie `stride` elements apart along each dimension.

    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    sizes, strides = list(size), list(stride)
    if len(sizes) != len(strides):
        raise RuntimeError(
            f"dimensionality of sizes ({len(sizes)}) must match dimensionality of strides ({len(strides)})"
        )
    if any(s < 0 for s in strides):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={sizes} and strides={strides}")
    sp = _spec("empty_strided", tuple(sizes), dtype, device, requires_grad)
    return _finish(_unset(sp.like(sp.shape, tuple(strides))), requires_grad)


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of sizes `size` without values. Its dimensions lie in memory in the order of `physical_layout`, the one with the largest
    steps first.

    >>> torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)
    """
    order = list(physical_layout)
    if len(order) != len(size):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    for k, d in enumerate(order):
        if not 0 <= d < len(order):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(order) - 1}, but got {d} at index {k}).  NB: negative dims "
                "not currently supported; file an issue if you want it."
            )
        if order.index(d) != k:
            raise RuntimeError("Duplicate dim not allowed")
    strides, step = [0] * len(order), 1
    for d in reversed(order):
        strides[d], step = step, step * size[d]
    return empty_strided(size, strides, dtype=dtype, device=device, requires_grad=requires_grad)


@of_sizes()
def zeros(sp: Spec) -> Tensor:
    """A tensor of these sizes, given one by one or as a sequence, filled with 0. `dtype` is the default one unless given; `requires_grad`
    makes it a leaf to find a gradient for.

    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return _zeros(sp)


@of_sizes()
def ones(sp: Spec) -> Tensor:
    """A tensor of these sizes, given one by one or as a sequence, filled with 1. `dtype` is the default one unless given; `requires_grad`
    makes it a leaf to find a gradient for.

    >>> torch.ones(3, dtype=torch.int64)
    tensor([1, 1, 1])
    """
    return _full(sp, 1.0)


@partial(arguments.before_guard, _of_size_and_value)
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
) -> Tensor:
    """A tensor of sizes `size`, filled with `fill_value`, whose kind decides the `dtype` unless one is given: int64, bool or the default
    dtype.

    >>> torch.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    """
    if out is not None:
        dtype = _of_out("full", out, dtype)
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    if dtype is None:
        dtype = dtypes.number_dtype(fill_value)
    t = _full(_spec("full", (size,), dtype, device, requires_grad), fill_value)
    return t if out is None and not requires_grad else _finish(t, requires_grad, out)


def _own(like: Tensor, t: Tensor) -> Tensor:
    """`t`; made in a vmap like a tensor that each example has its own of, once for each, as each may write to it."""
    levels: list[Any] = []
    while type(like._buf) is Batched:
        if like._buf.has:
            levels.insert(0, like._buf.level)
        like = like._buf.inner
    if levels:
        t = _core.hooks.clone(_core.hooks.expand(t, (*[level.size for level in levels], *t.shape)))
    for level in levels:
        t = batched(t, level)
    return t


def _like(input: Tensor, dtype: Any, memory_format: Any = None, device: Any = None) -> Spec:
    sp = input._spec
    where = sp.device if device is None else _device(device)
    strides = laid_in(sp, memory_format)
    if strides is None:
        strides = _layout.kept_strides(sp.shape, sp.strides)
    return spec(sp.dtype if dtype is None else dtypes.to_dtype(dtype), sp.shape, strides, where)


def _like_another(make: Callable[[Spec], Tensor]) -> Function:
    """A function of a tensor, of what it makes of the spec of one like that."""

    def factory(
        input: Tensor,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        return _finish(_own(input, make(_like(input, dtype, memory_format, device))), requires_grad)

    return _of_a_like(_copies)(_named(factory, make))


@_like_another
def empty_like(sp: Spec) -> Tensor:
    """A tensor without values of the shape and dtype of `input`, and laid out as it is; `dtype` says another dtype. It has no history.

    >>> torch.empty_like(torch.ones(2, 3)).shape
    torch.Size([2, 3])
    """
    return _unset(sp)


@_like_another
def zeros_like(sp: Spec) -> Tensor:
    """A tensor filled with 0 of the shape and dtype of `input`, and laid out as it is; `dtype` says another dtype. It has no history.

    >>> torch.zeros_like(torch.tensor([1, 2, 3]))
    tensor([0, 0, 0])
    """
    return _zeros(sp)


@_like_another
def ones_like(sp: Spec) -> Tensor:
    """A tensor filled with 1 of the shape and dtype of `input`, and laid out as it is; `dtype` says another dtype. It has no history.

    >>> torch.ones_like(torch.tensor([5.0, 6.0]))
    tensor([1., 1.])
    """
    return _full(sp, 1)


def _of_a_like_and_value(slow: Function) -> Function:
    known = _Given(_copies)
    find = known.get

    def short(input: Tensor = arguments.unset, fill_value: Any = arguments.unset, **more: Any) -> Tensor:
        kind: Any = type(fill_value)
        dtype = more.get("dtype")
        if (
            (more and (len(more) > 1 or type(dtype) is not _dtype))
            or type(input) is not Tensor
            or kind not in _NUMBERS
        ):
            given = {"input": input, "fill_value": fill_value}
            return slow(**{name: x for name, x in given.items() if x is not arguments.unset}, **more)
        if not fill_value and kind is float:
            kind = repr(fill_value)  # as 0.0 is not -0.0
        key = input._spec, fill_value, kind, dtype
        found = find(key)
        if found is not None:
            return wrap(found[0](), found[1])
        t = slow(input, fill_value, **more)
        return known.learn(key, t) if type(input._spec) is Spec else t

    return short


@partial(arguments.before_guard, _of_a_like_and_value)
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor filled with `fill_value` of the shape and dtype of `input`, and laid out as it is; `dtype` says another dtype. It has no
    history.

    >>> torch.full_like(torch.tensor([5.0, 6.0]), 3)
    tensor([3., 3.])
    """
    return _finish(_own(input, _full(_like(input, dtype, memory_format, device), fill_value)), requires_grad)


__all__ = [
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]
