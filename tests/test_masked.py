"""Reductions by a mask, against PyTorch's: values, dtypes, gradients, refusals."""

from types import ModuleType
from typing import Any

import pytest

from tests.support import T

# `x` floats, `i` integers, `b` truth values, `mask`, of which the last row lets nothing through.
TEXTS = """
m.sum(x, 1, mask=mask)
m.sum(x, mask=mask)
m.sum(x)
m.sum(x, (0, 1), keepdim=True, mask=mask)
m.sum(i, 1, mask=mask)
m.sum(b, 1, mask=mask)
m.sum(x, 0, dtype=t.float64, mask=mask)
m.sum(x, (), mask=mask)
m.sum(x, 1, mask=mask[0])
m.sum(x, 1, mask=t.ones(3, 3, 3).bool())
m.sum(x, 5)
m.sum(x, (1, 1))
m.prod(x, 1, mask=mask)
m.prod(x, (0, 1), mask=mask)
m.prod(i, 1, mask=mask)
m.mean(x, 1, mask=mask)
m.mean(x, mask=mask)
m.mean(x, 1)
m.mean(i, 1, mask=mask)
m.amax(x, 1, mask=mask)
m.amin(x, 1, mask=mask)
m.amax(i, 1, mask=mask)
m.amin(i, 0, mask=mask)
m.amax(b, 1, mask=mask)
m.amax(t.ones(0, 3), 0)
m.argmax(x, 1, mask=mask)
m.argmin(x, 1, mask=mask)
m.argmax(x, mask=mask)
m.argmin(i, 0, keepdim=True, mask=mask)
m.argmax(x, 1)
m.var(x, 1, mask=mask)
m.var(x, 1, False, mask=mask)
m.var(x, 1, correction=0, mask=mask)
m.var(x, 0, keepdim=True, mask=mask)
m.var(x, mask=mask)
m.var(i, 1, mask=mask)
m.std(x, 1, mask=mask)
m.std(x, 0, True, mask=mask)
m.norm(x, 2, 1, mask=mask)
m.norm(x, float("inf"), 1, mask=mask)
m.norm(x, -float("inf"), 1, mask=mask)
m.norm(x, 1.0, 1, mask=mask)
m.norm(x, mask=mask)
m.softmax(x, 1, mask=mask)
m.log_softmax(x, 1, mask=mask)
m.softmin(x, 1, mask=mask)
m.softmax(x, 1)
m.normalize(x, 2.0, 1, mask=mask)
m.logsumexp(x, 1, mask=mask)
m.logsumexp(x, 1, keepdim=True)
m.cumsum(x, 1, mask=mask)
m.cumprod(x, 1, mask=mask)
m.cumsum(x, 0)
m.median(x, 1, mask=mask)
m.median(x, 1)
m.logaddexp(x, x, input_mask=mask, other_mask=mask)
""".strip().splitlines()


def said(t: Any, text: str) -> tuple[str, Any]:
    x = t.tensor([[1.0, 2.0, -3.0], [4.0, 0.5, 6.0], [7.0, 8.0, 9.0]], requires_grad=True)
    mask = t.tensor([[True, False, True], [True, True, False], [False, False, False]])
    i = t.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    try:
        found = eval(text, {"t": t, "m": t.masked, "x": x, "i": i, "b": i > 2, "mask": mask})
    except Exception as error:
        return type(error).__name__, str(error)
    if found.requires_grad:
        found.nan_to_num(0.0, 0.0, 0.0).sum().backward()
    gradient = None if x.grad is None else (x.grad + 0.0).tolist()
    return f"{found.dtype} {found.requires_grad}", (found.detach().tolist(), gradient)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", TEXTS)
