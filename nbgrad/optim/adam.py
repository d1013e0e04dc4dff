"""Adam and AdamW: steps of the size of a gradient's mean over its spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.ops.pointwise.arithmetic import sqrt
from nbgrad.ops.pointwise.choices import maximum
from nbgrad.optim._update import Rule, RuleOptimizer, check_capturable, downhill
from nbgrad.optim.optimizer import Params


@cached(128)
def _rule(decays: bool, decoupled: bool, amsgrad: bool, maximize: bool) -> Rule:
    def prepare(lr: Any, beta1: Any, beta2: Any, eps: Any, weight_decay: Any, step: Any) -> dict[str, Any]:
        return dict(
            rate=lr / (1 - beta1**step),
            spread=(1 - beta2**step) ** 0.5,
            fresh1=1 - beta1,
            beta2=beta2,
            fresh2=1 - beta2,
            eps=eps,
            decay=weight_decay,
            keep=1 - lr * weight_decay,
        )

    def moments(p: Any, g: Any, m: Any, v: Any, n: Any) -> Any:
        p, g = downhill(p, g, n, decays, maximize, decoupled)
        return p, m + (g - m) * n.fresh1, v * n.beta2 + g * g * n.fresh2

    def stepped(p: Any, m: Any, v: Any, n: Any) -> Any:
        return p - m * n.rate / (sqrt(v) / n.spread + n.eps)

    def plain(p: Any, g: Any, exp_avg: Any, exp_avg_sq: Any, n: Any) -> Any:
        p, m, v = moments(p, g, exp_avg, exp_avg_sq, n)
        return stepped(p, m, v, n), m, v

    def capped(p: Any, g: Any, exp_avg: Any, exp_avg_sq: Any, max_exp_avg_sq: Any, n: Any) -> Any:
        p, m, v = moments(p, g, exp_avg, exp_avg_sq, n)
        top = maximum(max_exp_avg_sq, v)
        return stepped(p, m, top, n), m, v, top

    body, writes = capped if amsgrad else plain, 2 if decays and decoupled else 1
    return Rule("adam", prepare, body, writes, capturable=True)


class Adam(RuleOptimizer):
    """Steps by a mean of gradients over the root of a mean of their squares: `m = beta1 * m + (1 - beta1) * g`, `v = beta2 * v + (1
    - beta2) * g**2`, and `p -= lr * m' / (sqrt(v') + eps)`, where `m' = m / (1 - beta1**t)` and v' alike at step t.
    `weight_decay` adds `weight_decay * p` to g; `amsgrad` takes the greatest v so far.

    >>> p = nn.Parameter(torch.tensor([1.0, 1.0]))
    >>> p.grad = torch.tensor([100.0, -0.01])
    >>> torch.optim.Adam([p], lr=0.1).step()
    >>> p.data
    tensor([0.9000, 1.1000])
    """

    _judged = "lr eps betas weight_decay"
    _options = "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        self._begin(locals())

    def _judge(self, given: dict[str, Any]) -> None:
        captured = given["capturable"] or not given["foreach"]
        if isinstance(given["lr"], Tensor) and not captured:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        super()._judge(given)
        betas = given["betas"]
        if isinstance(betas[0], Tensor) is not isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        for k, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                if not captured:
                    raise ValueError(
                        f"betas[{k}] as a Tensor is not supported for capturable=False and foreach=True"
                    )
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{k}] must be 1-element")

    def _check_sparse(self, group: dict[str, Any]) -> None:
        raise RuntimeError(
            "Adam does not support sparse gradients, please consider SparseAdam instead"
        )  # AdamW's, too

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        check_capturable(group)
        decays = bool(group["weight_decay"] != 0)
        return _rule(
            decays, bool(group["decoupled_weight_decay"]), bool(group["amsgrad"]), bool(group["maximize"])
        )

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        return group["lr"], *group["betas"], group["eps"], group["weight_decay"]


class AdamW(Adam):
    """`Adam` whose weight decay shrinks the parameters themselves, `p *= 1 - lr * weight_decay` before each step, and not by way of
    the gradient.

    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([0.0])
    >>> torch.optim.AdamW([p], lr=0.1, weight_decay=0.5).step()
    >>> p.data
    tensor([0.9500])
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        self._begin(locals() | {"decoupled_weight_decay": True})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


__all__ = ["Adam", "AdamW"]
