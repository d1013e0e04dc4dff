"""Pooling, as functions: PyTorch's names, defaults and refusals. One dimension is two, the first of size 1, as it is there."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from nbgrad.base.tables import PLANS, cached
from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor, requires, wrap
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.prepared import Prepared, call_of, settled, settled_first
from nbgrad.dispatch.quick import quickly, replayed
from nbgrad.dispatch.return_types import EXPECTED
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Ints, channels_last, suggested_format
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.make.drawn import rand
from nbgrad.ops.pointwise.activations import relu
from nbgrad.ops.reduce.sums import mean
from nbgrad.ops.views.copy import in_format_of, zeros
from nbgrad.ops.views.shape import squeeze, unsqueeze
from nbgrad.ops.views.slices import narrow
from nbgrad.ops.windows import averages, extremes, geometry
from nbgrad.ops.windows.geometry import check_dtype, sizes
from nbgrad.tape.modes import state

Pair = tuple[Tensor, Tensor]

# ---------------------------------------------------------------- the largest of each window


def _given(kernel: Any, stride: Any, *others: Any) -> tuple[Ints, ...]:
    """As sequences; a stride may be left out."""
    return tuple([sizes(v) for v in (kernel, () if stride is None else stride, *others)])


def _max_pool(
    input: Tensor, dims: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Pair:
    found: Pair = extremes.max_pool[dims](
        input, geometry=_windows(input, dims, kernel, stride, padding, dilation, ceil)
    )
    return found


def _windows(
    input: Tensor, dims: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> extremes.Geometry:
    given = _given(kernel, stride, padding, dilation)
    how = geometry.of_max_pool(tuple(input.shape), dims, given, bool(ceil))
    check_dtype(
        f"max_pool{dims}d", input.dtype, input.dtype is not dtypes.bool_ and not input.dtype.is_complex
    )
    if dims == 3 and suggested_format(tuple(input.shape), tuple(input.stride())) is channels_last:
        raise RuntimeError("Unsupported memory format. Supports only ChannelsLast3d, Contiguous")
    return how


def _largest(input: Tensor, dims: int, *settings: Any) -> Any:
    """What a settled function answers that gives them without their places."""
    found = call_of(extremes.max_pool[dims], input, geometry=_windows(input, dims, *settings))
    return found[0] if isinstance(found, tuple) else found


@quickly(devices=True)
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Pair:
    """`max_pool1d`, and where in its line each of the largest lies.

    >>> torch.max_pool1d_with_indices(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    geometry.check_lines("max_pool1d", input)
    kernel, step, pad, far = _given(kernel_size, stride, padding, dilation)
    step = step or kernel
    geometry.check_one("max_pool1d", kernel_size=kernel, stride=step, padding=pad, dilation=far)
    planes = unsqueeze(input, -2)
    values, places = _max_pool(planes, 2, (1, *kernel), (1, *step), (0, *pad), (1, *far), ceil_mode)
    return squeeze(values, -2), squeeze(places, -2)


@replayed
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each `kernel_size` neighbours in the last dimension; windows are `stride` (if it is not given, their size) apart,
    and their elements `dilation`. `padding` lets the first one begin before the line, whose missing elements are below all others; with
    `ceil_mode` the last one may end behind. The gradient goes to the largest, of equals to the first. With `return_indices` their
    places come too.

    >>> F.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0, 5.0]]), 2)
    tensor([[3., 2.]])
    >>> F.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0, 5.0]]), 3, stride=2)
    tensor([[3., 5.]])
    """
    if return_indices:
        return max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    given = _given(kernel_size, stride, padding, dilation)
    geometry.check_line_settings(given, tuple(input.shape), bool(ceil_mode))
    if (requires(input) and state.grad) or transforms.moves((input,)):
        return max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)[0]
    check_dtype("max_pool1d_impl", input.dtype, input.dtype.is_floating_point)
    if transforms.wrapped((input,)):
        return max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)[0]
    planes, pool, lines = _of_lines(input._spec, given, bool(ceil_mode))
    values, _ = pool.run(wrap(input._buf, planes))
    return wrap(values._buf, lines)  # no view


@cached(PLANS)
def _of_lines(input: Spec, given: tuple[Ints, ...], ceil: bool) -> tuple[Spec, Prepared, Spec]:
    """How lines lie as planes of one row, what takes the largest of these, and how they lie as lines again."""
    shape, strides = tuple(input.shape), tuple(input.strides)
    # The row's step is 0, which no format has: with channels last the values would lie so, too, and not as the lines do.
    planes = input.like((*shape[:-1], 1, shape[-1]), (*strides[:-1], 0, strides[-1]))
    kernel, step, pad, far = given
    of_planes = ((1, *kernel), (1, *(step or kernel)), (0, *pad), (1, *far))
    how = geometry.of_max_pool(tuple(planes.shape), 2, of_planes, ceil)
    pool: Prepared = extremes.max_pool[2].at(planes, {"geometry": how})
    return planes, pool, input.like((*shape[:-1], how.outs[-1]))


@quickly(devices=True)
def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Pair:
    """`max_pool2d`, and where in its plane each of the largest lies, counted row by row.

    >>> F.max_pool2d_with_indices(torch.tensor([[[1.0, 3.0], [2.0, 0.0]]]), 2)
    (tensor([[[3.]]]), tensor([[[1]]]))
    """
    return _max_pool(input, 2, kernel_size, stride, padding, dilation, ceil_mode)


@settled_first
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each window of the last two dimensions; settings are as in `max_pool1d`, one number for both or one for each.

    >>> F.max_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    run = _max_pool if return_indices else _largest
    return run(input, 2, kernel_size, stride, padding, dilation, ceil_mode)


@quickly(devices=True)
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Pair:
    """`max_pool3d`, and where in its volume each of the largest lies, counted plane by plane.

    >>> F.max_pool3d_with_indices(torch.arange(8.0).reshape(1, 2, 2, 2), 2)
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    return _max_pool(input, 3, kernel_size, stride, padding, dilation, ceil_mode)


