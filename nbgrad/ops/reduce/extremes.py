"""The largest and the smallest, and where they are. Elements that share an extreme share its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.core.arguments import unset
from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import check_out, into
from nbgrad.dispatch.prepared import Run, call_of, filled, prepared, settled, settled_or
from nbgrad.dispatch.return_types import EXPECTED, maker, results
from nbgrad.dispatch.stanza import method
from nbgrad.kernels.cpu import lines
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.reduce.reduction import _MATCH, AMAX, AMIN, Reduction, _dims, _inner, _past, reduction
from nbgrad.ops.reduce.sums import _kept, _moved_by, _sum, _sum_all
from nbgrad.ops.reduce.walk import as_lines, still, walk, without
from nbgrad.ops.views.copy import to_dtype, zeros
from nbgrad.ops.views.shape import reshape, squeeze, unsqueeze


def _shared(
    g: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool, same: Callable[..., Tensor] = e.eq
) -> Tensor:
    """Among ties the gradient is shared equally."""
    at = to_dtype(same(input, _kept(y, input.ndim, dims, keepdim)), g._spec.dtype)
    share = e.div(_kept(g, input.ndim, dims, keepdim), _sum(at, dims=dims, keepdim=True) if dims else at)
    return e.mul(at, share)


def _shared_by_all(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    """The same of all elements, where NaN ties with NaN."""
    return _shared(g, input, y, tuple(range(input.ndim)), False, e.alike)


def extreme(kind: Reduction, input: Spec, dims: Ints, keepdim: bool) -> Run:
    return reduction(kind, input, dims, keepdim, input.dtype, input.dtype.kind)


@prepared(
    "Amax",
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_shared)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _amax(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input, y, dims, keepdim: _shared(g, input, y, dims, keepdim),
)
def _amax(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return extreme(AMAX, input, dims, keepdim)


@prepared(
    "Amin",
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_shared)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _amin(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input, y, dims, keepdim: _shared(g, input, y, dims, keepdim),
)
def _amin(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return extreme(AMIN, input, dims, keepdim)


@prepared(
    "MaxBackward1",
    tangent=lambda t, input, y: _moved_by(_shared)(
        t, input, y, tuple(range(input.ndim)), False, same=e.alike
    ),
    batch=lambda x: _amax(x, dims=_inner(x), keepdim=False),
    input=_shared_by_all,
)
def _max_all(input: Spec) -> Run:
    return extreme(AMAX, input, tuple(range(input.ndim)), False)


@prepared(
    "MinBackward1",
    tangent=lambda t, input, y: _moved_by(_shared)(
        t, input, y, tuple(range(input.ndim)), False, same=e.alike
    ),
    batch=lambda x: _amin(x, dims=_inner(x), keepdim=False),
    input=_shared_by_all,
)
def _min_all(input: Spec) -> Run:
    return extreme(AMIN, input, tuple(range(input.ndim)), False)


def _nonempty_dims(name: str, input: Tensor, dim: Any) -> Ints:
    """The dimensions of an extreme, which none has over no element; PyTorch looks at that before it looks for one named twice."""
    lacks_kernel(f"{name[1:]}_values_cpu", input._spec.dtype)
    if not input._spec.numel:
        if dim in ((), []):
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        for d in (dim,) if isinstance(dim, int) else dim:
            if tuple.__getitem__(input.shape, layout.wrap_dim(d, input.ndim)) == 0:
                raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
    return _dims(dim, input.ndim)


@method
@settled
def amax(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    """The largest element, of all or along `dim` (one or several), which `keepdim` keeps with size 1; NaN if there is one. Elements that
    share the extreme share its gradient equally.

    >>> torch.amax(torch.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([5., 3.])
    >>> torch.func.grad(torch.amax)(torch.tensor([1.0, 5.0, 5.0]))
    tensor([0.0000, 0.5000, 0.5000])
    """
    if out is not None:
        return into("amax", out, amax(input, dim, keepdim), (input,), _MATCH)
    return call_of(_amax, input, dims=_nonempty_dims("amax", input, dim), keepdim=keepdim)


@method
@settled
def amin(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    """The smallest element, of all or along `dim` (one or several), which `keepdim` keeps with size 1; NaN if there is one. Elements that
    share the extreme share its gradient equally.

    >>> torch.amin(torch.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=(0, 1))
    tensor(1.)
    """
    if out is not None:
        return into("amin", out, amin(input, dim, keepdim), (input,), _MATCH)
    return call_of(_amin, input, dims=_nonempty_dims("amin", input, dim), keepdim=keepdim)


def share_among(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    """The gradient of one value of all elements: theirs that equal it (a NaN equals a NaN), in equal shares."""
    at = e.logical_or(e.eq(input, y), e.logical_and(e.isnan(input), e.isnan(y)))
    at = to_dtype(at, g._spec.dtype)
    return e.mul(at, e.div(g, _sum_all(at)))


def _chosen(word: str, sp: Spec, dim: int, keepdim: bool) -> Run:
    """What finds of each line along `dim` the extreme value and its first place."""
    shape = layout.reduced_shape(tuple(sp.shape), (dim,) if sp.ndim else (), True)
    values, places = spec(sp.dtype, shape, None, sp.device), spec(dtypes.int64, shape, None, sp.device)
    how = walk(tuple(sp.shape), dim, (still(values, dim), sp.strides), wide=lines.WIDE, few=1)
    unit = bool(sp.ndim) and sp.strides[dim] == 1
    source, signature = lines.extreme(word, sp.dtype.code, sp.dtype.kind, how.together, unit)
    form = "lines" if how.together else "unit" if unit else "strided"
    address = sp.backend.kernel(
        f"arg{word}_{sp.dtype.code}_{form}", source, signature, unrolled=sp.dtype.itemsize > 4
    ).address
    items = how.items if sp.numel else 0
    launch = sp.backend.launch(4, "", sp.numel if items > 1 else items, sp.numel < FEW)
    if not keepdim and sp.ndim:
        values, places = without(values, dim), without(places, dim)
    return filled(launch, address, items, sp.backend.constants(how.meta), (values, places))


def _to_chosen(g: Any, y1: Tensor, input_spec: Spec, dim: int, keepdim: bool) -> Tensor:
    """Along a dimension the gradient goes where the value came from."""
    grad = g[0]
    if not input_spec.ndim:
        return grad
    if not keepdim:
        grad, y1 = unsqueeze(grad, dim), unsqueeze(y1, dim)
    return zeros(input_spec.dense()).scatter(dim, y1, grad)


def _from_chosen(t: Tensor, y1: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, None]:
    if not t.ndim:
        return t, None
    got = t.gather(dim, y1 if keepdim else unsqueeze(y1, dim))
    return got if keepdim else squeeze(got, dim), None


def _first(x: Tensor) -> Tensor:
    """The place of every element of what has one."""
    return zeros(x._spec.plain.dense().like(dtype=dtypes.int64))


@prepared(
    "MaxBackward0",
    tangent=_from_chosen,
    batch=lambda x, dim, keepdim: _max_dim(x, dim=dim + 1, keepdim=keepdim) if x.ndim > 1 else (x, _first(x)),
    result=maker("max"),
    input=_to_chosen,
)
def _max_dim(input: Spec, *, dim: int, keepdim: bool) -> Run:
    return _chosen("max", input, dim, keepdim)


@prepared(
    "MinBackward0",
    tangent=_from_chosen,
    batch=lambda x, dim, keepdim: _min_dim(x, dim=dim + 1, keepdim=keepdim) if x.ndim > 1 else (x, _first(x)),
    result=maker("min"),
    input=_to_chosen,
)
def _min_dim(input: Spec, *, dim: int, keepdim: bool) -> Run:
    return _chosen("min", input, dim, keepdim)


def _extreme(word: str, input: Tensor, dim: Any, keepdim: bool) -> Any:
    if dim is unset:
        if input.numel() == 0:
            raise RuntimeError(
                f"{word}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        lacks_kernel(f"{word}_all", input._spec.dtype)
        return call_of(_max_all if word == "max" else _min_all, input)
    _no_complex(word, input)
    d = layout.wrap_dim(dim, input.ndim)
    if not input._spec.numel and input.ndim and tuple.__getitem__(input.shape, d) == 0:
        raise IndexError(f"{word}(): Expected reduction dim {d} to have non-zero size.")
    return call_of(_max_dim if word == "max" else _min_dim, input, dim=d, keepdim=keepdim)


def _extreme_into(word: str, input: Tensor, got: Any, out: Any) -> Any:
    if isinstance(got, Tensor):
        return into(word, out, got, (input,))
    return results(word, got, out, (input,), apart=True)


@method
@settled_or(e.maximum)
def max(
    input: Tensor, dim: Any = unset, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None
) -> Any:
    """The largest of all elements; with a `dim`, the largest of each line along it and its place there, as `values` and `indices`; with
    another tensor, `maximum` of the two. NaN counts as the largest.

    Of all elements, those that share the extreme share its gradient. Along a `dim` the gradient goes to the place that `indices` says.

    >>> torch.max(torch.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    torch.return_types.max(
    values=tensor([5., 3.]),
    indices=tensor([1, 0]))
    >>> torch.func.grad(torch.max)(torch.tensor([5.0, 1.0, 5.0]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    dim = dim if other is None else other
    if isinstance(dim, Tensor):
        return e.maximum(input, dim, out=out)
    return (
        _extreme("max", input, dim, keepdim)
        if out is None
        else _extreme_into("max", input, max(input, dim, keepdim), out)
    )


@method
@settled_or(e.minimum)
def min(
    input: Tensor, dim: Any = unset, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None
) -> Any:
    """The smallest of all elements; with a `dim`, the smallest of each line along it and its place there, as `values` and `indices`; with
    another tensor, `minimum` of the two. NaN counts as the smallest.

    Of all elements, those that share the extreme share its gradient. Along a `dim` the gradient goes to the place that `indices` says.

    >>> torch.min(torch.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=0)
    torch.return_types.min(
    values=tensor([1., 2.]),
    indices=tensor([0, 1]))
    >>> torch.min(torch.tensor([3.0, 1.0]))
    tensor(1.)
    """
    dim = dim if other is None else other
    if isinstance(dim, Tensor):
        return e.minimum(input, dim, out=out)
    return (
        _extreme("min", input, dim, keepdim)
        if out is None
        else _extreme_into("min", input, min(input, dim, keepdim), out)
    )


def _place_of(word: str, sp: Spec, dim: int, keepdim: bool) -> Run:
    chosen = _chosen(word, sp, dim, keepdim)
    return lambda t: chosen(t)[1]


@prepared(
    batch=lambda x, word, dim, keepdim: (
        _place(x, word=word, dim=dim + 1, keepdim=keepdim) if x.ndim > 1 else _first(x)
    )
)
def _place(input: Spec, *, word: str, dim: int, keepdim: bool) -> Run:
    return _place_of(word, input, dim, keepdim)


@prepared(batch=lambda x, word: _place(reshape(x, (x.shape[0], -1)), word=word, dim=1, keepdim=False))
def _place_of_all(input: Spec, *, word: str) -> Run:
    line, line_of = as_lines(input, tuple(range(input.ndim)))
    found = _place_of(word, line, 0, False)
    return found if line is input else lambda t: found(line_of(t))


def _no_complex(name: str, input: Tensor) -> None:
    if input._spec.dtype.is_complex:
        raise RuntimeError(f"{name}(): does not support complex input")


def _arg(word: str, input: Tensor, dim: int | None, keepdim: bool) -> Any:
    _no_complex(f"arg{word}", input)
    if input._spec.dtype is dtypes.bool_:
        raise RuntimeError(f"arg{word}(): does not support bool input")
    if dim is None:
        if input.numel() == 0:
            raise IndexError(f"arg{word}(): Expected reduction dim to be specified for input.numel() == 0.")
        if keepdim:
            return reshape(_place_of_all(input, word=word), (1,) * input.ndim)
        return call_of(_place_of_all, input, word=word)
    d = layout.wrap_dim(dim, input.ndim)
    if not input._spec.numel and input.ndim and tuple.__getitem__(input.shape, d) == 0:
        raise IndexError(f"arg{word}(): Expected reduction dim {d} to have non-zero size.")
    return call_of(_place, input, word=word, dim=d, keepdim=keepdim)


def _arg_into(word: str, function: Any, input: Tensor, dim: int | None, keepdim: bool, out: Tensor) -> Tensor:
    if input._spec.dtype is dtypes.bool_:
        raise RuntimeError(f"arg{word}(): does not support bool input")
    check_out(f"arg{word}", out, dtypes.int64, (), EXPECTED)
    return into(f"arg{word}", out, function(input, dim, keepdim), ())


@method
@settled
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    """The place of the largest element, the first one of equals: along `dim`, or, without one, among all in their order. NaN counts as the
    largest. No gradient passes.

    >>> torch.argmax(torch.tensor([[1, 5], [7, 2]]), dim=1)
    tensor([1, 0])
    >>> torch.argmax(torch.tensor([[1, 5], [7, 2]]))
    tensor(2)
    """
    return (
        _arg("max", input, dim, keepdim)
        if out is None
        else _arg_into("max", argmax, input, dim, keepdim, out)
    )


@method
@settled
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    """The place of the smallest element, the first one of equals: along `dim`, or, without one, among all in their order. NaN counts as the
    smallest. No gradient passes.

    >>> torch.argmin(torch.tensor([[1, 5], [7, 2]]), dim=1)
    tensor([0, 1])
    """
    return (
        _arg("min", input, dim, keepdim)
        if out is None
        else _arg_into("min", argmin, input, dim, keepdim, out)
    )


__all__ = ["amax", "amin", "argmax", "argmin", "max", "min"]
