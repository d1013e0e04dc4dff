"""bfloat16 in kernels: every bit pattern, both ways, compiled by either front and un-jitted, against what its bits say; functions of
every bit pattern, random streams and mixed dtypes against torch, to the bit."""

import ctypes
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import build
from nbgrad.kernels.cpu import bfloat
from nbgrad.memory import dtypes
from tests.support import T

BITS = np.arange(65536, dtype=np.uint16)
NUMBERS = (BITS.astype(np.uint32) << 16).view(np.float32)


def stored(bits: np.ndarray) -> T.Tensor:
    return T.from_numpy(bits.view(np.int16)).view(T.bfloat16)


def bits_of(t: T.Tensor) -> np.ndarray:
    return t.view(T.int16).numpy().view(np.uint16)


def nearest(x: np.ndarray) -> np.ndarray:
    """By the two neighbours' distances, in float64; of equal ones the even."""
    low = (x.view(np.uint32) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        beside = (low + np.uint16(1)).astype(np.uint16)
    with np.errstate(invalid="ignore"):
        return _nearest(low, beside, x)


def _nearest(low: np.ndarray, beside: np.ndarray, x: np.ndarray) -> np.ndarray:
    ends = [(b.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for b in (low, beside)]
    ends[1] = np.where(
        np.isinf(ends[1]), np.copysign(2.0**128, ends[1]), ends[1]
    )  # as if there were one more
    below, above = (np.abs(e - x.astype(np.float64)) for e in ends)
    up = (above < below) | ((above == below) & (low & 1 == 1))
    return np.where(up & ~np.isinf(x), beside, low)


def test_every_bfloat16_as_float32() -> None:
    got = stored(BITS).float().numpy()
    np.testing.assert_array_equal(got.view(np.uint32), NUMBERS.view(np.uint32))
    assert np.array_equal(np.array(stored(BITS).tolist(), np.float32), NUMBERS, equal_nan=True)


def test_rounding_to_bfloat16() -> None:
    """Midpoints, which go to even, and their neighbours, denormals, what overflows, and random bits; NaN is PyTorch's."""
    middle = ((BITS.astype(np.uint32) << 16) | 0x8000).view(np.float32)
    with np.errstate(invalid="ignore"):
        up, down = (np.nextafter(middle, np.float32(way)) for way in (np.inf, -np.inf))
    random = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([NUMBERS, middle, up, down, random])
    x = x[~np.isnan(x)]
    got = T.from_numpy(x).bfloat16()
    np.testing.assert_array_equal(bits_of(got), nearest(x))
    np.testing.assert_array_equal(dtypes.packed(x, dtypes.bfloat16), nearest(x))
    assert bits_of(T.tensor([float("nan"), -float("nan")], dtype=T.bfloat16)).tolist() == [0x7FC0] * 2


@pytest.mark.parametrize("at", [0x0000, 0x8000, 0x0001, 0x007F, 0x3F80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0])
def test_the_helpers_say_the_same_un_jitted(at: int) -> None:
    wide = bfloat.from_bfloat(BITS[at])
    assert wide.dtype == np.float32
    assert bfloat.to_bfloat(wide) == BITS[at]


@pytest.mark.slow
def test_numba_makes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Numba's own front makes of a kernel in bfloat16."""
    monkeypatch.setenv("NBGRAD_COMPILER", "numba")
    source = """
from nbgrad.kernels.cpu.bfloat import from_bfloat, to_bfloat


def @NAME@(start, stop, o, x):
    for i in range(start, stop):
        o[i] = to_bfloat(from_bfloat(x[i]) * from_bfloat(x[i]))
"""
    made = build.kernel("squared_bfloat16", source, ("i8", "i8", "*g2", "*g2"))
    out = np.empty_like(BITS)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2)(made.address)
    run(0, len(BITS), out.ctypes.data, BITS.ctypes.data)
    x = stored(BITS)
    np.testing.assert_array_equal(out, bits_of(x * x))


# ---------------------------------------------------------------- against torch

# Where PyTorch's kernels compute in float32 and round once. Its others round between their steps, or are less exact (`erf`, `gelu`).
SAME = [
    "abs",
    "neg",
    "sign",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erfc",
    "erfinv",
    "relu",
    "digamma",
    "floor",
    "ceil",
    "round",
    "trunc",
    "frac",
    "sinc",
    "i0",
    "square",
    "logical_not",
    "isnan",
    "isfinite",
    "signbit",
    "deg2rad",
    "rad2deg",
    "nan_to_num",
    "nn.functional.softplus",
    "nn.functional.mish",
    "nn.functional.selu",
    "nn.functional.elu",
    "nn.functional.hardswish",
    "nn.functional.hardsigmoid",
    "nn.functional.hardtanh",
    "nn.functional.relu6",
    "nn.functional.leaky_relu",
    "nn.functional.hardshrink",
    "nn.functional.softshrink",
    "special.i0e",
]


def both(run: Any, torch: ModuleType) -> tuple[np.ndarray, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, want = run(T).detach(), run(torch).detach()
    assert str(got.dtype) == str(want.dtype)
    return got.double().numpy(), want.double().numpy()


@pytest.mark.oracle
@pytest.mark.parametrize("name", SAME)
def test_functions_of_every_bfloat16_match_torch(torch: ModuleType, name: str) -> None:
    def run(m: ModuleType) -> Any:
        function: Any = m
        for part in name.split("."):
            function = getattr(function, part)
        return function(m.from_numpy(BITS.view(np.int16)).view(m.bfloat16))

    np.testing.assert_array_equal(*both(run, torch))


DRAWN = (
    "T.rand(n, dtype=d)",
    "T.randn(n, dtype=d)",
    "T.empty(n, dtype=d).uniform_(-2, 3)",
    "T.empty(n, dtype=d).normal_(1, 2)",
    "T.randint(0, 1000, (n,), dtype=d)",
    "T.randint(-70000, -300, (n,), dtype=d)",
    "T.empty(n, dtype=d).random_()",
    "T.empty(n, dtype=d).random_(5)",
    "T.bernoulli(T.rand(n, dtype=d))",
    "T.empty(n, dtype=d).exponential_()",
    "T.empty(n, dtype=d).cauchy_()",
    "T.empty(n, dtype=d).geometric_(0.3)",
    "T.empty(n, dtype=d).log_normal_()",
    "T.poisson(T.rand(n, dtype=d) * 5)",
    "T.multinomial(T.rand(n, dtype=d), 30, True)",
    "T.normal(T.rand(n, dtype=d), T.rand(n, dtype=d))",
    "T.randperm(n, dtype=d)",
    "T.nn.functional.dropout(T.ones(n, dtype=d), 0.3)",
    "T.nn.init.trunc_normal_(T.empty(n, 4, dtype=d))",
    "T.nn.Linear(n, 3, dtype=d).weight",
)


@pytest.mark.oracle
@pytest.mark.parametrize("text", DRAWN)
def test_random_streams_match_torch(torch: ModuleType, text: str) -> None:
    for n in (1, 7, 16, 20, 1000):

        def run(m: ModuleType, n: int = n) -> Any:
            m.manual_seed(5)
            drawn = eval(text, {"T": m, "n": n, "d": m.bfloat16})
            return m.cat([drawn.flatten().double(), m.rand(1).double()])

        np.testing.assert_array_equal(*both(run, torch))


MIXED = (
    "T.full((64,), 2570)",
    "T.arange(64) * 3 + 2000",
    "T.tensor([2571])",
    "T.tensor(2571)",
    "T.tensor(2.7)",
    "2.7",
)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "remainder", "floor_divide", "eq", "lt"])
def test_what_is_rounded_first_matches_torch(torch: ModuleType, name: str, dtype: str) -> None:
    """Operands of other dtypes, but for a single second one of products and quotients."""
    numbers = np.random.default_rng(0).normal(size=64) * 5
    for other in MIXED:
        for alpha in ({}, {"alpha": 2.7}) if name in ("add", "sub") else ({},):

            def run(m: ModuleType, other: str = other, alpha: Any = alpha) -> Any:
                x = m.tensor(numbers).to(getattr(m, dtype))
                return getattr(m, name)(x, eval(other, {"T": m}), **alpha)

            np.testing.assert_array_equal(*both(run, torch), err_msg=f"{other} {alpha}")


