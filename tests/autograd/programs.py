"""Random programs: arithmetic, views and in-place writes on a pool of small float64 tensors, the same for any module.

What a program did is a list: what each step gave (or refused), the values, histories and versions of the pool, and gradients of the
first and second order.
"""

import argparse
import functools
import random
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

SHAPES = [(2, 3), (3,), (3, 2)]


def _index(u: float, n: int) -> int:
    return int(u * n)


# Each step: the module, a tensor, another of its shape, a number in [0, 1) -> a new tensor, or None after a write.
STEPS: dict[str, Callable[..., Any]] = {
    "add": lambda T, x, y, w: x + y,
    "sub": lambda T, x, y, w: x - y * 0.5,
    "mul": lambda T, x, y, w: x * y,
    "div": lambda T, x, y, w: x / (y * y + 1),
    "scale": lambda T, x, y, w: x * (w + 0.5),
    "exp": lambda T, x, y, w: (x * 0.3).exp(),
    "sin": lambda T, x, y, w: x.sin(),
    "tanh": lambda T, x, y, w: x.tanh(),
    "relu": lambda T, x, y, w: x.relu(),
    "maximum": lambda T, x, y, w: T.maximum(x, y * 0.9),
    "where": lambda T, x, y, w: T.where(x > 0, x, y * 2),
    "detached": lambda T, x, y, w: x * y.detach(),
    "sum": lambda T, x, y, w: x.sum(0) if x.dim() else x.sum(),
    "mean": lambda T, x, y, w: x.mean(),
    "matmul": lambda T, x, y, w: x @ y.t() if x.dim() == 2 else x @ y if x.dim() == 1 else x * 1,
    "join": lambda T, x, y, w: T.cat([x, y]) if x.dim() else T.stack([x, y]),
    "index": lambda T, x, y, w: x[[0, 0, -1]] if x.dim() else x * 1,
    "clone": lambda T, x, y, w: x.clone(),
    "contiguous": lambda T, x, y, w: x.contiguous(),
    "view": lambda T, x, y, w: x.view(-1),
    "reshape": lambda T, x, y, w: x.reshape(-1),
    "slice": lambda T, x, y, w: x[1:] if x.dim() and x.shape[0] > 1 else x * 1,
    "narrow": lambda T, x, y, w: x.narrow(x.dim() - 1, 0, max(1, x.shape[-1] - 1)) if x.dim() else x * 1,
    "select": lambda T, x, y, w: x[_index(w, x.shape[0])] if x.dim() else x * 1,
    "diagonal": lambda T, x, y, w: x.diagonal() if x.dim() == 2 else x * 1,
    "transpose": lambda T, x, y, w: x.t() if x.dim() == 2 else x * 1,
    "expand": lambda T, x, y, w: x.unsqueeze(0).expand(2, *x.shape) if x.dim() < 3 else x * 1,
    "unsqueeze": lambda T, x, y, w: x.unsqueeze(-1) if x.dim() < 3 else x * 1,
    "split": lambda T, x, y, w: x.split(1)[0] + x.split(1)[1] if x.dim() and x.shape[0] > 1 else x * 1,
    "add_": lambda T, x, y, w: _wrote(x.add_(y)),
    "mul_": lambda T, x, y, w: _wrote(x.mul_(y)),
    "scale_": lambda T, x, y, w: _wrote(x.mul_(w + 0.5)),
    "exp_": lambda T, x, y, w: _wrote(x.mul_(0.2).exp_()),
    "sin_": lambda T, x, y, w: _wrote(x.sin_()),
    "tanh_": lambda T, x, y, w: _wrote(x.tanh_()),
    "copy_": lambda T, x, y, w: _wrote(x.copy_(y)),
    "fill_": lambda T, x, y, w: _wrote(x.fill_(w)),
    "zero_": lambda T, x, y, w: _wrote(x.zero_()),
    "set slice": lambda T, x, y, w: (
        x.__setitem__(slice(0, 1), y[:1] * 2) if x.dim() and x.shape[0] > 1 else None
    ),
    "set index": lambda T, x, y, w: x.__setitem__(_index(w, x.shape[0]), w) if x.dim() else None,
    "no_grad": lambda T, x, y, w: _without_grad(T, x),
    "detach": lambda T, x, y, w: x.detach(),
    "data": lambda T, x, y, w: _wrote(x.data.mul_(0.5)),
    "require": lambda T, x, y, w: x.detach().requires_grad_(),
    "view in no_grad": lambda T, x, y, w: _view_without_grad(T, x),
    "unbind, write": lambda T, x, y, w: _wrote(x.unbind()[0].mul_(2)) if x.dim() else None,
    "split, write": lambda T, x, y, w: _wrote(x.split(1)[-1].add_(w)) if x.dim() else None,
    "chunk": lambda T, x, y, w: x.chunk(2)[-1] if x.dim() else x * 1,
    "two views, write": lambda T, x, y, w: _wrote(x[:1][0].mul_(w)) if x.dim() else None,
    "copy row": lambda T, x, y, w: _wrote(x[0].copy_(y[-1])) if x.dim() else None,
    "copy part": lambda T, x, y, w: _wrote(x[1:].copy_(x[:-1])) if x.dim() and x.is_contiguous() else None,
    "masked_fill_": lambda T, x, y, w: _wrote(x.masked_fill_(y > 0, w) if x.is_contiguous() else x),
    "set rows": lambda T, x, y, w: x.__setitem__([0, -1], w) if x.dim() and x.is_contiguous() else None,
    "permute": lambda T, x, y, w: x.permute(tuple(reversed(range(x.dim())))),
    "squeeze": lambda T, x, y, w: x.squeeze(),
    "as_strided": lambda T, x, y, w: x.as_strided((2,), (1,), 1) if x.numel() > 3 else x * 1,
    "max": lambda T, x, y, w: x.max(0).values if x.dim() else x.max(),
    "hook": lambda T, x, y, w: _hooked(x, lambda g: g * (w + 0.5)),
    "hook that looks": lambda T, x, y, w: _hooked(x, lambda g: None),
    "retain": lambda T, x, y, w: x.retain_grad() if x.requires_grad else None,
    "function": lambda T, x, y, w: _functions(T)[0].apply(x, y),
    "function, in place": lambda T, x, y, w: _wrote(_functions(T)[1].apply(x)),
    "function, view": lambda T, x, y, w: _functions(T)[2].apply(x),
}


