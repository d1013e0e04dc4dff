"""Wrong arguments at random, to every public name that torch has too, each call held against torch: `python -m tests.fuzz --calls 20000`.

A call begins as one that PyTorch takes: one that the case table makes, a line of fuzz.txt, or one drawn by the name's signature. Then
an argument becomes of another type, shape or value, is left out, named, given twice, or one too many. Both sides must raise the same
type of exception, or neither; their texts are counted apart (`--texts` shows those that differ). Calls are made in child processes, so
that one that never ends, or ends the process, is seen as such, and whose it is. A call comes from the seed and its number alone
(`--first 1234 --calls 1`), and what differs is printed as the smallest call that differs in that way. `--only 'nn|optim'` draws from the
names that begin in these ways alone, which gives other calls of the same seed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import math
import random
import re
import select
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import Parameter, signature
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from nbgrad.names.absent import is_built
from tests.compare import assert_same, leaves

# ---------------------------------------------------------------- names

MODULES = (
    *("", "linalg", "special", "fft", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "optim"),
    *("optim.lr_scheduler", "Tensor", "autograd", "autograd.functional", "autograd.forward_ad", "func"),
    *("utils.data", "random"),
)
OPERATORS = [
    f"Tensor.__{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift"),
        *("rshift", "eq", "ne", "lt", "le", "gt", "ge", "getitem", "setitem", "radd", "rsub", "rtruediv"),
        *("rpow", "rmatmul", "iadd", "isub", "imul", "itruediv", "ior", "ipow", "neg", "invert", "contains"),
        *("len", "bool", "int", "float", "index"),
    )
]
# What changes the process in which it is called, reads or writes files, gives memory as it finds it, or has no arguments; and
# `range`, whose steps below 1 end PyTorch's process where the result is of integers.
NOT_CALLED = re.compile(
    r"range|(manual_|initial_)?seed|set_\w+|(inference|anomaly)_mode|(no|enable)_grad|detect_anomaly|from_file|save|load|"
    r"share_memory_|cuda|(untyped_)?storage|data_ptr|\w+_dual_level|\w+Tensor|get_worker_info|(new_)?empty\w*|resize\w*|new|"
    r"[fi]info|dtype|layout|memory_format|Any|Union|Function|Generator|from_dlpack|Tensor|handle_\w+|has_torch_\w+|_\w+"
)


def within(T: Any, path: str) -> Any:
    return attrgetter(path)(T) if path else T


@cache
def names() -> list[str]:
    """Paths of what can be called, and of what tensors hold, in both."""
    import torch

    import nbgrad

    found = list(OPERATORS)
    for path in MODULES:
        here, there = within(torch, path), within(nbgrad, path)
        for name in dir(here):
            if NOT_CALLED.fullmatch(name) or not is_built(there, name):
                continue
            value = getattr(here, name)
            own = (getattr(value, "__module__", None) or "torch").startswith("torch")
            if path == "Tensor" or (callable(value) and own):
                found.append(f"{path}.{name}".lstrip("."))
    return sorted(found)


# ---------------------------------------------------------------- calls

Argument = tuple[str, str]  # the name under which it is given, or "", and its source


@dataclass(frozen=True)
class Call:
    head: str
    args: tuple[Argument, ...]
    tail: str = ""
    names: tuple[str, ...] = field(default=(), compare=False)  # of the parameters, as far as known

    def __str__(self) -> str:
        return f"{self.head}({', '.join([f'{n}={text}' if n else text for n, text in self.args])}){self.tail}"

    def having(self, k: int, *instead: Argument) -> Call:
        return self.of([*self.args[:k], *instead, *self.args[k + 1 :]])

    def of(self, args: list[Argument]) -> Call:
        """Those without a name first, and a name once, as the grammar wants it."""
        return replace(
            self, args=(*[a for a in args if not a[0]], *{n: (n, text) for n, text in args if n}.values())
        )


def parsed(text: str) -> Iterator[Call]:
    """The call, and those that make what it calls."""
    node: Any = ast.parse(text.strip(), mode="eval").body
    tail = ""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call):
            args = [("", ast.unparse(a)) for a in node.args]
            args += [(k.arg or "", ast.unparse(k.value)) for k in node.keywords]
            call = Call(ast.unparse(node.func), tuple(args), tail)
            if not tail or call.head not in ("torch.ones", "torch.zeros", "torch.tensor"):
                yield call
            tail = str(call)[len(call.head) :]
            node = node.func
        else:
            tail = f".{node.attr}{tail}"
            node = node.value


def source(value: Any) -> str:
    """A short text that makes the value, or one like it."""
    import torch

    if isinstance(value, torch.Tensor):
        kind = str(value.dtype)
        plain = value.is_floating_point() and value.dtype == torch.get_default_dtype()
        end = "" if plain or value.dtype in (torch.int64, torch.bool) else f", dtype={kind}"
        if not 0 < value.numel() <= 16:
            return f"torch.ones({tuple(value.shape)}{end})"
        text = str(
            value.tolist() if kind[6:9] in ("int", "uin", "boo") else np.round(value.double(), 2).tolist()
        )
        return re.sub(r"\b(nan|inf)\b", r"math.\1", f"torch.tensor({text}{end})")
    if isinstance(value, torch.Size):
        return str(value)
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(source, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, (int, float, str, slice, type(None), type(...), torch.dtype)):
        return re.sub(r"^-?(nan|inf)$", r"math.\g<0>", repr(value)).replace("math.-", "-math.")
    raise NotImplementedError(type(value))


@cache
def typical() -> dict[str, list[Call]]:
    """Calls that PyTorch takes, by what is called: those of the case table and those written down."""
    import torch
    from torch.overrides import TorchFunctionMode

    from tests.cases import CASES, samples

    paths: dict[Any, list[str]] = {}
    for path in names():
        paths.setdefault(within(torch, path), []).append(path)
    found: dict[str, list[Call]] = {}

    class Listener(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            for path in paths.get(func, ()):
                try:
                    given = [("", source(a)) for a in args] + [
                        (n, source(v)) for n, v in (kwargs or {}).items()
                    ]
                except NotImplementedError:
                    break
                head = f"torch.{path}"
                if path.startswith("Tensor."):
                    head, given = f"{given[0][1]}.{path[7:]}", given[1:]
                if len(str(call := Call(head, tuple(given)))) < 400:
                    found.setdefault(path, []).append(call)
            return func(*args, **kwargs or {})

    for case in CASES.values():
        for dtype in case.dtypes[:1]:
            for k, sample in enumerate(samples(case, dtype, layouts=False)):
                operands = sample.tensors(torch)
                with Listener(), contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
                    case.fn(torch, *operands)
                if k == 1:
                    break
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        for call in parsed(line) if line and line[0] != "#" else ():
            found.setdefault(call.head.removeprefix("torch."), []).append(call)
    by_name: dict[str, list[Call]] = {}
    for path, calls in found.items():
        by_name.setdefault(path.rpartition(".")[2].rstrip("_"), []).extend(calls)
    for (
        path
    ) in names():  # a method by the function of its name, in place by out of place, and the other way round
        if path not in found:
            like = by_name.get(path.rpartition(".")[2].rstrip("_"), [])
            found[path] = [renamed(call, path) for call in like if call.args or ")" in call.head]
    return found


def renamed(call: Call, path: str) -> Call:
    """The same of another function, as a method or as a function."""
    where, _, name = path.rpartition(".")
    receiver, _, _ = call.head.rpartition(".")
    of_tensor = ")" in receiver
    if where == "Tensor":
        if of_tensor:
            return replace(call, head=f"{receiver}.{name}")
        return replace(call, head=f"{call.args[0][1]}.{name}", args=call.args[1:])
    return replace(call, head=f"torch.{path}", args=(("", receiver),) * of_tensor + call.args)


# ---------------------------------------------------------------- drawing

TENSORS = (
    "torch.tensor([0.25, 0.5, 0.75])",
    "torch.tensor([[0.25, 0.5], [0.75, 1.0]])",
    "torch.ones(2, 3)",
    "torch.tensor([0, 1, 1])",
    "torch.tensor(0.5)",
    "torch.tensor([True, False, True])",
    "torch.ones(2, 3, 4)",
    "torch.ones(2, 3, 4, 4)",
)
FITTING = {
    "Tensor": TENSORS,
    "Number": ("2", "0.5"),
    "int": ("1", "0", "2"),
    "index": ("1", "0", "2"),
    "float": ("0.5", "1.0"),
    "bool": ("True", "False"),
    "flag": ("True", "False"),
    "str": ("'mean'", "'none'", "'reduced'", "'U'"),
    "dtype": ("torch.float64", "torch.float32"),
    "device": ("'cpu'",),
    "object": ("None", "2", "1.0", "False"),
    "Generator": ("None", "torch.Generator()"),
    "layout": ("torch.strided",),
    "memory_format": ("torch.contiguous_format",),
    "ints": ("(1,)", "[0]", "(2, 3)", "(0, 1)"),
    "floats": ("[0.5]", "[1.0, 2.0]"),
    "Numbers": ("[1, 2.0]",),
    "Tensors": ("[torch.ones(2, 3), torch.ones(2, 3)]", "(torch.ones(3),)"),
    "TensorsOrNone": ("[None, torch.tensor([0])]",),
}
WRONG = (
    *(
        "None",
        "'mean'",
        "''",
        "1.5",
        "2",
        "-1",
        "0",
        "True",
        "False",
        "1j",
        "-0.5",
        "10",
        "-10",
        "math.nan",
        "math.inf",
    ),
    *(
        "1 << 62",
        "-(1 << 62)",
        "1 << 70",
        "-(1 << 70)",
        "[1, 2]",
        "(1,)",
        "[]",
        "()",
        "[1.5]",
        "['a']",
        "[None]",
        "[True]",
    ),
    *(
        "[torch.ones(2)]",
        "[torch.ones(2), 1]",
        "[0, 'a']",
        "(2, -1)",
        "[[1, 2], [3, 4]]",
        "np.float32(1.5)",
        "np.int64(2)",
    ),
    *(
        "np.bool_(True)",
        "np.ones(3)",
        "np.array(2)",
        "torch.Size([2])",
        "torch.float64",
        "torch.int64",
        "torch.nn.Identity()",
    ),
    *(
        "object()",
        "object",
        "{}",
        "{'a': 1}",
        "slice(None)",
        "...",
        "range(3)",
        "len",
        "lambda *a: a[0]",
        "int",
        "b'x'",
    ),
    *(
        "torch.device('cpu')",
        "'cpu'",
        "'cuda'",
        "torch.strided",
        "torch.contiguous_format",
        "torch.Generator()",
        "iter([1])",
    ),
    *(
        "torch.tensor(2)",
        "torch.tensor(1.5)",
        "torch.tensor(True)",
        "torch.tensor(2.0, requires_grad=True)",
        "torch.ones(0)",
    ),
    *(
        "torch.ones(2, 3, 4)",
        "torch.ones(5)",
        "torch.ones(2, 0)",
        "torch.ones(3, dtype=torch.int64)",
        "torch.tensor([7, -9])",
    ),
    *(
        "torch.ones(3, dtype=torch.bool)",
        "torch.ones(3, dtype=torch.float16)",
        "torch.ones(3, requires_grad=True)",
    ),
    *(
        "torch.ones(2, 3, dtype=torch.int32)",
        "torch.ones(2, 3, dtype=torch.float64)",
        "torch.ones(1, 1, 1, 1, 1)",
    ),
    *(
        "torch.tensor([math.nan, 1.0])",
        "torch.ones(3, dtype=torch.uint8)",
        "torch.nn.Parameter(torch.ones(3))",
        "set()",
    ),
)
NUMPY_NAMES = {"dim": "axis", "dims": "axes", "keepdim": "keepdims", "input": "x", "other": "x2"}


@cache
def parameters(path: str) -> tuple[tuple[str, str, bool], ...]:
    """Name, kind and whether it must be given, by PyTorch's own signature or by that of its Python function."""
    import torch

    from nbgrad.core import signatures

    ways = [way for way in signatures.signatures(path) if not way.hidden]
    if ways:
        return tuple((p.name, p.kind, p.default is None) for p in ways[0].parameters)
    try:
        every = signature(within(torch, path)).parameters.values()
    except (TypeError, ValueError):
        return ()
    kinds = {bool: "bool", int: "int", float: "float", str: "str"}
    return tuple(
        (p.name, kinds.get(type(p.default), "Tensor"), p.default is p.empty)
        for p in every
        if p.name != "self" and p.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    )


