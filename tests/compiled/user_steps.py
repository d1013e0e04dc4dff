"""Training steps and models as users of `torch.compile` write them; `users.py` runs them.

A program is a function of `torch` and of `compile`, and gives back `step(k)`; what that returns, and what it prints, is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

STEPS = 20
Step = Callable[[int], Any]
PROGRAMS: dict[str, Callable[[Any, Any], Step]] = {}


def program(function: Callable[[Any, Any], Step]) -> Callable[[Any, Any], Step]:
    PROGRAMS[function.__name__] = function
    return function


def mlp(torch: Any, inputs: int = 6, outputs: int = 3) -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))


def batch_of(torch: Any, k: int, n: int = 8, inputs: int = 6, classes: int = 3) -> tuple[Any, Any]:
    g = torch.Generator().manual_seed(k)
    return torch.randn(n, inputs, generator=g), torch.randint(0, classes, (n,), generator=g)


def train(torch: Any, model: Any, optimizer: Any) -> Any:
    def train_step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train_step


@program
def schedule(torch: Any, compile: Any) -> Step:
    """A whole step, and a schedule that changes the rate."""
    model = mlp(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)

    @compile
    def train_step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def step(k: int) -> Any:
        loss = train_step(*batch_of(torch, k))
        scheduler.step()
        return loss, *model.parameters()

    return step


@program
def schedule_inside(torch: Any, compile: Any) -> Step:
    """The schedule is stepped by the compiled function itself."""
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)

    @compile
    def train_step(x: Any, y: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    return lambda k: (train_step(*batch_of(torch, k)), *model.parameters())


@program
def clipping(torch: Any, compile: Any) -> Step:
    """Gradients are clipped, and the norm is returned."""
    model = mlp(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def train_step(x: Any, y: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return loss.detach(), norm

    return lambda k: (*train_step(*batch_of(torch, k)), *model.parameters())


@program
def ema(torch: Any, compile: Any) -> Step:
    """A running mean of the weights."""
    import copy

    model = mlp(torch)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def train_step(x: Any, y: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p_avg, p in zip(average.parameters(), model.parameters()):
                p_avg.mul_(0.9).add_(p, alpha=0.1)
        return loss

    return lambda k: (train_step(*batch_of(torch, k)), *average.parameters())


@program
def accumulation(torch: Any, compile: Any) -> Step:
    """Gradients of four batches are added up."""
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def micro_step(x: Any, y: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(model(x), y) / 4
        loss.backward()
        return loss

    def step(k: int) -> Any:
        loss = micro_step(*batch_of(torch, k))
        if (k + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss, *model.parameters()

    return step


@program
def loss_item(torch: Any, compile: Any) -> Step:
    """The step returns a Python number; who calls it stops early."""
    model = mlp(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    best = [math.inf]

    @compile
    def train_step(x: Any, y: Any) -> Any:
        model.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def step(k: int) -> Any:
        loss = train_step(*batch_of(torch, k))
        best[0] = min(best[0], loss)
        return loss, best[0], *model.parameters()

    return step


@program
def printing(torch: Any, compile: Any) -> Step:
    """Every few steps it prints."""
    model = mlp(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def train_step(i: int, x: Any, y: Any) -> Any:
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 5 == 0:
            print(f"step {i}: loss {loss.item():.4f}")
        accuracy = (logits.argmax(-1) == y).float().mean()
        return loss, accuracy

    return lambda k: train_step(k, *batch_of(torch, k))


@program
def skip_bad_loss(torch: Any, compile: Any) -> Step:
    """A loss that is not finite is left out: a branch on a tensor between forward and backward."""
    model = mlp(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def train_step(x: Any, y: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        if not torch.isfinite(loss):
            optimizer.zero_grad()
            return None
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def step(k: int) -> Any:
        x, y = batch_of(torch, k)
        return train_step(x * (float("inf") if k == 12 else 1.0), y), *model.parameters()

    return step


@program
def epoch(torch: Any, compile: Any) -> Step:
    """The whole loop over batches is compiled, and fills a list of losses."""
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    @compile
    def train_epoch(loader: Any) -> Any:
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    return lambda k: (train_epoch([batch_of(torch, 3 * k + j) for j in range(3)]), *model.parameters())


@program
def train_eval(torch: Any, compile: Any) -> Step:
    """A compiled module with dropout and batch norm, trained and evaluated in turn."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    net = compile(model)

    def step(k: int) -> Any:
        x, y = batch_of(torch, k)
        net.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            right = (net(x).argmax(1) == y).sum()
        return loss, right, *model.state_dict().values()

    return step


