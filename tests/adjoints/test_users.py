"""Functions as users write them: filters, solvers, dynamic programs, simulations. The adjoint against the tangent and differences."""

import copy
import functools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import prange

from nbgrad import differentiable

R = np.random.default_rng(3)
NORMAL = R.normal


def kalman(z, q, r):
    x = np.zeros(2)
    P = np.eye(2)
    F = np.array([[1.0, 0.1], [0.0, 1.0]])
    ll = 0.0
    for k in range(len(z)):
        x = F @ x
        P = F @ P @ F.T
        P[0, 0] += q
        P[1, 1] += q
        y = z[k] - x[0]
        S = P[0, 0] + r
        K = P[:, 0] / S
        x = x + K * y
        P = P - np.outer(K, P[0])
        ll += math.log(S) + y * y / S
    return ll


def rk45(y0, a, tol):
    t = 0.0
    y = y0
    h = 0.1
    n = 0
    while t < 1.0:
        if t + h > 1.0:
            h = 1.0 - t
        k1 = -a * y * y + math.sin(t)
        k2 = -a * (y + h * k1) ** 2 + math.sin(t + h)
        err = abs(h * (k2 - k1) / 2)
        if err < tol:
            y = y + h * (k1 + k2) / 2
            t += h
            h = h * min(2.0, 0.9 * math.sqrt(tol / (err + 1e-12)))
        else:
            h = h * 0.5
        n += 1
        if n > 200:
            break
    return y


def march(o, d, r):
    t = 0.0
    hit = False
    for _ in range(60):
        px = o[0] + t * d[0]
        py = o[1] + t * d[1]
        pz = o[2] + t * d[2]
        s1 = math.sqrt(px * px + py * py + pz * pz) - r
        s2 = py + 1.0
        dist = min(s1, s2)
        if dist < 1e-6:
            hit = True
            break
        t += dist
        if t > 50:
            break
    if not hit:
        return 0.0
    return t * math.exp(-0.1 * t)


def softdtw(a, b, g):
    n, m = len(a), len(b)
    D = np.full((n + 1, m + 1), 1e3)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            c = (a[i - 1] - b[j - 1]) ** 2
            lo = min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
            s = (
                math.exp(-(D[i - 1, j] - lo) / g)
                + math.exp(-(D[i, j - 1] - lo) / g)
                + math.exp(-(D[i - 1, j - 1] - lo) / g)
            )
            D[i, j] = c + lo - g * math.log(s)
    return D[n, m]


