"""Reductions: fewer elements out than in. Each is a prologue, a combination and a finish for one template, and a rule.

The gradient of a sum is an expand, that of an expand a sum: the pair is closed. Extremes over all elements share their gradient among ties;
along a dimension the chosen index gets it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nbgrad.core.arguments import unset
from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor, hooks, wrap
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import check_out, into
from nbgrad.dispatch.prepared import Run, call_of, prepared, settled
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes, layout
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.reduce.reduction import (
    ALL,
    ANY,
    MEAN,
    PROD,
    SUM,
    Reduction,
    _dims,
    _inner,
    _lanes,
    _past,
    asked_dtype,
    check_asked,
    reduction,
    total_dtype,
)
from nbgrad.ops.views.copy import contiguous, to_dtype
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.parts import real
from nbgrad.ops.views.shape import reshape, spread, squeeze, unsqueeze
from nbgrad.tape.modes import shared, state


def _moved_by(rule: Any) -> Any:
    """The tangent of a reduction from its gradient: no element goes into two results, so what one passes on is its gradient times its
    tangent."""

    def tangent(t: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool, **static: Any) -> Tensor:
        found = rule(hooks.ones_like(y), input=input, y=y, dims=dims, keepdim=keepdim, **static)
        if t._spec.dtype.is_complex and not y._spec.dtype.is_complex:
            parts = real(e.mul(hooks.conj(found), t))
        else:
            parts = e.mul(found, t)
        return _sum(parts, dims=dims, keepdim=keepdim) if dims else parts

    return tangent


# ---------------------------------------------------------------- sums


def _spread(g: Tensor, sp: Spec, dims: Ints, keepdim: bool) -> Tensor:
    """The gradient of a sum: the same for every element that went into it."""
    return spread(_kept(g, sp.ndim, dims, keepdim), sp.shape)


def _kept(g: Tensor, ndim: int, dims: Ints, keepdim: bool) -> Tensor:
    """With the reduced dimensions back, of size one."""
    if not keepdim:
        for d in dims:
            g = unsqueeze(g, d)
    return g


def _sum_of(input: Spec, dims: Ints, keepdim: bool) -> Run:
    d = input.dtype
    return reduction(SUM, input, dims, keepdim, total_dtype(d), _lanes(d))


@prepared(
    "SumBackward0",
    tangent=LINEAR,
    batch=lambda x: _sum(x, dims=_inner(x), keepdim=False),
    input=lambda g, input_spec: spread(g, input_spec.shape),
)
def _sum_all(input: Spec) -> Run:
    return _sum_of(input, tuple(range(input.ndim)), False)


@prepared(
    "SumBackward1",
    tangent=LINEAR,
    batch=lambda x, dims, keepdim: _sum(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input_spec, dims, keepdim: _spread(g, input_spec, dims, keepdim),
)
def _sum(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return _sum_of(input, dims, keepdim)


@method
@settled
def sum(
    input: Tensor, dim: Any = unset, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Any:
    """The sum of all elements, or of those along `dim` (one or several); `keepdim` leaves ones there in the shape. Integers and truth
    values are summed in int64, unless `dtype` says in what. The gradient of each element is that of its sum.

    >>> torch.sum(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    >>> torch.func.grad(torch.sum)(torch.ones(3))
    tensor([1., 1., 1.])
    """
    if dtype is not None or out is not None:
        check_asked(dtype, out)
        d = asked_dtype(input, dtype, out)
        got = to_dtype(sum(to_dtype(input, d), dim, keepdim), d)
        return got if out is None else into("sum", out, got, (input,))
    if dim is unset:
        return call_of(_sum_all, input)
    return call_of(_sum, input, dims=_dims(dim, input.ndim), keepdim=keepdim)


def sum_to(g: Tensor, shape: Any) -> Tensor:
    """Undo a broadcast: sum over the dimensions that it added or stretched."""
    lead = g.ndim - len(shape)
    dims = tuple(range(lead)) + tuple(
        lead + d for d, n in enumerate(shape) if n == 1 and tuple.__getitem__(g._spec.shape, lead + d) != 1
    )
    if len(dims) == lead:
        return _sum(g, dims=dims, keepdim=False) if lead else g
    g = _sum(g, dims=dims, keepdim=True)
    return reshape(g, shape) if lead else g


hooks.sum_to = sum_to


def _no_int_mean(d: _dtype, asked: Any) -> _dtype:
    got = d if asked is None else dtypes.to_dtype(asked)
    if not got.inexact:
        if asked is not None:
            raise RuntimeError(
                "mean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. "
                f"Got: {got.scalar_name}"
            )
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {got.scalar_name}"
        )
    return got


def _count(sp: Spec, dims: Ints) -> int:
    return math.prod(tuple.__getitem__(sp.shape, d) for d in dims)


def _mean_of(input: Spec, dims: Ints, keepdim: bool) -> Run:
    return reduction(MEAN, input, dims, keepdim, input.dtype, "f8", float(_count(input, dims)))


def _share(g: Tensor, count: int, spreading: Callable[[Tensor], Tensor]) -> Tensor:
    """What each element gets; of nothing, any number: no element gets it. PyTorch divides what it has spread, so that who asks for the
    gradient and who gets it in a hook may write to it; no other backward shows the difference, and less is read there."""
    if shared.hooked or (state.task is not None and state.task.asked):
        return e.div(spreading(g), count or 1)
    return spreading(e.div(g, count or 1))


@prepared(
    "MeanBackward0",
    tangent=LINEAR,
    batch=lambda x: _mean(x, dims=_inner(x), keepdim=False),
    input=lambda g, input_spec: _share(g, input_spec.numel, lambda part: spread(part, input_spec.shape)),
)
def _mean_all(input: Spec) -> Run:
    return _mean_of(input, tuple(range(input.ndim)), False)


@prepared(
    "MeanBackward1",
    tangent=LINEAR,
    batch=lambda x, dims, keepdim: _mean(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input_spec, dims, keepdim: _share(
        g, _count(input_spec, dims), lambda part: _spread(part, input_spec, dims, keepdim)
    ),
)
def _mean(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return _mean_of(input, dims, keepdim)


@method
@settled
def mean(
    input: Tensor, dim: Any = unset, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Any:
    """The sum over the number of elements: of all, or along `dim` (one or several), which `keepdim` keeps with size 1. Only of floats, or
    in the `dtype` that is asked for. The gradient is `g / n` for each of n elements; of no elements the mean is NaN.

    >>> torch.mean(torch.tensor([[1.0, 2.0], [3.0, 6.0]]), dim=1)
    tensor([1.5000, 4.5000])
    >>> torch.func.grad(torch.mean)(torch.ones(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    own = input._spec.dtype
    d = _no_int_mean(own, dtype)
    if out is not None:
        if dim is unset and d.is_complex and not out.dtype.is_complex:  # a form of its own in PyTorch
            raise RuntimeError(
                f"mean.dtype_out(): input types can't be cast to the desired output type {out.dtype.scalar_name}"
            )
        check_asked(dtype, out)
        # PyTorch takes the sum in the dtype of `out`, and then divides by a number.
        d = out.dtype if out.dtype.inexact else dtypes.get_default_dtype()
        check_out("mean", out, d, (input,))
        return into("mean", out, mean(to_dtype(input, d), dim, keepdim), (input,))
    if d is not own:
        return mean(to_dtype(input, d), dim, keepdim)
    if dim is unset:
        return call_of(_mean_all, input)
    return call_of(_mean, input, dims=_dims(dim, input.ndim), keepdim=keepdim)


# ---------------------------------------------------------------- products


def _prod_rule(g: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    """y / x where no factor is zero; else the product of the others, from both sides, so that any order of derivative holds."""
    if not input.ndim:
        return g
    if _no_zero(input):
        return e.mul(_kept(g, input.ndim, dims, keepdim), e.div(_kept(y, input.ndim, dims, keepdim), input))
    if len(dims) != 1:
        order = [d for d in range(input.ndim) if d not in dims] + list(dims)
        rest = [tuple.__getitem__(input.shape, d) for d in order[: input.ndim - len(dims)]]
        flat = reshape(input.permute(*order), (*rest, -1))
        got = _others(flat, len(rest)) * unsqueeze(squeeze(g, dims) if keepdim else g, -1)
        back = reshape(got, [tuple.__getitem__(input.shape, d) for d in order])
        return back.permute(*[order.index(d) for d in range(input.ndim)])
    return e.mul(_kept(g, input.ndim, dims, keepdim), _others(input, dims[0]))


def _no_zero(x: Tensor) -> bool:
    x = transforms.innermost(x)
    return x.is_meta or everywhere(x)


def everywhere(x: Tensor) -> bool:
    """Whether no element is 0, on the host: of another device's tensor that one truth value is sent."""
    return bool(x._host().all()) if x.is_cpu else bool(all(x.detach()))


def _others(x: Tensor, dim: int) -> Tensor:
    """Along `dim`, the product of all elements but one."""
    n = tuple.__getitem__(x.shape, dim)
    parts = []
    for k in range(n):
        parts.append(prod(cat([x.narrow(dim, 0, k), x.narrow(dim, k + 1, n - k - 1)], dim), dim, True))
    return cat(parts, dim)


def _complex_prod(input: Spec, dims: Ints, keepdim: bool) -> Run:
    """Each half of the factors by the other, until one is left."""

    def run(t: Tensor) -> Tensor:
        x = wrap(t._buf, input)
        for d in dims:
            if not tuple.__getitem__(x.shape, d):
                x = hooks.ones_like(x.sum(d, True))
            while (n := tuple.__getitem__(x.shape, d)) > 1:
                made = e.mul(x.narrow(d, 0, n // 2), x.narrow(d, n // 2, n // 2))
                x = cat([made, x.narrow(d, n - 1, 1)], d) if n % 2 else made
        x = x.clone() if x._buf is t._buf else contiguous(x)
        return wrap(x._buf, x._spec.like(layout.reduced_shape(tuple(input.shape), dims, keepdim)))

    return run


def _prod_of(input: Spec, dims: Ints, keepdim: bool) -> Run:
    d = input.dtype
    if d.is_complex:
        return _complex_prod(input, dims, keepdim)
    return reduction(PROD, input, dims, keepdim, total_dtype(d), _lanes(d))


@prepared(
    "ProdBackward0",
    tangent=lambda t, input, y: _moved_by(_prod_rule)(t, input, y, tuple(range(input.ndim)), False),
    batch=lambda x: _prod(x, dims=_inner(x), keepdim=False),
    input=lambda g, input, y: _prod_rule(g, input, y, tuple(range(input.ndim)), False),
)
def _prod_all(input: Spec) -> Run:
    return _prod_of(input, tuple(range(input.ndim)), False)


@prepared(
    "ProdBackward1",
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_prod_rule)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _prod(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input, y, dims, keepdim: _prod_rule(g, input, y, dims, keepdim),
)
def _prod(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return _prod_of(input, dims, keepdim)


@method
@settled
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Any:
    """The product of all elements, or of those along one `dim`, which `keepdim` keeps with size 1. The gradient of an element is `g` times
    the product of the others, exact also where some are zero.

    >>> torch.prod(torch.tensor([[1, 2], [3, 4]]), dim=1)
    tensor([ 2, 12])
    >>> torch.func.grad(torch.prod)(torch.tensor([2.0, 0.0, 4.0]))
    tensor([0., 8., 0.])
    """
    if dtype is not None or out is not None:
        check_asked(dtype, out)
        d = asked_dtype(input, dtype, out)
        got = to_dtype(prod(to_dtype(input, d), dim, keepdim), d)
        return got if out is None else into("prod", out, got, (input,))
    if dim is None:
        return call_of(_prod_all, input)
    return call_of(_prod, input, dims=_dims(layout.wrap_dim(dim, input.ndim), input.ndim), keepdim=keepdim)


# ---------------------------------------------------------------- truth


@prepared(batch=lambda x, dims, **static: _true(x, dims=_past(dims), **static))
def _true(input: Spec, *, kind: Reduction, dims: Ints, keepdim: bool, byte: bool) -> Run:
    d = dtypes.uint8 if byte else dtypes.bool_
    if input.dtype.is_complex:
        laid = layout.kept_strides(input.shape, input.strides)
        found = reduction(kind, input.like(strides=laid, dtype=dtypes.bool_), dims, keepdim, d, "b1")
        return lambda t: found(e.ne(t.detach(), 0))
    return reduction(kind, input, dims, keepdim, d, "b1")


def _truth(kind: Reduction, input: Tensor, dim: Any, keepdim: bool, out: Tensor | None) -> Any:
    # PyTorch's first truth values were uint8, and of those its result still is.
    byte = (input if out is None else out)._spec.dtype is dtypes.uint8
    # No dimensions are none, not all, as they are of sums.
    dims = () if isinstance(dim, (tuple, list)) and not dim else _dims(dim, input.ndim)
    static = dict(kind=kind, dims=dims, keepdim=keepdim, byte=byte)
    if out is None:
        return call_of(_true, input, **static)
    words = f"{kind.name} only supports bool tensor for result, got: {{got}}"
    return into(kind.name, out, _true(input, **static), (), words)


@method
@settled
def any(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    """Whether there is an element other than 0: among all, or along `dim` (one or several), which `keepdim` keeps with size 1. Of none it
    is False. NaN is not 0.

    >>> torch.any(torch.tensor([[0, 0], [0, 3]]), dim=1)
    tensor([False,  True])
    """
    return _truth(ANY, input, dim, keepdim, out)


@method
@settled
def all(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    """Whether no element is 0: of all, or along `dim` (one or several), which `keepdim` keeps with size 1. Of none it is True.

    >>> torch.all(torch.tensor([[1, 2], [0, 3]]), dim=1)
    tensor([ True, False])
    """
    return _truth(ALL, input, dim, keepdim, out)


@method
def _is_all_true(input: Tensor) -> Tensor:
    """Whether every element is true: one truth value, that of all examples together inside of `vmap`.

    >>> torch._is_all_true(torch.tensor([True, False]))
    tensor(False)
    """
    return all(transforms.innermost(input))


@method
def _is_any_true(input: Tensor) -> Tensor:
    """Whether some element is true: one truth value, that of all examples together inside of `vmap`.

    >>> torch._is_any_true(torch.tensor([True, False]))
    tensor(True)
    """
    return any(transforms.innermost(input))


__all__ = ["_is_all_true", "_is_any_true", "all", "any", "mean", "prod", "sum"]
