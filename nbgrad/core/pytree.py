"""Nested tuples, lists and dicts as flat lists of leaves with a structure, and back: what transforms take and return.

A structure compares equal to another of the same shape, and prints as PyTorch's messages show it.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.memory.layout import Size

__all__ = ["TreeSpec", "broadcast_to_and_flatten", "tree_flatten", "tree_map", "tree_unflatten"]


class TreeSpec:
    """What is left of a tree without its leaves."""

    __slots__ = ("children", "context", "kind")

    def __init__(self, kind: type | None, context: Any = None, children: Sequence[TreeSpec] = ()) -> None:
        self.kind, self.context, self.children = kind, context, tuple(children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (self.kind, self.context, self.children) == (
            other.kind,
            other.context,
            other.children,
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.children))

    @property
    def num_leaves(self) -> int:
        return 1 if self.kind is None else sum(c.num_leaves for c in self.children)

    def pretty(self) -> str:
        """As values are written, with a * for each leaf."""
        if self.kind is None:
            return "*"
        inner = [c.pretty() for c in self.children]
        if self.kind is tuple:
            return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
        if self.kind is list:
            return f"[{', '.join(inner)}]"
        if self.kind is dict:
            return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(self.context, inner)) + "}"
        return f"{self.kind.__name__}({', '.join(inner)})"

    def __repr__(self, indent: int = 0) -> str:
        if self.kind is None:
            return "*"
        head = f"TreeSpec({self.kind.__name__}, {self.context}, ["
        lines = [c.__repr__(indent + 2) for c in self.children]
        return head + (",\n" + " " * (indent + 2)).join(lines) + "])"


LEAF = TreeSpec(None)


def _opened(x: Any) -> tuple[list[Any], Any] | None:
    """The children of a node and what else there is to it; None for a leaf."""
    kind = type(x)
    if kind is tuple or kind is list:
        return list(x), None
    if kind is dict or kind is OrderedDict:
        return list(x.values()), list(x)
    if kind is defaultdict:
        return list(x.values()), [x.default_factory, list(x)]
    # A named tuple, or what an op returns in its likeness; a Size is a value.
    return (list(x), kind) if isinstance(x, tuple) and kind is not Size else None


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    opened = _opened(tree)
    if opened is None:
        return [tree], LEAF
    leaves: list[Any] = []
    children = []
    for child in opened[0]:
        inner, spec = tree_flatten(child)
        leaves += inner
        children.append(spec)
    return leaves, TreeSpec(type(tree), opened[1], children)


def tree_unflatten(leaves: Sequence[Any], spec: TreeSpec) -> Any:
    return _built(iter(leaves), spec)


def _built(leaves: Any, spec: TreeSpec) -> Any:
    if spec.kind is None:
        return next(leaves)
    children = [_built(leaves, c) for c in spec.children]
    if spec.kind in (tuple, list):
        return spec.kind(children)
    if spec.kind in (dict, OrderedDict):
        return spec.kind(zip(spec.context, children))
    if spec.kind is defaultdict:
        return defaultdict(spec.context[0], zip(spec.context[1], children))
    return spec.kind(*children) if hasattr(spec.kind, "_fields") else spec.kind(children)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    leaves, spec = tree_flatten(tree)
    return tree_unflatten([function(x) for x in leaves], spec)


def broadcast_to_and_flatten(prefix: Any, spec: TreeSpec) -> list[Any] | None:
    """The leaves of a tree that may stop early, each repeated for all leaves of `spec` below it; None if they do not fit."""
    opened = _opened(prefix)
    if opened is None:
        return [prefix] * spec.num_leaves
    if spec.kind is not type(prefix) or spec.context != opened[1] or len(opened[0]) != len(spec.children):
        return None
    out: list[Any] = []
    for child, below in zip(opened[0], spec.children):
        found = broadcast_to_and_flatten(child, below)
        if found is None:
            return None
        out += found
    return out
