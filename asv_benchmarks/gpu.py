"""What a GPU does, in ten minutes: `python -m asv_benchmarks.gpu --json out.json [--seconds 500]`.

Each part is run by itself: one that fails is written down with its error, and the next goes on. Times of the device are taken between
marks in its queue, times of the host by the clock, each the least of several turns.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import nbgrad
from nbgrad import nn

Figures = dict[str, Any]
PACKAGES = ("numpy", "numba", "llvmlite", "numba-cuda", "cuda-core", "cuda-bindings", "nvidia-nvvm", "torch")


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def environment(torch: Any) -> Figures:
    from nbgrad.kernels.cuda import probe

    found = probe.found()
    return {
        "device": repr(torch.cuda.get_device_properties()),
        "driver": None if found is None else found.version,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def on_device(torch: Any, f: Callable[[], Any], least: float = 0.02) -> float:
    """Microseconds of the device for a call, many of which stand in its queue at once."""
    f()
    many, best = 4, float("inf")
    while True:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(many):
            f()
        end.record()
        end.synchronize()
        took = begin.elapsed_time(end) * 1e3
        best = min(best, took / many)
        if took >= least * 1e6 or many >= 4096:
            return best
        many *= 4


def on_host(torch: Any, f: Callable[[], Any], many: int = 1000) -> float:
    """Microseconds of the host for a call, without waiting for the device."""
    f()
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(many):
            f()
        best = min(best, (time.perf_counter() - start) / many * 1e6)
    torch.cuda.synchronize()
    return best


def host(torch: Any) -> Figures:
    a, m = torch.ones(4, device="cuda"), torch.ones(64, 64, device="cuda")
    w = torch.ones(4, device="cuda", requires_grad=True)
    calls = {
        "product": lambda: a * a,
        "recorded": lambda: a * w,
        "sum": lambda: a.sum(),
        "softmax": lambda: m.softmax(1),
        "mm": lambda: m @ m,
        "empty": lambda: torch.empty(1000, device="cuda"),
    }
    return {name: on_host(torch, f) for name, f in calls.items()}


def bandwidths(torch: Any, n: int = 1 << 26) -> Figures:
    """GB/s of memory that has to be read and written."""
    side = int(n**0.5)
    x, y = torch.rand(n).cuda(), torch.rand(n).cuda()
    square, row = x[: side * side].view(side, side), torch.rand(side).cuda()
    half = x.half()
    calls: dict[str, tuple[float, Callable[[], Any]]] = {
        "copy": (8 * n, lambda: x.clone()),
        "product": (12 * n, lambda: x * y),
        "product of float16": (6 * n, lambda: half * half),
        "exp": (8 * n, lambda: x.exp()),
        "gelu": (8 * n, lambda: nn.functional.gelu(x) if torch is nbgrad else torch.nn.functional.gelu(x)),
        "product with a row": (8 * side * side, lambda: square * row),
        "copy, transposed": (8 * side * side, lambda: square.t().contiguous()),
        "sum": (4 * n, lambda: x.sum()),
        "sum of rows": (4 * side * side, lambda: square.sum(1)),
        "sum of columns": (4 * side * side, lambda: square.sum(0)),
        "softmax": (8 * side * side, lambda: square.softmax(1)),
        "layer norm": (8 * side * side, lambda: torch.nn.functional.layer_norm(square, (side,))),
        "cumsum": (8 * side * side, lambda: square.cumsum(1)),
    }
    return parts(
        {name: lambda b=nbytes, f=f: b / on_device(torch, f) / 1e3 for name, (nbytes, f) in calls.items()}
    )


def products(torch: Any) -> Figures:
    """TFLOP/s."""
    found = {}
    for n in (256, 512, 1024, 2048, 4096):
        a, b = torch.rand(n, n).cuda(), torch.rand(n, n).cuda()
        found[str(n)] = lambda a=a, b=b, n=n: 2 * n**3 / on_device(torch, lambda: a @ b) / 1e6
        found[f"{n}, transposed"] = lambda a=a, b=b, n=n: 2 * n**3 / on_device(torch, lambda: a @ b.t()) / 1e6
    return parts(found)


def perceptron(torch: Any, batch: int, width: int) -> Callable[[], Any]:
    layers = torch.nn
    model = layers.Sequential(
        *[
            layers.Linear(width, width),
            layers.ReLU(),
            layers.Linear(width, width),
            layers.ReLU(),
            layers.Linear(width, 10),
        ]
    ).cuda()
    optimiser = torch.optim.Adam(model.parameters())
    x, y = torch.rand(batch, width).cuda(), torch.zeros(batch, dtype=torch.int64).cuda()

    def step() -> None:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()

    return step


def training(torch: Any) -> Figures:
    """Microseconds of a step of Adam, of the host and of the device."""
    found: Figures = {}
    for batch, width in ((32, 128), (256, 1024), (1024, 4096)):
        step = perceptron(torch, batch, width)
        for _ in range(3):
            step()
        name = f"batch {batch}, width {width}"
        found[name] = {"host": on_host(torch, step, 50), "device": on_device(torch, step, 0.2)}
    return found


def graphed(torch: Any) -> Figures:
    """Microseconds of the host for many small launches, one by one and as a graph."""
    x, graph = torch.ones(1000, device="cuda"), torch.cuda.CUDAGraph()

    def work() -> Any:
        y = x
        for _ in range(50):
            y = y * 1.5 + 0.5
        return y

    one_by_one = on_host(torch, work, 20)
    with torch.cuda.graph(graph):
        kept = work()
    return {"one by one": one_by_one, "graph": on_host(torch, graph.replay, 20), "kept": kept.numel()}


def smoke(torch: Any) -> Figures:
    x = torch.arange(10.0)
    on = x.cuda().requires_grad_()
    (on.sigmoid() * on).sum().backward()
    here = x.requires_grad_()
    (here.sigmoid() * here).sum().backward()
    return {"off by": (on.grad.cpu() - here.grad).abs().max().item()}


def table(torch: Any) -> Figures:
    """Of the tests' cases on the device, beside the CPU: how many are right, and what is said of the others."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.cuda.on_device", "--order", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    wrong = {name: text for name, text in said.items() if not text.startswith(("right", "none"))}
    ended = done.stderr[-2000:] if done.returncode else ""
    counts = {word: sum(text.startswith(word) for text in said.values()) for word in ("right", "none")}
    return {**counts, "wrong": wrong, "ended": ended}


