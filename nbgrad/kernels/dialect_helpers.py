"""What kernels call that is no kernel: of `math`, of NumPy, of Python, and the helpers of this folder, each a small writer of LLVM's text.

Promises the front (`dialect.py`) for each of them the instructions that Numba makes of it: a name here stands for the function of that name
in `math`, in `numpy`, or in a file of `kernels/`, whose own lowering for Numba stands there. What has none here, the front reads as a
function of the dialect, or refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from nbgrad.kernels import tile
from nbgrad.kernels.dialect_types import (
    TUPLE,
    Refused,
    Value,
    Writer,
    arithmetic,
    bits,
    cast,
    chosen,
    compared,
    constant,
    is_float,
    is_integer,
    llvm,
    truth,
    unified,
)


class Function(Writer, Protocol):
    """The function that is being written."""

    def declare(self, name: str, text: str) -> None: ...
    def entry(self, type_: str, operation: str) -> Value: ...
    def label(self) -> str: ...
    def start(self, label: str) -> None: ...
    def widen(self, beyond: bool = False) -> None: ...
    def order(self) -> None: ...


Emit = Callable[..., Value]
WIDE = "#0"  # what functions say about vectors, which is known when all of them are written
NONE = Value("none", "")


def _floats(*values: Value) -> str:
    """The one float type of all."""
    of = values[0].type
    if not is_float(of) or any(v.type != of for v in values):
        raise Refused(f"a helper of {', '.join(v.type for v in values)}")
    return of


def _listed(*values: Value) -> str:
    return ", ".join(f"{llvm(v.type)} {v.text}" for v in values)


def _called(w: Function, of: str, name: str, *values: Value, pure: bool = False) -> Value:
    """A call of a function outside, of floats, that gives a float."""
    ends = " nounwind memory(read)" if pure else ""
    w.declare(name, f"declare {llvm(of)} @{name}({', '.join(llvm(v.type) for v in values)}){ends}")
    return w.made(of, f"{w.flagged('call')} {llvm(of)} @{name}({_listed(*values)})")


def intrinsic(w: Function, name: str, *values: Value) -> Value:
    of = _floats(*values)
    return _called(w, of, f"llvm.{name}.f{bits(of)}", *values)


def _wide(name: str) -> Emit:
    """An intrinsic in loops that shall have the machine's full vectors."""

    def emit(w: Function, *values: Value) -> Value:
        w.widen()
        return intrinsic(w, name, *values)

    return emit


def _real(w: Function, value: Value) -> Value:
    """As the functions of `math` take it: what is no float, as float64."""
    return value if is_float(value.type) else cast(w, cast(w, value, arithmetic(value.type, "b1")), "f8")


def _of_math(name: str, result: str = "") -> Emit:
    """A function of C's library, by way of an intrinsic if its name begins with `llvm.`"""

    def emit(w: Function, value: Value) -> Value:
        value = _real(w, value)
        if name.startswith("llvm."):
            return intrinsic(w, name[5:], value)
        found = _called(w, value.type, name + ("f" if value.type == "f4" else ""), value, pure=True)
        return cast(w, found, result) if result else found

    return emit


def _alike(w: Function, a: Value, b: Value) -> tuple[Value, Value]:
    """Two floats of one width."""
    if not (is_float(a.type) and is_float(b.type)):
        raise Refused(f"a function of {a.type} and {b.type}")
    of = unified(a.type, b.type)
    return cast(w, a, of), cast(w, b, of)


def _of_two(name: str) -> Emit:
    """The same of two numbers."""

    def emit(w: Function, a: Value, b: Value) -> Value:
        a, b = _alike(w, a, b)
        of = _floats(a, b)
        if name.startswith("llvm."):
            return intrinsic(w, name[5:], a, b)
        return _called(w, of, name + ("f" if of == "f4" else ""), a, b, pure=True)

    return emit


def _of_numpy(name: str) -> Emit:
    return lambda w, value: intrinsic(w, name, value)


