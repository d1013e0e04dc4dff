"""Learn what moves a point from where it went: a network is the derivative, and its path is integrated by Runge and Kutta's rule.

The point follows a spiral, dy/dt = A y**3. The network sees short pieces of the path; gradients go through every step of the
integration. The plot shows both paths from the same start.

$ python examples/neural_ode.py
mean distance to the path: 0.1
$ python examples/neural_ode.py --short
mean distance to the path: 0.4
"""

import argparse
from collections.abc import Callable

from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn

Field = Callable[[torch.Tensor], torch.Tensor]


def spiral(y: torch.Tensor) -> torch.Tensor:
    return y**3 @ torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])


def path(field: Field, start: torch.Tensor, steps: int, h: float) -> torch.Tensor:
    """Where it goes: as many places as steps, and the start."""
    places = [start]
    for _ in range(steps):
        y = places[-1]
        k1 = field(y)
        k2 = field(y + h / 2 * k1)
        k3 = field(y + h / 2 * k2)
        k4 = field(y + h * k3)
        places.append(y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return torch.stack(places)


class Learned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        return self.net(y**3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="600 steps")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--plot", default="neural_ode.png", help="where the plot goes")
    args = parser.parse_args()
    steps, h, piece = 600 if args.short else args.steps, 0.025, 10

    torch.manual_seed(0)
    true = path(spiral, torch.tensor([[2.0, 0.0]]), 400, h).squeeze(1)
    field = Learned()
    optimizer = torch.optim.Adam(field.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(1, steps + 1):
        begin = torch.randint(len(true) - piece, (32,))
        seen = torch.stack([true[begin + k] for k in range(piece + 1)])
        loss = (path(field, seen[0], piece, h) - seen).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        progress(step, steps, f"step {step:3d}/{steps}   loss {loss.item():.5f}")

    with torch.no_grad():
        learned = path(field, true[:1], 400, h).squeeze(1)
    far = (learned - true).norm(dim=1).mean().item()
    save_plot(
        args.plot,
        lambda axes: (
            axes.plot(*true.T.numpy(), label="true")
            and axes.plot(*learned.T.numpy(), label="learned")
            and axes.legend()
        ),
    )
    print(f"mean distance to the path: {far:.1f}")
    assert far < 1


if __name__ == "__main__":
    main()
