"""History: what a call leaves on the tape, and the rules that turn its gradient into those of its inputs.

Promises the dispatcher recorders, which give an output its node; and the engine the rules, each with two callers: the raw one launches on
memory, the registered one (`graph`) calls ops and can be differentiated again. What is saved is what the wanted gradients read.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import getrefcount
from typing import Any

import numpy as np

from nbgrad import _layout
from nbgrad._dtypes import float64
from nbgrad._op import GRAD, OUT, PUBLIC, ElementwiseOp, Op
from nbgrad._plan import _PLANS, Kernel, Plan
from nbgrad._storage import Spec, spec
from nbgrad._tape.modes import shared, state
from nbgrad._tape.node import FREED, Node, sequence
from nbgrad._tensor import (
    Tensor,
    accumulation,
    accumulator,
    edge,
    hooks,
    meta,
    modified,
    new,
    note_origin,
    origin,
    rebase,
    requires,
    share,
    storage_of,
    wrap,
    written,
    written_as,
)
from nbgrad.expr import diff
from nbgrad.expr.node import Expr, free_vars, is_bool, ordered_vars, substitute, var

_empty = np.empty
_bytes = np.dtype(np.uint8)
_REUSE_FROM = (
    1 << 18
)  # bytes of a gradient from which its memory is reused; smaller ones stay in the cache anyway
_ENGINES_OWN = (
    4  # references to a gradient that only the engine has, counted in `ElementwiseRule.raw`'s runner
)

# ---------------------------------------------------------------- recording


def record(plan: Plan, t: Tensor, args: Sequence[Any]) -> None:
    """Give `t`, a result of `args`, its history, if any of them wants a gradient."""
    asked = sum([a._rg << 2 * k for k, a in enumerate(args) if isinstance(a, Tensor)])
    recorder(plan, asked)(t, *args)


def recorder(plan: Plan, asked: int) -> Callable[..., None]:
    """The function of a result and the operands that records a call of this plan. `asked` holds the operands' `_rg`, two bits each, the
    first lowest: who wants a gradient decides what is saved, so all that can be decided once is, here."""
    found = plan.recorders.get(asked)
    if found is None:
        op = plan.op
        flags = [0 if p in op.flat else asked >> 2 * k & 3 for k, p in enumerate(op.params)]
        found = _constant
        if any(flags) and plan.out.dtype.is_floating_point:
            rule = rule_of(plan, tuple([flag != 0 for flag in flags]))
            if rule.useful:
                # PyTorch's node that has no gradient knows only of inputs that want one.
                listed = tuple([k for k, flag in enumerate(flags) if flag or op.refuses is None])
                static = _tuple([f"a{k}" for k in rule.number_positions]) if rule.number_positions else ""
                saved = (*(f"a{k}" for k in rule.tensor_positions), *["y0"] * rule.saves_output)
                found = _recorder_maker(tuple(flags), listed, saved, static)(rule, plan, asked, recorder)
        plan.recorders[asked] = found
    return found


def _constant(t: Tensor, *args: Any) -> None:
    t._rg, t._node = 0, None


@lru_cache(maxsize=1024)
def _recorder_maker(
    flags: tuple[int, ...],
    listed: tuple[int, ...],
    saved: tuple[str, ...],
    static: str,
    results: tuple[bool, ...] = (),
    given: str = "",
    wants: str = "1",
) -> Callable[..., Any]:
    """Source of a recorder, without loops and without what does not apply: the interpreter's steps are what a small op costs. A view
    (flag 2) is asked at each call if it wants a gradient; where it does not, another recorder is due. The node knows of the operands
    `listed` and keeps `static` and what is `saved`: operands a0, a1 ..., results r0, r1 ... or, as y0, y1 ..., what lies in those.
    Of several `results` those get history for which True stands."""
    given += ", ".join([f"a{k}" for k in range(len(flags))])
    result = "results" if results else "r0"
    lines = []
    for k, flag in enumerate(flags):
        if flag == 2:
            lines += [
                f"if a{k}._node is None and not requires(a{k}):",
                f"    return recorder(owner, asked - {2 << 2 * k})({result}, {given})",
            ]
    lines.append("node = Node()")
    asking = [k for k, flag in enumerate(flags) if flag in (1, 2)]
    for k in asking:
        held = f"a{k}" if k == asking[0] else f"(a{k}, node.leaves)"
        if flags[k] == 2:
            lines += [f"e{k}, n{k} = edge(a{k})", f"if a{k}._node is None: node.leaves = {held}"]
        else:
            lines += [
                f"e{k} = a{k}._node",
                f"if e{k} is None: e{k}, node.leaves = accumulator(a{k}), {held}",
            ]
    number = [{1: f"a{k}._nr", 2: f"n{k}"}.get(flags[k], "0") for k in listed]
    if results:
        lines.append(f"{_tuple([f'r{k}' for k in range(len(results))])} = results")
    lines += [
        f"node.next = {_tuple([f'e{k}' if k in asking else 'None' for k in listed])}",
        f"if {' or '.join([n for n in number if n != '0'])}: node.numbers = {_tuple(number)}",
    ]
    changed = [f"{t}._storage is not None" for t in saved if t[0] == "a"]
    recorded = [k for k, has in enumerate(results) if has]
    for at in [t[1:] for t in saved if t[0] == "y"]:
        # By another tensor over its memory: a node that holds its own output would be a cycle. `storage_of` lets it know of the record
        # that the output gets when it is written to; what has no history is not seen there, so it gets one now.
        lines += [
            f"y{at} = new(Tensor)",
            f"y{at}._buf, y{at}._spec = r{at}._buf, r{at}._spec",
            f"y{at}._rg = y{at}._nr = 0",
            f"y{at}._node = y{at}._view = y{at}._ad = None",
            f"y{at}._storage = {f'r{at}._storage' if int(at) in (recorded or [0]) else f'storage_of(r{at})'}",
        ]
        changed.append(f"y{at}._storage is not None")
    if saved:
        lines.append(f"node.saved = {_tuple(saved)}")
    if changed:
        lines.append(f"if {' or '.join(changed)}: node.versions = versions(node.saved)")
    if static:
        lines.append(f"node.static = {static}")
    lines += ["node.rule = rule", "node.seq = next(sequence)", "if shared.rare:"]
    if saved:
        lines.append("    node.saved, node.versions = save(node.saved)")
    lines.append("    note_origin(node)")
    if len(recorded) > 1:
        lines.append(f"node.outputs = {len(recorded)}")
    lines += [f"r{k}._node, r{k}._nr = node, {k}" for k in recorded] or ["r0._node = node"]
    lines += [f"r{k}._rg = {wants}" for k in recorded or [0]]
    body = "".join([f"        {line}\n" for line in lines])
    scope: dict[str, Any] = dict(
        requires=requires,
        edge=edge,
        accumulator=accumulator,
        Node=Node,
        new=new,
        Tensor=Tensor,
        storage_of=storage_of,
    )
    scope |= dict(versions=_versions, sequence=sequence, shared=shared, save=save, note_origin=note_origin)
    exec(
        f"def make(rule, owner, asked, recorder):\n    def record({result}, {given}):\n{body}    return record",
        scope,
    )
    return scope["make"]


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)},)"


def rule_of(plan: Plan, mask: tuple[bool, ...]) -> ElementwiseRule:
    found = plan.rules.get(mask)
    if found is None:
        found = plan.rules[mask] = ElementwiseRule(plan, mask)
    return found


def _versions(saved: Sequence[Tensor]) -> tuple[int, ...]:
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


def save(saved: Sequence[Tensor]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """What a node keeps of the values its rule will read, and at which versions."""
    versions = _versions(saved)
    if state.saved_hooks:
        pack, unpack = state.saved_hooks[-1]
        return tuple(Packed(s, pack, unpack) for s in saved), versions
    return tuple(saved), versions


class Packed:
    """A saved value as the user's hook packed it."""

    class _storage:
        version = -1  # no version that a saved value has: who compares them comes to `unpack`

    def __init__(self, t: Tensor, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        self.unpack, self.edge = unpack, edge(t)
        counted = storage_of(t)
        before, modes = counted.version, (state.saved_hooks, state.grad)
        state.saved_hooks, state.grad = (), False
        try:
            self.packed = pack(t)
        finally:
            state.saved_hooks, state.grad = modes
        if counted.version != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
                "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you "
                "need to perform in-place operations on the input to a pack hook."
            )

    def get(self) -> Tensor:
        got = self.unpack(self.packed)
        if not isinstance(got, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(got).__name__}"
            )
        out = share(got, got._buf, got._spec)
        target, number = self.edge
        if target is not None and target.rule is accumulation:
            out._rg = 1  # a leaf again, whose gradient goes where that of the saved one goes
            meta(out).sink = target
        elif target is not None:
            out._node, out._nr, out._rg = target, number, 1
        return out


