"""Decompositions and systems of equations whose derivatives are known as formulas: what fills an array, and what its derivatives are.

Promises the passes, for each of `FORMULAS`, functions in the language that is differentiated: `into(*args, out)` fills an array;
`back[k](*values, out's bar, bar of argument k)` adds to that bar, `along[k](*values, tangent of argument k, out's tangent)` to that
tangent, with the values of those arguments, and of `out`, that `reads` tells. As they call nothing but each other and loops, the next
order is written out of them. All is float64; parts of a result lie in one array, whose rows are as long as the longest.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

OUT = -1
u = np.uintp  # of indices that are not negative, which Numba does not see
_TINY = 1e-30  # of squares: less than rounding leaves
_SWEEPS = 60


@dataclass(frozen=True)
class Formula:
    into: Callable[..., Any]
    reads: tuple[int, ...]  # arguments by their places, or OUT
    back: tuple[Callable[..., Any], ...]
    along: tuple[Callable[..., Any], ...]

    @property
    def name(self) -> str:
        return str(self.into.__name__)


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


# ---------------------------------------------------------------- elimination


def _exchanged(m, k, p):
    for j in range(m.shape[1]):
        t = m[k, j]
        m[k, j] = m[p, j]
        m[p, j] = t


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
            _exchanged(m, k, p)
            _exchanged(right, k, p)
        for i in range(k + 1, n):
            f = m[i, k] / m[k, k]
            for j in range(k + 1, n):
                m[u(i), u(j)] -= f * m[u(k), u(j)]
            for j in range(right.shape[1]):
                right[u(i), j] -= f * right[u(k), j]
    return sign


def _substitute(m, right):
    n = len(m)
    for k in range(n - 1, -1, -1):
        for i in range(k + 1, n):
            t = m[k, i]
            for j in range(right.shape[1]):
                right[u(k), j] -= t * right[u(i), j]
        t = m[k, k]
        for j in range(right.shape[1]):
            right[k, j] /= t


def _solved(a, right, x):
    m = a.copy()
    _eliminate(m, right)
    _substitute(m, right)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = right[i, j]


def solve_into(a, b, x):
    _solved(a, b.copy(), x)


def solve_back_b(a, x, xb, bb):
    t = np.empty(xb.shape)
    solve_into(a.T, xb, t)
    _plus(t, bb, 1.0)


def solve_back_a(a, x, xb, ab):
    t = np.empty(xb.shape)
    solve_into(a.T, xb, t)
    _add(t, x.T, ab, -1.0)


def solve_along_b(a, x, bd, xd):
    t = np.empty(bd.shape)
    solve_into(a, bd, t)
    _plus(t, xd, 1.0)


def solve_along_a(a, x, ad, xd):
    t = np.empty(x.shape)
    moved = np.zeros(x.shape)
    _add(ad, x, moved, 1.0)
    solve_into(a, moved, t)
    _plus(t, xd, -1.0)


def inv_into(a, y):
    _solved(a, _one(len(a)), y)


def inv_back(y, yb, ab):
    t = np.zeros(y.shape)
    _add(y.T, yb, t, 1.0)
    _add(t, y.T, ab, -1.0)


def inv_along(y, ad, yd):
    t = np.zeros(y.shape)
    _add(y, ad, t, 1.0)
    _add(t, y, yd, -1.0)


def det_into(a, d):
    m = a.copy()
    product = _eliminate(m, np.empty((len(a), 0)))
    for k in range(len(m)):
        product *= m[k, k]
    d[0, 0] = product


_PIVOT = 1e-7  # of the largest: a matrix with less is taken as one that may have no inverse


def _of_inverse(a, c):
    """The derivative of the determinant by the inverse, if no pivot is small; no other is divided by, as zeros times infinities would
    come of it in the next order."""
    n = len(a)
    m = a.copy()
    x = _one(n)
    product = 1.0
    most = 0.0
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(m[i, k]) > abs(m[p, k]):
                p = i
        size = abs(m[p, k])
        most = size if size > most else most
        if not size > _PIVOT * most:
            return False
        if p != k:
            product = -product
            _exchanged(m, k, p)
            _exchanged(x, k, p)
        product *= m[k, k]
        for i in range(k + 1, n):
            f = m[i, k] / m[k, k]
            for j in range(k + 1, n):
                m[u(i), u(j)] -= f * m[u(k), u(j)]
            for j in range(n):
                x[u(i), j] -= f * x[u(k), j]
    _substitute(m, x)
    for i in range(n):
        for j in range(n):
            c[j, i] = product * x[i, j]
    return True


def _cofactors(a):
    """The derivative of the determinant, of matrices that have no inverse as well: by pivots from all of what is left, none of which is
    divided by where all is 0."""
    c = np.empty((len(a), len(a)))
    if not _of_inverse(a, c):
        _of_all_pivots(a, c)
    return c


def _of_all_pivots(a, c):
    n = len(a)
    m = a.copy()
    x = np.eye(n)
    columns = np.arange(n)
    sign = 1.0
    for k in range(n):
        p = k
        q = k
        for i in range(k, n):
            for j in range(k, n):
                if abs(m[u(i), u(j)]) > abs(m[u(p), u(q)]):
                    p = i
                    q = j
        if p != k:
            sign = -sign
            _exchanged(m, k, p)
            _exchanged(x, k, p)
        if q != k:
            sign = -sign
            for i in range(n):
                t = m[i, k]
                m[i, k] = m[i, q]
                m[i, q] = t
            at = columns[k]
            columns[k] = columns[q]
            columns[q] = at
        if m[k, k] != 0.0:
            for i in range(k + 1, n):
                f = m[i, k] / m[k, k]
                for j in range(k + 1, n):
                    m[u(i), u(j)] -= f * m[u(k), u(j)]
                for j in range(n):
                    x[u(i), j] -= f * x[u(k), j]
    for k in range(n - 1, -1, -1):
        others = sign
        for i in range(n):
            if i != k:
                others *= m[i, i]
        for j in range(n):
            x[k, j] *= others
        for i in range(k + 1, n):
            f = m[k, i] / m[k, k] if m[k, k] != 0.0 else 0.0
            for j in range(n):
                x[u(k), j] -= f * x[u(i), j]
    for k in range(n):
        for j in range(n):
            c[j, columns[k]] = x[k, j]


def det_back(a, db, ab):
    _plus(_cofactors(a), ab, db[0, 0])


def det_along(a, ad, dd):
    c = _cofactors(a)
    for i in range(len(a)):
        for j in range(len(a)):
            dd[0, 0] += c[i, j] * ad[i, j]


def slogdet_into(a, z):
    m = a.copy()
    z[0, 0] = _eliminate(m, np.empty((len(a), 0)))
    z[1, 0] = 0.0
    for k in range(len(m)):
        z[0, 0] *= np.sign(m[k, k])
        z[1, 0] += np.log(abs(m[k, k]))


def slogdet_back(a, zb, ab):
    y = np.empty(a.shape)
    inv_into(a, y)
    _plus(y.T, ab, zb[1, 0])


def slogdet_along(a, ad, zd):
    y = np.empty(a.shape)
    inv_into(a, y)
    for i in range(len(a)):
        for j in range(len(a)):
            zd[1, 0] += y[j, i] * ad[i, j]


# ---------------------------------------------------------------- symmetric matrices, of which what lies above the diagonal is not read


def _to_lower(s, ab):
    for i in range(len(s)):
        ab[i, i] += s[i, i]
        for j in range(i):
            ab[i, j] += s[i, j] + s[j, i]


def _of_lower(a):
    n = len(a)
    m = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            m[i, j] = a[i, j]
            m[j, i] = a[i, j]
    return m


def cholesky_into(a, out):
    n = len(a)
    for j in range(n):
        for i in range(j):
            out[i, j] = 0.0
        for i in range(j, n):
            s = a[i, j]
            for k in range(j):
                s -= out[i, k] * out[j, k]
            out[i, j] = math.sqrt(s) if i == j and s >= 0.0 else s / out[j, j] if i > j else math.nan


def cholesky_back(out, outb, ab):
    n = len(out)
    m = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            t = 0.0
            for k in range(i, n):
                t += out[k, i] * outb[k, j]
            m[i, j] = 0.5 * t if i == j else t
    half = np.empty((n, n))
    s = np.empty((n, n))
    solve_into(out.T, m, half)
    solve_into(out.T, half.T, s)
    _to_lower(s, ab)


def cholesky_along(out, ad, outd):
    n = len(out)
    t = np.empty((n, n))
    s = np.empty((n, n))
    solve_into(out, _of_lower(ad), t)
    solve_into(out, t.T, s)
    for k in range(n):
        s[k, k] *= 0.5
        for j in range(k + 1, n):
            s[k, j] = 0.0
    _add(out, s, outd, 1.0)


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


def _off(m):
    """The share of squares that do not lie on the diagonal."""
    off = 0.0
    on = 0.0
    for i in range(len(m)):
        on += m[i, i] * m[i, i]
        for j in range(i):
            off += m[i, j] * m[i, j]
    return off if on == 0.0 else off / on


def _one(n):
    v = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            v[i, j] = 1.0 if i == j else 0.0
    return v


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


def eigh_into(a, z):
    """Eigenvectors whose largest number is positive, and below them the eigenvalues, which rise. By Jacobi's rotations."""
    n = len(a)
    m = _of_lower(a)
    v = _one(n)
    sweeps = 0
    last = False
    while n > 0 and not last:
        last = _off(m) <= _TINY  # then once more
        sweeps += 1
        if sweeps > _SWEEPS:
            raise ValueError("Eigenvalues did not converge")
        for p in range(n - 1):
            for q in range(p + 1, n):
                angle = _angle(m[q, q] - m[p, p], m[p, q])
                if angle != 0.0:
                    c = math.cos(angle)
                    s = math.sin(angle)
                    _turn(m, p, q, c, s)
                    _turn(m.T, p, q, c, s)
                    _turn(v, p, q, c, s)
    values = np.empty(n)
    for k in range(n):
        values[k] = m[k, k]
    order = _order(values)
    for k in range(n):
        at = order[k]
        sign = -1.0 if _is_turned(v, at) else 1.0
        for i in range(n):
            z[i, k] = sign * v[i, at]
        z[n, k] = values[at]


