"""From a text that reads well to the one that Numba compiles: arrays are made before the loops that use them, sums and extremes of
innermost loops may be taken in any order, functions of numbers are the library's own where loops are made vectors, loops that other
counters bound are no vectors where they are short, neighbours go strip by strip (`strips.py`), and storage grows between stretches of
turns (`stretches.py`).

Promises who compiles the same numbers to rounding. Nothing is differentiated after this, so each step forgets what the next order would
need to know: that an array is a turn's own, that a sum has an order.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbgrad.adjoints.ir import Program
from nbgrad.adjoints.stretches import in_stretches
from nbgrad.adjoints.strips import by_strips
from nbgrad.kernels import functions
from nbgrad.kernels.functions import ELEMENTARY

_MADE = ("empty", "zeros")
_LOOPS = (ast.For, ast.While)


@dataclass(frozen=True)
class Names:
    """What is known of a text's names."""

    floats: frozenset[str] = field(default_factory=frozenset)  # numbers of float64
    natural: frozenset[str] = field(default_factory=frozenset)  # integers that are never negative


def known(p: Program, floats: Iterable[str], text: str) -> Names | None:
    """What is known of a program's names and of others in its text; nothing where there are float32s, whose sums are their own."""
    if "np.float32" in text or any(a.dtype == "float32" for a in p.arrays.values()):
        return None
    own = (n for n, kind in p.kinds.items() if kind == "float")
    return Names(frozenset([*own, *floats]), frozenset(p.natural))


def compiled(
    name: str, text: str, names: Names | None, helpers: Mapping[str, Any], made_from: str
) -> functions.Compiled:
    """A text's function as Numba compiles it."""
    if "= np.dot(" in text:
        text = _SET.sub(_by_parts, text)
    if "+= np." in text:
        text = _ADDED.sub(_by_loops, text)
    if names is not None:
        text = quicker(text, names)
    text = _SEEDED.sub(_by_loops, text)
    if "reserve(" in text:
        text = _grown(text)
    if "dot(" in text and not functions.has_blas():
        text = re.sub(r"\badd_dot\(", "own_add_dot(", text.replace("np.dot(", "own_dot("))
    return functions.Compiled(functions.plain(name, text, helpers, made_from), text, helpers)


# Sums of products that an array is set to.
_SET = re.compile(r"^( *)(\S*\[[^=]*\]) = (np\.dot\(.*\))$", re.MULTILINE)


def _by_parts(found: re.Match[str]) -> str:
    space, target, products = found.groups()
    first, *others = products.split(" + np.dot(")
    parts = [first, *[f"np.dot({p}" for p in others]]
    return "\n".join([f"{space}{target} = 0.0", *[f"{space}{target} += {p}" for p in parts]])


# Products that are added to what a name, or a part of it, stands for.
_ADDED = re.compile(r"^( *)(\S.*) \+= np\.(dot|outer)\((.*)\)$", re.MULTILINE)


# What arrives at a result that is an array, or at a part of one.
_SEEDED = re.compile(r"^( *)(\S*\[[^=]*:[^=]*\]) \+= ()(\w+)$", re.MULTILINE)


def _by_loops(found: re.Match[str]) -> str:
    space, target, how, operands = found.groups()
    whole = re.sub(r"\[:(, :)*\]$", "", target)
    return f"{space}add_{how or 'whole'}({operands}, {whole})"


def _grown(text: str) -> str:
    tree = ast.parse(text)
    in_stretches(tree)
    text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return _RESERVED.sub(_where_it_is_full, text)


# Storage that grows, which is asked about in place: what a call gives back is counted as well.
_RESERVED = re.compile(r"^( *)(\w+) = reserve\(\2, (.*)\)$", re.MULTILINE)


def _where_it_is_full(found: re.Match[str]) -> str:
    space, own, size = found.groups()
    return f"{space}if {own}.shape[0] < {size}:\n{space}    {own} = reserve({own}, {size})"


def quicker(text: str, names: Names) -> str:
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = _Rooms(function, names).hoisted(function.body)
    for loop in ast.walk(function):
        if isinstance(loop, ast.For) and _is_straight(loop):
            _any_order(loop.body, names.floats)
            _own_functions(loop.body)
    function.body = _short_apart(function.body, set())
    by_strips(function)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _called(node: ast.AST) -> set[str]:
    return {n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}


def _count(nodes: Iterable[ast.AST], name: str) -> int:
    return sum(isinstance(n, ast.Name) and n.id == name for node in nodes for n in ast.walk(node))


