"""Products beyond the case table: how operands may lie in memory, what is recorded and saved, in-place forms, and NumPy as the judge."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.compare import array, assert_close
from tests.support import T

RNG = np.random.default_rng(0)

# Ways in which a matrix of shape (rows, columns) can lie in memory.
LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "rows": lambda a: T.tensor(a),
    "columns": lambda a: T.tensor(np.ascontiguousarray(a.T)).t(),
    "every_other_row": lambda a: T.tensor(np.repeat(a, 2, 0))[::2],
    "every_other_column": lambda a: T.tensor(np.repeat(a, 2, 1))[:, ::2],
    "inside_a_larger": lambda a: T.tensor(np.pad(a, 1))[1:-1, 1:-1],
    "both_steps": lambda a: T.tensor(np.repeat(np.repeat(a, 2, 0), 3, 1))[::2, ::3],
}


@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("sizes", [(3, 4, 2), (1, 4, 1), (3, 1, 2), (1, 1, 1), (17, 33, 9)])
def test_mm_of_any_layout(first: str, second: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = RNG.normal(size=(m, k)), RNG.normal(size=(k, n))
    x, y = LAYOUTS[first](a).requires_grad_(), LAYOUTS[second](b).requires_grad_()
    out = x @ y
    assert_close(array(out), a @ b, "forward")
    assert out.is_contiguous() and out._base is None
    g = RNG.normal(size=(m, n))
    gx, gy = T.autograd.grad(out, (x, y), T.tensor(g))
    assert_close(array(gx), g @ b.T, "first")
    assert_close(array(gy), a.T @ g, "second")


def test_gradients_lie_as_their_operands() -> None:
    """So `autograd.grad` of what was turned for the product is contiguous, and can be seen as a vector."""
    x, w = T.ones(4, 3, requires_grad=True), T.ones(2, 3, requires_grad=True)
    v = T.ones(4, 2, requires_grad=True)
    for out, of in ((x @ w.T, w), (x.T @ v, x), (w @ x.T, x), (w @ x.T, w)):
        (g,) = T.autograd.grad(out.sum(), of)
        assert g.is_contiguous() and g.view(-1).shape == (of.numel(),)


def test_expanded_operands() -> None:
    """Stride 0 is no stride for BLAS."""
    a, b = RNG.normal(size=4), RNG.normal(size=(4, 1))
    x, y = T.tensor(a), T.tensor(b)
    assert_close(
        array(x.expand(3, 4) @ y.expand(4, 5)), np.broadcast_to(a, (3, 4)) @ np.broadcast_to(b, (4, 5)), "mm"
    )
    assert_close(array(x[:1].expand(4).dot(x)), np.array(a[0] * a.sum()), "dot", 10)


@pytest.mark.parametrize(
    "shapes", [((5, 0), (0, 3)), ((0, 4), (4, 3)), ((2, 3, 0), (0, 4)), ((2, 0), (0,)), ((0,), (0,))]
)
def test_nothing_to_sum_gives_zeros(shapes: tuple[Any, Any]) -> None:
    x, y = (T.ones(*s, requires_grad=True) for s in shapes)
    out = x @ y
    want = np.ones(shapes[0]) @ np.ones(shapes[1])
    assert tuple(out.shape) == want.shape and not array(out).any()
    gx, gy = T.autograd.grad(out.sum(), (x, y))
    assert gx.shape == x.shape and gy.shape == y.shape


def test_integers_wrap_and_do_not_pass_through_floats() -> None:
    big = T.tensor([[2**62, 1]])
    assert (big @ T.tensor([[1], [3]])).item() == 2**62 + 3
    assert (big @ T.tensor([[4], [3]])).item() == 3


def test_saves_what_the_wanted_gradients_read() -> None:
    x, w = T.ones(2, 3, requires_grad=True), T.ones(3, 4)
    out = x @ w
    assert out.grad_fn.next_functions[1][0] is None
    x.detach().zero_()  # the gradient of x does not read x
    out.sum().backward()
    assert x.grad.tolist() == [[4.0] * 3] * 2
    out = x @ w
    w.zero_()
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor \[3, 4\]\]"
    ):
        out.sum().backward()


def test_linear_is_one_node() -> None:
    x, w, b = (
        T.ones(2, 3, requires_grad=True),
        T.ones(4, 3, requires_grad=True),
        T.ones(4, requires_grad=True),
    )
    out = T.nn.functional.linear(x, w, b)
    assert out.grad_fn.name() == "AddmmBackward0"
    out.sum().backward()
    assert b.grad.tolist() == [2.0] * 4
    assert w.grad.tolist() == [[2.0] * 3] * 4
    assert w.grad.is_contiguous()
    assert x.grad.tolist() == [[4.0] * 3] * 2


def test_addmm_does_not_look_at_what_counts_zero_times() -> None:
    nan = T.full((2, 2), float("nan"))
    eye = T.eye(2)
    assert T.addmm(nan, eye, eye, beta=0).tolist() == [[1, 0], [0, 1]]
    assert T.addmm(nan, eye, eye, beta=0, alpha=3).tolist() == [[3, 0], [0, 3]]


def test_in_place_addmm() -> None:
    base = RNG.normal(size=(2, 2))
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 2))
    leaf, x, y = (T.tensor(v, requires_grad=True) for v in (base, a, b))
    c = leaf * 1
    before = c._version
    assert c.addmm_(x, y, beta=2, alpha=0.5) is c
    assert c._version == before + 1 and c.grad_fn.name() == "AddmmBackward0"
    assert_close(array(c), 2 * base + 0.5 * (a @ b), "value")
    c.sum().backward()
    assert_close(array(leaf.grad), np.full((2, 2), 2.0), "leaf")
    assert_close(array(x.grad), 0.5 * np.ones((2, 2)) @ b.T, "x")
    with pytest.raises(
        RuntimeError, match=r"Bad in-place call: input tensor size \[2\] and output tensor size \[2, 2\]"
    ):
        T.ones(2).addmm_(T.ones(2, 3), T.ones(3, 2))


@pytest.mark.parametrize(
    "product",
    [
        lambda x, y: x @ y,
        lambda x, y: T.nn.functional.linear(x, y.mT),
        lambda x, y: T.addmm(x[:, :1], x, y, beta=3, alpha=2),
        lambda x, y: T.mv(x, y[:, 0]),
        lambda x, y: T.dot(x[0], y[:, 1]),
        lambda x, y: T.bmm(x.expand(2, -1, -1), y.expand(2, -1, -1)),
        lambda x, y: T.baddbmm(x[:, :1], x.expand(2, -1, -1), y.expand(2, -1, -1), beta=3, alpha=2),
        lambda x, y: T.inner(x, y.mT),
        lambda x, y: T.outer(x[0], y[0]),
    ],
)
def test_third_order(product: Callable[[Any, Any], Any]) -> None:
    """The families are closed: the rule of a rule of a rule is again a product. Compared with differences of the second order."""

    def second(a: np.ndarray, b: np.ndarray) -> tuple[Any, Any, Any]:
        x, y = T.tensor(a, requires_grad=True), T.tensor(b, requires_grad=True)
        (g,) = T.autograd.grad((product(x, y) ** 3).sum(), x, create_graph=True)
        (h,) = T.autograd.grad((g**2).sum(), y, create_graph=True)
        return x, h, y

    a, b, v = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 2)), RNG.normal(size=(2, 3))
    x, h, _ = second(a, b)
    (third,) = T.autograd.grad(h.sum(), x)
    step = 1e-5
    difference = (array(second(a + step * v, b)[1]).sum() - array(second(a - step * v, b)[1]).sum()) / (
        2 * step
    )
    np.testing.assert_allclose((array(third) * v).sum(), difference, rtol=1e-6)


def test_a_number_and_an_array_are_no_matrices() -> None:
    for wrong in (2, [1.0], "x"):
        with pytest.raises(TypeError):
            T.ones(2, 2) @ wrong
    with pytest.raises(TypeError, match=r"^mm\(\): argument 'mat2' \(position 2\) must be Tensor, not list$"):
        T.mm(T.ones(2, 2), [1.0])
    with pytest.raises(
        TypeError, match=r"^linear\(\): argument 'bias' \(position 3\) must be Tensor, not int$"
    ):
        T.nn.functional.linear(T.ones(2, 2), T.ones(2, 2), 3)


@pytest.mark.parametrize("sizes", [((19, 23), (23, 5)), ((2, 19, 23), (2, 23, 5)), ((19, 23), (23,))])
def test_numpy_multiplies_where_no_known_blas_is(monkeypatch: pytest.MonkeyPatch, sizes: Any) -> None:
    from nbgrad.kernels import products

    monkeypatch.setattr(products, "product", lambda *args: None)
    a, b = (RNG.normal(size=size) for size in sizes)
    x, y = T.tensor(a).requires_grad_(), T.tensor(b).requires_grad_()
    out = x @ y
    assert_close(array(out), a @ b, "forward")
    assert T.autograd.gradcheck(lambda x, y: x @ y, (x, y))


@pytest.mark.parametrize("turn", ["rows", "columns"])
@pytest.mark.parametrize("sizes", [(70, 65, 130), (130, 65, 70), (300, 300, 1), (1, 300, 300)])
def test_large_products_are_cut(turn: str, sizes: tuple[int, int, int]) -> None:
    """Each of both sides is the one that is cut, in both layouts, and so are vectors and batches."""
    m, k, n = sizes
    a, b = RNG.normal(size=(3, m, k)), RNG.normal(size=(3, k, n))
    x, y = LAYOUTS[turn](a[0]), LAYOUTS[turn](b[0])
    assert_close(array(x @ y), a[0] @ b[0], "matrices")
    assert_close(array(T.tensor(a) @ T.tensor(b)), a @ b, "batch")
    assert_close(array(T.tensor(a) @ T.tensor(b[:1]).expand(3, -1, -1)), a @ b[:1], "expanded")


@pytest.mark.oracle
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances_that_pytorch_differentiates_once(torch: Any, p: float) -> None:
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 5, 4))

    def gradients(module: Any) -> list[np.ndarray]:
        x, y = (module.tensor(v, requires_grad=True) for v in (a, b))
        within = module.nn.functional.pdist(x[0], p)
        total = (module.cdist(x, y, p) ** 2).sum() + (within**3).sum()
        return [array(g) for g in module.autograd.grad(total, (x, y))]

    for got, want in zip(gradients(T), gradients(torch), strict=True):
        assert_close(got, want, f"p = {p}", 10)


@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_that_repeats_elements(torch: Any, mode: str) -> None:
    a = RNG.normal(size=(2, 3, 4, 5))

    def gradient(module: Any) -> np.ndarray:
        x = module.tensor(a, requires_grad=True)
        padded = module.nn.functional.pad(x, (2, 1, 0, 3), mode)
        return array(module.autograd.grad((padded**3).sum(), x)[0])

    assert_close(gradient(T), gradient(torch), mode)


def test_cdist_has_a_second_derivative() -> None:
    x, y = T.tensor(RNG.normal(size=(3, 2)), requires_grad=True), T.tensor(RNG.normal(size=(4, 2)))
    assert T.autograd.gradgradcheck(lambda a: T.cdist(a, y), x)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve_from_both_sides(left: bool, adjoint: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 2) if left else (2, 2, 3))

    def solved(a: Any, b: Any) -> Any:
        return T.linalg.lu_solve(*T.linalg.lu_factor(a), b, left=left, adjoint=adjoint)

    m = a.mT if adjoint else a
    want = np.linalg.solve(m, b) if left else np.linalg.solve(m.mT, b.mT).mT
    np.testing.assert_allclose(array(solved(T.tensor(a), T.tensor(b))), want, 1e-12)
    operands = [T.tensor(v, requires_grad=True) for v in (a, b)]
    assert T.autograd.gradcheck(solved, operands)


PAIRS = "ij,jk->ik;ij,jk->ki;ij, j -> i;i,i;ij,ij;bij,bjk->bik;bij,bjk->kbi;bij,kjb->ibk;abij,jab->abi;ij,kj;ij,jk;ba,bc->ca"


@pytest.mark.parametrize("equation", PAIRS.split(";"))
def test_einsum_of_two_is_numpys(equation: str) -> None:
    first, second = equation.replace(" ", "").partition("->")[0].split(",")
    rng = np.random.default_rng(0)
    for sizes in ({}, {"j": 1}, {"i": 1, "k": 1}, {"b": 0}, {"j": 0}):
        a, b = (
            rng.integers(-4, 5, [sizes.get(c, "abcijk".index(c) % 5 + 2) for c in term]).astype(float)
            for term in (first, second)
        )
        want = np.einsum(equation, a, b)
        x, y = T.tensor(a, requires_grad=True), T.tensor(b.T.copy()).mT if b.ndim == 2 else T.tensor(b)
        for _ in range(2):
            got = T.einsum(equation, x, y)
            assert got.shape == want.shape and np.array_equal(got.detach().numpy(), want)
        (g,) = T.autograd.grad(got.sum(), x)
        spread = np.zeros_like(a)
        for k in np.ndindex(a.shape) if a.size < 40 else ():
            unit = np.zeros_like(a)
            unit[k] = 1
            spread[k] = np.einsum(equation, unit, b).sum()
        assert a.size >= 40 or np.array_equal(g.numpy(), spread)
    with pytest.raises(RuntimeError):
        T.einsum("ij,jk->ik", T.ones(2, 3), T.ones(2, 3))
    assert T.einsum("ij,jk->ik", T.ones(2, 1), T.ones(3, 2)).tolist() == [[3.0, 3.0]] * 2


def _waves(rows: int, columns: int, dtype: str) -> Any:
    x = np.sin(np.arange(1.0, rows * columns + 1).reshape(rows, columns) ** 2)
    return T.from_numpy(x).to(getattr(T, dtype))


def _signs(sums: Any) -> str:
    return "".join("+" if x > 0 else "-" for x in sums.tolist())


@pytest.mark.parametrize(
    "dtype, n, lower, upper",
    [
        ("float32", 4, "--+-", "--+-"),
        ("float32", 7, "----+-+", "+--++--"),
        ("float64", 7, "-+-----", "+--+-+-"),
        ("float64", 25, "+--+-+-+++--+--++++--++--", "-++----+------+-++-++--++"),
    ],
)
def test_eigenvectors_point_the_way_of_pytorchs(dtype: str, n: int, lower: str, upper: str) -> None:
    x = _waves(n, n, dtype)
    both = T.stack((x + x.mT, x + x.mT))
    for triangle, signs in (("L", lower), ("U", upper)):
        assert _signs(T.linalg.eigh(both[0], UPLO=triangle)[1].sum(0)) == signs
        assert _signs(T.linalg.eigh(both, UPLO=triangle)[1][1].sum(0)) == signs


def test_eigenvectors_of_a_path_point_the_way_of_pytorchs() -> None:
    path = 2 * T.eye(4) - T.diag(T.ones(3), 1) - T.diag(T.ones(3), -1)  # equal neighbours on the diagonal
    assert _signs(T.linalg.eigh(path)[1][0]) == "+---"
    assert _signs(T.linalg.eigh(T.diag(T.tensor([3.0, 1.0, 2.0])))[1].sum(0)) == "+++"


@pytest.mark.parametrize(
    "dtype, shape, left, right",
    [
        ("float32", (4, 3), "++++", "--+"),
        ("float32", (12, 8), "+--+-+-++-++", "++-++---"),
        ("float64", (12, 8), "++++--+++-++", "+-+++++-"),
    ],
)
def test_singular_vectors_point_the_way_of_pytorchs(
    dtype: str, shape: tuple[int, int], left: str, right: str
) -> None:
    x = _waves(*shape, dtype)
    u, s, vh = T.linalg.svd(x)
    assert (_signs(u.sum(0)), _signs(vh.sum(1))) == (left, right)
    assert T.allclose((u[:, : shape[1]] * s) @ vh, x, atol=1e-6)
    assert T.allclose(u.mT @ u, T.eye(shape[0], dtype=x.dtype), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvectors_of_nan_are_nan(dtype: str) -> None:
    """LAPACK gives up nothing of two rows; of a diagonal it turns none."""
    nan = float("nan")
    batch = [[[nan, nan], [nan, nan]], [[1.0, 0.0], [nan, 2.0]], [[2.0, 0.0], [0.0, 3.0]]]
    values, vectors = T.linalg.eigh(T.tensor(batch, dtype=getattr(T, dtype)))
    assert values.isnan().all(-1).tolist() == [True, True, False]
    assert vectors.isnan().all(-1).all(-1).tolist() == [True, True, False]
    assert vectors[2].abs().tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.fast
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("lies", LAYOUTS)
@pytest.mark.parametrize("n", [1, 2, 5, 32, 33])
def test_cholesky_factors_of_any_layout_are_numpys(n: int, lies: str, upper: bool) -> None:
    a = RNG.normal(size=(n, n))
    a = a @ a.T + np.eye(n)
    beside = np.triu(np.full((n, n), np.nan), 1)  # which is not read
    given = LAYOUTS[lies]((a + beside).T if upper else a + beside)
    want = np.linalg.cholesky(a).T if upper else np.linalg.cholesky(a)
    for _ in range(4):
        found = T.linalg.cholesky(given, upper=upper)
        assert_close(array(found), want, "factor")
        low, info = T.linalg.cholesky_ex(-given, upper=upper)
        assert info.item() == 1 and low[0, 0].item() == -given[0, 0].item()
    several = T.stack([given, -given, given])
    for _ in range(3):
        low, info = T.linalg.cholesky_ex(several, upper=upper)
        assert info.tolist() == [0, 1, 0]
        assert_close(array(low[0]), want, "one of several")


def test_products_by_groups_to_every_order() -> None:
    from nbgrad.ops.linear.grouped import _grouped_mm

    draw = np.random.default_rng(5)
    rows, columns, experts = ((draw.normal(size=s)) for s in ((6, 3), (3, 6), (3, 3, 2)))
    for a, b in (
        (rows, experts),
        (experts.swapaxes(1, 2), columns),
        (columns, rows),
        (experts.swapaxes(1, 2), experts),
    ):
        given = [T.tensor(m, requires_grad=True) for m in (a, b)]
        for offs in ((2, 2, 6), (1, 2, 4)):
            f = lambda x, y: _grouped_mm(x, y, offs=offs if x.ndim + y.ndim < 6 else ())  # noqa: B023, E731
            assert T.autograd.gradcheck(f, given, check_forward_ad=True)
            assert T.autograd.gradgradcheck(f, given)


@pytest.mark.parametrize("offs", [[4, 2, 6], [2, 4, 7], [-1, 2, 6]])
def test_groups_that_are_elsewhere(offs: list[int]) -> None:
    with pytest.raises(RuntimeError, match="must rise from 0 to at most 6"):
        T.nn.functional.grouped_mm(T.ones(6, 8), T.ones(3, 8, 4), offs=T.tensor(offs, dtype=T.int32))


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, np.inf])
def test_distances_in_strips(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows at a time give what all at once give, to the second order, in batches that broadcast."""
    from nbgrad.ops.linear import distances

    draw = np.random.default_rng(2)
    x, y = (T.tensor(draw.normal(size=s), requires_grad=True) for s in ((2, 1, 7, 3), (3, 5, 3)))
    mode = "donot_use_mm_for_euclid_dist"
    found = []
    for together in (1 << 16, 200, 1):
        monkeypatch.setattr(distances, "_TOGETHER", together)
        z = T.cdist(x, y, p, compute_mode=mode)
        first = T.autograd.grad((z**2 * 0.1).sum(), [x, y], create_graph=True)
        second = T.autograd.grad(sum(g.sin().sum() for g in first), [x, y])
        found.append([array(t) for t in (z, *first, *second)])
    for others in found[1:]:
        for a, b in zip(found[0], others):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("shape", [(40, 20), (20, 40), (3, 30, 30)])
