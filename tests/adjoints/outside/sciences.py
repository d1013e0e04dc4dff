"""Physics, finance, pictures, dynamic programming; and a first look at loops, views, tuples, lists and NumPy."""

# ruff: noqa

import math
from typing import NamedTuple

import numpy as np

from tests.adjoints.outside import Cases

CASES = Cases(1)
case, r, pos = CASES.case, CASES.r, CASES.pos


# ---------- physics
@case(r(4, 2), r(4, 2), pos(4), 0.01, 5)
def nbody(x, v, m, dt, steps):
    x = x.copy()
    v = v.copy()
    n = x.shape[0]
    for _ in range(steps):
        a = np.zeros_like(x)
        for i in range(n):
            for j in range(i):
                d = x[j] - x[i]
                q = (d * d).sum() + 0.5
                w = q**-1.5
                a[i] += m[j] * w * d
                a[j] -= m[i] * w * d
        v += dt * a
        x += dt * v
    e = 0.0
    for i in range(n):
        e += 0.5 * m[i] * (v[i] ** 2).sum()
    return e, x


@case(r(6), 0.1, 20)
def leap(q, dt, steps):
    p = np.zeros(len(q))
    q = q * 1.0
    for t in range(steps):
        p[:-1] += dt * (q[1:] - q[:-1])
        p[1:] -= dt * (q[1:] - q[:-1])
        q += dt * p
    return (q * q).sum() + (p**4).sum()


@case(1.0, 0.0, 0.02, 3.0)
def bounce(h, v, dt, T):
    t = 0.0
    k = 0
    while t < T:
        v -= 9.81 * dt
        h += v * dt
        if h < 0.0:
            h = -h
            v = -0.8 * v
            k += 1
            if k > 3:
                break
        t += dt
    else:
        h = h * 2.0
    return h + v


@case(r(5, 5), 0.2, 4)
def heat(u, c, n):
    for _ in range(n):
        new = u.copy()
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + c * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
        u = new
    return (u**2).sum()


@case(r(6), r(6), 0.1)
def swap_buf(a0, b0, c):
    a = a0.copy()
    b = b0.copy()
    for k in range(5):
        for i in range(len(a)):
            b[i] = a[i - 1] * c + b[i]
        a, b = b, a
    return a.sum() + (b * b).sum()


@case(r(3), 0.05, 12)
def lorenz(s, dt, n):
    x, y, z = s[0], s[1], s[2]
    for _ in range(n):
        x, y, z = x + dt * 10 * (y - x), y + dt * (x * (28 - z) - y), z + dt * (x * y - 8 / 3 * z)
    return x * y + z


@case(r(7), pos(7))
def ising(s, J):
    e = 0.0
    n = len(s)
    for i in range(n):
        e -= J[i] * math.tanh(s[i]) * math.tanh(s[(i + 1) % n])
    return math.log(np.exp(-e) + 1.0)


@case(r(2), 0.1)
def rk4(y, h):
    def f(y):
        return np.array([y[1], -math.sin(y[0]) - 0.1 * y[1]])

    for _ in range(6):
        k1 = f(y)
        k2 = f(y + 0.5 * h * k1)
        k3 = f(y + 0.5 * h * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


# ---------- finance
@case(100.0, 105.0, 0.2, 0.03, 1.0, 8)
def binomial(S, K, vol, rate, T, n):
    dt = T / n
    u = math.exp(vol * math.sqrt(dt))
    d = 1 / u
    p = (math.exp(rate * dt) - d) / (u - d)
    disc = math.exp(-rate * dt)
    v = np.empty(n + 1)
    for j in range(n + 1):
        v[j] = max(K - S * u**j * d ** (n - j), 0.0)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1):
            hold = disc * (p * v[j + 1] + (1 - p) * v[j])
            ex = K - S * u**j * d ** (i - j)
            v[j] = ex if ex > hold else hold
    return v[0]


@case(r(5, 6), 100.0, 0.25)
def barrier(z, S0, vol):
    tot = 0.0
    for p in range(z.shape[0]):
        s = S0
        alive = True
        mx = s
        for t in range(z.shape[1]):
            s *= math.exp(-0.5 * vol * vol / 6 + vol / 6**0.5 * z[p, t])
            mx = max(mx, s)
            if s < 80.0:
                alive = False
                break
        if alive:
            tot += max(mx - 95.0, 0.0)
        else:
            tot += 0.1 * s
    return tot


