"""The pointwise family: a million float32, and four, each function beside torch's."""

from __future__ import annotations

import operator
from typing import Any

from .common import LIBS, library

UNARY = (
    *(
        "neg",
        "abs",
        "sqrt",
        "rsqrt",
        "exp",
        "exp2",
        "log",
        "log2",
        "log1p",
        "expm1",
        "sin",
        "cos",
        "tan",
        "asin",
    ),
    *("acos", "atan", "sinh", "cosh", "tanh", "asinh", "atanh", "sigmoid", "erf", "erfc", "erfinv", "lgamma"),
    *("digamma", "i0", "floor", "round", "sign", "nan_to_num"),
    *(f"nn.functional.{name}" for name in ("relu", "gelu", "silu", "elu", "mish", "hardswish", "softplus")),
)
BINARY = ("mul", "div", "maximum", "pow", "atan2", "hypot", "logaddexp", "xlogy", "fmod", "copysign")
TERNARY = ("addcmul", "addcdiv", "lerp")


class Pointwise:
    params: Any = (LIBS, (*UNARY, *BINARY, *TERNARY), (4, 1_000_000))
    param_names = ("lib", "op", "n")

    def setup(self, lib: str, op: str, n: int) -> None:
        T = library(lib)
        T.manual_seed(0)
        arity = 1 if op in UNARY else 2 if op in BINARY else 3
        self.args = [T.rand(n) * 0.8 + 0.1 for _ in range(arity)]
        self.leaves = [t.clone().requires_grad_() for t in self.args]
        self.op = operator.attrgetter(op)(T)
        self.op(*self.args)
        self.op(*self.leaves)

    def time_forward(self, lib: str, op: str, n: int) -> None:
        self.op(*self.args)

    def time_recorded(self, lib: str, op: str, n: int) -> None:
        self.op(*self.leaves)
