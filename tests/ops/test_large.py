"""What goes another way where there are many elements, many rows, or channels that lie together: beside the way of few, or NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nbgrad as torch
from nbgrad import Tensor
from nbgrad.nn import functional as F

WINDOWS: dict[str, Callable[[Tensor], Any]] = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max_dilated": lambda x: F.max_pool2d(x, 2, 1, 1, 2, ceil_mode=True, return_indices=True),
    "mean": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "mean_counted": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 5),
    "nearest": lambda x: F.interpolate(x, size=(5, 30)),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, size=(5, 21), mode="bicubic"),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "point": lambda x: F.conv2d(x, _numbers(7, x.shape[1], 1, 1).to(x.dtype), _numbers(7).to(x.dtype)),
}


def _numbers(*shape: int) -> Tensor:
    rng = np.random.default_rng(sum(shape))
    return torch.from_numpy(rng.normal(size=shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("channels", [8, 19])
@pytest.mark.parametrize("name", WINDOWS)
def test_channels_that_lie_together(name: str, channels: int, dtype: Any) -> None:
    x = _numbers(2, channels, 11, 14).to(dtype)
    if "max" in name:
        x[0, 3, 4:6, 5] = torch.nan
    found = []
    for lies in (torch.contiguous_format, torch.channels_last):
        given = x.contiguous(memory_format=lies).detach().requires_grad_()
        results = WINDOWS[name](given)
        y, *places = results if isinstance(results, tuple) else (results,)
        g = torch.arange(y.numel()).to(dtype).remainder(7).reshape(y.shape).contiguous(memory_format=lies)
        (by_x,) = torch.autograd.grad(y, given, g)
        for t in (y, *places):
            assert t.is_contiguous(memory_format=lies)
        found.append([y, by_x, *places])
    exact = "max" in name or name == "nearest"
    near: dict[str, float] = {} if exact else {"rtol": 0, "atol": 0.03 if dtype is torch.float16 else 1e-5}
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, equal_nan=True, **({"rtol": 0, "atol": 0} | near))


@pytest.mark.parametrize("offset", [0, 300])
def test_group_norms_of_many_elements(offset: int) -> None:
    """The derivatives that are recorded go by whole operations, the others by planes."""
    x = (_numbers(3, 12, 40, 41) + offset).requires_grad_()
    w, b, g = _numbers(12).requires_grad_(), (_numbers(12) * 2).requires_grad_(), _numbers(3, 12, 40, 41)
    y = F.group_norm(x, 4, w, b)
    rows = x.detach().reshape(3, 4, -1)
    unit = (rows - rows.mean(-1, True)) / (rows.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(y, unit.reshape(x.shape) * w.reshape(12, 1, 1) + b.reshape(12, 1, 1))
    quick = torch.autograd.grad(y, [x, w, b], g, retain_graph=True)
    recorded = torch.autograd.grad(y, [x, w, b], g, create_graph=True)
    for a, c in zip(quick, recorded):
        torch.testing.assert_close(a, c)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_pairs_of_many_rows(p: float) -> None:
    x = _numbers(150, 60).requires_grad_()
    above = torch.triu_indices(150, 150, 1)
    g = _numbers(above.shape[1])
    every = torch.linalg.vector_norm(x[above[0]] - x[above[1]], p, dim=1)
    found = F.pdist(x, p)
    torch.testing.assert_close(found, every)
    (a,), (b,) = (torch.autograd.grad(y, x, g) for y in (found, every))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_matrices_of_many_rows(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 90, 90)).astype(dtype)
    if dtype[0] == "c":
        a += 1j * rng.normal(size=a.shape).astype(a.real.dtype)
    a += 12 * np.eye(90, dtype=dtype)
    h = (a + a.conj().mT).astype(dtype)
    x, near = torch.from_numpy(a), {"rtol": 2e-3 if dtype in ("float32", "complex64") else 1e-9, "atol": 1e-3}
    b = x[:, :, :7]
    np.testing.assert_allclose(x @ torch.linalg.solve(x, b), b, **near)
    np.testing.assert_allclose(x @ torch.linalg.inv(x), np.broadcast_to(np.eye(90), a.shape), **near)
    for upper in (True, False):
        low = torch.triu(x) if upper else torch.tril(x)
        np.testing.assert_allclose(low @ torch.linalg.solve_triangular(low, b, upper=upper), b, **near)
        np.testing.assert_allclose(
            low.mT @ torch.linalg.solve_triangular(low.mT, b, upper=not upper), b, **near
        )
    np.testing.assert_allclose(torch.linalg.svdvals(x), np.linalg.svd(a)[1], **near)
    np.testing.assert_allclose(torch.linalg.eigvalsh(torch.from_numpy(h)), np.linalg.eigvalsh(h), **near)
    np.testing.assert_allclose(torch.linalg.slogdet(x)[1], np.linalg.slogdet(a)[1], **near)
    assert torch.linalg.svdvals(x).dtype is torch.linalg.eigvalsh(x).dtype is x.real.dtype


def test_a_triangle_with_a_pivot_of_zero() -> None:
    """Infinities, as LAPACK's solver leaves them, and not an error."""
    a = np.tril(np.random.default_rng(0).normal(size=(80, 80)).astype("f4") + 9 * np.eye(80, dtype="f4"))
    a[40, 40] = 0
    x = torch.linalg.solve_triangular(torch.from_numpy(a), torch.ones(80, 1), upper=False)
    assert x[:40].isfinite().all() and x[40].isinf().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.complex64])
@pytest.mark.parametrize("columns", [3, 511, 512, 513, 1100])
def test_a_transposed_operand_of_long_rows(columns: int, dtype: Any) -> None:
    x, y = _numbers(5, columns).to(dtype), _numbers(columns, 5).to(dtype)
    torch.testing.assert_close(x * y.t(), x * y.t().contiguous(), rtol=0, atol=0)
    torch.testing.assert_close(
        torch.where(x.abs() > 1, x, y.t()), torch.where(x.abs() > 1, x, y.t().contiguous()), rtol=0, atol=0
    )
    if dtype is not torch.complex64:
        torch.testing.assert_close(y.t().sum(1), y.t().contiguous().sum(1))
        torch.testing.assert_close(x[:, ::2].amax(1), x[:, ::2].contiguous().amax(1), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exponentials_of_what_is_low(dtype: Any) -> None:
    """0 is chosen below a limit, and nothing above it."""
    x = torch.linspace(-800, 100, 9001, dtype=dtype)
    with np.errstate(all="ignore"):
        want = np.exp(x.numpy().astype(np.longdouble)).astype(x.numpy().dtype)
    tiny = np.finfo(want.dtype).smallest_subnormal
    np.testing.assert_allclose(
        x.exp().numpy(), want, rtol=1e-6 if dtype is torch.float32 else 1e-14, atol=tiny
    )
    masked = torch.where(torch.arange(9001) % 3 > 0, x.abs() / 100, -torch.inf).softmax(0)
    assert (masked[::3] == 0).all() and masked.sum().item() == pytest.approx(1, abs=1e-5)
