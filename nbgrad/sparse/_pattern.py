"""Where the elements of a sparse tensor stand, and what is found out about it once.

Promises the products that the entries of each row, and of each column, lie together in an order that is worked out at the first use and
kept for as long as any tensor has this pattern: products, multiples, sums with themselves and transposed ones share it.
"""

from __future__ import annotations

from math import prod

from nbgrad.base.records import NamedTuple
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Ints
from nbgrad.ops.arrange.orders import repeat_interleave
from nbgrad.ops.index.gather import index_select
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.data import tensor
from nbgrad.ops.order.scan import cumsum
from nbgrad.ops.order.sort import searchsorted, sort
from nbgrad.ops.order.unique import unique
from nbgrad.ops.reduce import sums
from nbgrad.ops.views.join import stack
from nbgrad.ops.views.shape import reshape


class Way(NamedTuple):
    """Entries of a matrix by rows (or by columns): where each row begins and the last one ends, which entry stands at each place (None:
    they stand in this order), and its column."""

    first: Tensor
    order: Tensor | None
    other: Tensor


class Pattern:
    """Indices of the entries, a column for each, within sizes. A `whole` one names no place twice, and in order."""

    __slots__ = ("_turned", "_ways", "at", "sizes", "whole")

    def __init__(self, at: Tensor, sizes: Ints, whole: bool) -> None:
        self.at, self.sizes, self.whole = at, tuple(sizes), whole
        self._ways: dict[int, Way] = {}
        self._turned: Pattern | None = None

    @property
    def count(self) -> int:
        """How many entries there are."""
        return self.at.size(1)

    def unordered(self) -> Pattern:
        """The same of which nothing is promised."""
        made = Pattern(self.at, self.sizes, False)
        made._ways = self._ways
        return made

    def same(self, other: Pattern) -> bool:
        """Whether another one names these places in this order."""
        return self.at is other.at or (self.count == other.count and bool((self.at == other.at).all()))

    def flat(self) -> Tensor:
        """The number of each entry's place, counted by rows."""
        if len(self.sizes) < 2:
            return self.at[0] if self.sizes else sums.sum(self.at, 0)
        steps = [prod(self.sizes[d + 1 :]) for d in range(len(self.sizes))]
        column = tensor(steps, dtype=dtypes.int64, device=self.at.device).reshape(-1, 1)
        found: Tensor = sums.sum(self.at * column, 0)
        return found

    def way(self, d: int) -> Way:
        """Of a matrix, its entries by rows (0) or columns (1)."""
        found = self._ways.get(d)
        if found is None:
            keys, other = self.at[d], self.at[1 - d]
            order = None
            if not (self.whole and d == 0) and bool((keys[1:] < keys[:-1]).any()):
                keys, order = sort(keys, stable=True)
                other = index_select(other, 0, order)
            first = searchsorted(keys.contiguous(), arange(self.sizes[d] + 1, device=keys.device))
            found = self._ways[d] = Way(first, order, other.contiguous())
        return found

    def turned(self) -> Pattern:
        """Of a matrix, the pattern of the transposed one."""
        if self._turned is None:
            made = Pattern(self.at.flip(0), self.sizes[::-1], False)
            made._ways = {1 - d: way for d, way in self._ways.items()}
            self._turned, made._turned = made, self
        return self._turned

    def gathered(self) -> tuple[Pattern, Tensor | None]:
        """The whole pattern of the same places, and for each entry which of those is its own; None where all stay as they are."""
        flat = self.flat()
        if self.count < 2 or bool((flat[1:] > flat[:-1]).all()):
            return Pattern(self.at, self.sizes, True), None
        found, own = unique(flat, return_inverse=True)
        return Pattern(places(found, self.sizes), self.sizes, True), own


def places(flat: Tensor, sizes: Ints) -> Tensor:
    """Of numbers of places, counted by rows, the indices: a row for each dimension."""
    if not sizes:
        return reshape(flat[:0], (0, 1)).expand(0, flat.size(0))
    rows = []
    for size in reversed(sizes[1:]):
        rows.append(flat % size)
        flat = flat // size
    return stack([flat, *reversed(rows)])


def spans(first: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Runs of `count` places from `first` on, one after the other: for each place the number of its run, and the place."""
    owner = repeat_interleave(count)
    before = cumsum(count, 0) - count
    return owner, arange(owner.size(0), device=owner.device) + index_select(first - before, 0, owner)