def _hooked(x: Any, hook: Callable[[Any], Any]) -> None:
    """Of no view: a second hook on one whose base was written to since crashes torch 2.13."""
    if x.requires_grad and not x._is_view():
        x.register_hook(hook)


def _view_without_grad(T: ModuleType, x: Any) -> Any:
    with T.no_grad():
        return x[:1] if x.dim() else x.view(1)


@functools.cache
def _functions(T: ModuleType) -> Any:
    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            y = a * b
            ctx.save_for_backward(a, b, y)
            return y

        @staticmethod
        def backward(ctx, g):
            a, b, y = ctx.saved_tensors
            return g * b + 0 * y, g * a

    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            return a.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Same(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a.view_as(a)

        @staticmethod
        def backward(ctx, g):
            return g * 3

    return Product, Double, Same


def _wrote(_: Any) -> None:
    return None


def _without_grad(T: ModuleType, x: Any) -> None:
    with T.no_grad():
        x.mul_(0.9)


def play(T: ModuleType, seed: int, second: bool) -> list[Any]:
    r, rng = random.Random(seed), np.random.default_rng(seed)
    leaves = [T.tensor(rng.uniform(-1, 1, s).tolist(), dtype=T.float64, requires_grad=True) for s in SHAPES]
    pool = [t * 1.0 for t in leaves]
    done: list[Any] = []
    for _ in range(r.randint(3, 14)):
        step, u, v, w = r.choice(list(STEPS)), r.random(), r.random(), r.random()
        x = pool[_index(u, len(pool))]
        alike = [t for t in pool if t.shape == x.shape]
        try:
            made = STEPS[step](T, x, alike[_index(v, len(alike))], w)
            done.append(step)
            if made is not None and made.numel() <= 64:
                pool.append(made)
        except RuntimeError as error:
            done.append(f"{step}: {error}")
    try:
        done.append([(_values(t), "" if t.grad_fn is None else t.grad_fn.name(), t._version) for t in pool])
        total = sum(
            ((t * t).sum() if second else t.sum() for t in pool[-4:]), start=T.zeros((), dtype=T.float64)
        )
        grads = T.autograd.grad(total, leaves, create_graph=second, allow_unused=True)
        done.append([_values(g) for g in grads])
        done.append([_values(t.grad) for t in pool if t.retains_grad])
        again = [(g * g).sum() for g in grads if g is not None and g.requires_grad]
        if again:
            done.append([_values(g) for g in T.autograd.grad(sum(again), leaves, allow_unused=True)])
    except RuntimeError as error:
        done.append(str(error))
    return done


def _values(t: Any) -> list[float] | None:
    return None if t is None else t.detach().numpy().reshape(-1).tolist()


def agree(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(agree, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-10 * max(1.0, abs(a)) or (a != a and b != b)
    return bool(a == b)


def differing(first: int, last: int, T: ModuleType, torch: ModuleType) -> list[str]:
    """The programs of these seeds, of the first and of the second order, that do not do the same in both."""
    found = []
    for seed in range(first, last):
        for second in (False, True):
            got, want = play(T, seed, second), play(torch, seed, second)
            if not agree(got, want):
                pairs = [(g, w) for g, w in zip(got, want, strict=False) if not agree(g, w)]
                found.append(f"seed {seed}{', second order' * second}: {pairs[:1]}")
    return found


if __name__ == "__main__":  # python -m tests.autograd.programs --seeds 10000
    import torch

    import nbgrad

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10000)
    asked = parser.parse_args()
    found = differing(asked.first, asked.first + asked.seeds, nbgrad, torch)
    sys.stdout.write("\n".join([*found, f"{2 * asked.seeds} programs, {len(found)} differ"]) + "\n")
    sys.exit(bool(found))
