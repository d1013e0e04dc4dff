"""How a tensor prints: PyTorch's text, character for character.

Promises `Tensor.__repr__` a string from a tensor's shape, dtype, device, autograd state and `_host()` array;
of the elements, only those shown are touched. The rules (notation, width, line breaks) are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from nbgrad.dispatch.transforms import tangent_of
from nbgrad.memory import dtypes
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import dtype
from nbgrad.tape.modes import state


class _Printable(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> dtype: ...
    @property
    def device(self) -> device: ...
    @property
    def requires_grad(self) -> bool: ...
    @property
    def grad_fn(self) -> object: ...
    def _host(self) -> np.ndarray[Any, np.dtype[Any]]: ...


# ---------------------------------------------------------------- options


@dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_Options.__qualname__ = "__PrinterOptions"  # as PyTorch's print
options = _Options()

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors are printed from now on: `precision` digits; in full up to `threshold` elements, beyond that only `edgeitems` at
    each end of a dimension; lines of `linewidth`; or all of a `profile` ("default", "short", "full"). What is not given stays, except
    `sci_mode`: it goes back to choosing by itself.

    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1 / 3])
    tensor([0.33])
    >>> torch.set_printoptions(profile="default")
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen = _PROFILES.get(profile, {}) if profile is not None else {}
    chosen = chosen | {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        setattr(options, name, value)
    options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """What `set_printoptions` has set, by name."""
    return asdict(options)


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """`set_printoptions` for the `with` block."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


# ---------------------------------------------------------------- numbers


class Formatter:
    """How the numbers of one tensor are written, padded on the left to one `width`: what is told by all that are shown."""

    def __init__(self, values: list[Any], floating: bool) -> None:
        self.floating, self.sci, self.whole = floating, False, True
        counted = values
        if floating:
            # Zeros, infinities and NaN have no say in the width: they may stick out, which is PyTorch's convention.
            counted = [value for value in values if value != 0 and math.isfinite(value)]
            if counted:
                least, most = min(map(abs, counted)), max(map(abs, counted))
                self.sci = most / least > 1000.0 or most > 1.0e8 or least < 1.0e-4
                if options.sci_mode is not None:
                    self.sci = options.sci_mode
                self.whole = all(value.is_integer() for value in counted)
        self.width = max([len(self._text(value)) for value in counted], default=1)

    def _text(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        if self.sci:
            return format(value, f".{options.precision}e")
        if self.whole:  # the point says that it is a float
            return format(value, ".0f") + ("." if math.isfinite(value) else "")
        return format(value, f".{options.precision}f")

    def format(self, value: Any) -> str:
        return self._text(value).rjust(self.width)


class Pairs:
    """The same of complex numbers: either part in the format of its like."""

    def __init__(self, values: list[complex]) -> None:
        self.re = Formatter([value.real for value in values], True)
        self.im = Formatter([value.imag for value in values], True)
        self.width = self.re.width + self.im.width + 1

    def format(self, value: complex) -> str:
        im = self.im.format(value.imag).lstrip()
        return f"{self.re.format(value.real)}{'' if im[0] in '+-' else '+'}{im}j"


# ---------------------------------------------------------------- brackets and lines


def _shown(data: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[bool]]:
    """The elements that are printed, and for each dimension whether its middle is left out."""
    edge = options.edgeitems
    cut = [data.size > options.threshold and size > 2 * edge for size in data.shape]
    for axis, left_out in enumerate(cut):
        if left_out:
            before = (slice(None),) * axis
            data = np.concatenate((data[*before, :edge], data[*before, data.shape[axis] - edge :]), axis)
    return data, cut


def _layout(items: Iterator[str], shape: tuple[int, ...], cut: list[bool], width: int, indent: int) -> str:
    """Brackets around the next items, one level for each dimension of `shape`."""
    if not shape:
        return next(items)
    size, edge = shape[0], options.edgeitems
    if len(shape) == 1:
        cells = [next(items) for _ in range(size)]
        if cut[0]:
            cells.insert(edge, " ..." if edge else "...")
        per_line = max(1, (options.linewidth - indent) // (width + 2))
        lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
        separator = ",\n"
    else:
        lines = [_layout(items, shape[1:], cut[1:], width, indent + 1) for _ in range(size)]
        if cut[0]:
            lines.insert(edge, "...")
        separator = "," + "\n" * (len(shape) - 1)
    return "[" + (separator + " " * (indent + 1)).join(lines) + "]"


def contents(t: _Printable, indent: int) -> str:
    """The numbers within their brackets, lines after the first moved by `indent`."""
    if t.device.type == "meta":
        return "..."
    data, cut = _shown(t._host())
    values = data.reshape(-1).tolist()
    formatter = Pairs(values) if t.dtype.is_complex else Formatter(values, t.dtype.is_floating_point)
    return _layout(map(formatter.format, values), data.shape, cut, formatter.width, indent)


# ---------------------------------------------------------------- what follows the numbers


def _suffixes(t: _Printable) -> list[str]:
    default = dtypes.get_default_dtype()
    suffixes = []
    if t.device.type != "cpu":
        suffixes.append(f"device='{t.device}'")
    if t.device.type == "meta":  # no element shows how many there are
        suffixes.append(f"size={tuple(t.shape)}")
        if t.dtype is not default:
            suffixes.append(f"dtype={t.dtype}")
    elif 0 in t.shape:
        if len(t.shape) != 1:
            suffixes.append(f"size={tuple(t.shape)}")
        if t.dtype is not default:  # no element shows that it is int64 or bool
            suffixes.append(f"dtype={t.dtype}")
    else:
        if not options.edgeitems:
            suffixes.append(f"size={tuple(t.shape)}")
        if t.dtype not in (default, default.to_complex(), dtypes.int64, dtypes.bool_):
            suffixes.append(f"dtype={t.dtype}")
    try:
        grad_fn = t.grad_fn
    except RuntimeError:  # a view made and changed in place under no_grad has no grad_fn to show
        suffixes.append("grad_fn=<Invalid>")
        return suffixes
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{type(grad_fn).__name__}>")
    elif t.requires_grad:
        suffixes.append("requires_grad=True")
    tangent = None if state.dual_level is None else tangent_of(t, state.dual_level[1])  # type: ignore[arg-type]
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return suffixes


def add_suffixes(text: str, suffixes: list[str], indent: int, on_new_line: bool = False) -> str:
    """The text closed behind its suffixes, which go to a new line where they do not fit, the first of them if told to."""
    column = (
        len(text) - text.rfind("\n") + 1
    )  # two more than the line is long: PyTorch counts so, and breaks earlier
    for suffix in suffixes:
        if on_new_line or column + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            column, on_new_line = indent + len(suffix), False
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def tensor_repr(t: _Printable, name: str = "tensor", given: str | None = None) -> str:
    """PyTorch's `repr`; `name` is "tensor", or the class name where the tensor's class is the user's own, who also may have given
    what stands between the brackets."""
    indent = len(name) + 1
    if given is None:
        given = "[]" if 0 in t.shape else contents(t, indent)
    return add_suffixes(f"{name}({given}", _suffixes(t), indent)
