"""The pointwise family: a million float32, and four, each function beside torch's; operands that are broadcast or lie transposed.

Names that are other names' functions (`arcsin`) are left out.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .common import LIBS, library, some


def names(text: str, prefix: str = "") -> list[str]:
    return [prefix + name for name in text.split()]


SPECIAL = names(
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr erfcx i0e i1 i1e log_ndtr modified_bessel_i0 modified_bessel_i1 "
    "modified_bessel_k0 modified_bessel_k1 ndtr ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0",
    "special.",
)
POLYNOMIALS = names(
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
    "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
    "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w",
    "special.",
)
ACTIVATIONS = names(
    "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 rrelu selu silu softplus "
    "softshrink softsign tanhshrink",
    "nn.functional.",
)
UNARY = [
    *names(
        "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac frexp i0 isfinite "
        "isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 logical_not logit nan_to_num neg positive rad2deg reciprocal "
        "relu round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc"
    ),
    *SPECIAL,
    *ACTIVATIONS,
]
BINARY = [
    *names(
        "add atan2 copysign div eq float_power floor_divide fmax fmin fmod ge gt heaviside hypot igamma igammac isclose ldexp le "
        "logaddexp logaddexp2 logical_and logical_or logical_xor lt maximum minimum mul ne nextafter pow remainder rsub sub xlogy"
    ),
    "special.xlog1py",
    "special.zeta",
]
TERNARY = ["addcdiv", "addcmul", "lerp"]
INTEGERS = names("bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor gcd lcm")
# Calls of another form, of the module and two operands between 0.1 and 0.9.
OTHERS: dict[str, Any] = {
    "clamp": lambda T, x, y: T.clamp(x, 0.3, 0.7),
    "clamp_min": lambda T, x, y: T.clamp_min(x, 0.3),
    "clamp_max": lambda T, x, y: T.clamp_max(x, 0.7),
    "threshold": lambda T, x, y: T.threshold(x, 0.5, 0.0),
    "where": lambda T, x, y: T.where(x > 0.5, x, y),
    "pow_number": lambda T, x, y: x**3,
    "div_floor": lambda T, x, y: T.div(x, y, rounding_mode="floor"),
    "round_decimals": lambda T, x, y: T.round(x, decimals=1),
    "polygamma": lambda T, x, y: T.polygamma(1, x),
    "mvlgamma": lambda T, x, y: T.mvlgamma(x + 1, 2),
    "prelu": lambda T, x, y: T.nn.functional.prelu(x, y[:1]),
    "bitwise_not": lambda T, x, y: ~(x > y),
    **{name: lambda T, x, y, f=operator.attrgetter(name): f(T)(x, 5) for name in POLYNOMIALS},
}


class Pointwise:
    params: Any = (LIBS, some((*UNARY, *BINARY, *TERNARY, *INTEGERS, *OTHERS)), some((4, 1_000_000)))
    param_names = ("lib", "op", "n")

    def setup(self, lib: str, op: str, n: int) -> None:
        T = library(lib)
        T.manual_seed(0)
        if op in INTEGERS:
            args = [T.randint(1, 50, (n,)) for _ in range(2)]
        else:
            arity = 1 if op in UNARY else 3 if op in TERNARY else 2
            args = [T.rand(n) * 0.8 + 0.1 for _ in range(arity)]
        leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in args]
        call = OTHERS.get(op)
        self.op = (lambda *given: call(T, *given)) if call else operator.attrgetter(op)(T)
        self.args, self.leaves = args, leaves
        self.op(*self.args)
        self.op(*self.leaves)

    def time_forward(self, lib: str, op: str, n: int) -> None:
        self.op(*self.args)

    def time_recorded(self, lib: str, op: str, n: int) -> None:
        self.op(*self.leaves)


class Layouts:
    """A million elements with a row, a column, an operand that lies transposed, every second element, and a number."""

    params: Any = (
        LIBS,
        some(("mul", "div", "maximum", "pow")),
        ("row", "column", "transposed", "strided", "number"),
    )
    param_names = ("lib", "op", "operand")

    def setup(self, lib: str, op: str, operand: str) -> None:
        T = library(lib)
        T.manual_seed(0)
        self.op, self.x = getattr(T, op), T.rand(1000, 1000) + 0.5
        self.y = {
            "row": lambda: T.rand(1000),
            "column": lambda: T.rand(1000, 1),
            "transposed": lambda: T.rand(1000, 1000).t(),
            "strided": lambda: T.rand(1000, 2000)[:, ::2],
            "number": lambda: T.tensor(2.5),
        }[operand]()
        self.time_1m(lib, op, operand)

    def time_1m(self, lib: str, op: str, operand: str) -> None:
        self.op(self.x, self.y)


class ShortRows:
    """320,000 elements as 10,000 x 8 x 4 with an operand that is the same along one of the dimensions: rows of four or eight elements."""

    params: Any = (LIBS, some(("mul", "sub")), ("first", "middle", "last"))
    param_names = ("lib", "op", "along")

    def setup(self, lib: str, op: str, along: str) -> None:
        T = library(lib)
        T.manual_seed(0)
        self.op, self.x = getattr(T, op), T.rand(10_000, 8, 4)
        self.y = T.rand({"first": (8, 4), "middle": (10_000, 1, 4), "last": (10_000, 8, 1)}[along])
        self.time_320k(lib, op, along)

    def time_320k(self, lib: str, op: str, along: str) -> None:
        self.op(self.x, self.y)


class InPlace:
    """What leaves most elements as they are, written where it was read."""

    params: Any = (LIBS, some(("relu_", "clamp_", "masked_fill_")))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        T = library(lib)
        x = T.tensor(np.random.default_rng(0).normal(size=400_000).astype(np.float32))
        above = x > 0.5
        self.call = {
            "relu_": lambda: x.relu_(),
            "clamp_": lambda: x.clamp_(min=0.0),
            "masked_fill_": lambda: x.masked_fill_(above, 0.5),
        }[op]
        self.call()

    def time_400k(self, lib: str, op: str) -> None:
        self.call()
