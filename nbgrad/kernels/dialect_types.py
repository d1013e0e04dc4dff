"""Numbers as Numba types them, and their operations as LLVM's text.

Promises the front of kernels (`dialect.py`) Numba's rules, in which a type is a code as those of parameters: `b1`, `i1` to `i8`, `u1` to
`u8`, `f4`, `f8`, and `*f4` for a pointer. What an operation of two types gives, what two branches that meet make of a variable, how a
number becomes one of another type: a test holds the tables beside Numba's own. An operation is written by a `Writer`, which gives its
value a name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol


class Refused(Exception):
    """A kernel says something that is not in the dialect; Numba compiles it."""


class Value(NamedTuple):
    """A number or an address: its type and its text. `known` is the number where that is written in the source, or the values of a
    tuple, which has no text."""

    type: str
    text: str
    known: Any = None


class Writer(Protocol):
    """What takes the lines."""

    def line(self, text: str) -> None: ...
    def made(self, type_: str, operation: str) -> Value: ...
    def flagged(self, operation: str) -> str: ...


LLVM = {
    **{"b1": "i1", "i1": "i8", "u1": "i8", "i2": "i16", "u2": "i16", "i4": "i32", "u4": "i32"},
    **{"i8": "i64", "u8": "i64", "f4": "float", "f8": "double", "none": "void"},
}
TUPLE = "tuple"
# Of integers that a float32 holds without loss Numba's arithmetic with one gives a float32, and no others.
_NARROW = ("b1", "i1", "i2", "u1")


def llvm(type_: str) -> str:
    if type_[0] == "*":
        return "ptr"
    if type_ not in LLVM:
        raise Refused(f"a {type_}")
    return LLVM[type_]


def bits(type_: str) -> int:
    return 1 if type_ == "b1" else 8 * int(type_[1])


def is_float(type_: str) -> bool:
    return type_ in ("f4", "f8")


def is_integer(type_: str) -> bool:
    return type_[0] in "iu" and len(type_) == 2


def _is_number(type_: str) -> bool:
    return is_float(type_) or is_integer(type_) or type_ == "b1"


# ---------------------------------------------------------------- which type


def arithmetic(a: str, b: str) -> str:
    """Of +, -, *, // and %: integers are taken as int64, or uint64 where both are unsigned."""
    if not (_is_number(a) and _is_number(b)):
        raise Refused(f"arithmetic of {a} and {b}")
    if is_float(a) or is_float(b):
        return "f4" if all(t == "f4" or t in _NARROW for t in (a, b)) else "f8"
    return "u8" if a[0] == b[0] == "u" else "i8"


def quotient(a: str, b: str) -> str:
    found = arithmetic(a, b)
    return found if is_float(found) else "f8"


def bitwise(a: str, b: str) -> str:
    if is_float(a) or is_float(b):
        raise Refused("bits of a float")
    return "b1" if a == b == "b1" else arithmetic(a, b)


def shifted(a: str, b: str) -> str:
    """What is shifted says whether the result is signed."""
    bitwise(a, b)
    return "u8" if a[0] == "u" else "i8"


def unified(a: str, b: str) -> str:
    """What a variable is that is `a` on one way and `b` on another, and as what two numbers are compared."""
    if a == b:
        return a
    if not (_is_number(a) and _is_number(b)):
        raise Refused(f"{a} or {b}")
    if "b1" in (a, b):
        return b if a == "b1" else a
    if is_float(a) and is_float(b):
        return "f8"
    if is_float(a) or is_float(b):
        number, integer = (a, b) if is_float(a) else (b, a)
        return number if bits(integer) <= 16 else "f8"
    if a[0] == b[0]:
        return max(a, b)
    signed, unsigned = (a, b) if a[0] == "i" else (b, a)
    if bits(signed) > bits(unsigned):
        return signed
    return {"u1": "i2", "u2": "i4", "u4": "i8", "u8": "f8"}[unsigned]


# ---------------------------------------------------------------- constants


def constant(number: Any) -> Value:
    """A number of Python's or NumPy's as Numba takes it from the source."""
    if isinstance(number, tuple):
        return Value(TUPLE, "", tuple(constant(n) for n in number))
    if isinstance(number, bool):
        return Value("b1", "true" if number else "false", number)
    if isinstance(number, float) and type(number) is float:
        return _float("f8", number)
    if isinstance(number, int):
        if -(1 << 63) <= number < 1 << 63:
            return _integer("i8", number)
        if number < 1 << 64:
            return _integer("u8", number)
    code = getattr(getattr(number, "dtype", None), "str", "")[1:]
    if code in ("f4", "f8"):
        return _float(code, float(number))
    if code in LLVM and code[0] in "iu":
        return _integer(code, int(number))
    raise Refused(f"the constant {number!r}")


