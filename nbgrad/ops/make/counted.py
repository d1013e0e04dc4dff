"""Tensors that count: ranges, steps between two ends, indices of triangles, the identity."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_float
from typing import Any

import numpy as np

from nbgrad.base.warn import warn
from nbgrad.core import arguments
from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.memory import backend, dtypes
from nbgrad.memory.device import cpu, elsewhere
from nbgrad.memory.dtypes import evenly, get_default_dtype, rounded, rounding, stepwise
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.make import devices
from nbgrad.ops.make.factories import _LARGE, _counted, _finish, _of_out, _spec, of_numbers
from nbgrad.ops.views.copy import fill_memory
from nbgrad.ops.views.copy import zeros as _zeros
from nbgrad.tape.modes import state


def _counting(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The short way of a call with one int, or two that count upwards."""

    def shortened(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def short(*args: Any, **more: Any) -> Tensor:
            if (
                not more
                and not state.levels
                and not elsewhere.threads
                and 0 < len(args) < 3
                and {*map(type, args)} == {int}
            ):
                start, end = args if len(args) == 2 else (0, args[0])
                if -(2**62) < start <= end < 2**62 and end - start < _LARGE // 8:
                    counted = np.arange(start, end, dtype=np.int64)
                    return wrap(counted.view(np.uint8), spec(dtypes.int64, counted.shape, None, cpu))
            return function(*args, **more)

        return short

    return arguments.before_guard(shortened, function)


def _counts(sp: Spec, count: Callable[[], np.ndarray[Any, Any]], way: str = "", *numbers: Any) -> Tensor:
    """A tensor laid out so of numbers that the CPU works out, rounded to its dtype; where no memory is, of none. A GPU counts itself, where
    it knows the way; between two ends floats are counted by the same kernel everywhere."""
    if not sp.backend.holds:
        return empty(sp)
    if way and (not sp.backend.prompt or (way != "steps" and sp.dtype.code in ("f4", "f8"))):
        return devices.counted(sp, way, *numbers)
    values = dtypes.packed(dtypes.rounded(count(), sp.dtype), sp.dtype)
    return wrap(sp.backend.from_host(backend.of_array(values)), sp)


def _whole(*values: Any) -> None:
    if any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
        raise RuntimeError("value cannot be converted to type int64_t without overflow")


def _size(count: float) -> int:
    """How many numbers there are."""
    if not -(2.0**63) <= count < 2.0**63:
        raise RuntimeError("invalid size, possible overflow?")
    return int(count)


@of_numbers
@_counting
def arange(
    *args: Any,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    layout: Any = None,
) -> Tensor:
    """The numbers `start`, `start + step` ... that come before `end`: `arange(end)` starts at 0, and the step is 1 unless given. int64 of
    integers, else the default dtype.

    >>> torch.arange(4)
    tensor([0, 1, 2, 3])
    >>> torch.arange(1, 2, 0.25)
    tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
    if out is not None:
        dtype = _of_out("arange", out, dtype)
    given = list(args)
    if end is not None:
        given = [start if start is not None else (given.pop(0) if given else 0), end]
    if step is not None:
        given = [*([0] if len(given) == 1 else []), *given, step]
    if len(given) == 1:
        given = [0, *given]
    start, end, step = given if len(given) == 3 else (*given, 1)
    values = [v.item() if isinstance(v, (Tensor, np.generic)) else v for v in (start, end, step)]
    start, end, step = values
    if any(isinstance(v, complex) for v in values):
        raise RuntimeError("value cannot be converted to type double without overflow")
    if dtype is None:
        dtype = get_default_dtype() if any(isinstance(v, float) for v in values) else dtypes.int64
    d = dtypes.to_dtype(dtype)
    lacks_kernel("arange_cpu", d)
    if d is dtypes.bool_:
        raise NotImplementedError("\"arange_cpu\" not implemented for 'Bool'")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    _whole(*values)
    if not all(np.isfinite(float(v)) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if d is dtypes.int64:  # which PyTorch counts in whole steps, from whole to whole
        start, end, step = map(int, (start, end, step))
        if not step:
            raise ValueError("step must be nonzero")
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        n = _size(-(-(end - start) // step))
    else:
        n = _size(float(np.ceil((float(end) - float(start)) / float(step))))
    sp = _spec("arange", (n,), d, device, requires_grad)

    def count() -> np.ndarray[Any, Any]:
        if not d.is_floating_point:
            return int(start) + int(step) * np.arange(n, dtype=np.int64)
        return stepwise(start, step, n, d)

    t = _counts(sp, count, "steps", start, step)
    if out is not None and out.numel() and out.numel() != n:
        warn(
            f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not match the computed "
            f"number of elements {n}. Note that this may occur as a result of rounding error. The out tensor will be resized to a "
            f"tensor of shape ({n},)."
        )
    return _counted(t, requires_grad, out)


def range(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers `start`, `start + step` ... up to `end`, which belongs to them, in the default dtype. It is deprecated for `arange`,
    which leaves the end out:

    >>> torch.arange(1.0, 4.0)
    tensor([1., 2., 3.])
    """
    if out is not None:
        dtype = _of_out("range", out, dtype)
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range "
        "builtin. Instead, use torch.arange, which produces values in [start, end)."
    )
    d = get_default_dtype() if dtype is None else dtypes.to_dtype(dtype)
    lacks_kernel("range_cpu", d)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    _whole(start, end, step)
    if not d.is_floating_point:
        start, end, step = int(start), int(end), int(step)
        if not step:
            raise RuntimeError("step must be nonzero")
    sp = _spec("range", (_size((float(end) - float(start)) / float(step) + 1),), d, device, requires_grad)
    t = _counts(sp, lambda: start + step * np.arange(sp.numel), "steps", start, step)
    return _counted(t, requires_grad, out)


