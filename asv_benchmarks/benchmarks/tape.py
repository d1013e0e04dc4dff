"""Backward: what adds up, and the second order. HIPS/autograd's benchmarks of cost per node are in hips.py."""

from .common import PerLibrary


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
