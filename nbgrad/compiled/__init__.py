"""`compile`: a program that was run and recorded is done again without the tape, and without Python between its kernels.

Promises that a compiled call computes what the function would have computed, to the bit, with the same effects, or that the function
itself is called: what is not known is left to it, and `explain()` says what that was. `capture.py` runs and records, `arguments.py` and
`state.py` watch what Python was given and read, `guards.py` asks for it at each call, `graph.py` is the recorded program as a flat list
that can be printed and checked, `lower.py` makes it of two records, `again.py`, `passes.py`, `fuse.py` and `strips.py` make it shorter,
`replay.py` does it again, `proof.py` asks whether it did the same, `after.py` is what a call leaves behind, `call.py` writes the function
that does it all, `function.py` learns, `modules.py` is what users call.
"""

from __future__ import annotations

from nbgrad.compiled.explain import Explanation as Explanation
from nbgrad.compiled.function import Compiled as Compiled
from nbgrad.compiled.graph import Unknown as Unknown
from nbgrad.compiled.modules import OptimizedModule as OptimizedModule
from nbgrad.compiled.modules import compiled as compiled