def unpack(node: Node) -> tuple[Any, ...]:
    """The saved values, if they are still there and still what they were."""
    saved = node.saved
    if saved is None:
        raise RuntimeError(FREED)
    packed = False
    for k in getattr(node.rule, "order", range(len(saved))):
        t = saved[k]
        if t._storage is not None and t._storage.version != node.versions[k]:
            if type(t) is not Packed:
                raise modified(t, node.versions[k], node.rule.made_by(node, k))
            packed = True
    return tuple([s.get() if type(s) is Packed else s for s in saved]) if packed else saved


def unpack_one(node: Node, k: int) -> Any:
    """As `unpack`, for those who look at one value only. One that an op made itself comes with its history."""
    if node.saved is None:
        raise RuntimeError(FREED)
    kept = node.saved[k]
    number = node.rule.output_at(node, k)
    t = kept.shadow if type(kept) is Output else kept
    if type(t) is Packed:
        t = t.get()
    elif t is not None and t._storage is not None and t._storage.version != node.versions[k]:
        raise modified(t, node.versions[k], node.rule.made_by(node, k))
    return t if number is None or not t._spec.dtype.is_floating_point else as_output(t, node, number)


DETACHED = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please use "
    "out-of-place `.detach()` instead"
)


def check_attached(node: Node, saved: Sequence[Tensor], positions: Sequence[int]) -> None:
    """Where a gradient is to be differentiated, what it was made of must still have its history."""
    for t, k in zip(saved, positions):
        target = node.next[k]
        if target is not None and target.next and t._node is None:
            raise RuntimeError(DETACHED)


