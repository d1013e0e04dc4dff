"""Functions as users write them, for what puts elements elsewhere and for names that are bound anew; `test_constructs.py` runs them."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math

import numpy as np

TABLEAU = np.array([[0.0, 0.0], [0.5, 0.0]])
PLACES = np.array([2, 0])


def forward_algorithm(x, m):
    alpha = x[:3]
    for _ in range(2):
        new = np.empty(3)
        for k in range(3):
            s = alpha + m[:, k]
            top = s.max()
            new[k] = top + np.log(np.exp(s - top).sum())
        alpha = new
    return alpha[0] + 2.0 * alpha[1]


def kept_and_bound_anew(x, n):
    y = x
    total = 0.0
    for _ in range(n + 1):
        before = y
        y = np.cos(y) + 0.1 * before
        total += np.sum((y - before) ** 2)
    return total


def bound_anew_then_written(x, n):
    y = x
    for _ in range(n):
        y = y + 0.1 * np.tanh(y)
        y[0] = 0.5 * y[1]
    return np.sum(y**3)


def _moved(q, v, dt):
    return q + dt * v, v - dt * np.sin(q)


def pair_bound_anew(x, dt):
    q, v = x, x * 0.5
    for _ in range(3):
        q, v = _moved(q, v, dt)
    return np.sum(q * v)


def name_of_rows(m, n):
    row = m[0]
    s = 0.0
    for i in range(1, n + 1):
        row_after = m[i]
        s += row[0] * row_after[1] + row[2] ** 2
        row = row_after
    return s


def sequence_bound_anew(x):
    s = 0.0
    y = x.copy()
    for i, v in enumerate(y):
        s += v**2 * (i + 1)
        y = y * 0.5
    return s + y[0]


def _shortened(g, a):
    n = np.sqrt(np.sum(g * g))
    if n < a:
        return g
    return g * (a / n)


def one_of_two_arrays(x, a, n):
    y = x.copy()
    for _ in range(n):
        y = y - 0.1 * _shortened(2.0 * y, a)
    z = y if a > 10.0 else y[1:]
    return np.sum(z * z)


def tables_of_the_module(x, dt):
    k = np.zeros(2)
    for i in range(2):
        y = x[0]
        for j in range(i):
            y += dt * TABLEAU[i, j] * k[j]
        k[i] = math.sin(y)
    return k[1] * x[PLACES[0]]


def reshaped(x):
    m = x.reshape(2, 2)
    flat = (m.T * 2.0).ravel()
    return np.sum(m @ m) + flat[1] * m[1, -1] + x.reshape((4, -1)).sum()


def taken_by_masks(x, a):
    m = (x > 0.0) & (x < a + 0.2)
    z = np.zeros(4)
    z[m] = x[m] ** 2
    z[~m] += 2.0 * x[~m]
    return np.sum(z**2) + x[np.where(x > 0.4)[0]].prod()


def changed_at_indices(x, k):
    y = x.copy()
    y[k] += x[:3] * 2.0
    y[k] *= x[0]
    return np.sum(y**2)


def changed_at_equal_indices(x):
    y = x.copy()
    y[np.array([1, 1])] += x[2:]
    return np.sum(y**2)


def in_order(x):
    y = x.copy()
    y.sort()
    return y[0] * y[3] ** 2 + x[np.argsort(x)[1]] ** 3


def shares_of_an_order(x):
    return np.median(x) * np.percentile(x, 30)


def steps_of_ranges(x, n):
    s = 0.0
    for i in range(0, 4, n):
        s += x[i] ** 2
    for i in range(3, -1, -n):
        s += x[i] * i * s
    for t in np.arange(0.0, 1.0, 0.4):
        s += t * x[1]
    return s


def side_by_side(x, m):
    v = np.column_stack((x[:3], x[1:]))
    h = np.hstack((m, v))
    return np.sum(h**3) + np.concatenate((m, v), axis=1)[2, 4] * np.vstack((x, x * x))[1, 2]


def running(x):
    return np.cumprod(x)[2] * np.cumsum(x > 0)[3] + np.linspace(x[0], 1.0, 1)[0] + np.diff(PLACES)[0] * x[1]


def signed_log_of_determinant(m):
    sign, log = np.linalg.slogdet(m)
    return sign * log + np.sum(np.convolve(m[0], m[1]) ** 2) + np.logaddexp(m[0, 0], m[1, 1])


def second_derivatives_of_gammas(x, a):
    return math.lgamma(a + x[0] ** 2) * math.gamma(1.5 + x[1])


def remainders(x, a):
    return math.fmod(x[0], 0.3) * a + np.mod(x[3], a) ** 2


def rows_that_are_views(m):
    m = m.copy()
    m[0], m[1] = m[1], m[0]  # both are then what the second was
    w, (u, v) = m[2], (m[2, 1:], 2.0)
    u[0] = v * w[2]
    return np.sum(m[1] * m[2]) * w[1]


def rows_from_one_another(m):
    m = m.copy()
    for _ in range(3):
        m[0], m[1] = m[1] + 0.5 * m[0], np.sin(m[0]) * m[2]
    return np.sum(m[0] * m[1])


def several_targets(x):
    y = z = x * 2.0
    y[0] = x[1]
    y[1] = a = y[2] = y[1] * y[2]
    return z[0] * z[2] + a * y[1]


def index_that_writes(x):
    x = x.copy()
    x[_doubled(x)] = x[0]
    return x[0] * x[1] ** 2


def _doubled(x):
    x[0] *= 2.0
    return 1


def starred(x, n):
    a, *b = x[0], x[1], x[2]
    for _ in range(n):
        a, *b = b[0], a * b[1], a
    *c, d = b
    e, *none = c
    return a * b[0] * d + e * (len(none) + 2.0)


def filled_diagonals(m, a):
    m = m.copy()
    np.fill_diagonal(m[:2], a)
    y = m * 2.0
    np.fill_diagonal(y.T, y[0])
    return np.sum(y**2) + np.sum(m**3)


def tiled(x, n):
    y = np.tile(np.tile(x, n), (2, 1))
    z = np.tile(x.reshape(2, 2), (2, 1, 3))
    w = np.tile(x[::-1], (3,))
    return np.sum(y[1] ** 2 * w[:8]) + z[1, 0, 4] * y[0, 5] + z.shape[0] * z[0, 1, 1]


def cardinal_sines(x, a):
    return np.sum(np.sinc(x)) * np.sinc(a) + np.sinc(0.01 * x[0]) + np.sinc(x[1] - x[1])


def over_several_axes(m):
    t = np.empty((2, 3, 3))
    t[0], t[1] = m, m**2
    centred = t - t.mean(axis=(0, -1), keepdims=True)
    s = t.sum((0, 2)) * np.max(t, axis=(2, 0)) + np.prod(m, axis=(1, 0))
    return (
        np.sum(centred**3) + s[0] * s[1] + t.min(axis=(0, 1, 2)) + np.any(t > 1.0, axis=(0, 1))[1] * m[0, 0]
    )


def differences_of_differences(x, m):
    by_rows = np.diff(m, 2)
    return (
        np.sum(np.diff(x, n=2) ** 3)
        + by_rows[1, 0] * np.diff(m)[2, 1]
        + np.diff(x, 0)[3] * np.sum(np.diff(x[:1]))
    )


def _until_large(m, n):
    for i in range(3):
        if m[i, i] > 1.6 and n == 2:
            return m[i]
    if n == 3:
        while True:
            m = m @ m
            if m[0, 0] > 20.0:
                return m[1] * 0.1
    for i in range(3):
        for j in range(3):
            if m[i, j] < 0.0:
                return m[i] * m[j, i]
    return m[2]


def arrays_that_loops_return(m):
    s = 0.0
    for n in range(2, 5):
        s = s * 0.5 + np.sum(_until_large(m, n) ** 2) * n
    return s + np.sum(_until_large(m**2, 4) ** 3)


def _place(x, a):
    for i in range(len(x)):
        if x[i] > a:
            return i, x[i:], (x[i] ** 2, x)
    return -1, x * 2.0, (a, x[1:])


def arrays_beside_numbers_that_a_loop_returns(x, a):
    (i, y, (s, z)), (j, v, (t, w)) = _place(x, a), _place(x, 10.0)
    return y[1] * s * z[0] + v[0] * t * w[1] + i * x[0] + j * x[1]


STAGES = ((0.0, 0.0), (0.5, 0.0))


def table_of_tuples(x, a):
    steps = ((a, 1), (x[0], 3))
    s = 0.0
    for i in range(2):
        for j in range(i + 1):
            s += STAGES[i][j] * x[j] + steps[i][0] * steps[i][1]
        weight, k = steps[i]
        s += weight * x[int(k)]
    return s


def lists_as_conditions(x):
    left = [0]
    s = 0.0
    while left and s < 100.0:
        k = left.pop()
        s += x[k] * (k + 1)
        if not left and 2 * k + 2 < 4:
            left.append(2 * k + 1)
            left.append(2 * k + 2)
    return s


def lists_that_are_copied(x):
    found = [x[0]]
    for v in x:
        found.append(v * v)
    last, all_of_them, kept = found[-2:], found.copy(), np.array(found)
    found.sort()
    found[0] = 3.0
    found.append(x[2])
    return last[0] * all_of_them[0] * len(all_of_them) + found[1] * kept[4] + len(kept) + sum(found[3:])


def list_by_another_name(x):
    found = [x[0]]
    for k in range(1, 4):
        found.append(x[k] * x[k - 1])
    also = found  # which is as long as it will be
    also[-1] = also[0] * found[1]
    return sum(also) + len(also) * found[-1] + also[2]


def written_by_ufuncs(x, a):
    o = np.empty_like(x)
    np.multiply(x, a, o)
    np.exp(o, out=o)
    np.add(o[1:], o[:-1], out=o[1:])
    z = np.maximum(o, x, out=(o,))
    np.multiply(o[::-1], o, o)
    big = np.empty(4, np.bool_)
    np.greater(x, 0.4, out=big)
    return np.sum(z * x) + np.sum(o[big])


def written_by_sums(m):
    o, p = np.empty(3), m.copy()
    m = m.copy()
    np.sum(m, axis=0, out=o)
    np.cumsum(o * o, out=o)
    np.dot(p, m, out=p)
    np.matmul(m, p, m[:, :])
    return np.sum(p * m) + np.sum(np.clip(o, -5.0, 5.0, out=None) * o)


def read_before_ufuncs_write(x, a):
    o, y = x.copy(), x * a
    s = o[0] * np.sum(np.add(x, y, out=o)) + o[1] * np.multiply(o, o, o)[1]
    return s + np.sum(o) * np.dot(o, o)


def added_at_indices(m, k):
    m, v, k = m.copy(), m[0] * m[1], k % 3
    at = np.array([1, 1, 2])
    np.add.at(m, (k, at), v * v)
    np.subtract.at(m, k, m[0] * 2.0)
    np.multiply.at(m, (0, at), v)
    np.add.at(m[1], at, v)
    np.add.at(m, (0, 1), v[0])
    np.add.at(m, m > 1.0, 0.5 * v[1])
    return np.sum(m * m)


def grids(x, a):
    p, q = np.meshgrid(x, x[:3] * a)
    r, t = np.meshgrid(x[:2], x, indexing="ij")
    return np.sum(p * q * q) + np.sum(p[:2, 1] * r[:, 0] * t[0, 1])


def norm_of_nothing(x, a):
    s = 0.0
    for i in range(4):
        for j in range(4):
            s += math.exp(-a * np.linalg.norm(x[i : i + 1] - x[j : j + 1]) ** 2) * x[i]
    return s


def integers_at_most(x, k, n):
    return np.sum(x[np.minimum(k, n)] * x[np.maximum(k - 1, 0)])