def fft(re, im):
    n = len(re)
    a = re.copy()
    b = im.copy()
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j ^= bit
        if i < j:
            a[i], a[j] = a[j], a[i]
            b[i], b[j] = b[j], b[i]
    L = 2
    while n >= L:
        ang = -2 * math.pi / L
        for i in range(0, n // L):
            for k in range(L // 2):
                wr = math.cos(ang * k)
                wi = math.sin(ang * k)
                p = i * L + k
                q = p + L // 2
                ur = a[p]
                ui = b[p]
                vr = a[q] * wr - b[q] * wi
                vi = a[q] * wi + b[q] * wr
                a[p] = ur + vr
                b[p] = ui + vi
                a[q] = ur - vr
                b[q] = ui - vi
        L *= 2
    s = 0.0
    for i in range(n):
        s += math.sqrt(a[i] * a[i] + b[i] * b[i]) * (i + 1)
    return s


def lu(A, b):
    n = len(b)
    M = A.copy()
    x = b.copy()
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(M[i, k]) > abs(M[p, k]):
                p = i
        if p != k:
            for j in range(n):
                M[k, j], M[p, j] = M[p, j], M[k, j]
            x[k], x[p] = x[p], x[k]
        for i in range(k + 1, n):
            M[i, k] /= M[k, k]
            M[i, k + 1 :] -= M[i, k] * M[k, k + 1 :]
            x[i] -= M[i, k] * x[k]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            x[i] -= M[i, j] * x[j]
        x[i] /= M[i, i]
    return np.sum(x * x)


def cdf(x):
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


def bs(S, K, T, r, v):
    tot = 0.0
    for i in range(len(S)):
        sq = v * math.sqrt(T[i])
        d1 = (math.log(S[i] / K[i]) + (r + 0.5 * v**2) * T[i]) / sq
        d2 = d1 - sq
        call = S[i] * cdf(d1) - K[i] * math.exp(-r * T[i]) * cdf(d2)
        tot += max(call - 0.1, 0.0)
    return tot


def hmm(logA, logB, logp, obs):
    n = len(logp)
    al = logp + logB[:, obs[0]]
    for t in range(1, len(obs)):
        new = np.empty(n)
        for j in range(n):
            m = -np.inf
            for i in range(n):
                m = max(m, al[i] + logA[i, j])
            s = 0.0
            for i in range(n):
                s += math.exp(al[i] + logA[i, j] - m)
            new[j] = m + math.log(s) + logB[j, obs[t]]
        al[:] = new
    m = np.max(al)
    return m + math.log(np.sum(np.exp(al - m)))


class Cam(NamedTuple):
    rot: np.ndarray
    pos: np.ndarray
    f: float


def rodr(w, p):
    th = math.sqrt(w[0] ** 2 + w[1] ** 2 + w[2] ** 2)
    if th < 1e-12:
        return (
            p[0] + w[1] * p[2] - w[2] * p[1],
            p[1] + w[2] * p[0] - w[0] * p[2],
            p[2] + w[0] * p[1] - w[1] * p[0],
        )
    k0, k1, k2 = w[0] / th, w[1] / th, w[2] / th
    c, s = math.cos(th), math.sin(th)
    d = (k0 * p[0] + k1 * p[1] + k2 * p[2]) * (1 - c)
    return (
        p[0] * c + (k1 * p[2] - k2 * p[1]) * s + k0 * d,
        p[1] * c + (k2 * p[0] - k0 * p[2]) * s + k1 * d,
        p[2] * c + (k0 * p[1] - k1 * p[0]) * s + k2 * d,
    )


def bundle(cam, pts, obs):
    e = 0.0
    for i in range(len(pts)):
        x, y, z = rodr(cam.rot, pts[i] - cam.pos)
        if z <= 0.1:
            continue
        u = cam.f * x / z
        v = cam.f * y / z
        r2 = (u - obs[i, 0]) ** 2 + (v - obs[i, 1]) ** 2
        e += r2 if r2 < 1.0 else 2 * math.sqrt(r2) - 1.0
    return e


def spline(x, y, q):
    n = len(x)
    h = np.empty(n - 1)
    for i in range(n - 1):
        h[i] = x[i + 1] - x[i]
    c = np.zeros(n)
    d = np.zeros(n)
    m = np.zeros(n)
    for i in range(1, n - 1):
        al = 6 * ((y[i + 1] - y[i]) / h[i] - (y[i] - y[i - 1]) / h[i - 1])
        den = 2 * (h[i - 1] + h[i]) - h[i - 1] * c[i - 1]
        c[i] = h[i] / den
        d[i] = (al - h[i - 1] * d[i - 1]) / den
    for i in range(n - 2, 0, -1):
        m[i] = d[i] - c[i] * m[i + 1]
    out = 0.0
    for v in q:
        k = np.searchsorted(x, v) - 1
        k = min(max(k, 0), n - 2)
        t = v - x[k]
        b = (y[k + 1] - y[k]) / h[k] - h[k] * (2 * m[k] + m[k + 1]) / 6
        out += y[k] + b * t + m[k] / 2 * t * t + (m[k + 1] - m[k]) / (6 * h[k]) * t**3
    return out


def km(X, C0, it):
    C = C0.copy()
    n, d = X.shape
    k = len(C)
    for _ in range(it):
        S = np.zeros((k, d))
        N = np.zeros(k)
        for i in range(n):
            b = 0
            bd = np.inf
            for c in range(k):
                dd = 0.0
                for j in range(d):
                    dd += (X[i, j] - C[c, j]) ** 2
                if dd < bd:
                    bd = dd
                    b = c
            N[b] += 1
            S[b] += X[i]
        for c in range(k):
            if N[c] > 0:
                C[c] = S[c] / N[c]
    return np.sum(C**3)


def contact(p, v, n, mu):
    p = p.copy()
    v = v.copy()
    lost = 0.0
    for _ in range(n):
        for i in range(len(p)):
            v[i, 1] -= 9.8 * 0.01
            for j in range(2):
                p[i, j] += 0.01 * v[i, j]
            if p[i, 1] < 0.0:
                p[i, 1] = -p[i, 1] * 0.5
                v[i, 1] = -v[i, 1] * 0.8
                v[i, 0] *= 1 - mu
                lost += v[i, 0] ** 2
        for i in range(len(p)):
            for j in range(i + 1, len(p)):
                dx = p[i] - p[j]
                d2 = dx[0] ** 2 + dx[1] ** 2
                if d2 < 0.09:
                    d = math.sqrt(d2)
                    f = 10 * (0.3 - d) / d * 0.01
                    v[i] += f * dx
                    v[j] -= f * dx
    return lost + np.sum(p * p)


def ifs(x, y):
    if x > 1:
        z = x * y
    elif x > 0.5:
        z = math.sin(x) + y
    elif x > 0:
        z = 0.0
        for i in range(5):
            if i == 3 and y > 0:
                return z + x
            z += x**i * y
    elif y > 0 and x < -1:
        return x * x * y
    else:
        z = math.atan2(y, x)
    w = z if z > 0 else -z
    return w * w + x


def closures(x, a):
    s = 3.0

    def f(v):
        return math.tanh(a * v) + s * v

    def g(v, k):
        for _ in range(k):
            v = f(v)
        return v

    t = 0.0
    for i in range(len(x)):
        t += g(x[i] * 0.1, i % 3)
    return t


def newton(a, b):
    x = a
    k = 0
    while True:
        f = x**3 - a * x - b
        fp = 3 * x * x - a
        if fp == 0:
            break
        dx = f / fp
        x -= dx
        k += 1
        if abs(dx) < 1e-10 or k > 50:
            break
    return x * x


def pingpong(u0, c, n):
    ab = np.zeros((2, len(u0)))
    ab[0] = u0
    for t in range(n):
        s = t % 2
        for i in range(1, len(u0) - 1):
            ab[1 - s, i] = ab[s, i] + c * (ab[s, i - 1] - 2 * ab[s, i] + ab[s, i + 1]) - 0.1 * ab[s, i] ** 2
    return np.sum(ab[n % 2] ** 2)


def attention(Q, K, V):
    n, d = Q.shape
    out = 0.0
    for i in range(n):
        s = np.empty(n)
        for j in range(i + 1):
            s[j] = np.dot(Q[i], K[j]) / math.sqrt(d)
        m = np.max(s[: i + 1])
        e = np.exp(s[: i + 1] - m)
        z = e.sum()
        for k in range(d):
            o = 0.0
            for j in range(i + 1):
                o += e[j] / z * V[j, k]
            out += o * o * o
    return out


def cumu(x):
    y = np.cumsum(x)
    s = 0.0
    for i in range(len(x) - 1):
        s += y[i] * y[i + 1]
    return s / len(x)


def knap(v, w, C, t):
    f = np.zeros(C + 1)
    for i in range(len(v)):
        for c in range(C, w[i] - 1, -1):
            a = f[c]
            b = f[c - w[i]] + v[i]
            f[c] = t * math.log(math.exp(a / t) + math.exp(b / t))
    return f[C]


def qr(A):
    _, n = A.shape
    Q = A.copy()
    R_ = np.zeros((n, n))
    for j in range(n):
        for i in range(j):
            R_[i, j] = Q[:, i] @ Q[:, j]
            Q[:, j] -= R_[i, j] * Q[:, i]
        R_[j, j] = math.sqrt(np.sum(Q[:, j] ** 2))
        Q[:, j] /= R_[j, j]
    s = 0.0
    for j in range(n):
        s += math.log(R_[j, j]) * (j + 1)
    return s + Q[0, n - 1]


def conv(img, k):
    H, W = img.shape
    kh, kw = k.shape
    o = np.zeros((H - kh + 1, W - kw + 1))
    for i in prange(o.shape[0]):
        for j in range(o.shape[1]):
            acc = 0.0
            for a in range(kh):
                for b in range(kw):
                    acc += img[i + a, j + b] * k[a, b]
            o[i, j] = max(acc, 0.0)
    return np.mean(o * o)


def mc(n, s0, mu, sig, z):
    tot = 0.0
    for p in prange(z.shape[0]):
        s = s0
        mx = s0
        alive = True
        for t in range(z.shape[1]):
            s *= math.exp((mu - 0.5 * sig**2) / n + sig * z[p, t] / math.sqrt(n))
            if s > mx:
                mx = s
            if s < 0.6 * s0:
                alive = False
                break
        if alive:
            tot += mx - s
    return tot / z.shape[0]


def gauss_newton(x, y, a0, b0):
    a, b = a0, b0
    for _ in range(4):
        H = np.zeros((2, 2))
        g = np.zeros(2)
        for i in range(len(x)):
            e = math.exp(-b * x[i])
            r = a * e - y[i]
            J = np.array([e, -a * x[i] * e])
            for p in range(2):
                g[p] += J[p] * r
                for q in range(2):
                    H[p, q] += J[p] * J[q]
        dl = np.linalg.solve(H + 0.1 * np.eye(2), g)
        a -= dl[0]
        b -= dl[1]
    return a * b


def minmax(x):
    lo, hi = x[0], x[0]
    for v in x[1:]:
        if v < lo:
            lo = v
        elif v > hi:
            hi = v
    return (hi - lo) ** 2 / (1 + abs(lo))


def swapnames(x, n):
    a, b = x[0], x[1]
    for i in range(n):
        a, b = b, a + 0.3 * b * b
        if i == 4:
            a = -a
    return a - b


def rolling(x, k):
    out = np.empty(len(x) - k + 1)
    s = 0.0
    for i in range(len(x)):
        s += x[i]
        if i >= k:
            s -= x[i - k]
        if i >= k - 1:
            out[i - k + 1] = s / k
    v = 0.0
    for i in range(len(out)):
        v += (x[i + k - 1] - out[i]) ** 2
    return math.sqrt(v)


def stackm(x):
    st = []
    for i in range(len(x)):
        if x[i] > 0:
            st.append(x[i] * x[i])
        elif len(st) > 0:
            t = st.pop()
            st.append(t * math.cos(x[i]))
    s = 0.0
    for v in st:
        s += v
    return s


def scal(x):
    i = 0
    s = 1.0
    while i < len(x):
        if x[i] < 0:
            i += 2
            continue
        for j in range(i, len(x)):
            if x[j] > 1.0:
                break
            s = s * (1 + 0.1 * x[j])
        i += 1
    return s


def inplace(x):
    for i in range(1, len(x)):
        x[i] = x[i] * x[i - 1] + x[i]
    x *= 2.0
    x[1:] += x[:-1]
    x[::2] = x[::2] ** 2
    return x.sum()


def counted_on(x):
    """A place that a name of a short loop's turn has."""
    y = np.zeros(4)
    if x[0] > -9.0:
        for i in range(3):
            k = 1 + i
            y[k] = x[k] * x[i]
    return y[1] * y[1] + y[2] * y[3]


CASES: list[Any] = [
    (counted_on, (NORMAL(size=4),)),
    (kalman, (NORMAL(size=8), 0.1, 0.5)),
    (rk45, (0.7, 1.3, 1e-3)),
    (march, (np.array([0.0, 0.2, -5]), np.array([0.05, 0.01, 1.0]), 1.1)),
    (softdtw, (NORMAL(size=5), NORMAL(size=6), 0.7)),
    (fft, (NORMAL(size=16), NORMAL(size=16))),
    (lu, (NORMAL(size=(5, 5)), NORMAL(size=5))),
    (bs, (R.uniform(1, 2, 6), R.uniform(1, 2, 6), R.uniform(0.5, 2, 6), 0.03, 0.2)),
    (hmm, (NORMAL(size=(3, 3)), NORMAL(size=(3, 4)), NORMAL(size=3), np.array([0, 2, 3, 1, 1]))),
    (
        bundle,
        (
            Cam(NORMAL(size=3) * 0.3, np.array([0, 0, -5.0]), 1.2),
            NORMAL(size=(6, 3)),
            NORMAL(size=(6, 2)) * 0.3,
        ),
    ),
    (spline, (np.sort(NORMAL(size=6)), NORMAL(size=6), NORMAL(size=4) * 0.5)),
    (km, (NORMAL(size=(12, 2)), NORMAL(size=(3, 2)), 3)),
    (contact, (np.abs(NORMAL(size=(4, 2))), NORMAL(size=(4, 2)), 60, 0.3)),
    (ifs, (1.5, 0.3)),
    (ifs, (0.7, 0.3)),
    (ifs, (0.3, 0.3)),
    (ifs, (0.3, -0.3)),
    (ifs, (-1.3, 0.3)),
    (ifs, (-0.3, 0.3)),
    (closures, (NORMAL(size=7), 0.8)),
    (newton, (2.0, 1.0)),
    (pingpong, (NORMAL(size=7), 0.2, 5)),
    (attention, (NORMAL(size=(4, 3)), NORMAL(size=(4, 3)), NORMAL(size=(4, 3)))),
    (cumu, (NORMAL(size=6),)),
    (knap, (R.uniform(1, 2, 5), np.array([2, 3, 1, 4, 2]), 8, 0.5)),
    (qr, (NORMAL(size=(5, 3)),)),
    (conv, (NORMAL(size=(6, 7)), NORMAL(size=(3, 2)))),
    (mc, (5, 1.0, 0.1, 0.4, NORMAL(size=(9, 5)))),
    (gauss_newton, (R.uniform(0, 2, 8), R.uniform(0, 2, 8), 1.0, 0.5)),
    (minmax, (NORMAL(size=8),)),
    (swapnames, (NORMAL(size=2) * 0.4, 7)),
    (rolling, (NORMAL(size=9), 3)),
    (stackm, (NORMAL(size=9),)),
    (scal, (NORMAL(size=9),)),
    (inplace, (NORMAL(size=6) * 0.5,)),
]


def given(args: Any, moved: Any) -> Any:
    """The arguments, tuples as they were, from their parts."""
    if isinstance(args, tuple):
        parts = [given(a, moved) for a in args]
        return type(args)(*parts) if hasattr(args, "_fields") else tuple(parts)
    return next(moved)


@pytest.mark.parametrize("policy", ["auto", "store", "rerun", "steps", ("steps", 2), ("revolve", 2)], ids=str)
def test_gradient(policy: Any) -> None:
    for function, args in CASES:
        f = differentiable(function, policy=policy)
        flat, kinds = f._flat(args), f._kinds(args)
        tangent, adjoint = f._make("tangent", kinds, None), f._make("adjoint", kinds, None)
        draw = np.random.default_rng(0)
        params = tangent.program.params
        along = {n: draw.normal(size=np.shape(a)) for n, a in zip(params, flat) if n in tangent.bars}

        def at(step: float) -> Any:
            parts = [a + step * along[n] if n in along else a for n, a in zip(params, copy.deepcopy(flat))]  # noqa: B023
            return function(*given(args, iter(parts)))  # noqa: B023

        value, moved = tangent.plain(
            *copy.deepcopy(flat), *(np.copy(d) if np.ndim(d) else d for d in along.values())
        )
        bars = {n: np.zeros_like(a) for n, a in zip(params, flat) if n in adjoint.bars}
        found = adjoint.plain(*copy.deepcopy(flat), *bars.values(), 1.0)
        scalars = iter(found[1:] if isinstance(found, tuple) else ())
        product = sum(np.sum((bars[n] if n in bars else next(scalars)) * along[n]) for n in adjoint.wrt)
        assert value == pytest.approx(at(0.0), rel=1e-10), function
        assert product == pytest.approx(moved, rel=1e-9, abs=1e-9), function
        assert moved == pytest.approx((at(1e-6) - at(-1e-6)) / 2e-6, rel=1e-4, abs=1e-4), function


def bend(x: Any, k: int, power: float, scale: float = 1.0) -> float:
    x[k] *= scale
    return x[k] ** power


def bent(f: Any, x: Any) -> float:
    y = x.copy()
    total = 0.0
    for k in range(len(y)):
        total += y[k] * f(y, k) + y[k]
    return total


def test_partial_as_an_argument() -> None:
    x = np.array([0.5, 1.5, 2.0])
    f = differentiable(bent)
    for power, scale in ((2.0, 3.0), (3.0, 0.5)):
        g = functools.partial(functools.partial(bend, power=power), scale=scale)
        value, (grad,) = f.value_and_grad(g, x)
        assert value == pytest.approx(bent(g, x))
        assert grad == pytest.approx(scale**power * (power + 1) * x**power + scale)
    held = functools.partial(lambda w, y, k: w[0] * y[k], x)
    assert f(held, x) == pytest.approx(bent(held, x))


def test_short_loops_of_an_adjoint_are_written_out() -> None:
    """Whose counters are names that are set in the turn."""
    x = NORMAL(size=4)
    hessian = differentiable(counted_on).hessian(x, wrt="x")
    expected = np.zeros((4, 4))
    expected[0, 0], expected[1, 1] = 2 * x[1] ** 2, 2 * x[0] ** 2
    expected[0, 1] = expected[1, 0] = 4 * x[0] * x[1]
    for i, j, d in ((1, 3, x[2] ** 2), (1, 2, 2 * x[2] * x[3]), (2, 3, 2 * x[1] * x[2])):
        expected[i, j] = expected[j, i] = d
    expected[2, 2] = 2 * x[1] * x[3]
    np.testing.assert_allclose(hessian, expected, rtol=1e-12, atol=1e-12)


class Held:
    tripled = staticmethod(lambda y, k: bend(y, k, 1.0, 3.0))


def of_an_object(y: Any, k: int) -> Any:
    return y[k] * Held.tripled(y, k) + y[k]


def of_a_tuple(y: Any, k: int) -> Any:
    return y[k] * (bend, bend)[0](y, k, 1.0, 3.0) + y[k]


@pytest.mark.parametrize("each", [of_an_object, of_a_tuple])
def test_what_is_read_before_a_call_that_writes(each: Any) -> None:
    x = np.array([0.5, 1.5, 2.0])
    value, (grad,) = differentiable(bent_by).value_and_grad(each, x)
    assert value == pytest.approx(bent_by(each, x))
    assert grad == pytest.approx(6 * x + 3)


def bent_by(each: Any, x: Any) -> float:
    y = x.copy()
    total = 0.0
    for k in range(len(y)):
        total += each(y, k)
    return total
