"""Divergences: of every pair that PyTorch has, beside torch's; and against what they are, an integral, without it."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import array, outcome
from tests.distributions.families import FAMILIES, Family
from tests.distributions.test_oracle import BATCHES, moved, same, weights
from tests.support import T

BY_NAME = {str(family): family for family in FAMILIES}
D = T.distributions
MADE = ("ExponentialFamily", "Independent", "TransformedDistribution")  # of others: below
PAIRS = sorted({(p.__name__, q.__name__) for p, q in D.kl._KL_REGISTRY if p.__name__ not in MADE})


def drawn(family: Family, seed: int, batch: tuple[int, ...]) -> dict[str, Any]:
    arrays = family.draw(seed, batch, "float64")
    if family.name == "Uniform" and seed % 3 == 1:  # also where it is within what others are bounded to
        return {"low": np.full(batch, 0.2), "high": np.full(batch, 0.7)}
    return arrays


@pytest.mark.oracle
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_every_pair(torch: ModuleType, first: str, second: str, whole: bool) -> None:
    """With gradients by the parameters of both."""
    for k in range(300 if whole else 4):
        found = []
        batch = BATCHES[k % len(BATCHES)]
        for M in (T, torch):
            p, q = BY_NAME[first], BY_NAME[second]
            ps = p.tensors(M, drawn(p, k, batch), True)
            qs = q.tensors(M, drawn(q, k + (k % 4 > 0), batch), True)
            result = M.distributions.kl_divergence(p.make(M, ps), q.make(M, qs))
            both = {**{f"p{name}": t for name, t in ps.items()}, **{f"q{name}": t for name, t in qs.items()}}
            finite = np.isfinite(array(result))  # else weights times infinity
            found.append(
                [result.detach(), moved(M, both, result, np.where(finite, weights(result.shape), 0))]
            )
        same([found[0][0]], [found[1][0]], f"{first}, {second}, set {k}", 1e3)
        if np.isfinite(array(found[1][0])).all():
            # next to 1/2 what is left of a continuous Bernoulli's terms is the rounding of both
            tol = 1e6 if "ContinuousBernoulli" in (first, second) else 1e4
            same(*found, f"{first}, {second}, set {k}: gradients", tol)


@pytest.mark.oracle
def test_all_pairs_are_there(torch: ModuleType) -> None:
    theirs = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    assert {(p.__name__, q.__name__) for p, q in D.kl._KL_REGISTRY} == theirs


OF_OTHERS = (
    "D.kl_divergence(D.Independent(D.Normal(x, y), 1), D.Independent(D.Normal(y, x.exp()), 1))",
    "D.kl_divergence(D.Independent(D.Normal(x, y), 1), D.Normal(y, x.exp()))",
    "D.kl_divergence(D.Independent(D.Normal(x, y), 1), D.Independent(D.Normal(x, y), 0))",
    "D.kl_divergence(D.LogNormal(x, y), D.LogNormal(y, x.exp()))",
    "D.kl_divergence(D.LogNormal(x, y), D.HalfNormal(y))",
    "D.kl_divergence(D.Normal(x, y), D.Poisson(y))",
    "D.kl_divergence(D.VonMises(x, y), D.VonMises(x, y))",
    "D.kl_divergence(D.Chi2(y), D.Chi2(y + 1))",
    "D.kl_divergence(D.Chi2(y), D.Gamma(y, y))",
    "D.kl_divergence(D.Binomial(3, y / 9), D.Binomial(4, y / 9))",
    "D.kl_divergence(D.Binomial(4, y / 9), D.Binomial(3, y / 9))",
    "D.kl_divergence(D.Bernoulli(y.round().clamp(0, 1)), D.Bernoulli(y / 9))",
    "D.kl_divergence(D.Bernoulli(y / 9), D.Bernoulli(y.round().clamp(0, 1)))",
    "D.kl_divergence(D.Categorical(M.tensor([0.0, 0.5, 0.5])), D.Categorical(M.tensor([0.5, 0.5, 0.0])))",
    "D.kl_divergence(D.Categorical(M.tensor([0.0, 0.5, 0.5])), D.Categorical(M.tensor([0.0, 0.1, 0.9])))",
    "D.kl.kl_divergence(D.OneHotCategoricalStraightThrough(y), D.OneHotCategorical(y + 1))",
    "D.kl._kl_expfamily_expfamily(D.Normal(x, y), D.Normal(y, x.exp()))",
    "D.kl._kl_expfamily_expfamily(D.Gamma(y, y), D.Gamma(y + 1, x.exp()))",
    "D.kl._kl_expfamily_expfamily(D.Dirichlet(y), D.Dirichlet(y + 1))",
    "D.kl._kl_expfamily_expfamily(D.Normal(x, y), D.Gamma(y, y))",
    "D.kl_divergence(D.MultivariateNormal(M.zeros(2), M.eye(2)), D.MultivariateNormal(M.zeros(3), M.eye(3)))",
    "D.kl_divergence(D.Normal(x[:1], y[:, None]), D.Normal(y, y))",
    "D.register_kl(3, D.Normal)",
)


@pytest.mark.oracle
@pytest.mark.parametrize("text", OF_OTHERS)
def test_of_what_is_made_of_others(torch: ModuleType, text: str) -> None:
    found = []
    for M in (T, torch):
        x = M.tensor([0.3, -1.2, 0.8], dtype=M.float64, requires_grad=True)
        y = M.tensor([0.5, 2.0, 1.1], dtype=M.float64, requires_grad=True)
        result = outcome(lambda: eval(text, {"M": M, "D": M.distributions, "x": x, "y": y}))  # noqa: B023
        found.append(
            [
                result
                if isinstance(result, str)
                else [result.detach(), moved(M, {"x": x, "y": y}, result, weights(result.shape))]
            ]
        )
    if "register_kl" in text:
        assert all(text.startswith("TypeError") for (text,) in found)
    else:
        same(*found, text, 1e4)


def test_the_nearest_classes_are_taken() -> None:
    class Wide(D.Normal):
        pass

    class Near(Wide):
        pass

    before = dict(D.kl._KL_REGISTRY)
    try:
        D.register_kl(Wide, D.Normal)(lambda p, q: "by p")
        D.register_kl(D.Normal, Wide)(lambda p, q: "by q")
        assert D.kl_divergence(Near(0.0, 1.0), D.Normal(0.0, 1.0)) == "by p"
        assert D.kl_divergence(D.Normal(0.0, 1.0), Near(0.0, 1.0)) == "by q"
        with pytest.warns(
            RuntimeWarning, match=r"Ambiguous kl_divergence\(Near, Near\). Please register_kl\(Wide, Wide\)"
        ):
            assert D.kl_divergence(Near(0.0, 1.0), Near(0.0, 1.0)) == "by p"
    finally:
        D.kl._KL_REGISTRY.clear()
        D.kl._KL_REGISTRY.update(before)
        D.kl._KL_MEMOIZE.clear()


NUMBERS = (
    "Beta",
    "ContinuousBernoulli",
    "Exponential",
    "Gamma",
    "Gumbel",
    "Laplace",
    "Normal",
    "Pareto",
    "Uniform",
    "Cauchy",
    "HalfNormal",
)


@pytest.mark.parametrize(("first", "second"), [p for p in PAIRS if {*p} <= {*NUMBERS}])
def test_it_is_the_integral(first: str, second: str) -> None:
    """`E_p[log p - log q]` at the numbers that stand at equally spaced chances; infinite where q's density is 0 at one of them."""
    p, q = (
        BY_NAME[name].make(T, BY_NAME[name].tensors(T, drawn(BY_NAME[name], k, ())))
        for k, name in ((4, first), (7, second))
    )
    if first == "Pareto":  # whose tail is long
        p = D.Pareto(p.scale, p.alpha + 4)
    n = 20001
    chances = (T.arange(n, dtype=T.float64) + 0.5) / n
    if first in ("Beta", "Gamma"):
        x = T.linspace(1e-9, 1 - 1e-9 if first == "Beta" else 60, n, dtype=T.float64)
        share = p.log_prob(x).exp() * (x[1] - x[0])
    else:
        x, share = p.icdf(chances), T.full((n,), 1 / n, dtype=T.float64)
    q._validate_args = False
    away = ~q.support.check(x)
    if bool(away.any()):
        assert math.isinf(D.kl_divergence(p, q).item())
        return
    expected = (share * (p.log_prob(x) - q.log_prob(x))).sum().item()
    assert D.kl_divergence(p, q).item() == pytest.approx(expected, rel=0.03, abs=0.02)
