"""One step of an optimiser over many small parameters, and over one large one."""

from .common import PerLibrary


class Small(PerLibrary):
    """200 parameters of 1,000 elements: what a step costs per parameter."""

    count, size = 200, 1000

    def prepare(self) -> None:
        params = [self.T.randn(self.size).requires_grad_() for _ in range(self.count)]
        for p in params:
            p.grad = self.T.randn(self.size)
        self.sgd = self.T.optim.SGD(params, lr=1e-6, momentum=0.9)
        self.adamw = self.T.optim.AdamW(params, lr=1e-6)
        self.time_sgd_momentum("")
        self.time_adamw("")

    def time_sgd_momentum(self, lib: str) -> None:
        self.sgd.step()

    def time_adamw(self, lib: str) -> None:
        self.adamw.step()


class Large(Small):
    """One parameter of 1,000,000 elements: what a step costs per element."""

    count, size = 1, 1_000_000