def pick(rng: random.Random, values: Any) -> Any:
    return values[int(rng.random() * len(values))]


def begun(path: str, rng: random.Random) -> Call:
    """A call that PyTorch takes, if one is found."""
    import torch

    if path.startswith("Tensor.") and not callable(getattr(torch.Tensor, path[7:], None)):
        return Call("setattr", (("", pick(rng, TENSORS)), ("", repr(path[7:])), ("", "None")))
    known = typical().get(path)
    if known:
        return replace(pick(rng, known), names=tuple(name for name, _, _ in parameters(path)))
    every = parameters(path)
    call = Call(f"torch.{path}", ())
    for _ in range(30):
        given = [
            ("" if needed else name, pick(rng, FITTING[kind]))
            for name, kind, needed in every
            if needed or rng.random() < 0.1
        ]
        head = f"{pick(rng, TENSORS)}.{path[7:]}" if path.startswith("Tensor.") else f"torch.{path}"
        call = Call(head, (), names=tuple(name for name, _, _ in every)).of(given)
        if isinstance(made(call, torch), Made):
            break
    return call


@cache
def drawn_from(only: str) -> list[str]:
    return [name for name in names() if re.match(only, name)]


def draw(seed: int, number: int, only: str = "") -> Call:
    rng = random.Random(f"{seed} {number}")
    call = begun(pick(rng, drawn_from(only)), rng)
    for _ in range(pick(rng, (0, *[1] * 14, *[2] * 5))):
        call = spoilt(call, rng)
    return call


