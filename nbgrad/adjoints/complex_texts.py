"""Functions of complex numbers, given as their two parts, as plain ones: they are written out where they are called and differentiated as a
user's are, which gives gradients of PyTorch's convention."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def absolute(x, y):
    """With derivative 0 at 0, as PyTorch's."""
    if x != 0.0 or y != 0.0:
        return math.hypot(x, y)
    return 0.0


def angle(x, y):
    if x != 0.0 or y != 0.0:
        return math.atan2(y, x)
    return math.copysign(math.pi if math.copysign(1.0, x) < 0.0 else 0.0, y)


def exp(x, y):
    e = math.exp(x)
    return e * math.cos(y), e * math.sin(y)


def log(x, y):
    return math.log(math.hypot(x, y)), math.atan2(y, x)


def log10(x, y):
    return math.log10(math.hypot(x, y)), math.atan2(y, x) / math.log(10.0)


def log2(x, y):
    return math.log2(math.hypot(x, y)), math.atan2(y, x) / math.log(2.0)


def sqrt(x, y):
    if x == 0.0 and y == 0.0:
        return math.sqrt(abs(x)), y
    t = math.sqrt(0.5 * (math.hypot(x, y) + abs(x)))
    if x >= 0.0:
        return t, y / (2.0 * t)
    return abs(y) / (2.0 * t), math.copysign(t, y)


def sin(x, y):
    return math.sin(x) * math.cosh(y), math.cos(x) * math.sinh(y)


def cos(x, y):
    return math.cos(x) * math.cosh(y), -math.sin(x) * math.sinh(y)


def sinh(x, y):
    return math.sinh(x) * math.cos(y), math.cosh(x) * math.sin(y)


def cosh(x, y):
    return math.cosh(x) * math.cos(y), math.sinh(x) * math.sin(y)


def tanh(x, y):
    t = math.tanh(x)
    u = math.tan(y)
    c = math.cosh(x)
    below = 1.0 + t * t * u * u
    return t * (1.0 + u * u) / below, u / (c * c * below)


def tan(x, y):
    a, b = tanh(-y, x)
    return b, -a


def power(x, y, u, v):
    if x == 0.0 and y == 0.0:
        if u == 0.0 and v == 0.0:
            return 1.0, 0.0
        return 0.0, 0.0
    a, b = log(x, y)
    return exp(u * a - v * b, u * b + v * a)


def rect(r, phi):
    return r * math.cos(phi), r * math.sin(phi)


def prod(x, y):
    p = 1.0
    q = 0.0
    for i in range(len(x)):
        p, q = p * x[i] - q * y[i], p * y[i] + q * x[i]
    return p, q


def cumprod(x, y):
    left = np.empty_like(x)
    right = np.empty_like(y)
    p = 1.0
    q = 0.0
    for i in range(len(x)):
        p, q = p * x[i] - q * y[i], p * y[i] + q * x[i]
        left[i] = p
        right[i] = q
    return left, right


EACH: dict[str, Callable[..., Any]] = {
    **{"exp": exp, "log": log, "log2": log2, "log10": log10, "sqrt": sqrt, "sin": sin, "cos": cos},
    **{"tan": tan, "sinh": sinh, "cosh": cosh, "tanh": tanh},
}

__all__ = ["EACH", "absolute", "angle", "cumprod", "power", "prod", "rect"]
