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
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.base.warn import warn
from nbgrad.core.signatures import kind_name
from nbgrad.core.tensor import Tensor
from nbgrad.kernels.cpu import random as templates
from nbgrad.kernels.launch import PARALLEL_FROM
from nbgrad.memory import backend, dtypes, gpu, philox
from nbgrad.memory import device as _device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Spec
from nbgrad.ops.host.values import of_array

Array = np.ndarray[Any, np.dtype[Any]]
_empty = np.empty

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
    """What random numbers are drawn from: a stream that a seed decides, the same one as PyTorch's. Functions that draw take one as
    `generator`; without it they use the default one, which `torch.manual_seed` seeds.

    >>> g = torch.Generator().manual_seed(0)
    >>> torch.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    >>> state = g.get_state()
    >>> torch.equal(torch.rand(5, generator=g), torch.rand(5, generator=g.set_state(state)))
    True
    """

    __module__ = "nbgrad._C"  # as it is shown

    __slots__ = ("__weakref__", "_at", "_kept", "_seed", "_words", "device", "lock")
    _words: Array | None

    def __new__(cls, device: str | _device.device = "cpu") -> Generator:
        """A GPU's draws from a stream of another kind."""
        return object.__new__(OnDevice if _device.device(device).type == "cuda" else cls)

    def __init__(self, device: str | _device.device = "cpu") -> None:
        self.device = _device.settled(_device.device(device))
        if self.device.type != "cpu":
            raise _unsupported(self.device)
        self.lock = threading.RLock()
        self._kept = np.zeros(
            16, np.uint8
        )  # of few normals the number for the next call, and whether there is one
        self.manual_seed(_DEFAULT_SEED)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of this seed, and return the generator.

        >>> torch.rand(2, generator=torch.Generator().manual_seed(1))
        tensor([0.7576, 0.2793])
        """
        seed = _seed_of(seed)
        with self.lock:
            self._seed = seed % 2**64
            self._words, self._at = None, 624  # made when they are first asked for
            self._kept[:] = 0
        return self

    def seed(self) -> int:
        """Seed the generator from the operating system's entropy, and return the seed.

        >>> 0 <= torch.Generator().seed() < 2**64
        True
        """
        seed = philox.entropy()
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that started the stream.

        >>> torch.Generator().manual_seed(7).initial_seed()
        7
        """
        return self._seed

    def state(self) -> Array:
        """The state as a uint8 array, in the layout of PyTorch's."""
        record = np.zeros((), _STATE)
        with self.lock:
            position, words = self._at, self._words
            if words is None:
                words = self._words = self._from_here(0)
            record["seed"], record["key"] = self._seed, words.view(np.uint32)
            record["left"], record["next"], record["seeded"] = 625 - position, position, 1
            number, there = self._kept.view(np.float64)
            if there:
                record["normal_y"], record["normal_is_valid"] = number, 1
        return record.reshape(1).view(np.uint8)

    def restore(self, state: Array) -> Generator:
        """Go to where `state` was asked."""
        if state.dtype != np.uint8:
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
            self._words, self._at = record["key"].astype(np.uint32).view(_BYTES), 625 - left
            there = int(record["normal_is_valid"])
            self._kept.view(np.float64)[:] = (record["normal_y"], 1) if there else (0, 0)
        return self

    def get_state(self) -> Tensor:
        """Where the stream is, as a tensor of bytes, laid out as PyTorch's is.

        >>> torch.Generator().get_state().dtype
        torch.uint8
        """
        return of_array(self.state())

    def set_state(self, new_state: Tensor) -> Generator:
        """Go to where `get_state` was asked, of this generator or another one, and return the generator.

        >>> a, b = torch.Generator().manual_seed(1), torch.Generator()
        >>> b.set_state(a.get_state()).initial_seed()
        1
        """
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {kind_name(new_state)}")
        return self.restore(new_state.detach()._host())

    def clone_state(self) -> Generator:
        """A new generator that stands where this one does.

        >>> g = torch.Generator().manual_seed(1)
        >>> torch.equal(torch.rand(3, generator=g.clone_state()), torch.rand(3, generator=g))
        True
        """
        return Generator().restore(self.state())

    def __reduce__(self) -> tuple[object, ...]:
        return Generator, (self.device,), (self.initial_seed(), None, self.get_state())

    def __setstate__(self, state: Any) -> None:
        """What a pickle holds: the seed, where a GPU's stream stands, and the state, which tells both."""
        self.set_state(state[2])

    def take(self, n: int) -> tuple[Array, int]:
        """The next n words, not yet tempered: the memory where they are, and the first one's place. Call with the lock held."""
        start, stop = self._at, self._at + n
        if stop <= 624 and self._words is not None:
            self._at = stop
            return self._words, start
        # As PyTorch makes them: 624 at a time, the last lot of which is the state.
        more = (stop - 1) // 624 * 624
        words = self._from_here(more)
        self._words, self._at = words[4 * more :].copy(), stop - more
        return words, start

    def _from_here(self, more: int) -> Array:
        """The state's words, which the seed begins if none was asked for since, and as many more."""
        words = np.empty(4 * (624 + more), _BYTES)
        if self._words is not None:
            words[: 4 * 624] = self._words
        _launch("twist", more, 0, words, -1 if self._words is not None else self._seed & 0xFFFFFFFF)
        return words


