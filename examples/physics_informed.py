"""Solve a differential equation by a network that is trained to obey it: a damped oscillator, with no data at all.

u'' + 2 d u' + w² u = 0 with u(0) = 1, u'(0) = 0. The derivatives in t are gradients of the network, taken with
create_graph=True, so that the loss made of them has gradients in its parameters: third-order work in all. Prints the largest
distance from the exact solution, and stops with an error if that is above 0.02 (with --short, 0.3).

$ python examples/physics_informed.py
largest error of u: 0.005
$ python examples/physics_informed.py --short
largest error of u: 0.135
"""

import argparse
import math

from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn

DAMPING, FREQUENCY, END = 0.5, 3.0, 3.0


def exact(t: torch.Tensor) -> torch.Tensor:
    w = math.sqrt(FREQUENCY**2 - DAMPING**2)
    return torch.exp(-DAMPING * t) * (torch.cos(w * t) + DAMPING / w * torch.sin(w * t))


def derivative(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """dy/dt at each t; that of the sum, as no y depends on another's t."""
    return torch.autograd.grad(y.sum(), t, create_graph=True)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="1000 steps")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="physics_informed.png", help="where the plot goes")
    args = parser.parse_args()
    steps = 1000 if args.short else args.steps

    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def u(t: torch.Tensor) -> torch.Tensor:
        """The network in a form that has the initial values built in."""
        return 1 + t * t * net(t)

    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    t = torch.linspace(0, END, args.points)[:, None].requires_grad_()
    for step in range(1, steps + 1):
        position = u(t)
        velocity = derivative(position, t)
        acceleration = derivative(velocity, t)
        residual = acceleration + 2 * DAMPING * velocity + FREQUENCY**2 * position
        loss = residual.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        progress(step, steps, f"step {step:5d}/{steps}   mean squared residual {loss.item():.2e}")

    with torch.no_grad():
        t = torch.linspace(0, END, 301)[:, None]
        found, right = u(t), exact(t)

    def draw(axes) -> None:
        axes.plot(t.numpy(), right.numpy(), label="exact")
        axes.plot(t.numpy(), found.numpy(), "--", label="network")
        axes.set(xlabel="t", ylabel="u", title="A damped oscillator")
        axes.legend()

    save_plot(args.plot, draw)
    error = (found - right).abs().max().item()
    print(f"largest error of u: {error:.3f}")
    assert error < (0.3 if args.short else 0.02)


if __name__ == "__main__":
    main()
