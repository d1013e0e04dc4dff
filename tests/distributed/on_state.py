"""State that is shared out, and kept: run by `mpiexec -n N python -m tests.distributed.on_state`."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import nbgrad as T
from nbgrad import distributed as dist
from nbgrad import nn
from nbgrad.distributed import checkpoint
from nbgrad.distributed.algorithms.join import Join
from nbgrad.distributed.optim import ZeroRedundancyOptimizer as Zero
from nbgrad.nn.parallel import DistributedDataParallel as DDP

ROWS = 12


def net() -> Any:
    T.manual_seed(2)
    return nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def batch(step: int) -> tuple[Any, Any]:
    draw = T.Generator().manual_seed(step)
    return T.randn(ROWS, 5, dtype=T.float64, generator=draw), T.randn(
        ROWS, 1, dtype=T.float64, generator=draw
    )


def steps(module: Any, optimizer: Any, first: int, last: int, alone: bool = False) -> list[float]:
    rank, n = (0, 1) if alone else (dist.get_rank(), dist.get_world_size())
    losses = []
    for k in range(first, last):
        x, y = batch(k)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x[rank::n]), y[rank::n])
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        if not alone:
            dist.all_reduce(total, dist.ReduceOp.AVG)
        losses.append(total.item())
    return losses


KINDS: list[tuple[Any, dict[str, Any]]] = [
    (T.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (T.optim.Adam, {"lr": 0.01}),
    (T.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
]


def shared_out() -> None:
    """As the same optimiser on one process, with its state in parts."""
    rank, n = dist.get_rank(), dist.get_world_size()
    for kind, settings in KINDS:
        for views in (False, True):
            plain, module = net(), DDP(net())
            one = kind(plain.parameters(), **settings)
            zero = Zero(module.parameters(), kind, parameters_as_bucket_view=views, **settings)
            follow, followed = (T.optim.lr_scheduler.StepLR(o, 3, 0.5) for o in (one, zero))
            for k in range(0, 8):
                a, b = steps(plain, one, k, k + 1, alone=True), steps(module, zero, k, k + 1)
                assert abs(a[0] - b[0]) < 1e-12, (kind, views, k)
                follow.step(), followed.step()
            for p, q in zip(plain.parameters(), module.parameters()):
                assert T.allclose(p, q, rtol=1e-12)
            here = len(zero.optim.state)
            dist.all_reduce(total := T.tensor(here))
            assert total.item() == 6 and here <= 6 - n + 1
            zero.consolidate_state_dict(to=0)
            if rank == 0:
                got, want = zero.state_dict(), one.state_dict()
                assert got["param_groups"][0]["lr"] == want["param_groups"][0]["lr"]
                assert got["param_groups"][0]["params"] == want["param_groups"][0]["params"]
                for k, state in want["state"].items():
                    for name, value in state.items():
                        found = got["state"][k][name]
                        assert T.allclose(T.as_tensor(found), T.as_tensor(value), rtol=1e-10), (kind, k, name)
            else:
                try:
                    zero.state_dict()
                except RuntimeError as error:
                    assert "Optimizer state has not been consolidated on this rank." in str(error)
            everything = [zero.state_dict() if rank == 0 else None]
            dist.broadcast_object_list(everything)
            other = Zero(module.parameters(), kind, **settings)
            other.load_state_dict(everything[0])
            assert abs(steps(plain, one, 8, 9, alone=True)[0] - steps(module, other, 8, 9)[0]) < 1e-12


def uneven() -> None:
    """A process whose inputs have ended steps its share by the others' gradients: as one optimiser, which had them all."""
    rank, n = dist.get_rank(), dist.get_world_size()
    for static in (False, True):
        plain, module = net(), DDP(net(), static_graph=static)
        one = T.optim.Adam(plain.parameters(), lr=0.02)
        zero = Zero(module.parameters(), T.optim.Adam, lr=0.02)
        with Join([module, zero], divide_by_initial_world_size=False):
            for k in range(2 + rank):
                zero.zero_grad()
                nn.functional.mse_loss(module(batch(k)[0][rank::n]), batch(k)[1][rank::n]).backward()
                zero.step()
        for k in range(1 + n):
            one.zero_grad()
            others = range(max(0, k - 1), n)
            for r in others:
                x, y = (part[r::n] for part in batch(k))
                (nn.functional.mse_loss(plain(x), y) / len(others)).backward()
            one.step()
        for p, q in zip(plain.parameters(), module.parameters()):
            assert T.allclose(p, q, rtol=1e-10), static


def _program(place: str, sharded: bool) -> tuple[Any, Any, dict[str, Any]]:
    module = DDP(net())
    optimizer = (
        Zero(module.parameters(), T.optim.Adam, lr=0.02)
        if sharded
        else T.optim.Adam(module.parameters(), lr=0.02)
    )
    return (
        module,
        optimizer,
        {"net": module, "optimizer": optimizer, "step": 0, "more": {"x": T.zeros(3), "l": [1, T.ones(2)]}},
    )


def begin(place: str) -> None:
    """Some steps, with a checkpoint after each third of them."""
    for sharded in (False, True):
        module, optimizer, state = _program(place, sharded)
        for first in (0, 4):
            steps(module, optimizer, first, first + 4)
            state["step"] = first + 4
            state["more"]["x"].fill_(first + 1.0)
            checkpoint.save(state, checkpoint_id=f"{place}/{sharded}")


def go_on(place: str) -> None:
    """On any number of processes: the losses of one that was never stopped."""
    plain = net()
    one = T.optim.Adam(plain.parameters(), lr=0.02)
    want = steps(plain, one, 0, 12, alone=True)
    for sharded in (False, True):
        module, optimizer, state = _program(place, sharded)
        with T.no_grad():
            [p.zero_() for p in module.parameters()]
        checkpoint.load(state, checkpoint_id=f"{place}/{sharded}")
        assert state["step"] == 8 and state["more"]["x"].tolist() == [5.0] * 3
        got = steps(module, optimizer, 8, 12)
        assert max(abs(a - b) for a, b in zip(got, want[8:])) < 1e-12, (sharded, got, want[8:])
    for asked, says in (
        ({"none": T.ones(1)}, "Missing key in checkpoint state_dict: none."),
        (
            {"more": {"x": T.ones(4)}},
            "Size mismatch between saved torch.Size([3]) and current: torch.Size([4]) for more.x",
        ),
    ):
        try:
            checkpoint.load(asked, checkpoint_id=f"{place}/True")
        except checkpoint.CheckpointException as error:
            assert str(error) == says
        else:
            raise AssertionError(says)


def killed(place: str) -> None:
    """One process is killed while it writes a third checkpoint."""
    import os

    from nbgrad.distributed.checkpoint import _files

    module, optimizer, state = _program(place, True)
    checkpoint.load(state, checkpoint_id=f"{place}/True")
    steps(module, optimizer, 8, 9)
    state["step"] = 9
    if dist.get_rank() == 1:
        _files.os.fsync = lambda _: os.kill(os.getpid(), 9)
    checkpoint.save(state, checkpoint_id=f"{place}/True")


def main() -> None:
    warnings.simplefilter("error")
    dist.init_process_group("mpi")
    globals()[sys.argv[1]](*sys.argv[2:])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
