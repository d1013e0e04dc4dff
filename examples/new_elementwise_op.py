"""Add an elementwise op to nbgrad in three lines: the scalar function is all there is to write.

Prints values and gradients of the new op beside the formulas done by hand, then what gradcheck and gradgradcheck say
of it, and how long it takes beside the same thing composed of existing ops. (nbgrad's own: PyTorch has no such decorator.)

$ python examples/new_elementwise_op.py
its gradient       [0.5, 0.64, -0.0, -0.64, -0.5]
by hand            [0.5, 0.64, -0.0, -0.64, -0.5]
gradcheck          True
gradgradcheck      True
$ python examples/new_elementwise_op.py --short
second derivative  [0.25, -0.128, -1.0, -0.128, 0.25]
soft_sign          True
"""

import argparse
import time
from collections.abc import Callable

import nbgrad as torch


@torch.elementwise
def witch(x, a):
    return a**3 / (x * x + a * a)


@torch.elementwise(name="soft_sign", vjp=lambda g, x, y: g * (1 - abs(y)) ** 2)
def soft_sign(x):
    """The rule is ours here, and reads the output: so the output is what backward keeps, and not x."""
    return x / (1 + abs(x))


def composed(x: torch.Tensor, a: float) -> torch.Tensor:
    return a**3 / (x * x + a * a)


def milliseconds(run: Callable[[], object]) -> float:
    run()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="smaller arrays")
    n = 10_000 if parser.parse_args().short else 1_000_000

    x = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)
    y = witch(x, 2.0)
    print("witch(x, 2)       ", y.tolist())
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    print("its gradient      ", g.tolist())
    print("by hand           ", (-16 * x / (x * x + 4) ** 2).tolist())
    (h,) = torch.autograd.grad(g.sum(), x)
    print("second derivative ", h.tolist())

    a = torch.tensor([1.0, 1.5, 2.0, 2.5, 3.0], dtype=torch.float64, requires_grad=True)
    shifted = (x.detach() + 0.1).requires_grad_()  # away from the kink of abs at 0
    print("gradcheck         ", torch.autograd.gradcheck(witch, (x, a)))
    print("gradgradcheck     ", torch.autograd.gradgradcheck(witch, (x, a)))
    print("soft_sign         ", torch.autograd.gradcheck(soft_sign, (shifted,)))

    big = torch.randn(n, requires_grad=True)
    grad = torch.ones(n)
    for name, op in (("one fused kernel", witch), ("composed of ops", composed)):
        print(
            f"{name:<18} {milliseconds(lambda op=op: op(big, 2.0).backward(grad)):.2f} ms for {n} elements, backward included"
        )


if __name__ == "__main__":
    main()
