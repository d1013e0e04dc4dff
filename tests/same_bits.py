"""Every case of the table again and again, where nothing may change a bit: `python -m tests.same_bits`.

A result is decided by values, shapes and strides. It may not depend on where memory lies (a result right behind what it is made of, right
before it, or anywhere; an operand at an odd element of something larger), on what new memory holds, on how many threads share the work,
or on what another thread does meanwhile. So each case is run once as it comes, then in each of `WAYS`, forward and backward, at sizes of
no whole number of vectors and at one that threads share.

NumPy is given an allocator (`Arena`) that lays blocks as a way says, and fills them with its own bits.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from math import prod
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from tests.cases import CASES, FLOATS, NARROW, OpCase, as_dtype, draw, tensor
from tests.compare import leaves
from tests.guarded import Handler, set_handler

SEGMENT = 1 << 24  # bytes; a block larger than half of it is malloc's
SEGMENTS = 256
APART, BEHIND, BEFORE, ODD = range(4)
FLOATING = (*FLOATS, *NARROW)


class Way(NamedTuple):
    """How a run differs from the first one."""

    name: str
    laid: int
    fill: int
    threads: int = 1
    odd: int = 0  # elements of something larger before each operand
    busy: bool = False  # another thread computes


WAYS = (
    Way("again", APART, 0xA5),
    Way("right behind", BEHIND, 0xFF),
    Way("right before", BEFORE, 0x5A, odd=1),
    Way("anywhere", ODD, 0x7F, odd=3, threads=2),
    Way("right behind, 2 threads", BEHIND, 0xFF, 2, odd=7),
    Way("right before, 3 threads", BEFORE, 0xA5, 3, odd=5),
    Way("4 threads", ODD, 0x5A, 4, odd=10),
    Way("beside another thread", ODD, 0xFF, 2, odd=13, busy=True),
)


# ---------------------------------------------------------------- the allocator


class Arena(Handler):
    """Blocks side by side, in one order or the other, or with gaps of chance; all at multiples of 8 bytes. Compiled by Numba."""

    def __init__(self) -> None:
        from numba import cfunc, types

        from nbgrad.kernels.cpu.memory import at_i8

        libc = ctypes.CDLL(None)
        get, again, give = libc.malloc, libc.realloc, libc.free
        again.argtypes, again.restype = [ctypes.c_int64, ctypes.c_int64], ctypes.c_int64
        get.argtypes, get.restype = [ctypes.c_int64], ctypes.c_int64
        give.argtypes, give.restype = [ctypes.c_int64], None
        # Never given back: until the process ends blocks are. Untouched memory costs nothing.
        map_ = libc.mmap
        map_.argtypes = [ctypes.c_int64, ctypes.c_int64, *[ctypes.c_int] * 3, ctypes.c_int64]
        map_.restype = ctypes.c_int64
        how = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        at = map_(0, SEGMENT * (SEGMENTS + 1), mmap.PROT_READ | mmap.PROT_WRITE, how, -1, 0)
        base, end = at + SEGMENT, at + SEGMENT * (SEGMENTS + 1)
        # how blocks are laid, the bits that fill them (8 bytes), state of chance, segment, bytes used of it, then blocks of each segment
        self.state = np.ctypeslib.as_array((ctypes.c_int64 * (5 + SEGMENTS)).from_address(at))
        self.state[2] = 12345
        int_, nothing = types.int64, types.void

        from numba import njit

        @njit
        def allocate(size: int, fill: int) -> int:
            state = at_i8(at)
            laid, room = state[0], (max(size, 1) + 7) // 8 * 8
            gap = 0
            if laid == ODD:
                state[2] = (state[2] * 1103515245 + 12345) & 0x7FFFFFFF
                gap = (state[2] >> 16) % 17 * 8
            elif laid == APART:
                gap = 4096
            where = 0
            if room + gap > SEGMENT // 2:
                where = get(room + 64)
            else:
                if state[4] + room + gap > SEGMENT:
                    for k in range(1, SEGMENTS):
                        segment = (state[3] + k) % SEGMENTS
                        if state[5 + segment] == 0:
                            state[3], state[4] = segment, 0
                            break
                if state[4] + room + gap > SEGMENT:
                    where = get(room + 64)  # no segment is free
                else:
                    used = state[4] + gap
                    if laid == BEFORE:
                        where = base + (state[3] + 1) * SEGMENT - used - room
                    else:
                        if laid == APART:
                            used = (used + 63) // 64 * 64
                        where = base + state[3] * SEGMENT + used
                    state[4] = used + room
                    state[5 + state[3]] += 1
            if where:
                words = at_i8(where)
                for k in range(room // 8):
                    words[k] = fill
            return where

        @njit
        def release(where: int) -> None:
            if base <= where < end:
                at_i8(at)[5 + (where - base) // SEGMENT] -= 1
            elif where:
                give(where)

        def malloc(ctx: int, size: int) -> int:
            return allocate(size, at_i8(at)[1])

        def calloc(ctx: int, count: int, size: int) -> int:
            return allocate(count * size, 0)

        def realloc(ctx: int, old: int, size: int) -> int:
            if not base <= old < end:
                return again(old, size)
            where = allocate(size, at_i8(at)[1])
            words, before = at_i8(where), at_i8(old)
            for k in range(min((size + 7) // 8, (end - old) // 8)):  # how long that was, nobody has noted
                words[k] = before[k]
            release(old)
            return where

        def free(ctx: int, where: int, size: int) -> None:
            release(where)

        super().__init__(
            "arena",
            [
                cfunc(int_(int_, int_))(malloc),
                cfunc(int_(int_, int_, int_))(calloc),
                cfunc(int_(int_, int_, int_))(realloc),
                cfunc(nothing(int_, int_, int_))(free),
            ],
        )

    @contextmanager
    def lays(self, way: Way) -> Iterator[None]:
        """New arrays of this thread, as the way says."""
        free = np.flatnonzero(self.state[5:] == 0)  # what lies in a segment lies in one order
        self.state[3], self.state[4] = (free[0], 0) if len(free) else (self.state[3], SEGMENT)
        self.state[0], self.state[1] = way.laid, int.from_bytes(bytes([way.fill]) * 8, "little", signed=True)
        before = self.install()
        try:
            yield
        finally:
            set_handler(before)


@cache
def one_arena() -> Arena:
    """There to the end of the process and beyond: what it has lent, it is given back by whoever ends last."""
    made = Arena()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


# ---------------------------------------------------------------- the cases


def sizes(case: OpCase, counts: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The case's shapes as they are, and its first ones grown to about so many elements: in all dimensions, else in the last or the first
    where the case takes no other."""
    yield from case.shapes
    if case.elementwise:
        for count in counts:
            yield tuple((count,) for _ in case.shapes[0])
        return
    for shapes in dict.fromkeys(case.shapes[:2]):
        largest = max(shapes, key=lambda s: (prod(s), len(s)), default=())
        whole = prod(largest)
        if whole < 2:
            continue
        for count in counts:
            by, along = max(2, round((count / whole) ** (1 / len(largest)))), max(2, round(count / whole))
            last, first = largest[-1], largest[0]
            for factor, which in ((by, set(largest)), (along, {last}), (along, {first})):
                grown = tuple(tuple(n * factor if n in which and n > 1 else n for n in s) for s in shapes)
                if max(map(prod, grown)) <= 4 * count:
                    yield grown


