"""Reading and writing at places that an array of offsets gives, or indices do, as source.

Promises the ops: a tensor is walked as outer dimensions, then the places, then inner dimensions; the other
side of the copy is contiguous in that order. Offsets are in elements of the walked tensor and have been
checked, as have indices, by a kernel that says whether one is out of bounds: none here can fail. Writes run on one thread in the order
of the places, so what several of them write adds up in that order, and of plain writes the last stays.

Where nobody waits for a check, kernels are `guarded`: an index out of bounds is told (`kernels/faults.py`) by who reads it, its offset
is -1, and nothing is moved there.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.family import family
from nbgrad.kernels.faults import NUMBER, tell
from nbgrad.kernels.templates import computed, halves, read, widened, write

_COMBINED = {
    "add": ("Add o to", "{a} + {b}"),
    "mul": ("Multiply by o", "{a} * {b}"),
    "max": ("Take o over, where it is greater or NaN, for", "{a} if ({a} > {b}) | ({a} != {a}) else {b}"),
    "min": ("Take o over, where it is less or NaN, for", "{a} if ({a} < {b}) | ({a} != {a}) else {b}"),
}

_WALK = '''"""{title}."""
{imports}

def @NAME@(start, stop, meta, o, x, {names}):
    d_out = meta[0]
    places = meta[1]
    d_in = meta[2]
    rows = meta[3]
    n = meta[4]
    step = meta[5]
{settled}    q = start * rows * n
    item = start
    while item < stop:
        rest = item // places
        first = item - rest * places
        last = min(places, first + stop - item)
        begin = 0
        for e in range(d_out):
            size = meta[6 + e]
            begin += (rest % size) * meta[6 + d_out + e]
            rest //= size
        for b in range(first, last):
{inner}        item += last - first
'''

# With indices, what is told of one out of bounds, if negative ones count from the end, and the first one's dimension follow as numbers.
_EACH = '''"""{title}, an element an item."""
{imports}

def @NAME@(start, stop, meta, {flag}o, x, {names}):
    d_out = meta[0]
    places = meta[1]
    d_in = meta[2]
    rows = meta[3]
    n = meta[4]
    step = meta[5]
{settled}    for q in range(start, stop):
        p = (q % n) * step
        rest = q // n
        inner = rest % rows
        rest //= rows
        b = rest % places
        rest //= places
        for e in range(d_out):
            size = meta[6 + e]
            p += (rest % size) * meta[6 + d_out + e]
            rest //= size
        for e in range(d_in):
            size = meta[6 + 2 * d_out + e]
            p += (inner % size) * meta[6 + 2 * d_out + d_in + e]
            inner //= size
        {spot}
        if spot >= 0:
            p += spot
            {move}
'''


def _looked_at(indices: int) -> Lines:
    """Lines that find the offset of place `b`, or -1."""
    if not indices:
        return ["spot = at[b]"]
    lines: list[Lines | str] = ["spot = 0"]
    for k in range(indices):
        add = f"spot += (i + (size{k} if i < 0 else 0)) * step{k}"
        lines += [
            f"i = at{k}[b]",
            f"if (i >= -size{k} * negative) & (i < size{k}):",
            ["if spot >= 0:", [add]],
        ]
        lines += ["else:", ["spot = -1", *tell("fault", "i", f"size{k}", f"dim + {k}", True)]]
    return lines


_ROWS = """\
            at_b = begin + {spot}
            for k in range(rows):
                p = at_b
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
            p = begin + {spot}
            {move}
            q += 1
"""

_MOVES = {
    "read": ("Read what lies at the places of x into o", "o[q] = x[{p}]"),
    "write": ("Write o over what lies at the places of x", "x[{p}] = o[q]"),
    "fill": ("Write the one element of o over what lies at the places of x", "x[{p}] = o[0]"),
    **{k: (f"{words} what lies at the places of x", "x[{p}] = {sum}") for k, (words, _) in _COMBINED.items()},
    "or": ("Join o, truth values, to what lies at the places of x", "x[{p}] |= o[q]"),
}


_INDEX = """\
    size{k} = meta[6 + 2 * (d_out + d_in) + {even}]
    step{k} = meta[7 + 2 * (d_out + d_in) + {even}]
