"""Compiled training steps beside other compilers, in one process: `python -m asv_benchmarks.peers [--only NAME,..] [--json FILE]`.

Of each step: as nbgrad runs it, as `nbgrad.compile` does it, in PyTorch, by `torch.compile` and `jax.jit` where these are installed.
All get one thread, and the figure is the least time on the processor, of all threads of the process: so it stands also where others
work on the machine. They take turns, so that ratios hold. With `--threads K` all get K, and the figure is the least time on the clock,
which says something on a quiet machine only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

Step = Callable[[], Any]


def give(threads: int) -> None:
    """So many threads for every library: they read this as they are imported, which is later."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(threads)
    if threads == 1:
        os.environ["XLA_FLAGS"] = (
            "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=1"
        )


def by_jax(name: str) -> Step | None:
    """The same step as jax would have it written, where that is short."""
    import jax
    import jax.numpy as jnp

    from asv_benchmarks.benchmarks.steps import _classes, _noise, _one, _zero

    def of(loss: Callable[..., Any], *given: Any) -> Step:
        made = jax.jit(jax.value_and_grad(loss, argnums=tuple(range(len(given)))))
        held = [jnp.asarray(a) for a in given]
        return lambda: jax.block_until_ready(made(*held))

    def entropy(x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    if name == "tiny":
        return of(lambda x, w, b: jnp.tanh(x * w + b).sum(), _one(4), _one(4), _one(4))
    if name == "scalar_chain":

        def chained(x: Any) -> Any:
            for _ in range(50):
                x = x * 1.01 + 0.1
            return x

        return of(chained, jnp.float32(0.5))
    if name == "hvp":
        v = jnp.asarray(_noise(100, seed=1))
        gradient = jax.grad(lambda x: (jnp.tanh(x) * jnp.exp(-x * x) + x**3).sum())
        both = jax.jit(jax.grad(lambda x: (gradient(x) * v).sum()))
        x = jnp.asarray(_noise(100))
        return lambda: jax.block_until_ready(both(x))
    if name == "gmm":
        points = jnp.asarray(_noise(1000, 10))

        def mixture(a: Any, m: Any, s: Any) -> Any:
            z = (points[:, None, :] - m) * jnp.exp(s)
            main = a + s.sum(1) - 0.5 * (z * z).sum(2)
            return jax.nn.logsumexp(main, 1).sum() - 1000 * jax.nn.logsumexp(a, 0)

        return of(mixture, _noise(25), _noise(25, 10, seed=1), _noise(25, 10, scale=0.1, seed=2))
    if name == "chain":
        f = lambda x: (x * jax.nn.sigmoid(x) + jnp.tanh(x) * jnp.exp(-x * x)).sum()  # noqa: E731
        return of(f, _noise(1 << 20))
    if name == "gelu_ln":

        def normed(x: Any, g: Any, b: Any) -> Any:
            m = x.mean(-1, keepdims=True)
            u = (x - m) * jax.lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)
            return jax.nn.gelu(u * g + b, approximate=False).sum()

        return of(normed, _noise(2048, 512), _one(512), _zero(512))
    if name == "softmax_ce":
        y = jnp.asarray(_classes(1000, 4096))
        return of(lambda x: entropy(x, y), _noise(4096, 1000))
    if name == "logreg":
        X, t = jnp.asarray(_noise(200_000, 64)), jnp.asarray(_classes(2, 200_000).astype("f4"))

        def logistic(w: Any) -> Any:
            z = X @ w
            return ((1 - t) * z - jax.nn.log_sigmoid(z)).mean()

        return of(logistic, _noise(64, scale=0.1))
    if name == "embed":
        at, u = jnp.asarray(_classes(10_000, 8192)), jnp.asarray(_noise(8192, 64))
        return of(lambda table: ((table[at] - u) ** 2).mean(), _noise(10_000, 64))
    if name in ("mlp_small", "mlp_large"):
        batch, *sizes = (32, 64, 64, 10) if name == "mlp_small" else (256, 784, 512, 512, 10)
        pairs = list(pairwise(sizes))
        x, y = jnp.asarray(_noise(batch, sizes[0])), jnp.asarray(_classes(sizes[-1], batch))

        def network(p: Any) -> Any:
            h = x
            for k, (w, b) in enumerate(p):
                h = (jax.nn.relu(h) if k else h) @ w.T + b
            return entropy(h, y)

        def adam(state: Any) -> Any:
            p, m, v, count = state
            loss, g = jax.value_and_grad(network)(p)
            count = count + 1
            m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
            v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
            one, two = 1 - 0.9**count, 1 - 0.999**count
            move = lambda q, a, b: q - 1e-6 * (a / one) / (jnp.sqrt(b / two) + 1e-8)  # noqa: E731
            return (jax.tree.map(move, p, m, v), m, v, count), loss

        p = [(jnp.asarray(_noise(o, i, scale=i**-0.5)), jnp.asarray(_zero(o))) for i, o in pairs]
        zero = jax.tree.map(jnp.zeros_like, p)
        update = jax.jit(adam, donate_argnums=0)
        state = [(p, zero, jax.tree.map(jnp.zeros_like, p), jnp.float32(0))]

        def step() -> Any:
            state[0], loss = update(state[0])
            return loss.block_until_ready()

        return step
    if name == "lstm":
        x = jnp.asarray(_noise(64, 16, 64))

        def cell(w: Any, u: Any, b: Any) -> Any:
            h = c = jnp.zeros((16, 64), jnp.float32)
            for k in range(64):
                i, f, g, o = jnp.split(x[k] @ w.T + b + h @ u.T, 4, 1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h * h).mean()

        return of(cell, _noise(256, 64, scale=0.1), _noise(256, 64, scale=0.1, seed=1), _zero(256))
    return None


