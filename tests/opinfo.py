"""PyTorch's own table of operators and modules, run through both: `python -m tests.opinfo [names]`.

The torch wheel carries the table that PyTorch tests itself with: of each op, samples of its arguments and calls that it must refuse.
Each sample is kept as a recipe (the memory, sizes, strides), from which either side makes its tensors afresh, so that nothing that
one call writes is seen by another. What a sample is put through stands in MODES: each yields one by one what there is to compare.

A crash is the sample's that ran: samples run in a child, which says where it stands, and another takes over behind the dead one.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import math
import multiprocessing
import random
import re
import sys
import types
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from nbgrad.names.absent import NotBuiltError, is_absent
from tests.cases import BFLOAT16, as_dtype, numbers, tensor
from tests.compare import ATOL, RTOL, array
from tests.support import T as SUBJECT

DTYPES = ("float64", "float32", "float16", "int64", "int32", "uint8", "bool")
LONGEST = 120.0  # seconds of one sample, compilation with it
NAMESPACES = ("", "Tensor", "nn.functional", "linalg", "special", "fft", "nn", "nn.init", "autograd", "utils")
UNSET = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
# PyTorch's own results are right to seven digits here.
INEXACT = (
    "special.bessel_j0",
    "special.bessel_j1",
    "special.bessel_y0",
    "special.bessel_y1",
    "polygamma",
    "digamma",
    "mvlgamma",
)
ANY_OF_EQUALS = ("sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode", "msort")
LARGEST = 1 << 16  # elements of all operands of a sample
NOT_THERE = re.compile(r"has no attribute '(\w+)'|cannot import name '(\w+)'")
OTHER_DTYPES = re.compile(r"complex32|ComplexHalf|sparse|Sparse|quantize|float8|uint(16|32|64)\b")


class Unsupported(Exception):
    """What the sample needs is not there by design."""


class Missing(Exception):
    """A function that torch has and nbgrad has not."""


# ---------------------------------------------------------------- samples as recipes


@dataclass(frozen=True, eq=False)
class Memory:
    """A tensor: its whole memory, and how it reads that."""

    flat: np.ndarray
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    requires_grad: bool
    parameter: bool = False

    def make(self, T: ModuleType) -> Any:
        t = tensor(T, self.flat)
        dense = self.offset == 0 and math.prod(self.size) == self.flat.size
        t = t.reshape(self.size) if dense else t
        if t.shape != self.size or t.stride() != self.stride:
            t = t.as_strided(self.size, self.stride, self.offset)
        if self.parameter:
            return T.nn.Parameter(t, requires_grad=self.requires_grad)
        return t.requires_grad_() if self.requires_grad else t

    def __repr__(self) -> str:
        if len(self.size) > 8:
            return f"<{self.flat.dtype} of {len(self.size)} dimensions>"
        how = f", strides {list(self.stride)} from {self.offset}"
        grad = ", requires_grad" if self.requires_grad else ""
        read = np.lib.stride_tricks.as_strided
        steps = [s * numbers(self.flat).itemsize for s in self.stride]
        some = (
            read(numbers(self.flat)[self.offset :], self.size, steps)
            if 0 < math.prod(self.size) < 1e9
            else []
        )
        values = np.array2string(np.asarray(some), threshold=12, edgeitems=2, separator=", ", precision=5)
        values = values.replace("\n", "")
        return f"<{self.flat.dtype}{list(self.size)}{how}{grad}: {values[:160]}>"


@dataclass(frozen=True)
class Named:
    """A dtype, a memory format, a device: the same by name on either side."""

    path: str

    def make(self, T: ModuleType) -> Any:
        return T.device(self.path[7:]) if self.path.startswith("device ") else found(T, self.path)

    def __repr__(self) -> str:
        return self.path


@dataclass(frozen=True)
class Called:
    """A function of torch among the arguments."""

    function: Any

    def make(self, T: ModuleType) -> Any:
        return counterpart(T, self.function)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def found(T: ModuleType, path: str) -> Any:
    at: Any = T
    for name in path.split(".") if path else []:
        try:
            at = getattr(at, name)
            if is_absent(at):
                raise AttributeError(name)
        except AttributeError:
            raise Missing(path) from None
    return at


def recipe(torch: ModuleType, value: Any, memo: dict[int, Any]) -> Any:
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, torch.Tensor):
        known = str(value.dtype).removeprefix("torch.") in SUBJECT_DTYPES
        if not known or value.layout != torch.strided or value.device.type != "cpu":
            raise Unsupported(f"{value.dtype} {value.layout} {value.device}")
        with torch.no_grad():
            memory = torch.empty(0, dtype=value.dtype).set_(value.detach().untyped_storage())
        memo[id(value)] = Memory(
            memory.view(torch.int16).numpy().copy().view(BFLOAT16)
            if value.dtype == torch.bfloat16
            else memory.numpy().copy(),
            tuple(value.shape),
            tuple(value.stride()),
            value.storage_offset(),
            value.requires_grad,
            isinstance(value, torch.nn.Parameter),
        )
        return memo[id(value)]
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        path = str(value).removeprefix("torch.")
        if is_absent(getattr(SUBJECT, path)):
            raise Unsupported(path)
        return Named(path)
    if isinstance(value, torch.device):
        if value.type != "cpu":
            raise Unsupported(str(value))
        return Named(f"device {value}")
    if isinstance(value, torch.Generator):
        raise Unsupported(type(value).__name__)
    if type(value) in (list, tuple):
        return type(value)(recipe(torch, v, memo) for v in value)
    if isinstance(value, tuple):
        parts = [recipe(torch, v, memo) for v in value]
        return tuple(parts)
    if isinstance(value, dict):
        return type(value)((k, recipe(torch, v, memo)) for k, v in value.items())
    if isinstance(value, slice):
        return slice(*(recipe(torch, v, memo) for v in (value.start, value.stop, value.step)))
    return Called(value) if callable(value) else value


SUBJECT_DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "complex128",
)


def made(T: ModuleType, value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, (Memory, Named, Called)):
        if id(value) not in memo:
            memo[id(value)] = value.make(T)
        return memo[id(value)]
    if isinstance(value, (list, tuple)):
        return type(value)([made(T, v, memo) for v in value])
    if isinstance(value, dict):
        return {k: made(T, v, memo) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*(made(T, v, memo) for v in (value.start, value.stop, value.step)))
    return value


def memories(value: Any) -> list[Memory]:
    """The tensors of a recipe, each once."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    here = [value] if isinstance(value, Memory) else [m for part in parts for m in memories(part)]
    return list(dict.fromkeys(here))


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """The recipe with `change` at its tensors and names."""
    if isinstance(value, (Memory, Named)):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)([changed(v, change) for v in value])
    return {k: changed(v, change) for k, v in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True)
