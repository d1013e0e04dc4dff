"""A Fourier transform as passes of kernels over memory.

Promises the ops `passes()`, the steps that make transforms along one dimension of how they lie, and `Factors` that those need. A transform
that fits in a kernel's room is one pass. A longer one of n = n1 * n2 numbers is taken as a matrix of n1 rows: its columns are transformed,
multiplied by roots of one, then its rows; which is also quicker where there are few transforms, as the lanes of a kernel are then
columns and rows of one. A length with a large prime is Bluestein's convolution with a chirp, by transforms of a length without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, prod
from typing import Any

import numpy as np

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached
from nbgrad.kernels.cpu import fft as kernels

Array = Any
_FEW = 64  # numbers of a transform from which on it is worth two passes to have full lanes


class Lane(NamedTuple):
    """A dimension in which transforms lie side by side: its size, and the steps in what is read and written, in memory and in places."""

    size: int
    x: int
    o: int
    i: int = 0
    k: int = 0


class Factors(NamedTuple):
    """Complex numbers by which a pass multiplies: `kind` is the name of a function below, of `given`."""

    kind: str
    given: tuple[int, ...]

    @property
    def size(self) -> int:
        """No less than how many they are."""
        return prod(self.given)

    def numbers(self, code: str) -> Array:
        """As pairs of floats, in bytes."""
        made = _KINDS[self.kind](*self.given).astype({"f4": np.complex64, "f8": np.complex128}[code])
        return made.reshape(-1).view(np.uint8)


class Pass(NamedTuple):
    """One launch of a kernel (`kernels/cpu/fft.py` says what `meta` holds). `source` and `target` number the memories: 0 is what is
    transformed, 1 the result, others are in between."""

    of: str
    to: str
    n: int
    have: int
    keep: int
    x: int
    o: int
    i: int
    k: int
    whole: int
    lanes: tuple[Lane, ...]
    before: Factors | None
    after: Factors | None
    source: int
    target: int
    by: float
    sign: float  # of the imaginary parts that are read
    sign_out: float  # and written
    of_real: bool  # whether what is written are transforms of real numbers

    @property
    def transforms(self) -> int:
        """How many transforms."""
        return prod([lane.size for lane in self.lanes])

    @property
    def roots(self) -> int:
        """Of how many roots of one the kernel reads some."""
        return self.whole if "folded" in (self.of, self.to) else self.n

    def meta(self) -> list[int]:
        found, tables = factors(self.n), (self.before is not None) + 2 * (self.after is not None)
        tables += 4 * self.of_real + 8 * (self.of == "folded" and self.keep == self.whole)
        head = [
            self.n,
            self.transforms,
            self.have,
            self.keep,
            self.x,
            self.o,
            self.i,
            self.k,
            self.whole,
            tables,
        ]
        steps = [[getattr(lane, name) for lane in self.lanes] for name in ("size", "x", "o", "i", "k")]
        return [*head, len(found), len(self.lanes), *found, *[n for each in steps for n in each]]


# ---------------------------------------------------------------- lengths


@cached(4096)
def factors(n: int) -> tuple[int, ...]:
    """Fours first, then primes; of 1 none."""
    found = []
    for p in (4, 2, 3, 5):
        while n % p == 0:
            found.append(p)
            n //= p
    p = 7
    while n > 1:
        if p * p > n:
            p = n
        while n % p == 0:
            found.append(p)
            n //= p
        p += 2
    return tuple(found)


def _is_smooth(n: int) -> bool:
    return all(p <= kernels.PRIMES for p in factors(n))


@cached(4096)
def _split(n: int, longest: int) -> int:
    """The divisor that fits in the room and is nearest to the root, by which a transform is cut in two."""
    return min([d for d in range(1, min(n, longest) + 1) if n % d == 0], key=lambda d: abs(log(d * d / n)))


@cached(4096)
def _convolved(n: int) -> int:
    """The length of transforms by which Bluestein's way goes: at least 2 n - 1, of small factors, and a multiple of 4."""
    least, best = 2 * n - 1, 4
    while best < least:
        best *= 2
    fives = 1
    while fives < best:
        threes = fives
        while threes < best:
            m = 4 * threes
            while m < least:
                m *= 2
            best = min(best, m)
            threes *= 3
        fives *= 5
    return best


