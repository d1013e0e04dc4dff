"""Programs and what is made of them as Python: expressions, views, blocks; and the small rewrites that make it read as if written by hand.

Promises readers that the text is what is differentiated for the next order and, but for what `quick.py` makes quicker, what Numba
compiles. An index that is surely not negative is written `u(...)` where Numba would otherwise test whether it counts from the end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from nbgrad.adjoints.ir import Apply, At, Const, Expr, Extent, Load, Loop, Name, Program, Span, View, names
from nbgrad.adjoints.ops import ARITHMETIC, COMPARISONS, FUNCTIONS, LEVELS, is_natural


class Parallel(str):
    """The head of a loop whose turns threads may share."""

    counter: str
    trips: str  # how many there are
    here: tuple[str, ...]  # what an index is called that is the turn's own
    sums: tuple[str, ...] = ()  # numbers that turns only add to
    zeros: dict[str, str]
    passed: tuple[str, ...] = ()  # numbers that a turn leaves as they were
    reverse: bool = False


def parallel(
    counter: str,
    count: str,
    var: str,
    sums: dict[str, str],
    passed: Sequence[str] = (),
    reverse: bool = False,
) -> Parallel:
    """`sums`: the names, and what each begins from, or `max` or `min` of one that is that of all."""
    head = Parallel(f"for {counter} in prange({count}):")
    head.counter, head.trips = counter, count
    head.here = (counter, var)
    head.sums, head.zeros, head.passed, head.reverse = tuple(sums), sums, tuple(passed), reverse
    return head


Lines = list[Any]  # of texts, and of lists of them: the block that the line before opens


class Writer:
    def __init__(self, program: Program, wraparound: bool = True) -> None:
        self.program = program
        self.wraparound = wraparound
        self.rising: set[str] = set()  # counters of the loops around that count up

    def rises(self, loop: Loop) -> None:
        """A loop that counts up from 0, as Numba sees: the counter of one that threads take parts of may begin anywhere."""
        if not loop.parallel:
            self.rising.add(loop.counter)

    # ------------------------------------------------ expressions

    def text(self, e: Expr, level: int = 0) -> str:
        if isinstance(e, Name):
            return e.name
        if isinstance(e, Const):
            return _constant(e.value, level)
        if isinstance(e, Load):
            return f"{e.base}[{self.index(e.index)}]"
        if isinstance(e, Extent):
            return f"{e.base}.shape[{e.axis}]"
        if e.op == "where":
            return f"({self.text(e.args[1], 1)} if {self.text(e.args[0], 1)} else {self.text(e.args[2], 1)})"
        own = LEVELS.get(e.op)
        if own is None:
            return f"{self.function(e.op)}({', '.join(self.text(a) for a in e.args)})"
        if e.op == "not":
            made = f"not {self.text(e.args[0], own)}"
        elif e.op == "neg":
            made = f"-{self.text(e.args[0], own)}"
        elif e.op == "pow":
            made = f"{self.text(e.args[0], own + 1)} ** {self.text(e.args[1], own)}"
        elif e.op in COMPARISONS:
            made = f"{self.text(e.args[0], 5)} {COMPARISONS[e.op]} {self.text(e.args[1], 5)}"
        else:
            symbol = ARITHMETIC.get(e.op, e.op)
            made = f"{self.text(e.args[0], own)} {symbol} {self.text(e.args[1], own + 1)}"
        return f"({made})" if own < level else made

    def function(self, op: str) -> str:
        if op in FUNCTIONS:
            return FUNCTIONS[op]
        from nbgrad.adjoints.special import function

        self.program.constants[op] = function(op)
        return op

    def index(self, index: Iterable[Expr]) -> str:
        return ", ".join(self.place(i) for i in index)

    def place(self, i: Expr) -> str:
        if isinstance(i, Const) or (isinstance(i, Name) and i.name in self.rising):
            return self.text(i)
        sure = not self.wraparound or is_natural(i, self.program)
        return f"u({self.text(i)})" if sure else self.text(i)

    def view(self, v: View, base: str = "") -> str:
        """The view, or that of another array which lies as its base does."""
        name = base or v.base
        turned = ".T" if list(v.order) != sorted(v.order) else ""
        if all(a == Span() for a in v.axes):
            return name + turned
        shown = []
        for a in v.axes:
            if isinstance(a, At):
                shown.append(self.text(a.index))
            elif a.length is None:
                shown.append(":" if a == Span() else f"{self.text(a.low)}:")
            elif a.step == 1:
                end = a.length if a.low == Const(0, "0") else Apply("add", (a.low, a.length))
                shown.append(f"{'' if a.low == Const(0, '0') else self.text(a.low)}:{self.text(end)}")
            else:
                raise AssertionError("a view with steps is no array of its own")
        while shown and shown[-1] == ":":
            shown.pop()
        return f"{name}[{', '.join(shown)}]{turned}"

    def all_of(self, v: View, base: str) -> str:
        """As the target of an assignment."""
        made = self.view(v, base)
        return (
            made if "[" in made and not made.endswith(".T") else f"{made}[{', '.join([':'] * len(v.order))}]"
        )

    def shape(self, extents: Sequence[Expr]) -> str:
        made = ", ".join(self.text(e) for e in extents)
        return made if len(extents) == 1 else f"({made})"


def dtype_text(dtype: str) -> str:
    return "" if dtype == "float64" else f", np.{dtype}{'_' if dtype == 'bool' else ''}"


def _constant(value: Any, level: int) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if value != value else "np.inf" if value > 0 else "(-np.inf)"
    negative = not isinstance(value, bool) and isinstance(value, int | float) and math.copysign(1, value) < 0
    return f"({value!r})" if negative and level > 8 else repr(value)


# ---------------------------------------------------------------- statements


def branch(out: Lines, test: str, then: Lines, other: Lines) -> None:
    if then:
        out += [f"if {test}:", then]
        if other:
            out += ["else:", other]
    elif other:
        out += [f"if not {test}:" if test.isidentifier() else f"if not ({test}):", other]


def copies(w: Writer, pairs: Sequence[tuple[str, Expr]], out: Lines) -> None:
    """Names get values all at once."""
    pairs = [(name, e) for name, e in pairs if e != Name(name)]
    targets = {name for name, _ in pairs}
    if any(names(e) & (targets - {name}) for name, e in pairs):
        out.append(f"{', '.join(n for n, _ in pairs)} = {', '.join(w.text(e) for _, e in pairs)}")
    else:
        out += [f"{name} = {w.text(e)}" for name, e in pairs]


def indented(lines: Lines, by: str = "") -> list[str]:
    found: list[str] = []
    for line in lines:
        if isinstance(line, str):
            found.append(by + line)
        else:
            found += indented(line, by + "    ")
    return found


class Text(str):
    """A function, and what it was written from."""

    params: Sequence[str]
    body: Lines
    results: Sequence[str]
    scratch: dict[str, str]  # storage of the adjoint's own, by name
    known: Any = None  # of its names, to who makes it quicker

    @property
    def dealt(self) -> bool:
        """Is there a loop of which threads may take parts?"""
        return any(isinstance(line, Parallel) for line in self.body)


def function_text(
    name: str, params: Sequence[str], body: Lines, results: Sequence[str], scratch: Sequence[str] = ()
) -> Text:
    lines = tidied(body)
    made = Text(
        "\n".join([f"def {name}({', '.join(params)}):", *indented([*lines, returned(results)], "    "), ""])
    )
    made.params, made.body, made.results = params, lines, results
    made.scratch = {line.partition(" ")[0]: line for line in scratch}
    return made


def returned(names: Sequence[str]) -> str:
    return f"return {', '.join(names)}" if names else "return None"


# ---------------------------------------------------------------- tidying

_WORD = re.compile(r"[A-Za-z_]\w*")
_ZERO = re.compile(r"^(\w+) = 0\.0$")
_CHANGE = re.compile(r"^(\w+) ([+-])= (.*)$")


def tidied(lines: Lines) -> Lines:
    """`x = 0.0 ... x += e` is `x = e`, where nothing between them reads x."""
    found: Lines = [tidied(line) if isinstance(line, list) else line for line in lines]
    words = [_words(line) for line in found]
    waiting: dict[str, int] = {}  # names that were set to zero, and where
    dropped: set[int] = set()
    for k, line in enumerate(found):
        zero = _ZERO.match(line) if isinstance(line, str) else None
        change = _CHANGE.match(line) if isinstance(line, str) else None
        if change and change[1] in waiting and change[1] not in _words(change[3]):
            name, sign, e = change.groups()
            found[k] = f"{name} = {e if sign == '+' else _minus(e)}"
            dropped.add(waiting[name])
        for word in [w for w in waiting if w in words[k]]:
            del waiting[word]
        if zero:
            waiting[zero[1]] = k
    return [line for k, line in enumerate(found) if k not in dropped]


def _minus(e: str) -> str:
    return f"-{e}" if _WORD.fullmatch(e) or re.fullmatch(r"\w+\[[^\[\]]*\]", e) else f"-({e})"


def _words(line: Any) -> set[str]:
    if isinstance(line, str):
        return set(_WORD.findall(line))
    return set().union(*map(_words, line)) if line else set()
