"""The tables of PyTorch's names, `nbgrad/names/names.txt` and `tensor.txt`, made from PyTorch: `python -m tests.names` writes them,
`--check` says whether they are fresh.

A module is a line at the margin, what it defines stands below it by kind; `nbgrad/names/table.py` says how it is read. What several
modules show is told once, in the one whose path is public and shortest; the others have `from` lines.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import logging
import pkgutil
import re
import sys
import types
import typing
import warnings
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

WHERE = Path(__file__).parent.parent / "nbgrad" / "names"

# What is run by tests and tools of PyTorch alone, or stands in a wheel as data; and compilers, whose insides no library names.
OUTSIDE = re.compile(
    r"torch\.((bin|include|lib|share|test|_numpy|_native)\b|_vendor|_inductor\.(?!config$)|testing\._internal|onnx\._internal"
    r"|distributed\._tools|ao\.pruning\._experimental|utils\.model_dump\.__main__|_dynamo\.(variables|polyfills|repro|backends)\b"
    r"|_meta_registrations|_decomp\.|_refs\.|contrib\b|.*\b_coreml|_functorch\._|backends\.python_native|_strobelight)"
)
SHOWN = ("torch._C", "torch.distributed._composable.fsdp")  # libraries take from these what others have
OPEN = {  # namespaces that find whatever is asked of them
    "torch.ops": ("aten", "prim", "prims", "load_library"),
    "torch.classes": ("load_library",),
}
FUNCTIONS = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType),
    *(types.WrapperDescriptorType, functools.partial, functools._lru_cache_wrapper),
)


def modules() -> dict[str, Any]:
    """All modules by their paths; of one that cannot be imported here, what its text defines."""
    import torch

    found: dict[str, Any] = {"torch": torch}
    for path in _walk(torch.__path__, "torch."):
        try:
            found[path] = importlib.import_module(path)
        except BaseException:  # what it needs is not installed, or it ends the process
            found[path] = _text_of(path)
    found["torch.ops"], found["torch.classes"] = torch.ops, torch.classes
    for path, module in list(sys.modules.items()):
        if path.startswith(("torch._C.", "torch.distributed._tensor.")) or path == "torch._C":
            found[path] = module
    return {path: found[path] for path in sorted(found)}


def _walk(where: Any, prefix: str) -> Iterator[str]:
    for each in pkgutil.iter_modules(where, prefix):
        if OUTSIDE.match(each.name):
            continue
        yield each.name
        if each.ispkg:
            inside = Path(each.module_finder.path) / each.name.rpartition(".")[2]  # type: ignore[union-attr]
            yield from _walk([str(inside)], each.name + ".")


def _text_of(path: str) -> Any:
    import torch

    file = Path(torch.__file__).parent.joinpath(*path.split(".")[1:])
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    made = types.ModuleType(path)
    for node in ast.parse(file.read_text(encoding="utf-8")).body if file.exists() else ():
        if isinstance(node, ast.FunctionDef):
            vars(made)[node.name] = types.FunctionType(_text_of.__code__, {"__name__": path}, node.name)
        elif isinstance(node, ast.ClassDef):
            vars(made)[node.name] = type(node.name, (), {"__module__": path})
    if path == "torch.utils.tensorboard":
        vars(made)["SummaryWriter"] = type("SummaryWriter", (), {"__module__": path})
    return made


def listed(module: Any) -> list[str]:
    """What a module lists as its own."""
    return list(vars(module).get("__all__") or ())


def hidden(path: str) -> bool:
    return "._" in path


def names(path: str, module: Any) -> dict[str, Any]:
    """What a module shows that is PyTorch's."""
    every = {name: getattr(module, name) for name in OPEN.get(path, ())} or dict(vars(module))
    for name in listed(module):
        if name not in every:
            every[name] = getattr(module, name, None)
    deep = hidden(path) and path.count(".") > 2 and not path.startswith("torch._C")
    return {
        name: value
        for name, value in every.items()
        if not (name.startswith("__") or name == "TYPE_CHECKING")
        and not (deep and name.startswith("_"))
        and (_is_torchs(path, name, value) or name in listed(module) or name in OPEN.get(path, ()))
    }


