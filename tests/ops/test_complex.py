"""Complex numbers: the table of cases beside torch 2.13, and what they keep to whatever PyTorch does."""

from __future__ import annotations

import cmath
import zlib
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nbgrad as T
from nbgrad.autograd.gradcheck import GradcheckError
from tests import derive
from tests.cases import CASES, OpCase, Sample, samples
from tests.compare import assert_same, leaves, outcome

C, D = T.complex64, T.complex128

# ---------------------------------------------------------------- beside torch

_OF_TORCH = {
    "cumprod_dtype": "it differentiates by complex factors where it multiplied real ones",
    "silu_inplace": "its gradient lacks a conjugation",
    "inplace_scatter_reduce": "its second derivative is of the form that it refuses",
    "pow_1": "it has zeros for a second derivative where there is none",
}


_POLES = {"lstm_projected"}  # near which each step multiplies what float32 has rounded


def complex_sample(case: OpCase, sample: Sample, dtype: str) -> Sample:
    """The floats of a sample with imaginary parts; integers and truth values stay."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()) + 7)
    arrays = []
    for k, a in enumerate(sample.arrays):
        if a.dtype.kind == "f" and not (k < len(case.kinds) and case.kinds[k]):
            a = (a + 1j * rng.uniform(-1, 1, a.shape)).astype(dtype)
        arrays.append(a)
    return Sample(sample.label.replace("float64", dtype), tuple(arrays), sample.layouts)


def complex_samples(case: OpCase) -> list[Sample]:
    found = [complex_sample(case, s, "complex128") for s in samples(case, "float64", in_turn=True)][:3]
    if case.name in _POLES:
        return found
    return [*found, complex_sample(case, next(samples(case, "float64", layouts=False)), "complex64")]


def _has_complex(case: OpCase) -> bool:
    return any([a.dtype.kind == "c" for a in complex_samples(case)[0].arrays])


TAKEN = [case for case in CASES.values() if "float64" in case.dtypes and _has_complex(case)]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", TAKEN, ids=str)
def test_case(torch: ModuleType, case: OpCase) -> None:
    """The result, or the refusal in its words, of calls and of what is recorded; gradients to second order."""
    for n, sample in enumerate(complex_samples(case)):
        want = outcome(lambda s=sample: case.fn(torch, *s.tensors(torch)))
        got = outcome(lambda s=sample: case.fn(T, *s.tensors(T)))
        assert_same(got, want, sample.label, 4 * max(case.tol, 1))
        if isinstance(want, str):
            return
        recorded, mine = (
            outcome(lambda m=m, s=sample: case.fn(m, *s.tensors(m, requires_grad=True))) for m in (torch, T)
        )
        if isinstance(recorded, str):
            assert mine == recorded, sample.label
            return
        if (
            case.name in _OF_TORCH
            or "complex64" in sample.label
            or not case.differentiable
            or not any([hasattr(t, "dtype") and t.requires_grad for t in leaves(recorded)])
        ):
            continue
        if n:
            first, its = (derive.gradients(m, case, sample, create_graph=False)[0] for m in (T, torch))
            assert_same(first, its, f"{sample.label}, first order", 100 * case.tol)
        else:
            twice, its_ = (derive.second_order(m, case, sample) for m in (T, torch))
            assert_same(twice[0], its_[0], f"{sample.label}, first order", 100 * case.tol)
            assert_same(twice[1], its_[1], f"{sample.label}, second order", 100 * case.tol)


# ---------------------------------------------------------------- by themselves


def drawn(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("n", [1, 7, 8, 20])
def test_normal_numbers_are_pairs_of_half_the_variance(n: int) -> None:
    T.manual_seed(3)
    z = T.randn(n, dtype=D)
    T.manual_seed(3)
    pairs = T.empty(n, 2, dtype=T.float64).normal_(0, 1 / np.sqrt(2))
    assert T.equal(T.view_as_real(z), pairs)


@pytest.mark.parametrize("kind", ["any", "all"])
def test_truths_of_a_second_call_are_of_complex_numbers(kind: str) -> None:
    """The plan of the first call is that of both."""
    z = T.tensor([[1j, 0], [2j, 1]])
    want = getattr(np, kind)(z.numpy(), axis=0)
    for _ in range(2):
        assert (getattr(z, kind)(0).numpy() == want).all()


@pytest.mark.parametrize(
    "reduce",
    [
        lambda m, z: m.var(z) if m is np else m.var(z, correction=0),
        lambda m, z: m.std(z) if m is np else m.std(z, correction=0),
        lambda m, z: m.prod(z),
        lambda m, z: m.cumprod(z, 0),
        lambda m, z: m.cumsum(z, 0),
        lambda m, z: np.log(np.cumsum(np.exp(z), 0)) if m is np else m.logcumsumexp(z, 0),
        lambda m, z: np.log(np.exp(z).sum(0)) if m is np else m.logsumexp(z, 0),
        lambda m, z: m.diff(z, axis=0) if m is np else m.diff(z, dim=0),
        lambda m, z: m.cov(z),
        lambda m, z: m.count_nonzero(z),
    ],
)
def test_what_numpy_has(reduce: Any) -> None:
    z = drawn(5, 3)
    z[1, 1] = 0
    np.testing.assert_allclose(reduce(T, T.tensor(z)).numpy(), reduce(np, z), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 33])
def test_running_products_and_their_gradients(n: int) -> None:
    z = T.tensor(drawn(n) / 2, requires_grad=True)
    assert T.autograd.gradcheck(lambda z: z.cumprod(0), z)
    assert T.autograd.gradcheck(lambda z: z.logcumsumexp(0), z)


@pytest.mark.parametrize(
    "f",
    [
        lambda z: z.var(),
        lambda z: T.std_mean(z, 0),
        lambda z: T.cov(z),
        lambda z: z.scatter_add(0, T.tensor([[0, 1, 0]]), z[:1] * 1j),
        lambda z: T.nn.functional.conv1d(z[None], z[None] * 1j),
        lambda z: T.nn.functional.rms_norm(z, (3,)),
        lambda z: T.nn.functional.fold(T.nn.functional.unfold(z[None, None], 2), (2, 3), 2),
        lambda z: z.index_put((T.tensor([0, 0]),), z, accumulate=True),
        lambda z: z.index_add(0, T.tensor([0]), z[:1], alpha=2j),
    ],
)
def test_gradients_both_ways(f: Any) -> None:
    z = T.tensor(drawn(2, 3), requires_grad=True)
    assert T.autograd.gradcheck(f, z, check_forward_ad=True)
    assert T.autograd.gradgradcheck(f, z)


@pytest.mark.parametrize("make", [T.complex, T.polar])
@pytest.mark.parametrize("moving", [0, 1])
def test_forward_mode_of_what_joins_parts(make: Any, moving: int) -> None:
    """Of one part alone, too."""
    given = [T.tensor([1.5, 2.0]), T.tensor([0.5, -1.0])]

    def f(x: T.Tensor) -> T.Tensor:
        return T.view_as_real(make(*given[:moving], x, *given[moving + 1 :]))

    forward, backward = T.func.jacfwd(f)(given[moving]), T.func.jacrev(f)(given[moving])
    T.testing.assert_close(forward, backward)
    assert forward.abs().max() > 0.1


def test_a_check_finds_what_lacks_a_conjugation() -> None:
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: T.Tensor) -> T.Tensor:
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx: Any, g: T.Tensor) -> T.Tensor:
            return 2 * g * ctx.saved_tensors[0]

    z = T.tensor(drawn(2), requires_grad=True)
    for fast in (False, True):
        with pytest.raises(GradcheckError, match="the imaginary part of complex outputs"):
            T.autograd.gradcheck(Square.apply, z, fast_mode=fast)


def test_convolutions_are_numpys() -> None:
    x, w = drawn(9), drawn(3, seed=1)
    got = T.nn.functional.conv1d(T.tensor(x)[None, None], T.tensor(w[::-1].copy())[None, None])
    np.testing.assert_allclose(got[0, 0].numpy(), np.convolve(x, w, "valid"), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda z: z.max(), "\"max_all\" not implemented for 'ComplexFloat'"),
        (lambda z: z.max(0), "max(): does not support complex input"),
        (lambda z: z.amin(), "\"min_values_cpu\" not implemented for 'ComplexFloat'"),
        (lambda z: z.argmax(), "argmax(): does not support complex input"),
        (lambda z: z.sort(), " Sort does not support complex dtypes on CPU"),
        (lambda z: z.topk(1), " topk does not support complex dtypes on CPU"),
        (lambda z: z.unique(), "\"unique\" not implemented for 'ComplexFloat'"),
        (lambda z: z.cummax(0), "\"cummax_cpu\" not implemented for 'ComplexFloat'"),
        (lambda z: z.nansum(), "nansum on CPU does not support complex inputs"),
        (lambda z: T.arange(2, dtype=C), "\"arange_cpu\" not implemented for 'ComplexFloat'"),
        (lambda z: z.bernoulli_(), "\"bernoulli_scalar_cpu_\" not implemented for 'ComplexFloat'"),
        (lambda z: T.nn.functional.relu_(z), "clamp is not supported for complex types"),
        (lambda z: T.nn.functional.glu(z), "\"glu_cpu\" not implemented for 'ComplexFloat'"),
        (
            lambda z: T.nn.functional.max_pool1d(z[None], 1),
            "\"max_pool1d_impl\" not implemented for 'ComplexFloat'",
        ),
        (
            lambda z: T.mean(z, out=T.tensor(0.0)),
            "mean.dtype_out(): input types can't be cast to the desired output type Float",
        ),
        (
            lambda z: T.float_power(z, 2, out=T.zeros(2)),
            "the output given to float_power has dtype Float but the operation's result requires dtype ComplexDouble",
        ),
        (lambda z: T.isin(z, z), "Unsupported input type encountered for isin(): ComplexFloat"),
        (lambda z: float(z[0]), "value cannot be converted to type double without overflow"),
        (lambda z: T.ones(2).fill_(1j), "value cannot be converted to type float without overflow"),
        (
            lambda z: T.ones(2).addcmul(T.ones(2), T.ones(2), value=1j),
            "value cannot be converted to type float without overflow",
        ),
        (
            lambda z: T.ones(2).index_fill(0, T.tensor([0]), 1j),
            "index_fill_(): Converting complex Scalar to non-complex type is not supported",
        ),
        (
            lambda z: T.func.jacrev(T.abs)(z),
            "jacrev: Expected all inputs to be real but received complex tensor at flattened input idx: 0",
        ),
        (
            lambda z: z.clone().requires_grad_().scatter_reduce(0, T.tensor([0]), z, "sum"),
            "scatter_reduce does not support automatic differentiation for outputs with complex dtype.",
        ),
    ],
)
def test_refused_in_pytorchs_words(call: Any, words: str) -> None:
    for _ in range(2):  # the second time by the plan of the first, if there is one
        with pytest.raises((RuntimeError, NotImplementedError)) as refusal:
            call(T.tensor([1 + 2j, 3]))
        assert str(refusal.value) == words


def test_a_form_in_place_is_recorded_where_the_other_is_refused() -> None:
    z = T.tensor([1j, 2.0], requires_grad=True)
    (z * 1).scatter_reduce_(0, T.tensor([0]), z[1:], "sum").abs().sum().backward()
    assert z.grad is not None and z.grad[1] != 0


@pytest.mark.parametrize(
    "make",
    [
        lambda p: T.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: T.optim.Adam(p, amsgrad=True),
        lambda p: T.optim.AdamW(p),
        lambda p: T.optim.RMSprop(p, centered=True, momentum=0.5),
        lambda p: T.optim.Adagrad(p, initial_accumulator_value=0.5),
        lambda p: T.optim.Rprop(p),
        lambda p: T.optim.ASGD(p),
        lambda p: T.optim.LBFGS(p, lr=0.1, max_iter=3),
    ],
)
def test_optimisers_step_by_parts(make: Any) -> None:
    """As of the pairs of real numbers that complex ones are."""
    z = T.nn.Parameter(T.tensor(drawn(4)))
    pairs = T.nn.Parameter(T.view_as_real(z.detach()).clone())

    def stepped(p: Any, as_complex: Any) -> Any:
        optimizer = make([p])

        def closure() -> Any:
            optimizer.zero_grad()
            q = as_complex(p)
            loss = (q * q - 1j).abs().square().sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return p.detach()

    T.testing.assert_close(T.view_as_real(stepped(z, lambda p: p)), stepped(pairs, T.view_as_complex))


def test_casts_that_discard_are_told_of_once() -> None:
    z, x = T.tensor([1j, 2.0]), T.zeros(2)
    T.set_warn_always(True)
    try:
        for cast in (z.float, lambda: z.to(T.int64), lambda: x.copy_(z)):
            for _ in range(2):
                with pytest.warns(UserWarning, match="discards the imaginary part"):
                    cast()
        z.bool(), z.cdouble()  # which discard nothing: a warning is an error here
    finally:
        T.set_warn_always(False)
    y = T.ones(2, requires_grad=True)
    (y * z).abs().sum().backward()  # nor does the gradient of a real operand


@pytest.mark.parametrize("join", [T.cat, T.stack, T.hstack])
def test_real_numbers_among_complex_ones_get_the_real_part(join: Any) -> None:
    """Of the gradient, and no word on what is discarded (a warning is an error here), recorded or not."""
    x, z = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([1j, 2.0])
    for graph in (False, True):
        (g,) = T.autograd.grad((join([x, z]) * (1 + 1j)).abs().square().sum(), x, create_graph=graph)
        T.testing.assert_close(g.detach(), 4 * x.detach())


def test_real_numbers_written_to_complex_ones_get_the_real_part() -> None:
    T.set_warn_always(True)
    try:
        for at in (slice(1), 0, ...):
            x, z = T.tensor([1.0, 2.0], requires_grad=True), T.zeros(2, dtype=T.complex64)
            z[at] = x[at]
            (z * (1 + 1j)).abs().square().sum().backward()  # a warning is an error here
            T.testing.assert_close(x.grad[at], 4 * x.detach()[at])
    finally:
        T.set_warn_always(False)


def test_pythons_type_is_a_dtype() -> None:
    assert T.zeros(2, dtype=complex).dtype is T.ones(2).to(complex).dtype is T.complex128


def test_divisors_with_one_infinite_part() -> None:
    inf = float("inf")
    z = T.tensor([inf, -inf, complex(0, inf), complex(2, -inf)])
    assert not (1 / z).abs().any() and not ((2 + 1j) / z).abs().any()
    assert T.isnan(z / z).all() and T.isnan(1 / T.tensor([complex(inf, inf)])).all()


def test_arcs_of_what_has_one_infinite_part() -> None:
    inf, quarter = float("inf"), np.pi / 2
    z = T.tensor([inf, -inf, complex(3, inf), complex(-inf, 2)], dtype=T.complex128)
    assert T.atan(z).tolist() == [quarter, -quarter, quarter, -quarter]
    assert T.atanh(T.complex(-z.imag, z.real)).imag.tolist() == [quarter, -quarter, quarter, -quarter]


@pytest.mark.parametrize("how", ["matrix_exp", "cayley"])
def test_unitary_weights(how: str) -> None:
    for rows, columns in ((3, 3), (4, 2), (2, 4)):
        layer = T.nn.Linear(columns, rows, dtype=T.complex128)
        T.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=how)
        original = layer.parametrizations.weight.original
        with T.no_grad():
            original += T.randn(rows, columns, dtype=T.complex128)
        w = layer.weight if rows >= columns else layer.weight.mH
        assert T.dist(w.mH @ w, T.eye(min(rows, columns), dtype=w.dtype)) < 1e-12
        layer.weight.imag.sum().backward()
        assert original.grad.diagonal().imag.all()  # a phase is free


def test_a_complex_weight_over_its_largest_singular_value() -> None:
    layer = T.nn.utils.parametrizations.spectral_norm(
        T.nn.Linear(3, 3, dtype=T.complex128), n_power_iterations=200
    )
    assert abs(T.linalg.matrix_norm(layer.weight, 2) - 1) < 1e-9
    with pytest.raises(ValueError, match="does not support complex"):
        T.nn.utils.parametrizations.orthogonal(layer, orthogonal_map="householder")


def test_a_power_that_is_complex_has_no_room_in_real_numbers() -> None:
    x = T.tensor([1.0, -2.0])
    for exponent in (1j, 2 + 0j):
        with pytest.raises(
            RuntimeError, match="result type ComplexFloat can't be cast to the desired output type Float"
        ):
            x.pow_(exponent)
    assert x.tolist() == [1.0, -2.0]


def test_pairs_that_begin_at_an_odd_place_are_refused_each_time() -> None:
    a = T.arange(10.0)
    for _ in range(2):
        assert T.view_as_complex(a[2:6].view(2, 2)).tolist() == [2 + 3j, 4 + 5j]
        with pytest.raises(RuntimeError, match="Tensor must have a storage_offset divisible by 2"):
            T.view_as_complex(a[1:5].view(2, 2))


def test_absolute_values_go_into_complex_numbers() -> None:
    z, out = T.tensor([3 + 4j]), T.zeros(1, dtype=T.complex64)
    assert T.abs(z, out=out) is out and out.tolist() == [5 + 0j]


# ---------------------------------------------------------------- infinities, NaNs and signed zeros

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, float("inf"), float("-inf"), float("nan")]
ARCS = ["sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"]
OF_EDGES = [*ARCS, "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1"]
OF_EDGES += ["sigmoid", "sgn", "angle", "abs", "square"]


def edges(dtype: Any) -> Any:
    return np.array([complex(a, b) for a in EDGES for b in EDGES], dtype)


def assert_same_parts(got: Any, want: Any, bound: float) -> None:
    for part in ("real", "imag"):
        g, w = getattr(got, part), getattr(want, part)
        np.testing.assert_allclose(g, w, rtol=bound)
        zero = w == 0
        assert (np.signbit(g) == np.signbit(w))[zero].all()


@pytest.mark.parametrize("name", [*ARCS, "log", "log10", "sqrt", "exp"])
def test_edges_are_those_of_c(name: str) -> None:
    """Where Python knows them, and without NaNs, of which C leaves much open, as it does the signs of what infinities leave."""
    known = []
    for z in edges("c16").tolist():
        with suppress(ValueError):
            known += [(z, getattr(cmath, name)(z))] if z == z else []
    given, want = np.array(known, "c16").T
    got = getattr(T, name)(T.tensor(given)).numpy()
    finite = np.isfinite(given)
    np.testing.assert_allclose(np.abs(got.real), np.abs(want.real), rtol=1e-12)
    np.testing.assert_allclose(np.abs(got.imag), np.abs(want.imag), rtol=1e-12)
    assert_same_parts(got[finite], want[finite], 1e-12)
    assert len(want) > 40


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("name", OF_EDGES)
def test_edges_are_pytorchs(torch: ModuleType, name: str, dtype: str) -> None:
    z = edges(dtype)
    got = getattr(T, name)(T.tensor(z)).numpy()
    want = getattr(torch, name)(torch.tensor(z)).numpy()
    if name == "acos" and dtype == "c16":  # where PyTorch's zeros are not C's
        want.imag[want.imag == 0] = got.imag[want.imag == 0]
    assert_same_parts(got, want, 1e-4 if dtype == "c8" else 1e-9)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_quotients_and_products_of_edges_are_pytorchs(torch: ModuleType, dtype: str) -> None:
    z, bound = edges(dtype), 1e-4 if dtype == "c8" else 1e-9
    for call in (lambda a, b: a / b, lambda a, b: a * b, lambda a, b: a.real / b, lambda a, b: a / b.real):
        got, want = (call(L.tensor(z)[:, None], L.tensor(z)).numpy() for L in (T, torch))
        assert_same_parts(got, want, bound)


def test_a_size_beyond_all_numbers_has_parts_that_are_not() -> None:
    assert T.exp(T.tensor(710 + 1j, dtype=D)).real.item() == pytest.approx(1.2070325234545281e308)
    assert T.exp(T.tensor(89 + 1j)).real.item() == pytest.approx(2.4255e38, rel=1e-3)
    assert T.sqrt(T.tensor(1e308 + 1e308j, dtype=D)).real.item() == pytest.approx(1.0986841134678098e154)
    assert T.atan(T.tensor(1e200 + 0j, dtype=D)).item() == pytest.approx(np.pi / 2)
    assert T.atanh(T.tensor(1e20 + 0j)).real.item() == pytest.approx(1e-20)


def test_complex_numbers_in_a_body() -> None:
    @T.elementwise
    def wave(z: Any) -> Any:
        return T.exp(1j * z) * (2 - 1j) / (z + 1j)

    z = T.tensor(drawn(4), requires_grad=True)
    T.testing.assert_close(wave(z), T.exp(1j * z) * (2 - 1j) / (z + 1j))
    assert T.autograd.gradcheck(wave, z, check_forward_ad=True) and T.autograd.gradgradcheck(wave, z)
    with pytest.raises(TypeError, match="a complex number outside of a complex computation"):
        wave(T.ones(2))


@pytest.mark.parametrize("name", ["asin", "acos", "asinh", "acosh", "atan", "atanh", "log", "sqrt", "rsqrt"])
def test_derivatives_on_cuts_are_those_of_their_side(name: str) -> None:
    """Of which a zero's sign tells: by differences along the cut. PyTorch has some of the other side."""
    function, h = getattr(T, name), 1e-6
    for a in (-2.0, -0.5, 0.5, 2.0):
        for zero in (0.0, -0.0):
            for turned in (False, True):
                at = [complex(zero, a + d) if turned else complex(a + d, zero) for d in (-h, 0, h)]
                low, _, high = function(T.tensor(at, dtype=D)).tolist()
                want = (high - low) / (2 * h) / (1j if turned else 1)
                z = T.tensor(at[1], dtype=D, requires_grad=True)
                (found,) = T.autograd.grad(function(z).real, z)
                _, moved = T.func.jvp(function, (z.detach(),), (T.ones_like(z),))
                assert found.item().conjugate() == pytest.approx(want, rel=1e-5)
                assert moved.item() == pytest.approx(want, rel=1e-5)


