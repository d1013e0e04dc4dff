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