def eigh_back(z, zb, ab):
    n = len(ab)
    v = z[:n]
    m = np.zeros((n, n))
    _add(v.T, zb[:n], m, 1.0)
    near = _near(z, n, n)
    used = np.zeros(n)
    _used(zb, n, used)
    g = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            if i == j:
                g[i, j] = zb[n, i]
            else:
                told = used[i] + used[j] != 0.0
                g[i, j] = 0.5 * _over(m[i, j] - m[j, i], z[n, j] - z[n, i], near, told)
    t = np.zeros((n, n))
    s = np.zeros((n, n))
    _add(v, g, t, 1.0)
    _add(t, v.T, s, 1.0)
    _to_lower(s, ab)


def eigh_along(z, ad, zd):
    n = len(ad)
    v = z[:n]
    t = np.zeros((n, n))
    m = np.zeros((n, n))
    _add(_of_lower(ad), v, t, 1.0)
    _add(v.T, t, m, 1.0)
    near = _near(z, n, n)
    g = np.zeros((n, n))
    for i in range(n):
        zd[n, i] += m[i, i]
        for j in range(n):
            if i != j:
                g[i, j] = _over(m[i, j], z[n, j] - z[n, i], near, m[i, j] != 0.0)
    _add(v, g, zd[:n], 1.0)


