"""Attention whose scores a function changes: against PyTorch's, and its gradients."""

from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nbgrad.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from tests.support import T

pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
    pytest.mark.filterwarnings("ignore:return_lse is deprecated"),
]


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def late(b: Any, h: Any, q: Any, k: Any) -> Any:  # the first queries see nothing
    return q >= k + 3


def alibi(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + (k - q) * 0.1 * (h + 1)


CALLS: list[dict[str, Any]] = [
    {},
    {"score_mod": alibi},
    {"scale": 0.3, "mask": causal},
    {"mask": late, "score_mod": alibi},
    {"enable_gqa": True, "mask": causal},
]


def operands(t: Any, enable_gqa: bool) -> list[Any]:
    rng = np.random.default_rng(0)
    heads = (4, 2, 2) if enable_gqa else (4, 4, 4)
    return [t.from_numpy(rng.standard_normal((2, h, 10, 8)).astype(np.float32)) for h in heads]


@pytest.mark.oracle
@pytest.mark.parametrize("call", CALLS)
def test_results_are_torchs(call: dict[str, Any], torch: ModuleType) -> None:
    found = []
    for t in (T, torch):
        f = import_module(f"{t.__name__}.nn.attention.flex_attention")
        named = {k: v for k, v in call.items() if k != "mask"}
        if "mask" in call:
            named["block_mask"] = f.create_block_mask(call["mask"], None, None, 10, 10, device="cpu")
        result, lse = f.flex_attention(*operands(t, "enable_gqa" in call), **named, return_lse=True)
        found.append((result.numpy(), lse.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("mask", "sizes"),
    [
        (causal, (300, 400, 128)),
        (late, (10, 10, 4)),
        (causal, (3000, 2000, 64)),
        (causal, (128, 128, (32, 64))),
    ],
)
def test_block_masks_are_torchs(mask: Any, sizes: Any, torch: ModuleType) -> None:
    shown = []
    for t in (T, torch):
        f = import_module(f"{t.__name__}.nn.attention.flex_attention")
        made = f.create_block_mask(mask, 2, 3, *sizes[:2], device="cpu", BLOCK_SIZE=sizes[2])
        held = [x.tolist() if hasattr(x, "tolist") else x for x in made.as_tuple()[:-1]]
        shown.append(
            [
                repr(made),
                str(made),
                held,
                made[1, 0].to_dense().tolist(),
                made._adjust(64, 128).to_dense().tolist(),
            ]
        )
    assert shown[0] == shown[1]


def test_gradients_reach_what_the_function_reads() -> None:
    q, k, v = (x.double().requires_grad_() for x in operands(T, False))
    q, k, v = (x[:1, :2, :4].detach().requires_grad_() for x in (q, k, v))
    bias = T.randn(2, 4, 4, dtype=T.float64, requires_grad=True)
    mask = create_block_mask(late, None, None, 4, 4)

    def call(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return flex_attention(q, k, v, lambda score, b, h, i, j: score + bias[h, i, j], mask)

    assert T.autograd.gradcheck(call, (q, k, v, bias))
    assert call(q, k, v, bias)[0, :, :3].abs().sum() == 0
    assert T.allclose(flex_attention(q, k, v), T.nn.functional.scaled_dot_product_attention(q, k, v))


def test_what_does_not_fit_is_refused() -> None:
    q, k, v = operands(T, True)
    with pytest.raises(ValueError, match="Try setting enable_gqa=True"):
        flex_attention(q, k, v)
    with pytest.raises(ValueError, match="for a smaller length"):
        flex_attention(q, q, q, block_mask=create_block_mask(causal, None, None, 4, 10))
    with pytest.raises(NotImplementedError, match="must be 4D tensors"):
        flex_attention(q[0], q[0], q[0])
    assert isinstance(create_block_mask(causal, None, None, 20, 20)._adjust(10, 10), BlockMask)
