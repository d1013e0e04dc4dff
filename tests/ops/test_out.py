"""`out=`: that no function takes it and leaves it unwritten, and of several results that all are written, or none."""

import ast
import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compare import array, assert_close
from tests.support import SUBJECT, T

A = np.random.default_rng(0).normal(size=(3, 3))
A = A @ A.T + np.eye(3)

SEVERAL: dict[str, Callable[..., Any]] = {
    "linalg.svd": lambda x, **out: T.linalg.svd(x, **out),
    "svd": lambda x, **out: T.svd(x, **out),
    "linalg.qr": lambda x, **out: T.linalg.qr(x, **out),
    "linalg.eigh": lambda x, **out: T.linalg.eigh(x, **out),
    "linalg.lu": lambda x, **out: T.linalg.lu(x, **out),
    "linalg.lu_factor": lambda x, **out: T.linalg.lu_factor(x, **out),
    "linalg.lu_factor_ex": lambda x, **out: T.linalg.lu_factor_ex(x, **out),
    "lu_unpack": lambda x, **out: T.lu_unpack(*T.linalg.lu_factor(x), **out),
    "linalg.inv_ex": lambda x, **out: T.linalg.inv_ex(x, **out),
    "linalg.cholesky_ex": lambda x, **out: T.linalg.cholesky_ex(x, **out),
    "linalg.solve_ex": lambda x, **out: T.linalg.solve_ex(x, x, **out),
    "linalg.slogdet": lambda x, **out: T.linalg.slogdet(x, **out),
    "slogdet": lambda x, **out: T.slogdet(x, **out),
    "histogram": lambda x, **out: T.histogram(x, 3, **out),
    "frexp": lambda x, **out: T.frexp(x, **out),
    "aminmax": lambda x, **out: T.aminmax(x, dim=0, **out),
    "kthvalue": lambda x, **out: T.kthvalue(x, 2, **out),
    "median": lambda x, **out: T.median(x, 0, **out),
    "mode": lambda x, **out: T.mode(x, 0, **out),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_results(name: str) -> None:
    x, function = T.tensor(A), SEVERAL[name]
    wanted = function(x)
    outs = tuple(T.zeros(t.shape, dtype=t.dtype) for t in wanted)
    got = function(x, out=outs)
    assert all(g is o for g, o in zip(got, outs, strict=True))
    assert type(got).__name__ == type(wanted).__name__ + "_out"
    for o, t in zip(outs, wanted, strict=True):
        assert_close(array(o), array(t), name)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_results_or_none(name: str) -> None:
    x, function = T.tensor(A), SEVERAL[name]
    wanted = function(x)
    outs = [T.zeros(t.shape, dtype=t.dtype) for t in wanted]
    with pytest.raises(TypeError, match=f"expected tuple of {len(outs)} elements but got {len(outs) + 1}"):
        function(x, out=(*outs, outs[0]))
    outs[-1] = outs[-1].to(T.int16)
    with pytest.raises(RuntimeError, match="type"):
        function(x, out=tuple(outs))
    assert not any(o.any() for o in outs)


def test_lu_of_the_old_form() -> None:
    out = T.zeros(3, 3, dtype=T.float64), T.zeros(3, dtype=T.int32)
    with pytest.warns(UserWarning, match="torch.lu is deprecated"):
        assert T.lu(T.tensor(A), out=out) is out
    LU, pivots = T.linalg.lu_factor(T.tensor(A))
    assert T.equal(out[0], LU) and T.equal(out[1], pivots)


def _of_one(name: str, x: Any, **out: Any) -> Any:
    i, m = T.tensor([0, 2, 1]), T.tensor([[0, 2, 1]])
    calls: dict[str, Callable[[], Any]] = {
        "gather": lambda: T.gather(x, 0, m, **out),
        "scatter": lambda: T.scatter(x, 0, m, 2.0, **out),
        "scatter_add": lambda: T.scatter_add(x, 0, m, x, **out),
        "index_add": lambda: T.index_add(x, 0, i, x, **out),
        "index_copy": lambda: T.index_copy(x, 0, i, x, **out),
        "index_select": lambda: T.index_select(x, 0, i, **out),
        "take": lambda: T.take(x, i, **out),
        "masked_select": lambda: T.masked_select(x, x > 0, **out),
        "slice_scatter": lambda: T.slice_scatter(x, x[:1], 0, 0, 1, **out),
        "tril": lambda: T.tril(x, **out),
        "softmax": lambda: T.softmax(x, 0, **out),
        "log_softmax": lambda: T.log_softmax(x, 0, **out),
        "linear": lambda: T.nn.functional.linear(x, x, **out),
        "conj_physical": lambda: T.conj_physical(x, **out),
        "inner": lambda: T.inner(x, x, **out),
        "linalg.inv": lambda: T.linalg.inv(x, **out),
        "linalg.solve": lambda: T.linalg.solve(x, x, **out),
        "linalg.norm": lambda: T.linalg.norm(x, **out),
        "linalg.matrix_norm": lambda: T.linalg.matrix_norm(x, **out),
        "linalg.vecdot": lambda: T.linalg.vecdot(x, x, **out),
        "cholesky_solve": lambda: T.cholesky_solve(x, T.linalg.cholesky(x), **out),
        "isin": lambda: T.isin(x, x, **out),
        "searchsorted": lambda: T.searchsorted(i, i, **out),
        "stack": lambda: T.stack([x, x], **out),
    }
    return calls[name]()


CASTING = ("cholesky_solve", "stack")  # but not floats to integers


# What PyTorch says of an `out` of int16 where the result is float64 (bool, int64).
WORDS = {
    "index_select": r"index_select\(\): self and result must have the same scalar type",
    "masked_select": r"masked_select\(\): self and result must have the same scalar type",
    "take": r"take\(\): self and out expected to have the same dtype, but got self.dtype = Double and out.dtype = Short",
    "conj_physical": "Found dtype Short but expected Double",
    "inner": "tensordot: Expected the output tensor to have dtype Double, but got an output tensor with dtype Short",
    "linalg.norm": "linalg.norm expected out tensor dtype Double but got: Short",
    "linalg.matrix_norm": "linalg.matrix_norm expected out tensor dtype Double but got: Short",
    "linalg.vecdot": "linalg.vecdot: Expected out of dtypeDouble but found Short",
    "cholesky_solve": "cholesky_solve: Expected result to be safely castable from Double dtype, but got result with dtype Short",
    "isin": "Expected out tensor to have dtype bool, but got short int instead",
    "searchsorted": r"it can only be Int\(int32\) or Long\(int64\) .* dtype Short and out_int32 flag is False",
    "stack": r"torch.cat\(\): input types can't be cast to the desired output type Short",
}
ONE = (
    *("gather", "scatter", "scatter_add", "index_add", "index_copy", "slice_scatter", "tril", "softmax"),
    *("log_softmax", "linear", "linalg.inv", "linalg.solve", *WORDS),
)


@pytest.mark.parametrize("name", ONE)
def test_out_of_another_dtype(name: str) -> None:
    x = T.tensor(A)
    wanted = _of_one(name, x)
    out = T.zeros(wanted.shape, dtype=wanted.dtype)
    assert _of_one(name, x, out=out) is out and T.equal(out, wanted)
    for dtype in (T.int16, T.float32):
        out = T.zeros(wanted.shape, dtype=dtype)
        if dtype is T.float32 and name in CASTING:
            assert T.allclose(_of_one(name, x, out=out), wanted.float())
            continue
        words = WORDS.get(name, "Expected out tensor to have dtype double, but got short int instead")
        with pytest.raises((RuntimeError, TypeError), match=words if dtype is T.int16 else "type"):
            _of_one(name, x, out=out)
        assert not out.any()


def test_no_function_leaves_out_unread() -> None:
    for path in (Path(__file__).parents[2] / SUBJECT).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\bout\b", text) else ():
            if isinstance(node, ast.FunctionDef) and "out" in [a.arg for a in node.args.kwonlyargs]:
                names = {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)}
                assert "out" in names, f"{path.name}: {node.name}"


