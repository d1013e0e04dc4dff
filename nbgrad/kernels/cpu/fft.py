"""Fourier transforms along one dimension, as source: a pass over a few transforms side by side, its lanes.

Promises `ops/transform/passes.py`: an item is a bundle of transforms, brought into a room of the kernel's own where what is one number of
each of them lies together, so that butterflies (of 4, 2, 3, 5, or any prime, by Stockham: from one half of the room to the other, and in
order at the end) are vector code wherever the transforms lie. What is read may be conjugated, as a backward transform is a forward one
between two conjugates; and multiplied by a table, as may be what is written: so several passes make a transform that is longer than the
room, or of a length with a large prime. Complex numbers are pairs of floats, in which steps in memory count.
"""

from __future__ import annotations

from typing import Any

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS

# How many transforms are side by side, and how many numbers of one are in the room. On the CPU the former are a vector of AVX2, so that
# each step of a butterfly is one instruction, and the room's halves are 128 KB; on a device a thread has few of its own.
LANES = {"f4": 8, "f8": 4}
LONGEST = 2048
ON_DEVICE = 1, 64
PRIMES = 61  # the largest that is done by sums of products
HEAD = 12  # numbers of `meta` before the factors

_PASS = '''"""{title}"""
from nbgrad.kernels.cpu.stack import stack_i8, stack_{code}
from numba.extending import register_jitable
import numpy as np
F = {scalar}
{constants}


{butterflies}


@register_jitable(error_model="numpy")
def times(a, here, n, table, at, step, many):
    t = stack_{code}({L2})
    near, least = True, n
    for j in range({L}):
        near = near and at[j] == at[0] + j
        least = min(least, many[j])
    least = least if near else 0
    for k in range(least):
        q = here + {L2} * k
        p = 2 * (at[0] + step * k)
        for j in range({L}):
            u, v = table[p + 2 * j], table[p + 2 * j + 1]
            t[j] = a[q + j] * u - a[q + {L} + j] * v
            t[{L} + j] = a[q + j] * v + a[q + {L} + j] * u
        for j in range({L2}):
            a[q + j] = t[j]
    for k in range(least, n):
        q = here + {L2} * k
        for j in range({L}):
            if k < many[j]:
                p = 2 * (at[j] + step * k)
                u, v = table[p], table[p + 1]
                re, im = a[q + j], a[q + {L} + j]
                a[q + j] = re * u - im * v
                a[q + {L} + j] = re * v + im * u


def @NAME@(start, stop, meta, o, x, roots, before, after, by, by_im, sign):
    a = stack_{code}({room})
    x_at = stack_i8({L})
    o_at = stack_i8({L})
    i_at = stack_i8({L})
    k_at = stack_i8({L})
    read = stack_i8({L})
    written = stack_i8({L})
    n, lanes, have, keep = meta[0], meta[1], meta[2], meta[3]
    x_step, o_step, i_step, k_step = meta[4], meta[5], meta[6], meta[7]
    whole, tables, factors, d = meta[8], meta[9], meta[10], meta[11]
    sizes = {HEAD} + factors
    scale, scale_im, turn = F(by), F(by_im), F(sign)
    for item in range(start, stop):
        wide = min({L}, lanes - item * {L})
        near, nearby, least, most = True, wide == {L}, n, n
        for j in range({L}):
            rest = item * {L} + min(j, wide - 1)
            p, q, i, k = 0, 0, 0, 0
            for e in range(d):
                at = rest % meta[sizes + e]
                rest //= meta[sizes + e]
                p += at * meta[sizes + d + e]
                q += at * meta[sizes + 2 * d + e]
                i += at * meta[sizes + 3 * d + e]
                k += at * meta[sizes + 4 * d + e]
            x_at[j] = p
            o_at[j] = q
            i_at[j] = i
            k_at[j] = k
            read[j] = {read}
            written[j] = {written}
            least = min(least, read[j])
            most = min(most, written[j])
            near = near and p == x_at[0] + {x_unit} * j and read[j] == read[0]
            nearby = nearby and q == o_at[0] + {o_unit} * j and written[j] == written[0]
        {load}
        for k in range(least, n):
            for j in range({L}):
                if k >= read[j]:
                    a[{L2} * k + j] = F(0)
                    a[{L2} * k + {L} + j] = F(0)
        if tables & 1:
            times(a, 0, n, before, i_at, i_step, read)
        s, m, here, there = 1, n, 0, {half}
        for f in range(factors):
            r = meta[{HEAD} + f]
            m //= r
            {choice}
            s *= r
            here, there = there, here
        if tables & 2:
            times(a, here, n, after, k_at, k_step, written)
        if tables & 4:
            for j in range({L}):
                for half in range(2 - whole % 2):
                    place = half * (whole // 2)
                    k = (place - k_at[j]) // k_step
                    if 0 <= k < n and k_at[j] + k_step * k == place:
                        a[here + {L2} * k + {L} + j] = F(0)
        {store}
'''

