"""`python -m nbgrad warmup [script.py [arguments]]`: compiles what a script asks for, or most programs do, and keeps it.

Promises who builds an image of a container, or a classroom's machines, that the kernels which a run has asked for are there for the next
one. The script runs whole, as under `run`; without one `usual` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

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
    """The calls of most programs, forward and backward, in float32 and float64; networks and optimisers in float32.

    >>> import nbgrad.warmup
    >>> "usual" in dir(nbgrad.warmup)
    True
    """
    for dtype in (torch.float32, torch.float64):
        _operations(dtype)
        _pairs(dtype)
    _counted()
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
    _pictures()
    _sequences()


def _operations(dtype: torch.dtype) -> None:
    torch.linspace(0, 1, 5, dtype=dtype)
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


_COMPARISONS: tuple[Callable[..., torch.Tensor], ...]
_COMPARISONS = torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge


def _pairs(dtype: torch.dtype) -> None:
    """Two operands that lie in each of the usual ways beside each other: whole, a row, a column, one value, a number."""
    x = torch.rand(3, 4, dtype=dtype).add_(1).requires_grad_()
    others = [torch.rand(size, dtype=dtype).add_(1).requires_grad_() for size in ((3, 4), (4,), (3, 1), ())]
    turned = torch.rand(4, 3, dtype=dtype).t().requires_grad_()
    found: list[torch.Tensor] = []
    four: tuple[Callable[..., torch.Tensor], ...] = torch.add, torch.sub, torch.mul, torch.div
    for f in four:
        found += [f(a, b) for other in others for a, b in ((x, other), (other, x))] + [f(x, turned), f(x, 2)]
    found += [2 - x, 2 / x, x.square(), x**3, x.rsqrt(), x.clamp_min(0.1), x.clamp(max=2)]
    found += [nn.functional.leaky_relu(x), torch.minimum(x, others[0])]
    found += [
        x.masked_fill(x > 1.5, 0.0),
        torch.where(x > 1.5, x, 0.0),
        x.index_select(0, torch.tensor([0, 2])),
    ]
    sum([one.sum() for one in found]).backward(retain_graph=True)  # type: ignore[union-attr]
    sum([(one * one).sum() for one in found]).backward()  # type: ignore[union-attr]
    with torch.no_grad():
        for f in _COMPARISONS:
            f(x, others[0]), f(x, others[2]), f(x, others[3]), f(x, 0.5)
        at, rows = x > 1.5, torch.tensor([0, 2])
        (
            at & (x < 2),
            at | ~at,
            at.any(),
            at.all(),
            at.any(1),
            at.all(0),
            at.sum(1),
            at.to(dtype),
            x.isfinite().all(),
        )
        for name in ("add_", "sub_", "mul_", "div_"):
            for other in (*others, turned, 2):
                getattr(x, name)(other)
        x[at] = 0.0
        x[rows] = 1.0
        x[0, rows], x[rows, rows], x.nonzero(), x.isnan().any(), torch.allclose(x, others[0]), x.tolist()
        (
            x.relu_().clamp_(0, 1).fill_(0.5),
            torch.full((3,), 2, dtype=dtype),
            x.reshape(4, 3),
            x.cumsum(1),
            x.triu(),
        )


def _counted() -> None:
    """What programs do to numbers that name and count."""
    n, one = torch.randint(0, 5, (3, 4)), torch.tensor(2)
    three: tuple[Callable[..., torch.Tensor], ...] = torch.add, torch.sub, torch.mul
    for f in three:
        f(n, n), f(n, one), f(n, 2), f(n, n[0]), f(n, n[:, :1])
    for f in _COMPARISONS:
        f(n, n), f(n, one), f(n, 2), f(n, n[:, :1])
    (
        n // 2,
        n.abs(),
        -n,
        n.clamp(0, 3),
        n.amax(1),
        n.max(),
        n.sum(1),
        n.cumsum(1),
        n.argmax(1),
        n.sort(1),
        n.clone(),
    )
    (
        n.t().contiguous(),
        torch.stack([n, n]),
        torch.cat([n, n], 1),
        n[n > 1],
        n[torch.tensor([0, 2])],
        n.unique(),
    )
    n.add_(1), n.sub_(1), n.fill_(0), n[0].fill_(1), nn.functional.one_hot(n[0], 5), n.bool(), n.int().long()
    table = torch.zeros(4, 4)
    table[n[0], n[0]] = 1.0
    torch.ones(4, 4, dtype=torch.bool).triu(1), torch.zeros(3, dtype=torch.bool).logical_or(n[:, 0] > 1)


def _pictures() -> None:
    """Networks of convolutions, as they train and as they predict."""
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 24, 3),
        nn.LeakyReLU(0.2),
        nn.AvgPool2d(2),
        nn.Conv2d(24, 32, 1, bias=False),
        nn.ConvTranspose2d(32, 4, 4, 2, 1),
        nn.Conv2d(4, 3, 3, stride=2, padding=1),
        nn.Dropout(0.5),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(3, 10),
    )
    pictures = torch.rand(4, 1, 12, 12)
    for optimizer in (
        torch.optim.SGD(net.parameters(), lr=0.1),
        torch.optim.RMSprop(net.parameters(), lr=0.1),
    ):
        _step(optimizer, lambda: net(pictures))
    net.eval()
    with torch.no_grad():
        net(pictures).softmax(1).max(1)
    line = nn.Sequential(
        nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.Tanh(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(8, 4)
    )
    _step(torch.optim.Adam(line.parameters()), lambda: line(torch.rand(4, 3, 6)))


def _sequences() -> None:
    """Recurrent networks, and a layer of a transformer."""
    x, last = torch.rand(5, 4, 8), nn.Linear(8, 4)

    def trained(net: nn.Module, forward: Callable[[], torch.Tensor]) -> None:
        _step(torch.optim.Adam([*net.parameters(), *last.parameters()]), lambda: last(forward()[:, -1]))
        with torch.no_grad():
            forward()

    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        net: nn.Module = kind(8, 8, batch_first=True)
        trained(net, partial(_first, net, x))
    for cell in (nn.GRUCell(8, 8), nn.LSTMCell(8, 8)):
        _first(cell, x[0]).sum().backward()
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    trained(layer, partial(layer, x))
    trained(layer, partial(layer, x, nn.Transformer.generate_square_subsequent_mask(4)))


def _first(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    out = net(x)
    return out if isinstance(out, torch.Tensor) else out[0]


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