class Output:
    """What a custom node saved of its own outputs, and which one it is."""

    __slots__ = ("number", "shadow")

    def __init__(self, shadow: Any, number: int) -> None:
        self.shadow, self.number = shadow, number


_shown: weakref.WeakValueDictionary[tuple[int, int | None], SavedTensor] = weakref.WeakValueDictionary()


class SavedTensor:
    """One saved value as `_raw_saved_*` shows it: what `register_hooks` can replace by what a hook packs. Its place is None
    where the op can save this value, and did not."""

    def __new__(cls, *_: object) -> SavedTensor:
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @classmethod
    def of(cls, node: Node, place: int | None) -> SavedTensor:
        found = _shown.get((id(node), place))
        if found is None:
            found = _shown[id(node), place] = new(cls)
            found._node, found._place = node, place
        return found

    _node: Node
    _place: int | None

    def _kept(self) -> Any:
        if self._place is None or self._node.saved is None:
            return None
        kept = self._node.saved[self._place]
        return kept.shadow if type(kept) is Output else kept

    @property
    def data(self) -> Any:
        """What is kept: the value, or what a hook made of it."""
        kept = self._kept()
        return kept.packed if type(kept) is Packed else kept

    @property
    def unpack_hook(self) -> Any:
        kept = self._kept()
        return kept.unpack if type(kept) is Packed else None

    def unpack(self) -> Tensor | None:
        if self._place is None:
            return None
        if self._node.saved is not None and self._node.rule.output_at(self._node, self._place) is not None:
            raise RuntimeError(DETACHED)
        return unpack_one(self._node, self._place)

    def register_hooks(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        """Keep `pack_hook(value)` instead of the value, and read `unpack_hook` of that in backward."""
        if not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types are supported:\n    1. (self: "
                "torch._C._autograd.SavedTensor, arg0: collections.abc.Callable, arg1: collections.abc.Callable) -> None\n\n"
                f"Invoked with: {self!r}, {pack_hook!r}, {unpack_hook!r}"
            )
        saved, k, kept = self._node.saved, self._place, self._kept()
        if saved is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
                "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
                "the graph a second time or if you need to access saved variables after calling backward."
            )
        if k is None or kept is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if type(kept) is Packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is "
                "allowed at a time."
            )
        packed: Any = Packed(kept.detach(), pack_hook, unpack_hook)
        packed.edge = edge(kept)
        if type(saved[k]) is Output:
            packed = Output(packed, saved[k].number)
        self._node.saved = (*saved[:k], packed, *saved[k + 1 :])

    def __repr__(self) -> str:
        return f"<torch._C._autograd.SavedTensor object at {id(self):#x}>"


def _order(names: Sequence[str], public: dict[str, str]) -> tuple[int, ...]:
    """PyTorch's order of looking at what was saved, by name; its message is about the first that was written to."""
    return tuple(sorted(range(len(names)), key=lambda k: public.get(names[k], names[k])))


def hidden_edges(plan: Plan) -> tuple[int, ...]:
    """The operands of which PyTorch's node knows nothing: conditions, settings, and the number of an overload that takes one."""
    op = plan.op
    return tuple(
        k
        for k, (p, o) in enumerate(zip(op.params, plan.operands))
        if p in op.logical
        or (not isinstance(o, Spec) and (p in op.settings or p in op.fits or op.number_node is not None))
    )


