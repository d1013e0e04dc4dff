"""NAdam: Adam that looks one step of its momentum ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.ops.pointwise.arithmetic import sqrt
from nbgrad.ops.views.copy import scalar
from nbgrad.optim._update import Rule, RuleOptimizer, check_capturable, count_dtype, downhill
from nbgrad.optim.optimizer import Params


def _momentum(beta1: Any, momentum_decay: Any, step: Any) -> Any:
    return beta1 * (1 - 0.5 * 0.96 ** (step * momentum_decay))


@cached(128)
def _rule(decays: bool, decoupled: bool, maximize: bool) -> Rule:
    def prepare(
        lr: Any,
        beta1: Any,
        beta2: Any,
        eps: Any,
        weight_decay: Any,
        momentum_decay: Any,
        mu_product: Any,
        step: Any,
    ) -> dict[str, Any]:
        now, then = (_momentum(beta1, momentum_decay, step + k) for k in (0, 1))
        return dict(
            rate=lr * (1 - now) / (1 - mu_product),
            ahead=lr * then / (1 - mu_product * then),
            fresh1=1 - beta1,
            beta2=beta2,
            fresh2=1 - beta2,
            spread=1 - beta2**step,
            eps=eps,
            decay=weight_decay,
            keep=1 - lr * weight_decay,
        )

    def body(p: Any, g: Any, exp_avg: Any, exp_avg_sq: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize, decoupled)
        m = exp_avg + (g - exp_avg) * n.fresh1
        v = exp_avg_sq * n.beta2 + g * g * n.fresh2
        below = sqrt(v / n.spread) + n.eps
        return p - g * n.rate / below - m * n.ahead / below, m, v

    return Rule("nadam", prepare, body, writes=3 if decays and decoupled else 2)


class NAdam(RuleOptimizer):
    """`Adam` that looks one step of its momentum ahead: with `mu(t) = beta1 * (1 - 0.5 * 0.96**(t * momentum_decay))`, the step is
    by `mu(t + 1) * m` and `(1 - mu(t)) * g`, each less its bias, over `sqrt(v') + eps`.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([5.0])
    >>> torch.optim.NAdam([p], lr=0.1).step()
    >>> p.data
    tensor([0.8944])
    """

    _judged = "lr eps betas weight_decay momentum_decay"
    _options = "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"

    _differs = True

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        self._begin(locals())

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        check_capturable(group, "params, mu_products and state_steps")
        decays = bool(group["weight_decay"] != 0)
        return _rule(decays, bool(group["decoupled_weight_decay"]), bool(group["maximize"]))

    def _init(self, p: Tensor, group: dict[str, Any], rule: Rule) -> dict[str, Any]:
        step, *moments = super()._init(p, group, rule).items()
        return dict([step, ("mu_product", scalar(1.0, count_dtype())), *moments])

    def _own(self, state: dict[str, Any], group: dict[str, Any]) -> tuple[Any, ...]:
        step = state["step"].item() + 1
        product: Any = state["mu_product"]
        product.mul_(_momentum(float(group["betas"][0]), group["momentum_decay"], step))
        if group["differentiable"] and product.requires_grad:  # who asks for its gradient gets it
            return (product.clone(),)
        return (product.item(),)

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        options = "eps", "weight_decay", "momentum_decay"
        return group["lr"], *group["betas"], *(group[name] for name in options)


__all__ = ["NAdam"]
