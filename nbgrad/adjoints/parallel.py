"""Loops over `prange`, on as many threads as there are: a function's text cut before and behind such loops.

Promises the same bits for any number of threads: turns are dealt out in parts that only their number decides; what parts add to shared
numbers and arrays they add to their own, and these are summed part by part. A loop whose turns meet in another way stays as it is.
What a line does is read from its tree, so that no name and no string in it is taken for something else.
"""

from __future__ import annotations

import ast
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbgrad.adjoints import quick
from nbgrad.adjoints.text import Lines, Parallel, Text, indented, returned
from nbgrad.kernels.launch import get_num_threads

_PARTS = 16
_SHADOWS = 1 << 26  # bytes of all parts' own arrays
_EXTREMES: dict[str, Callable[..., float]] = {"max": max, "min": min}
_SHORT = 1e-4  # seconds: a loop that takes less is not worth waking anyone

Nodes = Sequence[ast.stmt]


class Alone(Exception):
    """The turns of a loop, which is given, meet, so that it stays where it is."""


@dataclass(eq=False)
class Step:
    """A piece of the function: what it takes, and what it gives to those behind it."""

    call: Any
    takes: list[str]
    gives: list[str]


@dataclass(eq=False)
class Turns(Step):
    count: int | tuple[str, int | None]  # a number, a name, or how long an array is along an axis
    shared: list[str]  # arrays that each part adds to its own of
    sums: dict[str, float]  # numbers that each part adds up, and what they begin from
    extremes: dict[str, str]  # `max` or `min`, of numbers that each part begins from what they are
    seconds: tuple[float, float] = (math.inf, 0.0)  # that a turn took the last two times


def parsed(lines: Lines) -> Nodes:
    return ast.parse("\n".join(indented(lines))).body


