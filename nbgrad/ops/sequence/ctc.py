"""Connectionist temporal classification: the loss of labels whose steps are not known, an op with one kernel each way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.kernels.cpu import ctc as loops
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.views.copy import contiguous


@cached(256)
def _runners(sp: Spec, blank: int, longest: int, ignoring: bool) -> tuple[Callable[..., Any], ...]:
    """What computes losses and alpha of log-probabilities that lie so, and what their gradient."""
    steps, batch, classes = tuple(sp.shape)
    code, backend, wide = sp.dtype.code, sp.backend, 2 * longest + 1
    meta = backend.constants([batch, classes, blank, wide, steps, ignoring])
    losses, alpha, beta = sp.like((batch,)), sp.like((batch, steps, wide)), sp.like((batch, 2, wide))
    work = steps * batch * (wide * 8 + classes)

    def runner(made: tuple[str, tuple[str, ...]], name: str, *outs: Spec) -> Callable[..., Any]:
        source, codes = made
        address = backend.kernel(f"ctc_{name}_{code}", source, codes).address
        launch = backend.launch(len(codes) - 2, "", work)

        def run(*read: Tensor) -> tuple[Tensor, ...]:
            given = [t if t._spec.contiguous else contiguous(t.detach()) for t in read]
            results = tuple([empty(out) for out in outs])
            launch(address, batch, meta, *[t._buf for t in (*results, *given)])
            return results

        return run

    back = runner(loops.backward(code), "backward", sp.dense(), beta)
    return runner(loops.forward(code), "forward", losses, alpha), back


def _refused(g: Tensor) -> Any:
    raise RuntimeError("derivative for aten::_ctc_loss_backward is not implemented")


@differentiable("CtcLossBackward", raw=True, all=_refused)
def _back(
    grad: Tensor,
    losses: Tensor,
    alpha: Tensor,
    log_probs: Tensor,
    *labels: Tensor,
    blank: int,
    longest: int,
    zero_infinity: bool,
) -> Tensor:
    back = _runners(log_probs._spec, blank, longest, zero_infinity)[1]
    made: Tensor = back(grad, losses, alpha, log_probs, *labels)[0]
    return made


def _rule(
    g: list[Any],
    log_probs: Tensor,
    targets: Tensor,
    first: Tensor,
    inputs: Tensor,
    lengths: Tensor,
    y1: Tensor,
    y2: Tensor,
    blank: int,
    longest: int,
    zero_infinity: bool,
) -> Tensor:
    labels = targets, first, inputs, lengths
    settings = {"blank": blank, "longest": longest, "zero_infinity": zero_infinity}
    found: Tensor = _back(g[0], y1.detach(), y2.detach(), log_probs, *labels, **settings)
    return found


@differentiable("CtcLoss", raw=True, unmoved="_ctc_loss", log_probs=_rule)
def ctc(
    log_probs: Tensor,
    targets: Tensor,
    first: Tensor,
    inputs: Tensor,
    lengths: Tensor,
    *,
    blank: int,
    longest: int,
    zero_infinity: bool,
) -> tuple[Tensor, ...]:
    """The loss of each example of log-probabilities [steps, batch, classes], operands having been checked; with `zero_infinity` 0 where
    it is infinite. Then what the gradient reads: the losses, and alpha."""
    forward = _runners(log_probs._spec, blank, longest, zero_infinity)[0]
    losses, alpha = forward(log_probs, targets, first, inputs, lengths)
    shown = e.where(e.isinf(losses), 0.0, losses) if zero_infinity else losses.clone()
    return shown, losses, alpha
