"""The gamma distribution and what is made of its numbers: powers, shares, ratios. Samples have the implicit gradients of `sampling`."""

from __future__ import annotations

import math
from math import inf, nan
from typing import Any

from nbgrad.autograd.function import Function, once_differentiable
from nbgrad.core.tensor import Tensor
from nbgrad.distributions import constraints
from nbgrad.distributions._combined import TransformedDistribution
from nbgrad.distributions.distribution import ExponentialFamily, Parametric, is_number, of_part
from nbgrad.distributions.transforms import PowerTransform
from nbgrad.distributions.utils import _standard_normal, broadcast_all
from nbgrad.memory.dtypes import finfo
from nbgrad.nn import functional as F
from nbgrad.ops.make.data import as_tensor, tensor
from nbgrad.ops.make.sampling import _dirichlet_grad, _sample_dirichlet, _standard_gamma
from nbgrad.ops.pointwise.choices import where
from nbgrad.ops.views.join import stack


class Gamma(Parametric, ExponentialFamily):
    """The gamma distribution of the density `x ** (concentration - 1) * exp(-rate * x)` but for a factor.

    >>> torch.distributions.Gamma(2.0, 1.0).log_prob(torch.tensor(1.0))
    tensor(-1.)
    """

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    concentration: Any
    rate: Any
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        shape = self._broadcast(concentration=concentration, rate=rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        drawn.detach().clamp_(min=finfo(drawn.dtype).tiny)  # none is 0, of which there is no gradient
        return drawn

    def log_prob(self, value: Any) -> Any:
        value = as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._judge(value)
        a, rate = self.concentration, self.rate
        return a.xlogy(rate) + (a - 1).xlogy(value) - rate * value - a.lgamma()

    def cdf(self, value: Any) -> Any:
        self._judge(value)
        return self.concentration.igamma(self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self) -> Any:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers.

    >>> torch.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}
    _expanded = Gamma.arg_constraints

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Any:
        """Degrees of freedom: how many squares."""
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """One over numbers of the gamma distribution.

    >>> torch.distributions.InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    arg_constraints = Gamma.arg_constraints
    support = constraints.positive
    has_rsample = True
    concentration = of_part("base_dist", "concentration", "The concentration of the gamma distribution.")
    rate = of_part("base_dist", "rate", "Its rate.")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return where(self.concentration > 1, self.rate / (self.concentration - 1), inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


# ---------------------------------------------------------------- shares


class _Dirichlet(Function):
    """A sample with its implicit gradient: what moves one share moves the rest, in proportion."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        x = _sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        slope = _dirichlet_grad(x, concentration, total)
        return slope * (grad_output - (x * grad_output).sum(-1, True))


class Dirichlet(Parametric, ExponentialFamily):
    """Shares that add up to 1; of large concentrations they are all near their means.

    >>> torch.distributions.Dirichlet(torch.tensor([1.0, 2.0, 1.0])).mean
    tensor([0.2500, 0.5000, 0.2500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration: Any = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return _Dirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corners = (self.concentration < 1).all(dim=-1)
        mode[corners] = F.one_hot(mode[corners].argmax(dim=-1), above.shape[-1]).to(mode)
        return mode

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        of_total = total.lgamma() + (k - total) * total.digamma()
        return a.lgamma().sum(-1) - of_total - ((a - 1.0) * a.digamma()).sum(-1)

    @property
    def _natural_params(self) -> Any:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(Parametric, ExponentialFamily):
    """The beta distribution: the first of two shares of Dirichlet's.

    >>> torch.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parts = ("_dirichlet",)

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        if is_number(concentration1, concentration0):
            both = tensor([float(concentration1), float(concentration0)])
        else:
            both = stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Any:
        """Of the share itself."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """Of the rest."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        return self._dirichlet.log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> Any:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


# ---------------------------------------------------------------- ratios


class FisherSnedecor(Parametric):
    """Fisher's F distribution: the ratio of two `Chi2` numbers, each over its degrees of freedom.

    >>> torch.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    df1: Any
    df2: Any
    _parts = ("_gamma1", "_gamma2")

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        shape = self._broadcast(df1=df1, df2=df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        b = where(self.df2 <= 2, nan, self.df2)
        return b / (b - 2)

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 <= 2, nan, mode)

    @property
    def variance(self) -> Any:
        a, b = self.df1, where(self.df2 <= 4, nan, self.df2)
        return 2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))

    def rsample(self, sample_shape: Any = ()) -> Any:
        above, below = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        tiny = finfo(below.dtype).tiny
        below.clamp_(min=tiny)
        return (above / below).clamp_(min=tiny)

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        scale = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return scale + (a * ratio.log() + (a - 1) * value.log()) - (a + b) * (ratio * value).log1p()


class StudentT(Parametric):
    """Student's t distribution of `df` degrees of freedom, moved by `loc` and stretched by `scale`.

    >>> torch.distributions.StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    df: Any
    loc: Any
    scale: Any
    _parts = ("_chi2",)

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        shape = self._broadcast(df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return where(self.df <= 1, nan, self.loc)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        there = self.df > 2
        df = where(there, self.df, 3.0)  # so that no gradient is NaN where there is none
        return where(there, self.scale.pow(2) * df / (df - 2), where(self.df > 1, inf, nan))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = _standard_normal(shape, self.df.dtype, self.df.device)
        drawn = drawn * (self._chi2.rsample(sample_shape) / self.df).rsqrt()
        return self.loc + self.scale * drawn

    def _log_scale(self) -> Any:
        """The logarithm of one over the greatest density, less that of the scale."""
        half = 0.5 * self.df
        return 0.5 * self.df.log() + 0.5 * math.log(math.pi) + half.lgamma() - (half + 0.5).lgamma()

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        z = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1.0) * (z**2.0 / self.df).log1p() - (self.scale.log() + self._log_scale())

    def entropy(self) -> Any:
        half = 0.5 * (self.df + 1)
        return self.scale.log() + half * (half.digamma() - (half - 0.5).digamma()) + self._log_scale()


__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]
