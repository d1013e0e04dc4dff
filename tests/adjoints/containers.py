"""What holds other values, and what asks for some of them; `test_constructs.py` compares the gradients with differences."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math

import numpy as np


def sums_of_some(m, x):
    rows = np.sum(m, axis=0, where=m > 0.25)
    logs = np.min(np.log(np.abs(x)), where=x > 0.4, initial=5.0)
    means = np.mean(m, axis=1, where=m < 1.6)
    return rows @ means + logs * np.prod(m, where=m > 1.0) + x.max(initial=0.3) + np.sum(m, initial=2.0)


def roots_of_some(x):
    return np.sum(np.sqrt(np.abs(x) * (x > 0.0)), where=x > 0)


def set_in_a_test(x, a, n):
    k, s = 0, 0.0
    while k < n and (d := x[k] * a) > -1.0:
        s += d * d
        k += 1
        if k == 1:
            continue
        s += d
    else:
        s *= 2.0
    return s


def newton(a):
    x = a
    while (off := x * x - a) > 1e-12 or off < -1e-12:
        x -= off / (2.0 * x)
    return x


def comprehension_in_a_test(x, a):
    s = a
    while sum([s * abs(v) for v in x]) > 0.1:
        s *= 0.5
    return s * x[0]


def slices_with_names(m):
    tail, head = slice(1, None), slice(None, -1, 1)
    y = m.copy()
    y[:, tail] -= m[:, head]
    both = (tail, slice(0, 2))
    return np.sum(y[both] ** 2) + np.sum(m[0, slice(2)])


def stars(x, a):
    def inner(p, q, r, s):
        return p * q + r * s

    three = np.array([a, x[0], 2.0])
    listed = list(x)
    total = (
        inner(*x)
        + inner(a, *three)
        + inner(*(a, 2.0), *three[:2])
        + max(*x)
        + min(*three)
        + math.hypot(*x[1:])
    )
    return total + listed[1] * len(listed) + sum(tuple(three))