def steps(name: str, libs: list[str], threads: int) -> tuple[dict[str, Step], dict[str, str], Any]:
    """The step in each library, made ready; why others are missing; and what `nbgrad.compile` made."""
    import nbgrad
    from asv_benchmarks.benchmarks.steps import STEPS

    nbgrad.set_num_threads(threads)
    eager = STEPS[name](nbgrad)
    made = nbgrad.compile(STEPS[name](nbgrad))
    found: dict[str, Step] = {"eager": eager, "compiled": made}
    missing: dict[str, str] = {}
    if "torch" in libs:
        import torch

        torch.set_num_threads(threads)
        found["torch"] = STEPS[name](torch)
        if "torch.compile" in libs:
            found["torch.compile"] = torch.compile(STEPS[name](torch))
    if "jax" in libs and (other := by_jax(name)) is not None:
        found["jax.jit"] = other
    for lib, step in list(found.items()):
        try:
            for _ in range(7):
                step()
        except Exception as error:
            missing[lib] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
            del found[lib]
    return found, missing, made


def least(
    found: dict[str, Step], rounds: int, seconds: float, clock: Callable[[], float]
) -> dict[str, float]:
    """Microseconds of each, the least of the rounds; a round is as many steps as take a while."""
    counts, best = {}, dict.fromkeys(found, math.inf)
    for name, step in found.items():
        start = clock()
        step()
        counts[name] = max(1, int(seconds / max(clock() - start, 1e-6)))
    for _ in range(rounds):
        for name, step in found.items():
            start = clock()
            for _ in range(counts[name]):
                step()
            best[name] = min(best[name], (clock() - start) / counts[name] * 1e6)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--libs", default="torch,torch.compile,jax")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.02)
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    give(args.threads)
    from asv_benchmarks.benchmarks.steps import BARS, STEPS

    clock, unit = (
        (time.process_time, "processor time")
        if args.threads == 1
        else (time.perf_counter, f"{args.threads} threads' time")
    )
    warnings.simplefilter("ignore")
    libs = [lib for lib in args.libs.split(",") if find_spec(lib.split(".")[0])]
    ratios, kept = [], {}
    print(f"{f'us of {unit} a step':27s} {'eager':>9s} {'compiled':>9s}  others")
    for name in args.only.split(",") if args.only else STEPS:
        found, missing, made = steps(name, libs, args.threads)
        best = least(found, args.rounds, args.seconds, clock)
        told = made.explain()
        others = {lib: us for lib, us in best.items() if lib not in ("eager", "compiled")}
        text = "  ".join([f"{lib} {us:.4g}" for lib, us in others.items()])
        text += "".join([f"  {lib}: {why}" for lib, why in missing.items()])
        launches = told.lines[0].partition(": ")[2].partition(",")[0]
        if others:
            ratios.append(best["compiled"] / min(others.values()))
            text += f"  | {ratios[-1]:.2f} of the best, asked for {BARS[name]}"
        print(f"{name:27s} {best['eager']:9.4g} {best['compiled']:9.4g}  {text}  | {launches}", flush=True)
        kept[name] = best
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean, of {len(ratios)}: {mean:.2f}; asked for 0.5")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(kept, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
