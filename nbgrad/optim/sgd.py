"""Gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.optim._update import Rule, RuleOptimizer, check_ways
from nbgrad.optim.optimizer import Params


def _detached(g: Any) -> Any:
    """A step that is differentiated does not pass through the first gradient that momentum keeps."""
    return g.detach() if isinstance(g, Tensor) else g


@cached(128)
def _rule(decays: bool, momentum: bool, nesterov: bool, maximize: bool, first: bool) -> Rule:
    def prepare(lr: Any, weight_decay: Any, momentum: Any, dampening: Any) -> dict[str, Any]:
        return dict(rate=lr, decay=weight_decay, momentum=momentum, fresh=1 - dampening)

    def downhill(p: Any, g: Any, n: Any) -> Any:
        g = -g if maximize else g
        return g + p * n.decay if decays else g

    def plain(p: Any, g: Any, n: Any) -> Any:
        return (p - downhill(p, g, n) * n.rate,)

    def heavy(p: Any, g: Any, momentum_buffer: Any, n: Any) -> Any:
        g = downhill(p, g, n)
        kept = _detached(g) if first else momentum_buffer * n.momentum + g * n.fresh
        return p - (g + kept * n.momentum if nesterov else kept) * n.rate, kept

    return Rule("sgd", prepare, heavy if momentum else plain)


class SGD(RuleOptimizer):
    """Gradient descent: `p -= lr * g`, with `weight_decay` g being `grad + weight_decay * p`. With `momentum` the step is by `b =
    momentum * b + (1 - dampening) * g` (b is g at first), with `nesterov` by `g + momentum * b`. `maximize` goes up instead of
    down.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     p.grad = torch.tensor([1.0])
    ...     optimizer.step()
    >>> p.data
    tensor([0.7100])
    """

    _begun = "momentum_buffer"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        named = (("learning rate", lr), ("momentum value", momentum), ("weight_decay value", weight_decay))
        for name, value in named:
            if value < 0.0:
                raise ValueError(f"Invalid {name}: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = dict(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, defaults)
        check_ways(fused, foreach, differentiable)

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        momentum = group["momentum"] != 0
        return _rule(
            bool(group["weight_decay"] != 0),
            momentum,
            bool(momentum and group["nesterov"]),
            bool(group["maximize"]),
            momentum and first,
        )

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return group["lr"], group["weight_decay"], group["momentum"], group["dampening"]


__all__ = ["SGD"]
