"""What several formulas are made of: products that are added, turns of two columns, and what is safe to divide by."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

_SWEEPS = 60


def _add(a, b, into, by):
    """into += by * a @ b"""
    for i in range(into.shape[0]):
        for k in range(a.shape[1]):
            t = by * a[i, k]
            for j in range(into.shape[1]):
                into[i, j] += t * b[k, j]


def _plus(a, into, by):
    for i in range(into.shape[0]):
        for j in range(into.shape[1]):
            into[i, j] += by * a[i, j]


def _over(x, gap, near, used):
    """x / gap; of vectors whose values are as good as one there is no derivative, nor need of one where nothing was made of them."""
    if abs(gap) > near:
        return x / gap
    return math.nan if used else 0.0


def _near(s, row, k):
    """Less than what is left of a difference of values."""
    total = 0.0
    for j in range(k):
        total += abs(s[row, j])
    return 1e-14 * total


def _used(bar, rows, used):
    """How much was made of each vector."""
    for i in range(rows):
        for j in range(len(used)):
            used[j] += abs(bar[i, j])


def _one(n):
    v = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            v[i, j] = 1.0 if i == j else 0.0
    return v


def _angle(x, y):
    """Of the rotation that makes nothing of y, of two on the diagonal that are x apart: the least."""
    if y == 0.0:
        return 0.0
    return 0.5 * math.atan2(2.0 * y, x) if x >= 0.0 else -0.5 * math.atan2(2.0 * y, -x)


def _turn(m, p, q, c, s):
    """Columns p and q."""
    for k in range(m.shape[0]):
        a = m[k, p]
        b = m[k, q]
        m[k, p] = c * a - s * b
        m[k, q] = s * a + c * b


def _order(values):
    """Where the least stands, and so on."""
    order = np.empty(len(values), np.int64)
    for k in range(len(values)):
        at = k
        while at > 0 and values[order[at - 1]] > values[k]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = k
    return order


def _is_turned(v, k):
    """Is the largest number of a column negative?"""
    top = 0
    for i in range(1, v.shape[0]):
        if abs(v[i, k]) > abs(v[top, k]) * 1.000001:
            top = i
    return v[top, k] < 0.0
