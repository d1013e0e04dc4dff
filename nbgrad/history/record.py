"""History: what a call leaves on the tape.

Promises the dispatcher recorders, which give an output its node. Who wants a gradient decides what is saved, and is the same at
almost every call, so a recorder is made for each choice, as source without loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.base import source
from nbgrad.base.source import text_of, tuple_of
from nbgrad.base.tables import cached
from nbgrad.core.op import Op
from nbgrad.core.plan import Plan
from nbgrad.core.tensor import Tensor, accumulator, edge, new, requires, storage_of, wrap
from nbgrad.core.writes import rebase, written
from nbgrad.history.backward import note_origin
from nbgrad.history.rules import ElementwiseRule, OpRule, PartRule
from nbgrad.history.saved import Packed, of_packed, save, versions_of
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import HELD, NUMBERS, VERSIONS, Node, blank, leaving, sequence


def record(plan: Plan, t: Tensor, args: Sequence[Any]) -> None:
    """Give `t`, a result of `args`, its history, if any of them wants a gradient."""
    asked = sum([a._rg << 2 * k for k, a in enumerate(args) if isinstance(a, Tensor)])
    recorder(plan, asked)(t, *args)


def recorder(owner: Any, asked: int) -> Callable[..., None]:
    """The function of a result and the operands that records a call of `owner`: of a `Plan`, of an `Op` (whose static arguments it is
    given in between), or of what was prepared of one. `asked` holds the operands' `_rg`, two bits each, the first lowest, 3 for one that
    is not there; of an op of any number of operands a 1 stands after the last. Who wants a gradient decides what is saved, so all
    that can be decided once is, here."""
    found = owner.recorders.get(asked)
    if found is None:
        found = owner.recorders[asked] = (_of_plan if isinstance(owner, Plan) else _of_op)(owner, asked)
    return found


def _of_plan(plan: Plan, asked: int) -> Callable[..., None]:
    op = plan.op
    flags = [0 if p in op.flat else asked >> 2 * k & 3 for k, p in enumerate(op.params)]
    if not any(flags) or not plan.out.dtype.inexact:
        return _constant
    rule = rule_of(plan, tuple([flag != 0 for flag in flags]))
    # With no derivative anywhere (sign, floor, a comparison in place) PyTorch still records.
    # PyTorch's node that has no gradient knows only of inputs that want one.
    listed = tuple([k for k, flag in enumerate(flags) if flag or op.refuses is None])
    static = tuple_of([f"a{k}" for k in rule.number_positions]) if rule.number_positions else ""
    saved = (*(f"a{k}" for k in rule.tensor_positions), *["y0"] * rule.saves_output)
    saved = saved or ("HELD",) * rule.holds
    return _written(tuple(flags), listed, saved, static)(rule, plan, asked, recorder)


def _constant(t: Tensor, *args: Any) -> None:
    t._rg, t._node = 0, None


def _of_op(owner: Any, asked: int) -> Callable[..., None]:
    """What was prepared knows what to keep, and which of `results` can have history; an op of other settings is told at each call."""
    op, results = (owner, ()) if isinstance(owner, Op) else (owner.op, owner.results)
    count = (asked.bit_length() - 1) // 2 if op.variadic else len(op.inputs)
    flags = tuple([asked >> 2 * k & 3 for k in range(count)])
    mask = tuple([flag in (1, 2) for flag in flags])
    found: Callable[..., None] = _nothing
    if any(mask) and op.rules and results is not None:
        rule = op_rule(op, mask, tuple([flag != 3 for flag in flags]), bool(results))
        saved = [f"a{k}" for k in rule.inputs]
        saved += [f"{'r' if k and op.statistics else 'y'}{k}" for k in rule.outputs]
        saved = saved or ["HELD"] * rule.holds
        every = tuple(range(len(flags)))
        if isinstance(owner, (Op, _Several)):
            specs = tuple_of(["None" if flag == 3 else f"a{k}._spec" for k, flag in enumerate(flags)])
            made = tuple_of([f"r{k}._spec" for k in range(len(results))]) if results else "r0._spec"
            own = (f"(static, {specs}, {made})", results, "static, ", "1 if r{k}._view is None else 2")
        else:
            own = ("owner.kept", results, "", "2" if op.views else "1")
        found = _written(flags, every, tuple(saved), *own)(rule, owner, asked, recorder)
    if op.views:
        found = _of_followed(found)
    if op.untrained and mask[(k := op.inputs.index(op.untrained[1]))]:
        found = _held_to(op.untrained, k, found)
    return found


@cached(1024)
def _written(
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
    `listed` and keeps `static` and what is `saved`: operands a0, a1 ..., results r0, r1 ... or, as y0, y1 ..., what lies in those; or HELD.
    Of several `results` those get history for which True stands."""
    about = f"who wants a gradient: {flags}, saved: {tuple_of(saved)}, kept: {static or None}"
    given += ", ".join([f"a{k}" for k in range(len(flags))])
    result = "results" if results else "r0"
    views = [k for k, flag in enumerate(flags) if flag == 2]
    lines: list[Any] = [f"e{k} = a{k}._node" for k in views]
    if views and 1 not in flags:  # most views are of what wants none, which is seen at a glance
        plain = [f"e{k} is None and not ((v := a{k}._view).leaf or v.base._rg)" for k in views]
        lines += [
            f"if {' and '.join(plain)}:",
            [f"return (find(none) or recorder(owner, none))({result}, {given})"],
        ]
    for k in views:
        lines += [
            f"if e{k} is None and not requires(a{k}):",
            [f"return recorder(owner, asked - {2 << 2 * k})({result}, {given})"],
        ]
    lines += ["node = Node()", *leaving("saved" if saved else "", "static" if static else "")]
    asking = [k for k, flag in enumerate(flags) if flag in (1, 2)]
    for k in asking:
        held = f"a{k}" if k == asking[0] else f"(a{k}, node.leaves)"
        if flags[k] == 2:
            if k != views[0]:  # it may be a view that was brought up to date before it
                lines.append(f"e{k} = a{k}._node")
            lines += [  # `edge` brings a view up to date
                f"if e{k} is not None and a{k}._view.version == a{k}._storage.version: n{k} = a{k}._nr",
                "else:",
                [f"e{k}, n{k} = edge(a{k})", f"if a{k}._node is None: node.leaves = {held}"],
            ]
        else:
            lines += [
                f"e{k} = a{k}._node",
                f"if e{k} is None: e{k}, node.leaves = accumulator(a{k}), {held}",
            ]
    # What lists the edges to a user adds those that lead nowhere.
    listed = listed[: listed.index(asking[-1]) + 1]
    number = [{1: f"a{k}._nr", 2: f"n{k}"}.get(flags[k], "0") for k in listed]
    if results:
        lines.append(f"{tuple_of([f'r{k}' for k in range(len(results))])} = results")
    lines += [
        f"node.next = {tuple_of([f'e{k}' if k in asking else 'None' for k in listed])}",
        f"if {' or '.join([n for n in number if n != '0'])}: node.numbers = {tuple_of(number)}",
    ]
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
    if saved == ("HELD",):
        lines.append("node.saved = HELD")
        saved = ()
    elif saved:
        lines += [
            f"node.saved = {tuple_of(saved)}",
            f"if {' or '.join([f'{t}._storage is not None' for t in saved])}:",
            [f"node.versions = {tuple_of(map(_counted, saved))}"],
        ]
    if static:
        lines.append(f"node.static = {static}")
    lines += ["node.rule = rule", "node.seq = next(sequence)", "if shared.rare:"]
    rare = []
    if saved:
        rare += [
            "node.saved, node.versions = save(node.saved, getattr(rule, 'order', None))",
            "if type(node.saved[0]) is Packed: node.rule = of_packed(rule)",
        ]
    lines.append([*rare, "note_origin(node)"])
    if len(recorded) > 1:
        lines.append(f"node.outputs = {len(recorded)}")
    lines += [f"r{k}._node, r{k}._nr = node, {k}" for k in recorded] or ["r0._node = node"]
    lines += [f"r{k}._rg = {wants.format(k=k)}" for k in recorded or [0]]
    scope: dict[str, Any] = dict(
        Node=Node, Tensor=Tensor, Packed=Packed, HELD=HELD, sequence=sequence, shared=shared
    )
    scope |= dict(NUMBERS=NUMBERS, VERSIONS=VERSIONS)
    scope |= dict(requires=requires, edge=edge, accumulator=accumulator, new=new, storage_of=storage_of)
    scope |= dict(versions=versions_of, save=save, note_origin=note_origin, of_packed=of_packed)
    whole = [
        "def make(rule, owner, asked, recorder):",
        [f"find, none = owner.recorders.get, asked - {sum([2 << 2 * k for k in views])}"],
        [f"def record({result}, {given}):", lines, "return record"],
    ]
    title = f"recorder of {len(flags)} operands"
    return source.function("make", text_of(whole), scope, title, about)