def _fmod(w: Function, a: Value, b: Value) -> Value:
    a, b = _alike(w, a, b)
    of = _floats(a, b)
    return w.made(of, f"{w.flagged('frem')} {llvm(of)} {a.text}, {b.text}")


_FREXP = """define internal {{ {kind}, i32 }} @nbgrad_frexp{f}({kind} %x) alwaysinline {{
  %place = alloca i32
  %size = call {kind} @llvm.fabs.f{bits}({kind} %x)
  %finite = fcmp olt {kind} %size, 0x7FF0000000000000
  %some = fcmp une {kind} %x, 0.0
  %both = and i1 %finite, %some
  br i1 %both, label %split, label %whole
split:
  %part = call {kind} @frexp{f}({kind} %x, ptr %place)
  %power = load i32, ptr %place
  br label %whole
whole:
  %m = phi {kind} [ %x, %0 ], [ %part, %split ]
  %e = phi i32 [ 0, %0 ], [ %power, %split ]
  %r0 = insertvalue {{ {kind}, i32 }} undef, {kind} %m, 0
  %r1 = insertvalue {{ {kind}, i32 }} %r0, i32 %e, 1
  ret {{ {kind}, i32 }} %r1
}}"""


def _frexp(w: Function, value: Value) -> Value:
    of = _floats(_real(w, value))
    kind, f = llvm(of), "f" if of == "f4" else ""
    w.declare(f"llvm.fabs.f{bits(of)}", f"declare {kind} @llvm.fabs.f{bits(of)}({kind})")
    w.declare(f"frexp{f}", f"declare {kind} @frexp{f}({kind}, ptr)")
    w.declare(f"nbgrad_frexp{f}", _FREXP.format(kind=kind, f=f, bits=bits(of)))
    pair = w.made(TUPLE, f"call {{ {kind}, i32 }} @nbgrad_frexp{f}({kind} {value.text})")
    parts = [w.made(t, f"extractvalue {{ {kind}, i32 }} {pair.text}, {k}") for k, t in enumerate((of, "i4"))]
    return Value(TUPLE, "", tuple(parts))


def _isnan(w: Function, x: Value) -> Value:
    return w.made("b1", f"fcmp uno {llvm(_floats(x))} {x.text}, {x.text}")


def _isinf(w: Function, x: Value) -> Value:
    of = llvm(_floats(x))
    ends = [w.made("b1", f"fcmp oeq {of} {x.text}, 0x{s}FF0000000000000").text for s in "7F"]
    return w.made("b1", f"or i1 {ends[0]}, {ends[1]}")


def _isfinite(w: Function, x: Value) -> Value:
    of = llvm(_floats(x))
    less = w.made(x.type, f"{w.flagged('fsub')} {of} {x.text}, {x.text}")
    return w.made("b1", f"fcmp ord {of} {less.text}, {less.text}")


