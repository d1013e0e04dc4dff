"""Elements as integers that are in the same order: NaN above everything, zeros of both signs equal, as PyTorch compares them."""

from __future__ import annotations

UNSIGNED = {"u2": "i2", "u4": "i4", "u8": "i8"}  # what these are read as
INFINITY = {"f2": 0x7C00, "g2": 0x7F80, "f4": 0x7F800000, "f8": 0x7FF0000000000000}  # its bits


def key(code: str, descending: bool) -> list[str]:
    """An integer in the order of the element, which is read as an integer of its own size."""
    size = int(code[1])
    lines = ["key = int(x[x_at + k * x_step])"]
    if code in INFINITY:
        ones = (1 << (8 * size - 1)) - 1
        infinity = INFINITY[code]
        lines += [
            f"size_of = key & {ones}",
            f"key = {ones} if size_of > {infinity} else 0 if size_of == 0 else key ^ ((key >> {8 * size - 1}) & {ones})",
        ]
    if code in UNSIGNED:  # with the first bit turned they are in the order of signed ones
        lines.append(f"key = key ^ (-{(1 << (8 * size - 1)) - 1} - 1)")
    return lines + (["key = ~key"] if descending else [])


def stored(code: str) -> str:
    """As what elements are read."""
    return UNSIGNED.get(code) or {"b": "u1", "f": "i" + code[1], "g": "i2"}.get(code[0], code)