def spoilt(call: Call, rng: random.Random) -> Call:
    args, how = list(call.args), rng.random()
    if call.head == "setattr":
        return call.having(2, ("", pick(rng, WRONG)))
    k = int(rng.random() * len(args))
    if how < 0.68 and args:
        return call.having(k, (args[k][0], pick(rng, WRONG)))
    if how < 0.74 and args:
        return call.having(k)
    if (
        how < 0.80 and k < len(call.names) and args and not args[-1][0]
    ):  # the last under its name, or one that NumPy has for it
        name = call.names[min(len(args), len(call.names)) - 1]
        return call.having(len(args) - 1, (pick(rng, (name, NUMPY_NAMES.get(name, name))), args[-1][1]))
    if how < 0.84:
        return call.of([*args, ("", pick(rng, WRONG))])
    if how < 0.88:
        name = pick(
            rng, (*call.names, "foo", "out", "dtype", "axis", "keepdims", "input", "device", "generator")
        )
        return call.of([*args, (name, pick(rng, WRONG))])
    if how < 0.92 and call.names:  # another parameter, in a fitting or a wrong kind
        return call.of([*args, (pick(rng, call.names), pick(rng, FITTING[pick(rng, list(FITTING))]))])
    if ")" in call.head and call.head.startswith("torch.t"):
        _, _, name = call.head.rpartition(".")
        return replace(call, head=f"{pick(rng, (*TENSORS, *WRONG[-18:-1]))}.{name}")
    return call.of([*args, ("out", pick(rng, WRONG[-18:]))])


