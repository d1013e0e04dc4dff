"""PyTorch's CPU random streams, on NumPy's MT19937: for one seed, the same numbers as `torch` gives.

Promises the tensor layer arrays of one dimension, drawn in the order in which PyTorch fills a contiguous
output. How many words of the stream a sampler eats and which of their bits it keeps is PyTorch's convention,
kept so that the calls that follow agree too:

    uniform    float32: the low 24 bits of a word; float64: the low 53 of two words, the first one high
    normal     below 16 numbers: Box-Muller in float64, which keeps its second number for the next call;
               from 16: Box-Muller on blocks of 16 uniforms (8 radii, 8 angles), the last 16 again if n % 16
    randint    word % range; two words from a range of 2**28 on
    randperm   Fisher-Yates, word % (numbers left)
    bernoulli  u < p, with u as of `uniform` in the dtype of an array p, in float64 for a number p

All are bit for bit PyTorch's but `normal` in blocks, whose logarithm and sine are NumPy's: the difference is
below 2.4e-7 * (1 + |x|) in float32, where both are as far from the exact value, 1e-15 * (1 + |x|) in float64.
A generator's lock is held for a whole call, so each call gets a stretch of the stream to itself.
"""

from __future__ import annotations

import math
import operator
import os
import threading
import warnings
from typing import Any, Final

import numpy as np

from . import _device, _dtypes
from ._dtypes import dtype

Array = np.ndarray[Any, np.dtype[Any]]

_DEFAULT_SEED: Final = 67280421310721
_CHUNK: Final = 16384  # words a pass works on: 128 KB as NumPy returns them, within L2; a multiple of 16
_TWO_PI: Final = 2 * math.pi
_LOW24: Final = np.uint32(2**24 - 1)
_LOW53: Final = np.uint64(2**53 - 1)
_UNIT24: Final = np.float32(2.0**-24)
_UNIT53: Final = np.float64(2.0**-53)
_SHIFT32: Final = np.uint64(32)

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

    __slots__ = ("__weakref__", "_bits", "_next_normal", "_seed", "device", "lock")

    def __init__(self, device: str | _device.device = "cpu") -> None:
        self.device = _device.device(device)
        if self.device.type != "cpu":
            raise RuntimeError(f"Device type {self.device.type} is not supported for torch.Generator() api.")
        self.lock = threading.RLock()
        self._bits = np.random.MT19937(0)
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
            np.random.RandomState(self._bits).seed(seed & 0xFFFFFFFF)
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
            state: Any = self._bits.state["state"]
            position = int(state["pos"])
            record["seed"], record["key"] = self._seed, state["key"]
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
            self._bits.state = {
                "bit_generator": "MT19937",
                "state": {"key": record["key"].astype(np.uint32), "pos": 625 - left},
            }
            self._next_normal = float(record["normal_y"]) if record["normal_is_valid"] else None
        return self

    def clone_state(self) -> Generator:
        return Generator().set_state(self.get_state())

    def __reduce__(self) -> tuple[object, ...]:
        return (_from_state, (self.get_state(),))

    def _words(self, n: int) -> Array:
        """The next n 32-bit words, in a new array of uint64. Call with the lock held."""
        return self._bits.random_raw(n)

    def _doubles(self, n: int) -> Array:
        """The next n pairs of words as uint64, the first word high. Call with the lock held."""
        words = self._words(2 * n)
        pairs: Array = words[0::2] << _SHIFT32
        pairs |= words[1::2]
        return pairs


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


