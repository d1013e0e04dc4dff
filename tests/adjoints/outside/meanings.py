"""What is read before it is written over, the order of assignments, integers among floats, arrays and lists with several names."""

# ruff: noqa

import math
from typing import NamedTuple

import numpy as np

from tests.adjoints.outside import Cases

CASES = Cases(5)
case, r, pos = CASES.case, CASES.r, CASES.pos


@case(r(5))
def lazy1(x):
    y = x * 2
    v = x[1]
    t = (x[0], x[1])
    s = x.sum()
    z = x[:3] * x[1:4]
    x[0] = 5.0
    x[1] = x[0] * x[2]
    return (y * y).sum() + v * t[0] * t[1] + s * s + z.sum() + x[1]


@case(r(5))
def iter_write(x):
    y = x.copy()
    s = 0.0
    for i, v in enumerate(y):
        s += v * v
        y[(i + 1) % 5] += v
    for v in y:
        y[4] = v * 2
        s += v
    return s


@case(r(5))
def zip_write(x):
    y = x.copy()
    s = 0.0
    k = 0
    for a, b in zip(y, y[1:]):
        y[k + 1] = a * b
        k += 1
        s += b
    return s + (y * y).sum()


@case(r(5))
def range_changes(x):
    n = 4
    s = 0.0
    for i in range(n):
        n -= 1
        s += x[i] * n
    return s


@case(r(6))
def mask_order(x):
    m = x > 0
    x[m] = x[m] * 2
    x[m] += 1.0
    x[~m] = 0.5
    x[x > 2] = x[x > 2] ** 2
    return (x * x).sum()


@case(r(5))
def assign_order(x):
    y = x.copy()
    i = 1
    i, y[i] = 3, x[0] * 2
    y[i], i = x[1], 0
    j = y[i] = x[2] * 3
    return (y * np.arange(1.0, 6.0)).sum() * j


@case(r(5))
def assign_order2(x):
    y = x.copy()
    i = 1
    i = 2
    y[i] = y[i - 1] = x[0] ** 2
    y[0], y[1], y[2] = y[2], y[0], y[1]
    y[0], y[1] = y[1] * y[0], y[0]
    return (y * np.arange(1.0, 6.0)).sum()


@case(r(5))
def aug_calls(x):
    y = x.copy()

    def f(i):
        y[i] = y[i] * 3
        return y[i - 1]

    y[2] += f(2)
    y[1] = y[1] + f(1) * y[1]
    s = y[3] * f(3) + y[3]
    return s + (y * y).sum()


@case(r(6))
def inplace_overlap(x):
    y = x.copy()
    y += y[::-1]
    y[1:] += y[:-1]
    y[:-1] *= y[1:]
    y[:] = y[::-1]
    y *= y[0]
    y[2:] = y[2] * 2
    y[:] = y[0] + y * y[1]
    y /= y.sum() ** 2 + 3
    return (y * x).sum()


@case(r(4, 4))
def inplace_2d(x):
    m = x.copy()
    m -= m[0]
    m /= (m**2).sum(1)[:, None] + 1
    m += m.T
    m[:, 0], m[:, 1] = m[:, 1].copy(), m[:, 0].copy()
    m[1:] = m[:-1] * 2
    m[:, 1:] -= m[:, 0][:, None]
    return (m * x * x).sum()


@case(r(4, 4))
def swap_cols(x):
    m = x.copy()
    for i in range(3):
        for j in range(4):
            m[j, i], m[j, i + 1] = m[j, i + 1], m[j, i] * 2
    t = m[0].copy()
    m[0] = m[1]
    m[1] = t
    return (m * x).sum()


@case(r(5))
def int_arrays(x):
    n = np.zeros(5, dtype=np.int64)
    for i in range(5):
        n[i] = int(x[i] * 3)
    y = np.arange(5)
    z = y * x
    w = np.ones_like(y) * 0.5
    return (n * x).sum() + z.sum() + (w * x).sum() + n[0] // 2