class ElementwiseRule:
    """The gradient of one plan for one choice of inputs that want it. Two callers: raw, which launches one kernel for all of
    them, and registered (`graph`), which calls an op per input and so can be differentiated again."""

    def __init__(self, plan: Plan, mask: tuple[bool, ...]) -> None:
        op = plan.op
        self.plan, self.mask = plan, mask
        self.node_name = op.node_name
        if op.number_node is not None and not all(isinstance(o, Spec) for o in plan.operands):
            self.node_name = op.number_node
        self.wanted = tuple(p for p, w in zip(op.params, mask) if w)
        self.hidden = hidden_edges(plan)
        # With no derivative anywhere (sign, floor) PyTorch still records; with a bool result it does not.
        self.useful = any(mask) and not is_bool(op.body)
        names = op.reads(self.wanted)
        positions = {p: k for k, p in enumerate(op.params)}
        self.tensors = tuple(n for n in names if n != OUT and isinstance(plan.operands[positions[n]], Spec))
        self.saves_output = OUT in names
        self.tensor_positions = tuple(positions[n] for n in self.tensors)
        self.number_names = tuple(
            n for n in names if n != OUT and not isinstance(plan.operands[positions[n]], Spec)
        )
        self.number_positions = tuple(positions[n] for n in self.number_names)
        self.saved_names = (*self.tensors, *((OUT,) if self.saves_output else ()))
        self.order = _order(self.saved_names, PUBLIC)
        self.backs: dict[Any, Callable[..., Any]] = {}  # by how the gradient lies
        self.by_ops: dict[tuple[bool, ...], Callable[..., Any]] = {}  # by which gradients are wanted

    def made_by(self, node: Node, k: int) -> str:
        """ ", which is output 0 of Exp," for a saved value that an op made."""
        t = (node.saved or ())[k]
        if self.saved_names[k] == OUT:
            return f", which is output 0 of {written_as(node)},"
        return origin(t)

    def apply(self, node: Node, g: Tensor, needed: Any, graph: bool) -> Any:
        mask = self.mask
        key: Any = g._spec
        if needed is not None:
            for wanted, target in zip(mask, node.next):
                if wanted and target not in needed:
                    mask = tuple([m and n in needed for m, n in zip(mask, node.next)])
                    key = key, mask
                    break
        if graph:
            return self.registered(node, unpack(node), g, mask)
        run = self.backs.get(key)
        if run is None:
            if len(self.backs) >= _PLANS:
                self.backs.clear()
            run = self.backs[key] = self.raw(g._spec, mask)
        return run(g, node)

    def registered(self, node: Node, saved: tuple[Tensor, ...], g: Tensor, mask: tuple[bool, ...]) -> Any:
        check_attached(node, saved, self.tensor_positions)
        run = self.by_ops.get(mask)
        if run is None:
            run = self.by_ops[mask] = self.by_op(mask)
        if self.saves_output:
            saved = (*saved[:-1], as_output(saved[-1], node, 0))
        return run((g, *saved, *node.static))

    def by_op(self, mask: tuple[bool, ...]) -> Callable[..., Any]:
        """The function that calls an op for each gradient that is wanted, on g, what is saved, and the numbers."""
        op = self.plan.op
        op.check_derivative(mask)
        names = (GRAD, *self.saved_names, *self.number_names)
        calls: list[tuple[Any, tuple[int, ...], Any]] = []
        for p, wanted, operand in zip(op.params, mask, self.plan.operands):
            function, read = partial_function(op, p) if wanted else (None, ())
            calls.append((function, tuple([names.index(n) for n in read]), operand if wanted else None))

        def run(values: tuple[Any, ...]) -> list[Tensor | None]:
            results: list[Tensor | None] = []
            for function, where, operand in calls:
                if operand is None:
                    results.append(None)
                elif function is not None:
                    results.append(_fit(function(*[values[k] for k in where]), operand))
                else:
                    results.append(_fit(values[where[0]], operand) if where else hooks.zeros(operand.dense()))
            return results

        return run

    def raw(self, g: Spec, mask: tuple[bool, ...]) -> Callable[..., Any]:
        """Build the function that turns g and the saved values into gradients: one launch for all that need computing."""
        op, plan = self.plan.op, self.plan
        op.check_derivative(mask)
        by_name: dict[str, Any] = {GRAD: g, OUT: plan.out, **dict(zip(op.params, plan.operands))}
        results: list[
            tuple[str, Any, Any]
        ] = []  # per input: how its gradient comes, from where, for which operand
        exprs: list[Expr] = []
        outs: list[Spec] = []
        for p, wanted, operand in zip(op.params, mask, plan.operands):
            partial = op.partials[p]
            if not wanted:
                results.append(("none", None, None))
            elif partial is diff.ZERO:
                results.append(("zero", None, operand))
            elif partial is var(GRAD):
                results.append(("g", None, operand))
            else:
                results.append(("made", len(exprs), operand))
                exprs.append(partial)
                same = operand.shape == plan.out.shape
                outs.append(
                    spec(
                        operand.dtype if same else plan.out.dtype,
                        tuple(plan.out.shape),
                        None,
                        plan.out.device,
                    )
                )
        if not exprs:
            if all(
                how == "none" or (how == "g" and o.shape == g.shape and o.dtype is g.dtype)
                for how, _, o in results
            ):
                wants = [how == "g" for how, _, _ in results]
                if wants == [True, False]:
                    return lambda grad, node: (grad, None)
                if wants == [True, True]:
                    return lambda grad, node: (grad, grad)
            return lambda grad, node: [_plain(how, grad, operand) for how, _, operand in results]
        names = [n for n in (GRAD, *self.saved_names, *self.number_names) if n in free_vars(*exprs)]
        operands = [by_name[n] for n in names]
        layout = [(o.shape, o.strides) for o in operands if isinstance(o, Spec)]
        shape = plan.out.shape
        strides = _layout.output_strides(tuple(shape), layout) if layout[0][0] == shape else None
        if strides is not None:
            outs = [spec(o.dtype, tuple(shape), strides, o.device) for o in outs]
        where = [(GRAD, *self.saved_names).index(n) - 1 for n in names if n in (GRAD, *self.saved_names)]
        keep = [self.number_names.index(n) for n in names if n in self.number_names]

        def runner(over: int) -> Callable[..., Any]:
            title = f"{op.name}_backward"
            kernel = Kernel.of(title, tuple(exprs), names, op.logical, operands, outs, plan.kind, over)
            return _runner(kernel, outs, where, keep, results, over >= 0)

        fresh = runner(-1)
        large = outs[0].numel * outs[0].itemsize >= _REUSE_FROM
        if not large or outs[0] is not g or GRAD not in names or any(how == "g" for how, _, _ in results):
            return fresh
        reuse = runner(names.index(GRAD))

        def either(grad: Tensor, node: Node) -> Any:
            """A large gradient that nobody else has gives its memory to the result: writing to cold memory costs twice."""
            buf = grad._buf
            if buf.base is None and getrefcount(buf) == 3 and getrefcount(grad) == _ENGINES_OWN:
                del buf
                return reuse(grad, node)
            return fresh(grad, node)

        return either

    def read(self, node: Node, name: str, raw: bool) -> Any:
        """`grad_fn._saved_<name>` by PyTorch's names: self, other, result. Where no overload of PyTorch's takes a number, it
        saves one as a tensor."""
        op = self.plan.op
        wanted = self.names(node).get(name, "")
        if wanted in self.number_names:
            value = node.static[self.number_names.index(wanted)]
            if wanted in op.settings or op.number_node is not None:
                return value
            whole = isinstance(value, int)
            return SavedTensor.of(node, None) if raw else hooks.scalar(value, None if whole else float64)
        return read_saved(node, wanted, name, raw)

    def names(self, node: Node) -> dict[str, str]:
        op = self.plan.op
        return {PUBLIC.get(n, n): n for n in op.reads(op.params)}

    def output_at(self, node: Node, k: int) -> int | None:
        return 0 if k >= len(self.tensors) else None

    def layouts(self, node: Node) -> tuple[Spec, ...]:
        return (self.plan.out,)


