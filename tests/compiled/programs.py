"""Random programs, compiled beside eager: `python -m tests.compiled.programs --programs 1000`.

The statements are those of `tests/programs.py`. What makes the first tensors is run once, the rest is a function that is called again and
again: after each call all results, gradients, versions and the first tensors themselves have the same bits in both.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from typing import Any

import nbgrad as T
from tests.programs import Play, statements_of

CALLS = 8


def split(seed: int) -> tuple[list[str], list[str]]:
    """What makes the first tensors, and what may be done with them without an error."""
    play, made, done = Play(T), [], []
    for statement in statements_of(seed, T):  # type: ignore[arg-type]
        if play.run(statement):
            continue
        (done if done or "t" in statement.partition("=")[2].split("(")[0].split(".")[0] else made).append(
            statement
        )
        if not made[1:] and not done:
            continue
    return made, done


def function(seed: int) -> tuple[Any, dict[str, Any]]:
    """The program, and the names of its module."""
    made, done = split(seed)
    play = Play(T)  # type: ignore[arg-type]
    play.scope["__name__"] = "program"
    for statement in made:
        play.run(statement)
    new = [s.partition(" = ")[0] for s in done if " = " in s and s.partition(" = ")[0].isidentifier()]
    body = "\n    ".join(
        [
            *done,
            f"return [t.detach().clone() for t in ({''.join(n + ', ' for n in new)}) if type(t) is T.Tensor]",
        ]
    )
    exec(compile(f"def program():\n    {body}\n", f"<program {seed}>", "exec"), play.scope)
    return play.scope["program"], play.scope


def seen(scope: dict[str, Any], results: Any) -> list[Any]:
    pool = {k: v for k, v in scope.items() if type(v) is T.Tensor}
    told: list[Any] = []
    grads = {k: grad_of(t) for k, t in pool.items()}
    for t in [*results, *pool.values(), *[g for g in grads.values() if isinstance(g, T.Tensor)]]:
        told.append((str(t.dtype), tuple(t.shape), t.detach().clone().numpy().tobytes()))
    return [
        *told,
        [(k, t._version, isinstance(g, T.Tensor) or g) for (k, t), g in zip(pool.items(), grads.values())],
    ]


def grad_of(t: T.Tensor) -> Any:
    """Its gradient, if it is a leaf, or why there is none: a view of what was written to may refuse to tell its history."""
    try:
        return t.grad if t.is_leaf else "no leaf"
    except RuntimeError as error:
        return str(error)


def difference(seed: int) -> tuple[str, int, list[str]]:
    """What differs, how many programs were made of it, and why it was left to the function if it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (eager, here), (plain, there) = function(seed), function(seed)
        compiled = T.compile(plain)
        for k in range(CALLS):
            outcomes = []
            for f, scope in ((eager, here), (compiled, there)):
                try:
                    outcomes.append(seen(scope, f()))
                except Exception as error:
                    outcomes.append([type(error).__name__, str(error), *seen(scope, [])])
            if outcomes[0] != outcomes[1]:
                told = compiled.explain()
                return (
                    f"seed {seed}, call {k}: {outcomes} {told} {copy.copy(split(seed))}",
                    told.graph_count,
                    told.reasons,
                )
        told = compiled.explain()
        return "", told.graph_count, told.reasons


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    count, wrong, why = 0, 0, {}
    for seed in range(args.first, args.first + args.programs):
        text, programs, reasons = difference(seed)
        count += programs > 0
        for reason in reasons:
            short = reason.split(" (")[0][:70]
            why[short] = why.get(short, 0) + 1
        if text:
            wrong += 1
            print(text[:3000])
    print(f"{args.programs} programs, {count} compiled, {wrong} differ")
    for reason, times in sorted(why.items(), key=lambda item: -item[1])[:25]:
        print(times, reason)


if __name__ == "__main__":
    main()
