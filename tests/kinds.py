"""Arguments of a wrong kind, each held against torch: `python -m tests.kinds --calls 20000 --seed 1`.

A valid call of every public function and method is had by watching the case table. Each argument in turn is then replaced by a value of
another kind, and both modules answer: with a value, or with an exception, whose type and text are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from types import ModuleType
from typing import Any

import numpy as np

from nbgrad.names.absent import is_absent, is_built
from tests.cases import CASES, samples
from tests.compare import assert_same, outcome
from tests.support import T

MODULES = ("", "nn.functional", "linalg", "special", "fft")

# A value of each kind that an argument may have by mistake, made by the module under test.
KINDS: dict[str, Callable[[Any], Any]] = {
    "bool": lambda T: True,
    "int": lambda T: 1,
    "float": lambda T: 1.5,
    "str": lambda T: "a",
    "None": lambda T: None,
    "ints": lambda T: [0],
    "no ints": lambda T: (),
    "floats": lambda T: (1.5,),
    "strings": lambda T: ["a"],
    "bools": lambda T: (True,),
    "tensors": lambda T: [T.ones(2)],
    "integer tensor": lambda T: T.tensor(1),
    "float tensor": lambda T: T.tensor(1.5),
    "vector": lambda T: T.ones(2),
    "huge int": lambda T: 2**70,
    "NumPy int": lambda T: np.int64(1),
    "NumPy float": lambda T: np.float64(1.5),
    "NumPy bool": lambda T: np.bool_(True),
    "dtype": lambda T: T.float64,
    "device": lambda T: T.device("cpu"),
    "object": lambda T: object(),
}


@dataclass(frozen=True)
class Call:
    """A call of which any torch-like module can make its own. Arguments are wrapped in functions of the module."""

    path: str
    method: bool
    args: tuple[Callable[[Any], Any], ...]
    kwargs: tuple[tuple[str, Callable[[Any], Any]], ...]

    def run(self, T: ModuleType) -> Any:
        args = [a(T) for a in self.args]
        kwargs = {k: v(T) for k, v in self.kwargs}
        if self.method:
            return getattr(args[0], self.path)(*args[1:], **kwargs)
        return reduce(getattr, self.path.split("."), T)(*args, **kwargs)

    def replaced(self, place: int | str, value: Callable[[Any], Any]) -> Call:
        if isinstance(place, int):
            args = (*self.args[:place], value, *self.args[place + 1 :])
            return Call(self.path, self.method, args, self.kwargs)
        kwargs = {**dict(self.kwargs), place: value}
        return Call(self.path, self.method, self.args, tuple(kwargs.items()))

    @property
    def places(self) -> list[int | str]:
        """Arguments that may be replaced; of a method not the tensor itself."""
        return [*range(self.method, len(self.args) + 1), *dict(self.kwargs), "unknown"]

    @property
    def name(self) -> str:
        return f"Tensor.{self.path}" if self.method else self.path


def held(value: Any) -> Callable[[Any], Any]:
    """A function that makes the value again for a module."""
    if isinstance(value, T.Tensor):
        array = np.array(value.detach().numpy())
        return lambda T: T.tensor(array)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        made, kind = [held(v) for v in value], type(value)
        return lambda T: kind([m(T) for m in made])
    if isinstance(value, T.dtype):
        name = str(value).removeprefix("torch.")
        return lambda T: getattr(T, name)
    return lambda T: value


def form(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(form(v) for v in value)
    return (value.ndim, str(value.dtype)) if isinstance(value, T.Tensor) else type(value).__name__


@lru_cache
def calls() -> list[Call]:
    """One of each form that the case table calls a function in; and where there is a method of that name, that."""
    found: dict[Any, Call] = {}
    with watched(found):
        for case in CASES.values():
            dtype = "float64" if "float64" in case.dtypes else case.dtypes[0]
            for sample in samples(case, dtype, layouts=False):
                with contextlib.suppress(Exception):
                    case.fn(T, *sample.tensors(T))
    for call in list(found.values()):
        name = call.path.rpartition(".")[2]
        if not call.method and call.args and "." not in call.path:
            for n in (name, name + "_"):
                if is_built(T.Tensor, n):
                    same = Call(n, True, call.args, call.kwargs)
                    found.setdefault((n, True, len(call.args), *dict(call.kwargs)), same)
    return list(found.values())


@contextlib.contextmanager
def watched(found: dict[Any, Call]) -> Iterator[None]:
    depth = 0

    def watching(path: str, method: bool, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                key = (path, method, len(args), *kwargs)
                if depth == 1 and key not in found:
                    named = tuple((k, held(v)) for k, v in kwargs.items())
                    found[key] = Call(path, method, tuple(map(held, args)), named)
                return function(*args, **kwargs)
            finally:
                depth -= 1

        return call

    before: list[tuple[Any, str, Any]] = []
    try:
        for where in MODULES:
            module = reduce(getattr, where.split("."), T) if where else T
            for name, function in list(vars(module).items()):
                if not name.startswith("_") and callable(function) and not isinstance(function, type):
                    before.append((module, name, function))
                    setattr(module, name, watching(f"{where}.{name}".lstrip("."), False, function))
        for name, function in list(vars(T.Tensor).items()):
            if not name.startswith("_") and callable(function) and not is_absent(function):
                before.append((T.Tensor, name, function))
                setattr(T.Tensor, name, watching(name, True, function))
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def mistakes(call: Call) -> Iterator[tuple[str, Call]]:
    for place in call.places:
        for kind, value in KINDS.items():
            yield f"{kind} at {place}", call.replaced(place, value)


def judge(torch: ModuleType, call: Call) -> tuple[str, str]:
    """How the two differ in one word ("" if they do not), and in many."""
    got, want = (outcome(lambda m=m: call.run(m)) for m in (T, torch))
    if isinstance(want, str):  # PyTorch adds to some where in its sources they come from
        want = want.partition("\nException raised from")[0]
    if isinstance(want, str) and isinstance(got, str):
        if got == want:
            return "", ""
        same_type = got.partition(":")[0] == want.partition(":")[0]
        return ("text" if same_type else "type"), f"{got!r}, not {want!r}"
    if isinstance(want, str):
        return "accepted", want
    if isinstance(got, str):
        return "refused", got
    try:
        assert_same(got, want, "", 1e4)
    except AssertionError as error:
        return "value", str(error)
    return "", ""


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(prog="tests.kinds", description=__doc__)
    parser.add_argument("--calls", type=int, default=0, help="how many at random; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    every = [
        (what, wrong)
        for call in calls()
        if asked.only in call.name and not isinstance(outcome(lambda call=call: call.run(torch)), str)
        for what, wrong in mistakes(call)
    ]
    if asked.calls:
        picked = np.random.default_rng(asked.seed).permutation(len(every))[: asked.calls]
        every = [every[k] for k in picked]
    counts: Counter[str] = Counter()
    for what, wrong in every:
        word, text = judge(torch, wrong)
        counts[word or "same"] += 1
        if word and asked.show:
            print(f"{word} | {wrong.name} | {len(wrong.args)} | {what} | {text!r}")
    print(counts)
    return 1 if set(counts) - {"same"} else 0


if __name__ == "__main__":
    sys.exit(main())