def test_least_squares_of_ranks_that_are_certain_and_of_others(shape: tuple[int, ...]) -> None:
    """The former go by QR; one matrix of the others has singular values tell of all."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(shape), rng.standard_normal((*shape[:-1], 2))
    x, _, rank, _ = T.linalg.lstsq(T.from_numpy(a), T.from_numpy(b))
    np.testing.assert_allclose(x, np.linalg.pinv(a) @ b, rtol=0, atol=1e-11)
    assert (rank == min(shape[-2:])).all()
    for least in (1e-10, 1e-14, 1e-18, 0.0):
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        s[..., -1] = least * s[..., 0]
        made = u * s[..., None, :] @ vh
        x, _, rank, _ = T.linalg.lstsq(T.from_numpy(made), T.from_numpy(b))
        below = least < max(shape[-2:]) * 2.3e-16
        assert (rank == min(shape[-2:]) - below).all(), least
        if least == 1e-14:
            continue  # of a solution one digit or two are certain
        s[..., -1] = np.inf if below else s[..., -1]
        want = vh.swapaxes(-1, -2) / s[..., None, :] @ u.swapaxes(-1, -2) @ b
        np.testing.assert_allclose(x, want, rtol=1e-4, atol=1e-4 * abs(want).max())


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_matrix_less_its_eigenvalue_has_no_pivot_that_is_0(size: int) -> None:
    """As in PyTorch, whose products are fused with sums. Inverse iteration, and gradients of eigenvectors by hand, solve such systems."""
    A = T.rand(100, size, size, dtype=T.float64, generator=T.Generator().manual_seed(0))
    A = A + A.mT
    values, vectors = T.linalg.eigh(A)
    less = A[:, None] - values[..., None, None] * T.eye(size, dtype=T.float64)
    assert not T.linalg.lu_factor_ex(less).info.any()
    found = T.linalg.solve(less, T.ones(100, size, size, 1, dtype=T.float64)).squeeze(-1)
    along = (found / found.norm(dim=-1, keepdim=True) * vectors.mT).sum(-1).abs()
    assert (along > 0.99).double().mean() > 0.9


@pytest.mark.parametrize("turn", [1, 1 + 0.5j])
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_second_derivatives_of_the_determinant_of_any_rank(rank: int, turn: complex) -> None:
    """They are minors; of a matrix that is singular but for rounding the inverse's terms would cancel."""
    a = RNG.normal(size=(4, rank)) @ RNG.normal(size=(rank, 4)) * turn
    other = RNG.normal(size=(4, 4)) * turn
    want = np.zeros_like(a)
    for (i, j), (k, m) in product(np.ndindex(4, 4), repeat=2):
        if i != k and j != m:
            rows, columns = ([n for n in range(4) if n not in pair] for pair in ((i, k), (j, m)))
            sign = (-1) ** (i + j + k + m + (k > i) + (m > j))
            want[k, m] += sign * other[i, j] * np.linalg.det(a[np.ix_(rows, columns)])
    moved = T.func.jvp(T.func.grad(lambda x: T.linalg.det(x).real), (T.tensor(a),), (T.tensor(other),))[1]
    assert_close(array(moved).conj(), want, "along another matrix")


