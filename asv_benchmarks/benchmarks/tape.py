"""Backward: cost per node. Names that HIPS/autograd's bench_core has are used for the same graphs."""

from .common import PerLibrary


class Short(PerLibrary):
    """A short expression of one scalar."""

    def prepare(self) -> None:
        self.x = self.T.tensor(2.0, requires_grad=True)
        self.y = self.forward()
        self.time_short_grad("")

    def forward(self):
        return self.x * self.x * self.x + 2 * self.x

    def time_short_forward_pass(self, lib: str) -> None:
        self.forward()

    def time_short_backward_pass(self, lib: str) -> None:
        self.T.autograd.grad(self.y, self.x, retain_graph=True)

    def time_short_grad(self, lib: str) -> None:
        self.T.autograd.grad(self.forward(), self.x)


class Long(PerLibrary):
    """A chain of 50 sines on a scalar."""

    def prepare(self) -> None:
        self.x = self.T.tensor(2.0, requires_grad=True)
        self.y = self.forward()
        self.time_long_grad("")

    def forward(self):
        y = self.x
        for _ in range(50):
            y = self.T.sin(y)
        return y

    def time_long_forward_pass(self, lib: str) -> None:
        self.forward()

    def time_long_backward_pass(self, lib: str) -> None:
        self.T.autograd.grad(self.y, self.x, retain_graph=True)

    def time_long_grad(self, lib: str) -> None:
        self.T.autograd.grad(self.forward(), self.x)


class FanOutFanIn(PerLibrary):
    """10^4 times (x + x) / 2: both uses of x meet again in one gradient."""

    timeout = 120

    def prepare(self) -> None:
        self.x = self.T.tensor(2.0, requires_grad=True)
        self.y = self.forward()
        self.time_fan_out_fan_in_backward_pass("")

    def forward(self):
        y = self.x
        for _ in range(10_000):
            y = (y + y) / 2
        return y

    def time_fan_out_fan_in_forward_pass(self, lib: str) -> None:
        self.forward()

    def time_fan_out_fan_in_backward_pass(self, lib: str) -> None:
        self.T.autograd.grad(self.y, self.x, retain_graph=True)


class FanOut(PerLibrary):
    """One leaf used 10^4 times: every use adds to the same gradient."""

    timeout = 120

    def prepare(self) -> None:
        self.x = self.T.ones(10, requires_grad=True)
        total = self.x * 2
        for _ in range(10_000):
            total = total + self.x
        self.y = total.sum()
        self.time_fan_out_backward_pass("")

    def time_fan_out_backward_pass(self, lib: str) -> None:
        self.T.autograd.grad(self.y, self.x, retain_graph=True)


class Accumulate(PerLibrary):
    """`.grad` of a leaf, added to by one backward after another."""

    def prepare(self) -> None:
        self.x = self.T.ones(1000, requires_grad=True)
        self.y = (self.x * 2).sum()
        self.y.backward(retain_graph=True)
        self.y.backward(retain_graph=True)

    def time_accumulate(self, lib: str) -> None:
        self.y.backward(retain_graph=True)


class SecondOrder(PerLibrary):
    def prepare(self) -> None:
        self.x = self.T.tensor([0.1, 0.2, 0.3], requires_grad=True)
        self.time_hessian_vector_product("")

    def time_hessian_vector_product(self, lib: str) -> None:
        (g,) = self.T.autograd.grad((self.x.exp() * self.x).sum(), self.x, create_graph=True)
        self.T.autograd.grad(g.sum(), self.x)
