"""Train the reader of digits on several processes, each with its part of every batch, and compare with one process on the whole.

With --ranks N it starts itself by `python -m nbgrad launch` on 1 to N processes; that needs `pip install nbgrad[mpi]`. The
losses are those of one process, and the plot shows how long an epoch takes. A script of your own is started the same way, or by
mpiexec: what makes it one of many is in `worker`.

$ python examples/data_parallel.py
1 process     losses 2.228 1.887 1.370 1.000 0.790
$ python examples/data_parallel.py --short
1 process     losses 2.228 1.887
$ python examples/data_parallel.py --short --ranks 2  # needs mpi4py
2 processes   losses 2.228 1.887
"""

import argparse
import json
import subprocess
import sys
import time

from digits import generated
from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
import nbgrad.distributed as dist
from nbgrad import nn
from nbgrad.nn import functional as F
from nbgrad.utils.data import DataLoader, TensorDataset
from nbgrad.utils.data.distributed import DistributedSampler

BATCH = 120  # of all processes together


def trained(epochs: int, seed: int, rank: int = 0, ranks: int = 1) -> tuple[list[float], float]:
    """The mean loss of each epoch, and the seconds that one takes."""
    torch.manual_seed(seed)
    digits: TensorDataset = generated(1800)
    net: nn.Module = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    if dist.is_initialized():
        net = nn.parallel.DistributedDataParallel(net)
    sampler = DistributedSampler(digits, ranks, rank, seed=seed)
    loader = DataLoader(digits, batch_size=BATCH // ranks, sampler=sampler)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.5)
    losses, started = [], time.perf_counter()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(())
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach() / len(loader)
        if dist.is_initialized():
            dist.all_reduce(total, dist.ReduceOp.AVG)
        losses.append(total.item())
        if rank == 0 and ranks == 1:
            progress(epoch + 1, epochs, f"epoch {epoch + 1:2d}/{epochs}   loss {losses[-1]:.3f}")
    return losses, (time.perf_counter() - started) / epochs


def worker(epochs: int, seed: int) -> None:
    """One of the processes; the first prints what they have found."""
    dist.init_process_group("mpi")
    found = trained(epochs, seed, dist.get_rank(), dist.get_world_size())
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="two epochs")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=1, help="as many processes at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="data_parallel.png", help="where the plot goes")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    epochs = 2 if args.short else args.epochs
    if args.worker:
        worker(epochs, args.seed)
        return

    losses, seconds = trained(epochs, args.seed)
    print("1 process     losses", *[f"{loss:.3f}" for loss in losses])
    times = [seconds]
    for ranks in range(2, args.ranks + 1):
        launch = [sys.executable, "-m", "nbgrad", "launch", "--nproc", str(ranks), __file__, "--worker"]
        told = subprocess.run(
            [*launch, "--epochs", str(epochs), "--seed", str(args.seed)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        theirs, seconds = json.loads(told.stdout)
        times.append(seconds)
        print(f"{ranks} processes   losses", *[f"{loss:.3f}" for loss in theirs])
        assert max(abs(a - b) for a, b in zip(losses, theirs)) < 1e-4

    if args.ranks > 1:

        def draw(axes: object) -> None:
            axes.bar(range(1, args.ranks + 1), times)  # type: ignore[attr-defined]
            axes.set(xlabel="processes", ylabel="seconds an epoch", xticks=range(1, args.ranks + 1))  # type: ignore[attr-defined]

        save_plot(args.plot, draw)


if __name__ == "__main__":
    main()
