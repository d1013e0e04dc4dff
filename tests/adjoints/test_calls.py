"""Functions of NumPy's as they are called, in every rank that they take: values beside NumPy's own, derivatives beside differences."""

import enum
import linecache
import math
import re
from typing import Any

import numpy as np
import pytest
from numba import guvectorize, vectorize

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
np.cumsum(wide, axis=0)
np.cumprod(cube, 1)
np.roll(wide, -1, axis=1)
np.sort(wide)
np.sort(tall, axis=0)
np.sort(wide, axis=None)
wide[0][np.argsort(wide, axis=1)]
np.median(cube, axis=1)
np.median(wide, axis=0, keepdims=True)
np.percentile(wide, 30, axis=0)
np.percentile(v, [10, 90])
np.std(cube, axis=(0, 2))
np.std(wide, axis=1, ddof=1, keepdims=True)
wide.var(0)
np.ptp(wide, axis=1)
np.argmax(wide, axis=1) * few
np.average(tall, axis=0, weights=v[:5])
np.prod(wide, axis=0, keepdims=True)
np.trapezoid(wide, dx=0.1)
np.trapezoid(v, v * v)
np.nanmax(holed) * np.nanmean(holed)
np.nanmedian(holed)
np.nanstd(np.append(holed, x))
np.diff(wide, axis=0)
np.diff(v, prepend=x)
np.diff(cube, 2, 0)
np.gradient(wide, 0.5)
np.gradient(v, v * v)
np.linalg.norm(wide, axis=1)
np.linalg.norm(cube, axis=(1, 2))
np.linalg.norm(wide, axis=0, keepdims=True)
np.linalg.norm(v, 3)
np.linalg.norm(square, 2)
np.linalg.norm(wide, 'nuc')
np.linalg.norm(wide, -np.inf)
np.linalg.cond(square)
np.linalg.eigvalsh(square + square.T)
np.linalg.eigvalsh(np.diag(w))
np.abs(np.linalg.eigh(square)[1])
np.linalg.eigh(square).eigenvalues
np.abs(np.linalg.svd(square)[0])
np.abs(np.linalg.svd(wide, full_matrices=False)[2])
np.linalg.svd(tall, compute_uv=False)
np.linalg.svd(wide)[1]
np.linalg.svd(tall)[0][:, 3:] @ np.linalg.svd(tall)[0][:, 3:].T
np.linalg.qr(tall)
np.linalg.qr(wide)
np.linalg.qr(np.triu(square), mode="r")
np.linalg.lstsq(tall, v[:5])[0]
np.linalg.lstsq(wide, few)[0]
np.linalg.lstsq(tall, tall * tall)[0]
np.linalg.pinv(tall)
np.linalg.matrix_power(square, 3)
np.linalg.multi_dot([few, wide, square])
np.einsum('ij,jk->ik', wide, square)
np.einsum('ij,kj', wide, square)
np.einsum('bij,jk->bik', cube, square)
np.einsum('ii->i', square)
np.einsum('i,i', v, v)
np.einsum('ij,jk,k->i', wide, square, w)
cube @ w
cube @ square
few @ cube
cube @ cube.transpose(0, 2, 1)
np.dot(cube, wide.T)
np.tensordot(cube, wide, ([1, 2], [0, 1]))
np.divide(v, v[::-1], out=np.zeros_like(v), where=v > 0.0)
np.sqrt(v, out=np.full(6, x), where=v > 0.0)
np.sum(v, where=v > 0.0) + np.mean(v, where=v < 0.5)
np.select([v > 0.5, v > 0.0], [v * v, v], x)
np.clip(v, a_min=x, a_max=None)
v.clip(max=x)
np.take(wide, whole[:2], axis=1)
np.take_along_axis(wide, np.argsort(wide), axis=1)
np.delete(wide, 1, axis=1)
np.insert(v, 2, x)
np.pad(v, (1, 2))
np.pad(wide, ((1, 0), (0, 2)), mode="reflect")
np.pad(v, 8, mode="wrap")
np.pad(v, 2, "symmetric")
np.pad(wide, 1, mode="edge")
np.pad(v, 1, constant_values=x)
np.split(v, 3)[1] * np.array_split(v, 4)[0]
np.hsplit(wide, [1])[1]
np.block([[wide, few[:, None]], [w[None, :], np.array([[x]])]])
np.hstack([v, x])
np.vstack((w, wide))
np.column_stack((few, wide))
np.concatenate((v, [x, y]))
np.repeat(wide, 2, axis=0)
np.append(wide, square, axis=0)
np.squeeze(v[:, None])
np.moveaxis(cube, 0, -1)
np.rot90(wide)
np.broadcast_to(v, (2, 6)) * x
np.reshape(wide, (2, 6), order="F")
wide.ravel(order="F")
np.diag(w, 1)
np.diag(wide, -1)
np.trace(wide, 1)
np.eye(3, 4, k=1) * wide
np.tri(3, 4, -1) * wide
square[np.triu_indices(4, 1)]
square[np.tril_indices(4)]
square[np.ix_(whole[:2], whole)]
np.vander(w)
np.vander(w, 3, increasing=True)
np.polyfit(v, v**3, 2)
np.polyder(w) * np.polyint(few)[1]
np.linspace(y, x, 5, endpoint=False)
np.logspace(y, x, 4)
np.geomspace(x, 8.0, 4)
np.interp(v, few.cumsum() ** 2, few, left=x)
np.cov(wide)
np.cov(v, v * v)
np.corrcoef(wide)
np.add.reduce(wide)
np.maximum.accumulate(v)
np.subtract.outer(v, w)
np.logaddexp.reduce(v)
np.bincount(whole, weights=w)
np.histogram(v, 3)[1]
np.digitize(v, np.array([-1.0, 0.0, 1.0])) * x
np.unique(v)
np.fmax(v, x) * np.heaviside(v, 0.5)
np.isclose(v, v + 1e-9) * x
np.nan_to_num(holed)
np.round(v, 1) * x
np.sum([x, y]) * np.max([v, v * v], axis=0)
np.array(x) * np.asarray([x, y])
np.array(whole, dtype=np.float64) * x
np.finfo(np.float64).eps * v
math.hypot(x, y, x) * math.comb(5, 2) * math.dist(v, v[::-1]) * math.ldexp(x, 2)
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
        ("np.linalg.eigvalsh(wide)", "must be square"),
        ("np.split(v, 4)[0]", "equal division"),
        ("np.max(v[:0])", "zero-size"),
        ("np.min(wide[:, :0], axis=1)", "zero-size"),
        ("np.argmax(v[:0]) * x", "empty sequence"),
        ("np.quantile(v[:0], 0.5)", "empty array"),
        ("np.digitize(x, v[::-1].cumsum() * 0.0 - np.arange(6.0))", "bins that fall"),
    ],
)
def test_what_would_read_beyond_an_array(expression: str, message: str) -> None:
    f, args = written(expression)
    with pytest.raises(ValueError, match=message):
        plain(differentiable(f), "primal", args).plain(*args)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("np.linalg.norm(square, 3)", "a norm of the order 3 of a matrix"),
        ("np.linalg.norm(v, x)", "a norm of an order that is not known"),
        ("np.sqrt(v, where=v > 0)", "without out, which is not set elsewhere"),
        ("np.einsum('i...,i', v, v)", "a letter for each axis"),
        ("np.linalg.qr(tall, 'complete')", "reduced"),
        ("np.average(tall, axis=0, weights=tall)", "another array of more than one dimension"),
        ("np.random.gamma(2.0) * x", "draw before"),
        ("np.std(v, where=v > 0)", "where"),
        ("np.inner(wide, wide)", "a @ b.T"),
    ],
)
def test_refused(expression: str, message: str) -> None:
    f, args = written(expression)
    with pytest.raises(Refused, match=message):
        differentiable(f)._kinds(args) and plain(differentiable(f), "primal", args)