# Of neighbours one number of each at a time; else a few numbers of one transform and then of the next, for the nearest cache.
_LOAD = """if near:
    for k in range(least):
        p, q = x_at[0] + x_step * k, {L2} * k
        for j in range({L}):
            a[q + j] = x[p + {x_unit} * j]
            a[q + {L} + j] = {near_im}
else:
    for first in range(0, n, 8):
        for j in range({L}):
            for k in range(first, min(first + 8, read[j])):
                p, q = x_at[j] + x_step * k, {L2} * k + j
                a[q] = x[p]
                a[q + {L}] = {im}"""
_STORE = """if nearby:
    for k in range(most):
        p, q = o_at[0] + o_step * k, here + {L2} * k
        for j in range({L}):
            o[p + {o_unit} * j] = a[q + j] * scale
            {near_im}
else:
    for first in range(0, n, 8):
        for j in range(wide):
            for k in range(first, min(first + 8, written[j])):
                p, q = o_at[j] + o_step * k, here + {L2} * k + j
                o[p] = a[q] * scale
                {im}"""
_LOAD_HALF = """if whole == n:
    {load}
    for k in range(least, n):
        p, q = {L2} * (n - k), {L2} * k
        for j in range({L}):
            a[q + j] = a[p + j]
            a[q + {L} + j] = F(0) - a[p + {L} + j]
    least = n
else:
    for first in range(0, n, 8):
        for j in range({L}):
            for k in range(first, min(first + 8, n)):
                i, q = i_at[j] + i_step * k, {L2} * k + j
                back = i >= have
                p = x_at[j] + x_step * (whole - i if back else i)
                a[q] = x[p]
                a[q + {L}] = x[p + 1] * (-turn if back else turn) + F(0)"""
_STORE_HALF = """for first in range(0, n, 8):
    for j in range(wide):
        for k in range(first, min(first + 8, n)):
            i, q = k_at[j] + k_step * k, here + {L2} * k + j
            back = i >= keep
            p = o_at[j] + o_step * (whole - i if back else i)
            o[p] = a[q] * scale
            o[p + 1] = a[q + {L}] * (-scale_im if back else scale_im) + F(0)"""

_BUTTERFLY = """@register_jitable(error_model="numpy")
def radix_{r}(a, x, y, roots, m, s):
    t = stack_{code}({size})
    far = s * m * {L2}
    for p in range(m):
        {roots}
        for q in range(s):
            g = x + (q + s * p) * {L2}
            for j in range({L}):
                {reads}
                {body}
                {writes}
            h = y + (q + {r} * s * p) * {L2}
            {moves}"""