"""


def _statement(move: str, code: str, at: str, guarded: bool = False, owned: bool = False) -> tuple[str, str]:
    """A title and the line that moves an element; `owned`, if the place is one of those that are `mine`, of `many` owners."""
    title, statement = _MOVES[move]
    whose = f"if np.uint64({at}) % np.uint64(many) == np.uint64(mine): " if owned else ""
    if guarded and move == "add" and code in AT_ONCE:
        return title, f"{whose}add_at(x, {at}, o[q])"
    kind = computed(code)
    both = {"a": read(f"x[{at}]", code, kind, False), "b": read("o[q]", code, kind, False)}
    total = write(_COMBINED.get(move, ("", ""))[1].format(**both), code, kind)
    return title, whose + statement.format(p=at, sum=total)


@cached(64)
@family
def walk(
    move: str, code: str, points: bool, indices: int = 0, guarded: bool = False, owned: bool = False
) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes; `code` is the element's, of which plain moves need only the size. With
    `points` there are no inner dimensions, which halves the time of a scatter. In place of offsets there may be so many `indices`, of
    which negative ones count from the end."""
    if guarded:
        return _guarded(move, code, indices, owned)
    title, statement = _statement(move, code, "p" if points else "p + j * step", owned=owned)
    every = range(indices)
    names = [f"at{k}" for k in every] or ["at"]
    spot = " + ".join(f"(at{k}[b] + (size{k} if at{k}[b] < 0 else 0)) * step{k}" for k in every) or "at[b]"
    source = _WALK.format(
        title=title,
        imports=halves((code,)),
        names=", ".join(names),
        settled="".join(_INDEX.format(k=k, even=2 * k) for k in every),
        inner=(_POINTS if points else _ROWS).format(move=statement, spot=spot),
    )
    pointer = "*" + code
    return source, ("i8", "i8", "*i8", pointer, pointer, *["*i8"] * len(names))


def _guarded(move: str, code: str, indices: int, owned: bool) -> tuple[str, tuple[str, ...]]:
    title, statement = _statement(move, code, "p", True, owned)
    names, looks = [f"at{k}" for k in range(indices)] or ["at"], indices > 0
    source = fill(
        _EACH,
        title=title,
        imports=halves((code,)) + _ATOMICS,
        flag="flag, " * looks,
        names=", ".join([*names, *["fault", "negative", "dim"] * looks]),
        settled="".join(_INDEX.format(k=k, even=2 * k) for k in range(indices)),
        spot=_looked_at(indices),
        move=statement,
    )
    given = (*["*i8"] * looks, *["*" + code] * 2, *["*i8"] * len(names), *["i8"] * (3 * looks))
    return source, ("i8", "i8", "*i8", *given)


_ATOMICS = "from nbgrad.kernels.cpu.atomic import add_at, claimed\n"
# What is added in one go where an item may meet another.
AT_ONCE = ("f4", "f8", "i4", "i8")


_GRID = '''"""{title}, which an index for each element of o says along one dimension."""
{imports}from nbgrad.kernels.cpu.places import places


def @NAME@(start, stop, meta, {flag}o, x, at):
    n = meta[1]
    end = 2 + meta[0] * 4
    o_step, x_step, at_step, step = meta[end], meta[end + 1], meta[end + 2], meta[end + 3]
    {bounds}
    first, last = 0, n
    if meta[0] == 0:  # one row, of which this is a part
        first, last, start, stop = start, stop, 0, 1
    for row in range(start, stop):
        q, p, a = places(meta, row, (0, 1, 2))
        q += first * o_step
        p += first * x_step
        a += first * at_step
        for k in range(first, last):
            {move}
            q += o_step
            p += x_step
            a += at_step
'''


@cached(64)
@family
def grid(move: str, code: str, guarded: bool = False, owned: bool = False) -> tuple[str, tuple[str, ...]]:
    """The same where each element has an index of its own; `meta` is that of a rows kernel (`places.py`), then the step that an index of 1
    makes in x; of a `guarded` one also the size and the number of the dimension, and what is told of an index out of bounds."""
    title, statement = _statement(move, code, "p + at[a] * step", guarded, owned)
    source = fill(
        _GRID,
        title=title,
        imports=halves((code,)) + _ATOMICS * guarded,
        flag="flag, " if guarded else "",
        bounds=["size, dim, fault = meta[end + 4], meta[end + 5], meta[end + 6]"] if guarded else [],
        move=_within("at[a]", "0", "fault", "dim", [statement]) if guarded else [statement],
    )
    return source, ("i8", "i8", "*i8", *["*i8"] * guarded, "*" + code, "*" + code, "*i8")


def _within(index: str, low: str, fault: str, dim: str, lines: Lines) -> Lines:
    """Lines for an index within bounds; of any other it is told."""
    return [
        f"if ({index} >= {low}) & ({index} < size):",
        lines,
        "else:",
        tell(fault, index, "size", dim, True),
    ]


_OFFSETS = '''"""The offset of each place, which {count} indices name."""
{imports}from nbgrad.kernels.cpu.places import places


def @NAME@(start, stop, meta, {flag}o, {names}):
    n = meta[1]
    end = 2 + meta[0] * {wide}
    o_step = meta[end]
    {settled}
    first, last = 0, n
    if meta[0] == 0:  # one row, of which this is a part
        first, last, start, stop = start, stop, 0, 1
    for row in range(start, stop):
        {spots} = places(meta, row, {every})
        q += first * o_step
        {begun}
        for k in range(first, last):
            total = 0
            {added}
            o[q] = total
            q += o_step
            {stepped}
'''


