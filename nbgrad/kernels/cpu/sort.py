"""Order, as source with holes: the elements of a line from one rank to another, in a stable order.

Promises the ops one kernel for sort, topk, kthvalue, median and quantile: it turns elements into integers that are in the
same order (NaN above everything, zeros of both signs equal, as PyTorch compares them), leaves out what is certainly beyond the ranks
asked for, and sorts the rest by digits (short lines by insertion; for few ranks the best so far are kept in order). Equal elements
stay in their order, so the result is the only one possible, whatever runs it; or, where some are met, lines are ordered again by the
steps of `ties.py`. Scratch memory is as long as the operand, of which a
thread touches one line.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.cpu import ties
from nbgrad.kernels.cpu.walk import opening
from nbgrad.kernels.templates import computed, halves, read

SHORT = 48  # up to here insertion is quicker than counting digits
FEW = 16  # ranks up to which an element is compared with the last of those kept
SELECT = 4096  # buckets of the first look, by the leading twelve bits

# Which rank comes first, of n elements of which `nans` are NaN.
FIRST = {
    "given": "first",
    "median": "n - nans if nans else (n - 1) // 2",
    "nanmedian": "max(n - nans - 1, 0) // 2",
}

_SORT = '''"""Ranks from {first} on of each line, {way}, of {code} as integers in the same order."""
from nbgrad.kernels.cpu.stack import stack_i8
{steps}

def @NAME@(start, stop, meta, o, place, a, b{twins}, x, begin, count):
    digits = stack_i8({counters})
    {opening}
        lo = start * n
        {counted}
        base = {first}
        low = -{half}
        high = {half}
        wanted = base + count
        few = wanted <= {few} and n > {short}
        m = 0
        if few:
            last = 9223372036854775807
            moves = 0
            for k in range(n):
                {key_there}
                v = {entry}
                if v < last or m < wanted:
                    m = min(m + 1, wanted)
                    at = m - 1
                    while at > 0 and a[lo + at - 1] > v:
                        a[lo + at] = a[lo + at - 1]
                        {move_up}
                        at -= 1
                    a[lo + at] = v
                    {put_place}
                    if m == wanted:
                        last = a[lo + m - 1]
                    moves += m - at
                    if moves > n:  # in an order that puts most of them to the front
                        few = False
                        m = 0
                        break
        if not few and count * 4 < n and n > {short}:
            # The buckets in which the wanted ranks lie
            for c in range({select}):
                digits[c] = 0
            for k in range(n):
                {key_there}
                digits[(key >> {lead}) + {half}] += 1
            below = 0
            for c in range({select}):
                if below + digits[c] <= base:
                    below += digits[c]
                    low = c - {half} + 1
                else:
                    break
            upto = below
            for c in range(low + {half}, {select}):
                upto += digits[c]
                high = c - {half}
                if upto >= base + count:
                    break
            base -= below
        for k in range(0 if few else n):
            {key}
            {keep}
        if m <= {short}:
            for k in range(1, m):
                v = a[lo + k]
                {v_twin}
                at = k
                while at > 0 and a[lo + at - 1] > v:
                    a[lo + at] = a[lo + at - 1]
                    {move_up}
                    at -= 1
                a[lo + at] = v
                {put_twin}
        else:
            for c in range({passes} * 256):
                digits[c] = 0
            for k in range(m):
                v = a[lo + k]
                {histogram}
            for turn in range({passes}):
                shift = {shift} + 8 * turn
                flip = 128 if shift == 56 else 0
                row = turn * 256
                v = a[lo]
                if digits[row + (((v >> shift) & 255) ^ flip)] == m:
                    continue  # one digit throughout
                total = 0
                for c in range(256):
                    total, digits[row + c] = total + digits[row + c], total
                for k in range(m):
                    v = a[lo + k]
                    c = row + (((v >> shift) & 255) ^ flip)
                    at = lo + digits[c]
                    digits[c] += 1
                    b[at] = v
                    {move_twin}
                {exchange}
        for k in range(count):
            {source}
            o[o_at + k * o_step] = x[x_at + at * x_step]
            place[o_at + k * o_step] = at
        {equals}
'''


_UNSIGNED = {"u2": "i2", "u4": "i4", "u8": "i8"}  # what these are read as
_INFINITY = {"f2": 0x7C00, "g2": 0x7F80, "f4": 0x7F800000, "f8": 0x7FF0000000000000}  # its bits


def key(code: str, descending: bool) -> list[str]:
    """An integer in the order of the element, which is read as an integer of its own size."""
    size = int(code[1])
    lines = ["key = int(x[x_at + k * x_step])"]
    if code in _INFINITY:
        ones = (1 << (8 * size - 1)) - 1
        infinity = _INFINITY[code]
        lines += [
            f"size_of = key & {ones}",
            f"key = {ones} if size_of > {infinity} else 0 if size_of == 0 else key ^ ((key >> {8 * size - 1}) & {ones})",
        ]
    if code in _UNSIGNED:  # with the first bit turned they are in the order of signed ones
        lines.append(f"key = key ^ (-{(1 << (8 * size - 1)) - 1} - 1)")
    return lines + (["key = ~key"] if descending else [])


@cached(128)
def ranks(code: str, descending: bool, which: str = "given", way: str = "") -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes; `which` is a key of FIRST, and `way` one of `ties.ORDER`, if equal elements shall stand as it leaves
    them. The kernel takes two buffers of scratch, and two more for elements of 8 bytes, whose places do not fit beside them."""
    wide = code[1] == "8"
    bits = (
        16 if code[0] in "bu" and code not in _UNSIGNED else 8 * int(code[1])
    )  # unsigned bytes need a ninth bit
    lead = max(bits - 12, 0)
    half = 1 << (min(bits, 12) - 1)

    keep = [f"if low <= (key >> {lead}) <= high:"]
    keep += ["    a[lo + m] = key", "    ia[lo + m] = k"] if wide else ["    a[lo + m] = (key << 32) | k"]
    keep += ["    m += 1"]
    passes, shift = (8, 0) if wide else (4, 32)
    nans = ["nans = 0"]
    if code in _INFINITY and which != "given":
        nans += ["for k in range(n):", *("    " + line for line in key(code, False)[:2])]
        nans += [f"    nans += 1 if size_of > {_INFINITY[code]} else 0"]
    histogram = [
        f"digits[{256 * t} + (((v >> {shift + 8 * t}) & 255) ^ {128 if shift + 8 * t == 56 else 0})] += 1"
        for t in range(passes)
    ]
    twin = lambda text: [text] if wide else []  # noqa: E731
    there = lambda at: f"a[{at}]" if wide else f"(a[{at}] >> 32)"  # noqa: E731
    equals: Lines = [
        "same = 0",
        "for k in range(lo + base + 1, lo + base + count):",
        [f"same += {there('k')} == {there('k - 1')}"],
        "if same == 0 and count < n:",  # those that are not wanted may equal the last
        [
            f"final = {there('lo + base + count - 1')}",
            "for k in range(n):",
            [*key(code, descending), "same += key == final"],
            "same -= 1",
        ],
        "if same:",
        [
            f"w = {'ia' if wide else 'b'}",
            "for k in range(n):",
            [*key(code, descending), "a[lo + k] = key", "w[lo + k] = k"],
            *ties.ORDER.get(way, ()),
            "for k in range(count):",
            [
                "at = w[lo + begin + k]",
                "o[o_at + k * o_step] = x[x_at + at * x_step]",
                "place[o_at + k * o_step] = at",
            ],
        ],
    ]
    source = fill(
        _SORT,
        code=code,
        steps=["from numba.extending import register_jitable", "", "", *ties.STEPS.splitlines()]
        if way
        else [],
        equals=equals if way else [],
        way="descending" if descending else "ascending",
        first=FIRST[which].replace("first", "begin"),
        counters=max(SELECT, passes * 256),
        twins=", ia, ib" if wide else "",
        opening=opening(("o", "x"), 1),
        counted=nans if which != "given" else [],
        half=half,
        select=2 * half,
        lead=lead,
        short=SHORT,
        few=FEW,
        entry="key" if wide else "(key << 32) | k",
        put_place=twin("ia[lo + at] = k"),
        key_there=key(code, descending),
        key=key(code, descending),
        keep=keep,
        v_twin=twin("w = ia[lo + k]"),
        move_up=twin("ia[lo + at] = ia[lo + at - 1]"),
        put_twin=twin("ia[lo + at] = w"),
        passes=passes,
        shift=shift,
        histogram=histogram,
        move_twin=twin("ib[at] = ia[lo + k]"),
        exchange="a, b, ia, ib = b, a, ib, ia" if wide else "a, b = b, a",
        source="at = ia[lo + base + k]" if wide else "at = a[lo + base + k] & 4294967295",
    )
    scratch = ["*i8"] * (4 if wide else 2)
    kind = "*" + stored(code)
    return source, ("i8", "i8", "*i8", kind, "*i8", *scratch, kind, "i8", "i8")


