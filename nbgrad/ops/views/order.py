"""The same elements in another order of dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nbgrad.base.warn import warn_once
from nbgrad.core.arguments import before_guard
from nbgrad.core.tensor import Tensor, fix, hooks
from nbgrad.dispatch.prepared import call_of, viewed
from nbgrad.dispatch.stanza import method
from nbgrad.memory import layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops.views.views import _alias, _sizes, view


def _inverse(dims: Ints) -> Ints:
    return tuple(dims.index(d) for d in range(len(dims)))


@view(
    "Permute",
    lambda g, dims: _permute(g, dims=_inverse(dims)),
    batch=lambda x, dims: _permute(x, dims=(0, *[d + 1 for d in dims])),
)
def _permute(sp: Spec, *, dims: Ints) -> tuple[Spec, int]:
    return sp.like(tuple(sp.shape[d] for d in dims), tuple(sp.strides[d] for d in dims)), 0


_permute.op.public = {**_permute.op.public, "dims": "dims"}  # type: ignore[attr-defined]


@view(
    "Transpose",
    lambda g, dim0, dim1: _transpose(g, dim0=dim0, dim1=dim1),
    batch=lambda x, dim0, dim1: _transpose(x, dim0=dim0 + 1, dim1=dim1 + 1),
)
def _transpose(sp: Spec, *, dim0: int, dim1: int) -> tuple[Spec, int]:
    return _swapped(sp, dim0, dim1), 0


@view("T", lambda g: _t(g), batch=lambda x: _transpose(x, dim0=1, dim1=2) if x.ndim == 3 else _alias(x))
def _t(sp: Spec) -> tuple[Spec, int]:
    return _swapped(sp, 0, 1) if sp.ndim == 2 else sp, 0


def _swapped(sp: Spec, a: int, b: int) -> Spec:
    order = list(range(sp.ndim))
    if a != b:
        order[a], order[b] = order[b], order[a]
    return sp.like(tuple(sp.shape[d] for d in order), tuple(sp.strides[d] for d in order))


@method
@viewed
def permute(input: Tensor, *dims: Any) -> Any:
    """A view with the dimensions in the order of `dims`. The gradient has them put back.

    >>> torch.ones(2, 3, 4).permute(2, 0, 1).shape
    torch.Size([4, 2, 3])
    """
    if not dims:
        raise TypeError('permute() missing 1 required positional arguments: "dims"')
    order = _sizes(dims, "permute", "dims")
    if len(order) != input.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(order)}"
        )
    wrapped = tuple(layout.wrap_dim(d, input.ndim) for d in order)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return call_of(_permute, input, dims=wrapped)


@method
@viewed
def transpose(input: Tensor, dim0: int, dim1: int) -> Any:
    """A view with the dimensions `dim0` and `dim1` exchanged. The gradient has them exchanged back.

    >>> torch.arange(6).view(2, 3).transpose(0, 1)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    a, b = layout.wrap_dim(dim0, input.ndim), layout.wrap_dim(dim1, input.ndim)
    return call_of(_transpose, input, dim0=a, dim1=b)


swapaxes = swapdims = Tensor.swapaxes = Tensor.swapdims = transpose  # type: ignore[method-assign]


@method
@viewed
def t(input: Tensor) -> Any:
    """A view of a matrix with rows and columns exchanged; a tensor of fewer dimensions is shown as it is.

    >>> torch.arange(6).view(2, 3).t()
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return call_of(_t, input)


_IDENTITY = "This function is the identity in these cases."
_CONJUGATE = "Consider using x.conj()."


def _T(self: Tensor) -> Tensor:
    """A view of a matrix with rows and columns exchanged. Other than two dimensions are deprecated, and all reversed.

    >>> torch.arange(6).view(2, 3).T
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    if self._spec.ndim == 2:
        return _turned(self)
    if self.ndim == 0:
        warn_once(f"Tensor.T is deprecated on 0-D tensors. {_IDENTITY}")
    else:
        warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an "
            "error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
        )
    return _turned(self)


