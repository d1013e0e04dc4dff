"""Of what type the variables of a CUDA text are, as far as the text says it.

Promises `emulate.py` a code for what a thread keeps over a barrier, by Numba's rules, or None where a look at the text does not tell.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from nbgrad.kernels.codes import MEMORY, NARROW
from nbgrad.kernels.dialect_types import Refused, arithmetic, bitwise, is_float, quotient, shifted, unified

_NUMPY = {
    **{"np.float32": "f4", "np.float64": "f8", "np.int64": "i8", "np.int32": "i4", "np.int16": "i2"},
    **{"np.int8": "i1", "np.uint64": "u8", "np.uint32": "u4", "np.uint16": "u2", "np.uint8": "u1"},
    **{"np.bool_": "b1", "bool": "b1", "int": "i8", "float": "f8"},
}
_RESULTS = {f"from_{name}": "f4" for name in NARROW.values()} | {
    f"to_{name}": MEMORY[c] for c, name in NARROW.items()
}
_TURNS = 8  # by which what variables rest on each other has settled


class Kinds:
    """`of` has the codes of names: of parameters, of variables once they are learnt; a pointer's begins with a star."""

    def __init__(self, module: ast.Module, params: dict[str, str]) -> None:
        self._types = dict(_NUMPY)
        self._numbers: dict[str, int] = {}
        for s in module.body:
            if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
                self._constant(s.targets[0].id, s.value)
        self.of: dict[str, str | None] = {n: _in_memory(code) for n, code in params.items()}
        self.scalars = {n for n, code in params.items() if code[0] != "*"}
        self.pointers = params.keys() - self.scalars

    def _constant(self, name: str, value: ast.expr) -> None:
        if (code := self.called(value)) is not None:
            self._types[name] = code
        elif (number := self.number(value)) is not None:
            self._numbers[name] = number

    def called(self, node: ast.expr) -> str | None:
        """The code of a type."""
        return self._types.get(ast.unparse(node))

    def number(self, node: ast.expr) -> int | None:
        """A whole number that is written."""
        try:
            found = eval(ast.unparse(node), {"__builtins__": {}}, self._numbers)
        except (NameError, TypeError, AttributeError):
            return None
        return found if type(found) is int else None

    def learn(self, body: Sequence[ast.stmt], sent: dict[str, ast.expr]) -> None:
        """What statements put into variables, and shuffles pass on."""
        whole = ast.Module(list(body), [])
        for _ in range(_TURNS):
            before = dict(self.of)
            for node in ast.walk(whole):
                if isinstance(node, ast.Assign):
                    self._put(node.targets[0], self.kind(node.value))
                elif isinstance(node, ast.AugAssign):
                    self._put(node.target, self.kind(ast.BinOp(node.target, node.op, node.value)))
                elif isinstance(node, ast.For):
                    self._put(node.target, "i8")
            for name, value in sent.items():
                self.of[name] = f"*{self.kind(value)}"
            if self.of == before:
                return

    def _put(self, target: ast.expr, code: str | None) -> None:
        if isinstance(target, ast.Name) and code is not None:
            known = self.of.get(target.id)
            self.of[target.id] = code if known is None else unified(known, code)

    def kind(self, node: ast.expr) -> str | None:
        """The code of an expression."""
        try:
            return self._kind(node)
        except Refused:
            return None

    def _kind(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant):
            return {bool: "b1", int: "i8", float: "f8"}.get(type(node.value))
        if isinstance(node, ast.Name):
            return "i8" if node.id in self._numbers else self.of.get(node.id)
        if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return "b1"
        if isinstance(node, ast.BoolOp):
            return self._joined(node.values)
        if isinstance(node, ast.IfExp):
            return self._joined([node.body, node.orelse])
        if isinstance(node, ast.UnaryOp):
            code = self.kind(node.operand)
            return None if code is None else bitwise(code, code) if isinstance(node.op, ast.Invert) else code
        if isinstance(node, ast.BinOp):
            return self._of_two(node)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            return (self.of.get(node.value.id) or "*?")[1:]
        if isinstance(node, ast.Attribute):
            return "i8" if ast.unparse(node).startswith("cuda.") else None
        return self._called(node) if isinstance(node, ast.Call) else None

    def _of_two(self, node: ast.BinOp) -> str | None:
        a, b = self.kind(node.left), self.kind(node.right)
        if a is None or b is None:
            return None
        if isinstance(node.op, ast.Div):
            return quotient(a, b)
        if isinstance(node.op, ast.LShift | ast.RShift):
            return shifted(a, b)
        return (bitwise if isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor) else arithmetic)(a, b)

    def _called(self, node: ast.Call) -> str | None:
        name = ast.unparse(node.func)
        known = self._types.get(name) or _RESULTS.get(name)
        if known is not None:
            return known
        if name.startswith("cuda."):  # a place, or a shuffle's value
            return self.kind(node.args[1]) if len(node.args) == 3 else "i8"
        codes = [c for a in node.args if (c := self.kind(a)) is not None and c[0] != "*"]
        floats = [c for c in codes if is_float(c)]
        return _all_unified(floats or codes)

    def _joined(self, parts: Sequence[ast.expr]) -> str | None:
        return _all_unified([c for p in parts if (c := self.kind(p)) is not None])


def _all_unified(codes: Sequence[str]) -> str | None:
    if not codes:
        return None
    found = codes[0]
    for code in codes[1:]:
        found = unified(found, code)
    return found


def _in_memory(code: str) -> str:
    return code[0] + MEMORY.get(code[1:], code[1:]) if code[0] == "*" else MEMORY.get(code, code)
