"""Numbers that are counted on a device, an element a thread: from a first one in steps, or between two ends.

Promises `nbgrad.ops.make.counted` what PyTorch's kernels for CUDA count in: the dtype itself, narrow ones in float32. An end
belongs to the numbers, which are symmetric about their middle; from `half` on they are counted from it backwards. The CPU counts
floats between two ends by texts of its own.
"""

from __future__ import annotations

from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS, computed, halves, write

_TEXT = '''"""Numbers from {numbers}."""
import math
{imports}
F = {scalar}


def @NAME@(start, stop, o, {numbers}):
    for i in range(start, stop):
        o[i] = {value}
'''
_EVENLY = "F(F(low) + F(step) * F(i) if i < half else F(high) - F(step) * F(last - i))"
# PyTorch's on the CPU: a product and a sum are one rounding, as its compiler makes them; exponents are of float64.
_OF_CPU = {
    "evenly": "fma(F(step), F(i), F(low)) if i < half else fma(-F(step), F(last - i), F(high))",
    "powers": "F(math.pow(base, low + step * i if i < half else high - step * (last - i)))",
}
_WAYS = {
    "steps": (("first", "step"), "F(F(first) + F(step) * F(i))"),
    "evenly": (("low", "high", "step", "half", "last"), _EVENLY),
    "powers": (("low", "high", "step", "half", "last", "base"), f"F(math.pow(F(base), {_EVENLY}))"),
}
_PLACES = ("half", "last")
_FMA = "from nbgrad.kernels.cpu.vmath import fma\n"


@cached(64)
def source(way: str, code: str, of_cpu: bool) -> tuple[str, tuple[str, ...]]:
    """Text and parameter codes; integers between ends are counted in float64."""
    numbers, value = _WAYS[way]
    if of_cpu:
        value = _OF_CPU[way]
    kind = computed(code)
    if way != "steps" and kind[0] != "f":
        kind = "f8"
    wide = "i8" if kind[0] in "iu" else kind
    text = _TEXT.format(
        numbers=", ".join(numbers),
        imports=(halves((code,)) or "import numpy as np\n") + _FMA * of_cpu,
        scalar=SCALARS[wide],
        value=write(value, code, wide),
    )
    return text, ("i8", "i8", "*" + code, *["i8" if wide == "i8" or n in _PLACES else "f8" for n in numbers])