# What follows is worked on the names a0, b0, a1, b1, ... (real and imaginary parts), and gives c0, d0, c1, d1, ...
_BODIES: dict[int, list[str]] = {
    2: ["c0, d0, c1, d1 = a0 + a1, b0 + b1, a0 - a1, b0 - b1"],
    3: [
        "e, f, g1, h1 = a1 + a2, b1 + b2, S3 * (a1 - a2), S3 * (b1 - b2)",
        "c0, d0, e, f = a0 + e, b0 + f, a0 - HALF * e, b0 - HALF * f",
        "c1, d1, c2, d2 = e + h1, f - g1, e - h1, f + g1",
    ],
    4: [
        "e0, f0, e1, f1 = a0 + a2, b0 + b2, a0 - a2, b0 - b2",
        "e2, f2, e3, f3 = a1 + a3, b1 + b3, a1 - a3, b1 - b3",
        "c0, d0, c1, d1 = e0 + e2, f0 + f2, e1 + f3, f1 - e3",
        "c2, d2, c3, d3 = e0 - e2, f0 - f2, e1 - f3, f1 + e3",
    ],
    5: [
        "e1, f1, g1, h1 = a1 + a4, b1 + b4, a1 - a4, b1 - b4",
        "e2, f2, g2, h2 = a2 + a3, b2 + b3, a2 - a3, b2 - b3",
        "c0, d0 = a0 + e1 + e2, b0 + f1 + f2",
        "u, v, w, z = a0 + C1 * e1 + C2 * e2, b0 + C1 * f1 + C2 * f2, S1 * g1 + S2 * g2, S1 * h1 + S2 * h2",
        "c1, d1, c4, d4 = u + z, v - w, u - z, v + w",
        "u, v, w, z = a0 + C2 * e1 + C1 * e2, b0 + C2 * f1 + C1 * f2, S2 * g1 - S1 * g2, S2 * h1 - S1 * h2",
        "c2, d2, c3, d3 = u + z, v - w, u - z, v + w",
    ],
}
_CONSTANTS = {
    "HALF": 0.5,
    "S3": 0.8660254037844386,
    "C1": 0.30901699437494745,
    "C2": -0.8090169943749475,
    "S1": 0.9510565162951535,
    "S2": 0.5877852522924731,
}


def _butterfly(r: int, code: str, lanes: int) -> str:

    def place(k: int) -> str:
        return f"g + {k} * far" if k else "g"

    turned = [f"u{k}, v{k} = roots[{2 * k} * s * p], roots[{2 * k} * s * p + 1]" for k in range(1, r)]
    reads = [f"a{k}, b{k} = a[{place(k)} + j], a[{place(k)} + {lanes} + j]" for k in range(r)]
    writes = ["t[j] = c0", f"t[{lanes} + j] = d0"]
    for k in range(1, r):
        writes += [
            f"t[{2 * k * lanes} + j] = c{k} * u{k} - d{k} * v{k}",
            f"t[{(2 * k + 1) * lanes} + j] = c{k} * v{k} + d{k} * u{k}",
        ]
    moves: list[Lines | str] = []
    for k in range(r):
        moves += [
            f"for j in range({2 * lanes}):",
            [f"a[h + {2 * k * lanes} * s + j] = t[{2 * k * lanes} + j]"],
        ]
    return fill(
        _BUTTERFLY,
        r=r,
        code=code,
        size=2 * r * lanes,
        L=lanes,
        L2=2 * lanes,
        roots=turned,
        reads=reads,
        body=_BODIES[r],
        writes=writes,
        moves=moves,
    )


# Of an odd prime: pairs of numbers as sums and differences first, of which each pair of results is a sum of products.
_ANY = """@register_jitable(error_model="numpy")
def radix_any(a, x, y, roots, m, s, r):
    t = stack_{code}({sums})
    w = stack_{code}({L4})
    far = s * m * {L2}
    half = r // 2
    for p in range(m):
        for q in range(s):
            g = x + (q + s * p) * {L2}
            h = y + (q + r * s * p) * {L2}
            for j in range({L2}):
                w[j] = a[g + j]
            for k in range(half):
                low, high = g + (k + 1) * far, g + (r - 1 - k) * far
                for j in range({L2}):
                    t[{L4} * k + j] = a[low + j] + a[high + j]
                    t[{L4} * k + {L2} + j] = a[low + j] - a[high + j]
                for j in range({L2}):
                    w[j] = w[j] + t[{L4} * k + j]
            for j in range({L2}):
                a[h + j] = w[j]
            for i in range(1, half + 1):
                for j in range({L2}):
                    w[j] = a[g + j]
                    w[{L2} + j] = F(0)
                at = 0
                for k in range(half):
                    at = at + i if at + i < r else at + i - r
                    u, v = roots[2 * at * s * m], roots[2 * at * s * m + 1]
                    for j in range({L2}):
                        w[j] += u * t[{L4} * k + j]
                        w[{L2} + j] += v * t[{L4} * k + {L2} + j]
                u, v = roots[2 * i * s * p], roots[2 * i * s * p + 1]
                to = h + {L2} * i * s
                for j in range({L}):
                    re, im = w[j] - w[{L3} + j], w[{L} + j] + w[{L2} + j]
                    a[to + j] = re * u - im * v
                    a[to + {L} + j] = re * v + im * u
                u, v = roots[2 * (r - i) * s * p], roots[2 * (r - i) * s * p + 1]
                to = h + {L2} * (r - i) * s
                for j in range({L}):
                    re, im = w[j] + w[{L3} + j], w[{L} + j] - w[{L2} + j]
                    a[to + j] = re * u - im * v
                    a[to + {L} + j] = re * v + im * u"""


