"""Patches as columns, and columns as the image that they add up to: `unfold` and `fold`, each the other's gradient."""

from __future__ import annotations

from math import prod
from typing import Any

from nbgrad.base.records import NamedTuple
from nbgrad.core.op import LINEAR
from nbgrad.core.plan import plan_for
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.prepared import Run, call_of, prepared, settled
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops.arrange.padding import _constant, _padded, _told
from nbgrad.ops.pointwise.arithmetic import _add
from nbgrad.ops.views.copy import copier, zeros
from nbgrad.ops.views.shape import reshape


class _Window(NamedTuple):
    """How it lies in a picture of two dimensions, and moves."""

    kernel_size: Ints
    dilation: Ints
    padding: Ints
    stride: Ints

    def blocks(self, size: Ints) -> Ints:
        """How many places it has."""
        return tuple([int((n + 2 * p - d * (k - 1) - 1) / s) + 1 for n, k, d, p, s in zip(size, *self)])

    def view(self, picture: Spec, blocks: Ints) -> Spec:
        """How what it shows of a picture with its margins lies: [images, channels, kh, kw, rows, columns]."""
        *outer, down, along = picture.strides
        steps = [s * step for by in (self.dilation, self.stride) for s, step in zip(by, (down, along))]
        return picture.like((*tuple(picture.shape)[:-2], *self.kernel_size, *blocks), (*outer, *steps))


def _of_each(op: Any, x: Tensor, settings: dict[str, Any], images: int) -> Tensor:
    """Of examples that are one image, of `images` dimensions, or several."""
    several = x.ndim > images + 1
    got: Tensor = op(reshape(x, (-1, *tuple(x.shape)[2:])) if several else x, **settings)
    return reshape(got, (*tuple(x.shape)[:2], *tuple(got.shape)[1:])) if several else got


