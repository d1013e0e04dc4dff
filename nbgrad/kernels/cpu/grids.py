"""Reading images at places that are no whole numbers, and adding there, as source.

Promises the ops: what is read is contiguous, as are the places, coordinates from -1 to 1, that of the columns first. `meta` says how they
are meant, and in which dimensions a weight is not itself but its derivative by the place, of what order. So the derivatives of both
kernels are these kernels again, and further ones too. A place that is no number reads nothing.
"""

from __future__ import annotations

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS, halves, read, write

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
    channels, points, d, h, w = meta[0], meta[1], meta[2], meta[3], meta[4]
    padding = meta[5]
    corners = meta[6] != 0
    plane = d * h * w
    z_at[0] = 0
    z_weight[0] = F(1)
'''

_READ = (
    _HEAD
    + """    for item in range(start, stop):
        example = item // points
        {places}
        for c in range(channels):
            begin = (example * channels + c) * plane
            total = F(0)
            {taps}
            o[(example * channels + c) * points + item % points] = {write}
"""
)

_ADD = (
    _HEAD
    + """    for example in range(start, stop):
        for k in range(example * channels * plane, (example + 1) * channels * plane):
            o[k] = 0
        for item in range(example * points, (example + 1) * points):
            {places}
            for c in range(channels):
                begin = (example * channels + c) * plane
                given = {given}
                {taps}
"""
)

_TAKEN = """for i in range({z_taps}):
    if z_at[i] < 0:
        continue
    for j in range({taps}):
        if y_at[j] < 0:
            continue
        for k in range({taps}):
            if x_at[k] < 0:
                continue
            weight = z_weight[i] * y_weight[j] * x_weight[k]
            at = begin + (z_at[i] * h + y_at[j]) * w + x_at[k]
            {step}"""


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
        coordinate=read(f"grid[item * {dims} + {number}]", code, kind, False),
        reflected=reflected.split("\n") if reflected else [],
        weights=_WEIGHTS[mode].replace("{c}", c).split("\n"),
        taps=_TAPS[mode],
        bounded=bounded,
    )
    return text.split("\n")


@cached(64)
def sample(adds: bool, mode: str, dims: int, code: str, kind: str) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. An item is a place where is read, or all those of an example where is added. `meta`: numbers of channels
    and of places, sizes of what is read, padding (0 zeros, 1 border, 2 reflection), whether -1 and 1 are the middles of the
    outermost elements or their edges, and the orders of derivatives, that of the columns first."""
    axes = (("x", "w"), ("y", "h"), ("z", "d"))[:dims]
    places = [line for k, (c, size) in enumerate(axes) for line in _place(c, size, k, dims, mode, code, kind)]
    given = read("x[(example * channels + c) * points + item % points]", code, kind, False)
    step = f"total += weight * {read('x[at]', code, kind, False)}"
    if adds:
        step = "o[at] = " + write(f"{read('o[at]', code, kind, False)} + weight * given", code, kind)
    taps = _TAKEN.format(taps=_TAPS[mode], z_taps=_TAPS[mode] if dims == 3 else 1, step=step)
    source = fill(
        _ADD if adds else _READ,
        title="Sums at places of images" if adds else "Images read at places",
        mode=mode,
        halves=halves((code,)),
        kind=kind,
        scalar=SCALARS[kind],
        places=places,
        taps=taps.split("\n"),
        given=given,
        write=write("total", code, kind),
    )
    return source, ("i8", "i8", "*i8", f"*{code}", f"*{code}", f"*{code}")