@vectorize
def shrunk(x, by):
    if abs(x) <= by:
        return 0.0
    return x - math.copysign(by, x)


def test_what_vectorize_was_put_on() -> None:
    """Of arrays that broadcast and of numbers; where it was made for floats alone, integers are floats, as Numba has it."""

    @vectorize(["f8(f8, f8)"])
    def half(x, y):
        return (x + y) / 2 if x > y else y

    @guvectorize(["(f8[:], f8[:])"], "(n)->()")
    def total(x, out):
        out[0] = x.sum()

    def by_elements(x, n):
        return np.sum(shrunk(x, 0.3) * x * half(x[:, None], x)) + shrunk(x[0], 0.1) + half(n, 2)

    f, x = differentiable(by_elements), np.array([1.2, -0.2, -0.9, 0.4])
    made = plain(f, "adjoint", (x, 3))
    by_x = np.zeros(4)
    value = made.plain(x, 3, by_x, 1.0)
    assert float(np.ravel(value)[0]) == pytest.approx(by_elements(x, 3), rel=1e-14)
    for k in range(4):
        step = np.eye(4)[k] * 1e-6
        expected = (by_elements(x + step, 3) - by_elements(x - step, 3)) / 2e-6
        assert by_x[k] == pytest.approx(expected, abs=1e-7)
    with pytest.raises(Refused, match="total is called, which is none of"):
        differentiable(lambda x: total(x)).grad(x)


