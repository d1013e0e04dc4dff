"""The printed form: by literals, and against torch on random tensors where it is installed."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nbgrad.memory import dtypes
from nbgrad.memory.device import cpu, device
from nbgrad.ops.host.printing import get_printoptions, printoptions, set_printoptions, tensor_repr


class Fake:
    """What printing needs of a tensor."""

    def __init__(self, data: Any, requires_grad: bool = False, grad_fn: Any = None, on: device = cpu) -> None:
        self.data = np.asarray(data)
        self.shape = self.data.shape
        self.dtype = dtypes.from_numpy_dtype(self.data.dtype)
        self.requires_grad = requires_grad
        self.grad_fn = grad_fn
        self.device = on

    def _host(self) -> np.ndarray[Any, Any]:
        return self.data


class MulBackward0:
    pass


def f32(data: Any) -> Fake:
    return Fake(np.array(data, np.float32))


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    yield
    set_printoptions(profile="default")
    dtypes.set_default_dtype(dtypes.float32)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (f32([0.0, 4.0, 8.0, 12.0]), "tensor([ 0.,  4.,  8., 12.])"),
        (f32([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
        (f32([1.0, 2.5, np.nan, -np.inf]), "tensor([1.0000, 2.5000,    nan,   -inf])"),
        (f32([1e10, 1.0]), "tensor([1.0000e+10, 1.0000e+00])"),
        (f32([0.0, np.inf]), "tensor([0., inf])"),
        (f32([-0.0, 0.0]), "tensor([-0., 0.])"),
        (f32(3), "tensor(3.)"),
        (f32(-0.123456), "tensor(-0.1235)"),
        (Fake(np.float64(0.1)), "tensor(0.1000, dtype=torch.float64)"),
        (Fake(np.array([1, -20])), "tensor([  1, -20])"),
        (Fake(np.array([1, 2], np.int32)), "tensor([1, 2], dtype=torch.int32)"),
        (Fake([True, False]), "tensor([ True, False])"),
        (Fake(True), "tensor(True)"),
        (f32([]), "tensor([])"),
        (f32(np.zeros((0, 3))), "tensor([], size=(0, 3))"),
        (Fake(np.zeros((2, 0), np.int64)), "tensor([], size=(2, 0), dtype=torch.int64)"),
        (Fake(np.float32(1), requires_grad=True), "tensor(1., requires_grad=True)"),
        (Fake(np.float32(1), True, MulBackward0()), "tensor(1., grad_fn=<MulBackward0>)"),
        (Fake(np.float32(1), on=device("cuda:0")), "tensor(1., device='cuda:0')"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_one_line(tensor: Fake, text: str) -> None:
    assert tensor_repr(tensor) == text


def test_matrices_and_summaries() -> None:
    assert tensor_repr(f32(np.zeros((2, 2, 2)))) == (
        "tensor([[[0., 0.],\n         [0., 0.]],\n\n        [[0., 0.],\n         [0., 0.]]])"
    )
    assert tensor_repr(Fake(np.arange(1001))) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert tensor_repr(f32(np.eye(60))) == (
        "tensor([[1., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 1., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 1.,  ..., 0., 0., 0.],\n"
        "        ...,\n"
        "        [0., 0., 0.,  ..., 1., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 1., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 1.]])"
    )


def test_lines_break_at_the_width() -> None:
    x = Fake(np.arange(12, dtype=np.float32) * np.float32(1.5), True, MulBackward0())
    assert tensor_repr(x) == (
        "tensor([ 0.0000,  1.5000,  3.0000,  4.5000,  6.0000,  7.5000,  9.0000, 10.5000,\n"
        "        12.0000, 13.5000, 15.0000, 16.5000], grad_fn=<MulBackward0>)"
    )
    x = Fake(np.ones(22), requires_grad=True)
    assert tensor_repr(x) == (
        "tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,\n"
        "        1., 1., 1., 1.], dtype=torch.float64, requires_grad=True)"
    )
    # What follows the numbers goes to a line of its own where it does not fit.
    x = Fake(np.ones(16), requires_grad=True)
    assert tensor_repr(x) == (
        "tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],\n"
        "       dtype=torch.float64, requires_grad=True)"
    )


def test_a_class_of_the_user_shows_its_name() -> None:
    assert tensor_repr(f32([[1], [2]]), "Mine") == "Mine([[1.],\n      [2.]])"


def test_the_default_dtype_is_not_shown() -> None:
    dtypes.set_default_dtype(dtypes.float64)
    assert tensor_repr(Fake(np.float64(1))) == "tensor(1.)"
    assert tensor_repr(f32(1)) == "tensor(1., dtype=torch.float32)"


def test_a_grad_fn_that_cannot_be_had() -> None:
    class Stale(Fake):
        @property
        def grad_fn(self) -> Any:
            raise RuntimeError("a view and an in-place change under no_grad")

        @grad_fn.setter
        def grad_fn(self, value: Any) -> None:
            pass

    assert tensor_repr(Stale(np.float32(1), requires_grad=True)) == "tensor(1., grad_fn=<Invalid>)"


def test_options() -> None:
    set_printoptions(precision=2, sci_mode=True)
    assert tensor_repr(f32([1.0])) == "tensor([1.00e+00])"
    set_printoptions(threshold=3, edgeitems=1)
    assert get_printoptions() == {
        "precision": 2,
        "threshold": 3,
        "edgeitems": 1,
        "linewidth": 80,
        "sci_mode": None,
    }
    assert tensor_repr(f32([1, 2, 3, 4.5])) == "tensor([1.00,  ..., 4.50])"
    with printoptions(profile="full"):
        assert len(tensor_repr(Fake(np.arange(2000)))) > 2000 * 4
    assert get_printoptions()["edgeitems"] == 1


def test_only_what_is_shown_is_read() -> None:
    """A huge tensor prints at once."""
    broadcast = np.broadcast_to(np.float32(1), (10**6, 10**6))
    assert tensor_repr(Fake(broadcast)).count("1.") == 36


# ---------------------------------------------------------------- against torch

SHAPES = [
    (),
    (1,),
    (0,),
    (0, 3),
    (2, 0, 1),
    (7,),
    (30,),
    (3, 4),
    (1, 1, 1),
    (2, 3, 4),
    (2, 1, 2, 3),
    (12, 25),
]
LARGE = [(1001,), (40, 30), (3, 400), (2, 3, 300), (7, 7, 30), (10, 1, 8, 20)]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"precision": 2},
    {"precision": 8, "linewidth": 100},
    {"precision": 0},
    {"threshold": 5},
    {"threshold": 5, "edgeitems": 1},
    {"threshold": 2, "edgeitems": 0},
    {"linewidth": 20},
    {"sci_mode": True},
    {"sci_mode": False},
    {"sci_mode": True, "precision": 1},
    {"profile": "short"},
    {"profile": "full"},
]


def random_data(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if "int" in dtype:
        wide = np.asarray(rng.integers(-(10 ** rng.integers(1, 9)), 10 ** rng.integers(0, 9), shape))
        return wide.astype(dtype)
    kind = rng.integers(6)
    data = np.asarray(rng.standard_normal(shape))
    if kind == 1:
        data = np.round(data * 10 ** rng.integers(0, 10))
    elif kind == 2:
        data = data * 10.0 ** rng.integers(-12, 12, shape)
    elif kind == 3:
        data = data * 10.0 ** rng.integers(-8, 10)
    elif kind == 4:
        data = np.choose(rng.integers(0, 6, shape), [data, 0.0, -0.0, np.nan, np.inf, -np.inf])
    elif kind == 5:
        data = np.choose(rng.integers(0, 5, shape), [np.round(data * 50), 0.0, -0.0, np.nan, np.inf])
    with np.errstate(over="ignore"):
        return np.asarray(data).astype(dtype)


def rearranged(rng: np.random.Generator, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same kind of data in another layout."""
    if data.ndim and rng.random() < 0.4:
        data = data.T
    if data.ndim and rng.random() < 0.3:
        data = data[..., ::2]
    return data


DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def compare_random_tensors(torch: ModuleType, options: dict[str, Any], count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    set_printoptions(**options)
    torch.set_printoptions(**options)
    try:
        for i in range(count):
            shapes = LARGE if i % 10 == 0 and options.get("profile") != "full" else SHAPES
            shape = shapes[rng.integers(len(shapes))]
            dtype = DTYPES[rng.integers(len(DTYPES))]
            data = rearranged(rng, random_data(rng, shape, dtype))
            floating = dtype.startswith("float")
            state = rng.integers(3) if floating else 0
            theirs = torch.from_numpy(data).requires_grad_(bool(state))
            if state == 2:
                theirs = theirs * 1
            ours = Fake(data, bool(state), MulBackward0() if state == 2 else None)
            assert tensor_repr(ours) == repr(theirs), (data, options)
    finally:
        torch.set_printoptions(profile="default")


@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_random_tensors_match_torch(torch: ModuleType, options: dict[str, Any]) -> None:
    compare_random_tensors(torch, options, 40, seed=0)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_many_random_tensors_match_torch(torch: ModuleType, options: dict[str, Any]) -> None:
    """2,000 by default options, as many again by others."""
    compare_random_tensors(torch, options, 200 if options else 2000, seed=1)


@pytest.mark.oracle
def test_extremes_match_torch(torch: ModuleType) -> None:
    values = [
        5e-324,
        1.8e308,
        1e-4,
        9.9999e-5,
        1e8,
        1.00001e8,
        1e5,
        0.99999,
        9.99995,
        1e-45,
        3.4e38,
        999.99999,
        0.0,
    ]
    for a in values:
        for b in [1.0, 1000.0, 1001.0, 0.5, a, -a]:
            for dtype in (np.float16, np.float32, np.float64):
                with np.errstate(over="ignore"):
                    data = np.array([a, b]).astype(dtype)
                assert tensor_repr(Fake(data)) == repr(torch.from_numpy(data)), data
    for low in (-(2**63), -1, 0):
        data = np.array([low, 2**63 - 1])
        assert tensor_repr(Fake(data)) == repr(torch.from_numpy(data))


@pytest.mark.oracle
def test_the_default_dtype_matches_torch(torch: ModuleType) -> None:
    dtypes.set_default_dtype(dtypes.float64)
    torch.set_default_dtype(torch.float64)
    try:
        for dtype in DTYPES:
            for shape in ((), (0,), (2, 0), (3,)):
                data = np.zeros(shape, dtype)
                assert tensor_repr(Fake(data)) == repr(torch.from_numpy(data))
    finally:
        torch.set_default_dtype(torch.float32)
