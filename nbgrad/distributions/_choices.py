"""Distributions of a choice among several: by number, as a vector, relaxed, counted over many; and of what is chosen so from others."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.distributions import constraints
from nbgrad.distributions._combined import TransformedDistribution
from nbgrad.distributions._trials import Binomial
from nbgrad.distributions.distribution import Chances, Distribution, Parametric, of_part, one_of_two
from nbgrad.distributions.transforms import ExpTransform
from nbgrad.distributions.utils import broadcast_all, clamp_probs
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Size
from nbgrad.nn import functional as F
from nbgrad.ops.arrange.parts import broadcast_tensors
from nbgrad.ops.make.counted import arange, eye
from nbgrad.ops.make.data import tensor
from nbgrad.ops.make.drawn import rand
from nbgrad.ops.make.filled import full_like, ones_like, zeros
from nbgrad.ops.make.sampling import multinomial
from nbgrad.ops.pointwise.choices import where

_PROBS: dict[str, Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Chances):
    """One of several, 0, 1 ..., with the chances `probs`, or those whose logarithms are `logits`; neither need be normalised.

    >>> torch.distributions.Categorical(torch.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = _PROBS
    has_enumerate_support = True
    _binary = False
    _kept = ("_num_events",)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name = one_of_two(probs, logits)
        given = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        shape = self._param.size()
        self._num_events = shape[-1]
        super().__init__(shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Any:
        return self._all(nan, self.probs)

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        return self._all(nan, self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        count = Size(sample_shape).numel()
        lines = self.probs.detach()
        if lines.dim() == 1:
            return multinomial(lines, count, True).reshape(shape)
        lines = lines.reshape(-1, self._num_events)
        return multinomial(lines, count, True).T.reshape(shape)

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        value, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=dtypes.finfo(self.logits.dtype).min)  # 0 * -inf is NaN
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = arange(self._num_events, dtype=dtypes.int64, device=self._param.device)
        values = values.view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class _OfCategorical(Parametric):
    """What has the chances of a choice: one vector of them for each of the batch."""

    arg_constraints: Any = _PROBS
    logits = of_part("_categorical", "logits", "The logarithms of chances.")
    probs = of_part("_categorical", "probs", "Chances.")
    param_shape = of_part("_categorical", "param_shape", "The shape of `probs` and of `logits`.")
    _param = of_part("_categorical", "_param", "What is given.")
    _parts = ("_categorical",)

    def __init__(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._categorical._new(*args, **kwargs)


class OneHotCategorical(_OfCategorical):
    """The same choice as a vector: 1 in the chosen place, 0 in the others.

    >>> torch.distributions.OneHotCategorical(torch.tensor([0.0, 1.0, 0.0])).sample()
    tensor([0., 1., 0.])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return self._hot(self._categorical.mode)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _hot(self, chosen: Any) -> Any:
        return F.one_hot(chosen, self._categorical._num_events).to(self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n, batch = self.event_shape[0], self.batch_shape
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n, *[1] * len(batch), n))
        return values.expand((n, *batch, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient that the chances themselves would have: biased, but there is one.

    >>> torch.distributions.OneHotCategoricalStraightThrough(torch.tensor([0.0, 1.0])).rsample()
    tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class ExpRelaxedCategorical(_OfCategorical):
    """The logarithms of `RelaxedOneHotCategorical`.

    >>> D = torch.distributions.relaxed_categorical
    >>> D.ExpRelaxedCategorical(torch.tensor(1.0), torch.ones(3)).sample()
    tensor([-1.3728, -0.3955, -2.6143])
    """

    support = constraints.real_vector  # whose exponentials add up to 1
    has_rsample = True
    _kept = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = clamp_probs(rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-drawn.log()).log()) / self.temperature  # less Gumbel's numbers
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        k = self._categorical._num_events
        self._judge(value)
        logits, value = broadcast_all(self.logits, value)
        scores = logits - value.mul(self.temperature)
        scores = (scores - scores.logsumexp(dim=-1, keepdim=True)).sum(-1)
        return scores + full_like(self.temperature, float(k)).lgamma() + self.temperature.log() * (k - 1)


class RelaxedOneHotCategorical(TransformedDistribution):
    """Shares that come near a vector of `OneHotCategorical` as the temperature falls, and have a gradient.

    >>> torch.distributions.RelaxedOneHotCategorical(torch.tensor(0.5), torch.ones(3)).sample()
    tensor([0.1228, 0.8670, 0.0102])
    """

    arg_constraints = _PROBS
    support = constraints.simplex
    has_rsample = True
    temperature = of_part("base_dist", "temperature", "The lower, the nearer a corner.")
    logits = of_part("base_dist", "logits", "The logarithms of chances.")
    probs = of_part("base_dist", "probs", "Chances.")

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)


class Multinomial(_OfCategorical):
    """How often each is chosen in `total_count` choices.

    >>> torch.distributions.Multinomial(4, torch.tensor([0.25, 0.75])).mean
    tensor([1., 3.])
    """

    total_count: int
    _kept = ("total_count",)

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        chosen = self._categorical.sample(Size((self.total_count, *sample_shape))).movedim(0, -1)
        counts = zeros(shape, dtype=chosen.dtype, device=chosen.device)
        return counts.scatter_add_(-1, chosen, ones_like(chosen)).type_as(self.probs)

    def entropy(self) -> Any:
        n = tensor(self.total_count)
        each = Binomial(total_count=self.total_count, probs=self.probs)
        counts = each.enumerate_support(expand=False)[1:]
        ways = (each.log_prob(counts).exp() * (counts + 1).lgamma()).sum([0, -1])
        return n * self._categorical.entropy() - (n + 1).lgamma() + ways

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        logits, value = broadcast_all(self.logits, value)
        logits = where((value == 0) & (logits == -inf), 0.0, logits)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)


class MixtureSameFamily(Distribution):
    """A value of one of several components, which `mixture_distribution`, a `Categorical`, chooses: the components are the last dimension
    of `component_distribution`'s batch.

    >>> D = torch.distributions
    >>> both = D.Normal(torch.tensor([-1.0, 1.0]), torch.ones(2))
    >>> D.MixtureSameFamily(D.Categorical(torch.ones(2)), both).log_prob(torch.tensor(0.0))
    tensor(-1.4189)
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of torch.distributions.Distribution"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        of_mixture, every = mixture_distribution.batch_shape, component_distribution.batch_shape
        batch = every[:-1]
        if any(a != 1 and b != 1 and a != b for a, b in zip(reversed(of_mixture), reversed(batch))):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({of_mixture}) is not compatible with `component_distribution.batch_shape`({batch})"
            )
        count = mixture_distribution.logits.shape[-1]
        if count != every[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` ({every[-1]})"
            )
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        components = Size((*batch_shape, self._num_component))
        new._component_distribution = self._component_distribution.expand(components)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        event_shape = new._component_distribution.event_shape
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """What chooses."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """What it chooses from."""
        return self._component_distribution

    def _weighted(self, moment: Any) -> Any:
        """The mean of the components' moments."""
        probs, batch = self._mixture_distribution.probs, self._mixture_distribution.batch_shape
        more = 0 if len(batch) == 1 else len(self.batch_shape) - len(batch)
        shape = (*probs.shape[:-1], *[1] * more, probs.shape[-1], *[1] * self._event_ndims)
        return (probs.reshape(shape) * moment).sum(dim=-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        off = self._component_distribution.mean - self._pad(self.mean)
        return self._weighted(self._component_distribution.variance) + self._weighted(off.pow(2.0))

    def cdf(self, value: Any) -> Any:
        each = self._component_distribution.cdf(self._pad(value))
        return (each * self._mixture_distribution.probs).sum(dim=-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        each = self._component_distribution.log_prob(self._pad(value))
        weights = self._mixture_distribution.logits.log_softmax(dim=-1)
        return (each + weights).logsumexp(dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            dim, event = len(sample_shape) + len(self.batch_shape), self.event_shape
            chosen = chosen.reshape((*chosen.shape, *[1] * (len(event) + 1)))
            chosen = chosen.repeat(*[1] * (chosen.dim() - len(event)), *event)
            return drawn.gather(dim, chosen).squeeze(dim)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"


__all__ = [
    *("Categorical", "ExpRelaxedCategorical", "MixtureSameFamily", "Multinomial", "OneHotCategorical"),
    *("OneHotCategoricalStraightThrough", "RelaxedOneHotCategorical"),
]
