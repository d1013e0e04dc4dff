"""Functions of which a call is found again by how its tensors lie, which of them want a gradient, and by what else it is given.

Promises the functions that it stands before that what is not plain (transforms, a program that is being made, a mode that takes operators
over, autocast, arguments that are neither tensors nor numbers, words and the like) is left to them, and what is not known too: one place
refuses and says why. The first call of its kind is theirs, the second makes what runs those to come. So is a call that is recorded, unless
the node that it leaves is one op's, of the call's tensors: then only what computes is another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any

from nbgrad.base.switches import compiling
from nbgrad.base.tables import DEFAULT_DTYPE, PLANS, Table
from nbgrad.core.arguments import before_guard
from nbgrad.core.casting import casting
from nbgrad.core.overrides import armed
from nbgrad.core.tensor import Tensor, requires
from nbgrad.dispatch.between import noted_as, read_off
from nbgrad.dispatch.replay import learn
from nbgrad.memory import backend
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Spec
from nbgrad.tape.modes import state

Quick = Callable[..., Any]  # of the call's tensors; None where by their values the long way is due
_PLAIN = frozenset((int, bool, float, str, type(None), dtype, tuple, list))


def _long(*_: Any, **more: Any) -> None:
    """What stands for a kind of call of which nothing quick is known."""


def quickly(
    plan: Callable[..., Quick | None] | None = None,
    records: bool = True,
    devices: bool = False,
    lists: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function with a short way in front. `plan` is given what the function would be, with Specs for tensors, all of which the CPU holds
    (or with `devices` any that has values), and gives what runs such a call, if anything quick does. If the function `records`, a call of a
    tensor that wants a gradient is left to it where it comes to more than one op. Lists of numbers are tuples to it, if it takes `lists`.
    Without a plan it is read off what the function leaves where it is recorded: of one which reads values in kernels alone, and of calls
    that take one op."""
    planned = _read_off if plan is None else partial(_planned, plan)
    return partial(before_guard, shortened(planned, records, devices, lists or plan is None))


