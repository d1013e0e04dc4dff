"""The front for the dialect that our kernels are written in: a file of Python becomes LLVM's text, without Numba.

Promises `build.py` what Numba would compile of the same function, to the bit, in a fiftieth of the time that Numba takes before LLVM
begins. A kernel is a function of numbers and pointers: `for` over ranges, `while` and `if`; arithmetic, comparisons, choices; and
what `dialect_helpers.py` lists. Functions in the kernel's own file, and of other files of this folder, are read from their text.
Numba stays the reference: whatever is not known here raises `Refused`, and Numba compiles that kernel.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.kernels.codes import MEMORY
from nbgrad.kernels.dialect_code import Definition, Function, Type
from nbgrad.kernels.dialect_helpers import HELPERS, MATH, NUMPY, PYTHON, WIDE
from nbgrad.kernels.dialect_types import TUPLE, Refused, Value, constant, llvm
from nbgrad.kernels.dialect_ways import Module
from nbgrad.kernels.tile import BEYOND

__all__ = ["Refused", "written"]

_NUMBERS: dict[type, str] = {
    **{np.float32: "f4", np.float64: "f8", np.int64: "i8", np.int32: "i4", np.int16: "i2", np.int8: "i1"},
    **{np.uint64: "u8", np.uint32: "u4", np.uint16: "u2", np.uint8: "u1", np.bool_: "b1", bool: "b1"},
}
_PREFIX = "nbgrad.kernels."
_DECORATORS = ("njit", "register_jitable(error_model='numpy')")


def written(name: str, source: str, params: Sequence[str], contract: bool, beyond: bool = False) -> str:
    """LLVM's text of a module with the kernel `name`, of parameters as `build.kernel` has them; it calls nothing but C's library. What
    computes, and comes to the same on vectors of any width, has those `beyond` the level if that is said.

    >>> from nbgrad.kernels.dialect import written
    >>> text = written("double", "def double(start, stop, o):\\n    o[start] *= 2.0\\n", ["i8", "i8", "*f8"], False)
    >>> "fmul double" in text
    True
    """
    try:
        file = File(ast.parse(source))
    except SystemError as error:  # two threads that parse at once can meet in CPython 3.11
        raise Refused("the parser is in use") from error
    node = file.functions.get(name)
    if node is None or node.decorator_list:
        raise Refused(f"no function {name}")
    names = [a.arg for a in node.args.args]
    types = [_memory(code) for code in params]
    module = Module(contract)
    made = Function(file, module)
    text = made.text(f"{{}} @{name}", list(zip(names, types, strict=True)), node.body)
    if made.result != "none":
        raise Refused("a kernel that returns something")
    text = "\n".join([*module.declared.values(), text, ""])
    if not module.wide:
        return text.replace(f" {WIDE} {{", " {")
    wider = module.beyond or (beyond and not module.ordered)
    attributes = f'"prefer-vector-width"="512" alignstack=64{f" {BEYOND}" * wider}'
    return f"{text}attributes {WIDE} = {{ {attributes} }}\n"


def _memory(code: str) -> str:
    star, code = ("*", code[1:]) if code[0] == "*" else ("", code)
    return star + MEMORY.get(code, code)


class File:
    """The names of a file's text, without running it."""

    def __init__(self, tree: ast.Module, module: str = "") -> None:
        self.helpers = HELPERS.get(module, {})  # of its functions
        self.functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        self.constants: dict[str, Any] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        self.modules: dict[str, str] = {}
        for node in tree.body:
            if isinstance(node, ast.Import):
                for a in node.names:
                    self.modules[a.asname or a.name] = a.name
                    if a.name in ("math", "numpy"):
                        self.constants[a.asname or a.name] = math if a.name == "math" else np
            elif isinstance(node, ast.ImportFrom) and node.module:
                for a in node.names:
                    if node.module == "math":
                        self.constants[a.asname or a.name] = getattr(math, a.name)
                    else:
                        self.imported[a.asname or a.name] = node.module, a.name
            elif isinstance(node, ast.Assign):
                self._assign(node)

    def _assign(self, node: ast.Assign) -> None:
        """A constant, worked out by Python; what is none has no meaning here."""
        target = node.targets[0]
        try:
            value = eval(compile(ast.Expression(node.value), "<constant>", "eval"), dict(self.constants))
            if isinstance(target, ast.Tuple):
                names = [t.id for t in target.elts if isinstance(t, ast.Name)]
                self.constants |= dict(zip(names, value, strict=True))
        except Exception:
            return
        if isinstance(target, ast.Name):
            self.constants[target.id] = value

    def named(self, name: str) -> Any:
        """A constant, a type, a writer of a helper, or a function to read."""
        if name in self.helpers:
            return self.helpers[name]
        if name in self.functions:
            return Read(self, self.functions[name])
        if name in self.constants:
            value = self.constants[name]
            return Type(_NUMBERS[value]) if isinstance(value, type) and value in _NUMBERS else constant(value)
        if name in self.imported:
            module, original = self.imported[name]
            if not module.startswith(_PREFIX):
                raise Refused(f"{original} of {module}")
            return _file(module.removeprefix(_PREFIX)).named(original)
        if name in PYTHON:
            return PYTHON[name]
        raise Refused(f"the name {name}")

    def attribute(self, owner: str, name: str) -> Any:
        module = self.modules.get(owner)
        table = {"math": MATH, "numpy": NUMPY}.get(module or "")
        if table is None:
            raise Refused(f"{owner}.{name}")
        if name in table:
            return table[name]
        value = getattr(np if module == "numpy" else math, name, None)
        return Type(_NUMBERS[value]) if isinstance(value, type) and value in _NUMBERS else constant(value)