def _set(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are bound anew somewhere inside."""
    return {
        n.id
        for node in nodes
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


# ---------------------------------------------------------------- arrays are made once


def _made(s: ast.stmt) -> tuple[str, ast.Call, ast.Attribute] | None:
    """The name of the array that a statement makes, the call, and how it is made."""
    if not (
        isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and isinstance(s.value, ast.Call)
    ):
        return None
    of = s.value.func
    if not (isinstance(of, ast.Attribute) and of.attr in _MADE and isinstance(of.value, ast.Name)):
        return None
    return (s.targets[0].id, s.value, of) if of.value.id == "np" else None


def _made_and_cleared(s: ast.stmt) -> list[ast.stmt]:
    """`np.zeros`, of which Numba compiles one for each number of dimensions, as what it comes to."""
    found = _made(s)
    if found is None or found[2].attr != "zeros":
        return [s]
    found[2].attr = "empty"
    return [s, *ast.parse(f"clear({found[0]})").body]


class _Rooms:
    def __init__(self, function: ast.FunctionDef, names: Names) -> None:
        self.names = names
        arrays = {found[0] for s in ast.walk(function) if isinstance(s, ast.Assign) and (found := _made(s))}
        counts = Counter(n.id for n in ast.walk(function) if isinstance(n, ast.Name))
        # Those of which each loop that knows them makes its own first, so that none finds another's.
        self.alone = {name for name in arrays if counts[name] == self.inside(function.body, name)}

    def hoisted(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements, with the arrays that each turn of a loop makes alike made before the loop."""
        done: list[ast.stmt] = []
        for s in body:
            if isinstance(s, ast.If):
                s.body, s.orelse = self.hoisted(s.body), self.hoisted(s.orelse)
            elif isinstance(s, _LOOPS):
                s.body = self.hoisted(s.body)
                done += self.before(s)
            done += _made_and_cleared(s)
        return done

    def before(self, loop: ast.For | ast.While) -> list[ast.stmt]:
        bound = _set([loop])
        made: list[ast.stmt] = []
        kept: list[ast.stmt] = []
        for k, s in enumerate(loop.body):
            found = _made(s)
            if found is None:
                kept.append(s)
                continue
            name, call, _ = found
            shape = call.args[0].elts if isinstance(call.args[0], ast.Tuple) else [call.args[0]]
            alike = all(self.is_natural(e) and not _read(e) & bound for e in shape)
            once = sum(name in _set([q]) for q in loop.body) == 1 and not _count(loop.body[:k], name)
            if not (alike and once and name in self.alone):
                kept.append(s)
                continue
            made.append(s)
        loop.body = kept
        return made

    def inside(self, body: Sequence[ast.stmt], name: str) -> int:
        """How often the name stands in loops whose turns make the array before they look at it."""
        total = 0
        for s in body:
            if isinstance(s, ast.If):
                total += self.inside([*s.body, *s.orelse], name)
            elif isinstance(s, _LOOPS):
                first = next((q for q in s.body if _count([q], name)), None)
                found = None if first is None else _made(first)
                total += _count(s.body, name) if found is not None else self.inside(s.body, name)
        return total

    def is_natural(self, e: ast.expr) -> bool:
        if isinstance(e, ast.Constant):
            return isinstance(e.value, int) and e.value >= 0
        if isinstance(e, ast.Name):
            return e.id in self.names.natural
        if isinstance(e, ast.Subscript):
            return isinstance(e.value, ast.Attribute) and e.value.attr == "shape"
        if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add | ast.Mult):
            return self.is_natural(e.left) and self.is_natural(e.right)
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id == "max":
            return any(self.is_natural(a) for a in e.args)
        return False


# ---------------------------------------------------------------- innermost loops


def _is_straight(loop: ast.For) -> bool:
    """Has it nothing inside but lines that are done each turn?"""
    return not any(
        isinstance(n, ast.For | ast.While | ast.If | ast.Break | ast.Raise)
        for s in loop.body
        for n in ast.walk(s)
    )


