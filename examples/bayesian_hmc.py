"""Bayesian regression by Hamiltonian Monte Carlo: thousands of tiny gradients, beside the posterior in closed form.

A parabola with known noise and a normal prior has a normal posterior, so what the sampler finds can be checked. Prints mean
and standard deviation of each coefficient from both, and stops with an error if a mean is off by more than a quarter of
a standard deviation, or a standard deviation by more than a quarter. The plot shows the band of the sampled curves.

$ python examples/bayesian_hmc.py
coefficient of x   sampled  -1.066 ± 0.086   exact  -1.066 ± 0.085
accepted: 93%
$ python examples/bayesian_hmc.py --short
coefficient of x   sampled  -1.060 ± 0.088   exact  -1.066 ± 0.085
accepted: 93%
"""

import argparse
import time

import numpy as np
from support.plot import save_plot
from support.progress import progress

import nbgrad as torch

NOISE, PRIOR = 0.5, 3.0


def powers(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.ones_like(x), x, x * x], dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="400 samples")
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--leaps", type=int, default=10, help="gradients for each sample")
    parser.add_argument("--step", type=float, default=0.06)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="bayesian_hmc.png", help="where the plot goes")
    args = parser.parse_args()
    samples = 400 if args.short else args.samples

    torch.manual_seed(args.seed)
    x = torch.rand(40, dtype=torch.float64) * 4 - 2
    design = powers(x)
    y = design @ torch.tensor([0.5, -1.0, 0.8], dtype=x.dtype) + NOISE * torch.randn_like(x)

    def energy(q: torch.Tensor) -> torch.Tensor:
        """Minus the log-density of coefficients q, but for a constant."""
        misfit = (design @ q - y) / NOISE
        return (misfit.dot(misfit) + q.dot(q) / PRIOR**2) / 2

    def force(q: torch.Tensor) -> torch.Tensor:
        q = q.detach().requires_grad_()
        return -torch.autograd.grad(energy(q), q)[0]

    start, accepted, chain = time.perf_counter(), 0, []
    q = torch.zeros(3, dtype=x.dtype)
    for sample in range(1, samples + 1):
        p = torch.randn_like(q)
        before = energy(q) + p.dot(p) / 2
        end, p = q, p + args.step / 2 * force(q)
        for leap in range(args.leaps):
            end = end + args.step * p
            p = p + args.step / (1 if leap < args.leaps - 1 else 2) * force(end)
        if torch.rand(()) < torch.exp(before - energy(end) - p.dot(p) / 2):
            q, accepted = end, accepted + 1
        chain.append(q)
        progress(sample, samples, f"sample {sample:5d}/{samples}   accepted {accepted / sample:.0%}")
    seconds = time.perf_counter() - start
    print(f"{samples * (args.leaps + 1)} gradients in {seconds:.1f} s")

    drawn = torch.stack(chain[samples // 10 :])
    mean, deviation = drawn.mean(0), drawn.std(0)
    precision = (design.T @ design / NOISE**2).numpy() + np.eye(3) / PRIOR**2
    covariance = np.linalg.inv(precision)
    exact_mean = covariance @ (design.T @ y).numpy() / NOISE**2
    exact_deviation = np.sqrt(np.diag(covariance))
    for row in zip(["1", "x", "x²"], mean.tolist(), deviation.tolist(), exact_mean, exact_deviation):
        print("coefficient of {:<3} sampled {:7.3f} ± {:.3f}   exact {:7.3f} ± {:.3f}".format(*row))

    def draw(axes) -> None:
        grid = torch.linspace(-2, 2, 100, dtype=x.dtype)
        curves = powers(grid) @ drawn.T
        middle, width = curves.mean(1).numpy(), 2 * curves.std(1).numpy()
        axes.fill_between(grid.numpy(), middle - width, middle + width, alpha=0.3)
        axes.plot(x.numpy(), y.numpy(), ".")
        axes.set(xlabel="x", ylabel="y", title="Two standard deviations of the curve")

    save_plot(args.plot, draw)
    print(f"accepted: {accepted / samples:.0%}")
    assert (np.abs(mean.numpy() - exact_mean) < exact_deviation / 4).all()
    assert (np.abs(deviation.numpy() / exact_deviation - 1) < 1 / 4).all()


if __name__ == "__main__":
    main()
