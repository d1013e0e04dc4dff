"""Gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.optim._update import Rule, RuleOptimizer, check_option, downhill, number
from nbgrad.optim.optimizer import Params


def _detached(g: Any) -> Any:
    """A step that is differentiated does not pass through the first gradient that momentum keeps."""
    return g.detach() if isinstance(g, Tensor) else g


@cached(128)
def _rule(decays: bool, momentum: bool, nesterov: bool, maximize: bool, first: bool) -> Rule:
    def prepare(lr: Any, weight_decay: Any, momentum: Any, dampening: Any) -> dict[str, Any]:
        return dict(rate=lr, decay=weight_decay, momentum=momentum, fresh=1 - dampening)

    def plain(p: Any, g: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
        return (p - g * n.rate,)

    def heavy(p: Any, g: Any, momentum_buffer: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
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

    _judged = "lr momentum weight_decay"
    _options = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"

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
        self._begin(locals())

    def _judge(self, given: dict[str, Any]) -> None:
        for name in self._judged.split():
            value = given[name]
            if (isinstance(value, Tensor) and value.numel() != 1) or value < 0.0:  # which NaN is not
                check_option(name, value)
        if given["nesterov"] and (given["momentum"] <= 0 or given["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        momentum = group["momentum"] != 0
        return _rule(
            bool(group["weight_decay"] != 0),
            momentum,
            bool(momentum and group["nesterov"]),
            bool(group["maximize"]),
            momentum and first,
        )

    def _check_sparse(self, group: dict[str, Any]) -> None:
        if group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients")

    def _step_sparse(self, p: Tensor, group: dict[str, Any]) -> None:
        grad: Any = p.grad
        grad = -grad if group["maximize"] else grad
        if group["weight_decay"]:
            grad = grad.add(p, alpha=group["weight_decay"])  # which is refused
        momentum = group["momentum"]
        if momentum:
            state = self.state[p]
            kept = state.get("momentum_buffer")
            if kept is None:
                kept = state["momentum_buffer"] = grad.clone().detach()
            else:
                kept.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(kept, alpha=momentum) if group["nesterov"] else kept
        p.add_(grad, alpha=-number(group["lr"]))

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return group["lr"], group["weight_decay"], group["momentum"], group["dampening"]


__all__ = ["SGD"]