# ---------------------------------------------------------------- tables, computed in float64


_QUARTERS = np.array([complex(1, 0), complex(0, -1), complex(-1, 0), complex(0, 1)])


def _powers(k: Array, n: int) -> Array:
    """exp(-2 pi i k / n) for k below n: by angles of the first eighth of a turn, so that quarters of one are whole numbers and what
    cancels in a transform leaves zeros, as in PyTorch's."""
    quarter, rest = np.divmod(4 * k, n)
    mirrored = 2 * rest > n
    angle = np.where(mirrored, n - rest, rest) * (np.pi / 2 / n)
    u, v = np.cos(angle), np.sin(angle)
    return (np.where(mirrored, v, u) - 1j * np.where(mirrored, u, v)) * _QUARTERS[quarter]


def _roots(n: int) -> Array:
    """exp(-2 pi i k / n)."""
    return _powers(np.arange(n), n)


def _turns(rows: int, columns: int) -> Array:
    """exp(-2 pi i j k / n) of row j and column k."""
    products = np.arange(rows)[:, None] * np.arange(columns)
    return _roots(rows * columns)[products]


def _chirp(n: int, sign: int) -> Array:
    """exp(-+ pi i k**2 / n); the square modulo 2 n, which keeps the angle exact."""
    k = np.arange(n)
    found = _powers(k * k % (2 * n), 2 * n)
    return found if sign > 0 else found.conj()


def _response(n: int, m: int) -> Array:
    """The transform, of length m, of the chirp by which Bluestein's way convolves."""
    chirp = _chirp(n, -1)
    padded = np.zeros(m, complex)
    padded[:n] = chirp
    padded[m - n + 1 :] = chirp[:0:-1]
    return np.fft.fft(padded)


_KINDS: dict[str, Callable[..., Array]] = {
    "roots": _roots,
    "turns": _turns,
    "chirp": _chirp,
    "response": _response,
}


# ---------------------------------------------------------------- passes


