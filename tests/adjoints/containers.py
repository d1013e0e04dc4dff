"""What holds other values, and what asks for some of them; `test_constructs.py` compares the gradients with differences."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math
import types

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


SETTINGS = {"gain": 2.0, "weights": np.array([1.0, 2.0, 0.5, 1.5]), "kind": "soft"}


def dictionary_of_the_module(x, a):
    s = 0.0
    for key in ("gain", "weights"):
        s += np.sum(SETTINGS[key] * x)
    return s * a if SETTINGS["kind"] == "soft" else s


def _slope(y, rates):
    return np.array([rates["k1"] * y[1] - rates["k2"] * y[0], rates["k2"] * y[0] - rates["k1"] * y[1] ** 2])


def dictionary_of_rates(x, a):
    rates = dict(k1=a, k2=0.5)
    rates["dt"] = 0.1
    y = x[:2].copy()
    for _ in range(5):
        y = y + rates["dt"] * _slope(y, rates)
        if y[0] > 0.4:
            rates["k1"] = rates["k1"] * 0.9
        else:
            rates["k2"] *= 1.1
    more = {**rates, "dt": 0.2} | {"n": 3}
    assert "k1" in more and "k3" not in more
    return y[0] * more["dt"] + sum(more.values()) + len(more) * y[1]


def dictionary_that_turns_fill(m):
    seen = {key: np.zeros(3) for key in ("sum", "squares")}
    seen["n"] = 0
    for row in m:
        seen["sum"] += row
        seen["squares"] += row**2
        seen["n"] += 1
    mean = seen["sum"] / seen["n"]
    return np.sum(seen["squares"] / seen["n"] - mean**2)


def dictionaries_in_one(x, m):
    net = {"first": {"w": x, "b": 0.5}, "second": {"w": m[1] * 2.0, "b": x[2]}}
    net["first"]["b"] = 0.7
    net["second"]["b"] += x[3]
    s = 0.0
    for layer in net.values():
        s += np.tanh(np.sum(layer["w"]) + layer["b"])
    table = {i: m[2, i] * i for i in range(3)}
    table.update({5: s}, last=x[0])
    table["last"] -= 1.0
    total = 0.0
    for key, value in table.items():
        total += value * (key if key != "last" else 2)
    return total + table.get(7, 2.0) * x[1]


def dictionary_that_a_step_returns(x, a):
    def step(state, u):
        return {"p": state["p"] + 0.1 * state["v"], "v": state["v"] + 0.1 * (u - state["p"])}

    state, best = {"p": x * 1.0, "v": np.zeros(4)}, {"v": 0.0}
    for _ in range(6):
        state = step(state, a)
    for v in state["p"]:
        if v > best["v"]:
            best = {"v": v}
    return np.sum(state["p"] * state["v"]) + best["v"]


def array_in_a_dictionary(x):
    a = x * 2.0
    held = {"v": a}
    v = held["v"]
    held["v"] += 1.0
    held["v"][1] = 9.0 * x[0]
    return np.sum(a * a) * v[1]


def keys_unpacked(x):
    held = {2: x[0], 3: x[1]}
    a, b = held
    return a * x[0] + b * held[b]


def list_of_matrices(m, x):
    made = []
    for i in range(3):
        made.append(np.outer(m[i], x[:3]))
    product = np.eye(3)
    for a in made:
        product = product @ (np.eye(3) + 0.1 * a)
    stacked = np.array(made)
    return np.sum(product) + made[-1][0, 1] * stacked[2, 1, 1] + len(made) + sum(made)[0, 0]


def list_of_tuples(m, a):
    events = [(0.0, 1)]
    for i in range(3):
        if m[i, 0] > 0.3:
            events.append((m[i, 0] * a, i))
    s = 0.0
    for j, (t, k) in enumerate(events):
        s += t * t * k + j * t
    t, k = events[-1]
    first = events[0]
    events[0] = (a, 7.5)
    return s + t * k + first[0] + events[0][0] * events[0][1]


def ragged_lists(m):
    rows = [m[i, : i + 1] for i in range(3)]
    table = [[m[i, j] * m[j, 0] for j in range(i + 1)] for i in range(3)]
    total = 0.0
    for row in table:
        for v in row:
            total += v * v
    table[1][0] = total
    table[2][-1] += 1.0
    rest = [row for row in table if len(row) > 1]
    return np.sum(np.concatenate(rows)) * total + table[1][0] * table[2][2] + len(rest[0]) + max(table[2])


def table_of_a_dynamic_program(x, a):
    n = len(x)
    h = [[0.0] * (n + 1) for _ in range(n + 1)]
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            h[i][j] = max(
                0.0, h[i - 1][j - 1] + x[i - 1] * x[j - 1], h[i - 1][j] - a * 0.1, h[i][j - 1] - a * 0.1
            )
            best += math.exp(h[i][j])
    return math.log(best)


def trajectory(x, n):
    places, speeds = [], []
    places.append(x.copy())
    speeds.append(np.zeros(4))
    for k in range(n + 2):
        v = speeds[-1] - 0.05 * places[k]
        speeds.append(v)
        places.append(places[-1] + 0.1 * v)
    energy = 0.0
    for p, v in zip(places, speeds):
        energy += 0.5 * (v @ v) + np.sum(p**2)
    return energy + np.sum(np.stack(places)[-1]) + np.vstack(speeds)[2, 1]


def search_with_a_stack(x, m):
    best = 0.0
    stack = []
    stack.append((0, x[0], 0))
    while stack:
        i, s, depth = stack.pop()
        best += math.exp(-s * s) * (depth + 1)
        if depth < 2:
            for j in range(3):
                if m[i, j] > 0.15:
                    stack.append((j, s + m[i, j] * x[j], depth + 1))
    return best


def stack_that_is_empty_first(x):
    out = 0.0
    stack = []
    for i in range(len(x)):
        while stack and stack[-1][0] > x[i]:
            v, k = stack.pop()
            out += v * k
        stack.append((x[i], i + 1))
    return out + len(stack) * x[0]


def levels(x):
    now = [(x, 1.0)]
    for _ in range(2):
        later = []
        for v, w in now:
            later.append((v * 2.0, w * v[0]))
            later.append((v + 1.0, w))
        now = later
    return sum([w * v[1] for v, w in now])


def list_begun_anew(x):
    few = [0.5]
    s = 0.0
    few = [v * x[0] for v in few]
    for v in x:
        few = [u * 2.0 for u in few]
        few.append(v)
        if len(few) > 2:
            s += few[0] * few[1]
            few = []
    return s + len(few) * x[0]


def points_in_lists(m):
    points = []
    for i in range(3):
        points.append([m[i, 0], m[i, 1] * m[i, 2]])
    middle = np.array(points).mean(axis=0)
    return np.sum((np.array(points) - middle) ** 2) + points[1][0] * points[2][1]


def three_comprehensions(m):
    cube = np.array([[[m[i, j] * m[j, k] for k in range(3)] for j in range(3)] for i in range(3)])
    return np.sum(cube[0] * cube[1] @ cube[2])


def items_replaced(x, a):
    d = [v * np.ones(2) for v in x]
    for r in range(1, 4):
        for j in range(3, r - 1, -1):
            d[j] = (1.0 - a) * d[j - 1] + a * d[j]
    d[0] += 1.0
    d[1] *= x[0]
    kept = d[2]
    d[2] = d[0] * 2.0
    few = [0.5, 1.0]
    few[1] = x[1]
    return np.sum(d[3] * d[0]) + d[1][0] + kept[1] * d[2][0] + few[0] * few[1]


def popped_and_pushed(x):
    held = [x * 1.0, x * 2.0]
    held.append(x * 3.0)
    last = held.pop()
    held.append(x * 5.0)
    first = held[0]
    held[0] = x * 7.0
    return last[0] * held[2][1] + first[1] * held[0][2]


def _damped(y, a):
    y *= a


RULES = types.SimpleNamespace(update=_damped)


def update_of_an_object(x, a):
    y = x * 1.0
    RULES.update(y, a)
    return np.sum(y * y)


def queue(x):
    waiting, out, head = [], 0.0, 0
    waiting.append((x, 0))
    while head < len(waiting):
        v, depth = waiting[head]
        head += 1
        out += v[0] * depth
        if depth < 2:
            waiting.append((v * 2.0, depth + 1))
            waiting.append((v + x, depth + 1))
    return out


def length_of_a_ragged_list(x):
    rows = [x[:i] for i in range(1, 4)]
    return len(rows) * np.sum(rows[2])
