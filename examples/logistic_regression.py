"""Fit a logistic regression by gradient descent, and beside it by Newton's method with a Hessian from torch.func.

Both minimise the sum of the cross-entropies and half the squared weights, which is what scikit-learn's LogisticRegression
minimises too: where that is installed, its answer is the third line. Prints the weights and the intercept of each; they must
agree to 0.001.

$ python examples/logistic_regression.py
gradient descent    0.9216 -1.9188  0.4768  0.2824
Newton's method     0.9216 -1.9188  0.4768  0.2824
$ python examples/logistic_regression.py --short
gradient descent    0.9722 -1.8237  0.2660  0.2329
Newton's method     0.9722 -1.8237  0.2660  0.2329
$ python examples/logistic_regression.py  # needs sklearn
scikit-learn        0.9216 -1.9188  0.4768  0.2824
"""

import argparse

import numpy as np
from support.progress import progress

import nbgrad as torch
from nbgrad import nn
from nbgrad.nn import functional as F


def objective(parameters: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of the weights with the intercept behind them."""
    weights, intercept = parameters[:-1], parameters[-1]
    return (
        F.binary_cross_entropy_with_logits(x @ weights + intercept, y, reduction="sum")
        + weights.dot(weights) / 2
    )


def by_descent(x: torch.Tensor, y: torch.Tensor, steps: int) -> list[float]:
    model = nn.Linear(x.shape[1], 1, dtype=x.dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=2 / len(x), momentum=0.9)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = objective(torch.cat([model.weight[0], model.bias]), x, y)
        loss.backward()
        optimizer.step()
        progress(step, steps, f"step {step:4d}/{steps}   objective {loss.item():.6f}")
    return [*model.weight[0].tolist(), model.bias.item()]


def by_newton(x: torch.Tensor, y: torch.Tensor) -> list[float]:
    gradient, hessian = torch.func.grad(objective), torch.func.hessian(objective)
    parameters = torch.zeros(x.shape[1] + 1, dtype=x.dtype)
    for _ in range(8):
        step = np.linalg.solve(hessian(parameters, x, y).numpy(), gradient(parameters, x, y).numpy())
        parameters = parameters - torch.from_numpy(step)
    return parameters.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a tenth of the points, half of the steps")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    n, steps = (500, 200) if args.short else (5000, 400)

    torch.manual_seed(args.seed)
    x = torch.randn(n, 3, dtype=torch.float64)
    chances = torch.sigmoid(x @ torch.tensor([1.0, -2.0, 0.5], dtype=x.dtype) + 0.3)
    y = (torch.rand_like(chances) < chances).to(x.dtype)

    found = {"gradient descent": by_descent(x, y, steps), "Newton's method": by_newton(x, y)}
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        print("scikit-learn is not installed: Newton's method stands alone beside gradient descent")
    else:
        fitted = LogisticRegression(tol=1e-8).fit(x.numpy(), y.numpy())
        found["scikit-learn"] = [*fitted.coef_[0], *fitted.intercept_]
    for name, parameters in found.items():
        print(f"{name:<18}", *(f"{p:7.4f}" for p in parameters))
        assert np.allclose(parameters, found["Newton's method"], rtol=0, atol=1e-3)


if __name__ == "__main__":
    main()
