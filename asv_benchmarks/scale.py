"""What several processes cost, measured on two, and what that says of up to 4,096: `python -m asv_benchmarks.scale [--fast]`.

Two processes are started by mpiexec, each on a core of its own. They time all_reduce of several sizes, beside mpi4py's own on the same
memory (one allocation may have huge pages and another not, which is half as much again at 16 MB), and a training step alone and under
`DistributedDataParallel`, with the moments at which its all_reduces begin. An all_reduce of n bytes among p processes is then taken to
cost 2 (p - 1) a + 2 (p - 1) / p n b as a ring and 2 log2(p) (a + n b) as a tree, of which MPI takes the quicker one; a and b are fitted
to what was measured at p = 2. Each process keeps its batch, so the efficiency is the step's time alone over that with the others: once
with the buckets sent while the backward still runs, one after the other, and once with all of them sent after it. It is a model: no
two messages get into each other's way, and all processes are equally quick.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RANKS = [4**k for k in range(7)]
SIZES = [1 << k for k in range(10, 25, 2)]


def timed(calls: Sequence[Callable[[], Any]], barrier: Callable[[], Any], times: int) -> list[list[float]]:
    """So many of each, in turns of a random order that is the same everywhere: others work on the machine, too, and what runs before
    decides what is in the caches. Each ends when all processes have ended it."""
    took: list[list[float]] = [[] for _ in calls]
    order, draw = list(range(len(calls))), random.Random(0)
    for _ in range(times):
        draw.shuffle(order)
        for k in order:
            barrier()
            start = time.perf_counter()
            calls[k]()
            barrier()
            took[k].append(time.perf_counter() - start)
    return took


def measured(times: int) -> dict[str, Any]:
    """On one of two processes."""
    import numpy as np
    from mpi4py import MPI

    import nbgrad as t
    from nbgrad import distributed as dist
    from nbgrad.nn.parallel import DistributedDataParallel

    t.set_num_threads(1)
    dist.init_process_group("mpi")
    world = MPI.COMM_WORLD

    def worst(seconds: float) -> float:
        return float(world.allreduce(seconds, MPI.MAX))

    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[world.Get_rank() % len(cores)]})
    ours, bare = [], []
    for size in SIZES:
        x = t.zeros(size // 4)
        a = x.numpy()
        pair = timed(
            (lambda x=x: dist.all_reduce(x), lambda a=a: world.Allreduce(MPI.IN_PLACE, a)),
            world.Barrier,
            times * max(1, min(10, (1 << 20) // size)),
        )
        ours.append(worst(min(pair[0])))
        bare.append(worst(min(pair[1])))

    def network() -> Any:
        t.manual_seed(0)
        return t.nn.Sequential(*[m for _ in range(5) for m in (t.nn.Linear(512, 512), t.nn.ReLU())])

    x = t.randn(256, 512)
    plain, together = network(), DistributedDataParallel(network(), bucket_cap_mb=1)

    def step(net: Any) -> None:
        for p in net.parameters():
            p.grad = None
        net(x).square().mean().backward()

    for net in (plain, together):
        step(net), step(net), step(net)
    grads = np.zeros(sum(p.numel() for p in plain.parameters()), np.float32)
    steps = timed(
        (lambda: step(plain), lambda: step(together), lambda: world.Allreduce(MPI.IN_PLACE, grads)),
        world.Barrier,
        times,
    )
    alone, both, sent = (worst(min(each)) for each in steps)
    over = statistics.median(b / (a + s) - 1 for a, b, s in zip(*steps))
    moments: list[tuple[float, int]] = []
    for _ in range(times):
        world.Barrier()
        with t.autograd.profiler.profile(record_shapes=True) as prof:
            step(together)
        sends = [e for e in prof.function_events if e.name == "mpi:all_reduce"]
        begun = [(e.time_range.start / 1e6, 4 * math.prod(e.input_shapes[0])) for e in sends]
        if not moments or begun[-1][0] < moments[-1][0]:
            moments = begun
    # A step in a profile takes longer than one without: the last begins when the step alone would be over.
    moments = [(at * alone / moments[-1][0], size) for at, size in moments]
    found = dict(ours=ours, bare=bare, alone=alone, both=both, sent=sent, over=over, moments=moments)
    dist.destroy_process_group()
    return found if world.Get_rank() == 0 else {}


def fitted(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """a and b of two processes' 2 a + n b, by least squares of what is relative."""
    rows = [(2 / s, n / s) for n, s in zip(sizes, seconds)]
    aa, ab, bb = (sum(f) for f in zip(*[(x * x, x * y, y * y) for x, y in rows]))
    ra, rb = sum(x for x, _ in rows), sum(y for _, y in rows)
    det = aa * bb - ab * ab
    return max((ra * bb - rb * ab) / det, 1e-9), max((rb * aa - ra * ab) / det, 1e-13)


def cost(p: int, n: float, a: float, b: float) -> float:
    if p == 1:
        return 0.0
    ring = 2 * (p - 1) * a + 2 * (p - 1) / p * n * b
    return min(ring, 2 * math.log2(p) * (a + n * b))


def step_time(
    p: int, alone: float, moments: Sequence[Sequence[float]], a: float, b: float, overlap: bool
) -> float:
    """A step of p processes, whose buckets are full at these moments."""
    free = 0.0
    for ready, size in moments:
        free = max(free, ready if overlap else alone) + cost(p, size, a, b)
    return max(free, alone)


def on_two_processes(fast: bool) -> dict[str, Any]:
    """What `measured` finds there."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    told = subprocess.run(
        [
            *(str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", "2", sys.executable),
            *(__file__, "--worker", *(["--fast"] if fast else [])),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="a few repetitions")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        found = measured(5 if args.fast else 30)
        if found:
            print(json.dumps(found))
        return
    found = on_two_processes(args.fast)
    print("all_reduce, 2 processes      bytes     us   mpi4py's   ratio")
    for size, ours, bare in zip(SIZES, found["ours"], found["bare"]):
        print(f"{size:34d} {ours * 1e6:6.0f} {bare * 1e6:10.0f} {ours / bare:7.2f}")
    a, b = fitted(SIZES, found["ours"])
    print(f"a = {a * 1e6:.1f} us, b = {b * 1e9:.3f} ns a byte")
    alone, both, sent, over, moments = (found[k] for k in ("alone", "both", "sent", "over", "moments"))
    print(
        f"step alone {alone * 1e3:.2f} ms, all_reduce of its gradients {sent * 1e3:.2f} ms, step of two {both * 1e3:.2f} ms: "
        f"{over * 100:+.1f} % over the sum (median of turns)"
    )
    print(
        "all_reduces begin after", ", ".join(f"{at * 1e3:.2f} ms ({size >> 10} KB)" for at, size in moments)
    )
    predicted = [step_time(2, alone, moments, a, b, overlap) for overlap in (True, False)]
    print(
        f"two processes, predicted: {predicted[0] * 1e3:.2f} ms with overlap, {predicted[1] * 1e3:.2f} ms without, which it is on one "
        f"machine; measured {both * 1e3:.2f} ms"
    )
    print("processes   efficiency with overlap   without")
    for p in RANKS:
        with_it, without = (alone / step_time(p, alone, moments, a, b, o) for o in (True, False))
        print(f"{p:9d} {with_it:25.3f} {without:9.3f}")


if __name__ == "__main__":
    main()