@case(np.array([-100.0, 20.0, 40.0, 60.0, 10.0]), 0.1)
def irr(cf, x):
    for it in range(60):
        f = 0.0
        df = 0.0
        for k in range(len(cf)):
            f += cf[k] / (1 + x) ** k
            df -= k * cf[k] / (1 + x) ** (k + 1)
        step = f / df
        x = x - step
        if abs(step) < 1e-13:
            break
    return x


@case(r(8), 0.1, 0.85)
def garch(e, w, b):
    h = w / (1 - b)
    ll = 0.0
    for x in e:
        ll += math.log(h) + x * x / h
        h = w + 0.1 * x * x + b * h
    return -0.5 * ll


@case(pos(5), pos(4), 0.5)
def sabrish(f, k, beta):
    out = np.zeros((len(f), len(k)))
    for i, a in enumerate(f):
        for j, b in enumerate(k):
            m = math.log(a / b)
            if abs(m) < 1e-8:
                out[i, j] = a ** (beta - 1)
            else:
                out[i, j] = m / (a ** (1 - beta) - b ** (1 - beta)) * (1 - beta)
    return out


# ---------- images
@case(r(6, 7), r(3, 3))
def conv(img, k):
    h, w = img.shape
    out = np.zeros((h, w))
    for i in range(h):
        for j in range(w):
            s = 0.0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    ii = i + a
                    jj = j + b
                    if ii < 0 or ii >= h or jj < 0 or jj >= w:
                        continue
                    s += img[ii, jj] * k[a + 1, b + 1]
            out[i, j] = s
    return (out * out).sum()


@case(pos(5, 5))
def integral(img):
    s = np.zeros((6, 6))
    for i in range(5):
        for j in range(5):
            s[i + 1, j + 1] = img[i, j] + s[i, j + 1] + s[i + 1, j] - s[i, j]
    return s[4, 5] * s[5, 3] - s[2, 2]


@case(r(6, 6), 1.3, 2.4)
def bilinear(img, y, x):
    i = int(y)
    j = int(math.floor(x))
    a = y - i
    b = x - j
    return (
        img[i, j] * (1 - a) * (1 - b)
        + img[i + 1, j] * a * (1 - b)
        + img[i, j + 1] * (1 - a) * b
        + img[i + 1, j + 1] * a * b
    )


@case(r(4, 6))
def maxpool(x):
    out = np.empty((2, 3))
    for i in range(2):
        for j in range(3):
            m = -np.inf
            for a in range(2):
                for b in range(2):
                    if x[2 * i + a, 2 * j + b] > m:
                        m = x[2 * i + a, 2 * j + b]
            out[i, j] = m
    return out


@case(r(5, 5))
def flipped(x):
    y = x[::-1, ::-1]
    z = x[::2, 1::2]
    return (x * y).sum() + z[1, 0] * z[-1, -1] + y[0, 1] ** 2


@case(r(9))
def neg_steps(x):
    s = 0.0
    for i in range(len(x) - 1, 0, -3):
        s += x[i] * x[i - 1]
    y = x[7:1:-2]
    for k in range(len(y)):
        s += y[k] ** 3 * k
    return s


# ---------- dynamic programming
@case(r(5), r(6))
def dtw(a, b):
    n, m = len(a), len(b)
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            c = (a[i - 1] - b[j - 1]) ** 2
            D[i, j] = c + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[n, m]


@case(r(4, 3), r(3, 3), r(3))
def viterbi(em, tr, init):
    v = init + em[0]
    for t in range(1, em.shape[0]):
        nv = np.empty(3)
        for j in range(3):
            best = -1e30
            for i in range(3):
                c = v[i] + tr[i, j]
                if c > best:
                    best = c
            nv[j] = best + em[t, j]
        v = nv
    return v.max()


