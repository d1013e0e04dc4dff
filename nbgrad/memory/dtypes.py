"""Dtypes, and PyTorch's rules for which dtype an operation computes in.

Promises to every layer below: a `dtype` is a singleton (compare with `is`, use as a dict key), its fields are
plain attributes, and promotion is a dictionary look-up. Nothing here knows about tensors: callers say of each
operand whether it is a tensor with dimensions, a 0-dim tensor or a Python number. A new dtype is one line in
the table below `_define`.

This module has globals called `float`, `int` and `bool`, as PyTorch has; the builtins are spelled in full.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from nbgrad.base.tables import DEFAULT_DTYPE, Table, cached, forget
from nbgrad.kernels.codes import FLOAT8, NARROW

BOOL, INT, FLOAT, COMPLEX = 0, 1, 2, 3  # dtype.category, in the order of promotion
DIM, ZERODIM, NUMBER = 0, 1, 2  # the kinds of operand, strongest first


class dtype:
    """The type of a tensor's elements: `torch.float32` and the like, which are the only ones there are.

    `np` is NumPy's dtype, which bfloat16 and floats of 8 bits have none of: whoever asks for it fails. `host` is that of the values as
    they come to the host, of those float32; `bits` that of the integers in their memory, of others None. `scalar_name` is the word of
    most of PyTorch's messages ("Long"), `c_name` that of others ("long int"). `code` says how kernels store it ("i8"), `kind` in which of
    their dtypes they compute it: its own, but for what is `narrow`, stored in 8 or 16 bits and computed in float32, and for integers of
    16 bits and more without sign, computed in some that hold them. What is `kept` is of those that PyTorch has few functions of. What is
    `inexact`, floating point or complex, can have a gradient. A complex number ("c8") is stored as its real part and its imaginary one,
    side by side.

    >>> torch.float32.itemsize, torch.float32.is_floating_point
    (4, True)
    """

    __module__ = "nbgrad"  # where users find it

    __slots__ = (
        "abbr",
        "bits",
        "c_name",
        "category",
        "code",
        "host",
        "inexact",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "kept",
        "kind",
        "name",
        "narrow",
        "np",
        "scalar_name",
        "type_name",
    )
    name: str
    bits: np.dtype[Any] | None
    kept: builtins.bool
    narrow: builtins.bool
    host: np.dtype[Any]
    np: np.dtype[Any]
    itemsize: builtins.int
    category: builtins.int
    inexact: builtins.bool
    is_floating_point: builtins.bool
    is_complex: builtins.bool
    is_signed: builtins.bool
    scalar_name: str
    type_name: str
    abbr: str
    c_name: str
    code: str
    kind: str

    def __new__(cls, *args: object, **kwargs: object) -> dtype:
        raise TypeError("cannot create 'torch.dtype' instances")

    def __init_subclass__(cls, **kwargs: object) -> None:
        raise TypeError("type 'torch.dtype' is not an acceptable base type")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.dtype' objects is not writable")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name  # pickle and copy look the name up in this module, so identity is kept

    def __getattr__(self, name: str) -> Any:
        """What was not set when it was made: of a dtype without kernels, all that they ask."""
        if self.is_built or name not in dtype.__slots__:
            raise AttributeError(f"'torch.dtype' object has no attribute '{name}'")
        if name == "is_signed" and (word := _UNSIGNABLE.get(self.name.strip("u")[0])):
            raise RuntimeError(word)
        from nbgrad.names.absent import refuse

        refuse(f"torch.{self.name}")

    @property
    def is_built(self) -> builtins.bool:
        """Whether tensors can have it."""
        return self.name in _ALL

    def to_real(self) -> dtype:
        """The dtype of the real part: itself, unless it is complex.

        >>> torch.complex64.to_real()
        torch.float32
        """
        found: dtype = _ALL[f"float{self.itemsize * 4}"] if self.is_complex else self
        return found

    def to_complex(self) -> dtype:
        """The dtype of complex numbers of such parts.

        >>> torch.float64.to_complex()
        torch.complex128
        """
        if self.is_complex:
            return self
        parts = float32 if self.name == "bfloat16" else self
        if self.name not in ("float16", "bfloat16", "float32", "float64"):
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        name = f"complex{parts.itemsize * 16}"
        return _ALL.get(name) or _without_kernels(name)


_ALL: dict[str, dtype] = {}


def _define(name: str, scalar_name: str, abbr: str, c_name: str, code: str = "") -> dtype:
    """`code` is said where NumPy has no such dtype."""
    self: dtype = object.__new__(dtype)
    fields: dict[str, object] = (
        {"host": np.dtype(np.float32), "bits": np.dtype(f"u{code[1:]}")} if code else {}
    )
    if not code:
        fields = {"np": np.dtype(name), "host": np.dtype(name), "bits": None}
    code = code or np.dtype(name).str[1:]
    category = {"b": BOOL, "i": INT, "u": INT, "c": COMPLEX}.get(code[0], FLOAT)
    fields |= {
        "name": name,
        "itemsize": builtins.int(code[1:]),
        "category": category,
        "is_floating_point": category == FLOAT,
        "is_complex": category == COMPLEX,
        "inexact": category >= FLOAT,
        "is_signed": code[0] not in "bu" and name != "float8_e8m0fnu",
        "scalar_name": scalar_name,
        "type_name": f"torch.{scalar_name}Tensor",
        "abbr": abbr,
        "c_name": c_name,
        "code": code,
        "kind": "f4" if code in NARROW else _HOLDING.get(code, code),
        "kept": code in FLOAT8 or code in _HOLDING,
        "narrow": code in NARROW,
    }
    for field, value in fields.items():
        object.__setattr__(self, field, value)
    _ALL[name] = self
    return self


_HOLDING: Final = {"u2": "i4", "u4": "i8", "u8": "i8"}  # of 8 bytes the bits alone

# Promotion follows from the code.
bool_: Final = _define("bool", "Bool", "b8", "bool")
uint8: Final = _define("uint8", "Byte", "u8", "unsigned char")
int8: Final = _define("int8", "Char", "i8", "signed char")
int16: Final = _define("int16", "Short", "i16", "short int")
int32: Final = _define("int32", "Int", "i32", "int")
int64: Final = _define("int64", "Long", "i64", "long int")
float16: Final = _define("float16", "Half", "f16", "c10::Half")
bfloat16: Final = _define("bfloat16", "BFloat16", "bf16", "c10::BFloat16", "g2")
float32: Final = _define("float32", "Float", "f32", "float")
float64: Final = _define("float64", "Double", "f64", "double")
complex64: Final = _define("complex64", "ComplexFloat", "c64", "c10::complex<float>")
complex128: Final = _define("complex128", "ComplexDouble", "c128", "c10::complex<double>")

all_dtypes: Final = tuple(_ALL.values())  # but for those that are kept
uint16: Final = _define("uint16", "UInt16", "u16", "uint16_t")
uint32: Final = _define("uint32", "UInt32", "u32", "uint32_t")
uint64: Final = _define("uint64", "UInt64", "u64", "uint64_t")
float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu = (
    _define(f"float8_{bits}", f"Float8_{bits}", f"f8{bits}", f"c10::Float8_{bits}", code)
    for code, bits in FLOAT8.items()
)
kept_dtypes: Final = tuple(_ALL.values())[len(all_dtypes) :]
_BY_CODE: Final = {d.code: d for d in _ALL.values()}
of_code: Final = _BY_CODE.__getitem__


# ---------------------------------------------------------------- dtypes without kernels

# Each with the bytes of an element. They can be named, compared, kept and asked what they are; a tensor of one is refused by name.
_SIZES: Final = {
    "complex32": 4,
    **dict.fromkeys([f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)], 1),
    **dict.fromkeys(["float4_e2m1fn_x2", "quint8", "qint8", "quint4x2", "quint2x4"], 1),
    **{"qint32": 4, "bits8": 1, "bits16": 2, "bits1x8": 1, "bits2x4": 1, "bits4x2": 1},
}
_ALIASES: Final = {"chalf": "complex32", "bit": "uint1"}
_UNSIGNABLE: Final = {
    "q": "isSignedType not supported for quantized types",
    "b": "Bits types are undefined",
}


@cached(64)
def _without_kernels(name: str) -> dtype:
    self: dtype = object.__new__(dtype)
    real = name[0] != "c"
    fields: dict[str, object] = {"name": name, "itemsize": _SIZES[name], "is_complex": not real}
    fields |= {"is_floating_point": name[0] == "f", "inexact": name[0] in "cf"}
    if name.strip("u")[0] not in _UNSIGNABLE:
        fields["is_signed"] = name[0] != "u"
    word = name.replace("int", "Int").replace("uI", "UI")
    fields["scalar_name"] = word[0].upper() + word[1:] if real else "ComplexHalf"
    for field, value in fields.items():
        object.__setattr__(self, field, value)
    return self


def __getattr__(name: str) -> dtype:
    name = _ALIASES.get(name, name)
    if name not in _SIZES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _without_kernels(name)


# ---------------------------------------------------------------- promotion of two dtypes


def _promote(a: dtype, b: dtype) -> dtype:
    if a.category != b.category:
        low, high = sorted((a, b), key=lambda d: d.category)
        # The category decides, never the width: int64 with float32 is float32. Only parts are as wide as a float is.
        return complex128 if high.category == COMPLEX and low is float64 else high
    if a.narrow and b.narrow and a is not b:
        return float32  # neither holds what the other does
    if a.is_signed == b.is_signed:
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    wide_enough = [
        d for d in all_dtypes if d.category == INT and d.is_signed and d.itemsize > unsigned.itemsize
    ]
    return max(signed, min(wide_enough, key=lambda d: d.itemsize), key=lambda d: d.itemsize)


_PROMOTED: Final = {
    **{(a, b): _promote(a, b) for a in all_dtypes for b in all_dtypes},
    **{(d, d): d for d in kept_dtypes},
    **{
        pair: real
        for d in (uint16, uint32, uint64)
        for real in (float16, bfloat16, float32, float64)
        for pair in ((d, real), (real, d))
    },
}


def _promoted(a: dtype, b: dtype) -> dtype:
    found = _PROMOTED.get((a, b))
    if found is None:
        kinds = (
            "Float8 Types"
            if a.category == b.category == FLOAT or FLOAT8.keys() & {a.code, b.code}
            else _UNSIGNED
        )
        raise RuntimeError(
            f"Promotion for {kinds} is not supported, attempted to promote {a.scalar_name} and {b.scalar_name}"
        )
    return found


_UNSIGNED: Final = "uint16, uint32, uint64 types"


def promote_types(type1: object, type2: object) -> dtype:
    """The smallest dtype that is no smaller, and of no lower category (bool, integer, float), than either.

    >>> torch.promote_types(torch.int64, torch.float32), torch.promote_types(torch.uint8, torch.int8)
    (torch.float32, torch.int16)
    """
    a = _dtype_argument(type1, "promote_types", "type1", 1)
    b = _dtype_argument(type2, "promote_types", "type2", 2)
    return _promoted(a, b) if a.is_built and b.is_built else _promote_complex(a, b)


def _promote_complex(a: dtype, b: dtype) -> dtype:
    """Of the wider parts: what is no float has none. Of dtypes without kernels, only complex32 is promoted."""
    for d in (a, b):
        if not d.is_complex:
            assert d.kind  # refused where there are no kernels
    parts = [d.to_real().to_complex() for d in (a, b) if d.is_complex or d.is_floating_point]
    return max(parts, key=lambda d: d.itemsize)


def can_cast(from_: object, to: object) -> builtins.bool:
    """Whether a result of dtype `from_` may be written into a tensor of dtype `to` (in-place ops, `out=`).

    >>> torch.can_cast(torch.int64, torch.float32), torch.can_cast(torch.float32, torch.int64)
    (True, False)
    """
    a = _dtype_argument(from_, "can_cast", "from_", 1)
    b = _dtype_argument(to, "can_cast", "to", 2)
    if (a, b) not in _PROMOTED:
        whole = ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "bool")
        loses = a.is_complex and not b.is_complex
        loses |= a.is_floating_point and b.name in whole
        return not loses and (a is b or b is not bool_)
    return a.category <= b.category


# ---------------------------------------------------------------- the default dtype

# One tuple, so that a reader always gets a default dtype together with answers that were worked out under it.
Promotions = Table[tuple[tuple[builtins.int, dtype], ...], dtype]


def _promotions() -> Promotions:
    return Table("memory.dtypes.promotions", 4096)


_state = (float32, _promotions())


def get_default_dtype() -> dtype:
    """The dtype of what is made of Python floats, float32 unless `set_default_dtype` has set another.

    >>> torch.get_default_dtype()
    torch.float32
    """
    return _state[0]


def set_default_dtype(d: dtype, /) -> None:
    """Make `d`, which must be floating, the dtype of what is made of Python floats and of integers that are divided.

    >>> torch.set_default_dtype(torch.float64)
    >>> torch.tensor(0.5).dtype
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    global _state
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    assert d.kind  # refused where there are no kernels
    if d.kept:
        raise TypeError(f"couldn't find storage object {d.scalar_name}Storage")
    _state = (d, _promotions())
    forget(DEFAULT_DTYPE)


