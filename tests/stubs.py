"""Stubs for type checkers and editors, made from PyTorch's signatures: `python -m tests.stubs` writes them, `--check` says whether they
are fresh.

Functions and methods are set where they belong when nbgrad is imported, which a type checker cannot follow. What they take stands in
`nbgrad/core/signatures.txt`; what they give is told here (`RESULTS`) and, where an argument chooses it, in `tests/typing/by_hand.pyi`.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from keyword import iskeyword
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import nbgrad
from nbgrad.core import signatures
from nbgrad.dispatch import return_types

HERE = Path(__file__).parent
ROOT = HERE.parent / "nbgrad"

# What the texts of stubs may name, and where it is from. Builtins have other names: many are hidden by methods and dtypes of theirs.
IMPORTS = {
    **{f"_{name}": f"builtins import {name} as _{name}" for name in ("bool", "float", "int", "type")},
    **{name: f"collections.abc import {name}" for name in ("Callable", "Iterable", "Iterator", "Sequence")},
    "EllipsisType": "types import EllipsisType",
    **{name: f"typing import {name}" for name in ("Any", "Literal", "SupportsIndex", "TypeAlias", "TypeVar")},
    **{name: f"typing import {name}" for name in ("Self", "overload")},
    "TypeIs": "typing_extensions import TypeIs",
    "_ndarray": "numpy import ndarray as _ndarray",
    **{name: f"nbgrad.core.methods import {name}" for name in ("Index", "Number", "Operand")},
    "Tensor": "nbgrad.core.tensor import Tensor",
    "return_types": "nbgrad.dispatch import return_types",
    "Device": "nbgrad.memory.device import Device",
    "_dtype": "nbgrad.memory.dtypes import dtype as _dtype",
    "Size": "nbgrad.memory.layout import Size",
    "TypedStorage": "nbgrad.ops.host.typed import TypedStorage",
    "UntypedStorage": "nbgrad.ops.host.storage import UntypedStorage",
    "_layout": "nbgrad.ops.host.attributes import layout as _layout",
    "_memory_format": "nbgrad.memory.layout import memory_format as _memory_format",
    "Generator": "nbgrad.ops.make.generator import Generator",
}

KINDS = {  # of arguments
    **{kind: kind for kind in ("Tensor", "Number", "Generator", "str")},
    **{kind: f"_{kind}" for kind in ("int", "float", "bool", "dtype", "layout", "memory_format")},
    **{"index": "_int", "device": "Device", "truth": "_bool", "object": "Any"},
    **{"ints": "Sequence[_int]", "floats": "Sequence[_float]", "Numbers": "Sequence[Number]"},
    **{"Tensors": "Sequence[Tensor]", "TensorsOrNone": "Sequence[Tensor | None]"},
}
OBJECTS = {  # what PyTorch takes without a look, by the argument's name
    **dict.fromkeys(("full", "inplace", "size_average", "reduce"), "_bool"),
    **dict.fromkeys(("eps", "margin", "norm_type", "p", "tau"), "_float"),
    **dict.fromkeys(("compute_mode", "reduction"), "str"),
    **dict.fromkeys(("out", "target", "weight"), "Tensor"),
    **{"dim": "_int", "_stacklevel": "_int", "buffer": "Any", "data": "Any", "obj": "Any"},
    "var": "Tensor | _float",
    "distance_function": "Callable[[Tensor, Tensor], Tensor]",
    **dict.fromkeys(("split_size", "split_size_or_sections"), "_int | Sequence[_int]"),
}
RESULTS = {  # where it is not a Tensor
    "_bool": "allclose can_cast equal is_complex is_conj is_contiguous is_distributed is_floating_point is_inference is_neg is_nonzero "
    "is_coalesced is_pinned is_same_size is_set_to is_signed",
    "_int": "data_ptr dense_dim dim element_size get_device ndimension nelement numel sparse_dim storage_offset "
    "q_per_channel_axis q_zero_point",
    "_float": "q_scale",
    "None": "record_stream retain_grad set_anomaly_enabled",
    "Number": "item",
    "Any": "tolist qscheme",
    "_dtype": "promote_types result_type",
    "_ndarray[Any, Any]": "numpy",
    "UntypedStorage": "untyped_storage",
    "tuple[Tensor, Tensor]": "gru lstm_cell native_dropout rnn_relu rnn_tanh std_mean var_mean",
    "tuple[Tensor, Tensor, Tensor]": "lstm native_layer_norm",
    "tuple[Tensor, Tensor, Tensor, Tensor]": "embedding_bag",
    "tuple[Tensor, ...]": "chunk dsplit gradient hsplit split split_copy split_with_sizes split_with_sizes_copy tensor_split unbind "
    "unbind_copy unsafe_chunk unsafe_split unsafe_split_with_sizes vsplit",
}
BY_NAME = {name: result for result, names in RESULTS.items() for name in names.split()}
PAIRS_ALONG = ("max", "median", "min", "nanmedian")  # a pair only where a dimension is given
TYPES = {  # values of the package by their type
    "qscheme": "qscheme",
    "dtype": "_dtype",
    "memory_format": "_memory_format",
    "layout": "_layout",
    "Generator": "Generator",
    "bool": "_bool",
}


@dataclass(frozen=True)
class Parameter:
    name: str
    types: tuple[str, ...]
    default: str | None
    named_only: bool = False

    def __str__(self) -> str:
        types = [t for t in self.types if t not in ("_float", "_int", "_bool") or "Number" not in self.types]
        types.sort(key=lambda t: (t == "None", t != "Tensor"))
        text = f"{self.name}: {' | '.join(types)}"
        return text if self.default is None else f"{text} = {self.default}"


@dataclass(frozen=True)
class Way:
    """One way of calling a function, and what comes of it."""

    parameters: tuple[Parameter, ...]
    result: str

    def text(self, name: str, method: bool) -> str:
        parts = ["self"] * method
        for k, p in enumerate(self.parameters):
            if p.named_only and "*" not in parts and not any(part[0] == "*" for part in parts):
                parts.append("*")
            parts.append(f"{p.name}_{str(p)[len(p.name) :]}" if iskeyword(p.name) else str(p))
            if iskeyword(p.name):
                parts.append("/")
                assert not any(iskeyword(later.name) for later in self.parameters[k + 1 :])
        return f"def {name}({', '.join(parts)}) -> {self.result}: ...\n"


def _default(text: str | None) -> str | None:
    if text is None or text in ("None", "True", "False"):
        return text
    if text[0] == "{":
        return f"({text[1:-1].replace(',', ', ')})"
    try:
        return repr(literal_eval(text))
    except ValueError:
        return "..." if "." in text or text.endswith("_format") else repr(text)


def _parameter(p: signatures.Parameter, takes_numbers: bool) -> Parameter:
    types = [OBJECTS.get(p.name, "") if p.kind in ("object", "truth") else ""]
    if p.kind[0] == ".":
        types = [OBJECTS.get(p.name, "Tensor")]
    types = types if types[0] else [KINDS[p.kind]]
    if p.kind == "ints" and p.size:
        types.append("_int")
    if p.kind == "Tensors" and p.size:
        types = [f"tuple[{', '.join(['Tensor'] * p.size)}]"]
    if p.kind == "Tensor" and takes_numbers and p.name != "out":
        types.append("Number")
    if p.may_be_none:
        types.append("None")
    return Parameter(p.name, tuple(types), _default(p.default), p.named_only)


def _result(path: str, way: signatures.Signature) -> str:
    where, _, name = path.rpartition(".")
    full = f"linalg_{name}" if where == "linalg" else name
    names = [p.name for p in way.parameters]
    if full in vars(return_types) and where in ("", "Tensor", "linalg") and full[0] != "_":
        if full not in PAIRS_ALONG or "dim" in names:
            return f"return_types.{full}"
    elif name == "where" and names == ["condition"]:
        return "tuple[Tensor, ...]"
    elif where == "Tensor" and name[-1] == "_":
        return "Self"
    elif name.endswith("_with_indices"):
        return "tuple[Tensor, Tensor]"
    return BY_NAME.get(name, "Tensor")


def _together(a: Way, b: Way) -> Way | None:
    """One way that allows what two ways do and no more: they differ in one parameter, or one has what the other has."""
    if a.result != b.result:
        return None
    for less, more in ((a, b), (b, a)):
        if _covers(more, less):
            return more
        for k, p in enumerate(more.parameters):
            if p.named_only and p.default is None and _with(more, k) == less:
                optional = replace(p, default="None" if "None" in p.types else "...")
                return _with(more, k, optional)
    if [(p.name, p.named_only) for p in a.parameters] != [(p.name, p.named_only) for p in b.parameters]:
        return None
    differing = [k for k, (p, q) in enumerate(zip(a.parameters, b.parameters)) if p.types != q.types]
    if len(differing) != 1 or any(
        (p.default is None) != (q.default is None) for p, q in zip(a.parameters, b.parameters)
    ):
        return None
    (k,) = differing
    p, q = a.parameters[k], b.parameters[k]
    both = replace(p, types=tuple(dict.fromkeys(p.types + q.types)))
    return _with(a, k, both)


def _with(way: Way, k: int, *parameters: Parameter) -> Way:
    """Others in the place of one parameter."""
    return Way((*way.parameters[:k], *parameters, *way.parameters[k + 1 :]), way.result)


def _covers(more: Way, less: Way) -> bool:
    places = {p.name: k for k, p in enumerate(more.parameters)}
    for k, p in enumerate(less.parameters):
        at = places.get(p.name)
        if at is None or p.name[0] == "*":
            return False
        q = more.parameters[at]
        if not p.named_only and (q.named_only or at != k):
            return False
        if not set(p.types) <= set(q.types) or (p.default is not None and q.default is None):
            return False
    given = {p.name for p in less.parameters}
    return all(p.default is not None or p.name in given for p in more.parameters)


def ways(path: str) -> list[Way]:
    """What stands in the table of a function, in as few overloads as say the same."""
    found: list[Way] = []
    for way in signatures.signatures(path):
        if way.hidden:
            continue
        takes_numbers = way.name in signatures._TAKE_NUMBERS
        parameters = tuple([_parameter(p, takes_numbers) for p in way.parameters])
        found.append(Way(parameters, _result(path, way)))
        if way.spread:
            spread = Parameter(f"*{parameters[0].name}", ("_int",), None)
            found.append(Way((spread, *parameters[1:]), found[-1].result))
    while pair := next((pair for pair in combinations(found, 2) if _together(*pair)), None):
        found[found.index(pair[0])] = cast(Way, _together(*pair))
        found.remove(pair[1])
    return found


def overloads(path: str) -> str:
    where, _, name = path.rpartition(".")
    every = ways(path)
    texts = [way.text(name, where == "Tensor") for way in every]
    return "".join(f"@overload\n{text}" if len(texts) > 1 else text for text in texts)


# ---------------------------------------------------------------- by hand


@cache
def by_hand() -> dict[str, dict[str, str]]:
    """Texts by the name of the stub and of the function."""
    text = (HERE / "typing" / "by_hand.pyi").read_text(encoding="utf-8")
    lines = text.splitlines()
    found: dict[str, dict[str, str]] = {}
    for part in ast.parse(text).body:
        if isinstance(part, ast.ClassDef):
            texts = found.setdefault(part.name, {})
            for node in part.body:
                decorators = getattr(node, "decorator_list", [])
                first = min([node.lineno, *(d.lineno for d in decorators)])
                block = "\n".join(line[4:] for line in lines[first - 1 : node.end_lineno]) + "\n"
                name = getattr(node, "name", "") or ast.unparse(getattr(node, "target"))  # noqa: B009
                texts[name] = texts.get(name, "") + block
    return found


# ---------------------------------------------------------------- stubs


def stub(doc: str, body: str, *, own: Iterable[str] = (), first: str = "") -> str:
    """A file, with the imports that its body needs. `own` are names that it defines itself."""
    words = set(re.findall(r"[A-Za-z_]\w*", body))
    needed = sorted({f"from {line}" for name, line in IMPORTS.items() if name in words - set(own)})
    return f'"""{doc}"""\n\n' + "\n".join(needed) + f"\n{first}\n\n{body}"


def package() -> str:
    hand, lines, parts = by_hand()["torch"], [], []
    for name, value in sorted(_public().items()):
        if name in hand:
            parts.append(hand[name])
        elif isinstance(value, ModuleType):
            parent, _, last = value.__name__.rpartition(".")
            lines.append(f"from {parent} import {last} as {name}")
        elif name in signatures._table():
            parts.append(overloads(name))
        elif isinstance(value, type) or callable(value):
            home = _home(value)
            there = name if getattr(sys.modules[home], name, None) is value else value.__name__
            lines.append(f"from {home} import {there} as {name}")
        else:
            parts.append(f"{name}: {TYPES[type(value).__name__]}\n")
    parts.sort(key=lambda text: text[0] in "@d")
    doc = "Names of the package, made by `python -m tests.stubs`."
    return stub(doc, "".join(parts), own=_public(), first="\n".join(lines))


def _public() -> dict[str, Any]:
    """What `__init__.py` names: stories that are not for users are there too, once they are loaded."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    told = {
        alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    names = {
        name: value
        for name, value in vars(nbgrad).items()
        if name[0] != "_" and (name in told or not isinstance(value, ModuleType))
    }
    names |= {name: getattr(nbgrad, name) for name in nbgrad._later}
    return names | {"__version__": nbgrad.__version__}


