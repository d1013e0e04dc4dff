"""Gradients of an op by those of the ops that it stands for: where a kernel's gradient is to be differentiated, or a transform looks on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nbgrad.core.tensor import Tensor, edge, requires
from nbgrad.history.backward import run_backward
from nbgrad.ops.views.views import alias
from nbgrad.tape.modes import state


def gradients(
    g: Sequence[Any], tensors: Sequence[Tensor | None], wanted: Sequence[bool], run: Callable[..., Any]
) -> list[Tensor | None]:
    """Those of `run(tensors)`, of whose results `g` are the gradients: of operands under new names, so that one which was made of another
    gets no part of what is the other's."""
    recorded, state.grad = state.grad, True
    try:
        own = [_named(t) if t is not None and w else t for t, w in zip(tensors, wanted)]
        made = run(own)
    finally:
        state.grad = recorded
    found: dict[int, Tensor] = {}
    goals: dict[Any, dict[int, Any]] = {}
    for k, (t, w) in enumerate(zip(own, wanted)):
        if w and t is not None:
            node, number = edge(t)
            goals.setdefault(node, {})[number] = partial(found.__setitem__, k)
    roots = [(*edge(t), by) for t, by in zip(made, g) if t is not None and by is not None and requires(t)]
    run_backward(roots, recorded, recorded, goals)  # type: ignore[arg-type]
    return [found.get(k) for k in range(len(tensors))]


def _named(t: Tensor) -> Tensor:
    if requires(t):
        return alias(t)
    made: Tensor = t.detach()
    made._rg = 1
    return made
