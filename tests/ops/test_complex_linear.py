"""Linear algebra of complex numbers beside torch: values, gradients to second order, tangents, batches, single precision, refusals. What
LAPACK settles up to a phase is compared by what does not depend on it."""

import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import array, assert_same, leaves, outcome
from tests.support import T

pytestmark = pytest.mark.oracle

Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
CASES: dict[str, Case] = {}


def case(name: str, fn: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    CASES[name] = fn, shapes


def hermitian(A: Any) -> Any:
    """Positive ones."""
    return A @ A.mH + 1.5 * A.new_ones(A.shape[-1]).diag()


def phaseless(V: Any) -> Any:
    """Of each column what is left when its phase is forgotten."""
    return V[..., :, None, :] * V[..., None, :, :].conj()


SQUARE, BATCH, TALL, WIDE = (3, 3), (2, 3, 3), (4, 3), (2, 3, 4)
for order in (0.5, 1, 1.5, 2, 3, float("inf"), -float("inf"), -1):
    case(f"vector_norm_{order}", lambda T, x, p=order: T.linalg.vector_norm(x, p, -1), TALL)
for order in ("fro", "nuc", 1, -1, 2, -2, float("inf")):
    case(f"matrix_norm_{order}", lambda T, x, p=order: T.linalg.matrix_norm(x, p), WIDE)
    if order in (2, -2):
        case(f"cond_{order}", lambda T, x, p=order: T.linalg.cond(x, p), BATCH)
    else:  # of which torch's backward fails, as it writes to what it has saved
        case(f"cond_{order}", lambda T, x, p=order: T.linalg.cond(x.detach(), p), BATCH)
case("norm", lambda T, x: [x.norm(), x.norm(1, dim=0), T.norm(x, "nuc"), T.linalg.norm(x)], TALL)
case("dist", lambda T, x, y: T.dist(x, y, 3), TALL, TALL)
case("renorm", lambda T, x: T.renorm(x, 2, 0, 1.0), TALL)
case("vdot", lambda T, x, y: [T.vdot(x, y), x.vdot(x)], (5,), (5,))
case("dot", lambda T, x, y: [T.dot(x, y), T.inner(x, y), T.outer(x, y)], (5,), (5,))
case("vecdot", lambda T, x, y: [T.linalg.vecdot(x, y, dim=0), T.linalg.vecdot(x[0], y[1])], TALL, TALL)
case("inv", lambda T, A: [T.linalg.inv(A), T.linalg.inv_ex(A)], BATCH)
case("det", lambda T, A: [T.linalg.det(A), T.linalg.slogdet(A), T.logdet(A)], BATCH)
case("solve", lambda T, A, B: [T.linalg.solve(A, B), T.linalg.solve_ex(A, B)], BATCH, (2, 3, 2))
case("solve_right", lambda T, A, B: T.linalg.solve(A, B, left=False), BATCH, (3, 3))
for upper in (False, True):
    for unit in (False, True):
        how = {"upper": upper, "unitriangular": unit}
        case(
            f"solve_triangular_{upper}_{unit}",
            lambda T, A, B, how=how: T.linalg.solve_triangular(A, B, **how),
            BATCH,
            (2, 3, 2),
        )
    case(
        f"cholesky_{upper}",
        lambda T, A, upper=upper: [
            T.linalg.cholesky(hermitian(A), upper=upper),
            T.linalg.cholesky_ex(hermitian(A), upper=upper),
        ],
        BATCH,
    )
    case(
        f"cholesky_solve_{upper}",
        lambda T, A, B, upper=upper: [
            T.cholesky_solve(B, T.linalg.cholesky(hermitian(A), upper=upper), upper),
            T.cholesky_inverse(T.linalg.cholesky(hermitian(A), upper=upper), upper),
        ],
        BATCH,
        (2, 3, 2),
    )
case("lu", lambda T, A: [T.linalg.lu(A), T.linalg.lu_factor(A), T.linalg.lu_factor_ex(A)], BATCH)
case("lu_tall", lambda T, A: T.linalg.lu(A), TALL)
case("lu_wide", lambda T, A: T.linalg.lu(A), WIDE)
for left in (True, False):
    for adjoint in (True, False):
        case(
            f"lu_solve_{left}_{adjoint}",
            lambda T, A, B, how={"left": left, "adjoint": adjoint}: T.linalg.lu_solve(
                *T.linalg.lu_factor(A), B, **how
            ),
            BATCH,
            BATCH,
        )
case("qr", lambda T, A: T.linalg.qr(A), BATCH)
case("qr_tall", lambda T, A: T.linalg.qr(A), TALL)
case("qr_wide", lambda T, A: T.linalg.qr(A), WIDE)
case("householder", lambda T, A, t: T.linalg.householder_product(A, t), TALL, (3,))
case("ormqr", lambda T, A, t, B: [T.ormqr(A, t, B), T.ormqr(A, t, B, transpose=True)], TALL, (3,), (4, 2))
case("ormqr_right", lambda T, A, t, B: T.ormqr(A, t, B, False, True), TALL, (3,), (2, 4))
case("svdvals", lambda T, A: T.linalg.svdvals(A), WIDE)


def of_svd(T: ModuleType, A: Any) -> Any:
    u, s, vh = T.linalg.svd(A, full_matrices=False)
    return [s, phaseless(u), phaseless(vh.mH), (u * s.exp().unsqueeze(-2)) @ vh]


case("svd", of_svd, BATCH)
case("svd_tall", of_svd, TALL)
case("svd_wide", of_svd, WIDE)
case("svd_alone", lambda T, A: phaseless(T.linalg.svd(A, full_matrices=False)[0]), TALL)
case("svd_older", lambda T, A: (lambda u, s, v: u * s @ v.mH)(*T.svd(A)), TALL)
for half in "LU":
    case(
        f"eigh_{half}",
        lambda T, A, half=half: (lambda L, V: [L, phaseless(V)])(*T.linalg.eigh(hermitian(A), half)),
        BATCH,
    )
case("eigvalsh", lambda T, A: T.linalg.eigvalsh(hermitian(A)), BATCH)
case("eig", lambda T, A: (lambda L, V: [L, phaseless(V)])(*T.linalg.eig(A)), BATCH)
case("eig_of_real", lambda T, A: (lambda L, V: [L, phaseless(V)])(*T.linalg.eig(A.real)), BATCH)
case("eigvals", lambda T, A: [T.linalg.eigvals(A), T.linalg.eigvals(A.real)], BATCH)
case("matrix_exp", lambda T, A: [T.linalg.matrix_exp(A), T.matrix_exp(3 * A)], BATCH)
case("matrix_power", lambda T, A: [T.linalg.matrix_power(A, n) for n in (0, 1, 3, -2)], BATCH)
case("pinv", lambda T, A: [T.linalg.pinv(A), T.pinverse(A)], TALL)
case("pinv_wide", lambda T, A: T.linalg.pinv(A), WIDE)
case("pinv_hermitian", lambda T, A: T.linalg.pinv(hermitian(A), hermitian=True), BATCH)
case("lstsq", lambda T, A, B: T.linalg.lstsq(A, B), TALL, (4, 2))
case("lstsq_rests", lambda T, A, B: T.linalg.lstsq(A, B, driver="gelsd"), TALL, (4, 2))
case(
    "matrix_rank",
    lambda T, A: [T.linalg.matrix_rank(A), T.linalg.matrix_rank(A @ A.mH, hermitian=True)],
    TALL,
)
case("multi_dot", lambda T, A, B: T.linalg.multi_dot([A, B, A, B[:, 0]]), TALL, (3, 4))
case("tensorinv", lambda T, A: T.linalg.tensorinv(A.reshape(4, 2, 2), ind=1), (4, 4))
case("tensordot", lambda T, A, B: T.tensordot(A, B, dims=([1, 2], [1, 0])), (2, 3, 4), (4, 3, 2))
case("einsum", lambda T, A, B: [T.einsum("bij,bjk->bik", A, B), T.einsum("bij,bji->", A, B)], BATCH, BATCH)
case("kron", lambda T, A, B: T.kron(A, B), (2, 2), (3, 1))
case("linear", lambda T, x, w, b: T.nn.functional.linear(x, w, b), (2, 4, 3), (5, 3), (5,))
case("addmm", lambda T, c, A, B: T.addmm(c, A, B, beta=2 - 1j, alpha=0.5j), (2, 4), (2, 3), (3, 4))
case("baddbmm", lambda T, c, A, B: T.baddbmm(c, A, B, beta=1j, alpha=2), (4,), (2, 2, 3), (2, 3, 4))
case("addbmm", lambda T, c, A, B: T.addbmm(c, A, B, beta=1j), (2, 4), (2, 2, 3), (2, 3, 4))
case("addmv", lambda T, c, A, x: T.addmv(c, A, x, alpha=1j, beta=2), (2,), (2, 3), (3,))
case("addr", lambda T, c, x, y: T.addr(c, x, y, alpha=1j, beta=2j), (2, 3), (2,), (3,))
case("cross", lambda T, a, b: [T.linalg.cross(a, b), T.cross(a, b, dim=1)], TALL, TALL)
case("trace", lambda T, A: [T.trace(A), A.mH, A.H, A.adjoint()], SQUARE)


def ldl(T: ModuleType, A: Any) -> Any:
    """Which has no gradient."""
    A, found = A.detach(), []
    for matrices, same in ((A + A.mT, False), (A + A.mH, True)):
        LD, pivots = T.linalg.ldl_factor(matrices, hermitian=same)
        found += [LD, pivots, T.linalg.ldl_solve(LD, pivots, A, hermitian=same)]
    return [*found, T.geqrf(A)]


case("ldl", ldl, (2, 5, 5))

EACH = pytest.mark.parametrize("name", CASES)


def arrays_of(name: str, dtype: str = "complex128") -> list[np.ndarray]:
    rng = np.random.default_rng(len(name) + sum(map(ord, name)))
    drawn = [rng.normal(size=(2, *shape)) for shape in CASES[name][1]]
    return [(x[0] + 1j * x[1]).astype(dtype) for x in drawn]


def tensors_of(T: ModuleType, arrays: list[np.ndarray]) -> list[Any]:
    return [T.tensor(a).requires_grad_() for a in arrays]


def moving(found: Any) -> list[Any]:
    return [t for t in leaves(found) if t.dtype.is_complex or t.dtype.is_floating_point]


def weighted(T: ModuleType, found: list[Any], seed: int) -> Any:
    """A real number that depends on all of these parts."""
    rng = np.random.default_rng(seed)
    total: Any = 0
    for t in found:
        for part in (t.real, t.imag) if t.dtype.is_complex else (t,):
            weights = rng.normal(size=tuple(t.shape)).astype(array(part.detach()).dtype)
            total = total + (part * T.tensor(weights)).sum()
    return total


def derivatives(T: ModuleType, name: str, arrays: list[np.ndarray], twice: bool) -> list[Any]:
    """The values, their gradients, and those of these."""
    inputs = tensors_of(T, arrays)
    found = leaves(CASES[name][0](T, *inputs))
    wanted = [t for t in moving(found) if t.requires_grad]
    if not wanted:
        return found
    first = T.autograd.grad(weighted(T, wanted, 1), inputs, create_graph=twice)
    if not twice:
        return [*found, *first]
    again = [g for g in first if g.requires_grad]
    second = T.autograd.grad(weighted(T, again, 2), inputs, allow_unused=True) if again else ()
    return [*found, *first, *[g for g in second if g is not None]]


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Of what is deprecated, and of real parts taken from complex gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@EACH
def test_values_and_gradients(torch: ModuleType, name: str) -> None:
    got, want = (derivatives(m, name, arrays_of(name), twice=True) for m in (T, torch))
    assert_same(got, want, name, 1e4)


@EACH
def test_single_precision(torch: ModuleType, name: str) -> None:
    got, want = (derivatives(m, name, arrays_of(name, "complex64"), twice=False) for m in (T, torch))
    assert_same(got, want, name, 400)


def test_gradient_of_the_determinant_of_singular_matrices(torch: ModuleType) -> None:
    (a,) = arrays_of("trace")
    a[:, 2] = 1j * a[:, 0]
    found = []
    for m in (T, torch):
        (x,) = tensors_of(m, [a])
        found.append(m.autograd.grad(m.linalg.det(x).real, x))
    assert_same(*found, "det", 1e3)


JVPS = (
    *(
        "vector_norm_3",
        "norm",
        "dist",
        "vdot",
        "dot",
        "vecdot",
        "inv",
        "det",
        "solve",
        "solve_right",
        "lu",
        "lu_solve_True_True",
    ),
    *(
        "solve_triangular_True_False",
        "qr",
        "svdvals",
        "eigvals",
        "matrix_exp",
        "matrix_power",
        "pinv",
        "lstsq",
        "cross",
        "addmm",
    ),
    *("trace", "linear", "householder"),
)


@pytest.mark.parametrize("name", JVPS)
def test_tangents(torch: ModuleType, name: str) -> None:
    fn, arrays = CASES[name][0], arrays_of(name)

    def moved(m: ModuleType) -> Any:
        given = tuple([t.detach() for t in tensors_of(m, arrays)])
        along = tuple([t * (0.3 - 0.7j) + t.conj() * 0.2 for t in given])
        return m.func.jvp(lambda *x: tuple(moving(fn(m, *x))), given, along)[1]

    assert_same(moved(T), moved(torch), name, 1e4)


@pytest.mark.parametrize(
    "name",
    ["solve_right", "matrix_power", "det", "lu_wide", "qr", "svd", "eig", "vdot", "pinv", "vector_norm_2"],
)
def test_vmap_is_a_loop(name: str) -> None:
    fn, shapes = CASES[name]
    rng = np.random.default_rng(3)
    many = [T.tensor(rng.normal(size=(4, *s)) + 1j * rng.normal(size=(4, *s))) for s in shapes]

    def gradient(*x: Any) -> Any:
        return T.func.grad(lambda *y: sum(t.abs().sum() for t in moving(fn(T, *y))))(*x)

    got = T.func.vmap(gradient)(*many)
    want = T.stack([gradient(*x) for x in zip(*many)])
    assert_same(got, want, name, 1e3)


@EACH
def test_gradients_are_those_of_differences(name: str) -> None:
    """To second order, of functions of the parts."""
    fn = CASES[name][0]
    given = [T.tensor(np.stack([a.real, a.imag], -1)).requires_grad_() for a in arrays_of(name)]

    def run(*x: Any) -> Any:
        found = moving(fn(T, *map(T.view_as_complex, x)))
        return tuple([T.view_as_real(t) if t.is_complex() else t for t in found if t.requires_grad])

    if run(*given):
        assert T.autograd.gradcheck(run, given, fast_mode=True)
        assert T.autograd.gradgradcheck(run, given, fast_mode=True)


SCENES: dict[str, Callable[[ModuleType, Any], Any]] = {
    "phase of eig": lambda T, A: T.linalg.eig(A)[1].real.sum().backward(),
    "phase of eigh": lambda T, A: T.linalg.eigh(A)[1].imag.sum().backward(),
    "phase of svd": lambda T, A: T.linalg.svd(A)[0].real.sum().backward(),
    "phases of svd": lambda T, A: (lambda u, s, vh: (u.real.sum() + vh.imag.sum()).backward())(
        *T.linalg.svd(A)
    ),
    "qr complete": lambda T, A: T.linalg.qr(A[:, :2], "complete")[0].real.sum().backward(),
    "qr r": lambda T, A: T.linalg.qr(A, "r")[1].real.sum().backward(),
    "not square": lambda T, A: T.linalg.eig(A[:2]),
    "vector": lambda T, A: T.linalg.eigvals(A[0]),
    "ints": lambda T, A: T.linalg.eig(A.real.int()),
    "infinite": lambda T, A: T.linalg.eig(A / 0),
    "infinite, with a gradient": lambda T, A: T.linalg.eigvals(A * float("inf")),
    "out real": lambda T, A: T.linalg.eigvals(A.detach(), out=T.empty(3)),
    "out parts real": lambda T, A: T.linalg.eig(A.detach(), out=(T.empty(3), T.empty(3, 3))),
    "out": lambda T, A: T.linalg.eigvals(A.detach(), out=T.empty(3, dtype=T.complex64)),
    "singular": lambda T, A: T.linalg.inv(A * 0),
    "singular system": lambda T, A: T.linalg.solve(A * 0, A),
    "singular, told": lambda T, A: [
        T.linalg.inv_ex(A.detach() * 0).info,
        T.linalg.lu_factor_ex(A.detach() * 0).info,
    ],
    "not positive": lambda T, A: T.linalg.cholesky(-A @ A.mH),
    "not positive, told": lambda T, A: T.linalg.cholesky_ex(-A.detach() @ A.detach().mH).info,
    "real times complex": lambda T, A: A.real @ A,
    "complex times real": lambda T, A: T.mm(A, A.real),
    "batches": lambda T, A: T.bmm(A[None], A.real[None]),
    "vectors": lambda T, A: T.dot(A[0], A[0].real),
    "conjugated vectors": lambda T, A: T.vdot(A[0], A[0].real),
    "matrix and vector": lambda T, A: T.mv(A, A[0].real),
    "sum of product": lambda T, A: T.addmm(A.real, A, A),
    "tensordot": lambda T, A: T.tensordot(A, A.real, 1),
    "einsum": lambda T, A: T.einsum("ij,jk", A, A.real),
    "inner": lambda T, A: T.inner(A, A.real),
    "chain": lambda T, A: T.linalg.multi_dot([A, A.real]),
    "linear": lambda T, A: T.nn.functional.linear(A, A.real),
    "system": lambda T, A: T.linalg.solve(A, A.real),
    "vecdot": lambda T, A: T.linalg.vecdot(A, A.real),
    "cross": lambda T, A: T.linalg.cross(A, A.real),
    "outer": lambda T, A: T.outer(A[0], A[0].real),
    "kron": lambda T, A: T.kron(A.real, A),
    "triangles": lambda T, A: T.linalg.solve_triangular(A, A.real, upper=True),
    "norm in real numbers": lambda T, A: T.linalg.vector_norm(A, dtype=T.float64),
    "norm of real numbers": lambda T, A: T.linalg.vector_norm(A.real, dtype=T.complex128),
    "norm in fewer digits": lambda T, A: T.linalg.vector_norm(A, dtype=T.complex64),
    "norm in ints": lambda T, A: T.norm(A, dtype=T.int64),
    "complex scale of real numbers": lambda T, A: T.addmm(A.real, A.real, A.real, alpha=1j),
    "distances": lambda T, A: T.cdist(A, A),
}


@pytest.mark.parametrize("name", SCENES)
def test_refusals_and_mixed_dtypes(torch: ModuleType, name: str) -> None:
    (a,) = arrays_of("trace")
    got, want = (outcome(lambda m=m: SCENES[name](m, tensors_of(m, [a])[0])) for m in (T, torch))
    assert_same(got, want, name, 1e3)


def test_eigenvectors_are_of_length_1_and_solve_the_equation() -> None:
    for a in (np.random.default_rng(0).normal(size=(5, 7, 7)), arrays_of("inv")[0]):
        A = T.tensor(a)
        L, V = T.linalg.eig(A)
        assert L.dtype is V.dtype is T.complex128
        assert_same((A + 0j) @ V, V * L.unsqueeze(-2), "A V", 1e4)
        assert_same(T.linalg.vector_norm(V, dim=-2), T.ones(V.shape[:-1], dtype=T.float64), "lengths", 100)


@pytest.mark.parametrize("n", [2, 3, 7, 20, 25, 30])
def test_vectors_have_the_phases_of_torchs(torch: ModuleType, n: int) -> None:
    """The triangle that is not read, and the imaginary part of the diagonal, hold anything."""
    rng = np.random.default_rng(n)
    many = rng.normal(size=(3, n, n)) + 1j * rng.normal(size=(3, n, n))
    for a in (many, many.real, many[0, :, : n // 2 + 1], many[0, : n - n // 3]):
        kept = a.shape[-1] == a.shape[-2]
        for fn in (
            lambda T, A: T.linalg.svd(A, full_matrices=False) if A.is_complex() else (),
            lambda T, A, kept=kept: [T.linalg.eigh(A, u) for u in "LU"] if kept else (),
            lambda T, A: T.linalg.qr(A) if A.is_complex() else (),
            lambda T, A, kept=kept: T.linalg.eig(A) if kept and A.is_complex() else (),
        ):
            got, want = (fn(m, m.tensor(a)) for m in (T, torch))
            assert_same(got, want, f"{a.shape}", 1e5)


@pytest.mark.parametrize(
    "sizes", [(3, 3, 3), (1, 1, 1), (14, 14, 14), (16, 17, 18), (1, 3000, 1), (1, 3001, 1)]
)
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_products_of_few_and_of_many_are_numpys(sizes: tuple[int, int, int], dtype: str) -> None:
    """Of operands that lie in any way; and infinities warn of nothing."""
    (m, k, n), rng = sizes, np.random.default_rng(sum(sizes))
    a, b = (
        (rng.normal(size=(4, *s)) + 1j * rng.normal(size=(4, *s))).astype(dtype) for s in ((m, k), (n, k))
    )
    x, y = T.tensor(a), T.tensor(b)
    np.testing.assert_allclose(array(x @ y.mT), a @ b.mT, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(
        array(x[::2, :, ::2] @ y[1::2, :, ::2].mT), a[::2, :, ::2] @ b[1::2, :, ::2].mT, 1e-4, 1e-3
    )
    np.testing.assert_allclose(array(x[0] @ y[0, 0]), a[0] @ b[0, 0], 1e-4, 1e-3)
    np.testing.assert_allclose(array(T.vdot(x[0, 0], y[0, 0])), np.vdot(a[0, 0], b[0, 0]), 1e-4, 1e-3)
    x[:] = float("inf")
    with warnings.catch_warnings(action="error"):
        assert not array((x @ y.mT).isfinite()).any() and not T.vdot(x[0, 0], y[0, 0]).isfinite()


def test_calls_agree_to_the_last_digit() -> None:
    """The first of a kind, which takes the long way, and the others."""
    (a,) = arrays_of("pinv")
    for A in (T.tensor(a), T.tensor(a.real.copy())):
        assert len({array(T.linalg.pinv(A)).tobytes() for _ in range(4)}) == 1