def operands(T: ModuleType, arrays: Sequence[np.ndarray], odd: int) -> list[Any]:
    """Leaves with these values, each from element `odd` on of something larger."""
    made = []
    for k, a in enumerate(arrays):
        t = tensor(T, a)
        if odd:
            before = (odd + 5 * k) % 16
            t = T.cat([T.zeros(before, dtype=t.dtype), t.flatten(), T.zeros(3, dtype=t.dtype)])
            t = T.as_strided(t, tuple(a.shape), tensor_strides(a.shape), before)
        made.append(t)
    return made


def tensor_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def digest(T: ModuleType, found: Any) -> list[bytes]:
    """The bits of all that was found; of NaNs there are many."""
    told = []
    for leaf in leaves(found):
        if not isinstance(leaf, T.Tensor):
            told.append(repr(leaf).encode())
            continue
        t = leaf.detach()
        if t.is_sparse or t.layout is not T.strided:
            t = t.to_dense()
        t = t.resolve_conj().resolve_neg() if t.is_complex() else t
        t = T.where(t.isnan(), T.zeros_like(t), t) if t.is_floating_point() else t
        a = (t.view(T.int16) if t.dtype is T.bfloat16 else t).numpy()
        told.append(a.tobytes())
    return told


def run(T: ModuleType, case: OpCase, arrays: Sequence[np.ndarray], odd: int) -> list[bytes]:
    """Values and gradients."""
    T.manual_seed(0)
    given = operands(T, arrays, odd)
    grads = case.differentiable and any(t.dtype.is_floating_point for t in given)
    if grads:
        given = [t.detach().requires_grad_() if t.dtype.is_floating_point else t for t in given]
    found = leaves(case.fn(T, *given))
    told = digest(T, found)
    ends = [t for t in found if isinstance(t, T.Tensor) and t.requires_grad]
    if ends:
        rng = np.random.default_rng(7)
        seeds = []
        for t in ends:
            values = rng.uniform(0.5, 1.5, tuple(t.shape))
            (seed,) = operands(T, [as_dtype(values, str(t.dtype).partition(".")[2])], odd)
            seeds.append(seed)
        inputs = [t for t in given if t.requires_grad]
        told += digest(T, list(T.autograd.grad(ends, inputs, seeds, allow_unused=True)))
    return told