def _any_order(body: list[ast.stmt], floats: frozenset[str]) -> None:
    """Sums that nothing reads before the loop is over."""
    for k, s in enumerate(body):
        if (
            isinstance(s, ast.AugAssign)
            and isinstance(s.target, ast.Name)
            and isinstance(s.op, ast.Add | ast.Sub)
        ):
            name = s.target.id
            changes = [
                q
                for q in body
                if isinstance(q, ast.AugAssign) and isinstance(q.target, ast.Name) and q.target.id == name
            ]
            plain = all(isinstance(q.op, ast.Add | ast.Sub) and name not in _read(q.value) for q in changes)
            if name in floats and plain and _count(body, name) == len(changes):
                body[k] = _summed(name, name, s.value, isinstance(s.op, ast.Sub))
        elif (
            isinstance(s, ast.Assign)
            and isinstance(s.targets[0], ast.Name)
            and isinstance(s.value, ast.BinOp | ast.Call)
        ):
            after, made_of = s.targets[0].id, s.value
            for q in body[k + 1 :]:  # t = head + e; ... head = t
                if isinstance(q, ast.Assign) and isinstance(q.value, ast.Name) and q.value.id == after:
                    head = q.targets[0].id if isinstance(q.targets[0], ast.Name) else ""
                    if head in floats and _count(body, head) == 2 and _count(body, after) == 2:
                        if isinstance(made_of, ast.Call):
                            _extreme(made_of, head)
                        elif (term := _term(made_of, head)) is not None:
                            body[k] = _summed(after, head, *term)
                    break


_EXTREMES = {"max": "rise", "min": "fall"}


def _extreme(call: ast.Call, head: str) -> None:
    """`max(head, e)`, which leaves NaNs of `e` out, as one of which the order is free."""
    of = call.func
    if isinstance(of, ast.Name) and of.id in _EXTREMES and len(call.args) == 2:
        first, x = call.args
        if isinstance(first, ast.Name) and first.id == head:
            of.id = _EXTREMES[of.id]
            call.args[1] = ast.Call(ast.Name("float", ast.Load()), [x], [])


def _term(e: ast.BinOp, head: str) -> tuple[ast.expr, bool] | None:
    """What is added to the head, or taken from it."""
    if not isinstance(e.op, ast.Add | ast.Sub):
        return None
    left = isinstance(e.left, ast.Name) and e.left.id == head
    right = isinstance(e.right, ast.Name) and e.right.id == head
    if left and not right:
        return e.right, isinstance(e.op, ast.Sub)
    return (e.left, False) if right and not left and isinstance(e.op, ast.Add) else None


def _summed(after: str, head: str, term: ast.expr, less: bool) -> ast.stmt:
    text = f"float({ast.unparse(term)})"
    return ast.parse(f"{after} = add_up({head}, {'-' if less else ''}{text})").body[0]


class _Own(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        of = node.func
        if (
            isinstance(of, ast.Attribute)
            and isinstance(of.value, ast.Name)
            and of.value.id == "math"
            and of.attr in ELEMENTARY
        ):
            given: list[ast.expr] = [ast.Call(ast.Name("float", ast.Load()), [a], []) for a in node.args]
            return ast.Call(ast.Name(f"own_{of.attr}", ast.Load()), given, [])
        return node


# ---------------------------------------------------------------- short loops

_FEW = 16  # turns that are not worth vectors: whether arrays overlap would be asked before, and what is left over done after


def _short_apart(body: Sequence[ast.stmt], moving: set[str]) -> list[ast.stmt]:
    """The statements, in which innermost loops of triangles, whose turns are as many as loops around say, are there twice: one turn after
    another where they are few, and as they were. `moving` are the names that change from turn to turn around, up to no bound: what
    `min` gives is how long a block is, as long as others but for the last."""
    done: list[ast.stmt] = []
    for s in body:
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and _read(s.value) & moving:
            if "min" not in _called(s.value):
                moving.add(s.targets[0].id)
        elif isinstance(s, ast.If):
            s.body, s.orelse = _short_apart(s.body, moving), _short_apart(s.orelse, moving)
        elif isinstance(s, ast.For) and _is_triangle(s, moving):
            count = ast.unparse(s.iter)[len("range(") : -1]
            few = ast.parse(ast.unparse(s)).body[0]
            assert isinstance(few, ast.For)
            few.body.insert(0, ast.parse("one_by_one()").body[0])
            done.append(ast.If(ast.parse(f"{count} < {_FEW}", mode="eval").body, [few], [s]))
            continue
        elif isinstance(s, _LOOPS):
            inside = {s.target.id} if isinstance(s, ast.For) and isinstance(s.target, ast.Name) else set()
            s.body = _short_apart(s.body, moving | inside)
        done.append(s)
    return done


def _is_triangle(loop: ast.For, moving: set[str]) -> bool:
    if not _is_straight(loop) or not isinstance(loop.iter, ast.Call) or len(loop.iter.args) != 1:
        return False
    count = loop.iter.args[0]
    own = any(name.startswith("own_") for name in _called(loop))  # which are worth vectors
    return isinstance(count, ast.Name) and count.id in moving and not own


def _own_functions(body: list[ast.stmt]) -> None:
    body[:] = [_Own().visit(s) for s in body]


__all__ = ["Names", "compiled", "known", "quicker"]
