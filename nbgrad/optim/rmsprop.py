"""RMSprop: gradients over the root of their mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.ops.pointwise.arithmetic import sqrt
from nbgrad.optim._update import Rule, RuleOptimizer, check_capturable, downhill
from nbgrad.optim.optimizer import Params


@cached(128)
def _rule(decays: bool, momentum: bool, centered: bool, maximize: bool) -> Rule:
    def prepare(lr: Any, alpha: Any, eps: Any, weight_decay: Any, momentum: Any, step: Any) -> dict[str, Any]:
        return dict(rate=lr, alpha=alpha, fresh=1 - alpha, eps=eps, decay=weight_decay, momentum=momentum)

    def scaled(g: Any, square: Any, n: Any) -> Any:
        return g / (sqrt(square) + n.eps)

    def mean(average: Any, value: Any, n: Any) -> Any:
        return average + (value - average) * n.fresh

    def mean_square(average: Any, g: Any, n: Any) -> Any:
        return average * n.alpha + g * g * n.fresh

    def plain(p: Any, g: Any, square_avg: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
        square = mean_square(square_avg, g, n)
        return p - scaled(g, square, n) * n.rate, square

    def heavy(p: Any, g: Any, square_avg: Any, momentum_buffer: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
        square = mean_square(square_avg, g, n)
        kept = momentum_buffer * n.momentum + scaled(g, square, n)
        return p - kept * n.rate, square, kept

    def plain_centered(p: Any, g: Any, square_avg: Any, grad_avg: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
        square, average = mean_square(square_avg, g, n), mean(grad_avg, g, n)
        return p - scaled(g, square - average * average, n) * n.rate, square, average

    def heavy_centered(p: Any, g: Any, square_avg: Any, momentum_buffer: Any, grad_avg: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize)
        square, average = mean_square(square_avg, g, n), mean(grad_avg, g, n)
        kept = momentum_buffer * n.momentum + scaled(g, square - average * average, n)
        return p - kept * n.rate, square, kept, average

    if centered:
        return Rule("rmsprop", prepare, heavy_centered if momentum else plain_centered)
    return Rule("rmsprop", prepare, heavy if momentum else plain)


class RMSprop(RuleOptimizer):
    """Steps by gradients over the root of a mean of their squares: `v = alpha * v + (1 - alpha) * g**2`, `p -= lr * g / (sqrt(v) +
    eps)`. `centered` takes the square of the gradients' mean from v; with `momentum`, `b = momentum * b + g / (sqrt(v) + eps)` is
    what is stepped by.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([5.0])
    >>> torch.optim.RMSprop([p], lr=0.01).step()
    >>> p.data
    tensor([0.9000])
    """

    _judged = "lr eps momentum weight_decay alpha"
    _options = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        self._begin(locals())

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        check_capturable(group)
        decays = bool(group["weight_decay"] != 0)
        return _rule(decays, group["momentum"] > 0, bool(group["centered"]), bool(group["maximize"]))

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return group["lr"], group["alpha"], group["eps"], group["weight_decay"], group["momentum"]


__all__ = ["RMSprop"]
