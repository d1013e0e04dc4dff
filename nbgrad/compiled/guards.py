"""Whether all that a program rests on is as it was, asked in one call of machine code.

Promises `swift(lines, names, grads)`: what `state.py` and `after.py` ask in Python, object by object, as a row of words that have to be
what they are now. A tensor's slots, a variable's cell, a list's length and items are words at known places, an entry of a dictionary is one
call of Python's own. Where they are as they were the conditions hold; where not, a condition may still hold, as of an equal number that is
another object, so who asks then asks in Python. What no word tells stays a line. Of 34 conditions of a step with 3 leaves: 650 ns in
Python, 100 here.
"""

from __future__ import annotations

import ast
import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping
from types import CellType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.tensor import AutogradMeta, Tensor, new
from nbgrad.kernels import build, calls

_WORD, _BEHIND, _ENTRY, _OF_THREAD, _GRAD, _NO_GRAD = range(6)
_HEAD = object.__basicsize__  # behind it a dictionary's and a list's length
_ITEMS = _HEAD + 8  # where a list's items are
_TYPE = _HEAD - 8

# The argument: an array of words, how many rows there are and then four words of each, its kind, two that say where to look, and what has
# to be there. Then this thread's own attributes, each kind in a dictionary.
_TEXT = """
declare ptr @PyDict_GetItem(ptr, ptr)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8
@_Py_TrueStruct = external global i8
@_Py_FalseStruct = external global i8

define ptr @same(ptr %self, ptr %args, i64 %count) {
  %words_object = load ptr, ptr %args
  %at_data = getelementptr i8, ptr %words_object, i64 $HEAD
  %words = load ptr, ptr %at_data
  %rows = load i64, ptr %words
  %first = getelementptr i64, ptr %words, i64 1
  br label %look
look:
  %k = phi i64 [0, %0], [%k1, %good]
  %more = icmp slt i64 %k, %rows
  br i1 %more, label %row, label %yes
row:
  %at = getelementptr [4 x i64], ptr %first, i64 %k
  %kind = load i64, ptr %at
  %at_a = getelementptr i64, ptr %at, i64 1
  %a = load ptr, ptr %at_a
  %at_b = getelementptr i64, ptr %at, i64 2
  %b = load i64, ptr %at_b
  %at_wanted = getelementptr i64, ptr %at, i64 3
  %wanted = load i64, ptr %at_wanted
  switch i64 %kind, label %word [i64 $BEHIND, label %behind
                                 i64 $ENTRY, label %entry
                                 i64 $OF_THREAD, label %of_thread
                                 i64 $GRAD, label %ad
                                 i64 $NO_GRAD, label %ad]
word:
  %there = load i64, ptr %a
  br label %compare
behind:
  %p = load ptr, ptr %a
  %unset = icmp eq ptr %p, null
  br i1 %unset, label %no, label %follow
follow:
  %at_far = getelementptr i8, ptr %p, i64 %b
  %far = load i64, ptr %at_far
  br label %compare
entry:
  %key = inttoptr i64 %b to ptr
  %found = call ptr @PyDict_GetItem(ptr %a, ptr %key)
  %found_word = ptrtoint ptr %found to i64
  br label %compare
of_thread:
  %which = ptrtoint ptr %a to i64
  %at_table = getelementptr ptr, ptr %args, i64 %which
  %table = load ptr, ptr %at_table
  %name = inttoptr i64 %b to ptr
  %own = call ptr @PyDict_GetItem(ptr %table, ptr %name)
  %own_word = ptrtoint ptr %own to i64
  %usual = icmp eq ptr %own, null
  br i1 %usual, label %good, label %compare
ad:
  %own_ad = load ptr, ptr %a
  %without = icmp eq ptr %own_ad, @_Py_NoneStruct
  %absent = icmp eq i64 %kind, $NO_GRAD
  br i1 %without, label %no_ad, label %grad
no_ad:
  br i1 %absent, label %good, label %no
grad:
  %at_grad = getelementptr i8, ptr %own_ad, i64 $OF_GRAD
  %g = load ptr, ptr %at_grad
  %none = icmp eq ptr %g, @_Py_NoneStruct
  br i1 %none, label %no_ad, label %some
some:
  br i1 %absent, label %no, label %spec
spec:
  %at_type = getelementptr i8, ptr %g, i64 $TYPE
  %type = load i64, ptr %at_type
  %plain = icmp eq i64 %type, %b
  br i1 %plain, label %node, label %no
node:
  %at_node = getelementptr i8, ptr %g, i64 $OF_NODE
  %its_node = load ptr, ptr %at_node
  %apart = icmp eq ptr %its_node, @_Py_NoneStruct
  %at_spec = getelementptr i8, ptr %g, i64 $OF_SPEC
  %its_spec = load i64, ptr %at_spec
  br i1 %apart, label %compare, label %no
compare:
  %is = phi i64 [%there, %word], [%far, %follow], [%found_word, %entry], [%own_word, %of_thread], [%its_spec, %node]
  %right = icmp eq i64 %is, %wanted
  br i1 %right, label %good, label %no
good:
  %k1 = add i64 %k, 1
  br label %look
yes:
  call void @Py_IncRef(ptr @_Py_TrueStruct)
  ret ptr @_Py_TrueStruct
no:
  call void @Py_IncRef(ptr @_Py_FalseStruct)
  ret ptr @_Py_FalseStruct
}
"""


