"""The three sums that a convolution and its gradients are, each planned once for how its tensors lie.

Of an image `wide`, a result `narrow` and weights, `wide[n, c, p * stride + k * dilation - padding] * weight[o, c, k] * narrow[n, o, p]` is
summed over all but the indices of one of the three. Promises the ops a function for each of them, of tensors that have been checked. A
plan has three spatial dimensions, some of size 1; memory is copied with margins a few images at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from nbgrad.base.records import NamedTuple
from nbgrad.base.switches import recorded
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.kernels import products
from nbgrad.kernels.cpu import convolution as kernels
from nbgrad.kernels.templates import computed
from nbgrad.kernels.tile import SHAPES, WINDOW
from nbgrad.memory import dtypes
from nbgrad.memory.backend import vector_bits
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops.views.copy import contiguous, copy_memory, to_dtype, zeros

ROOM = 4 << 20  # bytes of images with margins at a time: what stays in the caches that cores share
_TILED = 4  # channels of a group's result from which on the tile computes them
UNITS = 16  # into which a gradient by weights is cut: by its shape, so the threads decide nothing
Run = Callable[..., None]


class Geometry(NamedTuple):
    """How the window moves, in each spatial dimension."""

    stride: Ints
    padding: Ints
    dilation: Ints
    groups: int

    def volume(self) -> Geometry:
        """The same with three spatial dimensions."""
        more = 3 - len(self.stride)
        ones, nothing = (1,) * more, (0,) * more
        return Geometry(ones + self.stride, nothing + self.padding, ones + self.dilation, self.groups)


def _volume(sp: Spec) -> Spec:
    """Read with three spatial dimensions."""
    more = 5 - sp.ndim
    shape, strides = tuple(sp.shape), sp.strides
    return sp.like((*shape[:2], *(1,) * more, *shape[2:]), (*strides[:2], *(0,) * more, *strides[2:]))


class _Room:
    """Where images lie with their margins: of each dimension every `by`-th element from `begins` on, so many of them, a copy for each."""

    def __init__(self, sp: Spec, by: Ints, begins: Sequence[Sequence[int]], sizes: Ints, shared: int) -> None:
        """`shared` columns of zeros end a row, as they begin the next."""
        self.channels, self.begins = tuple(sp.shape)[1], begins
        self.deep, self.high, self.wide, self.shared = *sizes[:2], sizes[2] - shared, shared
        phases = len(begins[0]) * len(begins[1]) * len(begins[2])
        self.sheet = self.high * self.wide
        self.plane = phases * self.deep * self.sheet + shared
        self.image = self.channels * self.plane
        self.dtype = dtypes.float32 if sp.dtype.narrow else sp.dtype
        meta = [self.channels, self.plane, *sp.strides, *tuple(sp.shape)[2:], *by]
        meta += [self.deep, self.high, self.wide, *map(len, begins)]
        meta += [b for of in begins for b in of]
        ends = [(-b, sp.shape[4] - b) for b in begins[2]]  # of the image, counted from where a phase begins
        meta += [min(max(-(-end // by[2]), 0), self.wide) for pair in zip(*ends) for end in pair]
        self.meta = sp.backend.constants(meta)
        source, signature = kernels.margins(sp.dtype.code)
        self.kernel = sp.backend.kernel(f"margins_{sp.dtype.code}", source, signature, unrolled=False).address
        self.launch = sp.backend.launch(3, "q", sp.numel)
        self.backend = sp.backend

    def nbytes(self, images: int) -> int:
        return (images * self.image + kernels.BEYOND) * self.dtype.itemsize

    def fill(self, room: Any, t: Tensor, first: int, images: int) -> None:
        self.launch(self.kernel, images * self.channels, self.meta, room, t._buf, first)

    def place(self, at: Sequence[Any]) -> Any:
        """Of rows and columns counted in the room, in phases by their number."""
        (d, i), (h, j), (w, k) = at
        _, rows, columns = map(len, self.begins)
        phase = (d * rows + h) * columns + w
        return ((phase * self.deep + i) * self.high + j) * self.wide + k


def _shared(low: int, size: int, needed: int, columns: int) -> int:
    """The columns of zeros on the right that may be those of the next row's left; a row still has as many columns as the result."""
    return min(max(low, 0), max(0, needed - low - size), needed - columns)


