"""Bags of rows, and losses of labels whose steps are not known: by hand, and drawn beside PyTorch."""

import itertools
import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import array, assert_same, outcome
from tests.support import T

F = T.nn.functional


def ctc_by_enumeration(log_probs: np.ndarray, labels: list[int]) -> float:
    """Of all strings of classes those that are the labels once repetitions and then blanks are taken out."""
    steps, classes = log_probs.shape
    total = 0.0
    for way in itertools.product(range(classes), repeat=steps):
        if [c for c, _ in itertools.groupby(way) if c] == labels:
            total += math.exp(sum(log_probs[t, c] for t, c in enumerate(way)))
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("labels", [[], [1], [1, 2], [2, 2], [1, 2, 1], [1, 1, 1]])
def test_ctc_is_a_sum_over_all_ways(labels: list[int]) -> None:
    log_probs = T.tensor(np.random.default_rng(1).normal(size=(4, 3))).log_softmax(1)
    got = F.ctc_loss(log_probs, T.tensor(labels, dtype=T.int64), (4,), (len(labels),), reduction="none")
    assert got.item() == pytest.approx(ctc_by_enumeration(array(log_probs), labels), rel=1e-12)


def test_ctc_has_the_gradient_of_what_it_is_given() -> None:
    x = T.tensor(np.random.default_rng(2).normal(size=(5, 2, 4)), requires_grad=True)
    targets, steps, lengths = T.tensor([[1, 1, 2], [3, 0, 0]]), (5, 3), (3, 1)
    T.autograd.gradcheck(lambda x: F.ctc_loss(x.log_softmax(2), targets, steps, lengths), x)
    with pytest.raises(RuntimeError, match="_ctc_loss_backward is not implemented"):
        g = T.autograd.grad(F.ctc_loss(x, targets, steps, lengths), x, create_graph=True)[0]
        T.autograd.grad(g.sum(), x)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_their_rows(mode: str) -> None:
    w = T.tensor(np.random.default_rng(3).normal(size=(6, 3)), requires_grad=True)
    index, offsets = T.tensor([5, 1, 1, 0, 2, 4]), T.tensor([0, 3, 3, 4])
    got = F.embedding_bag(index, w, offsets, mode=mode, padding_idx=4)
    for k, rows in enumerate(([5, 1, 1], [], [0], [2])):
        own = w[rows]
        want = own.amax(0) if mode == "max" and rows else own.sum(0) / max(len(rows) * (mode == "mean"), 1)
        assert_same(got[k].detach(), want.detach(), f"bag {k}")
    T.autograd.gradcheck(lambda w: F.embedding_bag(index, w, offsets, mode=mode, padding_idx=4), w)
    T.autograd.gradgradcheck(lambda w: F.embedding_bag(index, w, offsets, mode=mode, padding_idx=4), w)


def test_bags_on_meta_have_shapes() -> None:
    m = T.nn.EmbeddingBag(6, 2, device="meta")
    index = T.zeros(4, dtype=T.int64, device="meta")
    assert m(index, T.zeros(3, dtype=T.int64, device="meta")).shape == (3, 2)


REFUSED = (
    "F.embedding_bag(i, w)",
    "F.embedding_bag(i[None], w, o)",
    "F.embedding_bag(i[None, None], w)",
    "F.embedding_bag(i, w, o, mode='mean', per_sample_weights=w[:4, 0])",
    "F.embedding_bag(i, w, o, mode='sum', per_sample_weights=w[:3, 0])",
    "F.embedding_bag(i, w, o, mode='sum', per_sample_weights=w[:4, 0].double())",
    "F.embedding_bag(i, w, o, mode='x')",
    "F.embedding_bag(i, w, o, mode='max', scale_grad_by_freq=True)",
    "F.embedding_bag(i, w, o, mode='max', sparse=True)",
    "F.embedding_bag(i, w, o + 1)",
    "F.embedding_bag(i, w, o * 3)",
    "F.embedding_bag(i.float(), w, o)",
    "F.embedding_bag(i - 1, w, o, mode='max')",
    "F.embedding_bag(i, w, o[None])",
    "F.embedding_bag(i, w, o, padding_idx=6)",
    "F.embedding_bag(i, w[0], o)",
    "F.embedding_bag(i, w.long(), o)",
    "T.embedding_bag(w, i, o, False, 3)",
    "T.nn.EmbeddingBag(6, 2, padding_idx=-7)",
    "T.nn.EmbeddingBag(6, 2, _weight=w[:2])",
    "T.nn.EmbeddingBag.from_pretrained(w[0])",
    "F.ctc_loss(p, t, l.float(), n)",
    "F.ctc_loss(p.half(), t, l, n)",
    "F.ctc_loss(p, t, l, n, blank=4)",
    "F.ctc_loss(p, t, l + 1, n)",
    "F.ctc_loss(p, t, l - 6, n)",
    "F.ctc_loss(p, t, l, n + 1)",
    "F.ctc_loss(p, t.reshape(-1), l, n)",
    "F.ctc_loss(p, t, l[:1], n)",
    "F.ctc_loss(p, t, l, n[:1])",
    "F.ctc_loss(p, t[:1], l, n)",
    "F.ctc_loss(p, t[None], l, n)",
    "F.ctc_loss(p, t, l, n, reduction='x')",
    "F.ctc_loss(p[:0], t, l, n)",
)


