"""Random tensors of each kind, with the streams of PyTorch."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nbgrad.base.tables import DEFAULT_DTYPE, PLANS, Table
from nbgrad.core.arguments import before_guard, unset
from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.dispatch.transforms import batched
from nbgrad.memory import backend, dtypes
from nbgrad.memory.device import elsewhere
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.storage import Spec
from nbgrad.ops.make import devices
from nbgrad.ops.make import generator as _random
from nbgrad.ops.make.data import from_array
from nbgrad.ops.make.factories import (
    _SEQUENCES,
    DRAWN_BYTES,
    _finish,
    _named,
    _of_a_like,
    _of_out,
    _sized,
    _spec,
    of_draws,
)
from nbgrad.ops.make.filled import _like, empty_like
from nbgrad.ops.order.sort import argsort
from nbgrad.ops.views.copy import moved, to_dtype
from nbgrad.tape.modes import state


def generator_of(generator: Any) -> _random.Generator:
    """The CPU's generator to draw from, if a vmap that is running allows to."""
    for level in state.levels:
        if level.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
                "flags on vmap or perform the randomness operation out of vmap"
            )
    if generator is not None and generator.device.type != "cpu":
        raise devices.of_another("cpu", generator)
    return _random.default_generator if generator is None else generator


def per_example(make: Callable[[tuple[int, ...]], Tensor], shape: Sequence[int]) -> Tensor:
    """What `make` gives of a shape; in a vmap whose examples are to have different random numbers, one for each example."""
    levels = [level for level in state.levels if level.randomness == "different"]
    t = make((*[level.size for level in levels], *shape))
    for level in levels:
        t = batched(t, level)
    return t


def _drawn(
    sp: Spec,
    generator: Any,
    draw: Callable[[Any, int, _dtype], Any],
    there: Callable[[Tensor, Any], Tensor],
) -> Tensor:
    """A tensor of what `draw(generator, n, dtype)` gives, as bytes, or that `there(t, generator)` fills on a GPU; where no memory is,
    nothing is drawn."""
    if not sp.backend.prompt:
        if not sp.backend.holds:
            return empty(sp)
        if not state.levels:
            return there(empty(sp), generator)
        generator_of(None)  # refuses, where random numbers are
        return per_example(lambda shape: there(empty(sp.like(shape)), generator), tuple(sp.shape))
    if generator is not None and generator.device.type != "cpu":
        raise devices.of_another("cpu", generator)
    if not state.levels:
        gen = _random.default_generator if generator is None else generator
        return wrap(sp.backend.from_host(draw(gen, sp.numel, sp.dtype)), sp)
    gen = generator_of(generator)
    return per_example(
        lambda shape: wrap(sp.backend.from_host(draw(gen, prod(shape), sp.dtype)), sp.like(shape)),
        tuple(sp.shape),
    )


@of_draws(lambda t: _random.few_units(t._spec), "uniform_")
def rand(sp: Spec, generator: Any) -> Tensor:
    """Numbers drawn uniformly from 0 up to, but without, 1, in a tensor of these sizes: one by one, or a sequence. `generator` is what
    draws, the default one unless given.

    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """
    return _drawn(sp, generator, _random.units, devices.uniform)


