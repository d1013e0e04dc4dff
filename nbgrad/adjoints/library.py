"""Functions of NumPy as plain ones, which are written out where they are called and differentiated as a user's are."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def argmin(a):
    if a.ndim > 1:
        return _argmin(a.ravel())
    return _argmin(a)


def _argmin(a):
    best = a[0]
    at = 0
    for i in range(1, len(a)):
        if a[i] < best or (a[i] != a[i] and best == best):  # NaN is the least, and the largest
            best = a[i]
            at = i
    return at


def argmax(a):
    if a.ndim > 1:
        return _argmax(a.ravel())
    return _argmax(a)


def _argmax(a):
    best = a[0]
    at = 0
    for i in range(1, len(a)):
        if a[i] > best or (a[i] != a[i] and best == best):
            best = a[i]
            at = i
    return at


def searchsorted(a, v):
    low = 0
    high = len(a)
    while low < high:
        middle = (low + high) // 2
        if a[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


def searchsorted_right(a, v):
    low = 0
    high = len(a)
    while low < high:
        middle = (low + high) // 2
        if a[middle] <= v:
            low = middle + 1
        else:
            high = middle
    return low


def argsort(a):
    """Equal ones stay in their order, and NaN come last."""
    n = len(a)
    order = np.empty(n, np.int64)
    other = np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        start = 0
        while start < n:
            middle = min(start + width, n)
            end = min(start + 2 * width, n)
            i = start
            j = middle
            for k in range(start, end):
                first = j >= end
                if i < middle and not first:
                    p = a[order[i]]
                    q = a[order[j]]
                    first = not (q < p or (p != p and q == q))
                if first:
                    other[k] = order[i]
                    i += 1
                else:
                    other[k] = order[j]
                    j += 1
            start += 2 * width
        for k in range(n):
            order[k] = other[k]
        width *= 2
    return order


def sort(a):
    order = argsort(a)
    out = np.empty_like(a)
    for i in range(len(a)):
        out[i] = a[order[i]]
    return out


def median(a):
    if a.ndim > 1:
        return _median(a.ravel())
    return _median(a)


def _median(a):
    order = argsort(a)
    n = len(a)
    last = a[order[n - 1]]
    if last != last:  # NaN come last
        return last
    return (a[order[(n - 1) // 2]] + a[order[n // 2]]) * 0.5


def percentile(a, q):
    return quantile(a, q / 100.0)


def quantile(a, q):
    if a.ndim > 1:
        return _quantile(a.ravel(), q)
    return _quantile(a, q)


def _quantile(a, q):
    order = argsort(a)
    last = a[order[len(a) - 1]]
    if last != last:
        return last
    place = (len(a) - 1) * q
    at = int(place)
    share = place - at
    above = min(at + 1, len(a) - 1)
    return a[order[at]] * (1.0 - share) + a[order[above]] * share


def flatnonzero(a):
    n = 0
    for i in range(len(a)):
        if a[i]:
            n += 1
    out = np.empty(n, np.int64)
    n = 0
    for i in range(len(a)):
        if a[i]:
            out[n] = i
            n += 1
    return out


def logaddexp(a, b):
    top = max(a, b)
    if math.isinf(top):
        return top
    return top + math.log1p(math.exp(-abs(a - b)))


def cbrt(x):
    return math.copysign(abs(x) ** (1.0 / 3.0), x)


def sinc(x):
    y = math.pi * x
    if abs(y) < 0.1:  # where its derivatives would lose their digits
        z = y * y
        return 1.0 - z / 6.0 * (1.0 - z / 20.0 * (1.0 - z / 42.0 * (1.0 - z / 72.0)))
    return math.sin(y) / y


def roll(a, shift):
    if a.ndim > 1:
        return _roll(a.ravel(), shift).reshape(a.shape)
    return _roll(a, shift)


def _roll(a, shift):
    n = len(a)
    out = np.empty_like(a)
    for i in range(n):
        out[(i + shift) % n] = a[i]
    return out


def convolve(a, v, mode="full"):
    n = len(a)
    m = len(v)
    if mode == "valid":
        first = min(n, m) - 1
        last = max(n, m)
    elif mode == "same":
        first = (min(n, m) - 1) // 2
        last = first + max(n, m)
    else:
        first = 0
        last = n + m - 1
    out = np.zeros(last - first)
    for k in range(first, last):
        for i in range(max(0, k - m + 1), min(n, k + 1)):
            out[k - first] += a[i] * v[k - i]
    return out


def correlate(a, v, mode="valid"):
    return convolve(a, v[::-1], mode)


def trapezoid(y, x=None, dx=1.0):
    total = 0.0
    for i in range(1, len(y)):
        step = dx if x is None else x[i] - x[i - 1]
        total += step * (y[i] + y[i - 1]) * 0.5
    return total


def kron(a, b):
    if a.ndim == 1 and b.ndim == 1:
        return np.outer(a, b).ravel()
    return _kron(a, b)


def _kron(a, b):
    out = np.empty((a.shape[0] * b.shape[0], a.shape[1] * b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(b.shape[0]):
                for m in range(b.shape[1]):
                    out[i * b.shape[0] + k, j * b.shape[1] + m] = a[i, j] * b[k, m]
    return out


def ptp(a):
    return np.max(a) - np.min(a)


def interp(x, xp, fp):
    """Of one number."""
    n = len(xp)
    at = searchsorted(xp, x)
    if at <= 0:
        return fp[0]
    if at >= n:
        return fp[n - 1]
    left = xp[at - 1]
    slope = (fp[at] - fp[at - 1]) / (xp[at] - left)
    return fp[at - 1] + slope * (x - left)


def norm(x):
    squares = np.sum(x * x)
    if squares == 0.0:  # where its derivative is 0, as PyTorch's is
        return 0.0
    return np.sqrt(squares)


def norm_1(x):
    return np.sum(np.abs(x))


def norm_inf(x):
    return np.max(np.abs(x))


def cross(a, b):
    if len(a) != 3 or len(b) != 3:
        raise ValueError("np.cross is taken of vectors of three numbers")
    out = np.empty(3)
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]
    return out


def cumsum(a):
    if a.ndim > 1:
        return cumsum_of_vector(a.ravel())
    return cumsum_of_vector(a)


def cumsum_of_vector(a):
    if a.dtype == np.bool_:
        return _cumsum(a.astype(np.int64))
    return _cumsum(a)


def _cumsum(a):
    out = np.empty_like(a)
    total = a.dtype.type(0)
    for i in range(len(a)):
        total += a[i]
        out[i] = total
    return out


def cumprod(a):
    if a.ndim > 1:
        return _cumprod(a.ravel())
    return _cumprod(a)


def _cumprod(a):
    out = np.empty_like(a)
    total = a.dtype.type(1)
    for i in range(len(a)):
        total *= a[i]
        out[i] = total
    return out


def diff(a):
    return a[..., 1:] - a[..., :-1]


def average(a, weights):
    return np.sum(a * weights) / np.sum(weights)


def nansum(a):
    return np.sum(np.where(np.isnan(a), 0.0, a))


def nanmean(a):
    return nansum(a) / (a.size - np.sum(np.isnan(a)))


def polyval(p, x):
    y = 0.0 * x
    for i in range(len(p)):
        y = y * x + p[i]
    return y


def linspace(start, stop, num=50):
    out = np.empty(num)
    for i in range(num):
        out[i] = start + (stop - start) * (i / max(num - 1, 1))
    return out


def var(a, *, ddof=0):
    mean = np.mean(a)
    return np.sum((a - mean) ** 2) / (a.size - ddof)


def std(a, *, ddof=0):
    return np.sqrt(var(a, ddof=ddof))


def trace(a):
    total = 0.0
    for i in range(min(a.shape[0], a.shape[1])):
        total += a[i, i]
    return total


def _check_square(a):
    if a.shape[0] != a.shape[1]:
        raise ValueError("Last 2 dimensions of the array must be square")


def cholesky(a):
    _check_square(a)
    n = len(a)
    out = np.zeros((n, n))
    for j in range(n):
        for i in range(j, n):
            s = a[i, j]
            for k in range(j):
                s -= out[i, k] * out[j, k]
            if i == j:
                out[j, j] = np.sqrt(s)
            else:
                out[i, j] = s / out[j, j]
    return out


def _eliminate(m, right):
    """Solves m x = right for each column, with pivots, in place; the sign that the exchanges give m's determinant."""
    n = len(m)
    sign = 1.0
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(m[i, k]) > abs(m[p, k]):
                p = i
        if p != k:
            sign = -sign
            for j in range(k, n):
                t = m[k, j]
                m[k, j] = m[p, j]
                m[p, j] = t
            for j in range(right.shape[1]):
                t = right[k, j]
                right[k, j] = right[p, j]
                right[p, j] = t
        for i in range(k + 1, n):
            f = m[i, k] / m[k, k]
            for j in range(k + 1, n):
                m[i, j] -= f * m[k, j]
            for j in range(right.shape[1]):
                right[i, j] -= f * right[k, j]
    return sign


