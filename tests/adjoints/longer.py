"""Programs whose turns, or branches, make arrays longer or shorter; `test_constructs.py` runs them."""


# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np


def pyramid(x, a):
    z = x * 1.0
    while len(z) > 1:
        z = z[1:] * z[:-1] + a
    return z[0]


def halves(x):
    z = x * 1.0
    while len(z) > 1:
        z = 0.5 * (z[0::2] + z[1::2]) ** 2
    return z[0]


def minors(m):
    z = m.copy()
    while z.shape[0] > 1:
        z = z[1:, 1:] * z[:-1, :-1] - z[:-1, 1:] * z[1:, :-1]
    return z[0, 0]


def product_of_roots(x, a):
    p = np.array([a])
    for r in x:
        p = np.convolve(p, np.array([1.0, -r]))
    return p @ p


def levels(x, a):
    z = np.ones(1)
    for k in range(1, 4):
        new = np.zeros(k + 1)
        for i in range(k):
            new[i] += z[i] * x[k]
            new[i + 1] += z[i] + a
        z = new
    return z.sum() * z[0]


def as_long_as_a_turn_says(x, a):
    for k in range(1, 4):
        z = np.empty(k)
        for i in range(k):
            z[i] = x[i] * a * k
    return z.sum() * z[-1]


def longer_in_a_branch(x, a):
    z = x
    if a > 0.0:
        z = np.append(z, a * a)
    if a > 5.0:
        z = z[1:]
    return z @ z


def longer_in_branches_of_loops(x, a):
    p = np.array([a])
    for r in x:
        if r > 0.35:
            p = np.append(p, p[-1] * r)
        for j in range(2):
            p = np.append(p, p[j] * r)
    return p @ p


def longer_from_nothing(x, a):
    z = np.empty(0)
    for v in x:
        if v > 0.0:
            z = np.append(z, v * a)
    return (z * z).sum() * len(z)


def rows_below_each_other(x, m):
    z = np.empty((0, 4))
    for i in range(3):
        z = np.vstack((z, x * m[i, 0]))
    return (z * z).sum() * z[1, 1]


def shorter_or_left(x, a):
    z = x * 1.0
    s = 0.0
    while len(z) > 1:
        if z[0] > a:
            z = z[1:]
            continue
        z = z[:-1] * z[1:]
        s += z.sum()
        if s > 40.0:
            break
    return s + z[0]


def as_long_as_it_takes(x):
    z = x * 1.0
    while z[0] < 3.0:
        z = np.append(z * 1.5, z[0])
    return z[-1] * z[2]


def what_holds(x):
    z = x[x > 0.0]
    for _ in range(2):
        z = z[z < 1.0] * 1.1
    return z.sum() * z[0]


def _longer(v, c):
    if c > 0.4:
        v = np.append(v, c * c)
    return v


def longer_by_a_function(x):
    z = x
    for i in range(4):
        z = _longer(z, x[i])
    return z @ z


def kept_beside(x, a):
    z = x * 1.0
    q = z
    while len(z) > 1:
        q = z
        z = z[1:] * z[:-1] + a
    return z[0] * q[1]
