"""A CUDA text cut where the threads of a block wait for each other, and what it may not say there.

Promises `emulate.py` the parts of a kernel's body: stretches, which one thread after another may run from end to end, barriers, and
loops over such parts, which all threads go round together. Refused are what a block could hang at or what no order of threads would
show: a barrier in an `if`, a loop around one whose bounds threads may not share, and two stretches that meet without a barrier where
one writes memory that the other touches.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

BARRIER = "cuda.syncthreads()"
_ALL = 0xFFFFFFFF  # of a warp's lanes
# Where the lane that is read from is, by the shuffle and its last argument.
SHUFFLES = {
    "cuda.shfl_down_sync": "thread_ + ({0}) if (thread_ & 31) + ({0}) < 32 else thread_",
    "cuda.shfl_up_sync": "thread_ - ({0}) if (thread_ & 31) >= ({0}) else thread_",
    "cuda.shfl_xor_sync": "thread_ ^ ({0})",
    "cuda.shfl_sync": "(thread_ & -32) + (({0}) & 31)",
}
_OF_A_THREAD = ("cuda.threadIdx", "cuda.grid(1)", "thread_")
_ATOMIC = "device.atomic_"


class Unemulable(Exception):
    """A text that the CPU would not run as CUDA does."""


class Stretch:
    """Statements of each thread. `first` are those that are the same for all, and rest on nothing before them; `sends` and `takes`
    is what a shuffle passes on."""

    def __init__(self) -> None:
        self.body: list[ast.stmt] = []
        self.first: list[ast.stmt] = []


class Barrier:
    """Where all threads wait."""


class Loop:
    """A `for` that all threads go round together."""

    def __init__(self, node: ast.For, parts: list[Part]) -> None:
        self.node, self.parts = node, parts


Part = Stretch | Barrier | Loop


class Cut:
    """A kernel's body in parts. Of its variables `block` are the same for all threads, `placed` follow from a thread's number alone and
    are worked out where they are asked for, and `kept` are what threads keep over a barrier; `sent` are the values of shuffles."""

    def __init__(
        self,
        name: str,
        body: Sequence[ast.stmt],
        scalars: Iterable[str],
        pointers: Iterable[str],
        shared: Iterable[str],
        local: Iterable[str],
    ) -> None:
        self.name = name
        self.sent: dict[str, ast.expr] = {}
        whole = ast.Module(list(body), [])
        self.variables = stored(whole)
        self._times = Counter(n.id for n in ast.walk(whole) if isinstance(n, ast.Name) and _is_store(n))
        self._written = _written(whole)
        self._shared = set(shared)
        self._pointers = {*pointers, *local, *shared}
        self._local = set(local)
        self.block = {n for n in scalars if n not in self.variables}
        self.placed: dict[str, ast.Assign] = {}
        self._read_at = _first_reads(whole)
        self._counts = Counter[str]()  # how many loops with barriers a variable counts
        self.parts = self._cut(body)
        self._sort(self.parts)
        self.stretches = list(_stretches(self.parts))
        rest = self.variables - self.block - self.placed.keys()
        self.kept = sorted(n for n in rest if any(first_use(n, s.body) == "read" for s in self.stretches))
        self._look()

    def _refuse(self, why: str) -> Unemulable:
        return Unemulable(f"{self.name}: {why}")

    def _cut(self, body: Sequence[ast.stmt]) -> list[Part]:
        here = Stretch()
        parts: list[Part] = [here]
        for s in body:
            shuffled = _shuffle(s)
            if not shuffled and not _waits(s):
                here.body.append(s)
                continue
            if shuffled:
                here.body.append(self._sent(shuffled))
            elif _is_barrier(s):
                parts.append(Barrier())
            elif isinstance(s, ast.For) and not s.orelse:
                self._counts.update(names(s.target))
                parts.append(Loop(s, self._cut(s.body)))
            else:
                raise self._refuse(f"threads wait for each other in `{ast.unparse(s).splitlines()[0]}`")
            here = Stretch()
            parts.append(here)
            if shuffled:
                here.body.append(self._taken(s, shuffled))
        return [p for p in parts if not isinstance(p, Stretch) or p.body]

    def _sent(self, shuffle: ast.Call) -> ast.stmt:
        mask, value, _ = shuffle.args
        if not isinstance(mask, ast.Constant) or mask.value != _ALL:
            raise self._refuse("a shuffle of some lanes")
        to = f"sent{len(self.sent) + 1}_"
        self.sent[to] = value
        return _statement(f"{to}[thread_] = {ast.unparse(value)}")

    def _taken(self, statement: ast.stmt, shuffle: ast.Call) -> ast.stmt:
        assert isinstance(statement, ast.Assign)
        place = SHUFFLES[ast.unparse(shuffle.func)].format(ast.unparse(shuffle.args[2]))
        return _statement(f"{ast.unparse(statement.targets[0])} = sent{len(self.sent)}_[{place}]")

    # ------------------------------------------------------------ who knows what

    def _sort(self, parts: Sequence[Part]) -> None:
        """Which variables are the same for all threads, or follow from their numbers, in the order of the text."""
        for part in parts:
            if isinstance(part, Loop):
                if not self.is_shared(part.node.iter):
                    bounds = ast.unparse(part.node.iter)
                    raise self._refuse(f"threads wait in a loop over `{bounds}`, which they may not share")
                assert isinstance(part.node.target, ast.Name)
                turn = part.node.target.id
                if self._times[turn] > self._counts[turn]:
                    raise self._refuse(
                        f"`{turn}`, which counts a loop that threads go round together, is set elsewhere"
                    )
                self.block.add(turn)
                self._sort(part.parts)
            elif isinstance(part, Stretch):
                part.body = [s for s in part.body if not self._settles(part, s)]

    def _settles(self, stretch: Stretch, s: ast.stmt) -> bool:
        if not isinstance(s, ast.Assign) or not isinstance(s.targets[0], ast.Name):
            return False
        name = s.targets[0].id
        if self._times[name] > 1 or self._read_at.get(name, _END) < (s.lineno, s.col_offset):
            return False
        if self.is_shared(s.value):
            self.block.add(name)
            stretch.first.append(s)
            return True
        if any(isinstance(n, ast.Subscript) for n in ast.walk(s.value)) or not self._rests_on(
            s.value, self.placed
        ):
            return False
        self.placed[name] = s
        return True

    def is_shared(self, node: ast.expr) -> bool:
        """Whether all threads of a block find the same value there."""
        text = ast.unparse(node)
        return not any(word in text for word in _OF_A_THREAD) and self._rests_on(node, ())

    def _rests_on(self, node: ast.expr, more: Iterable[str]) -> bool:
        """On variables that are known without what threads do, or memory that nobody writes."""
        known = {*self.block, *more, *(self._pointers - self._written)}
        return names(node) & (self.variables | self._pointers) <= known

    # ------------------------------------------------------------ a look at the text

    def _look(self) -> None:
        read = set[str]().union(*[_touched(s.body)[0] for s in self.stretches])
        of_all = {n for n in self._written if n in read and n not in self._local}
        self._met(self.parts, lambda a, b: self._compare(a, b, of_all))
        for stretch in self.stretches:
            for node in (n for s in stretch.body for n in ast.walk(s)):
                if isinstance(node, ast.For | ast.While) and (clash := _others(node) & self._shared):
                    raise self._refuse(
                        f"no barrier in a loop that writes `{min(clash)}` and reads it elsewhere"
                    )

    def _compare(self, a: Stretch, b: Stretch, memory: set[str]) -> None:
        (a_reads, a_writes), (b_reads, b_writes) = _touched(a.body), _touched(b.body)
        clash = (a_writes & b_reads | a_reads & b_writes) & memory
        clash |= a_writes & b_writes & self._shared
        if clash:
            raise self._refuse(f"no barrier parts who writes `{min(clash)}` from who touches it next")

    def _met(
        self, parts: Sequence[Part], compare: Callable[[Stretch, Stretch], None]
    ) -> tuple[list[Stretch], list[Stretch], bool]:
        """Which stretches can be reached from the begin of parts without a barrier, from which their end, and whether that from
        this."""
        firsts: list[Stretch] = []
        lasts: list[Stretch] = []
        through = True
        for part in parts:
            if isinstance(part, Barrier):
                lasts, through = [], False
                continue
            if isinstance(part, Stretch):
                f, last, passes = [part], [part], True
            else:
                f, last, passes = self._met(part.parts, compare)
                _each_pair(compare, last, f)
                passes = passes or not _surely_runs(part.node)
            _each_pair(compare, lasts, f)
            firsts += f if through else []
            lasts = last + (lasts if passes else [])
            through = through and passes
        return firsts, lasts, through


_END = (1 << 30, 0)


def _each_pair(
    compare: Callable[[Stretch, Stretch], None], lasts: list[Stretch], firsts: list[Stretch]
) -> None:
    for a in lasts:
        for b in firsts:
            compare(a, b)


def _surely_runs(node: ast.For) -> bool:
    """Whether a loop's range is written, and not empty."""
    try:
        return len(eval(ast.unparse(node.iter), {"range": range})) > 0
    except NameError:
        return False


