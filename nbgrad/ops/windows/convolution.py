"""Convolution, plain and transposed, of one to three spatial dimensions.

It and its gradients are three sums (`correlation.py`), each linear in its two operands, and each has the other two as its gradients: so
derivatives of every order exist, and a transposed convolution is one of the three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.op import PRODUCT
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.prepared import prepared_several
from nbgrad.memory.dtypes import float32
from nbgrad.memory.layout import Ints, channels_last_strides, contiguous_format, suggested_format
from nbgrad.memory.storage import Spec
from nbgrad.ops.pointwise.operators import add
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.views.copy import contiguous, to_dtype, zeros
from nbgrad.ops.views.order import movedim
from nbgrad.ops.views.shape import expand, reshape, unsqueeze
from nbgrad.ops.windows import correlation, patches
from nbgrad.ops.windows.correlation import Geometry
from nbgrad.ops.windows.refusals import Settings, by_library

# ---------------------------------------------------------------- the three sums


@cached(4096)
def _planned(which: str, *specs: Any) -> Any:
    """One of the three sums, of these operands first, as where they lie computes it."""
    return getattr(correlation if specs[0].backend.prompt else patches, which)(*specs)


def _sizes(t: Tensor) -> Ints:
    return tuple(t.shape)[2:]


def _together(t: Tensor, has: bool, count: int) -> Tensor:
    """All examples' channels of images (dimension 1), or of weights (dimension 0), as those of one."""
    if not has:
        t = expand(unsqueeze(t, 0), (count, *t.shape))
    _, n, channels, *inner = t.shape
    return reshape(movedim(t, 0, 1), (n, count * channels, *inner))


def _weights_together(t: Tensor, has: bool, count: int) -> Tensor:
    if not has:
        t = expand(unsqueeze(t, 0), (count, *t.shape))
    return reshape(t, (-1, *tuple(t.shape)[2:]))


