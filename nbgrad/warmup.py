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
    sum([one.sum() for one in found]).backward()  # type: ignore[union-attr]
    with torch.no_grad():
        x.mul_(0.5).add_(y).sub_(1).zero_()
    torch.randn(3, dtype=dtype), torch.randint(0, 5, (3,)) % 2, torch.randperm(4), str(y)


def _step(optimizer: torch.optim.Optimizer, forward: Callable[[], torch.Tensor]) -> None:
    optimizer.zero_grad()
    out = forward()
    nn.functional.cross_entropy(out, torch.randint(0, out.shape[1], (len(out),))).backward()
    optimizer.step()
