"""Two tensors that exchange all they are, while both stay the same objects: `torch.utils.swap_tensors`."""

from __future__ import annotations

import copyreg
import gc
import weakref
from sys import getrefcount
from typing import Any, NoReturn, cast

from nbgrad.core.overrides import finalizer_of
from nbgrad.core.tensor import AutogradMeta, Tensor, View
from nbgrad.tape.node import Node, shown

_POISONED = (
    "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to run backward on a "
    "tensor that was swapped. For a module m with `torch.__future__.set_swap_module_params_on_conversion(True)` you should not "
    "change the device or dtype of the module (e.g. `m.cpu()` or `m.half()`) between running forward and backward. To resolve "
    "this, please only change the device/dtype before running forward (or after both forward and backward)."
)


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange class, memory, history, gradient and attributes of two tensors, so that who holds one sees what the other was. Refused
    where a graph, a view or a weak reference would then see another tensor than it was made of.

    >>> a, b = torch.ones(2), torch.arange(3)
    >>> held = [a]
    >>> torch.utils.swap_tensors(a, b)
    >>> held[0]
    tensor([0, 1, 2])
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if _is_weakly_held(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = set(_slots(t1))
    if slots != set(_slots(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for name, t, uses in zip(("t1", "t2"), (t1, t2), _use_counts(t1, t2)):
        if uses > 2 or (uses == 2 and not _is_awaited(t)):
            raise RuntimeError(
                f"Expected use_count of {name} to be 1 or 2 with an AccumulateGrad node but got {uses} make sure you are not holding "
                "references to the tensor in other places."
            )
    both: tuple[Any, Any] = (t1, t2)
    for t in both:
        if _is_awaited(t):
            shown(t._ad.sink).register_prehook(_poisoned)
    finalizers = [finalizer_of(t) for t in both]
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    for slot in ("__dict__", *slots):
        held = [getattr(t, slot, _EMPTY) for t in both]
        for t, value in zip(both, reversed(held)):
            if value is not _EMPTY:
                setattr(t, slot, value)
            elif hasattr(t, slot):
                delattr(t, slot)
    for t in both:
        if t._ad is not None and t._ad.sink is not None:
            t._ad.sink.static = weakref.ref(t)
    for t, finalizer in zip(reversed(both), finalizers):
        told = None if finalizer is None else finalizer.detach()
        if told is not None:
            weakref.finalize(t, told[1], *told[2]).atexit = False


_EMPTY: Any = object()  # what a slot has that nothing was put in


def _slots(t: Tensor) -> list[str]:
    return cast("list[str]", copyreg._slotnames(type(t)))  # type: ignore[attr-defined]


def _poisoned(grads: Any) -> NoReturn:
    raise RuntimeError(_POISONED)


def _is_weakly_held(t: Tensor) -> bool:
    """By others than the leaf's own sink and what notes its end: Python gives all who ask for a plain weak reference the same one."""
    own = finalizer_of(t)
    known = [ref for ref in weakref.getweakrefs(t) if own is None or ref.__callback__ is not own]
    sink = None if t._ad is None else t._ad.sink
    if sink is None or len(known) != 1 or known[0] is not sink.static:
        return bool(known)
    return getrefcount(known[0]) > 3  # the sink's, the list's, and getrefcount's argument


def _is_awaited(t: Tensor) -> bool:
    """Whether a graph would bring a gradient to it."""
    sink = None if t._ad is None else t._ad.sink
    return sink is not None and getrefcount(sink) > 3  # its leaf's, the one here, and getrefcount's argument


def _use_counts(*tensors: Tensor) -> list[int]:
    """As PyTorch counts: a tensor itself, the sink that a graph reaches, and who saved it, is a view of it, or has it as gradient. Those
    are looked for among all objects, once for all tensors: to count as they come and go would be a price for every op."""
    uses = [1 + _is_awaited(t) for t in tensors]
    holders = gc.get_referrers(*tensors)
    # All at once: each look goes through every object of the process.
    saved = {id(node.saved) for node in _nodes([h for h in holders if type(h) is tuple and h is not tensors])}
    for holder in holders:
        kind = type(holder)
        if kind is View:
            held: Any = (holder.base,)
        elif kind is AutogradMeta:
            held = (holder.grad,)
        elif kind is tuple and id(holder) in saved:
            held = holder
        else:
            continue
        for k, t in enumerate(tensors):
            uses[k] += any(one is t for one in held)
    return uses


def _nodes(saved: list[tuple[Any, ...]]) -> list[Node]:
    return [holder for holder in gc.get_referrers(*saved) if isinstance(holder, Node)]