def _holds(module: ModuleType, value: Any) -> bool:
    return vars(module).get(value.__name__) is value


def _home(value: Any) -> str:
    """The module that defines a class or function under its own name."""
    home: str = value.__module__
    if home == "nbgrad" and isinstance(value, type):  # where users find it, not where it is written
        holds = [m for m in sorted(sys.modules) if m[:7] == "nbgrad." and _holds(sys.modules[m], value)]
        written = [m for m in holds if f"\nclass {value.__name__}" in inspect.getsource(sys.modules[m])]
        home = (written or holds)[0]  # what is made there by a call has no text of its own
    assert getattr(sys.modules[home], value.__name__) is value, (home, value)
    return home


def methods() -> str:
    own = _names_of_the_class()
    names = {path[7:]: path for path in signatures._table() if path.startswith("Tensor.")}
    hand = by_hand()["Tensor"]
    texts = {name: hand.get(name) or overloads(path) for name, path in names.items()} | hand
    for name, value in vars(nbgrad.Tensor).items():
        if isinstance(value, property) and name[:3] == "is_":
            texts[name] = f"@property\ndef {name}(self) -> _bool: ...\n"
    kept = [texts[name] for name in sorted(texts) if name not in own or name == "__hash__"]
    body = "".join(f"    {line}\n" for text in kept for line in text.splitlines())
    aliases = """
Number: TypeAlias = _int | _float | _bool
Operand: TypeAlias = Tensor | _int | _float | _bool
_One: TypeAlias = (
    SupportsIndex | slice[Any, Any, Any] | EllipsisType | Tensor | _ndarray[Any, Any] | Sequence[_int]
    | Sequence[Tensor] | Sequence[Sequence[_int]] | None
)
Index: TypeAlias = _One | tuple[_One, ...]
Tensors = TypeVar("Tensors", bound=Tensor)
"""
    return stub(
        "Methods of Tensor, made by `python -m tests.stubs`. For type checkers, Tensor has this class as its base.",
        f"{aliases}\nclass Methods:\n{body}",
        own=("Index", "Number", "Operand"),
    )


