"""Reading images at places that are no whole numbers, and adding there, as source.

Promises the ops: what is read is contiguous, as are the places, coordinates from -1 to 1, that of the columns first. `meta` says how they
are meant, and in which dimensions a weight is not itself but its derivative by the place, of what order. So the derivatives of both
kernels are these kernels again, and further ones too. A place that is no number reads nothing. What is added may meet what another
place adds: the CPU's item is an example, a device's a place, whose sums are atomics, or, where these must come in order, a channel.
"""

from __future__ import annotations

from typing import Any

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS, halves, read, write

FEW = 64  # places that are worked together, whose coordinates are vectors
_CHANNELS = 8  # that are read together
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

_PLACES = """order = meta[{order}]
for nth in range(many):
    u = {coordinate} + F(1)
    whole[nth] = u / F(2) * F({size} - 1) if corners else (u * F({size}) - F(1)) / F(2)
    slopes[nth] = (F({size} - 1) if corners else F({size})) / F(2)
{reflected}
{begin}
for nth in range(many):
    u = whole[nth]
    u = u if F(-1e9) < u < F(1e9) else F(-100)
    whole[nth] = {rounded}
    t = u - whole[nth]
    {weights}
for k in range({taps}):
    for nth in range(many):
        i = np.int32(whole[nth]) + (k - {before})
        {c}_at[k * {few} + nth] = i if (0 <= i) & (i < {size}) else -1
    for e in range(order):
        for nth in range(many):
            {c}_weight[k * {few} + nth] *= slopes[nth]
{bounded}"""

_REFLECTED_PLACES = """if padding > 0:
    for nth in range(many):
        u, slope = whole[nth], slopes[nth]
        {lines}
        whole[nth], slopes[nth] = u, slope"""
_REFLECTED_TAPS = """if padding > 0:
    for k in range(4):
        for nth in range(many):
            u = whole[nth] + F(k - 1)
            {lines}
            i = int(u)
            {c}_at[k * {few} + nth] = i if 0 <= i < {size} else -1"""

# What holds for all places; and of each the weights.
_WEIGHTS = {
    "nearest": ("", "np.rint(u)", ["{c}_weight[nth] = F(1) if order == 0 else F(0)"]),
    "linear": (
        "flat = F(1) if order == 1 else F(0)",
        "np.floor(u)",
        [
            "{c}_weight[nth] = F(1) - t if order == 0 else -flat",
            "{c}_weight[{few} + nth] = t if order == 0 else flat",
        ],
    ),
    "cubic": (
        """near3, near2, near1, near0 = F(1.25), F(-2.25), F(0), F(1)
far3, far2, far1, far0 = F(-0.75), F(3.75), F(-6), F(3)
for e in range(order):
    near3, near2, near1, near0 = F(0), F(3) * near3, F(2) * near2, near1
    far3, far2, far1, far0 = F(0), F(3) * far3, F(2) * far2, far1
sign = F(-1) if order % 2 == 1 else F(1)""",
        "np.floor(u)",
        [
            "{c}_weight[nth] = ((far3 * (t + F(1)) + far2) * (t + F(1)) + far1) * (t + F(1)) + far0",
            "{c}_weight[{few} + nth] = ((near3 * t + near2) * t + near1) * t + near0",
            "v = F(1) - t",
            "{c}_weight[2 * {few} + nth] = (((near3 * v + near2) * v + near1) * v + near0) * sign",
            "v = F(2) - t",
            "{c}_weight[3 * {few} + nth] = (((far3 * v + far2) * v + far1) * v + far0) * sign",
        ],
    ),
}

_HEAD = '''"""{title}; {mode}."""
import numpy as np
{halves}from nbgrad.kernels.cpu.stack import stack_{kind}, stack_i4, stack_i8
from nbgrad.kernels.cpu.vmath import mad
F = {scalar}


def @NAME@(start, stop, meta, o, x, grid):
    whole, slopes = stack_{kind}({few}), stack_{kind}({few})
    z_at, y_at, x_at = stack_i4({few} * {wide}), stack_i4({few} * {wide}), stack_i4({few} * {wide})
    z_weight, y_weight, x_weight = stack_{kind}({few} * {wide}), stack_{kind}({few} * {wide}), stack_{kind}({few} * {wide})
    first, weight, found = stack_i8({few}), stack_{kind}({few} * {most}), stack_{kind}({few} * {block})
    channels, points, d, h, w = meta[0], meta[1], meta[2], meta[3], meta[4]
    padding = meta[5]
    corners = meta[6] != 0
    blocks = meta[10]
    plane = d * h * w
    for nth in range({few}):
        z_at[nth] = 0
'''

