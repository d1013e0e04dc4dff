"""Learn to write Python's documentation letter by letter with a small GPT: causal attention, layer norms, tied weights.

The text is that of language_model.py. Prints the loss on text not trained on, in nats a character, and what the network writes,
letters being drawn by their chances at a temperature. The plot shows the loss as it falls.

$ python examples/char_gpt.py
loss on text not trained on: 1.34
$ python examples/char_gpt.py --short
loss on text not trained on: 2.54
"""

import argparse
import math
from pydoc_data.topics import topics

from language_model import encoded
from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn
from nbgrad.nn import functional as F

CONTEXT, WIDTH, HEADS, BLOCKS = 64, 96, 4, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_map = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.map = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.query_key_value(self.before_attention(x)).unflatten(-1, (3, HEADS, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).flatten(2))
        return x + self.map(self.before_map(x))


class GPT(nn.Module):
    def __init__(self, characters: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(BLOCKS)], nn.LayerNorm(WIDTH))
        self.scores = nn.Linear(WIDTH, characters, bias=False)
        self.scores.weight = self.letters.weight
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """The scores of what follows each letter of each row."""
        places = self.places(torch.arange(text.shape[1]))
        return self.scores(self.blocks(self.letters(text) + places))


@torch.no_grad()
def written(net: nn.Module, text: torch.Tensor, n: int, temperature: float = 0.8) -> list[int]:
    for _ in range(n):
        scores = net(text[None, -CONTEXT:])[0, -1]
        text = torch.cat([text, torch.multinomial(F.softmax(scores / temperature, dim=0), 1)])
    return text.tolist()


def loss_of(net: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="80 steps")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--plot", default="char_gpt.png", help="where the plot goes")
    args = parser.parse_args()
    steps = 80 if args.short else args.steps

    torch.manual_seed(0)
    everything = "".join(topics[name] for name in sorted(topics)).encode("ascii", "ignore").decode()
    alphabet = "".join(sorted(set(everything)))
    text = encoded(everything, alphabet)
    text, unseen = text[: -len(text) // 10], text[-len(text) // 10 :]
    net = GPT(len(alphabet))
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, betas=(0.9, 0.95))
    warm = min(100, steps // 4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda k: min((k + 1) / warm, 0.55 + 0.45 * math.cos(math.pi * k / steps))
    )

    losses = []
    for step in range(1, steps + 1):
        starts = torch.randint(0, len(text) - CONTEXT, (24, 1))
        loss = loss_of(net, text[starts + torch.arange(CONTEXT + 1)])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress(step, steps, f"step {step:4d}/{steps}   loss {sum(losses[-50:]) / len(losses[-50:]):.3f}")

    rows = unseen[: len(unseen) // (CONTEXT + 1) * (CONTEXT + 1)].view(-1, CONTEXT + 1)
    with torch.no_grad():
        found = sum(loss_of(net, part).item() * len(part) for part in rows.split(64)) / len(rows)
    letters = written(net, encoded("Python is", alphabet), 60 if args.short else 300)
    print("---", "".join(alphabet[k] for k in letters), "---", sep="\n")
    means = [sum(losses[k : k + 20]) / 20 for k in range(0, steps - 19, 20)]
    save_plot(
        args.plot, lambda axes: axes.plot(means) and axes.set(xlabel="20 steps", ylabel="loss", title="Loss")
    )
    print(f"loss on text not trained on: {found:.2f}")
    assert found < (3.0 if args.short else 1.7)


if __name__ == "__main__":
    main()
