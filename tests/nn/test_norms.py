"""Norms of 16-bit inputs beside parameters of float32: computed in float32, rounded once."""

from collections.abc import Callable
from typing import Any

import pytest

import nbgrad as t

F = t.nn.functional
CHANNELS, LAST = 4, 6

NORMS: dict[str, Callable[..., Any]] = {
    "layer": lambda x, w, b: F.layer_norm(x, (LAST,), w, b),
    "rms": lambda x, w, b: F.rms_norm(x, (LAST,), w),
    "group": lambda x, w, b: F.group_norm(x, 2, w, b),
    "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "fixed": lambda x, w, b: F.batch_norm(x, t.linspace(0, 1, CHANNELS), t.linspace(1, 2, CHANNELS), w, b),
    "instance": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
}


def _given(name: str, narrow: Any) -> list[Any]:
    t.manual_seed(0)
    n = LAST if name in ("layer", "rms") else CHANNELS
    x = t.randn(2, CHANNELS, LAST).to(narrow)
    return [x, t.rand(n) + 0.5, t.randn(n)][: 2 if name == "rms" else 3]


def _gradients(name: str, tensors: list[Any]) -> list[Any]:
    """Result, gradients, and gradients of those: each in float32."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    y = NORMS[name](*leaves, *[None] * (3 - len(leaves)))
    weights = t.linspace(-1, 2, y.numel()).reshape(y.shape)
    first = t.autograd.grad((y.float() * weights).sum(), leaves, create_graph=True)
    whole = sum((g.float() * t.linspace(1, 2, g.numel()).reshape(g.shape)).sum() for g in first[:2])
    second = t.autograd.grad(whole, leaves, allow_unused=True)
    return [y, *first, *second]


@pytest.mark.parametrize("narrow", [t.bfloat16, t.float16], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_mixed(name: str, narrow: Any) -> None:
    given = _given(name, narrow)
    mixed = _gradients(name, given)
    exact = _gradients(name, [x.float() for x in given])
    n = len(given)
    assert [g.dtype for g in mixed[: 1 + n]] == [narrow, narrow, *[t.float32] * (n - 1)]
    assert t.equal(mixed[0], exact[0].to(narrow))
    step = t.finfo(narrow).eps
    for got, want in zip(mixed[1:], exact[1:]):
        assert (got is None) == (want is None)
        if got is not None:  # what arrived was rounded as the result was
            t.testing.assert_close(
                got.float(), want, rtol=4 * step, atol=8 * step * want.detach().abs().max().item()
            )


@pytest.mark.parametrize("name", NORMS)
def test_mixed_under_vmap(name: str) -> None:
    x, *affine = _given(name, t.bfloat16)
    several = t.stack([x, 2 * x + 1])
    one = [NORMS[name](x_, *affine, *[None] * (2 - len(affine))) for x_ in several]
    each = t.vmap(lambda x_, w: NORMS[name](x_, w, *affine[1:], *[None] * (2 - len(affine))))
    found = each(several, t.stack([affine[0]] * 2))
    assert found.dtype is t.bfloat16
    t.testing.assert_close(found, t.stack(one))


def test_running_statistics_stay_float32() -> None:
    norm = t.nn.BatchNorm1d(CHANNELS)
    x = _given("batch", t.bfloat16)[0]
    assert norm(x).dtype is t.bfloat16
    wide = t.nn.BatchNorm1d(CHANNELS)
    wide(x.float())
    assert norm.running_mean.dtype is t.float32
    assert t.equal(norm.running_mean, wide.running_mean) and t.equal(norm.running_var, wide.running_var)
