"""Linear algebra as plain functions: they are written out where they are called and differentiated as a user's are.

Promises derivatives wherever NumPy's function is smooth. What is factored stands in `formulas`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def trace(a, offset=0):
    total = a.dtype.type(0)
    for i in range(max(-offset, 0), min(a.shape[0], a.shape[1] - offset)):
        total += a[i, i + offset]
    return total


def _check_square(a):
    if a.shape[0] != a.shape[1]:
        raise ValueError("Last 2 dimensions of the array must be square")


def singular_values(a):
    return np.linalg.svd(a, compute_uv=False)


def cond(a):
    values = singular_values(a)
    return values[0] / values[len(values) - 1]


def matrix_rank(a):
    values = singular_values(a)
    least = values[0] * max(a.shape[0], a.shape[1]) * 2.220446049250313e-16
    rank = 0
    for k in range(len(values)):
        if values[k] > least:
            rank += 1
    return rank


def pinv(a):
    return np.linalg.lstsq(a, np.eye(a.shape[0]))[0]


def polyfit(x, y, deg):
    return np.linalg.lstsq(np.vander(x, deg + 1), y)[0]


def matrix_power(a, n):
    _check_square(a)
    base = np.linalg.inv(a) if n < 0 else a
    out = np.eye(len(a))
    for _ in range(abs(n)):
        out = out @ base
    return out


# ---------------------------------------------------------------- norms


def norm(x):
    """Of a vector, or Frobenius's of a matrix."""
    squares = np.sum(x * x)
    if squares == 0.0:  # where its derivative is 0, as PyTorch's is
        return 0.0
    return np.sqrt(squares)


def norm_of_vector(x, order):
    if order == math.inf:
        return np.max(np.abs(x))
    if order == -math.inf:
        return np.min(np.abs(x))
    if order == 0:
        return float(np.sum(x != 0.0))
    if order == 1:
        return np.sum(np.abs(x))
    total = 0.0
    for v in x:
        if v != 0.0:
            total += abs(v) ** order
    return 0.0 if total == 0.0 else total ** (1.0 / order)


def norm_of_matrix(x, order):
    if order == math.inf:
        return np.max(np.sum(np.abs(x), axis=1))
    if order == -math.inf:
        return np.min(np.sum(np.abs(x), axis=1))
    if order == 1:
        return np.max(np.sum(np.abs(x), axis=0))
    if order == -1:
        return np.min(np.sum(np.abs(x), axis=0))
    if order == 2:
        return singular_values(x)[0]
    if order == -2:
        return singular_values(x)[-1]
    if order == "nuc":
        return np.sum(singular_values(x))
    raise ValueError("Invalid norm order for matrices.")


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(np.linalg, f.__name__): f for f in (matrix_rank, matrix_power)},
    **{np.linalg.cond: cond, np.polyfit: polyfit},
}
