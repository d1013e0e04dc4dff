"""A training step compiled: what it launches, before and after, and that it computes the same.

$ python examples/compiled_step.py
step 200 loss 0.0230
the same losses: True
$ python examples/compiled_step.py --short
the same losses: True
"""

import argparse
import time

import nbgrad as torch
from nbgrad import nn


def made():
    """A step of training a small network, to the bit the same each time it is made."""
    torch.manual_seed(0)
    x = torch.randn(64, 2)
    y = (x[:, :1] * x[:, 1:]).sin()
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step():
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def train(step, steps: int) -> tuple[list[float], float]:
    losses, best = [], 1e9
    for _ in range(steps):
        begin = time.perf_counter()
        loss = step()
        best = min(best, time.perf_counter() - begin)
        losses.append(loss.item())
    return losses, best * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="20 steps")
    steps = 20 if parser.parse_args().short else 200
    step = torch.compile(made())
    before, plain = train(made(), steps)
    after, compiled = train(step, steps)
    print(f"step {steps} loss {after[-1]:.4f}")
    print(f"the same losses: {before == after}")
    print(f"a step takes {plain:.0f} us as it is, {compiled:.0f} us compiled")
    print(step.explain())
    print(step.graph())


if __name__ == "__main__":
    main()
