"""Which modules run right now, forward or backward: PyTorch's `torch.utils.module_tracker`."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any, Self

from nbgrad.autograd.graph import register_multi_grad_hook
from nbgrad.core.pytree import tree_flatten
from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from nbgrad.tape.modes import state
from nbgrad.utils.hooks import RemovableHandle

logger = logging.getLogger(__name__)

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Within it, `parents` names the modules that run, by their paths from the outermost, "Global" always among them. Of a backward
    those are told whose inputs have gradients.

    >>> from torch.utils.module_tracker import ModuleTracker
    >>> net = nn.Sequential(nn.Linear(2, 2))
    >>> with ModuleTracker() as tracker:
    ...     handle = net[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
    ...     y = net(torch.ones(1, 2))
    ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._told: weakref.WeakSet[Module] = weakref.WeakSet()
        self._waits = False
        self._hooks: list[RemovableHandle] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward runs."""
        return state.task is not None

    def _name(self, mod: Module) -> str:
        name = self._names.setdefault(mod, type(mod).__name__)
        if mod not in self._told:
            self._told.add(mod)
            for own, inner in mod.named_children():
                self._names[inner] = f"{name}.{own}"
                self._name(inner)
        return name

    def _at_end(self) -> None:
        self.parents, self._waits = {"Global"}, False

    def _enters(self, name: str, backward: bool) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            if backward and not self._waits:
                self._waits = True
                state.task.call_at_end(self._at_end)
            if name in self.parents:
                logger.info("module %s was entered already, %s", name, "backward" if backward else "forward")
            self.parents.add(name)

        return enter

    def _leaves(self, name: str, backward: bool) -> Callable[..., None]:
        def leave(*_: Any) -> None:
            if name not in self.parents:
                logger.info("module %s was never entered, %s", name, "backward" if backward else "forward")
            self.parents.discard(name)

        return leave

    def _watch(self, values: Any, hook: Callable[..., None]) -> None:
        tensors = [t for t in tree_flatten(values)[0] if isinstance(t, Tensor) and t.requires_grad]
        if tensors:
            self._hooks.append(register_multi_grad_hook(tensors, hook))

    def _before(self, mod: Module, input: Any) -> None:
        name = self._name(mod)
        self._enters(name, False)()
        self._watch(input, self._leaves(name, True))

    def _after(self, mod: Module, input: Any, output: Any) -> None:
        name = self._name(mod)
        self._leaves(name, False)()
        self._watch(output, self._enters(name, True))

    def __enter__(self) -> Self:
        self._handles = (
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after),
        )
        return self

    def __exit__(self, *_: object) -> None:
        for handle in (*self._handles, *self._hooks):
            handle.remove()
        self._hooks.clear()
