"""Adamax: Adam with the largest gradient, decaying, in place of the root of the mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.ops.pointwise.arithmetic import abs
from nbgrad.ops.pointwise.choices import maximum
from nbgrad.optim._update import Rule, RuleOptimizer, check_capturable, downhill
from nbgrad.optim.optimizer import Params


@cached(128)
def _rule(decays: bool, maximize: bool) -> Rule:
    def prepare(lr: Any, beta1: Any, beta2: Any, eps: Any, weight_decay: Any, step: Any) -> dict[str, Any]:
        return dict(rate=lr / (1 - beta1**step), fresh=1 - beta1, beta2=beta2, eps=eps, decay=weight_decay)

    def body(p: Any, g: Any, exp_avg: Any, exp_inf: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
        m = exp_avg + (g - exp_avg) * n.fresh
        top = maximum(exp_inf * n.beta2, abs(g) + n.eps)
        return p - m * n.rate / top, m, top

    return Rule("adamax", prepare, body)


class Adamax(RuleOptimizer):
    """`Adam` with a greatest gradient in place of the root of a mean of squares: `u = max(beta2 * u, |g| + eps)`, `p -= lr / (1 -
    beta1**t) * m / u` at step t.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([5.0])
    >>> torch.optim.Adamax([p], lr=0.1).step()
    >>> p.data
    tensor([0.9000])
    """

    _judged = "lr eps betas weight_decay"
    _options = "lr betas eps weight_decay foreach maximize differentiable capturable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        self._begin(locals())

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        check_capturable(group)
        return _rule(bool(group["weight_decay"] != 0), bool(group["maximize"]))

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return group["lr"], *group["betas"], group["eps"], group["weight_decay"]


__all__ = ["Adamax"]
