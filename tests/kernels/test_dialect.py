"""The front for kernels against Numba: types, bits, and what it refuses."""

import ctypes
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvmlite import binding
from numba import cfunc, types
from numba.core.registry import cpu_target

from nbgrad.kernels import build
from nbgrad.kernels.dialect import Refused, written
from nbgrad.kernels.dialect_types import arithmetic, bitwise, quotient, shifted, unified

CODES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
C_TYPES = {"f8": ctypes.c_double, "i8": ctypes.c_int64}


def numba_type(code: str) -> Any:
    kind, size = code
    kinds = {"i": "int", "u": "uint", "f": "float"}
    return types.boolean if code == "b1" else getattr(types, f"{kinds[kind]}{8 * int(size)}")


def parameter(code: str) -> Any:
    """Of a kernel, which sees the memory of truth values and of float16 as integers."""
    plain = {"b1": "u1", "f2": "u2"}.get(code.strip("*"), code.strip("*"))
    return types.CPointer(numba_type(plain)) if code[0] == "*" else numba_type(plain)


NAMES = {numba_type(code): code for code in CODES}


def asked(function: Callable[..., Any], *codes: str) -> str | None:
    """What Numba says of the type of a call."""
    try:
        found = cpu_target.typing_context.resolve_function_type(function, tuple(map(numba_type, codes)), {})
    except Exception:
        return None
    return NAMES.get(found.return_type)


def ours(rule: Callable[[str, str], str], a: str, b: str) -> str | None:
    try:
        return rule(a, b)
    except Refused:
        return None


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        *((f, arithmetic) for f in (operator.add, operator.sub, operator.mul)),
        *((f, arithmetic) for f in (operator.floordiv, operator.mod)),
        (operator.truediv, quotient),
        *((f, bitwise) for f in (operator.and_, operator.or_, operator.xor)),
        *((f, shifted) for f in (operator.lshift, operator.rshift)),
    ],
)
def test_types_are_numbas(function: Callable[..., Any], rule: Callable[[str, str], str]) -> None:
    cpu_target.typing_context.refresh()
    for a, b in itertools.product(CODES, CODES):
        assert ours(rule, a, b) == asked(function, a, b), (a, b)


def test_where_ways_meet_types_are_numbas() -> None:
    for a, b in itertools.product(CODES, CODES):
        found = cpu_target.typing_context.unify_types(numba_type(a), numba_type(b))
        assert unified(a, b) == NAMES[found], (a, b)


# ---------------------------------------------------------------- vectors


@pytest.mark.parametrize(
    ("value", "wide", "beyond"),
    [
        ("x[i]", False, False),
        ("fma(x[i], x[i], x[i])", True, True),
        ("or_sin(fma(x[i], x[i], x[i]), x[i])", True, True),
        ("larger(fma(x[i], x[i], x[i]), x[0])", True, True),
        ("add_up(fma(x[i], x[i], x[i]), x[0])", True, False),
        ("lowest(fma(x[i], x[i], x[i]), x[0])", True, False),
    ],
)
def test_what_asks_for_wider_vectors(value: str, wide: bool, beyond: bool) -> None:
    source = f"""
from nbgrad.kernels.cpu.fold import add_up, larger, lowest
from nbgrad.kernels.cpu.vmath import fma, or_sin

def kernel(start, stop, x):
    for i in range(start, stop):
        x[i] = {value}
"""
    for asked in (False, True):
        text = written("kernel", source, ("i8", "i8", "*f8"), False, asked)
        assert ("prefer-vector-width" in text, "x86-64-v4" in text) == (wide, asked and beyond)
        binding.parse_assembly(text).verify()


# ---------------------------------------------------------------- bits