@cached(None)
def _file(module: str) -> File:
    path = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    return File(ast.parse(path.read_text(encoding="utf-8")), module)


class Read(Definition):
    """A function whose text is called: one more of the module's, for the types of the call. A tuple of constants that is passed is
    a part of what it is."""

    def __init__(self, file: File, node: ast.FunctionDef) -> None:
        self.file, self.node = file, node

    def called(self, caller: Function, args: Sequence[Value]) -> Value:
        node = self.node
        decorators = [ast.unparse(d) for d in node.decorator_list]
        if any(d not in _DECORATORS for d in decorators) or len(node.args.args) != len(args):
            raise Refused(f"a call of {node.name}")
        names = [a.arg for a in node.args.args]
        fixed = {n: v for n, v in zip(names, args, strict=True) if v.type == TUPLE}
        passed = [(n, v) for n, v in zip(names, args, strict=True) if v.type != TUPLE]
        if any(part.known is None for v in fixed.values() for part in v.known):
            raise Refused("a tuple that is passed")
        key = repr((id(node), [v.type for _, v in passed], fixed))
        found = caller.module.read.get(key)
        if found and not found[0]:
            raise Refused("a function that calls itself")
        kind, name = found or self._made(caller.module, key, passed, fixed)
        given = ", ".join(f"{llvm(v.type)} {v.text}" for _, v in passed)
        if kind == "none":
            caller.line(f"call void @{name}({given})")
            return Value("none", "")
        flagged = caller.flagged("call") if kind in ("f4", "f8") else "call"
        return caller.made(kind, f"{flagged} {llvm(kind)} @{name}({given})")

    def _made(
        self, module: Module, key: str, passed: list[tuple[str, Value]], fixed: dict[str, Value]
    ) -> tuple[str, str]:
        name = f"{self.node.name}.{len(module.read)}"
        module.read[key] = "", name
        function = Function(self.file, module)
        params = [(n, v.type) for n, v in passed]
        text = function.text(f"internal {{}} @{name}", params, self.node.body, fixed)
        module.declared[name] = text
        module.read[key] = function.result, name
        return function.result, name
