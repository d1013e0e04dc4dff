"""Draw digits: a variational autoencoder finds a plane of which each point is a digit, and decodes points of it.

The digits are those of digits.py. Prints what the network loses on digits not trained on, in nats a picture: what a picture costs
when its point is known, and what the point costs. The plot shows the digits of a grid of points.

$ python examples/vae.py --generated
pictures 19.9 + points 1.9 = 21.7
$ python examples/vae.py --generated --short
pictures 22.4 + points 0.8 = 23.2
"""

import argparse

from digits import digits
from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn
from nbgrad.nn import functional as F
from nbgrad.utils.data import DataLoader, random_split


class Autoencoder(nn.Module):
    def __init__(self, hidden: int = 128, latent: int = 2) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(
            *(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()),
            *(nn.Linear(hidden, 64), nn.Unflatten(1, (8, 8))),
        )

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What a picture costs when its point is known, and what the point costs beyond one drawn from a normal distribution."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        points = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        pictures = F.binary_cross_entropy_with_logits(self.decoder(points), images, reduction="sum")
        cost = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        return pictures / len(images), cost / len(images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="10 epochs")
    parser.add_argument("--generated", action="store_true", help="draw the digits, even with scikit-learn")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--plot", default="vae.png", help="where the plot goes")
    args = parser.parse_args()
    epochs = 10 if args.short else args.epochs

    torch.manual_seed(0)
    training, unseen = random_split(digits(args.generated), [0.8, 0.2])
    images, _ = next(iter(DataLoader(unseen, batch_size=len(unseen))))
    images = images.clamp(0, 1)
    net = Autoencoder()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(1, epochs + 1):
        for x, _ in DataLoader(training, batch_size=64, shuffle=True):
            loss = sum(net(x.clamp(0, 1)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        progress(epoch, epochs, f"epoch {epoch:3d}/{epochs}   loss {loss.item():.2f}")

    with torch.no_grad():
        pictures, cost = (part.item() for part in net(images))
        line = torch.linspace(-2, 2, 12)
        drawn = net.decoder(torch.cartesian_prod(line, line)).sigmoid()
    tiles = F.pad(drawn, (0, 1, 0, 1)).reshape(12, 12, 9, 9).permute(0, 2, 1, 3).reshape(108, 108)
    save_plot(
        args.plot,
        lambda axes: axes.imshow(tiles.numpy(), cmap="gray") and axes.set(title="Digits of the plane"),
    )
    print(f"pictures {pictures:.1f} + points {cost:.1f} = {pictures + cost:.1f}")
    assert pictures + cost < 30


if __name__ == "__main__":
    main()
