"""`out=`: that no function takes it and leaves it unwritten, and of several results that all are written, or none."""

import ast
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


def test_no_function_leaves_out_unread() -> None:
    for path in (Path(__file__).parents[2] / SUBJECT).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "out" in [a.arg for a in node.args.kwonlyargs]:
                names = {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)}
                assert "out" in names, f"{path.name}: {node.name}"
