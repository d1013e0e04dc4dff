"""Gradients through collectives, and statistics of all processes: run by `mpiexec -n N python -m tests.distributed.on_tape`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import nbgrad as T
from nbgrad import distributed as dist
from nbgrad import nn
from nbgrad.distributed.nn import functional as F

R = dist.ReduceOp


def _inputs(n: int, *shape: int) -> list[Any]:
    """Those of all processes, on each."""
    draw = T.Generator().manual_seed(5)
    return [T.randn(*shape, dtype=T.float64, generator=draw).requires_grad_() for _ in range(n)]


def _pieces(x: Any, n: int) -> list[Any]:
    return list(x.chunk(n))


def cases(rank: int, n: int) -> dict[str, tuple[Callable[[Any], Any], Callable[[list[Any], int], Any]]]:
    """What this process calls on its tensor, and the same of all tensors on one process."""
    cat, stack = T.cat, T.stack
    return {
        "sum": (F.all_reduce, lambda xs, r: sum(xs)),
        "avg": (lambda x: F.all_reduce(x, R.AVG), lambda xs, r: sum(xs) / n),
        "product": (lambda x: F.all_reduce(x, R.PRODUCT), lambda xs, r: stack(xs).prod(0)),
        "max": (lambda x: F.all_reduce(x, R.MAX), lambda xs, r: stack(xs).amax(0)),
        "min": (lambda x: F.all_reduce(x, R.MIN), lambda xs, r: stack(xs).amin(0)),
        "all_gather": (lambda x: cat(F.all_gather(x)), lambda xs, r: cat(xs)),
        "broadcast": (lambda x: F.broadcast(x, n - 1), lambda xs, r: xs[n - 1] * 1),
        "reduce_scatter": (
            lambda x: F.reduce_scatter(T.empty_like(_pieces(x, n)[0]), _pieces(x, n)),
            lambda xs, r: sum(_pieces(x, n)[r] for x in xs),
        ),
        "reduce_scatter avg": (
            lambda x: F.reduce_scatter(T.empty_like(_pieces(x, n)[0]), _pieces(x, n), R.AVG),
            lambda xs, r: sum(_pieces(x, n)[r] for x in xs) / n,
        ),
        "reduce_scatter max": (
            lambda x: F.reduce_scatter(T.empty_like(_pieces(x, n)[0]), _pieces(x, n), R.MAX),
            lambda xs, r: stack([_pieces(x, n)[r] for x in xs]).amax(0),
        ),
        "all_to_all": (
            lambda x: cat(F.all_to_all([T.empty_like(p) for p in _pieces(x, n)], _pieces(x, n))),
            lambda xs, r: cat([_pieces(x, n)[r] for x in xs]),
        ),
        "all_to_all_single": (
            lambda x: F.all_to_all_single(T.empty_like(x), x),
            lambda xs, r: cat([_pieces(x, n)[r] for x in xs]),
        ),
        "scatter": (lambda x: F.scatter(_pieces(x, n), n - 1), lambda xs, r: _pieces(xs[n - 1], n)[r] * 1),
        "gather": (
            lambda x: cat(F.gather(x, 0)),
            lambda xs, r: cat(xs) if r == 0 else T.zeros(n * len(xs[0]), 3, dtype=T.float64),
        ),
        "strided": (lambda x: F.all_reduce(x.t()).t(), lambda xs, r: sum(xs)),
    }


def gradients() -> None:
    """To the third order, of f(collective(g(x))): the derivatives of the sum over all processes."""
    rank, n = dist.get_rank(), dist.get_world_size()
    for name, (here, everywhere) in cases(rank, n).items():
        xs = _inputs(n, 2 * n, 3)
        x = xs[rank].detach().clone().requires_grad_()
        mine = (here(x.sin()) * (rank + 1)).tanh().pow(2).sum()
        all_of_them = sum(
            ((everywhere([x.sin() for x in xs], r) * (r + 1)).tanh().pow(2)).sum() for r in range(n)
        )
        total = mine.detach().clone()
        dist.all_reduce(total)
        assert T.allclose(total, all_of_them.detach(), rtol=1e-12), name
        got, want = [mine], [all_of_them]
        for order in range(3):
            (g,) = T.autograd.grad(got[-1], x, create_graph=True)
            ws = T.autograd.grad(want[-1], xs, create_graph=True, materialize_grads=True)
            assert T.allclose(g, ws[rank], rtol=1e-9, atol=1e-12), (name, order)
            got.append((g * g.cos()).sum())
            want.append(sum((w * w.cos()).sum() for w in ws))


def norms() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for shape in ((6, 4), (6, 4, 5), (6, 4, 3, 2)):
        for momentum in (0.1, None):
            whole = (
                T.randn(n * shape[0], *shape[1:], dtype=T.float64, generator=T.Generator().manual_seed(1)) * 3
                + 50
            )
            plain = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)](
                4, momentum=momentum
            ).double()
            synced = nn.SyncBatchNorm.convert_sync_batchnorm(
                {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)](
                    4, momentum=momentum
                ).double()
            )
            assert type(synced) is nn.SyncBatchNorm
            a = whole.clone().requires_grad_()
            b = whole[6 * rank : 6 * rank + 6].clone().requires_grad_()
            for _ in range(2):
                y, z = plain(a), synced(b)
            (y.sin() * a.detach()).sum().backward()
            (z.sin() * b.detach()).sum().backward()
            part = slice(6 * rank, 6 * rank + 6)
            assert T.allclose(y[part], z, rtol=1e-9, atol=1e-9) and T.allclose(
                a.grad[part], b.grad, rtol=1e-7, atol=1e-9
            )
            for p, q in zip(plain.parameters(), synced.parameters()):
                dist.all_reduce(q.grad)
                assert T.allclose(p.grad, q.grad, rtol=1e-9)
            for p, q in zip(plain.buffers(), synced.buffers()):
                assert T.allclose(p, q, rtol=1e-12)
            assert T.allclose(plain.eval()(whole)[part], synced.eval()(whole[part]), rtol=1e-12)


def main() -> None:
    warnings.simplefilter("error")
    dist.init_process_group("mpi")
    for name in sys.argv[1:] or ("gradients", "norms"):
        globals()[name]()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
