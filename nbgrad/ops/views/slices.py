"""Fewer elements: a place or a range along a dimension, a diagonal; and several such views at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from nbgrad.base.tables import Table
from nbgrad.core.arguments import before_guard, unset
from nbgrad.core.op import LINEAR, Op
from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor, hooks, requires, share
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import created, make_view
from nbgrad.dispatch.look import Looks, looks_of, several
from nbgrad.dispatch.prepared import call_of, viewed
from nbgrad.dispatch.stanza import method
from nbgrad.history.record import record_op
from nbgrad.memory import layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Marked, Spec
from nbgrad.ops.views.shape import _expand, reshape
from nbgrad.ops.views.views import _embed, _holds_ints, _strided, view
from nbgrad.tape.modes import state

hooks.reshape, hooks.expand = reshape, lambda t, shape: _expand(t, shape=tuple(shape))


class _Part:
    """What a view of a part looks at, and its gradient: zeros, but there. What is remembered is found by the `settings` alone: all places
    along a dimension are one, as a loop comes to each of them."""

    def __init__(
        self, geometry: Callable[..., tuple[Spec, int]], settings: tuple[str, ...], place: str = ""
    ) -> None:
        self.geometry, self.settings, self.place = geometry, itemgetter(*settings), place
        self.known: Table[tuple[Spec, Any], tuple[Spec, int]] = Table("ops.views.slices.parts", 1024)

    def __call__(self, g: Tensor, input_spec: Spec, **static: Any) -> Tensor:
        base = input_spec.dense()
        at, offset = self.of(base, static)
        return _embed(g, base=base, at=at, offset=offset)

    def of(self, base: Spec, static: dict[str, Any]) -> tuple[Spec, int]:
        key = base, self.settings(static)
        found = self.known.get(key)
        if found is None:
            first = static | {self.place: 0} if self.place else static
            found = self.known.keep(key, self.geometry(base, **first))
        if not self.place:
            return found
        return found[0], static[self.place] * base.strides[static["dim"]]


def _select_geometry(sp: Spec, *, dim: int, index: int) -> tuple[Spec, int]:
    shape, strides = tuple(sp.shape), sp.strides
    return sp.like(shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :]), index * strides[dim]


def _slice_geometry(sp: Spec, *, dim: int, start: int, length: int, step: int) -> tuple[Spec, int]:
    shape, strides = tuple(sp.shape), sp.strides
    stride = strides[dim] * step if length > 1 or step < 2**31 else strides[dim]  # kernels count in 64 bits
    return (
        sp.like(
            (*shape[:dim], length, *shape[dim + 1 :]),
            (*strides[:dim], stride, *strides[dim + 1 :]),
        ),
        start * strides[dim],
    )


def _diagonal_geometry(sp: Spec, *, offset: int, dim1: int, dim2: int) -> tuple[Spec, int]:
    rows, cols = sp.shape[dim1], sp.shape[dim2]
    n = max(0, min(rows, cols - offset) if offset >= 0 else min(rows + offset, cols))
    start = offset * sp.strides[dim2] if offset >= 0 else -offset * sp.strides[dim1]
    keep = [d for d in range(sp.ndim) if d not in (dim1, dim2)]
    shape = (*(sp.shape[d] for d in keep), n)
    return sp.like(
        shape, (*(sp.strides[d] for d in keep), sp.strides[dim1] + sp.strides[dim2])
    ), start if n else 0


_select_part = _Part(_select_geometry, ("dim",), "index")
_slice_part = _Part(_slice_geometry, ("dim", "length", "step"), "start")
_diagonal_part = _Part(_diagonal_geometry, ("offset", "dim1", "dim2"))


@view(
    "Select",
    lambda g, input_spec, dim, index: _select_part(g, input_spec, dim=dim, index=index),
    batch=lambda x, dim, index: _select(x, dim=dim + 1, index=index),
)
def _select(sp: Spec, *, dim: int, index: int) -> tuple[Spec, int]:
    return _select_geometry(sp, dim=dim, index=index)


@view(
    "Slice",
    lambda g, input_spec, dim, start, length, step: _slice_part(
        g, input_spec, dim=dim, start=start, length=length, step=step
    ),
    batch=lambda x, dim, start, length, step: _slice(x, dim=dim + 1, start=start, length=length, step=step),
)
def _slice(sp: Spec, *, dim: int, start: int, length: int, step: int) -> tuple[Spec, int]:
    return _slice_geometry(sp, dim=dim, start=start, length=length, step=step)


@view(
    "Diagonal",
    lambda g, input_spec, offset, dim1, dim2: _diagonal_part(
        g, input_spec, offset=offset, dim1=dim1, dim2=dim2
    ),
    batch=lambda x, offset, dim1, dim2: _diagonal(x, offset=offset, dim1=dim1 + 1, dim2=dim2 + 1),
)
def _diagonal(sp: Spec, *, offset: int, dim1: int, dim2: int) -> tuple[Spec, int]:
    return _diagonal_geometry(sp, offset=offset, dim1=dim1, dim2=dim2)


_select.op.part, _slice.op.part = _select_part.of, _slice_part.of  # type: ignore[attr-defined]
_diagonal.op.part = _diagonal_part.of  # type: ignore[attr-defined]


@method
@viewed
def select(input: Tensor, dim: int, index: int) -> Any:
    """A view of what `index` shows along `dim`, which is left out: `x.select(0, 1)` is `x[1]`. The gradient is zero elsewhere.

    >>> x = torch.zeros(2, 2, requires_grad=True)
    >>> x.select(1, 0).sum().backward()
    >>> x.grad
    tensor([[1., 0.],
            [1., 0.]])
    """
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = layout.wrap_dim(dim, input.ndim)
    n = tuple.__getitem__(input.shape, d)
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {d}"
        )
    return call_of(_select, input, dim=d, index=index % n)


@method
@viewed
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Any:
    """A view of `length` elements along `dim`, from `start` on. The gradient is zero elsewhere.

    >>> torch.arange(6).narrow(0, 2, 3)
    tensor([2, 3, 4])
    """
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    d = layout.wrap_dim(dim, input.ndim)
    n = tuple.__getitem__(input.shape, d)
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != 1):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    start = int(start)
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    if start < 0:
        start += n
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return call_of(_slice, input, dim=d, start=start, length=length, step=1)


@method
@viewed
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A view of the diagonals of the matrices in `dim1` and `dim2`, as the last dimension; `offset` counts above the main one, below
    if negative. The gradient is zero beside them.

    >>> torch.arange(9).view(3, 3).diagonal(1)
    tensor([1, 5])
    """
    a, b = layout.wrap_dim(dim1, input.ndim), layout.wrap_dim(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return call_of(_diagonal, input, offset=offset, dim1=a, dim2=b)


def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of the matrices in the last two dimensions, as `torch.diagonal`, which looks at the first two.

    >>> torch.linalg.diagonal(torch.arange(8).view(2, 2, 2))
    tensor([[0, 3],
            [4, 7]])
    """
    return diagonal(A, offset, dim1, dim2)


# ---------------------------------------------------------------- several views at once


def _part(input: Tensor, sp: Spec, offset: int) -> Tensor:
    look = sp.backend.view
    return share(input, look(input._buf, offset * sp.itemsize), sp)


def _several(
    node_name: str, join: Callable[[list[Tensor], int], Tensor], apart: bool = False
) -> Callable[[Callable[..., list[tuple[Spec, int]]]], Callable[..., tuple[Tensor, ...]]]:
    """Make what gives the geometries of several views an op, of which `join` along the dimension is the inverse. Those `apart` are none
    to autograd: each counts its own writes."""

    def make(geometry: Callable[..., list[tuple[Spec, int]]]) -> Callable[..., tuple[Tensor, ...]]:
        def forward(input: Tensor, **static: Any) -> Tensor:
            raise AssertionError("views are made by make_view")

        def rule(g: Any, input_spec: Spec, parts: Any) -> Tensor:
            grads = [g] if isinstance(g, Tensor) else g  # the engine's form for a node of one output
            if any([x is None for x in grads]):
                found = zip(grads, geometry(input_spec.plain.dense(), **parts))
                grads = [hooks.zeros(at.dense()) if x is None else x for x, (at, _) in found]
            return join(grads, parts["dim"])

        def batch(x: Tensor, parts: dict[str, Any]) -> tuple[Tensor, ...]:
            return views(x, parts={**parts, "dim": parts["dim"] + 1})

        op = Op(forward, {"input": rule}, node_name + "Backward0", LINEAR, batch)
        known: Table[Any, Looks | None] = Table("ops.views.slices.known", 1024)

        def at(sp: Spec, parts: dict[str, Any]) -> Looks | None:
            key = (sp, *parts.values())
            if key not in known:
                known[key] = looks_of(op, sp, {"parts": parts}, geometry(sp, **parts))
            return known[key]

        def views(input: Tensor, *, parts: dict[str, Any]) -> tuple[Tensor, ...]:
            if state.active and type(input._spec) is Marked:
                return transforms.view(op, views, input, {"parts": parts}, created(multi=True))
            if not apart and (plan := at(input._spec, parts)) is not None:
                outs = several(input, plan)
                if outs is not None:
                    return outs
            found = geometry(input._spec, **parts)
            if apart:
                outs = tuple([_part(input, sp, offset) for sp, offset in found])
            else:
                outs = tuple([make_view(input, sp, offset, multi=True) for sp, offset in found])
            if outs and state.grad and input._rg and requires(input):
                record_op(op, outs, (input,), {"parts": parts})
            return outs

        def called(input: Tensor, **parts: Any) -> tuple[Tensor, ...]:
            return views(input, parts=parts)

        called.op, called.at = op, at  # type: ignore[attr-defined]
        return called

    return make


def _by_numbers(
    parts: Callable[..., tuple[Any, dict[str, Any]]], numbers: int
) -> Callable[[Callable[..., Any]], Any]:
    """The short way of a call with a tensor and ints, of which the last is `dim`; `parts` says which op of which parts it comes to."""

    def shortened(slow: Callable[..., Any]) -> Callable[..., Any]:
        known: Table[Any, Looks] = Table("ops.views.slices.calls", 4096)
        find = known.get

        def short(
            input: Any = unset, first: Any = unset, second: Any = unset, /, *rest: Any, **more: Any
        ) -> Any:
            usual = not (more or rest) and (first is unset or first.__class__ is int)
            if usual and (second is unset or second.__class__ is int):
                try:
                    plan = find((input._spec, first, second))
                except AttributeError:
                    plan = None
                if plan is not None:
                    outs = several(input, plan)
                    if outs is not None:
                        return outs
            elif [*more] == ["dim"] and input is not unset and (first, second)[numbers - 1] is unset:
                if first is not unset or numbers == 1:
                    return short(input, *[first][: numbers - 1], more["dim"])
            else:
                usual = False
            given = [x for x in (input, first, second, *rest) if x is not unset]
            outs = slow(*given, **more)
            if usual and type(input._spec) is Spec:
                op, found = parts(*given)
                plan = op.at(input._spec, found)
                if plan is not None:
                    known.keep((input._spec, first, second), plan)
            return outs

        return short

    return partial(before_guard, shortened)


def _stacked(grads: list[Tensor], dim: int) -> Tensor:
    return hooks.stack(grads, dim)


def _joined(grads: list[Tensor], dim: int) -> Tensor:
    return hooks.cat(grads, dim)


@_several("Unbind", _stacked)
def _unbind(sp: Spec, *, dim: int) -> list[tuple[Spec, int]]:
    return [_select_geometry(sp, dim=dim, index=k) for k in range(sp.shape[dim])]


def _split_geometry(sp: Spec, *, dim: int, sizes: Ints) -> list[tuple[Spec, int]]:
    out, start = [], 0
    for n in sizes:
        out.append(_slice_geometry(sp, dim=dim, start=start, length=n, step=1))
        start += n
    return out


_split = _several("Split", _joined)(_split_geometry)
_split_with_sizes = _several("SplitWithSizes", _joined)(_split_geometry)
_unsafe_split = _several("UnsafeSplit", _joined, apart=True)(_split_geometry)
_unsafe_split_with_sizes = _several("UnsafeSplitWithSizes", _joined, apart=True)(_split_geometry)


@method
@_by_numbers(lambda input, dim=0: (_unbind, {"dim": layout.wrap_dim(dim, input.ndim)}), 1)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all slices along `dim`, as a tuple. The gradients are stacked.

    >>> torch.tensor([[1, 2], [3, 4]]).unbind(1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    return _unbind(input, dim=layout.own_dim(layout.wrap_dim(dim, input.ndim), input.ndim))


def _equal_parts(tensor: Tensor, split_size: int, dim: int) -> dict[str, Any]:
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = layout.wrap_dim(dim, tensor.ndim)
    n = tuple.__getitem__(tensor.shape, d)
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    if split_size == 0 and n:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    count = max(1, -(-n // split_size)) if split_size else 1
    return {"dim": d, "sizes": (split_size,) * (count - 1) + (n - split_size * (count - 1),)}


def _given_parts(tensor: Tensor, split_sizes: Sequence[int], dim: int) -> dict[str, Any]:
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = layout.wrap_dim(dim, tensor.ndim)
    n, sizes = tuple.__getitem__(tensor.shape, d), tuple(split_sizes)
    if any(s < 0 for s in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}"
        )
    if sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got "
            f"split_sizes={list(sizes)}"
        )
    return {"dim": d, "sizes": sizes}


def _chunks(input: Tensor, chunks: int, dim: int) -> dict[str, Any]:
    if input.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = layout.wrap_dim(dim, input.ndim)
    size = -(-input.shape[d] // chunks)
    return _equal_parts(input, size, d) if size else {"dim": d, "sizes": (0,) * chunks}


@method
@_by_numbers(lambda tensor, size, dim=0: (_split, _equal_parts(tensor, size, dim)), 2)
def split(tensor: Any, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts along `dim`, as a tuple: each `split_size` long (the last may be shorter), or as long as the list `split_size`
    says. The gradients are joined.

    >>> torch.arange(5).split(2), torch.arange(5).split([1, 4])
    ((tensor([0, 1]), tensor([2, 3]), tensor([4])), (tensor([0]), tensor([1, 2, 3, 4])))
    """
    if not isinstance(tensor, Tensor):
        found: tuple[Tensor, ...] = tensor.split(split_size, dim)
        return found
    if isinstance(split_size, int) and not isinstance(split_size, bool):
        return _split(tensor, **_equal_parts(tensor, split_size, dim))
    if not _holds_ints(split_size):
        check("split_with_sizes", (tensor, split_size, dim), {})
    return _split_with_sizes(tensor, **_given_parts(tensor, split_size, dim))


@method
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts along `dim` that are as long as `split_sizes` says, as a tuple.

    >>> torch.arange(5).split_with_sizes([1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    return _split_with_sizes(input, **_given_parts(input, split_sizes, dim))


@method
@_by_numbers(lambda input, chunks, dim=0: _chunked(input, chunks, dim), 2)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most `chunks` parts of one length along `dim`, of which the last may be shorter, as a tuple.

    >>> torch.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    op, parts = _chunked(input, chunks, dim)
    found: tuple[Tensor, ...] = op(input, **parts)
    return found


def _chunked(input: Tensor, chunks: int, dim: int) -> tuple[Any, dict[str, Any]]:
    parts = _chunks(input, chunks, dim)
    return _split if input.shape[parts["dim"]] else _split_with_sizes, parts


@method
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """As `split`, but autograd takes the parts for tensors of their own, which may be written to, each apart.

    >>> torch.unsafe_split(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return _unsafe_split(input, **_equal_parts(input, split_size, dim))


@method
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """As `split_with_sizes`, but autograd takes the parts for tensors of their own.

    >>> torch.unsafe_split_with_sizes(torch.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return _unsafe_split_with_sizes(input, **_given_parts(input, split_sizes, dim))


@method
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """As `chunk`, but autograd takes the parts for tensors of their own.

    >>> torch.unsafe_chunk(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return _unsafe_split(input, **_chunks(input, chunks, dim))


hooks.select = lambda t, dim, index: _select(t, dim=dim, index=index)
hooks.as_strided = lambda t, shape, strides, offset: _strided(
    t, at=t._spec.like(tuple(shape), tuple(strides)), offset=offset
)


__all__ = [
    "chunk",
    "diagonal",
    "narrow",
    "select",
    "split",
    "split_with_sizes",
    "unbind",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
]
