"""Adadelta: steps of the size of the steps so far, over that of the gradients so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.ops.pointwise.arithmetic import sqrt
from nbgrad.optim._update import Rule, RuleOptimizer, check_capturable, downhill
from nbgrad.optim.optimizer import Params


@cached(128)
def _rule(decays: bool, maximize: bool) -> Rule:
    def prepare(lr: Any, rho: Any, eps: Any, weight_decay: Any, step: Any) -> dict[str, Any]:
        return dict(rate=lr, rho=rho, fresh=1 - rho, eps=eps, decay=weight_decay)

    def body(p: Any, g: Any, square_avg: Any, acc_delta: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
        square = square_avg * n.rho + g * g * n.fresh
        delta = sqrt(acc_delta + n.eps) / sqrt(square + n.eps) * g
        return p - delta * n.rate, square, acc_delta * n.rho + delta * delta * n.fresh

    return Rule("adadelta", prepare, body)


class Adadelta(RuleOptimizer):
    """Steps of the size of earlier ones over that of gradients: `v = rho * v + (1 - rho) * g**2`, `d = g * sqrt(u + eps) / sqrt(v +
    eps)`, `u = rho * u + (1 - rho) * d**2`, and `p -= lr * d`.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([5.0])
    >>> torch.optim.Adadelta([p], lr=10.0).step()
    >>> p.data
    tensor([0.9684])
    """

    _judged = "lr rho eps weight_decay"
    _options = "lr rho eps weight_decay maximize capturable foreach differentiable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        self._begin(locals())

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        check_capturable(group, devices=())
        return _rule(bool(group["weight_decay"] != 0), bool(group["maximize"]))

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return group["lr"], group["rho"], group["eps"], group["weight_decay"]


__all__ = ["Adadelta"]
