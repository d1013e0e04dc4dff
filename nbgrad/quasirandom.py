"""Points that fill a cube more evenly than random ones: Sobol's sequences, PyTorch's `torch.quasirandom`.

A sequence is made of 30 direction numbers for each dimension, which follow from a polynomial over {0, 1} and as many first numbers as
its degree. Both are Joe and Kuo's (see LICENSE), in `quasirandom.npz`: of the first numbers, which are odd and below 2, 4, 8 ..., the
bits that are not settled by that, one after another.
"""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.ops.host.values import of_array
from nbgrad.ops.linear.products import mv
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.drawn import randint
from nbgrad.ops.make.filled import zeros
from nbgrad.ops.make.generator import Generator
from nbgrad.ops.views.join import cat

__all__ = ["SobolEngine"]

_Array = np.ndarray[Any, Any]
_BITS = 30


@cached(8)
def _directions(dimension: int) -> _Array:
    """The direction numbers of each dimension: what the k-th bit of a point's Gray code changes."""
    with np.load(os.path.join(os.path.dirname(__file__), "quasirandom.npz")) as file:
        polynomials, packed = file["polynomials"][: dimension - 1].astype(np.int64), file["numbers"]
    degrees = np.floor(np.log2(polynomials)).astype(int)
    bits = np.unpackbits(packed, count=int((degrees * (degrees - 1) // 2).sum())).astype(np.int64)
    found = np.ones((dimension, _BITS), np.int64)
    starts = np.cumsum(degrees * (degrees - 1) // 2) - degrees * (degrees - 1) // 2
    for degree in np.unique(degrees):
        rows = np.flatnonzero(degrees == degree)
        at = starts[rows, None]
        for j in range(1, degree):  # the j-th has j bits of its own
            own = bits[at + np.arange(j)]
            found[rows + 1, j] += (own << np.arange(1, j + 1)).sum(1)
            at = at + j
        for j in range(degree, _BITS):
            next_ = found[rows + 1, j - degree].copy()
            for k in range(1, degree + 1):
                set_ = (polynomials[rows] >> (degree - k)) & 1
                next_ ^= set_ * found[rows + 1, j - k] << k
            found[rows + 1, j] = next_
    return found << np.arange(_BITS - 1, -1, -1)


def _changes(first: int, n: int) -> _Array:
    """Which direction number each of `n` steps applies: the place of the lowest bit that is 0 in 0, 1 ..."""
    steps = np.arange(first, first + n, dtype=np.int64)
    return np.log2(~steps & (steps + 1)).astype(int)


class SobolEngine:
    """A Sobol sequence of points in a cube of that `dimension` (up to 21201), the same each time; with `scramble`, one of many with the
    same evenness, chosen by the `seed` or at random. `num_generated` says how many points it has given.

    >>> torch.quasirandom.SobolEngine(2).draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = of_array(_directions(dimension).copy())
        if scramble:
            self._scramble()
        else:
            self.shift = zeros(dimension, dtype=dtypes.int64)
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**_BITS).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `n` points, a row each.

        >>> torch.quasirandom.SobolEngine(1).draw(2)
        tensor([[0.0000],
                [0.5000]])
        """
        dtype = dtypes.get_default_dtype() if dtype is None else dtype
        parts = []
        if self.num_generated == 0:
            parts.append(self._first_point.to(dtype))
        steps = n - len(parts)
        if steps < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {steps}: [{steps}, {self.dimension}]"
            )
        if steps or not parts:
            points = self._steps(steps)
            parts.append(of_array(points).to(dtype) * 2.0**-_BITS)
        result: Tensor = cat(parts, -2) if len(parts) > 1 else parts[0]
        self.num_generated += n
        return result if out is None else out.resize_as_(result).copy_(result)

    def _steps(self, n: int) -> _Array:
        """The points of the next steps, times 2**30; the last of them is the next to be left."""
        which = _changes(max(self.num_generated - 1, 0), max(n, 0))
        changed = self.sobolstate.numpy().T[which]
        points: _Array = np.bitwise_xor.accumulate(np.vstack([self.quasi.numpy()[None], changed]), 0)
        self.quasi = of_array(points[-1].copy())
        return points[1:]

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `2**m` points; only so many that all that were drawn are a power of 2, as only these fill the cube evenly.

        >>> torch.quasirandom.SobolEngine(1).draw_base2(1)
        tensor([[0.0000],
                [0.5000]])
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been "
                f"previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> Self:
        """Start anew.

        >>> torch.quasirandom.SobolEngine(1).fast_forward(5).reset().draw()
        tensor([[0.]])
        """
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Pass over `n` points.

        >>> torch.quasirandom.SobolEngine(1).fast_forward(1).draw()
        tensor([[0.5000]])
        """
        self._steps(n if self.num_generated else n - 1)
        self.num_generated += n
        return self

    def _scramble(self) -> None:
        g = None if self.seed is None else Generator().manual_seed(self.seed)
        bits = randint(2, (self.dimension, _BITS), generator=g)
        self.shift = mv(bits, 2 ** arange(_BITS))
        lower = randint(2, (self.dimension, _BITS, _BITS), generator=g).tril().numpy()
        lower |= np.eye(_BITS, dtype=np.int64)
        rows = (lower << np.arange(_BITS - 1, -1, -1)).sum(-1)
        state = self.sobolstate.numpy()
        met = rows[:, :, None] & state[:, None, :]  # by dimension, row of the matrix, direction number
        for half in (16, 8, 4, 2, 1):  # whether they meet in an odd number of places
            met ^= met >> half
        state[...] = ((met & 1) << np.arange(_BITS - 1, -1, -1)[:, None]).sum(1)

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"
