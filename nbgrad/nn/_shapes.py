"""What changes the shape of images and sequences: padding, and channels traded for places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad import _creation
from nbgrad._tensor import Tensor
from nbgrad.ops.gather import index_select
from nbgrad.ops.host import of_array
from nbgrad.ops.join import cat
from nbgrad.ops.movement import narrow, permute, reshape

_At = Callable[[Any, int], Any]
# Which place of a dimension of n each place of the padded one shows.
_PLACES: dict[str, _At] = {
    "reflect": lambda k, n: (n - 1) - np.abs((n - 1) - np.abs(k)),
    "replicate": lambda k, n: np.clip(k, 0, n - 1),
    "circular": lambda k, n: k % n,
}


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Before and behind each dimension, from the last one on: `pad` has a pair of lengths for each; negative ones cut."""
    pairs = [(int(a), int(b)) for a, b in zip(pad[::2], pad[1::2])]
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pairs) > input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length {len(pad)} and "
            f"input of dimension {input.ndim}"
        )
    if mode == "constant":
        return _constant(input, pairs, 0.0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _PLACES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if not 0 <= input.ndim - len(pairs) - 1 <= 1:
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    got = input
    for k, (before, behind) in enumerate(pairs):
        dim, n = input.ndim - 1 - k, input.shape[input.ndim - 1 - k]
        _check(mode, before, behind, dim, n, input)
        places = _PLACES[mode](np.arange(-before, n + behind), n)
        got = index_select(got, dim, of_array(places.astype(np.int64)))
    return got


def _check(mode: str, before: int, behind: int, dim: int, n: int, input: Any) -> None:
    if mode == "reflect" and (before >= n or behind >= n):
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {behind}) at dimension {dim} of input {list(input.shape)}"
        )
    if mode == "circular" and (before > n or behind > n):
        raise RuntimeError("Padding value causes wrapping around more than once.")


def _constant(input: Any, pairs: list[tuple[int, int]], value: float) -> Tensor:
    got = input
    for k, (before, behind) in enumerate(pairs):
        dim = input.ndim - 1 - k
        cut = narrow(got, dim, max(-before, 0), got.shape[dim] + min(before, 0) + min(behind, 0))
        parts = [cut]
        for at, n in ((0, before), (len(parts), behind)):
            if n > 0:
                shape = [*cut.shape[:dim], n, *cut.shape[dim + 1 :]]
                parts.insert(at and len(parts), _creation.full(shape, value, dtype=input.dtype))
        got = cat(parts, dim) if len(parts) > 1 else cut
    found: Tensor = got.clone() if got is input else got
    return found


def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """[..., c * r^2, h, w] as [..., c, h * r, w * r]."""
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={c} is not divisible by {r * r}"
        )
    n = len(lead)
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    moved = permute(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(moved, (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """[..., c, h * r, w * r] as [..., c * r^2, h, w]."""
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    for word, size, dim in (("height", h, -2), ("width", w, -1)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {word} to be divisible by downscale_factor, but input.size({dim})={size} is not "
                f"divisible by {r}"
            )
    n = len(lead)
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    moved = permute(split, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return reshape(moved, (*lead, c * r * r, h // r, w // r))


def channel_shuffle(input: Any, groups: int) -> Tensor:
    """The channels of each group, taken in turn."""
    if input.ndim <= 2:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    batch, c, *rest = input.shape
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    split = reshape(input, (batch, groups, c // groups, *rest))
    return reshape(permute(split, (0, 2, 1, *range(3, input.ndim + 1))), tuple(input.shape))


__all__ = ["channel_shuffle", "pad", "pixel_shuffle", "pixel_unshuffle"]
