"""Saved values: what a node keeps for its rule, how users see and replace it, and the check that it is still what it was.

Promises the recorders `save`, and the rules `unpack`, which refuses what has been freed or written to since in PyTorch's words.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nbgrad.core.overrides import armed
from nbgrad.core.refusals import kind_of, title
from nbgrad.core.tensor import (
    Tensor,
    accumulation,
    edge,
    history,
    hooks,
    meta,
    new,
    requires,
    share,
    storage_of,
)
from nbgrad.memory.storage import APART
from nbgrad.tape.modes import put_back, shared, state, without_hooks
from nbgrad.tape.node import FREED, HELD, Node


def versions_of(saved: Sequence[Tensor]) -> tuple[int, ...]:
    found = []
    for s in saved:
        storage = s._storage
        if storage is None:
            found.append(0)
        elif storage.inference:
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
                "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and "
                "use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
            )
        else:
            found.append(storage.version)
    return tuple(found)


def save(
    saved: Sequence[Tensor], order: Iterable[int] | None = None
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """What a node keeps of the values its rule will read, and at which versions; hooks see them in the rule's `order`."""
    versions = versions_of(saved)
    if state.modes.saved_hooks:
        pack, unpack = state.modes.saved_hooks[-1]
        kept: list[Any] = list(saved)
        for k in order or range(len(kept)):
            kept[k] = Packed(kept[k], pack, unpack)
        return tuple(kept), versions
    return tuple(saved), versions


def of_packed(rule: Any) -> Any:
    """The rule of a node whose saved values hooks have packed."""
    return getattr(rule, "of_packed", rule)


class Packed:
    """A saved value as the user's hook packed it."""

    class _storage:
        version = -1  # no version that a saved value has: who compares them comes to `unpack`

    def __init__(self, t: Tensor, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        self.unpack, self.edge, self.spec = unpack, edge(t), t._spec
        counted = storage_of(t)
        before, recorded, modes = counted.version, state.grad, state.modes
        inside = state.modes = without_hooks(modes)
        state.grad = False
        try:
            self.packed = pack(t)
        finally:
            put_back(recorded, inside)
            state.modes = modes
        if counted.version != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
                "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you "
                "need to perform in-place operations on the input to a pack hook."
            )

    def get(self) -> Tensor:
        recorded, modes, asked = state.grad, state.modes, state.asked
        if (
            armed.on and state.task is not None
        ):  # what rules call, nobody is asked for; what hooks call, as outside
            state.asked = state.outside
        try:
            got = self.unpack(self.packed)
        finally:
            state.asked = asked
        if state.modes is not modes or state.grad is not recorded:
            put_back(recorded, modes)
        if not isinstance(got, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(got).__name__}"
            )
        target, number = self.edge
        if target is None and not requires(got):
            return got
        if not got._spec.dtype.inexact:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        out = share(got, got._buf, got._spec)
        if target is not None and target.rule is accumulation:
            out._rg = 1  # a leaf again, whose gradient goes where that of the saved one goes
            meta(out).sink = target
        elif target is not None:
            out._node, out._nr, out._rg = target, number, 1
        return out

    def get_alike(self) -> Tensor:
        """The same, for a rule that reads the value in the dtype and shape in which it was saved."""
        got, was = self.get(), self.spec
        if got._spec.dtype is not was.dtype:
            raise RuntimeError(
                f"expected scalar type {was.dtype.scalar_name} but found {got._spec.dtype.scalar_name}"
            )
        if got._spec.shape != was.shape:
            raise RuntimeError(
                f"Expected a saved tensor of size {list(was.shape)}, but its unpack hook gave one of size {list(got.shape)}"
            )
        return hooks.contiguous(got) if was.contiguous and not got._spec.contiguous else got


def unpack(node: Node, alike: bool = False) -> tuple[Any, ...]:
    """The saved values, if they are still there and still what they were; those that hooks give are `alike` in dtype and shape if that
    is asked, and as the hooks give them if not."""
    saved = node.saved
    if saved is None:
        raise RuntimeError(FREED)
    if saved is HELD:
        return ()
    packed = False
    order = getattr(node.rule, "order", range(len(saved)))
    for k in order:
        t = saved[k]
        if t._storage is not None and t._storage.version != node.versions[k]:
            if type(t) is not Packed:
                if _was_detached(t, node.versions[k]):
                    raise RuntimeError(DETACHED)
                raise _lost(node, k, t)
            packed = True
    if not packed:
        return saved
    got: list[Any] = list(saved)
    for k in order:
        if type(s := saved[k]) is Packed:
            got[k] = s.get_alike() if alike else s.get()
    return tuple(got)


def unpack_one(node: Node, k: int) -> Any:
    """As `unpack`, for those who look at one value only. One that an op made itself comes with its history."""
    if node.saved is None:
        raise RuntimeError(FREED)
    kept = node.saved[k]
    number = node.rule.output_at(node, k)
    t = kept.shadow if type(kept) is Output else kept
    if type(t) is Packed:
        t = t.get()
    elif (
        t is not None
        and t._storage is not None
        and t._storage.version != node.versions[k]
        and not _was_detached(t, node.versions[k])  # who looks may see that all the same
    ):
        raise _lost(node, k, t)
    return t if number is None or not t._spec.dtype.inexact else as_output(t, node, number)


def origin(t: Tensor) -> str:
    """Where a value comes from, as the message about its modification says it."""
    node = history(t)
    return "" if node is None else f", which is output {t._nr} of {title(node)},"


