"""PyTorch's CPU random streams: for one seed, the same numbers as `torch` gives.

Promises the tensor layer arrays of one dimension, drawn in the order in which PyTorch fills a contiguous
output. How many words of the stream a sampler eats and which of their bits it keeps is PyTorch's convention,
kept so that the calls that follow agree too:

    uniform    float32: the low 24 bits of a word; float64: the low 53 of two words, the first one high
    normal     below 16 numbers: Box-Muller in float64, which keeps its second number for the next call;
               from 16: Box-Muller on blocks of 16 uniforms (8 radii, 8 angles), the last 16 again if n % 16
    randint    word % range; two words from a range of 2**28 on
    randperm   Fisher-Yates, word % (numbers left); inside out, two words each, from 2**32 / 20 numbers on
    bernoulli  u < p, with u as of `uniform` in the dtype of an array p, in float64 for a number p
    others     a function of one float64 uniform each; log_normal of the normals of below 16

What they are made of is bit for bit PyTorch's, and so are float32 normals; logarithms and sines in float64 are the C library's,
which may differ in the last bit. The words are made on one thread, what becomes of them by all: each
element's words are known from its place. A generator's lock is held for a whole call, so each call gets a
stretch of the stream to itself.
"""

from __future__ import annotations

import math
import operator
import os
import threading
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from nbgrad import _backend, _device, _dtypes
from nbgrad._dtypes import dtype
from nbgrad._tensor import c_name
from nbgrad.kernels import build
from nbgrad.kernels.cpu import random as templates
from nbgrad.kernels.launch import PARALLEL_FROM

Array = np.ndarray[Any, np.dtype[Any]]

_DEFAULT_SEED: Final = 67280421310721
_CHUNK: Final = 1 << 20  # words a pass works on, a multiple of 32: 4 MB
_TWO_PI: Final = 2 * math.pi
# The bytes of PyTorch's `get_state()`, so that a saved state can be carried over from there and back.
_STATE: Final = np.dtype(
    [
        ("seed", "u8"),
        ("left", "i4"),
        ("seeded", "i4"),
        ("next", "u8"),
        ("key", "u8", 624),
        ("normal_x", "f8"),
        ("normal_y", "f8"),
        ("normal_rho", "f8"),
        ("normal_is_valid", "i4"),
        ("padding", "i4"),
        ("next_float_normal", "f4"),
        ("next_float_normal_is_valid", "i4"),
    ]
)


