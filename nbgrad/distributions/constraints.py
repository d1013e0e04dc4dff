"""What a parameter or a value may be: `check` says it of each element, vector or matrix; `biject_to` and `transform_to` make such."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbgrad import linalg
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.ops.make.filled import full
from nbgrad.ops.views.join import cat as join
from nbgrad.ops.views.join import stack as join_new


def _expect(holds: bool, words: str) -> None:
    if not holds:
        raise AssertionError(words)


class Constraint:
    """A region of values; `is_discrete` says whether of counts, `event_dim` how many of the last dimensions are one value.

    >>> torch.distributions.constraints.positive.check(torch.tensor([-1.0, 1.0]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """A bool for each value: whether it is inside."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.__class__.__name__[1:]}()"


# ---------------------------------------------------------------- known only to an object


class _Dependent(Constraint):
    """One that other parameters decide: only an object can say what it is.

    >>> torch.distributions.constraints.dependent(event_dim=1).event_dim
    1
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    def _known(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    @property
    def is_discrete(self) -> Any:
        return self._known("is_discrete")

    @property
    def event_dim(self) -> Any:
        return self._known("event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The same, and this is known of it."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether it takes an object to say what the constraint is.

    >>> constraints = torch.distributions.constraints
    >>> constraints.is_dependent(constraints.dependent), constraints.is_dependent(constraints.real)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that is a constraint of an object's, and a `dependent` one of its class.

    >>> constraints = torch.distributions.constraints
    >>> class Share(torch.distributions.Distribution):
    ...     @constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self): return constraints.interval(0, self.high)
    >>> constraints.is_dependent(Share.support), Share.support.event_dim
    (True, 0)
    """

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


# ---------------------------------------------------------------- made of others


class _OfAnother(Constraint):
    """What is of the same kind as a base."""

    def __init__(self, base_constraint: Constraint) -> None:
        _expect(
            isinstance(base_constraint, Constraint),
            f"base_constraint must be a Constraint, got {type(base_constraint).__name__}",
        )
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete


class _IndependentConstraint(_OfAnother):
    """A base's, of which the last batch dimensions count as parts of one value: all of them must be inside.

    >>> constraints = torch.distributions.constraints
    >>> constraints.independent(constraints.positive, 1).check(torch.tensor([[1.0, 2.0], [-1.0, 1.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__(base_constraint)
        n = reinterpreted_batch_ndims
        _expect(isinstance(n, int), f"reinterpreted_batch_ndims must be an int, got {type(n).__name__}")
        _expect(n >= 0, f"reinterpreted_batch_ndims must be >= 0, got {n}")
        self.reinterpreted_batch_ndims = n

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value)
        kept = inside.dim() - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return inside.reshape((*inside.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_OfAnother):
    """What every component of a mixture may give.

    >>> constraints = torch.distributions.constraints
    >>> constraints.MixtureSameFamilyConstraint(constraints.positive).check(torch.tensor([-1.0, 1.0]))
    tensor([False,  True])
    """

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        kept = value.dim() - self.event_dim
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return inside.reshape((*inside.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_constraint!r})"


class _Several(Constraint):
    """Some beside one another along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        _expect(
            all(isinstance(c, Constraint) for c in cseq), "All elements of cseq must be Constraint instances"
        )
        self.cseq, self.dim = list(cseq), dim
        super().__init__()

    @property
    def is_discrete(self) -> Any:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:
        return max(c.event_dim for c in self.cseq)

    def _check_dim(self, value: Tensor) -> None:
        _expect(
            -value.dim() <= self.dim < value.dim(),
            f"dim {self.dim} out of range for value with {value.dim()} dimensions",
        )


class _Cat(_Several):
    """Some, each for so many of the places along a dimension as `lengths` says, one unless it does.

    >>> constraints = torch.distributions.constraints
    >>> constraints.cat([constraints.positive, constraints.real], lengths=[1, 2]).check(torch.tensor([-1.0, -1.0, 1.0]))
    tensor([False,  True,  True])
    """

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        _expect(
            len(self.lengths) == len(self.cseq),
            f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})",
        )

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return join(checks, self.dim)


class _Stack(_Several):
    """Some, one for each place along a dimension.

    >>> constraints = torch.distributions.constraints
    >>> constraints.stack([constraints.positive, constraints.real]).check(torch.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    @property
    def event_dim(self) -> Any:
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        parts = [value.select(self.dim, k) for k in range(value.size(self.dim))]
        return join_new([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


# ---------------------------------------------------------------- numbers


class _Bounded(Constraint):
    """One that shows its bounds."""

    def __repr__(self) -> str:
        bounds = [f"{k}={v}" for k, v in vars(self).items() if k in ("lower_bound", "upper_bound")]
        return f"{self.__class__.__name__[1:]}({', '.join(bounds)})"


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()


class _Real(Constraint):
    """Every number; NaN is none."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _GreaterThan(_Above):
    """Numbers above a bound.

    >>> torch.distributions.constraints.greater_than(1).check(torch.tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    """Numbers from a bound upwards.

    >>> torch.distributions.constraints.greater_than_eq(1).check(torch.tensor([0.0, 1.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_Below):
    """Numbers below a bound.

    >>> torch.distributions.constraints.less_than(1).check(torch.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers between two bounds, which belong to them.

    >>> torch.distributions.constraints.interval(0, 1).check(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([False,  True,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers between two bounds, of which the lower one belongs to them.

    >>> torch.distributions.constraints.half_open_interval(0, 1).check(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([False,  True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _IntegerInterval(_Between):
    """Whole numbers between two bounds, which belong to them.

    >>> torch.distributions.constraints.integer_interval(0, 2).check(torch.tensor([0.0, 0.5, 3.0]))
    tensor([ True, False, False])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Below):
    """Whole numbers up to a bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    """Whole numbers from a bound upwards."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


# ---------------------------------------------------------------- vectors


class _OneHot(Constraint):
    """Vectors of zeros and one 1."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Simplex(Constraint):
    """Vectors of shares, which add up to 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts, of at most so many together.

    >>> torch.distributions.constraints.multinomial(3).check(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(dim=-1) & (value.sum(dim=-1) <= self.upper_bound)


# ---------------------------------------------------------------- matrices


def _no_upper_part(value: Tensor) -> Tensor:
    return (value.tril() == value).reshape((*value.shape[:-2], -1)).min(-1)[0]


class _LowerTriangular(Constraint):
    """Matrices with nothing above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _no_upper_part(value)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _no_upper_part(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).min(-1)[0]


class _CorrCholesky(Constraint):
    """Those of `lower_cholesky` whose rows have the length 1: the factors of matrices of correlations."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        rounding = dtypes.finfo(value.dtype).eps * value.size(-1) * 10
        lengths = value.detach().norm(dim=-1)
        return _LowerCholesky().check(value) & (lengths - 1.0).abs().le(rounding).all(dim=-1)


class _Square(Constraint):
    """Matrices with as many rows as columns."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        rows, columns = value.shape[-2:]
        return full(value.shape[:-2], rows == columns, dtype=dtypes.bool_, device=value.device)


class _Symmetric(_Square):
    """Matrices that are their own transposes, but for rounding."""

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        return value.isclose(value.mT, atol=1e-6).all(-2).all(-1) if square.all() else square


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without a negative eigenvalue."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return linalg.eigvalsh(value).ge(0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with positive eigenvalues alone."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return linalg.cholesky_ex(value).info.eq(0) if symmetric.all() else symmetric


# ---------------------------------------------------------------- by their public names

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack

__all__ = [
    *("Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent"),
    *("dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent"),
    *("integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular"),
    *("multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite"),
    *("positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack"),
    *("symmetric", "unit_interval"),
]
