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


def det(x, y):
    """By elimination with the largest number that is left, so that nothing is left where that is zero: the gradient is exact there, too."""
    n = len(x)
    a = x.copy()
    b = y.copy()
    p = 1.0
    q = 0.0
    for k in range(n):
        row, column, most = k, k, -1.0
        for i in range(k, n):
            for j in range(k, n):
                size = max(abs(a[i, j]), abs(b[i, j]))
                if size > most:
                    row, column, most = i, j, size
        for j in range(n):
            a[k, j], a[row, j] = a[row, j], a[k, j]
            b[k, j], b[row, j] = b[row, j], b[k, j]
        for i in range(n):
            a[i, k], a[i, column] = a[i, column], a[i, k]
            b[i, k], b[i, column] = b[i, column], b[i, k]
        if (row != k) != (column != k):
            p, q = -p, -q
        u = a[k, k]
        v = b[k, k]
        p, q = p * u - q * v, p * v + q * u
        if most != 0.0:
            below = u * u + v * v
            for i in range(k + 1, n):
                s = (a[i, k] * u + b[i, k] * v) / below
                t = (b[i, k] * u - a[i, k] * v) / below
                for j in range(k + 1, n):
                    a[i, j] -= s * a[k, j] - t * b[k, j]
                    b[i, j] -= s * b[k, j] + t * a[k, j]
    return p, q


EACH: dict[str, Callable[..., Any]] = {
    **{"exp": exp, "log": log, "log2": log2, "log10": log10, "sqrt": sqrt, "sin": sin, "cos": cos},
    **{"tan": tan, "sinh": sinh, "cosh": cosh, "tanh": tanh},
}

__all__ = ["EACH", "absolute", "angle", "cumprod", "det", "power", "prod", "rect"]
