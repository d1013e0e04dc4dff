"""Distributions of trials: one that succeeds or not, how many of several succeed, how many come before; and numbers in their place."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.distributions import constraints
from nbgrad.distributions._combined import TransformedDistribution
from nbgrad.distributions._gammas import Gamma
from nbgrad.distributions.distribution import Chances, ExponentialFamily, Parametric, of_part
from nbgrad.distributions.transforms import SigmoidTransform
from nbgrad.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs
from nbgrad.memory.dtypes import finfo
from nbgrad.nn import functional as F
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.drawn import rand
from nbgrad.ops.make.filled import zeros_like
from nbgrad.ops.make.sampling import bernoulli, binomial, poisson
from nbgrad.ops.pointwise.choices import where
from nbgrad.ops.reduce.sums import everywhere

_PROBS: dict[str, Any] = {"probs": constraints.unit_interval, "logits": constraints.real}


def _counted(self: Chances, n: int, expand: bool) -> Tensor:
    """The numbers 0 ... n - 1, along a new first dimension."""
    values = arange(n, dtype=self._param.dtype, device=self._param.device)
    values = values.view((-1, *[1] * len(self._batch_shape)))
    return values.expand((-1, *self._batch_shape)) if expand else values


def _cross_entropy(logits: Any, value: Any) -> Any:
    return F.binary_cross_entropy_with_logits(logits, value, reduction="none")


# ---------------------------------------------------------------- one trial


class Bernoulli(Chances, ExponentialFamily):
    """1 with the chance `probs` (whose log-odds are `logits`), else 0.

    >>> torch.distributions.Bernoulli(0.25).log_prob(torch.tensor([0.0, 1.0])).exp()
    tensor([0.7500, 0.2500])
    """

    arg_constraints = _PROBS
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._of_chances(probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = math.nan
        return mode

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        logits, value = broadcast_all(self.logits, value)
        return -_cross_entropy(logits, value)

    def entropy(self) -> Any:
        return _cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        return _counted(self, 2, expand)

    @property
    def _natural_params(self) -> Any:
        return (self.probs.logit(),)

    def _log_normalizer(self, x: Any) -> Any:
        return x.exp().log1p()


class ContinuousBernoulli(Chances, ExponentialFamily):
    """Numbers between 0 and 1 of the density `probs ** x * (1 - probs) ** (1 - x)` but for a factor. Where `probs` is within `lims`, next
    to 1/2, everything is by Taylor's series.

    >>> torch.distributions.ContinuousBernoulli(0.75).mean
    tensor(0.5898)
    """

    arg_constraints = _PROBS
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_lims",)

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._of_chances(probs, logits)
        if probs is not None:
            if validate_args is not None and not everywhere(_PROBS["probs"].check(self.probs)):
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Any:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Any:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Any:
        """The chances, and the lower limit where they are next to 1/2."""
        return where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Any:
        """The logarithm of the factor."""
        p = self._cut_probs()
        low, high = where(p <= 0.5, p, 0.0), where(p >= 0.5, p, 1.0)
        log_norm = (_odds_against(p)).abs().log() - where(
            p <= 0.5, (-2.0 * low).log1p(), (2.0 * high - 1.0).log()
        )
        x = (self.probs - 0.5).pow(2)
        near = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return where(self._outside_unstable_region(), log_norm, near)

    @property
    def mean(self) -> Any:
        p, x = self._cut_probs(), self.probs - 0.5
        near = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return where(self._outside_unstable_region(), p / (2.0 * p - 1.0) + 1.0 / _odds_against(p), near)

    @property
    def variance(self) -> Any:
        p, x = self._cut_probs(), (self.probs - 0.5).pow(2)
        far = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / _odds_against(p).pow(2)
        near = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return where(self._outside_unstable_region(), far, near)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        logits, value = broadcast_all(self.logits, value)
        return -_cross_entropy(logits, value) + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        self._judge(value)
        p = self._cut_probs()
        inside = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = where(self._outside_unstable_region(), inside, value)
        return where(value <= 0.0, 0.0, where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        p = self._cut_probs()
        against = (-p).log1p()
        far = ((-p + value * (2.0 * p - 1.0)).log1p() - against) / (p.log() - against)
        return where(self._outside_unstable_region(), far, value)

    def entropy(self) -> Any:
        against = (-self.probs).log1p()
        return self.mean * (against - self.probs.log()) - self._cont_bern_log_norm() - against

    @property
    def _natural_params(self) -> Any:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        low, high = (limit - 0.5 for limit in self._lims)
        far = (x <= low) | (x > high)
        cut = where(far, x, low)
        near = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return where(far, cut.expm1().abs().log() - cut.abs().log(), near)


def _odds_against(p: Tensor) -> Tensor:
    """`log((1 - p) / p)`"""
    return (-p).log1p() - p.log()


class LogitRelaxedBernoulli(Chances):
    """The log-odds of `RelaxedBernoulli`.

    >>> D = torch.distributions.relaxed_bernoulli
    >>> D.LogitRelaxedBernoulli(torch.tensor(1.0), 0.5).log_prob(torch.tensor(0.0))
    tensor(-1.3863)
    """

    arg_constraints = _PROBS
    support = constraints.real
    _kept = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(self._of_chances(probs, logits), validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        drawn = clamp_probs(rand(shape, dtype=probs.dtype, device=probs.device))
        return (drawn.log() - (-drawn).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        logits, value = broadcast_all(self.logits, value)
        off = logits - value.mul(self.temperature)
        return self.temperature.log() + off - 2 * off.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that come near a trial's as the temperature falls, and have a gradient.

    >>> torch.distributions.RelaxedBernoulli(torch.tensor(0.1), 0.5).sample((3,))
    tensor([4.6263e-01, 9.9999e-01, 7.4242e-11])
    """

    arg_constraints = _PROBS
    support = constraints.unit_interval
    has_rsample = True
    temperature = of_part("base_dist", "temperature", "The lower, the nearer 0 or 1.")
    logits = of_part("base_dist", "logits", "The log-odds.")
    probs = of_part("base_dist", "probs", "The chances.")

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