# ---------------------------------------------------------------- promotion of operands


def result_dtype(operands: Iterable[tuple[builtins.int, dtype]]) -> dtype:
    """The common dtype of operands given as (kind, dtype), kind one of DIM, ZERODIM, NUMBER.

    A weaker kind only raises the category of the result, never its width within a category. For NUMBER the
    dtype is `number_dtype(value)`; of a Python float only the category counts: the default dtype stands in.
    """
    key = tuple(operands)
    default, memo = _state
    found = memo.get(key)
    if found is None:
        found = _combine(key, default)
        if (
            len(key) <= 4
        ):  # `cat` and `stack` of long lists would fill the memo with keys that never come again
            memo.keep(key, found)
    return found


def _combine(operands: tuple[tuple[builtins.int, dtype], ...], default: dtype) -> dtype:
    by_kind: list[dtype | None] = [None, None, None]
    for kind, d in operands:
        if kind == NUMBER and d.category >= FLOAT:
            d = default if d.is_floating_point else default.to_complex()
        seen = by_kind[kind]
        by_kind[kind] = d if seen is None else _promoted(seen, d)
    result: dtype | None = None
    for higher in reversed(by_kind):
        if result is None:
            result = higher
        elif higher is not None:
            # What is stronger gives way only to a higher category, of which a complex one has parts no narrower than it.
            result = higher if higher.category >= result.category else _raised(higher, result)
    if result is None:
        raise ValueError("result_dtype() needs at least one operand")
    return result


