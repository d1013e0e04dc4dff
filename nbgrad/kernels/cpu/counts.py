"""Distributions of which a number eats as many uniforms as chance will have it: Poisson's, the binomial one and gamma's, as source.

Promises `sampling`: elements are drawn in order from `units`, of which there are `have`, until those run out; `used` then holds how many
elements are done and how many units they took. Which method draws a number, and in which precision its steps round, is PyTorch's, so that
the numbers are the same.
"""

from __future__ import annotations

import math

import numpy as np

from nbgrad.base.records import NamedTuple
from nbgrad.base.source import fill
from nbgrad.kernels.templates import SCALARS

_LOOP = '''"""{title}."""
import math
import numpy as np
F = {scalar}
{table}


def @NAME@(start, stop, o, {operands}used, have):
    at = 0
    for i in range(start, stop):
        found = False
        k = F(0)
        {begin}
{body}
        if not found:
            break
        o[i] = k
        {end}
        used[0] = i + 1
        used[1] = at
'''

# From a rate of 10 on by transformed rejection (Hoermann 1993), below by products of uniforms.
_POISSON = """\
        rate = rates[i]
        if rate == 0:
            found = True
        elif not rate >= 0:
            break
        elif rate < 10:
            limit = math.exp(-rate)
            product = 1.0
            while at < have:
                product *= units[at]
                at += 1
                if product <= limit:
                    found = True
                    break
                k += 1
        else:
            b = 0.931 + 2.53 * math.sqrt(rate)
            a = -0.059 + 0.02483 * b
            inverse = 1.1239 + 1.1328 / (b - 3.4)
            bound = 0.9277 - 3.6224 / (b - 2)
            while (at + 1 < have) & (not found):
                u = units[at] - 0.5
                v = units[at + 1]
                at += 2
                s = 0.5 - abs(u)
                k = np.floor((2 * a / s + b) * u + rate + 0.43)
                if (s >= 0.07) & (v <= bound):
                    found = True
                elif (k >= 0) & ((s >= 0.013) | (v <= s)):
                    left = math.log(v) + math.log(inverse) - math.log(a / (s * s) + b)
                    found = left <= -rate + k * math.log(rate) - math.lgamma(k + 1.0)"""

# log(k!) less Stirling's formula: PyTorch's have the digits of Hoermann's table to 9, then his series
_TAILS = """
_TAILS = (0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287)
"""


def _tail(k: str) -> str:
    square = f"(({k} + F(1)) * ({k} + F(1)))"
    series = f"(1 / 12 - (1 / 360 - 1 / 1260 / {square}) / {square}) / ({k} + F(1))"
    return f"F(_TAILS[int({k})] if {k} <= F(9) else {series})"


# Up to 10 successes on average by the gaps between them, from there by transformed rejection with squeeze (Hoermann 1993).
_BINOMIAL = f"""\
        count = counts[i]
        chance = chances[i]
        p = chance if chance <= F(0.5) else F(1) - chance
        if (count <= F(0)) | (chance <= F(0)):
            found = True
        elif chance >= F(1):
            k = count
            found = True
        elif chance != chance:
            k = chance
            found = True
        elif count * p >= F(10):
            deviation = F(math.sqrt(count * p * (F(1) - p)))
            b = F(1.15 + 2.53 * deviation)
            a = F(-0.0873 + 0.0248 * b + 0.01 * p)
            c = F(count * p + 0.5)
            bound = F(0.92 - 4.2 / b)
            odds = p / (F(1) - p)
            alpha = F((2.83 + 5.1 / b) * deviation)
            m = F(np.floor((count + F(1)) * p))
            rest = count - m
            while (at + 1 < have) & (not found):
                u = F(units[at] - 0.5)
                v = F(units[at + 1])
                at += 2
                s = F(0.5 - abs(u))
                k = F(np.floor((F(2) * a / s + b) * u + c))
                if (s >= 0.07) & (v <= bound):
                    found = True
                elif (k >= F(0)) & (k <= count):
                    v = F(math.log(v * alpha / (a / (s * s) + b)))
                    left = count - k
                    most = (m + 0.5) * F(math.log((m + F(1)) / (odds * (rest + F(1)))))
                    most += (count + F(1)) * F(math.log((rest + F(1)) / (left + F(1))))
                    most += (k + 0.5) * F(math.log(odds * (left + F(1)) / (k + F(1))))
                    most += {_tail("m")}
                    most += {_tail("rest")}
                    most -= {_tail("k")}
                    most -= {_tail("left")}
                    found = v <= F(most)
            if chance > F(0.5):
                k = count - k
        else:
            each = F(math.log1p(-p))
            total = F(0)
            while at < have:
                total += F(np.ceil(F(math.log(F(units[at]))) / each))
                at += 1
                if total > count:
                    found = True
                    break
                k += F(1)
            if chance > F(0.5):
                k = count - k"""