class OnDevice(Generator):
    """What a GPU's random numbers are drawn from: its samplers `take` from `stream`."""

    __slots__ = ("stream",)
    stream: philox.Philox

    def __new__(cls, device: str | _device.device = "cuda", stream: philox.Philox | None = None) -> OnDevice:
        return object.__new__(cls)

    def __init__(self, device: str | _device.device = "cuda", stream: philox.Philox | None = None) -> None:
        where = _device.device(device)
        if not gpu.device_count():
            raise _unsupported(where)
        self.device = _device.settled(where)
        self.stream = philox.Philox() if stream is None else stream

    def manual_seed(self, seed: int) -> Generator:
        self.stream.manual_seed(_seed_of(seed))
        return self

    def initial_seed(self) -> int:
        return self.stream.seed

    def get_offset(self) -> int:
        """How far the stream was used."""
        return self.stream.offset

    def set_offset(self, offset: int) -> Generator:
        """Go to where the stream was used so far."""
        self.stream.offset = offset
        return self

    def state(self) -> Array:
        return self.stream.state()

    def restore(self, state: Array) -> Generator:
        self.stream.restore(state)
        return self

    def clone_state(self) -> Generator:
        return OnDevice(self.device).restore(self.state())


OnDevice.__name__ = Generator.__name__  # what signatures ask for, and to users the same


def _unsupported(where: _device.device) -> RuntimeError:
    return RuntimeError(f"Device type {where.type} is not supported for torch.Generator() api.")


def _seed_of(seed: Any) -> int:
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
    seed = operator.index(seed)
    if not -(2**63) <= seed < 2**64:
        raise ValueError("Overflow when unpacking long long")
    return int(seed)


@cached(64)
def _kernel(kind: str, many: bool = False, quick: bool = False) -> tuple[int, Callable[..., None]]:
    """A kernel's address, and the launcher of its operands: for all threads, or for one; `quick` for a few elements."""
    source, codes = templates.source(kind)
    letters = "".join("d" if c == "f8" else "q" for c in codes[2:] if c[0] != "*")
    launch = backend.cpu.launch(len(codes) - 2 - len(letters), letters, PARALLEL_FROM if many else 1, quick)
    return backend.cpu.kernel(f"random_{kind}", source, codes).address, launch


def _launch(kind: str, n: int, weight: int, *operands: Any) -> None:
    """Run a kernel over 0..n, by all threads if n items of this weight are worth it (0: by one); memory first, then numbers."""
    address, run = _kernel(kind, n * weight >= PARALLEL_FROM)
    run(address, n, *operands)


_BYTES: Final = np.dtype(np.uint8)


def _fill(gen: Generator, kind: str, n: int, size: int, *numbers: float) -> Array:
    """Memory of n elements of that size, each made of the next words."""
    out, words = np.empty(n * size, _BYTES), templates.words_of(kind)
    most = _CHUNK // words
    with gen.lock:
        for start in range(0, n, most):
            count = min(most, n - start)
            _launch(kind, count, 2, out[start * size :], *gen.take(words * count), *numbers)
    return out


default_generator: Final = Generator()
default_generator.seed()  # as PyTorch's: a program that seeds nothing draws other numbers each time


