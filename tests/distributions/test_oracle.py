"""Every distribution beside torch's: samples of a seed, gradients, densities, moments, shapes, and what is refused.

By hand, `pytest --whole tests/distributions` takes 300 sets of random parameters of each instead of two.
"""

from __future__ import annotations

import re
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import array, assert_same, outcome
from tests.distributions.families import FAMILIES, Family
from tests.support import T

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:Singular sample detected")]
BATCHES: list[tuple[int, ...]] = [(2,), (), (3, 2), (4,)]
EVERY = pytest.mark.parametrize("family", FAMILIES, ids=str)
MOMENTS = ["mean", "mode", "variance", "stddev", "entropy()", "perplexity()"]


def sets(family: Family, whole: bool) -> list[dict[str, Any]]:
    return [family.draw(k, BATCHES[k % len(BATCHES)]) for k in range(300 if whole else 2)]


def pair(torch: ModuleType, family: Family, arrays: dict[str, Any], grad: bool = False) -> list[Any]:
    found = []
    for M in (T, torch):
        tensors = family.tensors(M, arrays, grad)
        found.append((M, tensors, family.make(M, tensors)))
    return found


def same(ours: Any, theirs: Any, label: str, tol: float = 1.0, better: tuple[str, ...] = ()) -> None:
    if isinstance(theirs, (list, tuple)) and len(theirs) == len(ours):
        for both in zip(ours, theirs):
            same(*both, label, tol, better)
        return
    if isinstance(theirs, str) and isinstance(ours, str):
        ours, theirs = (rounded(text.replace("nbgrad.", "torch.")) for text in (ours, theirs))
    if not (isinstance(theirs, str) and theirs.startswith(better or ("nothing",))):
        assert_same(ours, theirs, label, tol)


def loose(family: Family, tol: float) -> float:
    return tol if family.dtype == "float64" else 50 * family.tol


def rounded(text: str) -> str:
    """Numbers to what all formulas agree about."""
    return re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.5f}", text)


def moved(M: ModuleType, tensors: dict[str, Any], result: Any, weights: Any) -> list[Any]:
    """The gradients of a weighted sum of the result by all parameters that it has some by."""
    if not getattr(result, "requires_grad", False):
        return ["none"]
    total = (result * M.tensor(weights)).sum()

    def by(t: Any) -> Any:
        (slope,) = M.autograd.grad(total, t, retain_graph=True, allow_unused=True)
        return 0.0 if slope is None else slope

    return [outcome(partial(by, t)) for t in tensors.values() if t.requires_grad]


def ask(text: str, **scope: Any) -> Any:
    """What an expression gives, or how it is refused."""
    return outcome(lambda: eval(text, scope))


def leaf(M: ModuleType, values: Any) -> Any:
    t = M.tensor(values)
    return t.requires_grad_() if t.dtype.is_floating_point else t


def weights(shape: Any) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).normal(size=tuple(shape))


@EVERY
def test_samples_of_a_seed(torch: ModuleType, family: Family, whole: bool) -> None:
    """With their gradients, and as much of the stream taken."""
    for arrays in sets(family, whole):
        drawn, slopes, after = [], [], []
        for M, tensors, d in pair(torch, family, arrays, grad=True):
            M.manual_seed(11)
            drawn.append([d.sample(), d.sample((5,)), d.sample(M.Size((2, 3)))])
            if d.has_rsample:
                drawn[-1] += [d.rsample().detach(), (again := d.rsample((4,))).detach()]
                slopes.append(moved(M, tensors, again, weights(again.shape)))
            after.append(M.rand(2))
        same(*drawn, f"{family} of {arrays}", loose(family, 100))
        if slopes:
            same(*slopes, f"{family}: gradients of {arrays}", loose(family, 1e4), family.better)
        same(*after, f"{family}: what follows")


