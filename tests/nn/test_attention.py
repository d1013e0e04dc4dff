"""Attention of drawn shapes, masks and settings beside PyTorch's: values, gradients, and gradients of those."""

from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same, outcome
from tests.support import T


def call(seed: int) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Query, key, value and what the mask is made of (if there is one); the settings."""
    rng = np.random.default_rng(seed)
    pick = lambda *values: values[int(rng.integers(len(values)))]  # noqa: E731
    kv_heads, wide, own = pick(1, 2), pick(1, 3, 8, 16), pick(1, 4, 8)
    settings: dict[str, Any] = {"is_causal": pick(False, False, True), "enable_gqa": pick(False, False, True)}
    settings["scale"] = pick(None, None, 0.3)
    heads = kv_heads * pick(2, 3) if settings["enable_gqa"] else kv_heads
    rows, keys = pick(1, 2, 5, 17, 40), pick(1, 3, 8, 33)
    lead = pick((), (2,), (1,)) if not settings["enable_gqa"] else (pick(1, 2),)
    arrays = [
        rng.normal(size=(*lead, n, length, size))
        for n, length, size in ((heads, rows, wide), (kv_heads, keys, wide), (kv_heads, keys, own))
    ]
    mask = None if settings["is_causal"] else pick("none", "bool", "float", "row")
    if mask == "bool":
        kept = rng.random((rows, keys)) < 0.6
        kept[:, 0] = True  # a row that sees nothing is not a number in PyTorch's gradient
        arrays.append(kept)
    if mask in ("float", "row"):
        arrays.append(rng.normal(size=(rows, keys) if mask == "float" else (1, keys)))
    if pick(True, False, False):
        arrays = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in arrays]
    return arrays, settings


def run(t: ModuleType, arrays: list[np.ndarray], settings: dict[str, Any]) -> list[Any]:
    q, k, v, *mask = [t.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    attend = t.nn.functional.scaled_dot_product_attention
    by_op = import_module(f"{t.__name__}.nn.attention")  # PyTorch's kernels have no second derivative
    with by_op.sdpa_kernel(by_op.SDPBackend.MATH):
        y = attend(q, k, v, *mask, **settings)
    w = t.tensor(np.cos(np.arange(y.numel())).reshape(tuple(y.shape)).astype(arrays[0].dtype))
    w.requires_grad_()
    inputs = [q, k, v, *[m for m in mask if m.requires_grad]]
    first = t.autograd.grad(y, inputs, w, create_graph=True)
    second = t.autograd.grad(sum((g * g).sum() for g in first), [*inputs, w], allow_unused=True)
    fused = attend(q, k, v, *mask, **settings)
    grads = t.autograd.grad(fused, inputs, w)
    return [y, fused, *first, *grads, *[g if g is None else g.detach() for g in second]]


@pytest.mark.oracle
def test_attention_of_any_shape(torch: ModuleType, whole: bool) -> None:
    for seed in range(500 if whole else 80):
        arrays, settings = call(seed)
        got, want = (outcome(partial(run, t, arrays, settings)) for t in (T, torch))
        assert_same(got, want, f"seed {seed}: {[a.shape for a in arrays]}, {settings}", 100)


@pytest.mark.parametrize("add_zero_attn", [False, True])
def test_static_keys_are_as_long_as_they_are(add_zero_attn: bool) -> None:
    """Given keys and values take the place of those that are projected; the padding is theirs."""
    net = T.nn.MultiheadAttention(4, 2, add_zero_attn=add_zero_attn)
    x, static = T.randn(1, 3, 4), T.randn(6, 5, 2)

    def attend(keys: Any, length: int, bias: Any = None) -> Any:
        return T.nn.functional.multi_head_attention_forward(
            x, x, x, 4, 2, net.in_proj_weight, net.in_proj_bias, bias, bias, add_zero_attn, 0.0, net.out_proj.weight, None,
            key_padding_mask=(T.arange(length) > 2).expand(3, length),
            static_k=keys, static_v=keys,
        )  # fmt: skip

    got, weights = attend(static, 5)
    short, _ = attend(static[:, :3], 3)
    T.testing.assert_close(got, short)
    assert weights[:, :, 3:5].abs().max() == 0 and weights.shape[-1] == 5 + add_zero_attn
    with pytest.raises(
        AssertionError, match=rf"shape\[1\] to be {5 + add_zero_attn}, but got {4 + add_zero_attn}"
    ):
        attend(static, 4)
    with pytest.raises(AssertionError, match=r"^expecting static_k.size\(2\) of 2, but got 1$"):
        attend(static[:, :, :1], 5)
    with pytest.raises(AssertionError, match=r"^bias cannot be added to static key\.$"):
        attend(static, 5, T.zeros(1, 1, 4))