@viewed
def _turned(input: Tensor) -> Any:
    return call_of(_permute, input, dims=tuple(range(input.ndim))[::-1])


def _H(self: Tensor) -> Tensor:
    """A matrix with rows and columns exchanged, of complex numbers their conjugates, of real ones a view.

    >>> torch.arange(6).view(2, 3).H
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    if self.ndim == 0:
        warn_once(f"Tensor.H is deprecated on 0-D tensors. {_CONJUGATE}")
        return hooks.conj(self)
    if self.ndim != 2:
        batches = " For batches of matrices, consider using tensor.mH" if self.ndim > 2 else ""
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.{batches}"
        )
    return hooks.conj(transpose(self, 0, 1))


def _of_matrices(name: str, advice: str) -> property:
    conjugated = name == "mH"
    what = (
        "Every matrix transposed, of complex numbers their conjugates, of real ones as a view"
        if conjugated
        else ("A view with the last two dimensions exchanged: every matrix transposed")
    )

    def turned(self: Tensor) -> Tensor:
        if self.ndim == 0:
            warn_once(f"Tensor.{name} is deprecated on 0-D tensors. {advice}")
            return hooks.conj(self) if conjugated else self
        if self.ndim == 1:
            raise RuntimeError(
                f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
            )
        found = transpose(self, -2, -1)
        return hooks.conj(found) if conjugated else found

    turned.__doc__ = f"""{what}. The gradient is turned back.

    >>> torch.ones(2, 3, 4).{name}.shape
    torch.Size([2, 4, 3])
    """
    return property(turned)


Tensor.T, Tensor.H = property(_T), property(_H)  # type: ignore[assignment, method-assign]
Tensor.mT, Tensor.mH = _of_matrices("mT", _IDENTITY), _of_matrices("mH", _CONJUGATE)  # type: ignore[assignment, method-assign]
fix("T", "H", "mT", "mH")


def _of_lists(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Lists of ints as tuples, which a key can hold."""

    def short(*args: Any, **more: Any) -> Tensor:
        if (
            len(args) == 3
            and args[1].__class__ is args[2].__class__ is list
            and {*map(type, args[1]), *map(type, args[2])} == {int}
        ):
            return slow(args[0], tuple(args[1]), tuple(args[2]), **more)
        return slow(*args, **more)

    return short


@method
@partial(before_guard, _of_lists)
@viewed
def movedim(input: Tensor, source: Any, destination: Any) -> Any:
    """A view with the dimensions `source` moved to the places `destination`; the others keep their order.

    >>> torch.ones(2, 3, 4).movedim(0, -1).shape
    torch.Size([3, 4, 2])
    """
    order = moved(input.ndim, source, destination)
    return call_of(_permute, input, dims=order) if order else call_of(_alias, input)


def moved(ndim: int, source: Any, destination: Any) -> tuple[int, ...]:
    """The order of dimensions that `movedim` leads to."""
    given = [[d] if isinstance(d, int) else list(d) for d in (source, destination)]
    if len(given[0]) != len(given[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({given[0]} dims) should contain the same number of dims as "
            f"destination ({given[1]} dims)"
        )
    src, dst = ([layout.wrap_dim(d, ndim) for d in dims] for dims in given)
    for word, dims, named in (("source", src, given[0]), ("destination", dst, given[1])):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{word}` ({named})")
    if not ndim:
        return ()
    order: list[int] = [-1] * ndim
    for s, d in zip(src, dst):
        order[d] = s
    rest = iter([d for d in range(ndim) if d not in src])
    return tuple([next(rest) if d < 0 else d for d in order])


moveaxis = Tensor.moveaxis = movedim  # type: ignore[method-assign]
hooks.movedim = movedim


__all__ = ["moveaxis", "movedim", "permute", "swapaxes", "swapdims", "t", "transpose"]