def compiled(source: str, codes: tuple[str, ...], contract: bool = False) -> tuple[Any, Any, Any]:
    """The function `kernel` of a text by the front and by Numba, and what keeps their code alive."""
    text = written("kernel", source, codes, contract)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    tuning = binding.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    binding.create_pass_builder(machine, tuning).getModulePassManager().run(
        module, binding.create_pass_builder(machine, tuning)
    )
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    options: dict[str, Any] = {"error_model": "numpy"} | ({"fastmath": {"contract"}} if contract else {})
    reference = cfunc(types.void(*map(parameter, codes)), **options)(
        build.load_source("kernel", source, "kernel.py")
    )
    form = ctypes.CFUNCTYPE(None, *(C_TYPES.get(c, ctypes.c_void_p) for c in codes))
    return form(engine.get_function_address("kernel")), form(reference.address), (engine, reference)


def assert_same_bits(
    source: str, codes: tuple[str, ...], *args: Any, contract: bool = False
) -> list[np.ndarray]:
    quick, reference, alive = compiled(source, codes, contract)
    results = []
    for function in (quick, reference):
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        function(*(a.ctypes.data if isinstance(a, np.ndarray) else a for a in given))
        results.append([a for a in given if isinstance(a, np.ndarray)])
    for one, other in zip(*results, strict=True):
        assert one.tobytes() == other.tobytes(), alive
    return results[0]


