"""Splitting unevenly, sliding windows, and the grids that several tensors span."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from nbgrad.base.warn import warn_once
from nbgrad.core.tensor import Tensor, empty, hooks
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.look import learn, look_of, one
from nbgrad.dispatch.prepared import call_of, viewed
from nbgrad.dispatch.quick import Quick, quickly, replayed
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes, layout
from nbgrad.memory.backend import check_size
from nbgrad.memory.layout import Size
from nbgrad.memory.storage import Spec
from nbgrad.ops.arrange.diagonals import _slice_written
from nbgrad.ops.index.place import _index_select, _spread_same, along
from nbgrad.ops.views.copy import clone, contiguous, full, to_dtype
from nbgrad.ops.views.join import cat, stack
from nbgrad.ops.views.order import movedim
from nbgrad.ops.views.shape import _expand, reshape, squeeze, unsqueeze
from nbgrad.ops.views.slices import _slice, _slice_geometry
from nbgrad.ops.views.views import _sizes, view

# ---------------------------------------------------------------- one part


def _back(g: Tensor, input_spec: Spec, dim: int, start: int, length: int) -> Tensor:
    def at(sp: Spec) -> tuple[Spec, int]:
        return _slice_geometry(sp, dim=dim, start=start, length=length, step=1)

    return _slice_written(full(input_spec.dense(), 0), g, at=at)


@differentiable("NarrowCopy", input=_back)
def _narrow_copy(input: Tensor, *, dim: int, start: int, length: int) -> Tensor:
    return clone(contiguous(_slice(input, dim=dim, start=start, length=length, step=1)))


_ALIKE = (
    "Expected self.dtype() == output.dtype() to be true, but got false.  (Could this error message be improved?  If so, please "
    "report an enhancement request to PyTorch.)"
)


@method
@replayed
def narrow_copy(input: Tensor, dim: int, start: int, length: int, *, out: Tensor | None = None) -> Tensor:
    """What `narrow` gives, as a copy.

    >>> torch.narrow_copy(torch.arange(6), 0, 2, 3)
    tensor([2, 3, 4])
    """
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = layout.wrap_dim(dim, input.ndim)
    n = tuple.__getitem__(input.shape, d)
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start += n if start < 0 else 0
    if length < 0 or start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    result = _narrow_copy(input, dim=d, start=start, length=length)
    return result if out is None else into("narrow_copy", out, result, (input,), _ALIKE)


# ---------------------------------------------------------------- splitting


def _ranges(dim: int, n: int, cuts: Sequence[int]) -> list[dict[str, int]]:
    """Of slices between the cuts, which are read as Python's slices are."""
    ranges = [slice(a, b).indices(n)[:2] for a, b in itertools.pairwise([0, *cuts, n])]
    return [{"dim": dim, "start": a, "length": max(0, b - a), "step": 1} for a, b in ranges]


def _cut(input: Tensor, dim: int, cuts: Sequence[int]) -> tuple[Tensor, ...]:
    return tuple([_slice(input, **part) for part in _ranges(dim, input.shape[dim], cuts)])


def _even_cuts(n: int, sections: int) -> list[int]:
    size, more = divmod(n, sections)
    return [k * size + min(k, more) for k in range(1, sections)]


def _quick_split(input: Spec, given: Any, dim: Any = 0) -> Quick | None:
    if type(given) not in (int, tuple) or type(dim) is not int:
        return None
    d = layout.wrap_dim(dim, input.ndim)
    n = input.shape[d]
    parts = _ranges(d, n, given if type(given) is tuple else _even_cuts(n, given))
    op = _slice.op  # type: ignore[attr-defined]
    looks = [look_of(op, input, part, *_slice_geometry(input, **part)) for part in parts]

    def run(t: Tensor) -> tuple[Tensor, ...] | None:
        found: Any = tuple([one(t, look) for look in looks if look is not None])
        return None if any([part is None for part in found]) else found

    return None if None in looks else run