@pytest.mark.parametrize("n", [1, 2, 4, 8, 9])
def test_a_matrix_of_a_batch_is_worked_on_as_alone(n: int) -> None:
    a = T.from_numpy(np.random.default_rng(n).standard_normal((5, n, n)))
    b = a[:, :, :1]
    for of_all, of_one in (
        (T.linalg.inv(a), [T.linalg.inv(x) for x in a]),
        (T.linalg.solve(a, b), [T.linalg.solve(x, y) for x, y in zip(a, b)]),
        (T.linalg.det(a), [T.linalg.det(x) for x in a]),
    ):
        assert of_all.tolist() == [x.tolist() for x in of_one]
    np.testing.assert_allclose((T.linalg.inv(a) @ a).numpy(), np.broadcast_to(np.eye(n), a.shape), atol=1e-9)


def test_a_little_singular_matrix_leaves_the_others_of_its_batch_alone() -> None:
    a = T.from_numpy(np.random.default_rng(0).standard_normal((3, 2, 4, 4)))
    whole = T.linalg.inv_ex(a)[0]
    a[1, 0, 3] = a[1, 0, 2] = 0.0
    found, infos = T.linalg.inv_ex(a)
    assert infos.tolist() == [[0, 0], [3, 0], [0, 0]] and T.linalg.det(a)[1, 0] == 0
    good = infos == 0
    assert T.equal(found[good], whole[good])


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (8, 8), (32, 32), (31, 4), (5, 40), (60, 5), (3, 0)])
@pytest.mark.parametrize("of", LAYOUTS)
def test_factors_of_qr_are_those_of_reflections(size: tuple[int, int], of: str) -> None:
    a = np.random.default_rng(2).standard_normal(size)
    if min(size) > 2:
        a[:, 1] = a[:, 0]  # a column of which next to nothing is left
        a[2:, 2] = 0.0
    for mode in ("reduced", "complete", "r"):
        want = np.linalg.qr(a, mode)  # type: ignore[call-overload]
        want_r = want if mode == "r" else want.R
        for _ in range(3):  # a later call of its kind goes another way
            q, r = T.linalg.qr(LAYOUTS[of](a), mode)
            np.testing.assert_allclose(r.numpy()[:1], want_r[:1], atol=1e-12)
            assert not np.tril(r.numpy(), -1).any()
            if mode != "r":
                np.testing.assert_allclose((q @ r).numpy(), a, atol=1e-12)
                np.testing.assert_allclose((q.mT @ q).numpy(), np.eye(q.shape[1]), atol=1e-12)


