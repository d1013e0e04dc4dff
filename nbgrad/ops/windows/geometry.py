"""How many windows an input has, and PyTorch's words where there can be none."""

from __future__ import annotations

from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Ints
from nbgrad.ops.windows.extremes import Geometry

_INTS = {1: "one int", 2: "two ints", 3: "three ints"}
_LETTERS = {2: "HW", 3: "THW"}


def sizes(value: Any) -> Ints:
    """An int stands for a sequence of one."""
    return (value,) if isinstance(value, int) else tuple(value)


def check_dtype(kernel: str, d: dtype, taken: bool) -> None:
    if not taken:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")


def check_one(name: str, **given: Ints) -> None:
    """Settings of one dimension hold one number each."""
    for argument, value in given.items():
        if len(value) != 1:
            raise RuntimeError(f"{name}() argument '{argument}' should contain one int (got {len(value)})")


def check_lines(name: str, input: Tensor) -> None:
    """Whether it is a batch of lines, or those of one example."""
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument #1 'self' "
            f"(while checking arguments for {name})"
        )


def _settings(name: str, dims: int, must: str, **given: Ints) -> list[Ints]:
    """For each dimension a number; for a stride that is left out those of the kernel."""
    found: list[Ints] = []
    for argument, value in given.items():
        if argument == "stride" and not value:
            value = found[0]
        if len(value) not in (1, dims):
            words = "must be either" if argument == "dilation" else must
            omitted = "omitted, " if argument == "stride" else ""
            raise RuntimeError(
                f"{name}: {argument} {words} {omitted}a single int, or a tuple of {_INTS[dims]}"
            )
        found.append(value * dims if len(value) == 1 else value)
    return found


def _count(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    if not stride:
        raise RuntimeError("stride should not be zero")
    if padding < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {padding}")
    if padding > int(((kernel - 1) * dilation + 1) / 2):
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got pad={padding}, kernel_size={kernel} and "
            f"dilation={dilation}"
        )
    return windows(size, kernel, stride, padding, dilation, ceil)


