"""Pooling over geometries drawn at random, beside PyTorch: values, places, first and second gradients, refusals."""

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same, outcome
from tests.support import T

Call = Callable[[ModuleType, Any], Any]


def drawn(rng: np.random.Generator, dims: int) -> tuple[str, tuple[Any, ...], tuple[int, ...]]:
    """A function, its arguments, the shape of what it is called with; one in a few is refused."""

    def each(low: int, high: int) -> Any:
        values = tuple(map(int, rng.integers(low, high, dims)))
        return values if dims > 1 and rng.random() < 0.7 else values[0]

    lead = ((2, 3), (2,), (1, 1))[rng.integers(3)]
    shape = (*lead, *map(int, rng.integers(1, (30, 13, 8)[dims - 1], dims)))
    kernel, stride, pad = each(1, 5), (None, each(1, 4))[rng.integers(2)], each(0, 3)
    ceil, include = bool(rng.integers(2)), bool(rng.integers(2))
    kind = ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "lp_pool")[rng.integers(5)]
    if kind == "max_pool":
        # PyTorch reads beyond its memory where the padding is all that a dilated window holds.
        far = each(1, 3) if pad == 0 else 1
        return f"max_pool{dims}d", (kernel, stride, pad, far, ceil, bool(rng.integers(2))), shape
    if kind == "avg_pool":
        more = () if dims == 1 else ((None, 3, -2)[rng.integers(3)],)
        return f"avg_pool{dims}d", (kernel, stride, pad, ceil, include, *more), shape
    if kind == "lp_pool":
        return f"lp_pool{dims}d", (2.0, kernel, stride, ceil), shape
    outs = each(1, 6)
    if isinstance(outs, tuple) and rng.random() < 0.3:
        outs = (None, *outs[1:])
    return f"{kind}{dims}d", (outs,), shape


def run(t: ModuleType, call: Call, array: np.ndarray, weights: np.ndarray) -> Any:
    """Results, the gradient, and that of the gradient's square by what it starts from."""
    x = t.tensor(array, requires_grad=True)
    got = call(t, x)
    out = got[0] if isinstance(got, tuple) else got
    w = t.tensor(weights[: out.numel()].reshape(tuple(out.shape)).copy(), requires_grad=True)
    (g,) = t.autograd.grad(out, x, w, create_graph=True)
    (gg,) = t.autograd.grad(g, w, g, retain_graph=True)
    names = [o.grad_fn.name() for o in (out, g)]
    return [got, g, gg, names[: 1 + ("Pool" in names[0])]]