def _raised(stronger: dtype, weaker: dtype) -> dtype:
    """The stronger operand's dtype, raised to the category of a weaker one."""
    if weaker.is_complex and stronger.is_floating_point:
        return stronger.to_complex()
    return _promoted(stronger, weaker)


def number_dtype(value: object) -> dtype:
    """The dtype that stands for a Python number in `result_dtype`: bool, int64, for a float the default, for a complex number that of
    such parts."""
    if isinstance(value, builtins.bool):
        return bool_
    if isinstance(value, builtins.int):
        return int64
    return _state[0].to_complex() if isinstance(value, builtins.complex) else _state[0]


# ---------------------------------------------------------------- other people's names for dtypes

_PYTHON_TYPES: Final[dict[type, dtype]] = {
    builtins.float: float64,
    builtins.int: int64,
    builtins.bool: bool_,
    builtins.complex: complex128,
}


def to_dtype(obj: object, function: str = "to", position: builtins.int | None = None) -> dtype:
    """A dtype from a dtype or from Python's float, int, bool or complex; `function` is who asks, for the error."""
    return _dtype_argument(obj, function, "dtype", position)


def _dtype_argument(obj: object, function: str, argument: str, position: builtins.int | None) -> dtype:
    if isinstance(obj, dtype):
        return obj
    if isinstance(obj, type) and obj in _PYTHON_TYPES:
        return _PYTHON_TYPES[obj]
    where = "" if position is None else f" (position {position})"
    raise TypeError(
        f"{function}(): argument '{argument}'{where} must be torch.dtype, not {type(obj).__name__}"
    )