FACTORIES: dict[str, Callable[..., Any]] = {
    "ones": lambda **k: T.ones(2, 3, **k),
    "zeros": lambda **k: T.zeros(2, 3, **k),
    "full": lambda **k: T.full((2, 3), 7, **k),
    "eye": lambda **k: T.eye(2, 3, **k),
    "arange": lambda **k: T.arange(6, **k),
    "linspace": lambda **k: T.linspace(0, 1, 6, **k),
    "logspace": lambda **k: T.logspace(0, 1, 6, **k),
    "rand": lambda **k: T.rand(2, 3, **k),
    "randn": lambda **k: T.randn(2, 3, **k),
    "randint": lambda **k: T.randint(9, (2, 3), **k),
    "randperm": lambda **k: T.randperm(6, **k),
    "normal": lambda **k: T.normal(0.0, 1.0, (2, 3), **k),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_count_and_draw_in_the_dtype_of_out(name: str) -> None:
    make = FACTORIES[name]
    T.manual_seed(3)
    wanted = make(dtype=T.float64)
    T.manual_seed(3)
    out = T.zeros(6, dtype=T.float64).view(wanted.shape)
    assert make(out=out) is out and T.equal(out, wanted)
    if wanted.ndim == 1 and name != "randperm":  # as many elements keep their shape
        assert make(out=out.view(3, 2)).shape == (3, 2) and T.equal(out, wanted)
    with pytest.raises(RuntimeError, match=r"dtype Float does not match dtype of out parameter \(Double\)"):
        make(out=T.zeros(6, dtype=T.float64), dtype=T.float32)
    with pytest.raises(RuntimeError, match=r"out=\.\.\. arguments don't|cannot resize variables"):
        make(out=T.zeros(wanted.shape, requires_grad=True))
    with pytest.warns(UserWarning) if name == "arange" else contextlib.nullcontext():
        assert make(out=T.zeros(7)).shape == wanted.shape
