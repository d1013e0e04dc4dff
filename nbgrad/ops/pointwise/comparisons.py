"""Comparisons, logic and bits: ops that have no gradient."""

from __future__ import annotations

from typing import Any

from nbgrad.dispatch.stanza import SAME, refuse, stanza
from nbgrad.expr import prims as p

# ---------------------------------------------------------------- arithmetic


def _comparison(name: str) -> Any:
    """An op whose result is a bool. Where it takes the place of floats, its gradients are zeros; logic there is no step of a graph."""
    return stanza(promote="compare", node=f"{name}Backward1", number_node=f"{name}Backward0")


alike = stanza(
    lambda a, b: p.logical_or(p.eq(a, b), p.logical_and(p.ne(a, a), p.ne(b, b))),
    name="alike",
    promote="compare",
    method=False,
    shared=False,
)  # equal, or both not a number


@_comparison("Eq")
def eq(input, other):
    return p.eq(input, other)


@_comparison("Ne")
def ne(input, other):
    return p.ne(input, other)


@_comparison("Lt")
def lt(input, other):
    return p.lt(input, other)


@_comparison("Le")
def le(input, other):
    return p.le(input, other)


@_comparison("Gt")
def gt(input, other):
    return p.gt(input, other)


@_comparison("Ge")
def ge(input, other):
    return p.ge(input, other)


@stanza(promote="compare", tensors=("input", "other"), constant=True)
def logical_and(input, other):
    return p.logical_and(p.ne(input, 0), p.ne(other, 0))


@stanza(promote="compare", tensors=("input", "other"), constant=True)
def logical_or(input, other):
    return p.logical_or(p.ne(input, 0), p.ne(other, 0))


@stanza(promote="compare", tensors=("input", "other"), constant=True)
def logical_xor(input, other):
    return p.logical_xor(p.ne(input, 0), p.ne(other, 0))


@stanza(promote="compare", constant=True)
def logical_not(input):
    return p.logical_not(p.ne(input, 0))


@stanza(promote="compare", inplace=False)
def isnan(input):
    return p.isnan(input)


@stanza(promote="compare", inplace=False)
def isinf(input):
    return p.isinf(input)


@stanza(promote="compare", inplace=False)
def isfinite(input):
    return p.isfinite(input)


@stanza(kernel=refuse("bitwise_and_cpu", floats=True))
def bitwise_and(input, other):
    return p.bitwise_and(input, other)


@stanza(kernel=refuse("bitwise_or_cpu", floats=True))
def bitwise_or(input, other):
    return p.bitwise_or(input, other)


@stanza(kernel=refuse("bitwise_xor_cpu", floats=True))
def bitwise_xor(input, other):
    return p.bitwise_xor(input, other)


@stanza(kernel=refuse("lshift_cpu", floats=True, bools=True))
def bitwise_left_shift(input, other):
    return p.lshift(input, other)


@stanza(kernel=refuse("rshift_cpu", floats=True, bools=True))
def bitwise_right_shift(input, other):
    return p.rshift(input, other)


@stanza(exact=SAME, kernel=refuse("bitwise_not_cpu", floats=True))
def bitwise_not(input):
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
