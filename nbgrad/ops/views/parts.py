"""Complex numbers and their parts, which lie side by side in memory: each of these shows the one as the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.base.tables import PLANS, cached
from nbgrad.core.tensor import Tensor, hooks, wrap
from nbgrad.dispatch.prepared import Run, call_of, viewed
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops.views.copy import clone
from nbgrad.ops.views.views import embed, view


def _twice(strides: Ints) -> Ints:
    return tuple([2 * s for s in strides])


def real_spec(sp: Spec) -> tuple[Spec, int]:
    """How the parts lie."""
    return sp.like((*sp.shape, 2), (*_twice(sp.strides), 1), sp.dtype.to_real()), 0


@cached(PLANS)
def complex_spec(sp: Spec) -> tuple[Spec, int]:
    """How the numbers lie that have such parts."""
    return sp.like(sp.shape[:-1], tuple([s // 2 for s in sp.strides[:-1]]), sp.dtype.to_complex()), 0


def _paired(g: Tensor) -> Tensor:
    """A gradient of pairs as one of complex numbers, also where it begins at an odd place, of which PyTorch has none."""
    g = g.contiguous()
    return view_as_complex(clone(g) if g.storage_offset() % 2 else g)


@view("ViewAsReal", _paired, batch=lambda x: _as_real(x))
def _as_real(sp: Spec) -> tuple[Spec, int]:
    return real_spec(sp)


@view("ViewAsComplex", lambda g: _as_real(g), batch=lambda x: _as_complex(x))
def _as_complex(sp: Spec) -> tuple[Spec, int]:
    return complex_spec(sp)


def by_parts(make: Callable[[Spec], Run], sp: Spec) -> Run:
    """What does to either part of complex numbers what `make` makes a run of on real ones, in the dimensions before the last."""
    shown, _ = real_spec(sp)
    run = make(shown)

    def both(t: Tensor) -> Tensor:
        made = run(wrap(t._buf, shown))
        return wrap(made._buf, complex_spec(made._spec)[0])

    return both


@viewed
def view_as_real(input: Tensor) -> Any:
    """A view of complex numbers as pairs of real ones, in a dimension behind the others.

    >>> torch.view_as_real(torch.tensor([1 + 2j, 3.0]))
    tensor([[1., 2.],
            [3., 0.]])
    """
    if not input.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return call_of(_as_real, input)


def view_as_complex(input: Tensor) -> Tensor:
    """A view of pairs of real numbers, which lie side by side in the last dimension, as complex ones.

    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
    tensor([1.+2.j, 3.+0.j])
    """
    shown: Tensor = _shown_as_complex(input)
    if input.storage_offset() % 2:  # which no Spec tells
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return shown


@viewed
def _shown_as_complex(input: Tensor) -> Any:
    sp = input._spec
    if sp.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{sp.dtype.scalar_name}"
        )
    if not sp.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if tuple.__getitem__(sp.shape, -1) != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if sp.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any([s % 2 for s in sp.strides[:-1]]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return call_of(_as_complex, input)


# ---------------------------------------------------------------- views of a base of the other kind that are written to


def _part(total: Tensor, at: Spec, offset: int) -> Tensor:
    """What a view that reads `at` from an offset on shows of the memory of `total`."""
    if total.dtype.is_complex is at.dtype.is_complex:
        return hooks.as_strided(total, at.shape, at.strides, offset)
    if total.dtype.is_complex:
        return hooks.as_strided(view_as_real(total), at.shape, at.strides, offset)
    parts, _ = real_spec(at.plain)
    shown: Tensor = view_as_complex(hooks.as_strided(total, parts.shape, parts.strides, 2 * offset))
    return shown


def _embed(g: Tensor, base: Spec, at: Spec, offset: int) -> Tensor:
    """Its gradient among zeros."""
    if base.dtype.is_complex is at.dtype.is_complex:
        return embed(g, base, at, offset)
    if base.dtype.is_complex:
        made: Tensor = view_as_complex(embed(g, real_spec(base.plain)[0], at, offset).contiguous())
        return made
    return embed(view_as_real(g), base, real_spec(at.plain)[0], 2 * offset)


hooks.look, hooks.embed = _part, _embed


# ---------------------------------------------------------------- parts by name


def real(input: Tensor) -> Tensor:
    """The real parts, as a view; real numbers are their own. Setting `t.real` writes to them.

    >>> torch.real(torch.tensor([1 + 2j, 3.0]))
    tensor([1., 3.])
    """
    shown: Tensor = view_as_real(input).select(-1, 0) if input._spec.dtype.is_complex else input
    return shown


hooks.real = real


def imag(input: Tensor) -> Tensor:
    """The imaginary parts, as a view; real numbers have none, and are refused. Setting `t.imag` writes to them.

    >>> torch.imag(torch.tensor([1 + 2j, 3.0]))
    tensor([2., 0.])
    """
    if not input._spec.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    shown: Tensor = view_as_real(input).select(-1, 1)
    return shown


def _set_real(self: Tensor, value: Any) -> None:
    real(self)[...] = value


def _set_imag(self: Tensor, value: Any) -> None:
    imag(self)[...] = value


Tensor.real = property(real, _set_real)  # type: ignore[assignment, method-assign]
Tensor.imag = property(imag, _set_imag)  # type: ignore[attr-defined]


__all__ = ["imag", "real", "view_as_complex", "view_as_real"]
