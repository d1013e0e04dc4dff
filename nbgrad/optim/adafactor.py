"""Adafactor: of a matrix's squared gradients only the means of rows and columns are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.autograd.grad_mode import enable_grad, no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.memory.dtypes import finfo
from nbgrad.ops.linear.norms import vector_norm
from nbgrad.ops.make.data import tensor
from nbgrad.ops.make.filled import zeros_like
from nbgrad.optim.optimizer import Optimizer, Params


class Adafactor(Optimizer):
    """Steps by the gradient over the root of a mean of its squares, of which for a matrix only row and column means are kept: memory of
    m + n numbers in place of m * n. A step's size is relative to the parameter's own root mean square (at least `eps[1]`), at most `lr`
    and falling with the root of the number of steps; what is longer than `d` is shortened. `beta2_decay` is the power by which older
    squares count less.

    >>> p = nn.Parameter(torch.ones(2, 2))
    >>> p.grad = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    >>> torch.optim.Adafactor([p], lr=0.1).step()
    >>> (p.data < 1).tolist()
    [[True, False], [True, True]]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        told = dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay)
        super().__init__(params, told | {"foreach": foreach, "maximize": maximize})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for p in group["params"]:
                kept = self.state.get(p, {})
                if kept and not isinstance(kept["step"], Tensor):
                    kept["step"] = tensor(float(kept["step"]))

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step.

        >>> p = nn.Parameter(torch.ones(2))
        >>> torch.optim.Adafactor([p]).step(lambda: p.sum().backward())
        >>> p.grad
        tensor([1., 1.])
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if p.grad.is_sparse:
                        raise RuntimeError("Adafactor does not support sparse gradients")
                    if p.is_complex():
                        raise RuntimeError("Adafactor does not support complex parameters")
                    _stepped(p, -p.grad if group["maximize"] else p.grad, self._state_of(p), group)
        return loss

    def _state_of(self, p: Tensor) -> dict[str, Any]:
        kept: dict[str, Any] = self.state[p]
        if not kept:
            kept["step"] = tensor(0.0)
            if p.ndim > 1:
                kept["row_var"] = p.new_zeros((*p.shape[:-1], 1))
                kept["col_var"] = p.new_zeros((*p.shape[:-2], 1, p.shape[-1]))
            else:
                kept["variance"] = zeros_like(p)
        return kept


def _stepped(p: Tensor, grad: Tensor, kept: dict[str, Any], group: dict[str, Any]) -> None:
    lr, (eps1, eps2) = float(group["lr"]), group["eps"]
    eps1 = finfo(p.dtype).eps if eps1 is None else eps1
    kept["step"] += 1
    step = kept["step"].item()
    fresh = step ** group["beta2_decay"]
    rate = max(eps2, _root_mean_square(p)) * min(lr, 1 / step**0.5)
    if group["weight_decay"]:
        p.mul_(1 - lr * group["weight_decay"])
    if p.ndim > 1:
        for name, dim in (("row_var", -1), ("col_var", -2)):
            squares = vector_norm(grad, dim=dim, keepdim=True).square().div(grad.size(dim))
            kept[name].lerp_(squares, fresh)
        spread = kept["row_var"] @ kept["col_var"]
        spread /= kept["row_var"].mean(dim=-2, keepdim=True).clamp(min=eps1)
    else:
        spread = kept["variance"].lerp_(grad * grad, fresh)
    update = spread.clamp(min=eps1 * eps1).rsqrt() * grad
    p.add_(update, alpha=-rate / max(1.0, _root_mean_square(update) / group["d"]))


def _root_mean_square(t: Tensor) -> float:
    return float(vector_norm(t).item()) / float(t.numel()) ** 0.5


__all__ = ["Adafactor"]