def _is_torchs(path: str, name: str, value: Any) -> bool:
    if isinstance(
        value, types.ModuleType
    ):  # what a module imports for itself is not for others, but in packages at the top
        foreign = value.__name__.split(".")[0] != "torch" or value.__name__ == f"{path}.{name}"
        return not foreign and path.count(".") < 2 and not hidden(path) and value.__name__ != "torch"
    if isinstance(value, logging.Logger) or name.startswith("got_"):  # got_...: what else is installed here
        return False
    home = _asked(value, "__module__")
    if isinstance(value, (type, *FUNCTIONS)) and isinstance(home, str):
        if hidden(path) and not path.startswith(SHOWN):
            return home == path or re.search(rf"^(class|def) {name}\b", _source(path), re.M) is not None
        return home.split(".")[0] == "torch"
    if _is_typing(value):
        return getattr(typing, name, None) is not value and not (home == "typing" and hasattr(typing, name))
    return not name.isupper() or not hidden(path) or path.count(".") == 1


def _asked(value: Any, name: str, default: Any = None) -> Any:
    try:
        return getattr(value, name, default)
    except Exception:  # of what is made at its first use, and cannot be
        return default


def _is_typing(value: Any) -> bool:
    return (
        isinstance(value, (types.GenericAlias, types.UnionType, typing.TypeVar, typing.ParamSpec))
        or typing.get_origin(value) is not None
        or type(value).__module__ in ("typing", "typing_extensions")
    )


def public(path: str, module: Any) -> set[str]:
    """The names that a module tells to the world."""
    if listed(module) and path != "torch":
        return set(listed(module))
    return {name for name in names(path, module) if not name.startswith("_")}


# ---------------------------------------------------------------- what is told of a name


def told(value: Any) -> tuple[str, str]:
    """Its kind, and what follows its name."""
    if isinstance(value, type):
        if issubclass(value, BaseException):
            base = next(b for b in value.__mro__[1:] if b.__module__ == "builtins")
            return "error", f":{base.__name__}"
        members = _members(value)
        if isinstance(members, (dict, types.MappingProxyType)):
            return "enum", ":" + ",".join(f"{n}={_number(m)}" for n, m in members.items() if n.isidentifier())
        statics = [
            n
            for n, v in vars(value).items()
            if isinstance(v, (classmethod, staticmethod))
            and n[0] != "_"
            and not value.__name__.startswith("_")
        ]
        return "class", f":{','.join(statics)}" if statics else ""
    if _is_typing(value):
        kind = {typing.TypeVar: "typevar", typing.ParamSpec: "paramspec"}.get(type(value), "type")
        return kind, ""
    if isinstance(value, FUNCTIONS):
        return "def", ""
    if type(value).__name__ == "dtype":
        return "dtype", ""
    if type(value) is int and abs(value) >= 2**40:  # an address
        return "object", ""
    text = ascii(value)
    if isinstance(value, (int, float, str, bool, tuple, type(None))) and len(text) < 60 and "/" not in text:
        try:
            if ast.literal_eval(text) == value and " " not in text:
                return "value", f"={text}"
        except (ValueError, SyntaxError):
            pass
    if callable(value) and type(value).__module__.split(".")[0] != "torch":
        return "def", ""
    return "object", ""


def _members(value: type) -> Any:
    """Of an enumeration, or of a class of C++ that shows those of one inside."""
    inside = [v for v in vars(value).values() if isinstance(v, type) and hasattr(v, "__members__")]
    for found in (value, *inside):
        members = getattr(found, "__members__", None)
        if isinstance(members, (dict, types.MappingProxyType)) and all(hasattr(value, n) for n in members):
            return members
    return None


def _number(member: Any) -> str:
    value = member.value if isinstance(member, Enum) else getattr(member, "value", member)
    return str(int(value)) if isinstance(value, int) else ""


