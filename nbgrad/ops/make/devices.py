"""Random numbers on a GPU: PyTorch's streams of Philox 4x32-10, for one seed the same words as `torch` gives there.

Promises the tensor layer what `generator` promises of the CPU's. PyTorch's grid is part of its numbers: blocks of 256 threads, of which
there are no more than the device runs at once. Uniform and normal numbers, integers, trials of one chance and dropout's noise are
PyTorch's; so is what is a function of one of them. What else is drawn is as good, but not the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nbgrad.base.switches import noting
from nbgrad.base.tables import PLANS, cached
from nbgrad.core.tensor import Tensor, empty
from nbgrad.kernels.cuda import counting, counts
from nbgrad.kernels.cuda import philox as templates
from nbgrad.memory import dtypes
from nbgrad.memory import philox as streams
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.make import generator as _random
from nbgrad.ops.pointwise.functions import tan
from nbgrad.ops.pointwise.numeric import ceil
from nbgrad.ops.views.copy import contiguous, copy_memory, full, to_dtype

_THREADS = 256  # of a block


def stream_of(generator: Any, sp: Spec) -> streams.Philox:
    """What a tensor that lies so is drawn from."""
    noting.refuse()
    if generator is None:
        return streams.of(sp.device.index or 0)
    if generator.device.type != sp.device.type:
        raise of_another(sp.device.type, generator)
    stream: streams.Philox = generator.stream
    return stream


def of_another(kind: str, generator: Any) -> RuntimeError:
    return RuntimeError(f"Expected a '{kind}' device type for generator but found '{generator.device.type}'")


@cached(8)
def _most(served: Any) -> int:
    """Blocks that a device runs at once."""
    has = served.driver.properties()
    return int(has.multi_processor_count * (has.max_threads_per_multi_processor // _THREADS))


@cached(PLANS)
def _drawing(
    served: Any, kind: str, code: str, n: int, close: bool, captured: bool
) -> tuple[Callable[..., None], int]:
    """What draws `n` elements into a buffer, or in a graph into the first of two, and how far that takes a stream."""
    threads = _THREADS * min(-(-n // _THREADS), _most(served))
    turns = (n - 1) // (threads * templates.unroll(kind, code)) + 1
    address = served.kernel(
        f"philox_{kind}_{code}{'_close' * close}{'_captured' * captured}",
        *templates.source(kind, code, close, captured),
    ).address
    launch = served.launch(1 + captured, "qqqqq" + templates.numbers(kind), threads)

    def run(made: tuple[Any, ...], seed: int, offset: int, *numbers: float) -> None:
        launch(address, threads, *made, n, threads, turns, seed, offset, *numbers)

    return run, 4 * turns


def _draw(t: Tensor, generator: Any, kind: str, *numbers: float, close: bool = False) -> Tensor:
    """Fill a tensor that lies contiguous."""
    sp = t._spec
    if sp.numel:
        served: Any = sp.backend
        stream, graph = stream_of(generator, sp), served.recording()
        run, steps = _drawing(served, kind, sp.dtype.code, sp.numel, close, graph is not None)
        if graph is None:
            seed, offset = stream.take(steps)
            run((t._buf,), _random._signed(seed), offset, *numbers)
        else:
            stood, offset = graph.take(stream, steps)
            run((t._buf, stood), 0, offset, *numbers)
    return t


@cached(PLANS)
def _drawing_counts(served: Any, name: str, code: str, n: int, captured: bool) -> Callable[..., None]:
    title, made = f"random_{name}_{code}{'_captured' * captured}", counts.source(name, code, captured)
    address, buffers = served.kernel(title, *made).address, len(made[1]) - 4
    return partial(served.launch(buffers, "qq", n), address, n)


def count(name: str, generator: Any, *inputs: Tensor) -> Tensor:
    """What the CPU draws from as many uniform numbers as it turns out to need: each element has its own."""
    sp = inputs[0]._spec.dense()
    out = empty(sp)
    if sp.numel and sp.backend.holds:
        served: Any = sp.backend
        stream, graph = stream_of(generator, sp), served.recording()
        steps = 4 * ((sp.numel - 1 >> 32) + 1)
        run = _drawing_counts(served, name, sp.dtype.code, sp.numel, graph is not None)
        given = [contiguous(t.detach())._buf for t in inputs]
        flag, _ = served.told.flag
        if graph is None:
            seed, offset = stream.take(steps)
            run(out._buf, *given, flag, _random._signed(seed), offset)
        else:
            stood, offset = graph.take(stream, steps)
            run(out._buf, *given, stood, flag, 0, offset)
    return out


@cached(64)
def _bounds(d: dtype, low: float, high: float) -> tuple[float, float, float]:
    """The lower one, how far the upper one is from it, and that."""
    _random._floating(d, "check_uniform_bounds")
    _random._check_uniform(d, low, high)
    begin, end = dtypes.rounded(np.array([low, high]), d)
    return float(begin), float(dtypes.rounded(end - begin, d)), float(end)


def uniform(t: Tensor, generator: Any, low: float = 0.0, high: float = 1.0) -> Tensor:
    return _draw(t, generator, "uniform", *_bounds(t._spec.dtype, low, high))


@cached(PLANS)
def _counting_up(served: Any, way: str, code: str, n: int) -> Callable[..., None]:
    text, codes = counting.source(way, code, served.prompt)
    letters = "".join(["d" if c[0] == "f" else "q" for c in codes[3:]])
    return partial(served.launch(1, letters, n), served.kernel(f"count_{way}_{code}", text, codes).address, n)


def counted(sp: Spec, way: str, *numbers: float) -> Tensor:
    """What `kernels/cuda/counting.py` counts."""
    out = empty(sp)
    if sp.numel:
        _counting_up(sp.backend, way, sp.dtype.code, sp.numel)(out._buf, *numbers)
    return out


def normal(t: Tensor, generator: Any, mean: float = 0.0, std: float = 1.0) -> Tensor:
    _random._floating(t._spec.dtype, "normal_kernel_cpu")
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    return _draw(t, generator, "normal", mean, std)


def randint(t: Tensor, generator: Any, low: int, high: int) -> Tensor:
    low, high = _random._checked_randint(low, high, t._spec.dtype)
    return _integers(t, generator, low, high - low)


def _integers(t: Tensor, generator: Any, low: int, span: int, wide: bool = False) -> Tensor:
    if span >= 2**64:
        return _draw(t, generator, "any")
    kind = "wide" if wide or span >= 2**28 else "below"
    return _draw(t, generator, kind, _random._signed(span), _random._signed(low))


def random(t: Tensor, generator: Any) -> Tensor:
    """From 0 on, as many integers as the dtype holds."""
    d = t._spec.dtype
    return _integers(t, generator, 0, _random.greatest(d) + 1, d.itemsize == 8)


def bernoulli(t: Tensor, generator: Any, p: float) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    return _draw(t, generator, "bernoulli", p)


def bernoulli_each(t: Tensor, generator: Any, chances: Tensor) -> Tensor:
    units = _units_for(t, generator, chances._spec.dtype)
    copy_memory(t, to_dtype(e.lt(units, chances), t._spec.dtype))
    return t


def noise(t: Tensor, generator: Any, p: float) -> Tensor:
    """What dropout multiplies by: 0, or with the chance `p` what keeps the mean."""
    chance = p if t._spec.dtype is dtypes.float64 else float(np.float32(p))
    return _draw(t, generator, "noise", chance, 1 / chance, close=t._spec.numel % 4 == 0)


def _units_for(t: Tensor, generator: Any, d: dtype | None = None) -> Tensor:
    d = t._spec.dtype if d is None else d
    kind = dtypes.float64 if d is dtypes.float64 else dtypes.float32
    return uniform(empty(t._spec.dense().like(dtype=kind)), generator)


def _of_units(t: Tensor, generator: Any, made: Callable[[Tensor, float], Tensor]) -> Tensor:
    """Functions of a uniform number, of which the dtype's epsilon is told."""
    units = _units_for(t, generator)
    copy_memory(t, to_dtype(made(units, float(np.finfo(units._spec.dtype.np).eps)), t._spec.dtype))
    return t


def exponential(t: Tensor, generator: Any, rate: float) -> Tensor:
    def made(u: Tensor, eps: float) -> Tensor:
        least = full(u._spec, -eps / 2)  # 1 must not become 0
        return e.mul(e.where(e.ge(u, 1 - eps / 2), least, e.log(u)), -1 / rate)

    return _of_units(t, generator, made)


def cauchy(t: Tensor, generator: Any, median: float, sigma: float) -> Tensor:
    def made(u: Tensor, eps: float) -> Tensor:
        inside = e.clamp(u, eps, 1 - eps)
        return e.add(e.mul(tan(e.mul(e.sub(inside, 0.5), math.pi)), sigma), median)

    return _of_units(t, generator, made)


def geometric(t: Tensor, generator: Any, p: float) -> Tensor:
    return _of_units(t, generator, lambda u, _: ceil(e.div(e.log(u), math.log1p(-p))))


def log_normal(t: Tensor, generator: Any, mean: float, std: float) -> Tensor:
    copy_memory(t, e.exp(normal(empty(t._spec.dense()), generator, mean, std)))
    return t
