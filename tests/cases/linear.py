"""Cases of products, systems of equations and decompositions."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tests.cases.making import FLOATS, NARROW, NO_GRAD, F, Operands, case, op

# ---- products
op("dot", ((4,), (4,)), ((0,), (0,)), ((1,), (1,)), forms="mo", ref=np.dot)
op("mv", ((3, 4), (4,)), ((0, 4), (4,)), ((3, 0), (0,)), forms="mo", ref=np.dot)
op("mm", ((3, 4), (4, 2)), ((0, 4), (4, 2)), ((3, 0), (0, 2)), ((1, 1), (1, 1)), forms="mo", ref=np.dot)
op("bmm", ((2, 3, 4), (2, 4, 2)), ((0, 3, 4), (0, 4, 2)), ((2, 3, 0), (2, 0, 2)), forms="mo", ref=np.matmul)
op(
    "matmul",
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((3,), (3, 4)),
    ((4,), (2, 4, 3)),
    ((3, 4), (2, 4, 2)),
    ((2, 3, 4), (2, 4, 2)),
    ((2, 1, 3, 2), (3, 2, 2)),
    ((1, 3, 2), (2, 2, 2)),
    ((0, 4), (4, 2)),
    ((2, 3, 0), (2, 0, 2)),
    forms="mo",
    ref=np.matmul,
)
# PyTorch refuses an `out` that lies transposed here, in words about sizes that the user never gave.
op("matmul/folded", ((2, 3, 4), (4,)), ((2, 3, 4), (4, 2)), forms="m", ref=np.matmul)
case("matmul_operator", lambda T, x, y: x @ y, ((3, 4), (4, 2)), ((2, 3, 4), (4,)))
op("outer", ((3,), (4,)), ((0,), (4,)), forms="mo", ref=np.outer)
ADDMM: tuple[Operands, ...] = (
    ((3, 2), (3, 4), (4, 2)),
    ((2,), (3, 4), (4, 2)),
    ((), (3, 4), (4, 2)),
    ((2,), (3, 0), (0, 2)),
)
op("addmm", *ADDMM, ref=lambda b, x, y: b + x @ y)
op("addmm/scaled", *ADDMM, kwargs=(("beta", 0.5), ("alpha", 2)), dtypes=FLOATS)
op(
    "linear",
    ((3, 4), (2, 4)),
    ((2, 3, 4), (2, 4)),
    ((4,), (2, 4)),
    forms="",
    where=F,
    ref=lambda x, w: x @ w.T,
)
op("linear/bias", ((3, 4), (2, 4), (2,)), ((2, 3, 4), (2, 4), (2,)), ((4,), (2, 4), (2,)), forms="", where=F)

# ---- products of several tensors
EINSUMS: dict[str, tuple[str, tuple[Operands, ...]]] = {
    "matrices": ("ij,jk->ik", (((2, 3), (3, 4)), ((2, 0), (0, 4)))),
    "turned": ("ij,kj->ki", (((2, 3), (4, 3)),)),
    "batched": ("bhqd,bhkd->bhqk", (((2, 2, 3, 4), (2, 2, 5, 4)), ((2, 1, 3, 4), (2, 2, 5, 4)))),
    "ellipsis": ("...ij,...jk->...ik", (((2, 2, 3), (2, 3, 4)), ((2, 3), (5, 2, 3, 4)))),
    "outer": ("i,j->ij", (((2,), (3,)), ((0,), (3,)))),
    "inner": ("ij,ij", (((2, 3), (2, 3)),)),
    "one_side": ("ij,k->ik", (((2, 3), (4,)),)),
    "row_sums": ("ij,ij->i", (((2, 3), (2, 3)),)),
}
for name, (equation, shapes) in EINSUMS.items():
    case(f"einsum_{name}", lambda T, x, y, e=equation: T.einsum(e, x, y), *shapes)
for name, equation in {
    "turn": "ij->ji",
    "sum": "ij->j",
    "total": "ij->",
    "trace": "ii",
    "diagonal": "ii->i",
}.items():
    case(f"einsum_{name}", lambda T, x, e=equation: T.einsum(e, x), ((3, 3),))
case(
    "einsum_three",
    lambda T, x, y, z: T.einsum("ij,jk,kl->li", x, y, z),
    ((2, 3), (3, 4), (4, 2)),
)
case("einsum_lists", lambda T, x, y: T.einsum(x, [0, 1], y, [1, 2], [0, 2]), ((2, 3), (3, 4)))
op("tensordot", ((2, 3, 4), (3, 4, 2)), ((2, 3), (2, 3)), forms="o")
case("tensordot_one", lambda T, x, y: T.tensordot(x, y, 1), ((2, 3), (3, 4)), ((2, 3), (3,)))
case("tensordot_dims", lambda T, x, y: T.tensordot(x, y, ([0, 2], [1, 0])), ((2, 3, 4), (4, 2)))
# PyTorch cannot view the product of transposed matrices as their product.
op(
    "kron",
    ((2, 3), (2, 2)),
    ((2,), (3, 2)),
    ((), (2,)),
    ((0, 2), (3,)),
    forms="mo",
    ref=np.kron,
    layouts=False,
)
op("addr", ((2, 3), (2,), (3,)), ((3,), (2,), (3,)), ((), (0,), (3,)), forms="mo")
op("addr/scaled", ((2, 3), (2,), (3,)), kwargs=(("beta", 0.5), ("alpha", 2)), dtypes=FLOATS)
op("addbmm", ((3, 2), (2, 3, 4), (2, 4, 2)), ((2,), (2, 3, 4), (2, 4, 2)), forms="mo")
op("addbmm/scaled", ((3, 2), (2, 3, 4), (2, 4, 2)), kwargs=(("beta", 0.5), ("alpha", 2)), dtypes=FLOATS)
op("cross", ((2, 3), (2, 3)), ((3,), (3,)), ((0, 3), (0, 3)), forms="mo", kwargs=(("dim", -1),), ref=np.cross)
case("linalg_cross", lambda T, x, y: T.linalg.cross(x, y, dim=0), ((3, 1), (3, 4)), ((3, 2), (3, 2)))
case("vecdot", lambda T, x, y: T.linalg.vecdot(x, y), ((2, 3), (2, 3)), ((3,), (3,)), ((3,), (2, 3)))
case(
    "multi_dot",
    lambda T, x, y, z: T.linalg.multi_dot([x, y, z]),
    ((2, 3), (3, 4), (4, 2)),
    ((3,), (3, 4), (4,)),
)

# ---- systems of equations and decompositions; signs of vectors are nobody's promise
MATRICES: tuple[Operands, ...] = (((3, 3),), ((2, 3, 3),), ((0, 2, 2),), ((1, 1),))
LINALG: dict[str, Any] = {"dtypes": FLOATS, "strides": False, "tol": 30, "layouts": False}


def positive(T: ModuleType, x: Any) -> Any:
    """A symmetric positive definite matrix."""
    return x @ x.mT + 0.5 * T.eye(x.shape[-1], dtype=x.dtype)


def linalg(name: str, fn: Callable[..., Any], *shapes: Operands, **rest: Any) -> None:
    case(f"linalg_{name}", fn, *(shapes or MATRICES), **(LINALG | rest))


def tall(T: ModuleType, x: Any) -> Any:
    """Far from singular, its singular values apart."""
    rows, columns = x.shape[-2:]
    return 0.3 * x + T.eye(rows, columns, dtype=x.dtype) * T.arange(1, columns + 1, dtype=x.dtype)


linalg("inv", lambda T, x: T.linalg.inv(tall(T, x)))
linalg("det", lambda T, x: T.det(x), ((3, 3),), ((2, 3, 3),), ref=np.linalg.det)
linalg("det_singular", lambda T, x: T.det(x[:, :1] * x[:1]), ((3, 3),), differentiable=False)
linalg("slogdet", lambda T, x: T.linalg.slogdet(x))
linalg("logdet", lambda T, x: T.logdet(positive(T, x)))
linalg(
    "solve",
    lambda T, a, b: T.linalg.solve(tall(T, a), b),
    ((3, 3), (3, 2)),
    ((2, 3, 3), (3, 1)),
    ((3, 3), (3,)),
)
linalg("solve_right", lambda T, a, b: T.linalg.solve(tall(T, a), b, left=False), ((3, 3), (2, 3)))
linalg("solve_vectors", lambda T, a, b: T.linalg.solve(tall(T, a), b), ((2, 3, 3), (2, 3)))
for upper in (False, True):
    word = "upper" if upper else "lower"
    linalg(f"cholesky_{word}", lambda T, x, u=upper: T.linalg.cholesky(positive(T, x), upper=u))
    linalg(
        f"cholesky_solve_{word}",
        lambda T, x, y, u=upper: T.cholesky_solve(y, T.linalg.cholesky(positive(T, x), upper=u), u),
        ((3, 3), (3, 2)),
    )
    linalg(
        f"triangular_{word}",
        lambda T, a, b, u=upper: T.linalg.solve_triangular(tall(T, a), b, upper=u),
        ((3, 3), (3, 2)),
        ((2, 2, 2), (2, 3)),
    )
linalg(
    "triangular_unit",
    lambda T, a, b: T.linalg.solve_triangular(a, b, upper=True, left=False, unitriangular=True),
    ((3, 3), (2, 3)),
)
linalg("cholesky_inverse", lambda T, x: T.cholesky_inverse(T.linalg.cholesky(positive(T, x))), ((3, 3),))
linalg("qr", lambda T, x: T.linalg.qr(tall(T, x)), ((4, 3),), ((3, 3),), ((2, 4, 2),))
linalg("geqrf", lambda T, x: T.geqrf(x), ((4, 3),), ((3, 3),), ((2, 2, 4),), **NO_GRAD)
FACTORED: tuple[Operands, ...] = (((3, 3),), ((2, 4, 3),), ((2, 4),))
linalg("lu", lambda T, x: T.linalg.lu(x)[1:], *FACTORED)
linalg("ldl_factor", lambda T, x: T.linalg.ldl_factor_ex(x + x.mT), ((3, 3),), ((2, 4, 4),), **NO_GRAD)
linalg(
    "ldl_solve",
    lambda T, x, b: T.linalg.ldl_solve(*T.linalg.ldl_factor_ex(x + x.mT)[:2], b),
    ((3, 3), (3, 2)),
    ((2, 4, 4), (2, 4, 1)),
    **NO_GRAD,
)
linalg("lu_factor", lambda T, x: T.linalg.lu_factor(x), *FACTORED)
linalg("lu_permutation", lambda T, x: T.lu_unpack(*T.linalg.lu_factor(x))[0], *FACTORED, **NO_GRAD)
linalg("lu_unpack", lambda T, x: T.lu_unpack(x, T.tensor([2, 3, 3], dtype=T.int32))[1:], ((3, 4),), ((4, 3),))
linalg("qr_wide", lambda T, x: T.linalg.qr(x), ((2, 4),))
linalg("eigh", lambda T, x: [t.abs() for t in T.linalg.eigh(x + x.mT)], ((3, 3),), ((2, 3, 3),))
linalg("eigvalsh", lambda T, x: T.linalg.eigvalsh(positive(T, x), UPLO="U"), ((3, 3),))


def in_order(T: ModuleType, values: Any, vectors: Any) -> list[Any]:
    """Eigenvalues from left to right with the sizes of their vectors: which comes first is LAPACK's affair, and depends on rounding."""
    order = values.detach().real.argsort(dim=-1, stable=True)
    pairs = T.take_along_dim(T.view_as_real(values), order[..., None], -2)
    return [pairs, T.take_along_dim(vectors.abs(), order[..., None, :], -1)]