class Generator:
    """What `torch.Generator` is. The stream is drawn by the samplers of this module."""

    __slots__ = ("__weakref__", "_at", "_next_normal", "_seed", "_words", "device", "lock")

    def __init__(self, device: str | _device.device = "cpu") -> None:
        self.device = _device.device(device)
        if self.device.type != "cpu":
            raise RuntimeError(f"Device type {self.device.type} is not supported for torch.Generator() api.")
        self.lock = threading.RLock()
        self._next_normal: float | None = None
        self.manual_seed(_DEFAULT_SEED)

    def manual_seed(self, seed: int) -> Generator:
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        seed = operator.index(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError("Overflow when unpacking long long")
        with self.lock:
            self._seed = seed % 2**64
            # RandomState lends its seeding, which is PyTorch's; MT19937's own constructor hashes the seed.
            state: Any = np.random.RandomState(seed & 0xFFFFFFFF).get_state(legacy=False)
            self._words, self._at = state["state"]["key"], 624
            self._next_normal = None
        return self

    def seed(self) -> int:
        """Reseed from the operating system's entropy, and return the seed."""
        seed = int.from_bytes(os.urandom(8), "little") >> 11  # 53 bits, as PyTorch: exact in a float
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> Array:
        """The state as a uint8 array, in the layout of PyTorch's."""
        record = np.zeros((), _STATE)
        with self.lock:
            position = self._at
            record["seed"], record["key"] = self._seed, self._words
            record["left"], record["next"], record["seeded"] = 625 - position, position, 1
            if self._next_normal is not None:
                record["normal_y"], record["normal_is_valid"] = self._next_normal, 1
        return record.reshape(1).view(np.uint8)

    def set_state(self, state: Array) -> Generator:
        if not isinstance(state, np.ndarray) or state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.size != _STATE.itemsize:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_STATE.itemsize} "
                f"but found the input RNG state size to be {state.size}"
            )
        record = np.ascontiguousarray(state).reshape(-1).view(_STATE)[0]
        left = int(record["left"])
        if not (record["seeded"] == 1 and 1 <= left <= 624 and record["next"] <= 624):
            raise RuntimeError("Invalid mt19937 state")
        with self.lock:
            self._seed = int(record["seed"])
            self._words, self._at = record["key"].astype(np.uint32), 625 - left
            self._next_normal = float(record["normal_y"]) if record["normal_is_valid"] else None
        return self

    def clone_state(self) -> Generator:
        return Generator().set_state(self.get_state())

    def __reduce__(self) -> tuple[object, ...]:
        return (_from_state, (self.get_state(),))

    def take(self, n: int) -> Array:
        """The next n words, not yet tempered, as a read-only stretch. Call with the lock held."""
        start, stop = self._at, self._at + n
        if stop > 624:
            # As PyTorch makes them: 624 at a time, the last lot of which is the state.
            more = (stop - 1) // 624 * 624
            words = np.empty(624 + more, np.uint32)
            words[:624] = self._words
            _launch(("twist", templates.TWIST, ("i8", "i8", "*u4")), more, 0, words)
            self._words, self._at = words[more:].copy(), stop - more
            return words[start:stop]
        self._at = stop
        return self._words[start:stop]


_Source = tuple[str, str, tuple[str, ...]]


@lru_cache(maxsize=64)
def _prepared(source: _Source, many: bool) -> tuple[int, Callable[..., None]]:
    """A kernel's address, and the launcher of its operands: for all threads, or for one."""
    codes = source[2][2:]
    letters = "".join("d" if c == "f8" else "q" for c in codes if c[0] != "*")
    size = PARALLEL_FROM if many else 1
    return build.kernel(*source).address, _backend.cpu.launch(len(codes) - len(letters), letters, size)


def _launch(source: _Source, n: int, weight: int, *operands: Any) -> None:
    """Run a kernel over 0..n, by all threads if n items of this weight are worth it (0: by one); arrays first, then numbers."""
    address, run = _prepared(source, n * weight >= PARALLEL_FROM)
    run(address, n, *[a.view(_BYTES) if type(a) is np.ndarray else a for a in operands])


_BYTES: Final = np.dtype(np.uint8)