def manual_seed(seed: Any) -> Generator:
    """Start the streams of this seed that all is drawn from without a `generator`, the GPUs' as well; return the CPU's generator.

    >>> generator = torch.manual_seed(1)
    >>> torch.rand(2)
    tensor([0.7576, 0.2793])
    """
    seed = int(seed)
    generator = default_generator.manual_seed(seed)
    philox.seed_all(seed)
    return generator


def seed() -> int:
    """Seed the default generator from the operating system's entropy, and return the seed.

    >>> 0 <= torch.seed() < 2**64
    True
    """
    seed = default_generator.seed()
    philox.seed_all(seed)
    return seed


def initial_seed() -> int:
    """The seed that started the default generator's stream.

    >>> generator = torch.manual_seed(7)
    >>> torch.initial_seed()
    7
    """
    return default_generator.initial_seed()


# ---------------------------------------------------------------- samplers


def _floating(d: dtype, kernel: str) -> None:
    if not d.is_floating_point or d.kept:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")


def _memory(values: Array, d: dtype) -> Array:
    """Numbers rounded to a narrow dtype, as bytes."""
    return dtypes.packed(dtypes.rounded(values, d), d).view(_BYTES)


def _values(memory: Array, d: dtype) -> Array:
    found: Array = dtypes.values(memory, d, (len(memory) // d.itemsize,), (1,))
    return found


def uniform(gen: Generator, n: int, d: dtype, low: float = 0.0, high: float = 1.0) -> Array:
    """n numbers uniform on [low, high), as `rand` and `uniform_`."""
    if low == 0.0 and high == 1.0:
        return _values(units(gen, n, d), d)
    if d.is_complex:  # either part
        return uniform(gen, 2 * n, d.to_real(), low, high).view(d.np)
    _floating(d, "check_uniform_bounds")
    _check_uniform(d, low, high)
    if d.narrow:
        made = dtypes.rounded(uniform(gen, n, dtypes.float32, low, high), d)
        return np.where(made == dtypes.rounded(high, d), dtypes.rounded(low, d), made)
    return _fill(gen, f"range_{d.code}", n, d.itemsize, *_range(d, low, high)).view(d.np)


def _range(d: dtype, low: float, high: float) -> tuple[float, float, float]:
    """Where it begins, its length and its end. The length rounds in the dtype, the rest is float64."""
    begin, end = d.np.type(low), d.np.type(high)
    return float(begin), float(end - begin), float(end)


_UNITS: Final = {dtypes.float32: "uniform_f4", dtypes.float64: "uniform_f8"}
_FEW: Final = {dtypes.float32: "few_f4", dtypes.float64: "few_f8"}
_ROUND: Final = {dtypes.float32, dtypes.float64, dtypes.int64}  # to which kernels round by themselves


def units(gen: Generator, n: int, d: dtype) -> Array:
    """n numbers uniform on [0, 1), as bytes."""
    if d.is_complex:
        return units(gen, 2 * n, d.to_real())
    kind = _UNITS.get(d)
    if kind is None:
        _floating(d, "check_uniform_bounds")
        made = dtypes.rounded(units(gen, n, dtypes.float32).view(np.float32), d)
        return _memory(np.where(made == 1, 0, made), d)
    return _fill(gen, kind, n, d.itemsize)


Draw = Callable[..., Array]


def few(kind: str, sp: Spec, *numbers: float) -> Draw:
    """What draws few elements of a kind by the default generator in one launch: into memory that it is given, or into new one."""
    n, nbytes, words = sp.numel, sp.nbytes, sp.numel * templates.words_of(kind)
    gen = default_generator
    address, run = _kernel(kind, quick=True)
    lock = gen.lock

    def draw(out: Array | None = None) -> Array:
        if out is None:
            out = _empty(nbytes, _BYTES)
        lock.acquire()  # a `with` block takes more of the interpreter's steps
        try:
            at = gen._at
            if at + words <= 624:
                gen._at = at + words
                run(address, n, out, gen._words, at, *numbers)
            else:
                run(address, n, out, *gen.take(words), *numbers)
        finally:
            lock.release()
        return out

    return draw


def few_units(sp: Spec, low: float = 0.0, high: float = 1.0) -> Draw | None:
    """What draws `uniform` for a Spec of few elements; of dtypes for which that is one launch."""
    kind = _UNITS.get(sp.dtype)
    if kind is None or not sp.numel:
        return None
    if low == 0.0 and high == 1.0:
        return few(kind, sp)
    return few(f"range_{sp.dtype.code}", sp, *_range(sp.dtype, low, high))


def _check_uniform(d: dtype, low: float, high: float) -> None:
    limit = dtypes.limits(d)[1]
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
    return _values(normals(gen, n, d, mean, std, blocks), d)


def normals(
    gen: Generator, n: int, d: dtype, mean: float = 0.0, std: float = 1.0, blocks: bool = True
) -> Array:
    """The same as bytes."""
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if d.is_complex:  # each part has half the variance
        return normals(gen, 2 * n, d.to_real(), mean, std / math.sqrt(2), blocks)
    if n < 16 or not blocks:
        return _few_normals(gen, n, d, mean, std)
    code = "f8" if d is dtypes.float64 else "f4"
    _floating(d, "normal_kernel_cpu")
    words, size = d.itemsize // 4 or 1, d.itemsize if not d.narrow else 4
    kind, out = f"normal_{code}", np.empty(n * size, _BYTES)
    with gen.lock:
        for start in range(0, n - n % 16, _CHUNK // words):
            count = min(_CHUNK // words, n - n % 16 - start)
            _launch(kind, count // 16, 64, out[start * size :], *gen.take(words * count), mean, std)
        if n % 16:  # the last 16 are made anew, of new words
            if not d.narrow:
                gen.take(words * (n % 16))
            _launch(kind, 1, 1, out[-16 * size :], *gen.take(words * 16), mean, std)
    return out if not d.narrow else _memory(out.view(np.float32), d)


def _few_normals(gen: Generator, n: int, d: dtype, mean: float, std: float, kind: str | None = None) -> Array:
    """The scalar path, as bytes."""
    kind = kind or _FEW.get(d)
    if kind is None:
        _floating(d, "normal_kernel_cpu")
        # rounded once
        return _memory(_few_normals(gen, n, dtypes.float64, mean, std).view(np.float64), d)
    out, kept = _empty(n * d.itemsize, _BYTES), gen._kept
    address, run = _kernel(kind)
    with gen.lock:
        missing = n - 1 if n and kept.item(15) else n  # the flag is 1.0, whose last byte is not 0
        run(address, n, out, kept, *gen.take(2 * (missing + (missing & 1))), mean, std)
    return out


def few_normals(sp: Spec, mean: float = 0.0, std: float = 1.0, log: bool = False) -> Draw | None:
    """The same as `few_units` for `normals`, or for what they are the logarithms of."""
    kind, n = _FEW.get(sp.dtype), sp.numel
    if kind is None or not n or (log and n >= 16):
        return None
    if n >= 16:
        return _few_blocks(sp, mean, std) if sp.contiguous else None
    gen, nbytes = default_generator, sp.nbytes
    address, run = _kernel(kind.replace("_", "_log_") if log else kind, quick=True)
    lock, whole, rest = (
        gen.lock,
        n + (n & 1),
        n - 1 + (n - 1 & 1),
    )  # numbers to make without one that is kept, and with

    def draw(out: Array | None = None) -> Array:
        if out is None:
            out = _empty(nbytes, _BYTES)
        lock.acquire()
        try:
            kept, at = gen._kept, gen._at
            count = 2 * (rest if kept.item(15) else whole)
            if at + count <= 624:
                gen._at = at + count
                run(address, n, out, kept, gen._words, at, mean, std)
            else:
                run(address, n, out, kept, *gen.take(count), mean, std)
        finally:
            lock.release()
        return out

    return draw


def _few_blocks(sp: Spec, mean: float, std: float) -> Draw:
    """The same from 16 on."""
    (whole, rest), size, nbytes, words = divmod(sp.numel, 16), sp.itemsize, sp.nbytes, sp.itemsize // 4
    gen, last = default_generator, nbytes - 16 * size
    address, run = _kernel(f"normal_{sp.dtype.code}", quick=True)

    def draw(out: Array | None = None) -> Array:
        if out is None:
            out = _empty(nbytes, _BYTES)
        with gen.lock:
            run(address, whole, out, *gen.take(16 * words * whole), mean, std)
            if rest:
                gen.take(words * rest)
                run(address, 1, out[last:], *gen.take(16 * words), mean, std)
        return out

    return draw


def few_integers(sp: Spec, low: int, high: int) -> Draw | None:
    """The same for `randint`."""
    if (
        sp.dtype not in _ROUND or not sp.numel or max(-low, high - 1) > greatest(sp.dtype)
    ):  # of which is warned
        return None
    low, high = _checked_randint(low, high, sp.dtype)
    kind = _integer_kind(high - low)
    return None if kind == "any" else few(f"{kind}_{sp.dtype.code}", sp, _signed(high - low), _signed(low))


def few_of(kind: str, sp: Spec, *numbers: float) -> Draw | None:
    """The same for what rounds a function of the words to a dtype."""
    return few(f"{kind}_{sp.dtype.code}", sp, *numbers) if sp.dtype in _ROUND and sp.numel else None


def few_trials(sp: Spec) -> Callable[[Array], Array | None] | None:
    """What makes a trial for each of few chances, by the default generator; None of chances that are none, for which nothing is drawn."""
    if sp.dtype not in _UNITS or not sp.numel:
        return None
    gen, n, nbytes, words = default_generator, sp.numel, sp.nbytes, sp.itemsize // 4 * sp.numel
    address, run = _kernel(f"each_{sp.dtype.code}", quick=True)

    def draw(chances: Array) -> Array | None:
        out, bad = _empty(nbytes, _BYTES), np.zeros(8, _BYTES)
        with gen.lock:
            before = gen._words, gen._at
            run(address, n, out, chances, bad, *gen.take(words))
            if bad.item(0):
                gen._words, gen._at = before
                return None
        return out

    return draw


_KEPT = 64  # numbers in order, of which a copy is quicker than to count them


def few_places(n: int) -> Draw:
    """The same as `few` for `randperm`."""
    gen, (address, run) = default_generator, _kernel("permutation", quick=True)
    ordered = np.arange(n).view(_BYTES) if n <= _KEPT else None

    def draw() -> Array:
        out = np.arange(n).view(_BYTES) if ordered is None else ordered.copy()
        if n > 1:
            with gen.lock:
                run(address, n - 1, out, *gen.take(n - 1), 0, n)
        return out

    return draw


def randint(gen: Generator, low: int, high: int, n: int, d: dtype = dtypes.int64) -> Array:
    """n integers of [low, high) in dtype d, as `randint` and `random_`."""
    low, high = _checked_randint(low, high, d)
    return dtypes.rounded(_integers(gen, low, high - low, n), d)


def _integers(gen: Generator, low: int, span: int, n: int) -> Array:
    """n of `span` integers from `low` on; of all there are, for a span of 2**64."""
    kind = _integer_kind(span)
    numbers = () if kind == "any" else (_signed(span), _signed(low))
    return _fill(gen, f"{kind}_i8", n, 8, *numbers).view(np.int64)


def _integer_kind(span: int) -> str:
    return "any" if span >= 2**64 else "below" if span < 2**28 else "below_wide"


def _signed(value: int) -> int:
    """An integer as the bits of 64 have it: sums wrap, and come out right."""
    return (value + 2**63) % 2**64 - 2**63


def greatest(d: dtype) -> int:
    """The last integer up to which a dtype holds all."""
    if d.category == dtypes.BOOL:
        return 1
    return 2 ** _digits(d) if d.is_floating_point else int(np.iinfo(d.np).max)


def _digits(d: dtype) -> int:
    """The bits of a floating dtype's numbers, the first of which is not stored."""
    return 1 - round(math.log2(dtypes.finfo(d).eps))


def random(gen: Generator, n: int, d: dtype) -> Array:
    """n integers, as `random_()` without bounds: from 0 on, as many as the dtype holds."""
    if d.category == dtypes.BOOL:
        return (_integers(gen, 0, 2, n)).astype(np.bool_)
    kind = "below_wide" if d.itemsize == 8 else "below"
    made = _fill(gen, f"{kind}_i8", n, 8, _signed(greatest(d) + 1), 0).view(np.int64)
    return dtypes.rounded(made, d)


def few_random(sp: Spec) -> Draw | None:
    """The same as `few` for `random`."""
    return few_of("below_wide" if sp.dtype.itemsize == 8 else "below", sp, _signed(greatest(sp.dtype) + 1), 0)


def _held(bound: int, d: dtype, up: int) -> int:
    """A bound of random integers, or where its neighbour inwards (`up` is 1 or -1) is rounded back to it or beyond, a floating
    dtype's next number inwards, as PyTorch has it."""
    beside = float(dtypes.rounded(bound + up, d))
    if math.isinf(beside) or (beside >= bound if up > 0 else beside < bound):
        return bound
    return int(beside) + up * (1 << max(abs(bound + up).bit_length() - _digits(d), 0))


def _checked_randint(low: int, high: int, d: dtype) -> tuple[int, int]:
    """The bounds as a floating dtype has them."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    word = d.c_name
    if d.is_floating_point:
        low, high = _held(low, d, 1), _held(high, d, -1)
        if low >= high:
            raise RuntimeError(
                f"random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={low} >= to={high}"
            )
        digits, most = _digits(d), dtypes.limits(d)[1]
        for name, value in (("from", low), ("to - 1", high - 1)):
            if not -most <= value <= most:
                raise RuntimeError(f"{name} is out of bounds for {word}")
        for name, value in (("from", low), ("to - 1", high - 1)):
            if not -(2**digits) <= value <= 2**digits:
                warn(
                    f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
                    f"{word} can support discrete uniform distribution only within this range. This warning "
                    "will become an error in version 1.7 release, please fix the code in advance"
                )
        return low, high
    least, most = (0, 1) if d.category == dtypes.BOOL else dtypes.limits(d)
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= most:
            raise RuntimeError(f"{name} is out of bounds for {word}")
    return low, high


def bernoulli(gen: Generator, p: float | Array, n: int | None = None) -> Array:
    """Bools: n trials of probability p, as `x.bernoulli_(p)`, or a trial for each element of an array p."""
    if isinstance(p, np.ndarray):
        d = dtypes.float64 if p.dtype == np.float64 else dtypes.float32
        out = np.empty(p.size * d.itemsize, _BYTES)
        if not _trials(gen, d, p.size, out, np.ascontiguousarray(p, d.np).reshape(-1).view(_BYTES)):
            raise RuntimeError(
                "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be "
                "improved?  If so, please report an enhancement request to PyTorch.)"
            )
        return out.view(d.np).reshape(p.shape) != 0
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if n is None:
        raise TypeError("bernoulli() of a number p needs the count n")
    return _fill(gen, "bernoulli_b1", n, 1, p).view(np.bool_)


def _trials(gen: Generator, d: dtype, n: int, out: Array, chances: Array) -> bool:
    """A trial for each of n chances, written as numbers of their dtype; whether chances they all are. If not, nothing is drawn."""
    words, size, bad = d.itemsize // 4, d.itemsize, np.zeros(8, _BYTES)
    with gen.lock:
        before = gen._words, gen._at
        for start in range(0, n, _CHUNK):
            count, at = min(_CHUNK, n - start), start * size
            _launch(f"each_{d.code}", count, 2, out[at:], chances[at:], bad, *gen.take(words * count))
        if not bad.item(0):
            return True
        gen._words, gen._at = before
    return False


def randperm(gen: Generator, n: int) -> Array:
    """A permutation of range(n) in int64, as `randperm`."""
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    few = n < 2**32 // 20
    steps, words = (max(n - 1, 0), 1) if few else (n, 2)
    out = np.arange(n) if few else np.empty(n, np.int64)
    kind = "permutation" if few else "permutation_many"
    with gen.lock:
        for start in range(0, steps, _CHUNK // words):
            count = min(_CHUNK // words, steps - start)
            _launch(kind, count, 0, out.view(_BYTES), *gen.take(words * count), start, n)
    return out


# ---------------------------------------------------------------- functions of one uniform number


def _drawn(gen: Generator, kind: str, n: int, *numbers: float) -> Array:
    return _fill(gen, f"{kind}_f8", n, 8, *numbers).view(np.float64)


def exponential(gen: Generator, n: int, rate: float) -> Array:
    return _drawn(gen, "exponential", n, rate)


def cauchy(gen: Generator, n: int, median: float, sigma: float) -> Array:
    return _drawn(gen, "cauchy", n, median, sigma)


def geometric(gen: Generator, n: int, p: float) -> Array:
    return _drawn(gen, "geometric", n, math.log1p(-p))


def log_normal(gen: Generator, n: int, mean: float, std: float) -> Array:
    return _few_normals(gen, n, dtypes.float64, mean, std, "few_log_f8").view(np.float64)
