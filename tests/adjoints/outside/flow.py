"""Elimination, queues, strings of loops that are left, functions inside of functions."""

# ruff: noqa

import math
from typing import NamedTuple

import numpy as np

from tests.adjoints.outside import Cases

CASES = Cases(2)
case, r, pos = CASES.case, CASES.r, CASES.pos


@case(r(6))
def w1(x):
    # index recomputed by data
    y = x.copy()
    i = 0
    for k in range(10):
        i = (i * 3 + (1 if y[i] > 0 else 2)) % 6
        y[i] = y[i] * 0.9 + x[k % 6] * 0.1
    return y[i] + y.sum()


@case(r(6))
def w2(x):
    # while over pointer, write behind the read
    y = x.copy()
    lo = 0
    hi = len(x) - 1
    while lo < hi:
        t = y[lo] * y[hi]
        y[lo] = t
        y[hi] = y[hi] + t
        if t > 0:
            lo += 1
        else:
            hi -= 1
    return (y * y).sum()


@case(r(5, 5))
def lu(a0):
    a = a0 + 4 * np.eye(5)
    n = 5
    for k in range(n):
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            a[i, k] = f
            for j in range(k + 1, n):
                a[i, j] -= f * a[k, j]
    d = 1.0
    for k in range(n):
        d *= a[k, k]
    return d


@case(r(4, 4))
def pivot(a0):
    a = a0.copy()
    n = 4
    sgn = 1.0
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            for j in range(n):
                t = a[k, j]
                a[k, j] = a[p, j]
                a[p, j] = t
            sgn = -sgn
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            for j in range(k, n):
                a[i, j] -= f * a[k, j]
    return sgn * a[0, 0] * a[1, 1] * a[2, 2] * a[3, 3]


@case(r(4, 4))
def pivot_rows(a0):
    a = a0.copy()
    n = 4
    for k in range(n):
        p = k + np.argmax(np.abs(a[k:, k]))
        tmp = a[k].copy()
        a[k] = a[p]
        a[p] = tmp
        for i in range(k + 1, n):
            a[i] -= a[i, k] / a[k, k] * a[k]
    return np.diag(a).prod()


@case(r(5))
def chol(x):
    A = np.outer(x, x) + 2 * np.eye(5)
    L = np.zeros((5, 5))
    for i in range(5):
        for j in range(i + 1):
            s = 0.0
            for k in range(j):
                s += L[i, k] * L[j, k]
            L[i, j] = math.sqrt(A[i, i] - s) if i == j else (A[i, j] - s) / L[j, j]
    return L


@case(r(8))
def fft_like(x):
    re = x.copy()
    im = np.zeros(8)
    n = 8
    m = 1
    while m < n:
        for k in range(0, n, 2 * m):
            for j in range(m):
                w = math.cos(math.pi * j / m)
                v = -math.sin(math.pi * j / m)
                a = re[k + j]
                b = im[k + j]
                c = re[k + j + m] * w - im[k + j + m] * v
                d = re[k + j + m] * v + im[k + j + m] * w
                re[k + j] = a + c
                im[k + j] = b + d
                re[k + j + m] = a - c
                im[k + j + m] = b - d
        m *= 2
    return (re**3).sum() + (im**3).sum()


@case(0.3, 1.2)
def bisect(a, b):
    lo, hi = a, b
    fl = lo**3 - 0.5
    for _ in range(3):
        mid = (lo + hi) / 2
        fm = mid**3 - 0.5
        if fl * fm <= 0:
            hi = mid
        else:
            lo = mid
            fl = fm
    return lo - fl / (3 * lo * lo)


@case(r(6))
def queue(x):
    q = [x[0], x[1]]
    head = 0
    out = 0.0
    while head < len(q):
        v = q[head]
        head += 1
        out += v * v
        if abs(v) > 0.3 and len(q) < 9:
            q.append(v * 0.5)
            q.append(v * v * 0.3)
    return out


