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
