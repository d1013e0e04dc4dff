"""The Mersenne Twister's words, and what each distribution makes of them, as source.

Promises `nbgrad.ops.make.generator`: which words an element is made of depends on its place alone, so a fill may be cut over any number of
threads. The words come as the recurrence leaves them, from `first` on; each fill tempers those that it reads.
"""

from __future__ import annotations

import math
from typing import Final

from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS, vmath_helpers

# One loop, vectorised: a word depends on none of the 226 before it. The first 624 are those of the authors' and of PyTorch.
_TWIST = '''"""Continue the recurrence of MT19937 in `w`, of which the first 624 words are there, or are made of a seed first."""
import numpy as np
U = np.uint32


def @NAME@(start, stop, w, seed):
    if seed >= 0:
        word = seed
        for k in range(1, 625):
            w[k - 1] = U(word)
            word = (1812433253 * (word ^ word >> 30) + k) & 0xFFFFFFFF
    for i in range(start + 624, stop + 624):
        low = w[i - 623]
        mixed = U((w[i - 624] & U(0x80000000)) | (low & U(0x7FFFFFFF)))
        w[i] = U(w[i - 227] ^ U(mixed >> U(1)) ^ U(U(0) - U(low & U(1))) & U(0x9908B0DF))
'''

_TEMPER = """\
{0} = words[first + {1}]
{0} = U({0} ^ U({0} >> U(11)))
{0} = U({0} ^ U(U({0} << U(7)) & U(0x9D2C5680)))
{0} = U({0} ^ U(U({0} << U(15)) & U(0xEFC60000)))
{0} = U({0} ^ U({0} >> U(18)))"""

_HEAD = '''"""{title}."""
import math
import numpy as np
{preamble}U = np.uint32
F = np.float32
D = np.float64


def @NAME@(start, stop, o, {operands}):
    for i in range(start, stop):
        {body}
'''

_UNIT4 = "F(np.int32(w & U(16777215))) * F(5.9604644775390625e-08)"
_UNIT8 = "D(((np.int64(w) << 32) | np.int64(v)) & 9007199254740991) * 1.1102230246251565e-16"
_EPSILON: Final = 2.0**-52
_PAIR = "((np.uint64(w) << np.uint64(32)) | np.uint64(v))"


def _below(value: str, scalar: str) -> str:
    """What is rounded up to the end of its range is, as in PyTorch, its beginning."""
    return f"({scalar}(n0) if {value} == {scalar}(n2) else {value})"


# What an element is made of: how many words, what it becomes, and how many numbers the distribution has. What becomes no number of
# the words' own size is rounded to any dtype at last.
_ELEMENTS: dict[str, tuple[int, str, int]] = {
    "uniform_f4": (1, _UNIT4, 0),
    "uniform_f8": (2, _UNIT8, 0),
    "range_f4": (1, _below(f"F(D({_UNIT4}) * n1 + n0)", "F"), 3),
    "range_f8": (2, _below(f"fma({_UNIT8}, n1, n0)", "D"), 3),
}
_ROUNDED: dict[str, tuple[int, str, int]] = {
    "below": (1, "np.int64(w % U(n0)) + n1", 2),
    "below_wide": (2, f"np.int64({_PAIR} % np.uint64(n0)) + n1", 2),
    "any": (2, f"np.int64({_PAIR})", 0),
    "bernoulli": (2, f"{_UNIT8} < n0", 1),
    "exponential": (2, f"math.log1p(-({_UNIT8})) / -n0", 1),
    "cauchy": (
        2,
        f"n0 + n1 * math.tan({math.pi!r} * (min(max({_UNIT8}, {_EPSILON!r}), 1 - {_EPSILON!r}) - 0.5))",
        2,
    ),
    "geometric": (2, f"np.ceil(math.log({_UNIT8}) / n0)", 1),
}


def _element(kind: str) -> tuple[int, str, int]:
    if kind in _ELEMENTS:
        return _ELEMENTS[kind]
    name, _, code = kind.rpartition("_")
    words, value, numbers = _ROUNDED[name]
    return words, f"{SCALARS[code]}({value})", numbers


def _block(text: str, by: int) -> str:
    return text.replace("\n", "\n" + " " * by)


def words_of(kind: str) -> int:
    """How many words an element is made of."""
    return _element(kind)[0]