@case(r(4, 3), r(3, 3), r(3))
def forward_alg(em, tr, init):
    v = init + em[0]
    for t in range(1, len(em)):
        nv = np.zeros(3)
        for j in range(3):
            m = np.max(v + tr[:, j])
            nv[j] = m + math.log(np.sum(np.exp(v + tr[:, j] - m))) + em[t, j]
        v[:] = nv
    return np.log(np.exp(v).sum())


@case(pos(5), np.array([2, 3, 1, 4, 2]), 7)
def knap(val, wt, cap):
    best = np.zeros(cap + 1)
    for i in range(len(val)):
        for c in range(cap, wt[i] - 1, -1):
            t = best[c - wt[i]] + val[i]
            if t > best[c]:
                best[c] = t
    return best[cap]


@case(r(6))
def lis(x):
    L = x.copy()
    for i in range(len(x)):
        for j in range(i):
            if x[j] < x[i] and L[j] + x[i] > L[i]:
                L[i] = L[j] + x[i]
    m = L[0]
    for v in L[1:]:
        m = v if v > m else m
    return m


@case(pos(4, 4))
def floyd(w):
    d = w.copy()
    n = len(d)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] * d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] * d[k, j]
    return d.sum()


# ---------- control flow
@case(0.37, 2.5)
def strings_of_whiles(a, b):
    n = 0
    s = 0.0
    while True:
        n += 1
        a = a * b * (1 - a)
        if n % 3 == 0:
            continue
        s += a
        if n > 7:
            break
    m = 0
    while m < 4:
        m += 1
        if a > 0.5:
            s *= a
            a -= 0.1
            continue
        k = 0
        while k < 5:
            k += 1
            if k == m:
                break
            s += a / k
        else:
            s -= 1.0 * a
    return s


@case(r(8))
def early(x):
    for i in range(len(x)):
        if x[i] < -0.5:
            return x[i] * i
        for j in range(i):
            if x[i] * x[j] > 1.0:
                return x[i] * x[j] + x[j]
    return x.sum()


@case(r(6), 0.3)
def early_tuple(x, t):
    acc = 0.0
    for i, v in enumerate(x):
        acc += v * v
        if acc > 2.0:
            return acc, v, i
    return acc * t, t, -1


@case(r(6))
def cond_expr(x):
    s = 0.0
    for v in x:
        s += (v if v > 0 else -2 * v) if abs(v) < 1.0 else (v * v if v > 0 else 0.0)
    return s


@case(r(5), 0.3)
def and_or(x, t):
    s = 0.0
    i = 0
    while i < len(x) and (x[i] < 1.5 or s < t):
        s += x[i] ** 2 if not (x[i] > 0 and i % 2) else x[i]
        i += 1
    return s * i


@case(r(4))
def chain_cmp(x):
    s = 0.0
    for v in x:
        if -1.0 < v < 0.5:
            s += v * v
        elif 0.5 <= v <= 5:
            s -= v**3
        else:
            s += 1 / v
    return s


@case(2.7)
def newton(c):
    x = 1.0
    while abs(x * x - c) > 1e-12:
        x = 0.5 * (x + c / x)
    return x