@of_draws(lambda t: _random.few_normals(t._spec), "normal_")
def randn(sp: Spec, generator: Any) -> Tensor:
    """Numbers drawn from the normal distribution of mean 0 and deviation 1, in a tensor of these sizes: one by one, or a sequence.
    `generator` is what draws, the default one unless given.

    >>> torch.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    return _drawn(sp, generator, _random.normals, devices.normal)


def _range(low: Any = None, high: Any = None, size: Any = None, dtype: Any = None) -> tuple[Any, ...]:
    """What is asked of `randint`, whose first number is the end where no other is given."""
    if size is None:
        return 0, low, high, dtype
    if low is None:
        return 0, high, size, dtype
    return (0, low, size, dtype) if high is None else (low, high, size, dtype)


def _of_integers(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    known: Table[Any, tuple[_random.Draw, Spec]] = Table("ops.make.drawn.integers", PLANS, DEFAULT_DTYPE)
    find = known.get

    def short(*args: Any, **more: Any) -> Tensor:
        try:
            low, high, size, dtype = _range(*args, **more)
        except TypeError:  # of what else may be given
            return slow(*args, **more)
        if (
            size.__class__ not in _SEQUENCES
            or state.levels
            or elsewhere.threads
            or not (dtype is None or type(dtype) is _dtype)
        ):
            return slow(*args, **more)
        key = low, high, dtype, *size
        for n in (low, high, *size):
            if n.__class__ is not int:
                return slow(*args, **more)
        found = find(key)
        if found is None:
            t = slow(*args, **more)
            sp = t._spec
            if type(sp) is Spec and sp.nbytes <= DRAWN_BYTES and sp.backend is backend.cpu:
                draw = _random.few_integers(sp, low, high)
                if draw is not None:
                    known.keep(key, (draw, sp))
            return t
        return wrap(found[0](), found[1])

    return short


def _of_a_count(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    known: Table[int, tuple[_random.Draw, Spec]] = Table("ops.make.drawn.orders", PLANS)
    find = known.get

    def short(n: Any = unset, **more: Any) -> Tensor:
        if more or n.__class__ is not int or state.levels or elsewhere.threads:
            return slow(n, **more)
        found = find(n)
        if found is None:
            t = slow(n)
            if type(t._spec) is Spec and 0 < t._spec.nbytes <= DRAWN_BYTES and t._spec.backend is backend.cpu:
                known.keep(n, (_random.few_places(n), t._spec))
            return t
        return wrap(found[0](), found[1])

    return short


@partial(before_guard, _of_integers)
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers drawn from `low` (0 unless given) up to, but without, `high`, in a tensor of sizes `size`.

    >>> torch.randint(10, (5,))
    tensor([4, 9, 3, 0, 3])
    """
    if out is not None:
        dtype = _of_out("randint", out, dtype)
    low, high, size, dtype = _range(low, high, size, dtype)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    sp = _spec("randint", (size,), dtypes.int64 if dtype is None else dtype, device, requires_grad)
    if sp.dtype.is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")

    def draw(gen: Any, n: int, d: _dtype) -> Any:
        return dtypes.packed(_random.randint(gen, low, high, n, d), d).view(np.uint8)

    if out is not None:
        return _finish(_sized(out, sp.shape).random_(low, high, generator=generator), requires_grad)
    made = _drawn(sp, generator, draw, lambda t, gen: devices.randint(t, gen, low, high))
    return _finish(made, requires_grad)


@partial(before_guard, _of_a_count)
def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers 0 to `n - 1` in an order that is drawn, each one as likely.

    >>> torch.randperm(5)
    tensor([4, 0, 1, 3, 2])
    """
    if out is not None:
        dtype = _of_out("randperm", out, dtype)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    sp = _spec("randperm", (n,), dtypes.int64 if dtype is None else dtype, device)
    lacks_kernel("randperm", sp.dtype)
    if sp.dtype is dtypes.bool_:
        raise NotImplementedError("\"randperm\" not implemented for 'Bool'")
    _check_many(n, sp.dtype)
    if not sp.backend.holds:
        return _finish(empty(sp), requires_grad, out)
    if not sp.backend.prompt and n:
        return _finish(to_dtype(_order_there(sp, generator), sp.dtype), requires_grad, out)
    gen = generator_of(generator)

    def orders(shape: tuple[int, ...]) -> Tensor:
        return from_array(
            np.stack([_random.randperm(gen, n) for _ in builtins.range(prod(shape[:-1]))]).reshape(shape)
        )

    t = per_example(orders, (n,)) if state.levels else from_array(_random.randperm(gen, n))
    return _finish(moved(t, sp.dtype, sp.device), requires_grad, out)


def _check_many(n: int, d: dtypes.dtype) -> None:
    """Whether a dtype tells so many numbers apart; PyTorch does not ask this of bfloat16."""
    if not d.is_floating_point:
        dtypes.fitting(max(n - 1, 0), d)
    elif d is not dtypes.bfloat16 and n > (most := _random.greatest(d) + 1):
        shown = most if d is dtypes.float16 else f"2^{(most - 1).bit_length() - 1}+1"
        raise RuntimeError(f"n cannot be greater than {shown} for {d.scalar_name} type.")


def _order_there(sp: Spec, generator: Any) -> Tensor:
    """The order of as many random integers, on a GPU; PyTorch's is another."""
    keys = sp.like(dtype=dtypes.int64)

    def drawn(shape: tuple[int, ...]) -> Tensor:
        return argsort(devices.random(empty(keys.like(shape)), generator), -1)

    generator_of(None)
    return per_example(drawn, tuple(sp.shape))


