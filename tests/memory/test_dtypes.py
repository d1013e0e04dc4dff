"""Dtypes, promotion and devices: by literals, and against torch where it is installed."""

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nbgrad as T
from nbgrad.memory import device as _device
from nbgrad.memory import dtypes
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import DIM, NUMBER, ZERODIM
from nbgrad.names.absent import NotBuiltError

D = dtypes


@pytest.fixture(autouse=True)
def default_dtype() -> Iterator[None]:
    before = D.get_default_dtype()
    yield
    D.set_default_dtype(before)


def outcome(f: Callable[[], Any]) -> tuple[str, str]:
    """What a call gives, or the error it raises, in a form that compares across the two libraries."""
    try:
        return "value", repr(f())
    except Exception as error:
        return type(error).__name__, str(error)


# ---------------------------------------------------------------- dtypes


def test_names() -> None:
    assert [repr(d) for d in D.all_dtypes] == [
        "torch.bool",
        "torch.uint8",
        "torch.int8",
        "torch.int16",
        "torch.int32",
        "torch.int64",
        "torch.float16",
        "torch.bfloat16",
        "torch.float32",
        "torch.float64",
        "torch.complex64",
        "torch.complex128",
    ]
    assert (D.float, D.double, D.long, D.int, D.bool) == (D.float32, D.float64, D.int64, D.int32, D.bool_)
    assert D.int64.type_name == "torch.LongTensor"
    assert D.float32.scalar_name == "Float"


@pytest.mark.parametrize("d", D.all_dtypes, ids=repr)
def test_a_dtype_is_one_object(d: D.dtype) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(d, protocol)) is d
    assert copy.copy(d) is d
    assert copy.deepcopy([d])[0] is d
    with pytest.raises(AttributeError, match="not writable"):
        d.name = "other"
    with pytest.raises(TypeError, match=r"cannot create 'torch\.dtype' instances"):
        D.dtype()


def test_promotion_by_category() -> None:
    assert D.promote_types(D.int64, D.float32) is D.float32
    assert D.promote_types(D.bool_, D.int32) is D.int32
    assert D.promote_types(D.float32, D.float64) is D.float64
    assert D.promote_types(int, D.int32) is D.int64


def test_weaker_operands_only_raise_the_category() -> None:
    assert D.result_dtype([(DIM, D.int32), (NUMBER, D.int64)]) is D.int32
    assert D.result_dtype([(DIM, D.int32), (NUMBER, D.float64)]) is D.float32
    assert D.result_dtype([(DIM, D.float32), (ZERODIM, D.float64)]) is D.float32
    assert D.result_dtype([(DIM, D.int64), (ZERODIM, D.float64)]) is D.float64
    assert D.result_dtype([(ZERODIM, D.int32), (NUMBER, D.int64)]) is D.int32
    assert D.result_dtype([(NUMBER, D.bool_), (NUMBER, D.int64)]) is D.int64
    assert D.result_dtype([(DIM, D.bool_)] * 6 + [(DIM, D.int32)]) is D.int32
    with pytest.raises(ValueError, match="at least one operand"):
        D.result_dtype([])


def test_the_default_dtype_decides_for_python_floats() -> None:
    operands = [(DIM, D.int32), (NUMBER, D.number_dtype(1.5))]
    assert D.result_dtype(operands) is D.float32
    D.set_default_dtype(D.float64)
    assert D.get_default_dtype() is D.float64
    assert D.result_dtype(operands) is D.float64
    assert D.number_dtype(1.5) is D.float64
    assert D.number_dtype(True) is D.bool_
    assert D.number_dtype(2) is D.int64


def test_numpy_dtypes() -> None:
    for d in D.all_dtypes:
        if d is not D.bfloat16:
            assert D.from_numpy_dtype(np.dtype(d.name)) is d
    with pytest.raises(TypeError, match=r"can't convert np.ndarray of type numpy\.void"):
        D.from_numpy_dtype(np.dtype("V2"))
    with pytest.raises(AttributeError, match="np"):  # a use that forgets bfloat16 does not go by unseen
        D.bfloat16.np  # noqa: B018
    assert D.from_numpy_dtype(np.dtype(np.longlong)) is D.int64
    with pytest.raises(ValueError, match="byte order different from the native"):
        D.from_numpy_dtype(np.dtype(">f4"))
    supported = "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
    with pytest.raises(
        TypeError, match=rf"np.ndarray of type numpy.str_. The only supported types are: {supported}"
    ):
        D.from_numpy_dtype(np.dtype("U3"))


def test_dtype_arguments() -> None:
    assert [D.to_dtype(x) for x in (float, int, bool, D.int32)] == [D.float64, D.int64, D.bool_, D.int32]
    with pytest.raises(TypeError, match=r"^zeros\(\): argument 'dtype' must be torch.dtype, not str$"):
        D.to_dtype("float32", "zeros")