@cached(64)
def source(kind: str) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes, by name: `twist`, `permutation`, `permutation_many`, `normal_` (in blocks) and `few_` (one after the
    other, and `few_log_` what they are the logarithms of) and `each_` (trials, each of a chance of its own) of a dtype, or what an
    element is made of by itself, and its code."""
    if kind == "twist":
        return _TWIST, ("i8", "i8", "*u4", "i8")
    if kind in _PERMUTATIONS:
        return _PERMUTATIONS[kind], ("i8", "i8", "*i8", "*u4", "i8", "i8", "i8")
    if kind.startswith("normal"):
        return _normal(kind[-2:])
    if kind.startswith("few"):
        code = kind[-2:]
        finish = "math.exp" if kind.startswith("few_log") else ""
        body = _FEW.format(scalar=SCALARS[code], draw=_block(_TWO_UNITS, 8), finish=finish)
        return body, ("i8", "i8", "*" + code, "*f8", "*u4", "i8", "f8", "f8")
    if kind.startswith("each"):
        code = kind[-2:]
        return _EACH[code], ("i8", "i8", "*" + code, "*" + code, "*i8", "*u4", "i8")
    words, result, numbers = _element(kind)
    draw = "\n".join(
        _TEMPER.format(name, f"{words} * i + {k}" if words > 1 else "i")
        for k, name in enumerate("wv"[:words])
    )
    number = "i8" if kind.startswith(("below", "any")) else "f8"
    text = _HEAD.format(
        title=f"{kind}: each element of {words} words",
        preamble=vmath_helpers(),
        operands=", ".join(["words", "first", *(f"n{k}" for k in range(numbers))]),
        body=_block(f"{draw}\no[i] = {result}", 8),
    )
    return text, ("i8", "i8", "*" + kind[-2:], "*u4", "i8", *[number] * numbers)


# PyTorch's logarithm, sine and cosine of the float32 path are those of Cephes, with every multiplication that an addition follows
# fused; of a difference of products it is the first that is. To the bit the same, hence this spelling. The uniforms of 32 blocks are
# brought together first, as vectors of 8 that are 16 apart are none to LLVM (measured: 7.3 ms a million, so 1.5).
_NORMAL4 = '''"""Normal numbers in blocks of 16 (of a block, 8 lengths and 8 angles), in float32."""
import numpy as np
{helpers}from nbgrad.kernels.cpu.stack import stack_f4
U = np.uint32
F = np.float32


def @NAME@(start, stop, o, words, first, mean, std):
    units = stack_f4(512)
    for begin in range(start, stop, 32):
        blocks = min(32, stop - begin)
        for i in range(16 * blocks):
            {temper}
            units[i] = {unit}
        for i in range(blocks):
            for j in range(8):
                one = F(1) - units[16 * i + j]
                bits = f2i(one)
                e = F(np.int32((bits >> 23) - 126))
                x = i2f4((bits & 8388607) | 1056964608)
                small = x < F(0.707106781186547524)
                e = e - select(small, F(1), F(0))
                x = (x - F(1)) + select(small, x, F(0))
                z = x * x
                y = F(7.0376836292e-2)
                {log}
                y = y * x
                y = fma(y, z, e * F(-2.12194440e-4))
                y = fma(-z, F(0.5), y)
                length = np.sqrt(F(-2) * fma(e, F(0.693359375), x + y))
                x = F(6.283185307179586) * units[16 * i + 8 + j]
                turn = np.int32((np.int32(x * F(1.27323954473516)) + np.int32(1)) & np.int32(-2))
                y = F(turn)
                x = fma(y, F(-0.78515625), x)
                x = fma(y, F(-2.4187564849853515625e-4), x)
                x = fma(y, F(-3.77489497744594108e-8), x)
                z = x * x
                c = fma(fma(F(2.443315711809948e-5), z, F(-1.388731625493765e-3)), z, F(4.166664568298827e-2)) * z
                c = fma(c, z, -(z * F(0.5))) + F(1)
                s = fma(fma(F(-1.9515295891e-4), z, F(8.3321608736e-3)), z, F(-1.6666654611e-1)) * z
                s = fma(s, x, x)
                straight = (turn & 2) == 0
                sine = select(straight, s, c)
                cosine = select(straight, c, s)
                sine = select((turn & 4) != 0, -sine, sine)
                cosine = select(((turn - 2) & 4) == 0, -cosine, cosine)
                o[16 * (begin + i) + j] = fma(length * cosine, F(std), F(mean))
                o[16 * (begin + i) + 8 + j] = fma(length * sine, F(std), F(mean))
'''
_LOG = (
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)

_BLOCK8 = """\
for j in range(8):
    {radius}
    {radius_low}
    one = 1.0 - UNIT(w, v)
    {angle}
    {angle_low}
    length = math.sqrt(-2.0 * math.log(one))
    x = 6.283185307179586 * UNIT(w, v)
    o[16 * i + j] = fma(length * math.cos(x), n1, n0)
    o[16 * i + 8 + j] = fma(length * math.sin(x), n1, n0)"""


def _normal(code: str) -> tuple[str, tuple[str, ...]]:
    """Blocks of 16 numbers by Box and Muller's transformation: of 16 uniforms the first 8 give the lengths, the others the angles."""
    codes = ("i8", "i8", "*" + code, "*u4", "i8", "f8", "f8")
    if code == "f4":
        source = _NORMAL4.format(
            helpers=vmath_helpers(),
            temper=_block(_TEMPER.format("w", "16 * begin + i"), 12),
            unit=_UNIT4,
            log=_block("\n".join(f"y = fma(y, x, F({c!r}))" for c in _LOG), 16),
        )
    else:
        words = {"radius": 0, "radius_low": 1, "angle": 16, "angle_low": 17}
        body = _BLOCK8.format(
            **{
                name: _block(_TEMPER.format("v" if k % 2 else "w", f"32 * i + 2 * j + {k}"), 4)
                for name, k in words.items()
            }
        ).replace("UNIT(w, v)", f"({_UNIT8})")
        source = _HEAD.format(
            title="Normal numbers in blocks of 16, in float64",
            preamble=vmath_helpers(),
            operands="words, first, n0, n1",
            body=_block(body, 8),
        )
    return source, codes