def shortened(
    planned: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], tuple[Quick, int]],
    records: bool,
    devices: bool,
    lists: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same where `planned` says what runs such a call of the function, and of how many arguments in front, or (-1) of those that
    are tensors."""

    def before(slow: Callable[..., Any]) -> Callable[..., Any]:
        known: Table[Any, Any] = Table("dispatch.quick.known", PLANS, DEFAULT_DTYPE)
        find = known.get

        def short(*args: Any, **more: Any) -> Any:
            given = (*args, *more.values()) if more else args
            values: list[Any] = []
            listed, wanting = False, 0
            for x in given:
                if isinstance(x, Tensor):
                    if x._rg and records and state.grad and (x._rg == 1 or state.active or requires(x)):
                        wanting |= 1 << len(values)
                    values.append(x._spec)
                elif x.__class__ is tuple or x.__class__ is list:
                    kinds = (*map(type, x),)
                    values += (*x,), kinds
                    if float in kinds:
                        values.append(repr(x))
                    listed = listed or x.__class__ is list
                elif x.__class__ is float and not x:
                    values.append(repr(x))  # as 0.0 is not -0.0
                else:
                    values.append(x)
            if state.active or compiling.thread is not None or armed.below is not None or casting.on:
                return slow(*args, **more)
            if listed and not lists:
                return slow(*args, **more)
            key = (*values, *map(type, given), *more, wanting)
            try:
                found = find(key)
            except TypeError:
                return slow(*args, **more)
            if found:
                run, count, noted = found
                if wanting and noted is None:
                    return slow(*args, **more)
                tensors = given[:count] if count >= 0 else (*[x for x in given if isinstance(x, Tensor)],)
                result = run(*tensors)
                if result is None:
                    return slow(*args, **more)
                if wanting:
                    noted.record(result, tensors)
                return result
            result = slow(*args, **more)
            if found is not None:
                fixed = [*map(_fixed, given)] if listed else given
                named = dict(zip(more, fixed[len(args) :]))
                run, count = planned(slow, (*fixed[: len(args)],), named)
                operands = [x for x in given if isinstance(x, Tensor)]
                noted = noted_as(result, operands, run) if wanting and run is not _long else None
                known.keep(key, (run, count, noted))
            elif _plain(given, devices):
                known.keep(key, ())
            return result

        return short

    return before


def _fixed(x: Any) -> Any:
    return tuple(x) if type(x) is list and {*map(type, x)} <= {int, float} else x


def _plain(given: tuple[Any, ...], devices: bool) -> bool:
    """Whether arguments that are equal, and of the same types, are the same: NaN is found by no key."""
    return all(
        [
            (type(x._spec) is Spec and (x._spec.backend.holds if devices else x._spec.backend is backend.cpu))
            if isinstance(x, Tensor)
            else type(x) in _PLAIN and not (type(x) is float and x != x)
            for x in given
        ]
    ) and all(
        [
            {*map(type, x)} <= {int, float} and all([v == v for v in x])
            for x in given
            if type(x) in (tuple, list)
        ]
    )


def _takes_tensors(annotation: str) -> bool:
    """Of what may be a tensor or not, the plan looks itself."""
    return "Tensor" in annotation or annotation == "Any"


def _spread(of: Signature, name: str) -> bool:
    return of.parameters[name].kind is Parameter.VAR_POSITIONAL


def _planned(
    plan: Callable[..., Quick | None],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    more: dict[str, Any],
) -> tuple[Quick, int]:
    of = signature(function)
    try:
        bound = of.bind(
            *[x._spec if isinstance(x, Tensor) else x for x in args],
            **{name: x._spec if isinstance(x, Tensor) else x for name, x in more.items()},
        )
    except TypeError:  # by another name of PyTorch's
        return _long, 0
    bound.apply_defaults()
    # Those of `*tensors` stand one by one.
    alone = [
        (name, each) for name, x in bound.arguments.items() for each in (x if _spread(of, name) else (x,))
    ]
    placed = [(name, x) for name, x in alone if type(x) is Spec]
    given = (*args, *more.values())
    tensors = [isinstance(x, Tensor) for x in given]
    if [x for _, x in placed] != [x._spec for x in given if isinstance(x, Tensor)]:
        return _long, 0  # by name, in another order
    if not all([_takes_tensors(str(of.parameters[name].annotation)) for name, _ in placed]):
        return _long, 0  # a number's dress
    count = sum(tensors)
    run = plan(*bound.args, **bound.kwargs)
    if run is not None:
        run = learn(run, [x for x in given if isinstance(x, Tensor)], 1, again=True) or run
    return run or _long, count if all(tensors[:count]) else -1


def _call_of(
    function: Callable[..., Any], args: tuple[Any, ...], more: dict[str, Any]
) -> tuple[Callable[..., Any], list[Tensor]]:
    """The call as a function of its tensors, and those."""

    def call(*tensors: Tensor) -> Any:
        left = iter(tensors)
        own = [next(left) if isinstance(x, Tensor) else x for x in args]
        return function(*own, **{n: next(left) if isinstance(x, Tensor) else x for n, x in more.items()})

    return call, [x for x in (*args, *more.values()) if isinstance(x, Tensor)]


def _read_off(function: Callable[..., Any], args: tuple[Any, ...], more: dict[str, Any]) -> tuple[Quick, int]:
    if more.get("out") is not None:
        return _long, 0
    call, tensors = _call_of(function, args, more)
    front = all([isinstance(x, Tensor) for x in args[: len(tensors)]]) and len(args) >= len(tensors)
    run = read_off(call, tensors)
    if run is not None:
        run = learn(run, tensors, 1, again=True) or run
    return run or _long, len(tensors) if front else -1


def _learnt(
    function: Callable[..., Any], _: Any, args: tuple[Any, ...], more: dict[str, Any]
) -> tuple[Quick, int]:
    if more.get("out") is not None:
        return _long, 0
    call, tensors = _call_of(function, args, more)
    try:
        return learn(call, tensors, 1, again=False) or _long, -1
    except Exception:  # which the call itself will raise
        return _long, -1


def replayed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose calls on a device are done again launch by launch, where no record is left. Its guard asks for that."""
    function.again = shortened(partial(_learnt, function), True, True, lists=True)(_long)  # type: ignore[attr-defined]
    return function
