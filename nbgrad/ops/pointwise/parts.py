"""Elementwise ops that make complex numbers, or tell of them what real ones do not have."""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor, hooks
from nbgrad.dispatch.elementwise import inplace, into
from nbgrad.dispatch.stanza import SAME, in_place_of, method, method_alone, stanza
from nbgrad.expr import prims as p
from nbgrad.memory import dtypes

_FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)


def _of_two(compute: Any, operands: Any) -> None:
    """Both parts are of one dtype."""
    first, second = (o.dtype for o in operands)
    if first not in _FLOATS or second not in _FLOATS:
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{first.scalar_name} and {second.scalar_name}"
        )
    if first is not second:
        raise RuntimeError(
            f"Expected object of scalar type {first.scalar_name} but got scalar type {second.scalar_name} for second argument"
        )


def _made(name: str) -> Any:
    return stanza(promote="complex", tensors=_PARTS[name], check=_of_two, method=False, inplace=False)


_PARTS = {"complex": ("real", "imag"), "polar": ("abs", "angle")}


@_made("complex")
def complex(real, imag):
    """Complex numbers of their parts, which are floats of one dtype.

    >>> torch.complex(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 0.0]))
    tensor([1.+2.j, 3.+0.j])
    """
    return p.join(real, imag)


@_made("polar")
def polar(abs, angle):
    """Complex numbers of their absolute values and their angles.

    >>> torch.polar(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0]))
    tensor([1.+0.j, 2.+0.j])
    """
    return p.join(abs * p.cos(angle), abs * p.sin(angle))


def _angle(input: Any) -> Any:
    """The angle of each number in the complex plane, which for real ones is pi below 0 and else 0, with the gradient 0.

    >>> torch.angle(torch.tensor([-2.0, 3.0])), torch.angle(torch.tensor([2j]))
    (tensor([3.1416, 0.0000]), tensor([1.5708]))
    """
    return p.arg(input)


angle = stanza(_angle, promote="float", inplace=False)


@stanza(exact=SAME, shared=False)
def sgn(input):
    """The direction of each number: complex ones over their absolute value, of real ones the sign.

    >>> torch.sgn(torch.tensor([-3.0, 0.0, 0.5])), torch.sgn(torch.tensor([3 + 4j]))
    (tensor([-1.,  0.,  1.]), tensor([0.6000+0.8000j]))
    """
    return p.sgn(input)


@stanza(promote="compare", inplace=False)
def isreal(input):
    """Whether each element has no imaginary part, as no real number has one.

    >>> torch.isreal(torch.tensor([1.0, float("nan")])), torch.isreal(torch.tensor([1j, 2.0]))
    (tensor([True, True]), tensor([False,  True]))
    """
    return p.eq(p.imag(input), 0)


_conjugate = stanza(lambda input: p.conj(input), name="conj", method=False, shared=False)
_conj_physical = stanza(lambda input: p.conj(input), name="conj_physical", method=False, shared=False)


@method
def conj(input: Tensor) -> Tensor:
    """The conjugate of complex numbers, in memory of its own; real numbers are their own. The gradient is the conjugate of `g`.

    >>> torch.tensor([1 + 2j]).conj()
    tensor([1.-2.j])
    """
    made: Tensor = _conjugate(input) if input._spec.dtype.is_complex else input
    return made


# Of what was computed of conjugates: a part that is zero is no -0.0, as it would not be had they not been turned.
_conjugate_back = stanza(
    lambda input: p.join(p.real(input), 0.0 - p.imag(input)),
    name="conj_back",
    node="ConjBackward0",
    method=False,
    shared=False,
)

hooks.conj = conj
hooks.conj_back = lambda t: _conjugate_back(t) if t._spec.dtype.is_complex else t


@method_alone
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The conjugate in memory of its own, which for real numbers is the tensor itself, or `out`.

    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    made: Tensor = _conj_physical(input) if input._spec.dtype.is_complex else input
    return made if out is None else into("conj_physical", out, made, (input,))


@method
@in_place_of(conj_physical)
def conj_physical_(input: Tensor) -> Tensor:
    return inplace(_conj_physical.op, (input,))


__all__ = [
    "angle",
    "complex",
    "conj",
    "conj_physical",
    "conj_physical_",
    "isreal",
    "polar",
    "sgn",
]
