"""Integers of 16 bits and more without sign, and floats of 8 bits: what PyTorch does with them, and what it refuses."""

import copy
import io
import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels.codes import FLOAT8
from nbgrad.memory import dtypes
from nbgrad.utils import safetensors
from tests.support import T

UNSIGNED = ["uint16", "uint32", "uint64"]
EIGHTHS = [f"float8_{bits}" for bits in FLOAT8.values()]


def hard_floats() -> np.ndarray[Any, Any]:
    """Random bits, and what lies on and beside the edges of roundings."""
    near = np.array(
        [0, 1, 0x40000, 0x7FFFF, 0x80000, 0x80001, 0xC0000, 0x100000, 0x180000, 0x200000, 0x400000], np.uint32
    )
    edges = (np.arange(256, dtype=np.uint32)[:, None] << 24) + near
    half = edges | np.uint32(1 << 23)
    random = np.random.default_rng(0).integers(0, 2**32, 5000, dtype=np.uint32)
    return np.concatenate([edges.ravel(), half.ravel(), random]).view(np.float32)


@pytest.mark.parametrize("name", EIGHTHS)
def test_kernels_and_the_host_agree_on_eight_bits(name: str) -> None:
    d = getattr(T, name)
    every = T.arange(256).to(T.uint8)
    assert np.array_equal(every.view(d).float().numpy(), dtypes.unpacked(every.numpy(), d), equal_nan=True)
    x = hard_floats()
    short = T.from_numpy(x).to(d).view(T.uint8).numpy()
    assert np.array_equal(short, dtypes.packed(x, d))
    back = T.from_numpy(short).view(d)
    back = back[~back.isnan()]  # whose sign is lost
    assert T.equal(back.float().to(d).view(T.uint8), back.view(T.uint8))  # what was rounded stays


@pytest.mark.oracle
@pytest.mark.parametrize("name", EIGHTHS)
def test_casts_of_eight_bits_are_torchs(name: str, torch: ModuleType) -> None:
    x = hard_floats()
    shown = []
    for t in (T, torch):
        d = getattr(t, name)
        given = t.from_numpy(x.copy())
        every = t.arange(256).to(t.uint8).view(d)
        casts = [given.to(d), given.double().to(d), given.half().to(d)]
        casts.append(given.nan_to_num(1.0).bfloat16().to(d))  # where NaN has no sign
        casts += [t.arange(-300, 300).to(d), t.tensor([True, False]).to(d)]
        wide = [
            every.to(w).double().nan_to_num(0.5).numpy()
            for w in (t.float32, t.float64, t.float16, t.bfloat16)
        ]
        wide.append(every.bool().numpy())
        shown.append([*[c.view(t.uint8).numpy() for c in casts], *wide])
    for ours, theirs in zip(*shown, strict=True):
        assert np.array_equal(ours, theirs)


