"""Programs as users of `torch.compile` write them, each called 20 times with `compile` and without.

`python -m tests.compiled.users` compares all that they return to the bit, and shows what became of each: whole, in parts, or eager.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import warnings
from typing import Any

import nbgrad as T
from tests.compiled import user_changes, user_models, user_python, user_training
from tests.compiled.user_steps import PROGRAMS, STEPS

assert all([user_models, user_training, user_python, user_changes])  # which have filled the table


def plain(value: Any) -> Any:
    """What a step gave, so that two can be compared."""
    if isinstance(value, T.Tensor):
        return (
            str(value.dtype),
            tuple(value.shape),
            value.requires_grad,
            value.detach().clone().contiguous().view(-1).view(T.uint8).tolist(),
        )
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return repr(value)


def run(name: str, compiled: bool) -> tuple[list[Any], list[Any], list[str]]:
    """What each step gave; what was compiled; warnings."""
    made: list[Any] = []

    def compile(f: Any) -> Any:
        if not compiled:
            return f
        made.append(T.compile(f))
        return made[-1]

    T.manual_seed(0)
    out = io.StringIO()
    with warnings.catch_warnings(record=True) as told, contextlib.redirect_stdout(out):
        warnings.simplefilter("always")
        step = PROGRAMS[name](T, compile)
        results = [plain(step(k)) for k in range(STEPS)]
    results.append([out.getvalue(), T.rand(2).tolist()])
    return results, made, [str(w.message) for w in told]


def state_of(compiled: Any) -> tuple[str, Any]:
    told = getattr(compiled, "compiled", compiled).explain()
    if told.graph_count and not told.graph_break_count:
        return "whole", told
    return ("parts" if told.graph_count else "eager"), told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--explain", action="store_true")
    args = parser.parse_args()
    for name in args.names or PROGRAMS:
        begin = time.process_time()
        eager, _, _ = run(name, False)
        between = time.process_time()
        got, made, told = run(name, True)
        took = time.process_time() - between
        same = "same" if got == eager else f"DIFFERS at {[a == b for a, b in zip(eager, got)].index(False)}"
        for c in made:
            how, why = state_of(c)
            times = f"{between - begin:.1f} s, {took:.1f} s"
            reasons = "; ".join(why.reasons)[:200]
            print(f"{name:16} {how:6} {same}  {why.graph_count} programs  {times}  {reasons}", flush=True)
            if args.explain:
                print(why, *told, sep="\n")


if __name__ == "__main__":
    main()
