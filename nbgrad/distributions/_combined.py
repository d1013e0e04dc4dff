"""Distributions made of others: with dimensions of the batch as parts of a value, and of what a transform makes of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.distributions import constraints
from nbgrad.distributions.distribution import Distribution, Parametric, of_part
from nbgrad.distributions.transforms import ComposeTransform, Transform
from nbgrad.distributions.utils import _sum_rightmost

D = TypeVar("D", bound=Distribution)


class Independent(Parametric, Generic[D]):
    """A base's, the last `reinterpreted_batch_ndims` dimensions of whose batch are parts of one value: their chances are multiplied.

    >>> base = torch.distributions.Normal(torch.zeros(2, 3), torch.ones(2, 3))
    >>> torch.distributions.Independent(base, 1).log_prob(torch.zeros(2, 3))
    tensor([-2.7568, -2.7568])
    """

    arg_constraints: dict[str, Any] = {}
    base_dist: D
    _kept = ("reinterpreted_batch_ndims",)
    mean = of_part("base_dist", "mean", "The expected value.")
    mode = of_part("base_dist", "mode", "A value of the greatest density.")
    variance = of_part("base_dist", "variance", "The variance of each part.")
    has_rsample = of_part("base_dist", "has_rsample", "Whether samples have gradients.")

    def __init__(
        self, base_distribution: D, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch, event = base_distribution.batch_shape, base_distribution.event_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + event, validate_args=validate_args)

    def _expand_into(self, new: Any, batch_shape: Any) -> None:
        super()._expand_into(new, batch_shape)
        parts = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(batch_shape + parts)

    @property
    def has_enumerate_support(self) -> Any:
        return not self.reinterpreted_batch_ndims > 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        base, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, n) if n else base

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Parametric):
    """What one transform, or a list of them, makes of a base's values.

    >>> D = torch.distributions
    >>> D.TransformedDistribution(D.Normal(0.0, 1.0), D.ExpTransform()).log_prob(torch.tensor(2.0))
    tensor(-1.8523)
    """

    arg_constraints: dict[str, Any] = {}
    base_dist: Any
    has_rsample = of_part("base_dist", "has_rsample", "Whether samples have gradients.")

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Any],
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(transforms, (Transform, list)):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self.transforms: Sequence[Any] = [transforms] if isinstance(transforms, Transform) else transforms
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        whole, base = ComposeTransform(self.transforms), base_distribution
        shape, base_dim = base.batch_shape + base.event_shape, len(base.event_shape)
        domain, codomain = whole.domain.event_dim, whole.codomain.event_dim
        if len(shape) < domain:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {domain}, but got {shape}."
            )
        made = whole.forward_shape(shape)
        needed = whole.inverse_shape(made)
        if shape != needed:  # a transform's own parameters are of a larger batch
            base = base.expand(needed[: len(needed) - base_dim])
        if domain > base_dim:
            base = Independent(base, domain - base_dim)
        self.base_dist = base
        cut = len(made) - max(codomain, base_dim + codomain - domain)
        if cut < 0:
            raise AssertionError(f"forward_shape length {len(made)} must be >= event_dim {len(made) - cut}")
        super().__init__(made[:cut], made[cut:], validate_args=validate_args)

    def _expand_into(self, new: Any, batch_shape: Any) -> None:
        super()._expand_into(new, batch_shape)
        shape = ComposeTransform(self.transforms).inverse_shape(batch_shape + self.event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def _forward(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        dim, total, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dim += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            total = total - _sum_rightmost(slope, dim - transform.domain.event_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """Where the transforms fall instead of rising, the chance of the other side."""
        sign = ComposeTransform(self.transforms).sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))


__all__ = ["Independent", "TransformedDistribution"]
