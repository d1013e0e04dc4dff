"""vmath: within its stated ulps on random bits, exact where special, vectorised, and the same un-jitted."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import Any

import llvmlite.binding
import numpy as np
import pytest
from numba import cfunc, types

from nbgrad.kernels import vmath
from nbgrad.kernels.texts import TEXT

KINDS = ("f4", "f8")
LONG = np.longdouble
INF, NAN = math.inf, math.nan
HALF_PI = math.pi / 2
# Fused multiply-add: x86 names the feature, present or not; what does not name it has it.
FUSED = bool(llvmlite.binding.get_host_cpu_features().get("fma", True))


def _sigmoid(x: Any) -> Any:
    """0 where the exponential of -x is beyond what the narrower kind holds, as PyTorch's is."""
    z = np.exp(-np.abs(x))
    most = np.log(LONG(np.finfo("f4" if x.dtype == "f8" else "f8").max))
    return np.where(x < -most, 0, np.where(x > 0, 1, z) / (1 + z))


def _erf(x: Any) -> Any:
    return np.array([math.erf(v) for v in x.tolist()], x.dtype)


def _erfc(x: Any) -> Any:
    return np.array([math.erfc(v) for v in x.tolist()], x.dtype)


def _gelu_slope(x: Any) -> Any:
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return 0.5 * _erfc(-x * math.sqrt(0.5)) + np.where(density == 0, 0, x) * density


def _soft_corner(x: Any) -> Any:
    return np.log1p(np.exp(-np.abs(x)))


def _erfinv(x: Any) -> Any:
    """From the quantile of the normal distribution, which is exact far out, and one step of Newton, which makes it so near zero."""
    result = np.where(np.abs(x) == 1, INF * x, NAN)
    inside = np.abs(x) < 1
    a = np.abs(x[inside])
    quantile = NormalDist().inv_cdf
    y = np.array([quantile(p) for p in ((1 - a) / 2).tolist()], x.dtype) * -math.sqrt(0.5)
    y -= (_erf(y) - a) * np.exp(y * y) * (math.sqrt(math.pi) / 2)
    result[inside] = np.copysign(y, x[inside])
    return result


REFERENCE: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "expm1": np.expm1,
    "expm1_below": np.expm1,
    "exp_below": np.exp,
    "log1p": np.log1p,
    "rsqrt": lambda x: np.divide(1, np.sqrt(x)),
    "soft_corner": _soft_corner,
    "exp2": np.exp2,
    "log2": np.log2,
    "log10": np.log10,
    "erf": _erf,
    "erfc": _erfc,
    "erfinv": _erfinv,
    "ndtr": lambda x: 1 - 0.5 * _erfc(x * math.sqrt(0.5)),
    "gelu_slope": _gelu_slope,
    "sin": np.sin,
    "cos": np.cos,
    "pow": np.power,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
# The greatest error, in ulps of the result, that a primitive may show; the module's table has what was measured.
ULPS = dict.fromkeys(REFERENCE, 1.0) | {"tanh": 1.1, "expm1": 1.5, "log2": 1.1, "erf": 1.3, "sigmoid": 2.0}
ULPS |= {
    "sin": 1.2,
    "cos": 1.1,
    "erfc": 2.4,
    "ndtr": 1.3,
    "gelu_slope": 2.4,
    "erfinv": 2.7,
    "tan": 2.2,
    "atan": 1.3,
    "atan2": 1.1,
    "sinh": 1.8,
    "cosh": 1.4,
    "acosh": 2.1,
    "soft_corner": 1.8,
}
FLOAT32_ONLY = ("erfinv", "ndtr", "gelu_slope", "rsqrt")
WIDE = ("pow", "atan2")  # whose float32 text computes in float64
CASES = [(kind, prim) for prim in REFERENCE for kind in KINDS if not (kind == "f8" and prim in FLOAT32_ONLY)]


def _remainder(x: Any, y: Any) -> Any:
    """NumPy's, but that a zero has the sign of x, as PyTorch's."""
    rest = np.fmod(x, y)
    return np.where(rest == 0, rest, np.remainder(x, y))


# What has one right answer in each width.
EXACT: dict[str, Callable[..., Any]] = {
    "fmod": np.fmod,
    "remainder": _remainder,
    "floor_divide": np.floor_divide,
    "nextafter": np.nextafter,
}


