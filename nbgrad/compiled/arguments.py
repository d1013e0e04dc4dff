"""Arguments of a call: which kind of call it is, and how a call is told to be of that kind.

Promises `Kind(args, kwargs)`: the leaves of all arguments with the text that leads to each, a key that calls of one kind share, and the
conditions under which another call is of the kind.
"""

from __future__ import annotations

from typing import Any

from nbgrad.compiled.made import record
from nbgrad.compiled.numbers import told
from nbgrad.core.tensor import Tensor, edge
from nbgrad.memory import dtypes
from nbgrad.memory.backend import cpu
from nbgrad.memory.storage import Spec
from nbgrad.nn.parameter import Parameter
from nbgrad.tape.modes import state as modes

PLAIN_KINDS = (int, float, str, bool, bytes, complex, type(None), type, dtypes.dtype)
TENSORS = (Tensor, Parameter)
_FIELDS = "fields"


def _flat(value: Any, path: str, found: list[tuple[str, Any]], containers: list[Any]) -> None:
    """Leaves of arguments, each with the text that leads to it; containers stand before what is in them."""
    kind = type(value)
    fields = record(value)
    if kind in (list, tuple, dict) or fields:
        containers.append(value)
    if kind in (list, tuple) or (hasattr(kind, "_fields") and issubclass(kind, tuple)):
        found.append((path, (kind, len(value))))
        for k, v in enumerate(value):
            _flat(v, f"{path}[{k}]", found, containers)
    elif kind is dict and all(type(k) in (str, int) for k in value):
        found.append((path, (dict, tuple(value))))
        for k, v in value.items():
            _flat(v, f"{path}[{k!r}]", found, containers)
    elif fields:
        found.append((path, (kind, _FIELDS)))
        for k, v in vars(value).items():
            _flat(v, f"{path}.{k}", found, containers)
    else:
        found.append((path, value))