# ---------------------------------------------------------------- orthogonal columns


def _signs(a):
    """Those that LAPACK's reflections give the diagonal of R."""
    w = a.copy()
    m = w.shape[0]
    n = w.shape[1]
    signs = np.empty(min(m, n))
    for j in range(min(m, n)):
        tail = 0.0
        for i in range(j + 1, m):
            tail += w[i, j] * w[i, j]
        alpha = w[j, j]
        if tail == 0.0:
            signs[j] = -1.0 if alpha < 0.0 else 1.0
        else:
            beta = -math.copysign(math.sqrt(alpha * alpha + tail), alpha)
            signs[j] = 1.0 if beta > 0.0 else -1.0
            share = (beta - alpha) / beta
            for i in range(j + 1, m):
                w[i, j] /= alpha - beta
            for c in range(j + 1, n):
                d = w[j, c]
                for i in range(j + 1, m):
                    d += w[u(i), u(j)] * w[u(i), u(c)]
                w[j, c] -= share * d
                for i in range(j + 1, m):
                    w[u(i), u(c)] -= share * d * w[u(i), u(j)]
    return signs


def qr_into(a, z):
    """Q, and below it R's rows as columns. By Gram and Schmidt, twice."""
    m = a.shape[0]
    n = a.shape[1]
    k = min(m, n)
    signs = _signs(a)
    for i in range(n):
        for j in range(k):
            z[m + i, j] = 0.0
    for j in range(k):
        for i in range(m):
            z[i, j] = a[i, j]
        for _ in range(2):
            for c in range(j):
                p = 0.0
                for i in range(m):
                    p += z[i, c] * z[i, j]
                z[m + j, c] += p
                for i in range(m):
                    z[i, j] -= p * z[i, c]
        square = 0.0
        for i in range(m):
            square += z[i, j] * z[i, j]
        length = signs[j] * math.sqrt(square)
        z[m + j, j] = length
        for i in range(m):
            z[i, j] /= length
    for j in range(k, n):
        for c in range(k):
            p = 0.0
            for i in range(m):
                p += z[i, c] * a[i, j]
            z[m + j, c] = p


