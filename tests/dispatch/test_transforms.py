"""Every op of the case table under forward mode and under vmap, and what transforms promise of each other."""

from typing import Any

import numpy as np
import pytest

from nbgrad import func
from tests.cases import CASES, OpCase, Sample, differentiable, samples
from tests.compare import array, leaves
from tests.support import T


def each(cases: list[OpCase]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=str)


def small(case: OpCase, count: int) -> list[Sample]:
    """A few samples, among them one whose first operand is strided."""
    found = [s for s in samples(case, "float64", in_turn=True) if all(0 < a.size <= 24 for a in s.arrays)]
    plain = [s for s in found if set(s.layouts) <= {"c"}]
    return plain[:count] + [s for s in found if s not in plain][:1]


def floats(values: Any) -> tuple[Any, ...]:
    return tuple(t for t in leaves(values) if t.dtype.is_floating_point)


def like(t: Any, rng: np.random.Generator) -> Any:
    return T.tensor(rng.uniform(-1, 1, tuple(t.shape)))


# What PyTorch has gradients for, and no tangents.
UNMOVED = ("cdist", "pdist", "igamma", "igammac", "zeta", "multi_margin", "multilabel_margin", "index_reduce")


def unmoved(case: OpCase) -> bool:
    return any(str(case).removeprefix("inplace_").startswith(name) for name in UNMOVED)


MOVED = [c for c in differentiable() if not unmoved(c)]


@each([c for c in differentiable() if unmoved(c)])
def test_pytorch_has_no_tangent(case: OpCase) -> None:
    sample = next(s for s in samples(case, "float64", in_turn=True) if all(a.size for a in s.arrays))
    xs = tuple(sample.tensors(T))
    moving = [k for k, x in enumerate(xs) if x.dtype.is_floating_point]
    with T.autograd.forward_ad.dual_level():
        duals = [
            T.autograd.forward_ad.make_dual(x, T.ones_like(x)) if k in moving else x for k, x in enumerate(xs)
        ]
        with pytest.raises(
            NotImplementedError, match="that does not support it because it has not been implemented yet"
        ):
            case.fn(T, *duals)


@each(MOVED)
def test_tangent_is_the_gradients_transpose(case: OpCase) -> None:
    """u . (J v) = (u J) . v, with J v from forward mode and u J from reverse mode."""
    rng = np.random.default_rng(0)
    for sample in small(case, 3):
        tensors = sample.tensors(T)
        moving = [k for k, t in enumerate(tensors) if t.dtype.is_floating_point]

        def fn(*xs: Any, tensors: Any = tensors, moving: Any = moving) -> Any:
            operands = list(tensors)
            for k, x in zip(moving, xs, strict=True):
                operands[k] = x
            return floats(case.fn(T, *operands))

        xs = tuple(tensors[k] for k in moving)
        vs = tuple(like(x, rng) for x in xs)
        out, moved = func.jvp(fn, xs, vs)
        us = tuple(like(o, rng) for o in out)
        back = func.vjp(fn, *xs)[1](us)
        forwards = sum(float((u * m).sum()) for u, m in zip(us, moved, strict=True))
        backwards = sum(float((b * v).sum()) for b, v in zip(back, vs, strict=True))
        assert forwards == pytest.approx(backwards, rel=1e-10, abs=1e-12), sample.label
        for o, m in zip(out, moved, strict=True):
            assert (o.shape, o.dtype) == (m.shape, m.dtype), sample.label


