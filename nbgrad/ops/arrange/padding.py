"""Padding: more elements at the ends of dimensions, of one value or of those that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.prepared import Run, call_of, prepared, settled
from nbgrad.memory import dtypes
from nbgrad.memory.device import device
from nbgrad.memory.layout import Ints, format_strides, suggested_format
from nbgrad.memory.storage import Spec
from nbgrad.ops.index.place import Place, _picker, of_numbers
from nbgrad.ops.views.copy import clone, clone_spec, copier, copying, full

# ---------------------------------------------------------------- of one value


def _inside(shape: Ints, pad: Ints) -> list[tuple[int, int, int, int]]:
    """Per dimension, from the last: where the input begins in the result, from where on it is read, how much of it."""
    found = []
    for k in range(len(pad) // 2):
        d = len(shape) - 1 - k
        low, high = pad[2 * k : 2 * k + 2]
        cut = max(0, -low)
        found.append((d, max(0, low), cut, shape[d] - cut - max(0, -high)))
    return found


def _padded_shape(shape: Ints, pad: Ints) -> Ints:
    sizes = list(shape)
    for k in range(len(pad) // 2):
        d = len(shape) - 1 - k
        sizes[d] += pad[2 * k] + pad[2 * k + 1]
        if sizes[d] < 0 or shape[d] + min(pad[2 * k], 0) + min(pad[2 * k + 1], 0) < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
    return tuple(sizes)


def _padded(sp: Spec, pad: Ints) -> Spec:
    """How it lies with that around it."""
    shape = tuple(sp.shape)
    padded = _padded_shape(shape, pad)
    return sp.like(padded, format_strides(padded, suggested_format(shape, sp.strides)))


@prepared(
    "ConstantPadNd",
    tangent=lambda t, pad: _constant(t, pad=pad, value=0),
    batch=lambda x, pad, value: _constant(x, pad=pad, value=value),
    input=lambda g, pad: _constant(g, pad=tuple([-n for n in pad]), value=0),
)
def _constant(input: Spec, *, pad: Ints, value: Any) -> Run:
    """All is filled, and the part inside copied over it."""
    shape, made = tuple(input.shape), _padded(input, pad)
    part, old, new = list(shape), 0, 0
    for d, begin, cut, part[d] in _inside(shape, pad):
        old += cut * input.strides[d]
        new += begin * made.strides[d]
    inside = input.like(tuple(part), input.strides)
    if max(pad) <= 0:
        return copier(inside, clone_spec(inside), old)
    number = float(value) if input.dtype.is_floating_point else value
    if not inside.numel:
        return lambda t: full(made, number)
    k = copying(made.like(inside.shape, made.strides), inside)
    look, new, old = made.backend.view, new * made.itemsize, old * input.itemsize

    def run(t: Tensor) -> Tensor:
        out = full(made, number)
        k.launch(k.address, k.n, look(out._buf, new), look(t._buf, old))
        return out

    return run


def _told(input: Tensor | Spec, value: Any) -> Any:
    """The number as what the tensor holds; in words what equals another number, or not even itself, and so would not be found again."""
    if input.dtype.is_complex:
        return complex(value)
    if isinstance(value, complex):
        value = dtypes.fitting(value, input.dtype)
    if not input.dtype.is_floating_point:
        return int(value)
    value = float(value)
    return str(value) if value != value or str(value) == "-0.0" else value


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """`input` with `value` around it. `pad` holds the numbers before and after, the last dimension first; negative ones cut off. The
    gradient is that of the part inside.

    >>> torch.constant_pad_nd(torch.ones(2), (1, 2), 7)
    tensor([7., 1., 1., 7., 7.])
    """
    sizes = tuple(pad)
    if len(sizes) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(sizes)}")
    if len(sizes) > 2 * input.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad length is "
            f"{len(sizes)} while the input has {input.ndim} dimensions."
        )
    if not any(sizes):
        return clone(input)
    padded: Tensor = _constant(input, pad=sizes, value=_told(input, value))
    return padded


# ---------------------------------------------------------------- of what is there

_reflected = [_picker(f"ReflectionPad{k}DBackward0", ties=True) for k in (1, 2, 3)]
_replicated = [_picker(f"ReplicationPad{k}DBackward0", ties=True) for k in (1, 2, 3)]
_circular = _picker("Index")
_COMBINATIONS = (
    "Supported combinations for non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
    "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
    "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
)


def _check_left(mode: str, shape: Ints, dims: Sequence[int], pad: Ints) -> None:
    """Whether negative sizes leave anything."""
    sizes = [shape[d] for d in dims]
    # PyTorch adds in 64 bits, which wrap.
    left = [(n + low + high + 2**63) % 2**64 - 2**63 for n, low, high in zip(sizes, pad[-2::-2], pad[::-2])]
    if mode == "circular":
        if min(left) < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
        return
    if max(left) < 1:
        names = "DHW"[-len(dims) :]
        had = [f"{name}: {n}" for name, n in zip(names, sizes)]
        have = " ".join([f"{name}: {n}" for name, n in zip(names, left)])
        shown = ", ".join(had) if len(had) < 3 else f"{had[0]} {had[1]}, {had[2]}"
        raise RuntimeError(f"input ({shown}) is too small. Calculated output {have}")
    if min(left) < 0:
        left = [*shape[: dims[0]], *left]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(left)}: {left}")


@cached(256)
def _places(mode: str, shape: Ints, pad: Ints, where: device) -> Place:
    """Which elements are read along each of the last dimensions."""
    count = len(pad) // 2
    dims = tuple(range(len(shape) - count, len(shape)))
    if mode != "circular" and 0 in shape[-count - 1 :]:
        raise RuntimeError(
            f"Expected {count + 1}D or {count + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    lines = []
    for k, d in enumerate(reversed(dims)):
        n, low, high = shape[d], pad[2 * k], pad[2 * k + 1]
        if mode == "reflect" and (low >= n or high >= n):
            raise RuntimeError(
                f"Argument #{2 * k + 4}: Padding size should be less than the corresponding input dimension, "
                f"but got: padding ({low}, {high}) at dimension {d} of input {list(shape)}"
            )
        if mode == "circular" and (low > n or high > n):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        at = np.arange(-low, n + high)
        if mode == "reflect":
            at = np.where(at < 0, -at, np.where(at >= n, 2 * (n - 1) - at, at))
        elif mode == "replicate":
            at = np.clip(at, 0, n - 1)
        else:  # of what a negative size leaves
            cut, left = max(-low, 0), n - max(-low, 0) - max(-high, 0)
            at = cut + (at - cut) % max(left, 1)
        lines.append(at)
    _check_left(mode, shape, dims, pad)
    block = tuple([len(at) for at in lines[::-1]])
    indices = [of_numbers(at.reshape(-1, *(1,) * k), where) for k, at in enumerate(lines)]
    return Place(dims, indices[::-1], block)


@settled
def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """`input` with more around it: `value` ("constant"), what lies inside of the edge in mirror order ("reflect"), the edge itself
    ("replicate") or the other end ("circular"). `pad` holds the numbers before and after, the last dimension first. The gradient of
    what was copied adds up where it came from.

    >>> F.pad(torch.tensor([[1.0, 2.0, 3.0]]), (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    sizes = tuple(pad)
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(sizes) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(sizes) > 2 * input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(sizes)} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        if not any(sizes) or (value.__class__ is float and not value):  # -0.0 would be found where 0.0 is
            return constant_pad_nd(input, sizes, 0 if value is None else value)
        return call_of(_constant, input, pad=sizes, value=_told(input, 0 if value is None else value))
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    count = len(sizes) // 2
    if not 1 <= count <= 3 or input.ndim - count not in (1, 2):
        raise NotImplementedError(
            f"Padding size {len(sizes)} is not supported for {input.ndim}D input tensor.\n{_COMBINATIONS}"
        )
    if input.dtype is dtypes.bool_ and mode != "circular":
        kernel = {"reflect": "reflection", "replicate": "replication"}[mode] + f"_pad{count}d"
        raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")
    place = _places(mode, tuple(input.shape), sizes, input.device)
    op = {"reflect": _reflected, "replicate": _replicated}.get(mode)
    return call_of(_circular if op is None else op[count - 1], input, place=place)


__all__ = ["constant_pad_nd"]
