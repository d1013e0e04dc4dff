"""HIPS/autograd's own benchmarks, by the names they have there, and what its users ask of it: derivatives of small models.

`autograd` (the package) is measured beside nbgrad and torch where it is installed. A benchmark writes its function once, on `m`: that
is `autograd.numpy`, or the library itself. Nothing is traced ahead: as in HIPS's suite a forward pass is the recording of the graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import Any

import numpy as np

from .common import LIBS, library


class PerPeer(ABC):
    """A benchmark per library. `prepare` sets up what is timed and runs it once, so that all is compiled."""

    params = ((*LIBS, "autograd") if find_spec("autograd") else LIBS,)
    param_names = ("lib",)
    timeout = 120

    def setup(self, lib: str) -> None:
        self.m: Any = __import__("autograd.numpy").numpy if lib == "autograd" else library(lib)
        if lib == "autograd":
            self.prepare_autograd()
        else:
            self.prepare()
        for name in dir(self):
            if name.startswith("time_"):
                getattr(self, name)(lib)

    @abstractmethod
    def prepare(self) -> None: ...

    @abstractmethod
    def prepare_autograd(self) -> None: ...

    def array(self, value: Any) -> Any:
        """As float64, which is what NumPy's users have."""
        value = np.asarray(value, dtype=np.float64)
        return value if self.m.__name__ == "autograd.numpy" else self.m.from_numpy(value)


class Gradient(PerPeer):
    """A function of one argument: its graph, the graph's backward, and both."""

    at: Any = 2.0

    @abstractmethod
    def fun(self, x: Any) -> Any: ...

    def prepare(self) -> None:
        grad, x = self.m.autograd.grad, self.array(self.at).requires_grad_()
        y = self.fun(x)
        self.forward = lambda: self.fun(x)
        self.backward = lambda: grad(y, x, retain_graph=True)
        self.both = lambda: grad(self.fun(x), x)

    def prepare_autograd(self) -> None:
        from autograd import grad
        from autograd.core import make_vjp

        x = self.at if isinstance(self.at, float) else self.array(self.at)
        vjp, _ = make_vjp(self.fun, x)
        gradient = grad(self.fun)
        self.forward = lambda: make_vjp(self.fun, x)
        self.backward = lambda: vjp(1.0)
        self.both = lambda: gradient(x)


class Short(Gradient):
    """A short expression of one scalar."""

    def fun(self, x):
        return x * x * x + 2 * x

    def time_short_forward_pass(self, lib: str) -> None:
        self.forward()

    def time_short_backward_pass(self, lib: str) -> None:
        self.backward()

    def time_short_grad(self, lib: str) -> None:
        self.both()


class Long(Gradient):
    """A chain of 50 sines on a scalar."""

    def fun(self, x):
        for _ in range(50):
            x = self.m.sin(x)
        return x

    def time_long_forward_pass(self, lib: str) -> None:
        self.forward()

    def time_long_backward_pass(self, lib: str) -> None:
        self.backward()

    def time_long_grad(self, lib: str) -> None:
        self.both()


class FanOutFanIn(Gradient):
    """10^4 times (x + x) / 2: both uses of x meet again in one gradient."""

    def fun(self, x):
        for _ in range(10_000):
            x = (x + x) / 2
        return self.m.sum(x)

    def time_fan_out_fan_in_forward_pass(self, lib: str) -> None:
        self.forward()

    def time_fan_out_fan_in_backward_pass(self, lib: str) -> None:
        self.backward()

    def time_fan_out_fan_in_grad(self, lib: str) -> None:
        self.both()


class Exp(Gradient):
    """One call, recorded and not."""

    def fun(self, x):
        return self.m.exp(x)

    def setup(self, lib: str) -> None:
        self.bare: Any = None
        super().setup(lib)

    def time_exp_call(self, lib: str) -> None:
        if self.bare is None:
            self.bare = self.array(self.at)
        self.m.exp(self.bare)

    def time_exp_primitive_call_boxed(self, lib: str) -> None:
        self.forward()


