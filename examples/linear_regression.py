"""Fit a line to noisy points by gradient descent, beside the closed form that NumPy finds.

No module, no optimiser: parameters are two tensors, and a step is written out. Prints the loss as it falls, then slope
and intercept from both; they must agree to 0.001.

$ python examples/linear_regression.py
gradient descent: y = 2.9930 x -0.9827
least squares:    y = 2.9930 x -0.9827
$ python examples/linear_regression.py --short
gradient descent: y = 3.0989 x -0.9311
least squares:    y = 3.0989 x -0.9311
"""

import argparse

import numpy as np

import nbgrad as torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="fewer points")
    short = parser.parse_args().short

    torch.manual_seed(0)
    n = 50 if short else 1000
    x = torch.rand(n) * 4 - 2
    y = 3 * x - 1 + 0.5 * torch.randn(n)

    slope = torch.zeros((), requires_grad=True)
    intercept = torch.zeros((), requires_grad=True)
    for step in range(201):
        loss = ((slope * x + intercept - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for parameter in (slope, intercept):
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        if step % 50 == 0:
            print(f"step {step:3d}   loss {loss.item():.4f}")

    design = np.stack([x.numpy(), np.ones(n)], 1)
    (best_slope, best_intercept), *_ = np.linalg.lstsq(design, y.numpy(), rcond=None)
    print(f"gradient descent: y = {slope.item():.4f} x {intercept.item():+.4f}")
    print(f"least squares:    y = {best_slope:.4f} x {best_intercept:+.4f}")
    assert abs(slope.item() - best_slope) < 1e-3 and abs(intercept.item() - best_intercept) < 1e-3


if __name__ == "__main__":
    main()
