"""Functions of NumPy's as they are called, in every rank that they take: values beside NumPy's own, derivatives beside differences."""

import linecache
import math
import re
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable
from nbgrad.adjoints.ir import Refused

DRAW = np.random.default_rng(0)
GIVEN: dict[str, Any] = {
    "v": DRAW.normal(size=6),
    "w": DRAW.normal(size=4),
    "few": DRAW.normal(size=3),
    "wide": DRAW.normal(size=(3, 4)),
    "tall": DRAW.normal(size=(5, 3)),
    "square": DRAW.normal(size=(4, 4)),
    "cube": DRAW.normal(size=(2, 3, 4)),
    "whole": np.array([3, 1, 2, 0]),
    "holed": np.array([0.4, np.nan, -1.2]),
    "x": 0.7,
    "y": -1.3,
}
TAKEN = """
np.roll(wide, 1)
np.roll(wide.T, -3)
np.roll(cube, 5)
np.trace(tall)
np.trace(wide)
np.outer(wide, w)
np.outer(w, square.T)
np.argmin(wide.T) * x
np.argmax(cube) * x
np.median(wide)
np.percentile(wide, 30)
np.cumsum(wide.T)
np.cumprod(wide)
np.kron(few, w)
np.std(v, ddof=1)
wide.var(ddof=1)
np.linalg.norm(v[::-1], 1)
np.linalg.norm(v, np.inf)
np.linalg.norm(v, ord=2)
np.linalg.norm(square, 'fro')
np.transpose(cube, (2, 0, 1))
cube.transpose(1, 0, 2)[0] @ w
np.transpose(wide, (1, 0)) @ few
np.swapaxes(cube, 0, 2)
np.expand_dims(v, 1) * w
np.expand_dims(wide, -1)
np.append(wide, square)
np.append(x, v)
np.append(x, y)
np.append(w, whole)
np.array([v, v * x])
np.flip(wide, axis=1)
np.flip(wide, 0)
np.clip(v, -0.5, None)
np.clip(wide, None, x)
np.inner(v, v)
np.average(v, weights=v * v)
np.average(wide)
np.nansum(holed) * x
np.nanmean(holed)
np.argmin(holed) * x
np.argmax(holed) * x
np.argmax(np.append(holed, x)) * x
np.polyval(w, x)
np.polyval(w, wide)
np.round(v) * x
divmod(y, 0.3)
divmod(whole, 2)[0] * x
np.shape(cube)[2] * np.size(v) * np.ndim(wide) * x
""".strip().splitlines()


def written(expression: str) -> tuple[Any, list[Any]]:
    names = [n for n in GIVEN if re.search(rf"(?<!\.)\b{n}\b", expression)]
    text, file = f"def f({', '.join(names)}):\n    return {expression}\n", f"<{expression}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    space: dict[str, Any] = {"np": np, "math": math}
    exec(compile(text, file, "exec"), space)
    return space["f"], [GIVEN[n] for n in names]


def plain(f: Any, what: str, args: list[Any]) -> Any:
    return f._make(what, f._kinds(args), None)


def listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("expression", TAKEN)
def test_beside_numpy(expression: str) -> None:
    f, args = written(expression)
    d = differentiable(f)
    want = listed(f(*args))
    for a, b in zip(listed(plain(d, "primal", args).plain(*args)), want, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.allclose(a, b, rtol=1e-13, atol=1e-13)
    draw = np.random.default_rng(1)
    tangent, adjoint = plain(d, "tangent", args), plain(d, "adjoint", args)
    of = {n: draw.normal(size=np.shape(a)) for n, a in zip(d.names, args)}
    moves = [of[n] for n in tangent.bars]
    moved = listed(tangent.plain(*args, *moves))[len(want) :]
    steps = [
        [a + h * of[n] if n in tangent.bars else a for n, a in zip(d.names, args)] for h in (1e-6, -1e-6)
    ]
    ahead, behind = (listed(f(*s)) for s in steps)
    for m, p, q in zip(moved, ahead, behind, strict=True):
        assert np.allclose(m, (p - q) / 2e-6, rtol=1e-5, atol=1e-6, equal_nan=True)
    seeds = [draw.normal(size=np.shape(b)) for b in want]
    bars = {n: np.zeros_like(a) for n, a in zip(d.names, args) if n in adjoint.bars}
    found = iter(listed(adjoint.plain(*args, *bars.values(), *seeds))[len(want) :])
    back = sum(np.sum((bars[n] if n in bars else next(found)) * of[n]) for n in adjoint.wrt)
    assert back == pytest.approx(sum(np.sum(s * m) for s, m in zip(seeds, moved)), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("expression", ["np.median(holed)", "np.quantile(holed, 0.3)", "np.max(holed)"])
def test_what_is_no_number_is_found(expression: str) -> None:
    f, args = written(expression)
    assert math.isnan(plain(differentiable(f), "primal", args).plain(*args))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("np.cross(v[:2], w[:2])", "vectors of three numbers"),
        ("wide.item()", "array of size 1"),
        ("np.linalg.det(wide)", "must be square"),
        ("np.linalg.inv(tall)", "must be square"),
        ("np.linalg.cholesky(tall)", "must be square"),
        ("np.linalg.slogdet(tall)[1]", "must be square"),
        ("np.linalg.solve(tall, v)", "must be square"),
        ("np.linalg.solve(square, v)", "different lengths"),
        ("np.linalg.solve(square, tall)", "different lengths"),
    ],
)
def test_what_would_read_beyond_an_array(expression: str, message: str) -> None:
    f, args = written(expression)
    with pytest.raises(ValueError, match=message):
        plain(differentiable(f), "primal", args).plain(*args)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("np.round(v, 1)", "round of 2 arguments"),
        ("np.linalg.norm(square, 2)", "a norm of this order"),
        ("wide.var(0)", "positional"),
        ("np.inner(wide, wide)", "a @ b.T"),
    ],
)
def test_refused(expression: str, message: str) -> None:
    f, args = written(expression)
    with pytest.raises(Refused, match=message):
        differentiable(f)._kinds(args) and plain(differentiable(f), "primal", args)