@EVERY
def test_densities(torch: ModuleType, family: Family, whole: bool) -> None:
    """log_prob, cdf and icdf at what is drawn, with their gradients by parameters and by the value."""
    for arrays in sets(family, whole):
        torch.manual_seed(1)
        values = array(pair(torch, family, arrays)[1][2].sample((4,)))
        chances = np.random.default_rng(0).uniform(0.02, 0.98, values.shape).astype(family.dtype)
        found = []
        for M, tensors, d in pair(torch, family, arrays, grad=True):
            rows: list[Any] = []
            for asked, at in (("log_prob", values), ("cdf", values), ("icdf", chances)):
                value = leaf(M, at)
                result = ask(f"d.{asked}(value)", d=d, value=value)
                rows.append(result if isinstance(result, str) else result.detach())
                if not isinstance(result, str):
                    rows.append(moved(M, {**tensors, "value": value}, result, weights(result.shape)))
            found.append(rows)
        same(*found, f"{family} of {arrays} at {values}", loose(family, 1e3))


@EVERY
def test_moments(torch: ModuleType, family: Family, whole: bool) -> None:
    """And what else it says of itself."""
    for arrays in sets(family, whole):
        found = []
        for M, tensors, d in pair(torch, family, arrays, grad=True):
            rows: list[Any] = []
            for asked in MOMENTS:
                result = ask(f"d.{asked}", d=d)
                rows.append(result if isinstance(result, str) else result.detach())
                if not isinstance(result, str):
                    rows.append(moved(M, tensors, result, weights(result.shape)))
            rows += [tuple(d.batch_shape), tuple(d.event_shape), d.has_rsample, d.has_enumerate_support]
            rows += [repr(d), ask("repr(d.support)", d=d)]
            rows += [ask(f"d.enumerate_support({expand})", d=d) for expand in (True, False)]
            found.append(rows)
        same(*found, f"{family} of {arrays}", loose(family, 1e4))


@EVERY
def test_expanded(torch: ModuleType, family: Family) -> None:
    """`expand` gives what the same parameters in the larger shape give."""
    for batch in ((2,), ()):
        arrays, found = family.draw(3, batch), []
        for M, _, d in pair(torch, family, arrays):
            wide = d.expand((3, *batch))
            M.manual_seed(4)
            value = wide.sample((2,))
            rows = [value, tuple(wide.batch_shape), tuple(wide.event_shape)]
            rows += [ask(f"d.{asked}", d=wide) for asked in MOMENTS]
            rows += [ask("d.log_prob(value)", d=wide, value=value), repr(wide), wide._validate_args]
            found.append([*rows, repr(wide.expand(M.Size((5, 3, *batch))))])
        same(*found, f"{family}", loose(family, 1e3), family.better)


@EVERY
def test_float32(torch: ModuleType, family: Family) -> None:
    arrays, found = family.draw(5, (3,), "float32"), []
    for M, _, d in pair(torch, family, arrays):
        M.manual_seed(2)
        value = d.sample((20,))
        found.append([value, ask("d.log_prob(value)", d=d, value=value), ask("d.entropy()", d=d)])
    same(*found, f"{family}", 50 * family.tol)


@EVERY
def test_refusals(torch: ModuleType, family: Family) -> None:
    """Parameters and values that are out of bounds, and shapes that do not fit."""
    arrays, found = family.draw(6, (2,)), []
    for M in (T, torch):
        kind = getattr(M, family.dtype)
        rows = []
        for name, values in arrays.items():
            for wrong in (-1.5, np.nan, 1e9):
                spoilt = values.copy()
                spoilt.reshape(-1)[0] = wrong
                made = outcome(partial(family.make, M, family.tensors(M, {**arrays, name: spoilt})))
                rows.append(made if isinstance(made, str) else "made")
        d = family.make(M, family.tensors(M, arrays))
        event = tuple(d.event_shape)
        values = [M.full((2, *event), value, dtype=kind) for value in (-2.0, np.nan, 0.3, 1e9)]
        values += [M.zeros(shape, dtype=kind) for shape in ((3, *event), (2, *event, 7))]
        found.append([*rows, *[ask("d.log_prob(value)", d=d, value=value) for value in [*values, 0.5]]])
    same(*found, f"{family}", loose(family, 1e3))
