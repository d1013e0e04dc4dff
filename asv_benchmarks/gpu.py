"""What a GPU does, in ten minutes: `python -m asv_benchmarks.gpu --json out.json [--seconds 540]`.

First whether it is right (a smoke test, the tests marked `gpu`, the case table, both tools of `compute-sanitizer`), and between them how
quick it is. Each part is a process of its own, since an error of a kernel ends all that uses the device, and has so many seconds: one that
fails or hangs is written down with what it said, and the next goes on. What failed stands under `failed`, and the exit status is then 1.
Times of the device are taken between marks in its queue, times of the host by the clock, each the least of several turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import nbgrad
from nbgrad import nn

Figures = dict[str, Any]
PACKAGES = (
    "numpy",
    "numba",
    "llvmlite",
    "numba-cuda",
    "cuda-core",
    "cuda-bindings",
    "nvidia-nvvm",
    "nvidia-cublas",
    "nvidia-cusolver",
    "torch",
)


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def environment(torch: Any) -> Figures:
    from nbgrad.kernels.cuda import probe
    from nbgrad.memory import backend

    found, driver = probe.found(), backend.of(torch.device("cuda", 0)).driver
    return {
        "device": repr(torch.cuda.get_device_properties()),
        "driver": None if found is None else found.version,
        "python": platform.python_version(),
        "libraries": {name: getattr(driver, name) is not None for name in ("blas", "solver")},
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
    off = (on.grad.cpu() - here.grad).abs().max().item()
    assert off < 1e-5, f"off by {off}"
    return {"off by": off}


def tests(torch: Any) -> Figures:
    """Those marked `gpu` but the table's and the tools', which stand below."""
    command = [
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
        "tests/cuda/test_gpu.py",
        "-k",
        "not table and not keep",
    ]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout[-4000:]
    return {"said": done.stdout.strip().splitlines()[-1]}


def table(torch: Any) -> Figures:
    """The tests' cases on the device, beside the CPU: how many are right, and what is said of the others."""
    from tests.cases import CASES

    names, many = [*CASES], min(os.cpu_count() or 1, 8)
    with ThreadPoolExecutor(many) as pool:
        shares = pool.map(cases, [names[k::many] for k in range(many)])
        found = {name: text for share in shares for name, text in share.items()}
    counts = {word: sum(text.startswith(word) for text in found.values()) for word in ("right", "none")}
    wrong = {name: text for name, text in found.items() if not text.startswith(("right", "none"))}
    assert not wrong, json.dumps({**counts, "wrong": wrong}, indent=1)
    return counts


def cases(names: Sequence[str]) -> dict[str, str]:
    """What is said of each. What ends the process, as an error of a kernel does, is left to the next one without the case that was last."""
    found: dict[str, str] = {}
    left = [*names]
    while left:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.cuda.on_device", "--order", "0", *left]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = [line.partition(" ") for line in done.stdout.splitlines()]
        said = [(name, text or "WRONG: the process ended") for name, _, text in said if name in left]
        found |= said
        for name, text in said:
            if text.startswith("WRONG"):
                print(name, text, flush=True)
        if not said:
            return found | dict.fromkeys(left, f"WRONG: {done.stderr[-1000:]}")
        left = left[left.index(said[-1][0]) + 1 :]
    return found


def sanitized(tool: str, torch: Any) -> Figures:
    """A case of each family under a tool that looks at each access."""
    from tests.cuda.test_emulated import FEW

    sanitizer = shutil.which("compute-sanitizer")
    assert sanitizer, "compute-sanitizer comes with CUDA's toolkit, and is not there"
    command = [
        sanitizer,
        "--tool",
        tool,
        "--error-exitcode",
        "9",
        sys.executable,
        "-m",
        "tests.cuda.on_device",
        "--order",
        "0",
        *FEW,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, (done.stdout + done.stderr)[-6000:]
    return {"cases": len(FEW)}


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


class Part(NamedTuple):
    """What it does, how many seconds it may take, and whether it also takes another library, where one is installed."""

    work: Callable[[Any], Figures]
    seconds: float
    beside: bool = False


# In this order: what is most worth knowing first.
PARTS = {
    "environment": Part(environment, 30),
    "smoke": Part(smoke, 60),
    "tests": Part(tests, 120),
    "host": Part(host, 60, True),
    "bandwidths": Part(bandwidths, 90, True),
    "training": Part(training, 90, True),
    "graphs": Part(graphed, 30, True),
    "products": Part(products, 60, True),
    "table": Part(table, 300),
    "memcheck": Part(partial(sanitized, "memcheck"), 120),
    "racecheck": Part(partial(sanitized, "racecheck"), 120),
}


def in_this_process(name: str, library: str, small: bool) -> None:
    """A part, whose figures are the last line."""
    work = PARTS[name].work
    if small and name == "bandwidths":
        work = partial(bandwidths, n=1 << 12)
    torch = nbgrad if library == "nbgrad" else importlib.import_module(library)
    usable = torch is nbgrad or torch.cuda.is_available()
    figures = work(torch) if usable else {"none": "it finds no GPU"}
    print(f"\n{json.dumps(figures, default=str)}", flush=True)


def by_itself(name: str, library: str, small: bool, seconds: float) -> Figures:
    """The figures of a part, or what it said before its end; all that it started ends with it."""
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        __spec__.name,
        "--part",
        name,
        "--library",
        library,
    ]
    process = subprocess.Popen(
        [*command, *["--small"] * small],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return {"failed": f"no end after {seconds:.0f} s\n{out[-4000:]}{err[-3000:]}"}
    if process.returncode:
        return {"failed": f"exit status {process.returncode}\n{out[-1000:]}{err[-6000:]}"}
    for line in reversed(out.splitlines()):  # libraries may have had a word at their end
        with suppress(ValueError):
            figures = json.loads(line)
            if isinstance(figures, dict):
                return figures
    return {"failed": f"it ended without figures\n{out[-1000:]}{err[-3000:]}"}


def refused(figures: Any) -> bool:
    """Whether a part, or a figure of it, is an error."""
    return "failed" in figures or any(isinstance(f, str) and "Error: " in f for f in figures.values())


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--json", default="gpu.json")
    ask.add_argument("--seconds", type=float, default=540, help="of all parts together")
    ask.add_argument("--small", action="store_true", help="sizes to try this out with")
    ask.add_argument("--only", nargs="*", choices=PARTS, default=[*PARTS])
    ask.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    ask.add_argument("--library", default="nbgrad", help=argparse.SUPPRESS)
    given = ask.parse_args()
    if given.part:
        in_this_process(given.part, given.library, given.small)
        return 0
    until, figures = time.monotonic() + given.seconds, Figures()
    figures["failed"] = []
    libraries = ["nbgrad", *["torch"] * bool(version("torch"))]
    for name, part in [(name, PARTS[name]) for name in PARTS if name in given.only]:
        for library in libraries if part.beside else libraries[:1]:
            title = f"{name} of {library}" if part.beside else name
            start = time.monotonic()
            if start < until:
                found = by_itself(name, library, given.small, min(part.seconds, until - start))
            else:
                found = {"failed": "no time was left"}
            figures |= {title: found, f"{title}, seconds": round(time.monotonic() - start, 1)}
            if refused(found):
                figures["failed"].append(title)
            Path(given.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")
            print(title, json.dumps(found), flush=True)
    print("failed:", ", ".join(figures["failed"]) or "nothing", flush=True)
    return bool(figures["failed"])


if __name__ == "__main__":
    sys.exit(main())