@prepared(
    "Im2Col",
    tangent=LINEAR,
    batch=lambda x, **settings: _of_each(_columns, x, settings, 3),
    input=lambda g, input_spec, kernel_size, dilation, padding, stride: _picture(
        g,
        output_size=tuple(input_spec.shape)[-2:],
        kernel_size=kernel_size,
        dilation=dilation,
        padding=padding,
        stride=stride,
    ),
)
def _columns(input: Spec, *, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Run:
    window = _Window(kernel_size, dilation, padding, stride)
    blocks = window.blocks(tuple(input.shape)[-2:])
    high, wide = padding
    *images, channels = tuple(input.shape)[:-2]
    got = input.like((*images, channels * prod(kernel_size), prod(blocks)))
    if not (high or wide):
        shown = window.view(input, blocks)
        return copier(shown, shown.dense(), shown=got)
    margins = wide, wide, high, high
    pad = _constant.at(  # type: ignore[attr-defined]
        input, {"pad": margins, "value": _told(input, 0)}
    ).run
    shown = window.view(_padded(input, margins), blocks)
    copy = copier(shown, shown.dense(), shown=got)
    return lambda t: copy(pad(t))


@prepared(
    "Col2Im",
    tangent=LINEAR,
    batch=lambda x, **settings: _of_each(_picture, x, settings, 2),
    input=lambda g, kernel_size, dilation, padding, stride: _columns(
        g, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
    ),
)
def _picture(
    input: Spec, *, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Run:
    """Tap by tap: within one, no two windows meet."""
    window = _Window(kernel_size, dilation, padding, stride)
    blocks = window.blocks(output_size)
    *images, rows, _ = tuple(input.shape)
    shape = (*images, rows // prod(kernel_size))
    whole = input.like((*shape, *[n + 2 * p for n, p in zip(output_size, padding)]))
    parts, shown = input.like((*shape, *kernel_size, *blocks)), window.view(whole, blocks)
    one = [sp.like((*shape, *blocks), (*sp.strides[:-4], *sp.strides[-2:])) for sp in (shown, parts)]
    add, view, size = plan_for(_add.op, tuple(one), one[0]), input.backend.view, input.itemsize
    taps = [
        tuple([size * (i * sp.strides[-4] + j * sp.strides[-3]) for sp in (shown, parts)])
        for i in range(kernel_size[0])
        for j in range(kernel_size[1])
    ]
    ordered = None if input.contiguous else copier(input, input.dense())
    start = sum([p * s for p, s in zip(padding, whole.strides[-2:])])
    inside = whole.like((*shape, *output_size), whole.strides)
    cut = copier(inside, inside.dense(), start) if start else None

    def run(t: Tensor) -> Tensor:
        made = zeros(whole)
        to, source = made._buf, (t if ordered is None else ordered(t))._buf
        for there, here in taps:
            add.launch(add.address, add.n, view(to, there), view(source, here))
        return made if cut is None else cut(made)

    return run


# ---------------------------------------------------------------- by name


def _pair(given: Any) -> Ints:
    return (given, given) if isinstance(given, int) else tuple(given)


def _check_pairs(**pairs: Ints) -> None:
    for name, pair in pairs.items():
        if len(pair) != 2:
            raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(pair)}")


_WORDS = {
    "kernel_size": ("kernel size", "kernel"),
    "dilation": ("dilation", "dilation"),
    "padding": ("padding", "pad"),
    "stride": ("stride", "stride"),
}


def _check_window(window: _Window, order: tuple[str, ...]) -> None:
    for name in order:
        pair, (words, short) = getattr(window, name), _WORDS[name]
        if min(pair) < (name != "padding"):
            needed = "be non-negative" if name == "padding" else "be greater than zero"
            raise RuntimeError(
                f"{words} should {needed}, but got {short}_height: {pair[0]} {short}_width: {pair[1]}"
            )


def _check_kind(name: str, input: Tensor) -> None:
    if not (input.dtype.inexact or input.dtype is dtypes.bool_):
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for '{input.dtype.scalar_name}'")


@settled
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """What a window shows at each of its places, as columns: (n, c, height, width) becomes (n, c * kh * kw, places). It moves by
    `stride`, over images with `padding` zeros around them, and shows every `dilation`-th row and column. The gradient is `fold`.

    >>> F.unfold(torch.arange(9.0).view(1, 1, 3, 3), (1, 2))
    tensor([[[0., 1., 3., 4., 6., 7.],
             [1., 2., 4., 5., 7., 8.]]])
    """
    window = _Window(_pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))
    _check_pairs(**window._asdict())
    _check_window(window, ("kernel_size", "dilation", "padding", "stride"))
    shape = tuple(input.shape)
    if input.ndim < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {input.ndim})"
        )
    if input.ndim > 4 or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: "
            f"{list(shape)}"
        )
    blocks = window.blocks(shape[-2:])
    if min(blocks) < 1:
        raise RuntimeError(
            f"Given input with spatial size {shape[-2:]}, kernel_size={window.kernel_size}, dilation={window.dilation}, "
            f"padding={window.padding}, calculated shape of the array of sliding blocks as {blocks}, but its components must be "
            "at least one."
        )
    _check_kind("im2col", input)
    return call_of(_columns, input, **window._asdict())


@settled
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The image of `output_size` to which columns add up, each at the place where `unfold` would have taken it: (n, c * kh * kw,
    places) becomes (n, c, height, width). The gradient is `unfold`.

    >>> F.fold(torch.ones(1, 2, 2), (1, 3), (1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    size = _pair(output_size)
    window = _Window(_pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))
    _check_pairs(output_size=size, **window._asdict())
    _check_window(window, ("kernel_size", "stride", "padding", "dilation"))
    shape = tuple(input.shape)
    if input.ndim not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: "
            f"{list(shape)}"
        )
    if shape[-2] % prod(window.kernel_size):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={shape[-2]} and kernel_size={window.kernel_size}."
        )
    blocks = window.blocks(size)
    if min(blocks) < 1:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={window.kernel_size}, dilation={window.dilation}, padding={window.padding}, "
            f"stride={window.stride}, calculated shape of the array of sliding blocks as {blocks}, which is too small (non-positive)"
        )
    if prod(blocks) != shape[-1]:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={window.kernel_size}, dilation={window.dilation}, padding={window.padding}, "
            f"stride={window.stride}, expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{blocks[0]} * {blocks[1]} = {prod(blocks)}, but got input.size(2)={shape[-1]}."
        )
    _check_kind("col2im", input)
    return call_of(_picture, input, output_size=size, **window._asdict())
