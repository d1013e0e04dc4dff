"""Random functions that read values, branch, loop and have effects: `python -m tests.compiled.breaks --programs 300`.

The statements are those of `histories.py`, in blocks. A function is called again and again with other values, compiled and as it is:
results, effects and the stream of random numbers have the same bits; gradients that several pieces add to are the same but for the order
of those sums.
"""

from __future__ import annotations

import argparse
import contextlib
import linecache
import random
import warnings
from typing import Any

import numpy as np

import nbgrad as T
from tests.compiled.histories import CALLS, FORMS

READS = """
told.append({a}.sum().item())
told.append(float({a}.mean()))
told.append(round({a}.detach().abs().max().item(), 4))
state.count += 1
state.last = {a}.detach().mean()
told.append(({a}.detach() > 0).sum().tolist())
print({a}.shape, int({a}.detach().argmax()))
table["k"] = n = len(told)
told.append({a}.detach().numpy().sum())
""".strip().splitlines()
TESTS = (
    "{a}.sum() > 0",
    "{a}.detach().max().item() > 1.5",
    "len(told) % 3 == 1",
    "not ({a} > 0).all()",
    "k % 2",
    "x.shape[0] == 3",
)
LOOPS = (
    "for j in range(2):",
    "for one in ({a}, {b}):",
    "for row in {a}.detach():",
    "while len(told) < limit:",
)

HELPER = """def helper(x, told):
    y = x * 2
    if y.detach().sum() > 1:
        told.append(1)
        y = y + x
    return y.tanh()
"""


class _Text:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(f"breaks {seed}")
        self.count = 0

    def block(self, pool: list[str], depth: int, loop: bool) -> list[str]:
        """Lines, and names that are sure to have values behind them are added to `pool`."""
        r, lines = self.r, []
        for _ in range(r.randint(1, 4 if depth else 6)):
            what = r.random()
            a, b = r.choice(pool), r.choice(pool)
            if what < 0.5:
                name = r.choice(pool[2:]) if len(pool) > 3 and r.random() < 0.4 else f"t{self.count}"
                self.count += 1
                lines.append(f"{name} = {r.choice(FORMS).format(a=a, b=b)}")
                if name not in pool:
                    pool.append(name)
            elif what < 0.62:
                lines.append(r.choice(READS).format(a=a, b=b))
            elif what < 0.68:
                lines.append(
                    f"t{self.count} = {a} * {r.choice(('k', 'scale', '(k + 1) / 3', 'state.count', 'len(told)', 'min(1.0, k / 4)'))}"
                )
                pool.append(f"t{self.count}")
                self.count += 1
            elif what < 0.82 and depth < 3:
                lines.append(f"if {r.choice(TESTS).format(a=a)}:")
                inner, other = list(pool), list(pool)
                lines += ["    " + one for one in self.block(inner, depth + 1, loop)]
                if r.random() < 0.15:
                    lines.append("    " + self.result(inner))
                elif loop and r.random() < 0.3:
                    lines.append(f"    {r.choice(('break', 'continue'))}")
                if r.random() < 0.5:
                    lines.append("else:")
                    lines += ["    " + one for one in self.block(other, depth + 1, loop)]
                    pool += [n for n in inner if n in other and n not in pool]
            elif what < 0.92 and depth < 2:
                kind = r.choice(LOOPS)
                lines.append(kind.format(a=a, b=b))
                if kind.startswith("while"):
                    lines.append("    told.append(k)")
                lines += ["    " + one for one in self.block(list(pool), depth + 1, True)]
            elif what < 0.94:
                lines.append(f"t{self.count} = helper({a}, told)")
                pool.append(f"t{self.count}")
                self.count += 1
            elif what < 0.97 and depth < 2:
                lines += self.guarded(pool, depth, loop, a)
            else:
                lines.append("with T.no_grad():")
                lines += ["    " + one for one in self.block(pool, depth + 1, loop)]
        return lines

    def guarded(self, pool: list[str], depth: int, loop: bool, a: str) -> list[str]:
        """A `try`, or a `with` that lets no errors through, in which something may fail halfway."""
        r = self.r
        inner = list(pool)
        body = self.block(inner, depth + 1, loop)
        body += [f"1 / ({a}.detach().sum().item() > 0)", *self.block(inner, depth + 1, loop)]
        if r.random() < 0.3:
            return ["with suppress(ZeroDivisionError):", *["    " + one for one in body]]
        lines = ["try:", *["    " + one for one in body], "except ZeroDivisionError:"]
        lines += ["    " + one for one in self.block(list(pool), depth + 1, loop)]
        if r.random() < 0.4:
            lines += ["else:", *["    " + one for one in self.block(inner, depth + 1, loop)]]
        if r.random() < 0.4:
            lines += ["finally:", f"    told.append(({a} * 3).tanh().sum().item())"]
        return lines

    def result(self, pool: list[str]) -> str:
        chosen = self.r.sample(pool[2:], min(len(pool) - 2, self.r.randint(1, 3))) or ["x + h"]
        return f"return [{', '.join(chosen)}]"