class Side(enum.IntEnum):
    LEFT = 1
    RIGHT = 2


class Kind(enum.Enum):
    CALL = "call"
    PUT = "put"


def paid(x, strikes, kind):
    s = 0.0
    for k in strikes:
        s += max(x - k, 0.0) if kind == Kind.CALL else max(k - x, 0.0) ** 2
    return s if kind is not Kind.PUT else 2.0 * s


def test_a_member_of_an_enum_is_known() -> None:
    f, strikes = differentiable(paid), np.array([0.5, 1.0, 2.0])
    for kind, by_x in ((Kind.CALL, 2.0), (Kind.PUT, -4.0 * (2.0 - 1.2))):
        made = plain(f, "adjoint", (1.2, strikes, kind))
        value, found = made.plain(1.2, strikes, np.zeros(3), 1.0)
        assert value == paid(1.2, strikes, kind)
        assert found == pytest.approx(by_x)


def chosen(x, side):
    low = float("inf")
    for k in (Side.LEFT, Side.RIGHT):
        low = min(low, x**k)
    return low * Side.RIGHT if side == Side.RIGHT else max(x, -float("inf")) + float("0.5")


def test_members_of_an_enum_and_what_float_reads() -> None:
    f = differentiable(chosen)
    for x, side in [(0.5, Side.RIGHT), (1.5, Side.RIGHT), (1.5, Side.LEFT), (1.5, 2)]:
        made = plain(f, "adjoint", (x, side))
        value, by_x = made.plain(x, side, 1.0)
        assert value == chosen(x, side)
        assert by_x == pytest.approx((chosen(x + 1e-6, side) - chosen(x - 1e-6, side)) / 2e-6, rel=1e-7)


def halves(x, n):
    return x if n == 0 else halves(x * 0.5, n - 1) + halves(x * x, n - 1)


def test_who_calls_itself_twice_is_written_out_as_often_as_is_little() -> None:
    made = plain(differentiable(lambda x: halves(x, 5)), "primal", (0.5,))
    assert made.plain(0.5) == halves(0.5, 5)
    with pytest.raises(Refused, match="halves calls itself too often"):
        plain(differentiable(lambda x: halves(x, 20)), "primal", (0.5,))
