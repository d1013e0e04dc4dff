"""Order among equal elements, as PyTorch's sorts leave it, as source.

Promises the ops the places that PyTorch gives where equal elements are sorted without `stable=True`, ranked by `topk` or chosen by
`kthvalue`: it exchanges elements in the way of C++'s library (`std::sort`, `std::nth_element`, `std::partial_sort`) or by a quickselect,
so what becomes of equals is settled, though nobody promises it. Here the same steps are made, on integers that are in the same order:
by `sort.py` for lines in which it has met equals, by a kernel of its own for `topk` and `kthvalue`, as that is the quickest way, too.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.cpu.keys import key, stored
from nbgrad.kernels.cpu.walk import opening

SHORT = 16  # up to here PyTorch's sort inserts, which is stable
# Beyond, equals keep their order: chance makes some of so many floats equal, and what follows takes as long as PyTorch's sort, of 100,000
# seven times what the sort by digits does.
LONG = 4096


def is_followed(way: str, n: int, count: int) -> bool:
    """Are equals of so long a line left where PyTorch's sort, topk or kthvalue leaves them? Not where that is the order they have."""
    return bool(way) and ((SHORT if way == "sort" else 0) < n <= LONG or (way == "topk" and 64 * count <= n))


# Elements are keys `a` with places `w`. `sink` and the two that call it keep a heap whose greatest is first.
STEPS = """@register_jitable(error_model="numpy")
def swap(a, w, i, j):
    v, p = a[i], w[i]
    a[i], w[i] = a[j], w[j]
    a[j], w[j] = v, p


@register_jitable(error_model="numpy")
def inserted(a, w, first, last):
    for i in range(first + 1, last):
        v, p, j = a[i], w[i], i
        while j > first and v < a[j - 1]:
            a[j], w[j] = a[j - 1], w[j - 1]
            j -= 1
        a[j], w[j] = v, p


@register_jitable(error_model="numpy")
def parted(a, w, first, last):
    i, j, k = first + 1, first + (last - first) // 2, last - 1
    if a[i] < a[j]:
        middle = j if a[j] < a[k] else k if a[i] < a[k] else i
    else:
        middle = i if a[i] < a[k] else k if a[j] < a[k] else j
    swap(a, w, first, middle)
    i, j = first + 1, last
    while True:
        while a[i] < a[first]:
            i += 1
        j -= 1
        while a[first] < a[j]:
            j -= 1
        if i >= j:
            return i
        swap(a, w, i, j)
        i += 1


@register_jitable(error_model="numpy")
def sink(a, w, first, hole, n, v, p):
    top, child = hole, hole
    while child < (n - 1) // 2:
        child = 2 * (child + 1)
        if a[first + child] < a[first + child - 1]:
            child -= 1
        a[first + hole], w[first + hole] = a[first + child], w[first + child]
        hole = child
    if n % 2 == 0 and child == (n - 2) // 2:
        child = 2 * child + 1
        a[first + hole], w[first + hole] = a[first + child], w[first + child]
        hole = child
    above = (hole - 1) // 2
    while hole > top and a[first + above] < v:
        a[first + hole], w[first + hole] = a[first + above], w[first + above]
        hole = above
        above = (hole - 1) // 2
    a[first + hole], w[first + hole] = v, p


@register_jitable(error_model="numpy")
def heap(a, w, first, last):
    n = last - first
    for k in range(n // 2):
        hole = n // 2 - 1 - k
        sink(a, w, first, hole, n, a[first + hole], w[first + hole])


@register_jitable(error_model="numpy")
def least(a, w, first, middle, last):
    heap(a, w, first, middle)
    for i in range(middle, last):
        if a[i] < a[first]:
            v, p = a[i], w[i]
            a[i], w[i] = a[first], w[first]
            sink(a, w, first, 0, middle - first, v, p)


@register_jitable(error_model="numpy")
def unheaped(a, w, first, last):
    for k in range(last - first - 1):
        end = last - 1 - k
        v, p = a[end], w[end]
        a[end], w[end] = a[first], w[first]
        sink(a, w, first, 0, end - first, v, p)


@register_jitable(error_model="numpy")
def depth_of(n):
    depth = -1
    while n > 0:
        depth += 1
        n >>= 1
    return 2 * depth


@register_jitable(error_model="numpy")
def std_sort(a, w, first, last, left):
    # `left` holds parts that are sorted later: where each begins, ends, and how deep it may still go.
    left[0], left[1], left[2] = first, last, depth_of(last - first)
    parts = 1
    while parts > 0:
        parts -= 1
        begin, end, depth = left[3 * parts], left[3 * parts + 1], left[3 * parts + 2]
        while end - begin > 16:
            if depth == 0:
                least(a, w, begin, end, end)
                unheaped(a, w, begin, end)
                break
            depth -= 1
            cut = parted(a, w, begin, end)
            left[3 * parts], left[3 * parts + 1], left[3 * parts + 2] = cut, end, depth
            parts += 1
            end = cut
    inserted(a, w, first, last)


@register_jitable(error_model="numpy")
def std_nth(a, w, first, nth, last):
    depth = depth_of(last - first)
    while last - first > 3:
        if depth == 0:
            least(a, w, first, nth + 1, last)
            swap(a, w, first, nth)
            return
        depth -= 1
        cut = parted(a, w, first, last)
        if cut <= nth:
            first = cut
        else:
            last = cut
    inserted(a, w, first, last)


@register_jitable(error_model="numpy")
def quickselect(a, w, first, nth, last):
    low, high = first, last - 1
    while high > low + 1:
        swap(a, w, low + (high - low) // 2, low + 1)
        if a[low + 1] > a[high]:
            swap(a, w, low + 1, high)
        if a[low] > a[high]:
            swap(a, w, low, high)
        if a[low + 1] > a[low]:
            swap(a, w, low + 1, low)
        i, j = low + 1, high
        while True:
            i += 1
            while a[low] > a[i]:
                i += 1
            j -= 1
            while a[j] > a[low]:
                j -= 1
            if j < i:
                break
            swap(a, w, i, j)
        swap(a, w, low, j)
        if j <= nth:
            low = i
        if j >= nth:
            high = j - 1
    if high == low + 1 and a[low] > a[high]:
        swap(a, w, low, high)
"""
_KERNEL = '''"""Ranks from `begin` on of each line, {order} of {code} as integers in the same order, by PyTorch's {way}."""
from nbgrad.kernels.cpu.stack import stack_i8
from numba.extending import register_jitable


{steps}

def @NAME@(start, stop, meta, o, place, a, w, x, begin, count):
    digits = stack_i8(400)
    {opening}
        lo = start * n
        {lines}
'''


