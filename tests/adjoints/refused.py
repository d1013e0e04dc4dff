"""Functions that are refused, each for one construct."""

import math

import numpy as np

table, few = np.arange(300.0), np.arange(3.0)
settings = {"rate": 1.0}


def recursion(a):
    return recursion(a - 1.0) if a > 0 else a


def array_bound_anew(x, y, n):
    for _ in range(n):
        z = x
        z[0] = 1.0
        x = y
    return x[0]


def one_array_or_another(x, m, a):
    if a > 0:
        z = x
    else:
        z = m
    return z[0]


def either_that_is_written(x, y, a):
    z = x if a > 1 else y
    if a > 0:
        z = y
    z[0] = 1.0
    return x[0] + y[0]


def step_of_a_range(x, a):
    s = 0.0
    for i in range(0, 4, a):
        s += x[i]
    return s


def step_of_a_slice(x, n):
    return np.sum(x[::n])


def reshaped_and_written(x):
    y = x.copy()
    z = y.reshape(2, 2)
    z[0, 0] = 1.0
    return y[0]


def guarded(a):
    try:
        return 1.0 / a
    except ZeroDivisionError:
        return 0.0


def comprehension_not_reached(x, a):
    return a if a > 1 else sum([2.0 * v for v in x])


def list_that_is_doubled(x):
    found = [x[0]]
    found.append(x[1])
    return (found * 2)[0]


def popped_beside(x):
    found = [x[0]]
    found.append(x[1])
    return found[-1] + found.pop()


def complex_numbers_in_order(a):
    return 1.0 if a * 1j < 2j else a


def complex_number_as_a_real_one(x, a):
    x[0] = a * 1j
    return x[0]


def complex_number_that_and_may_give(a):
    z = a + 1j
    return a * (z and a)


def complex_number_where_real_ones_are_taken(x):
    return np.max(x * 1j)


def complex_number_of_math(a):
    return math.sqrt(a + 1j)


def complex_array_by_turns(x, n):
    z = x * 1j
    for _ in range(n):
        z = z[1:]
    return z[0].real


def unset(a):
    return a * b  # noqa: F821


def large_array_of_the_module(a):
    return a * table[0]


def array_of_the_module_that_is_written(a):
    few[0] = a
    return few[0]


def array_in_a_tuple_as_long_as_a_turn_says(x, n):
    for k in range(n):
        y = (x[:k] * 2.0, k)
    return y[0][0]


def read_before_any_turn_sets_it(x, n):
    s = 0.0
    for k in range(n):
        s = s + before  # noqa: F821
        before = s * x[k]  # noqa: F841
    return s


def inner_function_that_sets(a):
    def twice(v):
        nonlocal a
        a = v
        return 2 * v

    return twice(a)


def inner_function_that_is_given_away(a):
    def maker(v):
        def inner():
            return v

        return inner

    return maker(a)()


def lambda_not_reached(a):
    return a if a > 1 else (lambda v: 2 * v)(a)


def unknown_function(a):
    return math.nextafter(a, 2.0)


def starred(a):
    return max(**a)


def arrays_by_a_counter(x, y, n):
    s = 0.0
    for i in range(n):
        s += (x, y)[i][0]
    return s


def array_of_another_kind(x, n):
    y = x.copy()
    for _ in range(n):
        y = y > 0.5
    return y[0]


def walrus(a):
    b = a
    return b + (b := a * a) * b


def starred_beside_rows(x, m):
    return [*x, *m][0]


def new_axis_that_is_written(x):
    x[:, None] = 1.0
    return x[0]


def index_that_was_a_float(x, n):
    k = 0.0
    for k in range(n):
        x[k] *= 2.0
    return x[k]


def float_index(x, a):
    return x[a]


def too_many_indices(x):
    return x[0, 0]


def eigenvalues_of_any_matrix(m):
    return np.linalg.eigvals(m)[0]


def matrix_product_in_place(m):
    m @= m
    return m[0, 0]


def number_then_array(a, n):
    v = a
    for _ in range(n):
        v = np.zeros(2)
    return v[0]


def row_of_a_list_that_is_written(x):
    rows = [[x[0], x[1]], [x[2], x[3]]]
    for i in range(2):
        rows[i][0] = 1.0
    return rows[0][0]


def sum_over_axes(m):
    return m.sum(axis=(0, 0))


def dimensions_at_several_axes(m):
    return np.expand_dims(m, (0, 1))[0, 0, 0, 0]


def differences_of_any_order(x, n):
    return np.diff(x, n)[0]


def function_in_a_result(a):
    return a, (a, abs)


def array_of_floats_as_an_index(x):
    return x[x]