# Keyed by dtype, not by name: NumPy has two 8-byte integers, equal and of equal hash, that differ in name.
_FROM_NUMPY: Final = {d.np: d for d in _ALL.values() if d.bits is None}


def from_numpy_dtype(d: np.dtype[Any]) -> dtype:
    """The dtype of a NumPy array's elements; the errors are those of `torch.from_numpy`."""
    found = _FROM_NUMPY.get(d)
    if found is not None:
        return found
    if not d.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported."
        )
    order = (FLOAT, COMPLEX, INT, BOOL)
    listed = sorted(
        _FROM_NUMPY.values(),
        key=lambda x: (order.index(x.category), not x.is_signed, x.itemsize if x.is_complex else -x.itemsize),
    )
    names = [x.name for x in listed]
    supported = ", ".join(names[:-1]) + f", and {names[-1]}"
    raise TypeError(
        f"can't convert np.ndarray of type numpy.{d.type.__name__}. "
        f"The only supported types are: {supported}."
    )


# ---------------------------------------------------------------- values on the host


def values(memory: Any, d: dtype, shape: tuple[builtins.int, ...], strides: Iterable[builtins.int]) -> Any:
    """The elements in a buffer of bytes as an array of `host`: the memory itself, or a copy where NumPy has no such dtype. `strides`
    count elements."""
    if 0 in shape:  # NumPy wants room for the offset of even no element
        return np.empty(shape, d.host)
    found = np.ndarray(shape, d.bits or d.np, memory, 0, tuple([s * d.itemsize for s in strides]))
    return found if d.bits is None else unpacked(found, d)


