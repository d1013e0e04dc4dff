"""Adam for gradients that hold some rows of a table: the others stay as they are, and so do their moments."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

from nbgrad.autograd.grad_mode import enable_grad, no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.ops.make.filled import zeros_like
from nbgrad.optim._update import check_option, number
from nbgrad.optim.optimizer import Optimizer, Params


class SparseAdam(Optimizer):
    """`Adam` of sparse gradients: of an element that a gradient does not hold neither the moments nor the value change. Bias is corrected
    by the number of steps of the whole parameter.

    >>> table = nn.Embedding(4, 2, sparse=True)
    >>> before = table.weight.detach().clone()
    >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> table(torch.tensor([1, 3, 1])).sum().backward()
    >>> optimizer.step()
    >>> (before - table.weight.detach()).round(decimals=4)
    tensor([[0.0000, 0.0000],
            [0.1000, 0.1000],
            [0.0000, 0.0000],
            [0.1000, 0.1000]])
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_option("lr", lr)
        for name, value in ("lr", lr), ("eps", eps):
            if not 0.0 < value:  # noqa: SIM300  as in `check_option`
                raise ValueError(f"Invalid {'learning rate' if name == 'lr' else 'epsilon value'}: {value}")
        check_option("betas", betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        places = [
            ([k, j], p) for k, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])
        ]
        sparse = [place for place, p in places if p.is_sparse]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        numbers = [place for place, p in places if p.is_complex()]
        if numbers:
            raise ValueError(
                f"Complex params at indices {numbers}: SparseAdam does not support complex parameters"
            )

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the elements that gradients hold. A `closure`, if given, is called first with gradients enabled, and its loss is the
        result."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            found = []
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not p.grad.is_sparse:
                    raise RuntimeError(
                        "SparseAdam does not support dense gradients, please consider Adam instead"
                    )
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
                state["step"] += 1
                found.append((p, state))
            for p, state in found:
                _stepped(p, state, group)
        return loss


def _stepped(p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    grad: Any = p.grad
    grad = (
        -grad if group.get("maximize") else grad
    ).coalesce()  # each element once, as the step is not linear
    values = grad._values()
    if not values.numel():
        return
    beta1, beta2 = group["betas"]
    moved = []
    for name, beta, new in ("exp_avg", beta1, values), ("exp_avg_sq", beta2, values * values):
        old = state[name].sparse_mask(grad)._values()
        change = (new - old) * (1 - beta)
        state[name].add_(grad.with_values(change))
        moved.append(old + change)
    rate = number(group["lr"]) * sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
    p.add_(grad.with_values(moved[0] / (moved[1].sqrt() + group["eps"]) * -rate))


__all__ = ["SparseAdam"]
