"""The one table of op cases. Every test of "all ops" reads it: forward and gradients against torch, gradient checks,
raw against registered rules, in-place and `out=` forms.

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

from tests.compare import leaves

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
            made = [t.requires_grad_() if t.dtype.is_floating_point else t for t in made]
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

# ---- elementwise, one operand
unary("neg", ref=np.negative)
unary("abs", kinks=(0,), ref=np.abs)
unary("sign", kinks=(0,), ref=np.sign)
unary("sqrt", domain=POSITIVE, ref=np.sqrt)
unary("rsqrt", domain=POSITIVE, ref=lambda x: 1 / np.sqrt(x))
unary("reciprocal", domain=POSITIVE, ref=np.reciprocal)
unary("exp", ref=np.exp)
unary("log", domain=POSITIVE, ref=np.log)
unary("expm1", ref=np.expm1)
unary("log1p", domain=(-0.5, 3.0), ref=np.log1p)
unary("sin", ref=np.sin)
unary("cos", ref=np.cos)
unary("tanh", ref=np.tanh)
unary("sigmoid", ref=lambda x: 1 / (1 + np.exp(-x)))
unary("relu", kinks=(0,), forms="mi", ref=lambda x: np.maximum(x, 0))
unary("silu", where=F, forms="", ref=lambda x: x / (1 + np.exp(-x)))
unary("gelu", where=F, forms="", finite=True)
unary("gelu/tanh", where=F, forms="", kwargs=(("approximate", "tanh"),))
unary("softplus", where=F, forms="", ref=lambda x: np.log1p(np.exp(x)))
unary("softplus/beta", where=F, forms="", kwargs=(("beta", 2.0), ("threshold", 3.0)), kinks=(1.5,))
unary("relu/functional", where=F, forms="", kinks=(0,))
unary("isnan", forms="m", ref=np.isnan, **NO_GRAD)
unary("isinf", forms="m", ref=np.isinf, **NO_GRAD)
unary("isfinite", forms="m", ref=np.isfinite, **NO_GRAD)
unary("logical_not", ref=np.logical_not, **NO_GRAD)
unary("bitwise_not", **NO_GRAD)
unary("clamp", args=(-0.5, 1.0), kinks=(-0.5, 1.0), ref=lambda x: np.clip(x, -0.5, 1.0))
unary("clamp/min_only", kwargs=(("min", 0),), kinks=(0,))
unary("clamp/max_only", kwargs=(("max", 1),), kinks=(1,))
unary("clamp_min", args=(0.5,), kinks=(0.5,))
unary("clamp_max", args=(0.5,), kinks=(0.5,))

for name in ("exp2", "tan", "sinh", "cosh", "atan", "erf", "erfc"):
    unary(name, domain=(-1.4, 1.4), ref=getattr(np, name, None))
for name in ("asin", "acos", "erfinv"):
    unary(name, domain=(-0.9, 0.9), ref=getattr(np, name, None))
# PyTorch has no gradient of these in place.
for name in ("asinh", "arcsinh", "atanh", "arctanh"):
    unary(
        name,
        forms="mo",
        domain=(-0.9, 0.9),
        ref=getattr(np, "arc" + name.removeprefix("arc").removeprefix("a")),
    )
for name in ("log2", "log10"):
    unary(name, domain=POSITIVE, ref=getattr(np, name))
for name in ("arcsin", "arccos", "arctan"):
    unary(name, domain=(-0.9, 0.9), ref=getattr(np, name))
for name in ("acosh", "arccosh"):
    unary(name, forms="mo", domain=(1.2, 4.0), ref=np.arccosh)
for name in ("deg2rad", "rad2deg"):
    unary(name, ref=getattr(np, name), strides=False)
unary("sinc", domain=(0.2, 2.0), ref=np.sinc, steps=True)
unary("lgamma", domain=(0.3, 12.0), finite=True)
unary("lgamma/negative", domain=(-2.9, -2.1), dtypes=FLOATS)
unary("digamma", domain=(0.3, 12.0), tol=100)  # PyTorch's trigamma is good to 5e-10
unary("digamma/negative", domain=(-2.9, -2.1), dtypes=FLOATS, tol=100)
for n in (0, 1, 2, 3):
    case(f"polygamma_{n}", lambda T, x, n=n: T.polygamma(n, x), *UNARY, domain=POSITIVE, tol=100)
    case(f"polygamma_{n}_method", lambda T, x, n=n: x.polygamma(n), *UNARY, domain=(-0.8, -0.2), tol=100)
unary("mvlgamma", domain=(1.2, 5.0), args=(3,), strides=False)
unary("i0", domain=(-3.0, 12.0))
unary("i0e", domain=(-3.0, 12.0), where="special", forms="", kinks=(0,), steps=True)
# Refused in float16 (the forward test compares the words), or not differentiated there.
NO_HALF = {"dtypes": tuple(d for d in DTYPES if d not in NARROW)}
for name in ("i1", "i1e", "erfcx", "log_ndtr"):
    unary(name, domain=(-3.0, 12.0), where="special", forms="", kinks=(0,), steps=True, **NO_HALF)
for name in ("expit", "ndtr", "entr"):
    unary(name, domain=POSITIVE, where="special", forms="")
unary("ndtri", domain=(0.05, 0.95), where="special", forms="", **NO_HALF)
unary("logit", domain=(0.1, 0.9), ref=lambda x: np.log(x / (1 - x)), steps=True)
unary("logit/eps", domain=(0.05, 0.95), args=(0.2,), kinks=(0.2, 0.8), steps=True)
# Each kernel of these is long, so they meet few dtypes and layouts; more values: tests/expr/test_loops.py. PyTorch's Bessel functions
# are good to 1e-9, Airy's to 1e-6.
TAKEN: dict[str, Any] = {
    "where": "special",
    "forms": "",
    "layouts": False,
    "dtypes": (*FLOATS, *NARROW, "int64"),
}
for name in ("igamma", "igammac"):
    op(name, ((3, 4), (3, 4)), forms="mio", domain=(POSITIVE, (0.3, 9.0)), layouts=False, **NO_GRAD)

    def part(T: ModuleType, x: Any, name: str = name) -> Any:
        return getattr(T, name)(T.tensor([0.4, 1.0, 2.5, 30.0], dtype=x.dtype), x)

    case(f"{name}_other", part, ((3, 4),), domain=POSITIVE, dtypes=("float64",), layouts=False, tol=10)
op(
    "_standard_gamma_grad",
    ((3, 4), (3, 4)),
    forms="",
    domain=((0.1, 20.0), (0.1, 20.0)),
    dtypes=FLOATS,
    **NO_GRAD,
)
op(
    "_dirichlet_grad",
    ((3, 4), (3, 4), (3, 4)),
    forms="",
    domain=((0.05, 0.95), (0.1, 12.0), (13.0, 30.0)),
    dtypes=FLOATS,
    tol=100,  # PyTorch's series in float32 are computed in float32
    **NO_GRAD,
)
op("zeta", ((3, 4), (3, 4)), domain=((1.2, 5.0), POSITIVE), **TAKEN, **NO_GRAD)
case(
    "zeta_other",
    lambda T, q: T.special.zeta(2.5, q),
    ((3, 4),),
    domain=POSITIVE,
    dtypes=("float64",),
    layouts=False,
    tol=10,
)
BESSEL = ("j0", "j1", "y0", "y1", "modified_i0", "modified_i1", "modified_k0", "modified_k1", "spherical_j0")
for name in (*BESSEL, "scaled_modified_k0", "scaled_modified_k1", "airy_ai"):
    name = name if name == "airy_ai" else f"{name[:-2]}bessel_{name[-2:]}"
    op(name, ((3, 4),), domain=POSITIVE, tol=1e5 if name == "airy_ai" else 100, **TAKEN, **NO_GRAD)
for name in ("chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "hermite_h", "hermite_he"):
    family, _, kind = name.partition("_")
    op(
        f"{family}_polynomial_{kind}",
        ((3, 4), (3, 4)),
        domain=((-1.2, 1.2), (-2.0, 11.0)),
        **TAKEN,
        **NO_GRAD,
    )
for name in (
    *(f"shifted_chebyshev_polynomial_{k}" for k in "tuvw"),
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
):
    op(name, ((3, 4), (3, 4)), domain=((-0.2, 1.1), (-2.0, 11.0)), tol=10, **TAKEN, **NO_GRAD)
for name in ("floor", "ceil", "trunc", "fix"):
    unary(name, ref=getattr(np, name))
unary("round", ref=np.round)
unary("round/decimals", kwargs=(("decimals", 1),), domain=(-20.0, 20.0))
unary("round/tens", kwargs=(("decimals", -1),), domain=(-99.0, 99.0))
unary("frac", kinks=(-1, 0, 1), ref=lambda x: x - np.trunc(x))
unary("sgn", kinks=(0,), ref=np.sign)
unary("square", ref=np.square)
unary("absolute", kinks=(0,), ref=np.abs)
unary("negative", ref=np.negative)
unary("positive", forms="m", strides=False)
unary("signbit", forms="mo", ref=np.signbit, **NO_GRAD)
unary("isposinf", forms="mo", ref=np.isposinf, **NO_GRAD)
unary("isneginf", forms="mo", ref=np.isneginf, **NO_GRAD)
unary("isreal", forms="m", ref=np.isreal, strides=False, **NO_GRAD)
unary("nan_to_num", ref=np.nan_to_num, strides=False)
unary("nan_to_num/numbers", args=(0.5, 1.0, -1.0), dtypes=FLOATS, strides=False)
unary("frexp", forms="m", strides=False)
unary("threshold", args=(0.5, 2), forms="", kinks=(0.5,))
unary("hardshrink", args=(0.5,), forms="m", kinks=(-0.5, 0.5))
COMPOSED = ("relu6", "hardtanh", "rrelu", "logsigmoid", "softsign", "tanhshrink")
for name, kinks in {
    **dict(relu6=(0, 6), leaky_relu=(0,), elu=(0,), selu=(0,), celu=(0,), mish=(), softsign=(0,)),
    **dict(logsigmoid=(0,), hardtanh=(-1, 1), hardsigmoid=(-3, 3), hardswish=(-3, 3), softshrink=(-0.5, 0.5)),
    **dict(tanhshrink=(), rrelu=(0,)),
}.items():
    # hardsigmoid_backward has no derivative in PyTorch; the vector code of softshrink gives -0, its scalar code 0
    differentiable = name != "hardsigmoid"
    op(
        name,
        *UNARY,
        elementwise=name != "softshrink",
        strides=name not in COMPOSED,
        where=F,
        forms="",
        kinks=kinks,
        domain=(-4.0, 7.0),
        differentiable=differentiable,
    )
for name, args in dict(
    leaky_relu=(0.3,), elu=(0.7,), celu=(0.5,), hardtanh=(0, 2), softshrink=(1.0,)
).items():
    op(f"{name}/setting", *UNARY, where=F, forms="", args=args, kinks=(0, 2, 1, -1))
for name in ("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh", "hardswish"):
    case(
        f"{name}_inplace",
        lambda T, x, n=name: getattr(T.nn.functional, n)(x * 1, inplace=True),
        *UNARY,
        kinks=(-1, 0, 1),
    )
for name in ("relu_", "celu_", "elu_", "selu_", "leaky_relu_", "hardtanh_"):
    case(
        f"functional_{name}",
        lambda T, x, n=name: getattr(T.nn.functional, n)(x * 1),
        *UNARY,
        kinks=(-1, 0, 1),
    )
# In place PyTorch's nodes of these are called otherwise (ThresholdBackward1).
case("functional_rrelu_", lambda T, x: T.nn.functional.rrelu_(x * 1), *UNARY, **NO_GRAD)
case("functional_threshold_", lambda T, x: T.nn.functional.threshold_(x * 1, 0.5, 2), *UNARY, **NO_GRAD)
op(
    "prelu",
    ((2, 3), (3,)),
    ((2, 3, 2), (1,)),
    ((4,), (1,)),
    ((), (1,)),
    ((0, 3), (3,)),
    forms="",
    where=F,
    kinks=(0,),
)
op("glu", ((2, 4),), ((3, 2, 2),), forms="", where=F)
op("glu/dim", ((2, 4),), ((4, 0),), forms="", where=F, args=(0,))

# ---- elementwise, two operands
NONZERO = ((-2.0, 2.0), POSITIVE)
binary("add", ref=np.add)
binary("add/alpha", kwargs=(("alpha", 3),), ref=lambda x, y: x + 3 * y)
binary("sub", ref=np.subtract)
binary("sub/alpha", kwargs=(("alpha", 2),))
binary("mul", ref=np.multiply)
binary("div", domain=NONZERO, ref=np.divide)
binary("div/floor", domain=NONZERO, kwargs=(("rounding_mode", "floor"),), ref=np.floor_divide)
binary("div/trunc", domain=NONZERO, kwargs=(("rounding_mode", "trunc"),))
binary("floor_divide", domain=NONZERO, ref=np.floor_divide, differentiable=False)
binary("pow", domain=(POSITIVE, (-2.0, 2.0)), ref=np.power)
binary("maximum", forms="mo", kinks=(9,), ref=np.maximum)
binary("minimum", forms="mo", kinks=(9,), ref=np.minimum)
binary("fmax", forms="mo", kinks=(9,), ref=np.fmax)
binary("fmin", forms="mo", kinks=(9,), ref=np.fmin)
binary("atan2", domain=NONZERO, ref=np.arctan2)
binary("arctan2", domain=NONZERO, ref=np.arctan2)
binary("hypot", domain=NONZERO, ref=np.hypot)
binary("logaddexp", forms="mo", ref=np.logaddexp)
binary("logaddexp2", forms="mo", ref=np.logaddexp2)
binary("xlogy", domain=NONZERO, ref=lambda x, y: x * np.log(y))
binary("xlog1py", domain=NONZERO, where="special", forms="", ref=lambda x, y: x * np.log1p(y))
binary("copysign", domain=((-2.0, -0.2), POSITIVE), ref=np.copysign)
binary("nextafter", ref=np.nextafter, differentiable=False)
binary("heaviside", ref=np.heaviside, differentiable=False)
binary("ldexp", dtypes=("float64", "float32", "int64"), ref=lambda x, y: x * 2.0**y)
binary("float_power", domain=(POSITIVE, (-2.0, 2.0)), ref=np.float_power)
binary("remainder", domain=((2.1, 2.9), (0.4, 0.6)), ref=np.remainder)
binary("fmod", domain=((2.1, 2.9), (0.4, 0.6)), ref=np.fmod)
binary("gcd", domain=(-20, 20), dtypes=("int64", "int32"), **NO_GRAD)
# Beyond int8 PyTorch takes the absolute value before the product wraps.
binary("lcm", domain=(-20, 20), dtypes=("int64", "int32"), unlike=("int8",), **NO_GRAD)
binary("rsub", forms="", strides=False, ref=lambda x, y: y - x)
binary("rsub/alpha", forms="", strides=False, kwargs=(("alpha", 2),), ref=lambda x, y: y - 2 * x)
for name in ("multiply", "subtract", "divide", "true_divide"):
    binary(name, domain=NONZERO, ref=getattr(np, name))
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    binary(name, ref=getattr(operator, name), **NO_GRAD)
for name in ("greater", "greater_equal", "less", "less_equal", "not_equal"):
    binary(name, ref=getattr(np, name), **NO_GRAD)
for name in ("and", "or", "xor"):
    binary(f"logical_{name}", ref=getattr(np, f"logical_{name}"), **NO_GRAD)
    binary(f"bitwise_{name}", ref=None, **NO_GRAD)
binary("bitwise_left_shift", domain=((0, 5), (0, 5)), dtypes=INTS, **NO_GRAD)
binary("bitwise_right_shift", domain=((-9, 9), (0, 5)), dtypes=INTS, **NO_GRAD)
binary("isclose", forms="m", **NO_GRAD)

# ---- elementwise, three operands
op("where", *TERNARY, forms="o", kinds=("bool",), elementwise=True, ref=np.where)
op("lerp", *TERNARY, elementwise=True, ref=lambda x, y, w: x + w * (y - x))
op("addcmul", *TERNARY, elementwise=True, ref=lambda x, y, z: x + y * z)
op("addcmul/value", *TERNARY, kwargs=(("value", 2),), ref=lambda x, y, z: x + 2 * y * z)
op("addcdiv", *TERNARY, elementwise=True, domain=((-2.0, 2.0), *NONZERO), ref=lambda x, y, z: x + y / z)
op("addcdiv/value", *TERNARY, kwargs=(("value", 0.5),), domain=((-2.0, 2.0), *NONZERO))
# PyTorch cannot differentiate clamp twice where its first operand is broadcast.
WHOLE_FIRST = (((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), ()), ((), (), ()), ((0, 3), (3,), (1,)))
op(
    "clamp/tensors",
    *WHOLE_FIRST,
    domain=((-2.0, 2.0), (-1.0, -0.2), (0.2, 1.0)),
    kinks=(9,),
    elementwise=True,
)

# ---- Python numbers and operators; x ** 2 and 2 ** x are kernels of their own
case("pos", lambda T, x: +x, *UNARY)
case("neg_operator", lambda T, x: -x, *UNARY)
case("abs_builtin", lambda T, x: abs(x), *UNARY, kinks=(0,))
case("invert_operator", lambda T, x: ~x, *UNARY, **NO_GRAD)
for symbol in ("add", "sub", "mul", "truediv", "floordiv", "pow"):
    f = getattr(operator, symbol)
    smooth = symbol != "floordiv"
    domain = POSITIVE if symbol in ("truediv", "floordiv", "pow") else (-2.0, 2.0)
    more = {"domain": domain, "differentiable": smooth}
    case(f"{symbol}_operator", lambda T, x, y, f=f: f(x, y), *BINARY, **more)
    case(f"{symbol}_int", lambda T, x, f=f: f(x, 2), *UNARY, **more)
    case(f"{symbol}_float", lambda T, x, f=f: f(x, 2.5), *UNARY, **more)
    case(f"r{symbol}_int", lambda T, x, f=f: f(2, x), *UNARY, strides=symbol != "pow", **more)
    case(f"r{symbol}_float", lambda T, x, f=f: f(2.5, x), *UNARY, strides=symbol != "pow", **more)
for symbol in ("and_", "or_", "xor"):
    f = getattr(operator, symbol)
    case(f"{symbol.strip('_')}_operator", lambda T, x, y, f=f: f(x, y), *BINARY, **NO_GRAD)
    case(f"{symbol.strip('_')}_int", lambda T, x, f=f: f(x, 3), *UNARY, **NO_GRAD)
for symbol in ("lshift", "rshift"):
    f = getattr(operator, symbol)
    more = {"domain": (0, 5), "dtypes": INTS, "differentiable": False}
    case(f"{symbol}_operator", lambda T, x, y, f=f: f(x, y), *BINARY, **more)
for symbol in ("eq", "ne", "lt", "le", "gt", "ge"):
    f = getattr(operator, symbol)
    case(f"{symbol}_operator", lambda T, x, f=f: f(x, 1), *UNARY, **NO_GRAD)
for exponent in (0, 1, 2, 3, -1, 0.5, -0.5, 2.5):
    case(f"pow_{exponent}", lambda T, x, e=exponent: x**e, *UNARY, domain=POSITIVE, elementwise=True)
for name in ("xlogy", "special.xlog1py", "float_power"):
    f = operator.attrgetter(name)
    short = name.removeprefix("special.")
    case(f"{short}_number", lambda T, x, f=f: f(T)(x, 2.5), *UNARY, domain=POSITIVE, elementwise=True)
    case(
        f"{short}_number_first",
        lambda T, x, f=f: f(T)(2.5, x),
        *UNARY,
        domain=POSITIVE,
        elementwise=True,
        strides=short != "float_power",
    )
case("copysign_number", lambda T, x: T.copysign(x, -2), *UNARY, kinks=(0,), elementwise=True)
case("rsub_number", lambda T, x: T.rsub(x, 2.5, alpha=3), *UNARY, elementwise=True, steps=True)
for symbol in ("mod", "lshift", "rshift"):
    f = getattr(operator, symbol)
    smooth = symbol == "mod"
    more = {"domain": (1.1, 1.9), "elementwise": smooth, "differentiable": smooth}
    more["dtypes"] = DTYPES if smooth else ("int64", "int32")
    case(f"{symbol}_number", lambda T, x, f=f: f(x, 2), *UNARY, **more)
case("lerp_scalar", lambda T, x, y: T.lerp(x, y, 0.3), *BINARY)
case("where_scalars", lambda T, c, x: T.where(c, x, 1.5), *BINARY, kinds=("bool",))
case("where_scalar_first", lambda T, c, x: T.where(c, 2, x), *BINARY, kinds=("bool",))

# ---- reductions
REDUCED: tuple[Operands, ...] = (((3, 4),), ((2, 3, 4),), ((),), ((5,),))
WITH_EMPTY: tuple[Operands, ...] = (*REDUCED, ((0, 3),), ((3, 0),))
MATRIX: tuple[Operands, ...] = (((3, 4),), ((2, 3, 2),))
for name in ("sum", "mean", "prod"):
    ref = getattr(np, name)
    op(name, *WITH_EMPTY, forms="m", ref=ref)
    op(f"{name}/dim", *MATRIX, ((3, 0),), forms="mo", args=(1,), ref=lambda x, f=ref: f(x, 1))
    op(
        f"{name}/keepdim",
        *MATRIX,
        ((0, 3),),
        forms="mo",
        args=(0, True),
        ref=lambda x, f=ref: f(x, 0, keepdims=True),
    )
    case(f"{name}_dtype", lambda T, x, n=name: getattr(T, n)(x, dtype=T.float64), *MATRIX)
for name in ("sum", "mean"):
    op(f"{name}/dims", ((2, 3, 4),), ((3, 2, 0),), forms="mo", args=((0, 2),))
    op(f"{name}/dims_keepdim", ((2, 3, 4),), forms="mo", args=((-1, 0), True))
for name in ("amax", "amin"):
    op(name, *REDUCED, forms="mo", ref=getattr(np, name))
    op(f"{name}/dim", *MATRIX, forms="mo", args=(1,))
    op(f"{name}/dims", ((2, 3, 4),), forms="mo", args=((0, 2), True))
for name in ("max", "min"):
    op(name, *REDUCED, forms="m", ref=getattr(np, name))
    op(f"{name}/dim", *MATRIX, forms="m", args=(1,))
    op(f"{name}/keepdim", *MATRIX, ((0, 3),), forms="m", args=(-1, True))
    op(f"{name}/other", *BINARY, forms="mo", kinks=(9,))
for name in ("argmax", "argmin"):
    op(name, *REDUCED, forms="m", ref=getattr(np, name), **NO_GRAD)
    op(f"{name}/dim", *MATRIX, forms="mo", args=(1,), **NO_GRAD)
    op(f"{name}/keepdim", *MATRIX, forms="mo", args=(0, True), **NO_GRAD)
for name in ("all", "any"):
    op(name, *WITH_EMPTY, forms="m", ref=getattr(np, name), **NO_GRAD)
    op(f"{name}/dim", *MATRIX, ((3, 0),), forms="mo", args=(1,), **NO_GRAD)
    op(f"{name}/keepdim", *MATRIX, forms="mo", args=(0, True), **NO_GRAD)
op("norm", *WITH_EMPTY, forms="m", domain=POSITIVE, ref=lambda x: np.sqrt((x * x).sum()))
op("norm/dim", *MATRIX, forms="m", domain=POSITIVE, kwargs=(("dim", 1),))
for p in (1, 3, 0.5, float("inf"), float("-inf"), "fro"):
    op(f"norm/p_{p}", *MATRIX, forms="m", domain=POSITIVE, args=(p,))
op("norm/p_dim", *MATRIX, forms="m", domain=POSITIVE, args=(1, 0, True))
op("logsumexp", *MATRIX, ((3, 0),), ((40, 0),), forms="mo", args=(1,), ref=lambda x: np.log(np.exp(x).sum(1)))
op("logsumexp/dims", ((2, 3, 4),), forms="mo", args=((0, 2), True))
for name in ("softmax", "log_softmax"):
    op(name, *MATRIX, ((3, 0),), ((0, 3),), forms="m", args=(1,))
    op(f"{name}/first", *MATRIX, ((4,),), forms="m", args=(0,))
    op(f"{name}/0dim", ((),), forms="m", args=(-1,))
    op(f"{name}/functional", *MATRIX, forms="", where=F, kwargs=(("dim", -1),))
    case(f"{name}_dtype", lambda T, x, n=name: getattr(T, n)(x, 0, dtype=T.float64), *MATRIX)

# A row longer than the lanes of a kernel, in one run and side by side.
LONG: tuple[Operands, ...] = (((2, 150),), ((2, 70, 3),))
for name in ("softmax", "log_softmax"):
    case(f"{name}_long", lambda T, x, n=name: getattr(T, n)(x, 1), *LONG, dtypes=FLOATS)

# ---- normalisation
NORM: dict[str, Any] = {"where": F, "forms": "", "dtypes": FLOATS}
op("layer_norm", ((5, 4),), ((2, 3, 4),), ((0, 4),), ((2, 100, 4),), args=((4,),), **NORM)
case(
    "layer_norm_affine",
    lambda T, x, w, b: T.nn.functional.layer_norm(x, (3, 4), w, b, 0.1),
    ((5, 3, 4), (3, 4), (3, 4)),
    ((70, 3, 4), (3, 4), (3, 4)),
    ((3, 4), (3, 4), (3, 4)),
    dtypes=FLOATS,
)
case(
    "layer_norm_weight",
    lambda T, x, w: T.nn.functional.layer_norm(x, (4,), w),
    ((5, 4), (4,)),
    dtypes=FLOATS,
)
case(
    "native_layer_norm",
    lambda T, x, w, b: T.native_layer_norm(x, (4,), w, b, 0.1)[0],
    ((5, 4), (4,), (4,)),
    ((2, 3, 4), (4,), (4,)),
    dtypes=FLOATS,
)
op("rms_norm", ((5, 4),), ((2, 3, 4),), ((0, 4),), args=((4,),), **NORM)
case(
    "rms_norm_weight",
    lambda T, x, w: T.nn.functional.rms_norm(x, (3, 4), w, 0.1),
    ((5, 3, 4), (3, 4)),
    ((70, 3, 4), (3, 4)),
    dtypes=FLOATS,
)
CHANNELS: tuple[Operands, ...] = (
    ((5, 4), (4,), (4,)),
    ((5, 4, 3), (4,), (4,)),
    ((5, 1, 3, 2), (1,), (1,)),
    ((2, 2, 90), (2,), (2,)),
)
case(
    "batch_norm",
    lambda T, x, w, b: T.nn.functional.batch_norm(x, None, None, w, b, training=True),
    *CHANNELS,
    dtypes=FLOATS,
)
case(
    "batch_norm_plain",
    lambda T, x: T.nn.functional.batch_norm(x, None, None, training=True, eps=0.1),
    ((5, 4),),
    ((5, 4, 3),),
    dtypes=FLOATS,
)
case(
    "batch_norm_fixed",
    lambda T, x, w, b: T.nn.functional.batch_norm(
        x, T.full_like(w, 0.3).detach(), T.full_like(w, 2.0).detach(), w, b, eps=0.1
    ),
    *CHANNELS,
    dtypes=FLOATS,
    unlike=NARROW,  # both round between steps, not the same ones
)
# ---- recurrent networks
for name, gates in (("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
    case(
        f"{name}_cell",
        lambda T, x, h, *w, n=f"{name}_cell": getattr(T, n)(x, h, *w),
        ((2, 3), (2, 4), (4 * gates, 3), (4 * gates, 4), (4 * gates,), (4 * gates,)),
        ((3, 2), (3, 35), (35 * gates, 2), (35 * gates, 35)),
        dtypes=FLOATS,
        steps=True,
        strides=False,
        rounds=True,
    )
    case(
        name,
        lambda T, x, h, *w, n=name: getattr(T, n)(x, h, w, True, 1, 0.0, False, True, False)[0],
        ((3, 2, 3), (2, 2, 2), *[(2 * gates, 3), (2 * gates, 2), (2 * gates,), (2 * gates,)] * 2),
        dtypes=FLOATS,
        steps=True,
        strides=False,
        rounds=True,
    )
case(
    "lstm_cell",
    lambda T, x, h, c, *w: T.cat(T.lstm_cell(x, (h, c), *w)),  # one node here, of several in PyTorch
    ((2, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,)),
    dtypes=FLOATS,
    steps=True,
    strides=False,
    rounds=True,
)
case(
    "lstm_projected",
    lambda T, x, h, c, *w: T.lstm(x, (h, c), w, True, 1, 0.0, False, False, True)[:2],
    ((2, 3, 3), (1, 2, 2), (1, 2, 4), (16, 3), (16, 2), (16,), (16,), (2, 4)),
    dtypes=FLOATS,
    steps=True,
    strides=False,
    rounds=True,
)
# ---- attention
ATTENTION: tuple[Operands, ...] = (
    ((2, 3, 4), (2, 5, 4), (2, 5, 6)),
    ((2, 1), (3, 1), (3, 1)),
    ((2, 2, 35, 3), (1, 2, 17, 3), (2, 1, 17, 2)),
    ((0, 3, 4), (0, 5, 4), (0, 5, 4)),
    ((2, 0, 4), (2, 5, 4), (2, 5, 4)),
    ((2, 3, 4), (2, 0, 4), (2, 0, 4)),
)
for name, settings in (("", {}), ("/causal", {"is_causal": True}), ("/scale", {"scale": -0.7})):
    case(
        f"attention{name}",
        lambda T, q, k, v, s=settings: T.nn.functional.scaled_dot_product_attention(q, k, v, **s),
        *ATTENTION,
        dtypes=FLOATS,
        steps=True,
        rounds=True,
    )
for name, kind in (("seen", "bool"), ("added", None)):
    case(
        f"attention/{name}",
        lambda T, q, k, v, m: T.nn.functional.scaled_dot_product_attention(q, k, v, m),
        ((2, 3, 4), (2, 5, 4), (2, 5, 6), (3, 5)),
        ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3), (2, 1, 1, 5)),
        ((2, 17, 3), (2, 35, 3), (2, 35, 2), (17, 1)),
        kinds=(None, None, None, kind),
        dtypes=FLOATS,
        steps=True,
        rounds=True,
    )
case(
    "attention/groups",
    lambda T, q, k, v: T.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    ((2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)),
    ((4, 3, 4), (1, 5, 4), (1, 5, 4)),
    ((6, 3, 4), (2, 5, 4), (3, 5, 4)),
    dtypes=FLOATS,
    steps=True,
    rounds=True,
)
for name in ("var", "std"):
    op(name, *MATRIX, ((5,),), forms="m", dtypes=FLOATS, tol=4)
    op(f"{name}/biased", *MATRIX, forms="m", args=(False,), dtypes=FLOATS)
    op(
        f"{name}/dim",
        *MATRIX,
        ((40, 70),),
        ((70, 40),),
        forms="mo",
        args=(1,),
        dtypes=FLOATS,
        tol=4,
    )
    op(f"{name}/first", *MATRIX, forms="mo", args=(0, True, True), dtypes=FLOATS)
    op(f"{name}/dims", ((2, 3, 4),), forms="mo", args=((0, 2),), kwargs=(("correction", 0),), dtypes=FLOATS)
    op(f"{name}_mean", *MATRIX, forms="", dtypes=FLOATS, tol=4)
    op(f"{name}_mean/dim", *MATRIX, forms="", args=(1,), kwargs=(("keepdim", True),), dtypes=FLOATS)
op("nansum", *WITH_EMPTY, forms="m", ref=np.nansum)
op("nansum/dim", *MATRIX, forms="mo", args=(1,), ref=lambda x: np.nansum(x, 1))
op("nanmean", *REDUCED, forms="m")
op("nanmean/dim", *MATRIX, forms="m", args=(0, True))
WITH_NAN = {"domain": (-1.0, 1.0), "dtypes": FLOATS}
for name in ("nansum", "nanmean", "nanmedian"):
    case(f"{name}_of_nan", lambda T, x, n=name: getattr(T, n)(T.where(x > 0, x, T.nan)), *MATRIX, **WITH_NAN)
for name in ("max", "min", "amax", "amin", "median", "logsumexp", "softmax", "var", "cumsum", "nansum"):
    fn = lambda T, x, n=name: leaves(getattr(T, n)(T.where(x > 0.9, T.nan, x), dim=1))[0]  # noqa: E731
    case(f"{name}_dim_of_nan", fn, ((3, 40),), ((40, 3),), **(WITH_NAN | NO_GRAD))
op("count_nonzero", *WITH_EMPTY, forms="m", ref=np.count_nonzero, **NO_GRAD)
op("count_nonzero/dims", ((2, 3, 4),), forms="m", args=((0, 2),), **NO_GRAD)
op("aminmax", *REDUCED, forms="m")
op("aminmax/dim", *MATRIX, ((0, 3),), forms="m", kwargs=(("dim", 1), ("keepdim", True)))
for p in (2, 3, 1, 0, 0.5, float("inf"), float("-inf")):
    op(
        f"vector_norm/{p}",
        *MATRIX,
        forms="",
        where="linalg",
        domain=POSITIVE,
        args=(p,),
        kwargs=(("dim", 1),),
    )

# ---- scans
LINES: tuple[Operands, ...] = (((3, 4),), ((2, 3, 2),), ((),), ((300, 3),), ((3, 0),))
for name in ("cumsum", "cumprod"):
    ref = getattr(np, name)
    op(name, *LINES, forms="mo", args=(-1,), ref=lambda x, f=ref: f(x.astype(x.dtype), -1))
    op(f"{name}/first", *MATRIX, forms="mio", args=(0,), ref=lambda x, f=ref: f(x, 0))
    case(f"{name}_dtype", lambda T, x, n=name: getattr(T, n)(x, 0, dtype=T.float64), *MATRIX)
case("cumprod_zeros", lambda T, x: T.cumprod(x * (x > 0), 0), *MATRIX, ((12,),), domain=(-0.5, 2.0))
op("logcumsumexp", *MATRIX, ((300, 3),), ((3, 0),), forms="mo", args=(-1,))
op("logcumsumexp/first", *MATRIX, forms="mo", args=(0,))
for name in ("cummax", "cummin"):
    op(name, *LINES[:-1], forms="m", args=(-1,))
    op(f"{name}/first", *MATRIX, forms="m", args=(0,))
op("diff", *MATRIX, ((1, 3),), forms="mo", ref=np.diff)
op("diff/n", *MATRIX, forms="mo", kwargs=(("n", 2), ("dim", 0)), ref=lambda x: np.diff(x, 2, 0))
case("diff_ends", lambda T, x, y: T.diff(x, prepend=y, append=y), ((3, 4), (3, 2)), ((4,), (1,)))

# ---- order; what PyTorch says of equal elements is said by the cases in floats alone
SORTED: tuple[Operands, ...] = (((3, 4),), ((2, 3, 2),), ((),), ((60, 3),), ((3, 200),), ((0, 3),))
NUMBERS = tuple(d for d in DTYPES if d != "bool")
op("sort", *SORTED, forms="m", kwargs=(("dim", 0), ("stable", True)))
op("sort/last", *SORTED, forms="m", dtypes=FLOATS)
op("sort/descending", *SORTED, forms="m", kwargs=(("descending", True), ("stable", True)))
op("argsort", *SORTED, forms="m", kwargs=(("stable", True),), **NO_GRAD)
op("msort", *SORTED, forms="mo")
op("topk", ((3, 4),), ((2, 3, 60),), ((2, 200),), forms="m", args=(2,), dtypes=FLOATS, unlike=INTS)
case("topk_values", lambda T, x: T.topk(x, 2, 0, False)[0], ((3, 4),), ((300, 2),), dtypes=NUMBERS)
op("kthvalue", ((3, 4),), ((2, 3, 60),), ((2, 200),), forms="m", args=(2,), dtypes=FLOATS, unlike=INTS)
op("kthvalue/first", ((3, 4),), forms="m", args=(3, 0, True), dtypes=FLOATS)
for name in ("median", "nanmedian"):
    op(name, *REDUCED, forms="m", dtypes=NUMBERS, layouts=False)
    op(f"{name}/dim", ((3, 5),), ((2, 3, 60),), ((3, 0, 4),), forms="m", args=(-1,), dtypes=FLOATS)
    op(f"{name}/keepdim", *MATRIX, forms="m", args=(0, True), dtypes=FLOATS, layouts=False)
case("mode", lambda T, x: T.mode(x, 0)[0], ((5, 4),), ((),), ((40, 3),), layouts=False)
for form in ("linear", "lower", "higher", "midpoint", "nearest"):
    op(
        f"quantile/{form}",
        *MATRIX,
        forms="m",
        args=(0.37, 1),
        kwargs=(("interpolation", form),),
        dtypes=FLOATS,
    )
op("quantile", *REDUCED, forms="m", args=(0.4,), dtypes=FLOATS)
op("nanquantile", *REDUCED, forms="m", args=(0.4,), kwargs=(("keepdim", True),), dtypes=FLOATS)
several = lambda T, x: T.quantile(x, T.tensor([0.1, 0.7], dtype=x.dtype), dim=0)  # noqa: E731
case("quantile_several", several, *MATRIX, dtypes=FLOATS)
MANY = {"domain": (-3.0, 3.0), "differentiable": False, "layouts": False}
case("unique", lambda T, x: T.unique(x, return_inverse=True, return_counts=True), *SORTED, **MANY)
case(
    "unique_dim", lambda T, x: T.unique(x, dim=0, return_inverse=True, return_counts=True), ((9, 1),), **MANY
)
case("unique_consecutive", lambda T, x: T.unique_consecutive(x, return_counts=True), *SORTED, **MANY)
SEARCHED: tuple[Operands, ...] = (((7,), (3, 4)), ((2, 7), (2, 3)), ((3,), ()))
case("searchsorted", lambda T, e, x: T.searchsorted(T.sort(e)[0], x), *SEARCHED, **NO_GRAD)
right = lambda T, e, x: T.searchsorted(T.sort(e)[0], x, right=True)  # noqa: E731
case("searchsorted_right", right, *SEARCHED, dtypes=NUMBERS, **NO_GRAD)
case("bucketize", lambda T, e, x: T.bucketize(x, T.sort(e)[0]), ((7,), (3, 4)), **NO_GRAD)

# ---- products
op("dot", ((4,), (4,)), ((0,), (0,)), ((1,), (1,)), forms="mo", ref=np.dot)
op("mv", ((3, 4), (4,)), ((0, 4), (4,)), ((3, 0), (0,)), forms="mo", ref=np.dot)
op("mm", ((3, 4), (4, 2)), ((0, 4), (4, 2)), ((3, 0), (0, 2)), ((1, 1), (1, 1)), forms="mo", ref=np.dot)
op("bmm", ((2, 3, 4), (2, 4, 2)), ((0, 3, 4), (0, 4, 2)), ((2, 3, 0), (2, 0, 2)), forms="mo", ref=np.matmul)
op(
    "matmul",
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((3,), (3, 4)),
    ((4,), (2, 4, 3)),
    ((3, 4), (2, 4, 2)),
    ((2, 3, 4), (2, 4, 2)),
    ((2, 1, 3, 2), (3, 2, 2)),
    ((1, 3, 2), (2, 2, 2)),
    ((0, 4), (4, 2)),
    ((2, 3, 0), (2, 0, 2)),
    forms="mo",
    ref=np.matmul,
)
# PyTorch refuses an `out` that lies transposed here, in words about sizes that the user never gave.
op("matmul/folded", ((2, 3, 4), (4,)), ((2, 3, 4), (4, 2)), forms="m", ref=np.matmul)
case("matmul_operator", lambda T, x, y: x @ y, ((3, 4), (4, 2)), ((2, 3, 4), (4,)))
op("outer", ((3,), (4,)), ((0,), (4,)), forms="mo", ref=np.outer)
ADDMM: tuple[Operands, ...] = (
    ((3, 2), (3, 4), (4, 2)),
    ((2,), (3, 4), (4, 2)),
    ((), (3, 4), (4, 2)),
    ((2,), (3, 0), (0, 2)),
)
op("addmm", *ADDMM, ref=lambda b, x, y: b + x @ y)
op("addmm/scaled", *ADDMM, kwargs=(("beta", 0.5), ("alpha", 2)), dtypes=FLOATS)
op(
    "linear",
    ((3, 4), (2, 4)),
    ((2, 3, 4), (2, 4)),
    ((4,), (2, 4)),
    forms="",
    where=F,
    ref=lambda x, w: x @ w.T,
)
op("linear/bias", ((3, 4), (2, 4), (2,)), ((2, 3, 4), (2, 4), (2,)), ((4,), (2, 4), (2,)), forms="", where=F)

# ---- products of several tensors
EINSUMS: dict[str, tuple[str, tuple[Operands, ...]]] = {
    "matrices": ("ij,jk->ik", (((2, 3), (3, 4)), ((2, 0), (0, 4)))),
    "turned": ("ij,kj->ki", (((2, 3), (4, 3)),)),
    "batched": ("bhqd,bhkd->bhqk", (((2, 2, 3, 4), (2, 2, 5, 4)), ((2, 1, 3, 4), (2, 2, 5, 4)))),
    "ellipsis": ("...ij,...jk->...ik", (((2, 2, 3), (2, 3, 4)), ((2, 3), (5, 2, 3, 4)))),
    "outer": ("i,j->ij", (((2,), (3,)), ((0,), (3,)))),
    "inner": ("ij,ij", (((2, 3), (2, 3)),)),
    "one_side": ("ij,k->ik", (((2, 3), (4,)),)),
    "row_sums": ("ij,ij->i", (((2, 3), (2, 3)),)),
}
for name, (equation, shapes) in EINSUMS.items():
    case(f"einsum_{name}", lambda T, x, y, e=equation: T.einsum(e, x, y), *shapes)
for name, equation in {
    "turn": "ij->ji",
    "sum": "ij->j",
    "total": "ij->",
    "trace": "ii",
    "diagonal": "ii->i",
}.items():
    case(f"einsum_{name}", lambda T, x, e=equation: T.einsum(e, x), ((3, 3),))
case(
    "einsum_three",
    lambda T, x, y, z: T.einsum("ij,jk,kl->li", x, y, z),
    ((2, 3), (3, 4), (4, 2)),
)
case("einsum_lists", lambda T, x, y: T.einsum(x, [0, 1], y, [1, 2], [0, 2]), ((2, 3), (3, 4)))
op("tensordot", ((2, 3, 4), (3, 4, 2)), ((2, 3), (2, 3)), forms="o")
case("tensordot_one", lambda T, x, y: T.tensordot(x, y, 1), ((2, 3), (3, 4)), ((2, 3), (3,)))
case("tensordot_dims", lambda T, x, y: T.tensordot(x, y, ([0, 2], [1, 0])), ((2, 3, 4), (4, 2)))
# PyTorch cannot view the product of transposed matrices as their product.
op(
    "kron",
    ((2, 3), (2, 2)),
    ((2,), (3, 2)),
    ((), (2,)),
    ((0, 2), (3,)),
    forms="mo",
    ref=np.kron,
    layouts=False,
)
op("addr", ((2, 3), (2,), (3,)), ((3,), (2,), (3,)), ((), (0,), (3,)), forms="mo")
op("addr/scaled", ((2, 3), (2,), (3,)), kwargs=(("beta", 0.5), ("alpha", 2)), dtypes=FLOATS)
op("addbmm", ((3, 2), (2, 3, 4), (2, 4, 2)), ((2,), (2, 3, 4), (2, 4, 2)), forms="mo")
op("addbmm/scaled", ((3, 2), (2, 3, 4), (2, 4, 2)), kwargs=(("beta", 0.5), ("alpha", 2)), dtypes=FLOATS)
op("cross", ((2, 3), (2, 3)), ((3,), (3,)), ((0, 3), (0, 3)), forms="mo", kwargs=(("dim", -1),), ref=np.cross)
case("linalg_cross", lambda T, x, y: T.linalg.cross(x, y, dim=0), ((3, 1), (3, 4)), ((3, 2), (3, 2)))
case("vecdot", lambda T, x, y: T.linalg.vecdot(x, y), ((2, 3), (2, 3)), ((3,), (3,)), ((3,), (2, 3)))
case(
    "multi_dot",
    lambda T, x, y, z: T.linalg.multi_dot([x, y, z]),
    ((2, 3), (3, 4), (4, 2)),
    ((3,), (3, 4), (4,)),
)

# ---- systems of equations and decompositions; signs of vectors are nobody's promise
MATRICES: tuple[Operands, ...] = (((3, 3),), ((2, 3, 3),), ((0, 2, 2),), ((1, 1),))
LINALG: dict[str, Any] = {"dtypes": FLOATS, "strides": False, "tol": 30, "layouts": False}


def positive(T: ModuleType, x: Any) -> Any:
    """A symmetric positive definite matrix."""
    return x @ x.mT + 0.5 * T.eye(x.shape[-1], dtype=x.dtype)


def linalg(name: str, fn: Callable[..., Any], *shapes: Operands, **rest: Any) -> None:
    case(f"linalg_{name}", fn, *(shapes or MATRICES), **(LINALG | rest))


def tall(T: ModuleType, x: Any) -> Any:
    """Far from singular, its singular values apart."""
    rows, columns = x.shape[-2:]
    return 0.3 * x + T.eye(rows, columns, dtype=x.dtype) * T.arange(1, columns + 1, dtype=x.dtype)


linalg("inv", lambda T, x: T.linalg.inv(tall(T, x)))
linalg("det", lambda T, x: T.det(x), ((3, 3),), ((2, 3, 3),), ref=np.linalg.det)
linalg("det_singular", lambda T, x: T.det(x[:, :1] * x[:1]), ((3, 3),), differentiable=False)
linalg("slogdet", lambda T, x: T.linalg.slogdet(x))
linalg("logdet", lambda T, x: T.logdet(positive(T, x)))
linalg(
    "solve",
    lambda T, a, b: T.linalg.solve(tall(T, a), b),
    ((3, 3), (3, 2)),
    ((2, 3, 3), (3, 1)),
    ((3, 3), (3,)),
)
linalg("solve_right", lambda T, a, b: T.linalg.solve(tall(T, a), b, left=False), ((3, 3), (2, 3)))
linalg("solve_vectors", lambda T, a, b: T.linalg.solve(tall(T, a), b), ((2, 3, 3), (2, 3)))
for upper in (False, True):
    word = "upper" if upper else "lower"
    linalg(f"cholesky_{word}", lambda T, x, u=upper: T.linalg.cholesky(positive(T, x), upper=u))
    linalg(
        f"cholesky_solve_{word}",
        lambda T, x, y, u=upper: T.cholesky_solve(y, T.linalg.cholesky(positive(T, x), upper=u), u),
        ((3, 3), (3, 2)),
    )
    linalg(
        f"triangular_{word}",
        lambda T, a, b, u=upper: T.linalg.solve_triangular(tall(T, a), b, upper=u),
        ((3, 3), (3, 2)),
        ((2, 2, 2), (2, 3)),
    )
linalg(
    "triangular_unit",
    lambda T, a, b: T.linalg.solve_triangular(a, b, upper=True, left=False, unitriangular=True),
    ((3, 3), (2, 3)),
)
linalg("cholesky_inverse", lambda T, x: T.cholesky_inverse(T.linalg.cholesky(positive(T, x))), ((3, 3),))
linalg("qr", lambda T, x: T.linalg.qr(tall(T, x)), ((4, 3),), ((3, 3),), ((2, 4, 2),))
linalg("geqrf", lambda T, x: T.geqrf(x), ((4, 3),), ((3, 3),), ((2, 2, 4),), **NO_GRAD)
FACTORED: tuple[Operands, ...] = (((3, 3),), ((2, 4, 3),), ((2, 4),))
linalg("lu", lambda T, x: T.linalg.lu(x)[1:], *FACTORED)
linalg("ldl_factor", lambda T, x: T.linalg.ldl_factor_ex(x + x.mT), ((3, 3),), ((2, 4, 4),), **NO_GRAD)
linalg(
    "ldl_solve",
    lambda T, x, b: T.linalg.ldl_solve(*T.linalg.ldl_factor_ex(x + x.mT)[:2], b),
    ((3, 3), (3, 2)),
    ((2, 4, 4), (2, 4, 1)),
    **NO_GRAD,
)
linalg("lu_factor", lambda T, x: T.linalg.lu_factor(x), *FACTORED)
linalg("lu_permutation", lambda T, x: T.lu_unpack(*T.linalg.lu_factor(x))[0], *FACTORED, **NO_GRAD)
linalg("lu_unpack", lambda T, x: T.lu_unpack(x, T.tensor([2, 3, 3], dtype=T.int32))[1:], ((3, 4),), ((4, 3),))
linalg("qr_wide", lambda T, x: T.linalg.qr(x), ((2, 4),))
linalg("eigh", lambda T, x: [t.abs() for t in T.linalg.eigh(x + x.mT)], ((3, 3),), ((2, 3, 3),))
linalg("eigvalsh", lambda T, x: T.linalg.eigvalsh(positive(T, x), UPLO="U"), ((3, 3),))
linalg("svd", lambda T, x: [t.abs() for t in T.linalg.svd(tall(T, x), False)], ((4, 3),), ((2, 3, 3),))
linalg("svd_wide", lambda T, x: [t.abs() for t in T.linalg.svd(x, full_matrices=False)], ((2, 4),))
linalg("svdvals", lambda T, x: T.linalg.svdvals(x), ((4, 3),), ((2, 2, 3),))
linalg("pinv", lambda T, x: T.linalg.pinv(tall(T, x)), ((4, 3),), ((2, 2, 3),), ((3, 3),))
linalg("pinv_hermitian", lambda T, x: T.linalg.pinv(positive(T, x), hermitian=True), ((3, 3),))
linalg("lstsq", lambda T, a, b: T.linalg.lstsq(tall(T, a), b)[0], ((4, 3), (4, 2)), ((4, 3), (4,)))
linalg("lstsq_residuals", lambda T, a, b: T.linalg.lstsq(tall(T, a), b, driver="gels")[:2], ((4, 3), (4, 2)))
# PyTorch's of float16 is NaN.
linalg("matrix_exp", lambda T, x: T.linalg.matrix_exp(x), ((3, 3),), ((2, 2, 2),), unlike=NARROW)
for n in (0, 1, 3, 6, -2):
    linalg(f"matrix_power_{n}", lambda T, x, n=n: T.linalg.matrix_power(tall(T, x), n), ((3, 3),))
for order in ("fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf")):
    linalg(
        f"matrix_norm_{order}",
        lambda T, x, p=order: T.linalg.matrix_norm(tall(T, x), p),
        ((4, 3),),
        ((2, 3, 2),),
    )
linalg("matrix_norm_dims", lambda T, x: T.linalg.matrix_norm(x, 1, (2, 0), True), ((2, 3, 4),))
linalg("norm_nuc", lambda T, x: T.norm(x, "nuc"), ((4, 3),))
linalg("norm", lambda T, x: T.linalg.norm(x, 3, dim=1), ((4, 3),))
linalg("norm_matrix", lambda T, x: T.linalg.norm(x, 2), ((4, 3),))
for order in (None, 1, "fro", -2):
    smooth = order in (None, -2)  # PyTorch writes over the inverse that its gradient of the others reads
    linalg(
        f"cond_{order}", lambda T, x, p=order: T.linalg.cond(tall(T, x), p), ((3, 3),), differentiable=smooth
    )
linalg("matrix_rank", lambda T, x: T.linalg.matrix_rank(x[:, :1] @ x[:1]), ((4, 3),), **NO_GRAD)
linalg("tensorsolve", lambda T, a, b: T.linalg.tensorsolve(a, b), ((2, 3, 6), (2, 3)))
linalg("tensorinv", lambda T, a: T.linalg.tensorinv(a), ((2, 3, 6),))
linalg(
    "householder_product",
    lambda T, a, tau: T.linalg.householder_product(a, tau),
    ((4, 3), (3,)),
    ((3, 2), (1,)),
    ((2, 4, 3), (2, 2)),
)
linalg(
    "ormqr",
    lambda T, a, tau, x: T.ormqr(0.5 * a, tau, x),
    ((4, 3), (3,), (4, 2)),
    ((2, 3, 3), (2, 3), (2, 3, 1)),
)
linalg("ormqr_right", lambda T, a, tau, x: T.ormqr(0.5 * a, tau, x, False, True), ((4, 3), (3,), (2, 4)))

# ---- joining
JOINED: tuple[Operands, ...] = (((2, 3), (4, 3)), ((0, 3), (2, 3)), ((0,), (2, 3)))
case("cat", lambda T, x, y: T.cat([x, y]), *JOINED, layouts=False)
case("cat_dim", lambda T, x, y: T.cat((x, y, x), dim=-1), ((2, 3), (2, 1)), ((2, 2, 2), (2, 2, 0)))
case("stack", lambda T, x, y: T.stack([x, y]), ((2, 3), (2, 3)), ((), ()), ((0,), (0,)))
case("stack_dim", lambda T, x, y: T.stack((x, y), dim=-1), ((2, 3), (2, 3)), ((2, 1, 2), (2, 1, 2)))

# ---- comparisons that give a Python bool
case("allclose", lambda T, x, y: T.allclose(x, y), ((3,), (3,)), ((0,), (0,)), **NO_GRAD)
case("allclose_self", lambda T, x: T.allclose(x, x * 1), *UNARY, **NO_GRAD)
case("equal", lambda T, x, y: T.equal(x, y), ((3,), (3,)), ((2,), (3,)), ((0,), (0,)), **NO_GRAD)
case("equal_self", lambda T, x: x.equal(x.clone()), *UNARY, **NO_GRAD)

unary("angle", forms="m", kinks=(0,), strides=False)

# ---- copies with elements of another tensor
case("index_copy", lambda T, x, y: x.index_copy(0, T.tensor([2, 0]), y), ((3, 4), (2, 4)), ((3,), (2,)))
case("index_copy_last", lambda T, x, y: T.index_copy(x, -1, T.tensor([1]), y), ((3, 4), (3, 1)))
case(
    "inplace_index_copy",
    lambda T, x, y: (x * 1).index_copy_(1, T.tensor([3, 0]), y) ** 2,
    ((3, 4), (3, 2)),
    dtypes=FLOATS,
)
case(
    "masked_scatter",
    lambda T, x, y: T.masked_scatter(x, x > 0.3, y),
    ((3, 4), (3, 5)),
    ((), (2,)),
    dtypes=FLOATS,
)
case(
    "inplace_masked_scatter",
    lambda T, x, y: (x * 1).masked_scatter_(x > 0.3, y) ** 2,
    ((3, 4), (12,)),
    dtypes=FLOATS,
)
for accumulate in (False, True):
    case(
        f"put_{accumulate}",
        lambda T, x, y, a=accumulate: T.put(x, T.tensor([1, -1]), y, accumulate=a),
        ((3, 4), (2,)),
        ((3,), (2, 1)),
    )

# ---- reductions into places
MET: dict[str, Any] = {"layouts": False, "dtypes": (*FLOATS, *NARROW, "int64", "bool")}
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    for inside in (True, False):
        more = {"reduce": reduce, "include_self": inside}
        case(
            f"scatter_reduce_{reduce}{'' if inside else '_alone'}",
            lambda T, x, y, k=more: T.scatter_reduce(x, 1, T.tensor([[0, 2, 0], [1, 1, 3]]), y, **k),
            ((3, 4), (2, 3)),
            **MET,
        )
        if reduce != "sum":
            case(
                f"index_reduce_{reduce}{'' if inside else '_alone'}",
                lambda T, x, y, k=more: x.index_reduce(0, T.tensor([2, 0, 2]), y, **k),
                ((3, 4), (3, 4)),
                **MET,
            )
for reduce in ("sum", "mean", "max", "min", "prod"):
    case(
        f"segment_reduce_{reduce}",
        lambda T, x, k=reduce: T.segment_reduce(x, k, lengths=T.tensor([2, 0, 3]), initial=0.5),
        ((5,),),
        ((5, 2),),
        dtypes=FLOATS,
        differentiable=False,  # twice in PyTorch; tests/ops/index/test_segments.py
    )
case(
    "segment_reduce_offsets",
    lambda T, x: T.segment_reduce(x, "mean", offsets=T.tensor([[0, 2, 3], [1, 3, 4]]), axis=1),
    ((2, 4),),
    ((2, 4, 3),),
    dtypes=FLOATS,
    differentiable=False,
)
case(
    "inplace_scatter_reduce",
    lambda T, x, y: (x * 1).scatter_reduce_(-1, T.tensor([[0, 0, 3]]), y, "prod") ** 2,
    ((3, 4), (1, 3)),
    dtypes=FLOATS,
)
case(
    "inplace_index_reduce",
    lambda T, x, y: (x * 1).index_reduce_(1, T.tensor([3, 3]), y, "mean") ** 2,
    ((3, 4), (3, 2)),
    dtypes=FLOATS,
    unlike=("bool",),  # refused after the warning that it is in beta, or before
)
case(
    "scatter_multiply",
    lambda T, x, y: T.scatter(x, 0, T.tensor([[0, 2], [0, 1]]), y, reduce="multiply"),
    ((3, 4), (2, 2)),
    **MET,
    **NO_GRAD,
)

# ---- distances, padding, calculus
# Several operations, of which another one refuses.
ANOTHER_REFUSES = {"unlike": ("bool",)}
op("dist", ((3, 4), (3, 4)), ((3, 1), (4,)), forms="m", dtypes=FLOATS, strides=False, **ANOTHER_REFUSES)
for p in (1, 3, float("inf")):
    op(f"dist/p_{p}", ((3, 4), (3, 4)), forms="m", args=(p,), dtypes=FLOATS, **ANOTHER_REFUSES)
PAIRED: tuple[Operands, ...] = (((3, 4), (5, 4)), ((2, 3, 4), (1, 2, 4)), ((0, 4), (5, 4)))
# PyTorch has no second derivative of these, nor of padding that repeats elements: tests/ops/test_linalg.py.
for p in (0, 1, 2, 3, float("inf")):
    op(f"cdist/p_{p}", *PAIRED, forms="", args=(p,), dtypes=FLOATS, tol=10, differentiable=False)
op("cdist/product", ((30, 4), (5, 4)), forms="", dtypes=FLOATS, tol=100)
op("pdist", ((4, 3),), ((1, 3),), forms="", where=F, dtypes=FLOATS, tol=10, differentiable=False)
op("pdist/p_1", ((4, 3),), forms="", where=F, args=(1,), dtypes=FLOATS, differentiable=False)
op("pairwise_distance", ((3, 4), (3, 4)), ((4,), (3, 4)), forms="", where=F, dtypes=FLOATS)
op("cosine_similarity", ((3, 4), (3, 4)), ((3, 1, 4), (2, 4)), forms="", where=F, dtypes=FLOATS)
op("normalize", ((3, 4),), ((2, 3, 2),), forms="", where=F, dtypes=FLOATS)
op("normalize/p_1", ((3, 4),), forms="", where=F, args=(1, 0), dtypes=FLOATS)
op("renorm", ((3, 4),), ((2, 3, 2),), args=(2, 0, 1.0), dtypes=FLOATS)
op("renorm/p_1", ((3, 4),), forms="m", args=(1, -1, 2.0), dtypes=FLOATS)
op("pad", ((3, 4),), ((2, 3, 2),), ((0, 2),), forms="", where=F, args=((1, 2),))
op("pad/value", ((3, 4),), ((2, 3, 2),), forms="", where=F, args=((1, 0, -1, 2), "constant", 1.5))
for mode in ("reflect", "replicate", "circular"):
    more = {"dtypes": FLOATS, "strides": False, "differentiable": False}
    op(f"pad/{mode}", ((3, 4),), ((2, 3, 4),), forms="", where=F, args=((2, 1), mode), **more)
    op(f"pad/{mode}_2d", ((2, 3, 4),), ((1, 2, 3, 3),), forms="", where=F, args=((2, 1, 1, 0), mode), **more)
# Windows: one dimension is two in PyTorch, so that results lie as those of a view.
POOLED = {
    1: (((2, 3, 7),), ((3, 5),)),
    2: (((2, 3, 5, 4),), ((2, 4, 6),)),
    3: (((1, 2, 4, 4, 5),), ((2, 4, 5, 4),)),
}
for n, shapes in POOLED.items():
    more = {"forms": "", "where": F, "dtypes": FLOATS, "strides": False}
    op(f"max_pool{n}d", *shapes, args=(3, 2, 1), **more)
    op(f"max_pool{n}d/ceil", *shapes, args=(2, 2, 0, 1, True), **more)
    op(f"max_pool{n}d_with_indices", *shapes, args=(2, 1, 1), **more)
    op(f"avg_pool{n}d", *shapes, args=(3, 2, 1), **more)
    op(f"avg_pool{n}d/uncounted", *shapes, args=(2, 3, 1, True, False), **more)
    op(f"adaptive_max_pool{n}d", *shapes, args=(2,), **more)
    op(f"adaptive_avg_pool{n}d", *shapes, args=(3,), steps=True, **more)
    op(f"lp_pool{n}d", *shapes, args=(2, 2), **more, domain=POSITIVE)
    if n > 1:
        op(f"fractional_max_pool{n}d", *shapes, args=(2, 2), **more)

    def unpool(T: ModuleType, x: Any, n: int = n) -> Any:
        places = T.arange(x[0, 0].numel() if x.ndim == n + 2 else x[0].numel()).reshape(x.shape[-n:])
        return getattr(T.nn.functional, f"max_unpool{n}d")(x, places.expand(x.shape).contiguous(), 2)

    case(f"max_unpool{n}d", unpool, *shapes, dtypes=FLOATS, strides=False)
RESAMPLED = {1: (((2, 3, 5),),), 2: (((2, 3, 4, 5),),), 3: (((1, 2, 3, 4, 2),),)}
for mode, n in (
    *(("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 2)),
    *(("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3), ("area", 2)),
):
    more = {"forms": "", "where": F, "dtypes": FLOATS, "strides": False, "steps": True}
    named = f"interpolate/{mode.replace('-', '_')}_{n}d"
    op(named, *RESAMPLED[n], args=(7, None, mode), **more)
    op(f"{named}_smaller", *RESAMPLED[n], args=(None, 0.7, mode), **more)
    if "linear" in mode or mode == "bicubic":
        op(f"{named}_corners", *RESAMPLED[n], args=(3, None, mode, True), **more)
    if mode in ("bilinear", "bicubic"):
        op(f"{named}_antialias", *RESAMPLED[n], args=(2, None, mode), kwargs=(("antialias", True),), **more)
for shapes in ((((2, 4, 3),),), (((2, 3, 4, 3),),)):
    op(f"local_response_norm/{len(shapes[0][0])}d", *shapes, forms="", where=F, args=(3, 0.1), dtypes=FLOATS)
AT: dict[str, Any] = {"dtypes": ("float64",), "strides": False, "domain": ((-2.0, 2.0), (-0.9, 0.9))}
for mode in ("bilinear", "nearest", "bicubic"):
    case(
        f"grid_sample_{mode}",
        lambda T, x, g, m=mode: T.nn.functional.grid_sample(x, g, m, "zeros", False),
        ((2, 3, 4, 3), (2, 2, 3, 2)),
        **AT,
    )
case(
    "grid_sample_3d",
    lambda T, x, g: T.nn.functional.grid_sample(x, g, "bilinear", "zeros", True),
    ((1, 2, 3, 4, 3), (1, 2, 2, 2, 3)),
    **AT,
)
for n, shapes in ((2, ((2, 2, 3),)), (3, ((1, 3, 4),))):
    case(
        f"affine_grid_{n}d",
        lambda T, m, n=n: T.nn.functional.affine_grid(m, (m.shape[0], 1, *(2, 3, 4)[:n]), False),
        shapes,
        dtypes=FLOATS,
        strides=False,
    )
SAMPLED: dict[str, Any] = {"dtypes": (*FLOATS, "int64"), "strides": False}
for name in ("trapezoid", "cumulative_trapezoid"):
    op(name, ((3, 4),), ((5,),), forms="", **SAMPLED)
    op(f"{name}/dx", ((3, 4),), forms="", kwargs=(("dx", 0.5), ("dim", 0)), **SAMPLED)
    case(
        f"{name}_x",
        lambda T, y, x, n=name: getattr(T, n)(y, x),
        *(((3, 4), (4,)), ((3, 4), (3, 4))),
        **SAMPLED,
        **ANOTHER_REFUSES,
    )
for order in (1, 2):
    more = {"edge_order": order}
    case(
        f"gradient_{order}",
        lambda T, x, k=more: T.gradient(x, **k),
        ((3, 4),),
        ((5,),),
        dtypes=FLOATS,
        unlike=NARROW * (order - 1),  # both round between steps, not the same ones
    )
    case(
        f"gradient_{order}_places",
        lambda T, x, k=more: T.gradient(x, spacing=(T.tensor([0, 1, 3, 4.5], dtype=x.dtype),), dim=1, **k),
        ((3, 4),),
        dtypes=FLOATS,
        **ANOTHER_REFUSES,
    )
case("gradient_spacing", lambda T, x: T.gradient(x, spacing=(0.5, 2.0)), ((3, 4),), dtypes=FLOATS)
op("cov", ((3, 4),), ((5,),), forms="m", dtypes=(*FLOATS, "int64"), tol=4)
case(
    "cov_weights",
    lambda T, x, w: T.cov(x, fweights=T.tensor([1, 2, 1, 3]), aweights=w, correction=2),
    ((3, 4), (4,)),
    domain=((-2.0, 2.0), POSITIVE),
    dtypes=FLOATS,
    tol=4,
)
op("corrcoef", ((3, 9),), ((5,),), forms="m", dtypes=FLOATS, tol=4, kinks=(9,))
case(
    "gumbel_softmax",
    lambda T, x: T.nn.functional.gumbel_softmax(x).sum(-1) > 0.99,
    ((3, 4),),
    dtypes=FLOATS,
    **NO_GRAD,
)
for name, args in {
    "t": (),
    "transpose": (0, -1),
    "unsqueeze": (1,),
    "squeeze": (0,),
    "swapaxes": (0, 1),
}.items():

    def turned(T: ModuleType, x: Any, name: str = name, args: tuple[int, ...] = args) -> Any:
        y = x * 1
        return getattr(y, f"{name}_")(*args) * y

    case(f"inplace_{name}", turned, ((3, 4),), ((1, 4),))
for name in ("tril", "triu"):
    op(f"{name}/written", ((3, 4),), ((2, 3, 3),), forms="mi", args=(1,), layouts=False)

# ---- views and copies
ANY: tuple[Operands, ...] = (((3, 4),), ((2, 3, 4),), ((0, 3),))
FLAT = {"layouts": False}  # legal for a contiguous tensor only
case("view", lambda T, x: x.view(-1), *ANY, ((),), **FLAT)
case("view_sizes", lambda T, x: x.view(2, 6), ((3, 4),), ((12,),), **FLAT)
case("reshape", lambda T, x: x.reshape(4, -1), ((3, 4),), ((2, 2, 3),))
case("reshape_function", lambda T, x: T.reshape(x, (2, 6)), ((3, 4),))
case("flatten", lambda T, x: T.flatten(x), *ANY, ((),))
case("flatten_dims", lambda T, x: x.flatten(1, 2), ((2, 3, 4),), ((2, 3, 4, 2),))
case("permute", lambda T, x: x.permute(2, 0, 1), ((2, 3, 4),), ((0, 3, 4),))
case("permute_function", lambda T, x: T.permute(x, (-1, 0)), ((3, 4),))
case("transpose", lambda T, x: x.transpose(0, -1), *ANY, ((),))
case("t", lambda T, x: x.t(), ((3, 4),), ((3,),), ((),))
case("T", lambda T, x: x.T, ((3, 4),))
case("mT", lambda T, x: x.mT, ((3, 4),), ((2, 3, 4),))
case("squeeze", lambda T, x: x.squeeze(), ((3, 1, 4),), ((1, 1),), ((),))
case("squeeze_dim", lambda T, x: x.squeeze(1), ((3, 1, 4),), ((3, 2),))
case("squeeze_dims", lambda T, x: x.squeeze((0, -1)), ((1, 3, 1),), ((1, 3, 2),))
case("unsqueeze", lambda T, x: x.unsqueeze(0), *ANY, ((),))
case("unsqueeze_last", lambda T, x: T.unsqueeze(x, -1), *ANY, ((),))
case("expand", lambda T, x: x.expand(2, -1, 4), ((3, 1),), ((3, 4),), ((1, 3, 1),))
_BOUNDED: dict[str, Any] = {"dtypes": FLOATS, "finite": True, "differentiable": False}
case(
    "fake_quantize_per_tensor_affine",
    lambda T, x: T.fake_quantize_per_tensor_affine(x, 0.3, 2, 0, 7),
    ((3, 4),),
    ((5,),),
    **_BOUNDED,
)
case(
    "fake_quantize_per_channel_affine",
    lambda T, x: T.fake_quantize_per_channel_affine(
        x, T.tensor([0.3, 0.5, 0.2]), T.tensor([1, 2, 3], dtype=T.int32), 0, 0, 7
    ),
    ((3, 4),),
    **_BOUNDED,
)
case("narrow_copy", lambda T, x: T.narrow_copy(x, 1, 1, 2), ((3, 4),), ((2, 3, 2),))
case("narrow", lambda T, x: x.narrow(1, 1, 2), ((3, 4),), ((2, 3, 2),))
case("select", lambda T, x: x.select(-1, 1), ((3, 4),), ((2,),))
case("unbind", lambda T, x: x.unbind(1), ((3, 4),), ((2, 0),))
case("split", lambda T, x: x.split(2), ((5, 3),), ((2, 2),))
case("split_sizes", lambda T, x: T.split(x, [1, 3], dim=1), ((3, 4),))
case("chunk", lambda T, x: x.chunk(3, -1), ((2, 7),), ((2, 2),))
case("as_strided", lambda T, x: x.as_strided((2, 2), (1, 2), 1), ((3, 4),), layouts=False)
case("as_strided_overlapping", lambda T, x: x.as_strided((3, 2), (1, 1)), ((6,),), layouts=False)
case("diagonal", lambda T, x: x.diagonal(), ((3, 4),), ((3, 3, 2),))
case("diagonal_offset", lambda T, x: T.diagonal(x, 1, -1, 0), ((3, 4),), ((2, 3, 4),))
# what views show, as copies
op("alias_copy", *ANY, forms="o")
op("as_strided_copy", ((3, 4),), forms="o", args=((2, 2), (1, 2), 1), layouts=False)
op("diagonal_copy", ((3, 4),), ((3, 3, 2),), forms="o", args=(1,))
op("expand_copy", ((3, 1),), ((3, 4),), ((1, 3, 1),), forms="o", args=((2, -1, 4),))
op("permute_copy", ((2, 3, 4),), ((0, 2, 1),), forms="o", args=((2, 0, 1),))
op("select_copy", ((3, 4),), ((2,),), forms="o", args=(-1, 1))
op("slice_copy", ((3, 4),), ((2, 5, 2),), forms="o", args=(1, 1, -1, 2))
op("split_copy", ((5, 3),), ((2, 2),), forms="", args=(2,))
op("split_with_sizes_copy", ((3, 4),), forms="", args=((1, 3), 1))
op("squeeze_copy", ((3, 1, 4),), ((1, 1),), ((),), forms="o")
op("squeeze_copy/dims", ((1, 3, 1),), ((1, 3, 2),), forms="o", args=((0, -1),))
op("t_copy", ((3, 4),), ((3,),), ((),), forms="o")
op("transpose_copy", ((2, 3, 4),), ((0, 2),), forms="o", args=(0, -1))
op("unbind_copy", ((3, 4),), ((2, 0),), forms="", args=(1,))
op("unfold_copy", ((3, 7),), ((0, 4),), forms="o", args=(-1, 3, 2))
op("unsqueeze_copy", *ANY, ((),), forms="o", args=(0,))
op("view_copy", ((3, 4),), ((0, 2),), forms="o", args=((-1, 2),))
case("block_diag", lambda T, x, y, z: T.block_diag(x, y, z), ((2, 3), (2,), ()), ((0, 2), (1, 1), (2,)))
SQUARE: tuple[Operands, ...] = (((3, 4),), ((4, 2),), ((0, 3),))
op("trace", *SQUARE, forms="m", ref=np.trace)
op("diag", ((3, 4),), ((3,),), ((0, 2),), forms="mo", ref=np.diag)
op("diag/above", ((3, 4),), ((3,),), forms="mo", args=(1,), ref=lambda x: np.diag(x, 1))
op("diag/below", ((4, 3),), ((3,),), forms="mo", args=(-2,), ref=lambda x: np.diag(x, -2))
op("diag_embed", ((3,),), ((2, 3),), ((2, 0),), forms="m")
op("diag_embed/dims", ((2, 3),), forms="m", args=(-1, 0, 2))
op("diagflat", ((3,),), ((2, 2),), ((),), forms="m", args=(1,))
op("select_scatter", ((3, 4), (4,)), forms="m", args=(0, -1))
op("slice_scatter", ((3, 4), (3, 2)), forms="m", args=(1, 0, -1, 2))
op("diagonal_scatter", ((3, 4), (3,)), forms="m", args=(1,))
# PyTorch's gradient of the input is where `src` was written, not where it was not.
op("as_strided_scatter", ((3, 4), (2, 2)), forms="m", args=((2, 2), (1, 4), 1), layouts=False, **NO_GRAD)
case("nonzero_static", lambda T, x: T.nonzero_static(x > 0, size=9), ((3, 4),), dtypes=FLOATS, **NO_GRAD)
case(
    "shift_of_a_number",
    lambda T, x: (2 << x, 100 >> x, 1 << x.short()),
    ((3, 4),),
    domain=(-2, 9),
    dtypes=INTS,
    **NO_GRAD,
)


def shifted(T: ModuleType, x: Any) -> Any:
    y, z = x.clone(), x.clone()
    y <<= 2
    z >>= 1
    return y, z


case("shift_operators_inplace", shifted, ((3, 4),), domain=(0, 9), dtypes=INTS, **NO_GRAD)
case("tensor_split", lambda T, x: T.tensor_split(x, 3), ((7,),), ((2, 3),))
case("tensor_split_at", lambda T, x: x.tensor_split((1, -1), dim=1), ((2, 5),), ((2, 0),))
case("hsplit", lambda T, x: T.hsplit(x, 2), ((4,),), ((3, 4),))
case("vsplit", lambda T, x: x.vsplit([1]), ((3, 4),))
case("dsplit", lambda T, x: T.dsplit(x, 2), ((2, 2, 4),))
case("unfold", lambda T, x: x.unfold(0, 3, 2), ((7, 2),), ((3,),))
case("unfold_overlapping", lambda T, x: x.unfold(-1, 3, 1), ((2, 5),))
case("broadcast_tensors", lambda T, x, y: T.broadcast_tensors(x, y), ((2, 1), (3,)), ((2,), (2,)))
case("meshgrid", lambda T, x, y, z: T.meshgrid(x, y, z, indexing="ij"), ((2,), (3,), ()), ((2,), (0,), (2,)))
case("meshgrid_xy", lambda T, x, y: T.meshgrid([x, y], indexing="xy"), ((2,), (3,)))
case("cartesian_prod", lambda T, x, y: T.cartesian_prod(x, y), ((2,), (3,)), ((2,), (0,)))
case("combinations", lambda T, x: T.combinations(x), ((4,),), ((1,),))
case("combinations_repeated", lambda T, x: T.combinations(x, 3, with_replacement=True), ((3,),))
# PyTorch writes over what its own gradient of vander reads.
case("vander", lambda T, x: T.vander(x), ((3,),), ((4,),), differentiable=False)
case("vander_linalg", lambda T, x: T.linalg.vander(x, N=4), ((2, 3),), ((3,),), dtypes=(*FLOATS, *INTS))
case("einsum_thin", lambda T, x, y: T.einsum("ij,jk->ik", x, y), ((2, 1), (3, 4)), dtypes=FLOATS)
case("sum_to_size", lambda T, x: x.sum_to_size(1, 4), ((3, 4),), ((2, 3, 4),), dtypes=FLOATS)
case(
    "isin", lambda T, x, y: T.isin(x, y), ((3, 4), (5,)), ((4,), (0,)), ((), (3,)), dtypes=NUMBERS, **NO_GRAD
)
case("isin_not", lambda T, x: T.isin(x, 1, invert=True), ((3, 4),), dtypes=NUMBERS, **NO_GRAD)
COUNTED = {"domain": (0, 6), "dtypes": INTS, "differentiable": False}
op("bincount", ((9,),), ((0,),), forms="m", kwargs=(("minlength", 4),), **COUNTED)
case("bincount_weights", lambda T, x, w: T.bincount(x.long(), w), ((9,), (9,)), domain=((0, 6),), **NO_GRAD)
op(
    "histc",
    ((3, 40),),
    ((0,),),
    forms="mo",
    args=(7, -1, 1.5),
    dtypes=FLOATS,
    unlike=("uint8", "bool"),
    **NO_GRAD,
)
case(
    "histogramdd",
    lambda T, x: T.histogramdd(x, [3, 2], density=True),
    ((7, 2),),
    ((2, 5, 2),),
    dtypes=FLOATS,
    **NO_GRAD,
)
case("histogram", lambda T, x: T.histogram(x, 5, density=True), ((3, 40),), dtypes=FLOATS, **NO_GRAD)
case(
    "unravel_index",
    lambda T, x: T.unravel_index(x, (3, 4)),
    ((2, 3),),
    domain=(0, 11),
    dtypes=("int64",),
    **NO_GRAD,
)
case("clone", lambda T, x: x.clone(), *ANY, ((),))
case("contiguous", lambda T, x: x.contiguous(), *ANY)
case("to_float32", lambda T, x: x.to(T.float32), *UNARY, differentiable=False)
case("to_float64", lambda T, x: x.to(T.float64), *UNARY)
case("to_int64", lambda T, x: x.long(), *UNARY, **NO_GRAD)
case("to_int32", lambda T, x: x.int(), *UNARY, **NO_GRAD)
case("to_bool", lambda T, x: x.bool(), *UNARY, **NO_GRAD)
case("iterate", lambda T, x: tuple(x), ((3, 2),))

# ---- indexing, read and write
INDICES: dict[str, Any] = {
    "int": 1,
    "negative": -1,
    "ints": (1, 2),
    "slice": slice(1, 3),
    "step": (slice(None), slice(0, 4, 2)),
    "none": (None, 1),
    "ellipsis": (..., 0),
    "ellipsis_only": ...,
    "empty_slice": slice(2, 2),
    "mixed": (slice(None), None, 1, ...),
    "beyond": slice(1, 100),
    "empty_tuple": (),
}


def assign(T: ModuleType, x: Any, value: Any, index: Any) -> Any:
    """`x[index] = value` on a copy; the gradient reaches both."""
    y = x * 1
    y[index] = value
    return y


for name, index in INDICES.items():
    case(f"getitem_{name}", lambda T, x, i=index: x[i], ((3, 4),), ((3, 4, 2),))
    case(f"setitem_{name}", lambda T, x, v, i=index: assign(T, x, v, i), ((3, 4), ()), layouts=False)
case("setitem_broadcast", lambda T, x, v: assign(T, x, v, slice(0, 2)), ((3, 4), (4,)), ((3, 4), (2, 1)))
case("setitem_number", lambda T, x: assign(T, x, 2.5, (0, slice(1, 3))), ((3, 4),))
case("getitem_0dim", lambda T, x: x[()], ((),))


# ---- windows
CONVOLUTIONS: dict[str, tuple[tuple[Operands, ...], dict[str, Any]]] = {
    "conv1d": ((((2, 3, 6), (4, 3, 2)), ((3, 6), (4, 3, 2))), {}),
    "conv1d/settings": ((((2, 4, 7), (6, 2, 3), (6,)),), {"stride": 2, "padding": 2, "groups": 2}),
    "conv1d/same": ((((2, 3, 5), (2, 3, 3), (2,)),), {"padding": "same", "dilation": 2}),
    "conv2d": ((((2, 3, 5, 6), (5, 3, 3, 2), (5,)), ((3, 5, 6), (5, 3, 3, 2), (5,))), {}),
    "conv2d/point": ((((2, 6, 3, 3), (5, 6, 1, 1)),), {}),
    "conv2d/strided": ((((2, 3, 7, 6), (4, 3, 3, 3)),), {"stride": (2, 3), "padding": (1, 2)}),
    "conv2d/dilated": ((((1, 2, 6, 7), (3, 2, 2, 3), (3,)),), {"dilation": (2, 3), "padding": 1}),
    "conv2d/depthwise": ((((2, 3, 5, 5), (6, 1, 3, 3), (6,)),), {"groups": 3, "padding": 1}),
    "conv3d": ((((2, 2, 4, 3, 4), (3, 2, 2, 2, 3), (3,)),), {"padding": (0, 1, 1), "stride": (1, 2, 1)}),
    "conv_transpose1d": ((((2, 3, 4), (3, 2, 3), (2,)), ((3, 4), (3, 2, 3), (2,))), {"stride": 2}),
    "conv_transpose2d": (
        (((2, 4, 3, 4), (4, 2, 3, 2), (4,)),),
        {"stride": (2, 3), "padding": 1, "output_padding": 1, "groups": 2},
    ),
    "conv_transpose2d/dilated": ((((1, 2, 3, 3), (2, 3, 2, 2)),), {"dilation": 2}),
    "conv_transpose3d": (
        (((1, 2, 2, 3, 2), (2, 3, 2, 2, 2), (3,)),),
        {"stride": (1, 2, 2), "padding": (0, 0, 1)},
    ),
}
for name, (shapes, settings) in CONVOLUTIONS.items():
    op(name, *shapes, forms="", where=F, kwargs=tuple(settings.items()), steps=True, **NO_HALF)
# PyTorch's second derivatives of no image end where its first ones are made.
op("conv2d/empty", ((0, 3, 6, 5), (4, 3, 2, 3), (4,)), forms="", where=F, **NO_GRAD)
op("conv_transpose2d/empty", ((0, 3, 6, 5), (3, 4, 2, 3), (4,)), forms="", where=F, **NO_GRAD)
op(
    "unfold/images",
    ((2, 3, 4, 5),),
    ((3, 4, 5),),
    ((0, 3, 4, 5),),
    where=F,
    forms="",
    args=((2, 3), 1, (1, 0), (2, 1)),
)
op(
    "fold",
    ((2, 12, 15),),
    ((12, 15),),
    ((0, 12, 15),),
    where=F,
    forms="",
    args=((4, 5), (2, 3), 1, 1, (2, 1)),
)


# ---- in-place writes through views: the history of the base is rewritten
def through_view(write: Callable[..., Any]) -> Callable[..., Any]:
    def fn(T: ModuleType, x: Any, *rest: Any) -> Any:
        y = x * 1
        write(y, *rest)
        return y * y

    return fn


case("inplace_view_row", through_view(lambda y: y[0].mul_(3)), ((3, 4),), dtypes=FLOATS)
case("inplace_view_transposed", through_view(lambda y, v: y.t().mul_(v)), ((3, 4), (3,)), dtypes=FLOATS)
case("inplace_view_of_view", through_view(lambda y: y[1:][:, 1].exp_()), ((3, 4),), dtypes=FLOATS)
case("inplace_view_twice", through_view(lambda y: (y[0].add_(1), y[:, 0].mul_(2))), ((3, 4),), dtypes=FLOATS)
case("inplace_view_diagonal", through_view(lambda y, v: y.diagonal().copy_(v)), ((3, 4), (3,)), dtypes=FLOATS)
case("inplace_view_fill", through_view(lambda y: y.select(1, 2).zero_()), ((3, 4),), dtypes=FLOATS)


# ---- forms
def method(case: OpCase, tensors: list[Any], suffix: str = "") -> Any:
    """`x.op(...)`, or `x.op_(...)` with the suffix."""
    return getattr(tensors[0], case.op + suffix)(*tensors[1:], *case.args, **dict(case.kwargs))


def with_form(form: str) -> list[OpCase]:
    return [c for c in CASES.values() if form in c.forms]


def differentiable() -> list[OpCase]:
    return [c for c in CASES.values() if c.differentiable]
