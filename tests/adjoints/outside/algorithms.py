"""Algorithms from books: rotations, reflections, searches, trees and graphs in arrays, steps that are tried and thrown away."""

# ruff: noqa

import math
from typing import NamedTuple

import numpy as np

from tests.adjoints.outside import Cases

CASES = Cases(29)
case, r, pos = CASES.case, CASES.r, CASES.pos


class Pt(NamedTuple):
    x: float
    y: float


class Seg(NamedTuple):
    a: Pt
    b: Pt


@case(Seg(Pt(0.1, 0.2), Pt(0.5, -0.4)), 0.3)
def nested_nt(s, t):
    p = Pt(s.a.x * (1 - t) + s.b.x * t, s.a.y * (1 - t) + s.b.y * t)
    q = s.a
    for i in range(3):
        q = Pt(q.y * p.x, q.x + p.y)
    return q.x * q.y + p[0] * p[1]


@case(r(3), r(3), 0.4)
def sphere(o, d, rad):
    d = d / np.sqrt(d @ d)
    b = o @ d
    c = o @ o - rad * rad * 9
    disc = b * b - c
    if disc < 0:
        return 0.0
    t = -b + math.sqrt(disc)
    p = o + t * d
    n = p / np.linalg.norm(p)
    return max(n @ np.array([0.0, 0.6, 0.8]), 0.0) * t


@case(r(10))
def runlength(x):
    best = 0.0
    cur = 0.0
    start = 0
    bi = 0
    for i in range(len(x)):
        cur += x[i]
        if cur < 0:
            cur = 0.0
            start = i + 1
        elif cur > best:
            best = cur
            bi = start
    return best * (bi + 1) + x[bi]


@case(r(8))
def two_pointers(x):
    i = 0
    j = len(x) - 1
    s = 0.0
    while i < j:
        if x[i] * x[i] < x[j] * x[j]:
            s += x[i] * x[j]
            i += 1
        else:
            s -= x[j] ** 3
            j -= 1
    return s + x[i]


@case(r(6, 2))
def hull_area(p):
    a = 0.0
    for i in range(len(p)):
        x0, y0 = p[i]
        x1, y1 = p[(i + 1) % len(p)]
        a += x0 * y1 - x1 * y0
    return abs(a) / 2


@case(r(4, 2), r(3, 2), np.array([0, 1, 2, 1]))
def kmeans_step(p, c, a):
    new = np.zeros_like(c)
    n = np.zeros(len(c))
    for i in range(len(p)):
        k = a[i]
        new[k] += p[i]
        n[k] += 1
    for k in range(len(c)):
        if n[k] > 0:
            new[k] /= n[k]
        else:
            new[k] = c[k]
    return ((new - c) ** 2).sum()


@case(r(5), r(5))
def convolve_causal(x, h):
    y = np.zeros(len(x))
    for n in range(len(x)):
        for k in range(n + 1):
            y[n] += h[k] * x[n - k]
    y *= y[::-1]
    return y[1:].sum()


@case(pos(4), 0.1)
def sinkhorn(c, eps):
    K = np.exp(-np.outer(c, c) / (eps + 1))
    u = np.ones(4) / 4
    v = np.ones(4) / 4
    for _ in range(5):
        u = 0.25 / (K @ v)
        v = 0.25 / (K.T @ u)
    return (u[:, None] * K * v[None, :] * np.outer(c, c)).sum()


@case(r(3, 3))
def jacobi(a0):
    a = (a0 + a0.T) / 2
    for sweep in range(2):
        for p in range(2):
            for q in range(p + 1, 3):
                if abs(a[p, q]) < 1e-14:
                    continue
                th = 0.5 * math.atan2(2 * a[p, q], a[q, q] - a[p, p])
                c = math.cos(th)
                s = math.sin(th)
                for k in range(3):
                    t = a[k, p]
                    a[k, p] = c * t - s * a[k, q]
                    a[k, q] = s * t + c * a[k, q]
                for k in range(3):
                    t = a[p, k]
                    a[p, k] = c * t - s * a[q, k]
                    a[q, k] = s * t + c * a[q, k]
    return a[0, 0] ** 2 + a[1, 1] * a[2, 2]


