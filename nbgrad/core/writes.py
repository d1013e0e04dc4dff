"""Writes in place: which are allowed, and what becomes of the history of a tensor, its base and its views."""

from __future__ import annotations

import weakref
from sys import getrefcount
from typing import Any

from nbgrad.base.tables import PLANS, cached
from nbgrad.core.refusals import LEAF_WRITE, OVERLAP, VIEW_OF_LEAF_WRITE, _forbidden
from nbgrad.core.tensor import (
    Tensor,
    View,
    between,
    edge,
    history,
    hooks,
    requires,
    set_history,
    storage_of,
    view_node,
    wrap,
)
from nbgrad.memory.storage import Marked, Spec
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import FREED, Node, blank, node_type, sequence


def check_write(t: Tensor, recorded: bool, filled: bool = False) -> None:
    """Refuse, in PyTorch's words, an in-place write that no gradient could describe; nothing has been changed yet.

    `recorded` says that grad mode is on and some operand requires grad, the target counted in; `filled` that every element gets
    the same value, so that it does not matter if several of them are one.
    """
    if shared.rare:
        for transform in state.transforms:
            transform.check_write(t)
        if state.modes.before_write is not None:
            state.modes.before_write(t)
    storage = t._storage
    if storage is not None and storage.inference and not state.modes.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
            "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    if recorded:
        view = t._view
        if view is not None:
            check_view(t, view)
            if requires(t) and history(view.base) is None:
                raise RuntimeError(VIEW_OF_LEAF_WRITE)
        if requires(t) and history(t) is None:
            raise RuntimeError(LEAF_WRITE)
    if t._spec.repeats and not filled:
        raise RuntimeError(OVERLAP)


def check_view(t: Tensor, view: View) -> None:
    if view.created != "default":
        raise RuntimeError(_forbidden(t, view, "is being"))


def written(t: Tensor) -> None:
    """Count a write. Every write to memory that a tensor shows passes here or through `rebase`."""
    storage_of(t).version += 1


def rebase(t: Tensor, node: Node, number: int = 0) -> None:
    """`t` has been written to by what `node` records, whose first edge is to what `t` was. Its new history is the node's output
    `number`; of a view, the base is rewritten (CopySlices) and the view read anew."""
    view = t._view
    if t._rg == 2 and view is not None:
        base = view.base
        old, old_number = edge(base)
        # Of one memory, whose owner needs not be asked twice how far in each of the two begins.
        shift = between(t, base)
        slices: Node = blank(_CopySlices)
        others = node.edges()[1:]
        slices.next = (old, *[target for target, _ in others])
        slices.numbers = (old_number, *[k for _, k in others])
        slices.saved, slices.versions, slices.static = (
            (node,),
            (0,),
            None,
        )  # PyTorch, too, lets go of what was written
        slices.leaves = node.leaves
        slices.rule = copied_slices(t._spec, shift, base._spec, node.rule)
        slices.seq = next(sequence)
        set_history(base, slices)
        storage = t._storage or storage_of(t)
        storage.version += 1
        read_anew: Node | None
        if (
            view.created == "default" and not state.modes.view_replay
        ):  # what `history` would do, that knows less
            read_anew = view_node(t, base, shift, slices)
            set_history(t, read_anew)
            view.version = storage.version
        else:
            read_anew = history(t)
        if read_anew is not None:
            node.through_view = weakref.ref(read_anew)
    else:
        set_history(t, node, number)
        written(t)


_CopySlices = node_type("CopySlices")


class CopySlices:
    """Backward of a write through a view: the gradient of what was overwritten comes from the rule of what wrote."""

    def __init__(self, at: Spec, offset: int, base: Spec, inner: Any) -> None:
        self.at, self.offset, self.base = at, offset, base
        self.hidden = getattr(inner, "hidden", ())  # edges that the inner rule does not show

    def apply(self, node: Node, g: Any, needed: Any, graph: bool) -> Any:
        if node.saved is None:
            raise RuntimeError(FREED)
        inner: Node = node.saved[0]
        if (
            not graph
            and needed is None
            and type(g._spec) is Spec
            and g._spec is self.base
            and g._spec.canonical
        ):
            # Into the gradient's own memory, if nobody but the engine, this call and getrefcount has it.
            own = getrefcount(g) == 3 and g._buf.base is None and getrefcount(g._buf) == 2 and g._rg == 0
            return self._plain(inner, g if own else hooks.clone(g))
        total = hooks.clone(hooks.contiguous(g)) if g._spec.contiguous else hooks.contiguous(g)
        dense = self.base.dense()
        if self.base is not dense and self.base.strides != dense.strides:
            total = hooks.as_strided(_like_memory(total, self.base), self.base.shape, self.base.strides, 0)
        part = hooks.look(total, self.at, self.offset)
        asked = needed
        if needed is not None:  # of what wrote, the first edge is the view's history; here it is the base's
            asked = {target for target in node.next[1:] if target in needed}
            if node.next[0] in needed:
                asked.add(inner.next[0])
        first, *others = inner.rule.apply(inner, hooks.clone(part), asked, graph)
        if needed is not None:
            others = [g if target in needed else None for g, target in zip(others, node.next[1:])]
            if node.next[0] not in needed:
                return (None, *others)
        if first is None or type(first._spec) is Marked:
            hooks.copy_(part, hooks.zeros(self.at.dense()))
            if first is not None:  # in a vmap each example may have its own, and not yet of the total
                total = hooks.add(total, hooks.embed(first, self.base, self.at.plain, self.offset))
        else:
            hooks.copy_(part, first)
        return (total, *others)

    def _plain(self, inner: Node, total: Tensor) -> tuple[Any, ...]:
        """The usual way, where gradient and base lie alike."""
        start = self.offset * self.at.itemsize
        part = wrap(self.at.backend.view(total._buf, start) if start else total._buf, self.at)
        first, *others = inner.rule.apply(inner, hooks.clone(part), None, False)
        hooks.copy_memory(part, hooks.zeros(self.at.dense()) if first is None else first)
        return (total, *others)

    def layouts(self, node: Node) -> tuple[Spec, ...]:
        return (self.base,)


@cached(PLANS)
def copied_slices(at: Spec, offset: int, base: Spec, inner: Any) -> CopySlices:
    """The same rule for all writes that are alike."""
    return CopySlices(at, offset, base, inner)


def _like_memory(g: Tensor, base: Spec) -> Tensor:
    """The values of `g` in memory laid out as the base's, so that offsets into the base's memory hold."""
    flat = base.like((base.extent,))
    if type(g._spec) is Marked:  # each example of a vmap has its own
        whole = hooks.embed_part(g, base=flat, at=base.plain, offset=0)
        return hooks.as_strided(whole, base.shape, base.strides, 0)
    placed = hooks.as_strided(hooks.zeros(flat), base.shape, base.strides, 0)
    hooks.copy_(placed, g)
    return placed