def words(nodes: Iterable[ast.AST]) -> set[str]:
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def assigned(nodes: Nodes) -> set[str]:
    every = (n for node in nodes for n in ast.walk(node))
    return {n.id for n in every if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def surely(nodes: Nodes) -> set[str]:
    """Names that are set whatever happens."""
    found: set[str] = set()
    for s in nodes:
        if isinstance(s, ast.Assign):
            found |= assigned([s])
        elif isinstance(s, ast.If):
            found |= surely(s.body) & surely(s.orelse)
    return found


def exposed(nodes: Nodes, have: frozenset[str] = frozenset()) -> set[str]:
    """Names that may be read before these statements have set them."""
    found: set[str] = set()

    def read(node: ast.AST) -> set[str]:
        names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
        return {n.id for n in names if isinstance(n.ctx, ast.Load)} - have

    for s in nodes:
        if isinstance(s, ast.If | ast.While):
            found |= read(s.test) | exposed(s.body, have) | exposed(s.orelse, have)
        elif isinstance(s, ast.For):
            found |= read(s.iter) | exposed(s.body, have | words([s.target])) | exposed(s.orelse, have)
        else:
            found |= read(s)
            if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
                found |= {s.target.id} - have
        have |= surely([s])
    return found


def cut(name: str, text: Text, helpers: Mapping[str, Any]) -> Split | None:
    """The pieces, or None where there is no loop of which threads can take parts."""
    body = list(text.body)
    while any(isinstance(line, Parallel) for line in body):
        pieces: list[tuple[Parallel | None, Lines]] = [(None, [])]
        for k, line in enumerate(body):
            if isinstance(line, Parallel):
                pieces += [(line, body[k + 1]), (None, [])]
            elif not (k and isinstance(body[k - 1], Parallel)):
                pieces[-1][1].append(line)
        try:
            return Split(list(text.params), *_steps(name, text, pieces, helpers))
        except Alone as reason:
            head = reason.args[0]
            if head is None:
                return None
            body = [str(line) if line is head else line for line in body]
    return None


def _steps(
    name: str, text: Text, pieces: Sequence[tuple[Parallel | None, Lines]], helpers: Mapping[str, Any]
) -> tuple[list[Step], list[str]]:
    """The pieces, and the names of the results, if the last piece does not give them itself."""
    known, steps = set(text.params), list[Step]()
    for k, (head, lines) in enumerate(pieces):
        behind = [t for h, piece in pieces[k + 1 :] for t in ([h, piece] if h is not None else piece)]
        last = k == len(pieces) - 1
        later = exposed(parsed([*behind, returned(text.results)]))
        own = f"{name}_{k}"
        if head is not None:
            others = [piece for j, (_, piece) in enumerate(pieces) if j != k]
            outside = words(parsed([t for piece in others for t in piece if t not in text.scratch.values()]))
            step: Step = _turns(own, head, lines, known, later, outside, text, helpers, name)
        elif not lines and last and all(n in known for n in text.results):
            return steps, list(text.results)
        elif not lines and not last:
            continue
        else:
            nodes = parsed(lines)
            gives = sorted(assigned(nodes) & later)
            takes = sorted(exposed(parsed([*lines, *([returned(text.results)] if last else [])])) & known)
            if set(gives) - surely(nodes) - set(takes):
                raise Alone(None)
            if set(gives) & set(takes) & _grown(nodes):
                raise Alone(None)
            lines = [*lines, returned(text.results if last else gives)]
            step = Step(_compiled(own, takes, lines, text.known, helpers, name), takes, [] if last else gives)
        known |= set(step.gives)
        steps.append(step)
    return steps, []


def _compiled(
    own: str, takes: Sequence[str], lines: Lines, known: Any, helpers: Mapping[str, Any], made_from: str
) -> Any:
    text = "\n".join([f"def {own}({', '.join(takes)}):", *indented(lines, "    "), ""])
    called = words(parsed(lines))
    used = {n: h for n, h in helpers.items() if n in called}
    return quick.compiled(own, text, known, used, made_from)


def _turns(
    own: str,
    head: Parallel,
    body: Lines,
    known: set[str],
    later: set[str],
    outside: set[str],
    text: Text,
    helpers: Mapping[str, Any],
    made_from: str,
) -> Turns:
    """A loop as a function of its first part and of the one behind its last, how many there are of them and of turns."""
    nodes, scratch = parsed(body), text.scratch
    every, mine = words(nodes), assigned(nodes)
    fresh = [n for n in sorted(scratch) if n in every and n not in outside]
    sums, shared = [n for n in head.sums if n in mine], list[str]()
    read = exposed(nodes) - {head.counter}
    inside = [n for node in nodes for n in ast.walk(node)]
    named = Counter(n.id for n in inside if isinstance(n, ast.Name))
    adds = Counter(
        n.target.id
        for n in inside
        if isinstance(n, ast.AugAssign) and _adds(n) and isinstance(n.target, ast.Name)
    )
    for n in sorted(mine - set(fresh) - set(sums) - set(head.passed)):
        if n in known and named[n] == adds[n]:
            sums.append(n)
        elif n in later or n in read:
            raise Alone(head)
    if any(_calls_to_write(s, mine) for s in inside):
        raise Alone(head)
    places: dict[str, int] = {}
    for s in inside:
        for target in (
            s.targets if isinstance(s, ast.Assign) else [s.target] if isinstance(s, ast.AugAssign) else ()
        ):
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Name):
                    continue
                if not (isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name)):
                    raise Alone(head)
                if part.value.id not in mine | set(fresh):
                    more = isinstance(s, ast.AugAssign) and _adds(s)
                    places[part.value.id] = places.get(part.value.id, 0) + more
    looks = {id(n.value) for n in inside if isinstance(n, ast.Attribute) and n.attr == "shape"}
    for n, added in sorted(places.items()):
        uses = sum(isinstance(q, ast.Name) and q.id == n and id(q) not in looks for q in inside)
        found = [
            q.slice.elts if isinstance(q.slice, ast.Tuple) else [q.slice]
            for q in inside
            if isinstance(q, ast.Subscript) and isinstance(q.value, ast.Name) and q.value.id == n
        ]
        turns = [{k for k, i in enumerate(parts) if _is_turn(i, head)} for parts in found]
        if set.intersection(*turns) and len(found) == uses:
            continue  # each turn has elements of its own
        if not head.reverse or added != uses:
            raise Alone(head)
        shared.append(n)
    extremes = {n: head.zeros[n] for n in sums if head.zeros.get(n) in _EXTREMES}
    sums = [n for n in sums if n not in extremes]
    zeros = {n: head.zeros.get(n, "0.0") for n in sums}
    takes = sorted(
        (every | words(parsed([scratch[n] for n in fresh]))) & known - {*fresh, *sums, *extremes, *shared}
    )
    count = _count(ast.parse(head.trips, mode="eval").body)
    if count is None:
        raise Alone(head)
    taken = every | known | set(scratch)
    numbers = [_unlike(n, taken) for n in ("part", "first_part", "last_part", "number_of_parts", "turns")]
    own_part, first, last, count_of_parts, all_turns = numbers
    of_parts = {n: _unlike(f"parts_of_{n}", taken) for n in (*shared, *sums, *extremes)}
    begin = [f"{n} = {of_parts[n]}[{own_part}]" for n in (*shared, *extremes)]
    begin += [f"{n} = {zero}" for n, zero in zeros.items()] + [scratch[n] for n in fresh]
    edges = [f"{all_turns} * {k} // {count_of_parts}" for k in (own_part, f"({own_part} + 1)")]
    lines: Lines = [
        f"for {own_part} in range({first}, {last}):",
        [
            *begin,
            f"for {head.counter} in range({', '.join(edges)}):",
            body,
            *(f"{of_parts[n]}[{own_part}] = {n}" for n in (*sums, *extremes)),
        ],
        returned([]),
    ]
    params = [first, last, count_of_parts, all_turns, *takes, *of_parts.values()]
    call = _compiled(own, params, lines, text.known, helpers, made_from)
    starts = {n: ast.literal_eval(zero) for n, zero in zeros.items()}
    return Turns(call, takes, [*sums, *extremes], count, shared, starts, extremes)