def det(a):
    _check_square(a)
    m = a.copy()
    product = _eliminate(m, np.empty((len(a), 0)))
    for k in range(len(m)):
        product *= m[k, k]
    return product


def slogdet(a):
    _check_square(a)
    m = a.copy()
    sign = _eliminate(m, np.empty((len(a), 0)))
    log = 0.0
    for k in range(len(m)):
        sign *= np.sign(m[k, k])
        log += np.log(abs(m[k, k]))
    return sign, log


def _columns(a, right):
    m = a.copy()
    n = len(m)
    _eliminate(m, right)
    for k in range(n - 1, -1, -1):
        for j in range(right.shape[1]):
            s = right[k, j]
            for i in range(k + 1, n):
                s -= m[k, i] * right[i, j]
            right[k, j] = s / m[k, k]


def inv(a):
    _check_square(a)
    out = np.eye(len(a))
    _columns(a, out)
    return out


def solve(a, b):
    """For a vector."""
    _check_square(a)
    if len(a) != len(b):
        raise ValueError("solve: the matrix and the right side have different lengths")
    out = np.empty((len(b), 1))
    for i in range(len(b)):
        out[i, 0] = b[i]
    _columns(a, out)
    return out[:, 0]


def solve_columns(a, b):
    _check_square(a)
    if len(a) != len(b):
        raise ValueError("solve: the matrix and the right side have different lengths")
    out = b.copy()
    _columns(a, out)
    return out


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{np.argmin: argmin, np.argmax: argmax, np.cross: cross},
    **{np.cumsum: cumsum, np.cumprod: cumprod, np.linspace: linspace, np.roll: roll},
    **{np.var: var, np.std: std, np.ptp: ptp, np.nansum: nansum},
    **{np.nanmean: nanmean, np.polyval: polyval, np.median: median, np.percentile: percentile},
    **{np.quantile: quantile, np.convolve: convolve, np.correlate: correlate, np.kron: kron},
    **{np.linalg.cholesky: cholesky, np.linalg.det: det, np.linalg.slogdet: slogdet, np.linalg.inv: inv},
    **{f: trapezoid for f in (getattr(np, n, None) for n in ("trapezoid", "trapz")) if f is not None},
}
EACH: dict[str, Callable[..., Any]] = {"logaddexp": logaddexp, "cbrt": cbrt, "sinc": sinc}
METHODS = {f.__name__: f for f in (cumsum, cumprod, var, std, ptp)}