linalg("eig", lambda T, x: in_order(T, *T.linalg.eig(tall(T, x))), ((3, 3),), ((2, 4, 4),))
linalg("eigvals", lambda T, x: T.view_as_real(T.linalg.eigvals(x)), ((3, 3),))
linalg("svd", lambda T, x: [t.abs() for t in T.linalg.svd(tall(T, x), False)], ((4, 3),), ((2, 3, 3),))
linalg("svd_wide", lambda T, x: [t.abs() for t in T.linalg.svd(x, full_matrices=False)], ((2, 4),))
linalg("svdvals", lambda T, x: T.linalg.svdvals(x), ((4, 3),), ((2, 2, 3),))
linalg("pinv", lambda T, x: T.linalg.pinv(tall(T, x)), ((4, 3),), ((2, 2, 3),), ((3, 3),))
linalg("pinv_hermitian", lambda T, x: T.linalg.pinv(positive(T, x), hermitian=True), ((3, 3),))
linalg("lstsq", lambda T, a, b: T.linalg.lstsq(tall(T, a), b)[0], ((4, 3), (4, 2)), ((4, 3), (4,)))
linalg("lstsq_residuals", lambda T, a, b: T.linalg.lstsq(tall(T, a), b, driver="gels")[:2], ((4, 3), (4, 2)))
# PyTorch's of float16 is NaN.
linalg("matrix_exp", lambda T, x: T.linalg.matrix_exp(x), ((3, 3),), ((2, 2, 2),), unlike=NARROW)
for n in (0, 1, 3, 6, -2):
    linalg(f"matrix_power_{n}", lambda T, x, n=n: T.linalg.matrix_power(tall(T, x), n), ((3, 3),))
