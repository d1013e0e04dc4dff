"""Trees of containers, by PyTorch's path: libraries import it though it is private. `core/pytree.py` has what transforms need of it.

>>> from nbgrad.utils import _pytree as pytree
>>> leaves, spec = pytree.tree_flatten({"a": 1, "b": (2, [3])})
>>> leaves, spec
([1, 2, 3], TreeSpec(dict, ['a', 'b'], [*,
  TreeSpec(tuple, None, [*,
    TreeSpec(list, None, [*])])]))
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import threading
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from nbgrad.core import pytree as _core
from nbgrad.core.pytree import (
    GetAttrKey,
    IsLeaf,
    LeafSpec,
    NodeDef,
    TreeSpec,
    is_namedtuple_class,
    kinds,
    node_type,
    tree_flatten,
    tree_map,
    tree_unflatten,
)
from nbgrad.dispatch.return_types import Named

SequenceKey, MappingKey = _core.SequenceKey, _core.MappingKey
SUPPORTED_NODES, _LEAF_SPEC = _core.nodes, _core.LEAF
_broadcast_to_and_flatten = _core.broadcast_to_and_flatten

__all__ = [
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "LeafSpec",
    "PyTree",
    "PyTreeSpec",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]

Context: TypeAlias = Any
PyTree: TypeAlias = Any
DumpableContext: TypeAlias = Any
KeyEntry: TypeAlias = Any
KeyPath: TypeAlias = tuple[Any, ...]
FlattenFn: TypeAlias = Callable[[Any], tuple[list[Any], Any]]
FlattenFunc: TypeAlias = FlattenFn
UnflattenFn: TypeAlias = Callable[[Iterable[Any], Any], Any]
UnflattenFunc: TypeAlias = UnflattenFn
ToDumpableContextFn: TypeAlias = Callable[[Any], Any]
FromDumpableContextFn: TypeAlias = Callable[[Any], Any]
FlattenWithKeysFn: TypeAlias = Callable[[Any], tuple[list[tuple[Any, Any]], Any]]
FlattenWithKeysFunc: TypeAlias = FlattenWithKeysFn
PyTreeSpec = TreeSpec
BUILTIN_TYPES: frozenset[Any] = _core.BUILTIN
STANDARD_DICT_TYPES: frozenset[Any] = frozenset((dict, OrderedDict, defaultdict))

_dict_flatten, _dict_unflatten = SUPPORTED_NODES[dict].flatten_fn, SUPPORTED_NODES[dict].unflatten_fn
_list_flatten, _list_unflatten = SUPPORTED_NODES[list].flatten_fn, SUPPORTED_NODES[list].unflatten_fn
_dict_flatten_with_keys = SUPPORTED_NODES[dict].flatten_with_keys_fn
_list_flatten_with_keys = SUPPORTED_NODES[list].flatten_with_keys_fn

# ---------------------------------------------------------------- classes of users'


class _Saved(NamedTuple):
    """How a structure of a class is written to a text."""

    typ: Any
    serialized_type_name: str
    to_dumpable_context: Callable[[Any], Any] | None
    from_dumpable_context: Callable[[Any], Any] | None


NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
SUPPORTED_SERIALIZED_TYPES: dict[Any, _Saved] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()
_NODE_REGISTRY_LOCK = threading.RLock()


def register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Let instances of a class be containers: `flatten_fn` gives the children and what else there is to one, of which `unflatten_fn`
    makes it again.

    >>> from nbgrad.utils import _pytree as pytree
    >>> class Pair:
    ...     def __init__(self, a, b): self.a, self.b = a, b
    >>> pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda v, _: Pair(*v))
    >>> pytree.tree_map(lambda x: 2 * x, Pair(1, 2)).b
    4
    """
    with _NODE_REGISTRY_LOCK:
        if cls in SUPPORTED_NODES:
            raise ValueError(f"{cls} is already registered as pytree node.")
        _private_register_pytree_node(
            cls,
            flatten_fn,
            unflatten_fn,
            serialized_type_name=serialized_type_name,
            to_dumpable_context=to_dumpable_context,
            from_dumpable_context=from_dumpable_context,
            flatten_with_keys_fn=flatten_with_keys_fn,
        )


def _private_register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    with _NODE_REGISTRY_LOCK:
        if cls in SUPPORTED_NODES:
            warnings.warn(
                f"{cls} is already registered as pytree node. Overwriting the previous registration.",
                stacklevel=2,
            )
        SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        _save_as(cls, serialized_type_name, to_dumpable_context, from_dumpable_context)