def test_what_masks_let_through_is_torchs(text: str, torch: ModuleType) -> None:
    (ours, its), (theirs, others) = said(T, text), said(torch, text)
    assert ours == theirs
    if isinstance(its, str):
        assert its == others
    else:
        for a, b in zip(its, others, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert T.allclose(
                    T.tensor(a, dtype=T.float64), T.tensor(b, dtype=T.float64), 1e-5, 1e-6, True
                )


# `x` is masked and requires grad, `d` and `mask` are what it was made of.
OF_TENSORS = """
x
x.sum()
x.sum(1)
x.sum(1, True)
x.sum((0, 1))
x.mean()
x.mean(0)
x.prod(1)
x.amax(1)
x.amin()
x.argmax(1)
x.argmin()
(x > 0).all(1)
x.var(1)
x.std(1)
t.sum(x, 1)
t.amax(x, dim=0, keepdim=True)
x + x
x * 2
x - d
d / x
x + m.masked_tensor(d, ~mask)
x.exp()
-x
x.abs().sqrt()
x.log()
x > 1
x < 1
x == x
x**2
x.pow(3)
x.clamp(0, 1)
t.maximum(x, x * 2)
x.softmax(1) ** 2
t.where(mask, x, x * 2)
x.t()
x.transpose(0, 1)
x[0]
x[:, 1]
x[0, 0]
x[0, 1]
x.view(-1)
x.reshape(3, 2)
x.unsqueeze(0)
x.expand(2, 2, 3)
x.flatten()
x.split(1)
x.chunk(2)
t.cat([x, x])
t.stack([x, x * 2])
x.get_data()
x.get_mask()
x.to_tensor(7)
x.double()
x.int()
x.clone()
x.detach()
x.contiguous()
x.to_dense()
x.to_sparse()
x.to_sparse().sin()
x.to_sparse() * 2
x.detach().to_sparse().sum()
x.to_sparse_csr()
x.to_sparse().to_dense()
x.sum().item()
x[0, 1].item()
x.detach().abs_()
x.detach().add_(1)
x.median()
x.cumsum(1)
x.max()
x.numpy()
x.tolist()
t.ones_like(x)
len(x), x.shape, x.dtype, x.layout, x.is_leaf, x.requires_grad, x.stride(), x.is_contiguous(), m.is_masked_tensor(x)
m.masked_tensor(1, mask)
m.masked_tensor(d, 1)
m.masked_tensor(x, mask)
m.masked_tensor(d, mask.int())
m.masked_tensor(d, mask[0])
m.masked_tensor(d[:, :2], mask)
m.masked_tensor(d.bfloat16(), mask)
m.masked_tensor(d.to_sparse(), mask)
m.masked_tensor(d.long(), mask)
m.masked_tensor(d > 0, mask)
m.masked_tensor(t.tensor(1.0), t.tensor(True))
m.masked_tensor(t.tensor(1), t.tensor(False))
m.masked_tensor(t.zeros(2, 2, 1), t.ones(2, 2, 1).bool())
m.as_masked_tensor(d, mask).sum()
m.sum(x, 1)
m.softmax(x, 1)
m.amax(x, 1)
m.logsumexp(x, 1)
""".strip().splitlines()


def told(t: Any, text: str) -> Any:
    d = t.tensor([[1.0, 2.0, -3.0], [4.0, 0.5, 6.0]])
    mask = t.tensor([[True, False, True], [False, True, True]])
    x = t.masked.masked_tensor(d, mask, requires_grad=True)
    try:
        found = eval(text, {"t": t, "m": t.masked, "x": x, "d": d, "mask": mask})
    except Exception as error:
        return type(error).__name__, str(error).partition(" for 'torch")[0]
    try:
        if isinstance(found, t.Tensor) and found.requires_grad and not found.is_sparse:
            total = found.sum() if t.masked.is_masked_tensor(found) else found.pow(2).sum()
            total.backward()
        gradient = None if x.grad is None else str(x.grad.to_tensor(0) + 0.0)
    except (
        NotImplementedError,
        TypeError,
        RuntimeError,
        ValueError,
        AttributeError,
    ):  # PyTorch has none of some
        gradient = "refused"
    head = (str(found.dtype), found.requires_grad) if isinstance(found, t.Tensor) else ()
    return head, str(found).partition(", grad_fn")[0].replace("nbgrad.", "torch."), gradient


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", OF_TENSORS)
def test_masked_tensors_are_torchs(text: str, torch: ModuleType) -> None:
    ours, theirs = told(T, text), told(torch, text)
    if theirs[-1] == "refused":
        ours, theirs = ours[:-1], theirs[:-1]
    assert ours == theirs


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_what_is_masked_reaches_no_gradient() -> None:
    x = T.tensor([0.0, 1.0, 4.0], requires_grad=True)
    mask = T.tensor([False, True, True])
    for compute in (lambda v: v.log().sum(), lambda v: (1 / v).mean(), lambda v: v.sqrt().to_tensor(0).sum()):
        x.grad = None
        total = compute(T.masked.as_masked_tensor(x, mask))
        (total.get_data() if T.masked.is_masked_tensor(total) else total).backward()
        assert x.grad[0] == 0 and x.grad.isfinite().all()


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_a_function_of_torch_masked_sees_both_masks() -> None:
    x = T.masked.masked_tensor(T.tensor([1.0, 2.0, 4.0]), T.tensor([True, True, False]))
    assert T.masked.sum(x, 0, mask=T.tensor([False, True, True])).item() == 2.0
    assert T.masked.mean(x, 0).item() == 1.5


def test_who_makes_one_is_told_that_it_is_a_prototype() -> None:
    with pytest.warns(UserWarning, match="prototype"):
        x = T.masked.masked_tensor(T.ones(2), T.tensor([True, False]))
    assert T.masked.is_masked_tensor(x) and not T.masked.is_masked_tensor(x.get_data())
