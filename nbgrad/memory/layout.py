"""Arithmetic on shapes and strides, with no array in sight.

Promises the layers below it that every question about geometry (does it broadcast, may it be viewed, how few loops does it
take) has one answer, in elements, shared by the CPU, CUDA and tests, and that what is refused is refused in PyTorch's words.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

Ints = tuple[int, ...]

MAX_NUMEL = 2**63 - 1


def contiguous_strides(shape: Sequence[int]) -> Ints:
    strides, step = [0] * len(shape), 1
    for d in range(len(shape) - 1, -1, -1):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def is_contiguous(shape: Ints, strides: Ints) -> bool:
    if 0 in shape:
        return True
    step = 1
    for n, s in zip(reversed(shape), reversed(strides)):
        if n != 1 and s != step:
            return False
        step *= n
    return True


class memory_format:
    """In which order of dimensions elements lie: `torch.contiguous_format`, the last fastest; `torch.preserve_format`, as the input's;
    `torch.channels_last` of images and `torch.channels_last_3d` of volumes, dimension 1 fastest, then the others from the last on.

    >>> torch.ones(2, 3).t().clone(memory_format=torch.contiguous_format).stride()
    (2, 1)
    >>> torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).stride()
    (60, 1, 15, 3)
    """

    __module__ = "nbgrad"  # where users find it

    def __init__(self, name: str, rank: int = 0) -> None:
        self._name, self._rank = name, rank

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last", 4), memory_format("channels_last_3d", 5)


def format_strides(shape: Sequence[int], wanted: memory_format) -> Ints:
    """How a new tensor lies."""
    rank = wanted._rank
    if not rank:
        return contiguous_strides(shape)
    if len(shape) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {wanted._name} format")
    return channels_last_strides(shape)


def channels_last_strides(shape: Sequence[int]) -> Ints:
    strides, step = [0] * len(shape), 1
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


def is_in_format(shape: Ints, strides: Ints, asked: memory_format) -> bool:
    """Whether every element lies where that of a new tensor would."""
    if not asked._rank:
        return is_contiguous(shape, strides)
    if len(shape) != asked._rank:
        return False
    return all([n == 1 or s == own for n, s, own in zip(shape, strides, channels_last_strides(shape))])


def suggested_format(shape: Ints, strides: Ints) -> memory_format:
    """The format that something lies in, if with gaps; channels are last by more than accident of sizes that are 1."""
    for known in (channels_last, channels_last_3d):
        if len(shape) == known._rank and _channels_lie_last(shape, strides):
            return known
    return contiguous_format


def _channels_lie_last(shape: Ints, strides: Ints) -> bool:
    least = 0
    if not strides[1]:
        return False
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        if not shape[d] or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * shape[d]
    return True


def joined_strides(shape: Ints, operands: Sequence[tuple[Ints, Ints]]) -> Ints:
    """How tensors of these shapes and strides lie when they are one: in their format, if they have one in common."""
    formats = {suggested_format(*operand) for operand in operands}
    return format_strides(shape, formats.pop() if len(formats) == 1 else contiguous_format)


def is_dense(shape: Ints, strides: Ints) -> bool:
    """Every element of one block once, in some order of the dimensions ("non-overlapping and dense")."""
    step = 1
    for s, n in sorted((s, n) for s, n in zip(strides, shape) if n != 1):
        if s != step:
            return prod(shape) == 0
        step *= n
    return True


def is_injective(shape: Ints, strides: Ints) -> bool:
    """No two indices reach one element, as far as can be told without listing them: each stride is beyond the reach of the smaller."""
    reach = 0
    for s, n in sorted((s, n) for s, n in zip(strides, shape) if n != 1):
        if s <= reach:
            return prod(shape) == 0
        reach += s * (n - 1)
    return True


def overlaps(shape: Ints, strides: Ints) -> bool:
    """Whether two indices reach one element."""
    return not is_injective(shape, strides) and _certainly_overlaps(shape, strides)


def _certainly_overlaps(shape: Ints, strides: Ints) -> bool:
    seen: set[int] = {0}
    for s, n in zip(strides, shape):
        new = {o + s * k for o in seen for k in range(n)}
        if len(new) != len(seen) * n:
            return True
        seen = new
    return False


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension counted from either end; a 0-dim tensor answers to 0 and -1."""
    n = max(ndim, 1)
    if not -n <= dim < n:
        if not -(2**63) <= dim < 2**63:
            raise ValueError("Overflow when unpacking long long")
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return dim % n


def own_dim(dim: int, ndim: int) -> int:
    """A dimension that is there, counted from either end: of these a 0-dim tensor has none."""
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


def along(each: Ints, dim: int) -> int:
    """What a size or a stride is along a dimension, which has to be there."""
    return each[dim if -len(each) <= dim < len(each) else own_dim(dim, len(each))]


