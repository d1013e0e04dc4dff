"""Methods as functions: what is read of `self` becomes a parameter, which the object gives at each call.

Promises that lines are those of the method, and that what is done with `self` beside reading its attributes is refused with its line.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

from nbgrad.adjoints.ir import Refused


def of_attributes(method: Callable[..., Any] | None) -> Any:
    """The function of the attributes that a method reads, in their order, and of its other parameters; its `attributes` are the names of
    these parameters by what is read (`self.rate`)."""
    if method is None:
        raise TypeError("differentiable() takes a method that is written in Python")
    function: Any = method
    code, file = function.__code__, function.__code__.co_filename
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError):
        raise Refused(
            f"{file}:{code.co_firstlineno}: the source of {function.__name__} cannot be read"
        ) from None
    ast.increment_lineno(tree, first - 1)
    given = [*tree.args.posonlyargs, *tree.args.args] if isinstance(tree, ast.FunctionDef) else []
    if not isinstance(tree, ast.FunctionDef) or not given:
        raise Refused(f"{file}:{first}: {function.__name__} is no method with a self (write it with def)")
    own = given[0].arg
    taken = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
        a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)
    }
    found: dict[str, str] = {}

    def parameter(name: str) -> str:
        text = f"{own}_{name}"
        while text in taken:
            text += "_"
        return found.setdefault(f"{own}.{name}", text)

    tree.body = [_Attributes(own, file, parameter).visit(s) for s in tree.body]
    tree.decorator_list, tree.returns = [], None
    for a in ast.walk(tree.args):
        if isinstance(a, ast.arg):
            a.annotation = None
    # Defaults are those of the method, which were worked out where it stands.
    tree.args.defaults, tree.args.kw_defaults = [], [None] * len(tree.args.kwonlyargs)
    (tree.args.posonlyargs or tree.args.args).pop(0)
    params = [ast.arg(text) for text in found.values()]
    (tree.args.posonlyargs if tree.args.posonlyargs else tree.args.args)[:0] = params
    ast.fix_missing_locations(tree)
    scope: dict[str, Any] = {}
    exec(compile(ast.Module([tree], []), file, "exec"), scope)
    made: Any = next(v for v in scope.values() if isinstance(v, types.FunctionType))
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    made.__module__, made.__doc__, made.__qualname__ = (
        function.__module__,
        function.__doc__,
        function.__qualname__,
    )
    made.rewritten, made.original, made.attributes = tree, function, found
    return made


def attribute(function: Any, owner: Any, text: str) -> Any:
    """What an object has under that name now."""
    name = text.partition(".")[2]
    value = getattr(owner, name)
    if isinstance(value, types.MethodType):
        raise Refused(
            f"{function.__name__}(): {text} is a method, which is not taken (write it as a function of what it reads, and give it that)"
        )
    return value


class _Attributes(ast.NodeTransformer):
    def __init__(self, own: str, file: str, parameter: Callable[[str], str]) -> None:
        self.own, self.file, self.parameter = own, file, parameter

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not (isinstance(node.value, ast.Name) and node.value.id == self.own):
            return self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            self.refuse(
                node,
                f"{self.own}.{node.attr} is written",
                "return the value, or write to an array of its own",
            )
        return ast.copy_location(ast.Name(self.parameter(node.attr), ast.Load()), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == self.own:
            self.refuse(node, f"{self.own} is used as a whole", f"read what is needed of it: {self.own}.name")
        return node

    def refuse(self, node: ast.expr, what: str, instead: str) -> None:
        raise Refused(f"{self.file}:{node.lineno}: {what} ({instead})")


__all__ = ["attribute", "of_attributes"]
