"""Images read where grids say, beside PyTorch: values, both gradients, theirs, refusals."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same, leaves, outcome
from tests.support import T

PADDINGS = ("zeros", "border", "reflection")


def run(t: ModuleType, args: tuple[Any, ...], arrays: tuple[np.ndarray, ...]) -> Any:
    """The result, its gradients by image and grid, and those of their sum with weights."""
    x, grid, start, *weights = (t.tensor(a, requires_grad=True) for a in arrays)
    y = t.nn.functional.grid_sample(x, grid, *args)
    by = t.autograd.grad(y, [x, grid], start, create_graph=True)
    total = sum((g * w).sum() for g, w in zip(by, weights, strict=True))
    # Of what does not depend on its input PyTorch gives zeros here, and none there.
    further = t.autograd.grad(total, [x, grid, start], allow_unused=True)
    whole = [t.zeros_like(v) if g is None else g for g, v in zip(further, (x, grid, start), strict=True)]
    return [y, y.grad_fn.name(), *by, *whole]


@pytest.mark.oracle
@pytest.mark.parametrize("part", range(4))
def test_random_grids(torch: ModuleType, part: int, whole: bool) -> None:
    for seed in range(part, 1000 if whole else 120, 4):
        rng = np.random.default_rng(seed)
        dims = 2 + seed % 2
        mode = str(rng.choice(("bilinear", "nearest", "bicubic")[: 5 - dims]))
        args = (mode, PADDINGS[rng.integers(3)], bool(rng.integers(2)))
        size, outs = (tuple(map(int, rng.integers(1, 6, dims))) for _ in range(2))
        image, start, w = (rng.normal(size=(2, 3, *s)) for s in (size, outs, size))
        grid = rng.uniform(-1.6, 1.6, (2, *outs, dims)) * (3 if seed % 5 == 0 else 1)
        dtype = np.float32 if seed % 3 == 0 else np.float64
        given = (image, grid, start, w, rng.normal(size=grid.shape))
        arrays = tuple(a.astype(dtype) for a in given)
        label = f"seed {seed}: {args}, {size} at {outs}"
        assert_same(run(T, args, arrays), run(torch, args, arrays), label, 50)


@pytest.mark.oracle
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("corners", [False, True])
def test_affine_grid(torch: ModuleType, dims: int, corners: bool) -> None:
    rng = np.random.default_rng(dims)
    theta, found = rng.normal(size=(2, dims, dims + 1)), []
    for t in (T, torch):
        x = t.tensor(theta, requires_grad=True)
        y = t.nn.functional.affine_grid(x, (2, 3, *(3, 4, 5)[:dims]), corners)
        w = t.tensor(np.cos(np.arange(y.numel())).reshape(y.shape), requires_grad=True)
        (g,) = t.autograd.grad(y, x, w, create_graph=True)
        found.append([y, y.grad_fn.name(), g, *t.autograd.grad((g * g).sum(), w)])
    assert_same(*found, "affine grid", 10)


X, GRID = np.ones((2, 3, 4, 4), np.float32), np.zeros((2, 5, 5, 2), np.float32)
THETA = np.ones((2, 2, 3), np.float32)
REFUSED: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "no such mode": lambda f, x, g, _: f.grid_sample(x, g, "foo"),
    "no such padding": lambda f, x, g, _: f.grid_sample(x, g, "nearest", "foo"),
    "no word on corners": lambda f, x, g, _: f.grid_sample(x, g),
    "another batch": lambda f, x, g, _: f.grid_sample(x, g[:1], align_corners=False),
    "three coordinates": lambda f, x, g, _: f.grid_sample(
        x, g.repeat(1, 1, 1, 2)[..., :3], align_corners=False
    ),
    "no batch": lambda f, x, g, _: f.grid_sample(x[0], g[0], align_corners=False),
    "a line": lambda f, x, g, _: f.grid_sample(x[:, :, 0], g[..., :1], align_corners=False),
    "no rows": lambda f, x, g, _: f.grid_sample(x[:, :, :0], g, align_corners=False),
    "another dtype": lambda f, x, g, _: f.grid_sample(x, g.double(), align_corners=False),
    "integers": lambda f, x, g, _: f.grid_sample(x.long(), g.long(), align_corners=False),
    "bicubic volume": lambda f, x, g, _: f.grid_sample(
        x[:, :, None], g.repeat(1, 1, 1, 2)[:, None, ..., :3], "bicubic", align_corners=False
    ),
    "no tensor": lambda f, x, g, _: f.grid_sample(3, g, align_corners=False),
    "affine, lines": lambda f, x, g, m: f.affine_grid(m, (2, 3, 4), False),
    "affine, another shape": lambda f, x, g, m: f.affine_grid(m[:, :1], (2, 3, 4, 5), False),
    "affine, another batch": lambda f, x, g, m: f.affine_grid(m[:1], (2, 3, 4, 5), False),
    "affine, no rows": lambda f, x, g, m: f.affine_grid(m, (2, 3, 0, 5), False),
    "affine, integers": lambda f, x, g, m: f.affine_grid(m.long(), (2, 3, 4, 5), False),
    "affine, one row": lambda f, x, g, m: f.affine_grid(m, (2, 3, 1, 5), True),
    "affine, a size that is a float": lambda f, x, g, m: f.affine_grid(m, (2.0, 3, 4, 5), False),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_refusals(torch: ModuleType, name: str) -> None:
    got, want = (
        outcome(lambda t=t: REFUSED[name](t.nn.functional, *map(t.tensor, (X, GRID, THETA))))
        for t in (T, torch)
    )
    assert isinstance(want, str)
    assert got == want


def test_places_that_are_no_numbers_read_nothing() -> None:
    grid = T.tensor([[[[float("nan"), 0.0], [0.0, float("inf")], [1e30, 0.0], [0.0, 0.0]]]])
    y = T.nn.functional.grid_sample(T.ones(1, 1, 3, 3), grid, align_corners=False)
    assert y.tolist() == [[[[0.0, 0.0, 0.0, 1.0]]]]


def test_each_example_of_a_vmap_is_one_of_a_batch() -> None:
    x, grid = T.arange(96.0).reshape(2, 2, 2, 3, 4).sin(), T.linspace(-1, 1, 32).reshape(2, 2, 2, 2, 2)

    def f(x: Any, g: Any) -> Any:
        return T.nn.functional.grid_sample(x, g, align_corners=False)

    def by_both(x: Any, g: Any) -> Any:
        return T.func.grad(lambda x, g: f(x, g).square().sum(), (0, 1))(x, g)

    for call in (f, by_both):
        for dims, rows in ((0, grid), (None, [grid[0]] * 2)):
            got = T.func.vmap(call, (0, dims))(x, grid if dims == 0 else grid[0])
            want = [call(a, b) for a, b in zip(x, rows, strict=True)]
            for k, part in enumerate(leaves(got)):
                np.testing.assert_allclose(part.numpy(), [leaves(w)[k].numpy() for w in want], rtol=1e-6)
