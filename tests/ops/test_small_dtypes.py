"""Tensors of every dtype: casts, wrapping integers, numbers that do not fit, the rounding of 16 bits; most of it against torch."""

import copy
import itertools
import pickle
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.cases import as_dtype, tensor
from tests.compare import array, assert_same, leaves, outcome
from tests.support import T

INTS = ["uint8", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
DTYPES = ["bool", *INTS, *FLOATS]


def values(name: str) -> np.ndarray:
    """What a dtype's conversions and arithmetic turn on."""
    if name == "bool":
        return np.array([True, False] * 6)
    if name in INTS:
        info = np.iinfo(name)
        return np.array(
            [0, 1, 2, 3, 5, 7, 100, 127, info.max, info.max - 1, info.min, max(info.min, -7)], name
        )
    some = [0.0, -0.0, 0.5, -1.5, 2.5, 255.75, -129.0, 40000.0, 3e9, np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore"):
        return as_dtype(np.array(some), name)


# ---------------------------------------------------------------- without torch


@pytest.mark.parametrize("name", INTS)
def test_integers_wrap(name: str) -> None:
    info = np.iinfo(name)
    most, least = T.tensor([info.max], dtype=getattr(T, name)), T.tensor([info.min], dtype=getattr(T, name))
    assert (most + 1).tolist() == [info.min]
    assert (least - 1).tolist() == [info.max]
    assert (-least).tolist() == [info.min]
    assert (most * 2).tolist() == [info.max - 1 if info.min == 0 else -2]


@pytest.mark.parametrize("name", INTS)
def test_integers_divide(name: str) -> None:
    d, info = getattr(T, name), np.iinfo(name)
    x = T.tensor([info.min, info.max, 7], dtype=d)
    assert (x / 2).dtype is T.float32
    if info.min:
        # The quotient is one beyond the largest: it wraps, where the processor would trap.
        assert (x // -1).tolist() == [info.min, -info.max, -7]
        assert (x % -1).tolist() == [0, 0, 0]
    else:
        assert (x // info.max).tolist() == [0, 1, 0]  # no -1 in disguise
        assert (x % info.max).tolist() == [0, 0, 7]
    for divide in (
        lambda: x // 0,
        lambda: x % T.zeros(3, dtype=d),
        lambda: T.div(x, 0, rounding_mode="trunc"),
        lambda: x.fmod_(0),
        lambda: x.remainder_(0),
    ):
        with pytest.raises(RuntimeError, match=r"^ZeroDivisionError$"):
            divide()
    assert x.tolist() == [info.min, info.max, 7]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_a_divisor_is_looked_at_also_when_others_were_divided_by(dtype: str) -> None:
    """Numbers that are no multiple of 256 go the short way, once there is a plan."""
    x = T.tensor([0, 1, 100], dtype=getattr(T, dtype))
    for _ in range(2):
        assert (x % 7).tolist() == [0, 1, 2]
        assert (x // 7).tolist() == [0, 0, 14]
        for zero in (0, *([256] if dtype != "int64" else [])):
            for f in (T.remainder, T.floor_divide, T.fmod):
                with pytest.raises(RuntimeError, match=r"^ZeroDivisionError$"):
                    f(x, zero)


def test_sums_of_small_integers_are_int64() -> None:
    for name in INTS:
        x = T.full((300,), 100, dtype=getattr(T, name))
        assert (x.sum().dtype, x.sum().item(), x[:3].prod().item()) == (T.int64, 30000, 10**6)
    large = T.full((100_000,), 127, dtype=T.int8)
    assert (large.sum().item(), large.max().item(), large.min().item()) == (12_700_000, 127, 127)
    assert large.reshape(100, 1000).sum(0)[0].item() == 12_700


def test_float16_sums_and_products_are_rounded_once() -> None:
    x = T.full((10_000,), 0.1, dtype=T.half)
    assert x.sum().item() == float(np.float16(np.float64(np.float16(0.1)) * 10_000))
    assert x.mean().item() == float(np.float16(0.1))
    a, b = (np.random.default_rng(i).standard_normal((20, 20)).astype(np.float16) for i in (0, 1))
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal((T.from_numpy(a) @ T.from_numpy(b)).numpy(), want)


def test_float16_gradients_are_float16() -> None:
    x = T.tensor([0.5, 1.0, 2.0], dtype=T.half, requires_grad=True)
    (x.exp() * x).sum().backward()
    (x * 3).sum().backward()  # accumulated
    assert x.grad.dtype is T.half
    v = np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(x.grad.numpy(), np.exp(v) * (1 + v) + 3, 2e-3)
    w = T.ones(3, requires_grad=True)
    (w.half() * x).sum().backward()
    assert w.grad.dtype is T.float32


def test_float16_as_the_default() -> None:
    T.set_default_dtype(T.float16)
    try:
        assert T.zeros(2).dtype is T.float16
        assert (T.arange(3) * 0.5).dtype is T.float16
        assert T.tensor(1.5).dtype is T.float16
        assert repr(T.ones(2)) == "tensor([1., 1.])"
    finally:
        T.set_default_dtype(T.float32)


def test_numbers_beyond_a_dtype_are_refused_and_nothing_is_written() -> None:
    x = T.tensor([1, 2, 3], dtype=T.uint8)
    for write in (lambda: x.fill_(256), lambda: x.clamp_(max=300), lambda: x.__setitem__(0, -256)):
        with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
            write()
    assert (x.tolist(), x._version) == ([1, 2, 3], 0)
    assert x.fill_(-1).tolist() == [255, 255, 255]


def test_bytes_as_masks() -> None:
    x, mask = T.arange(4), T.tensor([1, 0, 2, 0], dtype=T.uint8)
    with pytest.warns(UserWarning, match=r"indexing with dtype torch.uint8 is now deprecated"):
        assert x[mask].tolist() == [0, 2]
    with pytest.raises(IndexError, match="tensors used as indices must be long, int, byte or bool tensors"):
        x[mask.short()]
    assert (mask.any().dtype, mask.short().any().dtype) == (T.uint8, T.bool)


# ---------------------------------------------------------------- against torch


def both(torch: ModuleType, run: Any, label: str) -> None:
    """`run(module)` gives the same in both: the same bits, or the same refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, want = outcome(lambda: run(T)), outcome(lambda: run(torch))
    if isinstance(want, str) or isinstance(got, str):
        assert got == want, label
        return
    assert_same(got, want, label, signs=True)
    for g, w in zip(leaves(got), leaves(want), strict=True):
        if hasattr(w, "dtype"):
            np.testing.assert_array_equal(array(g), array(w), err_msg=label)


@pytest.mark.oracle
@pytest.mark.parametrize("name", DTYPES)
def test_casts_match_torch(torch: ModuleType, name: str) -> None:
    """Out of range and NaN included: what the compilers of PyTorch make of them on this kind of processor."""
    v = values(name)
    many = np.tile(v, 11)  # vectors, and a rest
    for to in DTYPES:
        for data in (v, many, many[::3], v[:1]):
            both(torch, lambda m, d=data, to=to: tensor(m, d).to(getattr(m, to)), f"{name} to {to}")
        both(
            torch,
            lambda m, to=to: m.zeros(len(v), dtype=getattr(m, to)).copy_(tensor(m, v)),
            f"copy_ to {to}",
        )
        both(torch, lambda m, to=to: tensor(m, v)[-4:-1].type(getattr(m, to)), f"type {to}")


BINARY = {
    "add": lambda m, x, y: x + y,
    "sub": lambda m, x, y: x - y,
    "mul": lambda m, x, y: x * y,
    "div": lambda m, x, y: x / y,
    "floor": lambda m, x, y: x // y,
    "trunc": lambda m, x, y: m.div(x, y, rounding_mode="trunc"),
    "remainder": lambda m, x, y: x % y,
    "fmod": lambda m, x, y: m.fmod(x, y),
    "maximum": lambda m, x, y: m.maximum(x, y),
    "lt": lambda m, x, y: x < y,
    "eq": lambda m, x, y: x == y,
    "and": lambda m, x, y: x & y,
    "xor": lambda m, x, y: x ^ y,
    "lshift": lambda m, x, y: x << y,
    "rshift": lambda m, x, y: x >> y,
    "cat": lambda m, x, y: m.cat([x, y]),
    "where": lambda m, x, y: m.where(x == x, x, y),
    "iadd": lambda m, x, y: x.add_(y),
    "setitem": lambda m, x, y: (x.__setitem__(slice(0, 4), y[4:8]), x)[1],
}


@pytest.mark.oracle
@pytest.mark.parametrize("op", BINARY)
def test_integers_match_torch(torch: ModuleType, op: str) -> None:
    for name in INTS:
        v = values(name)
        nonzero = np.where(v == 0, 3, v).astype(name)[::-1].copy()
        both(torch, lambda m, v=v, w=nonzero: BINARY[op](m, m.tensor(v), m.tensor(w)), f"{op} {name}")
        both(torch, lambda m, v=v: BINARY[op](m, m.tensor(v), m.tensor(v)), f"{op} {name}, by zero")


@pytest.mark.oracle
@pytest.mark.parametrize("op", ["add", "eq", "cat", "where", "iadd", "setitem"])
def test_pairs_of_dtypes_match_torch(torch: ModuleType, op: str) -> None:
    """Tensors with dimensions, and 0-dim ones beside them."""
    small = {d: as_dtype(np.arange(8), d) for d in DTYPES}
    for a, b in itertools.product(DTYPES, repeat=2):
        both(
            torch,
            lambda m, a=a, b=b: BINARY[op](m, tensor(m, small[a]), tensor(m, small[b])),
            f"{op} {a} {b}",
        )
        if op in ("add", "eq", "iadd"):
            both(
                torch,
                lambda m, a=a, b=b: BINARY[op](m, tensor(m, small[a]), tensor(m, small[b])[3]),
                f"{op} {a} 0-dim {b}",
            )


NUMBERS = (2, 300, -1, 0.1, 2.5, True, 100000, 1e10, 0, float("nan"))
WITH_NUMBER = {
    "add": lambda m, x, n: x + n,
    "rsub": lambda m, x, n: n - x,
    "mul": lambda m, x, n: x * n,
    "div": lambda m, x, n: x / n,
    "floor": lambda m, x, n: x // n,
    "eq": lambda m, x, n: x == n,
    "lt": lambda m, x, n: n < x,
    "clamp": lambda m, x, n: x.clamp(max=n),
    "where": lambda m, x, n: m.where(x == x, x, n),
    "masked_fill": lambda m, x, n: x.masked_fill(x != x, n),
    "fill_": lambda m, x, n: x.fill_(n),
    "setitem": lambda m, x, n: (x.__setitem__(1, n), x)[1],
    "full": lambda m, x, n: m.full((3,), n, dtype=x.dtype),
    "tensor": lambda m, x, n: m.tensor([n], dtype=x.dtype),
    "alpha": lambda m, x, n: m.add(x, x, alpha=n),
    "muli": lambda m, x, n: x.mul_(n),
}


@pytest.mark.oracle
@pytest.mark.parametrize("op", WITH_NUMBER)
def test_numbers_match_torch(torch: ModuleType, op: str) -> None:
    """Which numbers wrap, which are refused, and which are rounded to 16 bits first."""
    for name, number in itertools.product([*INTS, "float16", "bfloat16"], NUMBERS):
        # Whole vectors of PyTorch's, whose scalar code rounds `alpha * x` to 16 bits.
        data = as_dtype(np.array([0, 1, 2, 3, 5, 7, 100, 4] * 4), name)
        both(torch, lambda m, d=data, n=number: WITH_NUMBER[op](m, tensor(m, d), n), f"{op} {name} {number}")


@pytest.mark.oracle
@pytest.mark.parametrize("name", DTYPES)
def test_factories_match_torch(torch: ModuleType, name: str) -> None:
    for make in (
        lambda m, d: m.arange(5, dtype=d),
        lambda m, d: m.arange(-3, 300, 50, dtype=d),
        lambda m, d: m.arange(0, 1, 0.25, dtype=d),
        lambda m, d: m.linspace(0, 10, 5, dtype=d),
        lambda m, d: m.linspace(-3, 3, 4, dtype=d),
        lambda m, d: m.eye(2, 3, dtype=d),
        lambda m, d: m.zeros(2, 0, dtype=d),
        lambda m, d: m.tensor([[1, 0], [0, 1]], dtype=d),
        lambda m, d: m.tensor([1.5, 0.0], dtype=d),
        lambda m, d: m.tensor([2**70], dtype=d),
        lambda m, d: m.tensor([1, -1, 3e38], dtype=d),
        lambda m, d: m.ones(2, dtype=d).new_tensor([1, 2]),
        lambda m, d: m.ones(2, dtype=d, requires_grad=True).requires_grad,
        lambda m, d: m.ones(2, dtype=d)[0].item(),
        lambda m, d: m.ones(2, dtype=d).tolist(),
    ):
        both(torch, lambda m, make=make: make(m, getattr(m, name)), name)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_what_is_counted_has_torchs_last_digits(torch: ModuleType, name: str) -> None:
    rng = np.random.default_rng(0)
    registers = torch.backends.cpu.get_cpu_capability() == "AVX2"  # of others torch counts otherwise
    for _ in range(60):
        (low, high), n, step = rng.normal(size=2) * 9, int(rng.integers(0, 90)), rng.random() + 0.05
        few = step * (n if registers else n % 16)
        calls = [
            lambda m, d, low=low, high=high, n=n: m.linspace(low, high, n, dtype=d),
            lambda m, d, n=n: m.linspace(0, 1, n, dtype=d),
        ]
        if name != "int64":
            calls.append(lambda m, d, low=low, few=few, step=step: m.arange(low, low + few, step, dtype=d))
        if name in ("float32", "float64"):
            calls.append(lambda m, d, low=low, n=n: m.logspace(low / 9, 1, n, base=3.3, dtype=d))
            calls.append(
                lambda m, d, low=low, high=high, n=n: m.histogram(m.tensor([low, high, 1], dtype=d), n + 1)[1]
            )
        for call in calls:
            got, want = (call(m, getattr(m, name)).double().tolist() for m in (T, torch))
            assert got == want, (low, high, n, step)


@pytest.mark.fast
def test_limits_are_one_object_that_nobody_changes() -> None:
    half = T.finfo(T.float16)
    assert half is T.finfo(type=T.float16) and half == pickle.loads(pickle.dumps(half)) == copy.deepcopy(half)
    assert T.finfo() is T.finfo(T.get_default_dtype()) and T.finfo(T.complex64).dtype == "float32"
    with pytest.raises(AttributeError, match=r"attribute 'eps' of 'torch\.finfo' objects is not writable"):
        half.eps = 1.0  # type: ignore[misc]


@pytest.mark.oracle
def test_result_type_matches_torch(torch: ModuleType) -> None:
    operands = [
        "m.ones(2).half()",
        "m.tensor(1, dtype=m.int8)",
        "m.ones(1, dtype=m.uint8)",
        "2",
        "2.5",
        "True",
        "'a'",
    ]
    for a, b in itertools.product(operands, repeat=2):
        got, want = (outcome(lambda m=m, a=a, b=b: str(m.result_type(eval(a), eval(b)))) for m in (T, torch))
        assert got == want, (a, b)
