"""Nested tensors beside PyTorch's: values, sizes, gradients, refusals, in both layouts."""

import copy
import math
import pickle
import re
from types import ModuleType
from typing import Any

import pytest

from tests.support import T

# `n` is nested and requires grad (parts of [2, 4] and [3, 4]), `m` is of the same cut, `a` and `b` are its parts, `w` is [4, 2].
BOTH = """
n * m
n + m
n - 2 * m
n / m
-n
n.abs()
n.sqrt()
n.tanh()
n.relu()
n.sin().cos()
n > 0.5
n.double()
n.int()
n.clone()
n.detach()
n.masked_fill(n > 0.5, 0.0)
F.gelu(n)
F.silu(n)
F.dropout(n, 0.5, False)
F.linear(n, w.t())
F.linear(n, w.t(), w[0])
F.softmax(n, -1)
F.layer_norm(n, (4,), w[:, 0], w[:, 1])
F.embedding(nest([t.tensor([0, 1]), t.tensor([3])]), w)
n.transpose(1, 2)
n.transpose(1, 2).transpose(-1, -2)
n.unsqueeze(1)
n.view(2, -1, 2, 2)
n.select(0, 1)
n[0]
n[-1]
n[0, 1]
n[..., 2]
n.unbind()
n.chunk(2, -1)
n.mT
n.size(0), n.size(-1), n.dim(), n.numel(), n.dtype, n.layout, n.is_nested, n.is_leaf
n.values()
n.to_padded_tensor(-1.0)
n.to_padded_tensor(0.0, (2, 5, 4))
t.nested.to_padded_tensor(n, 2.0)
n.view(2, -1, 2, 2).transpose(1, 2).transpose(1, 2)
t.bmm(n.transpose(1, 2), n)
t.matmul(n.transpose(1, 2), n)
t.zeros_like(n)
t.ones_like(n)
n.detach().mul_(2)
n.detach().fill_(3)
n.detach().zero_()
n.detach().requires_grad_()
nest([a, b])
nest([a.double(), b.double()])
nest([a[0], b[0, :2]])
nest([[1, 2], [3]])
t.nested.as_nested_tensor(t.ones(2, 3), layout=n.layout)
t.nested.as_nested_tensor(n)
t.nested.as_nested_tensor(3)
t.nested.as_nested_tensor(t.ones(2))
t.nested.nested_tensor(3)
t.nested.nested_tensor([t.ones(2)], layout=t.sparse_coo)
nest([t.ones(2), t.ones(2, 3)])
n.size(5)
n[2]
n.softmax(0)
n.transpose(0, 1)
n.unsqueeze(0)
n.unbind(1)
n.item()
bool(n)
n.backward()
n + nest([a, a])
n.view(3, -1, 4)
t.autograd.grad(n.to_padded_tensor(0.0).sum(), n)
""".strip().splitlines()

