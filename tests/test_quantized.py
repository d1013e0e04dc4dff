"""Quantised tensors beside PyTorch's: numbers, what moves them, what is said of them, refusals."""

import io
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
q.sigmoid(), t.sigmoid(q).q_scale(), q.tanh(), t.tanh(q).q_zero_point()
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
c[1:], c[:, 1:], c[1, 2], c[None], c[::2], c[..., 1:], c[0, None], c[1:, None].q_zero_point()
c.select(0, 1), c.narrow(0, 1, 1), c.narrow(1, 1, 1), c.unsqueeze(1), c.unsqueeze(-1), c.unsqueeze(0)[0]
c.chunk(2), c.split(2, 1), c.unbind(), c.squeeze(), c.squeeze(1)
c[1:].squeeze(), c.unsqueeze(0).squeeze(), c.unsqueeze(0).squeeze(0), c.unsqueeze(2).squeeze((0, 2))
t.quantize_per_channel(x[:, :1], t.tensor([0.5]), t.tensor([1]), 1, d).squeeze()
t.quantize_per_channel(x[:1], t.tensor([0.1, 0.5, 1.0]), t.tensor([0, 10, 1]), 1, d)[0]
c.unfold(0, 1, 1)
c.diagonal()
q.unfold(1, 2, 1), q.ravel(), q.tile(2), q.unflatten(1, (3, 1)), q.diagonal(), q.as_strided((2,), (1,)), q.view_as(q), q[0].expand_as(x)
q.clone().squeeze_(), q.clone().unsqueeze_(0), q.clone().transpose_(0, 1), q.clone().t_(), q.detach_(), q.nbytes
q.clone().relu_(), F.hardtanh_(q.clone(), 0, 1), q.clone().masked_fill_(x > 0, 0), q.argsort(), q.msort(), q.std(), bool(q[0, 0])
bool(q)
written(q, 0, 1.0), written(q, (0, 1), t.tensor(3.0)), written(q, x > 1, 2.0), written(q, (1, slice(1)), t.ones(1))
written(q, t.tensor([1]), t.zeros(3)), written(q, 0, q[1]), written(q, [1], 5)
written(q, 0, t.ones(4))
written(q, 5, 1.0)
written(q, 0, t.quantize_per_tensor(x[0], 0.1, 10, t.qint32 if d is t.qint8 else t.qint8))
t.dequantize(x)
x.dequantize()
t.per_tensor_affine, t.per_tensor_symmetric, t.per_channel_affine, t.per_channel_symmetric, t.per_channel_affine_float_qparams
isinstance(q, t.Tensor), isinstance(q.qscheme(), t.qscheme)
""".strip().splitlines()


def written(q: Any, index: Any, value: Any) -> Any:
    q = q.clone()
    q[index] = value
    return q


def said(t: Any, text: str, kind: str) -> Any:
    d, x = getattr(t, kind), t.tensor([[-1.0, 0.0, 1.0], [2.0, 0.26, 300.0]])
    if kind == "qint32" and "_channel" in text:
        return None
    q = t.quantize_per_tensor(x, 0.1, 10, d)
    c = t.quantize_per_channel(x, t.tensor([0.1, 0.5]), t.tensor([0, 10]), 0, d) if kind != "qint32" else q
    try:
        found = eval(text, {"t": t, "F": t.nn.functional, "written": written, "q": q, "c": c, "x": x, "d": d})
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


def test_writes_round_to_the_scale_of_what_is_written_to() -> None:
    q = T.quantize_per_tensor(T.zeros(2, 2), 0.5, 0, T.quint8)
    q[0] = T.quantize_per_tensor(T.tensor([1.0, 3.0]), 1.0, 5, T.quint8)
    assert q.dequantize().tolist() == [[1.0, 3.0], [0.0, 0.0]]


def things(t: Any) -> dict[str, Any]:
    x = t.tensor([[0.0, 0.5, 1.3], [2.0, 3.0, -4.0]])
    q = t.quantize_per_tensor(x, 0.5, 10, t.quint8)
    c = t.quantize_per_channel(x, t.tensor([0.5, 1.0]), t.tensor([1, 2]), 0, t.qint8)
    n = t.nested.nested_tensor([[[1.0, 2.0]], [[3.0], [4.0]]])
    empty = t.quantize_per_tensor(x[:0], 0.5, 10, t.qint32)
    return {
        "q": q,
        "view": q.t()[1:],
        "wide": q[:1].expand(2, 3),
        "c": c,
        "n": n,
        "empty": empty,
        "scheme": q.qscheme(),
    }


def plain(held: dict[str, Any]) -> dict[str, str]:
    return {
        k: f"{v!r} {v.stride() if k in ('view', 'wide') else ''}".replace("nbgrad.", "torch.")
        for k, v in held.items()
    }


def stored(writer: Any, reader: Any, older: bool = False, **named: Any) -> Any:
    file = io.BytesIO()
    writer.save(things(writer), file, _use_new_zipfile_serialization=not older)
    file.seek(0)
    return reader.load(file, **named)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("weights_only", [False, True])
def test_files_keep_quantised_and_nested_tensors(older: bool, weights_only: bool) -> None:
    found = stored(T, T, older, weights_only=weights_only)
    assert plain(found) == plain(things(T)) and found["scheme"] is T.per_tensor_affine
    found["q"][0, 1] = 9.0
    assert found["view"][0, 0].item() == 9.0  # which shares its memory, as before


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_files_of_quantised_and_nested_tensors_cross(torch: ModuleType) -> None:
    assert plain(stored(T, torch)) == plain(things(torch)) == plain(things(T))
    assert plain(stored(torch, T)) == plain(things(T))


def test_a_file_that_lies_of_a_quantised_tensor_is_refused() -> None:
    c = things(T)["c"]
    for told in (
        (T.per_tensor_affine, 1.0, 0, 0),
        (T.per_channel_affine, T.ones(3), T.zeros(3), 0),
        (T.qint8,),
        (),
    ):
        make, (memory, *lies, _, grad, hooks) = c.__reduce_ex__(2)
        with pytest.raises((RuntimeError, TypeError)):
            make(memory, *lies, told, grad, hooks)
    with pytest.raises(pickle.UnpicklingError, match="no whole numbers"):
        make(T.ones(4).untyped_storage(), *lies, (T.per_tensor_affine, 1.0, 0), grad, hooks)
    remake, (buffer, sizes, *rest) = things(T)["n"].__reduce_ex__(2)
    with pytest.raises(RuntimeError):
        remake(buffer, sizes * 100, *rest)
