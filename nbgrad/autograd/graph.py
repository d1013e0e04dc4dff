"""The recorded graph, for those who look into it: nodes, edges, and hooks on what is saved and on several gradients at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from nbgrad._device import device
from nbgrad._storage import Spec
from nbgrad._tape.modes import shared, state
from nbgrad._tape.node import AccumulateGrad, Node, RemovableHandle, shown
from nbgrad._tensor import Tensor, edge, requires, written

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """One output of a node: where a gradient arrives. It may stand for a tensor in `backward` and `grad`."""

    node: Node
    output_nr: int
    ownership_token: Node | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    if not requires(tensor):
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    node, number = edge(tensor)
    assert node is not None
    node.__dict__.setdefault("_specs", {})[number] = tensor._spec
    return GradientEdge(shown(node), number)


def spec_of(node: Node, number: int) -> Spec | None:
    """What an output of a node looks like, where that is known."""
    if isinstance(shown(node), AccumulateGrad):
        return node.static._spec
    plan = getattr(node.rule, "plan", None)
    if plan is not None:
        return plan.out
    return node.__dict__.get("_specs", {}).get(number)


def _input_metadata(node: Node) -> tuple[Spec | None, ...]:
    return tuple(spec_of(node, k) for k in range(node.outputs))


def _call(node: Node, *grads: Any) -> tuple[Any, ...]:
    """Run one node by hand, as its `grad_fn(...)`."""
    if len(grads) != node.outputs:
        raise TypeError(f"expected {node.outputs} arguments, got {len(grads)} instead")
    for k, g in enumerate(grads):
        if g is not None and not isinstance(g, Tensor):
            raise TypeError(f"argument {k} is not a Variable")
    return tuple(node.rule.apply(node, grads[0] if node.outputs == 1 else list(grads), None, state.grad))


Node._input_metadata = property(_input_metadata)  # type: ignore[attr-defined]
Node.__call__ = _call  # type: ignore[method-assign]


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write that was made behind the tensor's back."""
    several = (tensor,) if isinstance(tensor, Tensor) else tensor
    try:
        found = tuple(several)
    except TypeError:
        found = (None,)  # type: ignore[assignment]
    if not all(isinstance(t, Tensor) for t in found):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for t in found:
        if not t.is_inference():
            written(t)


# ---------------------------------------------------------------- saved values


class saved_tensors_hooks:
    """What is saved inside goes through `pack_hook`; backward gets what `unpack_hook` makes of it."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if state.saved_hooks_disabled is not None:
            raise RuntimeError(state.saved_hooks_disabled)
        state.saved_hooks = (*state.saved_hooks, (self.pack_hook, self.unpack_hook))
        shared.count(1)

    def __exit__(self, *_: object) -> None:
        state.saved_hooks = state.saved_hooks[:-1]
        shared.count(-1)


class save_on_cpu(saved_tensors_hooks):
    """What is saved inside is kept in the host's memory, and comes back to its device for backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t: Tensor) -> tuple[device, Tensor]:
            return t.device, t.cpu()

        def unpack(packed: tuple[device, Tensor]) -> Tensor:
            where, t = packed
            return t.to(where)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, `saved_tensors_hooks` is refused with this message."""
    if state.saved_hooks:
        raise RuntimeError(error_message)
    before = state.saved_hooks_disabled
    state.saved_hooks_disabled = error_message
    try:
        yield
    finally:
        state.saved_hooks_disabled = before


# ---------------------------------------------------------------- several gradients at once


class _Handles(RemovableHandle):
    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` once a backward: with the list of the tensors' gradients when all that it computes are there ("all"), or with the
    first of them ("any")."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        seen: list[Any] = [None]

        def first(grad: Tensor) -> None:
            with lock:
                new, seen[0] = seen[0] is not state.task, state.task
            if new:
                fn(grad)

        return _Handles([t.register_hook(first) for t in tensors if requires(t)])

    nodes = [edge(t)[0] for t in tensors]
    pending: dict[Any, tuple[list[Tensor | None], list[int]]] = {}

    def one_of(k: int) -> Callable[[Tensor], None]:
        def arrived(grad: Tensor) -> None:
            task = state.task
            with lock:
                if task not in pending:
                    missing = sum(node is not None and task.executes(node) for node in nodes)
                    pending[task] = [None] * len(tensors), [missing]
                grads, missing_now = pending[task]
                grads[k] = grad
                missing_now[0] -= 1
                complete = missing_now[0] == 0
                if complete:
                    del pending[task]
            if complete:
                fn(grads)

        return arrived

    return _Handles([t.register_hook(one_of(k)) for k, t in enumerate(tensors)])