def _float(type_: str, number: float) -> Value:
    """LLVM reads both widths as the bits of a float64."""
    return Value(type_, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}", number)


def _integer(type_: str, number: int) -> Value:
    width = bits(type_)
    number &= (1 << width) - 1
    signed = number - (1 << width) if number >> (width - 1) else number
    return Value(type_, str(signed), signed if type_[0] == "i" else number)


_LARGEST_F4 = 3.4028234663852886e38


def _known(value: Value, to: str) -> Value | None:
    """A constant in another type, where that is plain; elsewhere LLVM works it out."""
    number = value.known
    if is_integer(to) and (is_integer(value.type) or value.type == "b1"):
        return _integer(to, int(number))
    exact = is_float(value.type) or abs(number) <= 1 << 53  # in a float64, by way of which it goes
    if is_float(to) and exact and (to == "f8" or abs(number) <= _LARGEST_F4):
        number = float(number)
        return _float(to, struct.unpack("<f", struct.pack("<f", number))[0] if to == "f4" else number)
    return None


# ---------------------------------------------------------------- from one type to another


def cast(w: Writer, value: Value, to: str) -> Value:
    """As Numba converts implicitly, and by a call of the type."""
    of = value.type
    if of == to:
        return value
    if not (_is_number(of) and _is_number(to)):
        raise Refused(f"{of} as {to}")
    if to == "b1":
        return truth(w, value)
    if value.known is not None and (found := _known(value, to)) is not None:
        return found
    if is_float(of):
        if is_float(to):
            operation = "fpext" if to == "f8" else "fptrunc"
        else:
            operation = "fptosi" if to[0] == "i" else "fptoui"
    elif is_float(to):
        if of == "b1":
            return cast(w, cast(w, value, "i4"), to)
        operation = "sitofp" if of[0] == "i" else "uitofp"
    elif bits(of) == bits(to):
        return Value(to, value.text)
    elif bits(of) > bits(to):
        operation = "trunc"
    else:
        operation = "sext" if of[0] == "i" else "zext"
    return w.made(to, f"{operation} {llvm(of)} {value.text} to {llvm(to)}")


def truth(w: Writer, value: Value) -> Value:
    of = value.type
    if of == "b1":
        return value
    if not _is_number(of):
        raise Refused(f"the truth of a {of}")
    if is_float(of):
        return w.made("b1", f"fcmp une {llvm(of)} {value.text}, 0.0")
    return w.made("b1", f"icmp ne {llvm(of)} {value.text}, 0")


# ---------------------------------------------------------------- operations

_ARITHMETIC = {"Add": "add", "Sub": "sub", "Mult": "mul"}
_BITWISE = {"BitAnd": "and", "BitOr": "or", "BitXor": "xor"}
_SIGNED = {"Lt": "slt", "LtE": "sle", "Gt": "sgt", "GtE": "sge"}
_ORDERED = {"Eq": "oeq", "NotEq": "une", "Lt": "olt", "LtE": "ole", "Gt": "ogt", "GtE": "oge"}


def binary(w: Writer, operator: str, a: Value, b: Value) -> Value:
    """`operator` is the name that Python's syntax tree has for it."""
    if operator in _ARITHMETIC:
        to = arithmetic(a.type, b.type)
        name = _ARITHMETIC[operator]
        if is_float(to):
            return _of_two(w, w.flagged(f"f{name}"), a, b, to)
        return _of_two(w, f"{name} nsw" if to == "i8" else name, a, b, to)
    if operator == "Div":
        return _of_two(w, w.flagged("fdiv"), a, b, quotient(a.type, b.type))
    if operator in ("FloorDiv", "Mod"):
        return _divided(w, operator == "Mod", a, b)
    if operator in _BITWISE:
        return _of_two(w, _BITWISE[operator], a, b, bitwise(a.type, b.type))
    if operator in ("LShift", "RShift"):
        to = shifted(a.type, b.type)
        name = "shl" if operator == "LShift" else "ashr" if to == "i8" else "lshr"
        return _of_two(w, name, a, b, to)
    raise Refused(f"the operator {operator}")


