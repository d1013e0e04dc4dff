"""What a case of an op is, how its operands are drawn, and the builders of the table.

A case is a function of the module under test and of tensors. The sampler draws its operands from the case's domain,
in the case's shapes, and lays the first of them out in memory in each way that a kernel can meet.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Operands = tuple[Shape, ...]

FLOATS = ("float32", "float64")
INTS = ("int64", "int32", "int16", "int8", "uint8")
NARROW = ("float16", "bfloat16")
DTYPES = (*FLOATS, *NARROW, *INTS, "bool")
SMALL = (*NARROW, "int16", "int8", "uint8")  # forward only, in the first shape: kernels differ by a cast

# How operands lie in memory: c contiguous, t transposed, s every second element from an offset, e expanded.
LAYOUTS = {1: ("t", "s", "e"), 2: ("tc", "st", "ce", "es"), 3: ("ctc", "ste")}

UNARY: tuple[Operands, ...] = (((3, 4),), ((),), ((0, 3),), ((2, 3, 2),))
BINARY: tuple[Operands, ...] = (
    ((3, 4), (3, 4)),
    ((3, 1), (4,)),
    ((2, 3), ()),
    ((), ()),
    ((0, 3), (3,)),
    ((2, 1, 3), (3, 3)),
)
TERNARY: tuple[Operands, ...] = (
    ((3, 4), (3, 4), (3, 4)),
    ((3, 1), (4,), ()),
    ((), (), ()),
    ((0, 3), (3,), (1,)),
)

SPECIALS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 2.5, -3.5, 100.0, -100.0, 1e-30, np.inf, -np.inf, np.nan]


@dataclass(frozen=True)
class OpCase:
    """One op in one way of calling it.

    `fn(T, *tensors)` calls it. `op` names it where it also has the forms in `forms`: m method, i in-place method,
    o `out=`; `args` and `kwargs` follow the tensors there. `kinds` fixes the dtype of single operands.
    """

    name: str
    fn: Callable[..., Any]
    shapes: tuple[Operands, ...]
    op: str = ""
    forms: str = ""
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    domain: tuple[tuple[float, float], ...] = ((-2.0, 2.0),)
    kinks: tuple[float, ...] = ()
    kinds: tuple[str | None, ...] = ()
    dtypes: tuple[str, ...] = (
        DTYPES  # of all tests; the forward test meets the others as well, in the first shape
    )
    unlike: tuple[
        str, ...
    ] = ()  # dtypes of which nobody promises what is asked here: which of equal elements is taken
    steps: bool = (
        False  # PyTorch rounds to float16 between its steps: there its float64 result, rounded, is the oracle
    )
    differentiable: bool = True
    elementwise: bool = False
    layouts: bool = True
    strides: bool = True  # PyTorch makes some of several ops, whose results lie in memory in another way
    rounds: bool = (
        False  # with create_graph its gradient is that of ops, where else a kernel rounds otherwise
    )
    finite: bool = False  # torch's vector code and its scalar code differ at infinity
    tol: float = 1.0
    ref: Callable[..., Any] | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def arity(self) -> int:
        return len(self.shapes[0])


@dataclass(frozen=True)
class Sample:
    """Arrays and layouts, of which any torch-like module can make the same operands."""

    label: str
    arrays: tuple[np.ndarray, ...]
    layouts: str

    def tensors(self, T: ModuleType, requires_grad: bool = False) -> list[Any]:
        made = [lay_out(T, a, kind) for a, kind in zip(self.arrays, self.layouts, strict=True)]
        if requires_grad:
            made = [
                t.requires_grad_() if t.dtype.is_floating_point or t.dtype.is_complex else t for t in made
            ]
        return made

    def exact(self) -> Sample:
        """The same numbers, those in float16 as float64."""
        wide = tuple(numbers(a).astype(np.float64) if is_narrow(a) else a for a in self.arrays)
        return Sample(f"{self.label} from float64", wide, self.layouts)


BFLOAT16 = np.dtype("V2")  # as which NumPy carries its memory


def bfloat16(values: np.ndarray) -> np.ndarray:
    """The memory of numbers rounded to bfloat16: the upper halves of float32, to even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(BFLOAT16)


def as_dtype(numbers: np.ndarray, name: str) -> np.ndarray:
    return bfloat16(numbers) if name == "bfloat16" else numbers.astype(name)


def is_narrow(array: np.ndarray) -> bool:
    return array.dtype in (np.float16, BFLOAT16)


def numbers(array: np.ndarray) -> np.ndarray:
    """What an operand's memory stands for."""
    if array.dtype != BFLOAT16:
        return array
    return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def tensor(T: ModuleType, array: np.ndarray) -> Any:
    if array.dtype != BFLOAT16:
        return T.tensor(array)
    return T.tensor(array.view(np.int16)).view(T.bfloat16)


def lay_out(T: ModuleType, array: np.ndarray, kind: str) -> Any:
    """A leaf with the values of `array`, lying in memory as `kind` says."""
    if array.ndim == 0 or kind == "c":
        return tensor(T, array)
    if kind == "t":
        return tensor(T, np.ascontiguousarray(array.T)).permute(*reversed(range(array.ndim)))
    if kind == "s":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        wide[..., 1::2] = array
        return tensor(T, wide)[..., 1::2]
    return tensor(T, array[:1].copy()).expand(*array.shape)