# What both libraries print; `d` is the dtype, `a` and `b` matrices of it.
SAID = """
a
a[0, 1]
a.tolist()
a[0, 1].item()
a.t().contiguous()
a[:, ::2].clone()
a.float()
a.t().double()
a.half()
a.int()
a.bool()
a.to(t.complex64)
a.to(t.uint8)
a.view(t.uint8)
t.zeros(2, dtype=d)
t.full((2,), 3, dtype=d)
t.tensor([1, 2], dtype=d)
t.tensor(2.5, dtype=d)
t.ones(3).to(d)
t.zeros(3, dtype=d).copy_(t.tensor([1.0, 2.0, 3.0]))
t.cat([a, b])
t.stack([a, b])
a.repeat(2, 1)
a.view(1, 2, 3).flip(1)
a.roll(1)
a[[1, 0]]
a[t.tensor([True, False])]
t.where(a.bool(), a, b)
t.nn.functional.pad(a, (1, 1))
t.diag_embed(a)
a == b
a != b
a * b
a.any()
t.equal(a, a)
a.type()
a.element_size()
a.is_signed()
t.result_type(a, 1), t.result_type(a, 1.5)
a.sum()
a.prod(0)
a.cumsum(0)
a.sort()
a.sort(descending=True)
a.unique()
a & b
a | b
a ^ b
a / b
a.exp()
a + 1.5
a.abs()
a + b
a - 1
-a
~a
a // b
a % b
a ** 2
a < b
a >= 1
a.max()
a.max(0)
a.amin(1)
a.argmax()
a.topk(1)
a.mode()
a.kthvalue(1)
a.median()
a.cummax(0)
a.clamp(1, 2)
a.sign()
a.relu()
a.logical_not()
a.maximum(b)
a.masked_fill(a.bool(), 1)
a + a.int()
a + a.bool()
a.float() + a
t.mm(a, b.t())
a[0].dot(b[0])
t.arange(3, dtype=d)
t.randperm(3, dtype=d)
t.zeros(2, dtype=d).normal_()
t.zeros(2, dtype=d).uniform_()
t.softmax(a, 0)
a.mean()
t.full((2,), 1e30, dtype=d)
a.numpy().dtype
t.set_default_dtype(d)
t.iinfo(d) if d.name_[0] == "u" else t.finfo(d)
""".strip().splitlines()
# Not PyTorch's: matrix products of such floats, which it has; what it refuses of its own kernel of equality; and what is shown of the
# least number of e8m0fnu, which it takes for 0.
OTHER = {
    "float8": {"t.mm(a, b.t())", "t.equal(a, a)"},
    "float8_e8m0fnu": {"t.zeros(2, dtype=d)", "t.nn.functional.pad(a, (1, 1))", "t.diag_embed(a)"},
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", [*UNSIGNED, *EIGHTHS])
def test_what_is_said_is_torchs(name: str, torch: ModuleType) -> None:
    found = []
    for t in (T, torch):
        d = getattr(t, name)
        least = int(name == "float8_e8m0fnu")  # which has no zero
        a, b = (t.tensor(rows).to(d) for rows in ([[4, least, 2], [1, 8, 1]], [[4, 1, 2], [2, 1, 1]]))
        scope = {"t": t, "d": d, "a": a, "b": b}
        found.append([_said(text.replace("d.name_", repr(name)), scope) for text in SAID])
    for text, ours, theirs in zip(SAID, *found, strict=True):
        if not any([name.startswith(kind) and text in texts for kind, texts in OTHER.items()]):
            assert ours == theirs, text


def _said(text: str, scope: dict[str, Any]) -> str:
    try:
        found = eval(text, dict(scope))
        return f"{found!r} {getattr(found, 'dtype', '')}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_integers_are_numpys(name: str) -> None:
    d, top = getattr(T, name), 2 ** int(name[4:]) - 1
    x = np.array([5, top, 0, top // 2 + 1, top // 2, 7, 5], name)
    t = T.from_numpy(x)
    assert t.dtype is d and t.numpy() is not x and np.shares_memory(t.numpy(), x)
    assert t.tolist() == x.tolist() and t[1].item() == top
    assert t.sort()[0].tolist() == sorted(x.tolist()) and t.unique().tolist() == np.unique(x).tolist()
    assert (
        t.argsort(descending=True, stable=True).tolist()
        == np.argsort(-x.astype(object), kind="stable").tolist()
    )
    assert np.array_equal(t.float().numpy(), x.astype(np.float32)) and np.array_equal(
        t.double().numpy(), x.astype(float)
    )
    assert np.array_equal((t * t).numpy(), x * x) and np.array_equal((t ^ t[0]).numpy(), x ^ x[0])
    assert (t == top).tolist() == (x == top).tolist()
    assert T.full((2,), top, dtype=d).tolist() == [top, top] == T.zeros(2, dtype=d).fill_(top).tolist()
    assert T.zeros(2, dtype=d).t().contiguous().dtype is d and T.tensor([top], dtype=d).tolist() == [top]
    assert T.tensor([-1.0, 3.7]).to(d).tolist() == [top, 3]
    strided = T.from_numpy(np.arange(24, dtype=name).reshape(4, 6))[::2, ::3].t()
    assert strided.double().tolist() == strided.tolist() and T.arange(2, dtype=T.int64).to(d).dtype is d


@pytest.mark.parametrize("name", [*UNSIGNED, *EIGHTHS])
def test_files_and_libraries_hold_them(name: str) -> None:
    d = getattr(T, name)
    whole = T.arange(6).to(d)
    file = io.BytesIO()
    T.save([whole, whole[1::2], {d: 1}], file)
    file.seek(0)
    first, part, names = T.load(file)
    assert first.dtype is d and part.data_ptr() == first[1:].data_ptr() and names == {d: 1}
    for other in (
        first,
        T.from_dlpack(whole),
        copy.deepcopy(whole),
        pickle.loads(pickle.dumps(whole)),
        safetensors.load(safetensors.save({"x": whole}))["x"],
        T.frombuffer(bytearray(whole.view(T.uint8).numpy().tobytes()), dtype=d),
        whole.clone(),
    ):
        assert other.dtype is d and T.equal(other.view(T.uint8), whole.view(T.uint8))


@pytest.mark.parametrize("name", EIGHTHS)
def test_moves_are_of_bytes(name: str) -> None:
    every = T.arange(256).to(T.uint8)
    a = every.view(getattr(T, name))
    moved = [
        a.clone(),
        a.view(16, 16).t().contiguous().t(),
        T.cat([a[:9], a[9:]]),
        a.roll(5).roll(-5),
        a[T.arange(256)],
    ]
    assert all(T.equal(m.reshape(-1).view(T.uint8), every) for m in moved)


def test_gradients_pass_through_eight_bits() -> None:
    x = T.tensor([1.0, 2.1, 500.0], requires_grad=True)
    y = x.to(T.float8_e4m3fn)
    assert y.requires_grad and y.tolist() == [1.0, 2.0, 448.0]
    (y.float() * T.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0]
    layer = T.nn.Linear(2, 2).to(T.float8_e5m2)
    assert layer.weight.dtype is T.float8_e5m2 and layer.float().weight.dtype is T.float32
