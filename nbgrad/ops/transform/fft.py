"""The Fourier transforms that all others are made of: of complex numbers, of real ones to complex ones, and back.

Each is linear, and its gradient is one of them again, from the other end; so every order of derivative follows. Of real numbers the
second half of a transform are conjugates of the first, which alone is computed where it is `onesided`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.prepared import Run, prepared
from nbgrad.kernels.cpu import fft as kernels
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.transform.passes import Factors, Lane, Pass, Passes
from nbgrad.ops.views.copy import clone, fill_memory, full
from nbgrad.ops.views.parts import real
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import select

NONE, BY_ROOT, BY_COUNT = 0, 1, 2  # what a transform is divided by
_bytes = np.dtype(np.uint8)
_SMALL = 256  # numbers of a table that stays as long as its plan
_WORK = 4  # of a number in a pass, in elements of a simple kernel


def _scale(normalization: int, count: int) -> float:
    return {NONE: 1.0, BY_ROOT: 1 / sqrt(count), BY_COUNT: 1 / count}[normalization]


# ---------------------------------------------------------------- how results lie, and the passes


def _laid(sp: Spec, shape: Ints, dims: Sequence[int], dtype: dtypes.dtype) -> Spec:
    """As PyTorch lays a result: what is transformed innermost, in this order, and what is not as it lies in the input."""
    outer = sorted([d for d in range(sp.ndim) if d not in dims], key=lambda d: -sp.strides[d])
    strides, step = [0] * sp.ndim, 1
    for d in reversed([*outer, *dims]):
        strides[d], step = step, step * shape[d]
    return sp.like(shape, tuple(strides), dtype)


def _by_stride(sp: Spec, dims: Sequence[int]) -> list[int]:
    return sorted(dims, key=lambda d: -sp.strides[d])


def _unit(sp: Spec) -> int:
    return 2 if sp.dtype.is_complex else 1


def _lanes(x: Spec, o: Spec, dim: int) -> list[Lane]:
    """Where transforms along `dim` lie, those nearest to each other first, as few dimensions as can be."""
    shape = tuple(o.shape)
    found: list[Lane] = []
    for d in sorted([d for d in range(o.ndim) if d != dim and shape[d] != 1], key=lambda d: x.strides[d]):
        step = Lane(shape[d], x.strides[d] * _unit(x), o.strides[d] * _unit(o))
        if found and (step.x, step.o) == (found[-1].x * found[-1].size, found[-1].o * found[-1].size):
            found[-1] = found[-1]._replace(size=found[-1].size * step.size)
        else:
            found.append(step)
    return found


def _along(passes: Passes, x: Spec, o: Spec, source: int, target: int, dim: int, **how: Any) -> None:
    n = tuple.__getitem__(x.shape if how.get("to") == "half" else o.shape, dim)
    step, other = x.strides[dim] * _unit(x), o.strides[dim] * _unit(o)
    passes.add(n, source, target, step, other, _lanes(x, o, dim), **how)


def _code(sp: Spec) -> str:
    code: str = sp.dtype.to_real().code
    return code


def _passes(sp: Spec) -> Passes:
    if sp.device.type == "cuda":
        return Passes(*kernels.ON_DEVICE)
    return Passes(kernels.LANES[_code(sp)], kernels.LONGEST)


def _kernel(sp: Spec, passes: Passes, step: Pass) -> int:
    code = _code(sp)
    text = kernels.along(code, step.of, step.to, passes.lanes, passes.longest)
    address: int = sp.backend.kernel(f"fft_{code}_{step.of}_{step.to}", *text, True, False).address
    return address


def _numbers(sp: Spec, table: Factors) -> Callable[[], Any]:
    """What gives a table's memory: one that is small is kept, others are looked for."""
    serves, code = sp.backend, _code(sp)
    if table.size > _SMALL:
        return lambda: _held(serves, table, code)
    found = _held(serves, table, code)
    return lambda: found


@cached(128)
def _held(serves: Any, table: Factors, code: str) -> Any:
    return serves.from_host(table.numbers(code))


