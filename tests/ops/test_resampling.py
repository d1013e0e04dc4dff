"""Resampling to sizes drawn at random, beside PyTorch: values, first and second gradients, refusals."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same, outcome
from tests.support import T

MODES = {
    1: ("nearest", "nearest-exact", "linear", "area"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area", "lanczos"),
    3: ("nearest", "nearest-exact", "trilinear", "area"),
}
FACTORS = (0.3, 0.5, 0.7, 1.0, 1.3, 1.5, 2.0, 2.7, 3.0)


def drawn(rng: np.random.Generator, dims: int) -> tuple[tuple[int, ...], dict[str, Any]]:
    size = tuple(map(int, rng.integers(1, (40, 12, 8)[dims - 1], dims)))
    kwargs: dict[str, Any] = {"mode": str(rng.choice(MODES[dims]))}
    if rng.random() < 0.5:
        kwargs["size"] = tuple(map(int, rng.integers(1, (50, 15, 9)[dims - 1], dims)))
    else:
        kwargs["scale_factor"] = tuple(map(float, rng.choice(FACTORS, dims)))
        kwargs["recompute_scale_factor"] = (None, True, False)[rng.integers(3)]
    if kwargs["mode"] in ("linear", "bilinear", "trilinear", "bicubic"):
        kwargs["align_corners"] = bool(rng.integers(2))
    if kwargs["mode"] == "lanczos" or (kwargs["mode"] in ("bilinear", "bicubic") and rng.random() < 0.4):
        kwargs["antialias"] = True
    return size, kwargs


def run(t: ModuleType, array: np.ndarray, weights: np.ndarray, kwargs: dict[str, Any]) -> Any:
    """The result; of a mode whose results PyTorch weighs, the gradient too, and that of its square by what it starts from."""
    x = t.tensor(array, requires_grad=True)
    y = t.nn.functional.interpolate(x, **kwargs)
    found = [y, y.grad_fn.name()]
    if y.numel():
        w = t.tensor(weights[: y.numel()].reshape(tuple(y.shape)).copy(), requires_grad=True)
        (g,) = t.autograd.grad(y, x, w, create_graph=True)
        (gg,) = t.autograd.grad(g, w, g, retain_graph=True)
        found += [g, gg, *([g.grad_fn.name()] if "Upsample" in found[1] else [])]
    return found


def adjoint(found: list[Any], array: np.ndarray, weights: np.ndarray) -> bool:
    """Whether a gradient is that of the result: the two sums are the same."""
    y, g = (np.array(found[k].numpy(force=True), np.float64) for k in (0, 2))
    return abs((y.reshape(-1) * weights[: y.size]).sum() - (g * array).sum()) < 1e-3


def check(torch: ModuleType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, kwargs = drawn(rng, 1 + seed % 3)
    dtype = np.float64 if seed % 4 == 0 else np.float32
    array, weights = rng.normal(size=(2, 3, *size)).astype(dtype), rng.normal(size=10000).astype(dtype)
    label = f"seed {seed}: {size}, {kwargs}"
    got = outcome(lambda: run(T, array, weights, kwargs))
    want = outcome(lambda: run(torch, array, weights, kwargs))
    if isinstance(want, list) and len(want) > 2:
        assert adjoint(got, array, weights), label
        if kwargs.get("antialias") and want[0].shape[-1] == 1:
            return  # of which PyTorch's rows all begin as the first does
        if not adjoint(want, array, weights):  # as PyTorch rounds a factor in another way there
            got, want = got[:2], want[:2]
    assert_same(got, want, label, 20)


@pytest.mark.oracle
@pytest.mark.parametrize("part", range(6))
def test_random_sizes(torch: ModuleType, part: int, whole: bool) -> None:
    for seed in range(part, 1000 if whole else 200, 6):
        check(torch, seed)


@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_bytes(torch: ModuleType, mode: str) -> None:
    """To the bit: PyTorch's weights of 16 bits, and columns rounded before rows."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        image = rng.integers(0, 256, (1, 3, 9, 11)).astype(np.uint8)
        size = tuple(map(int, rng.integers(2, 20, 2)))
        antialias = mode[0] == "b" and seed % 2 == 1
        got, want = (
            t.nn.functional.interpolate(t.tensor(image), size, mode=mode, antialias=antialias)
            for t in (T, torch)
        )
        assert_same(got, want, f"{mode} to {size}")


