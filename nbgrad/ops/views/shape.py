"""The same elements in another shape, or more of them than there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from nbgrad.base.tables import Table
from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor, hooks, share, storage_of, wrap
from nbgrad.dispatch.prepared import call_of, copied_as, viewed, viewed_like
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Marked, Spec, spec
from nbgrad.ops.views.copy import contiguous, copier, dense_copy
from nbgrad.ops.views.views import _holds_ints, _sizes, alias, view
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- the same elements in another shape


def _view_each(x: Tensor, shape: Ints) -> Tensor:
    return _view(x, shape=(tuple.__getitem__(x.shape, 0), *shape))


@view("View", lambda g, input_spec: reshape(g, input_spec.shape), batch=_view_each)
def _view(sp: Spec, *, shape: Ints) -> tuple[Spec, int]:
    strides = layout.view_strides(sp.shape, sp.strides, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
            "subspaces). Use .reshape(...) instead."
        )
    return sp.like(shape, strides), 0


@view("ReshapeAlias", lambda g, input_spec: reshape(g, input_spec.shape), batch=_view_each)
def _reshape_alias(sp: Spec, *, shape: Ints) -> tuple[Spec, int]:
    strides = layout.view_strides(sp.shape, sp.strides, shape)
    assert strides is not None
    return sp.like(shape, strides), 0


@view("UnsafeView", lambda g, input_spec: reshape(g, input_spec.shape), batch=_view_each)
def _unsafe_view(sp: Spec, *, shape: Ints) -> tuple[Spec, int]:
    return sp.like(shape), 0


def _squeezed(sp: Spec, *, dims: Ints) -> tuple[Spec, int]:
    keep = [d for d in range(sp.ndim) if d not in dims]
    return sp.like(tuple(sp.shape[d] for d in keep), tuple(sp.strides[d] for d in keep)), 0


def _squeeze_each(x: Tensor, dims: Ints) -> Tensor:
    return _squeeze_dims(x, dims=tuple([d + 1 for d in dims]))


_squeeze: Callable[..., Tensor]
_squeeze_dim: Callable[..., Tensor]
_squeeze_dims: Callable[..., Tensor]
_squeeze, _squeeze_dim, _squeeze_dims = (
    view(
        f"SqueezeBackward{k}",
        lambda g, input_spec: reshape(g, input_spec.shape),
        batch=_squeeze_each,
    )(_squeezed)
    for k in range(3)
)


@view(
    "Unsqueeze",
    lambda g, dim: _squeeze_dim(g, dims=(dim,)),
    batch=lambda x, dim: _unsqueeze(x, dim=dim + 1),
)
def _unsqueeze(sp: Spec, *, dim: int) -> tuple[Spec, int]:
    step = sp.shape[dim] * sp.strides[dim] if dim < sp.ndim else 1
    return sp.like((*sp.shape[:dim], 1, *sp.shape[dim:]), (*sp.strides[:dim], step, *sp.strides[dim:])), 0


hooks.alias = alias


@method
@viewed_like
def view_as(self: Tensor, other: Tensor) -> Any:
    """A view in the shape of `other`, as `view`.

    >>> torch.arange(4).view_as(torch.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return call_of(_view, self, shape=layout.infer_size(tuple(other.shape), self._spec.numel))


def _as_dtype(self: Tensor, d: dtypes.dtype) -> Tensor:
    """The same bytes, read as another dtype. No gradient passes."""
    sp, ratio = self._spec, 1.0
    if type(sp) is Marked:
        raise NotImplementedError("view(dtype) inside a transform is not supported")
    words = f"to view {sp.dtype.scalar_name} as {d.scalar_name} (different element sizes)"
    shape, strides = list(sp.shape), list(sp.strides)
    if d.itemsize != sp.itemsize:
        if not shape:
            raise RuntimeError(f"self.dim() cannot be 0 {words}")
        if strides[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {words}, but got {strides[-1]}")
        ratio = sp.itemsize / d.itemsize
        parts = d.itemsize // sp.itemsize
        if parts > 1:
            divided = [("self.size(-1)", shape[-1]), ("self.storage_offset()", self.storage_offset())]
            divided += [(f"self.stride({k})", n) for k, n in enumerate(strides[:-1])]
            for what, n in divided:
                if n % parts:
                    raise RuntimeError(f"{what} must be divisible by {parts} {words}, but got {n}")
        shape[-1] = int(shape[-1] * ratio)
        strides[:-1] = [int(n * ratio) for n in strides[:-1]]
    out = share(self, self._buf, spec(d, tuple(shape), tuple(strides), sp.device))
    out._storage = storage_of(self)
    return out


@viewed
def _t_view(self: Tensor, *shape: Any) -> Any:
    """The same memory in another shape; one size may be -1, which is worked out. Refused where the memory's order has no such
    reading, of which `reshape` makes a copy. A dtype in place of sizes reads the bytes as that.

    >>> torch.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if len(shape) == 1 and isinstance(shape[0], (dtypes.dtype, type)):
        return _as_dtype(self, dtypes.to_dtype(shape[0]))
    return call_of(_view, self, shape=layout.infer_size(_sizes(shape), self._spec.numel))


Tensor.view = _t_view  # type: ignore[method-assign]


@method
@viewed
def reshape(input: Tensor, *shape: Any) -> Any:
    """The elements in order in another shape; one size may be -1, which is worked out. A view where the memory allows it, else a
    copy. The gradient is reshaped back.

    >>> torch.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return _reshaped(input, layout.infer_size(_sizes(shape, "reshape", "shape"), input._spec.numel))


def _reshaped(input: Tensor, sizes: Ints) -> Any:
    """A view where one can show the elements so, else a copy."""
    sp = input._spec
    if layout.view_strides(sp.shape, sp.strides, sizes) is not None:
        return call_of(_view if sp.contiguous else _reshape_alias, input, shape=sizes)
    if type(sp) is Marked or state.active:
        return owned(_unsafe_view(contiguous(input), shape=sizes))
    made, copied, shown = sp.like(sizes), cast(Any, dense_copy), cast(Any, _unsafe_view)
    run = copier(sp, sp.dense(), shown=made)
    return copied_as(copied.at(sp, {}), shown.op, {"shape": sizes}, made, run)


def owned(view: Tensor) -> Tensor:
    """A view of a copy that nobody else has: to the user no view."""
    view._view, view._rg = None, 1 if view._node is not None else 0
    return view


@method
@viewed_like
def reshape_as(self: Tensor, other: Tensor) -> Any:
    """The elements in the shape of `other`, as `reshape`.

    >>> torch.arange(4).reshape_as(torch.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return _reshaped(self, layout.infer_size(tuple(other.shape), self._spec.numel))


@method
@viewed
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from `start_dim` to `end_dim` as one. A view where the memory allows it, else a copy.

    >>> torch.ones(2, 3, 4).flatten(1).shape
    torch.Size([2, 12])
    """
    a, b = layout.wrap_dim(start_dim, input.ndim), layout.wrap_dim(end_dim, input.ndim)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if input.ndim == 0:
        return _reshaped(input, (1,))
    if a == b:
        return input
    merged = 1
    for n in tuple(input.shape)[a : b + 1]:
        merged *= n
    return _reshaped(input, (*tuple(input.shape)[:a], merged, *tuple(input.shape)[b + 1 :]))


@method
@viewed
def ravel(input: Tensor) -> Any:
    """All elements in one dimension, one after the other in memory: a view where they are so already, else a copy.

    >>> torch.arange(4).view(2, 2).t().ravel()
    tensor([0, 2, 1, 3])
    """
    shape = (input._spec.numel,)
    return (
        call_of(_view, input, shape=shape)
        if input._spec.contiguous
        else _view(contiguous(input), shape=shape)
    )


@method
@viewed
def unflatten(input: Tensor, dim: int, sizes: Any) -> Any:
    """The dimension `dim` as several of `sizes`, of which one may be -1: the inverse of `flatten`.

    >>> torch.arange(6).unflatten(0, (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if isinstance(sizes, Tensor):
        bool(sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if type(dim) is not int or not _holds_ints(sizes):
        check("inner.unflatten", (dim, sizes), {})
    d = layout.wrap_dim(dim, input.ndim)
    unexpected = "unflatten got an unexpected error:\n"
    if not input.ndim:
        raise RuntimeError(f"{unexpected}Dimension specified as {d} but tensor has no dimensions")
    try:
        inner = layout.infer_size(tuple(sizes), input.shape[d])
    except RuntimeError as error:
        if "is invalid for input" not in str(error):
            raise RuntimeError(f"{unexpected}{error}") from None
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({input.shape[d]}) in the input "
            "tensor"
        ) from None
    return call_of(_view, input, shape=(*tuple(input.shape)[:d], *inner, *tuple(input.shape)[d + 1 :]))


@method
@viewed
def squeeze(input: Tensor, dim: Any = None) -> Any:
    """A view without the dimensions of size 1; with `dim` (one or several) only those are left out, where they are of size 1. The
    gradient has them back.

    >>> torch.ones(1, 2, 1).squeeze().shape, torch.ones(1, 2, 1).squeeze(0).shape
    (torch.Size([2]), torch.Size([2, 1]))
    """
    if dim is None:
        return call_of(_squeeze, input, dims=tuple(d for d in range(input.ndim) if input.shape[d] == 1))
    single = isinstance(dim, int)
    wanted = (
        (layout.wrap_dim(dim, input.ndim),)
        if single
        else layout.wrap_dims(tuple(dim), input.ndim)
        if dim
        else ()
    )
    ones = tuple(w for w in wanted if input.ndim and input.shape[w] == 1)
    return call_of(_squeeze_dim if single else _squeeze_dims, input, dims=ones)


@method
@viewed
def unsqueeze(input: Tensor, dim: int) -> Any:
    """A view with a new dimension of size 1 at `dim`.

    >>> torch.arange(3).unsqueeze(1)
    tensor([[0],
            [1],
            [2]])
    """
    n = input.ndim + 1
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return call_of(_unsqueeze, input, dim=dim % n)


# ---------------------------------------------------------------- more, or fewer, elements


def _expand_each(x: Tensor, shape: Ints) -> Tensor:
    n, *sizes = x.shape
    wide = (*(1,) * (len(shape) - len(sizes)), *sizes)
    if len(wide) > len(sizes):
        x = reshape(x, (n, *wide))
    return _expand(x, shape=(n, *shape))


@view("Expand", lambda g, input_spec: hooks.sum_to(g, input_spec.shape), batch=_expand_each)
def _expand(sp: Spec, *, shape: Ints) -> tuple[Spec, int]:
    try:
        return sp.like(*layout.expand(sp.shape, sp.strides, shape)), 0
    except RuntimeError as e:
        raise RuntimeError(str(e).replace("torch.FloatTensor", sp.dtype.type_name)) from None


@method
@viewed
def expand(self: Tensor, *sizes: Any, implicit: bool = False) -> Any:
    """A view in which dimensions of size 1 are shown as often as `sizes` says, without a copy; -1 leaves a size as it is, and new
    dimensions come in front. The gradient is the sum over what was repeated.

    >>> x = torch.tensor([[1.0], [2.0]], requires_grad=True)
    >>> x.expand(-1, 3).sum().backward()
    >>> x.grad
    tensor([[3.],
            [3.]])
    """
    return call_of(_expand, self, shape=_sizes(sizes, "expand"))


def spread(g: Tensor, shape: Ints) -> Tensor:
    """`expand` for gradients: where nothing is recorded, without the bookkeeping that a user's view needs."""
    if state.grad or state.active:
        return _expand(g, shape=shape)
    key = (g._spec, shape)
    sp = _spread_of(key)
    if sp is None:
        sp = _spreads.keep(key, g._spec.like(*layout.expand(g._spec.shape, g._spec.strides, shape)))
    return wrap(g._buf, sp)


_spreads: Table[tuple[Spec, Ints], Spec] = Table("ops.views.shape.spreads", 4096)
_spread_of = _spreads.get


@method
@viewed_like
def expand_as(self: Tensor, other: Tensor) -> Any:
    """A view spread to the shape of `other`, as `expand`.

    >>> torch.tensor([1, 2]).expand_as(torch.ones(2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return call_of(_expand, self, shape=tuple(other.shape))


@method
@viewed
def broadcast_to(input: Tensor, *size: Any) -> Any:
    """A view spread to the shape `size`, as `expand`.

    >>> torch.tensor([1, 2]).broadcast_to(2, 2)
    tensor([[1, 2],
            [1, 2]])
    """
    return call_of(_expand, input, shape=_sizes(size, "broadcast_to"))


__all__ = ["broadcast_to", "flatten", "ravel", "reshape", "squeeze", "unflatten", "unsqueeze"]