def test_a_gradient_of_pairs_may_begin_at_an_odd_place() -> None:
    z = T.tensor(drawn(3), requires_grad=True)
    (g,) = T.autograd.grad(
        T.view_as_real(z), z, T.arange(7.0, dtype=T.float64)[1:].view(3, 2), create_graph=True
    )
    assert g.tolist() == [1 + 2j, 3 + 4j, 5 + 6j]


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
@pytest.mark.parametrize(
    "name", ["log", "log2", "log10", "log1p", "atan", "atanh", "asin", "acos", "acosh", "asinh", "sqrt"]
)
def test_keeps_its_digits_near_hard_places(name: str, kind: str) -> None:
    """Beside 1, -1, i and -i, where a logarithm's argument is near 1, or a difference."""
    draw = np.random.default_rng(0).standard_normal
    steps = [c + (draw(500) + 1j * draw(500)) * s for c in (1, -1, 1j, -1j) for s in (1e-1, 1e-3, 1e-5)]
    z = np.concatenate(
        [*steps, draw(2000) * 1e4 + 1j * draw(2000), draw(2000) + 1j * draw(2000) * 1e4]
    ).astype(kind)
    exact: Any = getattr(
        np,
        {"atan": "arctan", "atanh": "arctanh"}.get(
            name, name.replace("a", "arc", 1) if name[0] == "a" else name
        ),
    )
    want = exact(z.astype(np.clongdouble))
    got = getattr(T, name)(T.from_numpy(z)).numpy()
    assert (np.abs(got - want) / np.abs(want)).max() < 4 * np.finfo(kind).eps