class HessianVectorProduct(PerPeer):
    """Of Rosenbrock's function in 1000 dimensions."""

    def fun(self, x):
        return self.m.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def given(self):
        r = np.random.default_rng(0)
        return self.array(r.uniform(-1, 1, 1000)), self.array(r.uniform(-1, 1, 1000))

    def prepare(self) -> None:
        x, v = self.given()
        x, grad = x.requires_grad_(), self.m.autograd.grad

        def product():
            (g,) = grad(self.fun(x), x, create_graph=True)
            return grad(g, x, v)

        self.product = product

    def prepare_autograd(self) -> None:
        from autograd import hessian_vector_product

        x, v = self.given()
        product = hessian_vector_product(self.fun)
        self.product = lambda: product(x, v)

    def time_rosenbrock_hvp(self, lib: str) -> None:
        self.product()


class Model(PerPeer):
    """Jacobian of a model's value at every point, and Hessian of the sum, with respect to its parameters."""

    @abstractmethod
    def values(self, w): ...

    @abstractmethod
    def draw(self, r: np.random.Generator) -> Any: ...

    def total(self, w):
        return self.m.sum(self.values(w))

    def prepare(self) -> None:
        w = self.array(self.draw(np.random.default_rng(0)))
        functional = self.m.autograd.functional
        self.jacobian = lambda: functional.jacobian(self.values, w)
        self.hessian = lambda: functional.hessian(self.total, w)

    def prepare_autograd(self) -> None:
        import autograd

        w = self.array(self.draw(np.random.default_rng(0)))
        jacobian, hessian = autograd.jacobian(self.values), autograd.hessian(self.total)
        self.jacobian, self.hessian = lambda: jacobian(w), lambda: hessian(w)


class LogisticRegression(Model):
    """10 parameters, the log-likelihood of 100 points."""

    def draw(self, r):
        self.x = self.array(r.standard_normal((100, 10)))
        self.y = self.array(np.sign(r.standard_normal(100)))
        return r.standard_normal(10)

    def values(self, w):
        return -self.m.log1p(self.m.exp(-self.y * self.m.matmul(self.x, w)))

    def time_logistic_jacobian(self, lib: str) -> None:
        self.jacobian()

    def time_logistic_hessian(self, lib: str) -> None:
        self.hessian()


class Perceptron(Model):
    """4-8-8-1 with tanh, 121 parameters, 16 points."""

    def draw(self, r):
        self.x = self.array(r.standard_normal((16, 4)))
        return r.standard_normal(121) * 0.5

    def values(self, w):
        m, at, y = self.m, 0, self.x
        for n, k in ((4, 8), (8, 8), (8, 1)):
            y = m.matmul(y, m.reshape(w[at : at + n * k], (n, k))) + w[at + n * k : at + n * k + k]
            at += n * k + k
            y = m.tanh(y) if k > 1 else y
        return m.reshape(y, (16,))

    def time_perceptron_jacobian(self, lib: str) -> None:
        self.jacobian()

    def time_perceptron_hessian(self, lib: str) -> None:
        self.hessian()


class CustomFunction(PerPeer):
    """An op whose gradient the user writes, called and differentiated."""

    def prepare(self) -> None:
        class Cube(self.m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * (3 * x * x)

        x = self.array([1.0, 2.0, 3.0]).requires_grad_()
        self.both = lambda: self.m.autograd.grad(Cube.apply(x).sum(), x)

    def prepare_autograd(self) -> None:
        from autograd import grad
        from autograd.extend import defvjp, primitive

        @primitive
        def cube(x):
            return x * x * x

        defvjp(cube, lambda ans, x: lambda g: g * (3 * x * x))
        x = self.array([1.0, 2.0, 3.0])
        gradient = grad(lambda x: self.m.sum(cube(x)))
        self.both = lambda: gradient(x)

    def time_custom_function(self, lib: str) -> None:
        self.both()
