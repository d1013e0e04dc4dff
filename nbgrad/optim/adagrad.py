"""Adagrad: gradients over the root of the sum of all squares so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.ops.pointwise.arithmetic import sqrt
from nbgrad.optim._update import Rule, RuleOptimizer, downhill, filled_like, number
from nbgrad.optim.optimizer import Params


@cached(128)
def _rule(decays: bool, maximize: bool) -> Rule:
    def prepare(lr: Any, lr_decay: Any, eps: Any, weight_decay: Any, step: Any) -> dict[str, Any]:
        return dict(rate=lr / (1 + (step - 1) * lr_decay), eps=eps, decay=weight_decay)

    def body(p: Any, g: Any, sum: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
        total = sum + g * g
        return p - g * n.rate / (sqrt(total) + n.eps), total

    return Rule("adagrad", prepare, body)


class Adagrad(RuleOptimizer):
    """Steps that get smaller by all that was before: `s += g**2`, `p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)` at step
    t; s begins as `initial_accumulator_value`.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([5.0])
    >>> torch.optim.Adagrad([p], lr=0.1).step()
    >>> p.data
    tensor([0.9000])
    """

    _judged = "lr lr_decay weight_decay initial_accumulator_value eps"
    _options = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        self._begin(locals())
        for group in self.param_groups:  # PyTorch's Adagrad has its state from the start
            for p in group["params"]:
                self.state[p] = self._init(p, group, self._rule(group, True))

    def _init(self, p: Tensor, group: dict[str, Any], rule: Rule) -> dict[str, Any]:
        start = group["initial_accumulator_value"]
        return super()._init(p, group, rule) | {"sum": filled_like(p, start)}

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        return _rule(bool(group["weight_decay"] != 0), bool(group["maximize"]))

    def _check_sparse(self, group: dict[str, Any]) -> None:
        if group["fused"]:
            raise RuntimeError("`fused` does not support sparse grad or complex param")
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")

    def _step_sparse(self, p: Tensor, group: dict[str, Any]) -> None:
        state, grad = self.state[p], cast(Any, p.grad)
        state["step"] += 1
        rate = number(group["lr"]) / (1 + (float(state["step"]) - 1) * group["lr_decay"])
        grad = (
            -grad if group["maximize"] else grad
        ).coalesce()  # each element once, as the step is not linear
        values = grad._values()
        state["sum"].add_(grad.with_values(values * values))
        total = state["sum"].sparse_mask(grad)._values()
        p.add_(grad.with_values(values / (total.sqrt() + group["eps"])), alpha=-rate)

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return group["lr"], group["lr_decay"], group["eps"], group["weight_decay"]


__all__ = ["Adagrad"]
