"""Maps of values that know their inverse and by how much they stretch: `y = t(x)`, `x = t.inv(y)`, `t.log_abs_det_jacobian(x, y)`.

Promises `TransformedDistribution` the density of what it draws, and `biject_to` maps from all numbers to what a constraint allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nbgrad import linalg
from nbgrad.base.ours import is_ours
from nbgrad.core.tensor import Tensor
from nbgrad.distributions import constraints
from nbgrad.distributions.utils import (
    Numeric,
    _sum_rightmost,
    broadcast_all,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from nbgrad.memory.dtypes import finfo
from nbgrad.memory.layout import Size
from nbgrad.nn import functional as F
from nbgrad.ops.arrange.parts import broadcast_shapes
from nbgrad.ops.make.counted import eye
from nbgrad.ops.make.filled import full_like, zeros_like
from nbgrad.ops.views.join import cat, stack


class Transform:
    """A map between values of two constraints, `domain` and `codomain`. With `cache_size=1` it remembers the last pair, so that the
    inverse of what it has just made is exact, and free.

    >>> exp = torch.distributions.ExpTransform()
    >>> x = torch.tensor([0.0, 2.0])
    >>> y = exp(x)
    >>> y, exp.inv(y), exp.log_abs_det_jacobian(x, y)
    (tensor([1.0000, 7.3891]), tensor([0., 2.]), tensor([0., 2.]))
    """

    bijective: Any = False
    domain: Any
    codomain: Any
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        if cache_size:
            self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> Any:
        """How many dimensions one value has, where those of both sides have as many."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Any:
        """The inverse, as a transform."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> Any:
        """1 where it rises, -1 where it falls."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, x: Any) -> Any:
        return self._remembered(x, 0, self._call)

    def _inv_call(self, y: Any) -> Any:
        return self._remembered(y, 1, self._inverse)

    def _remembered(self, given: Any, side: int, make: Callable[[Any], Any]) -> Any:
        if not self._cache_size:
            return make(given)
        if given is not self._cached_x_y[side]:
            made = make(given)
            self._cached_x_y = (made, given) if side else (given, made)
        return self._cached_x_y[1 - side]

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of |dy / dx|, of one value."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of what is made of values of this shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of what values of this shape are made of."""
        return shape


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def _there(self) -> Any:
        if self._inv is None:  # what it was copied without
            raise AssertionError("_inv must not be None")
        return self._inv

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._there().codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._there().domain

    @property
    def bijective(self) -> Any:
        return self._there().bijective

    @property
    def sign(self) -> Any:
        return self._there().sign

    @property
    def inv(self) -> Any:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._there().with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._there() == other._inv

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._inv!r})"

    def __call__(self, x: Any) -> Any:
        return self._there()._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._there().log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)


def _own(kind: type) -> type:
    """The class of ours that one of a user's is derived from."""
    return next(c for c in kind.__mro__ if issubclass(c, Transform) and is_ours(c.__module__))


class _Made(Transform):
    """One that `with_cache` makes anew of the attributes that `_given` names."""

    _given: tuple[str, ...] = ()

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        own: Any = _own(type(self))
        return own(*[getattr(self, name) for name in self._given], cache_size=cache_size)


