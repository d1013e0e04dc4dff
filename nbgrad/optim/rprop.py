"""Rprop: each element has a step of its own, which grows while its gradient keeps its sign; the gradient's size plays no part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.ops.pointwise.arithmetic import sign
from nbgrad.ops.pointwise.choices import _where, clamp
from nbgrad.optim._update import Rule, RuleOptimizer, check_capturable, filled_like, number
from nbgrad.optim.optimizer import Params


@cached(128)
def _rule(maximize: bool) -> Rule:
    def prepare(less: Any, more: Any, least: Any, most: Any, step: Any) -> dict[str, Any]:
        return dict(less=less, more=more, least=least, most=most)

    def body(p: Any, g: Any, prev: Any, step_size: Any, n: Any) -> Any:
        g = -g if maximize else g
        agreed = g * prev
        turned = agreed < 0
        kept = _where(agreed > 0, step_size * n.more, step_size)
        size = clamp(_where(turned, step_size * n.less, kept), n.least, n.most)
        g = _where(turned, 0.0, g)
        return p - sign(g) * size, g, size

    return Rule("rprop", prepare, body)


class Rprop(RuleOptimizer):
    """Each element has a step of its own, which begins as `lr`, is multiplied by `etas[1]` while its gradient keeps its sign and by
    `etas[0]` when that turns (and then does not move), within `step_sizes`. The gradient's size plays no part.

    >>> p = nn.Parameter(torch.tensor([1.0, 1.0]))
    >>> p.grad = torch.tensor([100.0, -0.01])
    >>> torch.optim.Rprop([p], lr=0.1).step()
    >>> p.data
    tensor([0.9000, 1.1000])
    """

    _judged = "lr etas"
    _options = "lr etas step_sizes foreach maximize differentiable capturable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        self._begin(locals())

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        check_capturable(group)
        return _rule(bool(group["maximize"]))

    def _init(self, p: Tensor, group: dict[str, Any], rule: Rule) -> dict[str, Any]:
        return super()._init(p, group, rule) | {"step_size": filled_like(p, number(group["lr"]))}

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return *group["etas"], *group["step_sizes"]


__all__ = ["Rprop"]