ENDS = np.array([0, 1, -1, 2, -2, 3, -7, 100, 2**31, -(2**31), 2**63 - 1, -(2**63)], np.int64)
WAYS = """
import math
import numpy as np
F = np.float32
TABLE = (0.5, -1.5, 2.0, 7.25)


def kernel(start, stop, x, y, o, r):
    total = 0  # an integer that becomes a float
    k = 0
    for i in range(start, stop):
        a = x[i]
        b = y[i]
        if a < 0 and b < 0 or not a != b:
            k += 1
        elif 0 <= a < b:
            k += 2
        else:
            k -= 1
        if b == 100:
            continue
        j = i
        while True:
            j -= 3
            if j < 0 or x[j] == 1:
                break
            total = total + 1
        for j in range(10, i, -4):
            total += 0.25 * j
        total += TABLE[i % 4] + TABLE[-1 - i % 3]
        w = F(a) if a > b else b
        o[0] += w
        o[2 + i] = (a > 0 or b) + (a and b)
        c, d = i % 3, i // 3
        c, d = d, c
        o[40 + i] = c * 10 + d
        r[i] = np.int8(a) + np.uint8(b) + (a > b) * 3
    o[1] = total
    r[stop] = k
"""
DIVISIONS = """
import numpy as np


def kernel(start, stop, x, y, o):
    n = stop
    for i in range(n):
        for j in range(n):
            a = x[i]
            b = y[j]
            at = 12 * (i * n + j)
            o[at] = a // b
            o[at + 1] = a % b
            o[at + 2] = np.uint64(a) // np.uint64(b)
            o[at + 3] = np.uint64(a) % np.uint64(b)
            o[at + 4] = a // 3 + a % 3
            o[at + 5] = a // -3 - a % -3
            o[at + 6] = np.int64(a < np.uint64(b)) + 2 * np.int64(np.int32(a) <= np.uint32(b))
            o[at + 7] = (a << (b & 63)) ^ (a >> (b & 63)) | (np.uint32(a) >> np.uint32(b & 31))
            o[at + 8] = ~a + -np.uint8(b) + abs(a)
            o[at + 9] = min(a, b, 5) + max(np.uint32(a), np.int32(b))
            o[at + 10] = np.int16(np.uint32(a) * np.uint32(b))
            o[at + 11] = np.int64(a * b > a - b) + (a / b == 2.0)
"""
MATHEMATICS = """
import math
import numpy as np


def kernel(start, stop, x, o):
    for i in range(start, stop):
        v = x[i]
        at = 40 * i
        o[at] = math.sqrt(abs(v)) + np.sqrt(abs(v))
        o[at + 1] = math.exp(v) - math.expm1(v)
        o[at + 2] = math.log(abs(v)) * math.log1p(abs(v)) + math.log2(abs(v)) + math.log10(abs(v))
        o[at + 3] = math.sin(v) * math.cos(v) + math.tan(v)
        o[at + 4] = math.asin(v) + math.acos(v) + math.atan(v) + math.atan2(v, 0.7)
        o[at + 5] = math.sinh(v) + math.cosh(v) + math.tanh(v)
        o[at + 6] = math.asinh(v) + math.acosh(v) + math.atanh(v)
        o[at + 7] = math.erf(v) + math.erfc(v)
        o[at + 8] = math.gamma(v)
        o[at + 9] = math.lgamma(v)
        o[at + 10] = math.pow(abs(v), 1.3)
        o[at + 11] = math.copysign(1.0, v)
        o[at + 12] = math.frexp(v)[0]
        o[at + 13] = math.frexp(v)[1]
        o[at + 14] = np.floor(v) + np.ceil(v) * 3 + np.trunc(v) * 7
        o[at + 15] = np.rint(v)
        o[at + 16] = np.fmod(v, 1.7)
        o[at + 17] = np.nextafter(v, 2.0)
        o[at + 18] = math.isnan(v) + 2 * math.isinf(v) + 4 * math.isfinite(v)
        o[at + 19] = np.float32(v) * np.float32(0.1) + 1 / 3
        o[at + 20] = -v
        o[at + 21] = v * v + 1.0 - v * 0.3
        o[at + 22] = v != v
        o[at + 23] = math.sqrt(i) + float(i)
        o[at + 26] = 1e999 - 1e999
        o[at + 27] = -(1e999 - 1e999)
        o[at + 28] = math.inf - math.inf
        if abs(v) < 1e9:
            o[at + 24] = math.floor(v) + math.ceil(v) + math.trunc(v) + int(v)
            o[at + 25] = np.uint8(int(v)) + np.float32(int(v))
"""
CALLED = """
from numba.extending import register_jitable

SERIES = (1.0, 0.5, 0.25, 0.125)


@register_jitable(error_model="numpy")
def series(t, coefficients):
    value = 0.0
    for k in range(len(coefficients) - 1, -1, -1):
        value = value * t + coefficients[k]
    return value


@register_jitable(error_model="numpy")
def chosen(t, n):
    if t < 0:
        return 0
    for _ in range(n):
        t = t * 0.5
        if t < 0.125:
            return 1
    return series(t, SERIES)


def kernel(start, stop, x, o):
    for i in range(start, stop):
        o[i] = chosen(x[i], i) + chosen(1, 2)
"""
SUMS = """
from nbgrad.kernels.cpu.fold import add_up, highest, larger, lowest, multiply_up
from nbgrad.kernels.cpu.prefix import running_products_back, running_sums
from nbgrad.kernels.cpu.stack import stack_f8


def kernel(start, stop, x, o, r):
    lanes = stack_f8(32)
    for j in range(32):
        lanes[j] = 0.0
    total = 0.0
    product = 1.0
    top = x[0]
    bottom = x[0]
    best = x[0]
    for i in range(start, stop):
        total = add_up(total, x[i])
    for i in range(start, stop):
        product = multiply_up(product, x[i])
    for i in range(start, stop):
        top = highest(top, x[i])
    for i in range(start, stop):
        bottom = lowest(bottom, x[i])
    for i in range(start, stop):
        best = larger(best, x[i])
    for i in range(start, stop):
        lanes[i % 32] += x[i] * x[i]
    o[0] = total
    o[1] = product
    o[2] = top
    o[3] = bottom
    o[4] = best
    for j in range(32):
        o[5 + j] = lanes[j]
    u = 0.0
    for k in range(0, stop - 7, 8):
        u = running_sums(r, k, x, k, u)
    u = running_products_back(o, 63, x, stop - 1, 2.0)
    o[40] = u
"""
PLACES = """
from nbgrad.kernels.cpu.half import from_half, to_half
from nbgrad.kernels.cpu.memory import at_f8
from nbgrad.kernels.cpu.places import places


def kernel(start, stop, meta, o, x, h):
    for row in range(start, stop):
        p0, p1 = places(meta, row, (0, 1))
        for j in range(meta[1]):
            o[p0 + j] = x[p1 + j]
    h[1] = to_half(from_half(h[0]) * from_half(h[0]))
    at_f8(meta[12])[1] = 2.5
"""