class Passes:
    """The steps of transforms along one dimension, as they are found. `rooms` are the sizes, in complex numbers, of the memories in
    between."""

    def __init__(self, lanes: int, longest: int) -> None:
        self.lanes, self.longest = lanes, longest
        self.steps: list[Pass] = []
        self.rooms: list[int] = []

    def room(self, numbers: int) -> int:
        self.rooms.append(numbers)
        return len(self.rooms) + 1

    def add(
        self,
        n: int,
        source: int,
        target: int,
        x: int,
        o: int,
        lanes: Sequence[Lane],
        of: str = "complex",
        to: str = "complex",
        have: int | None = None,
        keep: int | None = None,
        i: int = 1,
        k: int = 1,
        whole: int | None = None,
        before: Factors | None = None,
        after: Factors | None = None,
        by: float = 1.0,
        sign: float = 1.0,
        sign_out: float = 1.0,
        of_real: bool = False,
    ) -> None:
        """Transforms of length `n`, of which a place is `x` and `o` on in memory (in floats)."""
        have, keep, whole = (n * i if have is None else have), (n * k if keep is None else keep), whole or n
        step = Pass(
            of, to, n, have, keep, x, o, i, k, whole, tuple(lanes), before, after, source, target, by, sign, sign_out, of_real
        )  # fmt: skip
        if not _is_smooth(n):
            self._convolution(step)
        elif n >= _FEW and 2 * step.transforms <= self.lanes and _split(n, self.longest) > 1:
            self._in_two(step)
        elif self._folds(step):
            self.steps.append(self._folded(step))
        elif n > self.longest:
            self._in_two(step)
        else:
            if to == "half" and k == 1:
                step = step._replace(to="complex")  # what is not kept comes last
            self.steps.append(step)

    def _folds(self, step: Pass) -> bool:
        """Whether a pass of whole transforms from or to real numbers is one of half their length."""
        real = step.of == "real" or (step.of, step.to) == ("half", "real")
        whole = step.of == "real" and step.to != "half"
        if step.n > self.longest * (1 if whole else 2):
            return False
        even = step.n % 2 == 0 and (step.of == "half" or step.have % 2 == 0)
        return real and even and step.n == step.whole and not (step.before or step.after)

    def _folded(self, step: Pass) -> Pass:
        n = step.n // 2
        if step.of == "real":
            return step._replace(of="folded", to="complex", n=n, x=2 * step.x, have=step.have // 2)
        return step._replace(to="folded", n=n, o=2 * step.o, keep=n)

    def _in_two(self, step: Pass) -> None:
        n1 = _split(step.n, self.longest)
        n2 = step.n // n1
        halved = step.of == "real" and step.to == "half"
        rows = n1 // 2 + 1 if halved else n1  # the others would be conjugates
        count = step.transforms
        room = self.room(rows * n2 * count)
        # Whether transforms lie closer to one another than their places do: so they do in between.
        close = bool(step.lanes) and step.of != "half" and step.lanes[0].x < step.x
        unit = 2 * count if close else 2
        between, size = [], 2 if close else 2 * rows * n2
        for lane in step.lanes:
            between.append(size)
            size *= lane.size
        by_place = step.of == "half", step.to == "half"
        columns = Lane(n2, 0 if by_place[0] else step.x, unit, step.i, 1)
        lanes = [Lane(lane.size, lane.x, b, lane.i) for lane, b in zip(step.lanes, between)]
        self.add(
            n1,
            step.source,
            room,
            step.x * (1 if by_place[0] else n2),
            unit * n2,
            [*lanes, columns] if close else [columns, *lanes],
            step.of,
            have=step.have,
            keep=rows * n2,
            i=step.i * n2,
            k=n2,
            whole=step.whole,
            before=step.before,
            after=Factors("turns", (n1, n2)),
            sign=step.sign,
        )
        across = Lane(rows, unit * n2, 0 if by_place[1] else step.o, 0, step.k)
        lanes = [Lane(lane.size, b, lane.o, 0, lane.k) for lane, b in zip(step.lanes, between)]
        self.add(
            n2,
            room,
            step.target,
            unit,
            step.o * (1 if by_place[1] else n1),
            [*lanes, across] if close else [across, *lanes],
            to=step.to,
            keep=step.keep,
            k=step.k * n1,
            whole=step.whole,
            after=step.after,
            by=step.by,
            sign_out=step.sign_out,
            of_real=step.of_real,
        )

    def _convolution(self, step: Pass) -> None:
        """Only of a whole transform, as what is cut in two has small factors."""
        n, m, count = step.n, _convolved(step.n), step.transforms
        if step.of == "half":  # all of it is laid out first, by transforms of one number each
            room = self.room(n * count)
            places = Lane(n, 0, 2, 1)
            wide = [Lane(lane.size, lane.x, 2 * n * at) for lane, at in zip(step.lanes, _steps(step.lanes))]
            self.add(
                1, step.source, room, step.x, 2, [places, *wide], "half",
                have=step.have, whole=n, sign=step.sign,
            )  # fmt: skip
            lanes = [Lane(w.size, w.o, lane.o) for w, lane in zip(wide, step.lanes)]
            step = step._replace(of="complex", source=room, x=2, have=n, sign=1.0, lanes=tuple(lanes))
        room = self.room(m * count)
        at = _steps(step.lanes)
        self.add(
            m, step.source, room, step.x, 2,
            [Lane(lane.size, lane.x, 2 * m * a) for lane, a in zip(step.lanes, at)],
            step.of, have=step.have, before=Factors("chirp", (n, 1)), after=Factors("response", (n, m)),
            sign=step.sign, sign_out=-1.0,
        )  # fmt: skip
        self.add(
            m, room, step.target, 2, step.o,
            [Lane(lane.size, 2 * m * a, lane.o) for lane, a in zip(step.lanes, at)],
            to="complex" if step.to == "half" else step.to, keep=step.keep, whole=n, after=Factors("chirp", (n, -1)),
            by=step.by / m, sign_out=-step.sign_out, of_real=step.of_real,
        )  # fmt: skip


def _steps(lanes: Sequence[Lane]) -> list[int]:
    """Of transforms that lie one after the other."""
    found, size = [], 1
    for lane in lanes:
        found.append(size)
        size *= lane.size
    return found