# ---------------------------------------------------------------- calling

# What is known to differ: by what of the call, torch's outcome and nbgrad's, in one line, it is told.
KNOWN = (
    ("complex numbers are to come", r"\b1j\b|[Cc]omplex|Int but got Complex"),
    (
        "torch fails an assertion of its own",
        r"INTERNAL ASSERT FAILED|to be true, but got false|vector larger than max_size",
    ),
    (
        "the slots of torch's operators give back what Python takes as a refusal",
        r"\.__\w+__\(.*\| NotImplemented \|",
    ),
    ("functionalize is refused by name", r"functionalize is not supported"),
    (
        "there are no accelerators, sparse or quantised tensors",
        r"accelerator device|'cuda'|[Ss]parse|[Qq]uantize|vulkan|mkldnn",
    ),
)


def known(call: Call, shown: Sequence[str]) -> str:
    line = " | ".join([str(call), *shown])
    return next((reason for reason, pattern in KNOWN if re.search(pattern, line)), "")


@dataclass
class Made:
    """What a call gave."""

    value: Any


def made(call: Call, T: ModuleType) -> Made | str:
    """What the call gives, or the exception, `Type: text` in PyTorch's words."""
    T.manual_seed(0)
    try:
        value = eval(str(call), {"torch": T, "np": np, "math": math})
        waits = T.nn.parameter.is_lazy(value)  # and has no shape to ask for
        return Made(repr(value) if waits else value)
    except Exception as error:
        text = str(error).partition(" (Triggered internally")[0].partition("\nException raised from")[0]
        text = re.sub('(?<=unpacking long long)"$', "", text)  # which PyTorch puts behind where it was raised
        text = re.sub(r"\bnbgrad\b", "torch", re.sub(r" at 0x\w+", "", text))
        return f"{type(error).__name__.lstrip('_')}: {text}".rstrip()