OF_JAGGED = """
n.exp()
n.log1p()
n ** 2
2 ** n
1 - n
n.clamp(0.2, 0.6)
n.pow(m)
t.where(n > 0.5, n, m)
t.where(n > 0.5, n.half(), t.ones(1))
t.where(n > 0.5, t.tensor(2.0), n.half())
t.maximum(n, m)
F.elu(n)
F.hardtanh(n, 0.1, 0.5)
n + w[:, 0]
n * t.arange(2.0).reshape(2, 1, 1)
n + t.arange(24.0).reshape(2, 3, 4)
n - n.mean(1, keepdim=True)
t.ones(4) / n
n + t.ones(3, 1, 4)
n + t.ones(1, 2, 3, 4)
n.sum()
n.sum(1)
n.sum(-1)
n.sum(-1, keepdim=True)
n.sum(1, keepdim=True)
n.sum((0, 1))
n.mean()
n.mean(1)
n.mean(-1)
n.amax(1)
n.amin(-1)
n.max(1)
n.min(-1)
n.max()
n.argmax(1)
n.prod(1)
(n > 0.5).any(1)
(n > 0.5).all()
n.sum(0)
n.sum((1, 2))
n.detach().softmax(1)
n.log_softmax(-1)
n.log_softmax(1)
F.rms_norm(n, (4,))
F.rms_norm(n, (3, 4))
n @ w
n @ t.stack([w, w])
n.transpose(1, 2).softmax(2)
t.ones(3, 4) @ n.transpose(1, 2)
n @ n
n.unflatten(-1, (2, 2))
n.unflatten(-1, (2, 2)).flatten(-2)
n.permute(0, 2, 1)
n.permute(1, 0, 2)
n.reshape(2, -1, 2, 2)
n.reshape(-1, 4)
n.split(2, -1)
n.detach().split([1, 3], -1)
n.split(1)
n.chunk(2)
n.narrow(-1, 1, 2)
n[..., 1:3]
n[1:]
n.select(1, 0)
n.select(2, 0)
n.squeeze(0)
t.cat([n, m], -1)
t.cat([n, m])
t.stack([n, m], 2)
n.expand(2, n.shape[1], 4)
n.shape
n.stride()
n.shape[1] * 2
n.shape[1] == m.shape[1], n.shape[1] == 2, n.shape[1] >= 2
n.shape[1] > 3
n.offsets(), n.lengths(), n.is_contiguous()
n.to_padded_tensor(0.0, (2, 2, 4))
t.nested.nested_tensor_from_jagged(t.arange(10.0).reshape(5, 2), t.tensor([0, 2, 5]))
t.nested.nested_tensor_from_jagged(t.arange(5.0), lengths=t.tensor([2, 3]))
t.nested.nested_tensor_from_jagged(t.arange(12.0).reshape(6, 2), t.tensor([0, 2, 3, 6]), t.tensor([1, 1, 2])).unbind()
t.nested.nested_tensor_from_jagged(t.arange(12.0).reshape(6, 2), t.tensor([0, 2, 3, 6]), t.tensor([1, 1, 2])).sum(1)
t.nested.nested_tensor_from_jagged(t.arange(12.0).reshape(6, 2), t.tensor([0, 2, 6]), t.tensor([1, 1])).to_padded_tensor(0.0)
t.nested.nested_tensor_from_jagged(t.ones(2, 6), t.tensor([0, 2, 6]), jagged_dim=2)
t.nested.nested_tensor_from_jagged(t.ones(3))
t.nested.nested_tensor_from_jagged(t.ones(3), t.tensor([0, 3]), jagged_dim=0)
t.nested.narrow(t.arange(12.0).reshape(3, 4), 1, t.tensor([0, 1, 2]), t.tensor([2, 3, 1]), layout=t.jagged)
t.nested.narrow(t.arange(12.0).reshape(3, 4), 1, 1, 2, layout=t.jagged)
t.nested.narrow(t.arange(12.0).reshape(3, 4), 0, 1, 2, layout=t.jagged)
t.nested.narrow(t.ones(3, 4), 1, 0.5, 1)
t.nested.masked_select(t.arange(9.0).reshape(3, 3), t.eye(3).bool())
nest([])
nest([a, b.double()])
nest([t.ones(2, 3), t.ones(3, 2)])
nest([1, 2])
n.numpy()
n.tolist()
repr(n * 1), repr(n.detach())
""".strip().splitlines()

OF_STRIDED = """
n.sum(-1, keepdim=True)
n.sum(-1)
n.sum(1)
n.softmax(1)
n @ n.transpose(1, 2)
n @ w
n + w[:, 0]
n + nest([a[:, :1], b])
n.narrow(0, 1, 1)
n.to_padded_tensor(0.0, (2, 2, 4))
n.size(1)
n.size()
n.shape
n.stride()
n.unsqueeze(1).squeeze(1)
nest([t.ones(2, 3), t.ones(1, 4)])
nest([])
nest([t.ones(2), t.ones(3).int()])
t.nested.narrow(t.arange(12.0).reshape(3, 4), 0, 1, 2)
repr(n), repr(n * 2), repr(n.detach()), repr(n.double())
repr(nest([]))
""".strip().splitlines()


def shown(t: Any, found: Any) -> Any:
    """What is compared: of a nested tensor its parts, and whether it has history."""
    if isinstance(found, (tuple, list)) and type(found) is not t.Size:
        return [shown(t, one) for one in found]
    if not isinstance(found, t.Tensor):
        text = str(found).replace("nbgrad.", "torch.")
        return re.sub(r"j\d+", "j", re.sub(r" object at 0x[0-9a-f]+", "", text))
    head = found.dtype, found.requires_grad, found.is_nested
    if not found.is_nested:
        return *map(str, head), tuple(found.shape), found.detach().tolist()
    parts = [(tuple(part.shape), part.detach().tolist()) for part in found.unbind()]
    return *map(str, head), str(found.layout), found.dim(), parts


def _sum(t: Any, found: Any) -> Any:
    """Of all that has history a sum in which no element counts as another one does."""
    if isinstance(found, (tuple, list)):
        parts = [_sum(t, one) for one in found]
        return (
            sum([part for part in parts if part is not None]) if any(p is not None for p in parts) else None
        )
    if not isinstance(found, t.Tensor) or not found.requires_grad:
        return None
    if found.is_nested and found.layout is t.jagged:
        return _sum(t, found.values())
    if found.is_nested:
        return _sum(t, [part * (k + 1) for k, part in enumerate(found.unbind())])
    return (found * t.arange(1.0, found.numel() + 1).reshape(found.shape)).sum()