def different(T: ModuleType, arena: Arena, case: OpCase, dtype: str, counts: Sequence[int]) -> Iterator[str]:
    """What of a case has other bits in some way; each size that it takes is told as well, by an empty line."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    seen = set()
    many = False  # whether results are of as many elements as operands' product, as `kron`'s are
    for shapes in sizes(case, counts):
        elements = sum(map(prod, shapes))
        if shapes in seen or (many and elements > 2000):
            continue
        seen.add(shapes)
        try:
            arrays = [draw(case, i, s, dtype, rng) for i, s in enumerate(shapes)]
            T.set_num_threads(1)
            first = run(T, case, arrays, 0)
        except Exception:
            continue  # it takes no such shapes
        many |= sum(map(len, first)) > 100 * max(elements, 8)
        yield ""
        for way in WAYS:
            T.set_num_threads(way.threads)
            with arena.lays(way), beside(T, way.busy):
                try:
                    told = run(T, case, arrays, way.odd)
                except Exception as error:
                    yield f"{case.name} {dtype} {shapes}: {way.name}: {type(error).__name__}: {error}"
                    continue
            if told != first:
                which = [k for k, (a, b) in enumerate(zip(first, told, strict=True)) if a != b]
                yield f"{case.name} {dtype} {shapes}: {way.name}: results {which} of {len(first)}"


@contextmanager
def beside(T: ModuleType, busy: bool) -> Iterator[None]:
    """Another thread computes what the crew helps with."""
    if not busy:
        yield
        return
    done = threading.Event()

    def work() -> None:
        x = T.ones(1 << 16)
        while not done.is_set():
            x = (x * 0.5).tanh()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# ---------------------------------------------------------------- what is no case of the table

MORE: dict[str, OpCase] = {}


def more(name: str, fn: Any, *shapes: tuple[tuple[int, ...], ...], **rest: Any) -> None:
    MORE[name] = OpCase(name, fn, shapes, dtypes=rest.pop("dtypes", FLOATING), **rest)


def _classes(T: ModuleType, n: int, count: int) -> Any:
    return T.arange(n) * 7 % count


def _cross_entropy(T: ModuleType, x: Any, w: Any) -> Any:
    loss = T.nn.functional.cross_entropy
    at = _classes(T, len(x), x.shape[1])
    return [loss(x, at), loss(x, at, weight=w.detach(), label_smoothing=0.1, reduction="none")]


def _norms(T: ModuleType, x: Any, w: Any, b: Any) -> Any:
    f, mean, var = T.nn.functional, T.zeros(len(w), dtype=x.dtype), T.ones(len(w), dtype=x.dtype)
    y = f.batch_norm(x, mean, var, w, b, training=True)
    return [y, mean, var, f.group_norm(x, len(w) // 2, w, b), f.instance_norm(x, weight=w, bias=b)]


def _embeddings(T: ModuleType, w: Any) -> Any:
    f, at = T.nn.functional, _classes(T, 3 * len(w), len(w))
    bags = f.embedding_bag(at.reshape(-1, 3), w, mode="mean")
    return [f.embedding(at, w), bags, w.index_select(0, at), T.zeros_like(w).index_add(0, at, w[at])]


def _places(T: ModuleType, x: Any) -> Any:
    at = _classes(T, x.shape[0], 5).reshape(-1, 1).expand(x.shape)
    sums = T.zeros(5, x.shape[1], dtype=x.dtype).scatter_add(0, at, x)
    put = T.zeros(5, x.shape[1], dtype=x.dtype).index_put((at[:, 0],), x, accumulate=True)
    return [sums, put, x.gather(0, at), x[at[:, 0], 1:]]


def _drops(T: ModuleType, x: Any) -> Any:
    return [T.nn.functional.dropout(x, 0.3), T.nn.functional.gumbel_softmax(x, dim=-1)]


def _attends(T: ModuleType, q: Any, k: Any, v: Any) -> Any:
    attend = T.nn.functional.scaled_dot_product_attention
    return [attend(q, k, v), attend(q, k, v, is_causal=True)]


def _updates(T: ModuleType, name: str, kwargs: dict[str, Any], *given: Any) -> Any:
    """Parameters and what an optimizer keeps of them, after three steps."""
    made = [T.nn.Parameter(t.detach()) for t in given]  # where they lie
    optimizer = getattr(T.optim, name)(made, **kwargs)
    for k in range(3):
        for p, t in zip(made, given):
            p.grad = (t.detach() * (k + 0.5)).sin()
        optimizer.step()
    kept = [v for p in made for v in optimizer.state[p].values() if isinstance(v, T.Tensor)]
    return [p.detach() for p in made] + kept


@cache
def _compiled(T: ModuleType, name: str) -> Any:
    """A step of its own, recorded once and done again wherever its arguments lie."""
    f = T.nn.functional

    def chain(x: Any, w: Any) -> Any:
        y = ((x * w).tanh() + x.exp()).sigmoid() * w
        return (*T.autograd.grad((y * y).sum(), [x, w]), y.detach())

    def rows(x: Any, w: Any) -> Any:
        y = f.softmax(f.layer_norm(f.gelu(x), x.shape[-1:]) * w, -1)
        return (*T.autograd.grad((y * y.detach().exp()).sum(), [x, w]), y.detach())

    def net(x: Any, w: Any) -> Any:
        y = f.relu(x @ w.T) @ w
        loss = f.cross_entropy(y, _classes(T, len(x), y.shape[1]))
        return (*T.autograd.grad(loss, [x, w]), loss.detach())

    return T.compile({"chain": chain, "rows": rows, "net": net}[name])


def _step(T: ModuleType, name: str, x: Any, w: Any) -> Any:
    return [t.clone() for t in _compiled(T, name)(x, w)]


_SHAPE = ((3, 4),)
more("cross_entropy", _cross_entropy, ((3, 4), (4,)))
more("norms", _norms, ((3, 4, 5), (4,), (4,)))
more("embeddings", _embeddings, _SHAPE)
more("places", _places, _SHAPE)
more("drops", _drops, _SHAPE)
more("attends", _attends, ((1, 2, 3, 4),) * 3)
for _name, _kwargs in (
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    *(("SGD", {"lr": 0.1, "momentum": 0.9, "foreach": True}), ("Adam", {"foreach": True}), ("Adam", {})),
    *(("AdamW", {"amsgrad": True}), ("RMSprop", {"centered": True}), ("Adagrad", {}), ("NAdam", {})),
):
    more(
        f"{_name} {_kwargs}",
        partial(
            lambda T, *given, name, kwargs: _updates(T, name, kwargs, *given), name=_name, kwargs=_kwargs
        ),
        ((3, 4), (5,), (3, 4)),
        differentiable=False,
        dtypes=FLOATS,
    )
for _name in ("chain", "rows", "net"):
    shapes = ((6, 4), (4,)) if _name == "rows" else ((6, 4), (6, 4)) if _name == "chain" else ((6, 4), (3, 4))
    more(
        f"compiled {_name}",
        partial(lambda T, x, w, name: _step(T, name, x, w), name=_name),
        shapes,
        dtypes=FLOATS,
    )


MANY = (7, 23, 45, 130, 700, 5000, 40000, 110000)


def check(names: Sequence[str], dtypes: Sequence[str], counts: Sequence[int]) -> tuple[int, list[str]]:
    """How many sizes of these cases were run, and what differs; it is printed as it is found."""
    from tests.support import T

    arena, before, sizes_, wrong = one_arena(), T.get_num_threads(), 0, []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in names:
                case = MORE.get(name) or CASES[name]
                for dtype in [d for d in dtypes if d in case.dtypes]:
                    for line in different(T, arena, case, dtype, counts):
                        sizes_ += not line
                        if line:
                            wrong.append(line)
                            print(line, flush=True)
    finally:
        T.set_num_threads(before)
    return sizes_, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("cases", nargs="*", help="names of cases; all if none is given")
    parser.add_argument("--dtypes", default=",".join(FLOATING))
    parser.add_argument("--counts", default=",".join(map(str, MANY)), help="elements, about")
    options = parser.parse_args()
    names = options.cases or [*MORE, *CASES]
    taken, wrong = check(names, options.dtypes.split(","), [int(n) for n in options.counts.split(",")])
    print(f"{taken} sizes of cases in {len(WAYS)} ways, {len(wrong)} of them with other bits")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
