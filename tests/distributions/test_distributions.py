"""What is true of every distribution, asked without torch: chances are integrals of densities, samples lie and move as they say."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from tests.compare import array
from tests.distributions.families import FAMILIES, Family
from tests.support import T

pytestmark = pytest.mark.filterwarnings("ignore:Singular sample detected")
D = T.distributions
BY_NAME = {str(family): family for family in FAMILIES}
# The families of the table that have a `cdf`, an inverse of it, a list of values, moments, samples that move as their mean does.
INVERTED = (
    "Cauchy ContinuousBernoulli ContinuousBernoulli-logits Exponential GeneralizedPareto Gumbel HalfCauchy HalfNormal Kumaraswamy "
    "Laplace LogNormal Normal Pareto TransformedDistribution Uniform Weibull"
)
CUMULATED = f"{INVERTED} Chi2 Gamma InverseGamma MixtureSameFamily"
LISTED = (
    "Bernoulli Bernoulli-logits Binomial Binomial-logits Categorical Categorical-logits OneHotCategorical OneHotCategorical-logits "
    "OneHotCategoricalStraightThrough"
)
MOVED = (
    "Beta Chi2 ContinuousBernoulli ContinuousBernoulli-logits Dirichlet Exponential Gamma Gumbel HalfNormal Independent Kumaraswamy "
    "Laplace LowRankMultivariateNormal MultivariateNormal-tril Normal Uniform Weibull Wishart-tril"
)
WITH_MOMENTS = (
    f"{MOVED} Bernoulli Bernoulli-logits Binomial Binomial-logits Geometric Geometric-logits MixtureSameFamily "
    "MixtureSameFamily-vectors Multinomial Multinomial-logits MultivariateNormal MultivariateNormal-precision NegativeBinomial "
    "NegativeBinomial-logits OneHotCategorical OneHotCategorical-logits Poisson VonMises Wishart Wishart-precision"
)


def of(names: str) -> Any:
    return pytest.mark.parametrize("family", [BY_NAME[name] for name in names.split()], ids=str)


def made(family: Family, batch: tuple[int, ...] = (), seed: int = 2) -> Any:
    return family.make(T, family.tensors(T, family.draw(seed, batch, "float64")))


def numbers(d: Any) -> Any:
    """Where a distribution of numbers has most of its chance, finely."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = np.sort(array(d.sample((4000,))))
    low, high = drawn[400], drawn[-400]  # without the ends, where a density may be infinite
    return T.linspace(float(low), float(high), 4001, dtype=T.float64)


@of(CUMULATED)
def test_chances_are_integrals_of_densities(family: Family) -> None:
    d = made(family)
    x = numbers(d)
    chances = d.cdf(x)
    between = array(d.log_prob((x[1:] + x[:-1]) / 2).exp()) * float(x[1] - x[0])
    np.testing.assert_allclose(np.diff(array(chances)), between, rtol=0.05, atol=1e-4)
    assert np.sum(between) == pytest.approx(float(chances[-1] - chances[0]), abs=2e-3)


@of(INVERTED)
def test_the_place_of_a_chance_has_that_chance(family: Family) -> None:
    d = made(family, (3,))
    p = T.linspace(0.02, 0.98, 20, dtype=T.float64).reshape(-1, 1).expand(20, 3)
    np.testing.assert_allclose(array(d.cdf(d.icdf(p))), array(p), rtol=1e-6)


@of(LISTED)
def test_the_chances_of_all_values_add_up(family: Family) -> None:
    d = made(family, (3,), seed=5) if "total_count" not in family.parameters else made(family)
    chances = d.log_prob(d.enumerate_support()).exp()
    np.testing.assert_allclose(array(chances.sum(0)), 1.0)
    if d.event_shape == () and family.name != "Categorical":
        np.testing.assert_allclose(array((chances * d.enumerate_support()).sum(0)), array(d.mean))
        entropy = -(chances * chances.clamp(min=1e-300).log()).sum(0)
        np.testing.assert_allclose(array(entropy), array(d.entropy()))


