"""What a call of a custom function leaves: which outputs are views, written inputs or neither, and the values that `ctx` keeps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbgrad.core.overrides import overrides
from nbgrad.core.refusals import VIEW_OF_LEAF_WRITE
from nbgrad.core.tensor import Tensor, history, requires, storage_of, view_of, wrap
from nbgrad.core.writes import check_view, rebase, written
from nbgrad.history.saved import Output, save, unpack_one
from nbgrad.ops.make.constructors import as_subclass
from nbgrad.tape.node import FREED, HELD

if TYPE_CHECKING:
    from nbgrad.autograd.function import BackwardCFunction


# ---------------------------------------------------------------- outputs


def _count_writes(node: BackwardCFunction, args: Sequence[Any]) -> None:
    for t in node.dirty_tensors:
        if not isinstance(t, Tensor):
            raise RuntimeError("mark_dirty can only accept variables, but argument ")
        if not any(t is a for a in args):
            warnings.warn(
                "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
                "passed to ctx.mark_dirty().",
                UserWarning,
                stacklevel=3,
            )


def _output(
    node: BackwardCFunction,
    t: Tensor,
    k: int,
    args: Sequence[Any],
    recorded: bool,
    count: int,
    separate: bool,
) -> Tensor:
    """Give an output its history, as PyTorch's rules have it for what is fresh, an input, written to, or a view."""
    given = any(t is a for a in args)
    dirty = bool(node.dirty_tensors) and any(t is d for d in node.dirty_tensors)
    if dirty and not given:
        dirty = False
    passive = not recorded or not t._spec.dtype.inexact
    if passive or (node.non_differentiable and any(t is n for n in node.non_differentiable)):
        if dirty:
            written(t)
            return t
        if given:
            return t.detach() if requires(t) else _same_view(t)
        if t._view is not None:
            t._view.created = "function"
        elif t._rg:
            t._node, t._nr, t._rg = None, 0, 0
        return t
    if dirty:
        return _written_output(node, t, k, count)
    if given:
        if separate and any(t is s for s in node.to_save):
            raise RuntimeError(
                "An input that has been returned as-is as output is being saved for backward. This is not supported if you override "
                "setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or setup ctx inside "
                "the forward function itself."
            )
        t = _same_view(t)
    t._node, t._nr = node, k
    if t._view is None:
        t._rg = 1
    else:
        t._rg = 2
        t._view.created, t._view.version = "function", storage_of(t).version
    return t


def _same_view(t: Tensor) -> Tensor:
    """An input that is returned as it is; of a class that wants to know of calls, it stays of that class."""
    view = view_of(t, t._buf, t._spec, "function")
    return as_subclass(view, type(t)) if overrides(type(t)) else view


def _written_output(node: BackwardCFunction, t: Tensor, k: int, count: int) -> Tensor:
    view = t._view if t._rg == 2 else None
    try:
        if t._node is None and requires(t):
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
        if view is not None:
            check_view(t, view)
            if history(view.base) is None and requires(view.base):
                raise RuntimeError(VIEW_OF_LEAF_WRITE)
    except RuntimeError:
        written(t)  # as `forward` has done
        raise
    if view is not None and count > 1:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one "
            "Tensor. This is not supported by the current autograd engine. You should either make sure the input is not a view (using "
            ".clone() for example) or make your Function only return one Tensor (potentially splitting it into two Functions: one "
            "doing the inplace that returns a single Tensor and a second one that does the other operations). You can ask on the "
            "forum https://discuss.pytorch.org/ if you need help to do this change."
        )
    rebase(t, node, k)
    return t


def _forbid_writes(node: BackwardCFunction, outs: Sequence[Any]) -> None:
    """One of several outputs that is a view cannot be written to: no history could follow."""
    views = [t for t in outs if isinstance(t, Tensor) and t._node is node and t._view is not None]
    if sum(isinstance(t, Tensor) and t._node is node for t in outs) > 1:
        for t in views:
            if t._view is not None:
                t._view.created = "multi"


# ---------------------------------------------------------------- saved values


def _keep(node: BackwardCFunction) -> None:
    tensors: list[Tensor] = []
    outputs = False
    for k, t in enumerate(node.to_save):
        if not isinstance(t, Tensor):
            if t is not None:
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {k} is of type {type(t).__name__}"
                )
        elif t._node is node:
            outputs = True
            shadow = wrap(
                t._buf, t._spec
            )  # the output without its history: a node that held its own output would be a cycle
            shadow._storage = storage_of(t)
            tensors.append(shadow)
        else:
            tensors.append(t)
    node.saved, node.versions = save(tensors)
    if outputs or len(tensors) != len(node.to_save):
        values, versions = iter(node.saved), iter(node.versions)
        node.saved = tuple(
            [
                None if t is None else Output(next(values), t._nr) if t._node is node else next(values)
                for t in node.to_save
            ]
        )
        node.versions = tuple([0 if t is None else next(versions) for t in node.to_save])
    del node.to_save


def _count(node: BackwardCFunction) -> int:
    if node.saved is None:
        raise RuntimeError(FREED)
    return 0 if node.saved is HELD else len(node.saved)


def _unpack(node: BackwardCFunction) -> tuple[Any, ...]:
    return tuple([unpack_one(node, k) for k in range(_count(node))])
