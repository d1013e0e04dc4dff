"""Ops that are settled by how their tensors lie: reductions, scans, sorts, softmax; norms and losses.

Promises them that whatever depends on a layout and on settings is worked out once. `prepared` makes an op of a function that, given a
Spec and settings, returns what computes the op on tensors that lie so. `settled` makes a user's function of one that looks at
its arguments and says which op they come to: that answer is kept too, so such a call costs one look-up, a launch and a record. An op
of several tensors gives one result, and statistics that only its rules read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any

import numpy as np

from nbgrad.base.source import fill
from nbgrad.base.tables import DEFAULT_DTYPE, PLANS, Table
from nbgrad.core import arguments
from nbgrad.core.op import Op
from nbgrad.core.refusals import check_kept
from nbgrad.core.signatures import kinds
from nbgrad.core.tensor import Tensor, as_inference, empty, new, requires, wrap
from nbgrad.dispatch import transforms
from nbgrad.dispatch.look import ANY, SCOPE, Look, looking, rule_of
from nbgrad.dispatch.replay import learn
from nbgrad.history.backward import note_origin
from nbgrad.history.record import recorder
from nbgrad.memory import backend
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Size
from nbgrad.memory.storage import Marked, Spec
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import blank, sequence

Run = Callable[[Tensor], Any]
RunSeveral = Callable[..., tuple[Tensor, ...]]  # of tensors, those not given being None
_bytes = np.dtype(np.uint8)


class Prepared:
    """An op, with settings, on tensors of one Spec (or several): `run` computes it. The rest is for the record: `recorders` by which
    tensors want a gradient, what each node keeps beside tensors, and which of several results can have a gradient. `look` is a view's."""

    __slots__ = ("kept", "look", "op", "recorders", "results", "run", "spec", "static")

    def __init__(
        self,
        op: Op,
        sp: tuple[Any, ...],
        static: dict[str, Any],
        run: Callable[..., Any],
        look: Look | None = None,
    ) -> None:
        self.op, self.spec, self.static, self.run, self.look = op, sp, static, run, look
        self.recorders: Any = {}
        self.kept: Any = None
        self.results: tuple[bool, ...] | None = ()  # none of one result, None if not even that has one
        if look is None and sp[0].backend.holds and not sp[0].backend.prompt:
            self.run = self._once(run)

    def _once(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """On a device: the second call says what several launches come to."""

        def first(*tensors: Tensor | None) -> Any:
            if self.run is first:  # else by who has kept it
                self.run = second
            return run(*tensors)

        def second(*tensors: Tensor | None) -> Any:
            new = self.run is second
            if new:
                self.run = run  # whatever comes
            result = run(*tensors)
            if new:
                self.run = learn(run, tensors, 2, again=True) or run
            return result

        return first

    def recorder(self, asked: int, result: Any) -> Any:
        """What records a first call of its kind."""
        if self.kept is None:
            several = not isinstance(result, Tensor)
            specs = tuple([t._spec for t in (result if several else (result,))])
            # Integers come last, and get no gradient; statistics none either.
            can = [sp.dtype.inexact and not (k and self.op.statistics) for k, sp in enumerate(specs)]
            self.results = tuple(can) if several else () if can[0] else None
            self.kept = (self.static, self.spec, specs if several else specs[0])
        return recorder(self, asked)

    def record(self, result: Any, tensors: tuple[Any, ...]) -> None:
        """Give new results their history."""
        asked = shift = 0
        for t in tensors:
            asked |= (3 if t is None else t._rg) << shift
            shift += 2
        (self.recorders.get(asked) or self.recorder(asked, result))(result, *tensors)


def prepared(
    node_name: str = "",
    tangent: Callable[..., Any] | str | None = None,
    batch: Callable[..., Any] | None = None,
    result: Callable[[Any], Any] | None = None,
    holomorphic: bool = True,
    **rules: Callable[..., Any],
) -> Callable[[Callable[..., Run]], Callable[..., Any]]:
    """Make `prepare(input, **static)` an op of one tensor, with rules as `differentiable` has them, none if it has no gradient; `input` is
    the tensor's Spec. `result` makes what users get of several results."""

    def make(prepare: Callable[..., Run]) -> Callable[..., Any]:
        name = node_name if node_name[-1:].isdigit() else node_name + "Backward0"
        op = Op(prepare, rules, name, tangent, batch, holomorphic=holomorphic)
        known: Table[Any, Prepared] = Table("dispatch.prepared.known", PLANS)
        find = known.get

        def at(sp: Spec, static: dict[str, Any]) -> Prepared:
            key = (sp, *static.items())
            found = find(key)
            if found is None:
                if sp.dtype.kept:
                    check_kept(op.name, sp.dtype)
                run = prepare(sp, **static)
                made = Prepared(op, (sp,), static, run if result is None else _then(run, result))
                found = known.keep(key, made)
            return found

        def function(input: Tensor, **static: Any) -> Any:
            if state.active and transforms.wrapped((input,)):
                got = transforms.apply(op, function, (input,), static)
                return got if result is None else result(got)
            plan = at(input._spec, static)
            got = plan.run(input)
            if input._rg and state.grad:
                plan.record(got, (input,))
            return got

        function.at, function.op = at, op  # type: ignore[attr-defined]
        op.function = function
        function.__name__, function.__doc__ = op.name, prepare.__doc__
        return function

    return make


def prepared_several(
    node_name: str,
    tangent: Callable[..., Any] | str | None = None,
    batch: Callable[..., Any] | None = None,
    untrained: tuple[str, str] | None = None,
    **rules: Callable[..., Any],
) -> Callable[[Callable[..., RunSeveral]], Callable[..., Any]]:
    """The same for `prepare(*tensors, **static)` of several tensors, some of which may be None."""

    def make(prepare: Callable[..., RunSeveral]) -> Callable[..., Any]:
        op = Op(prepare, rules, node_name + "Backward0", tangent, batch, statistics=True, untrained=untrained)
        known: Table[Any, Prepared] = Table("dispatch.prepared.known", PLANS)
        find = known.get

        def at(*tensors: Any, **static: Any) -> Prepared:
            specs = tuple([None if t is None else t._spec for t in tensors])
            key = (*specs, *static.values())
            found = find(key)
            if found is None:
                for sp in specs:
                    if sp is not None and sp.dtype.kept:
                        check_kept(op.name, sp.dtype)
                backend.same([sp.device for sp in specs if sp is not None])
                found = known.keep(key, Prepared(op, specs, static, prepare(*specs, **static)))
            return found

        def function(*tensors: Any, **static: Any) -> Any:
            if state.active and transforms.wrapped(tensors):
                return transforms.apply(op, function, tensors, static)
            plan = at(*tensors, **static)
            got = plan.run(*tensors)
            if state.grad and any([t is not None and t._rg for t in tensors]):
                plan.record(got, tensors)
            return got

        function.at, function.op = at, op  # type: ignore[attr-defined]
        op.function = function
        function.__name__, function.__doc__ = op.name, prepare.__doc__
        return function

    return make


def call_of(op: Any, input: Tensor, *others: Any, **static: Any) -> Any:
    """What a settled function answers: the op with these settings. Within a transform it is the result itself."""
    if not op.op.statistics:
        return op(input, **static) if type(input._spec) is Marked else op.at(input._spec, static)
    tensors = (input, *others)
    return op(*tensors, **static)[0] if transforms.wrapped(tensors) else op.at(*tensors, **static)


def copied_as(copied: Prepared, op: Op, static: dict[str, Any], made: Spec, run: Run) -> Prepared:
    """What a settled function answers that comes to a copy and to a view of it, which nobody has but the user: `run` makes the copy, read
    as it is to be, and two nodes are left."""
    (sp,) = copied.spec
    rule, kept = rule_of(op, sp), (static, (sp.dense(),), made)

    def record(result: Tensor, t: Tensor) -> None:
        result._spec = kept[1][0]
        copied.record(result, (t,))
        result._spec = made
        if result._node is not None:
            node = blank()
            node.next, node.static, node.rule, node.seq = (result._node,), kept, rule, next(sequence)
            if shared.rare:
                note_origin(node)
            result._node = node

    plan = Prepared(op, (sp,), static, run)
    plan.recorders = SimpleNamespace(get=lambda asked: record)
    return plan


def in_turn(
    first: Prepared | Callable[[Tensor], Tensor], between: Spec, second: Prepared, run: Run
) -> Prepared:
    """What a settled function answers that comes to one op (or a view) and another of its result, which nobody sees, and of which neither
    keeps a value: `run` computes both."""

    def record(result: Tensor, t: Tensor) -> None:
        if isinstance(first, Prepared):
            made = wrap(_NOWHERE, between)
            first.record(made, (t,))
        else:
            made = first(t)
        second.record(result, (made,))

    plan = Prepared(second.op, second.spec, second.static, run)
    plan.recorders = SimpleNamespace(get=lambda asked: record)
    return plan


_NOWHERE = np.empty(0, _bytes)


def _then(run: Run, result: Callable[[Any], Any]) -> Run:
    return lambda t: result(run(t))


def filled(
    launch: Any, address: int, n: int, meta: Any, outs: Sequence[Spec], numbers: tuple[float, ...] = ()
) -> Run:
    """What runs a kernel whose arguments are `meta`, the results, the tensor, and numbers. One result and two are written out: what a
    call on few elements costs are the interpreter's steps."""

    def several(t: Tensor) -> Any:
        made = [empty(sp) for sp in outs]
        launch(address, n, meta, *[o._buf for o in made], t._buf, *numbers)
        return made[0] if len(made) == 1 else tuple(made)

    if numbers or len(outs) > 2:
        return several
    out, size, allocate = outs[0], outs[0].nbytes, outs[0].allocate

    def one(t: Tensor) -> Tensor:
        buf = allocate(size, _bytes)
        launch(address, n, meta, buf, t._buf)
        made: Tensor = new(Tensor)  # `wrap`, in line
        made._buf, made._spec = buf, out
        made._rg = made._nr = 0
        made._storage = made._node = made._view = made._ad = None
        if shared.rare and state.modes.inference:
            as_inference(made)
        return made

    if len(outs) == 1:
        return one
    second, second_size = outs[1], outs[1].nbytes

    def two(t: Tensor) -> tuple[Tensor, Tensor]:
        buf, other = allocate(size, _bytes), allocate(second_size, _bytes)
        launch(address, n, meta, buf, other, t._buf)
        return wrap(buf, out), wrap(other, second)

    return two


# ---------------------------------------------------------------- users' functions

_SETTLED = """
def {name}({definition}):
    if {unusual}:
        return anew(locals())
    try:
        {spread}
        plan = find({whole_key})
    except (AttributeError, TypeError):
        plan = None
        {as_tuples}
    {view}
    try:
        if plan is None:
            {of_two}
            if {missing}:
                return anew(locals())
            {values} = judge({values})
            plan = function({call})
            {kept_as_tuples}
            if type(plan) is not Prepared:
                if not {first}._spec.backend.prompt:
                    composed({whole_key}, ({values}))
                return plan
            keep({whole_key}, plan)
        result = plan.run({tensors})
    except Answered as answered:
        return answered.result
    except Exception as error:
        refused_after(error, {values})
        raise
    if ({wants}) and state.grad:
        asked = {asked}
        (plan.recorders.get(asked) or plan.recorder(asked, result))(result, {tensors})
    return result{first_result}
"""
_SPREAD = ["if len(given) == 1 and given[0].__class__ in sequences:", ["given = tuple(given[0])"]]
_PLAIN = {int, bool, float, str, type(None), type(arguments.unset), type, dtype}


def settled(function: Callable[..., Any]) -> Any:
    """`function(input, settings, *, more)` checks its arguments and returns `call_of(op, input, ...)`, the op that the call comes to; or,
    where it comes to more than one (`out=`, another dtype), the result. The answer may depend on the Specs of tensors and on the
    settings alone. `*settings` are taken one by one or as a sequence."""
    return _settled(function, ())


def settled_first(function: Callable[..., Any]) -> Any:
    """The same where the op has several results, of which users get the first."""
    return _settled(function, (), one=True)


def viewed(function: Callable[..., Any]) -> Any:
    """The same for a function whose answer is a view, or what is none."""
    return _settled(function, (), views=True)


def viewed_like(function: Callable[..., Any]) -> Any:
    """The same of one that looks at `other` as well, at how it lies and no further."""
    return _settled(function, ("other",), views=True)


def settled_or(of_two: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Callable[..., Any]], Any]:
    """The same of a function that, given a tensor where its first setting stands and no more, is another one, of two tensors."""
    return partial(_settled, others=(), of_two=of_two)