def test_factors_of_what_has_no_squares() -> None:
    a = T.from_numpy(np.random.default_rng(2).standard_normal((4, 3, 3)))
    whole = T.linalg.qr(a)
    for scale in (1e-170, 1e170):
        b = a.clone()
        b[1] *= scale
        for _ in range(3):
            q, r = T.linalg.qr(b)
            T.testing.assert_close(q, whole.Q)
            T.testing.assert_close(r[1] / scale, whole.R[1])
        b[2, 0, 0] = float("nan")
        assert T.linalg.qr(b)[1][2].isnan().any() and T.linalg.qr(b)[1][3].isfinite().all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_values_without_vectors_are_those_with_them(dtype: str) -> None:
    a = T.randn(5, 6, 6, dtype=getattr(T, dtype))
    a = a + a.mH
    a[0] = 0
    for of in (T.linalg.eigvalsh, T.linalg.svdvals):
        with_vectors = of(a.clone().requires_grad_())
        assert with_vectors.grad_fn is not None
        first, *later = [of(a) for _ in range(4)]
        assert all(T.equal(first, x) for x in later) and first.dtype == with_vectors.dtype
        T.testing.assert_close(first, with_vectors.detach())
        T.testing.assert_close(T.vmap(of)(a), first)
        with pytest.raises(T.linalg.LinAlgError):
            of(T.full((3, 3), float("nan")))


@pytest.mark.parametrize("size", [(40, 6), (6, 40), (12, 12), (3, 2), (90, 70)])
@pytest.mark.parametrize("sides", [1, 5, 80])
def test_least_squares_with_few_and_many_right_sides(size: tuple[int, int], sides: int) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, *size)), rng.standard_normal((2, size[0], sides))
    want = np.linalg.pinv(a) @ b
    for _ in range(3):
        for rows, right in ((T.tensor(a), T.tensor(b)), (T.tensor(a.mT.copy()).mT, T.tensor(b.mT.copy()).mT)):
            found = T.linalg.lstsq(rows, right)
            np.testing.assert_allclose(found.solution.numpy(), want, atol=1e-9)
            assert found.rank.tolist() == [min(size)] * 2
    a[1, :, 1] = a[1, :, 0]  # one that is not of full rank
    a[1, 1] = a[1, 0]
    found = T.linalg.lstsq(T.tensor(a), T.tensor(b))
    np.testing.assert_allclose(found.solution.numpy(), np.linalg.pinv(a, rcond=1e-12) @ b, atol=1e-9)
    assert found.rank[1] < min(size)
