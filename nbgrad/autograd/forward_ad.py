"""Forward mode by hand: tensors with tangents, and what an op makes of them.

Promises that inside `dual_level` every op of a dual tensor gives a dual tensor, that reverse mode goes through both (gradients of
tangents, tangents of gradients), and that outside of it a dual tensor is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nbgrad.autograd.grad_mode import Mode
from nbgrad.core.refusals import OVERLAP
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.transforms import lift, moving, primal, tangent_of, with_tangent
from nbgrad.ops.make.filled import zeros_like
from nbgrad.ops.views.views import alias
from nbgrad.tape.modes import state

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """A tensor, and its tangent or None: what `unpack_dual` returns.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     fwAD.unpack_dual(torch.ones(2)).tangent is None
    True
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open the level in which tensors may have tangents; its number, which is 0. There is one at a time.

    >>> fwAD = torch.autograd.forward_ad
    >>> fwAD.enter_dual_level()
    0
    >>> fwAD.exit_dual_level()
    """
    if state.dual_level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    opened = moving()
    state.dual_level = (opened, opened.__enter__())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: its tangents are gone.

    >>> fwAD = torch.autograd.forward_ad
    >>> level = fwAD.enter_dual_level()
    >>> fwAD.exit_dual_level(level=level)
    """
    if level is None:
        level = -1 if state.dual_level is None else 0
    if level != (-1 if state.dual_level is None else 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    if state.dual_level is None:
        raise RuntimeError("Dual level must be a positive number.")
    opened, _ = state.dual_level
    state.dual_level = None
    opened.__exit__(None, None, None)


class dual_level(Mode):
    """Forward mode inside of the `with` block: what is computed of tensors with tangents has tangents.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


class _set_fwd_grad_enabled(Mode):
    """Acts when it is made; as a context manager puts back what was there before."""

    __slots__ = ("mode", "prev")

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"enabled must be a bool (got {type(mode).__name__})")
        self.prev, self.mode = state.moving, mode
        state.moving = mode

    def clone(self) -> _set_fwd_grad_enabled:
        return _set_fwd_grad_enabled(self.mode)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        state.moving = self.prev


def _is_fwd_grad_enabled() -> bool:
    return state.moving


def __getattr__(name: str) -> Any:
    if name == "_current_level":
        return -1 if state.dual_level is None else 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` that has `tangent`, of its shape, as its tangent: the direction along which derivatives are taken.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
    ...     fwAD.unpack_dual((x * x).sum()).tangent
    tensor(2.)
    """
    if (level is not None and level < 0) or state.dual_level is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    k = state.dual_level[1]
    check_tangent(tensor, tangent)
    if level:
        raise RuntimeError("Invalid level given to _make_dual")
    if tangent_of(tangent, k) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
        )
    if tangent_of(tensor, k) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
        )
    sp = tensor._spec
    if tangent._spec.strides != sp.strides and any(s == 0 and n > 1 for s, n in zip(sp.strides, sp.shape)):
        raise RuntimeError(OVERLAP)
    return with_tangent(tensor, tangent, k)


def check_tangent(tensor: Tensor, tangent: Tensor) -> None:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. "
            f"Tensor is of size {list(tensor.shape)} while the given forward gradient is of size {list(tangent.shape)}."
        )


def duals(points: Sequence[Tensor], directions: Sequence[Tensor], k: int) -> list[Tensor]:
    """The points, moving in these directions, as the transforms that run now see them."""
    level = state.levels[-1] if state.levels else None
    return [with_tangent(lift(x, level), lift(v, level), k) for x, v in zip(points, directions)]


def tangent_or_zeros(t: Tensor, k: int) -> Tensor:
    found: Tensor | None = tangent_of(t, k)
    return zeros_like(primal(t, k).detach()) if found is None else found


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and the tangent, None where there is none.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     fwAD.unpack_dual(fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0)))
    UnpackedDualTensor(primal=tensor(3.), tangent=tensor(1.))
    """
    if (level is not None and level < 0) or state.dual_level is None:
        return UnpackedDualTensor(tensor, None)
    k = state.dual_level[1]
    if not (state.moving and k in state.duals):
        return UnpackedDualTensor(alias(tensor), None)
    found: Any = tangent_of(tensor, k)
    return UnpackedDualTensor(alias(primal(tensor, k)), found)
