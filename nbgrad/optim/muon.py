"""Muon: the momentum of a matrix is made nearly orthogonal before it is stepped by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nbgrad.autograd.grad_mode import enable_grad, no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.ops.linear.sums_of_products import addmm
from nbgrad.ops.make.filled import zeros_like
from nbgrad.optim._update import number
from nbgrad.optim.optimizer import Optimizer, Params


class Muon(Optimizer):
    """For matrices: of a mean of gradients (`momentum` is the share of the older ones; with `nesterov` it looks a step ahead) all singular
    values are brought near to 1 by `ns_steps` rounds of a polynomial, in bfloat16, and the parameter steps by that, times `lr` and a
    factor of its shape. `weight_decay` shrinks the parameter itself.

    >>> p = nn.Parameter(torch.eye(2))
    >>> p.grad = torch.tensor([[0.1, 0.0], [0.0, 5.0]])
    >>> torch.optim.Muon([p], lr=0.5, weight_decay=0.0).step()
    >>> (p.data.diagonal() < 0.8).all()
    tensor(True)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        told: dict[str, Any] = dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov)
        told |= dict(ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn)
        super().__init__(params, told)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step.

        >>> p = nn.Parameter(torch.ones(2, 2))
        >>> torch.optim.Muon([p]).step(lambda: p.sum().backward())
        >>> (p.data < 1).all()
        tensor(True)
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if p.is_complex():
                        raise RuntimeError("Muon does not support complex parameters")
                    if p.grad.is_sparse:
                        raise RuntimeError("Muon does not support sparse gradients")
                    kept = self.state[p]
                    if "momentum_buffer" not in kept:
                        kept["momentum_buffer"] = zeros_like(p.grad)
                    _stepped(p, p.grad, kept["momentum_buffer"], group)
        return loss


def _stepped(p: Tensor, grad: Tensor, mean: Tensor, group: dict[str, Any]) -> None:
    lr, momentum = number(group["lr"]), group["momentum"]
    mean.lerp_(grad, 1 - momentum)
    update = grad.lerp(mean, momentum) if group["nesterov"] else mean
    update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
    rows, columns = p.shape
    factor = math.sqrt(max(1, rows / columns))
    if group["adjust_lr_fn"] == "match_rms_adamw":
        factor = 0.2 * math.sqrt(max(rows, columns))
    p.mul_(1 - lr * group["weight_decay"])
    p.add_(update, alpha=-lr * factor)


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], rounds: int, eps: float) -> Tensor:
    """The matrix with singular values between about 0.7 and 1.2: those of x become a x + b x**3 + c x**5 in each round."""
    if rounds >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x: Tensor = matrix.bfloat16()
    x = x.T if tall else x
    x.div_(x.norm().clamp(min=eps))
    for _ in range(rounds):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


__all__ = ["Muon"]