def stacked(sample: Sample, rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """The operands of two examples, stacked, and of each alone; the second's values are the first's in another order."""
    pairs = [
        (a, rng.permutation(a.reshape(-1)).reshape(a.shape) if a.dtype.kind == "f" else a)
        for a in sample.arrays
    ]
    return [T.tensor(np.stack(p)) for p in pairs], [[T.tensor(p[k]) for p in pairs] for k in range(2)]


def same(got: Any, want: Any, label: str) -> None:
    for g, w in zip(leaves(got), leaves(want), strict=True):
        np.testing.assert_allclose(array(g), array(w), 1e-12, 1e-13, err_msg=label)


INTEGERS = ("bitwise", "invert", "and_", "or_", "xor_")
# ask for values, or draw them
HOST = (
    "allclose",
    "equal",
    "bincount",
    "histogramdd",
    "nonzero",
    "unique",  # refused, as in PyTorch
    "cov_weights",
    "gumbel",
    "masked_scatter",
    "inplace_masked",
)


@each([c for c in CASES.values() if not c.name.startswith(HOST)])
def test_vmap_is_a_loop(case: OpCase) -> None:
    """Over all operands, and over the last one alone."""
    rng = np.random.default_rng(0)
    dtype = "int64" if case.name.startswith(INTEGERS) or "float64" not in case.dtypes else "float64"
    for sample in [s for s in samples(case, dtype, layouts=False) if all(a.size <= 24 for a in s.arrays)][:3]:
        together, apart = stacked(sample, rng)

        def fn(*xs: Any) -> tuple[Any, ...]:
            return tuple(leaves(case.fn(T, *xs)))

        want = [fn(*xs) for xs in apart]
        got = func.vmap(fn)(*together)
        same(got, [T.stack(w) for w in zip(*want, strict=True)], sample.label)
        if len(together) > 1 and not case.name.startswith(
            ("setitem", "inplace")
        ):  # which writes one tensor for all examples
            mixed = [*apart[0][:-1], together[-1]]
            want = [fn(*apart[0][:-1], xs[-1]) for xs in apart]
            got = func.vmap(fn, (*[None] * (len(mixed) - 1), 0))(*mixed)
            same(got, [T.stack(w) for w in zip(*want, strict=True)], sample.label)


# Of a product over places the gradient asks for values: whether several factors are 0. PyTorch's vmap refuses it too.
ASKS = ("scatter_reduce_prod", "index_reduce_prod", "inplace_scatter_reduce")


@pytest.mark.slow
@each([c for c in differentiable() if not c.name.startswith((*HOST, *ASKS))])
def test_gradients_per_example(case: OpCase) -> None:
    """vmap of grad is a loop of grad."""
    rng = np.random.default_rng(0)
    for sample in [
        s for s in samples(case, "float64", layouts=False) if all(0 < a.size <= 24 for a in s.arrays)
    ][:2]:
        together, apart = stacked(sample, rng)
        moving = tuple(k for k, t in enumerate(together) if t.dtype.is_floating_point)

        def fn(*xs: Any) -> Any:
            return sum((t * t).sum() for t in floats(case.fn(T, *xs)))

        want = [func.grad(fn, moving)(*xs) for xs in apart]
        got = func.vmap(func.grad(fn, moving))(*together)
        same(got, [T.stack(w) for w in zip(*want, strict=True)], sample.label)


@pytest.mark.slow
@each(MOVED)
def test_forward_over_reverse_is_reverse_over_reverse(case: OpCase) -> None:
    """The Hessian times a vector, by both ways."""
    rng = np.random.default_rng(0)
    for sample in [
        s for s in samples(case, "float64", layouts=False) if all(0 < a.size <= 24 for a in s.arrays)
    ][:1]:
        tensors = sample.tensors(T)
        moving = tuple(k for k, t in enumerate(tensors) if t.dtype.is_floating_point)

        def fn(*xs: Any, tensors: Any = tensors, moving: Any = moving) -> Any:
            operands = list(tensors)
            for k, x in zip(moving, xs, strict=True):
                operands[k] = x
            return sum((t * t).sum() for t in floats(case.fn(T, *operands)))

        xs = tuple(tensors[k] for k in moving)
        vs = tuple(like(x, rng) for x in xs)
        slope = func.grad(fn, tuple(range(len(xs))))
        forward = func.jvp(slope, xs, vs)[1]

        def along(*xs: Any, slope: Any = slope, vs: Any = vs) -> Any:
            return sum((g * v).sum() for g, v in zip(slope(*xs), vs, strict=True))

        same(forward, func.grad(along, tuple(range(len(xs))))(*xs), sample.label)


SMOOTH = {
    "exp",
    "log",
    "tanh",
    "sigmoid",
    "sin",
    "sqrt",
    "mul",
    "div",
    "pow_tensor",
    "atan2",
    "silu",
    "gelu",
    "erf",
    "where",
}
SMOOTH |= {
    "prod",
    "logsumexp",
    "softmax",
    "log_softmax",
    "norm",
    "layer_norm",
    "var",
    "cumsum",
    "cross_entropy",
    "mse_loss",
}
SMOOTH |= {"mm", "gather", "cat", "index_put"}
THIRD = [c for c in MOVED if c.name in SMOOTH]


@pytest.mark.slow
@each(THIRD)
def test_third_order_forwards_is_third_order_backwards(case: OpCase) -> None:
    """Along one direction: three times a tangent, three times a gradient."""
    rng = np.random.default_rng(0)
    sample = next(
        s for s in samples(case, "float64", layouts=False) if all(0 < a.size <= 24 for a in s.arrays)
    )
    tensors = sample.tensors(T)
    moving = [k for k, t in enumerate(tensors) if t.dtype.is_floating_point]
    vs = {k: like(tensors[k], rng) for k in moving}

    def along(step: Any) -> Any:
        operands = [t + step * vs[k] if k in vs else t for k, t in enumerate(tensors)]
        return sum((t**2).sum() for t in floats(case.fn(T, *operands)))

    def derived(f: Any) -> Any:
        return lambda step: func.jvp(f, (step,), (T.ones((), dtype=T.float64),))[1]

    start = T.tensor(0.0, dtype=T.float64)
    forwards = derived(derived(derived(along)))(start)
    backwards = func.grad(func.grad(func.grad(along)))(start)
    assert float(forwards) == pytest.approx(float(backwards), rel=1e-9, abs=1e-10)


def test_backward_adds_up_tangents() -> None:
    """Inside a level of forward mode the gradients of leaves have tangents."""
    w, v = T.ones(3, requires_grad=True), T.tensor([1.0, 2.0, 3.0])
    fw = T.autograd.forward_ad
    with fw.dual_level():
        for count in (1, 2):
            (fw.make_dual(w, v) ** 2).sum().backward()
            value, moved = fw.unpack_dual(w.grad)
            assert value.tolist() == [2.0 * count] * 3
            assert moved.tolist() == [2.0 * count, 4.0 * count, 6.0 * count]


def test_a_write_to_a_view_makes_a_shared_tangent_each_examples_own() -> None:
    """What the dual tensor had elsewhere stays, also where all examples had it in common (PyTorch refuses that write)."""

    def half(x: Any, y: Any) -> Any:
        x[::2].copy_(y)
        return x

    x, xt = T.arange(4.0), T.arange(4.0) * 10
    y, yt = T.ones(3, 2), T.arange(6.0).reshape(3, 2)
    moved = T.vmap(lambda x, y, yt: func.jvp(half, (x, y), (xt, yt))[1])(x.repeat(3, 1), y, yt)
    assert moved.tolist() == [[0.0, 10.0, 1.0, 30.0], [2.0, 10.0, 3.0, 30.0], [4.0, 10.0, 5.0, 30.0]]
