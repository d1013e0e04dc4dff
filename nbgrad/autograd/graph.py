"""The recorded graph, for those who look into it: nodes, edges, and hooks on what is saved and on several gradients at once."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from nbgrad.core.tensor import Tensor, edge, of_inference, requires, storage_of
from nbgrad.core.writes import written
from nbgrad.memory.device import cpu, device
from nbgrad.memory.dtypes import dtype, float32
from nbgrad.memory.layout import broadcast_shapes
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.views.copy import clone, to_dtype
from nbgrad.ops.views.shape import expand
from nbgrad.tape.modes import state, switch
from nbgrad.tape.node import Node, RemovableHandle, shown

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """One output of a node: where a gradient arrives. It may stand for a tensor in `backward` and `grad`, and outlives it.

    >>> x = torch.ones(2, requires_grad=True)
    >>> edge = torch.autograd.graph.get_gradient_edge(x * 2)
    >>> edge.node.name(), edge.output_nr
    ('MulBackward0', 0)
    """

    node: Node
    output_nr: int
    ownership_token: Node | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of `tensor` arrives, to be used in its place in `backward` and `grad`.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> y = x * x
    >>> torch.autograd.grad(torch.autograd.graph.get_gradient_edge(y), x)
    (tensor(6.),)
    """
    if not requires(tensor):
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    node, number = edge(tensor)
    assert node is not None
    return GradientEdge(shown(node), number)


class InputMetadata:
    """What a node expects of one gradient that arrives at it. What has none is shown as PyTorch shows it, as a float number."""

    __slots__ = ("_spec",)
    is_nested_tensor = is_cpp_nested_tensor = False

    def __init__(self, known: Spec | None) -> None:
        self._spec = known if known is not None and known.dtype.inexact else spec(float32, (), None, cpu)

    @property
    def shape(self) -> list[int]:
        """The shape of the output whose gradient this is."""
        return list(self._spec.shape)

    @property
    def dtype(self) -> dtype:
        """The dtype of the output whose gradient this is."""
        return self._spec.dtype

    @property
    def device(self) -> device:
        """The device of the output whose gradient this is."""
        return self._spec.device

    def __repr__(self) -> str:
        return f"<torch._C._autograd._InputMetadata object at {id(self):#x}>"


def _input_metadata(node: Node) -> tuple[InputMetadata, ...]:
    return tuple([InputMetadata(known) for known in node.rule.layouts(node)])


def _like_output(g: Tensor | None, known: Spec | None) -> Tensor | None:
    if g is None or known is None:
        return g
    if g._spec.shape != known.shape:
        broadcast_shapes(tuple(g._spec.shape), tuple(known.shape))  # PyTorch's words, if that cannot be
        g = expand(g, known.shape)
    return g if g._spec.dtype is known.dtype else to_dtype(g, known.dtype)


def _call(node: Node, *grads: Any) -> Any:
    """Run one node by hand, as its `grad_fn(...)`."""
    if len(grads) != node.outputs:
        raise TypeError(f"expected {node.outputs} arguments, got {len(grads)} instead")
    for k, g in enumerate(grads):
        if g is not None and not isinstance(g, Tensor):
            raise TypeError(f"argument {k} is not a Variable")
    if node.next and not node.undefined and all(g is None for g in grads):
        found: Any = (None,) * len(node.edges())
    else:
        if (
            not node.undefined
        ):  # a rule reads a gradient as its output lies; a user's backward may do as it likes
            grads = tuple([_like_output(g, known) for g, known in zip(grads, node.rule.layouts(node))])
        run = getattr(node.rule, "alone", node.rule.apply)
        found = run(node, grads[0] if node.outputs == 1 else list(grads), None, state.grad)
    return found[0] if len(found) == 1 else tuple(found)


Node._input_metadata = property(_input_metadata)  # type: ignore[attr-defined]
Node.__call__ = _call  # type: ignore[method-assign]


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write that was made behind the tensor's back, so that a graph that saved the old values refuses to use them.

    >>> x = torch.ones(2)
    >>> torch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    several = (tensor,) if isinstance(tensor, Tensor) else tensor
    try:
        found = tuple(several)
    except TypeError:
        found = (None,)  # type: ignore[assignment]
    if not all(isinstance(t, Tensor) for t in found):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for t in found:
        if not of_inference(t):
            written(t)


# ---------------------------------------------------------------- saved values