def qr_back(z, zb, ab):
    m = ab.shape[0]
    n = ab.shape[1]
    k = min(m, n)
    q = z[:m]
    turned = np.zeros((n - k, m))  # of a wide matrix, its columns beyond the first
    _add(z[m + k :], q.T, turned, 1.0)
    qb = np.zeros((m, k))
    _plus(zb[:m], qb, 1.0)
    _add(turned.T, zb[m + k :], qb, 1.0)
    s = np.zeros((k, k))
    _add(qb.T, q, s, -1.0)
    for i in range(k):
        for j in range(i + 1):
            t = s[i, j]
            for c in range(i, k):
                t += z[m + c, i] * (zb[m + c, j] if c >= j else 0.0)
            s[i, j] = t
            s[j, i] = t
    _add(q, s, qb, 1.0)
    x = np.empty((k, m))
    solve_into(z[m : m + k].T, qb.T, x)
    _plus(x.T, ab[:, :k], 1.0)
    _add(q, zb[m + k :].T, ab[:, k:], 1.0)


def qr_along(z, ad, zd):
    m = ad.shape[0]
    n = ad.shape[1]
    k = min(m, n)
    q = z[:m]
    b = np.empty((k, m))  # what Q would be moved by, were R still
    solve_into(z[m : m + k], ad[:, :k].T, b)
    t = np.zeros((k, k))
    _add(q.T, b.T, t, 1.0)
    x = np.zeros((k, k))
    for i in range(k):
        for j in range(i):
            x[i, j] = t[i, j]
            x[j, i] = -t[i, j]
    _plus(b.T, zd[:m], 1.0)
    _add(q, t, zd[:m], -1.0)
    _add(q, x, zd[:m], 1.0)
    _plus(x, t, -1.0)
    _add(z[m : m + k], t.T, zd[m : m + k], 1.0)
    _add(z[m + k :], x.T, zd[m + k :], -1.0)
    _add(ad[:, k:].T, q, zd[m + k :], 1.0)


# ---------------------------------------------------------------- singular values


def _apart(u, v):
    """u with its columns turned until they are at right angles, and v's with them."""
    n = u.shape[1]
    sweeps = 0
    last = False
    settled = False
    while not last:
        last = settled  # then once more
        sweeps += 1
        if sweeps > _SWEEPS:
            raise ValueError("SVD did not converge")
        settled = True
        for p in range(n - 1):
            for q in range(p + 1, n):
                a = 0.0
                b = 0.0
                g = 0.0
                for k in range(u.shape[0]):
                    a += u[k, p] * u[k, p]
                    b += u[k, q] * u[k, q]
                    g += u[k, p] * u[k, q]
                settled = settled and (g * g <= 1e-28 * a * b or g * g < 1e-300)
                angle = _angle(b - a, g)
                if angle != 0.0:
                    c = math.cos(angle)
                    s = math.sin(angle)
                    _turn(u, p, q, c, s)
                    _turn(v, p, q, c, s)


def _completed(z, top, m, there, count):
    """Of m rows of z from `top` on, columns from `there` to `count` are made such that all are at right angles."""
    for k in range(there, count):
        best = 0
        most = -1.0
        for i in range(m):
            left = 1.0
            for c in range(k):
                left -= z[top + i, c] * z[top + i, c]
            if left > most:
                most = left
                best = i
        for i in range(m):
            z[top + i, k] = 1.0 if i == best else 0.0
        for _ in range(2):
            for c in range(k):
                p = 0.0
                for i in range(m):
                    p += z[top + i, c] * z[top + i, k]
                for i in range(m):
                    z[top + i, k] -= p * z[top + i, c]
        square = 0.0
        for i in range(m):
            square += z[top + i, k] * z[top + i, k]
        for i in range(m):
            z[top + i, k] /= math.sqrt(square)