@functools.cache
def _source(path: str) -> str:
    try:
        return inspect.getsource(sys.modules[path])
    except (KeyError, OSError, TypeError):
        return ""


def _defines(path: str, name: str, value: Any) -> bool:
    """Whether a name is from there."""
    if isinstance(home := _asked(value, "__module__"), str) and home.split(".")[0] == "torch":
        return home == path
    return re.search(rf"^{name}\b[^\n(]*=", _source(path), re.M) is not None


class Table:
    """All that is told."""

    def __init__(self) -> None:
        self.modules = modules()
        self.names = {path: names(path, module) for path, module in self.modules.items()}
        self.public = {path: public(path, module) for path, module in self.modules.items()}
        self.homes: dict[int, tuple[str, str]] = {}
        seen: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for path, found in self.names.items():
            for name, value in found.items():
                if self._is_shared(value):
                    seen[id(value)].append((path, name))
        for key, places in seen.items():
            self.homes[key] = min(places, key=self._rank)

    @staticmethod
    def _is_shared(value: Any) -> bool:
        """Whether two names of it are one thing."""
        return not (value is None or isinstance(value, (bool, int, float, str, tuple, types.ModuleType)))

    def _rank(self, place: tuple[str, str]) -> tuple[Any, ...]:
        path, name = place
        value = self.names[path][name]
        own = _asked(value, "__name__", name) == name
        told = name in self.public[path] and not hidden(path)
        defines = told or _defines(path, name, value)
        return not told, not own, not defines, hidden(path), path.count("."), path, name

    def texts(self) -> dict[str, str]:
        """By the name of the file."""
        every = (line for path in self.modules for line in self._module(path))
        return {"names.txt": "\n".join(every) + "\n", "tensor.txt": "\n".join(self._tensor()) + "\n"}

    def _module(self, path: str) -> Iterator[str]:
        yield path
        found = self.names[path]
        yield from self._lines(path, [n for n in found if n in self.public[path]])
        rest = [n for n in found if n not in self.public[path]]
        if rest:
            yield " also"
            yield from self._lines(path, rest)

    def _lines(self, path: str, chosen: list[str]) -> Iterator[str]:
        kinds: dict[str, list[str]] = defaultdict(list)
        homes: dict[str, list[str]] = defaultdict(list)
        for name in sorted(chosen):
            value = self.names[path][name]
            if path in OPEN:
                kinds["def" if isinstance(value, FUNCTIONS) else "object"].append(name)
                continue
            if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] != "torch":
                continue
            if isinstance(value, types.ModuleType):
                kinds["module"].append(f"{name}={value.__name__}")
                continue
            home = self.homes.get(id(value), (path, name))
            if home == (path, name):
                kind, more = told(value)
                kinds[kind].append(name + more)
            else:
                homes[home[0]].append(name if home[1] == name else f"{name}={home[1]}")
        for kind in sorted(kinds):
            yield f" {kind} {' '.join(kinds[kind])}"
        for home in sorted(homes):
            yield f" from {home} {' '.join(homes[home])}"

    def _tensor(self) -> Iterator[str]:
        """Methods and attributes, as if its class were a module."""
        import torch

        every = [n for n in dir(torch.Tensor) if not n.startswith("__")]
        kinds: dict[str, list[str]] = defaultdict(list)
        for name in every:
            value = inspect.getattr_static(torch.Tensor, name)
            kinds[
                "def"
                if callable(getattr(torch.Tensor, name, None)) or isinstance(value, FUNCTIONS)
                else "property"
            ].append(name)
        for kind in sorted(kinds):
            yield f"{kind} {' '.join(kinds[kind])}"


def main() -> int:
    warnings.simplefilter("ignore")
    sys.argv[1:], arguments = [], sys.argv[1:]
    stale = 0
    for name, text in Table().texts().items():
        if "--check" not in arguments:
            (WHERE / name).write_text(text, encoding="ascii")
        elif (WHERE / name).read_text(encoding="ascii") != text:
            print(f"{name} is stale: run python -m tests.names")
            stale += 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
