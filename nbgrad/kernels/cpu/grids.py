"""Reading images at places that are no whole numbers, and adding there, as source.

Promises the ops: what is read is contiguous, as are the places, coordinates from -1 to 1, that of the columns first. `meta` says how they
are meant, and in which dimensions a weight is not itself but its derivative by the place, of what order. So the derivatives of both
kernels are these kernels again, and further ones too. A place that is no number reads nothing. What is added may meet what another
place adds: the CPU's item is an example, a device's a place, whose sums are atomics, or, where these must come in order, a channel.
"""

from __future__ import annotations

from typing import Any

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS, halves, read, write

FEW = 8  # places that are worked together
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}

# Beyond an edge a coordinate stays there, or comes back as from a mirror.
_REFLECTED = """if padding == 2:
    low = F(0) if corners else F(-0.5)
    span = F({size} - 1) if corners else F({size})
    u -= low
    if u < F(0):
        u = -u
        slope = -slope
    if span == F(0):
        u = F(0)
        slope = F(0)
    else:
        turns = np.floor(u / span)
        u -= turns * span
        odd = turns - F(2) * np.floor(turns / F(2))
        if odd == F(0):
            u += low
        else:
            u = span - u + low
            slope = -slope
if padding > 0:
    last = F({size} - 1)
    if u <= F(0):
        u = F(0)
        slope = F(0)
    if u >= last:
        u = last
        slope = F(0)"""

_PLACE = """order = meta[{order}]
u = {coordinate} + F(1)
if corners:
    slope = F({size} - 1) / F(2)
    u = u / F(2) * F({size} - 1)
else:
    slope = F({size}) / F(2)
    u = (u * F({size}) - F(1)) / F(2)
{reflected}
if not (F(-1e9) < u < F(1e9)):
    u = F(-100)
{weights}
for k in range({taps}):
    i = first + k
    {bounded}
    {c}_at[k] = i if 0 <= i < {size} else -1
    for e in range(order):
        {c}_weight[k] *= slope"""

_WEIGHTS = {
    "nearest": """first = int(np.rint(u))
{c}_weight[0] = F(1) if order == 0 else F(0)""",
    "linear": """first = int(np.floor(u))
t = u - F(first)
if order == 0:
    {c}_weight[0] = F(1) - t
    {c}_weight[1] = t
else:
    {c}_weight[1] = F(1) if order == 1 else F(0)
    {c}_weight[0] = -{c}_weight[1]""",
    "cubic": """first = int(np.floor(u))
t = u - F(first)
first -= 1
for k in range(4):
    v = abs(t - F(k - 1))
    p, q, r, s = F(-0.75), F(3.75), F(-6), F(3)
    if k == 1 or k == 2:
        p, q, r, s = F(1.25), F(-2.25), F(0), F(1)
    if order == 0:
        {c}_weight[k] = ((p * v + q) * v + r) * v + s
    elif order == 1:
        {c}_weight[k] = (F(3) * p * v + F(2) * q) * v + r
    elif order == 2:
        {c}_weight[k] = F(6) * p * v + F(2) * q
    else:
        {c}_weight[k] = F(6) * p if order == 3 else F(0)
    if k > 1 and order % 2 == 1:
        {c}_weight[k] = -{c}_weight[k]""",
}

_HEAD = '''"""{title}; {mode}."""
import numpy as np
{halves}from nbgrad.kernels.cpu.stack import stack_{kind}, stack_i8
F = {scalar}


def @NAME@(start, stop, meta, o, x, grid):
    z_at, y_at, x_at = stack_i8(4), stack_i8(4), stack_i8(4)
    z_weight, y_weight, x_weight = stack_{kind}(4), stack_{kind}(4), stack_{kind}(4)
    counts, place, weight = stack_i8({few}), stack_i8({few} * {most}), stack_{kind}({few} * {most})
    channels, points, d, h, w = meta[0], meta[1], meta[2], meta[3], meta[4]
    padding = meta[5]
    corners = meta[6] != 0
    together, blocks = meta[10], meta[11]
    plane = d * h * w
    z_at[0] = 0
    z_weight[0] = F(1)
'''

# The places of a few results, and then channel by channel what lies there: channels may lie so far apart that the cache holds few.
_FOUND = """    for item in range({first}, {last}):
        example = item // blocks
        begin_at = item % blocks * together
        many = min(together, points - begin_at)
        for nth in range(many):
            spot = example * points + begin_at + nth
            {places}
            {taps}
            counts[nth] = count
        for c in range(channels):
            begin = (example * channels + c) * plane
            there = (example * channels + c) * points + begin_at
            for nth in range(many):
                {each}
"""