@program
def shape_branches(torch: Any, compile: Any) -> Step:
    """A model with Python branches on shapes; the last batch of an epoch is smaller."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 3)

        def forward(self, x: Any) -> Any:
            if x.dim() == 1:
                x = x.unsqueeze(0)
            batch = x.shape[0]
            x = self.first(x).relu()
            if batch > 4:
                x = x - x.mean(0, keepdim=True)
            x = x.view(batch, 4, -1).transpose(1, 2).reshape(batch, -1)
            return self.second(x)

    model = Net()
    net = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(k: int) -> Any:
        x, y = batch_of(torch, k, 3 if k % 5 == 4 else 8)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, *model.parameters()

    return step


@program
def padding_masks(torch: Any, compile: Any) -> Step:
    """Attention over padded sequences, and a loss over what is no padding."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.out = nn.Embedding(11, 8, padding_idx=0), nn.Linear(8, 11)
            self.qkv = nn.Linear(8, 24)

        def forward(self, tokens: Any) -> Any:
            mask = tokens != 0
            q, k, v = self.qkv(self.embed(tokens)).chunk(3, dim=-1)
            scores = q @ k.transpose(-2, -1) / math.sqrt(8)
            scores = scores.masked_fill(~mask[:, None, :], float("-inf"))
            return self.out(scores.softmax(-1) @ v)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def train_step(tokens: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.view(-1, 11), targets.view(-1), ignore_index=0)
        loss.backward()
        optimizer.step()
        return loss

    def step(k: int) -> Any:
        g = torch.Generator().manual_seed(k)
        tokens = torch.randint(1, 11, (4, 7), generator=g)
        for row in range(4):
            tokens[row, 7 - (row + k) % 4 :] = 0
        return train_step(tokens, tokens.roll(-1, 1)), *model.parameters()

    return step


@program
def boolean_mask(torch: Any, compile: Any) -> Step:
    """A loss over the elements that a boolean mask picks: its size depends on values."""
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def train_step(x: Any, y: Any) -> Any:
        logits = model(x)
        keep = y > 0
        loss = torch.nn.functional.cross_entropy(logits[keep], y[keep])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda k: (train_step(*batch_of(torch, k)), *model.parameters())


@program
def kv_cache(torch: Any, compile: Any) -> Step:
    """Tokens one by one, with a cache that is written at a position."""
    nn = torch.nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
            self.register_buffer("k_cache", torch.zeros(1, 32, 8))
            self.register_buffer("v_cache", torch.zeros(1, 32, 8))

        def forward(self, x: Any, pos: Any) -> Any:
            q, k, v = self.qkv(x).split(8, dim=-1)
            self.k_cache[:, pos] = k
            self.v_cache[:, pos] = v
            seen = torch.arange(32) <= pos
            scores = (q.unsqueeze(1) @ self.k_cache.transpose(1, 2)).squeeze(1) / math.sqrt(8)
            scores = scores.masked_fill(~seen, float("-inf"))
            return self.out((scores.softmax(-1).unsqueeze(1) @ self.v_cache).squeeze(1))

    model = Attention().eval()
    embed, head = nn.Embedding(11, 8), nn.Linear(8, 11)
    token = [torch.tensor([3])]

    @compile
    def decode(token: Any, pos: Any) -> Any:
        h = embed(token)
        h = h + model(h, pos)
        return head(h).argmax(-1)

    @torch.no_grad()
    def step(k: int) -> Any:
        token[0] = decode(token[0], torch.tensor([k]))
        return token[0], model.k_cache

    return step
