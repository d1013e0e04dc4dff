"""Tensors that several processes have: what one writes all read, under every way to start one, and nothing is left behind."""

import gc
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import T

import nbgrad.multiprocessing as mp  # isort: skip

METHODS = ("fork", "spawn", "forkserver")
STRATEGIES = ("file_descriptor", "file_system")


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Any:
    mp.set_sharing_strategy(request.param)
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    yield request.param
    mp.set_sharing_strategy("file_descriptor")
    gc.collect()
    left = set(os.listdir("/dev/shm")) - before if os.path.isdir("/dev/shm") else set()
    assert not {name for name in left if name.startswith(f"torch_{os.getpid()}")}


def answer(inbox: Any, outbox: Any, strategy: str) -> None:
    mp.set_sharing_strategy(strategy)
    while (got := inbox.get()) is not None:
        for t in got if isinstance(got, list) else [got]:
            if isinstance(t, T.Tensor) and t.is_floating_point():
                t.detach().add_(1)
        outbox.put(got)
    made = T.arange(3.0)
    outbox.put(made)
    inbox.get()  # who sends has to be there until it is received


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_queues_share(method: str, strategy: str) -> None:
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    child = context.Process(target=answer, args=(inbox, outbox, strategy), daemon=True)
    child.start()
    x = T.arange(6.0)
    parts = [x, x[2:], x.view(2, 3).t(), x.untyped_storage(), x[1:3].untyped_storage()[4:8]]
    inbox.put(parts)
    got = outbox.get(timeout=300)
    assert x.tolist() == [2, 3, 5, 6, 7, 8]
    assert [type(g) for g in got] == [type(p) for p in parts]
    assert [g.tolist() for g in got] == [p.tolist() for p in parts]
    assert got[0].untyped_storage() is x.untyped_storage() is got[3]
    assert got[2].stride() == (1, 3)
    got[0][0] = 50
    assert x[0] == 50
    p = T.nn.Parameter(T.ones(2), requires_grad=False)
    inbox.put(
        [p, T.ones(0), T.ones(2, dtype=T.bfloat16), T.ones((), dtype=T.bool), T.nn.Parameter(T.ones(1))]
    )
    q, empty, half, true, leaf = outbox.get(timeout=300)
    assert (type(q), q.requires_grad, q.tolist(), p.tolist()) == (T.nn.Parameter, False, [2, 2], [2, 2])
    assert (empty.shape, half.dtype, half.tolist(), true.item()) == ((0,), T.bfloat16, [2, 2], True)
    assert leaf.is_leaf and leaf.requires_grad
    inbox.put(None)
    made = outbox.get(timeout=300)
    inbox.put(None)
    child.join(300)
    assert child.exitcode == 0
    assert made.tolist() == [0, 1, 2] and made.is_shared()
    made.add_(1)


def write(x: Any, connection: Any) -> None:
    x.fill_(7)
    connection.send(x[:1])
    connection.recv()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_arguments_and_pipes_share(method: str, strategy: str) -> None:
    context = mp.get_context(method)
    x = T.zeros(3).share_memory_()
    here, there = context.Pipe()
    child = context.Process(target=write, args=(x, there), daemon=True)
    child.start()
    first = here.recv()
    first[0] = 1
    here.send(None)
    child.join(300)
    assert x.tolist() == [1, 7, 7]


def train(rank: int, model: Any, steps: int) -> None:
    T.manual_seed(rank)
    T.set_num_threads(1)
    optimizer = T.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        x = T.randn(16, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_hogwild(method: str) -> None:
    """Processes train one network without waiting for each other."""
    T.manual_seed(0)
    model = T.nn.Linear(4, 1)
    model.share_memory()
    mp.start_processes(train, args=(model, 60), nprocs=2, start_method=method)
    assert (model.weight - 1).abs().max() < 0.1
    assert model.weight.grad is None


def double(x: Any) -> Any:
    return x.add_(x)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools_share(method: str) -> None:
    x = T.arange(3.0).share_memory_()
    with mp.get_context(method).Pool(2) as pool:
        found = pool.map(double, [x, T.ones(2)])
    assert x.tolist() == found[0].tolist() == [0, 2, 4]
    assert found[1].tolist() == [2, 2]


def fails(rank: int, how: str) -> None:
    if rank == 1:
        if how == "raise":
            raise ValueError("of rank 1")
        if how == "exit":
            sys.exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
    elif how != "raise":
        signal.pause()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        (
            "raise",
            mp.ProcessRaisedException,
            "\n\n-- Process 1 terminated with the following error:\nTraceback",
        ),
        ("exit", mp.ProcessExitedException, "process 1 terminated with exit code 3"),
        ("kill", mp.ProcessExitedException, "process 1 terminated with signal SIGKILL"),
    ],
)
def test_one_that_fails_ends_all(how: str, kind: Any, text: str) -> None:
    with pytest.raises(kind) as caught:
        mp.spawn(fails, args=(how,), nprocs=2)
    error = caught.value
    assert str(error).startswith(text) and error.error_index == 1
    if how == "raise":
        assert str(error).endswith("ValueError: of rank 1\n")
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), vars(copied)) == (kind, str(error), vars(error))


