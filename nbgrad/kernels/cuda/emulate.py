"""A CUDA kernel's text, rewritten for the CPU: what its blocks of 256 threads do, a range of blocks at a time.

Promises a kernel's text like any of the CPU's, which `build.kernel` compiles. It takes `start, stop`, a range of blocks; what the CUDA
text takes; and then `blocks_`, those of the grid, with `odd_, shift_`, which say in what order a block's threads go: the turn `k` is
thread `(k * odd_ + shift_) & 255`. What is right for CUDA gives the same bits in every order. Where threads wait for each other the text
is cut (`stretches.py`): each stretch becomes a loop over the threads, what these keep meanwhile stands in arrays, and what they share
begins as NaN. What cannot be rewritten faithfully is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nbgrad.kernels.cuda.driver import THREADS
from nbgrad.kernels.cuda.kinds import Kinds
from nbgrad.kernels.cuda.spread import NUMPYS, TWINS
from nbgrad.kernels.cuda.stretches import (
    BARRIER,
    SHUFFLES,
    Cut,
    Loop,
    Part,
    Stretch,
    Unemulable,
    first_use,
    names,
    stored,
)

__all__ = ["ORDER", "Unemulable", "emulated"]

ORDER = ("blocks_", "odd_", "shift_")  # what a launch adds
_THREADS = f"for turn_ in range({THREADS}):\n    thread_ = (turn_ * odd_ + shift_) & {THREADS - 1}"
_PLACES = {
    "cuda.grid(1)": f"block_ * {THREADS} + thread_",
    "cuda.gridsize(1)": f"blocks_ * {THREADS}",
    "cuda.threadIdx.x": "thread_",
    "cuda.blockIdx.x": "block_",
    "cuda.blockDim.x": str(THREADS),
    "cuda.gridDim.x": "blocks_",
}
_ALONE = "cuda.grid(1) != 0"
_ARRAYS = ("cuda.shared.array", "cuda.local.array")
_TOGETHER = (BARRIER, *SHUFFLES, *_ARRAYS)  # of texts whose threads are not each on its own
_HOME = {function: module for module, functions in TWINS.items() for function in functions}
_DEVICE = "nbgrad.kernels.cuda.device"


def emulated(name: str, source: str, params: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The CPU's text, whose function is called @NAME@ like the CUDA text's, and its parameter codes.

    >>> text, codes = emulated("twice", '''from numba import cuda
    ... def @NAME@(items, o):
    ...     for i in range(cuda.grid(1), items, cuda.gridsize(1)):
    ...         o[i] *= 2
    ... ''', ["i8", "*i8"])
    >>> print(text)
    def @NAME@(start, stop, items, o, blocks_, odd_, shift_):
        for block_ in range(start, stop):
            for turn_ in range(256):
                thread_ = turn_ * odd_ + shift_ & 255
                for step1_ in range((items - (block_ * 256 + thread_) + blocks_ * 256 - 1) // (blocks_ * 256)):
                    i = block_ * 256 + thread_ + step1_ * (blocks_ * 256)
                    o[i] *= 2
    >>> " ".join(codes)
    'i8 i8 i8 *i8 i8 i8 i8'
    """
    module = ast.parse(source.replace("@NAME@", "NAME__"))
    kernel = next(s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "NAME__")
    given = [a.arg for a in kernel.args.args]
    if taken := sorted(n for n in {*names(kernel), *given} if n.endswith("_") and not n.endswith("__")):
        raise Unemulable(f"{name}: it has a use of its own for the name `{taken[0]}`")
    _Respelled().visit(module)
    docstring = kernel.body[:1] if ast.get_docstring(kernel, clean=False) is not None else []
    body = kernel.body[len(docstring) :]
    if any(word in source for word in _TOGETHER):
        body = _Written(name, body, Kinds(module, dict(zip(given, params, strict=True)))).body
    else:
        alone = any(ast.unparse(s.test) == _ALONE for s in body if isinstance(s, ast.If))
        body = _block(_threads(_Rewriting(name, alone, {}), body))
    kernel.body = [*docstring, *body]
    kernel.args.args[:0] = [ast.arg("start"), ast.arg("stop")]
    kernel.args.args += [ast.arg(n) for n in ORDER]
    stacks = sorted(names(kernel) & {f"stack_{code}" for code in _STACKS})
    module.body = [kept for s in module.body for kept in _imported(s)]
    if stacks:
        lines = f"import numpy as np\nfrom nbgrad.kernels.cpu.stack import {', '.join(stacks)}"
        at = next(k for k, s in enumerate(module.body) if not isinstance(s, ast.Expr))
        module.body[at:at] = ast.parse(lines).body
    if "device" in names(module):
        raise Unemulable(f"{name}: it calls what only a device has")
    text = ast.unparse(ast.fix_missing_locations(module)).replace("NAME__", "@NAME@")
    return text, ("i8", "i8", *params, "i8", "i8", "i8")