def _draws_where_they_lie(input: Tensor, memory_format: Any) -> bool:
    """Whether a tensor like this one is filled in the order of its memory, which may not be that of its elements."""
    return not state.levels and (like := _like(input, None, memory_format)).strides != like.dense().strides


def _draws_like(
    memory_of: Callable[[Tensor], Any], fill: str
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """A function of a tensor, of what draws a shape in the order of its elements; `fill` is the method that draws into a tensor."""

    def decorate(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def factory(
            input: Tensor,
            *,
            generator: Any = None,
            dtype: Any = None,
            device: Any = None,
            requires_grad: bool = False,
            memory_format: Any = None,
        ) -> Tensor:
            if _draws_where_they_lie(input, memory_format):
                t = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
                t = getattr(t, fill)(generator=generator)
                return _finish(t, requires_grad)
            return draw(
                input.shape,
                generator=generator,
                dtype=dtype or input.dtype,
                device=device or input.device,
                requires_grad=requires_grad,
            )

        return _of_a_like(memory_of, DRAWN_BYTES)(_named(factory, draw))

    return decorate


@_draws_like(lambda t: _random.few_units(t._spec), "uniform_")
def rand_like(shape: Sequence[int], **more: Any) -> Tensor:
    """`rand` in the shape and dtype of `input`, laid out as it is.

    >>> torch.rand_like(torch.ones(3))
    tensor([0.4963, 0.7682, 0.0885])
    """
    return rand(shape, **more)


@_draws_like(lambda t: _random.few_normals(t._spec), "normal_")
def randn_like(shape: Sequence[int], **more: Any) -> Tensor:
    """`randn` in the shape and dtype of `input`, laid out as it is.

    >>> torch.randn_like(torch.ones(3))
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    return randn(shape, **more)


def _few_integers_like(
    input: Spec,
    low: Any,
    high: Any,
    *,
    generator: Any,
    dtype: Any,
    device: Any,
    requires_grad: Any,
    memory_format: Any,
) -> Quick | None:
    if requires_grad or not (generator is device is memory_format is None):
        return None
    low, high = (0, low if high is None else high) if low is None or high is None else (low, high)
    if (
        {type(low), type(high)} != {int}
        or low >= high
        or not input.canonical
        or not (dtype is None or type(dtype) is _dtype)
    ):
        return None
    sp = input if dtype is None else input.like(dtype=dtype)
    draw = _random.few_integers(sp, low, high) if sp.nbytes <= DRAWN_BYTES else None
    return None if draw is None else lambda t: wrap(draw(), sp)


@quickly(_few_integers_like, records=False)
def randint_like(
    input: Tensor,
    low: Any = None,
    high: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`randint` in the shape and dtype of `input`, laid out as it is: from `low` (0 unless given) up to, but without, `high`.

    >>> torch.randint_like(torch.ones(3), 10)
    tensor([4., 9., 3.])
    """
    low, high = (0, low if high is None else high) if low is None or high is None else (low, high)
    low, high = int(low), int(high)
    if (dtype or input.dtype).is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    if _draws_where_they_lie(input, memory_format) and low < high:
        t = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
        return _finish(t.random_(low, high, generator=generator), requires_grad)
    return randint(
        low,
        high,
        input.shape,
        generator=generator,
        dtype=dtype or input.dtype,
        device=device or input.device,
        requires_grad=requires_grad,
    )


__all__ = ["rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"]