def _plain(how: str, g: Tensor, operand: Any) -> Tensor | None:
    if how == "none":
        return None
    return _fit(g, operand) if how == "g" else hooks.zeros(operand.dense())


def _fit(grad: Tensor, operand: Spec) -> Tensor:
    """Undo broadcasting and promotion: the gradient in the shape and dtype of the input."""
    if grad._spec.shape != operand.shape:
        grad = hooks.sum_to(grad, operand.shape)
    return grad if grad._spec.dtype is operand.dtype else hooks.to_dtype(grad, operand.dtype)


def _runner(
    kernel: Kernel,
    outs: list[Spec],
    where: list[int],
    keep: list[int],
    results: list[tuple[str, Any, Any]],
    over: bool,
) -> Callable[..., Any]:
    """`where` lists the tensors read: -1 is g, others index the saved; `keep` the numbers; `over`: write over g."""
    forms = []
    for how, k, operand in results:
        exact = how == "made" and outs[k].shape == operand.shape and outs[k].dtype is operand.dtype
        forms.append("exact" if exact else how)
    make = _runner_maker(
        len(outs), tuple(where), tuple(keep), tuple((f, k) for f, (_, k, _) in zip(forms, results)), over
    )
    sizes = [o.extent * o.itemsize for o in outs]
    operands = [operand for _, _, operand in results]
    return make(kernel.launch, kernel.address, kernel.n, sizes, outs, operands)


