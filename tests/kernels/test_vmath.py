"""vmath: within its stated ulps on random bits, exact where special, vectorised, and the same un-jitted."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numba import cfunc, types

from nbgrad.kernels import vmath

KINDS = ("f4", "f8")
LONG = np.longdouble
INF, NAN = math.inf, math.nan


def _sigmoid(x: Any) -> Any:
    z = np.exp(-np.abs(x))
    return np.where(x > 0, 1, z) / (1 + z)


REFERENCE: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
}
# The greatest error, in ulps of the result, that a primitive may show; the module's table has what was measured.
ULPS = {"exp": 1.0, "log": 1.0, "tanh": 1.1, "sigmoid": 2.0}
CASES = [(kind, prim) for prim in REFERENCE for kind in KINDS]


def test_every_text_is_tested() -> None:
    assert set(CASES) == set(vmath.TEXT)


def source_of(kind: str, prim: str) -> str:
    count = itertools.count()
    lines, result = vmath.TEXT[kind, prim](["a"], lambda: f"t{next(count)}")
    body = "\n".join("        " + line for line in ["a = x[i]", *lines, f"o[i] = {result}"])
    return f"{vmath.PREAMBLE}\ndef kernel(start, stop, o, x):\n    for i in range(start, stop):\n{body}\n"


def plain(kind: str, prim: str) -> Callable[..., None]:
    """The kernel as Python runs it."""
    namespace: dict[str, Any] = {}
    exec(source_of(kind, prim), namespace)
    function: Callable[..., None] = namespace["kernel"]
    return function


@cache
def compiled(kind: str, prim: str) -> Any:
    pointer = types.CPointer(types.float32 if kind == "f4" else types.float64)
    return cfunc(types.void(types.int64, types.int64, pointer, pointer), error_model="numpy")(
        plain(kind, prim)
    )


def run(kind: str, prim: str, x: Any) -> Any:
    kernel = compiled(kind, prim).ctypes
    x = np.ascontiguousarray(x, kind)
    o = np.empty_like(x)
    kernel(0, x.size, *(a.ctypes.data_as(kernel.argtypes[2]) for a in (o, x)))
    return o


def points(kind: str, n: int) -> Any:
    """Random bit patterns, dense sweeps over several ranges, what lies next to 1 and -1."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2 ** (8 * np.dtype(kind).itemsize), n, dtype=f"u{kind[1]}").view(kind)
    sweeps = [rng.uniform(-a, a, n // 8).astype(kind) for a in (1e-3, 0.4, 1.5, 4, 20, 110, 760)]
    near = (1 + rng.normal(size=n // 8) * 10.0 ** rng.uniform(-8, 0, n // 8)).astype(kind)
    return np.concatenate([bits, *sweeps, near, -near])


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


@pytest.mark.parametrize(("kind", "prim"), CASES)
def test_ulps(kind: str, prim: str) -> None:
    x = points(kind, 1_000_000 if kind == "f4" else 100_000)
    with np.errstate(all="ignore"):
        want = REFERENCE[prim](x.astype(np.float64 if kind == "f4" else LONG))
        error = errors(run(kind, prim, x), want, kind)
    worst = int(np.argmax(error))
    # where long double is no wider, the reference itself is half an ulp or more off
    slack = 0.0 if np.finfo(LONG).eps < 1e-18 or kind == "f4" else 1.0
    assert error[worst] <= ULPS[prim] + slack, f"{prim}({x[worst]!r}): {error[worst]} ulps"


EDGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (1000, INF), (-1000, 0)],
    "log": [(1, 0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1, NAN), (-1e-30, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (50, 1), (-50, -1), (1e30, 1)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (1000, 1), (-1000, 0)],
}


@pytest.mark.parametrize(("kind", "prim"), CASES)
def test_edges(kind: str, prim: str) -> None:
    edges = np.array([*EDGES[prim], (NAN, NAN)], kind)
    got, want = run(kind, prim, edges[:, 0]), edges[:, 1]
    np.testing.assert_array_equal(got, want)
    signed = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))


@pytest.mark.parametrize("kind", KINDS)
def test_underflow_is_gradual(kind: str) -> None:
    """Down to the smallest denormal, and to zero where the exact value is below half of it."""
    low, least = (-103.97, 2.0**-149) if kind == "f4" else (-745.13, 2.0**-1074)
    np.testing.assert_array_equal(run(kind, "exp", [low, low - 0.02]), np.array([least, 0], kind))
    np.testing.assert_array_equal(run(kind, "sigmoid", [low + 0.7, low - 2]), np.array([least, 0], kind))
    tiny = np.ldexp(np.array([1.0]), -149 if kind == "f4" else -1074).astype(kind)
    np.testing.assert_array_equal(run(kind, "tanh", tiny), tiny)


@pytest.mark.parametrize(("kind", "prim"), CASES)
def test_vectorises(kind: str, prim: str) -> None:
    """The loop is vectors of at least 128 bits throughout: no product or quotient in the loop was left scalar."""
    code = compiled(kind, prim)._library.get_llvm_str()
    width = "float" if kind == "f4" else "double"
    assert re.search(rf"@llvm\.fmuladd\.v\d+f{8 * int(kind[1])}", code), "no vector multiply-add"
    lanes = {int(n) for n in re.findall(rf"fmul .*?<(\d+) x {width}>", code)}
    assert max(lanes) * int(kind[1]) >= 16
    if kind == "f4":  # an integer that stayed 64 bits wide would halve the vectors
        assert not re.search(rf"<{max(lanes)} x double>|shl <\d+ x i64>|ashr <\d+ x i64>", code)


@pytest.mark.parametrize(("kind", "prim"), CASES)
def test_unjitted_agrees(kind: str, prim: str) -> None:
    x = np.concatenate([points(kind, 400), np.array(EDGES[prim], kind)[:, 0]])
    got = np.empty_like(x)
    with np.errstate(all="ignore"):
        plain(kind, prim)(0, x.size, got, x)
    want = run(kind, prim, x)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.where(finite, 0, got), np.where(finite, 0, want))
    np.testing.assert_array_max_ulp(got[finite], want[finite], maxulp=1)