def wrap_dims(dims: int | Sequence[int] | None, ndim: int) -> Ints:
    """Reduced dimensions, sorted; none named means all."""
    if dims is None:
        return tuple(range(ndim))
    if isinstance(dims, int):
        dims = (dims,)
    if len(dims) == 0:
        return tuple(range(ndim))
    if ndim > 64:
        raise RuntimeError("only tensors with up to 64 dims are supported")
    out: set[int] = set()
    for d in dims:
        w = wrap_dim(d, ndim)
        if w in out:
            raise RuntimeError(f"dim {w} appears multiple times in the list of dims")
        out.add(w)
    return tuple(d for d in sorted(out) if d < ndim)


def check_target(target: Ints, shape: Ints) -> None:
    """Refuse to write what has this shape where there is another."""
    if shape != target:
        raise RuntimeError(
            f"output with shape {list(target)} doesn't match the broadcast shape {list(shape)}"
        )


def broadcast_shapes(*shapes: Ints) -> Ints:
    out: Ints = shapes[0]
    for shape in shapes[1:]:
        if shape == out:
            continue
        n = max(len(out), len(shape))
        a, b = (1,) * (n - len(out)) + out, (1,) * (n - len(shape)) + shape
        merged = []
        for d in range(n - 1, -1, -1):  # PyTorch names the last dimension that does not fit
            if a[d] != b[d] and a[d] != 1 and b[d] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) "
                    f"at non-singleton dimension {d}"
                )
            merged.append(b[d] if a[d] == 1 else a[d])
        out = tuple(reversed(merged))
    return out


def check_size(shape: Sequence[int], strides: Ints, nbytes: int) -> None:
    """Refuse what is more than 64 bits can count, as PyTorch does. `nbytes` reach from the first to the last element."""
    numel, new = 1, tuple(strides) == contiguous_strides(shape)
    for n in shape:  # also before a dimension of no elements
        numel *= n
        if numel > MAX_NUMEL and not new:
            raise RuntimeError("numel: integer multiplication overflow")
        if numel > MAX_NUMEL:
            raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    if nbytes > MAX_NUMEL:
        laid = "" if new else f" and strides={list(strides)}"
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}{laid}")


def broadcast_strides(shape: Ints, strides: Ints, to: Ints) -> Ints:
    """The strides with which a tensor is read at a larger shape; a repeated dimension has stride 0."""
    lead = len(to) - len(shape)
    steps = [0] * lead
    for n, s, m in zip(shape, strides, to[lead:], strict=True):
        if n != m and n != 1:  # a kernel would read beside it
            raise RuntimeError(f"a shape of {list(shape)} cannot be read at {list(to)}")
        steps.append(0 if n != m else s)
    return tuple(steps)


def expand(shape: Ints, strides: Ints, to: Sequence[int]) -> tuple[Ints, Ints]:
    lead = len(to) - len(shape)
    if not shape and any([n < 0 for n in to]):
        raise RuntimeError("numel: integer multiplication overflow")
    if lead < 0:
        raise RuntimeError(
            f"expand(torch.FloatTensor{{{list(shape)}}}, size={list(to)}): the number of sizes provided "
            f"({len(to)}) must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    sizes, steps = list(to), [0] * len(to)
    for d in range(len(to) - 1, -1, -1):
        have = shape[d - lead] if d >= lead else 1
        if sizes[d] == -1:
            if d < lead:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {d}"
                )
            sizes[d] = have
        if sizes[d] < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({sizes[d]}) isn't allowed in a leading, non-existing dimension {d}"
            )
        if have == sizes[d] and d >= lead:
            steps[d] = strides[d - lead]
        elif d < lead and sizes[d] == 1:
            steps[d] = sizes[d + 1] * steps[d + 1] if shape else 0
        elif have != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({sizes[d]}) must match the existing size ({have}) at "
                f"non-singleton dimension {d}.  Target sizes: {list(to)}.  Tensor sizes: {list(shape)}"
            )
    return tuple(sizes), tuple(steps)


def infer_size(shape: Sequence[int], numel: int) -> Ints:
    """Resolve one -1 of a view's shape."""
    sizes, known, hole = list(shape), 1, None
    for d, n in enumerate(sizes):
        if n == -1:
            if hole is not None:
                raise RuntimeError("only one dimension can be inferred")
            hole = d
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {d} of shape {list(shape)}")
        else:
            known *= n
    if hole is not None and known == 0 and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    if (known != numel) if hole is None else (known == 0 or numel % known):
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    if hole is not None:
        sizes[hole] = numel // known
    return tuple(sizes)


def view_strides(shape: Ints, strides: Ints, to: Ints) -> Ints | None:
    """Strides with which the same memory has another shape; None if only a copy can have it."""
    if 0 in shape:
        return contiguous_strides(to) if shape != to else strides
    out = [0] * len(to)
    d = len(to) - 1
    block, base = 1, strides[-1] if strides else 1
    done = 1
    for k in range(len(shape) - 1, -1, -1):
        block *= shape[k]
        # A run of dimensions ends where the next outer one does not continue it.
        if k == 0 or (shape[k - 1] != 1 and strides[k - 1] != block * base):
            while d >= 0 and (done < block or to[d] == 1):
                out[d] = done * base
                done *= to[d]
                d -= 1
            if done != block:
                return None
            if k > 0:
                base, block, done = strides[k - 1], 1, 1
    while d >= 0:
        out[d] = done * base
        d -= 1
    return tuple(out)


