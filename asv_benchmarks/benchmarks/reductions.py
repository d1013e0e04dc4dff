"""Reductions, scans and order over each axis of 4096 x 1024 float32, of a million numbers and of four; random numbers."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .common import LIBS, library, some

AXES = (
    *(
        "sum",
        "mean",
        "amax",
        "amin",
        "max",
        "min",
        "argmax",
        "argmin",
        "prod",
        "var",
        "std",
        "logsumexp",
        "nansum",
    ),
    *("all", "any", "count_nonzero", "norm", "softmax", "log_softmax"),
    *("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"),
)
WHOLE = ("sum", "mean", "prod", "amax", "norm", "all")
ALONG = ("softmax", "log_softmax", "logsumexp", "cumsum", "cumprod")
ORDER = ("sort", "argsort", "median", "topk", "kthvalue", "unique")
DRAWS = ("rand", "randn", "randperm", "bernoulli_", "exponential_", "dropout")


def reduction(T: ModuleType, op: str) -> Callable[..., Any]:
    return (lambda x, axis: T.norm(x, dim=axis)) if op == "norm" else getattr(T, op)


class Axes:
    params = (LIBS, some(AXES), (0, 1))
    param_names = ("lib", "op", "axis")

    def setup(self, lib: str, op: str, axis: int) -> None:
        T = library(lib)
        T.manual_seed(0)
        self.x, self.op = T.randn(4096, 1024), reduction(T, op)
        self.op(self.x, axis)

    def time_matrix(self, lib: str, op: str, axis: int) -> None:
        self.op(self.x, axis)


class Short:
    """80,000 numbers in rows that are shorter than the machine's vectors, or not much longer: what a row costs beside its elements."""

    params: Any = (
        LIBS,
        some(("sum", "mean", "amax", "max", "argmax", "var", "logsumexp", "softmax", "log_softmax")),
        some((8, 4, 24)),
        ("float32", "float64"),
    )
    param_names = ("lib", "op", "length", "dtype")

    def setup(self, lib: str, op: str, length: int, dtype: str) -> None:
        T = library(lib)
        T.manual_seed(0)
        self.x, self.op = T.randn(80_000 // length, length, dtype=getattr(T, dtype)), getattr(T, op)
        self.op(self.x, 1)

    def time_rows(self, lib: str, op: str, length: int, dtype: str) -> None:
        self.op(self.x, 1)


class Line:
    """A million numbers in one line, which threads can share only if it is cut; and the product of two."""

    params = (LIBS, some((*WHOLE, *ALONG, "dot")))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        T = library(lib)
        T.manual_seed(0)
        x, self.op = T.rand(1_000_000), getattr(T, op)
        self.given = (x, x) if op == "dot" else (x,) if op in WHOLE else (x, 0)
        self.op(*self.given)

    def time_1m(self, lib: str, op: str) -> None:
        self.op(*self.given)


class Order:
    params = (LIBS, some(ORDER))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        T = library(lib)
        T.manual_seed(0)
        self.x, self.op = T.randn(1_000_000), getattr(T, op)
        self.more = {"topk": (100,), "kthvalue": (1000,)}.get(op, ())
        self.time_1m(lib, op)

    def time_1m(self, lib: str, op: str) -> None:
        self.op(self.x, *self.more)


class Equals:
    """Labels, of which many are equal: those stand where PyTorch's algorithms leave them."""

    params = (LIBS, some(("sort", "topk", "kthvalue", "mode")))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        T = library(lib)
        T.manual_seed(0)
        self.x, self.op = T.randint(0, 10, (64, 1000)), getattr(T, op)
        self.more = {"topk": (5,), "kthvalue": (500,)}.get(op, ())
        self.time_rows_of_labels(lib, op)

    def time_rows_of_labels(self, lib: str, op: str) -> None:
        self.op(self.x, *self.more)


class Draws:
    params = (LIBS, some(DRAWS))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        T = library(lib)
        n = 1_000_000
        x = T.ones(n)
        self.run = {
            "bernoulli_": lambda: T.empty(n).bernoulli_(0.3),
            "exponential_": lambda: T.empty(n).exponential_(),
            "dropout": lambda: T.nn.functional.dropout(x, 0.3),
        }.get(op) or (lambda: getattr(T, op)(n))
        self.run()

    def time_1m(self, lib: str, op: str) -> None:
        self.run()


class Few:
    """Four numbers: what a call costs."""

    params = (LIBS, some((*AXES, "sort", "median")))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        T = library(lib)
        self.x, self.op = T.randn(4), reduction(T, op)
        self.op(self.x, 0)

    def time_four(self, lib: str, op: str) -> None:
        self.op(self.x, 0)


class FewRecorded:
    """The same, recorded for a gradient."""

    params = (LIBS, some(("sum", "amax", "max", "softmax", "cumsum", "sort", "median", "var")))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        T = library(lib)
        self.x, self.op = T.randn(4).requires_grad_(), getattr(T, op)
        self.op(self.x, 0)

    def time_four(self, lib: str, op: str) -> None:
        self.op(self.x, 0)


class FewMade:
    """Tensors of four numbers, filled and random."""

    params = (LIBS, some(("empty", "zeros", "ones", "rand", "randn", "zeros_like", "ones_like", "rand_like")))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        self.op = getattr(library(lib), op)
        self.of = library(lib).ones(4) if op.endswith("_like") else 4
        self.op(self.of)

    def time_four(self, lib: str, op: str) -> None:
        self.op(self.of)