@settled_first
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each window of the last three dimensions; settings are as in `max_pool1d`, one number for all or one for each.

    >>> F.max_pool3d(torch.arange(16.0).reshape(1, 2, 2, 4), 2)
    tensor([[[[13., 15.]]]])
    """
    run = _max_pool if return_indices else _largest
    return run(input, 3, kernel_size, stride, padding, dilation, ceil_mode)


# ---------------------------------------------------------------- means


def _avg_pool(
    input: Tensor,
    dims: int,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    include: bool,
    divisor: int | None,
) -> Any:
    given = _given(kernel, stride, padding)
    shape = tuple(input.shape)
    how = geometry.of_avg_pool(shape, dims, given, bool(ceil), divisor)
    name, d = ("avg_pool2d", input.dtype) if dims == 2 else ("avg_pool3d_out_frame", input.dtype)
    taken = d in (dtypes.float32, dtypes.float64, dtypes.int64)
    check_dtype(name, d, taken or (dims == 2 and d.narrow))
    divisors = [None] * dims if divisor is None else [*[1] * (dims - 1), divisor]
    lines = zip(shape[-dims:], how.outs, how.kernel, how.stride, how.padding, [include] * dims, divisors)
    return call_of(averages.avg_pool[dims], input, taps=tuple([averages.alike(*line) for line in lines]))


@quickly(devices=True)
def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each `kernel_size` neighbours in the last dimension; windows are `stride` (if not given, their size) apart. Zeros of
    the `padding` are counted unless `count_include_pad` is False; with `ceil_mode` the last window may end behind the line. The gradient
    is shared by the elements of a window.

    >>> F.avg_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0, 5.0]]), 2)
    tensor([[2., 1.]])
    """
    geometry.check_lines("avg_pool1d", input)
    kernel, step, pad = _given(kernel_size, stride, padding)
    step = step or kernel
    geometry.check_one("avg_pool1d", kernel_size=kernel, stride=step, padding=pad)
    means = avg_pool2d(
        unsqueeze(input, -2), (1, *kernel), (1, *step), (0, *pad), ceil_mode, count_include_pad
    )
    return squeeze(means, -2)


@settled
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of each window of the last two dimensions; settings are as in `avg_pool1d`, one number for both or one for each. Sums are
    divided by `divisor_override` if that is given.

    >>> F.avg_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    settings = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    found = _avg_pool(input, 2, *settings)
    return found if out is None else into("avg_pool2d", out, avg_pool2d(input, *settings), (input,), EXPECTED)


