"""Scans by blocks: lines of more and of fewer elements than a block has threads, forward and back, whole and in runs."""

from functools import partial

import numpy as np
import pytest

from nbgrad.kernels.cpu import scan
from nbgrad.kernels.cuda.compile import compiled
from nbgrad.kernels.cuda.families import own
from nbgrad.kernels.cuda.own import Own
from tests.cuda.emulation import alike, seen, without_barriers

SIZES = [(700, 3), (5, 40), (256, 1), (1, 2)]  # of a line, and how many


def scanned(reverse: bool, runs: bool) -> Own:
    found = own("scan", scan.along("cumsum", "f4", "f8", "f4", reverse, runs)[0])
    assert found is not None
    return found


def whole(n: int, lines: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(n).integers(-5, 5, (lines, n)).astype(np.float32)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("n", "lines"), SIZES)
def test_lines(n: int, lines: int, reverse: bool) -> None:
    x, made = whole(n, lines), scanned(reverse, False)
    walk = [(n - 1) * reverse, -1 if reverse else 1, n]
    meta = np.array([0, n, lines, lines, *walk, *walk], np.int64)
    args = [lines, meta, np.zeros(x.size, np.float32), x.ravel()]
    _, found, _ = alike("scan", made.source, made.params, 2, args)
    want = np.cumsum(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumsum(x, 1)
    assert (found.reshape(x.shape) == want).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("n", "lines"), SIZES)
def test_runs(n: int, lines: int, reverse: bool) -> None:
    x, made = whole(n, lines).ravel(), scanned(reverse, True)
    sums = np.add.reduceat(x, range(0, x.size, 300)).astype(np.float64)
    before = np.cumsum(sums[::-1])[::-1].copy() if reverse else np.cumsum(sums)
    args = [sums.size, np.array([300, x.size]), np.zeros(x.size, np.float32), x, before]
    _, found, *_ = alike("scan", made.source, made.params, 2, args)
    assert (found == (np.cumsum(x[::-1])[::-1] if reverse else np.cumsum(x))).all()


def test_each_barrier_is_missed() -> None:
    made, x = scanned(False, True), np.random.default_rng(0).standard_normal(700).astype(np.float32)
    args = [3, np.array([300, 700]), np.zeros(700, np.float32), x, np.ones(3)]
    texts = list(without_barriers(made.source))
    assert len(texts) == 4
    for text in texts:
        assert seen(partial(alike, "scan", text, made.params, 2, args))


@pytest.mark.cuda
@pytest.mark.parametrize("kind", list(scan.COMBINE))
def test_keep_to_registers(kind: str) -> None:
    for together in (False, True):
        if kind == "recurrence":
            made = own("scan", scan.recurrence("f4", "f8", 8, together)[0])
        else:
            made = own("scan", scan.scan(kind, "f4", "f8", "f4", 8, together)[0])
        assert made is not None
        assert compiled("scan", made.source, made.params).cubin().spills == 0