def kind(outcome: Made | str) -> str:
    return "" if isinstance(outcome, Made) else outcome.partition(":")[0]


def beyond(value: Any) -> bool:
    """Whether it holds what nbgrad has not: complex numbers, sparse tensors, other devices."""
    import torch

    return any(
        isinstance(leaf, complex)
        or (
            isinstance(leaf, torch.Tensor)
            and (
                leaf.is_complex()
                or leaf.layout != torch.strided
                or leaf.device.type != "cpu"
                or leaf.dtype == torch.bfloat16
            )
        )
        for leaf in leaves(value)
    )


def compared(call: Call) -> tuple[str, str, str]:
    """How the two differ ("" if they do not), and what torch and nbgrad did."""
    import torch

    import nbgrad

    want, got = made(call, torch), made(call, nbgrad)
    shown = [o if isinstance(o, str) else re.sub(r"\s+", " ", said_of(o.value))[:300] for o in (want, got)]
    if isinstance(want, Made) and beyond(want.value):
        return "beyond", *shown
    if kind(want) != kind(got):
        return "known" if known(call, shown) else "type", *shown
    if isinstance(want, str) or isinstance(got, str):
        return "text" if want != got else "", *shown
    pairs = list(zip(leaves(want.value), leaves(got.value), strict=False))
    if len(leaves(want.value)) != len(leaves(got.value)) or any(form(a) != form(b) for a, b in pairs):
        return "known" if known(call, shown) else "form", *shown
    try:
        for a, b in pairs:
            if isinstance(a, torch.Tensor):
                assert_same(b, a, "")
    except AssertionError:
        return "value", *shown
    return "", *shown