def windows(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    """How many there are; with `ceil` also one that begins within the input, or its padding before, and ends behind."""
    left = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (left + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def _shown(letters: str, name: str, values: Ints) -> str:
    return " ".join([f"{name}{letter}: {n}" for letter, n in zip(letters, values)])


def _check_settings(dims: int, kernel: Ints, stride: Ints, dilation: Ints) -> None:
    letters = _LETTERS[dims]
    for what, name, values in (
        ("kernel size", "k", kernel),
        ("stride", "d", stride),
        ("dilation", "dilation", dilation),
    ):
        if min(values) <= 0:
            raise RuntimeError(f"{what} should be greater than zero, but got {_shown(letters, name, values)}")


def _check_planes(shape: Ints) -> None:
    if not (len(shape) == 3 and all(shape)) and not (len(shape) == 4 and all(shape[1:])):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:"
            f"{list(shape)}"
        )


def _check_volumes(name: str, shape: Ints, kernel: Ints, whole: bool) -> None:
    if len(shape) not in (4, 5):
        raise RuntimeError(f"{name}: Expected 4D or 5D tensor for input, but got: {list(shape)}")
    if not all(shape[-4:]):
        raise RuntimeError(
            f"{name}: Expected input's non-batch dimensions to have positive length, but input has a shape of "
            f"{list(shape)} and non-batch dimension 0 has length zero!"
        )
    if whole and any(n < k for n, k in zip(shape[-3:], kernel)):
        raise RuntimeError(
            f"input image ({_shown('THW', '', shape[-3:])}) smaller than kernel size ({_shown('THW', 'k', kernel)})"
        )


def _check_padding(kernel: Ints, padding: Ints) -> None:
    if all(k // 2 >= p for k, p in zip(kernel, padding)):
        return
    words = "pad should be smaller than or equal to half of kernel size, but got"
    if len(kernel) == 2:
        raise RuntimeError(
            f"{words} padW = {padding[1]}, padH = {padding[0]}, kW = {kernel[1]}, kH = {kernel[0]}"
        )
    order = (0, 2, 1)
    taps, pads = ([values[k] for k in order] for values in (kernel, padding))
    raise RuntimeError(f"{words} {_shown('TWH', 'k', tuple(taps))} {_shown('TWH', 'pad', tuple(pads))}")


def _times(numbers: Ints) -> str:
    return "x".join(map(str, numbers))


def _geometry(
    shape: Ints, dims: int, settings: list[Ints], ceil: bool, name: str = "", whole: bool = False
) -> Geometry:
    kernel, stride, padding, dilation = settings
    planes = shape[len(shape) - dims :]
    outs = tuple([_count(*numbers, ceil) for numbers in zip(planes, kernel, stride, padding, dilation)])
    _check_settings(dims, kernel, stride, dilation)
    if dims == 2:
        _check_planes(shape)
    else:
        _check_volumes(name, shape, kernel, whole)
    _check_padding(kernel, padding)
    if min(outs) < 1:
        channels = shape[-dims - 1]
        raise RuntimeError(
            f"Given input size: ({_times((channels, *planes))}). Calculated output size: ({_times((channels, *outs))}). "
            "Output size is too small"
        )
    return Geometry(outs, kernel, stride, padding, dilation)


@cached(4096)
def of_max_pool(shape: Ints, dims: int, given: tuple[Ints, ...], ceil: bool) -> Geometry:
    """Of kernel, stride, padding and dilation as they were given."""
    kernel, stride, padding, dilation = given
    name = f"max_pool{dims}d"
    settings = _settings(
        name, dims, "must either be", kernel_size=kernel, stride=stride, padding=padding, dilation=dilation
    )
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(f"non-empty {dims + 1}D or {dims + 2}D (batch mode) tensor expected for input")
    return _geometry(shape, dims, settings, ceil, "max_pool3d_with_indices_out_cpu_template()")


@cached(4096)
def of_avg_pool(shape: Ints, dims: int, given: tuple[Ints, ...], ceil: bool, divisor: int | None) -> Geometry:
    """Of kernel, stride and padding as they were given."""
    kernel, stride, padding = given
    must = "must either be" if dims == 2 else "must be"
    settings = _settings(f"avg_pool{dims}d", dims, must, kernel_size=kernel, stride=stride, padding=padding)
    if dims == 3 and len(shape) not in (4, 5):
        raise RuntimeError("non-empty 4D or 5D (batch mode) tensor expected for input")
    if divisor == 0:
        raise RuntimeError("divisor must be not zero")
    check_has(shape, dims + 1)
    return _geometry(shape, dims, [*settings, (1,) * dims], ceil, "avg_pool3d()", whole=True)


def check_has(shape: Ints, count: int) -> None:
    """Whether there are so many dimensions to count from the end."""
    n = len(shape)
    if n < count:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [-{max(n, 1)}, {max(n, 1) - 1}], but got -{count})"
        )


@cached(4096)
def check_line_settings(given: tuple[Ints, ...], shape: Ints, ceil: bool) -> None:
    """Those of `max_pool1d`, in words of its own."""
    kernel, stride, padding, dilation = given
    if not (len(shape) == 2 and all(shape)) and not (len(shape) == 3 and all(shape[1:])):
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:"
            f"{list(shape)}"
        )
    kinds = {
        "kernel_size": (kernel, "an int, list of ints or tuple of ints"),
        "stride": (stride or kernel, "None, an int, list of ints, or tuple of ints"),
        "padding": (padding, "an int, list of ints, or tuple of ints"),
        "dilation": (dilation, "an int, list of ints or tuple of ints"),
    }
    for name, (value, kind) in kinds.items():
        if len(value) != 1:
            raise RuntimeError(f"max_pool1d() {name} must be {kind} of size 1 but got size {len(value)}")
    (k,), (s,), (p,), (d,) = (value for value, _ in kinds.values())
    for name, n in (("kernel_size", k), ("stride", s)):
        if n <= 0:
            raise RuntimeError(f"max_pool1d() {name} must be greater than zero, but got {n}")
    if p < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {p}")
    if p > k // 2:
        raise RuntimeError(
            f"max_pool1d() padding should be at most half of kernel size, but got padding={p} and kernel_size={k}"
        )
    if d <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {d}")
    count = windows(shape[-1], k, s, p, d, ceil)
    if count <= 0:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {count}")


def check_filled(name: str, shape: Ints, begin: int, words: str) -> None:
    """Whether no dimension from one on is empty."""
    for d, n in enumerate(shape[begin:], begin):
        if n == 0:
            raise RuntimeError(
                f"{name}: Expected input to have non-zero size for non-batch dimensions, but {words.format(list(shape))} "
                f"with dimension {d} being empty"
            )
