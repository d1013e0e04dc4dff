"""Cross products of vectors of 3, as source. `meta` is that of a rows kernel (`places.py`) over the vectors, then what lies between the
three elements of each operand."""

from __future__ import annotations

from nbgrad.base.tables import cached
from nbgrad.kernels.templates import halves, read, rounded, write

_CROSS = '''"""Cross products of vectors of 3."""
{imports}from nbgrad.kernels.cpu.places import places


def @NAME@(start, stop, meta, o, x, y):
    n = meta[1]
    end = 2 + meta[0] * 4
    o_step, x_step, y_step = meta[end], meta[end + 1], meta[end + 2]
    o_next, x_next, y_next = meta[end + 3], meta[end + 4], meta[end + 5]
    for row in range(start, stop):
        q, p, r = places(meta, row, (0, 1, 2))
        for k in range(n):
            {x0}
            {x1}
            {x2}
            {y0}
            {y1}
            {y2}
            {o0}
            {o1}
            {o2}
            q += o_step
            p += x_step
            r += y_step
'''


@cached(16)
def cross(code: str, kind: str) -> tuple[str, tuple[str, ...]]:
    """In a narrow dtype each product is rounded, as in PyTorch."""
    texts = {}
    for k in range(3):
        texts[f"x{k}"] = f"x{k} = " + read(f"x[p + {k} * x_next]", code, kind, False)
        texts[f"y{k}"] = f"y{k} = " + read(f"y[r + {k} * y_next]", code, kind, False)
        i, j = (k + 1) % 3, (k + 2) % 3
        a, b = (rounded(text, code) for text in (f"x{i} * y{j}", f"x{j} * y{i}"))
        texts[f"o{k}"] = f"o[q + {k} * o_next] = " + write(f"{a} - {b}", code, kind)
    pointer = f"*{code}"
    return _CROSS.format(imports=halves((code,)), **texts), ("i8", "i8", "*i8", pointer, pointer, pointer)