@case(r(6))
def heap(x):
    h = []
    for v in x:
        h.append(v)
        i = len(h) - 1
        while i > 0 and h[(i - 1) // 2] > h[i]:
            t = h[i]
            h[i] = h[(i - 1) // 2]
            h[(i - 1) // 2] = t
            i = (i - 1) // 2
    return h[0] * h[1] + h[2] * 3


@case(r(4))
def list2(x):
    a = []
    b = []
    for k in range(3):
        a.append(x[k])
        b.append(a[-1] * x[k + 1])
        if b[-1] > 0.2:
            a.pop()
    s = 0.0
    for v in a:
        s += v
    for v in b:
        s *= v
    return s + len(a)


@case(r(3, 4))
def enum_rows(x):
    s = 0.0
    for i, row in enumerate(x):
        for j, (u, v) in enumerate(zip(row, row[::-1])):
            s += u * v * (i + 1) * (j - 1)
        row2 = row * row
        s += row2[i]
    return s


@case(r(3, 4))
def write_rows(x):
    y = x.copy()
    for i, row in enumerate(y):
        row[0] = row[1] * 2
        row *= i + 1
    return (y * x).sum()


@case(r(6))
def aug_idx(x):
    y = np.zeros(4)
    k = 0
    for v in x:
        y[k] += v
        y[k] *= v
        y[(k + 1) % 4] -= y[k]
        k = (k + 3) % 4
    return y


@case(r(6), r(6))
def written_args(x, y):
    for i in range(len(x)):
        x[i] = x[i] * y[i]
        y[-i - 1] += x[i]
    return (x * y).sum()


@case(r(3), r(3))
def swap_written(a, b):
    for i in range(3):
        a[i], b[2 - i] = b[i] * a[i], a[2 - i]
    return a[0] * b[0] + a.sum()


@case(r(5))
def neg_idx(x):
    y = x.copy()
    for k in range(-1, -5, -1):
        y[k] = y[k] * y[k - 1]
    return y[-5] * y[-1] + y[2]


@case(r(7))
def neg_slices(x):
    a = x[-3:]
    b = x[:-3]
    c = x[-2:-6:-2]
    d = x[5::-2]
    return (a * b[:3]).sum() + c[0] * c[1] + (d * d).sum() + x[::-3].sum() ** 2


@case(r(4, 5))
def mixed_slices(x):
    a = x[1:3, ::-2]
    b = x[::-1, 2]
    c = x.T[::2, 1]
    y = a[:, 1:].copy()
    y[:, 0] = b[:2]
    return (y * y).sum() + (c * a[0]).sum()


@case(r(4), 3)
def range_down(x, n):
    s = 1.0
    for i in range(n, -1, -1):
        s = s * x[i] + 1
    for i in range(n, 0, -2):
        s += x[i] * x[i - 1]
    for i in range(0):
        s = 0.0
    return s


@case(r(5))
def loop_var_after(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0.7:
            break
        s += x[i]
    return s * x[i] + i


@case(r(5))
def var_reuse(x):
    i = 2
    s = x[i]
    for i in range(3):
        s += x[i] * i
    for x0 in x:
        s *= 1 + 0.1 * x0
    return s + x[i]


@case(r(5))
def shadow(x):
    sum_ = 0.0
    len_ = len(x)
    max_ = x[0]
    for t in range(len_):
        sum_ += x[t]
        max_ = max(max_, x[t] * sum_)
    return sum_ * max_


@case(r(5))
def bools(x):
    f = False
    n = 0
    s = 0.0
    for v in x:
        g = v > 0
        if g != f:
            n += 1
            s += v * n
        f = g or (f and v < -1)
        s += g * v + (not g) * v * v
    return s * n


@case(r(5))
def minmax(x):
    a = min(x[0], x[1], x[2])
    b = max(x[3], x[4] * 2, 0.1)
    return a * b + min(max(x[0], -0.5), 0.5) + abs(x[1]) + max(x) * min(x)


@case(r(4), r(4))
def where_nan(x, y):
    s = np.where(x > 0, np.sqrt(np.abs(x)), y).sum()
    t = 0.0
    for i in range(4):
        t += math.sqrt(x[i]) if x[i] > 0 else math.exp(x[i])
    return s * t


@case(r(3, 3), r(3, 3))
def chain_mat(a, b):
    c = a
    for i in range(3):
        c = c @ b + a.T
        c = c / np.linalg.norm(c)
    return (c * c * c).sum()


@case(r(3, 3))
def inv_pow(a):
    m = a + 3 * np.eye(3)
    return np.linalg.inv(m).sum() + np.linalg.slogdet(m)[1] + np.linalg.cholesky(m @ m.T)[2, 1]


@case(r(6))
def statistics(x):
    m = x.mean()
    v = ((x - m) ** 2).mean()
    k = ((x - m) ** 4).mean() / v**2
    return k + np.median(x) + np.percentile(x, 50) if False else k + np.median(x)


@case(r(3, 2), r(3, 2))
def pairwise(a, b):
    d = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            d[i, j] = np.sqrt(((a[i] - b[j]) ** 2).sum()) if i != j else 0.0
    return d.min(axis=1).sum() + d.max() + d[0, 1] * d[1, 0]


@case(r(4, 3))
def softmax_ce(z):
    l = 0.0
    for i in range(4):
        p = np.exp(z[i] - z[i].max())
        p /= p.sum()
        l -= math.log(p[i % 3])
    return l


@case(r(5), r(2, 2), 4)
def rnn(x, w, n):
    h = np.zeros(2)
    out = []
    for t in range(n):
        h = np.tanh(w @ h + x[t])
        out.append(h[0] * h[1])
    return sum(out)


@case(r(5), 0.5)
def delayed(x, a):
    buf = np.zeros(3)
    s = 0.0
    k = 0
    for v in x:
        old = buf[k]
        buf[k] = v + a * old + a * buf[k - 1]
        k += 1
        if k == 3:
            k = 0
        s += old * v
    return s + buf.sum()


@case(r(6))
def prefix(x):
    p = np.zeros(7)
    for i in range(6):
        p[i + 1] = p[i] + x[i] * p[i] + x[i]
    return p[-1] * p[3] - p[1:4].sum()


@case(r(4))
def nested_fn(x):
    def outer(a):
        def inner(b):
            return a * b + x[0]

        return inner(a * 2) + inner(x[1])

    return outer(x[2]) * outer(x[3])


@case(r(4))
def fn_args(x):
    def twice(f, v):
        return f(f(v))

    return twice(lambda t: t * t + x[0], x[1]) + twice(math.sin, x[2])


@case(r(4))
def early_in_nested(x):
    def find(lim):
        s = 0.0
        for v in x:
            s += v * v
            if s > lim:
                return s * v
        return -s

    return find(0.5) + find(100.0) + find(1.0) * x[0]


@case(r(4))
def fn_writes(x):
    def put(a, i, v):
        a[i] = v
        return a[i] * 2

    y = x.copy()
    s = y[1] + put(y, 1, x[0]) * y[1]
    put(y[2:], 0, s)
    return (y * y).sum()


@case(r(4))
def fn_returns_array(x):
    def mk(k):
        z = np.zeros(2)
        z[0] = k
        z[1] = k * k
        return z

    a = mk(x[0])
    b = mk(x[1])
    a[0] += b[1]
    return a @ b


@case(r(4))
def fn_returns_view(x):
    def head(a):
        return a[:2]

    y = x.copy()
    h = head(y)
    h[1] = h[0] * 3
    return y.sum() * y[1]


@case(r(4))
def fn_returns_arg(x):
    def same(a):
        return a

    y = x.copy()
    z = same(y)
    z[0] = 2 * y[1]
    return y[0] * y[3]


@case(r(3))
def default_mut(x, n=3, k=(1.0, 2.0)):
    s = 0.0
    for i in range(n):
        s += x[i] * k[i % 2]
    return s * s


@case(r(2, 3, 2))
def three_d(x):
    y = x.copy()
    y[:, 1] += x[:, 0] * x[:, 2]
    y[1, :, 0] = y[0, :, 1]
    return (y.sum(axis=(0, 2)) * np.arange(3)).sum() + y[-1, -1, -1]


@case(r(6))
def const_arrays(x):
    k = np.array([0.25, 0.5, 0.25])
    s = 0.0
    for i in range(1, 5):
        for j in range(3):
            s += (k[j] * x[i + j - 1]) ** 2
    w = np.arange(6) * 0.1
    z = np.linspace(0, 1, 6)
    return s + (w * x * z).sum()


@case(r(5), np.array([2, 0, 1, 4, 3]))
def perm(x, p):
    y = np.empty(5)
    for i in range(5):
        y[p[i]] = x[i]
    z = y[p][p]
    return (z * np.arange(5)).sum() + y[p[p[0]]] ** 2


@case(r(5), np.array([0, 0, 1, 1, 1]))
def segsum(x, g):
    s = np.zeros(2)
    c = np.zeros(2)
    for i in range(5):
        s[g[i]] += x[i]
        c[g[i]] += 1
    m = s / c
    v = 0.0
    for i in range(5):
        v += (x[i] - m[g[i]]) ** 2
    return v * m[0]


@case(np.float64(0.5), 2)
def npf(x, n):
    return x**n + np.exp(x) * n


@case(r(4).astype(np.float64), np.array([True, False, True, True]))
def maskarg(x, m):
    y = np.where(m, x * x, -x)
    return y[m].sum() + x[m][1]


@case(0.7)
def poly(x):
    c = (1.0, -2.0, 0.5, 3)
    s = 0.0
    for a in reversed(c):
        s = s * x + a
    return s


@case(0.7, 0.2)
def assert_raise(x, y):
    assert x > y
    if x < 0:
        raise ValueError("no")
    z = x * y
    if z > 100:
        raise ValueError
    return math.log(x) + z


@case(r(4))
def walrus(x):
    s = 0.0
    i = 0
    while (v := x[i]) < 10 and i < 3:
        s += v * v
        i += 1
    return s + v


@case(r(4))
def aug_all(x):
    a, b, c, d = x
    a += b
    a *= c
    a -= d
    a /= b * b + 1
    b **= 2
    c //= 0.3
    d %= 0.7
    return a * b + c * d


@case(r(4))
def unpack(x):
    a, b, c, d = x
    (a, b), c = (b, a), a * d
    a = b = c * a
    return a + b * d


@case(r(4))
def del_pass(x):
    s = 0.0
    for v in x:
        if v > 0:
            pass
        else:
            s += v
        ...
    return s


@case(r(4))
def while_else(x):
    i = 0
    s = 1.0
    while i < 4:
        if x[i] > 5:
            break
        s += x[i]
        i += 1
    else:
        s *= s
    for v in x:
        if v < -10:
            break
    else:
        s += x[0]
    return s


@case(r(5))
def double_break(x):
    s = 0.0
    for i in range(5):
        for j in range(5):
            if x[i] + x[j] > 1.5:
                break
            if j > i:
                continue
            s += x[i] * x[j]
        else:
            s += 1.0 * x[i]
            continue
        if x[i] < 0:
            break
        s *= 2
    return s


@case(r(5))
def ret_in_while(x):
    i = 0
    while True:
        if i >= len(x):
            return 0.5 * x[0]
        if x[i] > 0.9:
            while x[i] > 0:
                i += 1
                if i == len(x):
                    return x[0] ** 2
            return x[i] * x[i - 1]
        i += 1


@case(r(3, 4))
def zips_in_each_other(m):
    s = 0.0
    for x, (y, z) in zip(m[0], zip(m[1], m[2])):
        s += x * y * z * s + x * y + z
    for i, (j, x) in enumerate(zip(range(5, 0, -1), m[1]), 2):
        s = s * 0.5 + i * x * x * j + m[2, j % 3]
    return s


@case(r(3, 4))
def zipped_and_bound_anew(m):
    x, n, s = m[0] * 1.0, 3, 0.0
    for k, (i, v) in zip(range(n, -1, -1), enumerate(x)):
        x = x * v
        n -= 1
        s += x[i] * k * n
        if s > 50:
            break
    return s + x.sum()
