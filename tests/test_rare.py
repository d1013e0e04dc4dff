"""Functions that few programs call, beside PyTorch's."""

from types import ModuleType
from typing import Any

import pytest

from tests.support import T

# `x` requires grad; `b` is a batch.
TEXTS = """
t.hash_tensor(x)
t.hash_tensor(x, 0)
t.hash_tensor(x, 1, keepdim=True)
t.hash_tensor(x.int())
t.hash_tensor(x > 0)
t.hash_tensor(x.half())
t.hash_tensor(t.tensor([-1, 5, 1 << 40]))
t.hash_tensor(t.ones(7) * 3, (0,))
t.hash_tensor(x, mode=1)
t.hash_tensor(t.tensor([]))
x.hash_tensor()
t.nuclear_norm(x)
t.nuclear_norm(x, keepdim=True)
t.nuclear_norm(b, (1, 2))
t.nuclear_norm(b)
t.frobenius_norm(x, (0, 1))
t.frobenius_norm(x, 0)
t.frobenius_norm(x, (0, 1), True)
t.slice_inverse(x.detach(), x.detach()[0:1], 0, 0, 1, 1)
t.batch_norm_update_stats(x.detach(), t.zeros(2), t.ones(2), 0.1)
t.batch_norm_update_stats(b, None, t.ones(2), 0.1)
t.native_group_norm(t.arange(8.0).reshape(1, 4, 2), None, None, 1, 4, 2, 2, 1e-5)
t.embedding_renorm_(x.detach(), t.tensor([1]), 1.0, 2.0)
t._softmax_backward_data(x.detach(), x.detach(), 1, t.float32)
t._cast_Long(x)
t._cast_Half(x)
t._shape_as_tensor(x)
t._int_mm(t.ones(32, 16).to(t.int8), t.ones(16, 8).to(t.int8))
t._weight_norm(x, x[:, :1], 0)
t._safe_softmax(x, 1)
t._addmm_activation(x.detach(), x.detach(), x.detach())
t._add_relu(x.detach(), x.detach())
t._euclidean_dist(x, x + 1)
t._masked_softmax(x.detach(), x.detach() == 1, 1)
t._fused_rms_norm(x.detach(), [2], None, 1e-5)
t._unsafe_index_put(x, [t.tensor([0])], t.tensor(9.0))
t._chunk_cat([x.detach(), x.detach()], 0, 2)
t._trilinear(x, x, x, [], [], [], [0], 1)
t._dim_arange(x, 0)
t._stack([x.detach(), x.detach()])
t._pack_padded_sequence(t.ones(2, 2, 1), t.tensor([2, 1]), True)
t._linalg_svd(x.detach())[1]
t._linalg_eigh(x.detach())[0]
t._compute_linear_combination(x.detach(), x.detach())
t._is_zerotensor(x)
t.wait(t.fork(lambda: x.sum()))
t.gather(x, 0, t.tensor([[0, 0]]), sparse_grad=True)
t.gather(x, 1, t.tensor([[0, 0], [1, 0]]), sparse_grad=True)
""".strip().splitlines()


def said(t: Any, text: str) -> Any:
    x = t.tensor([[1.0, 2.0], [3.0, -4.0]], requires_grad=True)
    b = t.stack([x.detach(), x.detach() + 1])
    try:
        found = eval(text, {"t": t, "x": x, "b": b})
    except Exception as error:
        return type(error).__name__, str(error)
    every = [found] if isinstance(found, t.Tensor) else list(found) if isinstance(found, tuple) else []
    for one in every:
        if one.requires_grad:
            (one * t.arange(1.0, one.numel() + 1).reshape(one.shape)).sum().backward()
    values = [(str(one.dtype), one.detach().double().tolist()) for one in every] or found
    return values, None if x.grad is None else (str(x.grad.layout), x.grad.to_dense().tolist())


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", TEXTS)
def test_what_few_call_is_torchs(text: str, torch: ModuleType) -> None:
    ours, theirs = said(T, text), said(torch, text)
    if isinstance(ours[0], str):
        assert ours == theirs
        return
    assert str(ours[1])[:20] == str(theirs[1])[:20]
    assert _numbers(ours) == pytest.approx(_numbers(theirs), rel=2e-5, abs=1e-6)
    assert (
        [part[0] for part in ours[0]] == [part[0] for part in theirs[0]]
        if isinstance(ours[0], list)
        else True
    )


def _numbers(found: Any) -> list[float]:
    if isinstance(found, (list, tuple)):
        return [n for one in found for n in _numbers(one)]
    return [float(found)] if isinstance(found, (int, float)) else []


def test_eigenpairs_of_a_pair_of_matrices() -> None:
    T.manual_seed(0)
    A, B = T.randn(12, 12, dtype=T.float64), T.randn(12, 12, dtype=T.float64)
    A, B = (A + A.mT).requires_grad_(), B @ B.mT + T.eye(12, dtype=T.float64)
    for largest in (True, False):
        values, vectors = T.lobpcg(A, k=3, B=B, largest=largest)
        assert T.allclose(A @ vectors, B @ vectors * values)
        assert (values.diff() < 0).all() == largest
    values.sum().backward()
    assert T.allclose(A.grad, vectors @ vectors.mT)  # of the least
    with pytest.raises(ValueError, match="not applicable when the number of A rows"):
        T.lobpcg(A, k=5)


def test_switches_of_the_compiler_are_kept() -> None:
    config = T._dynamo.config
    assert config.capture_scalar_outputs is False
    with config.patch(capture_scalar_outputs=True):
        assert config.capture_scalar_outputs is True
    with config.patch("recompile_limit", 3):
        assert config.recompile_limit == 3
    assert (config.capture_scalar_outputs, config.recompile_limit) == (False, 8)


def test_devices_that_are_not_here_answer() -> None:
    assert T.xpu.memory_allocated() == 0 and T.xpu.empty_cache() is None and not T.xpu.is_bf16_supported()
    with pytest.raises(AssertionError, match="XPU"):
        T.xpu.current_device()
    with pytest.raises(RuntimeError, match=r"Cannot execute emptyCache\(\) without MPS backend"):
        T.mps.empty_cache()