# What `rounding` is of one number, which NumPy takes microseconds for.
_one_at_a_time: dict[Any, Callable[[Any], Any]] = {
    dtypes.float32: lambda x: c_float(x).value,
    dtypes.float64: float,
}


def _fitted(start: Any, end: Any, d: dtypes.dtype) -> Any:
    """Both ends as elements."""
    ends = [dtypes.fitting(v, d) for v in (start, end)]
    real = _one_at_a_time.get(d)
    return rounded(np.array(ends), d) if real is None else map(real, ends)


def _kind_between(name: str, start: Any, end: Any, dtype: Any) -> Any:
    """The dtype of numbers between two ends, one of which may be complex."""
    if not any(isinstance(v, complex) for v in (start, end)):
        return dtype
    made = get_default_dtype().to_complex()
    if dtype is None or dtypes.to_dtype(dtype).is_complex:
        return dtype or made
    raise RuntimeError(
        f"torch.{name}(): inferred dtype {made.c_name} can't be safely cast to passed dtype {dtypes.to_dtype(dtype).scalar_name}"
    )


def _ends(name: str, *ends: Any) -> list[Any]:
    dims = [v.ndim if isinstance(v, Tensor) else 0 for v in ends]
    if any(dims):
        if all(isinstance(v, Tensor) for v in ends):
            got = f"start with {dims[0]} dimension(s) and end with {dims[1]} dimension(s)."
        else:
            which, n = ("start", dims[0]) if dims[0] else ("end", dims[1])
            got = f"{which} with {n} dimension(s)."
        raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {got}")
    return [v.item() if isinstance(v, Tensor) else v for v in ends]


@of_numbers
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers from `start` to `end`, both of which belong to them, equally far apart.

    >>> torch.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if out is not None:
        dtype = _of_out("linspace", out, dtype)
    if not isinstance(steps, int):
        raise TypeError(f"linspace(): argument 'steps' (position 3) must be int, not {type(steps).__name__}")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = _ends("linspace", start, end)
    dtype = _kind_between("linspace", start, end, dtype)
    sp = _spec("linspace", (steps,), dtype, device, requires_grad)
    if sp.dtype is dtypes.bool_:
        raise NotImplementedError("\"linspace_cpu\" not implemented for 'Bool'")
    a, b = _fitted(start, end, sp.dtype)
    t = _counts(sp, lambda: evenly(a, b, steps, sp.dtype), "evenly", *_between(a, b, steps, sp.dtype))
    return _counted(t, requires_grad, out)