for order in ("fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf")):
    linalg(
        f"matrix_norm_{order}",
        lambda T, x, p=order: T.linalg.matrix_norm(tall(T, x), p),
        ((4, 3),),
        ((2, 3, 2),),
    )
linalg("matrix_norm_dims", lambda T, x: T.linalg.matrix_norm(x, 1, (2, 0), True), ((2, 3, 4),))
linalg("norm_nuc", lambda T, x: T.norm(x, "nuc"), ((4, 3),))
linalg("norm", lambda T, x: T.linalg.norm(x, 3, dim=1), ((4, 3),))
linalg("norm_matrix", lambda T, x: T.linalg.norm(x, 2), ((4, 3),))
for order in (None, 1, "fro", -2):
    smooth = order in (None, -2)  # PyTorch writes over the inverse that its gradient of the others reads
    linalg(
        f"cond_{order}", lambda T, x, p=order: T.linalg.cond(tall(T, x), p), ((3, 3),), differentiable=smooth
    )
linalg("matrix_rank", lambda T, x: T.linalg.matrix_rank(x[:, :1] @ x[:1]), ((4, 3),), **NO_GRAD)
linalg("tensorsolve", lambda T, a, b: T.linalg.tensorsolve(a, b), ((2, 3, 6), (2, 3)))
linalg("tensorinv", lambda T, a: T.linalg.tensorinv(a), ((2, 3, 6),))
linalg(
    "householder_product",
    lambda T, a, tau: T.linalg.householder_product(a, tau),
    ((4, 3), (3,)),
    ((3, 2), (1,)),
    ((2, 4, 3), (2, 2)),
)
linalg(
    "ormqr",
    lambda T, a, tau, x: T.ormqr(0.5 * a, tau, x),
    ((4, 3), (3,), (4, 2)),
    ((2, 3, 3), (2, 3), (2, 3, 1)),
)
linalg("ormqr_right", lambda T, a, tau, x: T.ormqr(0.5 * a, tau, x, False, True), ((4, 3), (3,), (2, 4)))
