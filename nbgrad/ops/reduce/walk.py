"""Walking along one dimension: the geometry that scans, sorts and row kernels share.

Promises them a `Walk` for operands of one shape (an output of a reduction stands still along the dimension: stride 0), laid out
as `nbgrad.kernels.cpu.walk.opening` reads it. What lies beside the dimension is collapsed, and its innermost part are the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from nbgrad.base.records import NamedTuple
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.kernels.cpu.walk import FEW, WIDE
from nbgrad.memory import layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops.views.order import permute
from nbgrad.ops.views.shape import reshape


class Walk(NamedTuple):
    meta: Sequence[int]
    items: int
    width: int  # lines to a bundle
    together: bool  # whether neighbouring lines of every operand lie together


def walk(
    shape: Ints, dim: int, strides: Sequence[Ints], reverse: bool = False, wide: int = WIDE, few: int = FEW
) -> Walk:
    """Along `dim` of `shape`, each operand with its strides there; backwards if `reverse`; so many lines to a bundle where they lie
    together, and where not."""
    if not shape:
        shape, dim, strides = (1,), 0, [(0,)] * len(strides)
    n = shape[dim]
    sizes, outer = layout.collapse(
        shape[:dim] + shape[dim + 1 :], *(st[:dim] + st[dim + 1 :] for st in strides)
    )
    lines = sizes[-1] if sizes else 1
    lanes = [st[-1] if st else 0 for st in outer]
    together = lines > 1 and all(s == 1 for s in lanes)
    width = wide if together else few
    blocks = -(-lines // width)
    meta = [max(len(sizes) - 1, 0), n, lines, blocks]
    for st, lane in zip(strides, lanes):
        step = -st[dim] if reverse else st[dim]
        meta += [(n - 1) * st[dim] if reverse else 0, step, lane]
    meta += sizes[:-1][::-1]
    for st in outer:
        meta += st[:-1][::-1]
    return Walk(meta, prod(sizes[:-1]) * blocks, width, together)


def still(sp: Spec, dim: int) -> Ints:
    """Strides of a result whose size along `dim` is one, as an operand that stands still there."""
    return (*sp.strides[:dim], 0, *sp.strides[dim + 1 :]) if sp.ndim else ()


def without(sp: Spec, dim: int) -> Spec:
    """The same memory without a dimension of size one."""
    shape, strides = tuple(sp.shape), sp.strides
    return sp.like(shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :])


def as_lines(sp: Spec, dims: Ints) -> tuple[Spec, Callable[[Tensor], Tensor]]:
    """The elements along several dimensions as one last dimension: how tensors of a Spec lie then, and what makes them so, without
    history; a copy where memory does not allow a view."""
    shape, strides = tuple(sp.shape), sp.strides
    kept = [d for d in range(sp.ndim) if d not in dims]
    order = (*kept, *dims)
    to = (*(shape[d] for d in kept), prod(shape[d] for d in dims))
    found = layout.view_strides(tuple([shape[d] for d in order]), tuple([strides[d] for d in order]), to)
    if found is not None:
        lines = sp.like(to, found)
        return lines, lambda t: wrap(t._buf, lines)
    return sp.like(to), lambda t: reshape(permute(t.detach(), order), to)