class Kind:
    """Arguments of one kind: how they are told from others."""

    def __init__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: frozenset[str] = frozenset()
    ) -> None:
        """`numbers` are the paths of those that may be others at each call."""
        self.numbers = numbers
        self.plain: dict[str, Any] = {}
        self.leaves: list[tuple[str, Any]] = []
        self.containers: list[Any] = []
        _flat(args, "args", self.leaves, self.containers)
        _flat(kwargs, "kwargs", self.leaves, self.containers)
        self.tensors: list[Tensor] = []
        self.paths: list[str] = []
        self.own: list[Any] = []  # attributes that tensors have
        self.objects: list[Any] = []
        key: list[Any] = []
        self.where: list[Any] = []  # the lines that are to blame for what is unknown
        self.unknown, self.mapped = "", False  # within a transform
        self.hooked: list[str] = []
        self.linked: list[str] = []  # those that have a history
        for path, v in self.leaves:
            if isinstance(v, Tensor):
                self.mapped |= type(v._spec) is not Spec
                if type(v) not in TENSORS or v._spec.backend is not cpu:
                    self.unknown = f"`{path}` is no plain tensor of the CPU"
                linked = (edge(v)[0] if v._rg == 2 else v._node) is not None
                if linked:
                    self.linked.append(path)
                if v._ad is not None and (v._ad.hooks or v._ad.post_hooks or v._ad.retains):
                    self.hooked.append(path)
                self.tensors.append(v)
                self.paths.append(path)
                same = next(k for k, t in enumerate(self.tensors) if t is v)
                key.append((v._spec, v._rg, linked, same, *self._own(v)))
            elif path in numbers:
                key.append((getattr(v, "kind", type(v)), "another"))
            elif type(v) in PLAIN_KINDS:
                if type(v) in (int, float):
                    self.plain[path] = v
                elif isinstance(v, type):  # whose attributes may be read
                    self.objects.append(v)
                key.append((type(v), exact(v)))
            elif type(v) is tuple and len(v) == 2 and isinstance(v[0], type):
                key.append(v)
                if v[0] not in (list, tuple, dict):  # whose methods may be called
                    self.objects.append(v[0])
            else:
                self.objects.append(v)
                key.append(id(v))
        self.key = (modes.grad, *key)

    def _own(self, t: Tensor) -> list[Any]:
        """Attributes that the user gave a tensor."""
        own = []
        for name, v in t.__dict__.items():
            plain = type(v) in PLAIN_KINDS
            if not plain:
                self.objects.append(v)
            own.append((name, type(v), exact(v) if plain else id(v)))
        self.own.append(own)
        return own

    def loose(self) -> Any:
        """What calls share that differ in numbers only."""
        paths = self.plain.keys()
        values = [
            (path, type(v)) if path in paths else key for (path, v), key in zip(self.leaves, self.key[1:])
        ]
        return (modes.grad, *values)

    def changed(self, other: Kind) -> str:
        """The first of these arguments that is another there, if one is."""
        for (p, v), (q, w) in zip(self.leaves, other.leaves):
            plain = type(v) is type(w) and type(v) in (*PLAIN_KINDS, tuple)
            if p != q or not (v is w or (plain and v == w)):
                return p
        for path, own, now in zip(self.paths, self.own, other.own):
            if own != now:
                return f"the attributes of `{path}`"
        return "" if len(self.leaves) == len(other.leaves) else self.leaves[-1][0]

    def told_from(self, leaves: list[tuple[str, Any]]) -> str:
        """The first argument that is another than there, as text."""
        for (path, v), (other, was) in zip(self.leaves, leaves):
            now = _looks(v)
            if path != other or now != was:
                return f"`{path}` ({was}, and now {now})"
        return ""

    def conditions(self, names: dict[str, Any], hooks: bool, asked: bool, tables: list[Any]) -> list[str]:
        """`hooks` says that there must be none, `asked` that attributes are looked for that a tensor may not have; `tables` have
        tensors for keys, and none of these."""
        lines: list[str] = []
        seen: dict[int, str] = {}
        for path, v in self.leaves:
            name = f"k{len(names)}"
            if isinstance(v, Tensor):
                if id(v) in seen:
                    lines.append(f"{path} is {seen[id(v)]}")
                    continue
                seen[id(v)] = path
                names[name] = v._spec
                node = "edge(t)[0]" if v._rg == 2 else "t._node"
                linked = "is not" if path in self.linked else "is"
                lines.append(
                    f"(t := {path})._spec is {name} and t._rg == {v._rg} and {node} {linked} None and type(t) in tensors"
                )
                if hooks:
                    lines.append("(t._ad is None or not (t._ad.hooks or t._ad.post_hooks))")
                if v.__dict__:
                    lines.append(f"len(t.__dict__) == {len(v.__dict__)}")
                    lines += [
                        _equal(f"{path}.__dict__.get({key!r})", own, f"{name}_{k}", names)
                        for k, (key, own) in enumerate(v.__dict__.items())
                    ]
                elif asked:
                    lines.append("not t.__dict__")
                for k, table in enumerate(tables):
                    names[f"table{k}"] = table
                    lines.append(f"t not in table{k}")
            elif path in self.numbers:
                lines.append(told(getattr(v, "kind", type(v)), path))
            elif type(v) in PLAIN_KINDS or isinstance(v, type):
                lines.append(_equal(path, v, name, names))
            elif type(v) is tuple and len(v) == 2 and isinstance(v[0], type):
                names[name] = v[0]
                if v[1] is _FIELDS:
                    lines.append(
                        f"type(t := {path}) is {name} and t.__dict__.keys() == {name}.__dataclass_fields__.keys()"
                    )
                elif v[0] is dict:
                    names[f"{name}t"] = v[1]
                    lines.append(
                        f"type(t := {path}) is dict and tuple(t) == {name}t" if v[1] else f"not {path}"
                    )
                else:
                    lines.append(
                        f"type(t := {path}) is {name} and len(t) == {v[1]}" if v[1] else f"not {path}"
                    )
            else:
                names[name] = v
                lines.append(f"{path} is {name}")
        alike: dict[Any, list[str]] = {}
        for place, path in seen.items():
            t = next(t for t in self.tensors if id(t) == place)
            alike.setdefault((t._spec, t._rg), []).append(path)
        for paths in alike.values():  # no two of them are one
            if len(paths) == 2:
                lines.append(f"{paths[0]} is not {paths[1]}")
            elif len(paths) > 2:
                lines.append(f"len({{{', '.join([f'id({p})' for p in paths])}}}) == {len(paths)}")
        return lines


def exact(value: Any) -> Any:
    """What is equal for numbers that are the same: 0.0 is not -0.0, and what is no number is itself."""
    return repr(value) if type(value) is complex or (type(value) is float and not abs(value) > 0) else value


def _equal(text: str, value: Any, name: str, names: dict[str, Any]) -> str:
    """The condition that this plain value is there, or this object."""
    names[name] = value
    if type(value) in (bool, type(None)) or type(value) not in PLAIN_KINDS or isinstance(value, type):
        return f"{text} is {name}"
    names[f"{name}t"] = type(value)
    if exact(value) is not value:
        return f"type(t := {text}) is {name}t and repr(t) == {exact(value)!r}"
    return f"type(t := {text}) is {name}t and t == {name}"


class Kept:
    """What of a kind is told later, without the tensors."""

    def __init__(self, kind: Kind) -> None:
        self.key, self.leaves = kind.key, [(path, _looks(v)) for path, v in kind.leaves]


def _looks(value: Any) -> str:
    if isinstance(value, Tensor):
        sp = value._spec
        return f"{sp.dtype} of {list(sp.shape)}, strides {list(sp.strides)}{', with a gradient' * bool(value._rg)}"
    text = repr(value) if type(value) in PLAIN_KINDS else type(value).__name__
    return text if len(text) < 60 else f"{text[:57]}..."
