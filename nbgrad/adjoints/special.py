"""Special functions that derivatives need and Numba has no name for: their text, from `expr/`'s own definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.adjoints.ops import differentiable, primitive
from nbgrad.base import source
from nbgrad.base.tables import cached
from nbgrad.expr import emit, node


@cached(64)
def function(name: str) -> Callable[..., Any]:
    """A function of one float; `primitive` is what it is called in `expr/`."""
    if not differentiable(name):
        raise NotImplementedError(f"no text of {name!r}")
    written = emit.emit([primitive(name, [node.var("x")])], "scalar", "f8", {"x": "x"})
    lines = [f"def {name}(x):", [*written.lines, f"return {written.results[0]}"]]
    scope: dict[str, Any] = {"np": np, "math": math, "F": np.float64, "inf": math.inf, "nan": math.nan}
    made = source.function(name, source.text_of(lines), scope, "special functions of plain functions", name)
    made.primitive = name
    return made