def said(t: Any, text: str, layout: str) -> Any:
    kind = getattr(t, layout)
    a, b = t.arange(1.0, 9.0).reshape(2, 4) / 8, t.arange(1.0, 13.0).reshape(3, 4) / 12

    def nest(parts: Any) -> Any:
        return t.nested.nested_tensor(parts, layout=kind)

    n = t.nested.nested_tensor([a, b], layout=kind, requires_grad=True)
    m = (n.detach() + 1).requires_grad_()
    w = (t.arange(8.0).reshape(4, 2) / 8).requires_grad_()
    names = {"t": t, "F": t.nn.functional, "n": n, "m": m, "a": a, "b": b, "w": w, "nest": nest}
    try:
        found = eval(text, names)
    except Exception as error:
        return [type(error).__name__, re.sub(r"j\d+", "j", str(error))]
    total = _sum(t, found)
    try:
        if total is not None:
            total.backward()
    except (
        NotImplementedError,
        RuntimeError,
        ValueError,
        AttributeError,
    ):  # PyTorch has no gradients of some
        return [shown(t, found), "refused"]
    given = [x.grad for x in (n, m, w)] if text[:4] != "repr" else []
    return [shown(t, found), [None if g is None else shown(t, g) for g in given]]


def close(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(close(x, y) for x, y in zip(ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=2e-5, abs_tol=2e-5) or (ours != ours and theirs != theirs)
    return bool(ours == theirs)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("layout", "text"),
    [(layout, text) for layout in ("strided", "jagged") for text in BOTH]
    + [("jagged", text) for text in OF_JAGGED]
    + [("strided", text) for text in OF_STRIDED],
)
def test_nested_tensors_are_torchs(layout: str, text: str, torch: ModuleType) -> None:
    ours, theirs = said(T, text, layout), said(torch, text, layout)
    if theirs[-1] == "refused":
        ours, theirs = ours[:-1], theirs[:-1]
    assert close(ours, theirs), f"\n{ours}\n{theirs}"


def _jagged(*parts: Any) -> Any:
    return T.nested.nested_tensor([*parts], layout=T.jagged)


@pytest.mark.parametrize(
    "compute",
    [
        lambda n: n.softmax(1),
        lambda n: (n - n.mean(1, keepdim=True)) ** 3,
        lambda n: n.transpose(1, 2).contiguous().exp(),
        lambda n: n.split([1, 2], -1)[1] @ T.ones(2, 2, dtype=T.float64),
    ],
)
def test_gradients_of_what_is_cut(compute: Any) -> None:
    """Also where PyTorch's own adds over all parts (softmax along the dimension in which they differ) or ends the process (split)."""
    values = T.linspace(0.1, 1.5, 15, dtype=T.float64).reshape(5, 3).requires_grad_()
    cut = T.tensor([0, 2, 5])

    def flat(v: Any) -> Any:
        return compute(T.nested.nested_tensor_from_jagged(v, cut)).values()

    assert T.autograd.gradcheck(flat, values)
    assert T.autograd.gradgradcheck(flat, values)


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_a_copy_is_one_of_its_own(layout: str) -> None:
    n = T.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=getattr(T, layout), requires_grad=True)
    for other in (copy.deepcopy(n), pickle.loads(pickle.dumps(n))):
        assert other.layout is n.layout and other.requires_grad and other.is_leaf
        assert [part.tolist() for part in other.unbind()] == [[1.0, 2.0], [3.0]]
        with T.no_grad():
            other.mul_(2)
    assert n.values().tolist() == [1.0, 2.0, 3.0]


def test_what_is_written_into_is_the_tensor_itself() -> None:
    n = _jagged(T.ones(2), T.ones(3))
    same, values = n, n.values()
    n += 1
    assert n is same and values.tolist() == [2.0] * 5


def test_what_two_are_cut_by_is_asked_and_not_how_long_parts_are() -> None:
    a, b = _jagged(T.ones(2), T.ones(3)), _jagged(T.ones(2), T.ones(3))
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function add"):
        a + b
    again = T.nested.nested_tensor_from_jagged(b.values(), a.offsets())
    assert (a + again).values().tolist() == [2.0] * 5


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_a_layer_of_attention_sees_each_part_alone(layout: str) -> None:
    T.manual_seed(0)
    layer = T.nn.TransformerEncoder(T.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2)
    parts = [T.rand(2, 4), T.rand(3, 4)]
    found = layer(T.nested.nested_tensor(parts, layout=getattr(T, layout), requires_grad=True))
    for part, one in zip(parts, found.unbind(), strict=True):
        assert T.allclose(one, layer(part[None])[0], atol=1e-6)


def test_a_hook_sees_a_nested_gradient() -> None:
    n = T.nested.nested_tensor([[1.0, 2.0], [3.0]], requires_grad=True)
    twice = n * 2
    twice.register_hook(lambda g: g * 10)
    twice.backward(T.nested.nested_tensor([[1.0, 1.0], [2.0]]))
    assert [part.tolist() for part in n.grad.unbind()] == [[20.0, 20.0], [40.0]]
