"""The divergence of Kullback and Leibler between pairs of distributions: `E_p[log p(x) - log q(x)]`.

Pairs of different kinds are found from three things, each written once: p's entropy, the expectations under p of what q's density is
made of (numbers, their logarithms, their exponentials), and q's expected log-density in terms of those. Pairs of a kind have formulas
of their own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from itertools import product
from math import inf
from typing import Any

from nbgrad import linalg
from nbgrad.autograd._run import grad
from nbgrad.core.tensor import Tensor
from nbgrad.distributions._choices import Categorical, OneHotCategorical
from nbgrad.distributions._combined import Independent, TransformedDistribution
from nbgrad.distributions._gammas import Beta, Dirichlet, Gamma
from nbgrad.distributions._lines import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    Normal,
    Pareto,
    Uniform,
)
from nbgrad.distributions._matrices import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    _batch_lowrank_logdet,
    _batch_lowrank_mahalanobis,
    _batch_mahalanobis,
    _half_log_det,
    _inner,
)
from nbgrad.distributions._trials import Bernoulli, Binomial, ContinuousBernoulli, Geometric, Poisson
from nbgrad.distributions.distribution import Distribution, ExponentialFamily
from nbgrad.distributions.utils import _sum_rightmost, euler_constant
from nbgrad.nn import functional as F
from nbgrad.ops.make.filled import full_like
from nbgrad.ops.pointwise.choices import where

Pair = tuple[type, type]
Formula = Callable[[Any, Any], Any]
_KL_REGISTRY: dict[Pair, Formula] = {}
_KL_MEMOIZE: dict[Pair, Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """A decorator that makes `formula(p, q)` the divergence of these two classes and of their subclasses, if none is nearer to those.

    >>> D = torch.distributions
    >>> class Fixed(D.Normal):
    ...     pass
    >>> @D.register_kl(Fixed, Fixed)
    ... def nothing(p, q): return torch.zeros(())
    >>> D.kl_divergence(Fixed(0.0, 1.0), Fixed(1.0, 1.0))
    tensor(0.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(fun: Formula) -> Formula:
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun

    return decorator


def _nearer(one: Pair, other: Pair) -> bool:
    """Whether it is more special: in its first class, and if that is the same in the second one."""
    if one == other or not issubclass(one[0], other[0]):
        return False
    return one[0] is not other[0] or issubclass(one[1], other[1])


def _nearest(pairs: Iterable[Pair]) -> Pair:
    found, *rest = pairs
    for pair in rest:
        found = pair if _nearer(pair, found) else found
    return found


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    by_p = _nearest(matches)
    by_q = _nearest([(q, p) for p, q in matches])[::-1]
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=2,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The divergence of p from q, one number for each of the batch: 0 where both are the same, infinite where p has values that q has not.

    >>> D = torch.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    found = _KL_MEMOIZE.get(pair)
    if found is None:
        found = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    if found is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    return found(p, q)


# ---------------------------------------------------------------- of different kinds

# Expectations under p: of x, of log(x), and the logarithm of that of exp((loc - x) / scale)


def _mean_of_log(p: Any) -> Tensor:
    return _of_kind(_MEANS_OF_LOG, p)(p)


def _of_kind(known: dict[type, Any], p: Any) -> Any:
    return next(found for kind, found in known.items() if isinstance(p, kind))


def _x_log_x(x: Tensor) -> Tensor:
    return x.xlogy(x)


def _log_over(low: Tensor, high: Tensor) -> Tensor:
    """The mean of the logarithms of all numbers between two."""
    return (_x_log_x(high) - _x_log_x(low)) / (high - low) - 1


_MEANS_OF_LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _log_over(p.low, p.high),
}
_LOG_MEANS_OF_EXP: dict[type, Callable[[Any, Any, Any], Tensor]] = {
    Exponential: lambda p, loc, s: loc / s + (p.rate * s).log() - (p.rate * s).log1p(),
    Gamma: lambda p, loc, s: loc / s - p.concentration * (p.rate * s).reciprocal().log1p(),
    Gumbel: lambda p, loc, s: (loc - p.loc) / s + (1 + p.scale / s).lgamma(),
    Normal: lambda p, loc, s: (loc - p.loc) / s + 0.5 * (p.scale / s).pow(2),
}


def _mean_of_exp(p: Any, loc: Tensor, scale: Tensor) -> Tensor:
    if isinstance(p, Uniform):
        ends = ((loc - p.low) / scale).exp() - ((loc - p.high) / scale).exp()
        return scale / (p.high - p.low) * ends
    return _of_kind(_LOG_MEANS_OF_EXP, p)(p, loc, scale).exp()


# E_p[log q(x)], by q's kind


def _of_continuous_bernoulli(p: Any, q: Any) -> Any:
    return p.mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()