# Two uniforms of two words each; the C library's functions, one number after the other, as PyTorch takes them.
_TWO_UNITS = "\n".join(
    [
        _TEMPER.format("w", "at"),
        _TEMPER.format("v", "at + 1"),
        f"angle = 6.283185307179586 * ({_UNIT8})",
        _TEMPER.format("w", "at + 2"),
        _TEMPER.format("v", "at + 3"),
        f"radius = math.sqrt(-2.0 * math.log1p(-({_UNIT8})))",
    ]
)
_FEW = '''"""Normal numbers in pairs by Box and Muller's transformation, in float64; the one too many is kept for the next call."""
import math
import numpy as np
U = np.uint32
D = np.float64
F = {scalar}


def @NAME@(start, stop, o, kept, words, first, mean, std):
    i = 0
    at = 0
    if kept[1] != 0 and stop > 0:
        o[0] = F({finish}(kept[0] * std + mean))
        kept[1] = 0
        i = 1
    while i < stop:
        {draw}
        at += 4
        o[i] = F({finish}(radius * math.cos(angle) * std + mean))
        other = radius * math.sin(angle)
        i += 1
        if i < stop:
            o[i] = F({finish}(other * std + mean))
            i += 1
        else:
            kept[0] = other
            kept[1] = 1
'''

# A chance beyond 0 and 1 is told of by `bad`; what else was written is then nobody's.
_EACH_HEAD = '''"""Trials, each of a chance of its own."""
import numpy as np
U = np.uint32
F = np.float32
D = np.float64


def @NAME@(start, stop, o, chance, bad, words, first):
    for i in range(start, stop):
        {draw}
        if not (chance[i] >= 0 and chance[i] <= 1):
            bad[0] = 1
        o[i] = {scalar}({unit} < chance[i])
'''
_EACH = {
    code: _EACH_HEAD.format(
        draw=_block("\n".join(_TEMPER.format(name, at) for name, at in draws), 8),
        scalar=SCALARS[code],
        unit=unit,
    )
    for code, draws, unit in (
        ("f4", [("w", "i")], _UNIT4),
        ("f8", [("w", "2 * i"), ("v", "2 * i + 1")], _UNIT8),
    )
}

_PERMUTE = f'''"""The shuffle of Fisher and Yates: what stands at i changes places with one of those from i on."""
import numpy as np
U = np.uint32


def @NAME@(start, stop, o, words, first, begin, n):
    for i in range(start, stop):
        {_block(_TEMPER.format("w", "i"), 8)}
        k = begin + i
        at = k + np.int64(w % U(n - k))
        o[k], o[at] = o[at], o[k]
'''

# From 2**32 / 20 numbers on, PyTorch shuffles inside out, by two words each.
_PERMUTE_MANY = f'''"""The shuffle inside out: i goes to a place up to its own, and what stood there to place i."""
import numpy as np
U = np.uint32


def @NAME@(start, stop, o, words, first, begin, n):
    for i in range(start, stop):
        {_block(_TEMPER.format("w", "2 * i"), 8)}
        {_block(_TEMPER.format("v", "2 * i + 1"), 8)}
        k = begin + i
        at = np.int64({_PAIR} % np.uint64(k + 1))
        o[k] = o[at]
        o[at] = k
'''
_PERMUTATIONS = {"permutation": _PERMUTE, "permutation_many": _PERMUTE_MANY}
