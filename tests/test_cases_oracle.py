"""Every case against torch 2.13: values, dtypes, shapes, refusals, gradients to second order, and each form."""

import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from tests import derive
from tests.cases import (
    CASES,
    DTYPES,
    FLOATS,
    NARROW,
    SMALL,
    OpCase,
    Sample,
    by_name,
    differentiable,
    is_narrow,
    method,
    samples,
    special_sample,
    with_form,
)
from tests.compare import assert_same, leaves, outcome
from tests.support import T

pytestmark = pytest.mark.oracle

# Beside each dtype alone: pairs whose result dtype is another question.
MIXED = [
    ("float32", "int64"),
    ("int32", "int64"),
    ("bool", "float64"),
    ("bool", "int32"),
    ("float64", "float32"),
]


def each(cases: list[OpCase]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=str)


def _large(case: OpCase) -> list[str]:
    return [d for d in case.dtypes if d not in SMALL]


def forward_samples(case: OpCase, whole: bool) -> list[Sample]:
    """All layouts and shapes in float64 (or the case's first dtype), contiguous in the others, the first shape in the small ones and in
    two that the case is not made for, and pairs of dtypes; the whole product where it is asked for."""
    if whole:
        return [s for d in DTYPES if d not in case.unlike for s in samples(case, d)]
    full = "float64" if "float64" in case.dtypes else case.dtypes[0]
    found = [s for d in _large(case) for s in samples(case, d, layouts=d == full, broadcast=d == full)]
    others = [d for d in DTYPES if d not in case.dtypes and d not in case.unlike]
    small = [d for d in SMALL if d in case.dtypes and d not in case.unlike]
    found += [next(samples(case, d, layouts=False)) for d in (*small, *by_name(case, others, 2))]
    if case.arity == 2 and case.dtypes == DTYPES:
        found += [s for pair in MIXED for s in samples(case, pair, layouts=False, broadcast=False)]
    return found


def of_torch(torch: ModuleType, case: OpCase, sample: Sample, run: Callable[[Sample], Any]) -> Any:
    """What `run` gives. Where PyTorch rounds to 16 bits between its steps (several ulps, as the steps cancel) and nbgrad once, at the
    end, it is PyTorch's result from the same numbers in float64, rounded to the dtypes of that in 16 bits."""
    want = outcome(lambda: run(sample))
    if isinstance(want, str) or not (case.steps and any(map(is_narrow, sample.arrays))):
        return want
    pairs = zip(leaves(want), leaves(outcome(lambda: run(sample.exact()))), strict=True)
    return [None if half is None else exact.to(half.dtype) for half, exact in pairs]


@each(list(CASES.values()))
def test_forward(torch: ModuleType, case: OpCase, whole: bool) -> None:
    for sample in forward_samples(case, whole):
        got = outcome(lambda s=sample: case.fn(T, *s.tensors(T)))
        want = of_torch(torch, case, sample, lambda s: case.fn(torch, *s.tensors(torch)))
        assert_same(got, want, sample.label, case.tol)


@pytest.fixture
def own_kernels(torch: ModuleType) -> Iterator[None]:
    """PyTorch's own: the library that it calls on some processors, as for gelu in float32, has other signs of zero."""
    with warnings.catch_warnings(
        action="ignore", category=UserWarning
    ):  # of TF32 on devices that are not there
        flags = torch.backends.mkldnn.flags(enabled=False)
        flags.__enter__()
    yield
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        flags.__exit__(None, None, None)


@each([c for c in CASES.values() if c.elementwise and "float64" in c.dtypes])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.usefixtures("own_kernels")
def test_special_values(torch: ModuleType, case: OpCase, dtype: str) -> None:
    """Zeros of both signs, infinities and NaN: forward, and the gradient, which shows the conventions at kinks."""
    sample = special_sample(case, dtype)
    got = outcome(lambda: case.fn(T, *sample.tensors(T)))
    want = outcome(lambda: case.fn(torch, *sample.tensors(torch)))
    assert_same(got, want, sample.label, case.tol, signs=True)
    if case.differentiable and not isinstance(want, str):
        got_grads, *_ = derive.gradients(T, case, sample, create_graph=False)
        want_grads, *_ = derive.gradients(torch, case, sample, create_graph=False)
        assert_same(got_grads, want_grads, f"{sample.label}, gradient", 4 * case.tol)


@each(differentiable())
def test_gradients(torch: ModuleType, case: OpCase, whole: bool) -> None:
    """To second order; of an elementwise op's layouts to first order, and one of them to second."""
    twice = {sample.label for sample in samples(case, "float64", in_turn=not whole)}
    for sample in samples(case, "float64"):
        if sample.label not in twice:
            first = [derive.gradients(m, case, sample, create_graph=False)[0] for m in (T, torch)]
            assert_same(*first, f"{sample.label}, first order", 10 * case.tol)
            continue
        got = derive.second_order(T, case, sample)
        want = derive.second_order(torch, case, sample)
        assert_same(got[0], want[0], f"{sample.label}, first order", 10 * case.tol)
        assert_same(got[1], want[1], f"{sample.label}, second order", 100 * case.tol)