def parts(calls: dict[str, Callable[[], Any]]) -> Figures:
    """The figures of each; in the place of one that failed, its error."""
    found: Figures = {}
    for name, call in calls.items():
        try:
            found[name] = call()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
    return found


# In this order; what another library can be timed at as well is so where it is installed.
ALONE = {"environment": environment, "smoke": smoke}
BESIDE = {
    "host": host,
    "bandwidths": bandwidths,
    "products": products,
    "training": training,
    "graphs": graphed,
}


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--json", default="gpu.json")
    ask.add_argument("--seconds", type=float, default=540, help="no part begins later")
    ask.add_argument("--small", action="store_true", help="sizes to try this out with")
    given = ask.parse_args()
    begun, figures = time.monotonic(), {}
    beside = BESIDE | ({"bandwidths": lambda torch: bandwidths(torch, 1 << 12)} if given.small else {})
    libraries = {"nbgrad": nbgrad}
    if version("torch"):
        import torch

        libraries |= {"torch": torch} if torch.cuda.is_available() else {}
    work = {name: partial(part, nbgrad) for name, part in ALONE.items()}
    for name, part in beside.items():
        work |= {f"{name} of {library}": partial(part, torch) for library, torch in libraries.items()}
    work["table"] = partial(table, nbgrad)
    for name, part in work.items():
        if time.monotonic() - begun < given.seconds:
            start = time.monotonic()
            figures |= parts({name: part})
            figures[f"{name}, seconds"] = round(time.monotonic() - start, 1)
            Path(given.json).write_text(json.dumps(figures, indent=1, default=str), encoding="utf-8")
            print(name, json.dumps(figures[name], default=str), flush=True)


if __name__ == "__main__":
    main()