class saved_tensors_hooks:
    """What is saved inside goes through `pack_hook`; backward gets what `unpack_hook` makes of it.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if state.modes.saved_hooks_disabled is not None:
            raise RuntimeError(state.modes.saved_hooks_disabled)
        switch(saved_hooks=(*state.modes.saved_hooks, (self.pack_hook, self.unpack_hook)))

    def __exit__(self, *_: object) -> None:
        switch(saved_hooks=state.modes.saved_hooks[:-1])


class save_on_cpu(saved_tensors_hooks):
    """What is saved inside is kept in the host's memory, and comes back to its device for backward.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> y.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t: Tensor) -> tuple[device, Tensor]:
            return t.device, t.cpu()

        def unpack(packed: tuple[device, Tensor]) -> Tensor:
            where, t = packed
            return t.to(where)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, `saved_tensors_hooks` is refused with this message.

    >>> with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     torch.ones(2, requires_grad=True).exp().requires_grad
    True
    """
    if state.modes.saved_hooks:
        raise RuntimeError(error_message)
    before = state.modes.saved_hooks_disabled
    switch(saved_hooks_disabled=error_message)
    try:
        yield
    finally:
        switch(saved_hooks_disabled=before)


class _Saved:
    """Stands for a saved value in the nodes that saved it."""


_Which = tuple[
    int, ...
]  # the memory (by id) and its version; for one tensor over it, behind the tensor's id and where it begins


class _AllowMutationOnSavedContext:
    """The values saved in the block: as they are in `original`, and in `cloned` those that have been written to since. One that several
    nodes have saved is found by `tid_to_weakhandle`, those that a write is going to change by `sid_to_tid`."""

    def __init__(self) -> None:
        self.original: WeakKeyDictionary[_Saved, Tensor] = WeakKeyDictionary()
        self.cloned: WeakKeyDictionary[_Saved, Tensor] = WeakKeyDictionary()
        self.tid_to_weakhandle: WeakValueDictionary[_Which, _Saved] = WeakValueDictionary()
        self.sid_to_tid: defaultdict[_Which, set[_Which]] = defaultdict(set)

    def clear(self) -> None:
        self.original.clear()
        self.cloned.clear()
        self.tid_to_weakhandle.clear()
        self.sid_to_tid.clear()

    def pack(self, t: Tensor) -> _Saved:
        sid = _memory_now(t)
        tid = (id(t), t.data_ptr(), *sid)
        saved = self.tid_to_weakhandle.get(tid)
        if saved is None or self.original.get(saved) is not t:  # another tensor may have had this id
            saved = self.tid_to_weakhandle[tid] = _Saved()
            self.original[saved] = t
            self.sid_to_tid[sid].add(tid)
        return saved

    def unpack(self, saved: _Saved) -> Tensor:
        found = self.cloned.get(saved)
        if found is None:
            found = self.original.get(saved)
        if found is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph was originally "
                "recorded."
            )
        return found

    def before_write(self, t: Tensor) -> None:
        """Copy what has been saved of the memory that is about to be written to."""
        for tid in self.sid_to_tid.get(_memory_now(t), ()):
            saved = self.tid_to_weakhandle.get(tid)
            kept = None if saved is None else self.original.get(saved)
            if saved is not None and kept is not None:
                self.cloned[saved] = clone(kept.detach())
                del self.original[saved]


def _memory_now(t: Tensor) -> _Which:
    storage = storage_of(t)
    return id(storage.memory), storage.version


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """Inside, what is saved may be written to: a saved value is copied before the first write. Backward must run inside too.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.exp()
    ...     z = y * y
    ...     y.zero_()
    ...     z.sum().backward()
    tensor([0., 0.], grad_fn=<ZeroBackward0>)
    >>> x.grad
    tensor([14.7781, 14.7781])
    """
    context = _AllowMutationOnSavedContext()
    with saved_tensors_hooks(context.pack, context.unpack):
        if state.modes.before_write is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        switch(before_write=context.before_write)
        try:
            yield context
        finally:
            context.clear()
            switch(before_write=None)


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
    first of them ("any"). The handle that comes back takes the hook off again with `remove()`.

    >>> x, y = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    >>> handle = torch.autograd.graph.register_multi_grad_hook((x, y), print)
    >>> (2 * x + 3 * y).sum().backward()
    [tensor([2.]), tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        called: WeakSet[Any] = (
            WeakSet()
        )  # for which backwards; several may be running, each in a thread of its own

        def first(grad: Tensor | None) -> None:
            with lock:
                new = state.task not in called
                called.add(state.task)
            if new:
                fn(grad)

        return _Handles([t.register_hook(first) for t in tensors if requires(t)])

    nodes = [edge(t)[0] for t in tensors]
    if None in nodes:
        raise AssertionError("Expected gradient function to be set")
    pending: WeakKeyDictionary[Any, tuple[list[Tensor | None], list[int]]] = WeakKeyDictionary()

    def one_of(k: int) -> Callable[[Tensor], None]:
        def arrived(grad: Tensor | None) -> None:
            task = state.task
            with lock:
                if task not in pending:
                    missing = sum(task.executes(node) for node in nodes if node is not None)
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
