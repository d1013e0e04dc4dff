"""`__torch_dispatch__`: who takes PyTorch's operators over, below the functions that users call and below their gradients.

A mode while it is on, and the first instance of a class that has `__torch_dispatch__`, let every function look at its arguments
(`core/overrides.py`). What then comes here is told as PyTorch's operators: a function that is one of them as that (`matching`), one that
PyTorch makes of several as those (`composites`). The history of what a handler gives is recorded here. Where it calls the operator on
what it was handed and returns what it got, that is what the function itself records. Else a node of ours stands for it, whose gradient
is in terms of operators (`formulas`), as is that of any node that runs while a mode is on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from nbgrad._aten import composites, formulas
from nbgrad._aten.matching import matched, name_of
from nbgrad._aten.operators import aten
from nbgrad._ops import OpOverload, tensors_in
from nbgrad.core import overrides
from nbgrad.core.pytree import tree_map
from nbgrad.core.tensor import Tensor, edge, meta, new, requires, storage_of
from nbgrad.core.writes import rebase
from nbgrad.history.saved import Packed
from nbgrad.memory.storage import Batched, Nothing
from nbgrad.names.absent import NotBuiltError
from nbgrad.tape.modes import shared, state, without_hooks
from nbgrad.tape.node import FREED, Node, blank, sequence

# ---------------------------------------------------------------- who is asked

_kinds: dict[type, bool] = {}


def taken(kind: type) -> bool:
    """Whether a class has a `__torch_dispatch__`."""
    found = _kinds.get(kind)
    if found is None:
        found = _kinds[kind] = issubclass(kind, Tensor) and overrides.takes(kind)
    return found


def _every(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _every(value)
        else:
            yield value


def _who(values: Any) -> list[Any]:
    """The instances of such classes among values, one for each class, a class before those that it inherits from."""
    found: list[Any] = []
    for value in _every(values):
        kind = type(value)
        if kind in overrides.plain_types or not taken(kind) or any([type(other) is kind for other in found]):
            continue
        at = next((k for k, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(at, value)
    return found


def is_taken(values: Any) -> bool:
    """Whether a call with these values is handed to somebody."""
    return bool(state.below) or bool(_who(values))


# What a handler may call on what it was handed: the call that is being answered, so that what it records is kept.
class _Frame:
    whole = False  # where hooks keep what nodes save: all of the call, so that it is the same whether it was computed or given

    def __init__(self, op: OpOverload, tensors: Sequence[Tensor]) -> None:
        self.op, self.tensors = op, tensors
        self.pairs: dict[int, tuple[Tensor, Tensor]] = {}

    def is_of(self, op: OpOverload, tensors: Sequence[Tensor]) -> bool:
        return op is self.op and len(tensors) == len(self.tensors) and all(map(_same, tensors, self.tensors))

    def alias(self, recorded: Any) -> Any:
        """What the handler sees of a result: without its history."""
        if not isinstance(recorded, Tensor) or any([recorded is t for t in self.tensors]):
            return recorded
        bare: Tensor = new(type(recorded))
        bare._buf, bare._spec, bare._storage = recorded._buf, recorded._spec, storage_of(recorded)
        bare._view = bare._node = bare._ad = None
        bare._rg = bare._nr = 0
        self.pairs[id(bare)] = bare, recorded
        return bare

    def recorded(self, value: Any) -> Any:
        return self.pairs[id(value)][1] if id(value) in self.pairs else value


def _same(a: Any, b: Any) -> bool:
    return a is b


class _Frames(threading.local):
    frames: tuple[_Frame, ...] = ()


_local = _Frames()

# ---------------------------------------------------------------- a call of an operator


def call(op: OpOverload, values: Mapping[str, Any]) -> Any:
    """An operator with its arguments, by who takes it over; what it gives gets its history here."""
    tensors = list(tensors_in(values.values()))
    who = _who(values.values())
    if not state.below and not who:
        return _native(op, values, tensors)
    wanted = state.grad and any([requires(t) for t in tensors])
    frame = _Frame(op, tensors) if wanted else None
    before = state.grad, _local.frames
    state.grad = False
    if frame is not None:
        _local.frames = (*before[1], frame)
    try:
        result = _ask(op, values, who)
    finally:
        state.grad, _local.frames = before
    if frame is None:
        return result
    kept = tree_map(frame.recorded, result)
    own = [
        t for t in tensors_in(kept if isinstance(kept, (tuple, list)) else [kept]) if t not in _Of(tensors)
    ]
    if op._opname in formulas.CONSTANT or not own:
        return kept
    # What hooks keep is in the order of the node that the function makes itself: that of a recomputation may have no mode.
    if not frame.pairs or frame.whole or (_has_formula(op) and not state.modes.saved_hooks):
        _attach(op, values, tensors, own)
    return kept


def _native(op: OpOverload, values: Mapping[str, Any], tensors: Sequence[Tensor]) -> Any:
    """Nobody is left to ask."""
    frame = _local.frames[-1] if _local.frames else None
    if frame is None or state.grad or not frame.is_of(op, tensors):
        return op.compute(values)
    frames, _local.frames, modes = _local.frames, (), state.modes
    state.grad = True
    if frame.whole:
        state.modes = without_hooks(modes)
    try:
        return tree_map(frame.alias, op.compute(values))
    finally:
        state.grad, _local.frames, state.modes = False, frames, modes


def _has_formula(op: OpOverload) -> bool:
    return op._opname in formulas.FORMULAS and not op._schema.is_mutable


def keep_whole(op: OpOverload) -> bool:
    """Let hooks keep all of the call that is being answered, its arguments and results; whether that is possible."""
    if not _has_formula(op):
        return False
    if _local.frames:
        _local.frames[-1].whole = True
    return True


def _ask(op: OpOverload, values: Mapping[str, Any], who: Sequence[Any]) -> Any:
    args, kwargs = _given(op, values)
    types = tuple(map(type, who))
    modes = state.below
    if modes:
        mode = modes[-1]
        state.below = modes[:-1]
        try:
            own = op.dispatchers.get(type(mode))
            asked = mode.__torch_dispatch__ if own is None else partial(own, mode)
            result = asked(op, types, args, kwargs)
        finally:
            state.below = modes
        if result is not NotImplemented:
            return result
    for one in who:
        own = op.dispatchers.get(type(one))
        asked = type(one).__torch_dispatch__ if own is None else partial(own, type(one))
        result = asked(op, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise _Unanswered(_unanswered(op, types, modes))


class _Unanswered(TypeError):
    """Nobody who was asked had an answer."""


def _unanswered(op: OpOverload, types: Any, modes: Any) -> str:
    lines = [
        f"Multiple dispatch failed for 'torch._ops.{op}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
    ]
    if modes:
        lines.append(f"  - mode object {modes[-1]!r}\n")
    lines += [f"  - tensor subclass {kind!r}\n" for kind in types]
    return "".join([*lines, "\nFor more information, try re-running with TORCH_LOGS=not_implemented"])


def _given(op: OpOverload, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as a handler gets them: those at the end that have their defaults are left out."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    due = 0
    for argument in op._schema.arguments:
        value = values[argument.name]
        usual = not argument.required and _alike(value, argument.default_value)
        if argument.kwarg_only:
            if not usual:
                kwargs[argument.name] = value
        else:
            args.append(value)
            due = due if usual else len(args)
    return tuple(args[:due]), kwargs


def _alike(value: Any, usual: Any) -> bool:
    if value is usual or (value == [] and usual == []):
        return True
    if isinstance(value, (list, tuple)) and isinstance(usual, int) and not isinstance(usual, bool):
        return all([v == usual for v in value])
    return (
        not isinstance(value, (Tensor, list, tuple)) and type(value) is type(usual) and bool(value == usual)
    )


# ---------------------------------------------------------------- history


def _attach(
    op: OpOverload, values: Mapping[str, Any], tensors: Sequence[Tensor], made: Sequence[Tensor]
) -> None:
    """A node for results: in terms of operators, or of what a handler made itself."""
    results = [t for t in made if t.is_floating_point()][: formulas.COUNTED.get(op._opname)]
    written_to = [t for a in op._schema.arguments if a.is_write for t in tensors_in([values[a.name]])]
    if not results and not written_to:
        return
    node: Node = blank()
    edges = [edge(t) if requires(t) else (None, 0) for t in tensors]
    node.rule = Rule(op, tensors, results)
    node.next, node.numbers = tuple([n for n, _ in edges]), tuple([k for _, k in edges])
    node.leaves = tuple([t for t in tensors if t._node is None])
    shadows = [_shadow(t) for t in made]
    if state.modes.saved_hooks:
        kept = tree_map(partial(_packed, *state.modes.saved_hooks[-1]), (dict(values), shadows))
        node.saved = (*kept, None)
    else:
        node.saved = (dict(values), shadows, {id(t): storage_of(t).version for t in (*tensors, *shadows)})
    node.outputs = max(len(results), 1)
    node.seq = next(sequence)
    for t in written_to:
        rebase(t, node)
    for k, t in enumerate(results):
        t._node, t._nr, t._rg = node, k, 2 if t._view is not None else 1


def _packed(pack: Any, unpack: Any, value: Any) -> Any:
    return Packed(value, pack, unpack) if isinstance(value, Tensor) else value


def _unpacked(value: Any) -> Any:
    return value.get() if type(value) is Packed else value


class _Of:
    """Whether it is one of these."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def __contains__(self, one: Any) -> bool:
        return any([one is v for v in self.values])


