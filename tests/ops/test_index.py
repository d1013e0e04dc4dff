"""Indexing beyond the case table: masks, index arrays and their placement, against NumPy; and what is refused."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.compare import array, assert_same, outcome
from tests.support import T

# Each is an index for NumPy; arrays and masks in it become tensors.
INDICES: dict[str, Any] = {
    "vector": np.array([1, 0, 1]),
    "negative": np.array([-1, 0]),
    "int32": np.array([1, 0], np.int32),
    "matrix": np.array([[1, 0], [0, 1]]),
    "none_chosen": np.array([], np.int64),
    "mask": np.array([True, False]),
    "mask_of_two_dims": np.array([[True, False, True], [False, True, True]]),
    "mask_all_false": np.array([False, False]),
    "middle": (slice(None), np.array([2, 0])),
    "last_mask": (..., np.array([True, False, True, True])),
    "neighbours": (slice(None), np.array([2, 0]), np.array([3, 3])),
    "apart_goes_first": (np.array([1, 0]), slice(None), np.array([3, 3])),
    "broadcast": (np.array([[1], [0]]), np.array([2, 0, 2])),
    "with_none": (np.array([1, 0]), None, slice(0, 2)),
    "none_between": (np.array([1, 0]), None, np.array([2, 1])),
    "slice_before": (slice(1, None), np.array([0, 2])),
    "mask_and_vector": (np.array([True, True]), np.array([2, 0])),
    "everything": (np.array([1, 1]), np.array([2, 0]), np.array([3, 3])),
}


def to_subject(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(to_subject, index))
    return T.tensor(index) if isinstance(index, np.ndarray) else index


def values(transposed: bool) -> tuple[np.ndarray, Any]:
    """(2, 3, 4), contiguous or not, as an array and as a leaf."""
    a = np.arange(24.0).reshape(2, 3, 4) + 1
    leaf = T.tensor(np.ascontiguousarray(a.T)).permute(2, 1, 0) if transposed else T.tensor(a)
    return a, leaf.requires_grad_()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", INDICES)
def test_read_and_its_gradients(name: str, transposed: bool) -> None:
    index = INDICES[name]
    a, x = values(transposed)
    y = x[to_subject(index)]
    np.testing.assert_array_equal(array(y), a[index])
    seed = np.random.default_rng(0).normal(size=y.shape)
    want = np.zeros_like(a)
    np.add.at(want, index, 2 * a[index] * seed)
    (got,) = T.autograd.grad(y * y, x, T.tensor(seed), create_graph=True)
    np.testing.assert_allclose(array(got), want)
    # d/dx of sum(got): the second derivative, again summed where an element was read several times.
    want = np.zeros_like(a)
    np.add.at(want, index, 2 * seed)
    (second,) = T.autograd.grad(got.sum(), x)
    np.testing.assert_allclose(array(second), want)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("whole", [False, True], ids=["one_value", "a_value_each"])
@pytest.mark.parametrize("name", INDICES)
def test_write_and_its_gradients(name: str, whole: bool, transposed: bool) -> None:
    index = INDICES[name]
    a, x = values(transposed)
    v = np.random.default_rng(1).normal(size=a[index].shape if whole else ())
    value = T.tensor(v).requires_grad_()
    y = x * 1
    y[to_subject(index)] = value
    want = a.copy()
    want[index] = v
    np.testing.assert_array_equal(array(y), want)
    seed = np.random.default_rng(2).normal(size=a.shape)
    to_x, to_value = T.autograd.grad(y, (x, value), T.tensor(seed))
    kept = seed.copy()
    kept[index] = 0
    np.testing.assert_array_equal(array(to_x), kept)
    np.testing.assert_allclose(array(to_value), seed[index] if whole else seed[index].sum())


def test_a_tensor_of_one_integer_among_indices_is_that_integer() -> None:
    i, k, x = T.tensor(1), T.tensor(-1, dtype=T.int32), T.rand(2, 3, 4)
    for index, plain in (
        ((i, 2), (1, 2)),
        ((i, slice(None), k), (1, slice(None), -1)),
        ((None, i, ..., k), (None, 1, ..., -1)),
    ):
        assert T.equal(x[index], x[plain])
        assert x[index]._base is x
        a, b = x.clone(), x.clone()
        a[index] += 5
        b[plain] += 5
        assert T.equal(a, b)
    assert T.equal(x[i, T.tensor([0, 2])], x[1, [0, 2]])
    w = T.zeros(2, 3, requires_grad=True)
    y = w * 1
    y[i, k] = 2 * w[0, i]
    y[i] *= 3
    y.sum().backward()
    assert w.grad.tolist() == [[1.0, 7.0, 1.0], [3.0, 3.0, 0.0]]
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1 with size 3"):
        x[i, T.tensor(3)]


def test_write_casts_a_number_and_refuses_a_tensor_of_another_dtype() -> None:
    x = T.zeros(3, dtype=T.int64)
    x[T.tensor([0, 2])] = 2.9
    assert x.tolist() == [2, 0, 2]
    with pytest.raises(
        RuntimeError, match="Index put requires the source and destination dtypes match, got Long for"
    ):
        x[T.tensor([0, 2])] = T.ones(2)


def test_repeated_places() -> None:
    """Of several writes to one place the last stays; additions add up in order."""
    at = T.tensor([1, 1, 0])
    assert T.zeros(2).index_put((at,), T.tensor([1.0, 2.0, 3.0])).tolist() == [3, 2]
    assert T.ones(2).index_put((at,), T.tensor([1.0, 2.0, 3.0]), accumulate=True).tolist() == [4, 4]
    assert T.ones(2).scatter_add(0, at, T.tensor([1.0, 2.0, 3.0])).tolist() == [4, 4]
    none = T.zeros(2, dtype=T.bool)
    assert none.scatter_add(0, at, T.tensor([True, True, False])).tolist() == [False, True]


def test_the_written_may_not_be_the_value() -> None:
    """Which element is read after it was written would be chance."""
    x = T.arange(4.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        x[T.tensor([3, 2, 1, 0])] = x
    assert x.tolist() == [0, 1, 2, 3]


def test_index_changed_after_it_was_used() -> None:
    """The graph keeps its own copy: PyTorch refuses here, though the gradient is known."""
    if T.__name__ != "nbgrad":
        pytest.skip("ours alone")
    x, at = T.arange(3.0, requires_grad=True), T.tensor([0, 2])
    y = x[at]
    at.zero_()
    assert T.autograd.grad(y.sum(), x)[0].tolist() == [1, 0, 1]


def test_history_has_as_few_views_as_pytorchs() -> None:
    x = T.ones(3, 4, requires_grad=True) * 1

    def chain(y: Any) -> list[str]:
        names, node = [], y.grad_fn
        while node is not None and node is not x.grad_fn:
            names.append(type(node).__name__.removesuffix("Backward0"))
            node = node.next_functions[0][0]
        return names

    assert chain(x[1]) == ["Select"]
    assert chain(x[1, 2]) == ["Select", "Select"]
    assert chain(x[:]) == ["Slice"]
    assert chain(x[:, 1]) == ["Select"]
    assert chain(x[..., 1:]) == ["Slice"]
    assert chain(x[None]) == ["Unsqueeze"]
    assert chain(x[...]) == chain(x[:, :]) == chain(x[()]) == ["Alias"]
    assert chain(x[True]) == ["Index", "Unsqueeze"]
    assert chain(x[T.tensor(1)]) == ["Select"]
    assert chain(x[1:, T.tensor([0, 2])]) == ["Index", "Slice"]
    for write, name in [
        ((0,), "CopySlices"),
        ((T.tensor([0]),), "IndexPutBackward0"),
        ((x > 2,), "IndexPutBackward0"),
    ]:
        y = x * 1
        y[write] = 0.0
        assert type(y.grad_fn).__name__ == name


VECTOR, MATRIX = "x = T.arange(3.0)", "x = T.ones(3, 4)"
REFUSED = [
    (
        VECTOR,
        "x[T.tensor([5])]",
        "IndexError: index 5 is out of bounds for dimension 0 with size 3",
    ),
    (
        VECTOR,
        "x[T.tensor([0, -4])]",
        "IndexError: index -4 is out of bounds for dimension 0 with size 3",
    ),
    (
        VECTOR,
        "x[T.tensor([1.0])]",
        "IndexError: tensors used as indices must be long, int, byte or bool tensors",
    ),
    (
        VECTOR,
        "x[T.tensor([True, False])]",
        "IndexError: The shape of the mask [2] at index 0 does not match the shape of the indexed "
        "tensor [3] at index 0",
    ),
    (
        MATRIX,
        "x[T.ones(3, 3) > 0]",
        "IndexError: The shape of the mask [3, 3] at index 1 does not match the shape of the indexed "
        "tensor [3, 4] at index 1",
    ),
    (
        MATRIX,
        "x[T.tensor([0, 1]), T.tensor([0, 1, 2])]",
        "IndexError: shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]",
    ),
    (
        VECTOR,
        "x[None, 5]",
        "IndexError: index 5 is out of bounds for dimension 1 with size 3",
    ),
    (
        VECTOR,
        "x[1, 'a']",
        "IndexError: too many indices for tensor of dimension 1",
    ),
    (
        "x = T.tensor(1.0)",
        "x[:]",
        "IndexError: slice() cannot be applied to a 0-dim tensor.",
    ),
    (
        VECTOR,
        "x.__setitem__(T.tensor([0, 1]), T.ones(3))",
        "RuntimeError: shape mismatch: value tensor of shape [3] cannot be broadcast to indexing "
        "result of shape [2]",
    ),
    (
        VECTOR,
        "x.__setitem__(0, [1.0])",
        "TypeError: can't assign a list to a torch.FloatTensor",
    ),
    (
        MATRIX,
        "x.gather(0, T.tensor([[5]]))",
        "RuntimeError: index 5 is out of bounds for dimension 0 with size 3",
    ),
    (
        MATRIX,
        "x.gather(0, T.tensor([[-1]]))",
        "RuntimeError: index -1 is out of bounds for dimension 0 with size 3",
    ),
    (
        MATRIX,
        "x.gather(0, T.tensor([0]))",
        "RuntimeError: Index tensor must have the same number of dimensions as input tensor",
    ),
    (
        MATRIX,
        "x.scatter(0, T.tensor([[0, 1]]), T.ones(1, 1))",
        "RuntimeError: Expected index [1, 2] to be no larger than self [3, 4] apart from dimension 0 "
        "and to be no larger size than src [1, 1]",
    ),
    (
        MATRIX,
        "x.index_select(0, T.tensor([4]))",
        "IndexError: index out of range in self",
    ),
    (
        MATRIX,
        "x.take(T.tensor([12]))",
        "IndexError: out of range: tried to access index 12 on a tensor of 12 elements.",
    ),
    (
        MATRIX,
        "x.masked_select(x)",
        "RuntimeError: masked_select: expected BoolTensor for mask",
    ),
    (
        MATRIX,
        "x.masked_fill(x > 0, T.ones(2))",
        "RuntimeError: masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
        "1 dimension(s).",
    ),
]


@pytest.mark.parametrize(("setup", "call", "message"), REFUSED, ids=[c for _, c, _ in REFUSED])
def test_refused_before_anything_is_written(setup: str, call: str, message: str) -> None:
    scope: dict[str, Any] = {"T": T}
    exec(setup, scope)
    before = scope["x"].tolist()
    assert outcome(lambda: eval(call, scope)) == message
    assert scope["x"].tolist() == before


OPS: dict[str, Callable[..., Any]] = {
    "gather": lambda T, x: x.gather(1, T.tensor([[0, 3], [2, 2], [1, 0]])),
    "gather_smaller": lambda T, x: T.gather(x, 0, T.tensor([[2, 0, 2]])),
    "scatter": lambda T, x: x.scatter(1, T.tensor([[0, 3, 1, 2]] * 3), x * x),
    "scatter_number": lambda T, x: x.scatter(0, T.tensor([[2, 0]]), 1.5),
    "scatter_add": lambda T, x: x.scatter_add(0, T.tensor([[0, 1, 0, 2]] * 3), x * x),
    "scatter_in_place": lambda T, x: (x * 1).scatter_(0, T.tensor([[2, 0]]), 1.5),
    "index_select": lambda T, x: x.index_select(1, T.tensor([3, 0, 3])),
    "index_add": lambda T, x: x.index_add(1, T.tensor([1, 1]), x[:, :2] * x[:, 2:], alpha=2.5),
    "index_fill": lambda T, x: x.index_fill(0, T.tensor([0, 2]), 3.0),
    "index_put_accumulate": lambda T, x: x.index_put((T.tensor([0, 0]),), x[1:] * x[1:], accumulate=True),
    "masked_fill": lambda T, x: x.masked_fill(T.tensor([True, False, True, False]), -1),
    "masked_fill_in_place": lambda T, x: (x * 1).masked_fill_(x.detach() > 0, 2),
    "masked_select": lambda T, x: x.masked_select(T.tensor([True, False, True, False])),
    "take": lambda T, x: x.t().take(T.tensor([[0, 5], [-1, 0]])),
    "take_along_dim": lambda T, x: T.take_along_dim(x, T.tensor([[2], [1], [0]]), 1),
    "flip": lambda T, x: x.flip(0, 1),
    "roll": lambda T, x: x.roll((1, -1), (0, 1)),
    "roll_flat": lambda T, x: x.roll(1),
    "tril": lambda T, x: x.tril(1),
    "triu": lambda T, x: T.triu(x),
    "repeat": lambda T, x: x.repeat(2, 1, 3),
    "tile": lambda T, x: x.tile(2),
    "repeat_interleave": lambda T, x: x.repeat_interleave(2, dim=1),
    "repeat_interleave_each": lambda T, x: T.repeat_interleave(x, T.tensor([1, 0, 2]), dim=0),
    "rot90": lambda T, x: T.rot90(x, 3),
    "hstack": lambda T, x: T.hstack([x, x[:, :1]]),
    "vstack": lambda T, x: T.vstack([x[0], x]),
    "dstack": lambda T, x: T.dstack([x, x * 2]),
    "column_stack": lambda T, x: T.column_stack([x[:, 0], x]),
    "cat_with_nothing": lambda T, x: T.cat([T.zeros(0), x, T.ones(3, 1)], 1),
}


@pytest.mark.parametrize("name", OPS)
def test_gradcheck(name: str) -> None:
    x = T.tensor(np.random.default_rng(3).normal(size=(3, 4)), requires_grad=True)
    assert T.autograd.gradcheck(lambda x: OPS[name](T, x), x)
    assert T.autograd.gradgradcheck(lambda x: OPS[name](T, x), x)


@pytest.mark.oracle
@pytest.mark.parametrize("name", OPS)
def test_against_torch(torch: Any, name: str) -> None:
    a = np.random.default_rng(3).normal(size=(3, 4))
    results = []
    for module in (T, torch):
        x = module.tensor(a, requires_grad=True)
        y = OPS[name](module, x)
        seed = module.tensor(np.random.default_rng(4).normal(size=tuple(y.shape)))
        results.append((y, *module.autograd.grad(y * y, x, seed)))
    assert_same(*results, name)


def test_of_as_strided_scatter_the_input_counts_where_nothing_was_written() -> None:
    x, src = T.ones(6, requires_grad=True), T.ones(2, requires_grad=True)
    T.as_strided_scatter(x, src, (2,), (2,), 1).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 1.0, 0.0, 1.0, 1.0] and src.grad.tolist() == [1.0, 1.0]


def _twice(read: Callable[[Any, Any], Any], x: Any, at: Any) -> Any:
    """What a call gives that finds what the first one kept."""
    first, second = read(x, at), read(x, at)
    assert first.tolist() == second.tolist()
    return second


READS: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda x, at: x[at],
    "second": lambda x, at: x[:, at],
    "both": lambda x, at: x[at, at],
    "gather": lambda x, at: (
        x.gather(1, at.view(-1, 1))
        if isinstance(x, T.Tensor)
        else np.take_along_axis(x, at.reshape(-1, 1), 1)
    ),
}


@pytest.mark.parametrize("name", READS)
def test_a_kept_read(name: str) -> None:
    read = READS[name]
    values = np.arange(12.0).reshape(3, 4)
    places = [2, 0, 1] if name == "gather" else [2, -1, 0]
    for x in (
        T.tensor(values),
        T.tensor(values.T.copy()).t(),
        T.tensor(values, dtype=T.int16),
        T.tensor(values, dtype=T.half),
    ):
        for at in (
            T.tensor(places),
            T.tensor(places, dtype=T.int32),
            T.tensor([p for p in places for _ in (0, 1)])[::2],
        ):
            assert np.array_equal(
                _twice(read, x, at).numpy(), read(values, np.array(places)).astype(x.numpy().dtype)
            )
    x, at = T.tensor(values, requires_grad=True), T.tensor(places)
    y = _twice(read, x, at)
    (g,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
    want = np.zeros((3, 4))
    grid = np.arange(12).reshape(3, 4)
    np.add.at(want.reshape(-1), read(grid, np.array(places)).reshape(-1), 2 * y.detach().numpy().reshape(-1))
    assert np.array_equal(g.detach().numpy(), want)
    counts = np.zeros((3, 4))
    np.add.at(counts.reshape(-1), read(grid, np.array(places)).reshape(-1), 2)
    assert np.array_equal(T.autograd.grad(g.sum(), x)[0].numpy(), counts)
    with T.inference_mode():
        assert read(x, at).is_inference()
    with T.no_grad():
        assert not read(x, at).requires_grad
    mapped = T.vmap(lambda row: read(x.detach(), row))(T.stack([at, at]))
    assert mapped.tolist() == [y.tolist()] * 2
    moved = T.func.jvp(lambda x: read(x, at), (x.detach(),), (x.detach(),))
    assert moved[1].tolist() == y.tolist()


@pytest.mark.parametrize("bad", [3, -4, 2**40])
def test_a_kept_read_refuses_what_points_nowhere(bad: int) -> None:
    x, at = T.zeros(3, 3), T.tensor([2, 1, 0])
    x[at], x[:, at], x[at, at], x.gather(0, at.view(-1, 1))
    at[1] = bad
    text = f"index {bad} is out of bounds for dimension "
    for call in (lambda: x[at], lambda: x[:, at], lambda: x[at, at]):
        with pytest.raises(IndexError, match=text):
            call()
    with pytest.raises(RuntimeError, match=text + "0 with size 3"):
        x.gather(0, at.view(-1, 1))
    assert x[T.tensor([2, 1, 0])].shape == (3, 3)  # and the next call is judged by itself


def test_gather_along_an_expanded_index_and_of_many() -> None:
    values = np.arange(12.0).reshape(3, 4)
    at = np.array([[2], [0]])
    for _ in range(2):
        got = T.tensor(values).gather(0, T.tensor(at).expand(2, 4))
        assert np.array_equal(got.numpy(), values[at[:, 0]])
        with pytest.raises(RuntimeError, match="Size does not match at dimension 1"):
            T.tensor(values).gather(0, T.tensor(at).expand(2, 5))
        with pytest.raises(TypeError):
            T.tensor(values).gather(True, T.tensor(at), 1)
    line, many = np.arange(50000.0), np.arange(50000)[::-1].copy()
    for _ in range(2):
        assert np.array_equal(T.tensor(line).gather(0, T.tensor(many)).numpy(), line[many])
        assert np.array_equal(T.tensor(line)[T.tensor(many)].numpy(), line[many])


def test_kept_masks() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    for dims in (1, 2, 3):
        mask = np.arange(np.prod(values.shape[:dims])).reshape(values.shape[:dims]) % 3 != 1
        none = np.zeros_like(mask)
        for x in (T.tensor(values), T.tensor(values.transpose(2, 1, 0).copy()).permute(2, 1, 0)):
            x = x.clone().requires_grad_()
            for chosen in (mask, mask, none, ~mask):
                y = x[T.tensor(chosen)]
                assert np.array_equal(y.detach().numpy(), values[chosen])
                (g,) = T.autograd.grad((y * y).sum(), x)
                assert np.array_equal(
                    g.numpy(), np.where(chosen.reshape(chosen.shape + (1,) * (3 - dims)), 2 * values, 0)
                )
        with pytest.raises(IndexError, match="does not match the shape of the indexed tensor"):
            T.tensor(values)[T.tensor(mask)[:1] if dims == 1 else T.tensor(mask)[:, :1]]
    assert np.array_equal(T.tensor(values).masked_select(T.tensor(values > 20)).numpy(), [21, 22, 23])


@pytest.mark.parametrize("dtype", ["float64", "float16", "bool", "int8"])
def test_nonzero_of_all_layouts(dtype: str) -> None:
    values = (np.arange(24).reshape(2, 3, 4) % 3).astype(dtype)
    x = T.tensor(values)
    for t, v in (
        (x, values),
        (x.permute(2, 0, 1), values.transpose(2, 0, 1)),
        (x[:, 1], values[:, 1]),
        (x[1:, 1:], values[1:, 1:]),
    ):
        for _ in range(2):
            assert np.array_equal(t.nonzero().numpy(), np.argwhere(v))
            assert np.array_equal(T.stack(t.nonzero(as_tuple=True)).numpy(), np.stack(v.nonzero()))
    assert T.zeros(3, 0).nonzero().shape == (0, 2) and T.zeros(4).nonzero().shape == (0, 1)
    assert T.tensor(2.0).nonzero().shape == (1, 0)
    assert not T.ones(2, requires_grad=True).nonzero().requires_grad
    with pytest.raises(RuntimeError, match="dynamic shape"):
        T.vmap(lambda t: t.nonzero())(x)


WRITES: dict[str, Callable[[Any], Any]] = {
    "one": lambda at: at,
    "second": lambda at: (slice(None), at),
    "both": lambda at: (at, at),
    "mask": lambda at: at > 0,
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("dtype", ["float64", "int16", "float16", "bool"])
def test_a_kept_write(name: str, dtype: str) -> None:
    values = np.arange(9).reshape(3, 3).astype(dtype)
    places = np.array([2, -2, 0])
    index = WRITES[name]
    rows = (np.arange(9).reshape(3, 3) % 4 + 1).astype(dtype)
    for x in (
        T.tensor(values),
        T.tensor(values.T.copy()).t(),
        T.tensor(np.stack([values, values], -1))[:, :, 1],
    ):
        for value in (rows[:1] if name == "mask" else rows, 3, 3, 2.5, True, -0.0, rows[0], rows[:1, :1]):
            if name == "both" and np.ndim(value) == 2:
                value = value[0]
            for _ in range(3):
                want, got, version = values.copy(), x.clone(), x.clone()._version
                want[index(places)] = value
                got[index(T.tensor(places))] = T.tensor(value) if isinstance(value, np.ndarray) else value
                assert np.array_equal(got.numpy(), want), (value, dtype)
                assert got._version == version + 1
    if dtype == "float16":
        return
    x = T.tensor(values)
    with pytest.raises((RuntimeError, IndexError)):
        x[index(T.tensor([3, 1, 0]))] = T.tensor(rows[:, :2])
    assert np.array_equal(x.numpy(), values)


def test_kept_writes_see_history_and_shared_memory() -> None:
    at = T.tensor([1, 2, 0])
    for _ in range(2):
        x = T.zeros(3, 3)
        x[at] = 1.0
        x[at] = T.ones(3, 3)
        base = T.ones(3, 3, requires_grad=True)
        y = base * 1
        y[at] = T.ones(3, 3)
        assert type(y.grad_fn).__name__ == "IndexPutBackward0"
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            base[at] = 1.0
        with T.no_grad():
            base[at] = 1.0
        z = base.detach().clone()
        v = (base * 2).requires_grad_()
        z[at] = v
        assert T.autograd.grad((z * z).sum(), base)[0].tolist() == [[8.0] * 3] * 3
        line = T.tensor([1, 2, 0])
        with pytest.raises(RuntimeError, match="some elements of the input tensor"):
            line[at] = line
        own = T.tensor([1, 2, 0])
        own[own] = 1
        assert own.tolist() == [1, 1, 1]
        with T.inference_mode():
            inside = T.zeros(3, 3)
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            inside[at] = 1.0
        saved = T.ones(3, 3, requires_grad=True)
        twice = (saved * 1).exp()
        twice.detach()[at] = 1.0
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            twice.sum().backward()
        for bad in (3, -4):
            with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 0 with size 3"):
                x[T.tensor([0, bad, 1])] = 5.0
        assert x.tolist() == [[1.0] * 3] * 3
    mapped = T.vmap(lambda row, at: row.index_put((at,), T.zeros(3)))(T.ones(2, 3), T.stack([at, at]))
    assert mapped.tolist() == [[0.0] * 3] * 2


# Calls by name, of which a second one of its kind goes another way than the first.
NAMED = {
    "take": "x.take(at)",
    "take a matrix": "x.take(at.view(-1, 1))",
    "index_select": "x.index_select(0, at)",
    "index_select 1": "x.index_select(-1, at)",
    "gather": "x.gather(1, grid)",
    "scatter": "x.scatter(1, grid, y[:, :1])",
    "scatter of more": "x.scatter(0, grid, y.detach())",
    "scatter of a number": "x.scatter(1, grid, 1.5)",
    "scatter_add": "x.scatter_add(1, grid, y[:, :1])",
    "index_add": "x.index_add(0, at, y)",
    "index_copy": "x.index_copy(1, at, y[:, :3])",
    "index_fill": "x.index_fill(0, at, -0.0)",
    "index_put": "x.index_put((at, at), y[0, :3])",
    "index_put added": "x.index_put((at, at), y[0, :3], True)",
    "index_put of rows": "x.index_put([at], y[:3], accumulate=True)",
}


def _given(lib: Any, kind: str, bad: int | None = None) -> dict[str, Any]:
    n = 3 if kind != "transposed" else 4
    values = np.arange(12.0).reshape(3, 4) - 2
    x = lib.tensor(values.reshape(n, -1) if n == 3 else values).clone()
    at = [2, 0, 1]
    if bad is not None:
        at[1] = bad
    x = x[[2, 0, 1]].t() if kind == "transposed" else x
    y = lib.tensor(values[:, ::-1].copy() * 2 if n == 3 else values.T.copy())
    grid = lib.tensor(at).view(-1, 1) if n == 3 else lib.tensor([*at, 2]).view(-1, 1)
    if kind == "wants gradients":
        x, y = x.requires_grad_(), y.requires_grad_()
    if kind == "ints":
        x, y = x.to(lib.int32), y.to(lib.int32)
    return {"x": x, "y": y, "at": lib.tensor(at), "grid": grid}


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["plain", "wants gradients", "ints", "transposed"])
@pytest.mark.parametrize("name", NAMED)
def test_calls_by_name_and_their_next(torch: Any, name: str, kind: str) -> None:
    def run(lib: Any, text: str, bad: int | None = None) -> Any:
        given = _given(lib, kind, bad)
        got = eval(text, given)
        if not got.requires_grad:
            return got, given["x"]
        found = [t for t in (given["x"], given["y"]) if t.requires_grad]
        first = lib.autograd.grad((got * got).sum(), found, create_graph=True, allow_unused=True)
        second = lib.autograd.grad(
            sum((g * g).sum() for g in first if g is not None), found, allow_unused=True
        )
        return got, type(got.grad_fn).__name__, *first, *second

    call = NAMED[name]
    over = call.replace("(", "_(", 1)
    texts = [call] if name.startswith(("take", "index_select", "gather")) or "grad" in kind else [call, over]
    for text in texts:
        for bad in (None, None, 5, None, -1, -7, None):
            got, want = (outcome(partial(run, lib, text, bad)) for lib in (T, torch))
            assert_same(got, want, f"{text} {bad}")


@pytest.mark.parametrize(
    "name", [name for name in NAMED if "put" in name or "scatter" in name or "add" in name]
)
def test_calls_by_name_over_what_they_read(name: str) -> None:
    """What has memory, a history or a mode that a short way knows nothing of is left to the long one."""
    text = NAMED[name].replace("(", "_(", 1)
    given = _given(T, "plain")
    for _ in range(2):
        eval(text, dict(given))
    want = eval(text, _given(T, "plain") | {"x": T.ones(3, 4, dtype=T.float64)})
    leaf = T.ones(3, 4, dtype=T.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        eval(text, given | {"x": leaf})
    x = leaf * 1
    assert eval(text, given | {"x": x}) is x and x.grad_fn is not None and T.equal(x, want)
    mapped = T.vmap(lambda x: eval(text.replace("_(", "(", 1), given | {"x": x}))(
        T.ones(2, 3, 4, dtype=T.float64)
    )
    assert T.equal(mapped[1], want)
    x = T.ones(3, 4, dtype=T.float64)
    version = x._version
    eval(text, given | {"x": x})
    assert x._version == version + 1
    if name == "index_add":
        with pytest.raises(RuntimeError, match="some elements of the input tensor"):
            eval(text, given | {"y": given["x"].view(3, 4)})


PARTED: dict[str, Any] = {
    "vector and number": lambda at, T: (at, 1),
    "number and vector": lambda at, T: (1, at),
    "vector, number, slice": lambda at, T: (at, 0, slice(1, 3)),
    "slice and vector": lambda at, T: (slice(1, 3), at),
    "vector and whole slice": lambda at, T: (at, slice(0, 4)),
    "none and vector": lambda at, T: (None, at),
    "vector between": lambda at, T: (0, at, 2),
    "int32": lambda at, T: at.to(T.int32),
    "int32 and int64": lambda at, T: (at.to(T.int32), at),
    "spread": lambda at, T: (at.view(-1, 1).clamp(0, 3), at),
    "spread and whole": lambda at, T: (at[:1], slice(None), at),
    "every second": lambda at, T: at.repeat_interleave(2)[::2],
    "list": lambda at, T: at.tolist(),
    "list of bools": lambda at, T: [True, False, True, False],
    "range": lambda at, T: range(2),
    "range and vector": lambda at, T: (range(3), at),
    "backwards": lambda at, T: (range(2, -1, -1), at.tolist()),
    "no range": lambda at, T: (slice(None), range(0)),
    "list of more than an int64": lambda at, T: [2**70],
    "numbers of numpy's": lambda at, T: (np.int64(1), np.int32(2)),
    "a number of numpy's": lambda at, T: np.int64(-1),
    "numpy's and vector": lambda at, T: (np.int64(1), at),
    "a tensor's number and vector": lambda at, T: (at[1], at),
    "dots and vector": lambda at, T: (..., at),
    "vector and none": lambda at, T: (at, None),
    "mask": lambda at, T: T.arange(4) != at[1],
    "mask of none": lambda at, T: T.arange(4) > 5 + at[1] ** 2,
    "number and mask": lambda at, T: (1, T.arange(4) != at[1]),
    "mask and slice": lambda at, T: (T.arange(4) != at[1], slice(1, 3)),
    "mask and vector": lambda at, T: (T.arange(4) != 2, at),
    "mask of another size": lambda at, T: (slice(None), T.arange(5) != 2),
    "dots": lambda at, T: ...,
    "none": lambda at, T: None,
    "whole": lambda at, T: slice(None),
    "nothing": lambda at, T: (),
    "float": lambda at, T: at.double(),
    "slice of floats": lambda at, T: (slice(0.5, None), at),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", PARTED)
def test_indices_of_all_kinds_and_their_next(torch: Any, name: str) -> None:
    def run(lib: Any, place: int, dims: int) -> Any:
        x = lib.arange(64.0 if dims == 3 else 16.0).view((4,) * dims).requires_grad_()
        index = PARTED[name](lib.tensor([2, place, 1]), lib)
        got = x[index]
        (g,) = lib.autograd.grad((got * got).sum(), x)
        y = x.detach().clone()
        y[index] = 5.0
        z = x.detach().clone()
        z[index] = got.detach() + 1
        return got, got.grad_fn.name(), g, y, y._version, z, z._version

    for place in (0, 0, 3, -1, 7, 0, -9):
        for dims in (2, 3):
            got, want = (outcome(partial(run, lib, place, dims)) for lib in (T, torch))
            assert_same(got, want, f"{name} {place} {dims}")


# What is written over, made of a leaf of (4, 4).
TARGETS: dict[str, Callable[[Any], Any]] = {
    "computed": lambda leaf: leaf * 1,
    "its view": lambda leaf: (leaf * 1)[:, :],
    "a turned view": lambda leaf: (leaf * 1).t(),
    "view of one of three": lambda leaf: (leaf * leaf.new_tensor([1.0, 2.0, 3.0]).view(3, 1, 1))[1],
    "leaf": lambda leaf: leaf,
    "view of a leaf": lambda leaf: leaf[:],
    "one of several": lambda leaf: (leaf * 1).view(1, 4, 4).unbind(0)[0],
    "unrecorded": lambda leaf: leaf.detach().clone(),
    "its part": lambda leaf: leaf.detach().clone().view(2, 8)[:, :8].view(4, 4),
    "expanded": lambda leaf: leaf.detach()[0].expand(4, 4),
}
VALUES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "number": lambda x, part, leaf: 2.5,
    "int": lambda x, part, leaf: 3,
    "bool": lambda x, part, leaf: True,
    "not a number": lambda x, part, leaf: "1",
    "tensor": lambda x, part, leaf: part.detach() * 2 + 1,
    "recorded": lambda x, part, leaf: (part * 0 + 3) * leaf[0, 0],
    "one": lambda x, part, leaf: leaf[1, 1] * 2,
    "of another dtype": lambda x, part, leaf: part.detach().float(),
    "of another shape": lambda x, part, leaf: part.detach().unsqueeze(0).expand(2, *part.shape),
}
WRITTEN = [(target, value) for target in TARGETS for value in ("number", "tensor", "recorded")]
WRITTEN += [(target, value) for target in ("computed", "unrecorded") for value in VALUES]


@pytest.mark.oracle
@pytest.mark.parametrize("name", PARTED)
def test_writes_by_all_kinds_of_indices_and_their_next(torch: Any, name: str) -> None:
    def run(lib: Any, target: str, value: str, place: int) -> Any:
        leaf = lib.arange(16.0, dtype=lib.float64).view(4, 4).requires_grad_()
        x = TARGETS[target](leaf)
        index = PARTED[name](lib.tensor([2, place, 1]), lib)
        given = VALUES[value](x, x[index], leaf)
        x[index] = given
        seen = [x, x._version, x.requires_grad, x.is_leaf]
        if x.requires_grad:
            seen += [x.grad_fn.name(), *lib.autograd.grad((x * x).sum(), leaf)]
        return seen

    for target, value in WRITTEN:
        for place in (0, 0, 3, -9) if target == "computed" else (0, 0, 3):
            got, want = (outcome(partial(run, lib, target, value, place)) for lib in (T, torch))
            assert_same(got, want, f"{name} {target} {value} {place}")


@pytest.mark.oracle
def test_a_part_that_is_written_onto_itself(torch: Any) -> None:
    def run(lib: Any) -> list[Any]:
        seen: list[Any] = []
        x, leaf = lib.arange(12.0).view(4, 3).clone(), lib.ones(3, requires_grad=True)
        for _ in range(3):
            x[2] += 1
            x[1:3] *= 2
            x[0, 1] -= 5
            x[1] = x[2]
            x[3][1:] = x[3][:2].clone()
            seen += [x.clone(), x._version]
        y = x * 1
        y[2] += leaf
        y[0] = y[0]
        seen += [y.detach().clone(), y._version, y.grad_fn.name()]
        seen += lib.autograd.grad((y * y).sum(), leaf)
        with lib.no_grad():
            y[1] += 1
        return [*seen, y._version, y.detach()]

    assert_same(run(T), run(torch), "parts")
