"""Gradients of plain functions in Numba's language: loops, branches and writes into arrays become the text of their adjoint.

`ir` is what a function is lowered to, `exits`, `build`, `lower`, `calls` and `library` lower it, `ops` says what the operations
are and `expr/` their derivatives; `tangent`, `analyse` and `reverse` write the derivatives, `text` spells them, `api` is what users see.
"""

from nbgrad.adjoints.api import Differentiable
from nbgrad.adjoints.ir import Refused

__all__ = ["Differentiable", "Refused"]
