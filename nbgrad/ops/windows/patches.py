"""The three sums of `correlation.py` on a device: products of matrices, one of which is patches of images that are read where they lie.

Promises the ops the same functions. A plan is a table of channels and taps; a gradient by weights is cut into parts by shapes alone, which
are added up in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.kernels.cuda import convolution as kernels
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.views.copy import to_dtype, zeros
from nbgrad.ops.windows.correlation import (
    Geometry,
    Run,
    _all_channels,
    _fill,
    _grid,
    _phases,
    _taps_of,
    _volume,
)

_FULL = 512  # elements of a tile from which on it is worth its memory
_PART = 1024  # pixels of a part, at least
_BLOCKS = 1024  # of a launch, up to which a gradient by weights is cut into parts


def _table(channels: int, sp: Spec, at: Any, weights: Any) -> list[int]:
    """For each channel and tap where it lies in an image, from the first element of the window on, by which lines and columns that is, and
    where its weight lies."""
    lines = np.broadcast_arrays(*_grid(at))
    places = _all_channels(channels, sp.strides[1], sum([a * s for a, s in zip(lines, sp.strides[2:])]))
    columns = [places, *(np.tile(a.reshape(-1), channels) for a in lines), weights]
    return [int(n) for n in np.stack(columns, 1).reshape(-1)]


def _tiled(rows: int, columns: int) -> bool:
    return min(rows, 64) * min(columns, 64) >= _FULL


def _head(
    rows: int,
    groups: int,
    count: int,
    sizes: Ints,
    read: Spec,
    by: Ints,
    by_group: int,
    weights: Ints,
    other: Ints,
    more: Ints,
) -> list[int]:
    """As kernels read it. `sizes` count windows, `by` apart in what is `read`; `other` are the steps of what has an element for each."""
    head = [rows, groups, count, read.shape[0], *sizes, *tuple(read.shape)[2:], *by]
    head += [read.strides[0], by_group, *read.strides[2:], *weights, *other, *more]
    return head + [0] * (kernels.HEAD - len(head))


def narrow(x: Spec, w: Spec, bias: Spec | None, y: Spec, geometry: Geometry) -> Run:
    """`run(x, w, bias, y)` writes the sums over channels and taps of `x`."""
    g, (x, w, y) = geometry.volume(), map(_volume, (x, w, y))
    channels, *taps = tuple(w.shape)[1:]
    at = [np.arange(k) * d - p for k, d, p in zip(taps, g.dilation, g.padding)]
    chosen = _all_channels(channels, w.strides[1], _taps_of(w, [range(k) for k in taps]))
    steps = w.strides[0] * (w.shape[0] // g.groups), w.strides[0]
    piece = _sums(x, channels, at, chosen, steps, bias, y, (0, 0, 0), (1, 1, 1), tuple(y.shape)[2:], g)
    return piece


def wide(y: Spec, w: Spec, bias: Spec | None, x: Spec, geometry: Geometry) -> Run:
    """`run(y, w, bias, x)` writes the sums over channels and taps of `y`: the gradient by `x`, and a transposed convolution."""
    g, (y, w, x) = geometry.volume(), map(_volume, (y, w, x))
    outs = w.shape[0] // g.groups
    each = [list(_phases(*of)) for of in zip(tuple(w.shape)[2:], tuple(x.shape)[2:], *g[:3])]
    steps, dense = (w.strides[0] * outs, w.strides[1]), g._replace(stride=(1, 1, 1))
    pieces, covered = [], 0
    for phases in product(*each):
        begin, count, at, taps = zip(*phases)
        chosen = _all_channels(outs, w.strides[0], _taps_of(w, taps))
        pieces.append(_sums(y, outs, at, chosen, steps, bias, x, begin, g.stride, count, dense))
        covered += prod(count)
    rest = covered < x.numel // max(x.shape[0] * x.shape[1], 1)

    def run(narrow: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
        if rest:
            _fill(out, bias)
        for piece in pieces:
            piece(narrow, weight, bias, out)

    return run


def _sums(
    read: Spec,
    channels: int,
    at: Any,
    chosen: Any,
    steps: Ints,
    bias: Spec | None,
    made: Spec,
    begin: Ints,
    step: Ints,
    sizes: Ints,
    g: Geometry,
) -> Run:
    """Of a part of what is `made`: every `step`-th element from `begin` on. `channels` of what is read are summed over, at places `at`."""
    backend, code, rows = made.backend, made.dtype.code, made.shape[1] // g.groups
    tiled = _tiled(rows, made.shape[0] * prod(sizes))
    source, params = kernels.sums(code, tiled)
    address = backend.kernel(f"convolution_{'tiles' if tiled else 'each'}_{code}", source, params).address
    first = sum([b * s for b, s in zip(begin, made.strides[2:])])
    apart = [b * s for b, s in zip(step, made.strides[2:])]
    biased = (first, int(bias is not None), 0 if bias is None else bias.strides[0])
    by_group, count = channels * read.strides[1], len(chosen)
    other = (*made.strides[:2], *apart)
    head = _head(rows, g.groups, count, sizes, read, g.stride, by_group, steps, other, biased)
    meta = backend.constants([*head, *_table(channels, read, at, chosen)])
    items = made.shape[0] * made.shape[1] * prod(sizes)
    tiles = g.groups * -(-rows // 64) * -(-made.shape[0] * prod(sizes) // 64)
    launch = backend.launch(5, "", tiles * kernels.TILE if tiled else items)

    def run(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
        launch(address, items, meta, out._buf, x._buf, weight._buf, (weight if bias is None else bias)._buf)

    return run


def weights(y: Spec, x: Spec, w: Spec, geometry: Geometry) -> Callable[[Tensor, Tensor], Tensor]:
    """`run(y, x)` gives the sums over pixels and images: the gradient by the weights, which lie as `w`, a new tensor."""
    g, (x, y, whole), w = geometry.volume(), map(_volume, (x, y, w)), w.dense()
    outs, channels, *taps = tuple(whole.shape)
    sizes, rows, count = tuple(y.shape)[2:], outs // g.groups, channels * prod(taps)
    depth = y.shape[0] * prod(sizes)
    if not depth or not w.numel:
        return lambda narrow, wide: zeros(w)
    at = [np.arange(k) * d - p for k, d, p in zip(taps, g.dilation, g.padding)]
    tiled, kind, backend = _tiled(rows, count), dtypes.float32 if w.dtype.narrow else w.dtype, w.backend
    blocks = g.groups * -(-rows // 64) * -(-count // 64) if tiled else w.numel
    parts = max(1, min(_BLOCKS // blocks, -(-depth // _PART)))
    share = -(-depth // parts)
    parts = -(-depth // share)
    source, params = kernels.weights(w.dtype.code, tiled)
    name = f"convolution_weights_{'tiles' if tiled else 'each'}_{w.dtype.code}"
    address = backend.kernel(name, source, params).address
    more = (0, 0, 0, parts, share)
    head = _head(rows, g.groups, count, sizes, x, g.stride, channels * x.strides[1], (0, 0), y.strides, more)
    meta = backend.constants([*head, *_table(channels, x, at, np.zeros(count, np.int64))])
    made = w.like((parts, *tuple(w.shape)), dtype=kind)
    launch = backend.launch(4, "", parts * blocks * kernels.TILE if tiled else made.numel)

    def run(narrow: Tensor, wide: Tensor) -> Tensor:
        each = empty(made)
        launch(address, made.numel, meta, each._buf, narrow._buf, wide._buf)
        if parts == 1:
            return to_dtype(wrap(each._buf, w.like(dtype=kind)), w.dtype)
        return to_dtype(r.sum(each, 0, dtype=kind), w.dtype)

    return run