def program(seed: int) -> str:
    text = _Text(seed)
    pool = ["x", "h"]
    lines = ["limit = len(told) + 2", *text.block(pool, 0, False)]
    lines += text.block(pool, 0, False)
    body = "\n    ".join([*lines, text.result(pool)])
    return f"{HELPER}def program(x, h, k, scale):\n    {body}\n"


class State:
    def __init__(self) -> None:
        self.count, self.last = 0, None


def made(seed: int) -> tuple[Any, dict[str, Any]]:
    T.manual_seed(seed)
    scope: dict[str, Any] = {"T": T, "F": T.nn.functional, "__name__": "program", "i": T.tensor([2, 0, 1])}
    scope |= {"suppress": contextlib.suppress, "told": [], "table": {}, "state": State()}
    printed: list[str] = []
    scope["print"] = lambda *args: printed.append(str(args))
    scope["printed"] = printed
    for name, shape in (("w", (4, 4)), ("b", (4,)), ("c", (4,)), ("k_", (3, 3, 3))):
        scope[name] = T.randn(shape).requires_grad_()
    text = (
        program(seed)
        .replace("F.conv1d({a}.reshape(1, 3, 4), k,", "")
        .replace(", k, padding", ", k_, padding")
    )
    name = f"<breaks {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), scope)
    return scope["program"], scope


def seen(f: Any, scope: dict[str, Any], seed: int, call: int) -> tuple[list[Any], list[Any]]:
    """One call, what it leaves behind, and gradients."""
    r = random.Random(f"{seed} {call}")
    T.manual_seed(1000 * seed + call)
    x, start = T.randn(3, 4).requires_grad_(), T.randn(3, 4).requires_grad_()
    weights = [scope[n] for n in ("w", "b", "c", "k_")]
    told: list[Any] = []
    try:
        if r.random() < 0.15:
            with T.no_grad():
                results = f(x, start.sin(), call, 0.5 + call // 3)
        else:
            results = f(x, start.sin(), call, 0.5 + call // 3)
        told += [
            (t.shape, t.stride(), t.requires_grad, t.is_leaf, t.detach().clone().numpy().tobytes())
            for t in results
        ]
        chosen = [t for t in results if t.requires_grad]
        if chosen:
            sum((t * t).sum() for t in chosen).backward()
    except Exception as error:
        told.append(type(error).__name__ + str(error).split("[torch")[0][:60])
    state = scope["state"]
    told += [*scope["told"], state.count, *scope["printed"], scope["table"].get("k")]
    told.append(None if state.last is None else state.last.item())
    told += [t._version for t in (*weights, x, start)]
    grads = [None if t.grad is None else t.grad.clone().numpy() for t in (*weights, x, start)]
    for t in weights:
        t.grad = None
    return [*told, T.rand(2).tolist()], grads


def near(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return bool(np.allclose(a, b, rtol=2e-5, atol=2e-6 * max(1.0, float(np.abs(a).max())), equal_nan=True))


def difference(seed: int) -> tuple[str, int, list[str]]:
    """What differs, how many programs were made of it, and where it was cut."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (eager, here), (plain, there) = made(seed), made(seed)
        compiled = T.compile(plain)
        for call in range(CALLS + 4):
            (a, g), (b, h) = seen(eager, here, seed, call), seen(compiled, there, seed, call)
            if a != b or not all(map(near, g, h)):
                at = [k for k, (p, q) in enumerate(zip(a, b)) if p != q]
                told = compiled.explain()
                grads = [(p, q) for p, q in zip(g, h) if not near(p, q)]
                shown = [[a[k] for k in at][:3], [b[k] for k in at][:3], len(a), len(b), grads, str(told)]
                text = f"seed {seed}, call {call}, at {at}: {program(seed)}"
                return "\n".join([text, *map(str, shown)]), told.graph_count, told.reasons
        told = compiled.explain()
        return "", told.graph_count, told.reasons


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    count, wrong, total = 0, 0, 0
    why: dict[str, int] = {}
    for seed in range(args.first, args.first + args.programs):
        text, programs, reasons = difference(seed)
        count += programs > 0
        total += programs
        wrong += bool(text)
        for reason in reasons:
            short = reason.split(" (")[0][:70]
            why[short] = why.get(short, 0) + 1
        if text:
            print(text[:2500], flush=True)
    print(
        f"{args.programs} functions, {count} of them compiled in parts or whole ({total} programs), {wrong} differ"
    )
    for reason, times in sorted(why.items(), key=lambda item: -item[1])[:25]:
        print(times, reason)


if __name__ == "__main__":
    main()
