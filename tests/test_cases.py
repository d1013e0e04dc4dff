"""The case table itself, and what can be checked of every case without torch: values, gradients, forms."""

import warnings
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import audit, derive
from tests.cases import CASES, OpCase, differentiable, method, samples, with_form
from tests.compare import array, assert_close, assert_same, leaves
from tests.support import T

NAMES = Path(__file__).parent / "case_names.txt"


def each(cases: list[OpCase]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=str)


def test_the_table_has_the_committed_names() -> None:
    """Whoever adds or drops a case says so in the list: "all ops" can be counted there."""
    assert sorted(CASES) == NAMES.read_text(encoding="utf-8").split()


@each([c for c in CASES.values() if c.ref and "float64" in c.dtypes])
def test_value_is_numpys(case: OpCase) -> None:
    for sample in samples(case, "float64"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of the mean of nothing
            expected = np.asarray(case.ref(*sample.arrays))
        assert_close(array(case.fn(T, *sample.tensors(T))), expected, sample.label)


@each(with_form("m"))
def test_method_is_function(case: OpCase) -> None:
    dtype = next(d for d in ("float64", "int64", case.dtypes[0]) if d in case.dtypes)
    for sample in samples(case, dtype if "bitwise" not in case.name else "int64", layouts=False):
        tensors = sample.tensors(T)
        assert_same(method(case, tensors), case.fn(T, *tensors), sample.label, signs=True)


@each(differentiable())
def test_gradcheck(case: OpCase) -> None:
    """First and second derivatives are the numeric ones, away from kinks."""
    small = [s for s in samples(case, "float64", layouts=False) if all(0 < a.size <= 24 for a in s.arrays)]
    for sample in small[:2]:
        tensors = sample.tensors(T, requires_grad=True)

        def fn(*operands: Any) -> tuple[Any, ...]:
            return tuple(t for t in leaves(case.fn(T, *operands)) if t.dtype.is_floating_point)

        assert T.autograd.gradcheck(fn, tensors), sample.label
        assert T.autograd.gradgradcheck(fn, tensors), sample.label


@each(differentiable())
def test_raw_rule_is_registered_rule(case: OpCase) -> None:
    """A rule has two callers, arrays (first order) and tensors (create_graph): they compute the same."""
    for sample in samples(case, "float64", in_turn=True):
        raw, *_ = derive.gradients(T, case, sample, create_graph=False)
        registered, *_ = derive.gradients(T, case, sample, create_graph=True)
        for r, t in zip(raw, registered, strict=True):
            assert (r is None) == (t is None), sample.label
            if r is not None:
                assert not r.requires_grad
                rtol, atol = (1e-13, 1e-14) if case.rounds else (1e-15, 1e-16)
                np.testing.assert_allclose(array(r), array(t), rtol, atol, err_msg=sample.label)


@pytest.mark.slow
@each([c for c in differentiable() if not c.elementwise and "float64" in c.dtypes])
def test_gradients_that_repeat_are_gradients(case: OpCase) -> None:
    """One number may arrive for a whole dimension, as behind a mean: what a rule makes of that is what it makes of a copy."""
    for sample in samples(case, "float64", layouts=False):
        tensors = sample.tensors(T, requires_grad=True)
        inputs = [t for t in tensors if t.requires_grad]
        outputs = [t for t in leaves(case.fn(T, *tensors)) if hasattr(t, "dtype") and t.requires_grad]
        rank = max([t.ndim for t in outputs], default=0)
        for repeated in chain(*[combinations(range(rank), n + 1) for n in range(rank)]):
            seeds = [derive.cotangent(T, t, i).detach() for i, t in enumerate(outputs)]
            seeds = [_repeated(t, repeated) for t in seeds]
            got, want = (
                T.autograd.grad(outputs, inputs, g, retain_graph=True, allow_unused=True)
                for g in (seeds, [t.contiguous() for t in seeds])
            )
            for one, other in zip(got, want, strict=True):
                if other is not None:
                    about = f"{sample.label}, repeated along {repeated}"
                    np.testing.assert_allclose(array(one), array(other), 1e-9, 1e-11, err_msg=about)


def _repeated(t: Any, dims: tuple[int, ...]) -> Any:
    first = t[tuple([slice(0, 1) if d in dims else slice(None) for d in range(t.ndim)])]
    return first.clone().expand(t.shape)


def test_every_pointwise_name_has_cases_in_every_dtype() -> None:
    """`python -m tests.audit` prints what else of each name is checked."""
    names = audit.pointwise_names()
    assert [name for name in names if not audit.cases_of(name)] == []
    assert {name for name in names if audit.checked(audit.cases_of(name))["never"] != "-"} == {"lcm"}