_UNARY = ("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
MATH: dict[str, Emit] = {
    **{name: _of_math(name) for name in (*_UNARY, "log1p", "expm1", "erf", "erfc", "sqrt", "lgamma", "log2")},
    **{name: _of_math(f"llvm.{name}") for name in ("fabs", "exp", "log", "log10", "sin", "cos")},
    **{name: _of_math(name, "i8") for name in ("floor", "ceil", "trunc")},
    **{"gamma": _of_math("tgamma"), "frexp": _frexp, "atan2": _of_two("atan2")},
    **{"copysign": _of_two("llvm.copysign"), "pow": _of_two("llvm.pow"), "nextafter": _of_two("nextafter")},
    **{"isnan": _isnan, "isinf": _isinf, "isfinite": _isfinite},
}
NUMPY: dict[str, Emit] = {
    **{name: _of_numpy(name) for name in ("floor", "ceil", "trunc", "rint")},
    **{"sqrt": _of_math("sqrt"), "fmod": _fmod, "nextafter": _of_two("nextafter")},
}


# ---------------------------------------------------------------- Python's own


def _abs(w: Function, x: Value) -> Value:
    if is_float(x.type):
        return intrinsic(w, "fabs", x)
    if not is_integer(x.type):
        raise Refused(f"abs of {x.type}")
    if x.type[0] == "u":
        return x
    below = compared(w, "Lt", x, Value(x.type, "0", 0))
    return chosen(w, below, w.made(x.type, f"sub {llvm(x.type)} 0, {x.text}"), x)


def _extreme(operator: str) -> Emit:
    def emit(w: Function, *values: Value) -> Value:
        found, *rest = values
        if not rest:
            raise Refused("the extreme of one")
        for v in rest:
            to = unified(found.type, v.type)
            found, v = cast(w, found, to), cast(w, v, to)
            if to == "b1":
                raise Refused("the extreme of truth values")
            found = chosen(w, compared(w, operator, v, found), v, found)
        return found

    return emit


def _int(w: Function, x: Value) -> Value:
    return x if is_integer(x.type) else cast(w, x, "i8")


def _len(w: Function, x: Value) -> Value:
    if x.type != TUPLE:
        raise Refused(f"len of {x.type}")
    return constant(len(x.known))


PYTHON: dict[str, Emit] = {
    **{"abs": _abs, "min": _extreme("Lt"), "max": _extreme("Gt"), "int": _int, "len": _len, "bool": truth},
    "float": lambda w, x: x if is_float(x.type) else cast(w, x, "f8"),
}


# ---------------------------------------------------------------- kernels/vmath.py


def _poly(w: Function, x: Value, coefficients: Value) -> Value:
    w.widen()
    parts = [cast(w, c, _floats(x)) for c in coefficients.known]
    total = parts[-1]
    for c in parts[-2::-1]:
        total = intrinsic(w, "fmuladd", total, x, c)
    return total


def _bits_of(w: Function, x: Value) -> Value:
    to = {"f4": "i4", "f8": "i8"}[_floats(x)]
    return w.made(to, f"bitcast {llvm(x.type)} {x.text} to {llvm(to)}")


def _of_bits(to: str) -> Emit:
    def emit(w: Function, i: Value) -> Value:
        number = cast(w, _whole(i), f"i{to[1]}")
        return w.made(to, f"bitcast {llvm(number.type)} {number.text} to {llvm(to)}")

    return emit


def _whole(i: Value) -> Value:
    if not is_integer(i.type):
        raise Refused(f"an integer that is {i.type}")
    return i


def _select(w: Function, condition: Value, a: Value, b: Value) -> Value:
    of = llvm(_floats(a, b))
    if condition.type != "b1":
        raise Refused("a choice by what is no truth value")
    return w.made(a.type, f"select i1 {condition.text}, {of} {a.text}, {of} {b.text}")


def _opaque(w: Function, x: Value) -> Value:
    return w.made(x.type, f"freeze {llvm(x.type)} {x.text}")


def _select_int(w: Function, condition: Value, a: Value, b: Value) -> Value:
    a, b = cast(w, _whole(a), "i8"), cast(w, _whole(b), "i8")
    if condition.type != "b1":
        raise Refused("a choice by what is no truth value")
    return chosen(w, condition, a, b)


def _between(of: str, to: str) -> Emit:
    def emit(w: Function, x: Value) -> Value:
        if x.type != of:
            raise Refused(f"{x.type} in place of {of}")
        return cast(w, x, to)

    return emit


_LANES = (2, 4, 8, 16)
# v, or where it is NaN what the C library says: `kernels/vmath.py` has why it is no branch. Hidden, else it is reached by a table.
_OR = f"noinline nounwind willreturn memory(none) {WIDE}"
_OR_SCALAR = f"""define weak_odr hidden {{kind}} @{{name}}({{given}}) {_OR} {{{{
  %undecided = fcmp uno {{kind}} %a0, %a0
  br i1 %undecided, label %asked, label %known, !prof !0
asked:
  %said = call {{flags}}{{kind}} @{{library}}({{rest}})
  ret {{kind}} %said
known:
  ret {{kind}} %a0
}}}}"""
_OR_VECTOR = f"""define weak_odr hidden <{{n}} x {{kind}}> @{{name}}_{{n}}({{given}}) {_OR} {{{{
  %undecided = fcmp uno <{{n}} x {{kind}}> %a0, %a0
  %some = bitcast <{{n}} x i1> %undecided to i{{n}}
  %any = icmp ne i{{n}} %some, 0
  br i1 %any, label %asked, label %known, !prof !0
asked:
{{lanes}}
  ret <{{n}} x {{kind}}> %v{{n}}
known:
  ret <{{n}} x {{kind}}> %a0
}}}}"""
UNLIKELY = '!0 = !{!"branch_weights", i32 1, i32 99}'


def _or(c_name: str) -> Emit:
    def emit(w: Function, *values: Value) -> Value:
        of = _floats(*values)
        kind, f, flags = llvm(of), "f" if of == "f4" else "", w.flagged("")[1:]
        name, library = f"nbgrad_or_{c_name}{f}", c_name + f
        flags = f"{flags} " if flags else ""
        places = range(len(values))
        w.declare(library, f"declare {kind} @{library}({', '.join([kind] * (len(values) - 1))})")
        w.declare(
            name,
            _OR_SCALAR.format(
                kind=kind,
                name=name,
                flags=flags,
                library=library,
                given=", ".join(f"{kind} %a{k}" for k in places),
                rest=", ".join(f"{kind} %a{k}" for k in places[1:]),
            ),
        )
        for n in _LANES:
            lanes = []
            for lane in range(n):
                lanes += [f"  %x{lane}.{k} = extractelement <{n} x {kind}> %a{k}, i32 {lane}" for k in places]
                given = ", ".join(f"{kind} %x{lane}.{k}" for k in places)
                before = f"%v{lane}" if lane else "%a0"
                lanes.append(f"  %r{lane} = call {flags}{kind} @{name}({given})")
                lanes.append(
                    f"  %v{lane + 1} = insertelement <{n} x {kind}> {before}, {kind} %r{lane}, i32 {lane}"
                )
            given = ", ".join(f"<{n} x {kind}> %a{k}" for k in places)
            w.declare(
                f"{name}_{n}",
                _OR_VECTOR.format(kind=kind, name=name, n=n, given=given, lanes="\n".join(lanes)),
            )
        w.declare("!0", UNLIKELY)
        variants = ",".join(f"_ZGV_LLVM_N{n}{'v' * len(values)}_{name}({name}_{n})" for n in _LANES)
        w.widen()
        return w.made(
            of,
            f"{w.flagged('call')} {kind} @{name}({_listed(*values)})"
            f' "vector-function-abi-variant"="{variants}"',
        )

    return emit


VMATH: dict[str, Emit] = {
    **{"mad": _wide("fmuladd"), "fma": _wide("fma"), "poly": _poly, "truncated": _wide("trunc")},
    **{"down": _wide("floor"), "root": _wide("sqrt"), "fabs": _wide("fabs"), "copysign": _wide("copysign")},
    **{"select": _select, "select_int": _select_int, "opaque": _opaque, "f2i": _bits_of},
    **{"i2f4": _of_bits("f4"), "i2f8": _of_bits("f8")},
    **{"number4": lambda w, i: cast(w, cast(w, _whole(i), "i4"), "f4")},
    **{"wrap4": lambda w, i: cast(w, _whole(i), "i4"), "wrap8": lambda w, i: cast(w, _whole(i), "i8")},
    **{"widen": _between("f4", "f8"), "narrow": _between("f8", "f4")},
    **{f"or_{name}": _or(name) for name in ("sin", "cos", "tan", "fmod", "pow")},
}


# ---------------------------------------------------------------- kernels/cpu/fold.py, half.py, bfloat.py


def _any_order(operation: str) -> Emit:
    def emit(w: Function, total: Value, x: Value) -> Value:
        of = _floats(total, x)
        w.order()
        return w.made(of, f"{operation} reassoc nsz contract {llvm(of)} {total.text}, {x.text}")

    return emit


def _with_nan(name: str, flags: str) -> Emit:
    def emit(w: Function, a: Value, b: Value) -> Value:
        of = _floats(a, b)
        kind, name_of = llvm(of), f"llvm.{name}.f{bits(of)}"
        if flags:  # of zeros any one
            w.order()
        w.declare(name_of, f"declare {kind} @{name_of}({kind}, {kind})")
        return w.made(of, f"call {flags}{w.flagged('')[1:]} {kind} @{name_of}({_listed(a, b)})")

    return emit


def _larger(w: Function, top: Value, x: Value) -> Value:
    of = llvm(_floats(top, x))
    number = _with_nan("maxnum", "")(w, x, Value(x.type, "0xFFF0000000000000"))
    above = w.made("b1", f"fcmp nnan nsz ogt {of} {top.text}, {number.text}")
    return w.made(x.type, f"select nnan nsz i1 {above.text}, {of} {top.text}, {of} {number.text}")


FOLD: dict[str, Emit] = {
    **{"add_up": _any_order("fadd"), "multiply_up": _any_order("fmul"), "larger": _larger},
    **{"highest": _with_nan("maximum", "nsz "), "lowest": _with_nan("minimum", "nsz ")},
}


def _from_half(w: Function, number: Value) -> Value:
    if number.type != "u2":
        raise Refused(f"{number.type} as a float16")
    half = w.made("u2", f"bitcast i16 {number.text} to half")
    return w.made("f4", f"fpext half {half.text} to float")


def _to_half(w: Function, x: Value) -> Value:
    if x.type != "f4":
        raise Refused(f"{x.type} to a float16")
    half = w.made("u2", f"fptrunc float {x.text} to half")
    return w.made("u2", f"bitcast half {half.text} to i16")


def _from_bfloat(w: Function, number: Value) -> Value:
    if number.type != "u2":
        raise Refused(f"{number.type} as a bfloat16")
    wide = w.made("i4", f"zext i16 {number.text} to i32")
    bits = w.made("i4", f"shl i32 {wide.text}, 16")
    return w.made("f4", f"bitcast i32 {bits.text} to float")


def _to_bfloat(w: Function, x: Value) -> Value:
    if x.type != "f4":
        raise Refused(f"{x.type} to a bfloat16")
    bits = w.made("i4", f"bitcast float {x.text} to i32")
    upper = w.made("i4", f"lshr i32 {bits.text}, 16")
    odd = w.made("i4", f"and i32 {upper.text}, 1")
    more = w.made("i4", f"add i32 {odd.text}, {0x7FFF}")
    total = w.made("i4", f"add i32 {bits.text}, {more.text}")
    high = w.made("i4", f"lshr i32 {total.text}, 16")
    rounded = w.made("u2", f"trunc i32 {high.text} to i16")
    nan = w.made("b1", f"fcmp uno float {x.text}, 0.0")
    return w.made("u2", f"select i1 {nan.text}, i16 {0x7FC0}, i16 {rounded.text}")


# ---------------------------------------------------------------- kernels/cpu/memory.py, stack.py, blas.py, tile.py


def _pointer_at(code: str) -> Emit:
    def emit(w: Function, address: Value) -> Value:
        return w.made(f"*{code}", f"inttoptr {llvm(_whole(address).type)} {address.text} to ptr")

    return emit


def _address_of(w: Function, pointer: Value) -> Value:
    if pointer.type[0] != "*":
        raise Refused(f"the address of a {pointer.type}")
    return w.made("i8", f"ptrtoint ptr {pointer.text} to i64")


def _stack(code: str) -> Emit:
    of = "u1" if code == "b1" else code

    def emit(w: Function, n: Value) -> Value:
        if n.known is None or n.type != "i8":
            raise Refused("a stack whose size is not written")
        return w.entry(f"*{of}", f"alloca [{n.known} x {llvm(of)}], align 64")

    return emit


def _blas(code: str, params: str) -> Emit:
    kinds = {"w": "i32", "i": "i64", "p": "i64", "1": llvm(code), "0": llvm(code)}

    def emit(w: Function, address: Value, given: Value) -> Value:
        values = iter(given.known)
        place = w.made("*i8", f"inttoptr i64 {address.text} to ptr")
        passed = []
        for p in params:
            if p in "01":
                passed.append(f"{kinds[p]} {p}.0")
                continue
            value = cast(w, next(values), "i8")
            passed.append(f"{kinds[p]} {cast(w, value, 'i4').text if p == 'w' else value.text}")
        w.line(f"call void {place.text}({', '.join(passed)})")
        return NONE

    return emit


def _tile(name: str) -> Emit:
    def emit(w: Function, given: Value) -> Value:
        if given.type != TUPLE or len(given.known) != len(tile.params(name)):
            raise Refused(f"{name} of something else")
        for other, text in tile.definitions(name).items():
            w.declare(other, text)
        w.line(f"call void @{name}({_listed(*(cast(w, _whole(v), 'i8') for v in given.known))})")
        return NONE

    return emit


def _full_width(w: Function) -> Value:
    w.widen(beyond=True)
    return NONE


# ---------------------------------------------------------------- kernels/cpu/places.py, prefix.py


def _places(w: Function, meta: Value, row: Value, operands: Value) -> Value:
    """One loop over the outer dimensions, in which the remainders of a row's number are taken."""
    if meta.type != "*i8" or row.type != "i8":
        raise Refused("places of something else")
    numbers = [o.known for o in operands.known]
    before, head, body, after = (w.label() for _ in range(4))
    d = w.made("i8", f"load i64, ptr {meta.text}")
    first = w.made("*i8", f"getelementptr i64, ptr {meta.text}, i64 2")
    w.line(f"br label %{before}")
    w.start(before)
    w.line(f"br label %{head}")
    w.start(head)
    name = head.replace(".", "_")
    phis = {"e": "0", "rest": row.text} | {f"p{o}": "0" for o in numbers}
    for phi, begin in phis.items():
        w.line(f"%{name}{phi} = phi i64 [ {begin}, %{before} ], [ %{name}{phi}n, %{body} ]")
    w.line(f"%{name}more = icmp slt i64 %{name}e, {d.text}")
    w.line(f"br i1 %{name}more, label %{body}, label %{after}")
    w.start(body)
    size = w.made("i8", f"getelementptr i64, ptr {first.text}, i64 %{name}e")
    size = w.made("i8", f"load i64, ptr {size.text}")
    w.line(f"%{name}restn = udiv i64 %{name}rest, {size.text}")
    at = w.made("i8", f"urem i64 %{name}rest, {size.text}")
    for o in numbers:
        entry = w.made("i8", f"mul i64 {d.text}, {o + 1}")
        entry = w.made("i8", f"add i64 {entry.text}, %{name}e")
        step = w.made("i8", f"getelementptr i64, ptr {first.text}, i64 {entry.text}")
        step = w.made("i8", f"load i64, ptr {step.text}")
        far = w.made("i8", f"mul i64 {at.text}, {step.text}")
        w.line(f"%{name}p{o}n = add i64 %{name}p{o}, {far.text}")
    w.line(f"%{name}en = add nsw i64 %{name}e, 1")
    w.line(f"br label %{head}")
    w.start(after)
    return Value(TUPLE, "", tuple(Value("i8", f"%{name}p{o}") for o in numbers))


WIDTH = 8  # of `kernels/cpu/scan.py`


def _running(operations: tuple[str, str], neutral: int, back: bool) -> Emit:
    """`kernels/cpu/prefix.py`: each number is added to those one, two and four places on."""
    order = _mask(range(WIDTH - 1, -1, -1) if back else range(WIDTH))

    def moved(w: Function, of: str, value: str, to: str) -> str:
        """A vector of one type as one of another."""
        if of == to:
            return value
        if is_float(of) != is_float(to):
            raise Refused("running sums from integers to floats")
        wide, narrow = ("fpext", "fptrunc") if is_float(of) else ("sext" if of[0] == "i" else "zext", "trunc")
        if llvm(of) == llvm(to):
            return value
        operation = narrow if bits(of) > bits(to) else wide
        return w.made(to, f"{operation} <{WIDTH} x {llvm(of)}> {value} to <{WIDTH} x {llvm(to)}>").text

    def shuffled(w: Function, kind: str, a: str, b: str, mask: str) -> str:
        return w.made("i8", f"shufflevector <{WIDTH} x {kind}> {a}, <{WIDTH} x {kind}> {b}, {mask}").text

    def place(w: Function, pointer: Value, index: Value) -> str:
        lowest = w.made("i8", f"sub i64 {index.text}, {WIDTH - 1}") if back else index
        element = llvm(pointer.type[1:])
        return w.made("*i8", f"getelementptr {element}, ptr {pointer.text}, i64 {lowest.text}").text

    def emit(w: Function, o: Value, at: Value, x: Value, x_at: Value, before: Value) -> Value:
        if o.type[0] != "*" or x.type[0] != "*" or (at.type, x_at.type) != ("i8", "i8"):
            raise Refused("running sums of something else")
        kept, given, stored = before.type, x.type[1:], o.type[1:]
        kind = llvm(kept)
        operation = operations[0 if is_float(kept) else 1]
        operation = w.flagged(operation) if is_float(kept) else operation
        where = place(w, x, x_at)
        v = w.made("i8", f"load <{WIDTH} x {llvm(given)}>, ptr {where}, align {bits(given) // 8}").text
        v = moved(w, given, shuffled(w, llvm(given), v, v, order), kept)
        number = f"{neutral}.0" if is_float(kept) else str(neutral)
        nothing = f"<{', '.join([f'{kind} {number}'] * WIDTH)}>"
        for far in (1, 2, 4):
            mask = _mask([WIDTH + k - far if k >= far else 0 for k in range(WIDTH)])
            other = shuffled(w, kind, nothing, v, mask)
            v = w.made("i8", f"{operation} <{WIDTH} x {kind}> {v}, {other}").text
        last = w.made(kept, f"extractelement <{WIDTH} x {kind}> {v}, i32 {WIDTH - 1}")
        last = w.made(kept, f"{operation} {kind} {before.text}, {last.text}")
        first = w.made("i8", f"insertelement <{WIDTH} x {kind}> undef, {kind} {before.text}, i32 0").text
        first = shuffled(w, kind, first, first, _mask([0] * WIDTH))
        v = w.made("i8", f"{operation} <{WIDTH} x {kind}> {v}, {first}").text
        v = moved(w, kept, v, stored)
        where = place(w, o, at)
        v = shuffled(w, llvm(stored), v, v, order)
        w.line(f"store <{WIDTH} x {llvm(stored)}> {v}, ptr {where}, align {bits(stored) // 8}")
        return last

    return emit


def _mask(places: Any) -> str:
    return f"<{WIDTH} x i32> <{', '.join(f'i32 {k}' for k in places)}>"


_sums, _products = partial(_running, ("fadd", "add"), 0), partial(_running, ("fmul", "mul"), 1)
_CODES = ("f4", "f8", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1")

# By the file of `kernels/` that a name is imported from.
HELPERS: dict[str, dict[str, Emit]] = {
    "cpu.vmath": VMATH,
    "cpu.fold": FOLD,
    "cpu.half": {"from_half": _from_half, "to_half": _to_half},
    "cpu.bfloat": {"from_bfloat": _from_bfloat, "to_bfloat": _to_bfloat},
    "cpu.memory": {f"at_{code}": _pointer_at(code) for code in ("f4", "f8", "i8")}
    | {"address_of": _address_of},
    "cpu.stack": {f"stack_{code}": _stack(code) for code in _CODES},
    "cpu.blas": {
        **{f"gemm_{code}": _blas(code, "wwwiii1pipi0pi") for code in ("f4", "f8")},
        **{f"gemv_{code}": _blas(code, "wwii1pipi0pi") for code in ("f4", "f8")},
    },
    "cpu.tile": {name: _tile(name) for name in tile.functions()} | {"full_width": _full_width},
    "cpu.places": {"places": _places},
    "cpu.prefix": {
        **{"running_sums": _sums(False), "running_sums_back": _sums(True)},
        **{"running_products": _products(False), "running_products_back": _products(True)},
    },
}
