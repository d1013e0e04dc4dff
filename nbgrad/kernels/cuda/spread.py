"""A CPU kernel's text, spread over the threads of a grid: an item a thread.

Promises a CUDA kernel that takes the number of items in place of `start, stop`, and does to all of them what the CPU's does to that range,
whatever the grid. A loop over the items alone becomes a loop over the grid; any other text runs for ranges of one item each, as the
CPU's launcher, too, cuts ranges anywhere. What counts along from item to item cannot be cut and is refused, unless it is told to
leave all items to one thread; so is to be told what the CPU launches for one thread, since memory that two items write is not seen here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

# Helpers whose instructions NVVM does not know.
TWINS = {
    "nbgrad.kernels.cpu.fold": {"larger", "highest", "lowest"},
    "nbgrad.kernels.cpu.vmath": {
        *("copysign", "down", "fabs", "root", "truncated"),
        *("or_sin", "or_cos", "or_tan", "or_fmod", "or_pow"),
    },
}
NUMPYS = {"ceil", "copysign", "exp", "floor", "fmod", "nextafter", "rint", "sqrt", "trunc"}
# What says of a line that it has been looked up; a thread begins with none.
_GUARDS = {"fresh", "known"}
_DEVICE = "nbgrad.kernels.cuda.device"
_ON_THE_HOST = {
    "nbgrad.kernels.cpu.blas": "calls BLAS on the host",
    "nbgrad.kernels.cpu.tile": "is made of the host's vectors",
}
_ITEMS = "items"
_THREADS = f"range(cuda.grid(1), {_ITEMS}, cuda.gridsize(1))"
_RANGES = f"for start in {_THREADS}:\n    stop = start + 1"
_ALONE = f"if cuda.grid(1) != 0:\n    return\nstart = 0\nstop = {_ITEMS}"


class Unspreadable(Exception):
    """A text that is no work for many threads."""


def spread(name: str, source: str, params: Sequence[str], alone: bool = False) -> tuple[str, tuple[str, ...]]:
    """The CUDA text, whose function is called @NAME@ like the CPU's, and its parameter codes; `alone` leaves all items to one thread.

    >>> text, codes = spread("twice", "def @NAME@(start, stop, o):\\n for i in range(start, stop): o[i] *= 2", ["i8", "i8", "*i8"])
    >>> print(text)
    from numba import cuda
    <BLANKLINE>
    def @NAME@(items, o):
        for i in range(cuda.grid(1), items, cuda.gridsize(1)):
            o[i] *= 2
    """
    module = ast.parse(source.replace("@NAME@", "NAME__"))
    kernel = next(s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "NAME__")
    if [a.arg for a in kernel.args.args[:2]] != ["start", "stop"]:
        raise Unspreadable(f"{name}: it takes no range of items")
    if _ITEMS in _names(kernel):
        raise Unspreadable(f"{name}: it has a use of its own for the name `{_ITEMS}`")
    kernel.args.args[:2] = [ast.arg(_ITEMS)]
    if alone:
        kernel.body = [*ast.parse(_ALONE).body, *kernel.body]
    else:
        kernel.body = _cut(name, kernel.body)
    return _unparsed(name, module), ("i8", *params[2:])


def respelled(name: str, source: str) -> str:
    """A text for CUDA in all but its imports and its functions of scalars, which are the CPU's."""
    return _unparsed(name, ast.parse(source.replace("@NAME@", "NAME__")))


def _unparsed(name: str, module: ast.Module) -> str:
    _Respelled().visit(module)
    used = _names(ast.Module([s for s in module.body if not isinstance(s, ast.ImportFrom)], []))
    module.body = [kept for s in module.body for kept in _imported(name, s, used)]
    at = next(k for k, s in enumerate(module.body) if not isinstance(s, ast.Expr))  # after the docstring
    lines = ["from numba import cuda", *["from nbgrad.kernels.cuda import device"] * ("device" in used)]
    module.body[at:at] = ast.parse("\n".join(lines)).body
    return ast.unparse(module).replace("NAME__", "@NAME@")


class _Respelled(ast.NodeTransformer):
    """NumPy's functions of a scalar, which CUDA's Numba has of arrays alone."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        if isinstance(node.value, ast.Name) and node.value.id == "np" and node.attr in NUMPYS:
            node.value.id = "device"
        return node


def _cut(name: str, body: list[ast.stmt]) -> list[ast.stmt]:
    """The body, for what falls to one thread."""
    loops = [(k, s) for k, s in enumerate(body) if isinstance(s, ast.For | ast.While) and "stop" in _names(s)]
    if not loops:
        raise Unspreadable(f"{name}: it has no loop over its items")
    for k, loop in loops:
        if along := _counted_along(body[:k], loop):
            raise Unspreadable(f"{name}: from item to item it counts along {', '.join(along)}")
    others = set[str]().union(*map(_names, [*body[:k], *loop.body, *body[k + 1 :]]))
    over_items = isinstance(loop, ast.For) and ast.unparse(loop.iter) == "range(start, stop)"
    if isinstance(loop, ast.For) and over_items and not others & {"start", "stop"}:
        loop.iter = ast.parse(_THREADS, mode="eval").body
        return body
    if any(isinstance(node, ast.Return) for s in body for node in ast.walk(s)):
        raise Unspreadable(f"{name}: it may return before its other items are done")
    (ranges,) = ast.parse(_RANGES).body
    assert isinstance(ranges, ast.For)
    ranges.body += body
    return [ranges]


def _counted_along(before: Sequence[ast.stmt], loop: ast.For | ast.While) -> list[str]:
    """What is set before the loop, and not by where that starts, and that an item finds as the one before has left it."""
    from_start: set[str] = {"start"}
    set_before: set[str] = set()
    for s in before:
        stored = _stored(s)
        set_before |= stored
        if _names(s) & from_start:  # `while start >= first: ...` as well
            from_start |= stored
    asks = [node for node in ast.walk(loop) if isinstance(node, ast.If) and _names(node.test) & _GUARDS]
    looked_up = _GUARDS.union(*[_stored(node) for node in asks])
    carried = (set_before & _stored(loop)) - from_start - looked_up
    return sorted(n for n in carried if _found(n, loop.body))


def _found(name: str, body: Sequence[ast.stmt]) -> bool:
    """Whether these statements may read what a name holds before they set it."""
    for s in body:
        if isinstance(s, ast.If | ast.For | ast.While):
            head = s.iter if isinstance(s, ast.For) else s.test
            if name in _names(head) or _found(name, s.body) or _found(name, s.orelse):
                return True
            continue  # it may not have been run
        if isinstance(s, ast.AugAssign):
            read = name in _names(s)
        else:
            read = any(
                isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(s)
            )
        if read or name in _stored(s):
            return read
    return False


def _stored(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _imported(name: str, statement: ast.stmt, used: set[str]) -> Iterator[ast.stmt]:
    """An import of what is used, from where CUDA finds it; any other statement is kept."""
    if not isinstance(statement, ast.ImportFrom):
        yield statement
        return
    if statement.module in _ON_THE_HOST:
        raise Unspreadable(f"{name}: it {_ON_THE_HOST[statement.module]}")
    twins = TWINS.get(statement.module or "", set())
    wanted = [a for a in statement.names if a.name in used]
    for module, names in (
        (statement.module, [a for a in wanted if a.name not in twins]),
        (_DEVICE, [a for a in wanted if a.name in twins]),
    ):
        if names:
            yield ast.ImportFrom(module, names, 0)