def stored(code: str) -> str:
    """As what elements are read."""
    return _UNSIGNED.get(code) or {"b": "u1", "f": "i" + code[1], "g": "i2"}.get(code[0], code)


_MODE = '''"""The element that is there most often, the least of several, of lines in ascending order; and its last place.
NaNs count as equal."""
{halves}

def @NAME@(start, stop, meta, o, place, x, came):
    {opening}
        best = 0
        length = 0
        run = 0
        for k in range(n):
            run += 1
            v = {v}
            w = {w}
            if k == n - 1 or (v != w and (v == v or w == w)):
                if run > length:
                    best = k
                    length = run
                run = 0
        o[o_at] = x[x_at + best * x_step]
        place[o_at] = came[x_at + best * x_step]
'''


@cached(16)
def mode(code: str) -> tuple[str, tuple[str, ...]]:
    kind = computed(code)
    v, w = (read(f"x[x_at + {k} * x_step]", code, kind, False) for k in ("k", "min(k + 1, n - 1)"))
    source = _MODE.format(halves=halves((code,)), opening=opening(("o", "x"), 1), v=v, w=w)
    return source, ("i8", "i8", "*i8", "*" + code, "*i8", "*" + code, "*i8")


_SEARCH = '''"""Where each value would be put in a line of boundaries so that it stays in order, {side} of equal ones."""


def @NAME@(start, stop, o, values, edges, per, n, shared):
    for k in range(start, stop):
        row = 0 if shared else k // per * n
        v = values[k]
        low = 0
        high = n
        while low < high:
            middle = (low + high) // 2
            edge = edges[row + middle]
            if {go_on}:
                low = middle + 1
            else:
                high = middle
        o[k] = low
'''


@cached(32)
def search(code: str, right: bool) -> tuple[str, tuple[str, ...]]:
    source = _SEARCH.format(
        side="right" if right else "left", go_on="not (edge > v)" if right else "not (edge >= v)"
    )
    return source, ("i8", "i8", "*i8", "*" + code, "*" + code, "i8", "i8", "i8")