def _unlike(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _grown(nodes: Nodes) -> set[str]:
    """Arrays that may be replaced by longer ones."""
    return {
        n.targets[0].id
        for node in nodes
        for n in ast.walk(node)
        if isinstance(n, ast.Assign)
        and isinstance(n.targets[0], ast.Name)
        and isinstance(n.value, ast.Call)
        and isinstance(n.value.func, ast.Name)
        and n.value.func.id == "reserve"
    }


def _adds(s: ast.AugAssign) -> bool:
    return isinstance(s.op, ast.Add | ast.Sub)


def _calls_to_write(s: ast.AST, mine: set[str]) -> bool:
    """Is it a call for what it writes to, and that no array of the turn's own?"""
    if not isinstance(s, ast.Expr):
        return False
    into = s.value.args[-1] if isinstance(s.value, ast.Call) and s.value.args else None
    dot = isinstance(s.value, ast.Call) and ast.unparse(s.value.func) == "np.dot"
    return not (dot and isinstance(into, ast.Name) and into.id in mine)


def _is_turn(index: ast.expr, head: Parallel) -> bool:
    """Is it the number of the turn, or where that stands?"""
    if isinstance(index, ast.Call) and isinstance(index.func, ast.Name) and index.func.id == "u":
        (index,) = index.args
    return isinstance(index, ast.Name) and index.id in head.here


def _count(e: ast.expr) -> int | tuple[str, int | None] | None:
    """How many turns there are, where that is a number, a name, or how long an array is."""
    if isinstance(e, ast.Constant) and isinstance(e.value, int):
        return e.value
    if isinstance(e, ast.Name):
        return e.id, None
    match e:
        case ast.Subscript(ast.Attribute(ast.Name(name), "shape"), ast.Constant(int(axis))):
            return name, axis
    return None


class Split:
    """The function, called piece by piece."""

    def __init__(self, params: list[str], steps: list[Step], results: list[str]) -> None:
        self.params, self.steps, self.results = params, steps, results

    def __call__(self, *args: Any) -> Any:
        env = dict(zip(self.params, args))
        found = None
        for step in self.steps:
            if isinstance(step, Turns):
                self._run(step, env)
                continue
            found = step.call(*[env[n] for n in step.takes])
            if step.gives:
                env.update(zip(step.gives, found if len(step.gives) > 1 else (found,)))
        if not self.results:
            return found
        return tuple([env[n] for n in self.results]) if len(self.results) > 1 else env[self.results[0]]

    def _run(self, step: Turns, env: dict[str, Any]) -> None:
        if isinstance(step.count, int):
            count = step.count
        else:
            name, axis = step.count
            count = int(env[name]) if axis is None else env[name].shape[axis]
        size = sum([env[n].nbytes for n in step.shared]) if step.shared else 0
        parts = max(1, min(_PARTS, count, _SHADOWS // max(size, 1)))
        shared = [np.zeros((parts, *env[n].shape), env[n].dtype) for n in step.shared]
        sums = [np.empty(parts, type(zero)) for zero in step.sums.values()]
        extremes = [np.empty(parts) for _ in step.extremes]
        for n, of_parts in zip(step.extremes, extremes):
            of_parts.fill(env[n])  # a third of what np.full takes
        _deal(step, [parts, count, *[env[n] for n in step.takes], *shared, *sums, *extremes])
        for n, of_parts in zip(step.sums, sums):
            env[n] = sum(of_parts.tolist(), env[n])
        for (n, how), of_parts in zip(step.extremes.items(), extremes):
            env[n] = _EXTREMES[how](float(env[n]), *of_parts.tolist())
        for n, each in zip(step.shared, shared):
            env[n] += each.sum(0)


def _deal(step: Turns, given: list[Any]) -> None:
    """Runs all parts, on several threads if what it took was worth that the last two times: of one it may have been kept waiting."""
    call, parts, count = step.call, given[0], given[1]
    threads = 1 if min(step.seconds) * count < _SHORT else min(get_num_threads(), parts)
    began = time.perf_counter()
    if threads == 1:
        call(0, parts, *given)
    elif not call.in_parts(parts, *given):
        left = iter(range(parts))

        def help_out() -> None:
            for k in left:  # one thread at a time steps an iterator of a range
                call(k, k + 1, *given)

        from nbgrad.adjoints.workers import pool

        helpers: list[Future[None]] = [pool().submit(help_out) for _ in range(threads - 1)]
        try:
            help_out()
        finally:
            for h in helpers:
                if not h.cancel():
                    h.result()
    step.seconds = step.seconds[1] or math.inf, (time.perf_counter() - began) * threads / max(count, 1)


__all__ = ["Split", "cut"]