def _of_exponential(p: Any, q: Any) -> Any:
    return q.rate.log() - q.rate * p.mean


def _of_gamma(p: Any, q: Any) -> Any:
    a, rate = q.concentration, q.rate
    return a * rate.log() - a.lgamma() + (a - 1) * _mean_of_log(p) - rate * p.mean


def _of_gumbel(p: Any, q: Any) -> Any:
    return (q.loc - p.mean) / q.scale - q.scale.log() - _mean_of_exp(p, q.loc, q.scale)


def _of_normal(p: Any, q: Any) -> Any:
    squares = p.variance + (p.mean - q.loc).pow(2)
    return -0.5 * squares / q.scale.pow(2) - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _of_uniform(p: Any, q: Any) -> Any:
    return -(q.high - q.low).log()


def _of_beta(p: Uniform, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    rest = _log_over(1 - p.high, 1 - p.low)
    return (a - 1) * _mean_of_log(p) + (b - 1) * rest + (a + b).lgamma() - a.lgamma() - b.lgamma()


def _of_pareto(p: Uniform, q: Any) -> Any:
    return (q.alpha * q.scale.pow(q.alpha)).log() - (q.alpha + 1) * _mean_of_log(p)


Outside = Callable[[Any, Any], Tensor]


def _register(kind: type, other: type, expected: Formula, outside: Outside | None = None) -> None:
    """`outside(p, q)` says where the divergence is infinite, or there is no moment."""

    @register_kl(kind, other)
    def divergence(p: Any, q: Any) -> Any:
        result = -p.entropy() - expected(p, q)
        return result if outside is None else where(outside(p, q), inf, result)


def _below_zero(p: Any, q: Any) -> Tensor:
    return p.low < 0


def _no_mean(p: Any, q: Any) -> Tensor:
    return p.alpha <= 1


_register(Beta, ContinuousBernoulli, _of_continuous_bernoulli)
_register(Beta, Exponential, _of_exponential)
_register(Beta, Gamma, _of_gamma)
_register(Beta, Normal, _of_normal)
_register(Beta, Uniform, _of_uniform, lambda p, q: (q.low > 0) | (q.high < 1))
_register(ContinuousBernoulli, Exponential, _of_exponential)
_register(ContinuousBernoulli, Normal, _of_normal)
# where the bounds are 0 and 1 themselves, infinite in PyTorch
_register(ContinuousBernoulli, Uniform, _of_uniform, lambda p, q: (q.low >= 0) | (q.high <= 1))
_register(Exponential, Gamma, _of_gamma)
_register(Exponential, Gumbel, _of_gumbel)
_register(Exponential, Normal, _of_normal)
_register(Gamma, Exponential, _of_exponential)
_register(Gamma, Gumbel, _of_gumbel)
_register(Gamma, Normal, _of_normal)
_register(Gumbel, Gumbel, _of_gumbel)
_register(Gumbel, Normal, _of_normal)
_register(Laplace, Normal, _of_normal)
_register(Normal, Gumbel, _of_gumbel)
_register(Pareto, Exponential, _of_exponential, _no_mean)
_register(Pareto, Gamma, _of_gamma, _no_mean)
_register(Pareto, Normal, _of_normal, lambda p, q: p.alpha <= 2)
_register(Uniform, Beta, _of_beta, lambda p, q: (p.high > 1) | (p.low < 0))
_register(Uniform, ContinuousBernoulli, _of_continuous_bernoulli, lambda p, q: (p.high >= 1) | (p.low <= 0))
_register(Uniform, Exponential, _of_exponential, _below_zero)
_register(Uniform, Gamma, _of_gamma, _below_zero)
_register(Uniform, Gumbel, _of_gumbel)
_register(Uniform, Normal, _of_normal)
_register(Uniform, Pareto, _of_pareto, lambda p, q: p.low < q.scale)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Any, q: Any) -> Any:
    off = p.loc - q.loc
    z = off / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.pow(2)).exp()
    distance = distance + off * (math.sqrt(0.5) * z).erf()
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


def _infinite(kind: type, parameter: str, *others: type) -> None:
    """p has values that these have not."""
    for other in others:
        register_kl(kind, other)(lambda p, q: full_like(getattr(p, parameter), inf))


_BOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
_infinite(Beta, "concentration1", Pareto)
_infinite(ContinuousBernoulli, "probs", Pareto)
_infinite(Exponential, "rate", *_BOUNDED)
_infinite(Gamma, "concentration", *_BOUNDED)
for _kind in (Gumbel, Laplace, Normal):
    _infinite(_kind, "loc", *_BOUNDED, Exponential, Gamma)
_infinite(Pareto, "scale", Beta, ContinuousBernoulli, Uniform)
_infinite(Poisson, "rate", Bernoulli, Binomial)