def settled_by(*others: str) -> Callable[[Callable[..., Any]], Any]:
    """The same for a function of several tensors; `others` names those after the first. A tuple of ints may be a setting here."""
    return partial(_settled, others=others)


def _from_plan(base: str) -> list[Any]:
    return [
        "if plan is not None and plan.look is not None:",
        ["shown, byte, rule, kept, more = plan.look", *looking(base, "kept", ANY)],
    ]


def _by_tuples(names: Sequence[str], key: str) -> list[Any]:
    """A list of ints, which no table can hold, is found as a tuple; what refuses it sees the list."""
    if not names:
        return []
    at = [f"listed_{name}" for name in names]
    find = ["try:", [f"plan = find({key})"], "except (AttributeError, TypeError):", ["plan = None"]]
    back = ["if plan is None:", [f"{', '.join(names)} = {', '.join(at)}"]]
    first = [f"{', '.join(at)} = {', '.join(names)}", *_as_tuples(names), *find, *back]
    return [f"if {' or '.join([f'{name}.__class__ is list' for name in names])}:", first]


def _as_tuples(names: Sequence[str]) -> list[Any]:
    return [
        line
        for name in names
        for line in (
            f"if {name}.__class__ is list and {{*map(type, {name})}} == only_ints:",
            [f"{name} = (*{name},)"],
        )
    ]