def _stretches(parts: Sequence[Part]) -> Iterator[Stretch]:
    for part in parts:
        if isinstance(part, Stretch):
            yield part
        elif isinstance(part, Loop):
            yield from _stretches(part.parts)


def _is_barrier(s: ast.stmt) -> bool:
    return isinstance(s, ast.Expr) and ast.unparse(s) == BARRIER


def _shuffle(s: ast.stmt) -> ast.Call | None:
    found = s.value if isinstance(s, ast.Assign) else None
    return found if isinstance(found, ast.Call) and ast.unparse(found.func) in SHUFFLES else None


def _waits(s: ast.stmt) -> bool:
    text = ast.unparse(s)
    return BARRIER in text or any(shuffle in text for shuffle in SHUFFLES)


def _statement(text: str) -> ast.stmt:
    (made,) = ast.parse(text).body
    return made


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def stored(node: ast.AST) -> set[str]:
    """The variables that are set there."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _is_store(n)}


def names(node: ast.AST) -> set[str]:
    """All that are named there."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _first_reads(whole: ast.Module) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for n in ast.walk(whole):
        if isinstance(n, ast.Name) and not _is_store(n):
            found[n.id] = min(found.get(n.id, _END), (n.lineno, n.col_offset))
    return found


def _written(whole: ast.Module) -> set[str]:
    """Arrays and pointers that may be written to: by a statement here, or in what they are passed to."""
    found = _touched(whole.body)[1]
    for node in ast.walk(whole):
        if isinstance(node, ast.Call):
            found |= {a.id for a in node.args if isinstance(a, ast.Name)}
    return found


