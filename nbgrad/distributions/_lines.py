"""Distributions of numbers that are functions of a uniform or a normal one: a standard form, moved and stretched, or its transforms."""

from __future__ import annotations

import math
from math import inf, nan
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.distributions import constraints
from nbgrad.distributions._combined import TransformedDistribution
from nbgrad.distributions.distribution import ExponentialFamily, Parametric, is_number, of_part
from nbgrad.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
)
from nbgrad.distributions.utils import _standard_normal, euler_constant
from nbgrad.memory.dtypes import finfo
from nbgrad.ops.make.data import as_tensor
from nbgrad.ops.make.drawn import rand
from nbgrad.ops.make.filled import full_like, ones_like, zeros_like
from nbgrad.ops.make.sampling import normal
from nbgrad.ops.pointwise.choices import where
from nbgrad.ops.views.shape import broadcast_to

_SCALE = {"scale": constraints.positive}
_LOC_SCALE = {"loc": constraints.real, **_SCALE}
_LOG_ROOT = math.log(math.sqrt(2 * math.pi))


# ---------------------------------------------------------------- moved and stretched


class _LocScale(Parametric):
    """`loc + scale * z`, of which a subclass says how z is distributed."""

    arg_constraints: Any = _LOC_SCALE
    support: Any = constraints.real
    has_rsample = True
    loc: Any
    scale: Any
    _standard_entropy: float

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(loc=loc, scale=scale), validate_args=validate_args)

    def _standard(self, shape: Any) -> Tensor:
        """Draws z."""
        raise NotImplementedError

    def _log_density(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _chance(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _quantile(self, p: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + self._standard(self._extended_shape(sample_shape)) * self.scale

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        return self._log_density((value - self.loc) / self.scale) - self.scale.log()

    def cdf(self, value: Any) -> Any:
        self._judge(value)
        return self._chance((value - self.loc) / self.scale)

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * self._quantile(value)

    def entropy(self) -> Any:
        return self._standard_entropy + self.scale.log()


class Normal(_LocScale, ExponentialFamily):
    """The normal distribution of the mean `loc` and the deviation `scale`.

    >>> normal = torch.distributions.Normal(0.0, 1.0)
    >>> normal.sample(), normal.log_prob(torch.tensor(0.0))
    (tensor(1.5410), tensor(-0.9189))
    """

    _mean_carrier_measure = 0
    _standard_entropy = 0.5 + _LOG_ROOT

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return normal(self.loc.detach().expand(shape), self.scale.detach().expand(shape))

    def _standard(self, shape: Any) -> Tensor:
        return _standard_normal(shape, self.loc.dtype, self.loc.device)

    def _log_density(self, z: Tensor) -> Tensor:
        return z**2 / -2 - _LOG_ROOT

    def _chance(self, z: Tensor) -> Tensor:
        return 0.5 * (1 + (z / math.sqrt(2)).erf())

    def _quantile(self, p: Tensor) -> Tensor:
        return (2 * p - 1).erfinv() * math.sqrt(2)

    @property
    def _natural_params(self) -> Any:
        precision = self.scale.pow(2).reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()


class Laplace(_LocScale):
    """Laplace's distribution: exponential on both sides of `loc`, with the mean distance `scale`.

    >>> torch.distributions.Laplace(0.0, 1.0).log_prob(torch.tensor([0.0, 2.0]))
    tensor([-0.6931, -2.6931])
    """

    _standard_entropy = 1 + math.log(2)

    @property
    def stddev(self) -> Any:
        return math.sqrt(2) * self.scale

    @property
    def variance(self) -> Any:
        return 2 * self.scale.pow(2)

    def _standard(self, shape: Any) -> Tensor:
        u = self._numbers(shape, self.loc).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return -(u.sign() * (-u.abs()).log1p())

    def _log_density(self, z: Tensor) -> Tensor:
        return -math.log(2) - z.abs()

    def _chance(self, z: Tensor) -> Tensor:
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def _quantile(self, p: Tensor) -> Tensor:
        off = p - 0.5
        return -off.sign() * (-2 * off.abs()).log1p()


class Cauchy(_LocScale):
    """Cauchy's distribution: half of the values are within `scale` of `loc`, and there is no mean.

    >>> torch.distributions.Cauchy(0.0, 1.0).cdf(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2500, 0.5000, 0.7500])
    """

    _standard_entropy = math.log(4 * math.pi)

    @property
    def mean(self) -> Any:
        return self._all(nan, self.loc)

    @property
    def variance(self) -> Any:
        return self._all(inf, self.loc)

    def _standard(self, shape: Any) -> Tensor:
        return self._numbers(shape, self.loc).cauchy_()

    def _log_density(self, z: Tensor) -> Tensor:
        return -math.log(math.pi) - (z**2).log1p()

    def _chance(self, z: Tensor) -> Tensor:
        return z.atan() / math.pi + 0.5

    def _quantile(self, p: Tensor) -> Tensor:
        return (math.pi * (p - 0.5)).tan()


# ---------------------------------------------------------------- of a uniform number


class Uniform(Parametric):
    """All numbers from `low` up to, but without, `high` alike.

    >>> torch.distributions.Uniform(0.0, 2.0).log_prob(torch.tensor(1.0))
    tensor(-0.6931)
    """

    has_rsample = True
    low: Any
    high: Any

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(low=low, high=high), validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return nan * self.high

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Any:
        self._judge(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(Parametric, ExponentialFamily):
    """How long one waits for what happens `rate` times in a unit of time.

    >>> torch.distributions.Exponential(2.0).cdf(torch.tensor(1.0))
    tensor(0.8647)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    rate: Any
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(rate=rate), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._numbers(self._extended_shape(sample_shape), self.rate).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        self._judge(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> Any:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:
        return -(-x).log()


class GeneralizedPareto(Parametric):
    """What is above a threshold `loc` in tails: exponential where `concentration` is 0, falling as a power where it is above, and bounded
    where it is below.

    >>> tail = torch.distributions.GeneralizedPareto(0.0, 1.0, 0.5)
    >>> tail.cdf(torch.tensor(2.0)), tail.mean
    (tensor(0.7500), tensor(2.))
    """

    arg_constraints = {**_LOC_SCALE, "concentration": constraints.real}
    has_rsample = True
    loc: Any
    scale: Any
    concentration: Any

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        shape = self._broadcast(loc=loc, scale=scale, concentration=concentration)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        ends = where(self.concentration < 0, self.loc - self.scale / self.concentration, inf)
        return constraints.interval(self.loc, ends)

    def _bent(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and what stands for it there, so that no gradient is NaN."""
        flat = self.concentration.isclose(zeros_like(self.concentration))
        return flat, where(flat, ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        z = (value - self.loc) / self.scale
        flat, bend = self._bent()
        power = 1 / bend + ones_like(z)
        return -self.scale.log() - where(flat, z, where(power == 0, power, power * (bend * z).log1p()))

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the chance of more."""
        self._judge(value)
        z = (value - self.loc) / self.scale
        flat, bend = self._bent()
        return where(flat, -z, -(bend * z).log1p() / bend)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        flat, bend = self._bent()
        above = (-value).log1p()
        curved = self.loc + self.scale / bend * (-bend * above).expm1()
        return where(flat, self.loc - self.scale * above, curved)

    def _where_below(self, limit: float, moment: Any) -> Tensor:
        """A moment that there is for concentrations below a limit."""
        there = self.concentration < limit
        return where(there, moment(where(there, self.concentration, limit / 2)), nan)

    @property
    def mean(self) -> Any:
        return self._where_below(1, lambda k: self.loc + self.scale / (1 - k))

    @property
    def variance(self) -> Any:
        return self._where_below(0.5, lambda k: self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)))

    @property
    def mode(self) -> Any:
        return self.loc

    def entropy(self) -> Any:
        return broadcast_to(self.scale.log() + self.concentration + 1, self._batch_shape)


# ---------------------------------------------------------------- transformed


class _OfNormal(TransformedDistribution):
    """What shows `loc` and `scale` of its base."""

    arg_constraints: Any = _LOC_SCALE
    has_rsample = True
    loc = of_part("base_dist", "loc", "The base's location.")
    scale = of_part("base_dist", "scale", "The base's scale.")


class LogNormal(_OfNormal):
    """`exp` of normal numbers of the mean `loc` and the deviation `scale`.

    >>> torch.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(_OfNormal):
    """Shares, one more than there are normal numbers, which `StickBreakingTransform` makes of those.

    >>> torch.distributions.LogisticNormal(torch.zeros(2), torch.ones(2)).sample().sum()
    tensor(1.)
    """

    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        return self.base_dist.base_dist.scale


class _Half(TransformedDistribution):
    """The distances to 0 of what is about 0."""

    arg_constraints = _SCALE
    support = constraints.nonnegative
    has_rsample = True
    scale = of_part("base_dist", "scale", "The base's scale.")

    def __init__(self, base: Any, validate_args: bool | None) -> None:
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mode(self) -> Any:
        return zeros_like(self.scale)

    def _taken(self, value: Any) -> Any:
        return value

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        value = self._taken(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -inf)

    def cdf(self, value: Any) -> Any:
        self._judge(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The distances to 0 of normal numbers of the deviation `scale`.

    >>> torch.distributions.HalfNormal(1.0).cdf(torch.tensor(1.0))
    tensor(0.6827)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The distances to 0 of Cauchy's numbers: half of them are within `scale`.

    >>> torch.distributions.HalfCauchy(1.0).cdf(torch.tensor(1.0))
    tensor(0.5000)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Any:
        return self._all(inf, self.scale)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def _taken(self, value: Any) -> Any:
        return as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)


class Gumbel(TransformedDistribution):
    """Gumbel's distribution, of the greatest among many.

    >>> torch.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = _LOC_SCALE
    support = constraints.real
    loc: Any
    scale: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._broadcast(loc=loc, scale=scale)
        real = finfo(self.loc.dtype)
        low, high = real.tiny, 1 - real.eps
        if is_number(loc, scale):
            base = Uniform(low, high, validate_args=validate_args)
        else:
            base = Uniform(full_like(self.loc, low), full_like(self.loc, high), validate_args=validate_args)
        transforms = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=loc, scale=-self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        z = (self.loc - value) / self.scale
        return z - z.exp() - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)


class Pareto(TransformedDistribution):
    """Numbers from `scale` upwards; the chance of more than x is `(scale / x) ** alpha`.

    >>> torch.distributions.Pareto(1.0, 2.0).cdf(torch.tensor(2.0))
    tensor(0.7500)
    """

    arg_constraints = {"alpha": constraints.positive, **_SCALE}
    alpha: Any
    scale: Any

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self._broadcast(scale=scale, alpha=alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """Weibull's distribution: the chance of more than x is `exp(-(x / scale) ** concentration)`.

    >>> torch.distributions.Weibull(1.0, 2.0).cdf(torch.tensor(1.0))
    tensor(0.6321)
    """

    arg_constraints = {**_SCALE, "concentration": constraints.positive}
    support = constraints.positive
    scale: Any
    concentration: Any

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._broadcast(scale=scale, concentration=concentration)
        base = Exponential(ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def concentration_reciprocal(self) -> Any:
        """`1 / concentration`"""
        return self.concentration.reciprocal()

    def _moment(self, n: int) -> Any:
        return (1 + n * self.concentration_reciprocal).lgamma()

    @property
    def mean(self) -> Any:
        return self.scale * self._moment(1).exp()

    @property
    def mode(self) -> Any:
        share = (self.concentration - 1) / self.concentration
        return self.scale * share**self.concentration_reciprocal

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (self._moment(2).exp() - (2 * self._moment(1)).exp())

    def entropy(self) -> Any:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1


class Kumaraswamy(TransformedDistribution):
    """Numbers between 0 and 1, much as of `Beta`: the chance of up to x is `1 - (1 - x ** concentration1) ** concentration0`.

    >>> torch.distributions.Kumaraswamy(2.0, 2.0).mean
    tensor(0.5333)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Any
    concentration0: Any

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._broadcast(concentration1=concentration1, concentration0=concentration0)
        a, b = self.concentration1, self.concentration0
        base = Uniform(zeros_like(b), ones_like(b), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=b.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=a.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n: int) -> Any:
        """The expected n-th power: b times the beta function of 1 + n / a and b."""
        b, first = self.concentration0, 1 + n / self.concentration1
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        log_mode[(b < 1) | (a < 1)] = nan
        return log_mode.exp()

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


__all__ = [
    *("Cauchy", "Exponential", "GeneralizedPareto", "Gumbel", "HalfCauchy", "HalfNormal", "Kumaraswamy"),
    *("Laplace", "LogNormal", "LogisticNormal", "Normal", "Pareto", "Uniform", "Weibull"),
]