def _two_tensors(every: Sequence[Parameter]) -> list[Any]:
    first, second, *more = [p.name for p in every]
    both = f"{first}.__class__ is {second}.__class__ is Tensor"
    return [
        f"if {' and '.join([both, *[f'{name} is _{name}' for name in more]])}:",
        [f"return of_two({first}, {second})"],
    ]


def _kind_of(name: str) -> str:
    """As 1 is neither True nor 1.0."""
    return f"(tuple, *map(type, {name})) if {name}.__class__ is tuple else type({name})"


def _all_kinds(values: tuple[Any, ...]) -> Any:
    """Of arguments that one parameter takes."""
    return tuple([kinds(v) for v in values])


class _Composed:
    """What stands for several ops of a device: it gives what they do, and where a record is left has them done."""

    __slots__ = ("look", "run")
    recorders = SimpleNamespace(get=lambda asked: lambda *_: None)  # of a view that wants no gradient

    def __init__(self, call: Callable[..., Any], run: Callable[..., Any], one: bool) -> None:
        def either(*tensors: Tensor | None) -> Any:
            if state.grad and any([t is not None and t._rg and requires(t) for t in tensors]):
                raise arguments.Answered(call(*tensors))
            result = run(*tensors)
            return (result,) if one else result

        self.run, self.look = either, None


