"""Quantised tensors beside PyTorch's: numbers, what moves them, what is said of them, refusals."""

import pickle
import re
from types import ModuleType
from typing import Any

import pytest

from tests.support import T

# `x` are real numbers, `q` the same of dtype `d`, `c` by channels.
TEXTS = """
q
q.int_repr()
q.dequantize()
t.dequantize(q)
t.dequantize([q, q])[1]
t.int_repr(q)
q.q_scale(), q.q_zero_point(), q.qscheme(), q.dtype, q.is_quantized, q.shape, q.layout, q.element_size(), q.numel(), len(q), q.type()
t.q_scale(q), t.q_zero_point(q)
q[0]
q[:, 1:]
q.view(-1)
q.reshape(3, 2)
q.t()
q.transpose(0, 1)
q.permute(1, 0)
q.flatten()
q.unsqueeze(0).squeeze()
q.expand(2, 2, 3)
q.clone()
q.detach()
q.contiguous()
q.chunk(2)
q.split(1)
q.index_select(0, t.tensor([1]))
t.cat([q, q])
t.stack([q, q])
q.relu()
q.max()
q.min()
q.sort()
q.mean()
q == q
q > 0
q.equal(q), q.equal(q.clone()), q.equal(q.relu())
q.copy_(x * 2)
q.fill_(1)
q.masked_fill(x > 0, 0)
q[0, 0].item()
F.max_pool2d(q.view(1, 1, 2, 3), 1)
F.interpolate(q.view(1, 1, 2, 3), scale_factor=2)
q.float()
q.to(t.float32)
q.item()
q.numpy()
q.tolist()
q.requires_grad_()
q.requires_grad
t.quantize_per_tensor(x, 0.1, 3000000000, d)
t.quantize_per_tensor(t.tensor([0.05, 0.15, 0.25, -0.05]), 0.1, 1, d)
t.quantize_per_tensor(t.tensor([float("inf"), -float("inf")]), 0.1, 0, d).int_repr().bool()
t.quantize_per_tensor(t.tensor([]), 0.1, 0, d)
t.quantize_per_tensor(t.tensor(1.0), 0.1, 0, d)
t.quantize_per_tensor(x.double(), 0.1, 0, d)
t.quantize_per_tensor(x, 0.1, 0, t.float32)
t.quantize_per_tensor(x, t.tensor(0.1), t.tensor(3), d)
t.quantize_per_tensor([x, x], t.tensor([0.1, 0.2]), t.tensor([3, 4]), d)
t.quantize_per_tensor_dynamic(x, t.quint8, False)
t.quantize_per_tensor_dynamic(x, t.qint8, False)
t.quantize_per_tensor_dynamic(x, t.qint8, True)
t.quantize_per_tensor_dynamic(x.abs() + 1, t.quint8, True)
t.quantize_per_tensor_dynamic(-x.abs(), t.quint8, True)
t.quantize_per_tensor_dynamic(x * 0, t.quint8, False)
t._choose_qparams_per_tensor(x)
t._make_per_tensor_quantized_tensor(t.tensor([1, 2], dtype=t.uint8), 0.5, 1)
t._make_per_channel_quantized_tensor(t.tensor([1, 2], dtype=t.int8), t.tensor([0.5, 1.0]), t.tensor([1, 0]), 0)
c
c.int_repr()
c.dequantize()
c.q_per_channel_scales(), c.q_per_channel_zero_points(), c.q_per_channel_axis(), c.qscheme()
t.q_per_channel_scales(c), t.q_per_channel_zero_points(c), t.q_per_channel_axis(c)
c[0]
c.clone()
c.t()
c.q_scale()
q.q_per_channel_axis()
t.quantize_per_channel(x, t.tensor([0.1, 0.5, 1.0]), t.tensor([0, 10, 1]), 1, d)
t.quantize_per_channel(x, t.tensor([0.1]), t.tensor([0]), 0, d)
t.dequantize(x)
x.dequantize()
t.per_tensor_affine, t.per_tensor_symmetric, t.per_channel_affine, t.per_channel_symmetric, t.per_channel_affine_float_qparams
isinstance(q, t.Tensor), isinstance(q.qscheme(), t.qscheme)
""".strip().splitlines()


def said(t: Any, text: str, kind: str) -> Any:
    d, x = getattr(t, kind), t.tensor([[-1.0, 0.0, 1.0], [2.0, 0.26, 300.0]])
    if kind == "qint32" and "_channel" in text:
        return None
    q = t.quantize_per_tensor(x, 0.1, 10, d)
    c = t.quantize_per_channel(x, t.tensor([0.1, 0.5]), t.tensor([0, 10]), 0, d) if kind != "qint32" else q
    try:
        found = eval(text, {"t": t, "F": t.nn.functional, "q": q, "c": c, "x": x, "d": d})
    except Exception as error:
        return type(error).__name__, re.sub(r"\(Could.*", "", str(error)).strip()
    return str(found).replace("nbgrad.", "torch.")


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["quint8", "qint8", "qint32"])
def test_quantised_tensors_are_torchs(kind: str, torch: ModuleType) -> None:
    wrong = []
    for text in TEXTS:
        ours, theirs = said(T, text, kind), said(torch, text, kind)
        if ours != theirs:
            wrong.append(f"{text}\n  {ours}\n  {theirs}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_whole_numbers_are_torchs_of_many_real_ones(torch: ModuleType) -> None:
    T.manual_seed(0)
    x = T.randn(100_003) * 7
    x[::7] = (x[::7] * 4).round() / 8  # halves
    for scale, zero, kind in ((0.25, 3, "qint8"), (0.1, 100, "quint8"), (1e-3, -5, "qint32")):
        ours = T.quantize_per_tensor(x, scale, zero, getattr(T, kind))
        theirs = torch.quantize_per_tensor(torch.from_numpy(x.numpy()), scale, zero, getattr(torch, kind))
        assert (ours.int_repr().numpy() == theirs.int_repr().numpy()).all(), (scale, zero, kind)
        assert T.allclose(ours.dequantize(), T.from_numpy(theirs.dequantize().numpy()), rtol=1e-6, atol=1e-7)


def test_a_quantised_tensor_pickles_and_a_view_shares_its_numbers() -> None:
    q = T.quantize_per_tensor(T.tensor([[1.0, 2.0], [3.0, 4.0]]), 0.5, 0, T.quint8)
    other = pickle.loads(pickle.dumps(q))
    assert other.equal(q) and other.qscheme() is T.per_tensor_affine
    q.view(-1)[0].fill_(4.0)
    assert q[0, 0].item() == 4.0 and other[0, 0].item() == 1.0