def rounded(values: Any, d: dtype) -> Any:
    """NumPy's numbers as those of a dtype, in its `host`: what is too large is infinite. By way of float32, as PyTorch goes, if narrow."""
    with np.errstate(over="ignore"):
        if d.narrow:
            values = np.asarray(values, np.float32)
        return (
            np.asarray(values).astype(d.np, copy=False) if d.bits is None else unpacked(packed(values, d), d)
        )


def rounding(d: dtype) -> Callable[[Any], Any]:
    """What makes numbers of those that are computed in a dtype, one operation after the other; of integers in float64."""
    return partial(rounded, d=d if d.inexact else float64)


def fused(a: Any, b: Any, c: Any) -> Any:
    """a * b + c of float64 in one rounding, but for a tie in a million; as what PyTorch's compiler makes of its lines."""
    a, b, c = (np.asarray(v, np.float64) for v in (a, b, c))
    with np.errstate(all="ignore"):
        high, other = (v * 134217729.0 - (v * 134217729.0 - v) for v in (a, b))
        low, rest = a - high, b - other
        product = a * b
        total = product + c
        part = total - product
        lost = (product - (total - part)) + (c - part)
        lost += ((high * other - product) + high * rest + low * other) + low * rest
        return np.where(np.isfinite(lost), total + lost, total)


