"""Scalar mathematics, in pure Python: expressions, primitives, derivatives, evaluation on floats, and source
text.

`node` holds the expressions and traces functions, `prims` is the table of primitives, `diff` differentiates,
`simplify` rewrites exactly, `evaluate` is the definition of every expression's value, and `emit` writes
kernels' bodies. Nothing of nbgrad but `base`, of NumPy or Numba is imported; the op layer and the kernel builder stand on
this.
"""

from . import bessel, diff, emit, evaluate, loops, node, prims, simplify, special
from .diff import ZERO, Zero, tangent, vjp
from .node import (
    PRIMS,
    Const,
    Expr,
    Prim,
    Var,
    as_expr,
    const,
    free_vars,
    is_bool,
    ordered_vars,
    postorder,
    substitute,
    trace,
    trace_many,
    var,
)

__all__ = [
    "PRIMS",
    "ZERO",
    "Const",
    "Expr",
    "Prim",
    "Var",
    "Zero",
    "as_expr",
    "bessel",
    "const",
    "diff",
    "emit",
    "evaluate",
    "free_vars",
    "is_bool",
    "loops",
    "node",
    "ordered_vars",
    "postorder",
    "prims",
    "simplify",
    "special",
    "substitute",
    "tangent",
    "trace",
    "trace_many",
    "var",
    "vjp",
]
