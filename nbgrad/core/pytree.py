"""Nested containers as flat lists of leaves with a structure, and back: what transforms take and return.

A structure compares equal to another of the same shape, and prints as PyTorch's messages show it. What counts as a container is a table,
`nodes`, which users add their own classes to (`torch.utils._pytree`).
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nbgrad.base.records import NamedTuple
from nbgrad.memory.layout import Size

__all__ = [
    "TreeSpec",
    "broadcast_to_and_flatten",
    "tree_flatten",
    "tree_map",
    "tree_unflatten",
]

IsLeaf = Callable[[Any], bool] | None


class SequenceKey(NamedTuple):
    """The way to an element of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def __repr__(self) -> str:
        return f"SequenceKey(idx={self.idx!r})"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """The way to a value of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def __repr__(self) -> str:
        return f"MappingKey(key={self.key!r})"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """The way to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def __repr__(self) -> str:
        return f"GetAttrKey(name={self.name!r})"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """How a container is taken apart, and put together again."""

    type: Any
    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Any, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None


def _places(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(k), v) for k, v in enumerate(values)]


def _by_key(values: dict[Any, Any]) -> list[tuple[Any, Any]]:
    return [(MappingKey(k), v) for k, v in values.items()]


def _of_dict(kind: Any) -> NodeDef:
    return NodeDef(
        kind,
        lambda d: (list(d.values()), list(d)),
        lambda values, keys: kind(zip(keys, values, strict=True)),
        lambda d: (_by_key(d), list(d)),
    )


nodes: dict[Any, NodeDef] = {
    tuple: NodeDef(tuple, lambda t: (t, None), lambda v, _: tuple(v), lambda t: (_places(t), None)),
    list: NodeDef(list, lambda t: (t, None), lambda v, _: list(v), lambda t: (_places(t), None)),
    dict: _of_dict(dict),
    namedtuple: NodeDef(
        namedtuple,
        lambda t: (t, type(t)),
        lambda values, kind: kind(*values),
        lambda t: ([(GetAttrKey(n), v) for n, v in zip(t._fields, t)], type(t)),
    ),
    OrderedDict: _of_dict(OrderedDict),
    defaultdict: NodeDef(
        defaultdict,
        lambda d: (list(d.values()), [d.default_factory, list(d)]),
        lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
        lambda d: (_by_key(d), [d.default_factory, list(d)]),
    ),
    deque: NodeDef(
        deque,
        lambda d: (d, d.maxlen),
        lambda values, most: deque(values, maxlen=most),
        lambda d: (_places(d), d.maxlen),
    ),
}
BUILTIN = frozenset(nodes)
nodes[Size] = nodes[tuple]._replace(type=Size)  # put together again it is a tuple
_DICTS = (dict, OrderedDict, defaultdict)