@lru_cache(maxsize=1024)
def _runner_maker(
    count: int, where: tuple[int, ...], keep: tuple[int, ...], forms: tuple[tuple[str, Any], ...], over: bool
) -> Callable[..., Any]:
    """Source of the few lines between a gradient's arrival and its kernel, without loops: measured 1 us a node less than with."""
    lines = ["def make(launch, address, n, sizes, outs, operands):"]
    names = ", ".join
    for k in range(count):
        lines.append(f"    size{k}, out{k} = sizes[{k}], outs[{k}]")
    lines += [
        f"    operand{k} = operands[{k}]"
        for k, (form, _) in enumerate(forms)
        if form not in ("exact", "none")
    ]
    lines.append("    def run(g, node):")
    held = sorted({k for k in where if k >= 0})
    if held:
        lines += ["        saved = node.saved", "        if saved is None: unpack(node)"]
    for k in held:  # what `unpack` checks, in line: no storage record, or no write since
        lines += [f"        s{k} = saved[{k}]", f"        st{k} = s{k}._storage"]
    if held:
        written = " or ".join(f"(st{k} is not None and st{k}.version != node.versions[{k}])" for k in held)
        lines.append(
            f"        if {written}: saved = unpack(node); {'; '.join(f's{k} = saved[{k}]' for k in held)}"
        )
    lines += [
        f"        b{k} = {'g._buf' if over and k == 0 else f'empty(size{k}, bytes_)'}" for k in range(count)
    ]
    read = ["g._buf" if k < 0 else f"s{k}._buf" for k in where if k >= 0 or not over]
    read += [f"node.static[{k}]" for k in keep]
    lines.append(f"        launch(address, n, {names([f'b{k}' for k in range(count)] + read)})")
    given = []
    for k, (form, at) in enumerate(forms):
        if form in ("made", "exact"):
            lines += [
                f"        t{k} = new(Tensor)",
                f"        t{k}._buf, t{k}._spec = b{at}, out{at}",
                f"        t{k}._rg = t{k}._nr = 0",
            ]
            lines.append(f"        t{k}._storage = t{k}._node = t{k}._view = t{k}._ad = None")
        given.append(
            {"none": "None", "exact": f"t{k}", "made": f"fit(t{k}, operand{k})"}.get(
                form, f"plain({form!r}, g, operand{k})"
            )
        )
    lines += [f"        return ({names(given)},)", "    return run"]
    scope: dict[str, Any] = {
        "unpack": unpack,
        "empty": _empty,
        "bytes_": _bytes,
        "new": new,
        "Tensor": Tensor,
        "fit": _fit,
        "plain": _plain,
    }
    exec("\n".join(lines), scope)
    return scope["make"]


def partial_function(op: ElementwiseOp, param: str) -> tuple[Any, tuple[str, ...]]:
    """The gradient for one input as an op, and what it reads: what create_graph, hooks and transforms run."""
    found: tuple[Any, tuple[str, ...]] | None = op._derived.get(param)
    if found is None:
        # A name that says where it comes from; second order of tanh is TanhBackwardBackward0 in PyTorch too.
        node_name = op.node_name.removesuffix("0") + "Backward0"
        found = op._derived[param] = derived(op, op.partials[param], f"{op.name}_{param}grad", node_name)
    return found


def derived(op: ElementwiseOp, e: Any, title: str, node_name: str) -> tuple[Any, tuple[str, ...]]:
    """A gradient or tangent of `op` as a function, and what it reads; no function for one variable as it is, nothing read for 0."""
    if e is diff.ZERO:
        return None, ()
    names = tuple(ordered_vars(e))
    if e is var(names[0]):
        return None, names
    while _untraced:
        known_op, known_function = _untraced.pop(0)
        if tuple(ordered_vars(known_op.body)) == known_op.params and not known_op.logical:
            _bodies.setdefault(_positional(known_op.body, known_op.params), (known_function, known_op.params))
    known = _bodies.get(_positional(e, names))
    if known is not None and len(known[1]) == len(names):
        return known[0], names
    # By position, as `g` and `y` are names that an op's own gradient takes.
    params = {n: var(f"v{k}", n in op.logical) for k, n in enumerate(names)}
    made = ElementwiseOp(
        title,
        substitute(e, params),
        node_name=node_name,
        params=tuple(f"v{k}" for k in range(len(names))),
        logical=tuple(f"v{k}" for k, n in enumerate(names) if n in op.logical),
    )
    smooth = smooth_vars(e)
    made.flat = frozenset(f"v{k}" for k, n in enumerate(names) if n not in smooth)
    return hooks.elementwise_function(made), names


def smooth_vars(e: Expr) -> set[str]:
    """The variables that are read other than by comparisons."""
    found, seen, left = set(), set(), [e]
    while left:
        node = left.pop()
        if node in seen or is_bool(node):
            continue
        seen.add(node)
        left += node.args
        if not node.args:
            found |= free_vars(node)
    return found


_bodies: dict[Expr, tuple[Callable[..., Tensor], tuple[str, ...]]] = {}


def _positional(e: Expr, names: Sequence[str]) -> Expr:
    return substitute(e, {n: var(f"v{k}") for k, n in enumerate(names)})


_untraced: list[tuple[ElementwiseOp, Callable[..., Tensor]]] = []  # traced when a second order first asks


def know_body(op: ElementwiseOp, function: Callable[..., Tensor]) -> None:
    """Let gradients that have this very body be this op: the gradient of `exp` is a `mul`, and shows MulBackward0."""
    _untraced.append((op, function))


# ---------------------------------------------------------------- all other ops


OWN = {
    "place",
    "parts",
    "at",
    "reverse",
    "length",
}  # what rules read here, and PyTorch's nodes do not know by any name


