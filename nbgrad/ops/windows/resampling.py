"""Images of another size: which elements each result is made of, for each dimension by itself, and how much of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Ints
from nbgrad.ops.windows.geometry import check_dtype
from nbgrad.ops.windows.sums import Taps, Windows, sums

_Array = np.ndarray[Any, Any]
_OPS = {
    **{("nearest", k): sums(f"UpsampleNearest{k}D", (4,)) for k in (1, 2, 3)},
    **{("nearest-exact", k): sums(f"UpsampleNearestExact{k}D", (4,)) for k in (1, 2, 3)},
    **{
        ("linear", k): sums(f"Upsample{name}{k}D")
        for k, name in ((1, "Linear"), (2, "Bilinear"), (3, "Trilinear"))
    },
    ("cubic", 2): sums("UpsampleBicubic2D", ()),
    ("linear-aa", 2): sums("UpsampleBilinear2DAa"),
    ("cubic-aa", 2): sums("UpsampleBicubic2DAa", ()),
    ("lanczos-aa", 2): sums("UpsampleLanczos2DAa"),
}


# ---------------------------------------------------------------- what a result reads


def _scale(size: int, outs: int, align: bool, factor: float | None, real: Any) -> Any:
    """How far results are apart, in elements."""
    if align:
        return real(size - 1) / real(outs - 1) if outs > 1 else real(0)
    return real(1.0 / factor) if factor is not None and factor > 0 else real(size) / real(outs)


def _sources(size: int, outs: int, align: bool, factor: float | None, real: Any) -> _Array:
    """Where each result lies among the elements."""
    scale, k = _scale(size, outs, align, factor, real), np.arange(outs, dtype=real)
    found: _Array = scale * k if align else scale * (k + real(0.5)) - real(0.5)
    return found


def _of_each(indices: _Array, weights: _Array) -> Windows:
    """Of elements and weights for each result; an element may be named twice."""
    first, last = indices.min(1), indices.max(1) + 1
    rows = np.zeros((len(first), int(np.max(last - first, initial=1))), weights.dtype)
    np.add.at(rows, (np.arange(len(first))[:, None], indices - first[:, None]), weights)
    return first, last, rows


def _nearest(size: int, outs: int, exact: bool, factor: float | None, real: Any) -> Windows:
    scale, k = _scale(size, outs, False, factor, real), np.arange(outs, dtype=real)
    source = np.maximum(scale * (k + real(0.5)) - real(0.5), 0) + real(0.5) if exact else scale * k
    first = np.minimum(source.astype(np.float32).astype(np.int64), size - 1)  # as PyTorch rounds it
    return first, first + 1, None


def _linear(size: int, outs: int, align: bool, factor: float | None, real: Any) -> Windows:
    if size == outs:
        return _same(size, real)
    source = np.maximum(_sources(size, outs, align, factor, real), real(0))
    first = np.minimum(source.astype(np.int64), size - 1)
    share = np.clip(source - first.astype(real), real(0), real(1))
    return _of_each(np.stack([first, np.minimum(first + 1, size - 1)], 1), np.stack([1 - share, share], 1))


@cached(256)
def _kept(size: int) -> Taps:
    return Taps("weighted", size, size, lambda: _same(size, np.float64))


def _same(size: int, real: Any) -> Windows:
    """Each element as it is, whatever the factor says."""
    first = np.arange(size)
    return first, first + 1, np.ones((size, 1), real)


def _near(t: _Array, a: float) -> _Array:
    """The cubic up to one element away."""
    real = t.dtype.type
    return ((real(a) + 2) * t - (real(a) + 3)) * t * t + 1


def _far(t: _Array, a: float) -> _Array:
    """And from one to two."""
    real = t.dtype.type
    return ((real(a) * t - 5 * real(a)) * t + 8 * real(a)) * t - 4 * real(a)


def _cubic(size: int, outs: int, align: bool, factor: float | None, real: Any) -> Windows:
    source = _sources(size, outs, align, factor, real)
    first = np.minimum(np.floor(source).astype(np.int64), size - 1)
    t = np.clip(source - first.astype(real), real(0), real(1))
    weights = [_far(t + 1, -0.75), _near(t, -0.75), _near(1 - t, -0.75), _far(2 - t, -0.75)]
    indices = np.clip(first[:, None] + np.arange(-1, 3), 0, size - 1)
    return _of_each(indices, np.stack(weights, 1))


def _filtered(kind: str, x: _Array) -> _Array:
    """The weight of what is so far away."""
    far, real = np.abs(x), x.dtype.type
    if kind == "linear":
        return np.maximum(1 - far, real(0))
    if kind == "cubic":
        return np.where(far < 1, _near(far, -0.5), np.where(far < 2, _far(far, -0.5), real(0)))
    return np.where(far < 3, np.sinc(x) * np.sinc(x / 3), real(0)).astype(real)


_REACH = {"linear": 1, "cubic": 2, "lanczos": 3}


def _filter(kind: str, size: int, outs: int, align: bool, factor: float | None, real: Any) -> Windows:
    """Where elements lie closer than results, each result is a mean of those around it."""
    if size == outs:
        return _same(size, real)
    scale = _scale(size, outs, align, factor, real)
    wide = max(scale, real(1))
    support = real(_REACH[kind]) * wide
    center = scale * (np.arange(outs, dtype=real) + real(0.5))
    first = np.maximum((center - support + real(0.5)).astype(np.int64), 0)
    last = np.minimum((center + support + real(0.5)).astype(np.int64), size)
    k = first[:, None] + np.arange(max(int((last - first).max()), 1))
    weights = _filtered(kind, ((k - center[:, None] + real(0.5)) / wide).astype(real))
    weights = np.where(k < last[:, None], weights, real(0))
    return first, last, weights / weights.sum(1, keepdims=True)


def _in_16_bits(windows: Windows) -> Windows:
    """As PyTorch resamples bytes: with weights that fit integers of 16 bits, as precisely as these can."""
    first, last, numbers = windows
    assert numbers is not None
    top, bits = float(numbers.max()), 0
    while bits < 22 and int(0.5 + top * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    whole = np.trunc(numbers * (1 << bits) + np.copysign(0.5, numbers))
    return first, last, whole / (1 << bits)


def _windows(mode: str, size: int, outs: int, align: bool, factor: float | None, d: dtype) -> Windows:
    real = np.float64 if d in (dtypes.float64, dtypes.uint8) else np.float32
    if mode.startswith("nearest"):
        real = np.float64 if d is dtypes.float64 else np.float32
        return _nearest(size, outs, mode == "nearest-exact", factor, real)
    if mode.endswith("-aa"):
        found = _filter(mode[:-3], size, outs, align, factor, real)
    else:
        found = (_linear if mode == "linear" else _cubic)(size, outs, align, factor, real)
    return _in_16_bits(found) if d is dtypes.uint8 else found


@cached(4096)
def _taps(mode: str, size: int, outs: int, align: bool, factor: float | None, d: dtype) -> Taps:
    how = "plain" if mode.startswith("nearest") else "weighted"
    return Taps(how, size, outs, lambda: _windows(mode, size, outs, align, factor, d))


# ---------------------------------------------------------------- the op


def _named(letters: str, values: Ints) -> str:
    return ", ".join([f"{letter}: {n}" for letter, n in zip(letters, values)])


def _check(mode: str, input: Tensor, outs: Ints) -> None:
    shape, dims, d = tuple(input.shape), len(outs), input.dtype
    if min(outs) <= 0 or min(shape[2:]) <= 0:
        letters, joint = "DHW"[3 - dims :], " and" if dims == 1 else ""
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({_named(letters, shape[2:])}){joint} "
            f"output ({_named(letters, outs)})"
        )
    if not shape[1]:
        raise RuntimeError(
            f"Non-empty {dims + 2}D data tensor expected but got a tensor with sizes {list(shape)}"
        )
    kernel = f"compute_indices_weights_{mode.partition('-')[0]}"
    if mode.endswith("-aa"):
        kernel = "compute_index_ranges_weights"
    elif dims == 2 and mode != "cubic":
        kernel = f"upsample_{'bilinear' if mode == 'linear' else 'nearest'}2d_channels_last"
    small = d.narrow and not mode.endswith("-aa")
    byte = d is dtypes.uint8 and (dims == 2 or mode != "linear")
    check_dtype(kernel, d, small or byte or d in (dtypes.float32, dtypes.float64))


def resample(
    input: Tensor, mode: str, outs: Ints, factors: tuple[float | None, ...], align: bool = False
) -> Tensor:
    """`input` with its last dimensions of these sizes. `factors`, where they are given, are how much larger it is thought to become, which
    sizes say but roughly; with `align` the middles of the first and the last elements stay where they are, else their edges."""
    _check(mode, input, outs)
    lines = list(zip(tuple(input.shape)[2:], outs, factors))
    if (
        mode == "nearest" and len(outs) == 2
    ):  # of pictures PyTorch keeps or doubles a line whatever the factor says
        lines = [(size, out, None if out in (size, 2 * size) else factor) for size, out, factor in lines]
    taps = [_taps(mode, size, out, align, factor, input.dtype) for size, out, factor in lines]
    op = _OPS[mode, len(outs)]
    if input.dtype is dtypes.uint8 and taps[0].how == "weighted":  # rounded between columns and rows
        input, taps[1] = op(input, taps=(_kept(taps[0].size), taps[1])), _kept(taps[1].outs)
    found: Tensor = op(input, taps=tuple(taps))
    return found