class Sample:
    """The arguments of one call, the first of them `self` of the method."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    process: Callable[[Any], Any]  # of the result, before gradients are asked of it
    broadcasts: bool
    source: str

    def exact(self) -> Sample:
        """The same numbers in float64, or complex128."""

        def wide(part: Any) -> Any:
            if isinstance(part, Memory):
                flat = numbers(part.flat)
                name = {"float32": "float64", "float16": "float64", "complex64": "complex128"}.get(
                    flat.dtype.name
                )
                return replace(part, flat=flat.astype(name)) if name else part
            if part.path in ("complex64", "cfloat"):
                return Named("complex128")
            low_names = ("float32", "float16", "bfloat16", "float", "half")
            return Named("float64") if part.path in low_names else part

        memo: dict[int, Any] = {}
        once = lambda part: memo.setdefault(id(part), wide(part))  # noqa: E731
        return replace(self, args=changed(self.args, once), kwargs=changed(self.kwargs, once))

    def __repr__(self) -> str:
        given = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{self.source}({', '.join(given)})"


# ---------------------------------------------------------------- the same function on either side


def seeded(T: ModuleType, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the table's own wrapper does."""
    T.manual_seed(42)
    return function(*args, **kwargs)


@functools.cache
def paths() -> dict[int, str]:
    torch = importlib.import_module("torch")
    named: dict[int, str] = {}
    for space in NAMESPACES:
        owner = functools.reduce(getattr, space.split("."), torch) if space else torch
        for name in dir(owner):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = getattr(owner, name, None)
            if callable(value):
                named.setdefault(id(value), f"{space}.{name}" if space else name)
    return named


