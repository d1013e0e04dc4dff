"""Programs over rows, un-jitted: the text itself, run on arrays."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import nbgrad as T
from nbgrad.expr.node import var
from nbgrad.expr.prims import exp
from nbgrad.kernels import build
from nbgrad.kernels.apart import apart
from nbgrad.kernels.cpu import rows
from nbgrad.kernels.cpu.rows import Program, Step
from nbgrad.ops.rows import softmax

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
    *[("short", n, inner) for n, inner in ((1, 1), (3, 1), (rows.SHORT, 1), (1, 3), (3, 5))],
    # more than `FEW` in a row and more rows than stand side by side: un-jitted, each element takes a tenth of a millisecond
    *[("columns", n, rows.WIDTH + 2) for n in (1, 3, rows.FEW + 2)],
]


@pytest.mark.parametrize(("loop", "n", "inner"), SHAPES)
def test_all_loops_compute_the_program(loop: str, n: int, inner: int) -> None:
    count = rows.ABREAST + 2 if loop == "short" else 2
    x = np.random.default_rng(0).normal(size=(count, n, inner))
    beside = [True] * (loop == "short" and inner > 1)
    source, signature = getattr(rows, loop)(PROGRAM, "f8", *beside)
    out, total, at = np.zeros(x.size), np.zeros(count * inner), np.zeros(count * inner)
    index = np.arange(count * inner) % (n + 1)  # now and then there is no such element
    meta = {"runs": [n, 1, 0, n], "columns": [n, inner, 2], "short": [n, count * inner, inner]}[loop]
    items = {"runs": 2, "columns": 4, "short": -(-count * inner // rows.ABREAST)}[loop]
    python(source)(0, items, np.array(meta), out, total, at, x.ravel(), index, 2.0)
    assert len(signature) == 9
    powers = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(total, 2 * powers.sum(1).ravel(), 1e-14)
    np.testing.assert_allclose(out.reshape(x.shape), powers / (2 * powers.sum(1, keepdims=True)), 1e-14)
    lined = np.concatenate([x, x.max(1, keepdims=True)], 1)  # a place beyond the row gives 0
    picked = np.take_along_axis(lined, index.reshape(count, 1, inner), 1)[:, 0] - x.max(1)
    np.testing.assert_allclose(at, picked.ravel(), atol=1e-14)


def test_a_short_row_is_written_over_what_it_reads() -> None:
    """Its mark too; a line that all rows share is read beside it."""
    scaled = Program(
        "scaled",
        (Step({"s": ("sum", X)}, then={"all": var("s")}), Step(write={"o": X * var("w") + var("all")})),
        ("x",),
        lines=("w",),
        each=("c",),
        mark=-var("c"),
        over="x",
    )
    x, w, c = np.arange(99.0).reshape(33, 3), np.array([1.0, 2.0, 3.0]), np.arange(33.0)
    wanted = x * w + x.sum(1, keepdims=True)
    at = np.arange(33) % 4 - 1  # -1: none
    for row in range(33):
        if at[row] >= 0:
            wanted[row, at[row]] -= c[row]
    python(rows.short(scaled, "f8")[0])(0, 2, np.array([3, 33, 1]), x.ravel(), w, c, at)
    assert x.tolist() == wanted.tolist()


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


@pytest.mark.parametrize("n", [4, 5, 8])
def test_a_sum_does_not_depend_on_where_its_row_is_written(n: int) -> None:
    """LLVM took memory right behind what is read for the same, and added up one by one then."""
    T.manual_seed(n)
    x, memory = T.randn(3, n), T.zeros(200)
    walk = softmax._along((3, n), 1)
    launch, address, meta, *_ = softmax._launch(softmax._SOFTMAX, walk, x._spec)
    read, told = memory[80 : 80 + 3 * n], set()
    read.copy_(x.flatten())
    for at in [*range(80 - 3 * n), *range(80 + 3 * n, 200 - 3 * n)]:
        written = memory[at : at + 3 * n]
        launch(address, walk.items, meta, written._buf, read._buf)
        told.add(written.numpy().tobytes())
    assert walk.loop == "runs" and len(told) == 1


@pytest.mark.slow
def test_nor_does_one_that_numba_compiles() -> None:
    name = "test_a_sum_does_not_depend_on_where_its_row_is_written"
    run = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", f"{__file__}::{name}"]
    done = subprocess.run(run, env={**os.environ, "NBGRAD_COMPILER": "numba"}, capture_output=True, text=True)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout


LOOP = """define void @one(ptr %x, ptr %y) {
first:
  br label %turn

turn:                                             ; preds = %turn, %first
  %i = phi i64 [ 0, %first ], [ %j, %turn ]
  %sum = phi float [ 0.0, %first ], [ %more, %turn ]
  %from = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %from, align 4
  %w = call float @llvm.fabs.f32(float %v)
  %more = fadd reassoc nsz contract float %sum, %w
  store float %w, ptr %y, align 4
  %j = add i64 %i, 1
  %on = icmp slt i64 %j, 40
  br i1 %on, label %turn, label %last

last:                                             ; preds = %turn
  ret void
}
!0 = !{}
"""


def test_loops_that_gather_and_write_are_marked() -> None:
    marked = apart(LOOP)
    new = [line for line in marked.splitlines() if line not in LOOP.splitlines()]
    assert [line.partition("!")[2] for line in new[:3]] == ["llvm.access.group !1"] * 2 + ["llvm.loop !3"]
    assert [line.split()[0] for line in new[:3]] == ["%v", "store", "br"] and len(new) == 6
    for lacks in (
        LOOP.replace("reassoc ", ""),
        LOOP.replace("  store float %w, ptr %y, align 4\n", ""),
        LOOP.replace("label %turn, label %last", "label %last, label %last"),
    ):
        assert apart(lacks) == lacks