def _settled(
    function: Callable[..., Any],
    others: tuple[str, ...],
    views: bool = False,
    one: bool = False,
    of_two: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Any:
    plans: Table[Any, Any] = Table("dispatch.prepared.settled", PLANS, DEFAULT_DTYPE)

    def lasting(key: tuple[Any, ...]) -> bool:
        """Of what other tuples hold the types are not known."""
        settings = list(key[1:])
        if spread:  # of which the types follow
            settings = [n for part in settings for n in (part if type(part) is tuple else (part,))]
        of_tuples = [n for n in settings if type(n) is tuple and n and n[0] is tuple]
        return all([type(n) in plain or known_types(n, of_tuples) for n in settings])

    def keep(key: tuple[Any, ...], plan: Any) -> None:
        if lasting(key):
            plans.keep(key, plan)

    def known_types(n: Any, of_tuples: list[Any]) -> bool:
        """Whether it is a tuple without elements, or of elements whose types stand in the key, or those types."""
        if type(n) is not tuple:
            return False
        return not n or n in of_tuples or ((tuple, *map(type, n)) in of_tuples and {*map(type, n)} <= _PLAIN)

    first, *rest = signature(function).parameters.values()
    positional = [p for p in rest if p.kind is not p.KEYWORD_ONLY]
    further = [p for p in positional if p.name in others]
    spread = [p for p in positional if p.kind is p.VAR_POSITIONAL]
    settings = [p for p in positional if p not in further + spread]
    plain = _PLAIN | {tuple, Size, Spec} if others else _PLAIN
    named = [p for p in rest if p.kind is p.KEYWORD_ONLY]
    key = [
        f"{p.name}._spec" if p.default is p.empty else f"None if {p.name} is None else {p.name}._spec"
        for p in further
    ]
    key += [p.name for p in settings] + [
        f"*map(type, {p.name})"
        if "Sequence" in str(p.annotation)
        else _kind_of(p.name)
        if "Any" in str(p.annotation)
        else f"type({p.name})"
        for p in settings
    ]
    for p in spread:  # none is not the same as an empty sequence
        key += [f"given or all_{p.name}", "*map(type, given)"]
    more = " or ".join([f"{p.name} is not _{p.name}" for p in named])
    short_key = ", ".join([f"{first.name}._spec", *key]) + ","
    whole_key = f"({short_key})"
    if named:
        also = [f"{p.name}, {_kind_of(p.name)}" for p in named]
        whole_key = f"({short_key} {', '.join(also)}) if {more} else {whole_key}"
    of_lists = [
        p.name
        for p in settings
        if not spread and ("Any" in str(p.annotation) or "Sequence" in str(p.annotation))
    ]
    wants, asked = [f"{first.name}._rg"], [f"{first.name}._rg"]
    operands = [] if views else further
    for p in operands:
        given = p.default is p.empty
        wants.append(f"{p.name}._rg" if given else f"({p.name} is not None and {p.name}._rg)")
        asked.append(f"{p.name}._rg" if given else f"(3 if {p.name} is None else {p.name}._rg)")
    every = [first, *rest]
    defaults = [p.default for p in every]
    kinds_of = [_all_kinds if p in spread else kinds for p in every]
    own = [p.name for p in every if p not in spread]
    required = [p.name for p in every if p.default is p.empty and p not in spread]
    before = "".join([p.name for p in spread])
    listed = [f"{p.name}=_{p.name}" for p in every if p not in spread]
    text = partial(
        fill,
        _SETTLED,
        name=function.__name__,
        spread=[line for p in spread for line in (f"given = all_{p.name}", *_SPREAD)],
        first=first.name,
        whole_key=whole_key,
        as_tuples=_by_tuples(of_lists, whole_key),
        kept_as_tuples=_as_tuples(of_lists),
        view=_from_plan(first.name) if views else [],
        of_two=_two_tensors(every) if of_two else [],
        call=", ".join(
            [
                first.name,
                *(f"*all_{p.name}" if p in spread else p.name for p in positional),
                *(f"{p.name}={p.name}" for p in named),
            ]
        ),
        tensors=", ".join([first.name, *(p.name for p in operands)]),
        wants=" or ".join(wants),
        asked=" | ".join(f"{text} << {2 * k}" for k, text in enumerate(asked)),
        first_result="[0]" * (one or bool(operands)),
        values="".join([f"{'all_' * (p in spread)}{p.name}, " for p in every]),
    )
    met: Table[Any, bool] = Table("dispatch.prepared.met", PLANS, DEFAULT_DTYPE)

    def composed(key: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Of a call on a device that comes to more than one op: the second of its kind says what is launched."""
        second = met.get(key) if lasting(key) else False
        if second is None:
            met[key] = True
        if not second:
            return
        met[key] = False  # from now on
        at = [k for k, p in enumerate(every) if p is first or p in operands]
        settings = [None if k in at else v for k, v in enumerate(values)]

        def call(*tensors: Tensor | None) -> Any:
            now: list[Any] = list(settings)
            for k, t in zip(at, tensors):
                now[k] = t
            by_place = [x for p, v in zip(every, now) if p not in named for x in (v if p in spread else (v,))]
            return function(*by_place, **{p.name: v for p, v in zip(every, now) if p in named})

        run = learn(call, [values[k] for k in at], 1, again=True)
        if run is not None:
            plans.keep(key, _Composed(call, run, one or bool(operands)))

    scope: dict[str, Any] = SCOPE if views else {}
    scope = scope | dict(find=plans.get, function=function, keep=keep, Prepared=Prepared, state=state)
    scope |= dict(only_ints={int})
    scope |= dict(composed=composed, of_two=of_two, Tensor=Tensor)
    scope |= dict(sequences=(tuple, list, Size), _unset=arguments.unset, Answered=arguments.Answered)
    scope |= {f"_{p.name}": arguments.unset if p.default is p.empty else p.default for p in every}
    scope["__name__"] = function.__module__

    def known_as(path: str) -> Any:
        """The function as users know it: a first call of its kind is held to PyTorch's signatures of that name."""
        at = path.startswith("Tensor.")

        def anew(given: dict[str, Any]) -> Any:
            return arguments.anew(path, every, made, given)

        fine: Table[Any, bool] = Table("dispatch.prepared.fine", 4096)

        def judge(*values: Any) -> tuple[Any, ...]:
            if not path:
                return values
            found = tuple([None if v is d else kind(v) for v, d, kind in zip(values, defaults, kinds_of)])
            if found in fine:
                return values
            with arguments.answering(path, every, values):
                lasting = arguments.check_bound(path, every[at:], values[at:])
            numbers = arguments.plain(path, every[at:], values[at:])
            if lasting and all([a is b for a, b in zip(numbers, values[at:])]):
                fine.keep(found, True)
            return (*values[:at], *numbers)

        def write(made: Any) -> str:
            spellings = arguments.spellings(own, path)
            end = len(positional) + 1 - len(spread)
            return text(
                definition=arguments.definition(listed[:end], listed[end:], required, spellings, before),
                unusual=arguments.unusual(required, spellings, before),
                missing=arguments.missing(required),
            )

        refused_after = partial(arguments.refused_after, path, every[at:], at)
        here = {**scope, "judge": judge, "anew": anew, "refused_after": refused_after}
        made = arguments.written_later(write, function.__name__, here, function, path, "short way")
        return made

    unnamed = known_as("")
    unnamed.known_as = known_as
    function.in_front = unnamed  # type: ignore[attr-defined]  # which casts: a plan fits what it was asked with
    return unnamed
