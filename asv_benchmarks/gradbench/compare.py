"""`python -m asv_benchmarks.gradbench.compare [names [threads]]` prints what a gradient of loops costs beside PyTorch's and, where it is
installed, jax's of the same program, in one process: they are run in turn, and the least time of each counts. jax has no setting for
threads and takes as many as there are cores, so two threads beside it are of a machine with two (or under `taskset -c 0,1`).
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import nbgrad
from asv_benchmarks.gradbench import tensors
from asv_benchmarks.gradbench.loops import EVALS, Eval, small
from asv_benchmarks.gradbench.programs import LOOPS, ba_jacobian, made
from nbgrad import differentiable


def evals(name: str) -> list[Eval]:
    return [e for e in EVALS if e.function.__name__ == name]


def on_a_tape(m: Any, name: str, size: str) -> Callable[[], Any]:
    """The gradient by `m`'s tape, of the inputs that the loops are measured with."""
    e = evals(name)[0]
    args = small(e) if size == "small" else e.args(np.random.default_rng(0), e.size)
    return tape(m, e, args)


def wanted(e: Eval, args: tuple[Any, ...]) -> list[int]:
    """Which of the arguments gradients are of."""
    names = differentiable(e.function).names
    return [k for k, n in enumerate(names) if (n in e.wrt if e.wrt else isinstance(args[k], np.ndarray))]


def tape(m: Any, e: Eval, args: tuple[Any, ...]) -> Callable[[], Any]:
    f = getattr(tensors, e.function.__name__)
    given = [m.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    wrt = wanted(e, args)
    for k in wrt:
        given[k] = given[k].clone().requires_grad_()

    def gradient() -> Any:
        y = f(m, *given)
        return m.autograd.grad(y if y.ndim == 0 else y[-1], [given[k] for k in wrt])

    return gradient


def of_loops(e: Eval, args: tuple[Any, ...]) -> Callable[[], Any]:
    f = made(e.function)
    text, first = f._make("adjoint", f._kinds(args), e.wrt).fresh

    def gradient() -> Any:
        bars = [
            (np.empty_like if n in first else np.zeros_like)(a)
            for n, a in zip(f.names, args)
            if n in text.bars
        ]
        text(*args, *bars, 1.0)
        return bars

    return gradient


def least(calls: list[Callable[[], Any]], seconds: float = 3.0) -> list[float]:
    """The least wall time of each, in turn."""
    found = [float("inf")] * len(calls)
    for call in calls:
        call()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for k, call in enumerate(calls):
            began = time.perf_counter()
            call()
            found[k] = min(found[k], time.perf_counter() - began)
    return found


def said(what: str, size: Any, ours: float, **peers: float) -> None:
    beside = ", ".join(f"{n} {t * 1e3:.4g} ms (ours is {ours / t:.3g} of it)" for n, t in peers.items())
    print(f"{what:14} {size!s:18} ours {ours * 1e3:.4g} ms, {beside}", flush=True)


def main() -> None:
    picked = sys.argv[1].split(",") if len(sys.argv) > 1 else []
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    nbgrad.set_num_threads(threads)
    in_jax: Any = None
    if find_spec("jax"):
        in_jax = importlib.import_module("asv_benchmarks.gradbench.in_jax")
    else:
        print("jax is not installed")
    r = np.random.default_rng(0)
    for e in EVALS:
        name = e.function.__name__
        if (picked and name not in picked) or not hasattr(tensors, name):
            continue
        args = e.args(r, e.size)
        calls = {"ours": of_loops(e, args), "torch": tape(torch, e, args)}
        if hasattr(in_jax, name):
            calls["jax"] = in_jax.gradient(getattr(in_jax, name), args, wanted(e, args))
        ours = calls["ours"]()
        for call in calls.values():
            for a, b in zip(ours, call()):
                np.testing.assert_allclose(a, np.asarray(b), rtol=1e-7, atol=1e-9 * np.abs(a).max())
        said(name, e.size, **dict(zip(calls, least([*calls.values()]))))
    if not picked or "ba_jacobian" in picked:
        e = evals("ba")[0]
        args = e.args(r, e.size)
        given = [torch.from_numpy(a) for a in args]
        mine, torchs = least([lambda: ba_jacobian(*args), lambda: tensors.ba_jacobian(torch, *given)])
        cameras, points, weights, seen, features = given
        few = 50

        def one_by_one() -> Any:
            """As GradBench's own tool for PyTorch goes: an observation after another."""
            for k in range(few):
                part = slice(k, k + 1)
                tensors.ba_jacobian(torch, cameras, points, weights[part], seen[part], features[part])

        (each,) = least([one_by_one])
        said("ba_jacobian", e.size, mine, torch=torchs, one_by_one=each / few * len(weights))
    for name, start, given in (
        ("particle", {"w": 0.0}, lambda: torch.tensor(0.0, dtype=torch.float64)),
        ("saddle", {"start": [8.0, 5.0]}, lambda: torch.tensor([8.0, 5.0], dtype=torch.float64)),
    ):
        if not picked or name in picked:
            asked = LOOPS[name]["rr"]
            ready = asked.prepare(start)
            (mine,) = least([lambda: asked.run(*ready)], 1.0)  # noqa: B023
            began = time.perf_counter()
            found = getattr(tensors, name)(torch, given())
            took = time.perf_counter() - began
            np.testing.assert_allclose(asked.run(*ready), found.detach().numpy(), rtol=1e-8)
            said(name, "rr", mine, torch=took)


if __name__ == "__main__":
    main()