def evenly(start: Any, end: Any, steps: builtins.int, d: dtype) -> np.ndarray[Any, Any]:
    """Numbers equally far apart: symmetric about the middle, in the dtype itself (integers in double), as PyTorch computes them."""
    if steps == 1:
        return np.array([start])
    real = rounding(d)
    a, b, i = real(start), real(end), np.arange(steps)
    step = real(real(b - a) / real(max(steps - 1, 1)))
    back = steps - 1 - i
    if not d.narrow and not d.is_complex:
        return real(np.where(i < steps // 2, fused(step, i, a), fused(-step, back, b)))
    low, high = real(a + real(step * real(i))), real(b - real(step * real(back)))
    return np.where(i < steps // 2, low, high)


def stepwise(start: Any, step: Any, n: builtins.int, d: dtype) -> np.ndarray[Any, Any]:
    """`start + step * i` in floats of that dtype. PyTorch takes as many at a time as there are in two registers, from the first of each,
    which is rounded, and what is left over one by one; narrow ones in float32."""
    i = np.arange(n)
    lanes = 32 // d.itemsize
    first = np.where(i < n - n % (2 * lanes), i - i % lanes, i)
    if d.narrow:
        start, step = np.float32(start), np.float32(step)
    begin = rounded(fused(step, first, start), d)
    found = np.where(i == first, begin, fused(step, i - first, begin))
    return rounded(found, d)


def packed(values: np.ndarray[Any, Any], d: dtype) -> np.ndarray[Any, Any]:
    """The memory of a dtype's values, which are those of its `host`: of bfloat16 the upper halves, rounded to even, as integers."""
    if d.bits is None:
        return values
    if d is not bfloat16:
        return _nearest(np.asarray(values, np.float32), FLOAT8[d.code])
    bits = np.asarray(values, np.float32).view(np.uint32)
    upper = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), upper)


def unpacked(memory: np.ndarray[Any, Any], d: dtype) -> np.ndarray[Any, Any]:
    """The float32 that the integers of memory stand for."""
    return (
        (memory.astype(np.uint32) << 16).view(np.float32)
        if d is bfloat16
        else _eighths(FLOAT8[d.code])[memory]
    )


# Of floats of 8 bits: the bits of the mantissa, what the exponent is less by, the largest number's code, that of larger ones, and NaN's.
_FORMS: Final = {
    "e4m3fn": (3, 7, 126, 126, 127),
    "e5m2": (2, 15, 123, 124, 127),
    "e4m3fnuz": (3, 8, 127, 128, 128),
    "e5m2fnuz": (2, 16, 127, 128, 128),
}


@cached(8)
def _eighths(bits: str) -> np.ndarray[Any, Any]:
    """The numbers of all bytes, as kernels read them (`kernels/cpu/float8.py`)."""
    code = np.arange(256)
    if bits == "e8m0fnu":
        return np.where(code == 255, np.nan, np.ldexp(1.0, code - 127)).astype(np.float32)
    mantissa, bias, top, beyond, nan = _FORMS[bits]
    exponent, part = (code & 127) >> mantissa, code & (1 << mantissa) - 1
    whole = np.ldexp(part + (exponent > 0) * (1 << mantissa), np.maximum(exponent, 1) - bias - mantissa)
    whole[(code & 127) > top] = np.nan
    if beyond == top + 1 < nan:
        whole[code & 127 == beyond] = np.inf
    found = np.copysign(whole, np.where(code < 128, 1.0, -1.0)).astype(np.float32)
    if nan == 128:
        found[nan] = np.nan
    return found


def _nearest(values: np.ndarray[Any, Any], bits: str) -> np.ndarray[Any, Any]:
    """The bytes of numbers, ties to even, as kernels write them."""
    if bits == "e8m0fnu":
        word = values.view(np.uint32) & 0x7FFFFFFF
        exponent = word >> 23
        up = (word & 0x7FFFFF) >= np.where(exponent == 0, 0x400001, 0x400000)
        return np.where(exponent == 255, 255, exponent + up).astype(np.uint8)
    _, _, top, beyond, nan = _FORMS[bits]
    sizes = _eighths(bits)[: top + 1].astype(np.float64)
    sizes = np.append(sizes, 2 * sizes[-1] - sizes[-2])
    between = (sizes[1:] + sizes[:-1]) / 2
    with np.errstate(invalid="ignore"):  # of NaNs that tell of themselves
        size = np.abs(values.astype(np.float64))
    below, above = (np.searchsorted(between, size, side) for side in ("left", "right"))
    code = np.where(below & 1, above, below)
    code = np.where(code > top, beyond, code)
    code = np.where(np.isnan(values), nan, code)
    signed = np.signbit(values) & ((code & 127 != 0) | (nan != 128))
    return (code | signed * 128).astype(np.uint8)


# ---------------------------------------------------------------- limits


# The largest, the step after 1, and the smallest normal number.
_SMALL: Final = {
    "float8_e4m3fn": (448.0, 0.125, 2.0**-6),
    "float8_e4m3fnuz": (240.0, 0.125, 2.0**-7),
    "float8_e5m2": (57344.0, 0.25, 2.0**-14),
    "float8_e5m2fnuz": (57344.0, 0.125, 2.0**-15),
    "float8_e8m0fnu": (2.0**127, 1.0, 2.0**-127),
}


def unset(d: dtype) -> Any:
    """What PyTorch puts into memory that has no values, while results must not differ: what shows that it was read."""
    if d.is_floating_point or d.is_complex:
        return math.nan
    return True if d is bool_ else iinfo(d).max


class _Limits:
    """What is known of a dtype, once for all who ask, so it is not to be written to."""

    _known: ClassVar[dict[Any, Any]]
    dtype: str

    def __init_subclass__(cls) -> None:
        cls._known = {}

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute {name!r} of 'torch.{type(self).__name__}' objects is not writable")

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, type(self)) and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return type(self), (globals()[self.dtype],)


