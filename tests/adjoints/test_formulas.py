"""Decompositions by formula: each derivative beside differences, to second order, in loops and under each policy; where there is no one
derivative, what has one all the same; and beside torch."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable
from nbgrad.adjoints.api import derived
from nbgrad.adjoints.formulas import FORMULAS, OUT
from nbgrad.kernels import functions

DRAW = np.random.default_rng(3)
TALL, WIDE, LONG = DRAW.normal(size=(4, 3)), DRAW.normal(size=(3, 4)), DRAW.normal(size=(8, 3))
SQUARE = DRAW.normal(size=(4, 4)) + 2.0 * np.eye(4)
DEFINITE = SQUARE @ SQUARE.T + 4.0 * np.eye(4)
FLAT = DRAW.normal(size=(4, 3)) @ DRAW.normal(size=(3, 4))  # of rank 3
V = DRAW.normal(size=4) * 0.3


def _room(name: str, a: Any, b: Any, full: bool) -> tuple[int, int]:
    m, n = a.shape
    if name in ("det_into", "slogdet_into"):
        return (1, 1) if name == "det_into" else (2, 1)
    rows = {"svd_into": m + n + 1, "qr_into": m + n, "eigh_into": n + 1, "lstsq_into": n + 1}.get(name, m)
    columns = {"solve_into": 1, "lstsq_into": 2 + m, "eigh_into": n, "qr_into": min(m, n)}.get(name, n)
    return rows, (max(m, n) if full else min(m, n)) if name == "svd_into" else columns


@pytest.mark.parametrize(
    ("name", "a", "full"),
    [
        *[(f"{n}_into", SQUARE, False) for n in ("solve", "inv", "det", "slogdet", "qr", "svd", "lstsq")],
        *[(f"{n}_into", DEFINITE, False) for n in ("cholesky", "eigh")],
        *[(f"{n}_into", a, False) for n in ("qr", "svd", "lstsq") for a in (TALL, WIDE, LONG)],
        *[("svd_into", a, True) for a in (TALL, WIDE)],
        ("det_into", FLAT, False),
    ],
)
def test_a_formula_beside_differences(name: str, a: Any, full: bool) -> None:
    of, draw = FORMULAS[name], np.random.default_rng(1)
    args = [a, draw.normal(size=(len(a), 1)), np.full((1, 1), 1e-12)][: len(of.back)]

    def value(*args: Any) -> Any:
        z = np.empty(_room(name, a, None, full))
        of.into(*args, z)
        return z

    z = value(*args)
    seed = draw.normal(size=z.shape)
    told = [z if k == OUT else args[k] for k in of.reads]
    for k, x in enumerate(args):
        way, h = draw.normal(size=x.shape), 1e-6
        ahead, behind = ([*args[:k], x + s * way, *args[k + 1 :]] for s in (h, -h))
        along, bar = np.zeros(z.shape), np.zeros(x.shape)
        of.along[k](*told, way, along)
        of.back[k](*told, seed, bar)
        np.testing.assert_allclose(along, (value(*ahead) - value(*behind)) / (2 * h), rtol=1e-6, atol=1e-7)
        assert math.isclose(np.sum(along * seed), np.sum(bar * way), rel_tol=1e-11, abs_tol=1e-11)


def by_svd(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.sum(u[:, 0] * s[0]) + s[1] * vh[0, 0] + u[1, 1] * vh[1, 2]


def by_full_svd(a):
    u, s, vh = np.linalg.svd(a)
    beyond = u[:, 2:] @ u[:, 2:].T
    return s[0] * beyond[0, 1] + vh[0, 1]


def by_values(a):
    return np.linalg.norm(a, "nuc") * np.linalg.norm(a, 2) + np.linalg.cond(a)


def by_lstsq(a, b):
    return np.sum(np.linalg.lstsq(a, b)[0] ** 2) + np.sum(np.linalg.pinv(a) ** 3)


def by_qr(a):
    q, r = np.linalg.qr(a)
    return q[0, 0] * r[0, 1] + q[1, 1] * r[1, 1]


def by_eigh(a):
    w, v = np.linalg.eigh(a)
    return w[0] + v[0, 1] * w[1]


def by_factors(a):
    return np.linalg.cholesky(a)[2, 1] + np.linalg.slogdet(a)[1] * np.linalg.det(a) * 1e-3


def written_over(a):
    y = np.linalg.inv(a)
    t = y[0, 0]
    y[0, 0] = 3.0
    return t + np.sum(y @ a)


def in_a_loop(a, b):
    x = b.copy()
    s = 0.0
    for i in range(3):
        x = x + np.linalg.solve(a + i * np.eye(4), x * x)
        s += np.linalg.det(a * x[0])
    return s + np.sum(x)


def in_loops_of_any_length(a, b):
    x = b.copy()
    i = 0
    while i < 3:
        y = np.linalg.solve(a, x)
        for _ in range(i):
            y = y + np.linalg.inv(a)[0] * y[0]
        x[:] = y * 3.0 + x * x
        i += 1
    return np.sum(x)


def filtered(a, b):
    p = np.eye(4)
    x = b.copy()
    total = 0.0
    for _ in range(3):
        p = 0.1 * a @ p @ a.T + np.eye(4)
        x = 0.3 * a @ x
        s = p + 0.5 * np.eye(4)
        gain = p @ np.linalg.inv(s)
        r = b - x
        x = x + gain @ r
        p = p - gain @ p
        total += np.linalg.slogdet(s)[1] + r @ np.linalg.solve(s, r)
    return total


def in_a_branch(a):
    if a[0, 0] > -100.0:
        y = np.linalg.inv(a)
        return y[0, 1] * y[1, 1]
    return 0.0


WHOLE = [
    *[(by_svd, (a,)) for a in (TALL, WIDE, LONG, SQUARE)],
    *[(by_full_svd, (a,)) for a in (TALL, WIDE, LONG)],
    *[(by_values, (a,)) for a in (TALL, WIDE, SQUARE)],
    *[(by_lstsq, (a, V[: len(a)])) for a in (TALL, WIDE, SQUARE)],
    *[(by_qr, (a,)) for a in (TALL, WIDE, SQUARE)],
    (by_eigh, (DEFINITE,)),
    (by_factors, (DEFINITE,)),
    (written_over, (SQUARE,)),
    (in_a_branch, (SQUARE,)),
    *[(f, (SQUARE, V)) for f in (in_a_loop, in_loops_of_any_length, filtered)],
]
LABELS = [f"{f.__name__}-{'x'.join(map(str, args[0].shape))}" for f, args in WHOLE]


def _made(d: Any, what: str, args: Any, wrt: Any = None) -> Any:
    return d._make(what, d._kinds(args), wrt)


def _gradient(made: Any, args: Any) -> list[Any]:
    bars = [np.zeros_like(a) for a in args]
    made.plain(*[a.copy() for a in args], *bars, 1.0)
    return bars


@pytest.mark.parametrize(("f", "args"), WHOLE, ids=LABELS)
def test_two_orders(f: Any, args: Any) -> None:
    """The adjoint beside differences of the value and beside the tangent, its own adjoint and tangent beside differences of it."""
    d, h, draw = differentiable(f), 1e-6, np.random.default_rng(2)
    ways = [draw.normal(size=a.shape) for a in args]
    ahead, behind = ([a + s * w for a, w in zip(args, ways)] for s in (h, -h))
    primal, adjoint = _made(d, "primal", args), _made(d, "adjoint", args)
    slope = sum(float(np.sum(b * w)) for b, w in zip(_gradient(adjoint, args), ways))
    across = (primal.plain(*[a.copy() for a in ahead]) - primal.plain(*[a.copy() for a in behind])) / (2 * h)
    tangent = _made(d, "tangent", args, tuple(d.names)).plain(*[a.copy() for a in args], *ways)[1]
    assert math.isclose(slope, across, rel_tol=1e-5, abs_tol=1e-6)
    assert math.isclose(slope, tangent, rel_tol=1e-11, abs_tol=1e-12)

    second, n = derived(adjoint, d), len(args)
    wanted = (*second.names[:n], *second.names[n:-1])
    given = lambda: [*[a.copy() for a in args], *map(np.zeros_like, args), 1.0]  # noqa: E731
    moved = [np.zeros_like(a) for a in args]
    _made(second, "tangent alone", given(), wanted).plain(*given(), *ways, *moved)
    for m, p, q in zip(moved, _gradient(adjoint, ahead), _gradient(adjoint, behind)):
        np.testing.assert_allclose(m, (p - q) / (2 * h), rtol=1e-4, atol=1e-5)
    again = _made(second, "adjoint", given(), wanted)
    bars = {k: np.zeros(np.shape(x)) for k, x in zip(second.names, given()) if k in again.bars}
    for k, w in zip(second.names[n:], ways):
        bars[k][...] = w
    again.plain(*given(), *[bars[k] for k in again.bars], *[0.0] * len(again.program.results))
    for k, m in zip(second.names, moved):
        np.testing.assert_allclose(bars[k], m, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("policy", ["store", "rerun", ("steps", 2), ("revolve", 2)])
@pytest.mark.parametrize("f", [in_a_loop, in_loops_of_any_length, filtered])
def test_policies(f: Any, policy: Any) -> None:
    args = SQUARE, V
    want = _gradient(_made(differentiable(f), "adjoint", args), args)
    found = _gradient(_made(differentiable(f, policy=policy), "adjoint", args), args)
    for a, b in zip(found, want):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    held = _made(differentiable(f, policy=policy), "memory", args).plain(SQUARE.copy(), V.copy())
    assert held[0] > 0


def by_eigenvalues(a):
    return np.sum(np.linalg.eigvalsh(a) ** 3) + np.linalg.norm(a, "nuc")


def by_the_first(a):
    u, s, vh = np.linalg.svd(a)
    w, v = np.linalg.eigh(a.T @ a)
    return u[0, 0] * vh[0, 1] * s[0] + v[0, 3] * v[1, 3] * w[3]


def test_equal_values_whose_vectors_are_not_asked_for() -> None:
    """What depends on values alone, or on other vectors, has a derivative."""
    draw, h = np.random.default_rng(5), 1e-6
    alike = np.linalg.qr(SQUARE)[0] @ np.diag([3.0, 2.0, 2.0, 2.0]) @ np.linalg.qr(DEFINITE)[0]
    of_rank_two = FLAT @ np.linalg.qr(SQUARE)[0] @ np.diag([1.0, 1.0, 0.0, 0.0])
    for f, a in ((by_eigenvalues, np.eye(4) * 2.0), (by_the_first, alike), (by_the_first, of_rank_two)):
        (bar,) = _gradient(_made(differentiable(f), "adjoint", (a,)), (a,))
        primal = _made(differentiable(f), "primal", (a,))
        for _ in range(3):
            way = draw.normal(size=a.shape)
            way = way + way.T if f is by_eigenvalues else way
            across = (primal.plain(a + h * way) - primal.plain(a - h * way)) / (2 * h)
            assert math.isclose(np.sum(bar * way), across, rel_tol=1e-6, abs_tol=1e-7)


def test_equal_values_whose_vectors_are() -> None:
    """There is no derivative, or none that can be told from vectors: NaNs, as of PyTorch, not a number of some size."""
    for f, a in ((by_svd, np.vstack([np.eye(3), np.ones((1, 3))])), (by_eigh, np.eye(4))):
        for scale in (1.0, 1.0 + 1e-15):
            x = a * np.where(np.arange(a.shape[1]) == 1, scale, 1.0)
            (bar,) = _gradient(_made(differentiable(f), "adjoint", (x,)), (x,))
            assert np.any(np.isnan(bar))


@pytest.mark.parametrize("a", [FLAT, FLAT[:, :3] @ np.diag([1.0, 1.0, 0.0]), FLAT[:3]])
def test_of_less_than_full_rank(a: Any) -> None:
    """Of matrices whose rank stays: the shortest solution."""
    b = V[: len(a)]
    d = differentiable(by_lstsq)
    assert math.isclose(_made(d, "primal", (a, b)).plain(a, b), by_lstsq(a, b), rel_tol=1e-9)
    bars, h, draw = _gradient(_made(d, "adjoint", (a, b)), (a, b)), 1e-6, np.random.default_rng(6)
    left, right = draw.normal(size=(len(a), len(a))), draw.normal(size=(a.shape[1], a.shape[1]))
    way = left @ a + a @ right
    ahead, behind = ((np.eye(len(a)) + s * left) @ a @ (np.eye(a.shape[1]) + s * right) for s in (h, -h))
    across = (by_lstsq(ahead, b) - by_lstsq(behind, b)) / (2 * h)
    assert math.isclose(np.sum(bars[0] * way), across, rel_tol=1e-4)


def cut(a, b, least):
    x, _, rank, _ = np.linalg.lstsq(a, b, rcond=least)
    return x * rank


def test_a_cutoff() -> None:
    u, _, vh = np.linalg.svd(TALL, full_matrices=False)
    a, f, h = (u * np.array([3.0, 2.0, 0.1])) @ vh, differentiable(cut), 1e-6
    for least in (0.1, 1e-3, -1, None):
        np.testing.assert_allclose(f(a, V, least), cut(a, V, least), rtol=1e-10)
    with pytest.raises(TypeError, match="is no float"):
        f.vjp(a, V, None, seeds=V[:3], wrt="least")
    _, (by_a, by_b, by_least) = f.vjp(a, V, 0.1, seeds=V[:3])
    way = a @ np.outer(V[:3], V[1:]) + np.outer(V, V) @ a  # of one rank, as what is cut stays
    parts = (u[:, :2] * np.array([3.0, 2.0])) @ vh[:2]
    _, (alone, _, _) = f.vjp(parts, V, 1e-3, seeds=V[:3])
    kept = u[:, :2] @ u[:, :2].T @ way @ vh[:2].T @ vh[:2]
    assert np.sum(by_a * kept) == pytest.approx(np.sum(alone * kept), rel=1e-8)
    moved = (cut(a, V + h * V[::-1], 0.1) - cut(a, V - h * V[::-1], 0.1)) / (2 * h)
    assert by_b @ V[::-1] == pytest.approx(moved @ V[:3], rel=1e-6)
    assert by_least == 0.0


def rank_of(a):
    return np.linalg.lstsq(a, np.eye(4))[2] * a[0, 0]


def test_the_rank_is_told() -> None:
    assert differentiable(rank_of).value_and_grad(FLAT, wrt="a")[0] == 3 * FLAT[0, 0]


def halves(a, b):
    u, s, vh = np.linalg.svd(a)
    return np.linalg.solve(a, b), np.linalg.inv(a), u, s, vh, np.linalg.eigh(a @ a.T)[1]


def test_results_are_of_the_dtype_that_was_given() -> None:
    f = differentiable(halves)
    for dtype in (np.float32, np.float64):
        found = f(SQUARE.astype(dtype), V.astype(dtype))
        assert {x.dtype for x in found} == {np.dtype(dtype)}
        np.testing.assert_allclose(found[0], np.linalg.solve(SQUARE, V), rtol=1e-3)
        np.testing.assert_allclose((found[2] * found[3]) @ found[4], SQUARE, rtol=1e-4, atol=1e-5)


def test_a_formula_is_compiled_once() -> None:
    """What calls it finds it by its symbol."""
    f = differentiable(by_factors)
    _, (bar,) = f.value_and_grad(DEFINITE)
    np.testing.assert_allclose(bar, _gradient(_made(f, "adjoint", (DEFINITE,)), (DEFINITE,))[0], rtol=1e-10)
    placed = functions._placed(FORMULAS["cholesky_into"].into)
    assert placed is None or placed[0].startswith("cholesky_into_")


def test_no_numbers_that_do_not_settle() -> None:
    with pytest.raises(ValueError, match="did not converge"):
        differentiable(by_eigh)(np.full((4, 4), np.nan))


@pytest.mark.oracle
@pytest.mark.parametrize("a", [TALL, WIDE, SQUARE, LONG])
def test_beside_torch(a: Any) -> None:
    import torch

    def of_svd(a):
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return np.sum((u[:, :2] * s[:2]) @ vh[:2] * np.linalg.pinv(a).T) + np.sum(s**3)

    def of_torch(a: Any) -> Any:
        u, s, vh = torch.linalg.svd(a, full_matrices=False)
        return ((u[:, :2] * s[:2]) @ vh[:2] * torch.linalg.pinv(a).T).sum() + (s**3).sum()

    f, x = differentiable(of_svd), torch.tensor(a, requires_grad=True)
    (want,) = torch.autograd.grad(of_torch(x), x)
    np.testing.assert_allclose(
        _gradient(_made(f, "adjoint", (a,)), (a,))[0], want.numpy(), rtol=1e-9, atol=1e-10
    )
    second = torch.autograd.functional.hvp(of_torch, torch.tensor(a), torch.ones(a.shape, dtype=x.dtype))[1]
    np.testing.assert_allclose(f.hvp((a,), (np.ones(a.shape),))[0], second.numpy(), rtol=1e-8, atol=1e-8)
