"""ASGD: gradient descent with shrinking steps, and the mean of where it has been beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.ops.views.copy import scalar
from nbgrad.optim._update import Rule, RuleOptimizer, check_capturable, count_dtype, downhill, number
from nbgrad.optim.optimizer import Params


@cached(128)
def _rule(decays: bool, maximize: bool) -> Rule:
    def prepare(lambd: Any, weight_decay: Any, eta: Any, mu: Any, step: Any) -> dict[str, Any]:
        return dict(rate=eta, keep=1 - lambd * eta, decay=weight_decay, fresh=mu, stale=1 - mu)

    def body(p: Any, g: Any, ax: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
        p = p * n.keep - g * n.rate
        return p, ax * n.stale + p * n.fresh

    return Rule("asgd", prepare, body, writes=2)


class ASGD(RuleOptimizer):
    """Gradient descent with shrinking steps, `p = p * (1 - lambd * eta) - eta * g`, where `eta = lr / (1 + lambd * lr * t)**alpha`
    after step t; the state `ax` is where p is, from step `t0` on the mean of where it has been.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([5.0])
    >>> torch.optim.ASGD([p], lr=0.1, lambd=0.0).step()
    >>> p.data
    tensor([0.5000])
    """

    _judged = "lr weight_decay"
    _options = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"

    _differs = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        self._begin(locals())

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        check_capturable(group, "params, mus, etas, and state_steps")
        return _rule(bool(group["weight_decay"] != 0), bool(group["maximize"]))

    def _init(self, p: Tensor, group: dict[str, Any], rule: Rule) -> dict[str, Any]:
        step, *averages = super()._init(p, group, rule).items()
        eta, mu = (scalar(number(x), count_dtype()) for x in (group["lr"], 1.0))
        return dict([step, ("eta", eta), ("mu", mu), *averages])

    def _own(self, state: dict[str, Any], group: dict[str, Any]) -> tuple[float, ...]:
        """This step's rate and weight in the mean; the next step's are put in their place."""
        eta, mu = state["eta"], state["mu"]
        now = eta.item(), mu.item()
        step, lr, lambd = state["step"].item() + 1, number(group["lr"]), group["lambd"]
        eta.fill_(lr / (1 + lambd * lr * step) ** group["alpha"])
        mu.fill_(1 / max(1, step - group["t0"]))
        return now

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return group["lambd"], group["weight_decay"]


__all__ = ["ASGD"]
