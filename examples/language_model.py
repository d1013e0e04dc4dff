"""Learn to continue text character by character: counts of pairs first, then a multilayer perceptron on eight characters.

The text is Python's own: the topics that help() knows, so nothing is downloaded. Prints the loss on text not trained on, in
nats a character, of a guess at random, of the table of pairs (found by counting), and of the network, which must be
the least; then what the network writes. The plot shows the loss as it falls.

$ python examples/language_model.py
random 4.54   pairs 2.31   network 1.49
$ python examples/language_model.py --short
random 4.54   pairs 2.31   network 1.95
"""

import argparse
import math
from pydoc_data.topics import topics

from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn
from nbgrad.nn import functional as F

CONTEXT = 8


class NextCharacter(nn.Module):
    def __init__(self, characters: int, width: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.inner = nn.Linear(CONTEXT * width, hidden)
        self.outer = nn.Linear(hidden, characters)

    def forward(self, context):
        return self.outer(torch.tanh(self.inner(self.embedding(context).flatten(1))))


def encoded(text: str, alphabet: str) -> torch.Tensor:
    number = {character: i for i, character in enumerate(alphabet)}
    return torch.tensor([number[character] for character in text])


def pairs(text: torch.Tensor, characters: int) -> torch.Tensor:
    """Log-probabilities of the next character after each; every pair counts as if seen a tenth of a time more."""
    counts = torch.full((characters, characters), 0.1)
    counts.index_put_((text[:-1], text[1:]), torch.ones(len(text) - 1), accumulate=True)
    return (counts / counts.sum(1, keepdim=True)).log()


def windows(text: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The characters from each start on, and the one that follows them."""
    rows = text[starts[:, None] + torch.arange(CONTEXT + 1)]
    return rows[:, :-1], rows[:, -1]


@torch.no_grad()
def written(net: nn.Module, alphabet: str, n: int) -> str:
    text = encoded("Python is", alphabet)[-CONTEXT:].tolist()
    for _ in range(n):
        chances = F.softmax(net(torch.tensor([text[-CONTEXT:]]))[0], dim=0)
        text.append(int((chances.cumsum(0) < torch.rand(())).sum().clamp(max=len(alphabet) - 1)))
    return "".join(alphabet[i] for i in text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="600 steps")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="language_model.png", help="where the plot goes")
    args = parser.parse_args()
    steps = 600 if args.short else args.steps

    torch.manual_seed(args.seed)
    everything = "".join(topics[name] for name in sorted(topics)).encode("ascii", "ignore").decode()
    alphabet = "".join(sorted(set(everything)))
    text = encoded(everything, alphabet)
    text, unseen = text[: -len(text) // 10], text[-len(text) // 10 :]
    net = NextCharacter(len(alphabet), 16, args.hidden)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=steps)

    losses = []
    for step in range(1, steps + 1):
        contexts, following = windows(text, torch.randint(0, len(text) - CONTEXT, (args.batch,)))
        loss = F.cross_entropy(net(contexts), following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress(step, steps, f"step {step:5d}/{steps}   loss {sum(losses[-100:]) / len(losses[-100:]):.3f}")

    with torch.no_grad():
        by_pairs = F.nll_loss(pairs(text, len(alphabet))[unseen[:-1]], unseen[1:]).item()
        contexts, following = windows(unseen, torch.arange(len(unseen) - CONTEXT))
        by_network = F.cross_entropy(net(contexts), following).item()
    print("---", written(net, alphabet, 300), "---", sep="\n")
    means = [sum(losses[i : i + 50]) / 50 for i in range(0, steps, 50)]
    save_plot(
        args.plot, lambda axes: axes.plot(means) and axes.set(xlabel="50 steps", ylabel="loss", title="Loss")
    )
    print(f"random {math.log(len(alphabet)):.2f}   pairs {by_pairs:.2f}   network {by_network:.2f}")
    assert by_network < by_pairs - (0.05 if args.short else 0.4)


if __name__ == "__main__":
    main()