def test_limits() -> None:
    assert D.finfo(D.float64).eps == 2.0**-52
    assert D.finfo().bits == 32
    assert D.iinfo(D.int32).max == 2**31 - 1
    assert repr(D.iinfo(D.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"


# ---------------------------------------------------------------- devices


def test_devices() -> None:
    assert device("cpu") is _device.cpu
    assert device(_device.cpu) is _device.cpu
    assert device(type="cuda", index=1) is device("cuda:1")
    assert repr(device("cuda", 0)) == "device(type='cuda', index=0)"
    assert str(device("cuda:1")) == "cuda:1"
    assert device("cpu") != device("cpu:0")
    assert device("cpu") != "cpu"
    assert len({device("cuda"), device("cuda"), device("cuda:0")}) == 2
    assert pickle.loads(pickle.dumps(device("cuda:3"))) is device("cuda:3")
    assert copy.deepcopy(_device.cpu) is _device.cpu
    with pytest.raises(AttributeError, match="not writable"):
        _device.cpu.type = "cuda"
    with pytest.raises(RuntimeError, match="device type at start of device string: foo"):
        device("foo")
    with pytest.raises(RuntimeError, match="Could not parse device index '128'"):
        device("cuda:128")
    with pytest.raises(TypeError, match=r"invalid combination of arguments - got \(float\)"):
        device(1.5)


# ---------------------------------------------------------------- against torch


def same(d: D.dtype, torch: ModuleType) -> Any:
    return getattr(torch, d.name)


@pytest.mark.oracle
def test_fields_match_torch(torch: ModuleType) -> None:
    for d in D.all_dtypes:
        t = same(d, torch)
        for field in ("itemsize", "is_floating_point", "is_complex", "is_signed", "abbr"):
            assert getattr(d, field) == getattr(t, field), (d, field)
        assert repr(d) == repr(t)
        assert d.type_name == torch.zeros(1, dtype=t).type()


@pytest.mark.oracle
def test_promotion_matches_torch(torch: ModuleType) -> None:
    for a, b in itertools.product(D.all_dtypes, repeat=2):
        assert repr(D.promote_types(a, b)) == repr(torch.promote_types(same(a, torch), same(b, torch)))
        assert D.can_cast(a, b) == torch.can_cast(same(a, torch), same(b, torch))


@pytest.mark.oracle
@pytest.mark.parametrize("default", ["float16", "float32", "float64"])
def test_result_dtypes_match_torch(torch: ModuleType, default: str) -> None:
    tensors = [(kind, d) for kind in (DIM, ZERODIM) for d in D.all_dtypes]
    operands = {(kind, d): torch.ones([1] * (kind == DIM), dtype=same(d, torch)) for kind, d in tensors}
    numbers: dict[D.dtype, Any] = {D.bool_: True, D.int64: 2, D.float64: 2.5, D.complex128: 2j}
    operands |= {(NUMBER, d): number for d, number in numbers.items()}

    def halved(*given: tuple[int, D.dtype]) -> bool:
        """Whether they may come to complex32, of which there are no tensors here."""
        kinds = {d for _, d in given}
        return any(d.is_complex for d in kinds) and (D.float16 in kinds or default == "float16")

    torch.set_default_dtype(getattr(torch, default))
    D.set_default_dtype(getattr(D, default))
    try:
        for a, b in itertools.product(operands, repeat=2):
            if halved(a, b):
                continue
            expected = torch.result_type(operands[a], operands[b])
            assert repr(D.result_dtype([a, b])) == repr(expected), (a, b)
        # `where` and `addcmul` combine three
        for a, b, c in itertools.product(operands, repeat=3):
            if NUMBER in (a[0], b[0]) or D.bool_ in (a[1], b[1], c[1]) or halved(a, b, c):
                continue
            expected = torch.addcmul(operands[a], operands[b], torch.as_tensor(operands[c])).dtype
            if c[0] != NUMBER:
                assert repr(D.result_dtype([a, b, c])) == repr(expected), (a, b, c)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.oracle
def test_dtype_errors_match_torch(torch: ModuleType) -> None:
    for f in (
        lambda m: m.set_default_dtype(m.int32),
        lambda m: m.set_default_dtype("float32"),
        lambda m: m.set_default_dtype(float),
        lambda m: m.promote_types(m.int32, 3),
        lambda m: m.promote_types("a", m.int32),
        lambda m: m.can_cast(m.int32, 3),
        lambda m: m.finfo(m.int32),
        lambda m: m.iinfo(m.float32),
        lambda m: m.iinfo(m.bool),
        lambda m: m.finfo(3),
        lambda m: m.finfo(m.float32),
        lambda m: m.finfo(m.float64),
        lambda m: m.finfo(m.float16),
        lambda m: m.iinfo(m.int32),
        lambda m: m.iinfo(m.int64),
        lambda m: m.iinfo(m.int16),
        lambda m: m.iinfo(m.int8),
        lambda m: m.iinfo(m.uint8),
        lambda m: vars(m.dtype)["x"],
        lambda m: m.dtype(),
        lambda m: type("D", (m.dtype,), {}),
    ):
        assert outcome(lambda f=f: f(D)) == outcome(lambda f=f: f(torch))
    for d in (torch.float16, torch.float32, torch.float64):
        ours, theirs = D.finfo(getattr(D, repr(d)[6:])), torch.finfo(d)
        for field in ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny"):
            assert getattr(ours, field) == getattr(theirs, field)


@pytest.mark.oracle
def test_devices_match_torch(torch: ModuleType) -> None:
    words = "cpu cpu:0 cpu:1 cuda cuda:1 cuda:127 meta mps xpu:2 hip foo foo:1 cpu: cuda: cuda:-1 cuda:a cuda:01 CPU"
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((word,), {}) for word in words.split()]
    calls += [
        ((word,), {})
        for word in ("", "cuda ", "cuda:1:2", "cuda:99999999999", ":0", "cuda:+1", "cuda: 1", "0")
    ]
    calls += [(("cuda", 1), {}), (("cpu", 0), {}), (("cuda", -1), {}), (("cuda:1", 2), {}), (("foo", 1), {})]
    calls += [
        ((), {"type": "cuda", "index": 2}),
        ((), {"type": "cpu"}),
        ((), {"device": "cuda"}),
        (("cuda", "a"), {}),
    ]
    calls += [((0,), {}), ((-1,), {}), ((), {}), (("cuda",), {"index": 1}), (("cpu", 3.5), {})]
    if torch.cuda.is_available():
        calls.remove(((0,), {}))
    for args, kwargs in calls:
        ours = outcome(lambda a=args, k=kwargs: (device(*a, **k), str(device(*a, **k))))
        theirs = outcome(lambda a=args, k=kwargs: (torch.device(*a, **k), str(torch.device(*a, **k))))
        assert ours == theirs, (args, kwargs)


# ---------------------------------------------------------------- dtypes without kernels

BUILT = {d.name for d in (*dtypes.all_dtypes, *dtypes.kept_dtypes)}


@pytest.mark.oracle
def test_every_dtype_is_one_and_says_what_it_is(torch: ModuleType) -> None:
    for name, theirs in vars(torch).items():
        if not isinstance(theirs, torch.dtype):
            continue
        ours = getattr(T, name)
        assert isinstance(ours, T.dtype) and ours is getattr(T, str(theirs)[6:])
        assert pickle.loads(pickle.dumps(ours)) is ours is copy.deepcopy(ours) and {ours: 1}[ours]
        for ask in (
            "__repr__()",
            "itemsize",
            "is_floating_point",
            "is_complex",
            "is_signed",
            "to_real()",
            "to_complex()",
        ):
            assert _said(f"str(d.{ask})", ours) == _said(f"str(d.{ask})", theirs), (name, ask)


@pytest.mark.oracle
def test_limits_and_casts_of_dtypes_without_kernels(torch: ModuleType) -> None:
    every = [d for d in vars(torch).values() if isinstance(d, torch.dtype)]
    for a in every:
        ours = getattr(T, str(a)[6:])
        assert _said("str(t.iinfo(d))", ours, T) == _said("str(t.iinfo(d))", a, torch)
        if "float8" not in str(a) and "float4" not in str(a):
            assert _said("str(t.finfo(d))", ours, T) == _said("str(t.finfo(d))", a, torch)
        for b in every:
            theirs = torch.can_cast(a, b)
            assert T.can_cast(ours, getattr(T, str(b)[6:])) is theirs, (a, b)
            if {str(a)[6:], str(b)[6:]} <= BUILT:
                others = getattr(T, str(b)[6:])
                assert _said("str(t.promote_types(*d))", (ours, others), T) == _said(
                    "str(t.promote_types(*d))", (a, b), torch
                )


def _said(question: str, d: Any, t: Any = None) -> tuple[str, str]:
    try:
        return "", eval(question)
    except Exception as error:
        return type(error).__name__, str(error)


MAKERS: list[Callable[[Any], object]] = [
    lambda d: T.zeros(2, dtype=d),
    lambda d: T.empty((), dtype=d),
    lambda d: T.empty(0, dtype=d),
    lambda d: T.empty(2, dtype=d, device="meta"),
    lambda d: T.ones_like(T.ones(2), dtype=d),
    lambda d: T.tensor([1], dtype=d),
    lambda d: T.full((3,), 1, dtype=d),
    lambda d: T.ones(2).to(d),
    lambda d: T.ones(2).type(d),
    lambda d: T.ones(2).view(d),
    lambda d: T.ones(2).sum(dtype=d),
    lambda d: T.ones(2).new_zeros(2, dtype=d),
    lambda d: T.TypedStorage(2, dtype=d).tolist(),
]


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("name", ["complex32", "float4_e2m1fn_x2", "quint8", "int4", "bits8"])
@pytest.mark.parametrize("make", MAKERS)
def test_no_tensor_has_a_dtype_without_kernels(name: str, make: Callable[[Any], object]) -> None:
    for _ in range(2):
        with pytest.raises(NotBuiltError, match=f"^nbgrad has no torch.{name}: "):
            make(getattr(T, name))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"])
def test_limits_of_eight_bits_are_torchs(torch: ModuleType, name: str) -> None:
    ours, its = (of.finfo(getattr(of, f"float8_{name}")) for of in (T, torch))
    for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(ours, field) == getattr(its, field)