REFUSED = (
    "T.ones(2, dtype=T.bfloat16).numpy()",
    "T.ones(2, dtype=T.bfloat16, requires_grad=True).numpy()",
    "T.ones(2, dtype=T.bfloat16).__array__()",
    "T.special.zeta(T.ones(2, dtype=T.bfloat16), 2)",
    "T.linalg.inv(T.ones(2, 2, dtype=T.bfloat16))",
    "T.linalg.qr(T.ones(2, 2, dtype=T.bfloat16))",
    "T.geqrf(T.ones(2, 2, dtype=T.bfloat16))",
    "T.full((2,), 1e39, dtype=T.bfloat16)",
    "T.ones(2, dtype=T.bfloat16) << 1",
    "T.ones(2, dtype=T.bfloat16).long().add_(T.ones(2, dtype=T.bfloat16))",
    "T.ones(2, 2, dtype=T.bfloat16) @ T.ones(2, 2)",
    "T.iinfo(T.bfloat16)",
    "T.set_default_dtype(T.int8)",
    "T.nn.functional.linear(T.ones(2, dtype=T.bfloat16), T.ones(2, 2))",
    "T.binomial(T.ones(2, dtype=T.bfloat16), T.ones(2, dtype=T.bfloat16))",
)


@pytest.mark.oracle
@pytest.mark.parametrize("text", REFUSED)
def test_refusals_match_torch(torch: ModuleType, text: str) -> None:
    told = []
    for m in (T, torch):
        with pytest.raises((TypeError, RuntimeError, NotImplementedError)) as raised:
            eval(text, {"T": m})
        told.append((type(raised.value).__name__, str(raised.value)))
    assert told[0] == told[1]


@pytest.mark.oracle
def test_memory_is_shared_and_kept_with_torch(torch: ModuleType, tmp_path: Any) -> None:
    x = T.arange(6, dtype=T.bfloat16).view(2, 3)
    y = torch.from_dlpack(x.t())
    y[0, 1] = 9.5
    assert x.tolist() == [[0.0, 1.0, 2.0], [9.5, 4.0, 5.0]]
    z = T.from_dlpack(y)
    assert (z.dtype, z.tolist()) == (T.bfloat16, y.tolist())
    z[0, 0] = -1
    assert y[0, 0] == -1
    assert T.from_dlpack(torch.empty(0, 2, dtype=torch.bfloat16)).shape == (0, 2)
    T.save({"x": x, "p": T.nn.Parameter(x[0])}, tmp_path / "ours.pt")
    read = torch.load(tmp_path / "ours.pt")
    assert (read["x"].dtype, read["x"].tolist(), type(read["p"])) == (
        torch.bfloat16,
        x.tolist(),
        torch.nn.Parameter,
    )
    torch.save(read, tmp_path / "theirs.pt")
    assert T.load(tmp_path / "theirs.pt")["x"].tolist() == x.tolist()