def is_namedtuple_class(cls: Any) -> bool:
    """Whether it is a class that `namedtuple` made, or one that inherits from such."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all([type(field) is str for field in fields])
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def node_type(tree: Any) -> Any:
    """Under what a container stands in the table; of what is none, its class."""
    kind = type(tree)
    if kind in nodes:
        return kind
    return namedtuple if issubclass(kind, tuple) and is_namedtuple_class(kind) else kind


class TreeSpec:
    """What is left of a tree without its leaves."""

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: Sequence[TreeSpec]) -> None:
        self.type, self._context, self._children = type, context, list(children_specs)
        self.num_children = len(self._children)
        if type is None:
            self.num_nodes = self.num_leaves = 1
        else:
            self.num_nodes = 1 + sum([c.num_nodes for c in self._children])
            self.num_leaves = sum([c.num_leaves for c in self._children])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            str(self.type) == str(other.type)
            and self._context == other._context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        context = self._context
        if self.type is defaultdict:
            context = context[0], tuple(context[1])
        elif self.type in _DICTS:
            context = tuple(context)
        elif self.type is not None and self.type not in BUILTIN:
            context = None  # of users' classes it need not be hashable
        return hash((self.type, context, tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        head = f"TreeSpec({self.type.__name__}, {self._context}, ["
        lines = [c.__repr__(indent + 2) for c in self._children]
        return head + (",\n" + " " * (indent + 2)).join(lines) + "])"

    @property
    def context(self) -> Any:
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        import warnings

        warnings.warn(
            "`treespec.children_specs` is deprecated. Use `treespec.child(index)` to access a single child, or `treespec.children()` to "
            "get all children.",
            FutureWarning,
            stacklevel=2,
        )
        return self._children

    def is_leaf(self) -> bool:
        """Whether it is the structure of a single leaf."""
        return self.num_nodes == 1 and self.num_leaves == 1

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self._children[index]

    def pretty(self) -> str:
        """As values are written, with a * for each leaf."""
        return repr(self.unflatten([_STAR] * self.num_leaves))

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of these leaves."""
        given = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers to a pytree that holds "
                f"{self.num_leaves} items ({self})."
            )
        return self._built(iter(given))

    def _built(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        return nodes[self.type].unflatten_fn([c._built(leaves) for c in self._children], self._context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of a tree that stand where this structure has its leaves."""
        found: list[Any] = []
        self._take(tree, found)
        return found

    def _take(self, tree: Any, found: list[Any]) -> None:
        if self.is_leaf():
            found.append(tree)
            return
        kind = node_type(tree)
        for part, spec in zip(self._parts(tree, kind), self._children, strict=True):
            spec._take(part, found)

    def _parts(self, tree: Any, kind: Any) -> Sequence[Any]:
        if self.type not in BUILTIN:
            if kind != self.type:
                raise ValueError(f"Type mismatch; expected {self.type!r}, but got {kind!r}.")
            parts, context = nodes[kind].flatten_fn(tree)
            self._check_arity(len(parts))
            if context != self._context:
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
            return list(parts)
        dicts = self.type in _DICTS and kind in _DICTS
        if not dicts and kind != self.type:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        self._check_arity(len(tree))
        if dicts:
            keys = self._context[1] if self.type is defaultdict else self._context
            self._check_keys(set(keys), set(tree))
            return [tree[key] for key in keys]
        parts, context = nodes[kind].flatten_fn(tree)
        if kind is not deque and context != self._context:
            raise ValueError(
                f"Node context mismatch for node type {self.type!r}; expected {self._context!r}, but got {context!r}."
            )
        return list(parts)

    def _check_arity(self, got: int) -> None:
        if got != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {got}.")

    @staticmethod
    def _check_keys(expected: set[Any], got: set[Any]) -> None:
        if expected != got:
            missing, extra = expected - got, got - expected
            text = f"; missing key(s): {missing}" if missing else ""
            raise ValueError(f"Node keys mismatch{text}{f'; extra key(s): {extra}' if extra else ''}.")


class _Star(str):
    def __repr__(self) -> str:
        return "*"


_STAR = _Star("*")


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, ())


LEAF = LeafSpec()


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure; what `is_leaf` says is a leaf is one."""
    leaves: list[Any] = []
    return leaves, _flattened(tree, leaves, is_leaf)


def _flattened(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    kind = node_type(tree)
    if kind not in nodes or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LEAF
    children, context = nodes[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flattened(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Any, treespec: Any) -> Any:
    """The tree of these leaves with this structure; the two may be given the other way round."""
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise TypeError(
                f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
            )
        leaves, treespec = treespec, leaves
    return treespec.unflatten(leaves)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of what `func` makes of each leaf, with what stands at its place in the `rests`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(list(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests])))


def broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """The leaves of a tree that may stop early, each repeated for all leaves of `treespec` below it; None if they do not fit."""
    leaves, spec = tree_flatten(tree, is_leaf)
    try:
        parts = spec.flatten_up_to(treespec.unflatten([0] * treespec.num_leaves))
    except ValueError:
        return None
    found: list[Any] = []
    for leaf, part in zip(leaves, parts, strict=True):
        found += [leaf] * tree_flatten(part, is_leaf)[1].num_leaves
    return found


def kinds(type_or_types_or_pred: Any) -> Callable[[Any], bool]:
    """What `tree_map_only` asks of a leaf."""
    if isinstance(type_or_types_or_pred, (type, tuple, types.UnionType)):
        return lambda x: isinstance(x, type_or_types_or_pred)
    if callable(type_or_types_or_pred):
        return type_or_types_or_pred
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")
