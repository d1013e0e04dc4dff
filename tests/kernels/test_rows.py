"""Programs over rows, un-jitted: the text itself, run on arrays."""

from typing import Any

import numpy as np
import pytest

from nbgrad.expr.node import var
from nbgrad.expr.prims import exp
from nbgrad.kernels import build
from nbgrad.kernels.cpu import rows
from nbgrad.kernels.cpu.rows import Program, Step

X, TOP = var("x"), var("top")
# Each element over the sum of powers of its row, which is kept; and what stands at a chosen place.
PROGRAM = Program(
    "shares",
    (
        Step({"m": ("max", X)}, then={"top": var("m")}),
        Step({"s": ("sum", exp(X - TOP))}, then={"all": var("s") * var("k")}),
        Step(write={"o": exp(X - TOP) / var("all")}),
    ),
    ("x",),
    numbers=("k",),
    results=("all",),
    chosen={"at": X - TOP},
)


def python(source: str) -> Any:
    return build.load_source("body", source.replace("@NAME@", "body"), "<test>")


SHAPES = [
    *[("runs", n, 1) for n in (1, 3, 130)],
    # more than `FEW` in a row and more rows than stand side by side: un-jitted, each element takes a tenth of a millisecond
    *[("columns", n, rows.WIDTH + 2) for n in (1, 3, rows.FEW + 2)],
]


@pytest.mark.parametrize(("loop", "n", "inner"), SHAPES)
def test_both_loops_compute_the_program(loop: str, n: int, inner: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, n, inner))
    source, signature = getattr(rows, loop)(PROGRAM, "f8")
    out, total, at = np.zeros(x.size), np.zeros(2 * inner), np.zeros(2 * inner)
    index = np.arange(2 * inner) % (n + 1)  # now and then there is no such element
    meta = np.array([n, 1, 0, n] if loop == "runs" else [n, inner, 2])
    items = 2 if loop == "runs" else 4
    python(source)(0, items, meta, out, total, at, x.ravel(), index, 2.0)
    assert len(signature) == 9
    powers = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(total, 2 * powers.sum(1).ravel(), 1e-14)
    np.testing.assert_allclose(out.reshape(x.shape), powers / (2 * powers.sum(1, keepdims=True)), 1e-14)
    lined = np.concatenate([x, x.max(1, keepdims=True)], 1)  # a place beyond the row gives 0
    picked = np.take_along_axis(lined, index.reshape(2, 1, inner), 1)[:, 0] - x.max(1)
    np.testing.assert_allclose(at, picked.ravel(), atol=1e-14)


def test_a_row_of_several_runs_and_sums_over_rows() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    mean = Program("mean", (Step({"s": ("sum", X)}, then={"mean": var("s") / 8}),), ("x",), results=("mean",))
    found = np.zeros(3)
    python(rows.runs(mean, "f8")[0])(0, 3, np.array([4, 2, 12, 4]), found, x.ravel())
    assert found.tolist() == x.mean((0, 2)).tolist()

    doubled = Program("doubled", (Step(write={"o": X * 2}),), ("x",), columns={"c": X * X})
    out, sums = np.zeros(24), np.zeros(8)
    python(rows.runs(doubled, "f8")[0])(0, 2, np.array([4, 1, 0, 4, 6, 4]), out, sums, x.ravel())
    assert out.tolist() == (2 * x).ravel().tolist()
    flat = x.reshape(6, 4) ** 2
    assert sums.reshape(2, 4).tolist() == [flat[:4].sum(0).tolist(), flat[4:].sum(0).tolist()]
