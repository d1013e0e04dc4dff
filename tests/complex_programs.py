"""Random programs of complex and real tensors beside torch: values, gradients and gradients of those, strided, broadcast and empty.

`python -m tests.complex_programs --first 0 --count 500` runs many by hand; a program comes from its number alone.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from typing import Any

import numpy as np

UNARY = (
    *("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "atan", "reciprocal", "rsqrt"),
    *("abs", "conj", "sgn", "neg", "square", "real", "angle", "sigmoid", "log1p", "expm1"),
)
BINARY = ("add", "sub", "mul", "div")
SHAPES = ((3, 4), (4,), (3, 1), (), (1, 4), (2, 3, 4), (0, 4))
# What PyTorch's own rules refuse of gradients, and of parts of a conjugate that waits.
REFUSED_THERE = ("isFloatingType(grad.scalar_type())", "unresolved conjugated tensors")
NUMBERS = ("x * 2", "x * 1j", "x + 1j", "x - 2.5", "x / (1 + 2j)", "x * (0.5 - 1j)", "2j - x", "x**2")
POWERS = (0, 1, 2, 3, -1, 0.5, 1.5, 1j, 2 - 1j)
Step = tuple[str, list[int], Any]
Step_of = Callable[[Any, Any, Any], Any]


def _written(L: Any, x: Any, how: Any) -> Any:
    y = x * 1
    if y.dtype.is_complex:
        y.real.mul_(2)
        L.view_as_real(y)[..., 1].add_(y.real)
    return y


def _of_itself(L: Any, x: Any, how: Any) -> Any:
    y = x.clone()
    y *= x
    y += 1
    return y


OTHERS: dict[str, Step_of] = {
    "number": lambda L, x, how: eval(how, {"x": x}),
    "pow": lambda L, x, how: x**how,
    "sum": lambda L, x, how: x.sum(how) if x.ndim > how else x.sum(),
    "mean": lambda L, x, how: x.mean(),
    "prod": lambda L, x, how: x.prod(),
    "cumsum": lambda L, x, how: x.cumsum(-1) if x.ndim else x,
    "part": lambda L, x, how: x[..., ::2] if x.ndim else x,
    "gather": lambda L, x, how: x.reshape(-1)[L.tensor([0, 0])] if x.numel() else x,
    "in place": _of_itself,
    "through parts": _written,
    "imag": lambda L, x, how: x.imag if x.dtype.is_complex else x,
    "pairs": lambda L, x, how: L.view_as_real(x) if x.dtype.is_complex else x,
    "made": lambda L, x, how: L.complex(x.real * 1, x.real * 2),
    "stack": lambda L, x, how: L.stack([x, x * 2]),
}
OF_TWO: dict[str, Step_of] = {
    "where": lambda L, x, y: L.where(x.real > 0.1, x, y),
    "cat": lambda L, x, y: L.cat([x.reshape(-1), y.reshape(-1)]),
    "product": lambda L, x, y: (x.unsqueeze(-1) * y.unsqueeze(-1)).mT @ (x.unsqueeze(-1) * y.unsqueeze(-1)),
}


class Program:
    def __init__(self, number: int) -> None:
        rng, draw = random.Random(number), np.random.RandomState(number)
        base, self.wide = rng.choice(SHAPES), rng.random() < 0.7
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.lies = []
        for _ in range(rng.randint(1, 3)):
            shape = base if rng.random() < 0.6 else rng.choice(SHAPES)
            kind = ("c16" if self.wide else "c8") if rng.random() < 0.7 else "f8" if self.wide else "f4"
            array = draw.uniform(-1.5, 1.5, shape) + (
                1j * draw.uniform(-1.5, 1.5, shape) if kind[0] == "c" else 0
            )
            self.arrays.append(np.asarray(array, kind))
            self.lies.append(rng.choice(("dense", "turned", "apart")))
        self.steps: list[Step] = []
        for k in range(rng.randint(1, 5)):
            there = len(self.arrays) + k
            name = rng.choice((*UNARY, *BINARY * 3, *OTHERS, *OF_TWO, "number", "number"))
            how = {"number": NUMBERS, "pow": POWERS, "sum": (0, 1)}.get(name)
            self.steps.append(
                (
                    name,
                    [rng.randrange(there) for _ in range(1 + (name in BINARY or name in OF_TWO))],
                    rng.choice(how) if how else None,
                )
            )

    def leaf(self, L: Any, k: int) -> Any:
        t = L.from_numpy(self.arrays[k].copy())
        if self.lies[k] == "turned" and t.ndim >= 2:
            t = t.mT.contiguous().mT
        if self.lies[k] == "apart" and t.ndim:
            t = L.stack([t, t], -1)[..., 0]
        return t.requires_grad_()

    def run(self, L: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """What the steps give, the gradients of its squares, and those of the squares of the gradients."""
        leaves = [self.leaf(L, k) for k in range(len(self.arrays))]
        values = list(leaves)
        for name, at, how in self.steps:
            x, *y = [values[k] for k in at]
            if name in OTHERS:
                values.append(OTHERS[name](L, x, how))
            elif name in OF_TWO:
                values.append(OF_TWO[name](L, x, y[0]))
            else:
                values.append(getattr(L, name)(x, *y))

        def squares(found: list[Any]) -> Any:
            return sum((x.abs() ** 2).sum() for x in found if x is not None)

        made = values[len(leaves) :]
        first = L.autograd.grad(squares(made), leaves, create_graph=True, allow_unused=True)
        try:
            second = L.autograd.grad(squares(first), leaves, allow_unused=True)
        except RuntimeError:  # nothing of the first order depends on the leaves
            second = [None] * len(leaves)
        return made, list(first), list(second)


def array(t: Any) -> Any:
    return None if t is None else t.numpy(force=True)


def differ(x: Any, y: Any, bound: float) -> bool:
    """Whether two arrays do; where one is not there, the other is zero."""
    if x is None or y is None:
        other = y if x is None else x
        return other is not None and bool(np.any(other))
    if x.shape != y.shape or x.dtype != y.dtype:
        return True
    if not np.isfinite(x).all():  # a singular point
        return False
    scale = max(1.0, np.abs(x).max(initial=0.0))
    return not np.allclose(x / scale, y / scale, rtol=bound, atol=bound)


def compare(number: int) -> str:
    """What differs of a program, in words; nothing where all agrees, and where PyTorch itself refuses it."""
    import torch

    import nbgrad

    program = Program(number)
    try:
        want = program.run(torch)
    except (
        RuntimeError
    ) as error:  # of sizes, which both refuse, and of gradients that its own rules do not take
        told = str(error)
        try:
            program.run(nbgrad)
        except RuntimeError:
            return ""
        return "" if any(words in told for words in REFUSED_THERE) else f"refused by PyTorch alone: {told}"
    got = program.run(nbgrad)
    for order, (there, here) in enumerate(zip(want, got)):
        bound = (1e-9, 1e-7, 1e-5)[order] if program.wide else 3e-3 * 10**order
        for k, (x, y) in enumerate(zip(there, here)):
            if differ(array(x), array(y), bound):
                return f"order {order}, number {k}: {array(x)} there, {array(y)} here; {program.steps}, {program.lies}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    asked = parser.parse_args()
    found = {n: told for n in range(asked.first, asked.first + asked.count) if (told := compare(n))}
    for number, told in found.items():
        print(f"{number}: {told}")
    print(f"{asked.count} programs, {len(found)} differ")
    return len(found)


if __name__ == "__main__":
    raise SystemExit(main())