def nothing(rank: int) -> None:
    pass


def test_processes_that_are_waited_for_later() -> None:
    context = mp.start_processes(nothing, nprocs=2, join=False, start_method="fork")
    assert len(context.pids()) == 2
    while not context.join(timeout=10):
        pass
    assert context.join()
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        mp.spawn(nothing, start_method="fork")


def test_what_cannot_be_sent() -> None:
    from multiprocessing.reduction import ForkingPickler

    x = T.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"
    ):
        ForkingPickler.dumps(x * 2)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="on tensor will not be serialized"):
        ForkingPickler.dumps(x)
    with pytest.raises(RuntimeError, match="Cannot pickle meta storage"):
        ForkingPickler.dumps(T.UntypedStorage(3, device="meta"))
    meta = pickle.loads(ForkingPickler.dumps(T.ones(2, 3, device="meta", requires_grad=True)))
    assert (meta.device.type, meta.shape, meta.requires_grad) == ("meta", (2, 3), True)
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x', expected one of"):
        mp.set_sharing_strategy("x")


def test_a_handle_that_lies_is_refused() -> None:
    """Nobody reads beyond what is there."""
    from nbgrad.multiprocessing import reductions

    x = T.arange(4.0)
    _, (_, storage, dtype, _) = reductions.reduce_tensor(x)
    with pytest.raises(Exception, match="reaches element 4 of a storage of 4"):
        reductions.rebuild_tensor(T.Tensor, storage, dtype, (1, (4,), (1,), False))
    rebuild, (cls, handle, whole, start, size) = reductions.reduce_storage(storage)
    with pytest.raises(RuntimeError, match="too short"):
        rebuild(cls, handle, 1 << 20, start, size)
    rebuild, (cls, handle, whole, start, size) = reductions.reduce_storage(storage)
    with pytest.raises(RuntimeError, match="bytes 8 to 24 of a storage of 16"):
        rebuild(cls, handle, whole, 8, size)


@pytest.mark.slow
@pytest.mark.parametrize("strategy_", STRATEGIES)
def test_nothing_is_left_behind(strategy_: str, tmp_path: Path) -> None:
    """No segment, no file that stays open, and no word of Python's tracker at the end; also of a child that has it as it ends."""
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import os
import nbgrad as torch
import nbgrad.multiprocessing as mp

def child(queue, answers):
    mp.set_sharing_strategy({strategy_!r})
    global kept
    kept = [queue.get(), torch.ones(5).share_memory_()]
    answers.put(1)

if __name__ == "__main__":
    mp.set_sharing_strategy({strategy_!r})
    pids = [os.getpid()]
    for method in ("fork", "forkserver"):
        context = mp.get_context(method)
        queue, answers = context.Queue(), context.Queue()
        process = context.Process(target=child, args=(queue, answers))
        process.start()
        pids.append(process.pid)
        queue.put(torch.ones(1000))
        answers.get()
        process.join()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        torch.ones(10).share_memory_()
    assert len(os.listdir("/proc/self/fd")) <= before
    end = torch.ones(3).share_memory_()
    print(end.is_shared(), *pids)
""",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout[:4], done.stderr, done.returncode) == ("True", "", 0)
    own = tuple(f"torch_{pid}_" for pid in done.stdout.split()[1:])  # other tests have some at the same time
    assert len(own) == 3 and not [name for name in os.listdir("/dev/shm") if name.startswith(own)]


@pytest.mark.slow
def test_a_loader_goes_on_copying() -> None:
    """Batches of a worker that has ended are still to be had."""
    data = T.utils.data.TensorDataset(T.arange(12.0).view(6, 2).share_memory_())
    for method in METHODS:
        loader = T.utils.data.DataLoader(data, batch_size=2, num_workers=2, multiprocessing_context=method)
        assert T.cat([batch for (batch,) in loader]).tolist() == data.tensors[0].tolist()
