"""Views made in place: a tensor that reads its own memory in another shape from now on, with the history of that view."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from nbgrad.core.tensor import Tensor, requires, set_history, storage_of
from nbgrad.core.writes import check_write, written
from nbgrad.dispatch.stanza import words_in_place
from nbgrad.ops.views.order import t, transpose
from nbgrad.ops.views.shape import squeeze, unsqueeze
from nbgrad.ops.views.views import as_strided
from nbgrad.tape.modes import state
from nbgrad.tape.node import node_type


def _turn(view: Callable[..., Tensor]) -> None:
    def method(self: Tensor, *args: Any, **static: Any) -> Tensor:
        check_write(self, state.grad and requires(self), filled=True)
        turned = view(self, *args, **static)
        if self._view is not None and turned._view is not None:
            if not state.grad:  # how the view itself was made decides still
                turned._view.created = self._view.created
            self._view = turned._view
        self._buf, self._spec = turned._buf, turned._spec
        if turned._node is not None:
            turned._node.__class__ = node_type(_in_place(turned._node.rule.node_name))
            set_history(self, turned._node, turned._nr)
        written(self)
        if self._view is not None:
            self._view.version = storage_of(
                self
            ).version  # its memory is as it was, and its history is this one
        return self

    method.__name__ = method.__qualname__ = view.__name__ + "_"
    method.__doc__ = words_in_place(view)
    method.__signature__ = signature(view)  # type: ignore[attr-defined]
    setattr(Tensor, view.__name__ + "_", method)


def _in_place(node_name: str) -> str:
    """PyTorch counts the forms in place after the others, of which squeeze has three."""
    forms = 3 if node_name.startswith("Squeeze") else 1
    return f"{node_name[:-1]}{int(node_name[-1]) + forms}"


for _view in (as_strided, squeeze, t, transpose, unsqueeze):
    _turn(_view)
Tensor.swapaxes_ = Tensor.swapdims_ = Tensor.transpose_  # type: ignore[assignment, method-assign]