@of(WITH_MOMENTS)
def test_samples_have_their_moments(family: Family) -> None:
    """Within six deviations of a mean; of the variance roughly."""
    n = 20000
    d = made(family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = array(d.sample((n,)))
    mean, variance = array(d.mean), array(d.variance)
    if family.name == "VonMises":  # of angles: the variance is one of directions
        assert 1 - np.cos(drawn - mean).mean() == pytest.approx(float(variance), abs=0.02)
        return
    assert (np.abs(drawn.mean(0) - mean) <= 6 * np.sqrt(variance / n) + 1e-9).all()
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.25, atol=1e-9)


@of(MOVED)
def test_gradients_of_samples_are_those_of_expectations(family: Family) -> None:
    """The mean of many samples moves with each parameter as the mean does."""
    tensors = family.tensors(T, family.draw(2, (), "float64"), requires_grad=True)
    d = family.make(T, tensors)
    drawn = d.rsample((20000,))
    given = list(tensors.values())
    for place in range(min(d.mean.numel(), 3)):
        found = T.autograd.grad(drawn.mean(0).reshape(-1)[place], given, retain_graph=True, allow_unused=True)
        want = T.autograd.grad(d.mean.reshape(-1)[place], given, retain_graph=True, allow_unused=True)
        for ours, exact in zip(found, want, strict=True):
            ours, exact = (np.zeros(()) if g is None else array(g) for g in (ours, exact))
            np.testing.assert_allclose(ours - exact, 0, atol=0.05 * (1 + np.abs(exact).max()))


def test_wishart_matrices_move_with_their_factor() -> None:
    """By differences: of one seed they are a function of it. PyTorch's raise there."""
    factor = T.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=T.float64)

    def total(factor: Any) -> Any:
        T.manual_seed(3)
        return D.Wishart(T.tensor(4.0, dtype=T.float64), scale_tril=factor).rsample((3,)).sum()

    leaf = factor.clone().requires_grad_()
    (slope,) = T.autograd.grad(total(leaf), leaf)
    for place in ((0, 0), (1, 0), (1, 1)):
        step = T.zeros(2, 2, dtype=T.float64)
        step[place] = 1e-6
        difference = (total(factor + step) - total(factor - step)) / 2e-6
        assert float(slope[place]) == pytest.approx(float(difference), rel=1e-5)


def test_mixtures_choose_as_often_as_they_say() -> None:
    weights, places = T.tensor([0.2, 0.3, 0.5]), T.tensor([-100.0, 0.0, 100.0])
    d = D.MixtureSameFamily(D.Categorical(weights), D.Normal(places, T.ones(3)))
    drawn = d.sample((20000,))
    shares = [float((drawn < -50).double().mean()), float((drawn.abs() < 50).double().mean())]
    assert shares == pytest.approx([0.2, 0.3], abs=0.02)
    assert float(d.cdf(T.tensor(50.0))) == pytest.approx(0.5)


def test_correlations_are_correlations() -> None:
    factor = D.LKJCholesky(4, T.tensor([0.5, 5.0])).sample((200,))
    whole = array(factor @ factor.mT)
    np.testing.assert_allclose(np.diagonal(whole, axis1=-2, axis2=-1), 1, atol=1e-5)
    spread = np.abs(whole - np.eye(4)).mean((0, 2, 3))
    assert spread[0] > spread[1]  # the larger the concentration, the nearer the identity


def test_values_are_judged_where_it_is_asked_for() -> None:
    before = D.Distribution._validate_args
    try:
        D.Distribution.set_default_validate_args(False)
        D.Normal(0.0, -1.0)
        with pytest.raises(ValueError, match="Expected parameter scale"):
            D.Normal(0.0, -1.0, validate_args=True)
        D.Distribution.set_default_validate_args(True)
        with pytest.raises(ValueError, match="Expected parameter scale"):
            D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(before)