class OpRule:
    """The gradient of an `Op` for one choice of inputs that want it: what is saved, and the calls of its rules, written out as source
    once, because collecting a rule's arguments by name at each call cost more than the rule."""

    def __init__(self, op: Op, mask: tuple[bool, ...], given: tuple[bool, ...], several: bool) -> None:
        """`given` says which of the inputs are there at all (an optional one may be None); `several`, that the op's result is a
        tuple: its rules get a list of gradients, though only one of the outputs may have one."""
        self.op, self.mask, self.node_name, self.single = op, mask, op.node_name, not several
        self.overwrites = any("own" in op.reads[n] for n in op.reads)
        if "all" in op.rules:
            asked = set(op.reads["all"])
        else:
            asked = {n for p, m in zip(op.inputs, mask) if m and p in op.rules for n in op.reads[p]}
        names = [] if op.variadic else list(op.inputs)
        self.hidden = () if "all" in op.rules else tuple(k for k, n in enumerate(names) if n not in op.rules)
        self.inputs = tuple(k for k, n in enumerate(names) if n in asked and given[k])
        self.outputs = tuple(
            int(n[1:] or 0) for n in sorted(asked) if n == OUT or (n[0] == OUT and n[1:].isdigit())
        )
        self.saved_names = (
            *(names[k] for k in self.inputs),
            *(n for n in sorted(asked) if n == OUT or (n[0] == OUT and n[1:].isdigit())),
        )
        self.order = _order(self.saved_names, op.public)
        where = {GRAD: "g", "wanted": "wanted", "specs": "layout", "own": "own"}
        where |= {n: f"saved[{k}]" for k, n in enumerate(self.saved_names)}
        where |= {n: "None" for k, n in enumerate(names) if not given[k]}
        where |= {f"{n}_spec": f"layout[{k}]" for k, n in enumerate(names)}

        def call(rule: str) -> str:
            return f"{rule}({', '.join(where.get(n) or f'static[{n!r}]' for n in op.reads[rule])})"

        text = (
            call("all")
            if "all" in op.rules
            else "".join(
                (f"({call(n)}) if wanted[{k}] else None, " if m and n in op.rules else "None, ")
                for k, (n, m) in enumerate(zip(op.inputs, mask))
            )
        )
        scope: dict[str, Any] = dict(op.rules)
        listed = "if type(g) is not list: g = [g]" if several and not op.statistics else ""
        exec(
            f"def run(g, saved, static, layout, wanted, own=False):\n    {listed}\n    return ({text})", scope
        )
        self.run = scope["run"]

    def made_by(self, node: Node, k: int) -> str:
        t = (node.saved or ())[k]
        if k >= len(self.inputs):
            if not t._spec.dtype.is_floating_point:
                return ""
            return f", which is output {self.outputs[k - len(self.inputs)]} of {written_as(node)},"
        return origin(t)

    def apply(self, node: Node, g: Any, needed: Any, graph: bool) -> Any:
        saved = node.saved
        if saved != ():
            saved = unpack(node)
        mask = self.mask
        if needed is not None:
            mask = tuple([m and n in needed for m, n in zip(mask, node.next)])
        if graph and saved:
            first = len(self.inputs)
            check_attached(node, saved, self.inputs)
            saved = (
                *saved[:first],
                *(
                    t if k and self.op.statistics else as_output(t, node, k)
                    for t, k in zip(saved[first:], self.outputs)
                ),
            )
        static, layout, _ = node.static
        own = False
        if self.overwrites and not graph and g._rg == 0:
            buf = g._buf
            own = (
                buf.base is None
                and g._spec.numel * g._spec.itemsize >= _REUSE_FROM
                and getrefcount(buf) == 3
                and getrefcount(g) == _ENGINES_OWN - 1
            )
        return self.run(g, saved, static, layout, mask, own)

    def layouts(self, node: Node) -> tuple[Spec, ...]:
        result = node.static[2]
        return (result,) if isinstance(result, Spec) else result[: node.outputs]

    def read(self, node: Node, name: str, raw: bool) -> Any:
        wanted = self.names(node).get(name, "")
        if wanted.endswith("_spec") and not raw:
            return tuple(node.static[1][self.op.inputs.index(wanted.removesuffix("_spec"))].shape)
        if wanted not in node.static[0]:
            return read_saved(node, "" if wanted.endswith("_spec") else wanted, name, raw)
        return read_saved(node, "", name, raw) if raw else node.static[0][wanted]

    def names(self, node: Node) -> dict[str, str]:
        """PyTorch calls an integer output `indices`, others by number if there are several."""
        layouts = node.static[2]
        public = dict(self.op.public)
        for k, known in enumerate(() if isinstance(layouts, Spec) else layouts):
            public[f"{OUT}{k}"] = f"result{k}" if known.dtype.is_floating_point else "indices"
        for n in self.op.inputs:
            public[f"{n}_spec"] = f"{public.get(n, n)}_sym_sizes"
        read = {n for reads in self.op.reads.values() for n in reads} - OWN
        return {
            public.get(n, n): n
            for n in sorted(read)
            if n in public or n in self.op.inputs or n in node.static[0]
        }

    def output_at(self, node: Node, k: int) -> int | None:
        first = len(self.inputs)
        return self.outputs[k - first] if k >= first else None


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