def svd_into(a, z):
    """Left vectors, right vectors and singular values, one below the other; of vectors as many as there is room for. Each left vector's
    largest number is positive."""
    m = a.shape[0]
    n = a.shape[1]
    high = max(m, n)
    k = min(m, n)
    top = 0 if m >= n else m  # where the longer vectors stand
    other = m - top
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            z[i, j] = 0.0
    u = np.empty((high, k))
    for i in range(high):
        for j in range(k):
            u[i, j] = a[i, j] if m >= n else a[j, i]
    v = _one(k)
    if high > 2 * k:  # first to a square
        w = np.empty((high + k, k))
        qr_into(u, w)
        finite = True
        r = np.empty((k, k))
        for i in range(k):
            finite = finite and w[high + i, i] != 0.0
            for j in range(k):
                r[i, j] = w[high + j, i]
        if finite:
            _apart(r, v)
            for i in range(high):
                for j in range(k):
                    u[i, j] = 0.0
                for c in range(k):
                    for j in range(k):
                        u[i, j] += w[i, c] * r[c, j]
        else:
            _apart(u, v)
    else:
        _apart(u, v)
    lengths = np.empty(k)
    for c in range(k):
        square = 0.0
        for i in range(high):
            square += u[i, c] * u[i, c]
        lengths[c] = -math.sqrt(square)
    there = 0
    order = _order(lengths)
    for c in range(k):
        at = order[c]
        length = -lengths[at]
        z[m + n, c] = length
        sign = -1.0 if _is_turned(u if m >= n else v, at) else 1.0
        if not length <= 0.0:
            there = c + 1
            for i in range(high):
                z[top + i, c] = sign * u[i, at] / length
        for i in range(k):
            z[other + i, c] = sign * v[i, at]
    _completed(z, top, high, there, high if z.shape[1] > k else k)


def svd_back(z, zb, ab):
    m = ab.shape[0]
    n = ab.shape[1]
    k = min(m, n)
    u = z[:m, :k]
    v = z[m : m + n, :k]
    x = np.zeros((k, k))
    y = np.zeros((k, k))
    _add(u.T, zb[:m, :k], x, 1.0)
    _add(v.T, zb[m : m + n, :k], y, 1.0)
    near = _near(z, m + n, k)
    used = np.zeros(k)
    _used(zb, m + n, used)
    core = np.empty((k, k))
    for i in range(k):
        for j in range(k):
            if i == j:
                core[i, j] = zb[m + n, i]
            else:
                p = x[i, j] - x[j, i]
                q = y[i, j] - y[j, i]
                si = z[m + n, i]
                sj = z[m + n, j]
                told = used[i] + used[j] != 0.0
                core[i, j] = 0.5 * (_over(p + q, sj - si, near, told) + _over(p - q, sj + si, near, told))
    t = np.zeros((m, k))
    _add(u, core, t, 1.0)
    _add(t, v.T, ab, 1.0)
    _beyond(z[:m], zb[:m], x, z[m + n :], v, ab)
    _beyond(z[m : m + n], zb[m : m + n], y, z[m + n :], u, ab.T)


def _beyond(full, fullb, x, s, v, ab):
    """What comes of vectors' parts outside of what the others span, where there is an outside."""
    k = len(x)
    m = len(full)
    if m > k:
        w = np.zeros((m, k))
        _plus(fullb[:, :k], w, 1.0)
        _add(full[:, :k], x, w, -1.0)
        if full.shape[1] >= m:
            back = np.zeros((m - k, k))
            _add(fullb[:, k:m].T, full[:, :k], back, 1.0)
            _add(full[:, k:m], back, w, -1.0)
        near = _near(s, 0, k)
        for i in range(m):
            for j in range(k):
                w[i, j] = _over(w[i, j], s[0, j], near, w[i, j] != 0.0)
        _add(w, v.T, ab, 1.0)