def _grid(lines: Sequence[Any]) -> list[Any]:
    """Arrays of three dimensions, and of one more in front, that broadcast."""
    return [np.asarray(line).reshape(-1, *(1,) * (2 - d)) for d, line in enumerate(lines)]


class _Piece(NamedTuple):
    """A part of a result: every `step`-th element from `begin` on, `size` of them, in each dimension; the sums that it is made of
    go over places in the room, and over places in the weights of a channel."""

    begin: Ints
    step: Ints
    size: Ints
    places: Any
    weights: Any


def _images_at_once(nbytes: int, images: int) -> int:
    return max(1, min(images, ROOM // max(nbytes, 1)))


# ---------------------------------------------------------------- sums over channels and taps


def _room_of_wide(x: Spec, narrow: Ints, taps: Ints, g: Geometry) -> tuple[_Room, Any]:
    """The images, and where each tap of a channel lies."""
    at = [np.arange(k) * d for k, d in zip(taps, g.dilation)]
    begins, lines, sizes = [], [], []
    for t, s, p, n in zip(at, g.stride, g.padding, narrow):
        starts, number = np.unique(t % s, return_inverse=True)
        begins.append([int(b) - p for b in starts])
        lines.append((number, t // s))
        sizes.append(n + int((t // s).max(initial=0)))
    shared = _shared(g.padding[2], x.shape[4], sizes[2], narrow[2]) if g.stride[2] == 1 else 0
    room = _Room(x, g.stride, begins, tuple(sizes), shared)
    phases, shifts = (_grid([line[k] for line in lines]) for k in (0, 1))
    return room, room.place(list(zip(phases, shifts)))


def _taps_of(w: Spec, lines: Sequence[Any]) -> Any:
    """Where taps lie in the weights of a pair of channels."""
    a, b, c = _grid([np.asarray(line) * s for line, s in zip(lines, w.strides[2:])])
    return a + b + c


def _all_channels(count: int, step: int, taps: Any) -> Any:
    return (np.arange(count).reshape(-1, 1, 1, 1) * step + taps).reshape(-1)


def narrow(x: Spec, w: Spec, bias: Spec | None, y: Spec, geometry: Geometry) -> Run:
    """`run(x, w, bias, y)` writes the sums over channels and taps of `x`."""
    g, (x, w, y) = geometry.volume(), map(_volume, (x, w, y))
    channels, *taps = tuple(w.shape)[1:]
    sizes = tuple(y.shape)[2:]
    of_one = _by_product(x, w.strides[:2], bias, y) if _is_product(w, g, x, y) else None
    if of_one is not None:
        return of_one
    read = _all_channels(channels, w.strides[1], _taps_of(w, [range(k) for k in taps]))

    def laid(rows: int) -> tuple[_Room, list[_Piece]]:
        room, places = _room_of_wide(x, (sizes[0], rows, sizes[2]), tuple(taps), g)
        return room, [_Piece((0, 0, 0), (1, 1, 1), sizes, _all_channels(channels, room.plane, places), read)]

    return _sums(laid, sizes[1], channels, w, w.strides[0], bias, x, y, g.groups)


def wide(y: Spec, w: Spec, bias: Spec | None, x: Spec, geometry: Geometry) -> Run:
    """`run(y, w, bias, x)` writes the sums over channels and taps of `y`: the gradient by `x`, and a transposed convolution."""
    g, (y, w, x) = geometry.volume(), map(_volume, (y, w, x))
    outs = w.shape[0] // g.groups
    of_one = _by_product(y, w.strides[1::-1], bias, x) if _is_product(w, g, x, y) else None
    if of_one is not None:
        return of_one
    each = [list(_phases(*of)) for of in zip(tuple(w.shape)[2:], tuple(x.shape)[2:], *g[:3])]
    chosen = list(product(*each))  # none where no tap reaches anything

    def laid(rows: int) -> tuple[_Room, list[_Piece]]:
        low = [-min(int(at.min()) for _, _, at, _ in phases) for phases in each]
        counts = [[count for _, count, *_ in phases] for phases in each]
        counts[1] = [min(count, rows) for count in counts[1]]
        sizes = [
            lo + max(int(at.max()) + count for (_, _, at, _), count in zip(phases, of))
            for lo, phases, of in zip(low, each, counts)
        ]
        shared = _shared(low[2], y.shape[4], sizes[2], max(counts[2]))
        room, pieces = _Room(y, (1, 1, 1), [[-lo] for lo in low], tuple(sizes), shared), []
        for phases in chosen:
            begin, count, at, taps = zip(*phases)
            places = room.place([(0, t) for t in _grid([a + lo for a, lo in zip(at, low)])])
            places = _all_channels(outs, room.plane, places)
            read = _all_channels(outs, w.strides[0], _taps_of(w, taps))
            pieces.append(_Piece(begin, g.stride, count, places, read))
        return room, pieces

    covered = sum([prod([count for _, count, *_ in phases]) for phases in chosen])
    rest = covered < x.numel // max(x.shape[0] * x.shape[1], 1)
    sums = None
    if chosen:
        rows = max(count for _, count, *_ in each[1])
        sums = _sums(laid, rows, outs, w, w.strides[1], bias, y, x, g.groups)

    def run(narrow: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
        if rest:
            _fill(out, bias)
        if sums is not None:
            sums(narrow, weight, bias, out)

    return run


class _Planes(NamedTuple):
    """Images whose pixels follow each other by one step."""

    images: int
    channels: int
    pixels: int
    by_image: int
    by_channel: int
    by_pixel: int

    @property
    def in_line(self) -> bool:
        """Whether the pixels of all images do."""
        return self.images == 1 or self.by_image == self.pixels * self.by_pixel

    def dense(self, planes: bool) -> bool:
        """Whether they lie as a product writes them: by rows of pixels, or of channels."""
        steps = (self.pixels, 1) if planes else (1, self.channels)
        return (self.by_channel, self.by_pixel) == steps and self.by_image == self.channels * self.pixels


def _planes(sp: Spec) -> _Planes | None:
    """None where pixels do not follow each other by one step."""
    step, line = 0, 1
    for size, stride in zip(tuple(sp.shape)[:1:-1], sp.strides[:1:-1]):
        if size > 1:
            step = step or stride
            if not stride or stride != step * line:  # 0 where one pixel is read for all
                return None
            line *= size
    return _Planes(sp.shape[0], sp.shape[1], line, sp.strides[0], sp.strides[1], step or 1)


def _is_product(w: Spec, g: Geometry, *specs: Spec) -> bool:
    """Whether a window of one place goes to all."""
    still = {*tuple(w.shape)[2:], *g.stride, *g.dilation, g.groups} == {1} and not any(g.padding)
    bits = vector_bits(w.backend)
    return still and bits is not None and w.dtype.code in SHAPES[bits] and all(sp.numel for sp in specs)


def _by_product(x: Spec, steps: Ints, bias: Spec | None, y: Spec) -> Run | None:
    """Products of matrices as they lie: of each image, or of all pixels with the weights. `steps` are those of weights, from channel to
    channel of the result and of what is read."""
    of, to = _planes(x), _planes(y)
    if of is None or to is None:
        return None
    count, apart = of.images, (0, of.by_image)
    down, along = steps
    first, second = (
        (to.channels, of.channels, down, along),
        (of.channels, of.pixels, of.by_channel, of.by_pixel),
    )
    by_planes = to.dense(True)
    if not by_planes:
        if not to.dense(False):
            return None
        count, rows, apart = (
            (1, of.images * of.pixels, (0, 0)) if of.in_line else (count, of.pixels, (of.by_image, 0))
        )
        first, second = (
            (rows, of.channels, of.by_pixel, of.by_channel),
            (of.channels, to.channels, along, down),
        )
    if not products.readable(second):
        return None
    added = None if bias is None else (0, of.pixels if by_planes else 0)
    tiled = products.tiles(y.dtype.code, first, second, count, apart, added)
    if tiled.joined is not None:
        return None
    launch, address, items, room, numbers, _ = tiled
    backend, over = y.backend, (to.channels, of.pixels)[: 1 + by_planes]
    whole = y.like(over)

    def run(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
        more: Any = numbers
        if bias is not None:
            more = backend.empty(whole.nbytes)
            lies = whole.like(over, (bias._spec.strides[0], 0)[: len(over)])
            copy_memory(wrap(more, whole), wrap(bias._buf, lies))
        a, b = (weight, x) if by_planes else (x, weight)
        space = backend.empty(room) if room else numbers
        launch(address, items, a._buf, b._buf, out._buf, space, more, numbers)

    return run


def _weights_by_product(y: Spec, x: Spec, w: Spec) -> Callable[[Tensor, Tensor], Tensor] | None:
    """The same of the gradient by weights; that of each image is kept apart where it is no larger than what it is made from."""
    of, by = _planes(y), _planes(x)
    if of is None or by is None:
        return None
    together = of.in_line and by.in_line
    count, pixels = (1, of.images * of.pixels) if together else (of.images, of.pixels)
    first, second = (
        (of.channels, pixels, of.by_channel, of.by_pixel),
        (pixels, by.channels, by.by_pixel, by.by_channel),
    )
    if count * w.numel > max(x.numel, y.numel) or not products.readable(second):
        return None
    launch, address, items, room, numbers, joined = products.tiles(
        w.dtype.code, first, second, count, (of.by_image, by.by_image)
    )
    if count > 1 and joined is not None:
        return None
    joined = joined or products.joined_of(w.dtype.code, 1, count, w.numel)
    backend, parts = w.backend, w.nbytes if joined is None else joined.parts

    def run(narrow: Tensor, wide: Tensor) -> Tensor:
        out = empty(w)
        made = out._buf if joined is None else backend.empty(parts)
        space = backend.empty(room) if room else numbers
        launch(address, items, narrow._buf, wide._buf, made, space, numbers, numbers)
        if joined is not None:
            joined.launch(joined.address, joined.n, made, out._buf, joined.numbers)
        return out

    return run


def _phases(
    taps: int, size: int, stride: int, padding: int, dilation: int
) -> Iterator[tuple[int, int, Any, Any]]:
    """Of one dimension: where in `wide` a phase begins that taps reach, how many elements it has, from which of `narrow` on each tap
    reads, and the taps."""
    at = np.arange(taps) * dilation - padding
    for begin in sorted({int(b) for b in at % stride}):
        if begin < size:
            its = np.flatnonzero(at % stride == begin)
            yield begin, -(-(size - begin) // stride), (begin - at[its]) // stride, its


def _fill(out: Tensor, bias: Tensor | None) -> None:
    """What no tap reaches is the bias."""
    sp = out._spec
    if bias is None:
        value = zeros(sp.like((1,)))
        copy_memory(out, wrap(value._buf, sp.like(tuple(sp.shape), (0,) * sp.ndim)))
    else:
        steps = (0, bias._spec.strides[0], *(0,) * (sp.ndim - 2))
        copy_memory(out, wrap(bias._buf, sp.like(tuple(sp.shape), steps)))


def _band(laid: Callable[[int], Any], rows: int, channels: int) -> int:
    """Of how many rows of a result a kernel's own room can hold what they read, of so many channels; 0 where it would hold little else
    than what the next band reads again."""
    room, _ = laid(rows)
    per_row = channels * (room.plane - room.shared) // max(room.high, 1)
    fit = (kernels.NEAR - channels * room.shared) // max(per_row, 1)
    if room.high <= fit or not rows:
        return rows
    again = room.high - rows
    if fit < 3 * again + 1:
        return 0
    return -(-rows // -(-rows // (fit - again)))


def _sums(
    laid: Callable[[int], tuple[_Room, list[_Piece]]],
    rows: int,
    reduced: int,
    w: Spec,
    step: int,
    bias: Spec | None,
    x: Spec,
    y: Spec,
    groups: int,
) -> Run:
    """`reduced` channels of a group are summed over; a channel of the result has its weights `step` after those of the one before. `laid`
    says how what so many rows of the result read lies in a room."""
    backend, outs = y.backend, y.shape[1] // groups
    dense = None if bias is None or bias.strides == (1,) or bias.shape[0] == 1 else bias.dense()
    band = _band(laid, rows, reduced) if outs < _TILED else 0
    run = _alone(laid, band, rows, reduced, w, step, bias, x, y, groups) if band else None
    run = run or _in_room(*laid(rows), reduced, w, step, bias, y, groups)
    if dense is None:
        return run

    def with_bias(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
        assert bias is not None
        given = wrap(backend.empty(dense.nbytes), dense)
        copy_memory(given, bias)
        run(x, weight, given, out)

    return with_bias


def _alone(
    laid: Callable[[int], tuple[_Room, list[_Piece]]],
    band: int,
    rows: int,
    reduced: int,
    w: Spec,
    step: int,
    bias: Spec | None,
    x: Spec,
    y: Spec,
    groups: int,
) -> Run | None:
    """In one launch, of which a piece of work is a band of rows of a group of an image."""
    backend, code, (room, pieces) = y.backend, y.dtype.code, laid(band)
    bits, most = vector_bits(backend), max(len(piece.places) for piece in pieces)
    if bits is None or code not in SHAPES[bits] or not 0 < most <= kernels.MOST:
        return None
    outs, bands = y.shape[1] // groups, -(-rows // band)
    by_group = w.strides[0] * (w.shape[0] // groups)
    meta = [groups, reduced, outs, bands, band, len(pieces), by_group, step, int(bias is not None)]
    for piece in pieces:
        steps = [b * s for b, s in zip(piece.step, y.strides[2:])]
        begin = sum([b * s for b, s in zip(piece.begin, y.strides[2:])])
        meta += [len(piece.places), *piece.size, *y.strides[:2], *steps, begin]
        meta += [*(piece.places * y.itemsize).tolist(), *piece.weights.tolist()]
    kernel = backend.kernel(f"convolution_{code}_alone", *kernels.alone(code, bits)).address
    how, launch = backend.constants(meta), backend.launch(6, "", y.numel * most)
    units = y.shape[0] * groups * bands

    def run(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
        biases = (weight if bias is None else bias)._buf
        launch(kernel, units, how, room.meta, out._buf, x._buf, weight._buf, biases)

    return run


def _in_room(
    room: _Room,
    pieces: list[_Piece],
    reduced: int,
    w: Spec,
    step: int,
    bias: Spec | None,
    y: Spec,
    groups: int,
) -> Run:
    """All images are copied first, a few at a time."""
    backend, images = y.backend, y.shape[0]
    parts = [_part(room, reduced, w, step, bias, y, piece, groups) for piece in pieces]
    at_once = _images_at_once(room.nbytes(1), images)
    nbytes, own = room.nbytes(at_once), room.dtype.itemsize

    def run(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
        held, biases = backend.empty(nbytes), (weight if bias is None else bias)._buf
        packed = []
        for part in parts:
            blocks = backend.empty(part.blocks * own)
            part.pack(part.pack_kernel, part.packs, part.pack_meta, blocks, weight._buf, biases)
            packed.append(blocks)
        for first in range(0, images, at_once):
            count = min(at_once, images - first)
            room.fill(held, x, first, count)
            for part, blocks in zip(parts, packed):
                part.sum(part.kernel, count * part.units, part.meta, out._buf, held, blocks, first)

    return run


class _Part(NamedTuple):
    """A piece's two launches: which lays its weights out, and which computes it."""

    pack: Any
    pack_kernel: int
    packs: int
    pack_meta: Any
    blocks: int
    sum: Any
    kernel: int
    units: int
    meta: Any


def _part(
    room: _Room, reduced: int, w: Spec, step: int, bias: Spec | None, y: Spec, piece: _Piece, groups: int
) -> _Part:
    backend, code = y.backend, y.dtype.code
    channels, count = y.shape[1] // groups, len(piece.places)
    name, text, outs, strip, by = _summing(code, channels, count, vector_bits(backend))
    blocks = -(-channels // outs)
    by_group = w.strides[0] * (w.shape[0] // groups)
    source, signature = kernels.blocks(code, outs)
    pack_kernel = backend.kernel(f"blocks_{code}_{outs}", source, signature, unrolled=False).address
    pack_meta = [blocks, count, channels, by_group, step, int(bias is not None), *piece.weights.tolist()]
    size = groups * blocks * (count + 1) * outs
    source, signature = text
    kernel = backend.kernel(name, source, signature, contract=True).address
    planes, rows, columns = piece.size
    flat = (rows - 1) * room.wide + columns
    strips = -(-flat // strip)
    begin = sum([b * s for b, s in zip(piece.begin, y.strides[2:])])
    steps = [b * s for b, s in zip(piece.step, y.strides[2:])]
    meta = [room.image, reduced * room.plane, groups, blocks, count, channels]
    meta += [planes, strips, flat, room.wide, room.sheet, columns]
    meta += [*y.strides[:2], *steps, begin, *(piece.places * by).tolist()]
    units = groups * planes * strips if flat > 0 else 0
    return _Part(
        backend.launch(4, "", size),
        pack_kernel,
        groups * blocks,
        backend.constants(pack_meta),
        size,
        backend.launch(4, "q", y.numel * count),
        kernel,
        units,
        backend.constants(meta),
    )


def _summing(code: str, channels: int, count: int, bits: int | None) -> tuple[str, Any, int, int, int]:
    """The kernel's name, text and parameters; how many channels it works on together, on how many pixels, and the bytes of a place in
    its table."""
    own = computed(code)
    if bits is not None and own in ("f4", "f8") and channels >= _TILED:
        high, strip = SHAPES[bits][own].rows[0], kernels.tiled_strip(own, bits)
        return f"convolution_{code}_{bits}", kernels.tiled(code, bits), high, strip, int(own[1])
    outs = min(channels, 4)
    taps = _taps_at_once(outs, count)
    strip = kernels.strip_of(outs)
    return f"convolution_{code}_{outs}x{taps}", kernels.sums(code, outs, taps), outs, strip, 1


def _taps_at_once(outs: int, count: int) -> int:
    """As many as there are, if few; else so that weights, pixels and sums find room in registers."""
    if outs == 1:
        return count if 0 < count <= 9 else next((t for t in (8, 7, 9, 6, 5) if count % t == 0), 8)
    return min(max(count, 1), 4)


# ---------------------------------------------------------------- sums over pixels


class _Sums(NamedTuple):
    """What a gradient by weights is made from: the images and where taps lie in them, and how the gradient lies."""

    room: _Room
    table: Any
    planes: int
    rows: int
    columns: int
    each: int  # channels of the gradient in a group
    groups: int
    by_group: int

    @property
    def flat(self) -> int:
        return (self.rows - 1) * self.room.wide + self.columns


def weights(y: Spec, x: Spec, w: Spec, geometry: Geometry) -> Callable[[Tensor, Tensor], Tensor]:
    """`run(y, x)` gives the sums over pixels and images: the gradient by the weights, which lie as `w`, a new tensor."""
    g, (x, y, whole) = geometry.volume(), map(_volume, (x, y, w))
    outs, channels, *taps = tuple(whole.shape)
    planes, rows, columns = tuple(y.shape)[2:]
    of_one = _weights_by_product(y, x, w.dense()) if _is_product(whole, g, x, y) else None
    if of_one is not None:
        return of_one

    def laid(rows: int) -> tuple[_Room, Any]:
        return _room_of_wide(x, (planes, rows, columns), tuple(taps), g)

    room, places = laid(rows)
    table = _all_channels(channels, room.plane, places)
    s = _Sums(room, table, planes, rows, columns, outs // g.groups, g.groups, channels * room.plane)
    alone = _weights_alone(laid, y, x, w.dense(), s)
    if alone is not None:
        return alone
    bits, exact = vector_bits(y.backend), _by_loops(y, w.dense(), s)
    if bits is None or s.each < _TILED or not y.numel or not len(table):
        return exact
    return _by_tiles(y, w.dense(), s, bits, exact)


def _weights_alone(
    laid: Callable[[int], tuple[_Room, Any]], y: Spec, x: Spec, w: Spec, s: _Sums
) -> Callable[[Tensor, Tensor], Tensor] | None:
    """In one launch, of which a piece of work is some groups in all images; None where what a group reads has no room near."""
    backend, code, bits = y.backend, y.dtype.code, vector_bits(y.backend)
    channels, count = x.shape[1] // s.groups, len(s.table)
    if bits is None or code not in SHAPES[bits] or not y.numel or not 0 < s.each < _TILED:
        return None
    whole = -(-count // WINDOW) * WINDOW
    band = _band(laid, s.rows, channels) if 0 < s.each * whole <= kernels.MOST else 0
    if not band:
        return None
    room, places = laid(band)
    table = _all_channels(channels, room.plane, places) * y.itemsize
    dense = y if y.strides[4] == 1 else y.dense()
    # Neighbours together, whose planes lie behind one another: one by one the gradient of 128 groups takes twice as long.
    share = min(kernels.MOST // (s.each * whole), -(-s.groups // UNITS))
    units = -(-s.groups // share)
    meta = [y.shape[0], s.groups, share, channels, s.each, -(-s.rows // band), band, count]
    meta += [s.planes, s.rows, s.columns]
    how = backend.constants([*meta, *dense.strides[:4], *table.tolist()])
    kernel = backend.kernel(f"convolution_weights_{code}_alone", *kernels.weights_alone(code, bits)).address
    launch = backend.launch(5, "", y.numel * count)

    def run(narrow: Tensor, wide: Tensor) -> Tensor:
        out = empty(w)
        given = narrow if dense is y else contiguous(narrow)
        launch(kernel, units, how, room.meta, out._buf, given._buf, wide._buf)
        return out

    return run


def _by_tiles(
    y: Spec, w: Spec, s: _Sums, bits: int, exact: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[Tensor, Tensor], Tensor]:
    """Taps are a tile's rows, channels its columns, pixels what it sums over. Where something is not finite, `exact` says what."""
    backend, code, own, room = y.backend, y.dtype.code, s.room.dtype.code, s.room
    (high, _), most, lanes = SHAPES[bits][own]
    vectors = 1 if s.each <= lanes else most
    wide, count, size = vectors * lanes, len(s.table), int(own[1])
    panels = -(-s.each // wide)
    sheet = (s.rows * room.wide + lanes) * wide  # with room for what is turned beyond the last row
    gradient = s.groups * panels * s.planes * sheet
    lines = y.strides[4] == 1 or s.columns == 1
    copy = backend.kernel(
        f"panels_{code}_{wide}_{lines}", *kernels.panels(code, bits, vectors, lines), unrolled=False
    ).address
    meta = [panels, s.groups, s.each, s.planes, s.rows, s.columns, *y.strides, room.wide, sheet]
    how_copied, pieces = backend.constants(meta), s.groups * panels * s.planes
    blocks = -(-count // high)
    parts = min(blocks, -(-UNITS // s.groups))
    share = -(-blocks // parts) * high
    parts = -(-count // share)
    meta = [
        room.image,
        s.by_group,
        count,
        s.planes,
        s.flat,
        room.sheet,
        gradient,
        sheet,
        panels,
        parts,
        share,
    ]
    how = backend.constants([*meta, *(s.table * size).tolist()])
    name = f"convolution_weights_{own}_{bits}_{vectors}"
    kernel = backend.kernel(name, *kernels.weights_tiled(own, bits, vectors)).address
    turned = backend.kernel(f"turned_{code}", *kernels.turned(code), unrolled=False).address
    tall = -(-s.each // 16)
    how_turned = backend.constants([s.each, count, panels * wide, tall])
    sums, flag = (
        w.like((s.groups * count * panels * wide,), dtype=room.dtype),
        w.like((1,), dtype=dtypes.int64),
    )
    images = y.shape[0]
    at_once = _images_at_once(room.nbytes(1) + gradient * size, images)
    launches = [
        backend.launch(*of) for of in ((3, "q", y.numel), (4, "q", y.numel * count), (4, "", w.numel))
    ]
    copying, summing, turning = launches

    def run(narrow: Tensor, wide: Tensor) -> Tensor:
        out, total, odd = empty(w), zeros(sums), zeros(flag)
        held, other = backend.empty(room.nbytes(at_once)), backend.empty(at_once * gradient * size)
        for first in range(0, images, at_once):
            several = min(at_once, images - first)
            room.fill(held, wide, first, several)
            copying(copy, several * pieces, how_copied, other, narrow._buf, first)
            summing(kernel, s.groups * parts, how, total._buf, other, held, several)
        turning(turned, s.groups * tall, how_turned, out._buf, total._buf, odd._buf)
        if recorded.otherwise is not None and recorded.otherwise(out, odd, lambda: exact(narrow, wide)):
            return out
        return exact(narrow, wide) if backend.to_host(odd._buf, flag)[0] else out

    return run


def _by_loops(y: Spec, w: Spec, s: _Sums) -> Callable[[Tensor, Tensor], Tensor]:
    backend, room, count = y.backend, s.room, len(s.table)
    gradient = _Room(y, (1, 1, 1), [[0]] * 3, (s.planes, s.rows, room.wide), 0)
    block, taps = min(s.each, 4), min(count, 4) if s.each > 1 else min(count, 9)
    blocks = -(-s.each // block)
    parts = min(blocks, -(-UNITS // s.groups))
    share = -(-blocks // parts) * block
    parts = -(-s.each // share)
    meta = [room.image, s.by_group, s.groups, count, s.each, s.planes, s.flat, room.wide, room.sheet]
    meta += [s.columns, gradient.image, gradient.plane, gradient.sheet, parts, share, *s.table.tolist()]
    how, code = backend.constants(meta), room.dtype.code
    name = f"convolution_weights_{code}_{block}x{taps}"
    launch = backend.launch(4, "q", y.numel * count)
    made, images = w.like(dtype=room.dtype), y.shape[0]
    at_once = _images_at_once(room.nbytes(1) + gradient.nbytes(1), images)
    nbytes = room.nbytes(at_once), gradient.nbytes(at_once)

    def run(narrow: Tensor, wide: Tensor) -> Tensor:
        kernel = backend.kernel(name, *kernels.weights(code, block, taps), contract=True).address
        out = zeros(made)
        held, other = map(backend.empty, nbytes)
        for first in range(0, images, at_once):
            several = min(at_once, images - first)
            room.fill(held, wide, first, several)
            gradient.fill(other, narrow, first, several)
            launch(kernel, s.groups * parts, how, out._buf, other, held, several)
        return to_dtype(out, w.dtype)

    return run