def _between(start: Any, end: Any, steps: int, d: dtypes.dtype) -> tuple[Any, ...]:
    """Both ends, the step, from which number on they are counted from the end, and the last one's."""
    real = _one_at_a_time.get(d) or rounding(d)
    low, high = real(start), real(end)
    return low, high, real(real(high - low) / real(max(steps - 1, 1))), max(steps // 2, 1), steps - 1


@of_numbers
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`base` to the powers of `linspace(start, end, steps)`.

    >>> torch.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    if out is not None:
        dtype = _of_out("logspace", out, dtype)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = _ends("logspace", start, end)
    dtype = _kind_between("logspace", start, end, dtype)
    sp = _spec("logspace", (steps,), dtype, device, requires_grad)
    if sp.dtype is dtypes.bool_:
        raise NotImplementedError("\"logspace_cpu\" not implemented for 'Bool'")
    # Symmetric about the middle as linspace is; integers truncated at the end.
    real = _one_at_a_time.get(sp.dtype) or rounding(sp.dtype)
    if steps != 1:  # of one step PyTorch does not round the exponent
        start, end = _fitted(start, end, sp.dtype)

    def count() -> np.ndarray[Any, Any]:
        if steps == 1:
            return np.power(float(base), np.array([start * 1.0]))
        return np.power(real(base), evenly(start, end, steps, sp.dtype))

    if steps == 1:
        return _counted(_counts(sp, count), requires_grad, out)
    low, high, step, *places = _between(start, end, steps, sp.dtype)
    if sp.backend.prompt and not sp.dtype.is_complex:  # the step is none of float32
        step = float(real(high - low)) / (steps - 1)
    given = (low, high, step, *places, base if sp.backend.prompt else real(base))
    return _counted(_counts(sp, count, "powers", *given), requires_grad, out)


def _below(row: int, col: int, offset: int) -> int:
    """How many elements a lower triangle has."""
    empty = min(max(-offset, 0), row)  # rows, and those before the first that is full
    partly = min(max(col - offset - 1, empty), row)
    return (partly - empty) * (2 * offset + 1 + empty + partly) // 2 + (row - partly) * col


def _triangle_indices(
    name: str, row: int, col: int, dtype: Any, device: Any, count: int, keep: Callable[[], tuple[Any, Any]]
) -> Tensor:
    for word, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{word} must be non-negative, got{n}")
    sp = _spec(name, (2, 0), dtypes.int64 if dtype is None else dtype, device, False)
    if sp.dtype not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(f"\"{name}\" not implemented for '{sp.dtype.scalar_name}'")
    sp = _spec(name, (2, count), sp.dtype, device)
    return _counts(sp, lambda: np.stack(keep()))


@of_numbers
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """The places of the lower triangle of a matrix of `row` by `col`, as two lines, rows and columns; `offset` moves its edge to the right
    (or, negative, to the left).

    >>> torch.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle_indices(
        "tril_indices",
        row,
        col,
        dtype,
        device,
        _below(row, col, offset),
        lambda: np.tril_indices(row, offset, col),
    )


@of_numbers
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """The places of the upper triangle of a matrix of `row` by `col`, as two lines, rows and columns; `offset` moves its edge to the right
    (or, negative, to the left).

    >>> torch.triu_indices(2, 3, offset=1)
    tensor([[0, 0, 1],
            [1, 2, 2]])
    """
    return _triangle_indices(
        "triu_indices",
        row,
        col,
        dtype,
        device,
        row * col - _below(row, col, offset - 1),
        lambda: np.triu_indices(row, offset, col),
    )


@of_numbers
def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The identity of n rows, and of m columns if that is given: ones on the diagonal, zeros beside it.

    >>> torch.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if out is not None:
        dtype = _of_out("eye", out, dtype)
    m = n if m is None else m
    if n < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {n}")
    if m < 0:
        raise RuntimeError(f"m must be greater or equal to 0, got {m}")
    t = _zeros(_spec("eye", (n, m), dtype, device, requires_grad))
    fill_memory(wrap(t._buf, t._spec.like((min(n, m),), (m + 1,))), 1)
    return _finish(t, requires_grad, out)


__all__ = ["arange", "eye", "linspace", "logspace", "range", "tril_indices", "triu_indices"]
