"""Attention of drawn shapes, masks and layouts beside PyTorch's: values, gradients, and gradients of those; layers of it as well."""

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same
from tests.support import T

pytestmark = pytest.mark.oracle
COUNT = 150


def configuration(seed: int) -> dict[str, Any]:
    """Shapes of the operands and the mask, how they lie, and settings."""
    rng = np.random.default_rng(seed)
    pick = lambda *values: values[int(rng.integers(len(values)))]  # noqa: E731
    batch = pick((), (3,), (2, 3), (2, 3), (2, 4), (1, 1), (2, 1, 3))
    length, keys = (pick(1, 2, 5, 16, 31, 64, 70, 130) for _ in range(2))
    depth = pick(1, 3, 8, 16, 33, 64, 140)
    width = pick(depth, depth, depth, 1, 5, 40, 130)
    grouped = len(batch) > 0 and batch[-1] > 1 and pick(True, False, False)
    few = [n for n in range(1, batch[-1] + 1) if batch[-1] % n == 0] if grouped else []
    heads = [(*batch[:-1], pick(*few)) if grouped else batch] * 2
    if grouped and pick(True, False, False):
        heads[1] = (*batch[:-1], pick(*few))
    elif not grouped and batch and pick(True, False, False, False):  # broadcast
        heads = [tuple(pick(1, n) for n in batch) for _ in range(2)]
    dtype = pick("float64", "float64", "float32")
    # PyTorch's kernel reads a float32 mask as if it were float64 on the way back.
    mask = pick(None, None, "causal", "bool", "float", "float" if dtype == "float64" else "float32")
    shape = tuple(pick(1, n, n) for n in (*batch, length, keys))
    return dict(
        shapes=[(*batch, length, depth), (*heads[0], keys, depth), (*heads[1], keys, width)],
        mask=mask,
        mask_shape=shape[int(rng.integers(len(batch) + 1)) :],
        mask_lies=pick("plain", "plain", "turned"),
        lie=[pick("plain", "plain", "turned", "apart", "heads behind rows") for _ in range(3)],
        # PyTorch's kernel multiplies what it has set to -inf, and gives NaN where the scale is not above 0.
        scale=pick(None, None, 0.7, *([] if mask == "causal" else [-0.3, 0.0])),
        grouped=grouped,
        dropout=pick(0.0, 0.0, 0.0, 0.0, 0.3),
        dtype=dtype,
        seed=seed,
    )


def laid(t: ModuleType, x: Any, how: str) -> Any:
    if how == "turned":
        return x.mT.contiguous().mT
    if how == "apart":
        return t.cat([x, x], -1)[..., : x.shape[-1]]
    if how == "heads behind rows" and x.ndim > 2:
        return x.transpose(-3, -2).contiguous().transpose(-3, -2)
    return x


def run(t: ModuleType, c: dict[str, Any]) -> dict[str, Any]:
    dtype, rng = getattr(t, c["dtype"]), np.random.default_rng(c["seed"])
    t.manual_seed(c["seed"])
    made = [t.tensor(rng.normal(size=s)).to(dtype) for s in c["shapes"]]
    wrt = [laid(t, x, how).detach().requires_grad_() for x, how in zip(made, c["lie"])]
    settings: dict[str, Any] = dict(scale=c["scale"], enable_gqa=c["grouped"], dropout_p=c["dropout"])
    if c["mask"] == "causal":
        settings["is_causal"] = True
    elif c["mask"] is not None:
        mask = rng.normal(size=c["mask_shape"])
        if c["mask"] == "bool" or c["seed"] % 3 == 0:
            mask = np.where(mask > -0.3, mask, -math.inf)
        mask = laid(t, t.tensor(mask), c["mask_lies"])
        settings["attn_mask"] = (
            mask > -1e3 if c["mask"] == "bool" else mask.to(dtype if c["mask"] == "float" else t.float32)
        )
    attend = t.nn.functional.scaled_dot_product_attention
    y = attend(*wrt, **settings)
    by = t.tensor(rng.normal(size=tuple(y.shape))).to(dtype)
    grads = t.autograd.grad(y, wrt, by)
    # Of some that a kernel computes PyTorch has no second derivatives.
    names = {"node": y.grad_fn.name(), "strides": tuple(y.stride())}
    found: dict[str, Any] = dict(value=y, grads=list(grads), **names)
    if c["dtype"] == "float64" and not c["dropout"]:
        if t is T:
            y = attend(*wrt, **settings)
        else:
            from torch.nn.attention import SDPBackend, sdpa_kernel

            with sdpa_kernel(SDPBackend.MATH):
                y = attend(*wrt, **settings)
        with_graph = t.autograd.grad(y, wrt, by, create_graph=True)
        assert_same([g.detach() for g in with_graph], list(grads), f"{c}, gradients by ops", 100.0)
        found["second"] = list(
            t.autograd.grad(sum((g * g).sum() for g in with_graph), wrt, allow_unused=True)
        )
    return found


