"""The codes of elements that are computed in another dtype than they are stored in: what memory they are of, and what converts them."""

from typing import Final

FLOAT8: Final = {"p1": "e4m3fn", "q1": "e5m2", "r1": "e4m3fnuz", "s1": "e5m2fnuz", "t1": "e8m0fnu"}
NARROW: Final = {
    "f2": "half",
    "g2": "bfloat",
    **FLOAT8,
}  # what `from_` and `to_` precede: from and to float32
FILES: Final = {
    "f2": "half",
    "g2": "bfloat",
    **dict.fromkeys(FLOAT8, "float8"),
}  # of `kernels/cpu/`, where that stands
MEMORY: Final = {"b1": "u1", "f2": "u2", "g2": "u2", **dict.fromkeys(FLOAT8, "u1")}  # as kernels see it