@settled
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of each window of the last three dimensions; settings are as in `avg_pool2d`.

    >>> F.avg_pool3d(torch.arange(16.0).reshape(1, 2, 2, 4), 2)
    tensor([[[[6.5000, 8.5000]]]])
    """
    settings = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    found = _avg_pool(input, 3, *settings)
    return found if out is None else into("avg_pool3d", out, avg_pool3d(input, *settings), (input,), EXPECTED)


# ---------------------------------------------------------------- as many results as are asked for


def _with_default(output_size: Any, input: Tensor) -> Any:
    """Where it says None, the input's own size."""
    shape = input.size()
    if isinstance(output_size, int):
        return output_size
    if len(shape) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    own = shape[-len(output_size) :]
    return [n if n is not None else m for n, m in zip(output_size, own)]


def _outs(name: str, output_size: Any, input: Tensor) -> Ints:
    wanted = _with_default(output_size, input)
    check(f"inner.{name}", (input, wanted), {})
    return (wanted,) * int(name[-2]) if isinstance(wanted, int) else tuple(wanted)


def _adaptive_avg_pool(input: Tensor, outs: Ints, dims: int) -> Any:
    name, shape = f"adaptive_avg_pool{dims}d", tuple(input.shape)
    if min(outs) < 0:
        shown = ", ".join(map(str, outs)) if dims == 2 else f"{outs[0]}, {outs[1]},{outs[2]}"
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {{{shown}}}"
        )
    if outs == (1,) * dims:
        geometry.check_has(shape, dims)
        return in_format_of(input, mean(input, tuple(range(-1, -dims - 1, -1)), True))
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got {list(shape)}")
    geometry.check_filled(f"{name}()", shape, len(shape) - 2 if dims == 2 else 1, "input has sizes {}")
    kernel = name if dims == 2 else f"{name}_cpu"
    nothing = dims == 2 and (not input.numel() or 0 in outs)
    check_dtype(kernel, input.dtype, input.dtype.is_floating_point or nothing)
    if input.is_complex():  # of which no kernel is asked for nothing
        return zeros(input._spec.plain.like((*shape[:-dims], *outs)))
    taps = tuple([averages.evenly(n, m) for n, m in zip(shape[-dims:], outs)])
    return call_of(averages.adaptive_avg_pool[dims], input, taps=taps)


def _all_of(name: str, outs: Ints, dims: int, words: str) -> Ints:
    if len(outs) != dims:
        raise RuntimeError(f"{name}{words} must be {dims}")
    return outs


@quickly(devices=True)
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """`output_size` means of as many stretches of the last dimension, which share it evenly and overlap by an element where they must.

    >>> F.adaptive_avg_pool1d(torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]), 2)
    tensor([[2., 4.]])
    """
    geometry.check_lines("adaptive_avg_pool1d", input)
    geometry.check_one("adaptive_avg_pool1d", output_size=sizes(output_size))
    return squeeze(adaptive_avg_pool2d(unsqueeze(input, -2), (1, *sizes(output_size))), -2)


@settled
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that share the last two dimensions evenly, so many that the result has this size: one number for both, or one for
    each, None being the input's.

    >>> F.adaptive_avg_pool2d(torch.arange(12.0).reshape(1, 3, 4), (1, 2))
    tensor([[[4.5000, 6.5000]]])
    """
    outs = _outs("adaptive_avg_pool2d", output_size, input)
    return _adaptive_avg_pool(input, _all_of("adaptive_avg_pool2d", outs, 2, ": output_size"), 2)


@settled
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that share the last three dimensions evenly; `output_size` is as in `adaptive_avg_pool2d`.

    >>> F.adaptive_avg_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), (1, 1, 2))
    tensor([[[[3., 4.]]]])
    """
    outs = _outs("adaptive_avg_pool3d", output_size, input)
    return _adaptive_avg_pool(input, _all_of("adaptive_avg_pool3d", outs, 3, ": output_size"), 3)


def _check_shape(shape: Ints) -> None:
    if min(shape) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")


def _adaptive_max_pool(input: Tensor, outs: Ints, dims: int) -> Pair:
    name, shape = f"adaptive_max_pool{dims}d", tuple(input.shape)
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(shape)}")
    geometry.check_filled(f"{name}()", shape, 1, "input has sizes {}")
    outs = _all_of(name, outs, dims, "(): internal error: output_size.size()")
    _check_shape((*shape[:-dims], *outs))
    check_dtype(name if dims == 2 else f"{name}_cpu", input.dtype, input.dtype.is_floating_point)
    found: Pair = extremes.adaptive_max_pool[dims](input, outs=outs)
    return found