# The places of some results, and then what lies there. An item is what an example has from one place to another, in some channels.
_FOUND = """    for item in range(start, stop):
        {item}
        for begin_at in range(begin_place, end_place, {few}):
            many = min({few}, points - begin_at)
            spot = example * points + begin_at
            {places}
            for nth in range(many):
                begin = {row} * w + x_at[nth]
                first[nth] = begin if {inside} else -1
            for i in range({deep}):
                for j in range({wide}):
                    for k in range({wide}):
                        tap = ((i * {wide} + j) * {wide} + k) * {few}
                        for nth in range(many):
                            weight[tap + nth] = {product}
            for channel in range(lowest, highest, {block}):
                begin = (example * channels + channel) * plane
                end = begin + min(highest - channel, {block}) * plane
                there = (example * channels + channel) * points + begin_at
                for nth in range(many):
                    at, to = begin, {to}
                    if first[nth] >= 0:
                        {known}
                        while at < end:
                            {inner}
                            at += plane
                            to += {step}
                    while at < end:
                        {before}
                        for i in range({deep}):
                            for j in range({wide}):
                                for k in range({wide}):
                                    z, y, c = z_at[i * {few} + nth], y_at[j * {few} + nth], x_at[k * {few} + nth]
                                    if z >= 0 and y >= 0 and c >= 0:
                                        p = at + (z * h + y) * w + c
                                        v = weight[((i * {wide} + j) * {wide} + k) * {few} + nth]
                                        {outer}
                        {after}
                        at += plane
                        to += {step}
                {finish}
"""

_SOME_PLACES = [
    "example, begin_place, lowest, highest = item // blocks, item % blocks * {few}, 0, channels",
    "end_place = begin_place + 1",
]
_ALL_PLACES = ["example, begin_place, end_place, lowest, highest = item, 0, points, 0, channels"]
_OF_A_CHANNEL = [
    "example, begin_place, end_place, lowest = item // channels, 0, points, item % channels",
    "highest = lowest + 1",
]

# What was read waits, as channels lie so far apart that each takes the other's line in the cache.
_FINISH = """for k in range(min(highest - channel, {block})):
    for nth in range(many):
        o[there + k * points + nth] = {write}"""

_CLEAR = """    for k in range(start * {span}plane, stop * {span}plane):
        o[k] = 0
"""


def _places(
    c: str, size: str, number: int, dims: int, mode: str, code: str, kind: str, few: int
) -> list[str]:
    """Along one dimension: which elements are read, and their weights."""
    holes = dict(c=c, size=size, few=few)
    reflected = _REFLECTED.format(size=size).split("\n")
    bounded: list[str] = []
    if mode == "cubic":  # each element by itself
        lines = [line for line in reflected if "slope" not in line]
        bounded, reflected = fill(_REFLECTED_TAPS, lines=lines, **holes).split("\n"), []
    else:
        reflected = fill(_REFLECTED_PLACES, lines=reflected).split("\n")
    begin, rounded, weights = _WEIGHTS[mode]
    text = fill(
        _PLACES,
        order=7 + number,
        coordinate=read(f"grid[(spot + nth) * {dims} + {number}]", code, kind, False),
        reflected=reflected,
        begin=begin.split("\n") if begin else [],
        rounded=rounded,
        weights=[line.format(**holes) for line in weights],
        taps=_TAPS[mode],
        before=1 if mode == "cubic" else 0,
        bounded=bounded,
        **holes,
    )
    return text.split("\n")