def said_of(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # a module that holds what it was given is not always able to say so
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def form(value: Any) -> Any:
    """What two results that are alike share, whatever the numbers are; nothing is promised of objects of other kinds."""
    if hasattr(value, "stride") and hasattr(value, "dtype"):
        return str(value.dtype), tuple(value.shape), value.requires_grad
    return value if isinstance(value, (int, str, type(None), type(NotImplemented))) else None


def smaller(call: Call) -> Iterator[Call]:
    for k, (name, text) in enumerate(call.args):
        if name:
            yield call.having(k)
        for simple in ("1", "torch.ones(2)", "torch.ones(2, 2)"):
            if len(simple) < len(text):
                yield call.having(k, (name, simple))
    if call.tail:
        yield replace(call, tail="")
    if ")." in call.head:
        receiver, _, name = call.head.rpartition(".")
        for simple in ("torch.ones(2)", "torch.ones(2, 2)"):
            if len(simple) < len(receiver):
                yield replace(call, head=f"{simple}.{name}")


def smallest(call: Call, outcome: tuple[str, str, str]) -> tuple[Call, tuple[str, str, str]]:
    """Of the calls that differ in the same way."""
    kinds = [o.partition(":")[0] for o in outcome[1:]]
    for simpler in smaller(call):
        found = compared(simpler)
        alike = found[0] != "type" or [o.partition(":")[0] for o in found[1:]] == kinds
        if found[0] == outcome[0] and alike:
            return smallest(simpler, found)
    return call, outcome


# ---------------------------------------------------------------- child and parent


def serve(seed: int, first: int, calls: int, shrink: bool, only: str) -> None:
    """A line before each call, and one of what came of it."""
    warnings.simplefilter("ignore")
    typical()
    for number in range(first, first + calls):
        tell = {"number": number}
        call = draw(seed, number, only)
        print(json.dumps(tell | {"call": str(call)}), flush=True)
        found = compared(call)
        if shrink and found[0] in ("type", "form", "value"):
            call, found = smallest(call, found)
        print(json.dumps(tell | {"call": str(call), "found": found}), flush=True)


@dataclass(frozen=True)
class Difference:
    number: int
    call: str
    how: str
    torch: str
    nbgrad: str

    def __str__(self) -> str:
        return f"{self.number}: {self.call}\n  torch:  {self.torch}\n  nbgrad: {self.nbgrad}"


CHILD = (sys.executable, "-m", "tests.fuzz")


def results(
    seed: int,
    first: int,
    calls: int,
    limit: float = 20.0,
    shrink: bool = True,
    child_is: Sequence[str] = CHILD,
    only: str = "",
) -> Iterator[Difference]:
    """One for each call, made in a child that another one follows where it ended or hung."""
    last = first + calls
    while first < last:
        command = [*child_is, "--serve", "--seed", str(seed), "--first", str(first)]
        command += ["--calls", str(last - first)] + ["--whole"] * (not shrink) + ["--only", only]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as child:
            assert child.stdout
            waiting, rest, begun_one = True, b"", ""
            while waiting and first < last:
                ready = select.select([child.stdout], [], [], limit if begun_one else 120)[0]
                read = child.stdout.read(1 << 16) if ready else b""
                waiting = bool(read)
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    said = json.loads(line)
                    begun_one = said["call"]
                    if "found" in said:
                        how, *outcomes = said["found"]
                        yield Difference(said["number"], said["call"], how, *outcomes)
                        first, begun_one = said["number"] + 1, ""
            child.kill()
        if first < last:
            end = "hangs" if child.returncode == -9 else f"ends with {child.returncode}"
            yield Difference(first, begun_one, "process", "", end)
            first += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", default="", help="a pattern with which the names begin, such as nn or optim"
    )
    parser.add_argument("--texts", action="store_true", help="show the texts that differ, too")
    parser.add_argument("--serve", action="store_true", help="be a child")
    parser.add_argument("--whole", action="store_true", help="leave calls as they were drawn")
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.seed, asked.first, asked.calls, not asked.whole, asked.only)
        return 0
    counts: Counter[str] = Counter()
    for result in results(asked.seed, asked.first, asked.calls, shrink=not asked.whole, only=asked.only):
        counts[result.how] += 1
        if result.how in ("type", "form", "value", "process") or (asked.texts and result.how == "text"):
            print(f"[{result.how}] {result}", end="\n\n", flush=True)
    print(", ".join(f"{n} {how or 'same'}" for how, n in counts.most_common()))
    return any(counts[how] for how in ("type", "form", "process"))


if __name__ == "__main__":
    sys.exit(main())