def op_recorder(owner: Any, asked: int) -> Callable[..., None]:
    """As `recorder`, for an `Op` or what was prepared of one; 3 stands for an operand that is not there. An op of one result is
    given its static arguments at each call, what was prepared knows what to keep, and which of `results` can have history."""
    found = owner.recorders.get(asked)
    if found is None:
        op, results = (owner, ()) if isinstance(owner, Op) else (owner.op, owner.results)
        flags = tuple([asked >> 2 * k & 3 for k in range(len(op.inputs))])
        mask = tuple([flag in (1, 2) for flag in flags])
        found = _nothing
        if any(mask) and op.rules and results is not None:
            rule = _op_rule(op, mask, tuple([flag != 3 for flag in flags]), bool(results))
            saved = [f"a{k}" for k in rule.inputs]
            saved += [f"{'r' if k and op.statistics else 'y'}{k}" for k in rule.outputs]
            every = tuple(range(len(flags)))
            if owner is op:
                specs = _tuple(["None" if flag == 3 else f"a{k}._spec" for k, flag in enumerate(flags)])
                own = (f"(static, {specs}, r0._spec)", (), "static, ", "1 if r0._view is None else 2")
            else:
                own = ("owner.kept", results, "", "1")
            found = _recorder_maker(flags, every, tuple(saved), *own)(rule, owner, asked, op_recorder)
        owner.recorders[asked] = found
    return found


def _nothing(*_: Any) -> None:
    """The record of what nobody wants a gradient of."""


def _op_rule(op: Op, mask: tuple[bool, ...], given: tuple[bool, ...], several: bool) -> OpRule:
    found = op.rules_of.get((mask, given))
    if found is None:
        found = op.rules_of[mask, given] = OpRule(op, mask, given, several)
    return found


def record_op(op: Op, result: Any, tensors: Sequence[Any], static: dict[str, Any]) -> Any:
    """Give the outputs of an `Op` their history."""
    single = isinstance(result, Tensor)
    if single and not op.variadic:
        if result._spec.dtype.is_floating_point:
            asked = shift = 0
            for t in tensors:
                asked |= (3 if t is None else t._rg) << shift
                shift += 2
            (op.recorders.get(asked) or op_recorder(op, asked))(result, static, *tensors)
        return result
    mask = tuple([t is not None and requires(t) for t in tensors])
    if True not in mask:
        return result
    rule = _op_rule(op, mask, tuple([t is not None for t in tensors]), not single)
    node = Node()
    edges: list[Node | None] = []
    numbers, layout = [], []
    for t, wants in zip(tensors, rule.mask):
        layout.append(None if t is None else t._spec)
        if wants:
            target, number = edge(t)  # of a view, after its history was brought up to date
            edges.append(target)
            numbers.append(number)
            if t._node is None:
                node.leaves = t, node.leaves
        else:
            edges.append(None)
            numbers.append(0)
    node.next, node.numbers = tuple(edges), tuple(numbers)
    outs = (result,) if single else result
    layouts = result._spec if single else tuple([o._spec for o in outs])
    node.static = (static, tuple(layout), layouts)
    if not single:  # integers come last, and get no gradient
        node.outputs = 1 if op.statistics else sum([o._spec.dtype.is_floating_point for o in outs])
    if rule.saved_names:
        saved = [tensors[k] for k in rule.inputs]
        for k in rule.outputs:
            if k and op.statistics:
                saved.append(outs[k])
                continue
            shadow = wrap(outs[k]._buf, outs[k]._spec)
            shadow._storage = storage_of(outs[k])
            saved.append(shadow)
        node.saved, node.versions = save(saved)
    node.rule = rule
    node.seq = next(sequence)
    if shared.rare:
        note_origin(node)
    for k, o in enumerate(outs[:1] if op.statistics else outs):
        if o._spec.dtype.is_floating_point:
            o._node, o._nr, o._rg = node, k, 2 if o._view is not None else 1
    return result


def record_view(out: Tensor, base: Tensor, op: Op, static: dict[str, Any]) -> Tensor:
    if base._rg and state.grad:
        record_op(op, out, (base,), static)
    return out


def written_by(t: Tensor, op: Op, tensors: Sequence[Any], static: dict[str, Any]) -> Tensor:
    """Record an in-place op that is no elementwise one: `t` has been written to from `tensors`, the first of which is t."""
    if state.grad and any(x is not None and requires(x) for x in tensors):
        shadow = wrap(t._buf, t._spec)
        record_op(op, shadow, tensors, static)
        if shadow._node is not None:
            rebase(t, shadow._node)
            return t
    written(t)
    return t