def draw(case: OpCase, index: int, shape: Shape, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Values of an operand: in its domain, a little away from the kinks."""
    dtype = (case.kinds[index] if index < len(case.kinds) else None) or dtype
    low, high = case.domain[min(index, len(case.domain) - 1)]
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTS:
        low = max(low, np.iinfo(dtype).min)
        return rng.integers(int(np.ceil(low)), max(int(high), int(np.ceil(low))) + 1, shape).astype(dtype)
    values = np.asarray(rng.uniform(low, high, shape))
    for kink in case.kinks:
        near = np.abs(values - kink) < 0.1
        values = np.where(near, kink + np.where(values < kink, -0.1, 0.1), values)
    return as_dtype(values, dtype)


def by_name(case: OpCase, choices: Sequence[Any], count: int) -> tuple[Any, ...]:
    """A few of the choices, others for another case: all are met by the table, though not by each of its rows."""
    start = zlib.crc32(case.name.encode()) % max(len(choices), 1)
    return tuple([*choices, *choices][start : start + min(count, len(choices))])


def samples(
    case: OpCase,
    dtype: str | tuple[str, ...],
    layouts: bool = True,
    broadcast: bool = True,
    in_turn: bool = False,
) -> Iterator[Sample]:
    """Each of the case's shapes, then the first of them in its layouts. A tuple gives each operand its dtype.

    Without `broadcast` an elementwise case leaves out operands of two shapes (but for numbers, which count in promotion): they
    have loops of their own, to compile for each dtype. `in_turn` gives an elementwise case one layout, another by its name: where it
    is rules that are looked at, of which each layout has kernels to compile, from one template.
    """
    kinds_of = LAYOUTS.get(case.arity, ())
    if in_turn and case.elementwise:
        kinds_of = by_name(case, kinds_of, 1)
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    for position, shapes in enumerate(case.shapes):
        if case.elementwise and not broadcast and len({s for s in shapes if s}) > 1:
            continue
        dtypes = (dtype,) * len(shapes) if isinstance(dtype, str) else dtype
        arrays = tuple(draw(case, i, s, d, rng) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True)))
        yield Sample(f"{dtype} {shapes}", arrays, "c" * len(shapes))
        if position == 0 and layouts and case.layouts:
            for kinds in kinds_of:
                expanded = tuple(
                    np.broadcast_to(a[:1], a.shape) if k == "e" and a.ndim else a
                    for a, k in zip(arrays, kinds, strict=True)
                )
                yield Sample(f"{dtype} {shapes} {kinds}", expanded, kinds)


def special_sample(case: OpCase, dtype: str) -> Sample:
    """Every pair (triple) of zeros, infinities, NaN and a few more; 32 times, as PyTorch's gradients at NaN are others for the elements
    that its vectors leave over."""
    values = [v for v in SPECIALS if not (case.finite and np.isinf(v))]
    grid = np.meshgrid(*[np.array(values, dtype)] * case.arity, indexing="ij")
    arrays = [np.repeat(g.ravel(), 32) for g in grid]
    for i, kind in enumerate(case.kinds):
        if kind:
            arrays[i] = arrays[i] > 0 if kind == "bool" else arrays[i].astype(kind)
    return Sample(f"{dtype} specials", tuple(arrays), "c" * case.arity)


# ---- the builders of the table

CASES: dict[str, OpCase] = {}


def case(name: str, fn: Callable[..., Any], *shapes: Operands, **rest: Any) -> None:
    assert name not in CASES, name
    if "domain" in rest and not isinstance(rest["domain"][0], tuple):
        rest["domain"] = (rest["domain"],)
    CASES[name] = OpCase(name, fn, shapes, **rest)


def op(name: str, *shapes: Operands, forms: str = "mio", where: str = "", **rest: Any) -> None:
    """A case that calls `T.name(*tensors, *args, **kwargs)`, or the function of that name in the submodule `where`."""
    name, _, variant = name.partition("/")
    args, kwargs = rest.get("args", ()), dict(rest.get("kwargs", ()))
    path = [*where.split("."), name] if where else [name]

    def fn(T: ModuleType, *tensors: Any) -> Any:
        return operator.attrgetter(".".join(path))(T)(*tensors, *args, **kwargs)

    case(f"{name}_{variant}" if variant else name, fn, *shapes, op=name, forms=forms, **rest)


def unary(name: str, **rest: Any) -> None:
    op(name, *UNARY, elementwise=True, **rest)


def binary(name: str, **rest: Any) -> None:
    op(name, *BINARY, elementwise=True, **rest)


F = "nn.functional"
POSITIVE = (0.3, 3.0)
NO_GRAD = {"differentiable": False}


# ---- forms
def method(case: OpCase, tensors: list[Any], suffix: str = "") -> Any:
    """`x.op(...)`, or `x.op_(...)` with the suffix."""
    return getattr(tensors[0], case.op + suffix)(*tensors[1:], *case.args, **dict(case.kwargs))


def with_form(form: str) -> list[OpCase]:
    return [c for c in CASES.values() if form in c.forms]


def differentiable() -> list[OpCase]:
    return [c for c in CASES.values() if c.differentiable]