def test_gradients_pass_through_what_is_lazy() -> None:
    logits = T.tensor([0.5, -1.0], requires_grad=True)
    with T.no_grad():
        d = D.Bernoulli(logits=logits)
        d.probs  # noqa: B018  is computed here, with gradients
    d.probs.sum().backward()
    np.testing.assert_allclose(
        array(logits.grad), array(logits.sigmoid() * (1 - logits.sigmoid())), rtol=1e-6
    )


def test_examples_at_once_are_judged_together() -> None:
    means = T.tensor([0.5, -1.0])
    found = T.func.vmap(lambda mean: D.Normal(mean, 1.0).log_prob(T.tensor(0.0)))(means)
    np.testing.assert_array_equal(array(found), array(D.Normal(means, 1.0).log_prob(T.tensor(0.0))))
    with pytest.raises(
        RuntimeError, match=r"vmap: It looks like you're calling \.item"
    ):  # to show what is wrong
        T.func.vmap(lambda mean: D.Normal(0.0, mean))(means)
    slope = T.func.hessian(lambda a: D.Gamma(a, 1.0).log_prob(T.tensor(1.0)))(T.tensor(2.0))
    assert slope.item() == pytest.approx(-T.polygamma(1, T.tensor(2.0)).item())


def test_a_policy_learns_by_its_log_chances() -> None:
    """REINFORCE: what is rewarded becomes likely."""
    T.manual_seed(0)
    logits = T.zeros(4, requires_grad=True)
    optimizer = T.optim.SGD([logits], lr=0.5)
    for _ in range(100):
        d = D.Categorical(logits=logits)
        actions = d.sample((32,))
        optimizer.zero_grad()
        (-d.log_prob(actions) * (actions == 2)).mean().backward()
        optimizer.step()
    assert D.Categorical(logits=logits).probs[2].item() > 0.9


def test_a_posterior_is_found_by_gradients_of_samples() -> None:
    """The evidence bound of a gamma rate: the implicit gradients lead to the exact posterior."""
    T.manual_seed(0)
    events = T.tensor([3.0, 5.0, 4.0, 6.0])
    prior = D.Gamma(2.0, 1.0)
    raw = T.tensor([1.0, 0.0], requires_grad=True)
    optimizer = T.optim.Adam([raw], lr=0.05)
    for _ in range(400):
        guess = D.Gamma(*raw.exp())
        rate = guess.rsample((64,))
        bound = D.Poisson(rate.unsqueeze(-1)).log_prob(events).sum(-1).mean() - D.kl_divergence(guess, prior)
        optimizer.zero_grad()
        (-bound).backward()
        optimizer.step()
    guess, exact = D.Gamma(*raw.exp()), D.Gamma(2 + events.sum(), 1.0 + len(events))
    assert guess.mean.item() == pytest.approx(exact.mean.item(), rel=0.03)
    assert D.kl_divergence(guess, exact).item() < 0.02


PROGRAM = """
import torch
from torch.distributions import Normal, constraints, kl_divergence
from torch.distributions.normal import Normal as Same
from torch.distributions.utils import broadcast_all, lazy_property, _standard_normal
from torch.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv, _standard_normal
from torch.distributions.kl import register_kl
import torch.distributions.transforms as transforms, torch.distributions.studentT
assert Normal is Same is torch.distributions.normal.Normal
assert any(isinstance(v, type) and issubclass(v, torch.distributions.Distribution) for v in vars(torch.distributions).values())
print(Normal(0.0, 1.0), torch.distributions.studentT.StudentT, kl_divergence(Normal(0., 1.), Normal(1., 1.)).item())
"""


@pytest.mark.skipif(T.__name__ != "nbgrad", reason="of running PyTorch's programs")
def test_programs_find_the_modules(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "nbgrad", "run", str(script)], capture_output=True, text=True
    )
    shown = "Normal(loc: 0.0, scale: 1.0) <class 'torch.distributions.studentT.StudentT'> 0.5\n"
    assert (done.stdout, done.returncode) == (shown, 0), done.stderr
