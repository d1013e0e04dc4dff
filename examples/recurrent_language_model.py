"""A language model of letters: an embedding, two layers of LSTM, a map to the next letter's scores, trained by Adam on lines of
different lengths, which are packed. Then it goes on from a beginning, letter by letter.

$ python examples/recurrent_language_model.py
step  14  loss 0.9166
step  28  loss 0.1932
the wind in the
$ python examples/recurrent_language_model.py --short
step  14  loss 0.9166
"""

import sys

import nbgrad as torch

nn, rnn = torch.nn, torch.nn.utils.rnn
LINES = [
    "the wind in the willows",
    "the willow and the wind",
    "wind the old clock",
    "the old willow",
    "in the old town",
]
LETTERS = sorted({letter for line in LINES for letter in line})


def coded(line: str) -> torch.Tensor:
    return torch.tensor([LETTERS.index(letter) for letter in line])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(len(LETTERS), 16)
        self.lstm = nn.LSTM(16, 32, num_layers=2)
        self.scores = nn.Linear(32, len(LETTERS))

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        """The scores of what follows each of the letters of one line, or of packed lines."""
        if isinstance(letters, rnn.PackedSequence):
            embedded = rnn.PackedSequence(self.table(letters.data), letters.batch_sizes)
            return self.scores(self.lstm(embedded)[0].data)
        return self.scores(self.lstm(self.table(letters))[0])


def train(steps: int) -> tuple[Model, list[float]]:
    torch.manual_seed(0)
    model, criterion = Model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    lines = sorted([coded(line) for line in LINES], key=len, reverse=True)
    given, wanted = (rnn.pack_sequence([line[k : len(line) - 1 + k] for line in lines]) for k in (0, 1))
    losses = []
    for _ in range(steps):
        loss = criterion(model(given), wanted.data)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return model, losses


@torch.no_grad()
def continued(model: Model, beginning: str, letters: int) -> str:
    for _ in range(letters):
        beginning += LETTERS[int(model(coded(beginning))[-1].argmax())]
    return beginning


def main() -> None:
    model, losses = train(15 if "--short" in sys.argv else 30)
    for step in range(0, len(losses), 7):
        print(f"step {step:3}  loss {losses[step]:.4f}")
    print(continued(model, "the ", 11))


if __name__ == "__main__":
    main()
