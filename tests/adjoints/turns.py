"""Programs whose turns hand on arrays: alone, in tuples, and first bound in a loop."""

# ruff: noqa: F821, F841 (what a turn sets and a later one reads)
import math
from typing import NamedTuple

import numpy as np


class Best(NamedTuple):
    x: np.ndarray
    cost: float


def states_in_a_tuple(x, n):
    state = (x, x * x)
    for _ in range(n):
        moved = state[0] + 0.1 * state[1]
        state = (moved, state[1] - 0.1 * np.sin(moved))
    return np.sum(state[0] * state[1])


def a_state_that_is_unpacked(x, n):
    v = x * 0.5
    state = ((x, v), 1.0)
    for _ in range(n):
        (x, v), t = state
        state = ((x + 0.1 * v * t, v - 0.1 * x), t * 1.1)
    (x, v), t = state
    return np.sum(x * v) * t


def a_named_state(s, n):
    for _ in range(n):
        s = s._replace(pos=s.pos + 0.1 * s.vel, mass=s.mass * 0.9)
        if s.pos[0] > 0.5:
            s = s._replace(vel=-s.vel * s.mass)
    return np.sum(s.pos * s.vel) * s.mass


def exchanged_in_a_tuple(x, n):
    s = (x, x * 2.0, None)
    for _ in range(n):
        s = (s[1], s[0] * 0.9 + s[1], None)
    return np.sum(s[0] * 2 + s[1] * s[0])


def _stepped(s, h):
    x, v = s
    return (x + h * v, v - h * np.sin(x))


def stepped_by_a_function(x, n):
    s = (x, x * x)
    for _ in range(n):
        s = _stepped(s, 0.1)
    return np.sum(s[0] * s[1])


def kept_of_the_best(x, n):
    best = (x, 1e9)
    for k in range(n + 2):
        y = x * (k - 1.3) + 0.2
        cost = np.sum(y * y)
        if cost < best[1]:
            best = (y, cost)
    return np.sum(best[0]) * best[1]


def _residual(m, b, tol):
    x = np.zeros(len(b))
    for k in range(50):
        r = b - m @ x
        if math.sqrt(np.sum(r * r)) < tol:
            return x, r, k
        x = x + 0.3 * r
    return x, r, 50


def residual_that_a_loop_returns(m, a):
    x, r, k = _residual(m, m[0], 0.1 * a)
    return np.sum(x * x) + r[0] + k * r[1]


def residual_of_a_while(m):
    b, x = m[1] * 2.0, np.zeros(3)
    while True:
        r = b - m @ x
        if np.linalg.norm(r) < 0.2:
            break
        x = x + 0.3 * r
    return np.sum(x * r) + r[0]


def residual_of_inner_loops(m):
    for i in range(2):
        x = np.zeros(3)
        for _ in range(20):
            r = m[0] * (i + 1) - m @ x
            if r @ r < 0.1:
                break
            x = x + 0.3 * r
    return np.sum(x * x) + r[1]


def read_of_the_turn_before(x, n):
    s = 0.0
    for k in range(n + 1):
        g = x * (k + 1.0) + s
        if k > 0:
            beta = g @ g / (before @ before)
            d = d * beta - g
        else:
            d = -g
        before = g
        s += d[0]
    return s * np.sum(d)


def numbers_of_the_turn_before(x):
    total = 0.0
    for i in range(4):
        cost = (x[i] - 0.5) ** 2
        least = cost if i == 0 else min(least, cost * x[0])
        if i == 0 or cost < best:
            best = cost
            at = x[i]
        if i > 1:
            total += c * b
        if i > 0:
            c = b * x[1]
        b = x[i] * 2.0
    return best * at + total * least


def first_of_a_while(x, a):
    k = 0
    while k == 0 or err > 0.1 * a:
        y = x / (k + 1.0)
        err = np.sum(y * y)
        k += 1
    return err * y[0]


def best_of_its_own(x, n):
    for k in range(n + 2):
        y = x * (k - 1.3) + 0.2
        cost = np.sum(y * y)
        if k == 0 or cost < best.cost:
            best = Best(y, cost)
            part = y[1:] * 2.0
    return np.sum(best.x) * best.cost + part[0]


def rows_that_are_left(m):
    for row in m:
        s = np.sum(row)
        if row[1] > 1.0:
            break
    for i in range(2):
        order = np.argsort(m[i])
        big = m[i] > 0.5
    return row[0] * s + m[0][order][0] + np.sum(m[2][big])


def a_name_used_again(x, n):
    y = x[:2]
    s = np.sum(y)
    for k in range(n):
        y = x[k:]
        s += np.sum(y * y)
    return s


def set_in_one_branch(x, a, n):
    s = 0.0
    for _ in range(n):
        if a > 0:
            p = (x * 2, a * a)
        s += a
        if a > 0:
            s += np.sum(p[0]) * p[1]
    return s


def _doubled(y, n):
    for _ in range(n):
        y = y * 2.0
    if y[0] > 0:
        y = y * 1.5
    return np.sum(y)


def bound_anew_where_it_is_called(x, n):
    y = x.copy()
    s = 0.0
    for _ in range(n):
        y = y * 1.5
        z = y
        for _ in range(2):
            z = z * 0.5 + y
        s += _doubled(y, 2) + np.sum(z)
    return s + np.sum(y * y)


def _between(x, a, n):
    t = 0.0
    for i in range(4):
        t = x[i] + 0.5 * t
    s = 0.0
    for i in range(n):
        s += t * x[i]
    if n > 1:
        s += t * x[1]
    if a > 0.5:
        s += t * t
    return s


def read_behind_and_in_branches(x, a, n):
    """Also where the last branch that reads it is not gone through."""
    return _between(x, a, n) + _between(x, a * 0.1, n) + _between(x, a * 0.1, n - 1)


def an_array_that_stays_in_a_tuple(x, n):
    y = x.copy()
    state = (y, 0.0)
    for i in range(n):
        y[i] *= 2.0
        if y[0] > 0:
            state = (state[0], state[1] + y[0] * x[1])
    return np.sum(state[0] * x) * state[1]


def the_best_two(x, n):
    first, second = (1e9, x), (1e9, x * x)
    for k in range(n + 2):
        y = x * (k - 1.5) + 0.3
        cost = np.sum(y * y)
        if cost < first[0]:
            second = first
            first = (cost, y)
        elif cost < second[0]:
            second = (cost, y)
    return first[0] * second[1][0] + second[0] * np.sum(first[1])


def rows_over_a_row(m, n):
    row = m[0]
    s = 0.0
    for i in range(n):
        s += row[0] * (i + 1)
        for row in m:
            s += row[1] * row[0]
    return s + row[2]