@cached(16)
@family
def along(code: str, of: str, to: str, lanes: int, longest: int) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. `of` says what is read: "complex" or "real" numbers, or "half" of complex ones that are the conjugates
    of each other; `to` what is written: "complex" numbers, their "real" parts, or "half" of what they are.

    `meta` holds: the length; the number of transforms; how many places of a whole transform are read (further on are zeros, or what is
    the conjugate of what was read) and written; along this one the steps in `x` and `o`, and from place to place in what is read and
    written; the length of the whole transform; whether the tables `before` (1) and `after` (2), which lie by these places, are there, and
    whether what is written are transforms of real numbers (4), of which the first and the one in the middle have no imaginary part; how
    many factors, and in how many dimensions transforms lie; the factors; the sizes, and the steps of all four. Of a "half" those in memory
    are by places. What is written is multiplied by `by`, its imaginary part by `by_im`; the imaginary part of what is read by `sign`; of
    zeros neither leaves a minus."""
    real = of == "real"
    lines: dict[str, Any] = {"L": lanes, "L2": 2 * lanes, "L3": 3 * lanes, "L4": 4 * lanes}
    units = {"x_unit": 1 if real else 2, "o_unit": 1 if to == "real" else 2}
    choice: list[Any] = []
    for r in (4, 2, 3, 5):
        choice += [f"{'el' if choice else ''}if r == {r}:", [f"radix_{r}(a, here, there, roots, m, s)"]]
    load = fill(
        _LOAD,
        near_im="F(0)" if real else "x[p + 2 * j + 1] * turn + F(0)",
        im="F(0)" if real else "x[p + 1] * turn + F(0)",
        **lines,
        **units,
    )
    if of == "half":
        load = fill(_LOAD_HALF, load=load.split("\n"), **lines)
    store = fill(
        _STORE_HALF if to == "half" else _STORE,
        near_im=[] if to == "real" else [f"o[p + 2 * j + 1] = a[q + {lanes} + j] * scale_im + F(0)"],
        im=[] if to == "real" else [f"o[p + 1] = a[q + {lanes}] * scale_im + F(0)"],
        **lines,
        **units,
    )
    source = fill(
        _PASS,
        title=f"Fourier transforms, {lanes} side by side, of {of} numbers to {to} ones.",
        code=code,
        scalar=SCALARS[code],
        constants=[f"{name} = F({value!r})" for name, value in _CONSTANTS.items()],
        butterflies="\n\n\n".join(
            [
                *[_butterfly(r, code, lanes) for r in _BODIES],
                fill(_ANY, code=code, sums=PRIMES // 2 * 4 * lanes, **lines),
            ]
        ),
        HEAD=HEAD,
        room=4 * lanes * longest,
        half=2 * lanes * longest,
        read="(min(n, have) if whole == n else n)"
        if of == "half"
        else "max(0, min(n, (have - i + i_step - 1) // i_step))",
        written="n" if to == "half" else "max(0, min(n, (keep - k + k_step - 1) // k_step))",
        load=load.split("\n"),
        store=store.split("\n"),
        choice=[*choice, "else:", ["radix_any(a, here, there, roots, m, s, r)"]],
        **lines,
        **units,
    )
    pointer = f"*{code}"
    return source, ("i8", "i8", "*i8", *[pointer] * 5, "f8", "f8", "f8")