def out_of_integers(x):
    o = np.zeros(4, np.int64)
    np.add(x, 1.0, o)
    return x[0]


def ufunc_where(x):
    return np.sqrt(x, where=x > 0)[0]


def goes_over_what_it_writes(m, a):
    m = m.copy()
    s = 0.0
    for v in m.ravel():
        m[2, 2] += v
        s += v * a
    return s


def starred_name(x):
    a, *b = x
    return a * b[0]


def list_by_another_name(x):
    values = [x[0]]
    also = values
    also.append(x[1])
    values.append(x[2])
    return values[0] * also[1]


def list_by_another_name_in_a_loop(x):
    values = [x[0]]
    s = 0.0
    for k in range(3):
        also = values
        values.append(x[k])
        s += also[-1]
    return s


def star_of_an_array_of_any_length(x):
    return np.sum(np.array([1.0, *np.outer(x, x)]))


def star_for_a_function_with_defaults(x):
    def inner(p, q=2.0):
        return p * q

    return inner(*x)


def tuple_of_any_length(x):
    return tuple(x)[1]


def extreme_of_some_without_a_first(x):
    return np.max(x, where=x > 0)


def dictionary_by_another_name(x):
    first = {"a": x[0]}
    second = first
    second["a"] = x[1]
    return first["a"]


def dictionary_in_another(x):
    first = {"a": x[0]}
    outer = {"in": first}
    first["a"] = x[1]
    return outer["in"]["a"]


def dictionary_of_who_calls(x):
    held = {"a": x[0]}

    def inner():
        held["a"] += 1.0

    inner()
    return held["a"]


def dictionary_by_turns(x):
    before, now = {"a": x[0]}, {"a": x[1]}
    s = 0.0
    for v in x:
        now["a"] += v
        s += before["a"]
        before = now
    return s


def one_dictionary_or_another(x):
    first, second = {"a": x[0]}, {"a": x[1]}
    either = first if x[2] > 0 else second
    either["a"] = 7.0
    return first["a"]


def key_that_is_not_known(x, n):
    held = {0: x[0], 1: x[1]}
    return held[n]


def key_that_is_not_there(x):
    held = {"a": x[0]}
    return held["b"]


def keys_by_a_branch(x):
    held = {"a": x[0]}
    if x[1] > 0:
        held["b"] = 1.0
    return held["a"]


def keys_by_turns(x, n):
    held = {}
    for i in range(n):
        held[i] = x[i]
    return held[0]


def sum_of_a_dictionary(x):
    return sum({0: x[0], 1: x[1]})


def dictionary_of_the_module_that_is_written(x):
    settings["rate"] = x[0]
    return settings["rate"]


def item_that_leaves_a_dictionary(x):
    held = {"a": x[0], "b": 1.0}
    return held.pop("a")


def array_that_a_list_holds(x):
    held = [x * 1.0]
    h = x * 2.0
    held.append(h)
    h[0] = 7.0
    return held[1][0]


def item_of_a_list_by_another_name(x):
    held = [x * 1.0]
    held.append(x * 2.0)
    first = held[0]
    first[0] = 9.0 * x[1]
    return held[0][0]


def items_that_a_loop_writes(x):
    held = [x * 1.0]
    held.append(x * 2.0)
    for h in held:
        h[0] = 4.0
    return held[0][0]


def list_in_a_list_that_grows(x):
    row = []
    rows = []
    for v in x:
        row.append(v)
        rows.append(row)
    return rows[0][0] * len(rows[0])


def matrix_in_a_list_that_is_written(x):
    held = [np.outer(x, x)]
    held.append(np.eye(4))
    held[0][0, 1] = 5.0
    return held[0][0, 1]


def list_of_who_calls(x):
    def inner(given):
        given.append(x * 5.0)

    held = [x * 1.0]
    held.append(x * 3.0)
    inner(held)
    return held[-1][0]


def items_of_several_kinds(x):
    held = [x * 1.0]
    held.append(2.0)
    return held[0][0]


def list_of_arrays_as_a_result(x):
    held = [x * 1.0]
    held.append(x * 2.0)
    return held


def array_at_two_places_of_a_list(x):
    held = [x * 1.0 for _ in range(2)]
    held.append(held[0])
    held[0][1] = 4.0
    return held[2][1]


def array_that_is_appended_twice(x):
    held = []
    for _ in range(2):
        first = x * 2.0
        held.append(first)
        held.append(first)
    held[0][1] = 4.0
    return held[1][1]


def condition_that_writes(x, a):
    def onward():
        x[0] += a
        return x[0]

    s = 0.0
    while onward() < 3.0:
        s += x[1]
    return s