@case(r(4, 3))
def gram_schmidt(a):
    q = a.copy()
    for j in range(3):
        for k in range(j):
            q[:, j] -= (q[:, k] @ a[:, j]) * q[:, k]
        q[:, j] /= np.sqrt((q[:, j] ** 2).sum())
    return q[0, 2] * q[1, 1] + (q[2] * a[2]).sum()


@case(r(4, 3))
def householder(a0):
    a = a0.copy()
    for k in range(3):
        x = a[k:, k]
        v = x.copy()
        v[0] += math.copysign(np.sqrt(x @ x), x[0])
        v /= np.sqrt(v @ v)
        for j in range(k, 3):
            s = 0.0
            for i in range(len(v)):
                s += v[i] * a[k + i, j]
            for i in range(len(v)):
                a[k + i, j] -= 2 * v[i] * s
    return a[0, 0] * a[1, 1] + a[0, 2] ** 2 + a[2, 2]


@case(r(6), pos(5))
def thomas(d, c):
    n = len(d)
    cp = np.zeros(n)
    dp = np.zeros(n)
    cp[0] = c[0] / 4
    dp[0] = d[0] / 4
    for i in range(1, n):
        m = 4 - c[i - 1] * cp[i - 1]
        if i < n - 1:
            cp[i] = c[i] / m
        dp[i] = (d[i] - c[i - 1] * dp[i - 1]) / m
    for i in range(n - 2, -1, -1):
        dp[i] -= cp[i] * dp[i + 1]
    return dp


@case(r(5), 0.1, 30)
def gd_in_loop(x0, lr, n):
    x = x0.copy()
    m = np.zeros(5)
    v = np.zeros(5)
    for t in range(1, n):
        g = 2 * x + np.sin(x)
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        x -= lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-3)
    return (x * x).sum()


@case(r(4), pos(4))
def trust_region(x, h):
    for it in range(20):
        g = h * x + x**3
        step = -g / (h + 3 * x * x)
        n = math.sqrt((step * step).sum())
        if n > 0.5:
            step = step * (0.5 / n)
        f0 = 0.0
        f1 = 0.0
        for i in range(4):
            f0 += 0.5 * h[i] * x[i] ** 2 + 0.25 * x[i] ** 4 + 0.1 * x[i]
            y = x[i] + step[i]
            f1 += 0.5 * h[i] * y**2 + 0.25 * y**4 + 0.1 * y
        if f1 < f0:
            x = x + step
        else:
            break
    return (x * x * x).sum() + it


@case(r(3, 4), r(4))
def masked_softmax(q, k):
    out = np.zeros(3)
    for i in range(3):
        mx = -1e9
        z = 0.0
        for j in range(i + 1):
            s = q[i, j] * k[j]
            if s > mx:
                z = z * math.exp(mx - s) if mx > -1e8 else 0.0
                mx = s
            z += math.exp(s - mx)
        out[i] = math.log(z) + mx
    return out


@case(r(12))
def tree(x):
    # bottom-up heap-tree in one array
    n = 8
    t = np.zeros(2 * n)
    t[n:] = x[:8]
    for i in range(n - 1, 0, -1):
        t[i] = max(t[2 * i], t[2 * i + 1]) + 0.1 * t[2 * i]
    i = 1
    while i < n:
        if t[2 * i] > t[2 * i + 1]:
            i = 2 * i
        else:
            i = 2 * i + 1
        t[i] *= 2
    return t.sum() + t[i] * x[9]


@case(r(5, 5))
def flood(x):
    st = np.zeros((40, 2), dtype=np.int64)
    top = 0
    seen = np.zeros((5, 5), dtype=bool)
    s = 0.0
    st[0, 0] = 2
    st[0, 1] = 2
    top = 1
    while top > 0:
        top -= 1
        i = st[top, 0]
        j = st[top, 1]
        if i < 0 or j < 0 or i > 4 or j > 4 or seen[i, j]:
            continue
        seen[i, j] = True
        if x[i, j] < -0.5:
            continue
        s += x[i, j] ** 2
        for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            if top < 39:
                st[top, 0] = i + a
                st[top, 1] = j + b
                top += 1
    return s


@case(r(6), np.array([[0, 1], [1, 2], [2, 3], [3, 4], [0, 5]]))
def graph(w, e):
    h = w.copy()
    for _ in range(3):
        n = h * 0.5
        for i, j in e:
            n[i] += 0.2 * h[j] * h[i]
            n[j] += 0.1 * h[i]
        h = np.tanh(n)
    return h