def _fill_unit(gen: Generator, out: Array) -> None:
    """Uniform numbers of [0, 1) into a float32 or float64 array. Call with the lock held."""
    if out.dtype == np.float32:
        for start in range(0, out.size, _CHUNK):
            part = out[start : start + _CHUNK]
            bits = gen._words(part.size).astype(np.uint32)
            bits &= _LOW24
            np.multiply(bits, _UNIT24, out=part, dtype=np.float32, casting="unsafe")
    else:
        for start in range(0, out.size, _CHUNK // 2):
            part = out[start : start + _CHUNK // 2]
            bits = gen._doubles(part.size)
            bits &= _LOW53
            np.multiply(bits, _UNIT53, out=part)


def _floating(d: dtype, kernel: str) -> np.dtype[Any]:
    if not d.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")
    return d.np


def uniform(gen: Generator, n: int, d: dtype, low: float = 0.0, high: float = 1.0) -> Array:
    """n numbers uniform on [low, high), as `rand` and `uniform_`."""
    numpy_dtype = _floating(d, "check_uniform_bounds")
    if low != 0.0 or high != 1.0:
        _check_uniform(d, low, high)
    out = np.empty(n, numpy_dtype)
    with gen.lock:
        _fill_unit(gen, out)
    if low != 0.0 or high != 1.0:
        start = numpy_dtype.type(low)
        scale = np.float64(
            numpy_dtype.type(high) - start
        )  # the difference rounds in the dtype, the rest is float64
        for i in range(0, n, _CHUNK):
            part = out[i : i + _CHUNK]
            if d is _dtypes.float64:
                part[...] = _multiply_add(part, scale, np.float64(start))
            else:  # products of two float32 are exact in float64
                part[...] = part * scale + np.float64(start)
    return out


def _multiply_add(x: Array, a: np.float64, b: np.float64) -> Array:
    """x * a + b in float64, rounded once: PyTorch's compiler contracts it. Dekker's product, Knuth's sum."""
    product = x * a
    x_high, a_high = _upper_half(x), _upper_half(a)
    x_low, a_low = x - x_high, a - a_high
    error = ((x_high * a_high - product) + x_high * a_low + x_low * a_high) + x_low * a_low
    total: Array = product + b
    part = total - product
    error += (product - (total - part)) + (b - part)
    total += error
    return total


def _upper_half(x: Any) -> Any:
    scaled = x * 134217729.0  # 2**27 + 1: leaves 26 bits
    return scaled - (scaled - x)


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


def normal(gen: Generator, n: int, d: dtype, mean: float = 0.0, std: float = 1.0) -> Array:
    """n normal numbers, as `randn` and `normal_`."""
    numpy_dtype = _floating(d, "normal_kernel_cpu")
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if n < 16:
        with gen.lock:
            return np.array(_few_normals(gen, n, mean, std), numpy_dtype)
    out = np.empty(n, numpy_dtype)
    whole = n - n % 16
    last = np.empty(16, numpy_dtype)
    with gen.lock:
        _fill_unit(gen, out)
        if whole != n:
            _fill_unit(gen, last)
    for start in range(0, whole, _CHUNK):
        _box_muller(out[start : min(start + _CHUNK, whole)], mean, std)
    if whole != n:
        _box_muller(last, mean, std)
        out[-16:] = last
    return out


def _few_normals(gen: Generator, n: int, mean: float, std: float) -> list[float]:
    """The scalar path. Call with the lock held."""
    samples: list[float] = []
    if n and gen._next_normal is not None:
        samples.append(gen._next_normal)
        gen._next_normal = None
    missing = n - len(samples)
    units = [(pair & (2**53 - 1)) * 2.0**-53 for pair in gen._doubles(missing + missing % 2).tolist()]
    for i in range(0, len(units), 2):
        radius = math.sqrt(-2.0 * math.log1p(-units[i + 1]))
        angle = _TWO_PI * units[i]
        samples.append(radius * math.cos(angle))
        samples.append(radius * math.sin(angle))
    if len(samples) > n:
        gen._next_normal = samples.pop()
    return [sample * std + mean for sample in samples]


def _box_muller(out: Array, mean: float, std: float) -> None:
    """Uniforms to normals in place; of each 16, the first 8 give the radii and the last 8 the angles."""
    kind = out.dtype.type
    # Radii and angles apart, or every operation would run over pieces of 8 numbers (16 us, not 2, for 8192).
    halves = out.reshape(-1, 2, 8).transpose(1, 0, 2)
    work = halves.copy()
    radius, angle = work
    np.subtract(kind(1), radius, out=radius)
    np.log(radius, out=radius)
    radius *= kind(-2)
    np.sqrt(radius, out=radius)
    angle *= kind(_TWO_PI)
    cosine = np.cos(angle)
    np.sin(angle, out=angle)
    angle *= radius
    radius *= cosine
    if std != 1.0:
        work *= kind(std)
    if mean != 0.0:
        work += kind(mean)
    halves[...] = work


def randint(gen: Generator, low: int, high: int, n: int, d: dtype = _dtypes.int64) -> Array:
    """n integers of [low, high) in dtype d, as `randint` and `random_`."""
    _check_randint(low, high, d)
    span = high - low
    one_word = span < 2**28
    divisor: Any = np.uint32(span) if one_word else np.uint64(span)
    out = np.empty(n, d.np)
    with gen.lock:
        for start in range(0, n, _CHUNK):
            part = out[start : start + _CHUNK]
            if one_word:
                words = gen._words(part.size).astype(np.uint32)
                multiple = words // divisor  # SIMD, as NumPy's remainder is not
                multiple *= divisor
                words -= multiple
                values = words.astype(np.int64)
            else:
                pairs = gen._doubles(part.size)
                pairs %= divisor
                values = pairs.view(np.int64)
            if low:
                values += np.int64(low)  # wraps, and comes out right, when the range is wider than an int64
            part[...] = values
    return out


def _check_randint(low: int, high: int, d: dtype) -> None:
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    word = d.scalar_name.lower()
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
        units = np.empty(p.size, p.dtype)
        if not np.all((p >= 0) & (p <= 1)):
            raise RuntimeError(
                "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be "
                "improved?  If so, please report an enhancement request to PyTorch.)"
            )
        with gen.lock:
            _fill_unit(gen, units)
        return units.reshape(p.shape) < p
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if n is None:
        raise TypeError("bernoulli() of a number p needs the count n")
    out = np.empty(n, np.bool_)
    # For x = k / 2**53 the comparison x < p is k < ceil(p * 2**53), in integers.
    bound = np.uint64(math.ceil(p * 2.0**53))
    with gen.lock:
        for start in range(0, n, _CHUNK // 2):
            part = out[start : start + _CHUNK // 2]
            bits = gen._doubles(part.size)
            bits &= _LOW53
            np.less(bits, bound, out=part)
    return out


def randperm(gen: Generator, n: int) -> Array:
    """A permutation of range(n) in int64, as `randperm`.

    PyTorch changes to another algorithm at n = 2**32 // 20, a result of 1.7 GB; that is refused here.
    """
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if n >= 2**32 // 20:
        raise NotImplementedError(f"randperm of {n} elements")
    with gen.lock:
        words = gen._words(max(n - 1, 0)).astype(np.uint32)
    targets: Array = np.arange(n)
    targets[:-1] += words % np.arange(n, 1, -1, dtype=np.uint32)  # step i swaps i with i + word % (n - i)
    return _apply_swaps(targets)


def _apply_swaps(targets: Array) -> Array:
    """The result of swapping places i and targets[i] >= i of range(n), for i = 0, 1, ...

    A step is done with place i for good, so the result at i is what place targets[i] held just before step i:
    what the last earlier step with that target had put there; and step j puts there what place j held before
    step j. Following these pointers, for all i at once, takes a sort and some six doublings: at a million
    63 ms, where a loop takes 230 and PyTorch 7.
    """
    n = len(targets)
    if n <= 1000:
        places = list(range(n))
        for i, target in enumerate(targets.tolist()):
            places[i], places[target] = places[target], places[i]
        return np.array(places, np.int64)
    order = (targets << 32) | np.arange(n)  # by target, then by step; unique, so any sort will do
    order.sort()
    step = order & 0xFFFFFFFF
    target = order >> 32
    # writer[i]: the last step before i that wrote to place targets[i]; -1 where none did.
    same = target[1:] == target[:-1]
    earlier = np.where(same, step[:-1], -1)
    writer = np.full(n, -1)
    writer[step[1:]] = earlier
    # source[p]: the last step before p that wrote to place p; p itself where none did, or where step p swaps p
    # with itself, as then nothing asks for what p held.
    source = np.arange(n)
    source[target] = step  # of equal indices the last one, which is the latest step, stays
    while True:  # source[p] <= p, and p is what it starts with where they are equal
        further = source[source]
        if np.array_equal(further, source):
            break
        source = further
    return np.where(writer >= 0, source[writer], targets)