def _shadow(t: Tensor) -> Tensor:
    """The same without history, as a node must not hold what it made."""
    out: Tensor = new(type(t))
    out._buf, out._spec, out._storage = t._buf, t._spec, storage_of(t)
    out._view = out._node = out._ad = None
    out._rg = out._nr = 0
    out.__dict__.update(t.__dict__)
    return out


class Rule:
    """The gradient of an operator, in terms of operators, as the engine runs it."""

    saved_names: tuple[str, ...] = ()
    overwrites = holds = False
    hidden: tuple[int, ...] = ()

    def __init__(self, op: OpOverload, tensors: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        self.op, self.node_name = op, formulas.node_name(op)
        self.wanted = [requires(t) for t in tensors]
        self.edges = len(tensors)
        self.specs = tuple([t._spec for t in results])

    def apply(self, node: Node, g: Any, needed: Any, graph: bool) -> Any:
        if node.saved is None:
            raise RuntimeError(FREED)
        values, results, versions = node.saved
        if versions is None:  # what hooks keep they give as it was
            values, results = tree_map(_unpacked, (values, results))
            versions = {id(t): storage_of(t).version for t in tensors_in([*values.values(), *results])}
        names = [n for n, value in values.items() for _ in tensors_in([value])]
        wanted = [w and (needed is None or n in needed) for w, n in zip(self.wanted, node.next)]
        asked = {n for n, w in zip(names, wanted) if w}
        context = formulas.Context(values, results, asked, versions)
        context.overload = self.op._overloadname
        found = formulas.of(self.op)(context, g)
        flat: list[Any] = []
        for name, value in values.items():
            if isinstance(value, Tensor):
                flat.append(found.get(name))
            elif isinstance(value, (list, tuple)) and (count := len(list(tensors_in(value)))):
                flat += found.get(name) or [None] * count
        return tuple([x if w else None for x, w in zip(flat, wanted)])

    def layouts(self, node: Node) -> tuple[Any, ...]:
        return self.specs

    def output_at(self, node: Node, k: int) -> int | None:
        return k

    def made_by(self, node: Node, k: int) -> str:
        return ""


# ---------------------------------------------------------------- functions


def below(entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of the library makes of a call, while anybody may take over what is below."""
    twin = entry.twin
    given = (*args, *kwargs.values()) if kwargs else args
    modes = state.below
    if not modes and not _who(given):
        return twin(*args, **kwargs)
    if entry.slot:
        return _of_property(entry, args, kwargs)
    if any([isinstance(v, Tensor) and type(v._buf) is Batched for v in _every(given)]):
        for mode in modes:
            if hasattr(mode, "refuse"):
                mode.refuse("torch.vmap")
        return twin(*args, **kwargs)
    if entry.path.rpartition(".")[2] in composites.PLAIN:
        return twin(*args, **kwargs)
    made = composites.FUNCTIONS.get(entry.path) or composites.FUNCTIONS.get(name_of(entry.path))
    if made is not None and not entry.path.startswith("nn.init"):
        result = made(*args, **kwargs)
        if result is not composites.OTHERWISE:
            return result
    found = matched(entry.path, args, kwargs)
    if found is None:
        return _whole(entry, args, kwargs)
    try:
        op, values = found
        result = call(op, values)
        returns = op._schema.returns
        # The tensor that was written to itself, whatever a handler gave.
        if len(returns) == 1 and "!" in returns[0]:
            return next(values[a.name] for a in op._schema.arguments if a.is_write)
        return result.requires_grad_() if kwargs.get("requires_grad") else result
    except _Unanswered:
        if entry.path in overrides.OPERATORS:
            return NotImplemented
        raise


def _of_property(entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made = composites.PROPERTIES.get(entry.path[7:]) if entry.slot == "__get__" else None
    return made(*args) if made is not None else entry.twin(*args, **kwargs)


def _whole(entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that is no operator: what it calls in turn may be taken over; of what has no memory it may not read any."""
    try:
        result = entry.twin(*args, **kwargs)
        for mode in state.below:
            if hasattr(mode, "unseen"):
                mode.unseen(f"torch.{entry.path}", (args, kwargs), result)
        return result
    except RuntimeError as error:
        without = [type(v) for v in _who((*args, *kwargs.values())) if type(v._buf) is Nothing]
        if without and "same device" in str(error):
            raise NotBuiltError(
                f"nbgrad hands torch.{entry.path} to no __torch_dispatch__: {without[0].__name__} has no memory that it could read"
            ) from error
        raise


# ---------------------------------------------------------------- backward


def run_node(node: Node, grads: Any, needed: Any, graph: bool) -> Any:
    """A node of the graph while anybody may take over what is below: its gradients in terms of operators, where they are known."""
    given = grads if isinstance(grads, list) else [grads]
    if isinstance(node.rule, Rule) or not is_taken(given):
        return node.rule.apply(node, grads, needed, graph)
    if not node.next:
        return _accumulate(node, grads, needed, graph)
    found = formulas.of_node(node, grads, needed)
    if found is None:
        found = node.rule.apply(node, grads, needed, True)
        for mode in state.below:
            if hasattr(mode, "unseen"):
                mode.unseen(node.rule.node_name, grads, found)
    return found


def _accumulate(node: Node, grad: Any, needed: Any, graph: bool) -> Any:
    leaf = node.static()
    told = any([hasattr(mode, "unseen") for mode in state.below])
    if leaf is None or not (told or _who([grad, leaf.grad])):
        return node.rule.apply(node, grad, needed, graph)
    kept = meta(leaf)
    kept.grad = grad if kept.grad is None else add(kept.grad, grad)
    for hook in list((kept.post_hooks or {}).values()):
        hook(leaf)
    return ()


def add(total: Any, grad: Any) -> Any:
    return aten.add.Tensor(total, grad)


def arm() -> None:
    """From here on functions and backwards ask who takes them over."""
    overrides.armed.below, shared.run_node, shared.add = below, run_node, _added


def _added(total: Any, grad: Any) -> Any:
    """The sum of two gradients of which one is such an instance, or that a mode is to see; None of others."""
    return add(total, grad) if is_taken([total, grad]) else None