@each([c for c in differentiable() if set(NARROW) & set(c.dtypes)])
@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_gradients(torch: ModuleType, case: OpCase, dtype: str) -> None:
    """They are of 16 bits as well; which of the steps are rounded is not the same, and ours are the closer."""
    sample = next(samples(case, dtype, layouts=False))
    got = outcome(lambda: derive.gradients(T, case, sample, create_graph=False)[0])
    want = of_torch(torch, case, sample, lambda s: derive.gradients(torch, case, s, create_graph=False)[0])
    assert_same(got, want, sample.label, 4 * case.tol)


@each(differentiable())
def test_grad_fn_name(torch: ModuleType, case: OpCase) -> None:
    """What `grad_fn=<...>` shows, for each output."""
    sample = next(samples(case, "float64"))
    got, want = (
        [
            t.grad_fn and t.grad_fn.name()
            for t in leaves(case.fn(module, *sample.tensors(module, requires_grad=True)))
        ]
        for module in (T, torch)
    )
    assert got == want


@each([c for c in CASES.values() if c.elementwise and c.strides and "float64" in c.dtypes])
def test_strides_of_output(torch: ModuleType, case: OpCase) -> None:
    """The output lies in memory as the operands do: it decides which views of it are legal."""
    for sample in samples(case, "float64"):
        got, want = (outcome(lambda m=m, s=sample: case.fn(m, *s.tensors(m)).stride()) for m in (T, torch))
        assert got == want, sample.label


@each(with_form("m"))
def test_method(torch: ModuleType, case: OpCase) -> None:
    for dtype in _large(case):
        for sample in samples(case, dtype, layouts=False, broadcast=dtype == "float64"):
            got, want = (outcome(lambda m=m, s=sample: method(case, s.tensors(m))) for m in (T, torch))
            assert_same(got, want, sample.label, case.tol)


def in_place(module: ModuleType, case: OpCase, sample: Sample) -> tuple[Any, ...]:
    """The written tensor, its versions, whether it returned itself; a refusal changes nothing."""
    first, *rest = sample.tensors(module)
    before = first.clone(), first._version
    result = outcome(lambda: method(case, [first, *rest], "_"))
    if isinstance(result, str):
        assert first._version == before[1] and bool(((first == before[0]) | (first != first)).all()), (
            sample.label
        )
        return (result,)
    return first, first._version - before[1], result is first


@each(with_form("i"))
def test_in_place(torch: ModuleType, case: OpCase, whole: bool) -> None:
    rounded = set(NARROW) if case.steps else set()
    for dtype in [d for d in (case.dtypes if whole else _large(case)) if d not in rounded]:
        full = dtype == "float64" or whole
        for sample in samples(case, dtype, layouts=full, broadcast=full):
            got, want = (in_place(m, case, sample) for m in (T, torch))
            assert_same(got, want, sample.label, case.tol)


@each([c for c in with_form("i") if c.differentiable])
def test_in_place_gradients(torch: ModuleType, case: OpCase) -> None:
    """`y = x * 1; y.op_(...)`: the rule sees the old value where it reads it."""

    def fn(module: ModuleType, x: Any, *rest: Any) -> Any:
        return method(case, [x * 1, *rest], "_")

    written = OpCase(case.name, fn, case.shapes[:1], domain=case.domain, kinks=case.kinks, kinds=case.kinds)
    for sample in samples(written, "float64"):
        got = derive.second_order(T, written, sample)
        want = derive.second_order(torch, written, sample)
        assert_same(got, want, sample.label, 100 * case.tol)


def into_out(module: ModuleType, case: OpCase, sample: Sample, dtype: str, like: Any) -> Any:
    """Into an empty tensor, which is resized, then into one of the right shape that lies transposed."""
    tensors, shape = sample.tensors(module), tuple(like.shape)
    outs = [module.empty(0, dtype=getattr(module, dtype))]
    outs.append(module.zeros(shape[::-1], dtype=getattr(module, dtype)).permute(*reversed(range(len(shape)))))
    fn = getattr(module, case.op)
    results = [fn(*tensors, *case.args, **dict(case.kwargs), out=out) for out in outs]
    return outs, [r is o for r, o in zip(results, outs, strict=True)]


@each(with_form("o"))
def test_out(torch: ModuleType, case: OpCase) -> None:
    for dtype in [d for d in ("float64", "int64") if d in case.dtypes]:
        for sample in samples(case, dtype, layouts=False):
            like = outcome(lambda s=sample: case.fn(torch, *s.tensors(torch)))
            if isinstance(like, str):
                continue
            for out in {str(like.dtype).removeprefix("torch."), "float32", "int64"}:
                got, want = (
                    outcome(lambda m=m, s=sample, o=out, k=like: into_out(m, case, s, o, k))
                    for m in (T, torch)
                )
                assert_same(got, want, f"{sample.label} out={out}", case.tol)