@quickly(devices=True)
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Pair:
    """`adaptive_max_pool1d`, and where in its line each of the largest lies.

    >>> torch.adaptive_max_pool1d(torch.tensor([[1.0, 4.0, 3.0, 2.0]]), 2)
    (tensor([[4., 3.]]), tensor([[1, 2]]))
    """
    geometry.check_lines("adaptive_max_pool1d", input)
    geometry.check_one("adaptive_max_pool1d", output_size=sizes(output_size))
    geometry.check_filled("adaptive_max_pool1d()", tuple(input.shape), 1, "input has sizes {}")
    _check_shape((*input.shape[:-1], 1, *sizes(output_size)))
    values, places = _adaptive_max_pool(unsqueeze(input, -2), (1, *sizes(output_size)), 2)
    return squeeze(values, -2), squeeze(places, -2)


@quickly(devices=True)
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of each of `output_size` stretches, which share the last dimension evenly. With `return_indices` their places come too.

    >>> F.adaptive_max_pool1d(torch.tensor([[1.0, 4.0, 3.0, 2.0, 5.0]]), 2)
    tensor([[4., 5.]])
    """
    found = adaptive_max_pool1d_with_indices(input, output_size)
    return found if return_indices else found[0]


@quickly(devices=True)
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Pair:
    """`adaptive_max_pool2d`, and where in its plane each of the largest lies, counted row by row.

    >>> F.adaptive_max_pool2d_with_indices(torch.arange(4.0).reshape(1, 2, 2), 1)
    (tensor([[[3.]]]), tensor([[[3]]]))
    """
    return _adaptive_max_pool(input, _outs("adaptive_max_pool2d", output_size, input), 2)


@quickly(devices=True)
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of each window, where windows share the last two dimensions evenly; `output_size` is as in `adaptive_avg_pool2d`.

    >>> F.adaptive_max_pool2d(torch.arange(12.0).reshape(1, 3, 4), (1, 2))
    tensor([[[ 9., 11.]]])
    """
    found = adaptive_max_pool2d_with_indices(input, output_size)
    return found if return_indices else found[0]


@quickly(devices=True)
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Pair:
    """`adaptive_max_pool3d`, and where in its volume each of the largest lies, counted plane by plane.

    >>> F.adaptive_max_pool3d_with_indices(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    return _adaptive_max_pool(input, _outs("adaptive_max_pool3d", output_size, input), 3)


@quickly(devices=True)
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of each window, where windows share the last three dimensions evenly; `output_size` is as in `adaptive_avg_pool2d`.

    >>> F.adaptive_max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), (1, 1, 2))
    tensor([[[[6., 7.]]]])
    """
    found = adaptive_max_pool3d_with_indices(input, output_size)
    return found if return_indices else found[0]


# ---------------------------------------------------------------- norms of windows


def _lp_pool(input: Tensor, dims: int, norm_type: float, kernel: Any, stride: Any, ceil: bool) -> Tensor:
    max_pool, avg_pool = ((max_pool1d, max_pool2d, max_pool3d)[dims - 1], _avg_pools[dims - 1])
    count: Any = kernel
    if dims > 1:
        count = 1
        each = (kernel,) * dims if isinstance(kernel, int) else tuple(kernel)
        if len(each) != dims:
            few = "not enough" if len(each) < dims else "too many"
            got = f", got {len(each)}" if len(each) < dims else ""
            raise ValueError(f"{few} values to unpack (expected {dims}{got})")
        for n in each:
            count *= n
    if norm_type == inf:
        return max_pool(e.abs(input), kernel, stride, 0, 1, ceil)
    if norm_type == -inf:
        return e.neg(max_pool(e.neg(e.abs(input)), kernel, stride, 0, 1, ceil))
    check(f"nn.functional.avg_pool{dims}d", (input, kernel, stride, 0, ceil), {})
    out = avg_pool(e.pow(input, norm_type), kernel, stride, 0, ceil)
    return e.pow(e.mul(e.mul(e.sign(out), relu(e.abs(out))), count), 1.0 / norm_type)


_avg_pools = (avg_pool1d, avg_pool2d, avg_pool3d)


@replayed
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The `norm_type`-norm of each window of the last dimension, taken of sums of powers: signs count where it is odd.

    >>> F.lp_pool1d(torch.tensor([[3.0, 4.0, 6.0, 8.0]]), 2, 2)
    tensor([[ 5., 10.]])
    """
    return _lp_pool(input, 1, norm_type, kernel_size, stride, ceil_mode)


@replayed
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The same of windows of the last two dimensions.

    >>> F.lp_pool2d(torch.tensor([[[3.0, 4.0], [0.0, 0.0]]]), 2, 2)
    tensor([[[5.]]])
    """
    return _lp_pool(input, 2, norm_type, kernel_size, stride, ceil_mode)


