"""Transforms of functions, torch.func: a gradient for every example at once, and the Hessian of a network's loss.

One call of vmap over grad gives each example's own gradient; they are compared with a loop over the examples, clipped each to a
norm, and averaged, as private training does. The Hessian, forward over reverse, is compared with reverse over reverse. Prints
the differences, which must be below 1e-5, and how long both ways take once their kernels are compiled (each runs once before it is timed).

$ python examples/function_transforms.py
Hessian of the loss: 57 x 57, symmetric
$ python examples/function_transforms.py --short
Hessian of the loss: 17 x 17, symmetric
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import nbgrad as torch
from nbgrad import nn
from nbgrad.func import functional_call, grad, hessian, jacrev, vmap
from nbgrad.nn import functional as F
from nbgrad.nn.utils import parameters_to_vector


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and how many milliseconds it takes the second time."""
    run()
    start = time.perf_counter()
    return run(), (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a smaller network, fewer examples")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    n, hidden = (20, 4) if args.short else (200, 14)

    torch.manual_seed(args.seed)
    x = torch.randn(n, 2)
    y = x[:, :1] * x[:, 1:]
    net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 1))
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(functional_call(net, parameters, (x,)), y)

    together, quick = timed(lambda: vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y))
    alone, slow = timed(lambda: [grad(loss)(parameters, x[i], y[i]) for i in range(n)])
    for name, gradients in together.items():
        difference = (gradients - torch.stack([g[name] for g in alone])).abs().max().item()
        print(f"gradients of {name:<9} {tuple(gradients.shape)!s:<13} against a loop: {difference:.0e}")
        assert difference < 1e-5
    print(f"together {quick:.1f} ms, in a loop {slow:.1f} ms, each after a first run that compiles")

    flat = torch.cat([g.flatten(1) for g in together.values()], dim=1)
    norms = flat.norm(dim=1)
    clipped = flat * (1 / norms).clamp(max=1)[:, None]
    print(
        f"norms from {norms.min():.2f} to {norms.max():.2f}; of the mean of the clipped: {clipped.mean(0).norm():.3f}"
    )

    def flat_loss(vector: torch.Tensor) -> torch.Tensor:
        pieces = vector.split([p.numel() for p in parameters.values()])
        shaped = {name: piece.view_as(parameters[name]) for name, piece in zip(parameters, pieces)}
        return loss(shaped, x, y)

    vector = parameters_to_vector(parameters.values())
    curvature = hessian(flat_loss)(vector)
    difference = (curvature - jacrev(jacrev(flat_loss))(vector)).abs().max().item()
    print(f"forward over reverse against reverse over reverse: {difference:.0e}")
    assert difference < 1e-5
    asymmetry = (curvature - curvature.T).abs().max().item()
    assert asymmetry < 1e-5
    print(f"Hessian of the loss: {curvature.shape[0]} x {curvature.shape[1]}, symmetric")


if __name__ == "__main__":
    main()