@cached(64)
def sample(how: str, mode: str, dims: int, code: str, kind: str) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. An item is some places where is "read", or all those of an example where is "add"ed; of "read at once"
    and "add at once" it is one place, the latter in memory that has been cleared, and of "add by channel" those of an example for a
    channel. `meta`: numbers of channels and of places, sizes of what is read, padding (0 zeros, 1 border, 2 reflection), whether -1 and 1
    are the middles of the outermost elements or their edges, the orders of derivatives, that of the columns first (three), and how many
    blocks of `FEW` places, or of one, an example has."""
    few = FEW if how in ("read", "add") else 1
    axes = (("x", "w"), ("y", "h"), ("z", "d"))[:dims]
    places = [
        line for k, (c, size) in enumerate(axes) for line in _places(c, size, k, dims, mode, code, kind, few)
    ]
    wide = _TAPS[mode]
    last, deep = wide - 1, wide if dims == 3 else 1
    inside = " and ".join(
        [f"{c}_at[nth] >= 0 and {c}_at[{last * few} + nth] == {c}_at[nth] + {last}" for c, _ in axes]
    )
    row, product = "y_at[nth]", f"y_weight[j * {few} + nth] * x_weight[k * {few} + nth]"
    if dims == 3:
        row, product = f"(z_at[nth] * h + {row})", f"z_weight[i * {few} + nth] * ({product})"
    at_once = how == "add at once"
    clear, item = "", [line.format(few=few) for line in _SOME_PLACES]
    if how == "add":
        clear, item = _CLEAR.format(span="channels * "), _ALL_PLACES
    elif how == "add by channel":
        clear, item = _CLEAR.format(span=""), _OF_A_CHANNEL
    adds = how.startswith("add")
    source = fill(
        _HEAD + clear + _FOUND,
        title="Sums at places of images" if adds else "Images read at places",
        mode=mode,
        halves=halves((code,)) + "from nbgrad.kernels.cpu.atomic import add_at\n" * at_once,
        kind=kind,
        scalar=SCALARS[kind],
        item=item,
        places=places,
        inside=inside,
        row=row,
        product=product,
        most=wide**dims,
        few=few,
        wide=wide,
        deep=deep,
        block=_CHANNELS,
        **(_adding(wide, deep, code, kind, few, at_once) if adds else _reading(wide, deep, code, kind, few)),
    )
    return source, ("i8", "i8", "*i8", f"*{code}", f"*{code}", f"*{code}")


def _known(wide: int, deep: int, few: int) -> list[str]:
    """Where rows of taps that are neighbours begin, and the weights."""
    rows = [f"row{i * wide + j} = first[nth] + ({i} * h + {j}) * w" for i in range(deep) for j in range(wide)]
    return rows + [f"w{k} = weight[{k * few} + nth]" for k in range(deep * wide * wide)]


def _reading(wide: int, deep: int, code: str, kind: str, few: int) -> dict[str, Any]:
    inner = []
    for k in range(wide):
        found = ""
        for j in range(deep * wide):
            x = read(f"x[at + row{j} + {k}]", code, kind, False)
            found = f"mad(w{j * wide + k}, {x}, {found})" if found else f"w{k} * {x}"
        inner.append(f"s{k} = {found}")
    sums = [f"s{k}" for k in range(wide)]
    while len(sums) > 1:
        sums = [f"({a} + {b})" for a, b in zip(sums[::2], sums[1::2])]
    return dict(
        to="nth",
        step=few,
        known=_known(wide, deep, few),
        inner=[*inner, f"found[to] = {sums[0]}"],
        before="total = F(0)",
        outer=f"total += v * {read('x[p]', code, kind, False)}",
        after="found[to] = total",
        finish=fill(_FINISH, block=_CHANNELS, write=write(f"found[k * {few} + nth]", code, kind)).split("\n"),
    )


def _adding(wide: int, deep: int, code: str, kind: str, few: int, at_once: bool) -> dict[str, Any]:
    def added(place: str, weight: str) -> str:
        if at_once:
            return f"add_at(o, {place}, {weight} * given)"
        there = f"o[{place}]"
        return f"{there} = " + write(f"{read(there, code, kind, False)} + {weight} * given", code, kind)

    given = f"given = {read('x[to]', code, kind, False)}"
    taps = [(f"at + row{j} + {k}", f"w{j * wide + k}") for j in range(deep * wide) for k in range(wide)]
    return dict(
        to="there + nth",
        step="points",
        known=_known(wide, deep, few),
        inner=[given, *(added(*tap) for tap in taps)],
        before=given,
        outer=added("p", "v"),
        after=[],
        finish=[],
    )
