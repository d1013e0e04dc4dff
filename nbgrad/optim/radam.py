"""RAdam: Adam that waits with its second moment until it has seen enough to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.expr import prims
from nbgrad.ops.pointwise.arithmetic import sqrt
from nbgrad.optim._update import Rule, RuleOptimizer, check_capturable, downhill
from nbgrad.optim.optimizer import Params


def _rectified(rho: Any, most: Any) -> Any:
    """The square root that scales the step, where `rho`, the number of steps that the second moment is worth, is above 5."""
    rho = prims.maximum(rho, 5.0)
    return prims.sqrt(prims.div((rho - 4) * (rho - 2) * most, (most - 4) * (most - 2) * rho))


@cached(128)
def _rule(decays: bool, decoupled: bool, maximize: bool) -> Rule:
    def prepare(lr: Any, beta1: Any, beta2: Any, eps: Any, weight_decay: Any, step: Any) -> dict[str, Any]:
        most = 2 / (1 - beta2) - 1
        left = 1 - beta2**step
        rho = most - 2 * step * beta2**step / left
        trusted = rho > 5
        return dict(
            rate=lr / (1 - beta1**step),
            scaled=prims.where(trusted, prims.sqrt(left) * _rectified(rho, most), 0.0),
            plain=prims.where(trusted, 0.0, 1.0),
            fresh1=1 - beta1,
            beta2=beta2,
            fresh2=1 - beta2,
            eps=eps,
            decay=weight_decay,
            keep=1 - lr * weight_decay,
        )

    def body(p: Any, g: Any, exp_avg: Any, exp_avg_sq: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize, decoupled)
        m = exp_avg + (g - exp_avg) * n.fresh1
        v = exp_avg_sq * n.beta2 + g * g * n.fresh2
        return p - m * n.rate * (n.scaled / (sqrt(v) + n.eps) + n.plain), m, v

    return Rule("radam", prepare, body, writes=2 if decays and decoupled else 1)


class RAdam(RuleOptimizer):
    """`Adam` that does without the root of the mean square for the first steps, over which that mean says too little, and then
    weighs it by a factor that tends to 1.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([5.0])
    >>> torch.optim.RAdam([p], lr=0.1).step()
    >>> p.data
    tensor([0.5000])
    """

    _judged = "lr eps betas weight_decay"
    _options = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        self._begin(locals())

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        check_capturable(group)
        decays = bool(group["weight_decay"] != 0)
        return _rule(decays, bool(group["decoupled_weight_decay"]), bool(group["maximize"]))

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return group["lr"], *group["betas"], group["eps"], group["weight_decay"]


__all__ = ["RAdam"]
