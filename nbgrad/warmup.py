"""`python -m nbgrad warmup [script.py [arguments]]`: compiles what a script asks for, or most programs do, and keeps it.

Promises who builds an image of a container, or a classroom's machines, that the kernels which a run has asked for are there for the next
one. The script runs whole, as under `run`; without one `usual` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import nbgrad as torch
from nbgrad import nn
from nbgrad.kernels.store import store


def report() -> None:
    """Says on stderr how many kernels are kept, and where.

    >>> import nbgrad.warmup
    >>> nbgrad.warmup.report()
    """
    kept = store()
    where = "nowhere: no directory can be written to" if kept is None else f"in {kept.place}"
    print(f"nbgrad: {len(torch.utils.kernels())} kernels are kept {where}", file=sys.stderr)


def usual() -> None:
    """The calls of most programs, forward and backward, in float32 and float64; layers and optimisers in float32.

    >>> import nbgrad.warmup
    >>> "usual" in dir(nbgrad.warmup)
    True
    """
    for dtype in (torch.float32, torch.float64):
        _operations(dtype)
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
    for optimizer in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        _step(optimizer(net.parameters(), lr=1e-3), lambda: net(torch.randn(4, 8)))
    table, attend = nn.Embedding(10, 16), nn.MultiheadAttention(16, 2, batch_first=True)
    last, noise = nn.Linear(16, 10), nn.Dropout(0.1)

    def block() -> torch.Tensor:
        x = table(torch.randint(0, 10, (2, 5)))
        out: torch.Tensor = last(noise(x + attend(x, x, x, need_weights=False)[0])).flatten(0, 1)
        return out

    parameters = [p for part in (table, attend, last) for p in part.parameters()]
    _step(torch.optim.AdamW(parameters), block)
    _losses(net)


def _operations(dtype: torch.dtype) -> None:
    x = torch.rand(3, 4, dtype=dtype, requires_grad=True)
    y = (torch.rand(3, 4, dtype=dtype) + 1).requires_grad_()
    row, square = y[0], x[:, :3] + 3 * torch.eye(3, dtype=dtype)
    found = [
        x + y,
        x - y,
        x * y,
        x / y,
        x**2,
        y**1.5,
        -x,
        x + row,
        x * 2,
        1 - x,
        1 / y,
        x.abs(),
        x.exp(),
        y.log(),
        y.sqrt(),
        x.sin(),
        x.cos(),
    ]
    found += [
        x.tanh(),
        x.sigmoid(),
        x.relu(),
        x.clamp(0.2, 0.8),
        torch.where(x > 0.5, x, y),
        torch.maximum(x, y),
        x.softmax(1),
        x.log_softmax(1),
    ]
    found += [
        x.sum(),
        x.sum(0),
        x.sum(1),
        x.mean(),
        x.mean(0),
        x.mean(1),
        x.max(),
        x.max(1).values,
        x.min(1).values,
        x.prod(),
        x.std(),
        x.var(0),
    ]
    found += [
        x.norm(),
        x.cumsum(0),
        x.logsumexp(1),
        x.sort(1).values,
        x.topk(2, 1).values,
        x[1],
        x[:, 1:3],
        x[x > 0.5],
        x[torch.tensor([0, 2])],
    ]
    found += [
        x.t().contiguous(),
        torch.cat([x, y]),
        torch.stack([x, y]),
        x @ y.t(),
        x.mv(row),
        row.dot(row),
        square.inverse(),
        square.det(),
    ]
    found += [
        torch.einsum("ij,kj->ik", x, y),
        x.gather(1, x.argmax(1, True)),
        x.reshape(-1),
        x.flip(0),
        x.tril(),
    ]
    sum([one.sum() for one in found]).backward(retain_graph=True)  # type: ignore[union-attr]
    sum([(one * one).sum() for one in found]).backward()  # type: ignore[union-attr]  # of no one value
    with torch.no_grad():
        x.mul_(0.5).add_(y).sub_(1).zero_()
    torch.randn(3, dtype=dtype), torch.randint(0, 5, (3,)) % 2, torch.randperm(4), str(y)
    counted = torch.arange(12).reshape(3, 4)
    (
        counted + 1,
        counted * counted,
        counted.sum(),
        counted.to(dtype),
        x.int(),
        x.long(),
        (x > y).sum(),
        x == y,
        ~(x < y),
    )


def _losses(net: nn.Module) -> None:
    """And what else the loop around a network calls."""
    f, x, words = nn.functional, torch.randn(2, 4, 24, requires_grad=True), torch.randint(0, 4, (4,))
    q, k, v = (one.view(2, 4, 2, 4).transpose(1, 2) for one in x.split(8, 2))
    f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 4, -1).sum().backward()
    out = net(torch.randn(4, 8))
    y = torch.rand(4, 4)
    losses = (
        f.mse_loss(out, y),
        f.l1_loss(out, y),
        f.binary_cross_entropy_with_logits(out, y),
        f.nll_loss(out, words),
    )
    sum([*losses, f.smooth_l1_loss(out, y), f.silu(out).mean(), f.softplus(out).mean()]).backward()  # type: ignore[union-attr]
    rows = torch.randn(64, 10, requires_grad=True)  # many short ones, which have kernels of their own
    many = f.cross_entropy(rows, torch.randint(0, 10, (64,))) + rows.logsumexp(1).sum()
    for one in (rows.softmax(1), rows.log_softmax(1), f.layer_norm(rows, (10,))):
        many = many + (one * one).sum()
    many.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    _step(
        torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4),
        lambda: net(torch.randn(4, 8)),
    )
    (out.argmax(1) == words).float().mean().item()


def _step(optimizer: torch.optim.Optimizer, forward: Callable[[], torch.Tensor]) -> None:
    optimizer.zero_grad()
    out = forward()
    nn.functional.cross_entropy(out, torch.randint(0, out.shape[1], (len(out),))).backward()
    optimizer.step()