def check(torch: ModuleType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    name, args, shape = drawn(rng, 1 + seed % 3)
    whole = rng.integers(-4, 5, shape) if seed % 2 else rng.normal(size=shape)  # with ties, and without
    array, weights = whole.astype(np.float32 if seed % 5 else np.float64), rng.normal(size=100000)
    if "max" in name and seed % 7 == 0:
        array[rng.random(shape) < 0.1] = np.nan
    label = f"seed {seed}: {name}{args} of {shape}"

    def call(t: ModuleType, x: Any) -> Any:
        return getattr(t.nn.functional, name)(x, *args)

    if "lp_pool" in name:
        array = np.abs(array) + np.asarray(0.1, array.dtype)
    weights = weights.astype(array.dtype)
    got = outcome(lambda: run(T, call, array, weights))
    want = outcome(lambda: run(torch, call, array, weights))
    assert_same(got, want, label, 20)


@pytest.mark.oracle
@pytest.mark.parametrize("part", range(10))
def test_random_geometries(torch: ModuleType, part: int, whole: bool) -> None:
    for seed in range(part, 3000 if whole else 300, 10):
        check(torch, seed)


@pytest.mark.oracle
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_fractional(torch: ModuleType, dims: int, dtype: str) -> None:
    """The same seed draws the same windows."""
    array = np.random.default_rng(0).normal(size=(3, 4, *[11] * dims)).astype(dtype)
    found = []
    for t in (T, torch):
        t.manual_seed(3)
        pool = getattr(t.nn.functional, f"fractional_max_pool{dims}d")
        found.append(pool(t.tensor(array), 3, (5,) * dims, return_indices=True))
        found[-1] += pool(t.tensor(array[0]), 2, output_ratio=(0.7,) * dims, return_indices=True)
    assert_same(*found, f"fractional of {dims} dimensions")


@pytest.mark.oracle
def test_unpool(torch: ModuleType) -> None:
    for dims in (1, 2, 3):
        array = np.random.default_rng(dims).normal(size=(2, 3, *[5] * dims))

        def call(t: ModuleType, x: Any, dims: int = dims) -> Any:
            f = t.nn.functional
            values, places = getattr(f, f"max_pool{dims}d")(x, 2, return_indices=True)
            return getattr(f, f"max_unpool{dims}d")(values * values, places, 2, output_size=x.shape)

        weights = np.random.default_rng(0).normal(size=1000)
        assert_same(run(T, call, array, weights), run(torch, call, array, weights), f"unpool {dims}d")


X, PLACES = np.ones((2, 3, 4, 4), np.float32), np.zeros((2, 3, 4, 4), np.int64)
REFUSED: dict[str, Call] = {
    "pad over half": lambda f, t: f.max_pool2d(t(X), 2, padding=2),
    "pad over half, line": lambda f, t: f.max_pool1d(t(X[0]), 2, padding=2),
    "pad over half, dilated": lambda f, t: f.max_pool2d(t(X), 3, padding=2, dilation=2),
    "pad over half, mean": lambda f, t: f.avg_pool3d(t(X), 2, padding=2),
    "negative pad": lambda f, t: f.avg_pool2d(t(X), 3, padding=-1),
    "too large": lambda f, t: f.max_pool2d(t(X), 9),
    "too large, line": lambda f, t: f.max_pool1d(t(X[0]), 9),
    "too large, volume": lambda f, t: f.avg_pool3d(t(X), 9),
    "no kernel": lambda f, t: f.max_pool2d(t(X), (2, 0), 1),
    "no stride": lambda f, t: f.max_pool3d(t(X), 2, 0),
    "negative stride": lambda f, t: f.max_pool3d(t(X), 2, -1),
    "no dilation": lambda f, t: f.max_pool2d(t(X), 2, dilation=0),
    "three sizes": lambda f, t: f.max_pool2d(t(X), (2, 2, 2)),
    "three strides": lambda f, t: f.avg_pool2d(t(X), 2, (2, 2, 2)),
    "two strides, line": lambda f, t: f.max_pool1d(t(X[0]), 2, (2, 2)),
    "two strides, mean of lines": lambda f, t: f.avg_pool1d(t(X[0]), 2, (2, 2)),
    "two strides, volume": lambda f, t: f.avg_pool3d(t(X), 2, (2, 2)),
    "a plane": lambda f, t: f.max_pool2d(t(X[0, 0]), 2),
    "a plane, mean": lambda f, t: f.avg_pool2d(t(X[0, 0]), 2),
    "five dimensions": lambda f, t: f.avg_pool2d(t(X[None]), 2),
    "no channels": lambda f, t: f.max_pool2d(t(X[:, :0]), 2),
    "no columns": lambda f, t: f.max_pool3d(t(X[..., :0]), 2),
    "truth values": lambda f, t: f.max_pool2d(t(X > 0), 2),
    "small integers": lambda f, t: f.avg_pool2d(t(PLACES.astype(np.int32)), 2),
    "integers, line": lambda f, t: f.max_pool1d(t(PLACES[0]), 2),
    "divisor 0": lambda f, t: f.avg_pool2d(t(X), 2, divisor_override=0),
    "float kernel": lambda f, t: f.max_pool2d(t(X), 2.0),
    "adaptive, negative": lambda f, t: f.adaptive_avg_pool2d(t(X), -1),
    "adaptive, negative, volume": lambda f, t: f.adaptive_avg_pool3d(t(X), (1, -1, 1)),
    "adaptive max, negative": lambda f, t: f.adaptive_max_pool2d(t(X), -1),
    "adaptive, three sizes": lambda f, t: f.adaptive_avg_pool2d(t(X), (1, 2, 3)),
    "adaptive max, three sizes": lambda f, t: f.adaptive_max_pool2d(t(X), (1, 2, 3)),
    "adaptive, many sizes": lambda f, t: f.adaptive_avg_pool2d(t(X), (1,) * 6),
    "adaptive, integers": lambda f, t: f.adaptive_avg_pool2d(t(PLACES), 2),
    "adaptive, one of integers": lambda f, t: f.adaptive_avg_pool2d(t(PLACES), 1),
    "adaptive, no columns": lambda f, t: f.adaptive_avg_pool2d(t(X[..., :0]), 2),
    "adaptive max, no columns": lambda f, t: f.adaptive_max_pool3d(t(X[..., :0]), 2),
    "adaptive, None of lines": lambda f, t: f.adaptive_avg_pool1d(t(X[0]), None),
    "unpool, places too few": lambda f, t: f.max_unpool2d(t(X), t(PLACES[:1]), 2),
    "unpool, a place too far": lambda f, t: f.max_unpool2d(t(X), t(PLACES + 64), 2),
    "unpool, a place before": lambda f, t: f.max_unpool3d(t(X), t(PLACES - 1), 2),
    "unpool, small integers": lambda f, t: f.max_unpool2d(t(X), t(PLACES.astype(np.int32)), 2),
    "unpool, size": lambda f, t: f.max_unpool2d(t(X), t(PLACES), 2, output_size=(3, 3)),
    "unpool, sizes": lambda f, t: f.max_unpool2d(t(X), t(PLACES), 2, output_size=(8, 8, 8)),
    "unpool, padding": lambda f, t: f.max_unpool2d(t(X), t(PLACES), 2, padding=9),
    "fractional, no size": lambda f, t: f.fractional_max_pool2d(t(X), 2),
    "fractional, too large": lambda f, t: f.fractional_max_pool2d(t(X), 2, 4),
    "fractional, too large, volume": lambda f, t: f.fractional_max_pool3d(t(X), 2, 3),
    "fractional, samples": lambda f, t: f.fractional_max_pool2d(
        t(X), 2, 2, _random_samples=t(X[0, :, :2, :2])
    ),
    "fractional, three sizes": lambda f, t: f.fractional_max_pool2d(t(X), (2, 2, 2), 2),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_refusals(torch: ModuleType, name: str) -> None:
    got, want = (
        outcome(lambda t=t: REFUSED[name](t.nn.functional, lambda a, t=t: t.tensor(a))) for t in (T, torch)
    )
    assert isinstance(want, str)
    assert got == want


def test_dilated_windows_in_the_padding() -> None:
    """Where no element is in a window its place is none, and nothing is read or written there."""
    x = T.tensor([[[1.0, 2.0]]], requires_grad=True)
    values, places = T.nn.functional.max_pool2d(x, 2, 1, 1, 2, return_indices=True)
    assert values.tolist() == [[[-np.inf, -np.inf]]]
    assert T.autograd.grad(values.sum(), x)[0].tolist() == [[[0.0, 0.0]]]
    assert places.shape == values.shape


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_rows_longer_than_the_room_of_a_kernel(stride: int) -> None:
    x = np.random.default_rng(0).normal(size=(1, 9000))
    for taps, far in ((3, 1), (2, 4000), (5000, 1)):
        got = T.nn.functional.max_pool1d(T.tensor(x), taps, stride, 0, far)
        last = x.shape[1] - (taps - 1) * far
        want = np.max([x[:, k * far : k * far + last] for k in range(taps)], 0)[:, ::stride]
        np.testing.assert_array_equal(got.numpy(), want)
    means = T.nn.functional.avg_pool1d(T.tensor(x), 5000, stride).numpy()
    sums = np.cumsum(np.concatenate([np.zeros((1, 1)), x], 1), 1)
    np.testing.assert_allclose(means, (sums[:, 5000:] - sums[:, :-5000])[:, ::stride] / 5000, atol=1e-12)


def test_each_example_of_a_vmap_is_a_plane() -> None:
    x = T.arange(48.0).reshape(2, 1, 4, 6) % 7
    for f in (
        lambda x: T.nn.functional.max_pool2d(x, 2),
        lambda x: T.nn.functional.avg_pool2d(x, 2),
        lambda x: T.nn.functional.adaptive_max_pool2d(x, 2),
        lambda x: T.func.grad(lambda x: T.nn.functional.max_pool2d(x, 3, 2, 1).square().sum())(x),
        lambda x: T.func.jvp(lambda x: T.nn.functional.max_pool2d(x, 2), (x,), (x + 1,))[1],
    ):
        assert T.equal(T.func.vmap(f)(x), T.stack([f(row) for row in x]))


@pytest.mark.oracle
@pytest.mark.parametrize("dims", [2, 3])
def test_results_lie_as_their_inputs_do(torch: ModuleType, dims: int) -> None:
    """Channels last, where PyTorch keeps them so."""
    order = (0, dims + 1, *range(1, dims + 1))
    array = np.random.default_rng(0).normal(size=(2, *[5] * dims, 3))
    found: list[Any] = []
    for t in (T, torch):
        x, f = t.tensor(array).permute(order), t.nn.functional
        pooled = getattr(f, f"max_pool{dims}d")(x, 2, return_indices=True)
        back = getattr(f, f"max_unpool{dims}d")(*pooled, 2, output_size=(5,) * dims)
        calls = [(f"{name}_pool{dims}d", 2) for name in ("avg", "adaptive_avg", "adaptive_max")]
        results = [*pooled, back, *(getattr(f, name)(x, n) for name, n in calls), f.interpolate(x, 4)]
        found.append([*results, [r.stride() for r in results]])
    assert_same(*found, f"{dims} dimensions")


@pytest.mark.parametrize("dims", [2, 3])
def test_means_written_to_out(dims: int) -> None:
    pool = getattr(T.nn.functional, f"avg_pool{dims}d")
    x, out = T.arange(64.0).reshape(1, *[4] * dims, -1).movedim(-1, 1), T.empty(0)
    assert pool(x, 2, out=out) is out
    assert T.equal(out, pool(x, 2))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        pool(x, 2, out=T.empty(0, dtype=T.float64))


def test_a_pooled_line_is_no_view() -> None:
    y = T.nn.functional.max_pool1d(T.ones(1, 4), 2)
    assert y._base is None
    assert y.shape == (1, 2)


@pytest.mark.parametrize(
    "name", ["max_pool", "avg_pool", "lp_pool", "adaptive_max_pool", "adaptive_avg_pool"]
)
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_pooling_in_every_order_of_memory(name: str, dims: int, requires_grad: bool) -> None:
    """Where the channels lie last, or the samples do, values are those of a contiguous tensor."""
    pool = getattr(T.nn.functional, f"{name}{dims}d")
    given = (2, 3, 2) if name == "lp_pool" else (3,)
    x = T.arange(2 * 5 * 6**dims).mul(7).remainder(101).to(T.float32).reshape(2, 5, *[6] * dims)
    expected = pool(x, *given)
    for order in itertools.permutations(range(x.ndim)):
        back = [order.index(d) for d in range(x.ndim)]
        lying = x.permute(order).contiguous().permute(back).requires_grad_(requires_grad)
        T.testing.assert_close(pool(lying, *given), expected, msg=f"{order}", check_stride=False)
