"""A million float32: the kernels themselves, and a chain of them forward and backward."""

from __future__ import annotations

from .common import LIBS, PerLibrary, library

N = 1_000_000


class Elementwise:
    params = (LIBS, ("mul", "exp", "tanh", "sigmoid"))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        T = library(lib)
        T.manual_seed(0)
        self.args = [T.randn(N) for _ in range(2 if op == "mul" else 1)]
        self.op = getattr(T, op)
        self.op(*self.args)

    def time_1m(self, lib: str, op: str) -> None:
        self.op(*self.args)


class Chain(PerLibrary):
    """exp(tanh(sigmoid(x) * w)), a million elements."""

    def prepare(self) -> None:
        self.T.manual_seed(0)
        self.x = self.T.randn(N, requires_grad=True)
        self.w = self.T.randn(N, requires_grad=True)
        self.ones = self.T.ones(N)
        self.time_chain1m_forward("")
        self.time_chain1m_grad("")

    def forward(self):
        return self.T.exp(self.T.tanh(self.T.sigmoid(self.x) * self.w))

    def time_chain1m_forward(self, lib: str) -> None:
        with self.T.no_grad():
            self.forward()

    def time_chain1m_grad(self, lib: str) -> None:
        self.T.autograd.grad(self.forward(), (self.x, self.w), self.ones)
