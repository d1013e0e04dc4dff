"""Random functions whose results are gone back through from outside: `python -m tests.compiled.histories --programs 300`.

A function takes a leaf and a tensor with a history, reads weights, and returns some of what it makes. It is called again and again, each
time with other values; now and then without recording, through some of its results only, twice, or with a weight that was written to in
between. Results, gradients, counts of writes, errors and the stream of random numbers have the same bits as those of eager calls.
"""

from __future__ import annotations

import argparse
import random
import warnings
from typing import Any

import nbgrad as T

CALLS = 9
FORMS = """
{a} + {b}
{a} * {b}
{a} - 0.5 * {b}
{a} @ w
F.linear({a}, w, b)
{a}.tanh()
{a}.exp().clamp(max=3)
{a}.relu()
F.gelu({a})
{a}.softmax(1)
F.layer_norm({a}, (4,), c, b)
{a}.t().contiguous().t()
{a}.t().reshape(3, 4)
{a}[:, [1, 0, 3, 2]]
T.where({a} > 0, {a}, {b})
T.cat([{a}[:1], {b}[1:]])
F.dropout({a}, 0.3)
{a} + T.rand(3, 4)
{a}.detach() * {b}
{a}.clone().mul_({b})
({a} + 0).add_(b).sigmoid_()
{a} * {b}.sum(1, keepdim=True)
{a}.cumsum(0)
{a}.index_add(0, i, {b})
{a}.expand(2, 3, 4).mean(0)
{a}.max(1, keepdim=True).values + {b}
{a} + T.tensor([1.0, 2.0, 3.0, 4.0])
F.conv1d({a}.reshape(1, 3, 4), k, padding=1).reshape(3, 4)
""".strip().splitlines()


def program(seed: int) -> str:
    """The function's text."""
    r = random.Random(seed)
    pool, lines = ["x", "h"], []
    for k in range(r.randint(1, 7)):
        form = r.choice(FORMS).format(a=r.choice(pool), b=r.choice(pool))
        lines.append(f"t{k} = {form}")
        pool.append(f"t{k}")
    count = r.randint(1, 3)
    results = r.sample(pool[2:], min(count, len(pool) - 2))
    results += [f"{r.choice(pool)}.{r.choice(('sum()', 'detach()', 't()', 'mean(0)'))}"] * (r.random() < 0.4)
    return "\n    ".join([*lines, f"return [{', '.join(results)}]"])


def made(seed: int) -> tuple[Any, dict[str, Any]]:
    T.manual_seed(seed)
    scope: dict[str, Any] = {"T": T, "F": T.nn.functional, "__name__": "program", "i": T.tensor([2, 0, 1])}
    for name, shape in (("w", (4, 4)), ("b", (4,)), ("c", (4,)), ("k", (3, 3, 3))):
        scope[name] = T.randn(shape).requires_grad_()
    text = program(seed)
    exec(compile(f"def program(x, h):\n    {text}\n", f"<program {seed}>", "exec"), scope)
    return scope["program"], scope


def seen(f: Any, scope: dict[str, Any], seed: int, call: int) -> list[Any]:
    """One call, and what it leaves behind."""
    r = random.Random(f"{seed} {call}")
    T.manual_seed(1000 * seed + call)
    x, start = T.randn(3, 4).requires_grad_(), T.randn(3, 4).requires_grad_()
    h = start.sin()
    told: list[Any] = []
    weights = [scope[n] for n in "wbck"]
    try:
        if r.random() < 0.15:
            with T.no_grad():
                results = f(x, h)
        else:
            results = f(x, h)
        told += [
            (t.shape, t.stride(), t.requires_grad, t.is_leaf, t.detach().clone().numpy().tobytes())
            for t in results
        ]
        writes = (
            r.random() < 0.15
        )  # then through all results: who goes through some may read less than the one node does
        chosen = [t for t in results if t.requires_grad and (writes or r.random() < 0.7)]
        if writes:
            with T.no_grad():
                r.choice([*weights, x]).mul_(1.1)
        if chosen:
            total = sum((t * t).sum() for t in chosen)
            if r.random() < 0.2:
                total.backward(retain_graph=True)
            if r.random() < 0.2:
                told += [
                    None if g is None else (g + 0).numpy().tobytes()
                    for g in T.autograd.grad(total, [*weights, x, start], allow_unused=True)
                ]
            else:
                total.backward()
    except RuntimeError as error:
        told.append(str(error).split("[torch")[0][:60])
    failed = bool(told) and isinstance(told[-1], str)  # behind an error eager calls have some gradients
    for t in (*weights, x, start):
        told.append((None if t.grad is None or failed else (t.grad + 0).numpy().tobytes(), t._version))
        t.grad = None
    return [*told, T.rand(2).tolist()]


def difference(seed: int) -> tuple[str, int, list[str]]:
    """What differs, how many programs were made of it, and why it was left to the function if it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (eager, here), (plain, there) = made(seed), made(seed)
        compiled = T.compile(plain)
        for call in range(CALLS):
            a, b = seen(eager, here, seed, call), seen(compiled, there, seed, call)
            if a != b:
                at = [k for k, (p, q) in enumerate(zip(a, b)) if p != q]
                told = compiled.explain()
                return (
                    f"seed {seed}, call {call}, at {at}: {program(seed)}\n{[a[k] for k in at]}\n{[b[k] for k in at]}\n{told}",
                    told.graph_count,
                    told.reasons,
                )
        told = compiled.explain()
        return "", told.graph_count, told.reasons


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    count, wrong = 0, 0
    why: dict[str, int] = {}
    for seed in range(args.first, args.first + args.programs):
        text, programs, reasons = difference(seed)
        count += programs > 0
        wrong += bool(text)
        for reason in reasons:
            short = reason.split(" (")[0][:70]
            why[short] = why.get(short, 0) + 1
        if text:
            print(text[:1500])
    print(f"{args.programs} functions, {count} compiled, {wrong} differ")
    for reason, times in sorted(why.items(), key=lambda item: -item[1]):
        print(times, reason)


if __name__ == "__main__":
    main()
