"""Generated kernels, un-jitted: the text itself, run on arrays, against the evaluator of expressions."""

from typing import Any

import numpy as np
import pytest

from nbgrad.expr import evaluate
from nbgrad.expr.node import trace, var
from nbgrad.expr.prims import exp, sigmoid, sqrt, tanh, where
from nbgrad.kernels import build, templates
from nbgrad.kernels.cpu import reduce
from nbgrad.kernels.dialect import written
from nbgrad.kernels.templates import Operand

DTYPES = {"f4": np.float32, "f8": np.float64, "i8": np.int64}


def python(source: str) -> Any:
    return build.load_source("body", source.replace("@NAME@", "body"), "<test>")


def silu_times(x: Any, w: Any) -> Any:
    return x * sigmoid(x) * w + 0.5


def chosen(x: Any, w: Any) -> Any:
    return where(x < w, exp(-x * x), tanh(w))


@pytest.mark.parametrize("body", [silu_times, chosen])
@pytest.mark.parametrize("code", ["f4", "f8"])
@pytest.mark.parametrize("steps", ["vv", "vs", "sv", "vn"])
def test_flat_body_is_what_the_evaluator_says(body: Any, code: str, steps: str) -> None:
    params, e = trace(body)
    inputs = tuple(Operand(p, code, s) for p, s in zip(params, steps))
    source, signature = templates.elementwise("t", (e,), inputs, (code,), code, False, "v")
    x = np.linspace(-3, 3, 7).astype(DTYPES[code])
    w = np.linspace(2, -1, 7).astype(DTYPES[code])
    out = np.zeros(7, DTYPES[code])
    # A number comes by value, after the arrays.
    given = [a for a, s in zip((x, w), steps) if s != "n"] + [float(w[0]) for s in steps if s == "n"]
    with np.errstate(all="ignore"):
        python(source)(0, 7, out, *given)
    assert len(signature) == 2 + 1 + 2
    for k in range(7):
        env = {p: float(a[0 if s in "sn" else k]) for p, a, s in zip(params, (x, w), steps)}
        assert out[k] == pytest.approx(evaluate.evaluate(e, env), rel=float(8 * np.finfo(DTYPES[code]).eps))


def test_overwriting_body_reads_before_it_writes() -> None:
    params, e = trace(lambda x, w: x * w + x)
    inputs = (Operand(params[0], "f8", "="), Operand(params[1], "f8", "v"))
    source, _ = templates.elementwise("t", (e, var("x") - var("w")), inputs, ("f8", "f8"), "f8", False, "vv")
    x, w, second = np.arange(4.0), np.full(4, 3.0), np.zeros(4)
    python(source)(0, 4, x, second, w)
    assert x.tolist() == [0, 4, 8, 12]
    assert second.tolist() == [-3, -2, -1, 0]  # of the old x


def test_rows_body_walks_any_strides() -> None:
    params, e = trace(lambda x, w: x - w)
    for steps in ("gg", "vv"):
        inputs = tuple(Operand(p, "f8", s) for p, s in zip(params, steps))
        source, _ = templates.elementwise(
            "t", (e,), inputs, ("f8",), "f8", True, "g" if "g" in steps else "v"
        )
        x, w = np.arange(12.0), np.arange(12.0) * 10
        out = np.zeros(12)
        # out and x as 3 x 4; w read transposed where steps allow, else in rows
        inner_w, outer_w = (3, 1) if steps == "gg" else (1, 4)
        meta = np.array([1, 4, 3, 4, 4, outer_w, 1, 1, inner_w])
        python(source)(0, 3, meta, out, x, w)
        other = w.reshape(4, 3).T if steps == "gg" else w.reshape(3, 4)
        assert np.array_equal(out.reshape(3, 4), x.reshape(3, 4) - other)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_rows_are_found_from_any_start(target: str) -> None:
    """A range begins and ends in the middle of a dimension, as a thread's does."""
    params, e = trace(lambda x, w: x - w)
    inputs = (Operand(params[0], "f8", "v"), Operand(params[1], "f8", "s"))
    source, _ = templates.elementwise("t", (e,), inputs, ("f8",), "f8", True, "v", target)
    x, w = np.arange(120.0), np.arange(12.0) * 100
    wanted = x.reshape(2, 3, 4, 5) - w.reshape(1, 3, 4, 1)
    sizes, steps = [4, 3, 2], [[5, 20, 60], [5, 20, 60], [1, 4, 0]]
    meta = np.array([3, 5, *sizes, *steps[0], *steps[1], *steps[2], 1, 1, 0])
    for start, stop in ((0, 24), (3, 3), (5, 6), (6, 11), (7, 24)):
        out = np.zeros(120)
        python(source)(start, stop, meta, out, x, w)
        inside = np.zeros(24, bool)
        inside[start:stop] = True
        assert np.array_equal(out.reshape(24, 5), np.where(inside[:, None], wanted.reshape(24, 5), 0))
    one = np.zeros(5)
    python(source)(0, 1, np.array([0, 5, 1, 1, 0]), one, x, w[1:])
    assert np.array_equal(one, x[:5] - 100)