class finfo(_Limits):
    """Limits of a floating-point dtype: `bits`, `eps` (the step after 1), `max`, `min`, `tiny` (the smallest normal number),
    `resolution`.

    >>> torch.finfo(torch.float32).eps
    1.1920928955078125e-07
    """

    bits: builtins.int
    eps: builtins.float
    max: builtins.float
    min: builtins.float
    tiny: builtins.float
    smallest_normal: builtins.float
    resolution: builtins.float

    def __new__(cls, type: Any = None) -> finfo:
        found: finfo | None = cls._known.get(type) if type.__class__ is dtype else None
        return found or cls._of(
            _state[0] if type is None else _dtype_argument(type, "finfo", "type", 1).to_real()
        )

    @classmethod
    def _of(cls, d: dtype) -> finfo:
        if not d.is_floating_point:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        made = super().__new__(cls)
        known = vars(made)
        known |= {"bits": d.itemsize * 8, "dtype": d.name}
        if d is bfloat16:  # the upper half of a float32
            known |= {"eps": 2.0**-7, "resolution": 0.01, "max": (2 - 2.0**-7) * 2.0**127, "tiny": 2.0**-126}
        elif d.name in _SMALL:
            known |= {"resolution": 1.0, **dict(zip(("max", "eps", "tiny"), _SMALL[d.name]))}
        else:
            info = np.finfo(d.np)
            known |= {name: builtins.float(getattr(info, name)) for name in ("eps", "tiny", "max")}
            # 1e-06 as written, not the float32 next to it
            known["resolution"] = builtins.float(str(info.resolution))
        known["min"] = -made.max if d.is_signed else made.tiny
        known["smallest_normal"] = made.tiny
        return cls._known.setdefault(d, made)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_Limits):
    """Limits of an integer dtype: `bits`, `max`, `min`.

    >>> torch.iinfo(torch.int8).min, torch.iinfo(torch.int8).max
    (-128, 127)
    """

    bits: builtins.int
    max: builtins.int
    min: builtins.int

    def __new__(cls, type: Any) -> iinfo:
        found: iinfo | None = cls._known.get(type) if type.__class__ is dtype else None
        return found or cls._of(_dtype_argument(type, "iinfo", "type", 1))

    @classmethod
    def _of(cls, d: dtype) -> iinfo:
        if d is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if d.name[0] == "q":
            raise NotImplementedError(f"\"dtype\" not implemented for '{d.scalar_name}'")
        if d.name.strip("u") not in ("int8", "int16", "int32", "int64"):
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'"
            )
        info = np.iinfo(d.name)
        made = super().__new__(cls)
        vars(made).update(
            bits=d.itemsize * 8, max=builtins.int(info.max), min=builtins.int(info.min), dtype=d.name
        )
        return cls._known.setdefault(d, made)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


def fitting(value: Any, d: dtype) -> Any:
    """A Python number as an element of that dtype; one beyond it is refused, but for negative integers, which wrap in unsigned ones."""
    if isinstance(value, builtins.int) and not -(2**63) <= value < 2**64:
        raise OverflowError(
            "int too big to convert" if value > 0 else "can't convert negative int to unsigned"
        )
    if d is bool_:
        return builtins.bool(value)
    if d.is_complex:
        return builtins.complex(fitting_part(value.real, d), fitting_part(value.imag, d))
    if isinstance(value, builtins.complex):
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {_named(d)} without overflow")
        value = value.real
    low, high = limits(d)
    if not d.is_signed and isinstance(value, builtins.int):
        low = -high
    if not low <= value <= high and not (d.is_floating_point and not math.isfinite(value)):
        raise RuntimeError(f"value cannot be converted to type {_named(d)} without overflow")
    if (
        d.is_floating_point
    ):  # kinds of floats, such as those that tell what becomes of them, stay what they are
        return value if isinstance(value, builtins.float) else builtins.float(value)
    return builtins.int(value)


def _named(d: dtype) -> str:
    return d.c_name if d.category >= FLOAT or d is int32 or d.kept else f"{d.name}_t"


def fitting_part(value: Any, d: dtype) -> builtins.float:
    """The real or the imaginary part of a number, as one of a complex dtype."""
    low, high = limits(d)
    if math.isfinite(value) and not low <= value <= high:
        raise RuntimeError(f"value cannot be converted to type {d.c_name} without overflow")
    return builtins.float(value)


@cached(16)
def limits(d: dtype) -> tuple[Any, Any]:
    if d is bool_:
        return False, True
    info = finfo(d) if d.inexact else iinfo(d)
    return info.min, info.max


# PyTorch's short names. Last, because three of them hide builtins.
cfloat: Final = complex64
cdouble: Final = complex128
half: Final = float16
double: Final = float64
short: Final = int16
long: Final = int64
float: Final = float32
int: Final = int32
bool: Final = bool_