Call = Callable[[Any, Any], Any]
X = np.ones((2, 3, 4, 4), np.float32)
REFUSED: dict[str, Call] = {
    "neither": lambda f, x: f(x),
    "both": lambda f, x: f(x, 3, 2),
    "many sizes": lambda f, x: f(x, (3, 3, 3)),
    "many factors": lambda f, x: f(x, scale_factor=(2.0,) * 3),
    "sizes that are floats": lambda f, x: f(x, (3.0, 3.0)),
    "corners of nearest": lambda f, x: f(x, 3, mode="nearest", align_corners=False),
    "recomputed size": lambda f, x: f(x, 3, recompute_scale_factor=True),
    "no such mode": lambda f, x: f(x, 3, mode="foo"),
    "a mode of lines": lambda f, x: f(x, 3, mode="linear"),
    "a mode of planes": lambda f, x: f(x[0], 3, mode="bilinear"),
    "a mode of planes, of volumes": lambda f, x: f(x[None], 3, mode="bicubic"),
    "two dimensions": lambda f, x: f(x[0, 0], 3),
    "antialias of nearest": lambda f, x: f(x, 3, antialias=True),
    "antialias of lines": lambda f, x: f(x[0], 3, mode="linear", antialias=True),
    "lanczos": lambda f, x: f(x, 3, mode="lanczos"),
    "lanczos, corners": lambda f, x: f(x, 3, mode="lanczos", antialias=True, align_corners=True),
    "no size": lambda f, x: f(x, 0, mode="bilinear"),
    "negative size": lambda f, x: f(x[0], -1),
    "too small a factor": lambda f, x: f(x[None], scale_factor=0.1),
    "no columns": lambda f, x: f(x[..., :0], 3),
    "no channels": lambda f, x: f(x[:, :0], 3),
    "integers": lambda f, x: f(x.long(), 3),
    "bytes of lines": lambda f, x: f(x[0].byte(), 3, mode="linear"),
    "half, antialias": lambda f, x: f(x.half(), 3, mode="bilinear", antialias=True),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_refusals(torch: ModuleType, name: str) -> None:
    got, want = (
        outcome(lambda t=t: REFUSED[name](t.nn.functional.interpolate, t.tensor(X))) for t in (T, torch)
    )
    assert isinstance(want, str)
    assert got == want


@pytest.mark.parametrize("mode", ["upsample", "upsample_nearest", "upsample_bilinear"])
def test_older_names_warn(mode: str) -> None:
    with pytest.warns(UserWarning, match=f"`nn.functional.{mode}` is deprecated"):
        assert getattr(T.nn.functional, mode)(T.ones(1, 1, 2, 2), 3).shape == (1, 1, 3, 3)


def test_a_copy_keeps_the_sign_of_zero() -> None:
    y = T.nn.functional.interpolate(T.tensor([[[-0.0, 1.0]]]), 4)
    assert np.signbit(y.numpy()).tolist() == [[[True, True, False, False]]]


def test_a_long_row_is_taken_in_parts() -> None:
    x = np.random.default_rng(0).normal(size=(1, 1, 7000))
    (y,) = T.nn.functional.interpolate(T.tensor(x), 3, mode="area")[0]
    at = [(k * 7000 // 3, -(-(k + 1) * 7000 // 3)) for k in range(3)]
    np.testing.assert_allclose(y.numpy(), [x[0, 0, a:b].mean() for a, b in at], rtol=1e-12)
