"""Learn how a ball bounces from where it was seen: the simulation is a plain loop with events, and its adjoint gives the gradient.

The ball falls through air that slows it down; each time it meets the floor the moment is found within the step, and some of its speed is
lost. Drag, bounce and the speed at the start are fitted to noisy places by Adam. The plot shows what was seen and the path that was found.

$ python examples/bouncing_ball.py
drag 0.15, bounce 0.80, start 2.0
$ python examples/bouncing_ball.py --short
drag 0.15, bounce 0.80, start 2.0
"""

import argparse
import math

import numpy as np
from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn


@torch.differentiable
def heights(drag, bounce, start, n, inner, h):
    """The ball's height at n moments, `inner` steps of length h apart."""
    seen = np.empty(n)
    y = 3.0
    v = start
    for k in range(n):
        for _ in range(inner):
            left = h
            while left > 0.0:
                a = -9.81 - drag * v * abs(v)
                fall = y + v * left + 0.5 * a * left * left
                if fall > 0.0:  # no floor in the rest of the step
                    y = fall
                    v += a * left
                    left = 0.0
                else:  # the moment at which it is met
                    t = (-v - math.sqrt(v * v - 2.0 * a * y)) / a
                    v = -bounce * (v + a * t)
                    y = 1e-9
                    left -= t
        seen[k] = y
    return seen


class Ball(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drag = nn.Parameter(torch.tensor(0.02, dtype=torch.float64))
        self.bounce = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
        self.start = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))

    def forward(self, n: int) -> torch.Tensor:
        return heights(self.drag, self.bounce, self.start, n, 10, 0.002)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="300 steps")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--plot", default="bouncing_ball.png", help="where the plot goes")
    args = parser.parse_args()
    steps = 300 if args.short else args.steps

    moments = 150
    noise = np.random.default_rng(0).normal(size=moments) * 0.02
    seen = torch.from_numpy(heights(0.15, 0.8, 2.0, moments, 10, 0.002) + noise)
    ball = Ball()
    optimizer = torch.optim.Adam(ball.parameters(), lr=0.02)
    for step in range(1, steps + 1):
        horizon = min(moments, 20 + step)  # later bounces once earlier ones are right
        loss = ((ball(horizon) - seen[:horizon]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress(step, steps, f"step {step:3d}/{steps}   loss {loss.item():.5f}")

    with torch.no_grad():
        found = ball(moments)
    save_plot(
        args.plot,
        lambda axes: (
            axes.plot(seen.numpy(), ".", label="seen")
            and axes.plot(found.numpy(), label="found")
            and axes.legend()
        ),
    )
    print(f"drag {ball.drag.item():.2f}, bounce {ball.bounce.item():.2f}, start {ball.start.item():.1f}")


if __name__ == "__main__":
    main()