# By Marsaglia and Tsang (2000), in float64 but for the first steps; some of PyTorch's constants are rounded to float32. Normal numbers
# come in pairs, of which `kept` has the second one. What an element took is given back where the uniforms run out in the midst of it.
_GAMMA = """\
        value = 0.0
        alpha = alphas[i]
        scale = 1.0
        if alpha == 0:
            found = True
        elif alpha < 1:
            if at >= have:
                break
            scale = math.pow(1 - units[at], F(1) / alpha)
            at += 1
            alpha += F(1)
        d = np.float64(alpha - F({third}))
        c = 1 / np.sqrt(9 * d)
        while not found:
            x = other
            if there:
                there = False
            else:
                if at + 1 >= have:
                    break
                radius = math.sqrt(-2 * math.log1p(-units[at + 1]))
                angle = {turn} * units[at]
                at += 2
                x = radius * math.cos(angle)
                other = radius * math.sin(angle)
                there = True
            y = 1 + c * x
            if y <= 0:
                continue
            if at >= have:
                break
            v = y * y * y
            u = 1 - units[at]
            at += 1
            square = x * x
            if u < 1 - {squeeze} * square * square:
                found = True
            elif math.log(u) < 0.5 * square + d * (1 - v + (math.log(v) if v == v else v)):
                found = True
            value = scale * d * v
        k = F(value)
        least = {least}
        if not k > least:
            k = least"""


class Count(NamedTuple):
    """How an element is drawn of `units`, of which those before `at` are used and there are `have`: lines that end with `found` and then
    give `k`. `pairs` are theirs that have normal numbers, of which every other one is there from before."""

    title: str
    inputs: tuple[str, ...]
    body: str
    table: str = ""
    pairs: bool = False


def count(name: str, code: str) -> Count:
    if name == "poisson":
        return Count("Numbers of Poisson's distribution", ("rates",), _POISSON)
    if name == "binomial":
        return Count("Successes among so many trials", ("counts", "chances"), _BINOMIAL, _TAILS.strip())
    body = _GAMMA.format(
        third=float(np.float32(1) / np.float32(3)),
        squeeze=float(np.float32(0.0331)),
        turn=2 * math.pi,
        least=f"F({float(np.finfo(code).tiny)!r})",
    )
    return Count("Numbers of the gamma distribution", ("alphas",), body, pairs=True)


def source(name: str, code: str) -> tuple[str, tuple[str, ...]]:
    """Text and parameter codes of a distribution's elements in a dtype, Poisson's in float64."""
    made = count(name, code)
    memory = [*made.inputs, "units", *["kept"] * made.pairs]
    text = fill(
        _LOOP,
        title=made.title,
        scalar=SCALARS[code],
        table=made.table,
        operands="".join(f"{m}, " for m in memory),
        begin=["other = kept[0]", "there = kept[1] != 0"] * made.pairs,
        body=made.body,
        end=["kept[0] = other", "kept[1] = 1.0 if there else 0.0"] * made.pairs,
    )
    pointer, double = "*" + code, ["*f8"] * (1 + made.pairs)
    return text, ("i8", "i8", pointer, *[pointer] * len(made.inputs), *double, "*i8", "i8")


# ---------------------------------------------------------------- places by their weights

_SHARES = '''"""What the weights of each line add up to, place by place, over their sum; and whether any is none."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, x, o, found, columns):
    bad = 0
    for row in range(start, stop):
        begin, total = row * columns, F(0)
        for k in range(begin, begin + columns):
            bad |= (not (x[k] >= 0)) | (x[k] == np.inf)
            total = F(total + x[k])
            o[k] = total
        bad |= not ((total > 0) & (total < np.inf))
        for k in range(begin, begin + columns):
            o[k] = o[k] / total
    found[0] = bad
'''

_PLACES = '''"""The first place of a line whose share is not below a uniform number."""


def @NAME@(start, stop, shares, units, o, columns, many):
    for item in range(start, stop):
        begin = (item // many) * columns
        low, high = 0, columns
        while low < high:
            middle = (low + high) // 2
            if shares[begin + middle] < units[item]:
                low = middle + 1
            else:
                high = middle
        o[item] = min(low, columns - 1)
'''


def shares(code: str) -> tuple[str, tuple[str, ...]]:
    return _SHARES.format(scalar=SCALARS[code]), ("i8", "i8", f"*{code}", f"*{code}", "*i8", "i8")


def places(code: str) -> tuple[str, tuple[str, ...]]:
    return _PLACES, ("i8", "i8", f"*{code}", "*f8", "*i8", "i8", "i8")
