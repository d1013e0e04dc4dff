"""How a tensor prints: PyTorch's text, character for character.

Promises `Tensor.__repr__` a string from a tensor's shape, dtype, device, autograd state and `_host()` array;
of the elements, only those shown are touched. The rules (notation, width, line breaks) are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
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


class _Options:
    def __init__(self) -> None:
        self.precision, self.edgeitems, self.linewidth = 4, 3, 80
        self.threshold: float = 1000
        self.sci_mode: bool | None = None


_options = _Options()

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
        setattr(_options, name, value)
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """What `set_printoptions` has set, by name."""
    return dict(vars(_options))


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


def _format_all(values: list[Any], floating: bool) -> tuple[list[str], int]:
    """The numbers as text, padded on the left to one width, and that width."""
    if not floating:
        texts = [str(value) for value in values]
        width = max(map(len, texts), default=1)
        return [text.rjust(width) for text in texts], width

    counted = [value for value in values if value != 0 and math.isfinite(value)]
    sci = False
    whole = True
    if counted:
        least, most = min(map(abs, counted)), max(map(abs, counted))
        sci = most / least > 1000.0 or most > 1.0e8 or least < 1.0e-4
        if _options.sci_mode is not None:
            sci = _options.sci_mode
        whole = all(value.is_integer() for value in counted)

    if sci:
        spec = f".{_options.precision}e"
    elif whole:
        spec = ".0f"
    else:
        spec = f".{_options.precision}f"
    texts = [format(value, spec) for value in values]
    if whole and not sci:
        # The point says that they are floats.
        texts = [
            text + "." if math.isfinite(value) else text for text, value in zip(texts, values, strict=True)
        ]
    # Zeros, infinities and NaN have no say in the width: they may stick out, which is PyTorch's convention.
    width = max(
        (len(t) for t, v in zip(texts, values, strict=True) if v != 0 and math.isfinite(v)), default=1
    )
    return [text.rjust(width) for text in texts], width


# ---------------------------------------------------------------- brackets and lines


def _shown(data: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[bool]]:
    """The elements that are printed, and for each dimension whether its middle is left out."""
    edge = _options.edgeitems
    cut = [data.size > _options.threshold and size > 2 * edge for size in data.shape]
    for axis, left_out in enumerate(cut):
        if left_out:
            before = (slice(None),) * axis
            data = np.concatenate((data[*before, :edge], data[*before, data.shape[axis] - edge :]), axis)
    return data, cut


def _layout(items: Iterator[str], shape: tuple[int, ...], cut: list[bool], width: int, indent: int) -> str:
    """Brackets around the next items, one level for each dimension of `shape`."""
    if not shape:
        return next(items)
    size, edge = shape[0], _options.edgeitems
    if len(shape) == 1:
        cells = [next(items) for _ in range(size)]
        if cut[0]:
            cells.insert(edge, " ..." if edge else "...")
        per_line = max(1, (_options.linewidth - indent) // (width + 2))
        lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
        separator = ",\n"
    else:
        lines = [_layout(items, shape[1:], cut[1:], width, indent + 1) for _ in range(size)]
        if cut[0]:
            lines.insert(edge, "...")
        separator = "," + "\n" * (len(shape) - 1)
    return "[" + (separator + " " * (indent + 1)).join(lines) + "]"


def _contents(t: _Printable, indent: int) -> str:
    if t.device.type == "meta":
        return "..."
    data, cut = _shown(t._host())
    items, width = _format_all(data.reshape(-1).tolist(), t.dtype.is_floating_point)
    return _layout(iter(items), data.shape, cut, width, indent)


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
        if not _options.edgeitems:
            suffixes.append(f"size={tuple(t.shape)}")
        if t.dtype not in (default, dtypes.int64, dtypes.bool_):
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


def tensor_repr(t: _Printable, name: str = "tensor", contents: str | None = None) -> str:
    """PyTorch's `repr`; `name` is "tensor", or the class name where the tensor's class is the user's own, who also may have written
    the `contents`."""
    indent = len(name) + 1
    if contents is None:
        contents = "[]" if 0 in t.shape else _contents(t, indent)
    text = f"{name}({contents}"
    column = (
        len(text) - text.rfind("\n") + 1
    )  # two more than the line is long: PyTorch counts so, and breaks earlier
    for suffix in _suffixes(t):
        if column + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"
