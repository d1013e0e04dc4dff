"""A CUDA kernel's text, rewritten for the CPU: what its blocks of 256 threads do, a range of blocks at a time.

Promises a kernel's text like any of the CPU's, which `build.kernel` compiles. It takes `start, stop`, a range of blocks; what the CUDA
text takes; and then `blocks_`, those of the grid, with `odd_, shift_`, which say in what order a block's threads go: the turn `k` is
thread `(k * odd_ + shift_) & 255`. What is right for CUDA gives the same bits in every order. What cannot be rewritten faithfully is
refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from nbgrad.kernels.cuda.driver import THREADS
from nbgrad.kernels.cuda.spread import NUMPYS, TWINS

__all__ = ["ORDER", "Unemulable", "emulated"]

ORDER = ("blocks_", "odd_", "shift_")  # what a launch adds
_THREAD = f"(turn_ * odd_ + shift_) & {THREADS - 1}"
_BLOCKS = (
    f"for block_ in range(start, stop):\n    for turn_ in range({THREADS}):\n        thread_ = {_THREAD}"
)
_PLACES = {
    "cuda.grid(1)": f"block_ * {THREADS} + thread_",
    "cuda.gridsize(1)": f"blocks_ * {THREADS}",
    "cuda.threadIdx.x": "thread_",
    "cuda.blockIdx.x": "block_",
    "cuda.blockDim.x": str(THREADS),
    "cuda.gridDim.x": "blocks_",
}
_ALONE = "cuda.grid(1) != 0"
_HOME = {function: module for module, functions in TWINS.items() for function in functions}
_DEVICE = "nbgrad.kernels.cuda.device"


class Unemulable(Exception):
    """A text that the CPU would not run as CUDA does."""


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
    names = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name)} | {a.arg for a in kernel.args.args}
    if taken := sorted(n for n in names if n.endswith("_") and not n.endswith("__")):
        raise Unemulable(f"{name}: it has a use of its own for the name `{taken[0]}`")
    docstring = kernel.body[:1] if ast.get_docstring(kernel, clean=False) is not None else []
    body = kernel.body[len(docstring) :]
    alone = any(ast.unparse(s.test) == _ALONE for s in body if isinstance(s, ast.If))
    _Respelled().visit(module)
    rewriting = _Rewriting(name, alone)
    (blocks,) = ast.parse(_BLOCKS).body
    assert isinstance(blocks, ast.For) and isinstance(blocks.body[0], ast.For)
    blocks.body[0].body += [rewriting.visit(s) for s in body]
    kernel.body = [*docstring, blocks]
    kernel.args.args[:0] = [ast.arg("start"), ast.arg("stop")]
    kernel.args.args += [ast.arg(n) for n in ORDER]
    module.body = [kept for s in module.body for kept in _imported(s)]
    if "device" in _names(module):
        raise Unemulable(f"{name}: it calls what only a device has")
    text = ast.unparse(ast.fix_missing_locations(module)).replace("NAME__", "@NAME@")
    return text, ("i8", "i8", *params, "i8", "i8", "i8")


class _Respelled(ast.NodeTransformer):
    """NumPy's functions of a scalar, which `spread` has respelled."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        if isinstance(node.value, ast.Name) and node.value.id == "device" and node.attr in NUMPYS:
            node.value.id = "np"
        return node


class _Rewriting(ast.NodeTransformer):
    """What one thread does, where its number stands in variables."""

    def __init__(self, name: str, alone: bool) -> None:
        self.name, self.alone = name, alone
        self.depth = 0

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return _place(node) or self.generic_visit(node)  # type: ignore[return-value]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        found = _place(node)
        if not found and ast.unparse(node).split(".")[0] in ("cuda", "libdevice"):
            raise Unemulable(f"{self.name}: it asks for {ast.unparse(node)}")
        return found or node

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
        if (_names(start) | _names(stop) | _names(step)) & _stored(node):
            raise Unemulable(f"{self.name}: a loop sets what its range is made of")
        turn, far = f"step{self.depth}_", ast.BinOp(stop, ast.Sub(), start)
        more = ast.BinOp(ast.BinOp(far, ast.Add(), step), ast.Sub(), ast.Constant(1))
        node.body.insert(0, _set(node.target, f"{ast.unparse(start)} + {turn} * ({ast.unparse(step)})"))
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


def _set(target: ast.expr, text: str) -> ast.stmt:
    (made,) = ast.parse(f"{ast.unparse(target)} = {text}").body
    return made


def _stored(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _imported(statement: ast.stmt) -> Iterator[ast.stmt]:
    """An import, from where the CPU finds what CUDA's twins stand for; any other statement is kept."""
    if not isinstance(statement, ast.ImportFrom):
        yield statement
    elif statement.module == _DEVICE:
        for module in dict.fromkeys(_HOME[a.name] for a in statement.names):
            yield ast.ImportFrom(module, [a for a in statement.names if _HOME[a.name] == module], 0)
    elif ast.unparse(statement) not in ("from numba import cuda", "from nbgrad.kernels.cuda import device"):
        yield statement
