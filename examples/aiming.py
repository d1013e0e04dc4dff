"""Teach a network to hit: what it throws flies through a simulator, and the error where it comes down goes back through both.

A module sees a target's distance, its height and the wind, and says how fast and how steeply to throw. The simulator is a plain loop with
drag and wind, which ends in the step that reaches the target's distance or the ground; for a batch it is one operation on the tape. No
throw was ever shown to the network. The plot shows throws at ten targets.

$ python examples/aiming.py
98 % hit within half a metre
$ python examples/aiming.py --short
97 % hit within half a metre
"""

import argparse
import math

import numpy as np
from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn


@torch.differentiable
def flights(throws, targets):
    """How far above each target (distance, height, wind) a throw (speed, angle) passes; what falls short is that much below."""
    misses = np.empty(len(throws))
    h = 0.02
    for k in range(len(throws)):
        speed, angle = throws[k]
        distance, height, wind = targets[k]
        x, y = 0.0, 1.5
        vx, vy = speed * math.cos(angle), speed * math.sin(angle)
        while True:
            ax = vx - wind
            drag = 0.03 * math.sqrt(ax * ax + vy * vy)
            nx, ny = x + h * vx, y + h * vy
            if nx > distance or ny < 0.0:
                break
            x, y = nx, ny
            vx -= h * drag * ax
            vy -= h * (9.81 + drag * vy)
        if nx > distance:
            t = (distance - x) / (nx - x)
            misses[k] = y + t * (ny - y) - height
        else:
            t = y / (y - ny)
            misses[k] = x + t * (nx - x) - distance - height
    return misses


class Thrower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)
        )

    def forward(self, targets: torch.Tensor) -> torch.Tensor:
        small = (targets - torch.tensor([8.0, 2.0, 0.0])) / torch.tensor([4.0, 2.0, 3.0])
        speed, angle = self.layers(small).unbind(1)
        return torch.stack([12.0 + 4.0 * torch.tanh(speed), 0.8 + 0.5 * torch.tanh(angle)], 1)


def drawn(n: int) -> torch.Tensor:
    """Targets 4 to 12 m away, up to 4 m high, and wind of up to 3 m/s."""
    return torch.rand(n, 3) * torch.tensor([8.0, 4.0, 6.0]) + torch.tensor([4.0, 0.0, -3.0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="200 steps")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--plot", default="aiming.png", help="where the plot goes")
    args = parser.parse_args()
    steps = 200 if args.short else args.steps

    torch.manual_seed(0)
    thrower = Thrower()
    optimizer = torch.optim.Adam(thrower.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(1, steps + 1):
        targets = drawn(128)
        loss = nn.functional.smooth_l1_loss(flights(thrower(targets), targets), torch.zeros(128))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        progress(step, steps, f"step {step:4d}/{steps}   loss {loss.item():.4f}")

    with torch.no_grad():
        targets = drawn(1000)
        hit = (flights(thrower(targets), targets).abs() < 0.5).float().mean().item()
        ten = drawn(10)
        throws = thrower(ten)
    save_plot(
        args.plot,
        lambda axes: (
            axes.scatter(
                ten[:, 0].numpy(), ten[:, 1].numpy(), c=throws[:, 0].numpy(), label="targets, by speed"
            )
            and axes.quiver(
                *(np.zeros(10), np.full(10, 1.5), np.cos(throws[:, 1].numpy()), np.sin(throws[:, 1].numpy()))
            )
            and axes.legend()
        ),
    )
    print(f"{100 * hit:.0f} % hit within half a metre")


if __name__ == "__main__":
    main()