_STACKS = ("f4", "f8", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8", "b1")


class _Array(NamedTuple):
    """So many elements that all threads of a block share, or that each has for itself."""

    size: int
    code: str
    shared: bool


class _Written:
    """The statements of the CPU's kernel."""

    def __init__(self, name: str, body: list[ast.stmt], kinds: Kinds) -> None:
        self.name, self.kinds = name, kinds
        self.arrays: dict[str, _Array] = {}
        rest = [s for s in body if not self._declared(s)]
        kinds.of |= {n: f"*{a.code}" for n, a in self.arrays.items()}
        self.rewriting = _Rewriting(name, False, {n: a.size for n, a in self.arrays.items() if not a.shared})
        shared, local = ([n for n, a in self.arrays.items() if a.shared is both] for both in (True, False))
        self.cut = Cut(name, rest, kinds.scalars, kinds.pointers, shared, local)
        kinds.learn(rest, self.cut.sent)
        begin = [s for n, a in self.arrays.items() for s in self._begun(n, a)]
        self.body = [*self._stacks(), *_block([*begin, *self._parts(self.cut.parts)])]

    def _declared(self, s: ast.stmt) -> bool:
        """Whether it makes an array, which is noted."""
        call = s.value if isinstance(s, ast.Assign) else None
        if not isinstance(call, ast.Call) or ast.unparse(call.func) not in _ARRAYS:
            return False
        assert isinstance(s, ast.Assign)
        size = self.kinds.number(call.args[0])
        code = self.kinds.called(call.args[1])
        if size is None or code is None:
            raise Unemulable(f"{self.name}: the size or type of an array is not written")
        self.arrays[ast.unparse(s.targets[0])] = _Array(size, code, "shared" in ast.unparse(call.func))
        return True

    def _stacks(self) -> Iterator[ast.stmt]:
        for n, a in self.arrays.items():
            yield _statement(f"{n} = stack_{a.code}({a.size * (1 if a.shared else THREADS)})")
        wanted = {f"{n}_": ast.Name(n, ast.Load()) for n in self.cut.kept} | self.cut.sent
        for n, value in wanted.items():
            code = self.kinds.kind(value)
            if code is None or code not in _STACKS:
                raise Unemulable(f"{self.name}: of what type is `{ast.unparse(value)}`?")
            yield _statement(f"{n} = stack_{code}({THREADS})")

    def _begun(self, name: str, array: _Array) -> list[ast.stmt]:
        """What nobody has written yet."""
        size = array.size * (1 if array.shared else THREADS)
        none = "np.nan" if array.code[0] == "f" else "-1"
        return [_statement(f"for turn_ in range({size}):\n    {name}[turn_] = {none}")]

    def _parts(self, parts: Sequence[Part]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for part in parts:
            if isinstance(part, Stretch):
                made += [self.rewriting.visit(s) for s in part.first]
                made += _threads(self.rewriting, self._whole(part)) if part.body else []
            elif isinstance(part, Loop):
                made.append(self._loop(part))
        return made

    def _loop(self, loop: Loop) -> ast.stmt:
        self.rewriting.depth += 1
        inside = self._parts(loop.parts)
        self.rewriting.depth -= 1
        made = ast.For(loop.node.target, loop.node.iter, [ast.Pass()], [])
        made = self.rewriting.visit_For(made)
        made.body[-1:] = inside
        return made

    def _whole(self, stretch: Stretch) -> list[ast.stmt]:
        """With what a thread finds when it goes on, and what it leaves where it waits."""
        used = names(ast.Module(stretch.body, []))
        placed: list[ast.stmt] = []
        for n, s in reversed(self.cut.placed.items()):
            if n in used:
                used |= names(s.value)
                placed.insert(0, s)
        kept = [n for n in self.cut.kept if n in used]
        found = [_statement(f"{n} = {n}_[thread_]") for n in kept if first_use(n, stretch.body) != "set"]
        left = stored(ast.Module(stretch.body, []))
        return [
            *placed,
            *found,
            *stretch.body,
            *[_statement(f"{n}_[thread_] = {n}") for n in kept if n in left],
        ]


def _threads(rewriting: _Rewriting, body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """What all threads do, one after another."""
    (loop,) = ast.parse(_THREADS).body
    assert isinstance(loop, ast.For)
    loop.body += [rewriting.visit(_copied(s)) for s in body]
    return [loop]


def _copied(s: ast.stmt) -> ast.stmt:
    """What is placed stands in several stretches, and is rewritten in each."""
    return _statement(ast.unparse(s)) if isinstance(s, ast.Assign) else s


def _block(body: list[ast.stmt]) -> list[ast.stmt]:
    (loop,) = ast.parse("for block_ in range(start, stop):\n    pass").body
    assert isinstance(loop, ast.For)
    loop.body = body
    return [loop]


class _Respelled(ast.NodeTransformer):
    """NumPy's functions of a scalar, which `spread` has respelled."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        if isinstance(node.value, ast.Name) and node.value.id == "device" and node.attr in NUMPYS:
            node.value.id = "np"
        return node


class _Rewriting(ast.NodeTransformer):
    """What one thread does, where its number stands in variables; `local` are the sizes of arrays that each thread has for itself."""

    def __init__(self, name: str, alone: bool, local: dict[str, int]) -> None:
        self.name, self.alone, self.local = name, alone, local
        self.depth = 0

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return _place(node) or self.generic_visit(node)  # type: ignore[return-value]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        found = _place(node)
        if not found and ast.unparse(node).split(".")[0] in ("cuda", "libdevice"):
            raise Unemulable(f"{self.name}: it asks for {ast.unparse(node)}")
        return found or node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        size = self.local.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if size is not None:
            node.slice = _expression(f"thread_ * {size} + ({ast.unparse(node.slice)})")
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self.depth += 1
        self.generic_visit(node)
        args = node.iter.args if isinstance(node.iter, ast.Call) else []
        if len(args) == 3 and not isinstance(args[2], ast.Constant | ast.UnaryOp):
            self._counted(node, *args)
        self.depth -= 1
        return node

    def _counted(self, node: ast.For, start: ast.expr, stop: ast.expr, step: ast.expr) -> None:
        """A loop whose step is not written, by its turns: the front takes no other."""
        if (names(start) | names(stop) | names(step)) & stored(node):
            raise Unemulable(f"{self.name}: a loop sets what its range is made of")
        turn, far = f"step{self.depth}_", ast.BinOp(stop, ast.Sub(), start)
        more = ast.BinOp(ast.BinOp(far, ast.Add(), step), ast.Sub(), ast.Constant(1))
        target = ast.unparse(node.target)
        node.body.insert(0, _statement(f"{target} = {ast.unparse(start)} + {turn} * ({ast.unparse(step)})"))
        node.target = ast.Name(turn, ast.Store())
        node.iter = _expression(f"range({ast.unparse(ast.BinOp(more, ast.FloorDiv(), step))})")

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if self.depth and not self.alone:
            raise Unemulable(f"{self.name}: a thread returns out of a loop")
        return node if self.depth else ast.Continue()  # where one thread is alone, no other waits to be run


def _place(node: ast.expr) -> ast.expr | None:
    text = _PLACES.get(ast.unparse(node))
    return _expression(text) if text else None


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _statement(text: str) -> ast.stmt:
    (made,) = ast.parse(text).body
    return made


def _imported(statement: ast.stmt) -> Iterator[ast.stmt]:
    """An import, from where the CPU finds what CUDA's twins stand for; any other statement is kept."""
    if not isinstance(statement, ast.ImportFrom):
        yield statement
    elif statement.module == _DEVICE:
        for module in dict.fromkeys(_HOME[a.name] for a in statement.names):
            yield ast.ImportFrom(module, [a for a in statement.names if _HOME[a.name] == module], 0)
    elif ast.unparse(statement) not in ("from numba import cuda", "from nbgrad.kernels.cuda import device"):
        yield statement
