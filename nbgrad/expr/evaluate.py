"""The value of an expression on Python numbers: the living definition that emitted code is tested against."""

from __future__ import annotations

from collections.abc import Mapping

from .node import Const, Expr, Number, postorder


def evaluate(e: Expr, env: Mapping[str, Number]) -> Number:
    """`e` with its variables taken from `env`. Iterative, each shared node once, IEEE results instead of
    exceptions.

    >>> from nbgrad.expr import var
    >>> evaluate(1 / var("x"), {"x": -0.0})
    -inf
    """
    values: dict[Expr, Number] = {}
    for node in postorder([e]):
        if node.prim is not None:
            operands = [values[a] for a in node.args]
            if node.attr is not None:
                operands.append(node.attr)
            values[node] = node.prim.python(*operands)
        elif isinstance(node, Const):
            values[node] = node.attr
        else:
            values[node] = env[node.attr]
    return values[e]