@pytest.mark.parametrize("form", ["long", "short", "columns"])
@pytest.mark.parametrize("combine", ["sum", "prod", "amax", "any"])
def test_reduction_bodies(combine: str, form: str) -> None:
    x, r = var("x"), var("r")
    code = {"any": "b1"}.get(combine, "f8")
    identity = "-inf" if combine == "amax" else ""
    source, _ = reduce.reduction(
        *("t", x, combine, r, code, code, code, code, True, form == "columns"),
        identity=identity,
        short=form == "short",
    )
    values = np.random.default_rng(0).uniform(0.5, 1.5, (9, 70)) if code == "f8" else np.eye(9, 70) > 0
    body = python(source)
    if form == "columns":
        out = np.zeros(70, values.dtype)
        meta = np.array([0, 1, 70, 1, 9, 630, 9, 70])
        body(0, 1, meta, out, values.reshape(-1))
        axis = 0
    else:  # in two ranges, of which one begins in the middle of a dimension
        out = np.zeros(9, values.dtype)
        meta = np.array([2, 0, 70, 1, 1, 630, 3, 3, 70, 210])
        body(4, 9, meta, out, values.reshape(-1))
        assert not out[:4].any()
        body(0, 4, meta, out, values.reshape(-1))
        axis = 1
    want = {"sum": np.sum, "prod": np.prod, "amax": np.max, "any": np.any}[combine](values, axis=axis)
    assert np.allclose(out, want, rtol=1e-14, atol=0)


def test_columns_are_walked_through_several_dimensions() -> None:
    x, r = var("x"), var("r")
    source, _ = reduce.reduction("t", x, "sum", r, "f8", "f8", "f8", "f8", True, True)
    values = np.random.default_rng(0).uniform(
        0.5, 1.5, (3, 7, 2, 4)
    )  # over the first two, every other of the second
    out = np.zeros(4)
    python(source)(0, 1, np.array([0, 2, 4, 1, 21, 84, 7, 3, 8, 56]), out, values.reshape(-1))
    assert np.allclose(out, values[:, :, 0].sum((0, 1)), rtol=1e-14, atol=0)


def test_finish_and_numbers_of_a_reduction() -> None:
    source, _ = reduce.reduction(
        "t",
        var("x") * var("x"),
        "sum",
        sqrt(var("r") / var("n")),
        "f4",
        "f4",
        "f8",
        "f4",
        True,
        False,
        ("n",),
    )
    out = np.zeros(1, np.float32)
    python(source)(0, 1, np.array([1, 0, 5, 1, 1, 5, 1, 0]), out, np.arange(5, dtype=np.float32), 5.0)
    assert out[0] == pytest.approx(6**0.5, rel=1e-7)


def test_source_says_what_it_is() -> None:
    _params, e = trace(lambda x: exp(x))
    source, _ = templates.elementwise("exp", (e,), (Operand("x", "f4", "v"),), ("f4",), "f4", False, "v")
    assert source.startswith('"""exp')
    assert "exp(x)" in source.splitlines()[2]


@pytest.mark.parametrize("nd", [False, True])
def test_what_is_chosen_in_place_is_stored_as_a_whole(nd: bool) -> None:
    """A store of those elements only that change takes AMD's processors five times as long."""

    def text(body: Any, step: str) -> tuple[str, tuple[str, ...]]:
        params, e = trace(body)
        return templates.elementwise(
            "t", (e,), tuple(Operand(p, "f4", step) for p in params), ("f4",), "f4", nd, "v"
        )

    for body in (lambda x: where(x < 1, 2, x), lambda x: where(x < 1, x, 2)):
        source, codes = text(body, "=")
        assert "opaque(o0[" in source and "opaque(" not in text(body, "v")[0]
        assert "freeze float" in written("NAME", source.replace("@NAME@", "NAME"), codes, False)
    assert "opaque(" not in text(lambda x: where(x < 1, 2, x) + x, "=")[0]