def _apart(t: Tensor, count: int) -> Tensor:
    n, channels, *inner = t.shape
    return movedim(reshape(t, (n, count, channels // count, *inner)), 1, 0)


def _images_together(t: Tensor) -> Tensor:
    return reshape(t, (-1, *tuple(t.shape)[2:]))


def _by_groups(g: Geometry, count: int) -> Geometry:
    return g._replace(groups=g.groups * count)


def _each(op: Any) -> Callable[..., Any]:
    """Of many examples: those that share their weights are more images; else each is a group of channels."""

    def batch(has: Any, images: Tensor, weight: Tensor, *, size: Ints, geometry: Geometry) -> Tensor:
        if not has[1]:
            got = op(_images_together(images), weight, size=size, geometry=geometry)
            return reshape(got, (*tuple(images.shape)[:2], *tuple(got.shape)[1:]))
        count = weight.shape[0]
        images, weight = _together(images, has[0], count), _weights_together(weight, True, count)
        return _apart(op(images, weight, size=size, geometry=_by_groups(geometry, count)), count)

    return batch


def _each_weights(has: Any, narrow: Tensor, wide: Tensor, *, size: Ints, geometry: Geometry) -> Tensor:
    count = (narrow if has[0] else wide).shape[0]
    narrow, wide = _together(narrow, has[0], count), _together(wide, has[1], count)
    got = _weights(narrow, wide, size=size, geometry=_by_groups(geometry, count))
    return reshape(got, (count, -1, *tuple(got.shape)[1:]))


@differentiable(
    "ConvolutionBackward",
    raw=True,
    tangent=PRODUCT,
    batch=lambda *a, **s: _each(_narrow)(*a, **s),
    wide=lambda g, weight, wide_spec, geometry: _wide(
        g, weight, size=tuple(wide_spec.shape)[2:], geometry=geometry
    ),
    weight=lambda g, wide, weight_spec, geometry: _weights(
        g, wide, size=tuple(weight_spec.shape)[2:], geometry=geometry
    ),
)
def _narrow(wide: Tensor, weight: Tensor, *, size: Ints, geometry: Geometry) -> Tensor:
    x, w = wide._spec, weight._spec
    made = x.like((x.shape[0], w.shape[0], *size))
    made = _with_channels_last(made) if _either_lies_so(x, w) else made
    out = empty(made)
    if made.numel:
        _planned("narrow", x, w, None, made, geometry)(wide, weight, None, out)
    return out


@differentiable(
    "ConvolutionBackward",
    raw=True,
    tangent=PRODUCT,
    batch=lambda *a, **s: _each(_wide)(*a, **s),
    narrow=lambda g, weight, narrow_spec, geometry: _narrow(
        g, weight, size=tuple(narrow_spec.shape)[2:], geometry=geometry
    ),
    weight=lambda g, narrow, weight_spec, geometry: _weights(
        narrow, g, size=tuple(weight_spec.shape)[2:], geometry=geometry
    ),
)
def _wide(narrow: Tensor, weight: Tensor, *, size: Ints, geometry: Geometry) -> Tensor:
    y, w = narrow._spec, weight._spec
    made = y.like((y.shape[0], w.shape[1] * geometry.groups, *size))
    made = _with_channels_last(made) if _either_lies_so(y, w) else made
    out = empty(made)
    if made.numel:
        _planned("wide", y, w, None, made, geometry)(narrow, weight, None, out)
    return out


@differentiable(
    "ConvolutionBackward",
    raw=True,
    tangent=PRODUCT,
    batch=_each_weights,
    narrow=lambda g, wide, narrow_spec, geometry: _narrow(
        wide, g, size=tuple(narrow_spec.shape)[2:], geometry=geometry
    ),
    wide=lambda g, narrow, wide_spec, geometry: _wide(
        narrow, g, size=tuple(wide_spec.shape)[2:], geometry=geometry
    ),
)
def _weights(narrow: Tensor, wide: Tensor, *, size: Ints, geometry: Geometry) -> Tensor:
    y, x = narrow._spec, wide._spec
    made = y.like((y.shape[1], x.shape[1] // geometry.groups, *size))
    if not made.numel:
        return empty(made)
    got: Tensor = _planned("weights", y, x, made, geometry)(narrow, wide)
    return got


# ---------------------------------------------------------------- as one op


def result_shape(
    input: Spec, weight: Spec, geometry: Geometry, transposed: bool, output_padding: Ints
) -> tuple[int, ...]:
    taps = tuple(weight.shape)[2:]
    sizes = []
    for n, k, s, p, d, more in zip(tuple(input.shape)[2:], taps, *geometry[:3], output_padding):
        if transposed:
            sizes.append((n - 1) * s - 2 * p + d * (k - 1) + more + 1)
        else:
            sizes.append((n + 2 * p - d * (k - 1) - 1) // s + 1)
    channels = weight.shape[1] * geometry.groups if transposed else weight.shape[0]
    return (input.shape[0], channels if input.shape[1] else 0, *sizes)


def _channels_lie_last(input: Spec, weight: Spec, s: Settings) -> bool:
    """As PyTorch chooses: where those of the images do, or of the weights; of volumes, if its library computes them."""
    volume = input.ndim == 5
    if input.ndim < 4 or (volume and not (input.dtype is float32 and by_library(input, weight, s))):
        return False
    return _either_lies_so(input, weight)


def _either_lies_so(*specs: Spec) -> bool:
    return any([suggested_format(tuple(sp.shape), sp.strides) is not contiguous_format for sp in specs])


def _with_channels_last(sp: Spec) -> Spec:
    return sp.like(strides=channels_last_strides(sp.shape))


def _each_convolution(
    has: Any, input: Tensor, weight: Tensor, bias: Tensor | None, **settings: Any
) -> tuple[Tensor]:
    if has[1] or (bias is not None and has[2]):
        got = _of_each(has, input, weight, **settings)
        if bias is not None:
            shape = (*(1, bias.shape[-1]), *(1,) * (got.ndim - 3))
            got = add(got, reshape(bias, (bias.shape[0], *shape) if has[2] else (1, *shape)))
        return (got,)
    got = convolution(_images_together(input), weight, bias, **settings)[0]
    return (reshape(got, (*tuple(input.shape)[:2], *tuple(got.shape)[1:])),)


def _of_each(has: Any, input: Tensor, weight: Tensor, *, groups: int, **settings: Any) -> Tensor:
    """Without the bias."""
    if not any(has[:2]):
        return unsqueeze(convolution(input, weight, None, **settings, groups=groups)[0], 0)
    if not has[1]:
        got = convolution(_images_together(input), weight, None, **settings, groups=groups)[0]
        return reshape(got, (*tuple(input.shape)[:2], *tuple(got.shape)[1:]))
    count = weight.shape[0]
    images, weights = _together(input, has[0], count), _weights_together(weight, True, count)
    return _apart(convolution(images, weights, None, **settings, groups=groups * count)[0], count)


def _tangent(
    input: Tensor,
    weight: Tensor,
    input_t: Tensor | None,
    weight_t: Tensor | None,
    bias_t: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> tuple[Tensor]:
    def of(x: Tensor, w: Tensor) -> Tensor:
        got: Tensor = convolution(
            x,
            w,
            None,
            stride=stride,
            padding=padding,
            dilation=dilation,
            transposed=transposed,
            output_padding=output_padding,
            groups=groups,
        )[0]
        return got

    parts = [of(input_t, weight)] if input_t is not None else []
    parts += [of(input, weight_t)] if weight_t is not None else []
    if bias_t is not None:
        spatial = (1,) * (input.ndim - 2)
        like = parts[0] if parts else of(input, weight)
        parts.append(expand(reshape(bias_t, (-1, *spatial)), like.shape))
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    return (total,)


def _back(
    g: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    groups: int,
    wanted: Any,
) -> Any:
    geometry = Geometry(stride, padding, dilation, groups)
    by_input = _narrow if transposed else _wide
    pair = (input, g) if transposed else (g, input)
    by_bias = None
    if wanted[2]:  # of no channels PyTorch makes none, whatever the weight says
        channels = weight.shape[1] * groups if transposed else weight.shape[0]
        by_bias = (
            r.sum(g, (0, *range(2, g.ndim))) if g.shape[1] == channels else zeros(g._spec.like((channels,)))
        )
    return (
        by_input(g, weight, size=_sizes(input), geometry=geometry) if wanted[0] else None,
        _weights(*pair, size=_sizes(weight), geometry=geometry) if wanted[1] else None,
        by_bias,
    )


@prepared_several("Convolution", tangent=_tangent, batch=_each_convolution, all=_back)
def convolution(
    input: Spec,
    weight: Spec,
    bias: Spec | None,
    *,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Callable[..., tuple[Tensor, ...]]:
    """Operands having been checked."""
    geometry = Geometry(stride, padding, dilation, groups)
    made = input.like(result_shape(input, weight, geometry, transposed, output_padding))
    settings = Settings(stride, padding, dilation, transposed, output_padding, groups)
    if made.numel and _channels_lie_last(input, weight, settings):
        made = _with_channels_last(made)
    if not made.numel:
        return lambda *_: (empty(made),)
    cast = bias is not None and bias.dtype is not made.dtype
    read = bias.dense().like(dtype=made.dtype) if bias is not None and cast else bias
    run = _planned("wide" if transposed else "narrow", input, weight, read, made, geometry)

    def convolve(input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor]:
        out = empty(made)
        run(input, weight, contiguous(to_dtype(bias, made.dtype)) if bias is not None and cast else bias, out)
        return (out,)

    return convolve


# PyTorch's names of what its node keeps.
_record: Any = convolution.op  # type: ignore[attr-defined]
_record.public = {**_record.public, "input": "input"}
_record.shown = {"output_padding": lambda **settings: settings["output_padding"]}