@case(r(5))
def try_swap(x):
    a = x.copy()
    for i in range(len(a)):
        for j in range(len(a) - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    s = 0.0
    for k in range(len(a)):
        s += a[k] * (k + 1)
    return s


# ---------- aliasing & views
@case(r(6))
def alias1(x):
    y = x.copy()
    z = y
    z[0] = 5 * x[1]
    return (y * y).sum()


@case(r(4, 4))
def alias_row(x):
    y = x.copy()
    row = y[1]
    row[2] *= 3.0
    row += y[0]
    y[0] = row
    return (y * x).sum()


@case(r(6))
def overlap(x):
    y = x.copy()
    y[1:] = y[:-1] * y[1:]
    y[:-1] += y[1:]
    return (y**2).sum()


@case(r(6))
def overlap_rev(x):
    y = x.copy()
    y[::-1] = y * y
    return y[0] * y[1] + y[5]


@case(r(3, 4))
def transposed(x):
    y = x.T.copy()
    z = y.T
    z[1, 2] = 2 * z[0, 0]
    return (y @ x).sum()


@case(r(8))
def reshape_alias(x):
    y = x.copy()
    m = y.reshape(2, 4)
    s = (m[0] * m[1]).sum()
    y[0] = 3.0
    return s + m[0, 0] * y[1]


@case(r(8))
def reshape_write(x):
    y = x.copy()
    m = y.reshape(2, 4)
    m[1, 2] = m[0, 0] * 2
    return y[6] * y[0] + y.sum()


@case(r(6))
def ravel_write(x):
    y = np.zeros((2, 3))
    y[0] = x[:3]
    y[1] = x[3:]
    f = y.ravel()
    f[4] = f[0] * f[1]
    return (y * y).sum()


@case(r(5))
def slice_of_slice(x):
    y = x.copy()
    v = y[1:4]
    w = v[1:]
    w[0] = v[0] * 2
    v[2] += w[0]
    return (y * np.arange(5.0)).sum()


@case(r(5), r(5))
def in_place_arg(a, b):
    c = a + b
    c *= a
    c /= b * b + 1
    c -= c[0]
    c **= 2
    return c.sum()


@case(r(5))
def swap_names(x):
    a = x * 2
    b = x * x
    for i in range(3):
        a, b = b, a + b
    return (a * b).sum()


@case(r(4))
def cond_array(x):
    if x[0] > 0:
        y = x * 2
    else:
        y = x * x
    y[1] = 0.5 * y[0]
    return y.sum() * x[1]


@case(r(4))
def loop_rebind(x):
    y = x
    for i in range(3):
        y = y * x + i
    return y.sum()


# ---------- tuples, closures, defaults
class P(NamedTuple):
    a: float
    b: np.ndarray
    c: tuple


@case(P(0.5, r(3), (1.5, 2)), r(3))
def named(p, x):
    s = p.a
    for i in range(3):
        s += p.b[i] * x[i] ** p.c[1] * p.c[0]
    q = p._replace(a=s)
    return q.a * p.a


@case((0.3, r(3)), (r(2), (0.1, 0.2)))
def tuples(p, q):
    a, b = p
    (c, (d, e)) = q
    t = (a * d, b[0] * c[1], e)
    u, *rest = t
    return u + rest[0] * rest[1] + sum((a, d, e))


@case(r(4))
def closures(x):
    k = 3.0

    def f(v):
        return v * k

    s = 0.0
    for v in x:
        s += f(v)
        k = k + v * v
    return s


@case(r(4))
def closure_rec(x):
    def g(a, b=2.0):
        return a * b

    h = lambda t: g(t) + g(t, t)
    return h(x[0]) * g(x[1], b=x[2])


C = 2.5
TAB = np.array([1.0, 2.0, 4.0])


def helper(x, k=2, *, scale=1.5):
    return scale * x**k


@case(r(4))
def defaults(x):
    return helper(x[0]) + helper(x[1], 3) + helper(x[2], scale=x[3]) + C * TAB[1] * x[0]


@case(0.4, 3)
def recur_unroll(x, n):
    def p(k):
        s = 1.0
        for i in range(k):
            s *= x
        return s

    return p(n) + p(2 * n)


# ---------- lists
@case(r(6))
def grow(x):
    s = []
    for v in x:
        if v > 0:
            s.append(v * v)
        else:
            s.append(v)
            s.append(2 * v)
    t = 0.0
    for i in range(len(s)):
        t += s[i] * (i + 1)
    return t


@case(r(6))
def stack_list(x):
    s = [1.0]
    for v in x:
        s.append(v * s[-1])
        if len(s) > 3:
            a = s.pop()
            s[-1] += a * a
    return sum(s)


@case(r(5))
def listcomp(x):
    y = [v * v for v in x if v > 0]
    z = [a * b for a, b in zip(x, x[1:])]
    return sum(y) + max(z) + min(y)


@case(r(5))
def list_write(x):
    l = [x[0], x[1], x[2]]
    l[1] = l[0] * l[2]
    l.append(l[1] ** 2)
    m = l
    m[0] = x[4]
    return l[0] * l[1] + l[3]


@case(r(4))
def list_of_tuples(x):
    t = 0.0
    for a, (b, c) in [(x[0], (x[1], 2.0)), (x[2], (x[3], x[0]))]:
        t += a * b * c
    return t


# ---------- fancy indexing
@case(r(6), np.array([3, 1, 1, 5]))
def fancy(x, i):
    y = x[i]
    z = x.copy()
    z[i] += y
    return (y * y).sum() + (z * x).sum()


@case(r(6), np.array([3, 1, 1, 5]))
def fancy_set(x, i):
    z = np.zeros(6)
    z[i] = x[:4]
    return (z * x).sum()


@case(r(6))
def mask(x):
    y = x.copy()
    y[y < 0] = 0.0
    m = x > 0.2
    y[m] *= 2.0
    return (y * y).sum() + x[m].sum() * x[~m].sum()


@case(r(4, 5), np.array([0, 2]), np.array([1, 4]))
def fancy2(x, i, j):
    return (x[i, j] * x[i, 0]).sum() + x[:, j].sum() * x[1, j][0]


@case(r(4, 5))
def newaxis(x):
    a = x[0][:, None] * x[1][None, :]
    return (a - x[:, :, None].sum(0)).sum() + a[1, 2]


# ---------- numpy
@case(r(5), r(5))
def np1(a, b):
    return (
        np.dot(a, b)
        + np.sum(np.maximum(a, b))
        + np.prod(a)
        + np.mean(b) * np.max(a)
        + np.min(b)
        + np.sqrt(np.sum(a**2))
        + np.std(a) * np.var(b)
    )


@case(r(3, 3), r(3))
def np_solve(A, b):
    A = A + 3 * np.eye(3)
    x = np.linalg.solve(A, b)
    return x @ x + np.linalg.det(A) + np.trace(A)


@case(r(5))
def np2(x):
    return (
        np.cumsum(x)[3]
        + np.sort(x)[2] * np.argmax(x)
        + np.clip(x, -0.5, 0.5).sum()
        + np.where(x > 0, x, x * x).sum()
        + np.linalg.norm(x)
    )


@case(r(3), r(3))
def np3(a, b):
    return np.cross(a, b)[1] + np.outer(a, b)[1, 2] + np.concatenate((a, b))[4] + np.stack((a, b))[1, 0]


@case(pos(4))
def np4(x):
    return (
        np.log(x).sum()
        + np.exp(-x).sum()
        + np.sin(x) @ np.cos(x)
        + np.arctan2(x, x[::-1])[0]
        + np.hypot(x[0], x[1])
        + np.power(x, 1.5).sum()
        + np.abs(x - 1).sum()
        + np.log1p(x)[0]
        + np.expm1(x)[1]
        + np.square(x)[2]
    )


@case(r(4, 3))
def np5(x):
    return (
        (x.sum(axis=0) ** 2).sum()
        + x.mean(axis=1)[2]
        + x.max(axis=0)[1]
        + (x - x.mean(0)).std()
        + np.sum(x, axis=1, keepdims=True)[1, 0]
    )


@case(r(5))
def np6(x):
    return (
        np.diff(x)[1] ** 2
        + np.roll(x, 2)[0] * x[1]
        + np.flip(x)[0]
        + np.repeat(x, 2)[3]
        + np.tile(x, 2)[7] * x[0]
    )


@case(pos(5), r(5))
def np7(x, y):
    return (
        np.interp(0.9, np.cumsum(x), y) + np.trapezoid(y, np.cumsum(x)) if hasattr(np, "trapezoid") else 0.0
    )


@case(r(2, 3), r(3, 2))
def matmul(a, b):
    c = a @ b
    c = c @ c
    return c.T @ np.array([1.0, 2.0])


@case(r(4))
def power_cases(x):
    s = 0.0
    for v in x:
        s += v**2 + v**3 - v**0 + (v * v) ** 0.5 + 2.0**v + abs(v) ** v
    return s


@case(r(4))
def div_mod(x):
    s = 0.0
    for v in x:
        s += (v * 3) % 1.0 + v // 0.5 * v + divmod(v, 0.7)[1] + math.fmod(v, 0.3)
    return s


@case(r(4))
def intfloat(x):
    n = 0
    s = 0
    for v in x:
        n = n + int(v * 10)
        s = s + v
        if n > 3:
            s = 1
    return s * 1.0 + n


@case(r(3))
def ints_become(x):
    k = 1
    for i in range(3):
        k = k * x[i]
    return k