@pytest.mark.filterwarnings("ignore")
def test_calls(torch: ModuleType, whole: bool) -> None:
    met = set()
    for seed in range(500 if whole else COUNT):
        c = configuration(seed)
        got, want = run(T, c), run(torch, c)
        met.add(want["node"])
        for part in want:
            tol = 1000.0 if part == "second" else 100.0
            assert_same(got[part], want[part], f"{part} of {c}", tol)
    assert len(met) == 3  # of matrices, of batches, of what PyTorch has a kernel for


@pytest.mark.filterwarnings("ignore")
def test_layers(torch: ModuleType) -> None:
    """What `need_weights=False` computes by kernels, training and not."""

    def found(t: ModuleType, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        t.manual_seed(seed)
        extra, zero, dropout = bool(seed & 1), bool(seed & 2), 0.2 * bool(seed & 4)
        m = t.nn.MultiheadAttention(
            12, 3, dropout, add_bias_kv=extra, add_zero_attn=zero, batch_first=bool(seed & 8), dtype=t.float64
        )
        q, k = (t.tensor(rng.normal(size=s)).requires_grad_() for s in ((4, 4, 12), (4, 4, 12)))
        masks: dict[str, Any] = {}
        if seed & 16:
            masks["key_padding_mask"] = t.tensor(rng.random((4, 4)) < 0.2)
        if seed & 32:
            masks["attn_mask"] = t.tensor(np.triu(np.ones((4, 4)), 1) > 0)
            masks["is_causal"] = bool(seed & 64)
        y, _ = m(q, k, k, need_weights=False, **masks)
        grads = t.autograd.grad(y.square().sum(), [q, k, *m.parameters()])
        return [y, *grads, m.eval()(q, k, k, need_weights=False, **masks)[0]]

    for seed in range(128):
        assert_same(found(T, seed), found(torch, seed), f"layer {seed}", 20.0)


@pytest.mark.filterwarnings("ignore")  # of nested tensors, which PyTorch makes
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
def test_what_padding_hides_is_zero_where_an_encoder_infers(
    torch: ModuleType, aligned: bool, norm: bool
) -> None:
    padding = np.array([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 1]], bool)
    padding = padding if aligned else padding[:, ::-1].copy()
    x = np.random.default_rng(0).normal(size=(3, 4, 8)).astype("float32")
    found = []
    for lib in (torch, T):
        lib.manual_seed(0)
        nn = lib.nn
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8) if norm else None).eval()
        src, hidden = lib.tensor(x), lib.tensor(padding)
        apart = lib.zeros(3, 4).masked_fill(hidden, -math.inf)
        with lib.no_grad():
            results = [encoder(src, src_key_padding_mask=mask) for mask in (hidden, apart)]
            results.append(encoder(src, mask=lib.zeros(4, 4), src_key_padding_mask=apart))
            lib.backends.mha.set_fastpath_enabled(False)
            results.append(encoder(src, src_key_padding_mask=hidden))
            lib.backends.mha.set_fastpath_enabled(True)
        results.append(encoder(src, src_key_padding_mask=hidden).detach())
        found.append(np.stack([np.asarray(r) for r in results]))
    want, got = found
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert norm or (got[0][padding] == 0).all() == aligned