@pytest.mark.oracle
def test_refusals(torch: ModuleType) -> None:
    def said(t: ModuleType, text: str) -> Any:
        w = t.arange(12.0).reshape(6, 2)
        scope = dict(T=t, F=t.nn.functional, w=w, i=t.tensor([0, 2, 5, 1]), o=t.tensor([0, 2]))
        scope |= dict(p=t.zeros(5, 2, 4).log_softmax(2), t=t.tensor([[1, 2], [3, 0]]))
        scope |= dict(l=t.tensor([5, 4]), n=t.tensor([2, 1]))
        return str(outcome(lambda: eval(text, scope))).replace("nbgrad.Tensor", "torch.Tensor")

    for text in REFUSED:
        want = said(torch, text)
        assert "Error" in want and said(T, text) == want, text


@pytest.mark.oracle
def test_drawn_bags(torch: ModuleType, whole: bool) -> None:
    def found(t: ModuleType, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        mode, dtype = str(rng.choice(["sum", "mean", "max"])), str(rng.choice(["float32", "float64"]))
        count, rows, columns = (int(n) for n in rng.integers([0, 1, 1], [20, 9, 40]))
        t.manual_seed(seed)
        padding = int(rng.integers(-rows, rows)) if rng.random() < 0.5 else None
        last = bool(rng.random() < 0.5)
        m = t.nn.EmbeddingBag(
            rows, columns, 1.5 if rng.random() < 0.2 else None, mode=mode, include_last_offset=last,
            padding_idx=padding, dtype=getattr(t, dtype),
        )  # fmt: skip
        index = t.tensor(rng.integers(0, rows, count)).to(t.int32 if rng.random() < 0.3 else t.int64)
        cuts = np.sort(rng.integers(0, count + 1, int(rng.integers(0, 5))))
        offsets = t.tensor([0, *cuts.tolist(), *[count] * last]).to(index.dtype)
        weights = t.tensor(rng.normal(size=count)).to(m.weight.dtype).requires_grad_()
        weighted = mode == "sum" and rng.random() < 0.5
        y = m(index, offsets, weights if weighted else None)
        g = t.tensor(rng.normal(size=tuple(y.shape))).to(y.dtype)
        wrt = [m.weight, weights] if weighted else [m.weight]
        return [repr(m), y, *t.autograd.grad(y, wrt, g)]

    for seed in range(500 if whole else 100):
        assert_same(found(T, seed), found(torch, seed), f"bags {seed}", 10.0)


@pytest.mark.oracle
def test_drawn_ctc_losses(torch: ModuleType, whole: bool) -> None:
    def found(t: ModuleType, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        steps, batch, classes, longest = (int(n) for n in rng.integers([1, 1, 2, 1], [12, 6, 7, 6]))
        blank, dtype = int(rng.integers(classes)), str(rng.choice(["float32", "float64"]))
        labels = [c for c in range(classes) if c != blank]
        lengths, counts = rng.integers(0, longest + 1, batch), rng.integers(0, steps + 1, batch)
        targets = rng.choice(labels, (batch, longest))
        if rng.random() < 0.5:
            targets = np.concatenate([row[:n] for row, n in zip(targets, lengths, strict=True)])
        x = t.tensor(rng.normal(size=(steps, batch, classes))).to(getattr(t, dtype)).requires_grad_()
        reduction, zero = str(rng.choice(["none", "mean", "sum"])), bool(rng.random() < 0.7)
        criterion = t.nn.CTCLoss(blank, reduction, zero)
        given = (t.tensor(targets), t.tensor(counts), t.tensor(lengths))
        y = criterion(x.log_softmax(2), *given)
        g = t.tensor(rng.normal(size=tuple(y.shape))).to(y.dtype)
        return [repr(criterion), y, t.autograd.grad(y, x, g)[0]]

    for seed in range(500 if whole else 100):
        assert_same(found(T, seed), found(torch, seed), f"ctc {seed}", 10.0)