def _of_two(w: Writer, name: str, a: Value, b: Value, to: str) -> Value:
    a, b = cast(w, a, to), cast(w, b, to)
    return w.made(to, f"{name} {llvm(to)} {a.text}, {b.text}")


def _divided(w: Writer, rest: bool, a: Value, b: Value) -> Value:
    """Towards minus infinity; by 0 it is 0, and so is the one quotient that has no place."""
    to = arithmetic(a.type, b.type)
    if is_float(to):
        raise Refused("// or % of floats")
    a, b = cast(w, a, to), cast(w, b, to)
    divisor, large = b, b.known is not None and b.known > 0
    if not large:  # no machine divides by 0, and x86 not the least number by -1: 1 takes its place
        none = w.made("b1", f"icmp eq i64 {b.text}, 0")
        if to == "i8":
            least = w.made("b1", f"icmp eq i64 {a.text}, {-(1 << 63)}")
            minus = w.made("b1", f"icmp eq i64 {b.text}, -1")
            over = w.made("b1", f"and i1 {least.text}, {minus.text}")
            none = w.made("b1", f"or i1 {none.text}, {over.text}")
        divisor = w.made(to, f"select i1 {none.text}, i64 1, i64 {b.text}")
    if to == "u8":
        found = w.made(to, f"{'urem' if rest else 'udiv'} i64 {a.text}, {divisor.text}")
    else:
        left = w.made(to, f"srem i64 {a.text}, {divisor.text}")
        signs = left if large else w.made(to, f"xor i64 {left.text}, {divisor.text}")
        other = w.made("b1", f"icmp slt i64 {signs.text}, 0")
        if not large:
            some = w.made("b1", f"icmp ne i64 {left.text}, 0")
            other = w.made("b1", f"and i1 {some.text}, {other.text}")
        if rest:
            up = w.made(to, f"add i64 {left.text}, {divisor.text}")
            found = w.made(to, f"select i1 {other.text}, i64 {up.text}, i64 {left.text}")
        else:
            whole = w.made(to, f"sdiv i64 {a.text}, {divisor.text}")
            less = w.made(to, f"sub i64 {whole.text}, 1")
            found = w.made(to, f"select i1 {other.text}, i64 {less.text}, i64 {whole.text}")
    return found if large else w.made(to, f"select i1 {none.text}, i64 0, i64 {found.text}")


def compared(w: Writer, operator: str, a: Value, b: Value) -> Value:
    if operator not in _ORDERED:
        raise Refused(f"the comparison {operator}")
    to = unified(a.type, b.type)
    a, b = cast(w, a, to), cast(w, b, to)
    if is_float(to):
        return w.made("b1", f"{w.flagged('fcmp')} {_ORDERED[operator]} {llvm(to)} {a.text}, {b.text}")
    if not _is_number(to):
        raise Refused(f"a comparison of {to}")
    name = {"Eq": "eq", "NotEq": "ne"}.get(operator) or _SIGNED[operator]
    return w.made(
        "b1", f"icmp {name if to[0] == 'i' else name.replace('s', 'u')} {llvm(to)} {a.text}, {b.text}"
    )


def negative(w: Writer, value: Value) -> Value:
    """Of a float -0.0 less it, which turns the sign of zeros as well."""
    of = value.type
    if is_float(of):
        return w.made(of, f"{w.flagged('fsub')} {llvm(of)} -0.0, {value.text}")
    to = arithmetic(of, of)
    if of == "b1":
        value = cast(w, value, to)
    return cast(w, w.made(value.type, f"sub {llvm(value.type)} 0, {value.text}"), to)


def inverted(w: Writer, value: Value) -> Value:
    to = bitwise(value.type, value.type)
    return cast(w, w.made(value.type, f"xor {llvm(value.type)} {value.text}, -1"), to)


def folded(operation: Callable[..., Any], *values: Value) -> Value | None:
    """What Python itself makes of numbers that stand in the source, before Numba sees them."""
    try:
        return constant(operation(*(v.known for v in values)))
    except (ArithmeticError, TypeError, ValueError):
        return None


def chosen(w: Writer, condition: Value, a: Value, b: Value) -> Value:
    """One of two values, both of which are there."""
    to = unified(a.type, b.type)
    a, b = cast(w, a, to), cast(w, b, to)
    return w.made(to, f"select i1 {condition.text}, {llvm(to)} {a.text}, {llvm(to)} {b.text}")
