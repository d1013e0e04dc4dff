"""Complex numbers as pairs: each primitive beside Python's own complex functions, and what a gradient passes on beside differences."""

from __future__ import annotations

import cmath
import random
from collections.abc import Callable
from typing import Any

import pytest

from nbgrad.expr import diff, parts, prims, var
from nbgrad.expr.evaluate import evaluate
from nbgrad.expr.node import Expr

POINTS = [complex(a, b) for a in (-2.5, -0.3, 0.4, 1.7) for b in (-1.2, -0.1, 0.6, 2.2)]
KNOWN: dict[str, Callable[..., complex]] = {
    **{
        name: getattr(cmath, name)
        for name in ["exp", "log", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"]
    },
    **{name: getattr(cmath, name) for name in ["asin", "acos", "atan", "asinh", "acosh", "atanh"]},
    "expm1": lambda z: cmath.exp(z) - 1,
    "log1p": lambda z: cmath.log(1 + z),
    "log2": lambda z: cmath.log(z) / cmath.log(2),
    "exp2": lambda z: 2**z,
    "rsqrt": lambda z: 1 / cmath.sqrt(z),
    "reciprocal": lambda z: 1 / z,
    "sigmoid": lambda z: 1 / (1 + cmath.exp(-z)),
    "abs": lambda z: complex(abs(z)),
    "arg": lambda z: complex(cmath.phase(z)),
    "sgn": lambda z: z / abs(z),
    "conj": lambda z: z.conjugate(),
    "real": lambda z: complex(z.real),
    "imag": lambda z: complex(z.imag),
    "neg": lambda z: -z,
}
OF_TWO: dict[str, Callable[..., complex]] = {
    "add": lambda z, w: z + w,
    "sub": lambda z, w: z - w,
    "mul": lambda z, w: z * w,
    "div": lambda z, w: z / w,
    "pow": lambda z, w: z**w,
    "logaddexp": lambda z, w: cmath.log(cmath.exp(z) + cmath.exp(w)),
}


def value(e: Expr, **given: complex) -> complex:
    """An expression of complex variables, by way of its pair."""
    ((re, im),) = parts.pairs([e], given)
    known = {f"{n}.{p}": getattr(z, q) for n, z in given.items() for p, q in (("re", "real"), ("im", "imag"))}
    return complex(evaluate(re, known), 0.0 if im is None else evaluate(im, known))


@pytest.mark.parametrize("name", [*KNOWN, *OF_TWO])
def test_a_primitive_is_that_of_complex_numbers(name: str) -> None:
    known, count = {**KNOWN, **OF_TWO}[name], 1 + (name in OF_TWO)
    e = prims.PRIMS[name](*[var(n) for n in "zw"[:count]])
    for k, z in enumerate(POINTS):
        given = dict(zip("zw", (z, POINTS[(5 * k + 3) % len(POINTS)])[:count]))
        assert value(e, **given) == pytest.approx(known(*given.values()), rel=1e-12, abs=1e-13)


def gradient(e: Expr, name: str, g: complex, **given: complex) -> complex:
    """By differences: what a step along either part does to the real part of conj(g) times the value."""

    def moved(step: complex) -> float:
        return (g.conjugate() * value(e, **{**given, name: given[name] + step})).real

    h = 1e-6
    return complex(moved(h) - moved(-h), moved(1j * h) - moved(-1j * h)) / (2 * h)


BODIES: dict[str, Callable[..., Any]] = {
    **{name: (lambda z, w, f=prims.PRIMS[name]: f(z)) for name in KNOWN},
    **{name: prims.PRIMS[name] for name in OF_TWO},
    "turned": lambda z, w: prims.conj(z) * w + prims.imag(z * z) * prims.abs(w),
    "joined": lambda z, w: prims.join(prims.real(z) * 2.0, prims.abs(w)) * z,
    "chosen": lambda z, w: prims.where(prims.lt(prims.abs(z), 1.0), z * w, prims.conj(z) / w),
    "direction": lambda z, w: prims.sgn(z * w) + prims.arg(z) * w,
    "power": lambda z, w: z**-3 + w**2,
}


@pytest.mark.parametrize("name", BODIES)
def test_a_gradient_is_what_differences_are(name: str) -> None:
    draw = random.Random(name)
    e = BODIES[name](var("z"), var("w"))
    found = diff.vjp(e, ["z", "w"], conjugated=True)
    tangent = diff.tangent(e, ["z", "w"], ["tz", "tw"], conjugated=True)
    for _ in range(6):
        z, w, g, tz, tw = (complex(draw.uniform(-2, 2), draw.uniform(-2, 2)) for _ in range(5))
        given = {"z": z, "w": w, "y": value(e, z=z, w=w)}
        along = 0.0
        for n, t in (("z", tz), ("w", tw)):
            if not isinstance(found[n], diff.Zero):
                got = value(found[n], g=g, **given)
                assert got == pytest.approx(gradient(e, n, g, z=z, w=w), rel=2e-7, abs=2e-7)
                along += (got.conjugate() * t).real
        # The forward sweep is the other's transpose.
        moved = value(tangent, tz=tz, tw=tw, **given)
        assert (g.conjugate() * moved).real == pytest.approx(along, rel=1e-9, abs=1e-9)


def test_what_has_no_complex_form_is_refused() -> None:
    for name in ("floor", "maximum", "erf", "gt"):
        with pytest.raises(parts.NoComplexForm, match=name):
            parts.pairs([prims.PRIMS[name](var("z"), *[var("x")] * (name in ("maximum", "gt")))], {"z"})


def test_limits_of_the_exponential_are_those_of_c() -> None:
    inf, nan = float("inf"), float("nan")
    z = value(prims.exp(var("z")), z=complex(-inf, nan))
    assert (z.real, z.imag) == (0.0, 0.0)
    z = value(prims.exp(var("z")), z=complex(inf, nan))
    assert z.real == inf
    assert z.imag != z.imag