def arity(prim: str) -> int:
    return 2 if prim in ("pow", "atan2", *EXACT) else 1


def test_every_text_is_tested() -> None:
    assert {*CASES, *itertools.product(KINDS, EXACT)} == set(TEXT)


def source_of(kind: str, prim: str) -> str:
    count = itertools.count()
    arrays = ["x", "y"][: arity(prim)]
    lines, result = TEXT[kind, prim]([f"{a}_i" for a in arrays], lambda: f"t{next(count)}")
    lines = [*(f"{a}_i = {a}[i]" for a in arrays), *lines, f"o[i] = {result}"]
    body = "\n".join("        " + line for line in lines)
    head = f"def kernel(start, stop, o, {', '.join(arrays)}):\n    for i in range(start, stop):"
    return f"{vmath.PREAMBLE}\n{head}\n{body}\n"


def plain(kind: str, prim: str) -> Callable[..., None]:
    """The kernel as Python runs it."""
    namespace: dict[str, Any] = {}
    exec(source_of(kind, prim), namespace)
    function: Callable[..., None] = namespace["kernel"]
    return function


@cache
def compiled(kind: str, prim: str) -> Any:
    pointer = types.CPointer(types.float32 if kind == "f4" else types.float64)
    signature = types.void(types.int64, types.int64, *[pointer] * (1 + arity(prim)))
    return cfunc(signature, error_model="numpy")(plain(kind, prim))


def run(kind: str, prim: str, *inputs: Any) -> Any:
    kernel = compiled(kind, prim).ctypes
    arrays = [np.ascontiguousarray(x, kind) for x in inputs]
    o = np.empty_like(arrays[0])
    kernel(0, o.size, *(a.ctypes.data_as(kernel.argtypes[2]) for a in (o, *arrays)))
    return o


