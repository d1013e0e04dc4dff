"""Joining tensors: each is copied to its part of one new block; the gradient of a part is the part of the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from nbgrad import _backend, _dtypes, _layout
from nbgrad._dispatch import differentiable, into
from nbgrad._layout import Ints
from nbgrad._storage import Spec, spec
from nbgrad._tensor import Tensor, empty, wrap
from nbgrad.ops.copy import copy_memory, to_dtype
from nbgrad.ops.movement import _select, _slice, reshape, unsqueeze


def _skipped(sp: Spec) -> bool:
    """PyTorch lets 1-D tensors without elements pass in any company."""
    return sp.shape == (0,)


def _fill_part(out: Tensor, t: Tensor, offset: int, shape: Ints, strides: Ints) -> None:
    sp = out._spec
    buf = _backend.of(sp.device).view(out._buf, offset * sp.itemsize)
    copy_memory(wrap(buf, spec(sp.dtype, shape, strides, sp.device)), t)


def _cat_back(g: Tensor, specs: Sequence[Spec], wanted: Sequence[bool], dim: int) -> list[Tensor | None]:
    out: list[Tensor | None] = []
    start = 0
    for sp, w in zip(specs, wanted):
        length = 0 if _skipped(sp) and g._spec.ndim != 1 else tuple(sp.shape)[dim]
        if not w:
            out.append(None)
        elif _skipped(sp) and g._spec.ndim != 1:
            out.append(reshape(to_dtype(_slice(g, dim=dim, start=0, length=0, step=1), sp.dtype), (0,)))
        else:
            out.append(to_dtype(_slice(g, dim=dim, start=start, length=length, step=1), sp.dtype))
        start += length
    return out


@differentiable("Cat", all=_cat_back)
def _cat(*tensors: Tensor, dim: int) -> Tensor:
    real = [t for t in tensors if not _skipped(t._spec)] or list(tensors)
    first = real[0]._spec
    shape = list(first.shape)
    shape[dim] = sum(tuple(t._spec.shape)[dim] for t in real)
    out = empty(spec(_common(tensors), tuple(shape), None, first.device))
    at = 0
    for t in real:
        _fill_part(out, t, at * out._spec.strides[dim], tuple(t._spec.shape), out._spec.strides)
        at += tuple(t._spec.shape)[dim]
    return out


def _common(tensors: Sequence[Tensor]) -> _dtypes.dtype:
    return reduce(_dtypes.promote_types, [t._spec.dtype for t in tensors])


def _stack_back(g: Tensor, specs: Sequence[Spec], wanted: Sequence[bool], dim: int) -> list[Tensor | None]:
    return [to_dtype(_select(g, dim=dim, index=k), sp.dtype) if w else None for k, (sp, w) in enumerate(zip(specs, wanted))]


@differentiable("Stack", all=_stack_back)
def _stack(*tensors: Tensor, dim: int) -> Tensor:
    sp = tensors[0]._spec
    one = tuple(sp.shape)
    out = empty(spec(_common(tensors), (*one[:dim], len(tensors), *one[dim:]), None, sp.device))
    strides = out._spec.strides
    for k, t in enumerate(tensors):
        _fill_part(out, t, k * strides[dim], one, strides[:dim] + strides[dim + 1 :])
    return out


def _checked(name: str, tensors: Any) -> Sequence[Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}")
    for k, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(t).__name__}")
    return tensors


def cat(tensors: Any, dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    tensors = _checked("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for k, t in enumerate(tensors):
        if not t._spec.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    real = [t._spec for t in tensors if not _skipped(t._spec)] or [tensors[0]._spec]
    first = tuple(real[0].shape)
    d = _layout.wrap_dim(dim if axis is None else axis, len(first))
    for k, t in enumerate(tensors):
        shape = tuple(t._spec.shape)
        if _skipped(t._spec) or shape == first:
            continue
        if len(shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        for e, (a, b) in enumerate(zip(first, shape)):
            if a != b and e != d:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {d}. Expected size {a} but got size {b} for tensor number {k} in the list."
                )
    result: Tensor = _cat(*tensors, dim=d)
    if out is None:
        return result
    if not _dtypes.can_cast(result._spec.dtype, out._spec.dtype):
        raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {out._spec.dtype.scalar_name}")
    return into("cat", out, result, tensors)


concat = concatenate = cat


def stack(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    tensors = _checked("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]._spec.shape
    d = _layout.wrap_dim(dim, len(first) + 1)
    for k, t in enumerate(tensors):
        if t._spec.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(t._spec.shape)} at entry {k}"
            )
    result: Tensor = _stack(*tensors, dim=d)
    return result if out is None else into("stack", out, result, tensors)


def _several(one: Callable[[Tensor], Tensor], tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1:
        if isinstance(tensors[0], (list, tuple)):
            return tuple(one(t) for t in tensors[0])
        return one(tensors[0])
    return tuple(one(t) for t in tensors)


def _at_least_1(t: Tensor) -> Tensor:
    return reshape(t, (1,)) if t.ndim == 0 else t


def _at_least_2(t: Tensor) -> Tensor:
    return reshape(t, (1, 1)) if t.ndim == 0 else unsqueeze(t, 0) if t.ndim == 1 else t


def _at_least_3(t: Tensor) -> Tensor:
    if t.ndim == 0:
        return reshape(t, (1, 1, 1))
    if t.ndim == 1:
        return unsqueeze(unsqueeze(t, 0), 2)
    return unsqueeze(t, 2) if t.ndim == 2 else t


def atleast_1d(*tensors: Any) -> Any:
    return _several(_at_least_1, tensors)


def atleast_2d(*tensors: Any) -> Any:
    return _several(_at_least_2, tensors)


def atleast_3d(*tensors: Any) -> Any:
    return _several(_at_least_3, tensors)


def _some(name: str, tensors: Any) -> Sequence[Tensor]:
    tensors = _checked(name, tensors)
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


def hstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    parts = [_at_least_1(t) for t in _some("hstack", tensors)]
    return cat(parts, 0 if parts[0].ndim == 1 else 1, out=out)


def vstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    return cat([_at_least_2(t) for t in _some("vstack", tensors)], 0, out=out)


row_stack = vstack


def dstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    return cat([_at_least_3(t) for t in _some("dstack", tensors)], 2, out=out)


def column_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    parts = [reshape(t, (t.numel(), 1)) if t.ndim <= 1 else t for t in _some("column_stack", tensors)]
    return hstack(parts, out=out)


__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "row_stack", "stack", "vstack",
]  # fmt: skip