@cached(64)
def offsets(count: int, guarded: bool = False) -> tuple[str, tuple[str, ...]]:
    """Of indices of which negative ones count from the end, broadcast to each other. `meta` is that of a rows kernel, then for each the
    size and the step of its dimension; of a `guarded` one also the least that it may be, the number of its dimension, and what is told."""
    every = range(count)
    width = 5 if guarded else 2
    settled: list[str] = []
    added: list[Lines | str] = []
    for k in every:
        names = ["size", "step", "low", "dim", "fault"][:width]
        places = [f"meta[end + {count + 1 + width * k + j}]" for j in range(width)]
        settled += [f"a{k}_step = meta[end + {k + 1}]"]
        settled += [f"{name}{k} = {place}" for name, place in zip(names, places)]
        add = [f"total += (i + (size{k} if i < 0 else 0)) * step{k}"]
        if not guarded:
            added += [f"i = at{k}[a{k}]", *add]
            continue
        added += [f"i = at{k}[a{k}]", f"if (i >= low{k}) & (i < size{k}):", ["if total >= 0:", add], "else:"]
        added += [["total = -1", *tell(f"fault{k}", "i", f"size{k}", f"dim{k}", True)]]
    source = fill(
        _OFFSETS,
        imports=_ATOMICS * guarded,
        count=count,
        flag="flag, " if guarded else "",
        names=", ".join(f"at{k}" for k in every),
        wide=count + 2,
        settled=settled,
        spots=", ".join(["q", *(f"a{k}" for k in every)]),
        every=tuple(range(count + 1)),
        begun=[f"a{k} += first * a{k}_step" for k in every],
        added=added,
        stepped=[f"a{k} += a{k}_step" for k in every],
    )
    return source, ("i8", "i8", "*i8", *["*i8"] * guarded, "*i8", *["*i8"] * count)


_NUMBERS = '''"""The offsets of elements that are given by number, counted as if all lay in one row."""


def @NAME@(start, stop, meta, flag, o, at):
    d = meta[0]
    n = meta[1]
    for k in range(start, stop):
        rest = at[k]
        if rest < 0:
            rest += n
        total = 0
        if (rest >= 0) & (rest < n):
            for e in range(d):
                size = meta[2 + e]
                total += (rest % size) * meta[2 + d + e]
                rest //= size
        else:
            total = -1
            {told}
        o[k] = total
'''


@cached(1)
def numbers() -> tuple[str, tuple[str, ...]]:
    """`meta` holds how many dimensions and elements there are, the sizes and the steps, the last dimension's first."""
    return fill(_NUMBERS, told=tell(NUMBER, "at[k]", "n", "0")), ("i8", "i8", "*i8", "*i8", "*i8", "*i8")


def bounds() -> tuple[str, tuple[str, ...]]:
    """What sets `fault` if an index lies outside."""
    return _BOUNDS, ("i8", "i8", "*i8", "*i8", "i8", "i8")


_BOUNDS = '''"""Whether all indices lie from low to under high."""


def @NAME@(start, stop, at, fault, low, high):
    bad = 0
    for k in range(start, stop):
        bad |= (at[k] < low) | (at[k] >= high)
    if bad:
        fault[0] = 1
'''

_COUNT = '''"""How many elements are not 0."""
{imports}

def @NAME@(start, stop, x, found):
    total = 0
    for k in range(start, stop):
        total += {true}
    found[0] = total
'''

_TRUE = '''"""Where the elements are that are not 0."""
{imports}

def @NAME@(start, stop, meta, x, found, apart, along, many):
    d = meta[0]
    size = meta[1]
    last = (d - 1) * apart
    n, k, row, end = 0, start, 0, stop
    while n < many and k < end:  # as another thread may write meanwhile
        begin = n
        for j in range(size):
            found[last + n * along] = j  # the next one writes over it if this is 0: a branch would be foretold too badly
            n += {true}
            if n == many:
                break
            k += 1
        rest = row
        for e in range(1, d):
            q = last - e * apart
            index = rest % meta[1 + e]
            rest //= meta[1 + e]
            for p in range(begin, n):
                found[q + p * along] = index
        row += 1
'''


@cached(64)
def true(code: str, count: bool) -> tuple[str, tuple[str, ...]]:
    """Of what lies without gaps. `meta` holds the number of dimensions and the sizes, the last first; the indices of an element lie `apart`
    in `found`, and those of two elements `along`; `many` is how many there are."""
    value = widened("x[k]", code)
    source = (_COUNT if count else _TRUE).format(imports=halves((code,)), true=f"({value} != 0)")
    if count:
        return source, ("i8", "i8", f"*{code}", "*i8")
    return source, ("i8", "i8", "*i8", f"*{code}", "*i8", "i8", "i8", "i8")


_POUR = '''"""Write the elements of s, one after another, over those of x where a mask is true, if there are enough: how many it takes."""


def @NAME@(start, stop, x, mask, s, found, most):
    count = 0
    for k in range(start, stop):
        count += mask[k]
    found[0] = count
    if count <= most:
        taken = 0
        for k in range(start, stop):
            if mask[k]:
                x[k] = s[taken]
                taken += 1
'''


def pour(code: str) -> tuple[str, tuple[str, ...]]:
    """Of what lies without gaps; of elements only the size is needed."""
    return _POUR, ("i8", "i8", f"*{code}", "*u1", f"*{code}", "*i8", "i8")
