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
# each step of a butterfly is one instruction, and the room's halves are 128 KB; on a device a thread has few of its own. Of AVX-512's 16
# and 8 lanes 64 numbers took as long, and 1024 a third longer, as the nearest cache holds fewer of what is worked on.
LANES = {"f4": 8, "f8": 4}
LONGEST = 2048
ON_DEVICE = 1, 64
PRIMES = 101  # the largest that is done by sums of products: of 97 these take as long as a convolution, for real numbers half as long
HEAD = 12  # numbers of `meta` before the factors

_PASS = '''"""{title}"""
{memory}
from nbgrad.kernels.cpu.stack import stack_i8, stack_{code}
{tiles}
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
    {spare}
    i_at = stack_i8({L})
    k_at = stack_i8({L})
    read = stack_i8({L})
    written = stack_i8({L})
    digit = stack_i8(64)
    n, lanes, have, keep = meta[0], meta[1], meta[2], meta[3]
    x_step, o_step, i_step, k_step = meta[4], meta[5], meta[6], meta[7]
    whole, tables, factors, d = meta[8], meta[9], meta[10], meta[11]
    sizes = {HEAD} + factors
    scale, scale_im, turn = F(by), F(by_im), F(sign)
    rows = {rows}
    rows_out = {rows_out}
    for item in range(start, stop):
        wide = min({L}, lanes - item * {L})
        near, nearby, least, most = True, wide == {L}, rows, rows_out
        alike, alike_out = True, True
        rest, p, q, i, k = item * {L}, 0, 0, 0, 0
        for e in range(d):
            digit[e] = rest % meta[sizes + e]
            rest //= meta[sizes + e]
            p += digit[e] * meta[sizes + d + e]
            q += digit[e] * meta[sizes + 2 * d + e]
            i += digit[e] * meta[sizes + 3 * d + e]
            k += digit[e] * meta[sizes + 4 * d + e]
        for j in range({L}):
            x_at[j] = p
            o_at[j] = q
            i_at[j] = i
            k_at[j] = k
            read[j] = {read}
            written[j] = {written}
            least = min(least, read[j])
            most = min(most, written[j])
            alike = alike and read[j] == read[0]
            alike_out = alike_out and written[j] == written[0]
            near = near and p == x_at[0] + {x_unit} * j
            nearby = nearby and q == o_at[0] + {o_unit} * j
            more, e = j + 1 < wide, 0
            while more:
                digit[e] += 1
                more = digit[e] == meta[sizes + e]
                back = digit[e] - 1 if more else -1
                digit[e] = 0 if more else digit[e]
                p -= back * meta[sizes + d + e]
                q -= back * meta[sizes + 2 * d + e]
                i -= back * meta[sizes + 3 * d + e]
                k -= back * meta[sizes + 4 * d + e]
                e += 1
        near, nearby = near and alike, nearby and alike_out
        {load}
        for k in range(least, rows):
            for j in range({L}):
                if k >= read[j]:
                    a[{L2} * k + j] = F(0)
                    a[{L2} * k + {L} + j] = F(0)
        if tables & 1:
            times(a, 0, n, before, i_at, i_step, read)
        {fold}
        s, m, here, there, every = 1, n, 0, {half}, {every}
        for f in range(factors):
            r = meta[{HEAD} + f]
            m //= r
            {choice}
            s *= r
            here, there = there, here
        {unfold}
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

# Of neighbours one number of each at a time; of transforms whose numbers are neighbours blocks that are turned in registers; else a few
# numbers of one transform and then of the next, for the nearest cache.
_LOAD = """if near:
    for k in range(least):
        p, q = x_at[0] + x_step * k, {L2} * k
        for j in range({L}):
            a[q + j] = x[p + {x_unit} * j]
            a[q + {L} + j] = {near_im}
else:
    begin = 0
    {lines_in}
    for first in range(begin, least, 8):
        for j in range({L}):
            for k in range(first, min(first + 8, least)):
                p, q = x_at[j] + x_step * k, {L2} * k + j
                a[q] = x[p]
                a[q + {L}] = {im}
    for k in range(least, rows):
        for j in range({L}):
            if k < read[j]:
                p, q = x_at[j] + x_step * k, {L2} * k + j
                a[q] = x[p]
                a[q + {L}] = {im}"""
_LINES_IN = """if x_step == {step}:
    begin = least // {numbers} * {numbers}
    factors_of[0], factors_of[1], factors_of[2], factors_of[3] = {factors}
    for first in range(0, {L}, {tile}):
        at = address_of(x_at) + 8 * first, begin // {numbers}, address_of(a) + {size} * first
        linesin_{code}_{tile}((address_of(x), at[0], at[1], at[2], {row}, address_of(factors_of)))
    {zeros}"""
_STORE = """if nearby:
    for k in range(most):
        p, q = o_at[0] + o_step * k, here + {L2} * k
        for j in range({L}):
            o[p + {o_unit} * j] = a[q + j] * scale
            {near_im}
else:
    begin = 0
    {lines_out}
    for first in range(begin, rows_out, 8):
        for j in range(wide):
            for k in range(first, min(first + 8, written[j])):
                p, q = o_at[j] + o_step * k, here + {L2} * k + j
                o[p] = a[q] * scale
                {im}"""
_LINES_OUT = """if o_step == {step}:
    begin = most // {numbers} * {numbers}
    factors_of[0], factors_of[1], factors_of[2], factors_of[3] = {factors}
    for first in range(0, wide, {tile}):
        at = address_of(o_at) + 8 * first, begin // {numbers}, address_of(a) + {size} * (here + first)
        linesout_{code}_{tile}((address_of(o), at[0], at[1], at[2], {row}, address_of(factors_of)))"""
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
def radix_{r}(a, x, y, roots, m, s, every):
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
    "MINUS": -0.0,
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

    turned = [
        f"u{k}, v{k} = roots[{2 * k} * every * s * p], roots[{2 * k} * every * s * p + 1]"
        for k in range(1, r)
    ]
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
def radix_any(a, x, y, roots, m, s, every, r):
    t = stack_{code}({sums})
    sums = stack_{code}({L4})
    far = s * m * {L2}
    half = r // 2
    for p in range(m):
        for q in range(s):
            g = x + (q + s * p) * {L2}
            h = y + (q + r * s * p) * {L2}
            for j in range({L2}):
                sums[j] = a[g + j]
            for k in range(half):
                low, high = g + (k + 1) * far, g + (r - 1 - k) * far
                for j in range({L2}):
                    t[{L4} * k + j] = a[low + j] + a[high + j]
                    t[{L4} * k + {L2} + j] = a[low + j] - a[high + j]
                for j in range({L2}):
                    sums[j] = sums[j] + t[{L4} * k + j]
            for j in range({L2}):
                a[h + j] = sums[j]
            for i in range(1, half + 1):
                for j in range({L2}):
                    sums[j] = a[g + j]
                    sums[{L2} + j] = F(0)
                at = 0
                for k in range(half):
                    at = at + i if at + i < r else at + i - r
                    u, v = roots[2 * every * at * s * m], roots[2 * every * at * s * m + 1]
                    for j in range({L2}):
                        sums[j] += u * t[{L4} * k + j]
                        sums[{L2} + j] += v * t[{L4} * k + {L2} + j]
                u, v = roots[2 * every * i * s * p], roots[2 * every * i * s * p + 1]
                to = h + {L2} * i * s
                for j in range({L}):
                    re, im = sums[j] - sums[{L3} + j], sums[{L} + j] + sums[{L2} + j]
                    a[to + j] = re * u - im * v
                    a[to + {L} + j] = re * v + im * u
                u, v = roots[2 * every * (r - i) * s * p], roots[2 * every * (r - i) * s * p + 1]
                to = h + {L2} * (r - i) * s
                for j in range({L}):
                    re, im = sums[j] + sums[{L3} + j], sums[{L} + j] - sums[{L2} + j]
                    a[to + j] = re * u - im * v
                    a[to + {L} + j] = re * v + im * u"""


# A transform of 2 n real numbers is one of n pairs of them, taken as complex numbers: of its numbers k and n - k those of the whole
# are made, or, before one to real numbers, they of those.
_PAIRS = """for k in range(1, n // 2 + 1):
    p, q = {here} + {L2} * k, {here} + {L2} * (n - k)
    u, v = roots[2 * k], roots[2 * k + 1]
    for j in range({L}):
        e, f = {half}(a[p + j] + a[q + j]), {half}(a[p + {L} + j] - a[q + {L} + j])
        g, h = {half}(a[p + j] - a[q + j]), {half}(a[p + {L} + j] + a[q + {L} + j])
        re, im = {turned}
        t[j] = e + re
        t[{L} + j] = f + im
        t[{L2} + j] = e - re
        t[{L3} + j] = im - f
    for j in range({L2}):
        a[p + j] = t[j]
    for j in range({L2}):
        a[q + j] = t[{L2} + j]"""
_UNFOLD = """last = here + {L2} * n
for j in range({L}):
    t[j] = a[here + j]
    t[{L} + j] = a[here + {L} + j]
for j in range({L}):
    a[here + j] = t[j] + t[{L} + j]
    a[here + {L} + j] = F(0)
    a[last + j] = t[j] - t[{L} + j]
    a[last + {L} + j] = F(0)
{pairs}
for k in range(n + 1, rows_out):
    p, q = here + {L2} * (whole - k), here + {L2} * k
    for j in range({L}):
        t[j] = a[p + j]
        t[{L} + j] = F(0) - a[p + {L} + j]
    for j in range({L2}):
        a[q + j] = t[j]"""
_FOLD = """for j in range({L}):
    t[j] = a[j] + a[{L2} * n + j]
    t[{L} + j] = a[j] - a[{L2} * n + j]
for j in range({L2}):
    a[j] = t[j]
{pairs}"""


@cached(16)
@family
def along(code: str, of: str, to: str, lanes: int, longest: int) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. `of` says what is read: "complex" or "real" numbers, or "half" of complex ones that are the conjugates
    of each other; `to` what is written: "complex" numbers, their "real" parts, or "half" of what they are. Where either is "folded", real
    numbers are read, or written, as pairs: the length is that of the pairs, all of the other side is written or read, and the roots are
    those of the whole.

    `meta` holds: the length; the number of transforms; how many places of a whole transform are read (further on are zeros, or what is
    the conjugate of what was read) and written; along this one the steps in `x` and `o`, and from place to place in what is read and
    written; the length of the whole transform; whether the tables `before` (1) and `after` (2), which lie by these places, are there,
    whether what is written are transforms of real numbers (4), of which the first and the one in the middle have no imaginary part, and
    whether of what was "folded" the second half is written, too (8); how many factors, and in how many dimensions transforms lie; the
    factors; the sizes, and the steps of all four. Of a "half" those in memory are by places. What is written is multiplied by `by`, its
    imaginary part by `by_im`; the imaginary part of what is read by `sign`; of zeros neither leaves a minus."""
    real, folded, unfolded = of == "real", of == "folded", to == "folded"
    lines: dict[str, Any] = {"L": lanes, "L2": 2 * lanes, "L3": 3 * lanes, "L4": 4 * lanes}
    lines |= {"x_unit": 1 if real or folded else 2, "o_unit": 1 if to == "real" or unfolded else 2}
    choice: list[Any] = []
    for r in (4, 2, 3, 5):
        choice += [
            f"{'el' if choice else ''}if r == {r}:",
            [f"radix_{r}(a, here, there, roots, m, s, every)"],
        ]
    size, tile = int(code[1]), 32 // int(code[1])
    turned = {"code": code, "size": size, "tile": tile, "L": lanes}
    loads = {"x_im": "x_step // 2" if folded else "1", **lines}
    load = fill(
        _LOAD,
        near_im="F(0)" if real else fill("x[p + {x_unit} * j + {x_im}] * turn + F(0)", **loads),
        im="F(0)" if real else fill("x[p + {x_im}] * turn + F(0)", **loads),
        lines_in=[]
        if lanes == 1
        else fill(
            _LINES_IN,
            step=1 if real else 2,
            numbers=tile if real else tile // 2,
            factors="F(1), F(1), MINUS, MINUS" if real else "F(1), turn, MINUS, F(0)",
            row=size * lanes * (2 if real else 1),
            zeros=[
                "for k in range(begin):",
                [f"for j in range({lanes}):", [f"a[{2 * lanes} * k + {lanes} + j] = F(0)"]],
            ]
            if real
            else [],
            **turned,
        ).split("\n"),
        **lines,
    )
    if of == "half" and not unfolded:
        load = fill(_LOAD_HALF, load=load.split("\n"), **lines)
    stores = {
        "o_im": "o_step // 2" if unfolded else "1",
        "scale_im": "scale" if unfolded else "scale_im",
        **lines,
    }
    plus = "" if unfolded else " + F(0)"
    store = fill(
        _STORE_HALF if to == "half" else _STORE,
        near_im=[]
        if to == "real"
        else [fill("o[p + {o_unit} * j + {o_im}] = a[q + {L} + j] * {scale_im}", **stores) + plus],
        im=[] if to == "real" else [fill("o[p + {o_im}] = a[q + {L}] * {scale_im}", **stores) + plus],
        lines_out=[]
        if lanes == 1
        else fill(
            _LINES_OUT,
            step=1 if to == "real" else 2,
            numbers=tile if to == "real" else tile // 2,
            factors="scale, scale, MINUS, MINUS"
            if to == "real" or unfolded
            else "scale, scale_im, MINUS, F(0)",
            row=size * lanes * (2 if to == "real" else 1),
            **turned,
        ).split("\n"),
        **lines,
    )
    pairs = {
        "here": "here" if folded else "0",
        "half": "HALF * " if folded else "",
        "turned": "u * h + v * g, v * h - u * g" if folded else "F(0) - (u * h + v * g), u * g - v * h",
        **lines,
    }
    at_half = fill(_PAIRS, **pairs).split("\n")
    source = fill(
        _PASS,
        title=f"Fourier transforms, {lanes} side by side, of {of} numbers to {to} ones.",
        code=code,
        scalar=SCALARS[code],
        constants=[f"{name} = F({value!r})" for name, value in _CONSTANTS.items()],
        memory=[] if lanes == 1 else "from nbgrad.kernels.cpu.memory import address_of",
        tiles=[]
        if lanes == 1
        else f"from nbgrad.kernels.cpu.tile import linesin_{code}_{tile}, linesout_{code}_{tile}",
        spare=[
            *([] if lanes == 1 else [f"factors_of = stack_{code}(4)"]),
            *([f"t = stack_{code}({4 * lanes})"] if folded or unfolded else []),
        ],
        butterflies="\n\n\n".join(
            [
                *[_butterfly(r, code, lanes) for r in _BODIES],
                fill(_ANY, code=code, sums=PRIMES // 2 * 4 * lanes, **lines),
            ]
        ),
        HEAD=HEAD,
        room=(4 * longest + 2) * lanes,
        half=2 * lanes * longest,
        every=2 if folded or unfolded else 1,
        rows="n + 1" if unfolded else "n",
        rows_out="whole if tables & 8 else n + 1" if folded else "n",
        read="min(rows, have)"
        if unfolded
        else "(min(n, have) if whole == n else n)"
        if of == "half"
        else "n if i + i_step * (n - 1) < have else max(0, (have - i + i_step - 1) // i_step)",
        written="rows_out"
        if folded
        else "n"
        if to == "half"
        else "n if k + k_step * (n - 1) < keep else max(0, (keep - k + k_step - 1) // k_step)",
        load=load.split("\n"),
        fold=fill(_FOLD, pairs=at_half, **lines).split("\n") if unfolded else [],
        unfold=fill(_UNFOLD, pairs=at_half, **lines).split("\n") if folded else [],
        store=store.split("\n"),
        choice=[*choice, "else:", ["radix_any(a, here, there, roots, m, s, every, r)"]],
        **lines,
    )
    pointer = f"*{code}"
    return source, ("i8", "i8", "*i8", *[pointer] * 5, "f8", "f8", "f8")
