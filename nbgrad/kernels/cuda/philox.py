"""Philox 4x32-10 and what distributions make of its words, as PyTorch's kernels for CUDA do, as source.

Promises `nbgrad.ops.make.devices`: an item is a thread of PyTorch's grid, which makes four words a turn. Of these come four elements that
lie as many apart as there are threads, or two where an element takes two words; in a `close` text, the four that lie together.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS, halves, narrowed, rounded, write

_TEXT = '''"""{title}, of four words of Philox 4x32-10 a turn."""
import math
import numpy as np
{imports}
U = np.uint32
W = np.uint64
F = np.{real}


def @NAME@(start, stop, o{stood}, n, threads, turns, seed, offset{operands}):
    for t in range(start, stop):
        for turn in range(turns):
            at = {offset} // 4 + turn
            c0 = U(at & 0xFFFFFFFF)
            c1 = U(at >> 32)
            c2 = U(t)
            c3 = U(0)
            k0 = U({seed} & 0xFFFFFFFF)
            k1 = U(({seed} >> 32) & 0xFFFFFFFF)
            {rounds}
            {values}
            {stores}
'''
# Of the counter c0 .. c3 and the key k0, k1 four words.
ROUNDS = [
    "for a_round in range(10):",
    [
        "one = W(0xD2511F53) * W(c0)",
        "two = W(0xCD9E8D57) * W(c2)",
        "c0 = U(U(two >> W(32)) ^ U(c1 ^ k0))",
        "c1 = U(two & W(0xFFFFFFFF))",
        "c2 = U(U(one >> W(32)) ^ U(c3 ^ k1))",
        "c3 = U(one & W(0xFFFFFFFF))",
        "k0 = U(k0 + U(0x9E3779B9))",
        "k1 = U(k1 + U(0xBB67AE85))",
    ],
]
_UNIT4 = "F({0}) * F(2.3283064365386963e-10) + F(1.1641532182693481e-10)"
_UNIT8 = "F(W({0}) ^ (W({1}) << W(21))) * 1.1102230246251565e-16 + 5.551115123125783e-17"
_ANGLE4 = "F({0}) * F(1.4629180792671596e-09) + F(7.314590396335798e-10)"
_PAIR = "(W({0}) << W(32)) | W({1})"
_WORDS = ("c0", "c1", "c2", "c3")
_PAIRS = (("c0", "c1"), ("c2", "c3"))

# What becomes of a uniform number `u` or of an integer `w`, and the numbers of the distribution: d for float64, q for int64.
_MADE = {
    "uniform": ("u * F(n1) + F(n0)", "ddd"),
    "normal": ("u * F(n1) + F(n0)", "dd"),
    "bernoulli": ("u < F(n0)", "d"),
    "noise": ("F(n1) if u < F(n0) else F(0)", "dd"),
    "below": ("np.int64(w % U(n0)) + n1", "qq"),
    "wide": ("np.int64(w % W(n0)) + n1", "qq"),
    "any": ("np.int64(w)", ""),
}
INTEGERS = ("below", "wide", "any")


def numbers(kind: str) -> str:
    return _MADE[kind][1]


def unroll(kind: str, code: str) -> int:
    """How many elements a turn makes."""
    return 2 if kind in ("wide", "any") or (code == "f8" and kind not in ("below", "noise")) else 4


def _drawn(kind: str, code: str) -> Lines:
    """Lines that leave in `v0`, `v1` ... what elements are made of."""
    if kind == "below":
        return [f"v{k} = {word}" for k, word in enumerate(_WORDS)]
    if kind in INTEGERS:
        return [f"v{k} = {_PAIR.format(*pair)}" for k, pair in enumerate(_PAIRS)]
    if unroll(kind, code) == 4:
        if kind != "normal":
            return [f"v{k} = {_UNIT4.format(word)}" for k, word in enumerate(_WORDS)]
        lines: list[str] = []
        for k, (a, b) in enumerate(_PAIRS):
            lines += [
                f"length = F(math.sqrt(F(-2) * F(math.log({_UNIT4.format(a)}))))",
                f"turned = {_ANGLE4.format(b)}",
            ]
            lines += [
                f"v{2 * k} = F(math.sin(turned)) * length",
                f"v{2 * k + 1} = F(math.cos(turned)) * length",
            ]
        return lines
    units = [_UNIT8.format(*pair) for pair in _PAIRS]
    if kind != "normal":
        return [f"v{k} = {unit}" for k, unit in enumerate(units)]
    return [
        f"length = math.sqrt(-2.0 * math.log({units[0]}))",
        f"turned = 6.283185307179586 * ({units[1]})",
        "v0 = math.sin(turned) * length",
        "v1 = math.cos(turned) * length",
    ]


@cached(64)
def source(kind: str, code: str, close: bool = False, captured: bool = False) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes of a distribution's elements in a dtype. In a graph the kernel reads at each launch where the stream
    stands, as a second operand: the seed, and what is to be added to its own offset."""
    real, count = ("float64" if code == "f8" else "float32"), unroll(kind, code)
    made, letters = _MADE[kind]
    number = "i8" if kind in INTEGERS else "b1" if kind == "bernoulli" else "f8" if code == "f8" else "f4"
    stores: list[Lines | str] = []
    for k in range(count):
        value = made.replace("u ", f"v{k} ").replace("w ", f"v{k} ").replace("(w)", f"(v{k})")
        place = f"(turn * threads + t) * {count} + {k}" if close else f"(turn * {count} + {k}) * threads + t"
        element: list[str] = [f"v = {value}"]
        if kind == "uniform":
            kept = rounded("v", code)
            element += [f"v = F(n0) if {kept} == F(n2) else v"]
        stores += [f"at = {place}", "if at < n:", [*element, f"o[at] = {_stored(number, code)}"]]
    text = fill(
        _TEXT,
        title=kind,
        imports=halves((code,)),
        real=real,
        stood=", stood" * captured,
        seed="stood[0]" if captured else "seed",
        offset="(offset + stood[1])" if captured else "offset",
        operands="".join(f", n{k}" for k in range(len(letters))),
        rounds=ROUNDS,
        values=_drawn(kind, code),
        stores=stores,
    )
    given = ["f8" if letter == "d" else "i8" for letter in letters]
    return text, ("i8", "i8", "*" + code, *["*i8"] * captured, *["i8"] * 5, *given)


def _stored(number: str, code: str) -> str:
    """The element `v` in memory's dtype."""
    if code == "b1":
        return "v" if number == "b1" else "v != 0"
    if number == "b1":
        return narrowed("np.float32(v)", code) if code not in SCALARS else f"{SCALARS[code]}(v)"
    return write("v", code, number)
