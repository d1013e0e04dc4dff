"""Whole trainings, the same program under torch and nbgrad: the losses of a hundred steps, and going on where the other stopped."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nbgrad.utils import safetensors
from tests.support import T

pytestmark = pytest.mark.oracle

# The module, the optimiser, and what gives the losses: to draw one is to take a step.
Training = tuple[Any, Any, Callable[[], Iterator[float]]]


def classifier(t: ModuleType) -> Training:
    """Batch-norm, dropout, a loader that shuffles, gradients clipped, a schedule."""
    nn, data = t.nn, t.utils.data
    t.manual_seed(0)
    x = t.randn(512, 10)
    y = (x[:, :3].sum(1) > 0).long() + (x[:, 3] > 0.5).long()
    net = nn.Sequential(nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 3))
    optimizer = t.optim.AdamW(net.parameters(), lr=1e-2)
    batches = data.DataLoader(data.TensorDataset(x, y), batch_size=32, shuffle=True)

    def losses() -> Iterator[float]:
        schedule = t.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
        while True:
            for inputs, labels in batches:
                loss = nn.functional.cross_entropy(net(inputs), labels)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                yield loss.item()
            schedule.step()

    return net, optimizer, losses


def language_model(t: ModuleType) -> Training:
    """An embedding, two layers, the cross-entropy of the next letter."""
    nn = t.nn
    t.manual_seed(0)
    text = t.randint(0, 3, (2000,)).cumsum(0) % 27
    net = nn.Sequential(nn.Embedding(27, 16), nn.Flatten(), nn.Linear(48, 64), nn.Tanh(), nn.Linear(64, 27))
    optimizer = t.optim.AdamW(net.parameters(), lr=1e-2)

    def losses() -> Iterator[float]:
        while True:
            rows = text[t.randint(0, len(text) - 3, (64, 1)) + t.arange(4)]
            loss = nn.functional.cross_entropy(net(rows[:, :3]), rows[:, 3])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()

    return net, optimizer, losses


def pictures(t: ModuleType) -> Training:
    """Convolutions with batch norms, pools and dropout of both kinds, of pictures of bars."""
    nn = t.nn
    t.manual_seed(0)
    labels, x = t.randint(0, 4, (256,)), t.rand(256, 1, 12, 12) * 0.7
    for k in range(4):
        x[labels == k, 0, 3 * k] += 0.5
    net = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.1)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(2), nn.Dropout(0.2)),
        *(nn.Flatten(), nn.Linear(144, 4)),
    )
    optimizer = t.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def losses() -> Iterator[float]:
        while True:
            rows = t.randint(0, 256, (32,))
            loss = nn.functional.cross_entropy(net(x[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()

    return net, optimizer, losses


def sequences(t: ModuleType) -> Training:
    """Two layers of an LSTM with dropout between them, which guess the next number of a walk."""
    nn = t.nn
    t.manual_seed(0)
    net = nn.ModuleList(
        [
            nn.Embedding(12, 16),
            nn.LSTM(16, 32, num_layers=2, dropout=0.1, batch_first=True),
            nn.Linear(32, 12),
        ]
    )
    optimizer = t.optim.Adam(net.parameters(), lr=5e-3)

    def losses() -> Iterator[float]:
        embedding, lstm, last = net
        while True:
            x = t.randint(0, 3, (16, 21)).cumsum(1) % 12
            scores = last(lstm(embedding(x[:, :-1]))[0])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), x[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            yield loss.item()

    return net, optimizer, losses


def gpt(t: ModuleType) -> Training:
    """A small GPT: causal attention, layer norms, dropout, tied weights, a schedule."""
    nn = t.nn
    t.manual_seed(0)
    wide, heads, length, letters = 32, 4, 24, 11

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
            self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
            self.mlp = nn.Sequential(
                nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide), nn.Dropout(0.1)
            )

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.ln1(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).flatten(2))
            return x + self.mlp(self.ln2(x))

    net = nn.ModuleDict(
        {
            "tokens": nn.Embedding(letters, wide),
            "places": nn.Embedding(length, wide),
            "blocks": nn.Sequential(Block(), Block(), nn.LayerNorm(wide)),
            "head": nn.Linear(wide, letters, bias=False),
        }
    )
    net["head"].weight = net["tokens"].weight
    for p in net.parameters():
        if p.ndim > 1:
            nn.init.normal_(p, std=0.02)
    optimizer = t.optim.AdamW(net.parameters(), lr=3e-3, betas=(0.9, 0.95))

    def losses() -> Iterator[float]:
        schedule = t.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
        while True:
            x = t.randint(0, 3, (16, length + 1)).cumsum(1) % letters
            held = net["tokens"](x[:, :-1]) + net["places"](t.arange(length))
            scores = net["head"](net["blocks"](held))
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), x[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            yield loss.item()

    return net, optimizer, losses


BOTH = pytest.mark.parametrize("program", [classifier, language_model], ids=lambda p: p.__name__)
Program = Callable[[ModuleType], Training]


@pytest.fixture
def one_thread(torch: ModuleType) -> Iterator[None]:
    """PyTorch's threads wait for each other at every op: where others compute as well, for minutes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "program", [classifier, language_model, pictures, sequences, gpt], ids=lambda p: p.__name__
)
def test_losses(program: Program, torch: ModuleType) -> None:
    got, want = (list(itertools.islice(program(t)[2](), 100)) for t in (T, torch))
    assert min(want[-10:]) < 0.6 * want[0]
    assert got == pytest.approx(want, rel=0, abs=1e-5)