def output_strides(shape: Ints, operands: Sequence[tuple[Ints, Ints]]) -> Ints:
    """Strides of an elementwise result: PyTorch keeps the order of the operands' dimensions.

    `operands` holds (shape, strides) as given; the first that decides between two dimensions wins.
    """
    full = [(s, st) for s, st in operands if s == shape]
    if len(full) == len(operands):
        if all(is_contiguous(s, st) for s, st in full):
            return contiguous_strides(shape)
        first = full[0][1]
        if is_dense(shape, first) and all(st == first for _, st in full):
            return first
    read = [broadcast_strides(s, st, shape) for s, st in operands]
    order = list(range(len(shape) - 1, -1, -1))

    def swap(a: int, b: int) -> int:
        for st in read:
            if st[a] and st[b]:
                if st[a] != st[b]:
                    return -1 if st[a] < st[b] else 1
                if shape[a] > shape[b]:
                    return 1
        return 0

    for i in range(1, len(order)):
        at = i
        for below in range(i - 1, -1, -1):
            c = swap(order[below], order[at])
            if c > 0:
                order[below], order[at] = order[at], order[below]
                at = below
            elif c < 0:
                break
    strides, step = [0] * len(shape), 1
    for d in order:
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def kept_strides(shape: Ints, strides: Ints) -> Ints:
    """How a copy lies that keeps the layout: as it is where every element has a place of its own in one block, else in that order."""
    return strides if is_dense(shape, strides) else output_strides(shape, [(shape, strides)])


def collapse(shape: Ints, *strides: Ints) -> tuple[Ints, tuple[Ints, ...]]:
    """The fewest loops that visit the same elements: dimensions ordered by the first operand, joined where all allow it."""
    dims = [d for d, n in enumerate(shape) if n != 1]
    dims.sort(key=lambda d: tuple(-st[d] for st in strides))
    out: list[int] = []
    outs: list[list[int]] = [[] for _ in strides]
    for d in dims:
        n = shape[d]
        if out and all(o[-1] == st[d] * n for o, st in zip(outs, strides)):
            out[-1] *= n
            for o, st in zip(outs, strides):
                o[-1] = st[d]
        else:
            out.append(n)
            for o, st in zip(outs, strides):
                o.append(st[d])
    return tuple(out), tuple(tuple(o) for o in outs)


def by_rows(shape: Ints, *strides: Ints) -> tuple[int, list[int]]:
    """How many rows the collapsed dimensions have but for the innermost, and how a kernel finds where each begins in operands with these
    strides: number of outer dimensions, length of a row, sizes, steps of each operand; then its steps along a row."""
    sizes, steps = collapse(shape, *strides)
    d = max(len(sizes) - 1, 0)
    meta = [d, sizes[-1] if sizes else 1, *sizes[:d][::-1]]
    for st in steps:
        meta += st[:d][::-1]
    return prod(sizes[:d]), [*meta, *[st[-1] if st else 0 for st in steps]]


def reduced_shape(shape: Ints, dims: Ints, keepdim: bool) -> Ints:
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


no_ints: set[type] = set()  # what a size may be besides, as who makes it says


def _size(k: int, n: Any) -> int:
    """What is no plain int, as one."""
    try:
        return operator.index(n)
    except TypeError:
        t = type(n)
        if t in no_ints:
            return n
        static = not t.__flags__ & 1 << 9 and t.__module__ != "builtins"  # as C calls it
        kind = f"{t.__module__}.{t.__name__}" if static else t.__name__
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {k} is '{kind}')") from None


class Size(tuple[int, ...]):
    """A shape: a tuple of sizes, which slices and sums keep as such.

    >>> torch.ones(2, 3).shape + (4,)
    torch.Size([2, 3, 4])
    """

    __module__ = "nbgrad"  # where users find it

    __slots__ = ()

    def __new__(cls, sizes: Iterable[int] = ()) -> Size:
        self = tuple.__new__(cls, sizes)
        for n in self:
            if type(n) is not int:
                return tuple.__new__(cls, [_size(k, n) for k, n in enumerate(self)])
        return self

    def numel(self) -> int:
        """How many elements a tensor of this shape has: the product."""
        return prod(self)

    def __getitem__(self, index: Any) -> Any:
        got = tuple.__getitem__(self, index)
        return Size(got) if isinstance(index, slice) else got

    def __add__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            kind = type(other).__name__
            raise TypeError(f'can only concatenate {kind} (not "torch.Size") to {kind}')
        return Size(tuple.__add__(other, self))

    def __mul__(self, n: Any) -> Size:
        if not hasattr(n, "__index__"):
            raise TypeError(f"can't multiply sequence by non-int of type '{type(n).__name__}'")
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"