def points(kind: str, n: int) -> Any:
    """Random bit patterns, dense sweeps over several ranges, what lies next to 1 and -1."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2 ** (8 * np.dtype(kind).itemsize), n, dtype=f"u{kind[1]}").view(kind)
    sweeps = [rng.uniform(-a, a, n // 8).astype(kind) for a in (1e-3, 0.4, 1.5, 4, 20, 110, 760)]
    near = (1 + rng.normal(size=n // 8) * 10.0 ** rng.uniform(-8, 0, n // 8)).astype(kind)
    return np.concatenate([bits, *sweeps, near, -near])


def inputs_of(kind: str, prim: str, n: int) -> list[Any]:
    """An array of points for each argument; an exponent is drawn so that not all results are 0 or infinite."""
    x = points(kind, n)
    if prim in ("exp_below", "expm1_below"):
        return [-np.abs(x)]
    if prim in ("ndtr", "gelu_slope"):
        return [np.abs(x)]  # for the others see the tests of these below zero
    if arity(prim) == 1:
        return [x]
    rng = np.random.default_rng(8)
    y = rng.permutation(points(kind, n))
    with np.errstate(all="ignore"):
        fit = (rng.uniform(-155, 130, y.size) / np.log2(np.abs(x.astype(np.float64)))).astype(kind)
    choice = rng.integers(0, 3, y.size)
    return [x, np.choose(choice, [y, fit, np.round(np.clip(fit, -99, 99))])]


def errors(got: Any, want: Any, kind: str) -> Any:
    """|got - want| in ulps of want, infinite where NaN, an infinity or a sign is wrong. `want` is a wider float."""
    info = np.finfo(kind)
    rounded = want.astype(kind)
    exponent = np.frexp(np.where(np.isfinite(rounded), want, 1))[1]
    ulp = np.ldexp(want.dtype.type(1), np.maximum(exponent - info.nmant - 1, info.minexp - info.nmant))
    special = ~np.isfinite(rounded) | ~np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error = np.where(special, np.where(same, 0, INF), np.abs(got.astype(want.dtype) - want) / ulp)
    return np.where((np.signbit(got) != np.signbit(rounded)) & ~np.isnan(rounded), INF, error)


MANY = [pytest.param(*case, 1_000_000, marks=pytest.mark.slow) for case in CASES if case[0] == "f4"]


@pytest.mark.parametrize(("kind", "prim", "n"), [*((*case, 100_000) for case in CASES), *MANY])
def test_ulps(kind: str, prim: str, n: int) -> None:
    inputs = inputs_of(kind, prim, n)
    wider = np.float64 if kind == "f4" else LONG
    with np.errstate(all="ignore"):
        want = REFERENCE[prim](*(x.astype(wider) for x in inputs))
        error = errors(run(kind, prim, *inputs), want, kind)
    worst = int(np.argmax(error))
    # where the reference is no wider (long double on some machines, math.erf), it is itself up to an ulp off
    exact = kind == "f4" or (np.finfo(LONG).eps < 1e-18 and prim not in ("erf", "erfc"))
    slack = (not exact) + (not FUSED)
    found = f"{prim}({[x[worst] for x in inputs]}): {error[worst]} ulps"
    assert error[worst] <= ULPS[prim] + slack, found


EDGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (1000, INF), (-1000, 0)],
    "log": [(1, 0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1, NAN), (-1e-30, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (50, 1), (-50, -1), (1e30, 1)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (1000, INF), (-1000, -1)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (INF, INF), (-INF, NAN), (-1.5, NAN)],
    "exp_below": [(0.0, 1), (-0.0, 1), (-INF, 0), (-1000, 0)],
    "expm1_below": [(0.0, 0.0), (-0.0, -0.0), (-INF, -1), (-1000, -1)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (4, 0.5), (-1, NAN), (-INF, NAN), (-1e-40, NAN)],
    "exp2": [(0.0, 1), (-0.0, 1), (10, 1024), (-3, 0.125), (INF, INF), (-INF, 0), (2000, INF), (-2000, 0)],
    "log2": [(1, 0), (0.5, -1), (2.0**40, 40), (2.0**-130, -130), (-0.0, -INF), (INF, INF), (-1, NAN)],
    "log10": [(1, 0), (10, 1), (1000, 3), (1e10, 10), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (30, 1), (-1e30, -1)],
    "erfc": [(0.0, 1), (-0.0, 1), (INF, 0.0), (-INF, 2), (30, 0.0), (-30, 2)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-INF, NAN)],
    "ndtr": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (30, 1), (-30, 0)],
    "gelu_slope": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (30, 1), (-30, -0.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (1e-40, 1), (INF, NAN), (-INF, NAN)],
    "pow": [],
    "atan2": [],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (INF, NAN), (-INF, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1, HALF_PI), (-1, -HALF_PI), (1.5, NAN), (-INF, NAN)],
    "acos": [(1, 0.0), (-1, math.pi), (0.0, HALF_PI), (1.5, NAN), (INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, HALF_PI), (-INF, -HALF_PI)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1000, INF), (-1000, -INF)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (1000, INF), (-1000, INF)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-INF, NAN)],
    "soft_corner": [(INF, 0.0), (-INF, 0.0), (1000, 0.0)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (1000, 1), (-1000, 0)],
}


@pytest.mark.parametrize(("kind", "prim"), [case for case in CASES if arity(case[1]) == 1])
def test_edges(kind: str, prim: str) -> None:
    edges = np.array([*EDGES[prim], (NAN, NAN)], kind)
    got, want = run(kind, prim, edges[:, 0]), edges[:, 1]
    np.testing.assert_array_equal(got, want)
    signed = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))


@pytest.mark.parametrize("kind", KINDS)
def test_edges_of_pow(kind: str) -> None:
    """Every pair of special bases and exponents, as C has it (NumPy's float64 power is C's)."""
    values = [0.0, 1.0, 2.0, 3.0, 0.5, 2.5, 1e30, 1e-30, 1e-42, 2.0**24 - 1, 2.0**24, INF]
    special = np.array([*values, *(-v for v in values), NAN], kind)
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64)).astype(kind)
    got = run(kind, "pow", x, y)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.where(finite, 0, got), np.where(finite, 0, want))
    np.testing.assert_array_max_ulp(got[finite], want[finite], maxulp=0 if kind == "f4" else 1)
    signed = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))


def test_ndtr_below_zero() -> None:
    """It is as exact as one minus what it is above zero, and to -3 in proportion."""
    x = np.linspace(-8, 0, 100_000, dtype="f4")
    want = 0.5 * _erfc(-x.astype(np.float64) * math.sqrt(0.5))
    error = np.abs(run("f4", "ndtr", x) - want)
    assert error.max() < 2.0**-24
    assert (error[x > -3] / want[x > -3]).max() < 2e-6


def test_gelu_slope_below_zero() -> None:
    """It has a root there, around which it is as exact as its parts; to -5 in proportion, and beyond to a hundredth."""
    x = np.linspace(-13, 0, 100_000, dtype="f4")
    want = _gelu_slope(x.astype(np.float64))
    error = np.abs(run("f4", "gelu_slope", x) - want)
    assert error.max() < 2.0**-23
    assert (error / -want)[(x > -5) & (x < -1)].max() < 1e-4
    assert (error / -want)[x <= -5].max() < 1e-2


@pytest.mark.parametrize("kind", KINDS)
def test_underflow_is_gradual(kind: str) -> None:
    """Down to the smallest denormal, and to zero where the exact value is below half of it."""
    low, least = (-103.97, 2.0**-149) if kind == "f4" else (-745.13, 2.0**-1074)
    np.testing.assert_array_equal(run(kind, "exp", [low, low - 0.02]), np.array([least, 0], kind))
    edge = -np.log(np.finfo(kind).max)
    got, gone = run(kind, "sigmoid", [edge + abs(edge) * np.finfo(kind).eps, edge - 0.01])
    assert gone == 0 and abs(got - np.exp(edge)) < np.exp(edge) * 0.001
    tiny = np.ldexp(np.array([1.0]), -149 if kind == "f4" else -1074).astype(kind)
    np.testing.assert_array_equal(run(kind, "tanh", tiny), tiny)


@pytest.mark.parametrize(("kind", "prim"), CASES)
def test_vectorises(kind: str, prim: str) -> None:
    """The loop is vectors of at least 128 bits throughout: no product or quotient in the loop was left scalar."""
    code = compiled(kind, prim)._library.get_llvm_str()
    width = "float" if kind == "f4" else "double"
    assert re.search(r"@llvm\.fmuladd\.v\d+f", code), "no vector multiply-add"
    lanes = {int(n) for n in re.findall(rf"fmul .*?<(\d+) x {width}>", code)}
    if kind == "f8" or prim not in WIDE:  # those compute in float64
        assert max(lanes) * int(kind[1]) >= 16
    if kind == "f4" and prim not in WIDE:  # an integer that stayed 64 bits wide would halve the vectors
        assert not re.search(rf"<{max(lanes)} x double>|shl <\d+ x i64>|ashr <\d+ x i64>", code)


@pytest.mark.parametrize(("kind", "prim"), CASES)
def test_unjitted_agrees(kind: str, prim: str) -> None:
    inputs = inputs_of(kind, prim, 400)
    if EDGES[prim]:
        inputs = [np.concatenate([*inputs, np.array(EDGES[prim], kind)[:, 0]])]
    got = np.empty_like(inputs[0])
    with np.errstate(all="ignore"):
        plain(kind, prim)(0, got.size, got, *inputs)
    want = run(kind, prim, *inputs)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.where(finite, 0, got), np.where(finite, 0, want))
    np.testing.assert_array_max_ulp(got[finite], want[finite], maxulp=1 if FUSED else 2)


@pytest.mark.parametrize(("kind", "prim"), [*itertools.product(KINDS, EXACT)])
def test_exact(kind: str, prim: str) -> None:
    """Of quotients of all sizes, of whole ones and their neighbours, of zeros, infinities and NaN, with the sign of a zero."""
    rng = np.random.default_rng(3)
    x = points(kind, 20_000)
    special = np.array([0.0, -0.0, 1, -1, INF, -INF, NAN, 5e-324, 3, 2.0**24, 2.0**53, 2.5e-45], kind)
    with np.errstate(all="ignore"):
        whole = np.nextafter(
            (x / rng.integers(1, 2**23, x.size)).astype(kind), rng.choice([-INF, 1, INF], x.size)
        )
        y = np.concatenate([rng.permutation(x), whole.astype(kind), np.repeat(special, special.size)])
        x = np.concatenate([x, x, np.tile(special, special.size)])
        want, got = EXACT[prim](x, y), run(kind, prim, x, y)
    np.testing.assert_array_equal(got, want)
    defined = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[defined]), np.signbit(want[defined]))