@method
@quickly(_quick_split, records=False, devices=True, lists=True)
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts along `dim`, as a tuple: as many as a number says, as equal as they can be, or cut before each of a sequence of
    indices.

    >>> torch.arange(5).tensor_split(2), torch.arange(5).tensor_split((1, 3))
    ((tensor([0, 1, 2]), tensor([3, 4])), (tensor([0]), tensor([1, 2]), tensor([3, 4])))
    """
    if not input.ndim:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    given = indices_or_sections
    if isinstance(given, Tensor):
        if given.dtype is not dtypes.int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{given.dtype.scalar_name}"
            )
        if given.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
                f"but got a tensor with {given.ndim} dims"
            )
        given = given.tolist()
    d = layout.wrap_dim(dim, input.ndim)
    if not isinstance(given, int):
        return _cut(input, d, tuple(given))
    if given <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {given}")
    return _cut(input, d, _even_cuts(input.shape[d], given))


def _split_along(name: str, least: int, dim: int, input: Tensor, given: Any) -> tuple[Tensor, ...]:
    if input.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} "
            "dimensions!"
        )
    if isinstance(given, int) and (given <= 0 or input.shape[dim] % given):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} "
            f"is not divisible by the split_size {given}!"
        )
    return tensor_split(input, given, dim)


@method
@quickly(
    lambda x, given: _quick_split(x, given, 0 if x.ndim == 1 else 1), records=False, devices=True, lists=True
)
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Views of parts side by side: `tensor_split` along the second dimension, of a vector along the first.

    >>> torch.arange(4).view(2, 2).hsplit(2)
    (tensor([[0],
            [2]]), tensor([[1],
            [3]]))
    """
    return _split_along("hsplit", 1, 0 if input.ndim == 1 else 1, input, indices_or_sections)


@method
@quickly(_quick_split, records=False, devices=True, lists=True)
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Views of parts one below the other: `tensor_split` along the first dimension.

    >>> torch.arange(4).view(2, 2).vsplit(2)
    (tensor([[0, 1]]), tensor([[2, 3]]))
    """
    return _split_along("vsplit", 2, 0, input, indices_or_sections)


@method
@quickly(lambda x, given: _quick_split(x, given, 2), records=False, devices=True, lists=True)
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Views of parts in depth: `tensor_split` along the third dimension.

    >>> [part.shape for part in torch.ones(1, 2, 4).dsplit((1,))]
    [torch.Size([1, 2, 1]), torch.Size([1, 2, 3])]
    """
    return _split_along("dsplit", 3, 2, input, indices_or_sections)


# ---------------------------------------------------------------- sliding windows


def windows_back(g: Tensor, input_spec: Spec, dim: int, size: int, step: int) -> Tensor:
    """Windows overlap: what an element got in each of them adds up."""
    if not input_spec.ndim:
        return reshape(g, ())
    starts = step * np.arange(g.shape[dim])
    place = along(dim, starts[:, None] + np.arange(size), input_spec)
    return _spread_same(movedim(g, -1, dim + 1), base=input_spec.dense(), place=place)