def _counted(t: str) -> str:
    """What `versions_of` says of one tensor, in line; it is asked about those that it refuses."""
    known = f"{t}._storage"
    return f"0 if {known} is None else {known}.version if not {known}.inference else versions(node.saved)"


def rule_of(plan: Plan, mask: tuple[bool, ...]) -> ElementwiseRule:
    found = plan.rules.get(mask)
    if found is None:
        found = plan.rules[mask] = ElementwiseRule(plan, mask)
    return found


def _of_followed(record: Callable[..., None]) -> Callable[..., None]:
    """Views of an inference tensor are none that a graph follows, and have no history."""

    def followed(result: Any, *args: Any) -> None:
        several = type(result) is tuple
        if not (several and not result) and (result[0] if several else result)._view is not None:
            record(result, *args)

    return followed


def _held_to(names: tuple[str, str], k: int, record: Callable[..., None]) -> Callable[..., None]:
    def checked(result: Any, *args: Any) -> None:
        check_untrained(names[0], **{names[1]: args[k]})
        record(result, *args)

    return checked


def check_untrained(function: str, **inputs: Tensor | None) -> None:
    """Refuse inputs that want a gradient which PyTorch's function of that name has not."""
    for name, t in inputs.items():
        if t is not None and t._rg and state.grad and t.requires_grad:
            raise RuntimeError(
                f"The function '{function}' is not differentiable with respect to argument '{name}'. This input cannot have "
                "requires_grad True."
            )


