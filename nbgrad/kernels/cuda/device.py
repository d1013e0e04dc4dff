"""What CUDA's kernels call in place of the CPU's helpers and of NumPy's functions of scalars, in what NVVM knows.

Promises the same values. Un-jitted, each is what it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from nbgrad.kernels import vmath
from nbgrad.kernels.cpu import fold


def _one(python: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        return python(x)

    overload(function)(lambda x: compiled)
    return function


def _two(python: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        return python(x, y)

    overload(function)(lambda x, y: compiled)
    return function


def _three(python: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
    def function(v: Any, x: Any, y: Any) -> Any:
        return python(v, x, y)

    overload(function)(lambda v, x, y: compiled)
    return function


larger = _two(fold.larger, lambda x, y: y if y > x else x)
highest = _two(fold.highest, lambda x, y: x if x > y or x != x else y)
lowest = _two(fold.lowest, lambda x, y: x if x < y or x != x else y)

ceil = _one(np.ceil, lambda x: math.ceil(x))  # of a float, CUDA's give a float
floor = _one(np.floor, lambda x: math.floor(x))
trunc = _one(np.trunc, lambda x: math.trunc(x))
exp = _one(np.exp, lambda x: math.exp(x))
sqrt = _one(np.sqrt, lambda x: math.sqrt(x))
fmod = _two(np.fmod, lambda x, y: math.fmod(x, y))
nextafter = _two(np.nextafter, lambda x, y: math.nextafter(x, y))

fabs = _one(vmath.fabs, lambda x: math.fabs(x))
down = _one(vmath.down, lambda x: math.floor(x))
truncated = _one(vmath.truncated, lambda x: math.trunc(x))
root = _one(vmath.root, lambda x: math.sqrt(x))
copysign = _two(vmath.copysign, lambda x, y: math.copysign(x, y))

# v, or where v is NaN what the library says
or_sin = _two(vmath.or_sin, lambda x, y: x if x == x else math.sin(y))
or_cos = _two(vmath.or_cos, lambda x, y: x if x == x else math.cos(y))
or_tan = _two(vmath.or_tan, lambda x, y: x if x == x else math.tan(y))
or_fmod = _three(vmath.or_fmod, lambda v, x, y: v if v == v else math.fmod(x, y))
or_pow = _three(vmath.or_pow, lambda v, x, y: v if v == v else math.pow(x, y))


def rint(x: Any) -> Any:
    """The whole number next to a float, of two the even one."""
    return np.rint(x)


@overload(rint)
def _rint(x: Any) -> Any:
    kind, whole = (np.float32, np.float32(2.0**23)) if x == types.float32 else (np.float64, 2.0**52)

    def rounded(x: Any) -> Any:
        size = math.fabs(kind(x))
        return math.copysign((size + whole) - whole, x) if size < whole else x

    return rounded
