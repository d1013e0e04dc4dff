"""Where names are missed: modules of nbgrad's get a `__getattr__` that asks the table, and modules that only PyTorch has are made of it.

A name that PyTorch shows in several modules is asked of the one where it belongs, so what nbgrad has built is found under every path.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final, cast

_PACKAGE: Final = __name__.partition(".")[0]
INSIDE: Final = frozenset(
    [
        "_aten",
        "adjoints",
        "base",
        "core",
        "dispatch",
        "exchange",
        "expr",
        "history",
        "kernels",
        "memory",
        "names",
        "tape",
        "warmup",
        "__main__",
    ]
)  # stories that PyTorch has no modules of
NOTHING: Final = object()
_made: dict[tuple[str, str], Any] = {}


class _Asking(threading.local):
    """The names that a thread looks for right now, as a module may ask another one that asks it again."""

    def __init__(self) -> None:
        self.names: set[tuple[str, str]] = set()


_asking: Final = _Asking()


def own(path: str) -> str:
    """What PyTorch's module is called here."""
    return _PACKAGE + path.removeprefix("torch")


def torchs(name: str) -> str:
    """What a module of ours is called in PyTorch; others are called what they are."""
    return "torch" + name.removeprefix(_PACKAGE) if name.partition(".")[0] == _PACKAGE else name


def find(path: str, name: str) -> Any:
    """What PyTorch's module shows under a name, or NOTHING."""
    from nbgrad.names import absent, table

    key = (path, name)
    if key in _made:
        return _made[key]
    entry = table.names(path).get(name)
    if key in _asking.names or (entry is None and not table.is_module(f"{path}.{name}")):
        return NOTHING
    if entry is None or entry.kind == "module":
        return import_module(own(f"{path}.{name}" if entry is None else entry.more))
    if entry.kind == "from":
        where, _, named = entry.more.rpartition(".")
        _asking.names.add(key)
        try:
            return getattr(import_module(own(where)), named, NOTHING)
        finally:
            _asking.names.discard(key)
    if entry.kind == "dtype":  # which have no kernels
        return _made.setdefault(key, getattr(import_module(own("torch.memory.dtypes")), name))
    return _made.setdefault(key, absent.make(f"{path}.{name}", entry))


def is_made(path: str, name: str) -> bool:
    """Whether what a module shows under a name was made of the table alone."""
    while (path, name) not in _made:
        from nbgrad.names import table

        entry = table.names(path).get(name)
        if entry is None or entry.kind != "from":
            return False
        path, _, name = entry.more.rpartition(".")
    return name not in vars(sys.modules[own(path)])


def _missing(name: str, first: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """The `__getattr__` of a module, after its own."""
    path = torchs(name)

    def __getattr__(attribute: str) -> Any:
        refused = None
        if first is not None:
            try:
                return first(attribute)
            except AttributeError as error:
                refused = error
        found = _of_module(path, attribute) if attribute.startswith("__") else find(path, attribute)
        try:  # not while another is handled: what a program handles would be hidden
            if found is NOTHING:
                raise refused or AttributeError(
                    f"module {name!r} has no attribute {attribute!r}", name=attribute, obj=sys.modules[name]
                )
            return found
        finally:
            refused = None

    return __getattr__


def _of_module(path: str, attribute: str) -> Any:
    """What Python asks of a module: of one that is a package in PyTorch, where its modules are."""
    from nbgrad.names import table

    if path == "torch" and attribute in ("__config__", "__future__"):
        return import_module(own(f"{path}.{attribute}"))
    return [] if attribute == "__path__" and table.is_package(path) else NOTHING


class _Heard:
    """Who asks to be told of each module, once it is filled."""

    filled: Callable[[ModuleType], None] = staticmethod(lambda module: None)


heard: Final = _Heard()


def fill(module: ModuleType, path: str = "") -> None:
    """Let a module find all that PyTorch has in it, or at another path of which it is the module, too."""
    vars(module)["__getattr__"] = _missing(path or module.__name__, vars(module).get("__getattr__"))
    heard.filled(module)


class Finder:
    """Makes the modules that PyTorch has and nbgrad has no file for, and fills those that have one when they are loaded. Not derived from
    `importlib.abc`, which takes a tenth of all the time that nbgrad's import may."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PACKAGE + ".") or fullname.split(".")[1] in INSIDE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            if spec.loader is not None:
                _fill_after(spec.loader)
            return spec
        from nbgrad.names import table

        where = torchs(fullname)
        if not table.is_module(where):
            return None
        made = ModuleSpec(fullname, cast(Any, self), origin=__file__, is_package=table.is_package(where))
        made.has_location = True
        return made

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from nbgrad.names import table

        path = torchs(module.__name__)
        module.__doc__ = (
            f"PyTorch's `{path}`, of which nbgrad has what it has elsewhere: {table.reason(path)}."
        )
        public = table.public(path)
        vars(module)["__all__"] = public
        vars(module)["__dir__"] = lambda: sorted({*vars(module), *public})
        fill(module)


def _fill_after(loader: Any) -> None:
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        fill(module)

    loader.exec_module = exec_module


def open_modules() -> None:
    """From here on all names are found."""
    for name, module in list(sys.modules.items()):
        parts = name.split(".")
        if (
            parts[0] == _PACKAGE
            and (len(parts) == 1 or parts[1] not in INSIDE)
            and name[:11] != "nbgrad.ops."
        ):
            fill(module)
    sys.meta_path.insert(0, Finder())


def add_to_tensor(cls: type) -> None:
    """What tensors have in PyTorch and not here."""
    from nbgrad.names import absent, table

    for name, kind in table.of_tensor():
        if not hasattr(cls, name):
            made: Any = absent.function(f"torch.Tensor.{name}", kind == "property")
            setattr(cls, name, property(made) if kind == "property" else made)