def _fill(gen: Generator, kind: str, out: Array, *numbers: float) -> None:
    """Make each element of `out` of the next words. Call with the lock held."""
    words = 1 if kind in _ONE_WORD else 2
    source = (f"random_{kind}", *templates.fill(kind))
    for start in range(0, out.size, _CHUNK // words):
        part = out[start : start + _CHUNK // words]
        _launch(source, part.size, 4, part, gen.take(words * part.size), *numbers)


_ONE_WORD: Final = {"uniform_f4", "range_f4", "below"}


def _from_state(state: Array) -> Generator:
    return Generator().set_state(state)


default_generator: Final = Generator()


def manual_seed(seed: Any) -> Generator:
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    return default_generator.seed()


def initial_seed() -> int:
    return default_generator.initial_seed()


# ---------------------------------------------------------------- samplers


def _floating(d: dtype, kernel: str) -> np.dtype[Any]:
    if not d.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")
    return d.np


def uniform(gen: Generator, n: int, d: dtype, low: float = 0.0, high: float = 1.0) -> Array:
    """n numbers uniform on [low, high), as `rand` and `uniform_`."""
    numpy_dtype = _floating(d, "check_uniform_bounds")
    kind = "f8" if d is _dtypes.float64 else "f4"
    out = np.empty(n, kind)
    if low == 0.0 and high == 1.0:
        with gen.lock:
            _fill(gen, f"uniform_{kind}", out)
    else:
        _check_uniform(d, low, high)
        begin = out.dtype.type(low)
        # The difference rounds in the dtype, the rest is float64.
        with gen.lock:
            _fill(gen, f"range_{kind}", out, float(begin), float(out.dtype.type(high) - begin))
    return out.astype(numpy_dtype, copy=False)


def _check_uniform(d: dtype, low: float, high: float) -> None:
    limit = float(np.finfo(d.np).max)
    word = d.scalar_name.lower()
    for name, value in (("from", low), ("to", high)):
        if not -limit <= value <= limit:
            raise RuntimeError(f"{name} is out of bounds for {word}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > limit:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{d.scalar_name}>::max(), but found to={high:g} "
            f"and from={low:g} which result in to-from to exceed the limit"
        )


def normal(
    gen: Generator, n: int, d: dtype, mean: float = 0.0, std: float = 1.0, blocks: bool = True
) -> Array:
    """n normal numbers, as `randn` and `normal_`, which has no `blocks` where memory is not contiguous."""
    numpy_dtype = _floating(d, "normal_kernel_cpu")
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if n < 16 or not blocks:
        with gen.lock:
            return np.array(_few_normals(gen, n, mean, std), numpy_dtype)
    code = "f8" if d is _dtypes.float64 else "f4"
    words = 2 if code == "f8" else 1
    source = (f"random_normal_{code}", *templates.normal(code))
    out = np.empty(n, code)
    with gen.lock:
        for start in range(0, n - n % 16, _CHUNK // words):
            part = out[start : min(start + _CHUNK // words, n - n % 16)]
            _launch(source, part.size // 16, 128, part, gen.take(words * part.size), mean, std)
        if n % 16:  # the last 16 are made anew, of new words
            if d is not _dtypes.float16:
                gen.take(words * (n % 16))
            _launch(source, 1, 1, out[-16:], gen.take(words * 16), mean, std)
    return out.astype(numpy_dtype, copy=False)


def _few_normals(gen: Generator, n: int, mean: float, std: float) -> list[float]:
    """The scalar path. Call with the lock held."""
    samples: list[float] = []
    if n and gen._next_normal is not None:
        samples.append(gen._next_normal)
        gen._next_normal = None
    missing = n - len(samples)
    drawn = np.empty(missing + missing % 2)
    _fill(gen, "uniform_f8", drawn)
    units = drawn.tolist()
    for i in range(0, len(units), 2):
        radius = math.sqrt(-2.0 * math.log1p(-units[i + 1]))
        angle = _TWO_PI * units[i]
        samples.append(radius * math.cos(angle))
        samples.append(radius * math.sin(angle))
    if len(samples) > n:
        gen._next_normal = samples.pop()
    return [sample * std + mean for sample in samples]


def randint(gen: Generator, low: int, high: int, n: int, d: dtype = _dtypes.int64) -> Array:
    """n integers of [low, high) in dtype d, as `randint` and `random_`."""
    _check_randint(low, high, d)
    return _integers(gen, low, high - low, n).astype(d.np, copy=False)


def _integers(gen: Generator, low: int, span: int, n: int) -> Array:
    """n of `span` integers from `low` on; of all there are, for a span of 2**64."""
    out = np.empty(n, np.int64)
    with gen.lock:
        if span >= 2**64:
            _fill(gen, "any", out)
        else:
            _fill(gen, "below" if span < 2**28 else "below_wide", out, _signed(span), _signed(low))
    return out


def _signed(value: int) -> int:
    """An integer as the bits of 64 have it: sums wrap, and come out right."""
    return (value + 2**63) % 2**64 - 2**63


def greatest(d: dtype) -> int:
    """The last integer up to which a dtype holds all."""
    if d.category == _dtypes.BOOL:
        return 1
    return 2 ** (np.finfo(d.np).nmant + 1) if d.is_floating_point else int(np.iinfo(d.np).max)


def random(gen: Generator, n: int, d: dtype) -> Array:
    """n integers, as `random_()` without bounds: from 0 on, as many as the dtype holds."""
    if d.category == _dtypes.BOOL:
        return (_integers(gen, 0, 2, n)).astype(np.bool_)
    out = np.empty(n, np.int64)
    with gen.lock:
        wide = d.itemsize == 8
        _fill(gen, "below_wide" if wide else "below", out, _signed(greatest(d) + 1), 0)
    return out.astype(d.np, copy=False)


def _check_randint(low: int, high: int, d: dtype) -> None:
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    word = c_name(d)
    if d.is_floating_point:
        digits = np.finfo(d.np).nmant + 1
        for name, value in (("from", low), ("to - 1", high - 1)):
            if not -(2**digits) <= value <= 2**digits:
                warnings.warn(
                    f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
                    f"{word} can support discrete uniform distribution only within this range. This warning "
                    "will become an error in version 1.7 release, please fix the code in advance",
                    UserWarning,
                    stacklevel=4,
                )
        return
    least, most = (0, 1) if d.category == _dtypes.BOOL else (int(np.iinfo(d.np).min), int(np.iinfo(d.np).max))
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= most:
            raise RuntimeError(f"{name} is out of bounds for {word}")


def bernoulli(gen: Generator, p: float | Array, n: int | None = None) -> Array:
    """Bools: n trials of probability p, as `x.bernoulli_(p)`, or a trial for each element of an array p."""
    if isinstance(p, np.ndarray):
        units = np.empty(p.size, "f8" if p.dtype == np.float64 else "f4")
        if not np.all((p >= 0) & (p <= 1)):
            raise RuntimeError(
                "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be "
                "improved?  If so, please report an enhancement request to PyTorch.)"
            )
        with gen.lock:
            _fill(gen, f"uniform_{units.dtype.str[1:]}", units)
        return units.reshape(p.shape) < p
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if n is None:
        raise TypeError("bernoulli() of a number p needs the count n")
    out = np.empty(n, np.bool_)
    with gen.lock:
        _fill(gen, "bernoulli", out, p)
    return out


def randperm(gen: Generator, n: int) -> Array:
    """A permutation of range(n) in int64, as `randperm`."""
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    few = n < 2**32 // 20
    steps, words = (max(n - 1, 0), 1) if few else (n, 2)
    out = np.arange(n) if few else np.empty(n, np.int64)
    text = templates.PERMUTE if few else templates.PERMUTE_MANY
    source = (f"random_permutation{'' if few else '_many'}", text, templates.PERMUTE_CODES)
    with gen.lock:
        for start in range(0, steps, _CHUNK // words):
            count = min(_CHUNK // words, steps - start)
            _launch(source, count, 0, out, gen.take(words * count), start, n)
    return out


# ---------------------------------------------------------------- functions of one uniform number

_EPSILON: Final = float(np.finfo(np.float64).eps)


def _units(gen: Generator, n: int) -> Array:
    out = np.empty(n)
    with gen.lock:
        _fill(gen, "uniform_f8", out)
    return out


def exponential(gen: Generator, n: int, rate: float) -> Array:
    return np.log1p(-_units(gen, n)) / -rate


def cauchy(gen: Generator, n: int, median: float, sigma: float) -> Array:
    units = np.clip(_units(gen, n), _EPSILON, 1 - _EPSILON)
    return median + sigma * np.tan(math.pi * (units - 0.5))


def geometric(gen: Generator, n: int, p: float) -> Array:
    with np.errstate(divide="ignore"):
        return np.ceil(np.log(_units(gen, n)) / math.log1p(-p))


def log_normal(gen: Generator, n: int, mean: float, std: float) -> Array:
    with gen.lock:
        return np.exp(np.array(_few_normals(gen, n, mean, std)))
