"""The table of cases, each compiled beside eager: `python -m tests.compiled.cases [words of names]`.

Each case is called with new values of the same kinds, with a history and without: results, their strides, versions of what is given,
and gradients have the bits of eager calls.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

import nbgrad as T
from tests.cases import CASES, OpCase, samples
from tests.compare import leaves

CALLS, SAMPLES = 6, 3


def bits(t: Any) -> list[int]:
    plain = t.detach().resolve_neg().resolve_conj()
    # Of one element only a clone is sure to have the strides of its shape.
    found: list[int] = plain.clone(memory_format=T.contiguous_format).view(-1).view(T.uint8).tolist()
    return found


def told(f: Any, given: list[Any], seed: int) -> list[Any]:
    T.manual_seed(seed)
    found: list[Any] = []
    try:
        results = [t for t in leaves(f(*given)) if isinstance(t, T.Tensor)]
    except Exception as error:
        return [type(error).__name__, str(error)[:80]]
    for t in results:
        values = bits(t)
        found.append((str(t.dtype), tuple(t.shape), t.stride(), t.requires_grad, values))
    wanted = [t for t in results if t.requires_grad]
    if wanted:
        total: Any = sum((t * t.conj()).real.sum() if t.is_complex() else (t * t).sum() for t in wanted)
        try:
            total.backward()
        except Exception as error:
            return [*found, type(error).__name__, str(error)[:80]]
        grads = [t.grad for t in given]
        found += [None if g is None else bits(g) for g in grads]
    return [*found, [t._version for t in given], T.rand(1).item()]


def kind_of(case: OpCase) -> str:
    return next(d for d in ("float32", "int64", case.dtypes[0]) if d in case.dtypes)


def difference(
    case: OpCase, dtype: str, layouts: bool, shapes: int = SAMPLES, calls: int = CALLS
) -> tuple[str, int]:
    """What differs, and how many programs were made."""
    made = 0
    for sample in list(samples(case, dtype, layouts=layouts))[:shapes]:

        def f(*operands: Any) -> Any:
            return case.fn(T, *operands)

        compiled = T.compile(f)
        for graph in (False, True):
            for call in range(calls):
                outcomes = []
                for g in (f, compiled):
                    tensors = sample.tensors(T)
                    if call > 1:
                        tensors = [t.flip(0) if t.dim() and not layouts else t for t in tensors]
                    for t in tensors:
                        if graph and (t.is_floating_point() or t.is_complex()) and t.is_leaf:
                            t.requires_grad_()
                    outcomes.append(told(g, tensors, call))
                if outcomes[0] != outcomes[1]:
                    return f"{case.name} {dtype} {sample.label}, call {call}, {graph=}\n{outcomes}"[
                        :1500
                    ], made
        made += compiled.explain().graph_count
    return "", made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first")
    args = parser.parse_args()
    end, count, compiled, wrong = time.time() + args.seconds, 0, 0, 0
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for case in list(CASES.values())[args.first :: args.every]:
        if args.words and not any(w in case.name for w in args.words):
            continue
        if time.time() > end:
            print(f"ended before {case.name}")
            break
        text, made = difference(case, kind_of(case), False)
        count, compiled, wrong = count + 1, compiled + (made > 0), wrong + bool(text)
        if text:
            print(text, flush=True)
    print(f"{count} cases, {compiled} compiled, {wrong} differ")


if __name__ == "__main__":
    main()