def _names_of_the_class() -> set[str]:
    tree = ast.parse((ROOT / "core" / "tensor.py").read_text(encoding="utf-8"))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor"]
    names = {getattr(node, "name", "") for node in body}
    return names | {
        t.id for node in body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)
    }


def module(path: str, doc: str) -> str:
    value: Any = nbgrad
    for part in path.split("."):
        value = getattr(value, part)
    hand = by_hand().get(path.rpartition(".")[2], {})
    names = getattr(value, "__all__", [name for name in vars(value) if name[0] != "_"])
    lines, parts = [], []
    for name in sorted({*names, *hand}):
        if isinstance(getattr(value, name), type):
            lines.append(f"from {_home(getattr(value, name))} import {name} as {name}")
        else:
            parts.append(hand.get(name) or overloads(f"{path}.{name}"))
    if hasattr(value, "__all__"):
        parts.insert(0, f"__all__ = {sorted(names)}\n")
    return stub(doc, "".join(parts), first="\n".join(lines))


def results() -> str:
    parts = list(by_hand()["return_types"].values())
    for name, value in vars(return_types).items():
        if isinstance(value, type) and issubclass(value, return_types.Named) and value.fields:
            parts.append(f"class {name}(tuple[{', '.join(['Tensor'] * len(value.fields))}]):\n")
            parts.append("    fields: tuple[str, ...]\n")
            parts += [f"    @property\n    def {field}(self) -> Tensor: ...\n" for field in value.fields]
    return stub("Results of several tensors, made by `python -m tests.stubs`.", "".join(parts))