def _run(sp: Spec, out: Spec, passes: Passes) -> Run:
    serves, allocate, size = sp.backend, sp.allocate, 2 * sp.dtype.to_real().itemsize
    calls: list[Any] = []
    for step in passes.steps:
        items = -(-step.transforms // passes.lanes)
        launch = serves.launch(
            6, "ddd", _WORK * step.n * step.transforms if items > 1 else items, step.n < FEW
        )
        roots = _numbers(sp, Factors("roots", (step.roots,)))
        tables = [_numbers(sp, t) if t else roots for t in (step.before, step.after)]
        numbers = step.by, step.by * step.sign_out, step.sign
        meta = serves.constants(step.meta())
        calls.append(
            (
                launch,
                _kernel(sp, passes, step),
                items,
                meta,
                step.target,
                step.source,
                roots,
                *tables,
                numbers,
            )
        )
    rooms = [room * size for room in passes.rooms]

    def run(t: Tensor) -> Tensor:
        got = empty(out)
        memory = [t._buf, got._buf, *[allocate(room, _bytes) for room in rooms]]
        for launch, address, items, meta, target, source, roots, before, after, numbers in calls:
            launch(address, items, meta, memory[target], memory[source], roots(), before(), after(), *numbers)
        return got

    return run


# ---------------------------------------------------------------- complex numbers


@prepared(
    "FftC2C",
    tangent=LINEAR,
    batch=lambda x, dim, **how: _fft_c2c(x, dim=tuple([d + 1 for d in dim]), **how),
    input=lambda g, dim, normalization, forward: _fft_c2c(
        g, dim=dim, normalization=normalization, forward=not forward
    ),
)
def _fft_c2c(input: Spec, *, dim: Ints, normalization: int, forward: bool) -> Run:
    """Of complex numbers, along each of `dim`."""
    return padded_c2c(input, input, dim, normalization, forward) if dim else clone


def _as_padded(input: Spec, padded: Spec, dim: int) -> tuple[Spec, dict[str, int]]:
    """What is read of an input as if zeros came behind it along `dim`, and how many numbers come before them."""
    if padded is input:
        return input, {}
    return padded.like(padded.shape, input.strides), {"have": tuple.__getitem__(input.shape, dim)}


def padded_c2c(given: Spec, input: Spec, dim: Ints, normalization: int, forward: bool) -> Run:
    """The same of what is as `input` once it is padded along its one dimension."""
    shape = tuple(input.shape)
    dims = _by_stride(input, dim)
    out, passes = _laid(input, shape, dims, input.dtype), _passes(input)
    input, have = _as_padded(given, input, dims[-1])
    sign = 1.0 if forward else -1.0
    for k, d in enumerate(reversed(dims)):
        by = _scale(normalization, prod([shape[d] for d in dims])) if k == len(dims) - 1 else 1.0
        _along(passes, out if k else input, out, 1 if k else 0, 1, d, by=by, sign=sign, sign_out=sign, **have)
        have = {}
    return _run(input, out, passes)


# ---------------------------------------------------------------- of real numbers


def _weights(g: Tensor, dim: int, n: int, inner: float) -> Tensor:
    """`g`, of which those that stand for their conjugates as well are multiplied by a number."""
    count = tuple.__getitem__(g.shape, dim)
    made = full(spec(g._spec.dtype.to_real(), (count,), None, g._spec.device), inner)
    for alone in (0, *range(1 + n - count, count)):
        fill_memory(select(made, 0, alone), 1.0)
    shape = [1] * g.ndim
    shape[dim] = count
    return e.mul(g, reshape(made, tuple(shape)))


def _r2c_rule(g: Tensor, dim: Ints, normalization: int, onesided: bool, input_spec: Spec) -> Tensor:
    if not onesided:
        return real(_fft_c2c(g, dim=dim, normalization=normalization, forward=False))
    n = tuple.__getitem__(input_spec.shape, dim[-1])
    half = _weights(g, dim[-1], n, 0.5)
    return _fft_c2r(half, dim=dim, normalization=normalization, last_dim_size=n)


@prepared(
    "FftR2C",
    tangent=LINEAR,
    batch=lambda x, dim, **how: _fft_r2c(x, dim=tuple([d + 1 for d in dim]), **how),
    input=_r2c_rule,
)
def _fft_r2c(input: Spec, *, dim: Ints, normalization: int, onesided: bool) -> Run:
    """Of real numbers, along each of `dim`; along the last of them the first half alone, if `onesided`."""
    return padded_r2c(input, input, dim, normalization, onesided)


def padded_r2c(given: Spec, input: Spec, dim: Ints, normalization: int, onesided: bool) -> Run:
    """The same of what is as `input` once it is padded along its one dimension."""
    *others, last = dim
    sizes = list(input.shape)
    n = sizes[last]
    if onesided:
        sizes[last] = n // 2 + 1
    dims = [*_by_stride(input, others), last]
    out, passes = _laid(input, tuple(sizes), dims, input.dtype.to_complex()), _passes(input)
    by = _scale(normalization, prod([input.shape[d] for d in dims]))
    input, have = _as_padded(given, input, last)
    half = {"to": "half", "keep": n // 2 + 1} if onesided else {}
    _along(passes, input, out, 0, 1, last, of="real", of_real=True, by=1.0 if others else by, **half, **have)
    for k, d in enumerate(dims[:-1]):
        _along(passes, out, out, 1, 1, d, by=by if k == len(others) - 1 else 1.0)
    return _run(input, out, passes)


# ---------------------------------------------------------------- to real numbers


def _c2r_rule(g: Tensor, dim: Ints, normalization: int) -> Tensor:
    n = tuple.__getitem__(g.shape, dim[-1])
    made = _fft_r2c(g, dim=dim, normalization=normalization, onesided=True)
    return _weights(made, dim[-1], n, 2.0)


@prepared(
    "FftC2R",
    tangent=LINEAR,
    batch=lambda x, dim, **how: _fft_c2r(x, dim=tuple([d + 1 for d in dim]), **how),
    input=_c2r_rule,
)
def _fft_c2r(input: Spec, *, dim: Ints, normalization: int, last_dim_size: int) -> Run:
    """Backward, along each of `dim`, to real numbers, `last_dim_size` of them along the last, of which the first half of the transform is
    there."""
    *others, last = dim
    sizes = list(input.shape)
    sizes[last] = n = last_dim_size
    passes = _passes(input)
    between, source = input, 0
    if others:
        dims = _by_stride(input, others)
        between = _laid(input, tuple(input.shape), dims, input.dtype)
        room = passes.room(between.numel)
        for d in reversed(dims):
            _along(passes, between if source else input, between, source, room, d, sign=-1.0, sign_out=-1.0)
            source = room
    out = _laid(between, tuple(sizes), [last], input.dtype.to_real())
    by = _scale(normalization, prod([sizes[d] for d in dim]))
    _along(
        passes, between, out, source, 1, last,
        of="half", to="real", have=n // 2 + 1, by=by, sign=-1.0, sign_out=-1.0,
    )  # fmt: skip
    return _run(input, out, passes)
