"""The record of one differentiable call: what it was, where its gradients go, and what its rule will read.

Promises the engine three things of every node: `next`/`numbers` say which output of which earlier node each gradient belongs to,
`seq` is larger than that of every node it points at, and `rule.apply(node, grads, needed, graph)` turns the gradient of the output
(a list of them where `outputs` is not 1) into gradients of the inputs; `needed` is the set of nodes asked for, or None. Values are
opaque here.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nbgrad.base.tables import Table
from nbgrad.tape.modes import shared

sequence = itertools.count()  # next() is atomic under the GIL

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


HookTable = OrderedDict[int, Any]  # in order of registration, by the numbers of their handles

# `saved` of a node that keeps no tensor here, where PyTorch's does: it goes when the node has run.
HELD: tuple[Any, ...] = (None,)


class Node:
    """One recorded op of the graph, a tensor's `grad_fn`; `next_functions` lead to those that made its inputs.

    `saved` is what the rule reads (None once freed), `versions` what they counted when saved, `static` all that is no tensor, `rule`
    the record of the op that knows what to do with them.

    >>> node = (torch.ones(2, requires_grad=True) * 2).exp().grad_fn
    >>> node.name(), node.next_functions[0][0].name()
    ('ExpBackward0', 'MulBackward0')
    """

    # Slots, and no `__getattr__` (which is that of `Shown`): CPython reads and writes these at once, where a default in the class or a
    # hook for missing names makes it look up each name each time (25 ns against 2). So who makes a node writes all of them.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "hooked",
        "leaves",
        "next",
        "numbers",
        "outputs",
        "rule",
        "saved",
        "seq",
        "static",
        "versions",
    )
    next: tuple[Node | None, ...]
    seq: float  # a whole one, but for the moment that a backward lets it run sooner
    rule: Any
    numbers: Iterable[int]
    saved: tuple[Any, ...] | None
    versions: tuple[int, ...]
    static: Any
    leaves: Any  # whose sinks it points at: a tensor, or one with the others
    outputs: int
    hooked: bool  # it has tensor_hooks, retain, prehooks or hooks

    # What few have: an instance holds only what differs.
    undefined = False  # runs even where nothing but missing gradients arrive
    through_view: weakref.ref[Node] | None = (
        None  # of a write through a view: the history that the view got from it
    )
    tensor_hooks: dict[int, HookTable] | None = None  # by output number
    retain: dict[int, weakref.ref[Any]] | None = None  # by output number: the tensor that wants its gradient
    prehooks: HookTable | None = None
    hooks: HookTable | None = None

    # -- PyTorch's surface --------------------------------------------------------------------------------------------

    def name(self) -> str:
        """The name of the op, as PyTorch has it: what its generator does not write carries the C++ name.

        >>> (torch.ones(2, requires_grad=True) * 2).grad_fn.name()
        'MulBackward0'
        """
        name = type(shown(self)).__name__
        return f"torch::autograd::{name}" if name in _HAND_WRITTEN else name

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input of the op the node to which its gradient goes (None where none is wanted), and which output of that it is.

        >>> y = torch.ones(2, requires_grad=True) * 2
        >>> [(type(node).__name__, number) for node, number in y.grad_fn.next_functions if node]
        [('AccumulateGrad', 0)]
        """
        hidden = getattr(self.rule, "hidden", ())  # operands for which PyTorch's node has no edge at all
        edges = [e for k, e in enumerate(self.edges()) if k not in hidden]
        return tuple((None if node is None else shown(node), k) for node, k in edges)

    def edges(self) -> list[tuple[Node | None, int]]:
        """An edge for each input of the op; `next` ends with the last that leads anywhere.

        >>> import nbgrad
        >>> y = nbgrad.ones(2, requires_grad=True) * 2
        >>> len(y.grad_fn.edges())
        2
        """
        known: list[tuple[Node | None, int]] = [*zip(self.next, self.numbers)]
        return known + [(None, 0)] * (getattr(self.rule, "edges", 0) - len(known))

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict of the user's own, kept with the node.

        >>> y = torch.ones(2, requires_grad=True) * 2
        >>> y.grad_fn.metadata["layer"] = 3
        >>> y.grad_fn.metadata
        {'layer': 3}
        """
        return self.__dict__.setdefault("_metadata", {})

    def _sequence_nr(self) -> int:
        return vars(self).get("_asked_nr", int(self.seq))

    def _set_sequence_nr(self, number: int) -> None:
        """Let this node run before those with smaller numbers, as far as the graph allows it."""
        if not isinstance(number, int):
            raise TypeError("an integer is required")
        if number < 0:
            raise OverflowError("can't convert negative int to unsigned")
        self._asked_nr = number
        shared.numbered = True

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)`, both tuples, after the node has run; what it returns replaces the grad_inputs.

        >>> y = (torch.ones(1, requires_grad=True) * 2).sum()
        >>> handle = y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: print(grad_outputs))
        >>> y.backward()
        (tensor(1.),)
        """
        if self.hooks is None:
            self.hooks = OrderedDict()
        self.hooked = True
        return register(self.hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the node runs; what it returns replaces them.

        >>> x = torch.ones(2, requires_grad=True)
        >>> y = x.sum()
        >>> handle = y.grad_fn.register_prehook(lambda grads: (10 * grads[0],))
        >>> y.backward()
        >>> x.grad
        tensor([10., 10.])
        """
        if self.prehooks is None:
            self.prehooks = OrderedDict()
        self.hooked = True
        return register(self.prehooks, hook)

    def __repr__(self) -> str:
        return f"<{type(shown(self)).__name__} object at {id(self):#x}>"


NUMBERS: Iterable[int] = itertools.repeat(0)
VERSIONS = (0,) * 8


def blank(kind: type[Any] = Node) -> Any:
    """A node of which nothing is known yet, with what most have; `rule` and `seq` are to be given."""
    node = kind()
    node.next = node.saved = node.static = node.leaves = ()
    node.numbers, node.versions = NUMBERS, VERSIONS
    node.outputs, node.hooked = 1, False
    return node


# The same, written out: who records ops often writes what it does not give.
_BLANK = {
    "saved": "()",
    "static": "()",
    "leaves": "()",
    "numbers": "NUMBERS",
    "versions": "VERSIONS",
    "outputs": "1",
    "hooked": "False",
}


def leaving(*given: str) -> list[str]:
    """Lines that write into `node` what it has where nothing is `given`; their scope knows `NUMBERS` and `VERSIONS`."""
    return [f"node.{name} = {usual}" for name, usual in _BLANK.items() if name not in given]


class Shown(Node):
    """A node that a user has seen, or may see at once: it answers to the names of what was saved."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        kind, _, saved = name.partition("saved_")
        if kind in ("_", "_raw_") and hasattr(self.rule, "read"):
            return self.rule.read(self, saved, kind == "_raw_")
        raise AttributeError(f"'{type(shown(self)).__name__}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        known = self.rule.names(self) if hasattr(self.rule, "names") else ()
        raw = [f"_raw_saved_{name}" for name in known if hasattr(self, f"_raw_saved_{name}")]
        return [*super().__dir__(), *[f"_saved_{name}" for name in known], *raw]


class AccumulateGrad(Shown):
    """Where a gradient ends. Its rule, which the tensor layer hands in, adds it to the leaf's `.grad`."""

    __slots__ = ()

    @property
    def variable(self) -> Any:
        """The leaf whose gradient arrives here."""
        return self.static()

    def _sequence_nr(self) -> int:
        return (1 << 64) - 1  # as PyTorch has it: before all others


class RemovableHandle:
    """What registering a hook returns: `remove()` it, or leave the `with` block. It holds no table of hooks: those that say more
    about the hook are `extra_dict`, one or a list.

    >>> x = torch.zeros(1, requires_grad=True)
    >>> with x.register_hook(lambda grad: 5 * grad):
    ...     x.sum().backward()
    >>> x.grad
    tensor([5.])
    """

    __module__ = "nbgrad.utils.hooks"  # where users find it
    _ids = itertools.count()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = next(self._ids)
        extra = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or ()
        self._refer(hooks_dict, extra)

    def _refer(self, hooks_dict: Any, extra: Iterable[Any]) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple([weakref.ref(table) for table in extra])

    def remove(self) -> None:
        """Take the hook off; a second time does nothing.

        >>> x = torch.zeros(1, requires_grad=True)
        >>> x.register_hook(lambda grad: 5 * grad).remove()
        >>> x.sum().backward()
        >>> x.grad
        tensor([1.])
        """
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = ref()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.hooks_dict_ref(), self.id, tuple([ref() for ref in self.extra_dict_ref])

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks_dict, self.id, extra = state
        self._refer(OrderedDict() if hooks_dict is None else hooks_dict, extra)
        if next(self._ids) <= self.id:  # of another process
            RemovableHandle._ids = itertools.count(self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register(
    hooks: HookTable,
    hook: Callable[..., Any],
    prepend: bool = False,
    marks: Sequence[tuple[OrderedDict[int, bool], bool]] = (),
) -> RemovableHandle:
    """Put a hook into a table, behind the others or before them; `marks` are the tables that may say more about it, and whether they do."""
    handle = RemovableHandle(hooks, extra_dict=[table for table, _ in marks])
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    for table, applies in marks:
        if applies:
            table[handle.id] = True
    return handle


_HAND_WRITTEN = {"AccumulateGrad", "CopyBackwards", "CopySlices", "Error", "NotImplemented"}
_types: Table[str, type[Node]] = Table("tape.node.types", None)  # users compare them
_types["AccumulateGrad"] = AccumulateGrad
_lock = threading.Lock()


def node_type(name: str) -> type[Node]:
    """The class whose name a `grad_fn` shows ("MulBackward0")."""
    with _lock:
        found = _types.get(name)
        if found is None:
            found = _types[name] = type(name, (Shown,), {"__slots__": ()})
    return found


def shown(node: Node) -> Node:
    """What is recorded by ops is all of class Node, as code that meets many classes loses CPython's inline caches (measured: 4 us
    of a backward of 7 nodes). Who shows a node to a user gives it the class that has PyTorch's name."""
    if type(node) is Node:
        node.__class__ = node_type(node.rule.node_name)
    return node