# ---------------------------------------------------------------- counts


class Binomial(Chances):
    """How many of `total_count` trials succeed.

    >>> torch.distributions.Binomial(2, torch.tensor(0.5)).log_prob(torch.tensor([0.0, 1.0, 2.0])).exp()
    tensor([0.2500, 0.5000, 0.2500])
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_PROBS}
    has_enumerate_support = True
    total_count: Any

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._of_chances(probs, logits, total_count=total_count)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        n, logits = self.total_count, self.logits
        # log(1 + exp(logits)), whose gradient at 0 is that of both sides' mean
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        each = n * positive + n * (-logits.abs()).exp().log1p()
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return value * logits + ways - each

    def _trials(self, asked: str) -> int:
        """How many trials there are, for all of the batch."""
        most = int(self.total_count.max())
        if not self.total_count.min() == most:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return most

    def entropy(self) -> Any:
        self._trials("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        return _counted(self, 1 + self._trials("enumerate_support"), expand)


class Geometric(Chances):
    """How many trials fail before one succeeds.

    >>> torch.distributions.Geometric(0.5).log_prob(torch.tensor([0.0, 1.0, 2.0])).exp()
    tensor([0.5000, 0.2500, 0.1250])
    """

    arg_constraints = _PROBS
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._of_chances(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            if not everywhere(value > 0):
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} to be "
                    f"positive but found invalid values:\n{value.detach()[~(value > 0)]}"
                )

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            drawn = self._numbers(shape, self.probs).uniform_(finfo(self.probs.dtype).tiny, 1)
            return (drawn.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        value, probs = broadcast_all(value, self.probs)
        # what is certain at once: 0 trials that cannot fail
        failing = where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return _cross_entropy(self.logits, self.probs) / self.probs


class NegativeBinomial(Chances):
    """How many trials succeed before `total_count` of them fail; that need not be a whole number.

    >>> torch.distributions.NegativeBinomial(2.0, torch.tensor(0.5)).mean
    tensor(2.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Any

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._of_chances(probs, logits, total_count=total_count)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Any:
        return Gamma(concentration=self.total_count, rate=(-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        n, logits = self.total_count, self.logits
        chance = n * F.logsigmoid(-logits) + value * F.logsigmoid(logits)
        ways = -(n + value).lgamma() + (1.0 + value).lgamma() + n.lgamma()
        return chance - ways.masked_fill(n + value == 0.0, 0.0)


class Poisson(Parametric, ExponentialFamily):
    """How many events there are where `rate` are expected.

    >>> torch.distributions.Poisson(2.0).log_prob(torch.tensor([0.0, 1.0, 2.0])).exp()
    tensor([0.1353, 0.2707, 0.2707])
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Any

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._broadcast(rate=rate), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> Any:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Any) -> Any:
        return x.exp()


__all__ = [
    *("Bernoulli", "Binomial", "ContinuousBernoulli", "Geometric", "LogitRelaxedBernoulli"),
    *("NegativeBinomial", "Poisson", "RelaxedBernoulli"),
]