# ---------------------------------------------------------------- of a kind: numbers


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Any, q: Any) -> Any:
    def outcome(p: Any, q: Any, slope: Any) -> Any:
        return where(p == 0, 0.0, where(q == 0, inf, p * slope))

    success = outcome(p.probs, q.probs, F.softplus(-q.logits) - F.softplus(-p.logits))
    return success + outcome(1 - p.probs, 1 - q.probs, F.softplus(q.logits) - F.softplus(p.logits))


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Any, q: Any) -> Any:
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, inf, p.total_count * each)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Any, q: Any) -> Any:
    apart = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return apart.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p: Any, q: Any) -> Any:
    norms = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    return p.mean * (p.logits - q.logits) + norms + (-p.probs).log1p() - (-q.probs).log1p()


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    scale = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return scale + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: Any, q: Any) -> Any:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, inf, result)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), inf, result)


# ---------------------------------------------------------------- of a kind: vectors


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Any, q: Any) -> Any:
    each = where(q.probs == 0, inf, p.probs * (p.logits - q.logits))
    return where(p.probs == 0, 0.0, each).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: Any, q: Any) -> Any:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    scale = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return scale + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


def _batch_trace_XXT(bmat: Tensor) -> Tensor:
    """The traces of products of matrices with their transposes."""
    return bmat.pow(2).sum((-2, -1))


def _solved(tril: Tensor, matrix: Tensor) -> Tensor:
    """`_batch_trace_XXT` of `tril^-1 matrix`, of batches that broadcast."""
    return _batch_trace_XXT(linalg.solve_triangular(tril, matrix, upper=False))


def _kl_of_normals(p: Any, q: Any) -> Any:
    """Half of: the logarithm of the determinants' ratio, the trace of q's precision times p's covariance, and the means' distance by q."""
    if p.event_shape != q.event_shape:
        low = " (Low Rank)" if type(p) is not type(q) else ""
        low = " Low Rank" if isinstance(p, LowRankMultivariateNormal) and not low else low
        # with the spaces that PyTorch has there
        raise ValueError(
            f"KL-divergence between two{low} Multivariate Normals with{' ' * 26}different event shapes cannot be computed"
        )
    trace, distance = _seen(q, _roots(p), q.loc - p.loc)
    return 0.5 * (_log_det(q) - _log_det(p) + trace + distance - p.event_shape[0])


def _log_det(of: Any) -> Tensor:
    if isinstance(of, LowRankMultivariateNormal):
        return _batch_lowrank_logdet(*of._low_rank, of._capacitance_tril)
    return 2 * _half_log_det(of._unbroadcasted_scale_tril)


def _roots(of: Any) -> list[Tensor]:
    """Matrices whose products with their transposes add up to the covariance; a diagonal one as its root alone."""
    if isinstance(of, LowRankMultivariateNormal):
        factor, diagonal = of._low_rank
        return [factor, diagonal.sqrt()]
    return [of._unbroadcasted_scale_tril]


def _seen(q: Any, roots: list[Tensor], off: Tensor) -> tuple[Any, Tensor]:
    """The trace of q's precision times the sum of products of the roots, and the squared length of `off` by it."""
    matrix, *diagonals = roots
    if not isinstance(q, LowRankMultivariateNormal):
        factor = q._unbroadcasted_scale_tril
        trace = _solved(factor, matrix)
        for root in diagonals:
            trace = trace + _solved(factor, root.diag_embed())
        return trace, _batch_mahalanobis(factor, off)
    factor, diagonal = q._low_rank
    # by Woodbury's identity: q's precision is that of its diagonal, less what its factor takes away
    taken = linalg.solve_triangular(q._capacitance_tril, _inner(factor, diagonal), upper=False)
    trace = _batch_trace_XXT(matrix * diagonal.rsqrt().unsqueeze(-1)) - _batch_trace_XXT(taken @ matrix)
    for root in diagonals:
        trace = trace + (root.pow(2) / diagonal).sum(-1) - _batch_trace_XXT(taken * root.unsqueeze(-2))
    return trace, _batch_lowrank_mahalanobis(factor, diagonal, off, q._capacitance_tril)


for _one, _other in product((MultivariateNormal, LowRankMultivariateNormal), repeat=2):
    register_kl(_one, _other)(_kl_of_normals)


# ---------------------------------------------------------------- of whatever is made of others


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: Any, q: Any) -> Any:
    """Bregman's divergence of the log-normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot"
            f"{' ' * 29}be computed using Bregman divergences"
        )
    own = [parameter.detach().requires_grad_() for parameter in p._natural_params]
    normalizer = p._log_normalizer(*own)
    slopes = grad(normalizer.sum(), own, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for a, b, slope in zip(own, q._natural_params, slopes):
        result = result - _sum_rightmost((b - a) * slope, len(q.event_shape))
    return result


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


__all__ = ["kl_divergence", "register_kl"]