def _was_detached(t: Tensor, version: int) -> bool:
    """Whether a tensor was detached in place since it was at this version."""
    return t._storage is not None and t._storage.version // APART != version // APART


def _lost(node: Node, k: int, t: Tensor) -> RuntimeError:
    if getattr(node.rule, "turned", None) != k:
        return modified(t, node.versions[k], node.rule.made_by(node, k))
    # A view whose base was written to since has another history than before.
    return modified(t, node.versions[k], ", which is output 0 of AsStrided," if t._rg else "", turned=True)


def modified(t: Tensor, version: int, made_by: str, turned: bool = False) -> RuntimeError:
    assert t._storage is not None
    sizes = tuple(t._spec.shape)
    shape = ", ".join(map(str, (*sizes[:-2], *sizes[:-3:-1]) if turned else sizes))
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind_of(t._spec.dtype)} [{shape}]]{made_by} is at version {t._storage.version % APART}; expected version "
        f"{version % APART} instead. Hint: "
        + (
            "the backtrace further above shows the operation that failed to compute its gradient. The variable in "
            "question was changed in there or anywhere later. Good luck!"
            if shared.anomaly
            else "enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False)."
        )
    )


DETACHED = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please use "
    "out-of-place `.detach()` instead"
)


class Output:
    """What a custom node saved of its own outputs, and which one it is."""

    __slots__ = ("number", "shadow")

    def __init__(self, shadow: Any, number: int) -> None:
        self.shadow, self.number = shadow, number


_shown: weakref.WeakValueDictionary[tuple[int, int | None], SavedTensor] = weakref.WeakValueDictionary()


class SavedTensor:
    """One saved value as `_raw_saved_*` shows it: what `register_hooks` can replace by what a hook packs. Its place is None
    where the op can save this value, and did not."""

    __module__ = "torch._C._autograd"

    def __new__(cls, *args: object) -> SavedTensor:
        if args:
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n    1. "
                f"torch._C._autograd.SavedTensor()\n\nInvoked with: {', '.join(map(repr, args))}"
            )
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @classmethod
    def of(cls, node: Node, place: int | None) -> SavedTensor:
        found = _shown.get((id(node), place))
        if found is None:
            found = _shown[id(node), place] = new(cls)
            found._node, found._place = node, place
        return found

    @classmethod
    def showing(cls, node: Node, value: Tensor | None) -> SavedTensor:
        """Of a value that the node keeps in another form."""
        shown = new(cls)
        shown._node, shown._place, shown._value = node, None, value
        return shown

    _node: Node
    _place: int | None
    _value: Any = None

    def _kept(self) -> Any:
        if self._place is None or self._node.saved is None:
            return None if self._node.saved is None else self._value
        kept = self._node.saved[self._place]
        return kept.shadow if type(kept) is Output else kept

    @property
    def data(self) -> Any:
        """What is kept: the value, or what a hook made of it."""
        kept = self._kept()
        return kept.packed if type(kept) is Packed else kept

    @property
    def unpack_hook(self) -> Any:
        """The hook that gives the value back, None where the value itself is kept."""
        kept = self._kept()
        return kept.unpack if type(kept) is Packed else None

    def unpack(self) -> Tensor | None:
        """The value, None where there is none."""
        if self._place is None:
            return self._kept()
        if self._node.saved is not None and self._node.rule.output_at(self._node, self._place) is not None:
            raise RuntimeError(DETACHED)
        return unpack_one(self._node, self._place)

    def register_hooks(self, *hooks: Any) -> None:
        """Keep `pack_hook(value)`, the first of two, instead of the value, and read `unpack_hook` of that in backward."""
        if len(hooks) != 2 or not all(callable(hook) for hook in hooks):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types are supported:\n    1. (self: "
                "torch._C._autograd.SavedTensor, arg0: collections.abc.Callable, arg1: collections.abc.Callable) -> None\n\n"
                f"Invoked with: {', '.join(map(repr, (self, *hooks)))}"
            )
        pack_hook, unpack_hook = hooks
        saved, k, kept = self._node.saved, self._place, self._kept()
        if saved is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
                "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
                "the graph a second time or if you need to access saved variables after calling backward."
            )
        if kept is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if type(kept) is Packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is "
                "allowed at a time."
            )
        packed: Any = Packed(kept.detach(), pack_hook, unpack_hook)
        if k is None:
            self._value = packed  # the rule reads what it has
            return
        packed.edge = edge(kept)
        if type(saved[k]) is Output:
            packed = Output(packed, saved[k].number)
        self._node.saved = (*saved[:k], packed, *saved[k + 1 :])
        self._node.rule = of_packed(self._node.rule)

    def __repr__(self) -> str:
        return f"<torch._C._autograd.SavedTensor object at {id(self):#x}>"


def read_saved(node: Node, wanted: str, name: str, raw: bool) -> Any:
    """What a node saved, or would have saved for another choice of inputs that want a gradient: None."""
    if wanted:
        names = node.rule.saved_names
        place = names.index(wanted) if wanted in names else None
        if raw:
            return SavedTensor.of(node, place)
        return None if place is None else unpack_one(node, place)
    raise AttributeError(f"'{node.name()}' object has no attribute '_{'raw_' if raw else ''}saved_{name}'")


def as_output(kept: Tensor, node: Node, number: int) -> Tensor:
    """A saved output with its history again; while saved it has none, as it would be a cycle. What was written through a view has
    that of the view, so that hooks on the base act."""
    if node.through_view is not None:
        node = node.through_view() or node
    t = share(kept, kept._buf, kept._spec)
    t._storage, t._node, t._nr, t._rg = storage_of(kept), node, number, 1
    return t