class _Alike(Transform):
    """One of a kind: all objects of it are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _own(type(self)))


def _raised(constraint: Any, event_dim: int, name: str) -> Any:
    """A constraint of values that have at least so many dimensions."""
    own = constraint.event_dim
    if event_dim < own:
        raise AssertionError(f"event_dim {event_dim} must be >= {name}.event_dim {own}")
    return constraints.independent(constraint, event_dim - own) if event_dim > own else constraint


# ---------------------------------------------------------------- made of others


class ComposeTransform(Transform):
    """Several, one after the other.

    >>> D = torch.distributions
    >>> line = D.AffineTransform(1.0, 2.0)
    >>> D.ComposeTransform([D.ExpTransform(), line])(torch.tensor([0.0]))
    tensor([3.])
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dim = max(
                dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim
            )  # at least its own
        return _raised(self.parts[0].domain, dim, "domain")

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        dim = self.parts[0].domain.event_dim
        for part in self.parts:
            dim = max(dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _raised(self.parts[-1].codomain, dim, "codomain")

    @lazy_property
    def bijective(self) -> Any:
        return all(p.bijective for p in self.parts)

    @lazy_property
    def sign(self) -> Any:
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Any:
        if self._inv is None:
            self._inv = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return zeros_like(x)
        between = [x]
        for part in self.parts[:-1]:
            between.append(part(between[-1]))
        between.append(y)
        dim, total = self.domain.event_dim, None
        for part, before, after in zip(self.parts, between, between[1:]):
            slope = part.log_abs_det_jacobian(before, after)
            slope = _sum_rightmost(slope, dim - part.domain.event_dim)
            total = slope if total is None else total + slope
            dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(_Made):
    """A base's, of which the last dimensions count as parts of one value.

    >>> D = torch.distributions.transforms
    >>> t = D.IndependentTransform(D.ExpTransform(), 1)
    >>> t.log_abs_det_jacobian(torch.tensor([1.0, 2.0]), None)
    tensor(3.)
    """

    _given = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        _check_room(x.dim(), self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        _check_room(y.dim(), self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class _Sliced(_Made):
    """Several beside one another along a dimension, each for its own slice."""

    transforms: list[Transform]
    dim: int
    _given: tuple[str, ...] = ("transforms", "dim")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> Any:
        return all(t.bijective for t in self.transforms)

    def _whole(self) -> tuple[int, str]:
        """How many places there are along the dimension, and what says so."""
        raise NotImplementedError

    def _cut(self, z: Any) -> Iterator[Any]:
        raise NotImplementedError

    def _join(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    def _slices(self, name: str, z: Any, of: str = "tensor") -> Iterator[Any]:
        if not -z.dim() <= self.dim < z.dim():
            raise AssertionError(f"dim {self.dim} out of range for {of} with {z.dim()} dimensions")
        length, words = self._whole()
        if z.size(self.dim) != length:
            raise AssertionError(f"{name}.size({self.dim}) = {z.size(self.dim)} must equal {words} {length}")
        return self._cut(z)

    def _call(self, x: Any) -> Any:
        return self._join([t(part) for t, part in zip(self.transforms, self._slices("x", x))])

    def _inverse(self, y: Any) -> Any:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._slices("y", y))])

    def _slopes(self, x: Any, y: Any) -> list[Any]:
        both = zip(self.transforms, self._slices("x", x, "x"), self._slices("y", y, "y"))
        return [t.log_abs_det_jacobian(a, b) for t, a, b in both]


class CatTransform(_Sliced):
    """Several beside one another, each for so many of the places along a dimension as `lengths` says, one unless it does.

    >>> D = torch.distributions
    >>> D.CatTransform([D.ExpTransform(), D.identity_transform], lengths=[1, 2])(torch.zeros(3))
    tensor([1., 0., 0.])
    """

    _given = ("transforms", "dim", "lengths")

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
            )

    @lazy_property
    def event_dim(self) -> Any:
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> Any:
        return sum(self.lengths)

    def _whole(self) -> tuple[int, str]:
        return self.length, "length"

    def _cut(self, z: Any) -> Iterator[Any]:
        start = 0
        for length in self.lengths:
            yield z.narrow(self.dim, start, length)
            start += length

    def _join(self, parts: list[Any]) -> Any:
        return cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        slopes = [
            _sum_rightmost(slope, self.event_dim - t.event_dim)
            for t, slope in zip(self.transforms, self._slopes(x, y))
        ]
        # Whether the slices still stand beside one another in what is left of the dimensions.
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return cat(slopes, dim=dim) if dim < 0 else sum(slopes)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Sliced):
    """Several beside one another, one for each place along a dimension.

    >>> D = torch.distributions
    >>> D.StackTransform([D.ExpTransform(), D.identity_transform])(torch.zeros(2))
    tensor([1., 0.])
    """

    def _whole(self) -> tuple[int, str]:
        return len(self.transforms), "len(transforms)"

    def _cut(self, z: Any) -> Iterator[Any]:
        return (z.select(self.dim, k) for k in range(z.size(self.dim)))

    def _join(self, parts: list[Any]) -> Any:
        return stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self._join(self._slopes(x, y))

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(_Made):
    """A distribution's `cdf`, by which its samples become uniform.

    >>> D = torch.distributions
    >>> D.CumulativeDistributionTransform(D.Normal(0.0, 1.0))(torch.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1
    _given = ("distribution",)

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)


# ---------------------------------------------------------------- numbers


class ExpTransform(_Alike):
    """`exp(x)`

    >>> torch.distributions.ExpTransform()(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(_Made):
    """`x ** exponent` of positive numbers.

    >>> torch.distributions.PowerTransform(2.0)(torch.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True
    _given = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and self.exponent.eq(other.exponent).all().item()

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """Never 0 or 1, whose logarithms or log-odds are infinite."""
    real = finfo(x.dtype)
    return x.sigmoid().clamp(min=real.tiny, max=1.0 - real.eps)


class SigmoidTransform(_Alike):
    """`1 / (1 + exp(-x))`, and the inverse is the logit.

    >>> torch.distributions.SigmoidTransform()(torch.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1

    def _call(self, x: Any) -> Any:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        real = finfo(y.dtype)
        y = y.clamp(min=real.tiny, max=1.0 - real.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Alike):
    """`log(1 + exp(x))`

    >>> torch.distributions.SoftplusTransform()(torch.tensor([0.0, 2.0]))
    tensor([0.6931, 2.1269])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x: Any) -> Any:
        return F.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x)


class TanhTransform(_Alike):
    """`tanh(x)`. What it rounds to 1 or -1 has no inverse: a cache keeps it.

    >>> torch.distributions.TanhTransform()(torch.tensor([0.0, 2.0]))
    tensor([0.0000, 0.9640])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))  # log(1 - tanh(x)**2), exact for large x