def svd_along(z, ad, zd):
    m = ad.shape[0]
    n = ad.shape[1]
    k = min(m, n)
    u = z[:m, :k]
    v = z[m : m + n, :k]
    w = np.zeros((m, k))
    _add(ad, v, w, 1.0)
    t = np.zeros((k, k))
    _add(u.T, w, t, 1.0)
    near = _near(z, m + n, k)
    of_u = np.zeros((k, k))
    of_v = np.zeros((k, k))
    for i in range(k):
        zd[m + n, i] += t[i, i]
        for j in range(k):
            if i != j:
                si = z[m + n, i]
                sj = z[m + n, j]
                p = t[i, j] + t[j, i]
                q = t[i, j] - t[j, i]
                p = 0.5 * _over(p, sj - si, near, p != 0.0)
                q = 0.5 * _over(q, sj + si, near, q != 0.0)
                of_u[i, j] = p + q
                of_v[i, j] = p - q
    _add(u, of_u, zd[:m, :k], 1.0)
    _add(v, of_v, zd[m : m + n, :k], 1.0)
    _moved_beyond(z[:m], ad, v, t, z[m + n :], zd[:m])
    _moved_beyond(z[m : m + n], ad.T, u, t.T, z[m + n :], zd[m : m + n])


def _moved_beyond(full, ad, v, t, s, fulld):
    k = len(t)
    m = len(full)
    if m > k:
        w = np.zeros((m, k))
        _add(ad, v, w, 1.0)
        _add(full[:, :k], t, w, -1.0)
        near = _near(s, 0, k)
        for i in range(m):
            for j in range(k):
                w[i, j] = _over(w[i, j], s[0, j], near, w[i, j] != 0.0)
        _plus(w, fulld[:, :k], 1.0)
        if full.shape[1] >= m:
            back = np.zeros((k, m - k))
            _add(w.T, full[:, k:m], back, 1.0)
            _add(full[:, :k], back, fulld[:, k:m], -1.0)


# ---------------------------------------------------------------- least squares


def lstsq_into(a, b, cut, z):
    """The shortest of the solutions for each column of b, then the rank in the row below, then a's pseudo-inverse; singular values of less
    than `cut` times the largest count as 0."""
    m = a.shape[0]
    n = a.shape[1]
    k = min(m, n)
    columns = b.shape[1]
    w = np.empty((m + n + 1, k))
    svd_into(a, w)
    rank = 0
    for j in range(k):
        if w[m + n, j] > cut[0, 0] * w[m + n, 0]:
            rank += 1
    for i in range(z.shape[0]):
        for c in range(z.shape[1]):
            z[i, c] = 0.0
    z[n, columns] = rank
    for c in range(columns):
        for j in range(rank):
            s = 0.0
            for i in range(m):
                s += w[i, j] * b[i, c]
            s /= w[m + n, j]
            for i in range(n):
                z[i, c] += w[m + i, j] * s
    for j in range(rank):
        for i in range(n):
            t = w[m + i, j] / w[m + n, j]
            for c in range(m):
                z[i, columns + 1 + c] += t * w[c, j]


def lstsq_back_b(a, b, z, zb, bb):
    n = a.shape[1]
    columns = b.shape[1]
    inverse = z[:n, columns + 1 :]
    _add(inverse.T, zb[:n, :columns], bb, 1.0)


def lstsq_back_a(a, b, z, zb, ab):
    m = a.shape[0]
    n = a.shape[1]
    columns = b.shape[1]
    x = z[:n, :columns]
    xb = zb[:n, :columns]
    inverse = z[:n, columns + 1 :]
    y = np.zeros((m, columns))
    _add(inverse.T, xb, y, 1.0)
    _add(y, x.T, ab, -1.0)
    if z[n, columns] < m:
        left = np.zeros((m, columns))
        _plus(b, left, 1.0)
        _add(a, x, left, -1.0)
        other = np.zeros((n, columns))
        _add(inverse, y, other, 1.0)
        _add(left, other.T, ab, 1.0)
    if z[n, columns] < n:
        again = np.zeros((m, columns))
        _add(inverse.T, x, again, 1.0)
        rest = np.zeros((n, columns))
        _plus(xb, rest, 1.0)
        _add(a.T, y, rest, -1.0)
        _add(again, rest.T, ab, 1.0)
    bar = zb[:n, columns + 1 :]
    read = False  # in the next order, by these derivatives
    for i in range(n):
        for j in range(m):
            read = read or bar[i, j] != 0.0
    if read:
        _inverse_back(a, inverse, bar, ab)