_READ = [
    "total = F(0)",
    "if counts[nth] == {most}:",
    ["for tap in range(nth * {most}, nth * {most} + {most}):", ["at = begin + place[tap]", "{step}"]],
    "else:",
    ["for tap in range(nth * {most}, nth * {most} + counts[nth]):", ["at = begin + place[tap]", "{step}"]],
    "o[there + nth] = {write}",
]

_ADD = [
    "given = {given}",
    "for tap in range(nth * {most}, nth * {most} + counts[nth]):",
    ["at = begin + place[tap]", "{step}"],
]
_CLEAR = """    for k in range(start * {span}plane, stop * {span}plane):
        o[k] = 0
"""
_BY_CHANNEL = """    for item in range(start, stop):
        example = item // channels
        begin = item * plane
        nth = 0
        for k in range(points):
            spot = example * points + k
            there = item * points + k
            {places}
            {taps}
            counts[nth] = count
            {each}
"""

# What is read is the same in each channel.
_TAKEN = """count = 0
for i in range({z_taps}):
    if z_at[i] < 0:
        continue
    for j in range({taps}):
        if y_at[j] < 0:
            continue
        for k in range({taps}):
            if x_at[k] < 0:
                continue
            weight[nth * {most} + count] = z_weight[i] * y_weight[j] * x_weight[k]
            place[nth * {most} + count] = (z_at[i] * h + y_at[j]) * w + x_at[k]
            count += 1"""


def _place(c: str, size: str, number: int, dims: int, mode: str, code: str, kind: str) -> list[str]:
    reflected = _REFLECTED.format(size=size)
    bounded: list[str] = []
    if mode == "cubic":  # each element by itself
        lines = [line for line in reflected.split("\n") if "slope" not in line]
        bounded, reflected = ["u = F(i)", *lines, "i = int(u)"], ""
    text = fill(
        _PLACE,
        c=c,
        size=size,
        order=7 + number,
        coordinate=read(f"grid[spot * {dims} + {number}]", code, kind, False),
        reflected=reflected.split("\n") if reflected else [],
        weights=_WEIGHTS[mode].replace("{c}", c).split("\n"),
        taps=_TAPS[mode],
        bounded=bounded,
    )
    return text.split("\n")


@cached(64)
def sample(how: str, mode: str, dims: int, code: str, kind: str) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. An item is some places where is "read", or all those of an example where is "add"ed; of "read at once"
    and "add at once" it is one place, the latter in memory that has been cleared, and of "add by channel" those of an example for a
    channel. `meta`: numbers of channels and of places, sizes of what is read, padding (0 zeros, 1 border, 2 reflection), whether -1 and 1
    are the middles of the outermost elements or their edges, the orders of derivatives, that of the columns first (three), how many
    places, at most `FEW`, are worked together, and how many blocks of so many an example has."""
    axes = (("x", "w"), ("y", "h"), ("z", "d"))[:dims]
    places = [line for k, (c, size) in enumerate(axes) for line in _place(c, size, k, dims, mode, code, kind)]
    adds, at_once, by_channel = how.startswith("add"), how == "add at once", how == "add by channel"
    step = f"total += weight[tap] * {read('x[at]', code, kind, False)}"
    if at_once:
        step = "add_at(o, at, weight[tap] * given)"
    elif adds:
        step = "o[at] = " + write(f"{read('o[at]', code, kind, False)} + weight[tap] * given", code, kind)
    most = _TAPS[mode] ** dims
    taps = _TAKEN.format(taps=_TAPS[mode], z_taps=_TAPS[mode] if dims == 3 else 1, most=most)
    holes = {"most": most, "step": step, "write": write("total", code, kind)}
    holes["given"] = read("x[there + nth]", code, kind, False)
    clear = "" if at_once or not adds else _CLEAR.format(span="" if by_channel else "channels * ")
    source = fill(
        _HEAD + clear + (_BY_CHANNEL if by_channel else _FOUND),
        title="Sums at places of images" if adds else "Images read at places",
        mode=mode,
        halves=halves((code,)) + "from nbgrad.kernels.cpu.atomic import add_at\n" * at_once,
        kind=kind,
        scalar=SCALARS[kind],
        places=places,
        taps=taps.split("\n"),
        most=most,
        few=FEW if how in ("read", "add") else 1,
        first="start * blocks" if how == "add" else "start",
        last="stop * blocks" if how == "add" else "stop",
        each=_filled(_ADD if adds else _READ, holes),
    )
    return source, ("i8", "i8", "*i8", f"*{code}", f"*{code}", f"*{code}")


def _filled(lines: Lines, holes: dict[str, Any]) -> Lines:
    return [line.format(**holes) if isinstance(line, str) else _filled(line, holes) for line in lines]