def counterpart(T: ModuleType, function: Any) -> Any:
    """What answers in `T` to a function of torch, or of PyTorch's tests: such a one runs with `torch` standing for `T`."""
    if T.__name__ == "torch":
        return function
    if id(function) in paths():
        return found(T, paths()[id(function)])
    if isinstance(function, functools.partial):
        return functools.partial(counterpart(T, function.func), *function.args, **function.keywords)
    if isinstance(function, types.FunctionType):
        if function.__name__ == "wrapper_set_seed":
            return functools.partial(seeded, T)
        if not function.__module__.startswith("torch.testing"):
            raise Missing(f"{function.__module__}.{function.__name__}")
        return rebound(T, function)
    if callable(function) and getattr(function, "__module__", "").startswith(("torch", "torch.")):
        raise Missing(getattr(function, "__name__", repr(function)))
    if type(function).__module__.startswith("torch"):
        raise Missing(repr(function))
    return function


@functools.cache
def rebound(T: ModuleType, function: types.FunctionType) -> types.FunctionType:
    def names(code: types.CodeType) -> set[str]:
        inner = [names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
        return set(code.co_names).union(*inner)

    def turned(value: Any) -> Any:
        if isinstance(value, ModuleType):
            if value.__name__ == "torch" or value.__name__.startswith("torch."):
                return found(T, value.__name__[6:])
            return value
        return counterpart(T, value) if callable(value) and not isinstance(value, type) else value

    space = dict(function.__globals__)
    space.update({n: turned(space[n]) for n in names(function.__code__) if n in space})
    cells = tuple(types.CellType(turned(c.cell_contents)) for c in function.__closure__ or ())
    copy = types.FunctionType(
        function.__code__, space, function.__name__, function.__defaults__, cells or None
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


# ---------------------------------------------------------------- what a sample is put through


@dataclass(frozen=True)
class Variants:
    """An op's entry, as far as it is needed here."""

    name: str
    info: Any

    @property
    def elementwise(self) -> bool:
        return type(self.info).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo")


Facts = Iterator[tuple[str, Any]]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [value]


def is_tensor(value: Any) -> bool:
    return hasattr(value, "requires_grad") and hasattr(value, "stride")


@dataclass
class Run:
    """One sample being run on one side."""

    T: ModuleType
    op: Variants
    sample: Sample
    memo: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.T.manual_seed(0)
        self.args = made(self.T, self.sample.args, self.memo)
        self.kwargs = made(self.T, self.sample.kwargs, self.memo)
        self.inputs = [self.memo[id(m)] for m in memories([self.sample.args, self.sample.kwargs])]

    def function(self, which: str = "op") -> Any:
        return counterpart(self.T, getattr(self.op.info, which))

    def call(self, which: str = "op") -> Any:
        return self.function(which)(*self.args, **self.kwargs)

    def random(self, shapes: list[Any], dtypes: list[Any]) -> list[Any]:
        rng = np.random.default_rng(7)
        return [
            self.T.tensor(rng.uniform(-1, 1, tuple(s))).to(d) for s, d in zip(shapes, dtypes, strict=True)
        ]

    def sharing(self, t: Any) -> list[int]:
        """Which inputs it shares memory with."""
        mine = t.untyped_storage().data_ptr() if t.numel() else 0
        return [
            n
            for n, x in enumerate(self.inputs)
            if t.numel() and x.numel() and x.untyped_storage().data_ptr() == mine
        ]


def steps(t: Any) -> list[int]:
    """The strides that lead anywhere."""
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] if t.numel() else []


def seen(run: Run, result: Any) -> Facts:
    for k, t in enumerate(leaves(result)):
        yield f"result {k}", t
        if is_tensor(t):
            yield f"strides of {k}", steps(t)
            yield f"sharing of {k}", run.sharing(t)
            yield f"view, offset of {k}", (t._is_view(), t.storage_offset() if t.numel() else 0)
            yield f"history of {k}", (t.requires_grad, name_of(t.grad_fn))


def name_of(node: Any) -> str:
    return re.sub(r"\d+$", "", type(node).__name__)


def call(run: Run) -> Facts:
    yield from seen(run, run.call())


def method(run: Run) -> Facts:
    yield from seen(run, run.call("method_variant"))


def operator_form(run: Run) -> Facts:
    yield from seen(run, run.call("operator_variant"))


def differentiable(tensors: list[Any]) -> list[Any]:
    return [t for t in tensors if is_tensor(t) and t.requires_grad]


def gradients(run: Run, result: Any, order: int) -> Facts:
    outputs = differentiable(leaves(counterpart(run.T, run.sample.process)(result)))
    inputs = differentiable(run.inputs)
    yield "how many", (len(outputs), len(inputs))
    if not outputs or not inputs:
        return
    along = run.random([o.shape for o in outputs], [o.dtype for o in outputs])
    if order == 2:
        along = [a.requires_grad_() for a in along]
    first = run.T.autograd.grad(outputs, inputs, along, allow_unused=True, create_graph=order == 2)
    for k, g in enumerate(first):
        yield f"gradient {k}", g
        if g is not None:
            yield f"strides of gradient {k}", steps(g)
    again = differentiable(list(first))
    if order == 1 or not again:
        return
    total = sum((g * g).sum() for g in again)
    wanted = [*inputs, *along]
    for k, g in enumerate(run.T.autograd.grad(total, wanted, allow_unused=True)):
        # A zero is as good as none.
        yield f"second gradient {k}", wanted[k] * 0 if g is None else g


def gradient(run: Run) -> Facts:
    yield from gradients(run, run.call(), 1)


def second(run: Run) -> Facts:
    yield from gradients(run, run.call(), 2)


def forward(run: Run) -> Facts:
    T, ad = run.T, importlib.import_module(f"{run.T.__name__}.autograd.forward_ad")
    floats = [m for m in memories([run.sample.args, run.sample.kwargs]) if m.requires_grad]
    with ad.dual_level():
        primals = [run.memo[id(m)].detach() for m in floats]
        along = run.random([p.shape for p in primals], [p.dtype for p in primals])
        for m, p, a in zip(floats, primals, along, strict=True):
            run.memo[id(m)] = ad.make_dual(p, a)
        args, kwargs = made(T, run.sample.args, run.memo), made(T, run.sample.kwargs, run.memo)
        for k, t in enumerate(leaves(run.function()(*args, **kwargs))):
            dual = ad.unpack_dual(t) if is_tensor(t) else None
            if dual is not None:
                yield f"primal {k}", dual.primal
                yield f"tangent {k}", dual.tangent


def in_place(run: Run, which: str = "inplace_variant") -> Facts:
    """Into a copy that lies as the first argument does, with what autograd makes of it."""
    first = run.args[0]
    target = first.clone() if is_tensor(first) else first
    run.args = (target, *run.args[1:])
    version = target._version
    result = run.call(which)
    yield "same", result is target
    yield "version", target._version - version
    yield "result 0", target
    yield "strides of 0", steps(target)
    yield "history of 0", (target.requires_grad, name_of(target.grad_fn))
    if differentiable([target]) and run.op.info.supports_inplace_autograd:
        yield from gradients(run, target, 1)


def in_place_operator(run: Run) -> Facts:
    yield from in_place(run, "inplace_operator_variant")


def without_grad(sample: Sample) -> Sample:
    drop = lambda part: replace(part, requires_grad=False) if isinstance(part, Memory) else part  # noqa: E731
    memo: dict[int, Any] = {}
    once = lambda part: memo.setdefault(id(part), drop(part))  # noqa: E731
    return replace(sample, args=changed(sample.args, once), kwargs=changed(sample.kwargs, once))


def out_of(make: Callable[[Run, Any], Any]) -> Callable[[Run], Facts]:
    """`out=` of tensors that `make` makes for the results."""

    def into(run: Run) -> Facts:
        with run.T.no_grad():
            wanted = run.call()
            whole = leaves(wanted)
            if not all(is_tensor(t) for t in whole):
                return
            outs = [make(run, t) for t in whole]
            out = outs[0] if is_tensor(wanted) else tuple(outs)
            before = [(o.shape, o.data_ptr(), o._version) for o in outs]
            run.T.manual_seed(0)
            result = run.function()(*run.args, **run.kwargs, out=out)
        for k, o in enumerate(outs):
            yield f"same {k}", leaves(result)[k] is o
            yield f"result {k}", o
            yield f"strides of {k}", steps(o)
            fits = o.shape == before[k][0] and o.numel()
            yield f"moved {k}", (fits and o.data_ptr() != before[k][1], o._version - before[k][2])

    return into


def apart(run: Run, t: Any) -> Any:
    """A place whose elements do not touch."""
    return run.T.zeros((*t.shape, 2), dtype=t.dtype)[..., 1]


MODES: dict[str, Callable[[Run], Facts]] = {
    "call": call,
    "gradient": gradient,
    "second": second,
    "forward": forward,
    "method": method,
    "operator": operator_form,
    "in place": in_place,
    "in place operator": in_place_operator,
    "out": out_of(lambda run, t: run.T.zeros_like(t)),
    "out apart": out_of(apart),
    "out empty": out_of(lambda run, t: run.T.zeros(0, dtype=t.dtype)),
    "out of another size": out_of(lambda run, t: run.T.zeros((*t.shape, 2), dtype=t.dtype)),
    "out of int64": out_of(lambda run, t: run.T.zeros(t.shape, dtype=run.T.int64)),
    "out of float64": out_of(lambda run, t: run.T.zeros(t.shape, dtype=run.T.float64)),
    "out that requires grad": out_of(lambda run, t: run.T.zeros(t.shape, requires_grad=True)),
    "error": call,
    "another dtype": call,
}
OF_ALL = [m for m in MODES if m not in ("error", "another dtype")]


OUTS = [m for m in MODES if m.startswith("out")]


def in_turn(mode: str, number: int) -> bool:
    """Two of the many kinds of `out=` for a sample."""
    if mode in ("method", "operator", "in place operator"):
        return number % 2 == 0
    return mode not in OUTS or OUTS.index(mode) in (2 * number % len(OUTS), (2 * number + 1) % len(OUTS))


def fits(mode: str, op: Variants, sample: Sample, dtype: str) -> bool:
    info = op.info
    grad = info.supports_autograd and any(m.requires_grad for m in memories([sample.args, sample.kwargs]))
    if mode == "gradient":
        return grad
    if mode in ("second", "forward"):
        return grad and dtype in ("float64", "complex128")
    if mode == "method":
        return info.method_variant is not None
    if mode == "operator":
        return info.operator_variant is not None
    if mode == "in place":
        return info.inplace_variant is not None and isinstance(sample.args[0], Memory)
    if mode == "in place operator":
        return info.inplace_operator_variant is not None and isinstance(sample.args[0], Memory)
    return not mode.startswith("out") or (
        info.supports_out and dtype in ("float64", "int64", "bool", "complex128")
    )


# ---------------------------------------------------------------- comparing


@dataclass
class Outcome:
    facts: list[tuple[str, Any]]
    error: Exception | None
    warned: list[str]


def outcome(T: ModuleType, mode: str, op: Variants, sample: Sample) -> Outcome:
    facts: list[tuple[str, Any]] = []
    error: Exception | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for fact in MODES[mode](Run(T, op, sample)):
                facts.append(fact)
        except (Missing, Unsupported):
            raise
        except Exception as raised:
            error = raised
    texts = sorted({f"{w.category.__name__}: {w.message}".partition(" (Triggered")[0] for w in caught})
    return Outcome(facts, error, [t for t in texts if "is in beta" not in t and "torch.jit" not in t])


INTERNAL = (
    AttributeError,
    KeyError,
    UnboundLocalError,
    NameError,
    AssertionError,
    ZeroDivisionError,
    SystemError,
    RecursionError,
    MemoryError,
)


@dataclass(frozen=True)
class Finding:
    kind: str
    text: str


def differences(
    op: Variants, mode: str, sample: Sample, torch: ModuleType, tol: float = 1.0
) -> Iterator[Finding]:
    want = outcome(torch, mode, op, sample)
    if want.error is not None and OTHER_DTYPES.search(str(want.error)):
        raise Unsupported(str(want.error))
    got = outcome(SUBJECT, mode, op, sample)
    if isinstance(got.error, NotBuiltError):
        raise Missing(str(got.error).partition(":")[0].rpartition(".")[2])
    if isinstance(got.error, (AttributeError, ImportError)):
        lacking = NOT_THERE.search(str(got.error))
        if lacking and not isinstance(want.error, AttributeError):
            name = lacking[1] or lacking[2]
            if hasattr(torch, name) or hasattr(torch.Tensor, name) or hasattr(torch.nn.functional, name):
                raise Missing(name)
    exact: Outcome | None = None
    for n, ((what, g), (_, w)) in enumerate(zip(got.facts, want.facts, strict=False)):
        if any_of_equals(op, what, w):
            continue
        loose = mode == "out of float64" or op.info.name in INEXACT
        for kind, text in differing(what, g, w, op, 1e5 if loose else tol):
            if (
                kind == "value"
                and is_tensor(w)
                and str(w.dtype) in ("torch.float32", "torch.float16", "torch.bfloat16", "torch.complex64")
            ):
                exact = exact or outcome(torch, mode, op, sample.exact())
                if n < len(exact.facts) and no_worse(g, w, exact.facts[n][1], tol):
                    continue
            yield Finding(kind, f"{what}: {text}")
    yield from refusals(got, want)
    if got.error is None and want.error is None and got.warned != want.warned:
        yield Finding("warning", f"{got.warned}, not {want.warned}")


def any_of_equals(op: Variants, what: str, want: Any) -> bool:
    """Which of equal elements is chosen is nobody's promise."""
    return (
        op.info.name in ANY_OF_EQUALS
        and is_tensor(want)
        and want.dtype.itemsize == 8
        and (not want.dtype.is_floating_point)
        and (what != "result 0" or op.info.name == "argsort")
    )


def refusals(got: Outcome, want: Outcome) -> Iterator[Finding]:
    told = (f"{type(e).__name__}: {e}" if e else "a result" for e in (got.error, want.error))
    text = "{}, not {}".format(*told)
    if got.error is None and want.error is None:
        return
    foreign = isinstance(got.error, INTERNAL) or "numpy" in type(got.error).__module__
    if got.error is not None and foreign and type(got.error) is not type(want.error):
        yield Finding("internal error", text)
    elif want.error is None:
        yield Finding("refuses", text)
    elif got.error is None:
        yield Finding("accepts", text)
    elif type(got.error).__name__ != type(want.error).__name__:
        yield Finding("type of exception", text)
    elif first_words(got.error) != first_words(want.error):
        yield Finding("text", text)


def first_words(error: Exception) -> str:
    return str(error).partition("\nException raised from")[0].partition(" (Triggered")[0].strip()


def differing(what: str, got: Any, want: Any, op: Variants, tol: float) -> Iterator[tuple[str, str]]:
    if not is_tensor(want) or not is_tensor(got):
        same = type(got) is type(want) and (got == want or (got != got and want != want))
        if isinstance(want, float) and isinstance(got, float) and not same:
            same = math.isclose(got, want, rel_tol=1e-6)
        if not same and not (hasattr(want, "finfo") or ("torch." in repr(want) and repr(got) == repr(want))):
            yield (what.rstrip("0123456789 ") or what), f"{got!r}, not {want!r}"
        return
    if str(got.dtype) != str(want.dtype):
        yield "dtype", f"{got.dtype}, not {want.dtype}"
    elif tuple(got.shape) != tuple(want.shape):
        yield "shape", f"{tuple(got.shape)}, not {tuple(want.shape)}"
    elif op.name not in UNSET:
        a, b = array(got), array(want)
        fine = close(a, b, op, tol, str(want.dtype).removeprefix("torch."))
        if not fine.all():
            worst = np.unravel_index(np.argmin(fine), fine.shape) if fine.ndim else ()
            kind = "value" if what.startswith(("result", "primal")) else f"{what.rstrip('0123456789 ')} value"
            yield kind, f"{a[worst]!r} at {tuple(map(int, worst))}, not {b[worst]!r}"


def close(a: np.ndarray, b: np.ndarray, op: Variants, tol: float, name: str) -> np.ndarray:
    if name not in RTOL:
        return np.asarray(a == b)
    with np.errstate(all="ignore"):
        scale = np.abs(b)
        if not op.elementwise and b.size:
            scale = scale + np.max(np.where(np.isfinite(b), scale, 0))
        fine = np.abs(a - b) <= tol * (RTOL[name] * scale + ATOL[name])
    return np.asarray(fine | (a == b) | (np.isnan(a) & np.isnan(b)))


def no_worse(got: Any, want: Any, exact: Any, tol: float) -> bool:
    """Whether it is no farther than torch's from the result of the same numbers in float64."""
    name = str(want.dtype).removeprefix("torch.")
    a, b, x = (
        array(t).astype("complex128" if name == "complex64" else "float64") for t in (got, want, exact)
    )
    with np.errstate(all="ignore"):
        room = tol * (RTOL[name] * np.abs(x) + ATOL[name])
        fine = (np.abs(a - x) <= 2 * np.abs(b - x) + room) | (a == b) | (np.isnan(a) & np.isnan(b))
        rounded = numbers(as_dtype(x, name))
        fine |= (a == rounded) | (np.isnan(a) & np.isnan(x))
    return bool(fine.all())


# ---------------------------------------------------------------- the table


@dataclass(frozen=True)
class Task:
    """One op in one dtype."""

    number: int  # in the table
    name: str
    dtype: str


def drawn(items: Iterator[Any], most: int, seed: int) -> list[Any]:
    """Of many, some at random; the first always."""
    every = list(items)
    chosen = sorted(random.Random(seed).sample(range(1, len(every)), most - 1)) if len(every) > most else None
    return every if chosen is None else [every[n] for n in (0, *chosen)]


def samples_of(
    torch: ModuleType, task: Task, most: int, seed: int, modes: list[str]
) -> Iterator[tuple[str, Sample]]:
    """(mode, sample), each that the task has."""
    info = table()[task.number]
    op, dtype = Variants(task.name, info), getattr(torch, task.dtype)

    def as_sample(s: Any, source: str) -> Sample:
        memo: dict[int, Any] = {}
        args = tuple(recipe(torch, a, memo) for a in (s.input, *s.args))
        kwargs = recipe(torch, dict(s.kwargs), memo)
        return Sample(args, kwargs, s.output_process_fn_grad, s.broadcasts_input, source)

    def some(make: Callable[[], Any], source: str, change: Callable[[Any], Any] = lambda s: s) -> Any:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            chosen = drawn(make(), most, seed)
        except Exception as error:  # torch refuses its own sample in this dtype
            print(
                f"# {task.name} {task.dtype} {source}: {type(error).__name__}: {error}"[:200], file=sys.stderr
            )
            return
        for s in chosen:
            try:
                sample = as_sample(change(s), source)
            except (Unsupported, RuntimeError):  # sparse tensors have no layout to change
                continue
            if sum(math.prod(m.size) for m in memories([sample.args, sample.kwargs])) <= LARGEST:
                yield sample

    supported = dtype in info.supported_dtypes("cpu")
    few = len(modes) < 5
    if supported and set(modes) & set(OF_ALL):
        grad = dtype in info.supported_backward_dtypes("cpu") and info.supports_autograd
        plain = list(some(lambda: info.sample_inputs("cpu", dtype, requires_grad=grad), "sample"))
        apart = list(
            some(
                lambda: info.sample_inputs("cpu", dtype, requires_grad=grad),
                "strided",
                lambda s: s.noncontiguous(),
            )
        )
        bare = list(some(lambda: info.reference_inputs("cpu", dtype), "reference"))
        for n, s in enumerate((*plain, *apart, *bare)):
            for mode in modes:
                if mode in OF_ALL and fits(mode, op, s, task.dtype) and (few or in_turn(mode, n)):
                    yield mode, without_grad(s) if mode.startswith("out") else s
    elif not supported and "another dtype" in modes:
        like = next(
            (d for d in ("float64", "int64", "bool") if getattr(torch, d) in info.supported_dtypes("cpu")),
            None,
        )
        if like is not None:

            def cast(part: Any) -> Any:
                plain_dtype = isinstance(part, Memory) and part.flat.dtype.name == like
                return replace(part, flat=as_dtype(part.flat, task.dtype)) if plain_dtype else part

            for s in some(lambda: info.sample_inputs("cpu", getattr(torch, like)), "cast"):
                memo: dict[int, Any] = {}
                once = lambda part, memo=memo: memo.setdefault(id(part), cast(part))  # noqa: E731
                yield "another dtype", replace(s, args=changed(s.args, once), kwargs=changed(s.kwargs, once))
    if "error" in modes and task.dtype == "float64" and info.error_inputs_func is not None:
        for s in some(lambda: info.error_inputs("cpu"), "error", lambda e: e.sample_input):
            yield "error", s


@functools.cache
def table() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def tasks(names: list[str], dtypes: list[str]) -> list[Task]:
    return [
        Task(n, info.name if not info.variant_test_name else f"{info.name}.{info.variant_test_name}", d)
        for n, info in enumerate(table())
        if not names or info.name in names or info.formatted_name in names
        for d in dtypes
    ]


# ---------------------------------------------------------------- running, in children that may die


@dataclass
class Report:
    tell: bool = False
    compared: Counter[str] = field(default_factory=Counter)
    missing: dict[str, str] = field(default_factory=dict)
    findings: dict[tuple[str, str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, task: Task, mode: str, kind: str, text: str) -> None:
        texts = self.findings[kind, task.name, mode]
        texts.append(f"{task.dtype} {text}")
        if self.tell and len(texts) == 1:
            print(f"{kind}: {task.name} [{mode}] {texts[0]}", flush=True)


def work(task: Task, most: int, seed: int, modes: list[str], begin: int, only: int | None, tell: Any) -> None:
    """What stands from `begin` on; `tell` gets ("at", number, text), ("found", mode, kind, text), ("missing", name) or ("done", mode)."""
    torch = importlib.import_module("torch")
    op = Variants(task.name, table()[task.number])
    for number, (mode, sample) in enumerate(samples_of(torch, task, most, seed, modes)):
        if number < begin or (only is not None and number != only):
            continue
        tell(("at", number, mode, f"#{number} {sample!r}"))
        try:
            with np.errstate(all="ignore"):
                for finding in differences(op, mode, sample, torch):
                    tell(("found", mode, finding.kind, f"#{number} {sample!r}\n      {finding.text}"))
            tell(("done", mode))
        except Missing as lacking:
            tell(("missing", str(lacking)))
            if not isinstance(lacking.__context__, AttributeError) and mode == "call":
                return
        except Unsupported:
            tell(("done", "by design not there"))
        except Exception as error:  # of this file's making
            tell(
                (
                    "found",
                    mode,
                    "not compared",
                    f"#{number} {sample!r}\n      {type(error).__name__}: {error}",
                )
            )


def prepare() -> ModuleType:
    torch = importlib.import_module("torch")
    torch.set_warn_always(True)
    torch.set_num_threads(1)
    table()
    paths()
    return torch


def child(pipe: Any, assignment: list[Task], most: int, seed: int, modes: list[str], begin: int) -> None:
    prepare()
    for k, task in enumerate(assignment):
        pipe.send(("task", k))
        work(task, most, seed, modes, begin if k == 0 else 0, None, pipe.send)
    pipe.send(("end",))


def run_in_children(todo: list[Task], most: int, seed: int, modes: list[str], report: Report) -> None:
    prepare()
    context = multiprocessing.get_context("fork")
    begin = 0
    while todo:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(there, todo, most, seed, modes, begin))
        process.start()
        there.close()
        task, at, mode, text = todo[0], begin, "", ""
        left = todo
        try:
            while True:
                if not here.poll(LONGEST):
                    process.kill()
                    raise EOFError
                kind, *rest = here.recv()
                if kind == "task":
                    left = todo[rest[0] :]
                    task, at = left[0], -1
                elif kind == "at":
                    at, mode, text = rest
                elif kind == "found":
                    report.add(task, *rest)
                elif kind == "missing":
                    report.missing.setdefault(rest[0], task.name)
                elif kind == "done":
                    report.compared[rest[0]] += 1
                elif kind == "end":
                    left = []
                    break
        except EOFError:
            process.join()
            report.add(task, mode, f"crash ({process.exitcode})", text)
            begin = at + 1
            left = left if at >= 0 else left[1:]  # it died before its first sample
        process.join()
        todo = left


def shown(report: Report, most: int) -> Iterator[str]:
    order = ("crash", "internal", "value", "result", "dtype", "shape")
    rank = lambda kind: next((n for n, o in enumerate(order) if kind.startswith(o)), len(order))  # noqa: E731
    by_kind: dict[str, list[tuple[str, str, list[str]]]] = defaultdict(list)
    for (kind, name, mode), texts in report.findings.items():
        by_kind[kind].append((name, mode, texts))
    for kind in sorted(by_kind, key=lambda k: (rank(k), k)):
        yield f"== {kind}: {sum(len(t) for *_, t in by_kind[kind])} in {len(by_kind[kind])} places"
        for name, mode, texts in by_kind[kind]:
            for text in texts[:most]:
                yield f"  {name} [{mode}, {len(texts)}] {text}"
    if report.missing:
        yield f"missing ({len(report.missing)}): {', '.join(sorted(report.missing))}"
    yield f"{sum(report.compared.values())} compared: " + ", ".join(
        f"{n} {m}" for m, n in report.compared.items()
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.opinfo", description=__doc__)
    parser.add_argument("names", nargs="*", help="ops of the table; all, if none is given")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--samples", type=int, default=12, help="at most so many of each source")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="0/1", help="K/N: every Nth op from the Kth on")
    parser.add_argument("--show", type=int, default=1, help="examples of each finding")
    parser.add_argument("--tell", action="store_true", help="each finding when it is met first")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    report = Report(asked.tell)
    todo = [t for t in tasks(asked.names, asked.dtypes.split(",")) if t.number % parts == part]
    run_in_children(todo, asked.samples, asked.seed, asked.modes.split(","), report)
    print("\n".join(shown(report, asked.show)))
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