def _windows_each(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    if x.ndim == 1:  # examples without dimensions, of which there is one window
        return squeeze(_windows(unsqueeze(x, -1), dim=1, size=size, step=step), 1)
    found: Tensor = _windows(x, dim=dim + 1, size=size, step=step)
    return found


@view(
    "Unfold",
    windows_back,
    batch=_windows_each,
)
def _windows(sp: Spec, *, dim: int, size: int, step: int) -> tuple[Spec, int]:
    if not sp.ndim:
        return sp.like((size,), (1,)), 0
    shape, strides = list(sp.shape), list(sp.strides)
    shape[dim] = (shape[dim] - size) // step + 1
    return sp.like(
        (*shape, size), (*strides[:dim], strides[dim] * step, *strides[dim + 1 :], strides[dim])
    ), 0


@viewed
def _unfold(self: Tensor, dimension: int, size: int, step: int) -> Any:
    """A view of all windows of `size` elements along `dimension`, `step` apart, with the elements of a window in a new last
    dimension. What an element got in several windows adds up in its gradient.

    >>> torch.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    d = layout.wrap_dim(dimension, self.ndim)
    n = self.shape[d] if self.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return call_of(_windows, self, dim=d, size=size, step=step)


Tensor.unfold = _unfold  # type: ignore[method-assign]

# ---------------------------------------------------------------- grids


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes have in common when they meet: from the last dimension on sizes are equal, or one of
    them is 1.

    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    found: list[int] = []
    for k, given in enumerate(shapes):
        if not isinstance(given, (int, tuple, list)):
            raise RuntimeError(
                f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {given}"
            )
        shape = (given,) if isinstance(given, int) else tuple(given)
        if any(n < 0 for n in shape):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        found = [1] * (len(shape) - len(found)) + found
        for i in range(-1, -1 - len(shape), -1):
            if shape[i] == found[i] or shape[i] == 1:
                continue
            if found[i] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[i]} at {i}! Mismatching argument at index "
                    f"{k} had {given}; but expected shape should be broadcastable to {found}"
                )
            found[i] = shape[i]
    return Size(tuple(found))


def _listed(tensors: tuple[Any, ...]) -> Sequence[Any]:
    """What was given, one by one or as one list."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors


def _all_tensors(listed: Sequence[Any]) -> Sequence[Tensor]:
    for k, t in enumerate(listed):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(t).__name__}")
    return listed


def _viewed(chains: Sequence[tuple[Spec, Callable[[Tensor], Tensor] | None]]) -> Quick | None:
    """What shows each tensor as a chain of views does; or it itself, where there is none."""
    looks = []
    for sp, chain in chains:
        look = None if chain is None else learn(empty(sp), chain)
        if chain is not None and (look is None or look[0] is sp):
            return None
        looks.append(look)

    def run(*tensors: Tensor) -> tuple[Tensor, ...] | None:
        found: Any = tuple([t if look is None else one(t, look) for t, look in zip(tensors, looks)])
        return None if any([part is None for part in found]) else found

    return run


def _quick_broadcast(*tensors: Spec) -> Quick | None:
    shape = tuple(layout.broadcast_shapes(*(sp.shape for sp in tensors)))
    spread = partial(_expand, shape=shape)
    return _viewed([(sp, None if tuple(sp.shape) == shape else spread) for sp in tensors])


@quickly(_quick_broadcast, records=False, devices=True)
def _broadcast(*tensors: Tensor) -> tuple[Tensor, ...]:
    shape = tuple(layout.broadcast_shapes(*(t._spec.shape for t in tensors)))
    return tuple(t if tuple(t._spec.shape) == shape else _expand(t, shape=shape) for t in tensors)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of all tensors spread to their common shape; one that has it is given back itself.

    >>> torch.broadcast_tensors(torch.tensor([[1], [2]]), torch.tensor([3, 4]))
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
    """
    listed = _all_tensors(tensors)
    found: tuple[Tensor, ...] = _broadcast(*listed) if listed else ()
    return found


def meshgrid(*tensors: Any, indexing: Any = None) -> tuple[Tensor, ...]:
    """For each vector a view of its values spread over the grid of all: with `indexing="ij"` the k-th runs along dimension k, with
    "xy" the first two are exchanged.

    >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4, 5]), indexing="ij")
    (tensor([[1, 1, 1],
            [2, 2, 2]]), tensor([[3, 4, 5],
            [3, 4, 5]]))
    """
    listed = _all_tensors(_listed(tensors))
    if isinstance(indexing, bytes):
        indexing = indexing.decode()
    if not isinstance(indexing, (str, type(None))):
        raise TypeError(f"meshgrid(): argument 'indexing' must be str, not {type(indexing).__name__}")
    if indexing is None:
        warn_once(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument."
        )
    found: tuple[Tensor, ...] = _grid(*listed, indexing="ij" if indexing is None else indexing)
    return found


def _quick_grid(*tensors: Spec, indexing: str) -> Quick | None:
    return _viewed([*zip(tensors, _along_each(tensors, indexing))])


@quickly(_quick_grid, records=False, devices=True)
def _grid(*listed: Tensor, indexing: str) -> tuple[Tensor, ...]:
    if not listed:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for t in listed:
        if t.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}")
        if t.dtype is not listed[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if t._spec.device is not listed[0]._spec.device:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
    if indexing not in ("xy", "ij"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    specs = [t._spec for t in listed]
    return tuple([chain(t) for t, chain in zip(listed, _along_each(specs, indexing))])


def _along_each(specs: Sequence[Spec], indexing: str) -> list[Callable[[Tensor], Tensor]]:
    """What views a vector over the grid of all, for each."""
    order = list(range(len(specs)))  # which dimension each varies along: its own inverse
    if indexing == "xy":
        order[:2] = order[:2][::-1]
    shape = tuple(specs[k].numel for k in order)

    def chain(d: int, n: int) -> Callable[[Tensor], Tensor]:
        along = [1] * len(specs)
        along[d] = n
        return lambda t: _expand(reshape(t, along), shape=shape)

    return [chain(d, sp.numel) for d, sp in zip(order, specs)]


def _vector_only(t: Tensor) -> None:
    if t.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")


def cartesian_prod(*tensors: Any) -> Tensor:
    """All choices of one element of each vector, as rows; the last runs fastest.

    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    listed = _all_tensors(tensors)
    for t in listed:
        _vector_only(t)
    if len(listed) == 1:
        return listed[0]
    return stack([reshape(t, (-1,)) for t in _grid(*listed, indexing="ij")], 1)


