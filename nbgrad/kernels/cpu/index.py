"""Reading and writing at places that an array of offsets gives, as source.

Promises the ops: a tensor is walked as outer dimensions, then the places, then inner dimensions; the other
side of the copy is contiguous in that order. Offsets are in elements of the walked tensor and have been
checked: a kernel cannot fail. Writes run on one thread in the order of the places, so what several of them
write adds up in that order, and of plain writes the last stays.
"""

from __future__ import annotations

from nbgrad.base.tables import cached
from nbgrad.kernels.templates import halves, read, write

_COMBINED = {
    "add": ("Add o to", "{a} + {b}"),
    "mul": ("Multiply by o", "{a} * {b}"),
    "max": ("Take o over, where it is greater or NaN, for", "{a} if ({a} > {b}) | ({a} != {a}) else {b}"),
    "min": ("Take o over, where it is less or NaN, for", "{a} if ({a} < {b}) | ({a} != {a}) else {b}"),
}

_WALK = '''"""{title}."""
{imports}

def @NAME@(start, stop, meta, o, x, at):
    d_out = meta[0]
    places = meta[1]
    d_in = meta[2]
    rows = meta[3]
    n = meta[4]
    step = meta[5]
    b = start % places
    outer = start // places
    begin = 0
    fresh = True
    q = start * rows * n
    for item in range(start, stop):
        if b == places:
            b = 0
            outer += 1
            fresh = True
        if fresh:
            fresh = False
            begin = 0
            rest = outer
            for e in range(d_out):
                size = meta[6 + e]
                begin += (rest % size) * meta[6 + d_out + e]
                rest //= size
{inner}        b += 1
'''

_ROWS = """\
        for k in range(rows):
            p = begin + at[b]
            rest = k
            for e in range(d_in):
                size = meta[6 + 2 * d_out + e]
                p += (rest % size) * meta[6 + 2 * d_out + d_in + e]
                rest //= size
            for j in range(n):
                {move}
                q += 1
"""

_POINTS = """\
        p = begin + at[b]
        {move}
        q += 1
"""

_MOVES = {
    "read": ("Read what lies at the places of x into o", "o[q] = x[{p}]"),
    "write": ("Write o over what lies at the places of x", "x[{p}] = o[q]"),
    **{k: (f"{words} what lies at the places of x", "x[{p}] = {sum}") for k, (words, _) in _COMBINED.items()},
    "or": ("Join o, truth values, to what lies at the places of x", "x[{p}] |= o[q]"),
}


@cached(64)
def walk(move: str, code: str, points: bool) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes; `code` is the element's, of which plain moves need only the size. With
    `points` there are no inner dimensions, which halves the time of a scatter."""
    title, statement = _MOVES[move]
    at = "p" if points else "p + j * step"
    kind = "f4" if code == "f2" else code
    both = {"a": read(f"x[{at}]", code, kind, False), "b": read("o[q]", code, kind, False)}
    total = write(_COMBINED.get(move, ("", ""))[1].format(**both), code, kind)
    inner = (_POINTS if points else _ROWS).format(move=statement.format(p=at, sum=total))
    pointer = "*" + code
    return _WALK.format(title=title, imports=halves((code,)), inner=inner), (
        "i8",
        "i8",
        "*i8",
        pointer,
        pointer,
        "*i8",
    )