STUBS: dict[str, Callable[[], str]] = {
    "__init__.pyi": package,
    "core/methods.pyi": methods,
    "dispatch/return_types.pyi": results,
    "fft.pyi": lambda: module("fft", "Fourier transforms, made by `python -m tests.stubs`."),
    "linalg.pyi": lambda: module("linalg", "Linear algebra, made by `python -m tests.stubs`."),
    "nn/functional.pyi": lambda: module(
        "nn.functional", "Functions of networks, made by `python -m tests.stubs`."
    ),
    "special.pyi": lambda: module("special", "Special functions, made by `python -m tests.stubs`."),
}


def stale() -> Iterator[str]:
    """Stubs that say another thing than what would be made now. Compared as code, so that the layout and the order of
    imports do not matter, which are ruff's."""
    for name, make in STUBS.items():
        path = ROOT / name
        if not path.exists() or _said(path.read_text(encoding="utf-8")) != _said(make()):
            yield name


def _said(text: str) -> tuple[set[str], list[str]]:
    imports, rest = set(), []
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            imports |= {f"{node.module} {alias.name} {alias.asname}" for alias in node.names}
        else:
            rest.append(ast.dump(node))
    return imports, rest


def main() -> int:
    if "--check" in sys.argv[1:]:
        old = list(stale())
        print("\n".join(f"{name} is stale: run python -m tests.stubs" for name in old) or "fresh")
        return len(old)
    for name, make in STUBS.items():
        (ROOT / name).write_text(make(), encoding="utf-8")
    files = [str(ROOT / name) for name in STUBS]
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["format"], ["check", "--fix"], ["format"]):
        done = subprocess.run([*ruff, *command, "-q", *files], check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
