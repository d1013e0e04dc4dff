"""What the engine needs of tensors: their hooks run, gradients are summed, and anomalies told with where they come from.

Promises `run_backward`, the one way into the engine.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from sys import getrefcount
from typing import Any

import numpy as np

from nbgrad.core import overrides
from nbgrad.core.refusals import kind_of
from nbgrad.core.tensor import Tensor, hooks, meta
from nbgrad.memory.backend import check_room
from nbgrad.memory.storage import Batched, Spec
from nbgrad.tape import engine
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import HookTable, Node

# ---------------------------------------------------------------- running


def run_backward(
    roots: list[tuple[Node, int, Any]], keep: bool, graph: bool, wanted: engine.Wanted | None = None
) -> None:
    run = engine.run if state.task is None else engine.run_nested
    before, after = prepare, finish
    asked, outside = state.asked, state.outside
    if overrides.armed.on:  # what rules call, nobody is asked for; what hooks call, as outside
        state.outside, state.asked = asked, overrides.NOBODY
        before, after = partial(_asking, prepare), partial(_asking, finish)
    # Rules that launch on memory do not see what a transform has put round a tensor: inside of one, those that call ops are run.
    try:
        run(roots, keep, graph, graph or state.active > 0, add_grads, before, after, watch, wanted)
    except MemoryError as error:
        check_room(error)
        raise
    finally:
        state.asked, state.outside = asked, outside


def _asking(function: Any, *args: Any) -> Any:
    with overrides.switched(state.outside):
        return function(*args)


def watch(node: Node, grads: Any, needed: Any, graph: bool) -> Any:
    """Run a node in anomaly mode: what goes wrong is told with where the forward pass recorded it."""
    before, state.node = state.node, node
    try:
        results = node.rule.apply(node, grads, needed, graph)
        for k, grad in enumerate(results if shared.check_nan else ()):
            if isinstance(grad, Tensor) and grad.is_sparse:
                grad = grad._values()  # type: ignore[attr-defined]
            while isinstance(grad, Tensor) and type(grad._buf) is Batched:
                grad = grad._buf.inner  # of all examples of a vmap
            if isinstance(grad, Tensor) and grad.is_floating_point() and np.isnan(grad._host()).any():
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {k}th output.")
    except Exception:
        _tell_origin(node)
        raise
    finally:
        state.node = before
    return results


def _tell_origin(node: Node) -> None:
    told = node.metadata.get("traceback_")
    if told is None:
        told = "No forward pass information available. Enable detect anomaly during forward pass for more information."
        _warn(f"Error detected in {node.name()}. {told}")
        return
    _warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{''.join(told)}"
    )
    seen = {node}
    parent = node.metadata.get("parent_")
    while parent is not None and parent not in seen:
        seen.add(parent)
        told = parent.metadata.get("traceback_")
        text = f"\n\nPrevious calculation was induced by {parent.name()}. "
        if told is None:
            text += "No forward pass information available."
        else:
            text += f"Traceback of forward call that induced the previous calculation:\n{''.join(told)}"
        _warn(text)
        parent = parent.metadata.get("parent_")


def _warn(text: str) -> None:
    """A warning beside an error, which goes to stderr where warnings are errors: it must not take the error's place."""
    try:
        warnings.warn(text, UserWarning, stacklevel=3)
    except UserWarning:
        sys.stderr.write(f"UserWarning: {text}\n")


def note_origin(node: Node) -> None:
    """Called for what is recorded while `shared.rare`: in anomaly mode a node remembers where it was recorded."""
    if shared.anomaly:
        import traceback

        frame: Any = sys._getframe()
        while frame.f_back and frame.f_globals.get("__name__", "nbgrad.").startswith("nbgrad."):
            frame = frame.f_back  # out of the library; what it has generated is in no module
        node.metadata["traceback_"] = traceback.format_stack(frame)
        if state.node is not None:
            node.metadata["parent_"] = state.node


# ---------------------------------------------------------------- hooks and sums


def run_tensor_hooks(registered: HookTable, grad: Any) -> Any:
    for hook in list(registered.values()):
        got = hook(grad)
        if got is not None:
            grad = _checked_hook_value(hook, grad, got)
    return grad


def _checked_hook_value(hook: Any, grad: Tensor | None, got: Any) -> Tensor:
    if grad is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(got, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(got).__name__}'")
    if got._spec.shape != grad._spec.shape:
        raise RuntimeError(f"hook '{name}' has changed the size of value")
    if got.is_sparse is not grad.is_sparse:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was {grad.type()} got {got.type()})"
        )
    if got._spec.dtype is not grad._spec.dtype:
        was, now = kind_of(grad._spec.dtype), kind_of(got._spec.dtype)
        raise RuntimeError(f"hook '{name}' has changed the type of value (was {was} got {now})")
    return got


def prepare(node: Node, grads: Any, runs: bool) -> Any:
    """Before a node runs: hooks of its output tensors, then what retain_grad stores, then (if it `runs`) its own pre-hooks."""
    single = node.outputs == 1
    values = [grads] if single else grads
    for number, registered in (node.tensor_hooks or {}).items():
        values[number] = run_tensor_hooks(registered, values[number])
    for number, reference in (node.retain or {}).items():
        kept = reference()
        if kept is not None and values[number] is not None:
            _retain(kept, values[number])
    for hook in list(node.prehooks.values()) if runs and node.prehooks else ():
        got = hook(tuple(values))
        if got is not None:
            values = list(_checked_hook_values(hook, values, got))
    return values[0] if single else values


def _retain(t: Tensor, grad: Tensor) -> None:
    ad = meta(t)
    ad.grad = hooks.add(ad.grad, grad) if ad.grad is not None else hooks.clone(grad)


def finish(node: Node, results: Any, grads: Any) -> Any:
    """After a node has run: its hooks may replace what it gives."""
    assert node.hooks is not None
    outs = (grads,) if node.outputs == 1 else tuple(grads)
    for hook in list(node.hooks.values()):
        got = hook(tuple(results), outs)
        if got is not None:
            results = _checked_hook_values(hook, results, got)
    return results


def _checked_hook_values(hook: Any, values: Any, got: Any) -> tuple[Any, ...]:
    if not isinstance(got, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(got).__name__}'")
    if len(got) != len(values):
        name = getattr(hook, "__name__", type(hook).__name__)
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(got)}, but expected {len(values)})"
        )
    for value, new_value in zip(values, got):
        if new_value is not None:
            _checked_hook_value(hook, value, new_value)
    return got


def add_grads(total: Tensor, grad: Tensor, owned: bool) -> Tensor:
    """Into the total's own memory where nobody else has it: 3 in the engine's table, here, and getrefcount's argument."""
    if not state.grad and total._spec is grad._spec and type(total._spec) is Spec:
        buf = total._buf
        sole = buf.base is None and getrefcount(buf) == 3 and getrefcount(total) == 3
        if owned or (sole and total._spec.contiguous):  # an expanded gradient shows one element many times
            return hooks.add_(total, grad)
    if total.is_sparse:  # the later one comes first, as in PyTorch
        return hooks.add(grad, total)
    return hooks.add(total, grad)
