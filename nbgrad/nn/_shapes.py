"""What changes the shape of images and sequences: padding, and channels traded for places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.memory.layout import contiguous_format, suggested_format
from nbgrad.memory.storage import Spec
from nbgrad.ops.views.copy import copier, dense_copy, in_format_of
from nbgrad.ops.views.order import permute
from nbgrad.ops.views.shape import reshape


def _copied(input: Spec, split: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> Quick | None:
    """A copy, as this `shape`, of a tensor that lies in order, its dimensions `split` and then in another `order`."""
    if not input.canonical or suggested_format(tuple(input.shape), input.strides) is not contiguous_format:
        return None
    parts = input.like(tuple(split))
    moved = input.like(tuple([split[d] for d in order]), tuple([parts.strides[d] for d in order]))
    return copier(moved, moved.dense(), shown=input.like(tuple(shape)))


def _as(input: Tensor, moved: Tensor, shape: Sequence[int]) -> Tensor:
    """A copy in another shape, in the format of `input`: a tensor of its own, no view of that copy."""
    made = in_format_of(input, reshape(moved, tuple(shape)))
    return wrap(made._buf, made._spec)


def _quick_shuffle(input: Spec, upscale_factor: Any) -> Quick | None:
    r, (*lead, c, h, w) = upscale_factor, tuple(input.shape)
    if type(r) is not int or not input.numel:
        return None
    n, of = len(lead), c // (r * r)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return _copied(input, (*lead, of, r, r, h, w), order, (*lead, of, h * r, w * r))


def _quick_unshuffle(input: Spec, downscale_factor: Any) -> Quick | None:
    r, (*lead, c, h, w) = downscale_factor, tuple(input.shape)
    if type(r) is not int or not input.numel:
        return None
    n = len(lead)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return _copied(input, (*lead, c, h // r, r, w // r, r), order, (*lead, c * r * r, h // r, w // r))


def _quick_mix(input: Spec, groups: Any) -> Quick | None:
    batch, c, *rest = tuple(input.shape)
    if type(groups) is not int or not input.numel:
        return None
    order = (0, 2, 1, *range(3, input.ndim + 1))
    return _copied(input, (batch, groups, c // groups, *rest), order, tuple(input.shape))


@differentiable(
    "PixelShuffle",
    tangent=LINEAR,
    batch=lambda x, r: _shuffle(x, r=r),
    input=lambda g, r: _unshuffle(g, r=r),
)
def _shuffle(input: Tensor, *, r: int) -> Tensor:
    n, (*lead, c, h, w) = input.ndim - 3, input.shape
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    moved = permute(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return _as(input, dense_copy(moved), (*lead, c // (r * r), h * r, w * r))


@differentiable(
    "PixelUnshuffle",
    tangent=LINEAR,
    batch=lambda x, r: _unshuffle(x, r=r),
    input=lambda g, r: _shuffle(g, r=r),
)
def _unshuffle(input: Tensor, *, r: int) -> Tensor:
    n, (*lead, c, h, w) = input.ndim - 3, input.shape
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    moved = permute(split, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return _as(input, dense_copy(moved), (*lead, c * r * r, h // r, w // r))


@differentiable(
    "ChannelShuffle",
    tangent=LINEAR,
    batch=lambda x, groups: reshape(_mix(reshape(x, (-1, *x.shape[2:])), groups=groups), tuple(x.shape)),
    input=lambda g, groups: _mix(g, groups=g.shape[1] // groups),
)
def _mix(input: Tensor, *, groups: int) -> Tensor:
    batch, c, *rest = input.shape
    split = reshape(input, (batch, groups, c // groups, *rest))
    moved = dense_copy(permute(split, (0, 2, 1, *range(3, input.ndim + 1))))
    return _as(input, moved, tuple(input.shape))


@quickly(_quick_shuffle, devices=True)
def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """[..., c * r^2, h, w] as [..., c, h * r, w * r], r being `upscale_factor`: each place gets a square of r * r pixels from as
    many channels.

    >>> F.pixel_shuffle(torch.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if r * r >= 2**63:
        raise ValueError(f"upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={r}")
    c = input.shape[-3]
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={c} is not divisible by {r * r}"
        )
    return _shuffle(input, r=r)


@quickly(_quick_unshuffle, devices=True)
def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """[..., c, h * r, w * r] as [..., c * r^2, h, w], r being `downscale_factor`: what undoes `pixel_shuffle`.

    >>> F.pixel_unshuffle(torch.arange(4.0).reshape(1, 2, 2), 2).shape
    torch.Size([4, 1, 1])
    """
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    h, w = input.shape[-2:]
    for word, size, dim in (("height", h, -2), ("width", w, -1)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {word} to be divisible by downscale_factor, but input.size({dim})={size} is not "
                f"divisible by {r}"
            )
    return _unshuffle(input, r=r)


@quickly(_quick_mix, devices=True)
def channel_shuffle(input: Any, groups: int) -> Tensor:
    """The channels (dimension 1) of each of `groups` groups, taken in turn: the first of every group, then the second of every
    group.

    >>> F.channel_shuffle(torch.arange(6.0).reshape(1, 6, 1), 2).flatten()
    tensor([0., 3., 1., 4., 2., 5.])
    """
    if input.ndim <= 2:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    c = input.shape[1]
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    return _mix(input, groups=groups)


def native_channel_shuffle(input: Any, groups: int) -> Tensor:
    """`channel_shuffle`, by PyTorch's other name; unlike PyTorch's it has a gradient.

    >>> F.native_channel_shuffle(torch.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    return channel_shuffle(input, groups)


__all__ = ["channel_shuffle", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]