def _words(value: Any, count: int) -> Any:
    return (ctypes.c_int64 * count).from_address(id(value))


def _where(value: Any, size: int, mark: Any) -> int:
    """How far into an object the reference to another is."""
    found = [8 * k for k, word in enumerate(_words(value, size // 8)) if word == id(mark)]
    if len(found) != 1:
        raise LookupError("objects are laid out otherwise than known")
    return found[0]


def _slot(kind: type, name: str) -> int:
    one, mark = new(kind), object()
    setattr(one, name, mark)
    return _where(one, kind.__basicsize__, mark)


class _Layout:
    """Where things are in objects of this Python, which is looked up in some."""

    def __init__(self) -> None:
        self.tensor = {name: _slot(Tensor, name) for name in ("_ad", "_buf", "_node", "_rg", "_spec")}
        self.autograd = {name: _slot(AutogradMeta, name) for name in ("grad", "hooks", "post_hooks")}
        mark = object()
        self.cell = _where(CellType(mark), CellType.__basicsize__, mark)
        function = FunctionType((lambda a: None).__code__, {}, None, (mark,))
        function.__kwdefaults__ = {"a": mark}
        names = ("__code__", "__defaults__", "__kwdefaults__")
        self.function = {n: _where(function, FunctionType.__basicsize__, getattr(function, n)) for n in names}
        row, table = [mark] * 37, dict.fromkeys(range(37))
        if any(_words(v, 4)[_HEAD // 8] != 37 for v in (row, table)):
            raise LookupError("a length is elsewhere")
        items = _words(row, 4)[_ITEMS // 8]
        if items % 8 or ctypes.c_int64.from_address(items).value != id(mark):
            raise LookupError("a list's items are elsewhere")


@cached(1)
def _layout() -> _Layout | None:
    if not calls.locked() or sys.implementation.name != "cpython" or not calls.GENERAL:
        return None  # what a word refers to may be gone while it is looked at
    try:
        return _Layout()
    except LookupError:
        return None


@cached(1)
def _same() -> Callable[..., bool]:
    known = _layout()
    assert known is not None
    kinds = dict(BEHIND=_BEHIND, ENTRY=_ENTRY, OF_THREAD=_OF_THREAD, GRAD=_GRAD, NO_GRAD=_NO_GRAD)
    places = dict(
        OF_GRAD=known.autograd["grad"], OF_NODE=known.tensor["_node"], OF_SPEC=known.tensor["_spec"]
    )
    text = build.filled(_TEXT, **kinds, **places)
    address = build.native("guards", text, ["same"], "what a compiled call rests on")["same"]
    return calls.python_function("same", address, b"")


class Row(NamedTuple):
    kind: int
    a: int
    b: int
    wanted: int


class _Rows:
    """What lines ask, as rows: what is there now is what has to be there."""

    def __init__(self, names: Mapping[str, Any], layout: _Layout) -> None:
        self.names, self.layout = names, layout
        self.rows: list[Row] = []
        self.kept: list[Any] = []  # as another object might be where one was
        self._sized: set[int] = set()

    def of(self, line: str) -> bool:
        """Whether the line was taken."""
        before = len(self.rows)
        tree = ast.parse(line, mode="eval").body
        parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
        if all(self._part(part) for part in parts):
            return True
        del self.rows[before:]
        return False

    def word(self, at: int) -> bool:
        self.rows.append(Row(_WORD, at, 0, ctypes.c_int64.from_address(at).value))
        return True

    def behind(self, at: int, offset: int) -> bool:
        first = ctypes.c_int64.from_address(at).value
        self.rows.append(Row(_BEHIND, at, offset, ctypes.c_int64.from_address(first + offset).value))
        return True

    def entry(self, table: dict[Any, Any], key: Any) -> bool:
        absent = object()
        value = dict.get(table, key, absent)
        self.kept += [key, value]
        self.rows.append(Row(_ENTRY, id(table), id(key), 0 if value is absent else id(value)))
        return True

    def _named(self, tree: ast.expr) -> Any:
        return self.names.get(tree.id) if isinstance(tree, ast.Name) else None

    def _part(self, tree: ast.expr) -> bool:
        if isinstance(tree, ast.BoolOp):
            first = tree.values[0]
            if not isinstance(tree.op, ast.Or) or not isinstance(first, ast.Compare):
                return False
            if isinstance(first.left, ast.NamedExpr):  # the same object, or an equal one
                return isinstance(first.ops[0], ast.Is) and self._value(first.left.value)
            if len(tree.values) == 2 and isinstance(tree.values[1], ast.UnaryOp):
                return self._hooks(first, tree.values[1])
            return False
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return self._length(tree.operand)
        if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
            return False
        left, op, right = tree.left, tree.ops[0], tree.comparators[0]
        if isinstance(op, ast.Is):
            return self._value(left)
        if isinstance(op, ast.Eq) and isinstance(right, ast.Constant):
            if isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == "len":
                return self._length(left.args[0])
            return isinstance(left, ast.Attribute) and left.attr == "_rg" and self._value(left)
        if isinstance(op, ast.NotIn) and isinstance(left, ast.Constant) and type(left.value) is str:
            table = self._named(right)
            return isinstance(table, dict) and self.entry(table, sys.intern(left.value))
        return False

    def _value(self, tree: ast.expr) -> bool:
        """That what it gives is still the same object."""
        if isinstance(tree, ast.Attribute):
            of = self._named(tree.value)
            if isinstance(of, Tensor) and tree.attr in self.layout.tensor:
                self.kept.append(getattr(of, tree.attr))
                return self.word(id(of) + self.layout.tensor[tree.attr])
            if type(of) is FunctionType and tree.attr in self.layout.function:
                self.kept.append(getattr(of, tree.attr))
                return self.word(id(of) + self.layout.function[tree.attr])
            if type(of) is CellType and tree.attr == "cell_contents":
                self.kept.append(of.cell_contents)
                return self.word(id(of) + self.layout.cell)
        elif isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant):
            row, k = self._named(tree.value), tree.slice.value
            if type(row) is list and id(row) in self._sized and type(k) is int and 0 <= k < len(row):
                self.kept.append(row[k])
                return self.behind(id(row) + _ITEMS, 8 * k)
        elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "type":
            of = self._named(tree.args[0])
            self.kept.append(type(of))
            return self.word(id(of) + _TYPE)
        elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute) and tree.func.attr == "get":
            table, key = self._named(tree.func.value), tree.args[0]
            if type(table) is dict and isinstance(key, ast.Constant) and type(key.value) in (str, int):
                whole = sys.intern(key.value) if type(key.value) is str else key.value
                return self.entry(table, whole)
        return False

    def _length(self, tree: ast.expr) -> bool:
        of = self._named(tree)
        if type(of) is not list and not isinstance(of, dict):
            return False
        self._sized.add(id(of))
        return self.word(id(of) + _HEAD)

    def _hooks(self, first: ast.Compare, second: ast.UnaryOp) -> bool:
        """`x._ad is None or not (x._ad.hooks or x._ad.post_hooks)`"""
        left, both = first.left, second.operand
        if not isinstance(left, ast.Attribute) or left.attr != "_ad" or not isinstance(both, ast.BoolOp):
            return False
        of = self._named(left.value)
        named = [ast.unparse(one) for one in both.values]
        if not isinstance(of, Tensor) or named != [
            f"{ast.unparse(left)}.{name}" for name in ("hooks", "post_hooks")
        ]:
            return False
        at = id(of) + self.layout.tensor["_ad"]
        if of._ad is None:
            return self.word(at)
        return all([self.behind(at, self.layout.autograd[name]) for name in ("hooks", "post_hooks")])


class Swift(NamedTuple):
    """`same(words, *tables)`, the lines that are left, and what the words are about."""

    same: Callable[..., bool]
    words: Any
    rest: list[str]
    kept: list[Any]


def swift(
    lines: Iterable[str],
    names: Mapping[str, Any],
    grads: Iterable[tuple[Tensor, Any]] = (),
    threads: Iterable[tuple[int, str, Any]] = (),
) -> Swift | None:
    """`grads` are leaves with the spec that a plain gradient has to have, or None for none; `threads` are attributes of a thread's own:
    in which of the tables that `same` is given, the name, and what it has to be if the thread has one. All conditions hold now."""
    layout = _layout()
    if layout is None:
        return None
    made = _Rows(names, layout)
    for which, name, value in threads:
        made.kept.append(value)
        made.rows.append(Row(_OF_THREAD, which, id(sys.intern(name)), id(value)))
    for t, spec in grads:
        at = id(t) + layout.tensor["_ad"]
        made.kept += [t, spec]
        made.rows.append(Row(_NO_GRAD, at, 0, 0) if spec is None else Row(_GRAD, at, id(Tensor), id(spec)))
    rest = [line for line in dict.fromkeys(lines) if not made.of(line)]
    words = np.array([len(made.rows), *[word for row in made.rows for word in row]], np.int64)
    made.kept.append(names)
    return Swift(_same(), words, rest, made.kept)


__all__ = ["Swift", "swift"]
