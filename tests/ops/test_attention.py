"""Attention's kernels: beside the same in ops, un-jitted, on any number of threads and any width of vectors; and what memory they take."""

import ctypes
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import processor
from nbgrad.kernels.build import kernel
from nbgrad.kernels.cpu import attention as loops
from nbgrad.ops.sequence import attention
from tests.compare import array, assert_same
from tests.support import T

pytestmark = pytest.mark.fast
F = T.nn.functional
attend: Callable[..., Any] = F.scaled_dot_product_attention
KERNELS = "ScaledDotProductFlashAttentionForCpuBackward0"


def operands(*shapes: tuple[int, ...], dtype: Any = T.float64, grad: bool = True) -> list[Any]:
    rng = np.random.default_rng(len(shapes))
    return [T.tensor(rng.normal(size=s)).to(dtype).requires_grad_(grad) for s in shapes]


def heads(length: int, keys: int, depth: int, width: int, *batch: int) -> list[tuple[int, ...]]:
    return [(*batch, length, depth), (*batch, keys, depth), (*batch, keys, width)]


def in_ops(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float | None = None) -> Any:
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    k, v = attention.shared(q, (k, v))
    return attention.weights(q, k, mask, scale, causal) @ v


def assert_agree(got: Any, want: Any, tensors: list[Any], label: str, tol: float = 5.0) -> None:
    """Results, and gradients by a loss of all of them."""
    by = T.tensor(np.random.default_rng(0).normal(size=tuple(want.shape))).to(want.dtype)
    assert_same(got, want, label, tol)
    wanted = [t for t in tensors if t.requires_grad]
    gradients = [list(T.autograd.grad((y * by).sum(), wanted)) for y in (got, want)]
    assert_same(*gradients, label, tol)