def _touched(body: Sequence[ast.stmt]) -> tuple[set[str], set[str]]:
    """The memory that statements read, and that they write; what is added to in one go, by an atomic, is neither."""
    reads, writes = set[str](), set[str]()
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            (writes if isinstance(node.ctx, ast.Store) else reads).add(node.value.id)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            reads |= names(node.target.value)
    return reads, writes


def _others(loop: ast.For | ast.While) -> set[str]:
    """What a loop writes at one place and reads at another."""
    places: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    for node in ast.walk(loop):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            places[isinstance(node.ctx, ast.Store)].add((node.value.id, ast.unparse(node.slice)))
    return {name for name, at in places[False] for other, to in places[True] if name == other and at != to}


def first_use(name: str, body: Sequence[ast.stmt]) -> str:
    """Whether a variable is "read" there before it is surely "set"; "" if neither."""
    for s in body:
        found = _use(name, s)
        if found:
            return found
    return ""


def _use(name: str, s: ast.stmt) -> str:
    if isinstance(s, ast.If | ast.For | ast.While):
        if name in names(s.iter if isinstance(s, ast.For) else s.test):
            return "read"
        if isinstance(s, ast.For) and name in names(s.target):
            return "set"
        ways = first_use(name, s.body), first_use(name, s.orelse)
        if "read" in ways:
            return "read"
        return "set" if ways == ("set", "set") else ""  # else it may not have been run
    loads = {n.id for n in ast.walk(s) if isinstance(n, ast.Name) and not _is_store(n)}
    if name in loads or (isinstance(s, ast.AugAssign) and name in stored(s)):
        return "read"
    return "set" if name in stored(s) else ""
