"""The same texts compile for the GPU, without one: flat, rows and reduce to PTX for sm_90."""

import re
from typing import Any

import pytest

from nbgrad.expr import loops, prims
from nbgrad.expr.node import trace, var
from nbgrad.expr.prims import exp, sigmoid
from nbgrad.kernels import templates
from nbgrad.kernels.cpu import index, reduce
from nbgrad.kernels.cuda import families, philox
from nbgrad.kernels.cuda.compile import compiled
from nbgrad.kernels.cuda.spread import spread
from nbgrad.kernels.templates import Operand

pytestmark = pytest.mark.cuda


def ptx(source: str, params: tuple[str, ...]) -> str:
    pytest.importorskip("numba.cuda")
    return compiled("body", source, params).ptx


def test_flat() -> None:
    params, e = trace(lambda x, w: x * sigmoid(x) + exp(w))
    inputs = tuple(Operand(p, "f4", "v") for p in params)
    text = ptx(*templates.elementwise("t", (e,), inputs, ("f4",), "f4", False, "v", "cuda"))
    assert ".target sm_90" in text
    assert len(re.findall(r"\.param", text.split(")", 1)[0])) == 5
    assert ".f64" not in text, "a float32 kernel computes in float32"


def test_a_function_that_loops_is_called_once_at_a_time() -> None:
    """Called for four elements in turn it kept registers in memory on sm_120, over each call."""
    pytest.importorskip("numba.cuda")
    params, e = trace(lambda x, a, total: loops.beta_slope(x, a, total))
    inputs = tuple(Operand(p, "f4", "v") for p in params)
    made = families.own("t", templates.elementwise("t", (e,), inputs, ("f4",), "f4", False, "v")[0])
    assert made is not None and compiled("body", made.source, made.params, (12, 0)).cubin().spills == 0


@pytest.mark.parametrize(
    ("body", "kind", "uses"),
    [
        (lambda x, w: prims.nextafter(x, w), "f4", ""),
        (lambda x, w: prims.nextafter(x, w), "f8", ".f64"),
        (lambda x: prims.mantissa(x) * prims.exponent(x), "f4", ""),
        (lambda x, w: prims.gcd(x, w), "i8", "rem.s64"),
        (lambda x, w: loops.zeta(x, w), "f4", ".f64"),  # functions with loops compute in float64
        (lambda x, w: loops.legendre_polynomial_p(x, w), "f8", ".f64"),
    ],
)
def test_what_is_no_formula(body: Any, kind: str, uses: str) -> None:
    """Calls of CUDA's library, loops, and functions that are written out beside the kernel."""
    params, e = trace(body)
    inputs = tuple(Operand(p, kind, "v") for p in params)
    text = ptx(*templates.elementwise("t", (e,), inputs, (kind,), kind, False, "v", "cuda"))
    assert ".entry" in text and uses in text
    assert uses == ".f64" or ".f64" not in text


def test_rows() -> None:
    params, e = trace(lambda x, w: x - w * 2)
    inputs = (Operand(params[0], "f4", "v"), Operand(params[1], "f4", "s"))
    text = ptx(*templates.elementwise("t", (e,), inputs, ("f4",), "f4", True, "v", "cuda"))
    assert ".entry" in text
    assert ".f64" not in text


def test_reduce() -> None:
    text = ptx(
        *reduce.reduction(
            "t", var("x") * var("x"), "sum", var("r"), "f4", "f4", "f8", "f4", True, False, target="cuda"
        )
    )
    assert ".entry" in text
    assert "add.f64" in text or "add.rn.f64" in text  # sums are taken in float64


@pytest.mark.parametrize(("code", "kind"), [("f4", "f32"), ("f8", "f64"), ("i4", "u32"), ("i8", "u64")])
def test_what_meets_is_added_in_one_go(code: str, kind: str) -> None:
    """And of indices that lead nowhere the first is told."""
    text = ptx(*spread("index_add", *index.walk("add", code, False, 1, True)))
    assert f"atom.global.add.{kind}" in text and "atom.global.cas.b64" in text
    alone = ptx(*spread("index_add", *index.walk("add", "f2", False, 1, True)))
    assert "atom.global.add" not in alone


def test_bfloat16_is_computed_in_float32() -> None:
    params, e = trace(lambda x, w: x * w)
    inputs = tuple(Operand(p, "g2", "v") for p in params)
    text = ptx(*templates.elementwise("t", (e,), inputs, ("g2",), "f4", False, "v", "cuda"))
    assert "mul.f32" in text or "mul.rn.f32" in text
    assert "ld.global.u16" in text and "st.global.u16" in text and ".f64" not in text


def test_random_numbers() -> None:
    """In float32, but for the slow path of a sine."""
    text = ptx(*spread("uniform", *philox.source("uniform", "f4")))
    assert ".entry" in text and not re.search(r"(mul|add|fma)[.\w]*\.f64", text)


def test_a_text_may_define_functions_beside_its_kernel() -> None:
    text = "def twice(x):\n    return x + x\n\n\ndef @NAME@(n, o):\n    for i in range(n):\n        o[i] = twice(o[i])\n"
    assert "add.f32" in ptx(text, ("i8", "*f4")) or "add.rn.f32" in ptx(text, ("i8", "*f4"))