@case(np.array([0, 2, 3, 5]), np.array([0, 1, 2, 0, 2]), r(5), r(3))
def csr(ptr, col, val, x):
    y = np.zeros(3)
    for i in range(3):
        for k in range(ptr[i], ptr[i + 1]):
            y[i] += val[k] * x[col[k]]
    return y @ y + y.max()


@case(r(4), 2)
def generic_power(x, n):
    def mm(a, b):
        c = np.zeros((2, 2))
        for i in range(2):
            for j in range(2):
                for k in range(2):
                    c[i, j] += a[i, k] * b[k, j]
        return c

    m = np.array([[x[0], x[1]], [x[2], x[3]]])
    res = np.eye(2)
    while n > 0:
        if n % 2:
            res = mm(res, m)
        m = mm(m, m)
        n //= 2
    return res


@case(r(6))
def sort_net(x):
    a = x.copy()
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return (a * np.arange(6)).sum() * a[0]


@case(r(6))
def quick_sel(x):
    a = x.copy()
    lo = 0
    hi = 5
    k = 2
    while lo < hi:
        p = a[hi]
        s = lo
        for i in range(lo, hi):
            if a[i] < p:
                t = a[s]
                a[s] = a[i]
                a[i] = t
                s += 1
        t = a[s]
        a[s] = a[hi]
        a[hi] = t
        if s == k:
            break
        if s < k:
            lo = s + 1
        else:
            hi = s - 1
    return a[k] ** 3


@case(r(7), 0.3)
def hysteresis(x, t):
    on = False
    last = 0.0
    e = 0.0
    for i, v in enumerate(x):
        was = on
        on = v > t if not on else v > -t
        if on and not was:
            last = v
        if was and not on:
            e += last * v
            last = 0.0
        elif on:
            last = 0.5 * last + v
    return e + last


@case(r(4), r(4))
def interleave(a, b):
    out = np.empty(8)
    out[::2] = a
    out[1::2] = b * out[::2]
    out[-2::-4] *= 2
    return (out[::-1] * out).sum() + out[3:0:-1].sum()


@case(r(2, 3, 4))
def slices3(x):
    y = np.zeros((2, 4))
    for i in range(2):
        y[i] = x[i, 0] * x[i, 1] + x[1 - i, 2]
        y[i, ::2] -= x[i].sum(0)[1::2]
    return (y.T @ y)[0, 1] + x[:, 1:, ::2].sum() * x[..., 0].sum() + x[:, -1].max()


@case(r(5), 3)
def poly_deriv(c, n):
    a = c.copy()
    m = len(a)
    for _ in range(n):
        for i in range(1, m):
            a[i - 1] = a[i] * i
        m -= 1
        a[m] = 0.0
    return a[:m].sum() + a[m:].sum()


@case(0.3, 0.7)
def continued(a, b):
    x = 0.0
    for k in range(20, 0, -1):
        x = a * k / (b + x + k)
    return x


@case(1.3)
def agm(x):
    a = 1.0
    b = x
    while abs(a - b) > 1e-14:
        a, b = (a + b) / 2, math.sqrt(a * b)
    return a


@case(0.6, 10)
def series(x, digits):
    tol = 10.0**-digits
    t = x
    s = x
    k = 1
    while abs(t) > tol:
        t *= -x * x / ((2 * k) * (2 * k + 1))
        s += t
        k += 1
    return s


@case(0.2, 0.9)
def kepler(M, e):
    E = M
    for i in range(50):
        d = (E - e * math.sin(E) - M) / (1 - e * math.cos(E))
        E -= d
        if abs(d) < 1e-14:
            break
    return E, i


@case(r(3), 5.0, 0.5)
def adaptive(y0, T, h):
    y = y0.copy()
    t = 0.0
    n = 0
    while t < T and n < 200:
        if t + h > T:
            h = T - t
        k1 = -y + np.sin(y)
        k2 = -(y + h * k1) + np.sin(y + h * k1)
        err = np.abs(k2 - k1).max() * h
        n += 1
        if err > 0.2:
            h = h * 0.5
            continue
        y = y + h * (k1 + k2) / 2
        t += h
        if err < 0.02:
            h = min(h * 1.5, 1.0)
    return y
