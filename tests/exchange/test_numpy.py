"""NumPy and its neighbours: arrays in, arrays out, NumPy's functions of tensors, DLPack."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import outcome
from tests.support import T

A = np.linspace(0.57, 3.1, 6).reshape(2, 3)
B = np.array([1.5, -2.0, 0.25])

# Each is computed of tensors and of arrays, and its gradient by both.
UFUNCS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: np.sin(x),
    lambda x, y: np.add(x, y),
    lambda x, y: np.subtract(x, y),
    lambda x, y: np.multiply(x, y),
    lambda x, y: np.divide(x, y),
    lambda x, y: np.power(x, 2),
    lambda x, y: np.exp(x) * np.tanh(y),
    lambda x, y: np.sqrt(x),
    lambda x, y: np.log1p(x),
    lambda x, y: np.maximum(x, 1.2),
    lambda x, y: np.negative(x),
    lambda x, y: np.matmul(x, y),
    lambda x, y: np.add.reduce(x),
    lambda x, y: np.multiply.reduce(x, axis=1, keepdims=True),
    lambda x, y: np.maximum.reduce(x, axis=None),
    lambda x, y: np.float64(2) * x,
]
FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: np.sum(x, axis=0),
    lambda x, y: np.sum(x, axis=(0, 1), keepdims=True),
    lambda x, y: np.sum(x),
    lambda x, y: np.mean(x, 1),
    lambda x, y: np.prod(x, axis=0),
    lambda x, y: np.max(x, axis=1),
    lambda x, y: np.amin(x),
    lambda x, y: np.concatenate([y, y]),
    lambda x, y: np.concatenate((x, x), axis=1),
    lambda x, y: np.stack([y, y], axis=-1),
    lambda x, y: np.vstack([x, y]),
    lambda x, y: np.hstack([y, y]),
    lambda x, y: np.where(x > 1, x, y),
    lambda x, y: np.clip(x, 0.8, 2.0),
    lambda x, y: np.reshape(x, (3, 2)),
    lambda x, y: np.ravel(x),
    lambda x, y: np.transpose(x),
    lambda x, y: np.transpose(x, (1, 0)),
    lambda x, y: np.swapaxes(x, 0, 1),
    lambda x, y: np.moveaxis(x, 0, -1),
    lambda x, y: np.expand_dims(y, 0),
    lambda x, y: np.squeeze(np.expand_dims(y, 0), axis=0),
    lambda x, y: np.broadcast_to(y, (2, 3)),
    lambda x, y: np.dot(x, y),
    lambda x, y: np.inner(y, y),
    lambda x, y: np.outer(y, y),
    lambda x, y: np.linalg.norm(x),
    lambda x, y: np.linalg.norm(y, 1),
    lambda x, y: np.linalg.norm(x, axis=1, keepdims=True),
    lambda x, y: np.flip(x, 1),
    lambda x, y: np.roll(x, 1, axis=1),
    lambda x, y: np.tile(y, 2),
    lambda x, y: np.repeat(x, 2, axis=0),
    lambda x, y: np.triu(x, k=1),
    lambda x, y: np.diagonal(x, 1),
    lambda x, y: np.copy(x),
    lambda x, y: np.cumsum(x),
    lambda x, y: np.cumprod(x, axis=1),
    lambda x, y: np.add.accumulate(x, axis=0),
    lambda x, y: np.std(x),
    lambda x, y: np.var(x, axis=1, ddof=1),
    lambda x, y: np.sort(y),
]


@pytest.mark.parametrize("f", [*UFUNCS, *FUNCTIONS])
def test_numpys_functions_give_tensors_and_differentiate(f: Callable[[Any, Any], Any]) -> None:
    expected = np.asarray(f(A, B))
    x, y = T.tensor(A, requires_grad=True), T.tensor(B, requires_grad=True)
    got = f(x, y)
    assert type(got) is T.Tensor
    np.testing.assert_allclose(got.detach().numpy(), expected, 1e-12)
    got.sum().backward()
    step = 1e-6
    for array, leaf in ((A, x), (B, y)):
        for at in np.ndindex(array.shape):
            up, down = array.copy(), array.copy()
            up[at] += step
            down[at] -= step
            pairs = [(v, B) if array is A else (A, v) for v in (up, down)]
            slope = (np.sum(f(*pairs[0])) - np.sum(f(*pairs[1]))) / (2 * step)
            found = 0.0 if leaf.grad is None else leaf.grad[at].item()
            assert found == pytest.approx(slope, rel=1e-6, abs=1e-8), at


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "<", "==", ">="])
def test_arrays_and_tensors_mix_from_either_side(symbol: str) -> None:
    b = np.abs(B)
    t = T.tensor(b, dtype=T.float32, requires_grad=True)
    for expression in (f"A {symbol} b", f"b {symbol} A"):
        got, want = eval(expression, {"A": A, "b": t}), eval(expression, {"A": A, "b": b})
        assert type(got) is T.Tensor
        np.testing.assert_allclose(got.detach().numpy(), want, 1e-6)
        assert got.requires_grad == got.dtype.is_floating_point


def test_products_of_arrays_and_tensors() -> None:
    t = T.tensor(B, requires_grad=True)
    for got, want in ((A @ t, A @ B), (t @ A.T, B @ A.T)):
        assert got.requires_grad
        np.testing.assert_allclose(got.detach().numpy(), want, 1e-12)


def test_what_a_gradient_reads_is_not_the_users_array() -> None:
    a, t = A.copy(), T.tensor(A, requires_grad=True)
    product = a * t
    a[:] = 0
    product.sum().backward()
    np.testing.assert_array_equal(t.grad.numpy(), A)


def test_without_a_counterpart_it_is_numpys_own() -> None:
    t = T.tensor([3.0, 1.0, 2.0])
    for call in (
        np.median,
        np.unique,
        lambda x: np.median([x, x]),
        lambda x: np.add.outer(x, x),
        lambda x: np.fft.fft(x),
        lambda x: np.interp(x, x, x),
        lambda x: np.linalg.norm(np.stack([x, x]), 2),  # of a matrix, not of its elements
        lambda x: np.sum(x, where=np.array([True, False, True])),
        lambda x: np.percentile(a=x, q=50),
    ):
        got, want = call(t), call(t.numpy())
        assert type(got) is type(want)
        np.testing.assert_array_equal(got, want)
        with pytest.raises(RuntimeError, match="requires grad"):
            call(t.clone().requires_grad_())
    for ufunc in (np.spacing, np.cbrt, np.modf, lambda x: np.add(x, x, dtype=np.float64)):
        got, want = ufunc(t), ufunc(t.numpy())
        for ours, theirs in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, want))):
            assert type(ours) is T.Tensor  # as of PyTorch's
            np.testing.assert_array_equal(ours.numpy(), theirs)
        with pytest.raises(RuntimeError, match="requires grad"):
            ufunc(t.clone().requires_grad_())
    counts = np.zeros(3)
    np.add.at(counts, T.tensor([1, 1, 2]), 1)
    assert counts.tolist() == [0, 2, 1]


def test_what_is_no_operand_is_a_type_error() -> None:
    t = T.ones(3)
    for call in (lambda: np.add(t, "a"), lambda: np.spacing(t, out=T.zeros(3))):
        with pytest.raises(TypeError, match=r"NotImplemented"):
            call()


def test_numpys_own_never_write_into_a_tensor() -> None:
    t, square = T.arange(3.0), T.eye(3)
    for call in (
        lambda: np.median(square, 0, t),
        lambda: np.median(square, axis=0, out=t),
        lambda: np.copyto(t, A[0]),
        lambda: np.put(t, [0], 7),
        lambda: np.putmask(t, [True, False, True], 7),
        lambda: np.place(t, [True, False, True], [7]),
        lambda: np.put_along_axis(t, np.array([0]), 7, 0),
        lambda: np.fill_diagonal(square, 7),
        lambda: np.add.at(t, np.array([0]), 7),
    ):
        with pytest.raises((ValueError, TypeError), match=r"read-only|WRITEBACKIFCOPY|NotImplemented"):
            call()
    assert (t.tolist(), square.tolist()) == ([0, 1, 2], np.eye(3).tolist())
    assert (t._version, square._version) == (0, 0)


def test_results_with_names_are_operands() -> None:
    assert np.median(T.tensor([[1.0, 5.0], [3.0, 2.0]]).max(0)).item() == 2.0  # two values and two indices
    assert np.shape(T.ones(2, 3).sort()) == (2, 2, 3)


def test_an_array_takes_a_result_that_has_no_history() -> None:
    a = A.copy()
    a += T.tensor(B)
    np.testing.assert_array_equal(a, A + B)
    assert type(np.exp(T.ones(3), out=np.zeros(3, np.float32))) is np.ndarray
    out = T.zeros(3)
    assert np.exp(T.ones(3), out=out) is out
    assert out[0].item() == pytest.approx(np.e)
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        a += T.tensor(B, requires_grad=True)
    np.testing.assert_array_equal(a, A + B)


def test_what_only_looks_at_values_gets_arrays(tmp_path: Any) -> None:
    t = T.tensor(B)
    np.save(tmp_path / "b.npy", t)
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), B)
    assert np.allclose(t, B)
    assert np.array_equal(t, t)
    np.testing.assert_allclose(t, B)
    assert (np.shape(t), np.size(t), np.ndim(t)) == ((3,), 3, 1)


def test_asarray() -> None:
    t = T.tensor(B)
    shared = np.asarray(t)
    shared[0] = 9
    assert t[0].item() == 9
    assert np.asarray(t, dtype=np.int8).tolist() == [9, -2, 0]
    assert not np.shares_memory(np.array(t), shared)
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.asarray(t, dtype=np.int8, copy=False)
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
        np.asarray(t.requires_grad_())
    assert t.numpy(force=True).tolist() == [9, -2, 0.25]


# ---------------------------------------------------------------- DLPack


@pytest.mark.parametrize(
    "name", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"]
)
def test_dlpack_shares_memory(name: str) -> None:
    t = T.ones(2, 3, dtype=getattr(T, name)).t()
    array = np.from_dlpack(t)
    assert np.shares_memory(array, t.numpy())
    back = T.from_dlpack(array)
    back[0, 0] = 0
    assert t[0, 0].item() == 0
    assert (back.dtype, back.stride()) == (t.dtype, t.stride())


def test_dlpack_capsules_are_read_once() -> None:
    capsule = T.utils.dlpack.to_dlpack(T.ones(3))
    assert T.utils.dlpack.from_dlpack(capsule).tolist() == [1, 1, 1]
    for bad in (capsule, 3):
        with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
            T.from_dlpack(bad)


def test_dlpack_of_what_its_taker_does_not_have() -> None:
    """The capsule dies with the taker's error under way."""
    with pytest.raises((RuntimeError, BufferError), match="dtype"):
        np.from_dlpack(T.ones(3, dtype=T.bfloat16))


