"""Functions of NumPy and `math` as plain ones, which are written out where they are called and differentiated as a user's are."""

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
    if len(a) == 0:
        raise ValueError("attempt to get argmin of an empty sequence")
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
    if len(a) == 0:
        raise ValueError("attempt to get argmax of an empty sequence")
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


def argsort(a, kind=None):
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


def sort(a, kind=None):
    order = argsort(a)
    out = np.empty_like(a)
    for i in range(len(a)):
        out[i] = a[order[i]]
    return out


def falling(a):
    """Equal ones stay in their order."""
    order = argsort(-a)
    out = np.empty_like(a)
    for i in range(len(a)):
        out[i] = a[order[i]]
    return out


def median(a):
    if a.ndim > 1:
        return _median(a.ravel())
    return _median(a)


def _median(a):
    n = len(a)
    if n == 0:
        return np.nan
    order = argsort(a)
    last = a[order[n - 1]]
    if last != last:  # NaN come last
        return last
    return (a[order[(n - 1) // 2]] + a[order[n // 2]]) * 0.5


def percentile(a, q):
    return quantile(a, np.asarray(q) / 100.0)


def quantile(a, q):
    if a.ndim > 1:
        return _quantiles(a.ravel(), q)
    return _quantiles(a, q)


def _quantiles(a, q):
    if len(a) == 0:
        raise ValueError("a quantile of an empty array")
    order = argsort(a)
    if np.ndim(q) > 0:
        out = np.empty(len(q))
        for i in range(len(q)):
            out[i] = _quantile(a, order, q[i])
        return out
    return _quantile(a, order, q)


def _quantile(a, order, q):
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


def partition(a, kth):
    """In order, as what `kth` says holds then as well."""
    return sort(a)


def argpartition(a, kth):
    return argsort(a)


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


def interp(x, xp, fp, left=None, right=None):
    """Of one number."""
    n = len(xp)
    if x < xp[0]:
        return fp[0] if left is None else left
    if x > xp[n - 1]:
        return fp[n - 1] if right is None else right
    at = searchsorted(xp, x)
    if at <= 0:
        return fp[0]
    low = xp[at - 1]
    slope = (fp[at] - fp[at - 1]) / (xp[at] - low)
    return fp[at - 1] + slope * (x - low)


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


def average(a, weights=None):
    if weights is None:
        return np.mean(a)
    return np.sum(a * weights) / np.sum(weights)


def nansum(a):
    return np.sum(np.where(np.isnan(a), 0.0, a))


def nanprod(a):
    return np.prod(np.where(np.isnan(a), 1.0, a))


def nancumsum(a):
    return np.cumsum(np.where(np.isnan(a), 0.0, a))


def nancumprod(a):
    return np.cumprod(np.where(np.isnan(a), 1.0, a))


def _numbers(a):
    """Those that are no NaN."""
    return a[~np.isnan(a)]


def nanmean(a):
    return nansum(a) / (a.size - np.sum(np.isnan(a)))


def nanvar(a, *, ddof=0):
    return var(_numbers(a), ddof=ddof)


def nanstd(a, *, ddof=0):
    return _root_of_var(nanvar(a, ddof=ddof))


def nanmedian(a):
    return _median(_numbers(a))


def nanpercentile(a, q):
    return percentile(_numbers(a), q)


def nanquantile(a, q):
    return quantile(_numbers(a), q)


def nanmax(a):
    return np.max(_numbers(a))


def nanmin(a):
    return np.min(_numbers(a))


def nanargmax(a):
    if a.ndim > 1:
        return _nanargmax(a.ravel())
    return _nanargmax(a)


def _nanargmax(a):
    at = -1
    for i in range(len(a)):
        if a[i] == a[i] and (at < 0 or a[i] > a[at]):
            at = i
    return at


def nanargmin(a):
    if a.ndim > 1:
        return _nanargmin(a.ravel())
    return _nanargmin(a)


def _nanargmin(a):
    at = -1
    for i in range(len(a)):
        if a[i] == a[i] and (at < 0 or a[i] < a[at]):
            at = i
    return at


def polyval(p, x):
    y = 0.0 * x
    for i in range(len(p)):
        y = y * x + p[i]
    return y


def linspace(start, stop, num=50, endpoint=True):
    out = np.empty(num)
    steps = num - 1 if endpoint else num
    for i in range(num):
        out[i] = start + (stop - start) * (i / max(steps, 1))
    return out


def logspace(start, stop, num=50, endpoint=True, base=10.0):
    return base ** linspace(start, stop, num, endpoint)


def geomspace(start, stop, num=50, endpoint=True):
    return start * np.exp(linspace(0.0, math.log(stop / start), num, endpoint))


def vander(x, N=None, increasing=False):
    n = len(x) if N is None else N
    out = np.ones((len(x), n))
    for i in range(len(x)):
        for j in range(1, n):
            if increasing:
                out[i, j] = out[i, j - 1] * x[i]
            else:
                out[i, n - 1 - j] = out[i, n - j] * x[i]
    return out


def insert(arr, obj, values):
    n = len(arr)
    at = obj + n if obj < 0 else obj
    out = np.empty(n + 1, arr.dtype)
    for i in range(at):
        out[i] = arr[i]
    out[at] = values
    for i in range(at, n):
        out[i + 1] = arr[i]
    return out


def tri(N, M=None, k=0):
    m = N if M is None else M
    out = np.zeros((N, m))
    for i in range(N):
        for j in range(max(min(i + k + 1, m), 0)):
            out[i, j] = 1.0
    return out


def tril_indices(n, k=0, m=None):
    width = n if m is None else m
    count = 0
    for i in range(n):
        count += max(min(i + k + 1, width), 0)
    rows = np.empty(count, np.int64)
    columns = np.empty(count, np.int64)
    at = 0
    for i in range(n):
        for j in range(max(min(i + k + 1, width), 0)):
            rows[at] = i
            columns[at] = j
            at += 1
    return rows, columns


def triu_indices(n, k=0, m=None):
    width = n if m is None else m
    count = 0
    for i in range(n):
        count += max(width - max(i + k, 0), 0)
    rows = np.empty(count, np.int64)
    columns = np.empty(count, np.int64)
    at = 0
    for i in range(n):
        for j in range(max(i + k, 0), width):
            rows[at] = i
            columns[at] = j
            at += 1
    return rows, columns


def tril_indices_from(arr, k=0):
    return tril_indices(arr.shape[0], k, arr.shape[1])


def triu_indices_from(arr, k=0):
    return triu_indices(arr.shape[0], k, arr.shape[1])


def diag_indices(n):
    return np.arange(n), np.arange(n)


def indices(dimensions):
    n, m = dimensions
    out = np.empty((2, n, m), np.int64)
    for i in range(n):
        for j in range(m):
            out[0, i, j] = i
            out[1, i, j] = j
    return out


def ediff1d(ary):
    return np.diff(ary.ravel())


def gradient(f, spacing=1.0):
    """Of one row; `spacing` is a number, or where the values stand."""
    n = len(f)
    if n < 2:
        raise ValueError("np.gradient needs two values at least")
    out = np.empty(n)
    if np.ndim(spacing) > 0:
        for i in range(1, n - 1):
            before = spacing[i] - spacing[i - 1]
            after = spacing[i + 1] - spacing[i]
            out[i] = (f[i + 1] - f[i]) * before / (after * (before + after)) + (f[i] - f[i - 1]) * after / (
                before * (before + after)
            )
        out[0] = (f[1] - f[0]) / (spacing[1] - spacing[0])
        out[n - 1] = (f[n - 1] - f[n - 2]) / (spacing[n - 1] - spacing[n - 2])
    else:
        for i in range(1, n - 1):
            out[i] = (f[i + 1] - f[i - 1]) / (2.0 * spacing)
        out[0] = (f[1] - f[0]) / spacing
        out[n - 1] = (f[n - 1] - f[n - 2]) / spacing
    return out


def digitize(x, bins, right=False):
    if len(bins) > 1 and bins[0] > bins[len(bins) - 1]:
        raise ValueError("np.digitize of bins that fall is not taken")
    return np.searchsorted(bins, x, side="left" if right else "right")


def bincount(x, weights=None, minlength=0):
    n = minlength
    for i in range(len(x)):
        n = max(n, x[i] + 1)
    if weights is None:
        counts = np.zeros(n, np.int64)
        for i in range(len(x)):
            counts[x[i]] += 1
        return counts
    out = np.zeros(n)
    for i in range(len(x)):
        out[x[i]] += weights[i]
    return out


def histogram(a, bins=10, range=None):
    low, high = (np.min(a), np.max(a)) if range is None else range
    counts = np.zeros(bins, np.int64)
    for v in a.ravel():
        if low <= v <= high:
            counts[min(int((v - low) / (high - low) * bins), bins - 1)] += 1
    return counts, np.linspace(low, high, bins + 1)


def unique(a):
    values = np.sort(a.ravel())
    new = np.empty(len(values), np.bool_)
    for i in range(len(values)):
        new[i] = i == 0 or values[i] != values[i - 1]
    return values[new]


def is_among(a, test):
    """Of one number."""
    return any(v == a for v in test.ravel())


def cov(m, y=None, rowvar=True, bias=False, ddof=None):
    if y is not None:
        return _cov(np.vstack((m, y)), bias, ddof)
    if m.ndim == 1:
        off = (0 if bias else 1) if ddof is None else ddof
        return var(m, ddof=off)
    if rowvar:
        return _cov(m, bias, ddof)
    return _cov(m.T, bias, ddof)


def _cov(m, bias, ddof):
    off = (0 if bias else 1) if ddof is None else ddof
    n = m.shape[1]
    d = m - np.mean(m, axis=1)[:, None]
    return d @ d.T / (n - off)


def corrcoef(x, y=None, rowvar=True):
    c = cov(x, y, rowvar)
    d = np.sqrt(np.diag(c))
    return c / d[:, None] / d[None, :]


def polyder(p):
    n = len(p) - 1
    out = np.empty(n)
    for i in range(n):
        out[i] = p[i] * (n - i)
    return out


def polyint(p):
    n = len(p)
    out = np.zeros(n + 1)
    for i in range(n):
        out[i] = p[i] / (n - i)
    return out


def polymul(a, b):
    return np.convolve(a, b)


def polyadd(a, b):
    n = max(len(a), len(b))
    out = np.zeros(n)
    out[n - len(a) :] += a
    out[n - len(b) :] += b
    return out


def polysub(a, b):
    return polyadd(a, -b)


def maximum_so_far(a):
    out = np.empty_like(a)
    top = a[0]
    for i in range(len(a)):
        top = max(top, a[i])
        out[i] = top
    return out


def minimum_so_far(a):
    out = np.empty_like(a)
    least = a[0]
    for i in range(len(a)):
        least = min(least, a[i])
        out[i] = least
    return out


def logsumexp(a):
    """np.logaddexp.reduce"""
    top = np.max(a)
    if math.isinf(top):
        return top
    return top + np.log(np.sum(np.exp(a - top)))


def _window(M, a, b, c):
    out = np.ones(M)
    if M > 1:
        for i in range(M):
            t = 2.0 * math.pi * i / (M - 1)
            out[i] = a - b * math.cos(t) + c * math.cos(2.0 * t)
    return out


def hanning(M):
    return _window(M, 0.5, 0.5, 0.0)


def hamming(M):
    return _window(M, 0.54, 0.46, 0.0)


def blackman(M):
    return _window(M, 0.42, 0.5, 0.08)


def bartlett(M):
    out = np.ones(M)
    if M > 1:
        for i in range(M):
            out[i] = 1.0 - abs(2.0 * i / (M - 1) - 1.0)
    return out


# ---------------------------------------------------------------- of numbers


def heaviside(x, h):
    if x == 0.0:
        return h
    return 1.0 if x > 0.0 else 0.0 if x < 0.0 else x


def fmax(a, b):
    if a != a:
        return b
    if b != b:
        return a
    return max(a, b)


def fmin(a, b):
    if a != a:
        return b
    if b != b:
        return a
    return min(a, b)


def logaddexp2(a, b):
    return logaddexp(a * math.log(2.0), b * math.log(2.0)) / math.log(2.0)


def float_power(a, b):
    return math.pow(a, b)


def isclose(a, b, rtol=1e-05, atol=1e-08):
    return a == b or (abs(a - b) <= atol + rtol * abs(b) and not math.isinf(a) and not math.isinf(b))


def nan_to_num(x):
    if x != x:
        return 0.0
    return max(min(x, 1.7976931348623157e308), -1.7976931348623157e308)


def signbit(x):
    return math.copysign(1.0, x) < 0.0


def remainder(x, y):
    """math.remainder"""
    return x - y * round(x / y)


def close(a, b, *, rel_tol=1e-09, abs_tol=0.0):
    """math.isclose"""
    return a == b or (
        abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol) and not math.isinf(a) and not math.isinf(b)
    )


def modf(x):
    whole = float(math.trunc(x))
    return x - whole, whole


def ldexp(x, i):
    return x * 2.0**i


def gcd(a, b):
    a, b = abs(a), abs(b)
    while b > 0:
        a, b = b, a % b
    return a


def factorial(n):
    found = 1
    for i in range(2, n + 1):
        found *= i
    return found


def comb(n, k):
    found = 1
    for i in range(min(k, n - k)):
        found = found * (n - i) // (i + 1)
    return found if k <= n else 0


def fsum(x):
    total = 0.0
    for v in x:
        total += v
    return total


def dist(p, q):
    total = 0.0
    for i in range(len(p)):
        total += (p[i] - q[i]) ** 2
    return math.sqrt(total)


def exp2(x):
    return 2.0**x


def allclose(a, b, rtol=1e-05, atol=1e-08):
    return np.all(np.isclose(a, b, rtol, atol))


def array_equal(a, b):
    return np.all(a == b)


def argwhere(a):
    found = np.nonzero(a)
    return np.stack(found, 1)


def var(a, *, ddof=0):
    mean = np.mean(a)
    return np.sum((a - mean) ** 2) / (a.size - ddof)


def std(a, *, ddof=0):
    return _root_of_var(var(a, ddof=ddof))


def _root_of_var(v):
    return np.sqrt(v) if v != 0.0 else 0.0 * v  # of equals, which has no derivative: 0, as PyTorch's


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{np.cross: cross, np.linspace: linspace, np.logspace: logspace, np.geomspace: geomspace},
    **{np.polyval: polyval, np.convolve: convolve, np.correlate: correlate, np.kron: kron},
    **{getattr(np, f.__name__): f for f in (vander, insert, tri, tril_indices, triu_indices, diag_indices)},
    **{
        getattr(np, f.__name__): f for f in (tril_indices_from, triu_indices_from, indices, ediff1d, digitize)
    },
    **{getattr(np, f.__name__): f for f in (bincount, histogram, unique, cov, corrcoef, polyder, polyint)},
    **{getattr(np, f.__name__): f for f in (polymul, polyadd, polysub, hanning, hamming, blackman, bartlett)},
    **{getattr(np, f.__name__): f for f in (allclose, array_equal, argwhere)},
    **{getattr(math, f.__name__): f for f in (remainder, modf, ldexp, gcd, factorial, comb, fsum, dist)},
    **{math.isclose: close, np.gcd: gcd},
    **{getattr(math, n): f for n, f in (("cbrt", cbrt), ("exp2", exp2)) if hasattr(math, n)},
}
OF_UFUNCS: dict[Any, Callable[..., Any]] = {
    **{(np.logaddexp, "reduce"): logsumexp, (np.add, "accumulate"): cumsum},
    **{(np.multiply, "accumulate"): cumprod, (np.maximum, "accumulate"): maximum_so_far},
    (np.minimum, "accumulate"): minimum_so_far,
}
EACH: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (logaddexp, cbrt, sinc, heaviside, fmax, fmin, logaddexp2, float_power)},
    **{f.__name__: f for f in (isclose, nan_to_num, signbit)},
}
