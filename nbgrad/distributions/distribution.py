"""What every distribution is: shapes, parameters that are judged, samples, and what may be asked of it.

Promises the families `Parametric`, which broadcasts, keeps and expands parameters by their constraints, and the two ways to give chances;
`ExponentialFamily` finds the entropy by the gradient of the log-normaliser.
"""

from __future__ import annotations

import warnings
from typing import Any

from nbgrad.autograd._run import grad
from nbgrad.autograd.grad_mode import no_grad
from nbgrad.base.ours import is_ours
from nbgrad.core.tensor import Tensor
from nbgrad.distributions import constraints
from nbgrad.distributions.utils import (
    Numeric,
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from nbgrad.memory.layout import Size
from nbgrad.ops.make.filled import empty, full
from nbgrad.ops.reduce.sums import _is_all_true

_SINGLE: Any = Size()


class Distribution:
    """A distribution of values of shape `event_shape`, of which there are as many, each with its own parameters, as `batch_shape` says.
    `sample` draws, `rsample` with gradients; `log_prob` is the logarithm of the density, or of the chance, at a value.

    >>> dice = torch.distributions.Categorical(torch.ones(2, 6))
    >>> dice.batch_shape, dice.event_shape, dice.sample((3,)).shape
    (torch.Size([2]), torch.Size([]), torch.Size([3, 2]))
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are judged where `validate_args` does not say so."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = _SINGLE, event_shape: Any = _SINGLE, validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self._judged().items():
                value = getattr(self, name)
                if not _is_all_true(constraint.check(value)):
                    raise ValueError(
                        f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} to "
                        f"satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                    )
        super().__init__()

    def _judged(self) -> dict[str, Any]:
        """The constraints of parameters that are there now, and can be judged alone."""
        try:
            every = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the distribution "
                "with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return {}
        return {
            name: constraint
            for name, constraint in every.items()
            if not constraints.is_dependent(constraint)
            and (name in self.__dict__ or not isinstance(getattr(type(self), name), lazy_property))
        }

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch: parameters are expanded, not copied."""
        raise NotImplementedError

    @property
    def batch_shape(self) -> Any:
        """How many distributions there are, each with its own parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one value."""
        return self._event_shape

    @property
    def arg_constraints(self) -> Any:
        """The constraints of parameters, by their names."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint of values."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The expected value."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """A value of the greatest density."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Any:
        """The expected square of the distance to the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """`sample_shape` values for each of the batch, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """The same, with the gradients by which they move with the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """`sample((n,))`, which it is deprecated for."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value, or of its chance."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The chance of a value up to this one."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """Up to which value there is this chance."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values there can be, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The expected `-log_prob`."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """`exp(entropy())`"""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return Size(Size(sample_shape) + self._batch_shape + self._event_shape)

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, event = value.size(), self._event_shape
        if shape[len(shape) - len(event) :] != event:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {event}.")
        expected = self._batch_shape + event
        if any(i != 1 and j != 1 and i != j for i, j in zip(reversed(shape), reversed(expected))):
            raise ValueError(
                f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}."
            )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=2,
            )
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")
        if not _is_all_true(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support ({support!r}) "
                f"of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _judge(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method must also define a custom "
                ".expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        given = [(name, self.__dict__[name]) for name in self.arg_constraints if name in self.__dict__]
        shown = ", ".join([f"{name}: {v if v.numel() == 1 else v.size()}" for name, v in given])
        return f"{self.__class__.__name__}({shown})"


class ExponentialFamily(Distribution):
    """Distributions of the density `exp(theta . t(x) - F(theta) + k(x))`: with the natural parameters theta and the log-normaliser F that
    a subclass gives, and the expectation of k, the entropy is `F - theta . grad F - E[k]`.

    >>> torch.distributions.ExponentialFamily.entropy(torch.distributions.Exponential(torch.tensor(2.0)))
    tensor(0.3069, grad_fn=<SubBackward0>)
    """

    @property
    def _natural_params(self) -> Any:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        expected = -self._mean_carrier_measure
        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*parameters)
        slopes = grad(normalizer.sum(), parameters, create_graph=True)
        result = expected + normalizer
        for p, slope in zip(parameters, slopes):
            result = result - (p * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result


class Parametric(Distribution):
    """What the distributions here share: parameters are kept under the names of `arg_constraints`, and `expand` expands those and the
    distributions that `_parts` names, and takes over what `_kept` names."""

    _parts: tuple[str, ...] = ()
    _kept: tuple[str, ...] = ()
    _expanded: Any = None  # the constraints of what is kept, if those are not `arg_constraints`

    def _broadcast(self, **parameters: Any) -> Any:
        """Keep parameters in their common shape, which is returned."""
        shape: Any = None
        for name, value in zip(parameters, broadcast_all(*parameters.values())):
            setattr(self, name, value)
            shape = value.size()
        return shape

    def _numbers(self, shape: Any, like: Tensor) -> Tensor:
        """Memory for so many numbers to be drawn."""
        return empty(shape, dtype=like.dtype, device=like.device)

    def _all(self, value: float, like: Tensor) -> Tensor:
        """A number for each of the batch."""
        return full(self._extended_shape(), value, dtype=like.dtype, device=like.device)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        own = next(c for c in type(self).__mro__ if issubclass(c, Distribution) and is_ours(c.__module__))
        new = self._get_checked_instance(own, _instance)
        batch_shape = Size(batch_shape)
        self._expand_into(new, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_into(self, new: Any, batch_shape: Any) -> None:
        for name, constraint in (self._expanded or self.arg_constraints).items():
            value = self.__dict__.get(name)
            if value is not None:
                event = value.shape[value.dim() - constraint.event_dim :]
                setattr(new, name, value.expand(batch_shape + event))
        for name in self._parts:
            setattr(new, name, getattr(self, name).expand(batch_shape))
        for name in self._kept:
            setattr(new, name, getattr(self, name))


def one_of_two(probs: Any, logits: Any) -> str:
    """Which of the two is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


class Chances(Parametric):
    """What is given by `probs`, chances, or by `logits`: each is made of the other when it is asked for."""

    _binary = True

    def _of_chances(self, probs: Any, logits: Any, **beside: Any) -> Any:
        """Keep what is given, broadcast with what stands beside it; return the batch shape."""
        name = one_of_two(probs, logits)
        shape = self._broadcast(**beside, **{name: logits if probs is None else probs})
        for other in beside:
            setattr(self, other, getattr(self, other).type_as(self._param))
        return shape

    @property
    def _param(self) -> Any:
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"]

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Any:
        """The log-odds of chances, or their logarithms."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Any:
        """Chances."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def param_shape(self) -> Any:
        """The shape of `probs` and of `logits`."""
        return self._param.size()


def of_part(part: str, name: str, words: str) -> Any:
    """A property that another distribution, which is a part of this one, has."""

    def get(self: Any) -> Any:
        return getattr(getattr(self, part), name)

    return property(get, doc=words)


def is_number(*values: Any) -> bool:
    return all(isinstance(v, Numeric) for v in values)


__all__ = ["Distribution"]
