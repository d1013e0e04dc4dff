"""Maps from all numbers to what a constraint allows, by the constraint's type: `biject_to` gives ones with an inverse and a density,
`transform_to` ones that optimisers like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.distributions import constraints as c
from nbgrad.distributions import transforms as t
from nbgrad.distributions.utils import Numeric

Factory = Callable[[Any], t.Transform]


class ConstraintRegistry:
    """Factories of transforms by types of constraints; calling it with a constraint makes one.

    >>> torch.distributions.biject_to(torch.distributions.constraints.simplex)
    StickBreakingTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Enter a factory for a constraint or a class of them; without one, a decorator that does."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, c.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, c.Constraint)):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {kind}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> t.Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _moved(first: t.Transform, loc: Any, scale: Any) -> t.Transform:
    return t.ComposeTransform([first, t.AffineTransform(loc, scale)])


def _to_interval(constraint: Any) -> t.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, Numeric) and isinstance(high, Numeric) and (low, high) == (0, 1):
        return t.SigmoidTransform()
    return _moved(t.SigmoidTransform(), low, high - low)


_BOTH: list[tuple[tuple[Any, ...], Factory]] = [
    ((c.real,), lambda _: t.identity_transform),
    ((c.greater_than, c.greater_than_eq), lambda own: _moved(t.ExpTransform(), own.lower_bound, 1)),
    ((c.less_than,), lambda own: _moved(t.ExpTransform(), own.upper_bound, -1)),
    ((c.interval, c.half_open_interval), _to_interval),
    ((c.corr_cholesky,), lambda _: t.CorrCholeskyTransform()),
]


def _of_parts(registry: ConstraintRegistry) -> None:
    """Of constraints that are made of others, by those of their parts."""

    def independent(own: Any) -> t.Transform:
        return t.IndependentTransform(registry(own.base_constraint), own.reinterpreted_batch_ndims)

    def cat(own: Any) -> t.Transform:
        return t.CatTransform([registry(part) for part in own.cseq], own.dim, own.lengths)

    def stack(own: Any) -> t.Transform:
        return t.StackTransform([registry(part) for part in own.cseq], own.dim)

    for constraint, factory in ((c.independent, independent), (c.cat, cat), (c.stack, stack)):
        registry.register(constraint, factory)


for _registry in (biject_to, transform_to):
    for _constraints, _factory in _BOTH:
        for _constraint in _constraints:
            _registry.register(_constraint, _factory)
    _of_parts(_registry)

biject_to.register(c.simplex, lambda _: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda _: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda _: t.LowerCholeskyTransform())
for _constraint in (c.positive_definite, c.positive_semidefinite):
    transform_to.register(_constraint, lambda _: t.PositiveDefiniteTransform())

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
