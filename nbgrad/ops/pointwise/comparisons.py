"""Comparisons, logic and bits: ops that have no gradient."""

from __future__ import annotations

from typing import Any

from nbgrad.dispatch.stanza import SAME, refuse, stanza
from nbgrad.expr import prims as p


def _comparison(name: str) -> Any:
    """An op whose result is a bool. Where it takes the place of floats, its gradients are zeros; logic there is no step of a graph."""
    return stanza(
        promote="compare",
        node=f"{name}Backward1",
        number_node=f"{name}Backward0",
        kernel=refuse(f"{name.lower()}_cpu", complexes=name not in ("Eq", "Ne")),
    )


alike = stanza(
    lambda a, b: p.logical_or(p.eq(a, b), p.logical_and(p.ne(a, a), p.ne(b, b))),
    name="alike",
    promote="compare",
    method=False,
    shared=False,
)  # equal, or both not a number


@_comparison("Eq")
def eq(input, other):
    """Whether `input` equals `other`, element by element and broadcast, as bools. NaN equals nothing.

    >>> torch.eq(torch.tensor([1, 2, 3]), torch.tensor([1, 0, 3]))
    tensor([ True, False,  True])
    """
    return p.eq(input, other)


@_comparison("Ne")
def ne(input, other):
    """Whether `input` differs from `other`, element by element and broadcast, as bools. NaN differs from all.

    >>> torch.ne(torch.tensor([1, 2, 3]), 2)
    tensor([ True, False,  True])
    """
    return p.ne(input, other)


@_comparison("Lt")
def lt(input, other):
    """Whether `input` is less than `other`, element by element and broadcast, as bools.

    >>> torch.lt(torch.tensor([1, 2, 3]), 2)
    tensor([ True, False, False])
    """
    return p.lt(input, other)


@_comparison("Le")
def le(input, other):
    """Whether `input` is at most `other`, element by element and broadcast, as bools.

    >>> torch.le(torch.tensor([1, 2, 3]), 2)
    tensor([ True,  True, False])
    """
    return p.le(input, other)


@_comparison("Gt")
def gt(input, other):
    """Whether `input` is greater than `other`, element by element and broadcast, as bools.

    >>> torch.gt(torch.tensor([1, 2, 3]), torch.tensor([[0], [2]]))
    tensor([[ True,  True,  True],
            [False, False,  True]])
    """
    return p.gt(input, other)


@_comparison("Ge")
def ge(input, other):
    """Whether `input` is at least `other`, element by element and broadcast, as bools.

    >>> torch.ge(torch.tensor([1, 2, 3]), 2)
    tensor([False,  True,  True])
    """
    return p.ge(input, other)


@stanza(promote="compare", tensors=("input", "other"), constant=True)
def logical_and(input, other):
    """Whether both elements are true, that is, not zero; NaN is true. Any dtypes give bools.

    >>> torch.logical_and(torch.tensor([0, 1, 2]), torch.tensor([1.0, 0.0, 0.5]))
    tensor([False, False,  True])
    """
    return p.logical_and(p.ne(input, 0), p.ne(other, 0))


@stanza(promote="compare", tensors=("input", "other"), constant=True)
def logical_or(input, other):
    """Whether at least one of the two elements is true, that is, not zero. Any dtypes give bools.

    >>> torch.logical_or(torch.tensor([0, 0, 2]), torch.tensor([0.0, 0.5, 1.0]))
    tensor([False,  True,  True])
    """
    return p.logical_or(p.ne(input, 0), p.ne(other, 0))


@stanza(promote="compare", tensors=("input", "other"), constant=True)
def logical_xor(input, other):
    """Whether just one of the two elements is true, that is, not zero. Any dtypes give bools.

    >>> torch.logical_xor(torch.tensor([0, 0, 2]), torch.tensor([0.0, 0.5, 1.0]))
    tensor([False,  True, False])
    """
    return p.logical_xor(p.ne(input, 0), p.ne(other, 0))


@stanza(promote="compare", constant=True)
def logical_not(input):
    """Whether an element is zero, as a bool. `bitwise_not` turns the bits instead.

    >>> torch.logical_not(torch.tensor([0, 1, 2]))
    tensor([ True, False, False])
    """
    return p.logical_not(p.ne(input, 0))


@stanza(promote="compare", inplace=False)
def isnan(input):
    """Whether an element is NaN (not a number), as a bool.

    >>> torch.isnan(torch.tensor([1.0, float("nan"), float("inf")]))
    tensor([False,  True, False])
    """
    return p.isnan(input)


@stanza(promote="compare", inplace=False)
def isinf(input):
    """Whether an element is inf or -inf, as a bool.

    >>> torch.isinf(torch.tensor([1.0, float("nan"), float("-inf")]))
    tensor([False, False,  True])
    """
    return p.isinf(input)


@stanza(promote="compare", inplace=False)
def isfinite(input):
    """Whether an element is neither infinite nor NaN, as a bool.

    >>> torch.isfinite(torch.tensor([1.0, float("nan"), float("inf")]))
    tensor([ True, False, False])
    """
    return p.isfinite(input)


@stanza(kernel=refuse("bitwise_and_cpu", floats=True))
def bitwise_and(input, other):
    """The bits that both elements have. For integers and bools, of which it is `logical_and`; one operand may be a number.

    >>> torch.bitwise_and(torch.tensor([12, 7]), 10)
    tensor([8, 2])
    """
    return p.bitwise_and(input, other)


@stanza(kernel=refuse("bitwise_or_cpu", floats=True))
def bitwise_or(input, other):
    """The bits that at least one of the two elements has. For integers and bools, of which it is `logical_or`; one operand may be a number.

    >>> torch.bitwise_or(torch.tensor([12, 7]), 10)
    tensor([14, 15])
    """
    return p.bitwise_or(input, other)


@stanza(kernel=refuse("bitwise_xor_cpu", floats=True))
def bitwise_xor(input, other):
    """The bits in which the two elements differ. For integers and bools, of which it is `logical_xor`; one operand may be a number.

    >>> torch.bitwise_xor(torch.tensor([12, 7]), 10)
    tensor([ 6, 13])
    """
    return p.bitwise_xor(input, other)


@stanza(kernel=refuse("lshift_cpu", floats=True, bools=True))
def bitwise_left_shift(input, other):
    """The bits of `input` moved up by `other` places: `input * 2**other`, without what leaves the dtype. For integers.

    >>> torch.bitwise_left_shift(torch.tensor([1, 3, -2]), 2)
    tensor([ 4, 12, -8])
    """
    return p.lshift(input, other)


@stanza(kernel=refuse("rshift_cpu", floats=True, bools=True))
def bitwise_right_shift(input, other):
    """The bits of `input` moved down by `other` places: `input / 2**other` rounded down, with the sign kept. For integers.

    >>> torch.bitwise_right_shift(torch.tensor([4, 13, -3]), 2)
    tensor([ 1,  3, -1])
    """
    return p.rshift(input, other)


@stanza(exact=SAME, kernel=refuse("bitwise_not_cpu", floats=True))
def bitwise_not(input):
    """All bits turned: of signed integers that is `-input - 1`, of bools `logical_not`.

    >>> torch.bitwise_not(torch.tensor([0, 5, -1]))
    tensor([-1, -6,  0])
    """
    return p.bitwise_not(input)


__all__ = [
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "eq",
    "ge",
    "gt",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "ne",
]
