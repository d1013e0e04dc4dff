"""Products: square matrices from 4 to 1024, long and thin ones however they lie, and the other forms that a product takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .common import LIBS, library, some


class Square:
    params = (LIBS, some((64, 4, 16, 256, 1024)))
    param_names = ("lib", "n")

    def setup(self, lib: str, n: int) -> None:
        self.T = T = library(lib)
        self.a, self.b = T.randn(n, n), T.randn(n, n)
        self.leaves = [t.clone().requires_grad_() for t in (self.a, self.b)]
        self.ones = T.ones(n, n)
        self.time_recorded(lib, n)
        self.time_forward_and_backward(lib, n)

    def time_alone(self, lib: str, n: int) -> None:
        self.a @ self.b

    def time_recorded(self, lib: str, n: int) -> None:
        self.leaves[0] @ self.leaves[1]

    def time_forward_and_backward(self, lib: str, n: int) -> None:
        self.T.autograd.grad(self.leaves[0] @ self.leaves[1], self.leaves, self.ones)


# Rows, columns and depth.
SHAPES = (
    (64, 10, 128),
    (1, 1024, 1024),
    (1024, 1, 1024),
    (4, 1024, 1024),
    (64, 1000, 512),
    (4096, 128, 128),
    (128, 128, 4096),
)


class Shapes:
    """The second operand is turned in `nt`, the first in `tn`."""

    params = (
        LIBS,
        some("x".join(map(str, shape)) for shape in SHAPES),
        some(("nn", "nt", "tn")),
        some(("float32", "float64")),
    )
    param_names = ("lib", "shape", "way", "dtype")

    def setup(self, lib: str, shape: str, way: str, dtype: str) -> None:
        T = library(lib)
        m, n, k = map(int, shape.split("x"))
        kind = getattr(T, dtype)
        self.a = T.randn(k, m, dtype=kind).t() if way == "tn" else T.randn(m, k, dtype=kind)
        self.b = T.randn(n, k, dtype=kind).t() if way == "nt" else T.randn(k, n, dtype=kind)
        self.time_alone(lib, shape, way, dtype)

    def time_alone(self, lib: str, shape: str, way: str, dtype: str) -> None:
        self.a @ self.b


class Integers:
    params = (LIBS, some((256, 16)), some(("int64", "int32", "uint8")))
    param_names = ("lib", "n", "dtype")

    def setup(self, lib: str, n: int, dtype: str) -> None:
        T = library(lib)
        self.a, self.b = (T.randint(0, 9, (n, n), dtype=getattr(T, dtype)) for _ in range(2))
        self.time_alone(lib, n, dtype)

    def time_alone(self, lib: str, n: int, dtype: str) -> None:
        self.a @ self.b


# name: (the product, the shapes of its operands)
FORMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "dot": (lambda T, x, y: T.dot(x, y), ((1000,), (1000,))),
    "mv": (lambda T, x, y: T.mv(x, y), ((512, 512), (512,))),
    "vm": (lambda T, x, y: x @ y, ((512,), (512, 512))),
    "outer": (lambda T, x, y: T.outer(x, y), ((512,), (512,))),
    "transposed_left": (lambda T, x, y: x.T @ y, ((256, 256), (256, 256))),
    "transposed_right": (lambda T, x, y: x @ y.T, ((256, 256), (256, 256))),
    "every_second_row": (lambda T, x, y: x[::2] @ y, ((256, 128), (128, 128))),
    "addmm": (lambda T, x, y, z: T.addmm(z, x, y), ((32, 64), (64, 64), (64,))),
    "linear": (lambda T, x, w, b: T.nn.functional.linear(x, w, b), ((32, 64), (64, 64), (64,))),
    "linear_wide": (
        lambda T, x, w, b: T.nn.functional.linear(x, w, b),
        ((256, 784), (512, 784), (512,)),
    ),
    "linear_3d": (lambda T, x, w, b: T.nn.functional.linear(x, w, b), ((8, 64, 128), (128, 128), (128,))),
    "bmm": (lambda T, x, y: T.bmm(x, y), ((64, 32, 32), (64, 32, 32))),
    "bmm_64": (lambda T, x, y: T.bmm(x, y), ((64, 64, 64), (64, 64, 64))),
    "bmm_turned": (lambda T, x, y: T.bmm(x, y.mT), ((64, 64, 64), (64, 64, 64))),
    "bmm_4x4": (lambda T, x, y: T.bmm(x, y), ((1000, 4, 4), (1000, 4, 4))),
    "bmm_4x4_turned": (lambda T, x, y: T.bmm(x, y.mT), ((1000, 4, 4), (1000, 4, 4))),
    "batch_with_matrix": (lambda T, x, y: x @ y, ((64, 32, 128), (128, 128))),
    "batch_broadcast": (lambda T, x, y: x @ y, ((8, 1, 32, 32), (8, 32, 32))),
}


class Forms:
    params = (LIBS, tuple(FORMS))
    param_names = ("lib", "form")

    def setup(self, lib: str, form: str) -> None:
        self.T = T = library(lib)
        self.run, shapes = FORMS[form]
        self.args = [T.randn(*shape) for shape in shapes]
        self.leaves = [t.clone().requires_grad_() for t in self.args]
        self.ones = T.ones_like(self.run(T, *self.args))
        self.time_forward_and_backward(lib, form)

    def time_alone(self, lib: str, form: str) -> None:
        self.run(self.T, *self.args)

    def time_forward_and_backward(self, lib: str, form: str) -> None:
        self.T.autograd.grad(self.run(self.T, *self.leaves), self.leaves, self.ones)


class LittleMatrices:
    """Batches of matrices of a few rows, which kernels solve and invert."""

    params = (LIBS, some(("inv", "solve", "det", "slogdet")), some((3, 8)))
    param_names = ("lib", "op", "n")

    def setup(self, lib: str, op: str, n: int) -> None:
        self.T = T = library(lib)
        T.manual_seed(0)
        self.a = (T.randn(1000, n, n) + 3 * T.eye(n)).requires_grad_()
        self.op, self.more = getattr(T.linalg, op), (T.randn(1000, n, 2),) if op == "solve" else ()
        self.time_forward_and_backward(lib, op, n)

    def time_forward_and_backward(self, lib: str, op: str, n: int) -> None:
        found = self.op(self.a, *self.more)
        found = found[1] if op == "slogdet" else found
        self.T.autograd.grad(found.sum(), self.a)


class LittleFactors:
    """Factors and values of batches of little matrices, and least squares of a tall one."""

    params = (LIBS, some(("qr", "eigvalsh", "svdvals", "lstsq")))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        self.T = T = library(lib)
        T.manual_seed(0)
        a = T.randn(200, 8, 8, dtype=T.float64)
        tall = (T.randn(1000, 20, dtype=T.float64), T.randn(1000, 1, dtype=T.float64))
        self.op, self.args = getattr(T.linalg, op), tall if op == "lstsq" else (a + a.mT,)

    def time_forward(self, lib: str, op: str) -> None:
        self.op(*self.args)