@replayed
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The same of windows of the last three dimensions.

    >>> F.lp_pool3d(torch.tensor([[[[3.0, 4.0]], [[0.0, 0.0]]]]), 2, (2, 1, 2))
    tensor([[[[5.]]]])
    """
    return _lp_pool(input, 3, norm_type, kernel_size, stride, ceil_mode)


# ---------------------------------------------------------------- elements back at their places


def _unpool_size(
    input: Tensor, kernel: Ints, stride: Ints, padding: Ints, output_size: Sequence[int] | None
) -> Sequence[int]:
    dims, shape = len(kernel), input.size()
    usual = [(shape[k - dims] - 1) * stride[k] + kernel[k] - 2 * padding[k] for k in range(dims)]
    found: Sequence[int] = usual
    if output_size is not None:
        found = output_size[2:] if len(output_size) == dims + 2 else output_size
        if len(found) != dims:
            raise ValueError(
                f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
                f"'{len(found)}'"
            )
        for k, n in enumerate(found):
            low, high = usual[k] - stride[k], usual[k] + stride[k]
            if not low < n < high:
                raise ValueError(f'invalid output_size "{found}" (dim {k} must be between {low} and {high})')
    for k, n in enumerate(found):
        if n < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{k}]={n}"
            )
    return found


def _check_unpool(input: Tensor, indices: Tensor, size: Ints, stride: Ints) -> None:
    dims, name = len(size), f"max_unpooling{len(size)}d"
    if indices.dtype is not dtypes.int64:
        got = f" but got: {indices.dtype.scalar_name}" if dims == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{got}")
    if input.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Input to {name} should be a {dims + 1}d or {dims + 2}d Tensor, but got a tensor with {input.ndim} dimensions."
        )
    if input.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    for d, n in enumerate(input.shape[1:], 1):
        if n == 0:
            raise RuntimeError(
                f"{name}_forward_out_cpu(): Expected input to have non-zero size for non-batch dimensions, but got "
                f"{list(input.shape)} with dimension {d} being empty."
            )
    if dims == 3 and min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(stride)}")
    check_dtype(f"max_unpool{dims}d", input.dtype, input.dtype.is_floating_point or not input.numel())
    _check_places(indices, size)


def _check_places(indices: Tensor, size: Ints) -> None:
    """Whether each lies in a plane of this size, of all examples of a vmap."""
    found = transforms.innermost(indices)
    if not found._spec.backend.holds:
        return
    count, places = 1, found._host()
    for n in size:
        count *= n
    bad = places[(places < 0) | (places >= count)]
    if bad.size:
        shown = "x".join(map(str, size))
        raise RuntimeError(f"Found an invalid max index: {bad[0]} (output volumes are of size {shown})")


def _max_unpool(
    input: Tensor, indices: Tensor, dims: int, kernel: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    spans, steps, pads = (
        (v,) * dims if isinstance(v, int) else tuple(v)
        for v in (kernel, kernel if stride is None else stride, padding)
    )
    size = tuple(_unpool_size(input, spans, steps, pads, output_size))
    if dims == 1:
        size, steps = (*size, 1), (*steps, 1)
        input, indices = unsqueeze(input, -1), unsqueeze(indices, -1)
    _check_unpool(input, indices, size, steps)
    found: Tensor = extremes.max_unpool[len(size)](input, indices, size=size)
    return squeeze(found, -1) if dims == 1 else found


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """What `max_pool1d` took out, back at its places, and zeros elsewhere. Several inputs of it can have the same shape of result:
    `output_size` says which is meant.

    >>> F.max_unpool1d(torch.tensor([[3.0, 5.0]]), torch.tensor([[1, 2]]), 2)
    tensor([[0., 3., 5., 0.]])
    """
    return _max_unpool(input, indices, 1, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """The same for `max_pool2d`.

    >>> F.max_unpool2d(torch.tensor([[[3.0]]]), torch.tensor([[[2]]]), 2)
    tensor([[[0., 0.],
             [3., 0.]]])
    """
    return _max_unpool(input, indices, 2, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """The same for `max_pool3d`.

    >>> F.max_unpool3d(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64), (1, 1, 2))
    tensor([[[[1., 0.]]]])
    """
    return _max_unpool(input, indices, 3, kernel_size, stride, padding, output_size)


# ---------------------------------------------------------------- windows that lie where random numbers say


def _check_fractional(input: Tensor, outs: Ints, kernel: Ints, dims: int) -> None:
    name, shape = ("fractional_max_pool2d()", "fractional_max_pool3d_out()")[dims - 2], tuple(input.shape)
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}: Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(shape)}")
    for d, n in enumerate(shape[1:], 1):
        if n == 0:
            raise RuntimeError(
                f"{name}: Expected input to have non-zero size for non-batch dimensions, but got{list(shape)} with "
                f"dimension {d} being empty."
            )
    for word, n, out, k in zip(("time", "height", "width")[-dims:], shape[-dims:], outs, kernel):
        if out + k - 1 > n or (dims == 3 and out + k - 1 == n):
            raise RuntimeError(f"{name}: pool {word} {k} too large relative to input {word} {n}")


def _check_samples(input: Tensor, samples: Tensor, dims: int) -> None:
    if samples.dtype is not input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    count, channels, numbers = samples.shape
    if count < (input.shape[0] if input.ndim == dims + 2 else 1):
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if channels != input.shape[-dims - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if numbers != dims:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {dims}; got {numbers}.")


def _fractional_max_pool(
    input: Tensor, dims: int, kernel: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> Pair:
    name = f"fractional_max_pool{dims}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        if dims == 2 and len(output_ratio) > 2:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        ratios = tuple(output_ratio) if isinstance(output_ratio, Sequence) else (output_ratio,) * dims
        output_size = [int(input.size(k - dims) * ratios[k]) for k in range(dims)]
    if samples is None:
        count = 1 if input.dim() == dims + 1 else input.size(0)
        samples = rand(count, input.size(-dims - 1), dims, dtype=input.dtype, device=input.device)
    check(f"inner.{name}", (input, kernel, output_size, samples), {})
    spans, outs = sizes(kernel), sizes(output_size)
    for argument, given, value in (("kernel_size", kernel, spans), ("output_size", output_size, outs)):
        if len(value) != dims and not isinstance(given, int):
            words = "tuple of Ints" if dims == 2 else "tuple of three Ints"
            raise RuntimeError(f"{name}: {argument} must either be a single Int or {words}")
    spans, outs = (v * dims if len(v) == 1 else v for v in (spans, outs))
    _check_fractional(input, outs, spans, dims)
    _check_samples(input, samples, dims)
    check_dtype(f"{name}_out_frame", input.dtype, input.dtype.is_floating_point)
    count = input.shape[0] if input.ndim == dims + 2 else 1
    samples = narrow(samples, 0, 0, count)
    if input.ndim == dims + 1:
        samples = squeeze(samples, 0)
    found: Pair = extremes.fractional_max_pool[dims](input, samples, outs=outs, kernel=spans)
    return found


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Pair:
    """`fractional_max_pool2d`, and where in its plane each of the largest lies.

    >>> F.fractional_max_pool2d_with_indices(torch.arange(4.0).reshape(1, 2, 2), 2, 1)
    (tensor([[[3.]]]), tensor([[[3]]]))
    """
    return _fractional_max_pool(input, 2, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest of each window, where windows of `kernel_size` are one or two elements apart, at random, such that there are
    `output_size` of them, or `output_ratio` times as many as elements. `_random_samples` are the numbers that decide: two for each plane.

    >>> x = torch.arange(16.0).reshape(1, 4, 4)
    >>> F.fractional_max_pool2d(x, 2, 2, _random_samples=torch.zeros(1, 1, 2))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    found = _fractional_max_pool(input, 2, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Pair:
    """`fractional_max_pool3d`, and where in its volume each of the largest lies.

    >>> F.fractional_max_pool3d_with_indices(torch.arange(27.0).reshape(1, 3, 3, 3), 2, 1)
    (tensor([[[[26.]]]]), tensor([[[[26]]]]))
    """
    return _fractional_max_pool(input, 3, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The same of windows of the last three dimensions; `_random_samples` holds three numbers for each volume.

    >>> F.fractional_max_pool3d(torch.arange(27.0).reshape(1, 3, 3, 3), 2, 1)
    tensor([[[[26.]]]])
    """
    found = _fractional_max_pool(input, 3, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]
