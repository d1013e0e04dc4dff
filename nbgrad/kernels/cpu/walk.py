"""The opening that kernels share which walk along one dimension: where each item's operands begin, and how they step.

Promises the templates of this folder: after `opening(names, width)` there stand, for operand `x`, `x_at` (its first element),
`x_step` (along the dimension) and `x_lane` (to the neighbouring line). An item is a bundle of up to `WIDTH` neighbouring lines,
`width` of them, which a kernel may follow side by side: vector code where lines lie together, independent chains of
additions where not. Divisions find where a range begins; from one item to the next bundles are counted. `nbgrad.ops.reduce.walk` makes
the `meta` that is read here.
"""

from __future__ import annotations

WIDE = 256  # lines of a bundle where they lie together
FEW = 8  # and where they do not: enough to hide the latency of an addition


def opening(names: tuple[str, ...], width: int) -> str:
    """Text indented for the body of a function; what follows it stands in a loop, eight columns in."""
    head = 4 + 3 * len(names)
    lines = ["d = meta[0]", "n = meta[1]", "lines = meta[2]", "blocks = meta[3]"]
    for k, name in enumerate(names):
        lines += [f"{name}_step = meta[{5 + 3 * k}]", f"{name}_lane = meta[{6 + 3 * k}]"]
    lines += [
        *(f"{name}_first = 0" for name in names),
        "known = -1",
        "block = start % blocks",
        "beside = start // blocks",
        "for item in range(start, stop):",
        "    if known != beside:",
        "        known = beside",
        "        rest = beside",
        *(f"        {name}_first = meta[{4 + 3 * k}]" for k, name in enumerate(names)),
        "        for e in range(d):",
        f"            size = meta[{head} + e]",
        "            at = rest % size",
        "            rest //= size",
        *(f"            {name}_first += at * meta[{head} + d * {k + 1} + e]" for k, name in enumerate(names)),
        f"    first = block * {width}",
        *([f"    width = min({width}, lines - first)"] if width > 1 else []),
        *(f"    {name}_at = {name}_first + first * {name}_lane" for name in names),
        "    block += 1",
        "    if block == blocks:",
        "        block = 0",
        "        beside += 1",
    ]
    return "\n    ".join(lines)
