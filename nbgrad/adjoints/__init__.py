"""Gradients of plain functions in Numba's language: loops, branches and writes into arrays become the text of their adjoint.

`ir` is what a function is lowered to; `exits`, `build`, the rooms from `indices` to `lower` and `calls` lower it. NumPy's functions
stand by their names in `functions`, `linear`, `arrangements`, `pieces`, `contract` and `rows`, and as plain ones in `library` and
`matrices`. `small` makes numbers of small arrays. `ops` says what the operations are, `expr/` their derivatives, `formulas/` those of
decompositions; `activity`, `turns`, `places` and `analyse` look for what matters to them, `tangent` and `reverse` write them, `text`
spells them, `quick` makes of a text what is compiled, `api` is what users see.
"""

from nbgrad.adjoints.api import Differentiable
from nbgrad.adjoints.ir import Refused

__all__ = ["Differentiable", "Refused"]