# Around the heights and widths of tiles, and over the ends of blocks.
SIZES = [
    (1, 1, 1, 1),
    (3, 5, 4, 6),
    (17, 33, 8, 3),
    (64, 128, 16, 16),
    (65, 129, 33, 40),
    (70, 300, 5, 130),
    (200, 40, 150, 2),
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_kernels_are_the_same_in_ops(sizes: tuple[int, ...], causal: bool) -> None:
    tensors = operands(*heads(*sizes, 2, 2))
    assert_agree(attend(*tensors, is_causal=causal), in_ops(*tensors, causal=causal), tensors, str(sizes), 20)


@pytest.mark.parametrize(
    "shape", [(70, 150), (1, 150), (70, 1), (2, 70, 150), (2, 1, 1, 150), (1, 2, 70, 1)], ids=str
)
@pytest.mark.parametrize("how", ["seen", "added", "turned", "every second", "of another dtype"])
def test_masks(shape: tuple[int, ...], how: str) -> None:
    tensors = operands(*heads(70, 150, 4, 3, 2, 2))
    mask = T.tensor(np.random.default_rng(1).normal(size=shape))
    if how == "seen":
        mask = mask > 0
    elif how == "turned":
        mask = mask.mT.contiguous().mT > 0
    elif how == "every second":
        mask = T.stack([mask, mask + 1], -1)[..., 0]
    elif how == "of another dtype":
        mask = mask.float()
    got = attend(*tensors, attn_mask=mask)
    assert_agree(
        got, in_ops(*tensors, mask.double() if how == "of another dtype" else mask), tensors, how, 20
    )


def test_queries_that_see_nothing() -> None:
    tensors = operands(*heads(3, 200, 4, 4, 1, 1))
    for mask in (T.zeros(3, 200, dtype=T.bool), T.full((3, 200), -math.inf, dtype=T.float64)):
        mask[1:, 150:] = 1
        y = attend(*tensors, attn_mask=mask)
        by_q, by_k, by_v = T.autograd.grad(y.sum(), tensors)
        assert not y[..., 0, :].any() and not by_q[..., 0, :].any()
        assert not by_k[..., :150, :].any() and not by_v[..., :150, :].any()
        assert_agree(attend(*tensors, attn_mask=mask), in_ops(*tensors, mask), tensors, "some", 20)


def test_what_is_no_number_stays_in_its_row() -> None:
    q, k, v = operands(*heads(70, 140, 4, 4), grad=False)
    whole = attend(q, k, v)
    q[5, 1] = math.nan
    found = attend(q, k, v)
    assert found[5].isnan().all()
    assert found[:5].equal(whole[:5]) and found[6:].equal(whole[6:])
    k[100, 0] = math.inf
    assert attend(q, k, v).isnan().any(-1).equal((q[:, 0] > 0) | q.isnan().any(-1))


def test_a_query_that_sees_one_key_has_no_gradient() -> None:
    """Where both sums of its softmax's gradient are the same, as in PyTorch's."""
    for dtype in (T.float32, T.float64):
        q, k, v = operands(*heads(300, 300, 4, 200, 2), dtype=dtype)
        y = attend(q, k, v, is_causal=True)
        by = T.tensor(np.random.default_rng(0).normal(size=(2, 300, 200))).to(dtype)
        (found,) = T.autograd.grad((y * by).sum(), q)
        assert not found[:, 0].any() and found[:, 1].all()


@pytest.mark.parametrize("lie", ["rows apart", "turned", "expanded", "heads behind rows", "every second"])
def test_operands_lie_anywhere(lie: str) -> None:
    shapes = heads(20, 30, 6, 6, 2, 3)

    def laid(s: tuple[int, ...], k: int) -> Any:
        x = operands(*[s] * (k + 1), grad=False)[k]
        if lie == "rows apart":
            return T.cat([x, x], -1)[..., : s[-1]]
        if lie == "turned":
            return x.mT.contiguous().mT
        if lie == "expanded":
            return x[:1, :, :1].expand(s) if k else x[:, :, :, :1].expand(s)
        if lie == "heads behind rows":
            return x.transpose(1, 2).contiguous().transpose(1, 2)
        return T.stack([x, x], -1).flatten(-2)[..., ::2] if k else x.repeat_interleave(2, -2)[..., ::2, :]

    tensors = [laid(s, k).detach().requires_grad_() for k, s in enumerate(shapes)]
    plain = [t.detach().contiguous().requires_grad_() for t in tensors]
    got, want = attend(*tensors), attend(*plain)
    by = laid((2, 3, 20, 6), 3)
    assert got.equal(want)
    for g, w in zip(T.autograd.grad(got, tensors, by), T.autograd.grad(want, plain, by.contiguous())):
        assert g.equal(w)


def test_results_lie_as_pytorch_lays_them() -> None:
    q, k, v = operands(*heads(5, 7, 4, 4, 2, 3))
    y = attend(q, k, v)
    assert y.grad_fn.name() == KERNELS
    assert y.stride() == (60, 20, 4, 1)
    assert [g.stride() for g in T.autograd.grad(y.sum(), (q, k, v))] == [
        (60, 4, 12, 1),
        *[(84, 4, 12, 1)] * 2,
    ]
    behind = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    assert attend(*behind).stride() == (60, 4, 12, 1)
    assert attend(q, k, operands(*heads(5, 7, 4, 6, 2, 3))[2]).grad_fn.name() == "UnsafeViewBackward0"
    assert attend(q[0, 0], k[0, 0], v[0, 0]).grad_fn.name() == "MmBackward0"


@pytest.mark.parametrize(
    "batch", [((2, 4), (2, 2)), ((6,), (2,)), ((3, 2, 4), (3, 2, 1)), ((1, 4), (3, 2))], ids=str
)
def test_heads_that_share_keys(batch: tuple[tuple[int, ...], ...]) -> None:
    many, few = batch
    q, k, v = operands((*many, 70, 4), (*few, 50, 4), (*few, 50, 3))
    mask = T.tensor(np.random.default_rng(1).normal(size=(many[-1], 70, 50)))
    assert_agree(attend(q, k, v, enable_gqa=True), in_ops(q, k, v), [q, k, v], str(batch), 20)
    assert_agree(attend(q, k, v, mask, enable_gqa=True), in_ops(q, k, v, mask), [q, k, v], str(batch), 20)


def test_derivatives_of_every_order() -> None:
    q, k, v = operands(*heads(3, 4, 2, 2, 1, 2))
    seen = T.tensor([[True, False, True, True], [True] * 4, [False] * 4])
    for more in ({}, {"is_causal": True}, {"attn_mask": seen}):
        T.autograd.gradcheck(lambda *t, m=more: attend(*t, **m), (q, k, v), check_forward_ad=True)
        T.autograd.gradgradcheck(lambda *t, m=more: attend(*t, **m), (q, k, v))


def test_a_mask_has_a_gradient_under_a_transform() -> None:
    q, k, v = operands(*heads(3, 4, 2, 2), grad=False)
    (mask,) = operands((3, 4))
    (want,) = T.autograd.grad(in_ops(q, k, v, mask).square().sum(), mask)
    found = T.func.grad(lambda m: attend(q, k, v, m).square().sum())(mask.detach())
    assert_same(found, want, "by func.grad")
    moved = T.func.jvp(lambda m: attend(q, k, v, m), (mask.detach(),), (mask.detach(),))[1]
    assert_same(
        moved, T.func.jvp(lambda m: in_ops(q, k, v, m), (mask.detach(),), (mask.detach(),))[1], "moved"
    )


def test_vmap_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = operands((5, 2, 3, 4), (5, 2, 6, 4), (2, 6, 4), grad=False)
    mask = T.tensor(np.random.default_rng(1).normal(size=(5, 3, 6)))
    calls, forward = [], attention._forward
    monkeypatch.setattr(attention, "_forward", lambda *a, **s: calls.append(a) or forward(*a, **s))
    found = T.vmap(lambda q, k, m: attend(q, k, v, m))(q, k, mask)
    assert len(calls) == 1
    assert_same(found, T.stack([in_ops(q[i], k[i], v, mask[i]) for i in range(5)]), "vmap", 10)
    grads = T.vmap(T.func.grad(lambda q, m: attend(q, k[0], v, m).square().sum()))(q, mask)
    one = T.func.grad(lambda q: in_ops(q, k[0], v, mask[3]).square().sum())(q[3])
    assert_same(grads[3], one, "gradients", 10)


@pytest.mark.parametrize("dtype", [T.float16, T.bfloat16], ids=str)
def test_half_precision_is_computed_in_float32(dtype: Any) -> None:
    wide = operands(*heads(70, 150, 8, 8, 2, 2), dtype=dtype)
    narrow = [t.detach().float().requires_grad_() for t in wide]
    mask = T.tensor(np.random.default_rng(1).normal(size=(70, 150)) + 1000).float()  # no number of 16 bits
    got, want = attend(*wide, mask), attend(*narrow, mask)
    assert got.dtype is dtype and got.equal(want.to(dtype))
    for g, w in zip(T.autograd.grad(got.float().sum(), wide), T.autograd.grad(want.sum(), narrow)):
        assert g.dtype is dtype
        assert_same(g.float(), w, "gradients", 2e4)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    before, found = T.get_num_threads(), []
    tensors = operands(*heads(300, 280, 36, 20, 2, 3), dtype=T.float32)
    mask = T.tensor(np.random.default_rng(1).normal(size=(300, 280))) > 0
    try:
        for threads in (1, 2, 3):
            T.set_num_threads(threads)
            for more in ({"is_causal": True}, {"attn_mask": mask}):
                y = attend(*tensors, **more)
                found.append([array(t).tobytes() for t in (y, *T.autograd.grad(y.square().sum(), tensors))])
    finally:
        T.set_num_threads(before)
    assert found[:2] == found[2:4] == found[4:]


def test_no_scores_of_all_queries_and_keys_are_held() -> None:
    """The composed form of the same takes four times as much as the bound, so that this can fail."""
    length = 1024
    tensors = operands(*heads(length, length, 16, 16, 1, 2), dtype=T.float32)
    mask = T.ones(length, length, dtype=T.bool).tril()

    def peak(run: Callable[[], Any]) -> int:
        run()
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def step(y: Any) -> Any:
        return T.autograd.grad(y.sum(), tensors)

    scores = 2 * length * length * 4
    for more in ({}, {"is_causal": True}, {"attn_mask": mask}):
        assert peak(lambda m=more: step(attend(*tensors, **m))) < scores / 4
    assert peak(lambda: step(in_ops(*tensors))) > scores


# ---------------------------------------------------------------- the kernels themselves


def meta(length: int, keys: int, depth: int, width: int, causal: bool, names: tuple[str, ...]) -> np.ndarray:
    rows = {
        "k": depth,
        "q": depth,
        "o_q": depth,
        "o_k": depth,
        "v": width,
        "o": width,
        "g": width,
        "o_v": width,
    }
    numbers = [-(-length // loops.QUERIES), length, keys, depth, width, causal, 1, 0]
    for name in names:
        numbers += [keys if name == "mask" else rows[name] * 8, 0]
    return np.array([*numbers, 1], np.int64)


@pytest.mark.parametrize("kind", ["", "b1", "f8"])
def test_un_jitted_they_say_the_same(kind: str) -> None:
    length, keys, depth, width = 5, 9, 3, 2
    q, k, v = (array(t) for t in operands(*heads(length, keys, depth, width), grad=False))
    mask = np.random.default_rng(0).normal(size=(length, keys))
    mask = mask > 0 if kind == "b1" else mask
    bits = processor.vector_bits() or 256
    o, sums, g = np.zeros((length, width)), np.zeros(length), np.ones((length, width))
    given = [a.ravel() for a in (q, k, v, mask)]
    source, codes = loops.forward("f8", bits, kind)
    forward = kernel(f"attention_f8{kind}", source, codes, contract=True).python()
    with np.errstate(all="ignore"):
        forward(0, 1, meta(length, keys, depth, width, not kind, loops.FORWARD), o.ravel(), sums, *given, 0.5)
    tensors = [T.tensor(a).requires_grad_() for a in (q, k, v)]
    want = in_ops(*tensors, T.tensor(mask) if kind else None, causal=not kind, scale=0.5)
    np.testing.assert_allclose(o, array(want.detach()), 1e-12)
    made = [np.zeros_like(a) for a in (q, k, v)]
    source, codes = loops.backward("f8", bits, kind)
    backward = kernel(f"attention_backward_f8{kind}", source, codes, contract=True).python()
    numbers = meta(length, keys, depth, width, not kind, loops.BACKWARD)
    out = [a.ravel() for a in made]
    with np.errstate(all="ignore"):
        backward(0, 1, numbers, *out, g.ravel(), *given[:3], o.ravel(), sums, given[3], 0.5)
    for got, by in zip(made, T.autograd.grad(want.sum(), tensors)):
        np.testing.assert_allclose(got, array(by), 1e-10, 1e-12)


@pytest.mark.skipif((processor.vector_bits() or 0) < 512, reason="of two widths this machine has one")
def test_widths_of_vectors_give_the_same_bits() -> None:
    length, keys, depth, width = 70, 150, 36, 20
    q, k, v = (array(t) for t in operands(*heads(length, keys, depth, width), grad=False))
    found = []
    for bits in (256, 512):
        o, sums = np.zeros((length, width)), np.zeros(length)
        made = [np.zeros_like(a) for a in (q, k, v)]
        for names, (source, codes), arrays in (
            (loops.FORWARD, loops.forward("f8", bits, ""), (o, sums, q, k, v, q)),
            (
                loops.BACKWARD,
                loops.backward("f8", bits, ""),
                (*made, np.cos(v[:length]), q, k, v, o, sums, q),
            ),
        ):
            address = kernel(f"attention_{len(names)}_f8", source, codes, contract=True).address
            numbers = meta(length, keys, depth, width, False, names)
            given = [ctypes.c_void_p(a.ctypes.data) for a in (numbers, *arrays)]
            prototype = ctypes.CFUNCTYPE(
                None, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * len(given), ctypes.c_double
            )
            prototype(address)(0, 2 if names is loops.FORWARD else 1, *given, 0.3)
        found.append([a.tobytes() for a in (o, sums, *made)])
    assert found[0] == found[1]