def numbers(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=n) * 2


def test_ways_and_loops_are_the_same_to_the_bit() -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-3, 4, 21) for _ in range(2))
    y[5] = 100
    o, r = assert_same_bits(
        WAYS, ("i8", "i8", "*i8", "*i8", "*f8", "*i8"), 0, 20, x, y, np.zeros(80), np.zeros(21, np.int64)
    )[2:]
    assert o[0] != 0 and r.any()


@pytest.mark.parametrize("code", ["i8", "i4", "i1", "u1"])
def test_integers_are_the_same_to_the_bit(code: str) -> None:
    ends = ENDS.astype(code)
    n = len(ends)
    assert_same_bits(
        DIVISIONS,
        ("i8", "i8", f"*{code}", f"*{code}", "*i8"),
        0,
        n,
        ends,
        ends,
        np.zeros(12 * n * n, np.int64),
    )


@pytest.mark.parametrize("contract", [False, True])
@pytest.mark.parametrize("code", ["f4", "f8"])
def test_mathematics_is_the_same_to_the_bit(code: str, contract: bool) -> None:
    ends = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-320, 1e300, 0.5, 1e-40]
    with np.errstate(over="ignore"):
        x = np.concatenate([ends, numbers(40)]).astype(code)
    codes = ("i8", "i8", f"*{code}", f"*{code}")
    assert_same_bits(MATHEMATICS, codes, 0, len(x), x, np.zeros(40 * len(x), code), contract=contract)


def test_functions_that_are_called_are_the_same_to_the_bit() -> None:
    (_, o) = assert_same_bits(CALLED, ("i8", "i8", "*f8", "*f8"), 0, 12, numbers(12), np.zeros(12))
    assert len(set(o)) > 2


@pytest.mark.parametrize("n", [64, 1000])
def test_sums_in_any_order_are_the_same_to_the_bit(n: int) -> None:
    """Which LLVM reorders in the same way, as it is told the same."""
    assert_same_bits(SUMS, ("i8", "i8", "*f8", "*f8", "*f8"), 0, n, numbers(n), np.zeros(64), np.zeros(n))


def test_helpers_of_memory_are_the_same_to_the_bit() -> None:
    outside = np.zeros(2)
    meta = np.array([2, 3, 2, 2, 6, 3, 1, 12, 0, 0, 0, 0, outside.ctypes.data])
    h = np.array([1.5, 0], np.float16).view(np.uint16)
    codes = ("i8", "i8", "*i8", "*f8", "*f8", "*f2")
    o = assert_same_bits(PLACES, codes, 0, 4, meta, np.zeros(12), numbers(24), h)[1]
    assert (o != 0).all() and outside[1] == 2.5


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "body",
    [
        "o[0] = stop ** 2",
        "o[0] = 1.5 % start",
        "for i in (1, 2): o[0] = i",
        "for i in range(0, 4, start): o[0] = i",
        "o[0] = unknown",
        "o[0] = math.cbrt(2.0)",
        "o[0] = start.real",
        "o[0] = [1, 2][0]",
        "assert start",
        "if start:\n        k = 1\n    o[0] = k",
        "while start:\n        pass\n    else:\n        o[0] = 1",
        "o[0] = (1.0, 2.0)[start] if stop else o",
        "return 1",
        "o[0] = again(start)",
        "o[0] = (1, 2.5)[start]",
    ],
)
def test_what_is_not_known_is_refused(body: str) -> None:
    again = "@njit\ndef again(n):\n    return again(n - 1)\n\n\n"
    source = f"import math\nfrom numba import njit\n\n\n{again}def kernel(start, stop, o):\n    {body}\n"
    with pytest.raises(Refused):
        written("kernel", source, ("i8", "i8", "*f8"), False)