@replayed
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of `r` elements of a vector in their order, as rows; with replacement an element may come several times.

    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    _vector_only(input)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return full(input._spec.like((0,)), 0)
    n = input.numel()
    rows = math.comb(n + r - 1 if n and with_replacement else n, r)
    check_size(rows * r * 8)
    if r == 2:
        columns: Any = np.triu_indices(n, 0 if with_replacement else 1)
    else:
        choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
        chosen = np.array(list(choose(range(n), r)), np.int64).reshape(-1, r)
        columns = np.ascontiguousarray(chosen.T)
    return stack([_index_select(input, place=along(0, column, input._spec)) for column in columns], 1)


# ---------------------------------------------------------------- powers of a vector


def _powers(x: Tensor, n: int) -> Tensor:
    ones = full(x._spec.dense().like((*x.shape, min(n, 1))), 1)
    if n < 2:
        return ones
    return cat([ones, unsqueeze(x, -1).expand(*x.shape, n - 1).cumprod(-1)], -1)


def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 to `N - 1` of each element, as a new last dimension; `N` is the size of the last one unless given.

    >>> torch.linalg.vander(torch.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    if x.dtype is dtypes.bool_ or x.dtype.narrow:
        raise RuntimeError(
            f"linalg.vander supports floating point, complex, and integer tensors, but got {x.dtype.scalar_name}"
        )
    n = N if N is not None else x.shape[-1] if x.ndim else 1
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    return _powers(x if x.ndim else unsqueeze(x, 0), n)


@replayed
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers `N - 1` to 0 of each element of a vector, as rows; with `increasing` 0 to `N - 1`. `N` is its length unless given.

    >>> torch.vander(torch.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.numel() if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    powers = _powers(to_dtype(x, x.dtype if x.dtype.inexact else dtypes.int64), n)
    return powers if increasing or n < 2 else powers.flip(1)


@method
@replayed
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sum over what spreading from `size` to the tensor's shape had repeated, which is what `expand` does to its gradient. Its
    own gradient is expanded.

    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    shape = _sizes(size, "sum_to_size")
    own = tuple(self.shape)
    lead = len(own) - len(shape)
    if lead < 0 or any(a not in (1, b) for a, b in zip(shape, own[lead:])):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(own)}}}.")
    return hooks.sum_to(self, shape) if shape else self.sum()


__all__ = [
    *(
        "broadcast_shapes",
        "broadcast_tensors",
        "cartesian_prod",
        "combinations",
        "dsplit",
        "hsplit",
        "meshgrid",
        "narrow_copy",
    ),
    *("tensor_split", "vander", "vsplit"),
]
