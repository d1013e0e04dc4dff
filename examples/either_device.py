"""Train the same network on the CPU or on a GPU: which of them is one argument.

A perceptron learns which of three rings a point lies in. Weights and points are drawn on the CPU, so both devices begin alike, and end
alike but for the last digits. On a GPU the tensors stay there; only the loss that is shown comes back. Without --device it takes a GPU
where there is one. `NBGRAD_CUDA_EMULATE=1` plays one on the CPU, slowly, for a look at how that goes.

$ python examples/either_device.py --device cpu
accuracy 98.3% on points not trained on
$ python examples/either_device.py --device cpu --short
accuracy 98.2% on points not trained on
"""

import argparse

from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn


def rings(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points, and in which of three rings about the origin each lies."""
    ring = torch.randint(3, (n,))
    radius, angle = ring + 1 + 0.2 * torch.randn(n), 6.2832 * torch.rand(n)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), ring


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--short", action="store_true", help="100 steps")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--plot", default="either_device.png", help="where the plot goes")
    args = parser.parse_args()
    steps, device = 100 if args.short else args.steps, torch.device(args.device)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)).to(
        device
    )
    points, labels = (t.to(device) for t in rings(2000))
    unseen, truth = rings(1000)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(1, steps + 1):
        loss = nn.functional.cross_entropy(net(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % (steps // 4) == 0:  # to read a number is to wait for the device
            progress(step, steps, f"step {step:4d}/{steps} on {device}   loss {loss.item():.4f}")

    with torch.no_grad():
        seen = net(unseen.to(device)).argmax(dim=1).cpu()
    save_plot(
        args.plot,
        lambda axes: (
            axes.scatter(*unseen.T.numpy(), c=seen.numpy(), s=4) and axes.set(title=f"Rings, by {device}")
        ),
    )
    accuracy = (seen == truth).float().mean().item()
    print(f"accuracy {accuracy:.1%} on points not trained on")
    assert accuracy > 0.9


if __name__ == "__main__":
    main()