def _inverse_back(a, inverse, bar, ab):
    m = a.shape[0]
    n = a.shape[1]
    c = np.zeros((n, n))
    _add(inverse, bar.T, c, 1.0)
    _add(inverse.T, c.T, ab, -1.0)
    left = np.zeros((m, n))
    _plus(bar.T, left, 1.0)
    _add(a, c, left, -1.0)
    square = np.zeros((n, n))
    _add(inverse, inverse.T, square, 1.0)
    _add(left, square, ab, 1.0)
    there = np.zeros((n, n))
    _add(inverse, a, there, 1.0)
    rest = np.zeros((n, n))
    _plus(c, rest, 1.0)
    _add(c, there, rest, -1.0)
    _add(inverse.T, rest, ab, 1.0)


def lstsq_back_cut(a, b, z, zb, cutb):
    """A cut has none."""
    cutb[0, 0] += 0.0


def lstsq_along_b(a, b, z, bd, zd):
    n = a.shape[1]
    columns = b.shape[1]
    _add(z[:n, columns + 1 :], bd, zd[:n, :columns], 1.0)


def lstsq_along_a(a, b, z, ad, zd):
    m = a.shape[0]
    n = a.shape[1]
    columns = b.shape[1]
    x = z[:n, :columns]
    xd = zd[:n, :columns]
    inverse = z[:n, columns + 1 :]
    right = np.zeros((m, columns))
    _add(ad, x, right, -1.0)
    left = np.zeros((m, columns))
    _plus(b, left, 1.0)
    _add(a, x, left, -1.0)
    turned = np.zeros((n, columns))
    _add(ad.T, left, turned, 1.0)
    if z[n, columns] < m:
        _add(inverse.T, turned, right, 1.0)
    if z[n, columns] < n:
        again = np.zeros((m, columns))
        _add(inverse.T, x, again, 1.0)
        beyond = np.zeros((n, columns))
        _add(ad.T, again, beyond, 1.0)
        _plus(beyond, xd, 1.0)
        _add(a, beyond, right, -1.0)
    _add(inverse, right, xd, 1.0)
    _inverse_along(a, inverse, ad, zd[:n, columns + 1 :])


def _inverse_along(a, inverse, ad, moved):
    m = a.shape[0]
    n = a.shape[1]
    turned = np.zeros((n, n))
    _add(inverse, ad, turned, 1.0)
    _add(turned, inverse, moved, -1.0)
    square = np.zeros((n, n))
    _add(inverse, inverse.T, square, 1.0)
    left = np.zeros((n, m))
    _add(square, ad.T, left, 1.0)
    over = np.zeros((n, n))
    _add(left, a, over, 1.0)
    _add(over, inverse, left, -1.0)
    _plus(left, moved, 1.0)
    right = np.zeros((n, m))
    _add(turned.T, inverse, right, 1.0)
    _plus(right, moved, 1.0)
    there = np.zeros((n, n))
    _add(inverse, a, there, -1.0)
    _add(there, right, moved, 1.0)


def lstsq_along_cut(a, b, z, cutd, zd):
    """A cut has none."""
    zd[0, 0] += 0.0


FORMULAS: dict[str, Formula] = {
    f.name: f
    for f in (
        Formula(solve_into, (0, OUT), (solve_back_a, solve_back_b), (solve_along_a, solve_along_b)),
        Formula(inv_into, (OUT,), (inv_back,), (inv_along,)),
        Formula(det_into, (0,), (det_back,), (det_along,)),
        Formula(slogdet_into, (0,), (slogdet_back,), (slogdet_along,)),
        Formula(cholesky_into, (OUT,), (cholesky_back,), (cholesky_along,)),
        Formula(eigh_into, (OUT,), (eigh_back,), (eigh_along,)),
        Formula(qr_into, (OUT,), (qr_back,), (qr_along,)),
        Formula(svd_into, (OUT,), (svd_back,), (svd_along,)),
        Formula(
            lstsq_into,
            (0, 1, OUT),
            (lstsq_back_a, lstsq_back_b, lstsq_back_cut),
            (lstsq_along_a, lstsq_along_b, lstsq_along_cut),
        ),
    )
}
for _f in FORMULAS.values():
    _f.into.formula = _f  # type: ignore[attr-defined]
    for _g in (_f.into, *_f.back, *_f.along):
        _g.apart = True  # type: ignore[attr-defined]

__all__ = ["FORMULAS", "OUT", "Formula"]