@BOTH
@pytest.mark.parametrize("there", [True, False], ids=["to nbgrad", "to torch"])
def test_going_on(program: Program, there: bool, torch: ModuleType, tmp_path: Path) -> None:
    """One takes 32 steps and saves; the other loads, and from there both go on alike."""
    before, after = (torch, T) if there else (T, torch)
    net, optimizer, losses = program(before)
    *_, last = itertools.islice(losses(), 32)
    before.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "state.pt")

    other, other_optimizer, other_losses = program(after)
    state = after.load(tmp_path / "state.pt")
    other.load_state_dict(state["net"])
    other_optimizer.load_state_dict(state["optimizer"])
    gone_on = {}
    for t, each in ((before, losses), (after, other_losses)):
        t.manual_seed(1)
        gone_on[t] = list(itertools.islice(each(), 20))
    assert gone_on[after] == pytest.approx(gone_on[before], rel=0, abs=1e-5)
    assert abs(gone_on[after][0] - last) < 0.5


@BOTH
def test_safetensors_carry_a_training(program: Program, torch: ModuleType) -> None:
    """PyTorch's module and optimiser after 32 steps, each a file's bytes: nbgrad reads them and goes on alike."""
    net, optimizer, losses = program(torch)
    *_, last = itertools.islice(losses(), 32)
    state = optimizer.state_dict()
    tensors = {f"net.{name}": t for name, t in net.state_dict().items()}
    tensors |= {f"{k}.{name}": t for k, entry in state["state"].items() for name, t in entry.items()}
    data = safetensors.save({name: T.from_numpy(t.numpy()) for name, t in tensors.items()})

    loaded = safetensors.load(data)
    mine, my_optimizer, my_losses = program(T)
    mine.load_state_dict({name: loaded[f"net.{name}"] for name in net.state_dict()})
    entries = {k: {name: loaded[f"{k}.{name}"] for name in entry} for k, entry in state["state"].items()}
    my_optimizer.load_state_dict({"state": entries, "param_groups": state["param_groups"]})
    gone_on = []
    for t, each in ((torch, losses), (T, my_losses)):
        t.manual_seed(1)
        gone_on.append(list(itertools.islice(each(), 20)))
    assert gone_on[1] == pytest.approx(gone_on[0], rel=0, abs=1e-5)
    assert abs(gone_on[1][0] - last) < 0.5
