"""What the rooms of lowering share: where they are, and what each may ask of those above it.

`indices`, `expressions`, `loops`, `statements` and `lower` each lower what their name says and stand on the one before.
"""

from __future__ import annotations

import ast
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nbgrad.adjoints.build import Builder, Items, Value
from nbgrad.adjoints.draws import DIRECT
from nbgrad.adjoints.ir import Branch, Expr, Program, View

Env = dict[str, Any]
OUTER = "@outer"  # in an environment: names that are bound outside of the block
SEQUENCE = "@over"  # and what a loop goes over
SEEN_FROM = "@from"  # the function whose names a scope has
# Names as they were when they were first read: whose they are, and what.
Seen = dict[tuple[int, str], tuple[Any, Any]]


class Room(Builder, ABC):
    def __init__(self, program: Program, called: Callable[[Any], Any]) -> None:
        super().__init__(program)
        self.called = called
        self.stack: list[Any] = []
        self.site: tuple[Any, ...] = ()  # the calls that we are in, as places of the text
        self.following: list[Sequence[ast.stmt]] = []  # statements after those that we are in, innermost last
        self.scope: dict[str, Any] = {}
        self.seen: Seen = {}
        self.frame: object = None  # the call that we are in
        self.here: Env = {}  # its names, where it calls
        self.frames: list[tuple[object, Env]] = []  # those around it
        self.foreign: set[str] = set()  # arrays that those around it know
        self.owned: dict[str, tuple[object, str]] = {}  # arrays that a name of a call has for itself
        self.either: list[
            tuple[View, View]
        ] = []  # arrays that are one or another, as a branch decides, and from where
        self.turning = 0  # loops that we are in
        self.of_module: dict[int, View] = {}  # arrays of the module that are read
        self.was_float: dict[
            str, str
        ] = {}  # integers that may be what they were before a loop, and why they are floats
        self.kept: dict[str, Any] = {}  # of lists of something else than numbers, the rooms of their items
        self.room_of: dict[str, str] = {}  # rooms of arrays, and the list that they are of
        self.sites: dict[str, Any] = {}  # where lists are made
        self.foreseen: dict[Any, Any] = {}  # what those hold, which was found out before
        self.drawing = DIRECT  # how np.random is taken
        self.draws = False  # is it?
        self.draw_rooms: dict[str, str] = {}
        self.numbers_drawn = ""  # the parameter that has what it gave
        self.names: Env = {}  # those of the statement that we are in
        self.twins: set[frozenset[str]] = set()  # two arrays each, which may be one to who wrote the program

    @abstractmethod
    def value(self, e: ast.expr, env: Env, hint: str | None = None) -> Value: ...

    @abstractmethod
    def operands(
        self, nodes: Sequence[ast.expr], env: Env, missing: Callable[[], int | None] | None = None
    ) -> list[Value]: ...

    @abstractmethod
    def unpacked(self, x: Value, n: int) -> list[Any]: ...

    @abstractmethod
    def scalar(self, e: ast.expr, env: Env, hint: str | None = None) -> Expr: ...

    @abstractmethod
    def integer(self, e: ast.expr, env: Env) -> Expr: ...

    @abstractmethod
    def whole_number(self, x: Value, node: ast.AST | None) -> Expr: ...

    @abstractmethod
    def statements(self, body: Sequence[ast.stmt], env: Env) -> None: ...

    @abstractmethod
    def bind(self, t: ast.expr, x: Value, env: Env) -> None: ...

    @abstractmethod
    def bind_anew(self, t: ast.expr, x: Value, env: Env) -> None:
        """`bind`, where what is bound may have to be written to the array that the name has."""

    @abstractmethod
    def bound(self, name: str, x: Value, env: Env) -> Value:
        """What a name stands for once it is bound to a value."""

    @abstractmethod
    def condition(self, e: ast.expr, env: Env) -> Expr: ...

    @abstractmethod
    def truth(self, e: Expr) -> Expr: ...

    @abstractmethod
    def shared(self, a: str, b: str) -> None:
        """`a` is a copy of what is `b` to who wrote the program."""

    @abstractmethod
    def inline(self, fn: Any, args: Sequence[Value], named: dict[str, Value]) -> Value:
        """What a call computes, written out at the call."""

    @abstractmethod
    def merged(self, name: str, a: Any, b: Any, branch: Branch, names_it: bool = True) -> Value:
        """What a name, or an expression, is behind a branch."""

    @abstractmethod
    def end_branch(self, branch: Branch) -> None: ...

    @abstractmethod
    def lay_out(self, room: View, v: View) -> None:
        """An array's numbers, written to room that grows."""

    @abstractmethod
    def spread(self, made: View, room: View) -> None:
        """An array that is made of what lies in room."""

    def position_of(self, node: ast.AST | None) -> tuple[Any, ...]:
        return self.file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0)

    def no_list(self, x: Value, node: ast.AST) -> None:
        if isinstance(x, View) and x.base in self.lists:
            self.refuse("arithmetic of a list", "np.array(...) of it, or extend", node)

    def all_bases(self, x: Any) -> set[str]:
        return set().union(*map(self.all_bases, x.items)) if isinstance(x, Items) else self.bases(x)

    @abstractmethod
    def wrapped(self, x: Any) -> Value:
        """What an object of Python's is here."""


class Turn(list[ast.stmt]):
    """Statements of a loop's next turn, which may not come."""


@dataclass(eq=False)
class Inside:
    """A function inside of the one that is lowered."""

    tree: ast.FunctionDef
    scope: dict[str, Any]
    file: str
    frame: object
    signature: inspect.Signature

    @property
    def __name__(self) -> str:
        return self.tree.name


INSTEAD: dict[type, tuple[str, str]] = {
    ast.Try: ("try", "test before"),
    ast.With: ("with", "leave it out"),
    ast.Lambda: ("lambda where it may not be reached", "write a function before"),
    ast.DictComp: ("a comprehension where it may not be reached", "set a name before"),
    ast.Set: ("a set", "use arrays"),
    ast.ListComp: ("a comprehension where it may not be reached", "set a name before"),
    ast.GeneratorExp: ("a generator where it may not be reached", "set a name before"),
    ast.JoinedStr: ("a string", "leave it out"),
    ast.Delete: ("del", "leave it out"),
    ast.Global: ("global", "return the value"),
    ast.Nonlocal: ("nonlocal", "return the value"),
    ast.Import: ("import", "import it at the top of the file"),
    ast.ImportFrom: ("import", "import it at the top of the file"),
    ast.Yield: ("yield", "write to an array"),
    ast.NamedExpr: ("a name that is set in an expression", "set it before"),
}

__all__ = ["INSTEAD", "OUTER", "SEEN_FROM", "SEQUENCE", "Env", "Inside", "Room", "Seen", "Turn"]
