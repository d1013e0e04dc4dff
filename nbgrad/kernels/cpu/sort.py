"""Order, as source with holes: the elements of a line from one rank to another.

Promises the ops one kernel for sort, median, quantile, and topk and kthvalue of long lines: it turns elements into integers that are in the
same order (NaN above everything, zeros of both signs equal, as PyTorch compares them), leaves out what is certainly beyond the ranks
asked for, and sorts the rest by digits (short lines by insertion; for few ranks the best so far are kept in order). Equal elements
stay in their order, so the result is the only one possible, whatever runs it; for a sort that need not be stable a line in which some
are met is put in order anew, by the steps of `ties.py`. Scratch memory is as long as the operand, of which a thread touches one line.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.cpu import ties
from nbgrad.kernels.cpu.keys import INFINITY, UNSIGNED, key, stored
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
        for k in range(0 if {passed} else n):
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
        for k in range({shown}):
            {source}
            o[o_at + k * o_step] = x[x_at + at * x_step]
            place[o_at + k * o_step] = at
        {equals}
'''


@cached(128)
def ranks(
    code: str, descending: bool, which: str = "given", as_sorted: bool = False
) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes; `which` is a key of FIRST. `as_sorted`, the equal elements of a whole line stand where PyTorch's sort
    leaves them. The kernel takes two buffers of scratch, and two more for elements of 8 bytes, whose places do not fit beside them."""
    wide = code[1] == "8"
    bits = (
        16 if code[0] in "bu" and code not in UNSIGNED else 8 * int(code[1])
    )  # unsigned bytes need a ninth bit
    lead = max(bits - 12, 0)
    half = 1 << (min(bits, 12) - 1)

    keep = [f"if low <= (key >> {lead}) <= high:"]
    keep += ["    a[lo + m] = key", "    ia[lo + m] = k"] if wide else ["    a[lo + m] = (key << 32) | k"]
    keep += ["    m += 1"]
    passes, shift = (8, 0) if wide else (4, 32)
    nans = ["nans = 0"]
    if code in INFINITY and which != "given":
        nans += ["for k in range(n):", *("    " + line for line in key(code, False)[:2])]
        nans += [f"    nans += 1 if size_of > {INFINITY[code]} else 0"]
    histogram = [
        f"digits[{256 * t} + (((v >> {shift + 8 * t}) & 255) ^ {128 if shift + 8 * t == 56 else 0})] += 1"
        for t in range(passes)
    ]
    twin = lambda text: [text] if wide else []  # noqa: E731
    there = lambda at: f"a[{at}]" if wide else f"(a[{at}] >> 32)"  # noqa: E731
    equals: Lines = [
        "same = sure",
        "for k in range(lo + 1, lo if sure else lo + n):",
        [f"same += {there('k')} == {there('k - 1')}"],
        "if same:",
        [f"w = {'ia' if wide else 'b'}", *ties.lines(key(code, descending), "sort")],
    ]
    sure: Lines = ["sure = 0"]
    if code not in INFINITY:  # whole numbers that lie closer than they are many
        sure = [
            "least, most = 9223372036854775807, -9223372036854775807 - 1",
            "for k in range(n):",
            [*key(code, descending), "least, most = min(least, key), max(most, key)"],
            "sure = 1 if 0 <= most - least < n - 1 else 0",
        ]
    source = fill(
        _SORT,
        code=code,
        steps=["from numba.extending import register_jitable", "", "", *ties.STEPS.splitlines()]
        if as_sorted
        else [],
        equals=equals if as_sorted else [],
        way="descending" if descending else "ascending",
        first=FIRST[which].replace("first", "begin"),
        counters=max(SELECT, passes * 256),
        twins=", ia, ib" if wide else "",
        opening=opening(("o", "x"), 1),
        counted=nans if which != "given" else sure if as_sorted else [],
        passed="few or sure" if as_sorted else "few",
        shown="0 if sure else count" if as_sorted else "count",
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


_MODE = '''"""The element that is there most often, the least of several, of lines in ascending order; and its last place.
No NaN equals another one."""
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
            if k == n - 1 or v != w:
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