def test_dlpack_of_a_read_only_array_and_copies() -> None:
    a = np.ones(3)
    a.setflags(write=False)
    assert T.from_dlpack(a).tolist() == [1, 1, 1]
    copied = T.from_dlpack(a, copy=True)
    copied[0] = 2
    assert a[0] == 1


# ---------------------------------------------------------------- against torch


@pytest.mark.oracle
@pytest.mark.parametrize(
    "action",
    [
        "T.from_dlpack(T.ones(2, requires_grad=True))",
        "T.ones(2).__dlpack__(stream=1)",
        "T.ones(2).__dlpack__(stream='a')",
        "tuple(map(int, T.ones(2).__dlpack_device__()))",
        "T.from_dlpack(T.ones(2).__dlpack__(), copy=True)",
        "T.from_dlpack(np.ones(2, '>f8'))",
        "T.from_numpy(3)",
        "T.from_numpy(np.ones((2, 2))[::-1])",
        "T.from_numpy(np.zeros(3, [('a', 'i4'), ('b', 'i1')])['a'])",
        "T.from_numpy(np.ones(2, '>f8'))",
        "T.from_numpy(READ_ONLY)",
        "T.as_tensor(READ_ONLY)",
        "T.asarray([1, 2], copy=False)",
        "T.asarray(T.ones(2), dtype=T.int8, copy=False)",
        "T.asarray(bytearray(b'ab'), dtype=T.uint8).tolist()",
        "T.frombuffer(bytearray(b'12345678'), dtype=T.int32).tolist()",
        "T.frombuffer(b'1234', dtype=T.int8).tolist()",
        "T.frombuffer(bytearray(b'123'), dtype=T.int16)",
        "T.frombuffer(bytearray(), dtype=T.int16)",
        "T.frombuffer(bytearray(8), dtype=T.int16, count=5)",
        "T.frombuffer(bytearray(8), dtype=T.int16, offset=8)",
        "T.frombuffer(bytearray(8), dtype=T.int16, offset=-1)",
        "T.frombuffer(bytearray(8), dtype=T.int16, offset=1)",
        "T.frombuffer(bytearray(8), dtype=T.int16, offset=1, count=2).tolist()",
        "T.frombuffer(bytearray(8), dtype=T.int16, count=0)",
        "T.frombuffer(bytearray(8), dtype=T.int16, requires_grad=True)",
        "T.frombuffer(3, dtype=T.int16)",
        "T.ones(2, requires_grad=True).numpy()",
        "(T.ones(2, requires_grad=True) * 2).numpy(force=True).tolist()",
        "T.ones(2).type('torch.HalfTensor').tolist()",
        "T.ones(2).type('torch.FooTensor')",
        "[str(c([1, 0]).dtype) for c in (T.ByteTensor, T.HalfTensor, T.BoolTensor)]",
        "[isinstance(T.ones(1), c) for c in (T.FloatTensor, T.DoubleTensor)]",
    ],
)
def test_conversions_and_refusals_match_torch(torch: ModuleType, action: str) -> None:
    read_only = np.ones(2)
    read_only.setflags(write=False)
    names = {"np": np, "READ_ONLY": read_only}
    got, want = (outcome(lambda m=m: eval(action, {"T": m, **names})) for m in (T, torch))
    assert got == want


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:__array_wrap__")  # of PyTorch's
@pytest.mark.parametrize(
    "line",
    [
        "T.ones(3) @ np.diag([1, 2, 3])",
        "[(a * b).dtype for a in (T.ones(3), T.arange(3)) for b in (np.arange(3), np.ones(3, 'f4'), np.ones(3, 'i1'))]",
        "T.ones(3).half() * np.ones(3, 'f4')",
        "T.arange(3) / (1 + np.arange(3)), T.arange(3) ** np.arange(3), T.ones(3) - np.array([True, False, True])",
        "[f(T.arange(1, 4)) for f in (np.sqrt, np.exp, np.square, np.rint)]",
        "[f(T.arange(3, dtype=T.int32), 2) for f in (np.add, np.true_divide, np.power)]",
    ],
)
def test_an_array_beside_a_tensor_is_computed_with_in_its_dtypes(torch: ModuleType, line: str) -> None:
    ours, theirs = (repr(eval(line, {"T": module, "np": np})) for module in (T, torch))
    assert ours == theirs


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # of PyTorch's __array_wrap__
@pytest.mark.parametrize(
    "line",
    """
concatenate([t, t])
copy(t)
diagonal(t)
expand_dims(t, 0)
full_like(t, 3)
ones_like(t)
outer(v, v)
ravel(t)
roll(v, 1)
stack([t, t])
tril(t)
where(t > 2, t, 0)
sort(v)
dot(v, v)
dot(t, v)
vstack([t, t])
column_stack([v, v])
tile(v, 2)
linalg.norm(v)
linalg.norm(t, axis=1)
broadcast_to(v, (2, 3))
take(v, [0, 1])
searchsorted(v, 2)
linalg.inv(q)
linalg.solve(q, q[0])
insert(v, 0, 1.0)
delete(v, 0)
linspace(v, v, 2)
argsort(v)
clip(t, 1, 2)
squeeze(t)
cumsum(t, 0)
""".strip().splitlines(),
)
def test_numpys_functions_give_arrays_and_tensors_as_pytorchs_do(torch: ModuleType, line: str) -> None:
    def found(module: ModuleType) -> Any:
        v = module.tensor([3.0, 1.0, 2.0])
        names = {"t": module.arange(6.0).reshape(2, 3), "v": v, "q": module.tensor([[2.0, 1.0], [1.0, 3.0]])}
        return eval(f"np.{line}", {"np": np} | names)

    ours, theirs = found(T), found(torch)
    assert isinstance(ours, T.Tensor) == isinstance(theirs, torch.Tensor)
    assert isinstance(ours, T.Tensor) or type(ours) is type(theirs)
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), 1e-6)


class _Column:
    """A sequence that gives NumPy's scalars by index and Python's numbers one after the other, as a Series of pandas does."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, k: Any) -> Any:
        return self.values[k]

    def __iter__(self) -> Any:
        return iter(self.values.tolist())


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int64", "bool"])
def test_a_columns_dtype_is_kept(torch: ModuleType, dtype: str) -> None:
    column = _Column(np.array([1, 0], dtype))
    for data in (column, [column, column]):
        assert repr(T.tensor(data)) == repr(torch.tensor(data))
    assert repr(T.Tensor(column)) == repr(torch.Tensor(column))
    with pytest.raises(ValueError, match="could not determine the shape of object type '_Column'"):
        T.tensor(_Column({5: 1.0}))
