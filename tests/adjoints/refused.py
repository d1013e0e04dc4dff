"""Functions that are refused, each for one construct."""

import math

import numpy as np

table = np.arange(3.0)


def recursion(a):
    return recursion(a - 1.0) if a > 0 else a


def array_bound_anew(x, y, n):
    for _ in range(n):
        x, y = y, x
    return x[0]


def one_array_or_another(x, y, a):
    if a > 0:
        z = x
    else:
        z = y
    return z[0]


def boolean_index(x):
    return np.sum(x[x > 1.0])


def changed_at_indices(x, k):
    x[k] += 1.0
    return x[0]


def step_of_a_range(x, n):
    s = 0.0
    for i in range(0, 4, n):
        s += x[i]
    return s


def step_of_a_slice(x, n):
    return np.sum(x[::n])


def reshaped(x):
    return np.sum(x.reshape(2, 2))


def guarded(a):
    try:
        return 1.0 / a
    except ZeroDivisionError:
        return 0.0


def dictionary(a):
    d = {"a": a}
    return d["a"]


def growing_list(x):
    found = [2.0 * v for v in x]
    return found[0]


def complex_number(a):
    return (a * 1j).real


def unset(a):
    return a * b  # noqa: F821


def array_of_the_module(a):
    return a * table[0]


def inner_function(a):
    def twice(v):
        return 2 * v

    return twice(a)


def lambda_inside(a):
    twice = lambda v: 2 * v  # noqa: E731
    return twice(a)


def unknown_function(a):
    return math.nextafter(a, 2.0)


def starred(t):
    return max(*t)


def tuple_by_a_counter(t, n):
    s = 0.0
    for i in range(n):
        s += t[i]
    return s


def else_of_a_loop(x):
    for v in x:
        if v > 1:
            break
    else:
        return 0.0
    return 1.0


def new_axis(x):
    return np.sum(x[:, None])


def float_index(x, a):
    return x[a]


def too_many_indices(x):
    return x[0, 0]


def sorted_values(x):
    return np.sort(x)[0]


def matrix_product_in_place(m):
    m @= m
    return m[0, 0]


def number_then_array(a, n):
    v = a
    for _ in range(n):
        v = np.zeros(2)
    return v[0]