def lines(element: list[str], way: str) -> Lines:
    """What is done with a line of `n` elements, `a` and `w` from `lo` on being for it; `element` makes one an integer."""
    filled: Lines = ["for k in range(n):", [*element, "a[lo + k] = key", "w[lo + k] = k"]]
    given: Lines = [
        "for k in range(count):",
        [
            "at = w[lo + begin + k]",
            "o[o_at + k * o_step] = x[x_at + at * x_step]",
            "place[o_at + k * o_step] = at",
        ],
    ]
    if way == "sort":
        return [*filled, "std_sort(a, w, lo, lo + n, digits)", *given]
    if way == "kthvalue":
        return [*filled, "quickselect(a, w, lo, lo + begin, lo + n)", *given]
    return [
        "if count * 64 <= n:",
        [
            "for k in range(count):",
            [*element, "a[lo + k] = key", "w[lo + k] = k"],
            "heap(a, w, lo, lo + count)",
            "for k in range(count, n):",
            [*element, "if key < a[lo]:", ["sink(a, w, lo, 0, count, key, k)"]],
            "unheaped(a, w, lo, lo + count)",
        ],
        "else:",
        [
            *filled,
            "std_nth(a, w, lo, lo + count - 1, lo + n)",
            "std_sort(a, w, lo, lo + count - 1, digits)",
        ],
        *given,
    ]


@cached(64)
def ranks(code: str, descending: bool, way: str) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes, for `topk` and `kthvalue`. The kernel takes two buffers of scratch."""
    source = fill(
        _KERNEL,
        order="descending" if descending else "ascending",
        code=code,
        way=way,
        steps=STEPS,
        opening=opening(("o", "x"), 1),
        lines=lines(key(code, descending), way),
    )
    kind = "*" + stored(code)
    return source, ("i8", "i8", "*i8", kind, "*i8", "*i8", "*i8", kind, "i8", "i8")