@case(r(5))
def int_truncates(x):
    y = np.arange(5)
    y[1] = x[0] * 10
    return y[1] * x[0] + y.sum() * x[1]


@case(r(5))
def int_array_lit(x):
    y = np.array([1, 2, 3])
    y[0] = x[0] * 5
    z = np.full(3, 2)
    z[1] += 3
    return (y * z * x[:3]).sum()


@case(r(5))
def ints_div(x):
    s = 0.0
    for i in range(-4, 5):
        s += (i // 2) * x[i % 5] + (i % 3) * x[(i * 2) % 5] - i / 4 * x[0]
        s += x[i // 3] if i else 0.0
        s += round(i / 3) * x[1] + int(-i / 2) * x[2] + (-i) ** 2 * x[3]
    return s


@case(r(4))
def int_pow(x):
    k = 2
    s = 0.0
    for i in range(4):
        s += x[i] * k**i + (1 << i) * x[0] + (i ^ 3) * x[1] + (i & 1 | 2) * x[2]
    return s + 2**-1 * x[0]


@case(r(4), np.array([1, 2, 0, 3]))
def int_params(x, k):
    s = 0.0
    for i in range(4):
        k[i] += 1
        s += x[k[i] % 4] * k[i]
        if k[i] & 1:
            s *= 1.1
    return s


@case(r(4))
def returns_arg(x):
    x[0] = x[1] * 2
    return x, x[1:], x.sum()


@case(r(4))
def returns_alias(x):
    y = x * x
    z = y[1:3]
    y[1] = x[0]
    return y, z, y


@case(r(4))
def returns_two_views(x):
    y = x * 1.0
    a = y[:2]
    b = y[1:]
    a[1] = 7 * x[3]
    return a, b


@case(r(4))
def bool_math(x):
    b = x > 0
    n = b.sum()
    m = np.count_nonzero(b) if False else 0
    return n * x[0] + (b * x).sum() + (True + b[1]) * x[2] + (x[0] > x[1]) * x[3] + m


@case(r(4))
def any_all(x):
    s = x.sum()
    if np.any(x > 1.0):
        s *= 2
    if np.all(x < 5):
        s += x[0] ** 2
    return s + any([x[0] > 0, x[1] > 0]) * x[2]


@case(r(4))
def signs(x):
    s = 0.0
    for v in x:
        s += (
            np.sign(v) * v * v
            + math.copysign(v * v, -v)
            + abs(v) ** 1.5
            + math.floor(v) * v
            + math.ceil(v)
            + math.trunc(v) * v
        )
    return s


@case(pos(3))
def specials(x):
    return (
        math.erf(x[0])
        + math.gamma(x[1])
        + math.lgamma(x[2])
        + math.atan2(x[0], x[1])
        + math.hypot(x[0], x[2])
        + math.log2(x[0])
        + math.log10(x[1])
        + math.sinh(x[0]) * math.cosh(x[1]) * math.tanh(x[2])
        + math.asin(x[0] / 3)
        + math.acos(x[1] / 3)
        + math.atan(x[2])
        + math.asinh(x[0])
        + math.acosh(x[1] + 1)
        + math.atanh(x[2] / 3)
        + math.erfc(x[0])
        + math.cbrt(x[1])
        if hasattr(math, "cbrt")
        else 0.0
    )


@case(pos(3))
def specials2(x):
    return (
        math.erf(x[0])
        + math.gamma(x[1])
        + math.lgamma(x[2])
        + math.log2(x[0])
        + math.log10(x[1])
        + math.sinh(x[0]) * math.cosh(x[1])
        + math.asin(x[0] / 3)
        + math.acos(x[1] / 3)
        + math.asinh(x[0])
        + math.acosh(x[1] + 1)
        + math.atanh(x[2] / 3)
        + math.erfc(x[0])
        + math.degrees(x[1])
        + math.exp2(x[0])
        + math.pow(x[0], x[1])
        + math.fabs(-x[2])
    )


@case(0.0, 1.5)
def at_zero(x, y):
    return x * math.exp(y) + (x + 1) ** y + x**2 * y + y**x


@case(r(3))
def power_neg(x):
    s = 0.0
    for v in x:
        s += v**-1 + v**-2 + (v**2) ** -0.5 + (-2.0) ** 2 * v + v**3.0
    return s


@case(r(4))
def cond_lazy(x):
    s = 0.0
    for v in x:
        s += math.log(v) if v > 0 else 0.0
        s += v > 0 and math.sqrt(v) or -v
    return s


@case(r(4))
def or_default(x):
    a = x[0] or 1.0
    b = (x[1] > 100) or x[2]
    return a * a + b * x[3]


@case(r(6))
def state_machine(x):
    state = 0
    acc = 0.0
    hold = 0.0
    for v in x:
        if state == 0:
            if v > 0:
                state = 1
                hold = v
            else:
                acc += v
        elif state == 1:
            acc += hold * v
            if v < 0:
                state = 2
            hold = v
        else:
            state = 0
            acc *= 0.5
            hold += v
    return acc + hold * state


@case(r(6))
def undefined_path(x):
    for v in x:
        if v > -10:
            last = v * v
    return last


@case(r(6))
def late_def(x):
    found = False
    for i in range(6):
        if x[i] > 0 and not found:
            best = x[i]
            found = True
        elif found and x[i] > best:
            best = x[i] * best
    return best if found else 0.0


@case(r(6))
def carry_array(x):
    best = x[:2]
    for i in range(0, 5):
        c = x[i : i + 2]
        if c[0] * c[1] > best[0] * best[1]:
            best = c
    return best[0] + best[1] ** 2


@case(r(6))
def carry_array2(x):
    y = x.copy()
    cur = y[:3].copy()
    prev = np.zeros(3)
    for i in range(4):
        nxt = cur * 0.5 + prev * y[i]
        prev = cur
        cur = nxt
        cur[0] = prev[1]
    return (cur * prev).sum()


@case(r(6))
def grid_views(x):
    m = x.copy().reshape(2, 3)
    v = m[:, 1]
    s = v.sum()
    return s * m[0, 1] + (m[::-1] * m).sum()


@case(r(6))
def diag_write(x):
    m = np.zeros((3, 3))
    for i in range(3):
        m[i, i] = x[i]
        m[i, (i + 1) % 3] += x[i + 3]
    d = np.diag(m)
    return (d * d).sum() + np.linalg.det(m) + np.trace(m @ m)


@case(r(3, 3))
def fill_diag(x):
    m = x.copy()
    m[np.arange(3), np.arange(3)] = 1.0
    return (m * x).sum()


@case(r(4))
def accum_list_arrays(x):
    parts = []
    for i in range(3):
        parts.append(x[i] * x[i + 1])
    a = np.array(parts)
    b = np.array([v * 2 for v in parts])
    return (a * b).sum() + np.array([[x[0], x[1]], [x[2], x[3]]]) @ np.array([1.0, 2.0]) @ np.array(
        [x[0], 1.0]
    )


@case(r(4))
def list_mult(x):
    l = [0.0] * 4
    for i in range(4):
        l[i] += x[i] * l[i - 1] + x[i]
    return sum(l) * l[2]


@case(r(4))
def list_slice(x):
    l = [x[0], x[1], x[2]]
    m = [v for v in l]
    m[0] = 3.0
    l.extend([x[3], x[0]])
    return sum(l) * l[-1] + m[0] * m[1]


@case(r(4))
def list_alias(x):
    l = [x[0]]
    m = l
    m.append(x[1])
    l.append(x[2])
    m[0] = x[3]
    return l[0] * m[2] + len(l) * m[1]


@case(r(4))
def list_fn(x):
    def add(l, v):
        l.append(v * v)

    l = []
    for v in x:
        add(l, v)
    return l[0] * l[3] + sum(l)


@case(r(4))
def list_clear(x):
    l = []
    s = 0.0
    for v in x:
        l.append(v)
        if len(l) == 3:
            s += l[0] * l[1] * l[2]
            l.clear()
    for v in l:
        s += v
    return s


@case(r(4))
def list_min(x):
    l = [a * b for a in x for b in x if a > b]
    return max(l) * min(l) + sorted(l)[0] + len(l) * x[0]


class S(NamedTuple):
    x: float
    v: float


@case(S(1.0, 0.5), 5)
def nt_loop(s, n):
    for i in range(n):
        s = S(s.x + 0.1 * s.v, s.v - 0.1 * math.sin(s.x))
        if s.x > 1.2:
            s = s._replace(v=-s.v)
    return s.x * s.v, s


@case((r(3), r(3)), 0.5)
def tuple_arrays(p, k):
    a, b = p
    a[0] = b[1] * k
    p[1][2] += a[0]
    return (a * p[1]).sum() + p[0][0]


@case((1.0, 2.0), (3.0, 4.0))
def tuple_loop(p, q):
    s = 0.0
    for a in p:
        for b in q:
            s += a * b
            p = (b, a)
    for i in range(2):
        s *= p[i]
    return s + len(p + q) * max(p)


@case(r(5), 1.0)
def f_const_branch(x, flag):
    mode = "fast" if len(x) == 5 else "slow"
    if mode == "fast":
        return (x * x).sum() * flag
    return x.sum()


@case(r(5))
def none_arg(x, w=None):
    if w is None:
        w = x * 2
    return (w * x).sum()


@case(r(4))
def global_shadow(x):
    math_ = 2.0
    abs_ = abs(x[0])
    max = x[1] * math_
    return max * abs_


@case(r(8))
def sliding(x):
    s = 0.0
    for i in range(0, 6):
        w = x[i : i + 3]
        s += w.mean() * w.max() - w[::-1][0] + w[w > 0].sum()
    return s


@case(r(8))
def dyn_slice(x):
    lo = 0
    s = 0.0
    while lo < 7:
        hi = min(lo + 1 + (1 if x[lo] > 0 else 2), 8)
        s += x[lo:hi].sum() ** 2
        lo = hi
    return s


@case(r(8))
def slice_clip(x):
    return x[5:20].sum() * x[-20:2].sum() + x[3:1].sum() + x[:-7].sum() * x[-1:].sum() + x[10:].sum()


@case(r(8))
def slice_dynneg(x):
    s = 0.0
    for k in range(1, 4):
        s += x[-k:].sum() * x[:-k].sum() + x[k:-k].sum() ** 2 + x[-k] * x[k - 4]
    return s


@case(r(4, 3))
def axis_neg(x):
    return x[..., -1].sum() + x[:, -1] @ x[:, 0] + np.sum(x, axis=-1)[-1] ** 2 + x[-1, -2] * x[-1][-1]


@case(r(3, 4))
def argmax_use(x):
    s = 0.0
    for i in range(3):
        k = np.argmax(x[i])
        j = x[:, k].argmin()
        s += x[i, k] * x[j, k]
    o = np.argsort(x[0])
    return s + x[0][o][1] * x[1][o[0]]


@case(r(4))
def early_ret_types(x):
    if x.sum() > 100:
        return 0
    for v in x:
        if v > 50:
            return 1
    return x.prod()


@case(r(4))
def many_returns(x):
    a = x[0]
    if a > 1:
        return a, a * a
    if a > 0:
        if x[1] > 0:
            return x[1] * a, x[2]
        return x[1], a
    return x[3], a**3


@case(r(3), r(3), 1e-3)
def implicit(x, y, tol):
    z = np.zeros(3)
    it = 0
    while it < 50:
        zn = np.tanh(0.3 * z + x * y)
        d = np.abs(zn - z).max()
        z = zn
        it += 1
        if d < tol * 1e-9:
            break
    return z