def _save_as(cls: Any, name: str | None, to: Any = None, back: Any = None) -> None:
    if (to is None) != (back is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
        )
    name = NO_SERIALIZED_TYPE_NAME_FOUND if name is None else name
    SUPPORTED_SERIALIZED_TYPES[cls] = _Saved(cls, name, to, back)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    **settings: Any,
) -> None:
    """Deprecated: `register_pytree_node`."""
    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. Please use `torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn(
            "`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` and `from_dumpable_context` instead.",
            FutureWarning,
            stacklevel=2,
        )
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **settings)


def _deregister_pytree_node(cls: Any) -> None:
    with _NODE_REGISTRY_LOCK:
        del SUPPORTED_NODES[cls]
        saved = SUPPORTED_SERIALIZED_TYPES.pop(cls)
        SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(saved.serialized_type_name, None)
        CONSTANT_NODES.discard(cls)


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Let instances of a dataclass be containers of their fields; those that are None are no children.

    >>> import dataclasses
    >>> from nbgrad.utils import _pytree as pytree
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int
    ...     y: int
    >>> pytree.register_dataclass(Point)
    >>> pytree.tree_map(lambda v: v + 1, Point(1, 2)).y
    3
    """
    if not dataclasses.is_dataclass(cls):
        if field_names is None:
            raise ValueError(
                f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a dataclass."
            )
    elif field_names is None:
        field_names = [f.name for f in dataclasses.fields(cls) if f.init]
    else:
        _check_fields(cls, field_names, drop_field_names or [])
    names = field_names

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        there = [n for n in names if getattr(obj, n) is not None]
        return [getattr(obj, n) for n in there], [there, [n for n in names if n not in there]]

    def unflatten(values: Iterable[Any], context: Any) -> Any:
        return cls(**dict(zip(context[0], values, strict=True)), **dict.fromkeys(context[1]))

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
        values, context = flatten(obj)
        return [(GetAttrKey(n), v) for n, v in zip(context[0], values, strict=True)], context[0]

    _private_register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


def _check_fields(cls: Any, given: list[str], dropped: list[str]) -> None:
    own = {f.name for f in dataclasses.fields(cls) if f.init} - set(dropped)
    if own == set(given):
        return
    text = "field_names does not include all dataclass fields.\n"
    if missing := own - set(given):
        text += (
            f"Missing fields in `field_names`: {missing}. If you want to include these fields in the pytree, please add them to "
            "`field_names`, otherwise please add them to `drop_field_names`.\n"
        )
    if unexpected := set(given) - own:
        text += f"Unexpected fields in `field_names`: {unexpected}. Please remove these fields, or add them to `drop_field_names`.\n"
    raise ValueError(text)


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """What a constant leaves of itself in a structure."""

    value: Any


def register_constant(cls: Any) -> None:
    """Let instances of a class be containers without children: they are part of the structure."""
    for name in ("eq", "hash"):
        own = getattr(cls, f"__{name}__")
        if own is None or (name == "eq" and own is object.__eq__):
            raise TypeError(
                f"register_constant(cls) expects `cls` to have a non-default `__{name}__` implementation."
            )
    with _NODE_REGISTRY_LOCK:
        _private_register_pytree_node(
            cls,
            lambda x: ([], ConstantNode(x)),
            lambda _, context: context.value,
            flatten_with_keys_fn=lambda x: ([], ConstantNode(x)),
        )
        CONSTANT_NODES.add(cls)


def is_constant_class(cls: Any) -> bool:
    return isinstance(cls, type) and cls in CONSTANT_NODES


def _register_namedtuple(cls: Any, *, serialized_type_name: str) -> None:
    known = SUPPORTED_NODES[namedtuple]
    _private_register_pytree_node(
        cls,
        known.flatten_fn,
        known.unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=_namedtuple_name,
        from_dumpable_context=_named,
        flatten_with_keys_fn=known.flatten_with_keys_fn,
    )


# ---------------------------------------------------------------- what a thing is


def is_namedtuple(obj: Any) -> bool:
    """Whether it is such a tuple or a class of such."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether it is a tuple of a class that `namedtuple` made."""
    return is_namedtuple_class(type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether it is a class of tuples with names that C made, such as `time.struct_time`."""
    return (
        isinstance(cls, type)
        and (
            (cls.__bases__ == (tuple,) and not cls.__flags__ & 1 << 10)
            or cls.__bases__ == (Named,)  # those of `torch.return_types`, which PyTorch makes in C
        )
        and all([isinstance(getattr(cls, f"n_{n}fields", None), int) for n in ("", "sequence_", "unnamed_")])
    )


def is_structseq(obj: Any) -> bool:
    """Whether it is such a tuple or a class of such."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj: Any) -> bool:
    """Whether it is a tuple of such a class."""
    return is_structseq_class(type(obj))


def _get_node_type(tree: Any) -> Any:
    """The type by which a value's kind of node is kept."""
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it is no container, or `is_leaf` says so."""
    return (is_leaf is not None and is_leaf(tree)) or node_type(tree) not in SUPPORTED_NODES


def _is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """`tree_is_leaf`, by its former name."""
    return tree_is_leaf(tree, is_leaf)


# ---------------------------------------------------------------- over trees


def treespec_leaf() -> LeafSpec:
    """The structure of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of these."""
    children = list(iterable)
    if any([not isinstance(child, TreeSpec) for child in children]):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The structure of a dict of these."""
    children = dict(mapping, **kwargs)
    if any([not isinstance(child, TreeSpec) for child in children.values()]):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children!r}.")
    return TreeSpec(dict, list(children), list(children.values()))


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one after the other."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `func` with each leaf, as `tree_map` does, and return the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for values in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests], strict=True):
        func(*values)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Make a function leave alone what is not of these types."""
    asked = kinds(type_or_types_or_pred)

    def wrapper(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(func)
        def wrapped(x: Any) -> Any:
            return func(x) if asked(x) else x

        return wrapped

    return wrapper


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map` of the leaves that are of these types; the others stay.

    >>> from nbgrad.utils import _pytree as pytree
    >>> pytree.tree_map_only(int, lambda x: x + 1, [1, "a"])
    [2, 'a']
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map_` of the leaves that are of these types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether it holds for all leaves of these types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether it holds for a leaf of these types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of a call's arguments."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_iter(tree)]


# ---------------------------------------------------------------- with the ways to leaves


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """As `tree_flatten`, each leaf with the way to it.

    >>> from nbgrad.utils import _pytree as pytree
    >>> [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path({"a": [1, 2]})[0]]
    ["['a'][0]", "['a'][1]"]
    """
    return list(_ways((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves, each with the way to it."""
    return list(_ways((), tree, is_leaf))


def _ways(path: KeyPath, tree: Any, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if is_leaf and is_leaf(tree):
        yield path, tree
        return
    kind = node_type(tree)
    if kind not in SUPPORTED_NODES:
        yield path, tree
        return
    flatten = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if flatten is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn argument to "
            "register_pytree_node."
        )
    for key, child in flatten(tree)[0]:
        yield from _ways((*path, key), child, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """As `tree_map`, for a function that takes the way to the leaf first."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in found], [leaf for _, leaf in found]
    return spec.unflatten(list(map(func, paths, leaves, *[spec.flatten_up_to(rest) for rest in rests])))


def keystr(kp: KeyPath) -> str:
    """A way as it is written in Python."""
    return "".join([str(key) for key in kp])


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What a way leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


# ---------------------------------------------------------------- structures as texts


class EnumEncoder(json.JSONEncoder):
    def default(self, obj: object) -> Any:
        if isinstance(obj, Enum):
            kind = type(obj)
            return {"__enum__": True, "fqn": f"{kind.__module__}:{kind.__qualname__}", "name": obj.name}
        return super().default(obj)


def enum_object_hook(obj: dict[str, Any]) -> Any:
    if "__enum__" not in obj:
        return obj
    module, _, name = obj["fqn"].partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found[obj["name"]]


def _namedtuple_name(context: Any) -> str:
    saved = SUPPORTED_SERIALIZED_TYPES.get(context)
    if saved is None:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a serializated_type_name. Please "
            "register using `_register_namedtuple`."
        )
    if saved.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we couldn't find a serializated_type_name. Please "
            "register using `_register_namedtuple`."
        )
    return saved.serialized_type_name


def _named(name: Any) -> Any:
    if name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {name} because we couldn't find a serializated name."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[name]


def _of_default(context: Any) -> Any:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _default_of(saved: Mapping[str, Any]) -> Any:
    module = importlib.import_module(saved["default_factory_module"])
    return [getattr(module, saved["default_factory_name"]), saved["dict_context"]]


for _kind in (tuple, list, dict, OrderedDict, deque):
    _save_as(_kind, f"{_kind.__module__}.{_kind.__name__}")
_save_as(namedtuple, "collections.namedtuple", _namedtuple_name, _named)
_save_as(defaultdict, "collections.defaultdict", _of_default, _default_of)


def _as_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    saved = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if saved is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if saved.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your _register_pytree_node call with a "
            "`serialized_type_name` kwarg."
        )
    if saved.to_dumpable_context is not None:
        context = saved.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a custom serializer using "
                "_register_pytree_node."
            ) from error
    children = [_as_json(child) for child in spec.children()]
    return {"type": saved.serialized_type_name, "context": context, "children_spec": children}


def _of_json(found: Mapping[str, Any]) -> TreeSpec:
    if found["type"] is None and found["context"] is None and not found["children_spec"]:
        return _LEAF_SPEC
    if found["type"] not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {found['type']} in pytree is not registered.")
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE[found["type"]]
    back = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    if back is not None:
        context = back(found["context"])
    else:
        try:
            context = json.loads(found["context"], object_hook=enum_object_hook)
        except TypeError as error:
            raise TypeError(
                "Unable to deserialize context. Please make the context json load-able, or register a custom serializer using "
                "_register_pytree_node."
            ) from error
    return TreeSpec(kind, context, [_of_json(child) for child in found["children_spec"]])


def _check_protocol(protocol: int) -> None:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(
            f"Unknown protocol {protocol}. Available protocols: {[DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL]}"
        )


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as a text, which `treespec_loads` reads."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(protocol)
    return json.dumps((protocol, _as_json(treespec)), cls=EnumEncoder)


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` has written."""
    protocol, found = json.loads(serialized)
    _check_protocol(protocol)
    return _of_json(found)


def treespec_pprint(treespec: TreeSpec) -> str:
    """A structure as values are written, with a * for each leaf.

    >>> from nbgrad.utils import _pytree as pytree
    >>> pytree.treespec_pprint(pytree.tree_structure([1, {"a": 2}]))
    "[*, {'a': *}]"
    """
    return treespec.pretty()
