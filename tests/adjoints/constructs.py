"""Functions as users write them, each for a construct or two; `test_constructs.py` compares their gradients with differences."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa: E731

import math
from typing import NamedTuple

import numpy as np


class State(NamedTuple):
    pos: np.ndarray
    vel: np.ndarray
    mass: float


class Pair(NamedTuple):
    a: float
    b: float = 3.0


GAIN = 2.5


def append_list(x):
    found = []
    for i in range(len(x)):
        if x[i] > 0.2:
            found.append(x[i] * x[i])
    s = 0.0
    for v in found:
        s += math.sin(v)
    return s + len(found)


def append_index(x):
    path = [0.5]
    for i in range(len(x)):
        path.append(path[-1] * x[i] + 0.1)
    return path[2] * path[-1] + path[len(path) - 2]


def list_comp(x):
    sq = [v * v for v in x]
    return sum(sq) + sq[1]


def list_comp_range(x):
    sq = [x[i] * i for i in range(len(x))]
    return sq[0] + sq[-1]


def list_repeat(x):
    acc = [0.0] * len(x)
    for i in range(len(x)):
        acc[i] = x[i] * 2.0
    return acc[0] * acc[3]


def list_pop(x):
    stack = [x[0]]
    total = 0.0
    while len(stack) > 0:
        v = stack.pop()
        total += v * v
        if v < 3.0 and len(stack) < 4 and v > 0.1:
            stack.append(v * 0.7 - 0.1)
    return total


def nested(x, a):
    def scaled(v):
        return a * v * v

    s = 0.0
    for v in x:
        s += scaled(v)
    return s


def lambda_inside(x, a):
    f = lambda v, w=2.0: a * v + w
    return f(x[0]) * f(x[1], 3.0)


def nested_closure_changes(x, a):
    def g(v):
        return v * s

    s = 1.0
    total = 0.0
    for v in x:
        s = s * a
        total += g(v)
    return total


def state_tuple(s: State, dt):
    pos, vel = s.pos.copy(), s.vel.copy()
    for _ in range(3):
        for i in range(len(pos)):
            vel[i] -= dt * pos[i] / s.mass
            pos[i] += dt * vel[i]
    return np.sum(pos * pos)


def makes_state(x, dt):
    s = State(x.copy(), np.zeros(len(x)), 2.0)
    for _ in range(3):
        s.vel[:] -= dt * s.pos / s.mass
        s.pos[:] += dt * s.vel
    return s.pos[0] * s.pos[1]


def replaced(x):
    p = Pair(x[0], x[1])
    for i in range(3):
        p = Pair(p.b, p.a * x[i])
    p = p._replace(a=p.a * 2.0)
    return p.a + p.b * p.b


def while_array(x):
    y = x.copy()
    n = 0
    while np.sum(y * y) > 0.5 and n < 50:
        for i in range(len(y)):
            y[i] = 0.7 * math.sin(y[i])
        n += 1
    return np.sum(y) + n


def rebind_in_loop(x, n):
    y = x.copy()
    for _ in range(n):
        y = 0.5 * y + np.sin(y) * x
    return np.sum(y)


def swap_arrays(x, n):
    a = x.copy()
    b = np.zeros_like(x)
    for _ in range(n):
        for i in range(len(a)):
            b[i] = a[i] * 0.5 + 0.1 * a[i - 1]
        a, b = b, a
    return a[0] * a[1]


def fancy_read(x, k):
    return np.sum(x[k] ** 2)


def fancy_write(x, k):
    y = np.zeros(6)
    y[k] = x[: len(k)] * 2.0
    return y[0] * y[3] + y[2]


def fancy_2d(m, k):
    return np.sum(m[k] * 2.0) + np.sum(m[:, k] ** 2)


def neg_step(x):
    return np.sum(x[::-1] * x[1:3][::-1][0]) + x[-1:0:-2][0]


def interp(x, k):
    xp = np.linspace(0.0, 1.0, 4)
    return np.interp(0.3 * x[0] + 0.2, xp, x)


def interp_array(x):
    xp = np.linspace(0.0, 1.0, 4)
    return np.sum(np.interp(x * 0.3 + 0.1, xp, x))


def searching(x):
    k = np.searchsorted(np.array([0.0, 0.5, 1.0]), x[1])
    return x[k] * x[np.argmin(x)] + np.min(x)


def solving(m, x):
    return np.sum(np.linalg.solve(m, x[:3]) ** 2)


def solving_matrix(m):
    return np.sum(np.linalg.solve(m, np.eye(3) * 2.0) ** 2)


def inverse(m):
    return np.trace(np.linalg.inv(m) @ m.T)


def determinant(m):
    return np.linalg.det(m) * np.linalg.det(m[:2, :2])


def chol(m):
    c = np.linalg.cholesky(m @ m.T + np.eye(3))
    return np.sum(c * c[0, 0]) + np.log(np.diag(c)).sum()


def newaxis(x):
    return np.sum((x[:, None] - x[None, :]) ** 2)


def newaxis2(x):
    d = x[:, np.newaxis] * np.ones(3)
    return np.sum(d * d)


def for_else(x):
    for v in x:
        if v > 100.0:
            r = v
            break
    else:
        r = x[0] ** 2
    return r


def star_call(x):
    t = (x[0], x[1])
    return max(*t) * 2.0


def tuple_index(x):
    t = (x[0], x[1], x[2])
    s = 0.0
    for i in range(3):
        s += t[i] * t[i]
    return s


def break_over_tuple(x):
    s = 0.0
    for v in (x[0], x[1], x[2]):
        if v > 0.9:
            break
        s += v
    return s


def gen_sum(x):
    return sum(v * v for v in x)


def gen_max(x):
    return max(v * v for v in x)


def np_stack(x):
    m = np.stack((x, x * 2.0))
    return np.sum(m[1] * x)


def np_concat(x):
    y = np.concatenate((x, x[:2] * 3.0))
    return np.sum(y * y)


def axis_ops(m):
    return np.sum(np.max(m, axis=1)) + np.sum(np.mean(m, axis=0) ** 2)


def keepdims(m):
    return np.sum(m / np.sum(m, axis=1, keepdims=True))


def broadcast(m, x):
    return np.sum((m - x[:3]) ** 2)


def prod_axis(m):
    return np.sum(np.prod(m, axis=1))


def any_all(x):
    if np.any(x > 0.5) and not np.all(x > 0.5):
        return np.sum(x * x)
    return x[0]


def elif_chain(x):
    a = x[0]
    if a < 0:
        r = a
    elif a < 1:
        r = a * a
    else:
        r = a**3
    return r


def chained(x):
    return x[0] if 0.0 < x[1] < 2.0 else x[2]


def in_tuple(x):
    s = 0.0
    for i in range(4):
        if i in (1, 3):
            s += x[i] ** 2
    return s


def enumerate_2d(m):
    s = 0.0
    for i, row in enumerate(m):
        for j, v in enumerate(row):
            s += v * (i + 2 * j)
    return s


def norm_axis(m):
    return np.linalg.norm(m) + np.linalg.norm(m[0])


def swap_rows(m):
    m = m.copy()
    m[[0, 1]] = m[[1, 0]]
    return m[0, 0] * m[1, 1] ** 2


def closure_const(x):
    return x[0] * GAIN


def poly(x):
    return np.polyval(x, 2.0) if False else np.dot(x, np.power(2.0, np.arange(4)))


def method_chain(m):
    return m.T.copy().sum(axis=0).max()


def zeros_shape(x):
    a, b = 2, 2
    m = np.zeros((a, b))
    m[0, :] = x[:2]
    m[1] = x[2:]
    return (m @ m.T).trace()


def int_arrays(x):
    k = np.zeros(3, dtype=np.int64)
    for i in range(3):
        k[i] = (i * 2) % 3
    return x[k[1]] * x[k[2]]


def early_return_in_while(x):
    i = 0
    while True:
        if i >= len(x):
            return x[0]
        if x[i] > 0.8:
            return x[i] ** 2
        i += 1


def list_of_places(x):
    places = [0]
    for i in range(1, len(x)):
        if x[i] > x[places[-1]]:
            places.append(i)
    s = 0.0
    for k in places:
        s += x[k] ** 2
    return s


def list_in_a_loop(x):
    total = 0.0
    for i in range(1, len(x)):
        seen = []
        for j in range(i):
            if x[j] < x[i]:
                seen.append(x[j] * x[i])
        total += sum(seen) * len(seen)
    return total


def list_emptied(x):
    seen = [x[0], 2.0]
    seen.clear()
    seen.extend(x[1:])
    seen.append(seen[0] * 3.0)
    return seen[-1] * seen[1]


def two_comprehensions(m):
    return sum([v * (i + 1) for i, row in enumerate(m) for v in row if v > 0.25])


def function_of_functions(x, a):
    def scaled(f, v):
        return a * f(v)

    def cube(v):
        return v**3 + x[0]

    return scaled(cube, x[1]) + scaled(lambda v: v * a, x[2])


def inner_with_loop(x, a):
    def power(v, n=3):
        p = 1.0
        for _ in range(n):
            p *= v * a
        return p

    return power(x[0]) + power(x[1], n=2) * power(v=x[2])


def inner_reads_what_a_loop_sets(x):
    def last():
        return held * 2.0

    s = held = 0.0
    for i in range(3):
        if i > 0:
            s += last()
        held = x[i] ** 2
    return s


def shadowed_in_comprehension(x):
    v = x[0]
    s = sum(v * v for v in x[1:])
    return s * v


def array_in_a_branch(x, a):
    y = x * 2.0
    if a > 0.5:
        y = np.sin(y) * x
    return np.sum(y * y)


def array_anew_of_a_parameter(x, n):
    for _ in range(n):
        x = 0.5 * x * x
    return np.sum(x)


def array_anew_inside_of_loops(x, n):
    total = 0.0
    for i in range(n):
        y = x * (i + 1.0)
        for _ in range(2):
            y = y - 0.1 * y * y
        total += np.dot(y, y)
    return total


def while_array_anew(x):
    y = x.copy()
    while np.max(np.abs(y)) > 0.3:
        y = 0.6 * y
        y[0] = y[0] * 0.9
    return np.dot(y, x)


def matrix_anew(m, n):
    p = np.eye(3)
    for _ in range(n):
        p = p @ m
    return np.trace(p)


def while_else(x):
    i = 0
    while i < 3:
        if x[i] > 5.0:
            break
        i += 1
    else:
        return x[i] * 2.0
    return x[0]


def keepdims_of_max(m):
    e = np.exp(m - m.max(axis=1, keepdims=True))
    return np.sum(e / e.sum(axis=1, keepdims=True) * m)


def not_in_a_tuple(x):
    s = 0.0
    for i in range(4):
        if i not in (0, 2):
            s += x[i] ** 2
    return s


def diagonals(m):
    return np.sum(np.diag(np.diag(m)) @ m) + m.trace()


def value_that_turns_carry(x):
    y = x[0]
    while abs(y * y - x[1]) > 1e-12:
        y = 0.5 * (y + x[1] / y)
    return y


def places(m):
    s = 0.0
    for i, j in np.ndindex(m.shape):
        if i == 2 and j == 1:
            break
        s = s * 0.9 + m[i, j] * m[j, i] * (i + 1)
    for (i, j), v in np.ndenumerate(m.T):
        s = s * 0.5 + v * v * (i - j)
    for at in np.ndindex(0, 3):
        s *= m[at[0], at[1]]
    return s


def flat_elements(m):
    s = 0.0
    for v in m.T.flat:
        s = s * 0.5 + v * v
    return s * m.flat[3]


def array_beside_a_tuple(x):
    s = 0.0
    for v, w in zip(x, (1.0, 2.0, 3.0)):
        s = s * v + w
    return s


def last_value_of_a_flat_array(m):
    s = 0.0
    for v in m.ravel():
        s += v * v
    m = m.copy()
    for (i, _), v in np.ndenumerate(m):
        m[2, 2] += v * m[i, 0]
    return s * m[2, 2]


def backwards_beside(x):
    s = 0.0
    for i, v in zip(reversed(range(4)), x):
        s = s * v + i * x[i]
    for v, w in zip(x, reversed(x)):
        s += v * w * w
    return s


def field_by_default(a):
    p = Pair(a)
    return p.a * Pair(b=p.b + a, a=p.b).b


def backwards(x, m):
    s = 0.0
    for v in reversed(x):
        s = s * 0.5 + v
    for r in reversed(m):
        s = s * 0.5 + r @ r
    for v in reversed((x[0], x[1] * s)):
        s += v * s
    return s


def backwards_until(x):
    s = 0.0
    for k, v in enumerate(reversed([p * p for p in x])):
        s = s * 0.5 + v * k
        if s > 1.0:
            break
    return s


def in_their_order(x, a):
    z, w = sorted(x), sorted([a, x[0], x[2]], reverse=True)
    return z[0] * z[1] ** 2 + w[0] * w[2] ** 2 + len(z)


def unpacked_in_a_list(x, a):
    z = [*x, a, *x[1:]]
    held = [a, *z]
    held.append(z[2] * a)
    return z[4] * z[1] * len(z) + held[-1] * np.array([*x, a]).sum() + held[0] * held[3]


def asked_first(x, a):
    s = a if all(v > -1.0 for v in x) and a > 0.0 else 0.0
    return s * a if any(v > 1.0 for v in x) else s


def set_where_it_is_asked(x, a):
    if (y := a * x[0]) > 0.2:
        y = y * y
    return y + (z := x[1] * y) * z


def rows_of_tuples(x, m, a):
    o = np.zeros((4, 3))
    for k in range(2):
        o[k, :] = x[k], a * x[k + 1], m[k, 0] * a
    o[2] = (a * a, x[0], 1.0)
    o[3, ::2] = [o[0, 1] * a, 2]
    o[1:3, :2] = ((x[0], o[1, 0]), (1, a))
    o[0, 1:] = o[0, 2], o[0, 1]
    return np.sum(o * o * o) + o[3, 2]