def _nothing(*_: Any) -> None:
    """The record of what nobody wants a gradient of."""


def op_rule(op: Op, mask: tuple[bool, ...], given: tuple[bool, ...], several: bool) -> OpRule:
    found = op.rules_of.get((mask, given))
    if found is None:
        kind = OpRule if op.part is None else PartRule
        found = op.rules_of[mask, given] = kind(op, mask, given, several)
    return found


_WRITTEN_OUT = 16  # operands, as many as a recorder has by name


class _Several:
    """An op with these results, of which True stands for what can have history."""

    __slots__ = ("op", "recorders", "results")

    def __init__(self, op: Op, results: tuple[bool, ...]) -> None:
        can = [inexact and not (k and op.statistics) for k, inexact in enumerate(results)]
        self.op, self.results = op, tuple(can) if True in can else None
        self.recorders: dict[int, Callable[..., None]] = {}


_several = cached(1024)(_Several)


def record_op(op: Op, result: Any, tensors: Sequence[Any], static: dict[str, Any]) -> Any:
    """Give the outputs of an `Op` their history."""
    owner: Op | _Several = op
    if len(tensors) > _WRITTEN_OUT:
        _record_step_by_step(op, result, tensors, static)
        return result
    if not isinstance(result, Tensor):
        if len(result) > _WRITTEN_OUT or not result:
            _record_step_by_step(op, result, tensors, static)
            return result
        owner = _several(op, tuple([t._spec.dtype.inexact for t in result]))
    elif not result._spec.dtype.inexact:
        return result
    asked = shift = 0
    for t in tensors:
        asked |= (3 if t is None else t._rg) << shift
        shift += 2
    if op.variadic:
        asked |= 1 << shift
    (owner.recorders.get(asked) or recorder(owner, asked))(result, static, *tensors)
    return result


def _record_step_by_step(op: Op, result: Any, tensors: Sequence[Any], static: dict[str, Any]) -> None:
    """The same where what there is shows at the call: of more operands or results than a recorder has by name."""
    single = isinstance(result, Tensor)
    mask = tuple([t is not None and requires(t) for t in tensors])
    if True not in mask:
        return
    rule = op_rule(op, mask, tuple([t is not None for t in tensors]), not single)
    node = blank()
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
        node.outputs = 1 if op.statistics else sum([o._spec.dtype.inexact for o in outs])
    if rule.saved_names:
        saved = [tensors[k] for k in rule.inputs]
        for k in rule.outputs:
            if k and op.statistics:
                saved.append(outs[k])
                continue
            shadow = wrap(outs[k]._buf, outs[k]._spec)
            shadow._storage = storage_of(outs[k])
            saved.append(shadow)
        node.saved, node.versions = save(saved, rule.order)
    elif rule.holds:
        node.saved = HELD
    node.rule = rule
    node.seq = next(sequence)
    if shared.rare:
        note_origin(node)
    for k, o in enumerate(outs[:1] if op.statistics else outs):
        if o._spec.dtype.inexact:
            o._node, o._nr, o._rg = node, k, 2 if o._view is not None else 1


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
