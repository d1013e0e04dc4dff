"""Fill in a table of ratings of which one in five is known: a vector for each user and for each film, whose product is the rating.

The ratings are drawn from vectors of four numbers, with noise; the embeddings have eight. Compares the error on ratings not
seen with that of guessing the mean.

$ python examples/matrix_factorisation.py
error on ratings not seen: 0.175, of the mean 1.175
$ python examples/matrix_factorisation.py --short
error on ratings not seen: 0.346, of the mean 1.175
"""

import argparse

from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn


class Factors(nn.Module):
    """A vector and a number for each user and each film."""

    def __init__(self, users: int, films: int, size: int = 8) -> None:
        super().__init__()
        self.user, self.film = nn.Embedding(users, size), nn.Embedding(films, size)
        self.generous, self.good = nn.Embedding(users, 1), nn.Embedding(films, 1)
        for table in (self.user, self.film, self.generous, self.good):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, users: torch.Tensor, films: torch.Tensor) -> torch.Tensor:
        together = (self.user(users) * self.film(films)).sum(dim=1)
        return together + (self.generous(users) + self.good(films)).squeeze(1)


def ratings(users: int, films: int) -> torch.Tensor:
    """The whole table, which nobody sees."""
    tastes, kinds = torch.randn(users, 4), torch.randn(films, 4)
    return tastes @ kinds.T / 2 + 0.5 * torch.randn(films) + 0.1 * torch.randn(users, films)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="60 steps")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--plot", default="matrix_factorisation.png", help="where the plot goes")
    args = parser.parse_args()
    steps = 60 if args.short else args.steps

    torch.manual_seed(0)
    users, films = 200, 150
    table = ratings(users, films)
    known = torch.rand(users, films) < 0.2
    who, what = known.nonzero(as_tuple=True)
    net = Factors(users, films)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03, weight_decay=1e-5)
    losses = []
    for step in range(1, steps + 1):
        loss = nn.functional.mse_loss(net(who, what), table[who, what]) + 2e-3 * sum(
            p.square().mean() for p in net.parameters()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress(step, steps, f"step {step:3d}/{steps}   loss {loss.item():.4f}")

    unseen = (~known).nonzero(as_tuple=True)
    with torch.no_grad():
        error = (net(*unseen) - table[unseen]).square().mean().sqrt().item()
        plain = (table[who, what].mean() - table[unseen]).square().mean().sqrt().item()
    save_plot(
        args.plot,
        lambda axes: axes.semilogy(losses) and axes.set(xlabel="step", ylabel="loss", title="Ratings"),
    )
    print(f"error on ratings not seen: {error:.3f}, of the mean {plain:.3f}")
    assert error < plain / 2


if __name__ == "__main__":
    main()