class AbsTransform(_Alike):
    """`|x|`, of whose two inverses `inv` gives the positive one.

    >>> torch.distributions.AbsTransform()(torch.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Numeric) and isinstance(b, Numeric):
        return a == b
    return bool((a == b).all().item())


class AffineTransform(_Made):
    """`loc + scale * x`; the last `event_dim` dimensions are one value.

    >>> torch.distributions.AffineTransform(1.0, 2.0)(torch.tensor([0.0, 1.0]))
    tensor([1., 3.])
    """

    bijective = True
    _given = ("loc", "scale", "event_dim")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return _raised(constraints.real, self.event_dim, "domain")

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return _raised(constraints.real, self.event_dim, "codomain")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _same(self.loc, other.loc)
            and _same(self.scale, other.scale)
        )

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Numeric):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale, dim = self.scale, self.event_dim
        if isinstance(scale, Numeric):
            slope = full_like(x, math.log(abs(scale)))
        else:
            slope = scale.abs().log()
        return _sum_rightmost(slope, dim).expand(x.shape[: x.dim() - dim])

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


# ---------------------------------------------------------------- vectors and matrices


def _check_room(have: int, need: int) -> None:
    if have < need:
        raise ValueError("Too few dimensions on input")


def _ending(shape: Any, *sizes: int) -> Any:
    """The shape and these sizes, a tuple or a Size as it is."""
    return shape + sizes


class ReshapeTransform(_Made):
    """Values of one shape as values of another one.

    >>> t = torch.distributions.ReshapeTransform((4,), (2, 2))
    >>> t(torch.arange(4.0)).shape, t.inv(torch.zeros(3, 2, 2)).shape
    (torch.Size([2, 2]), torch.Size([3, 4]))
    """

    bijective = True
    _given = ("in_shape", "out_shape")

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Any) -> Any:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return self._turned(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._turned(shape, self.out_shape, self.in_shape)

    def _turned(self, shape: Any, before: Any, after: Any) -> Any:
        cut = len(shape) - len(before)
        _check_room(cut, 0)
        if shape[cut:] != before:
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {before}")
        return shape[:cut] + after


class SoftmaxTransform(_Alike):
    """Shares from their logarithms, which need not be normalised: `inv` gives one of many.

    >>> torch.distributions.SoftmaxTransform()(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        shares = (x - x.max(-1, True)[0]).exp()
        return shares / shares.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        _check_room(len(shape), 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Alike):
    """Shares, one more than there are numbers: each number says how much is broken off what is left. Zeros give equal shares.

    >>> torch.distributions.StickBreakingTransform()(torch.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _left(self, x: Any) -> Any:
        """How many shares are left, of which the next one is broken off."""
        return x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)

    def _call(self, x: Any) -> Any:
        broken = _clipped_sigmoid(x - self._left(x).log())
        return F.pad(broken, [0, 1], value=1) * F.pad((1 - broken).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        parts = y[..., :-1]
        rest = (1 - parts.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return parts.log() - rest.log() + self._left(parts).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._left(x).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        _check_room(len(shape), 1)
        return _ending(shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        _check_room(len(shape), 1)
        return _ending(shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(_Alike):
    """Lower triangular matrices, the diagonal of which is made positive by `exp`.

    >>> torch.distributions.LowerCholeskyTransform()(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Alike):
    """Products of such a matrix with its transpose.

    >>> torch.distributions.PositiveDefiniteTransform()(torch.tensor([[0.0, 5.0], [1.0, 0.0]]))
    tensor([[1., 1.],
            [1., 2.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        x = LowerCholeskyTransform()(x)
        return x @ x.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Lower triangular matrices whose rows have the length 1, from as many numbers as stand below the diagonal: `tanh` of each is its
    share, row by row, of the length that is left.

    >>> torch.distributions.CorrCholeskyTransform()(torch.tensor([0.5]))
    tensor([[1.0000, 0.0000],
            [0.4621, 0.8868]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        shares = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - shares**2).sqrt().cumprod(-1)
        shares = shares + eye(shares.shape[-1], dtype=shares.dtype, device=shares.device)
        return shares * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = F.pad(1 - (y * y).cumsum(dim=-1)[..., :-1], [1, 0], value=1)
        shares = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (shares.log1p() - shares.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        of_tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return 0.5 * left.log().sum(-1) + of_tanh

    def forward_shape(self, shape: Any) -> Any:
        _check_room(len(shape), 1)
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return _ending(shape[:-1], n, n)

    def inverse_shape(self, shape: Any) -> Any:
        _check_room(len(shape), 2)
        n = shape[-1]
        if shape[-2] != n:
            raise ValueError("Input is not square")
        return _ending(shape[:-2], n * (n - 1) // 2)


__all__ = [
    *("AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform"),
    *("CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform"),
    *("PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform"),
    *("SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform"),
    *("TanhTransform", "Transform", "identity_transform"),
]
