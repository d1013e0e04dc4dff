"""A page for each public module, from the library itself: names, signatures and docstrings as a user's `help` shows them.

Asked of the running library and not of its text, as most functions are made, by `stanza` and `guard`, and no text defines them.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import nbgrad
from nbgrad.core import signatures
from nbgrad.names.absent import is_absent
from tests.map import LEVEL, story_of

PAGES = {
    "nbgrad": "Tensors are made, joined, indexed and computed with here.",
    "nbgrad.Tensor": "Methods and attributes. What is also a function of `nbgrad` is described there.",
    "nbgrad.nn": "Modules, parameters and buffers.",
    "nbgrad.nn.functional": "What networks are made of, as functions.",
    "nbgrad.nn.init": "Initial values, written into a tensor.",
    "nbgrad.nn.utils": "Helpers for the parameters of a network.",
    "nbgrad.nn.utils.parametrize": "Parameters that are computed from others.",
    "nbgrad.nn.utils.rnn": "Sequences of different lengths.",
    "nbgrad.optim": "Optimisers: one kernel makes the step of a whole group of parameters.",
    "nbgrad.optim.lr_scheduler": "Schedules of learning rates.",
    "nbgrad.optim.swa_utils": "Averages of weights over a training.",
    "nbgrad.linalg": "Linear algebra on NumPy's LAPACK.",
    "nbgrad.fft": "Fourier transforms.",
    "nbgrad.special": "Special functions.",
    "nbgrad.sparse": "Sparse tensors: what takes them beside the functions of `nbgrad`.",
    "nbgrad.nested": "Tensors whose parts have different sizes.",
    "nbgrad.masked": "Tensors with a mask, and reductions by one.",
    "nbgrad.distributions": "Random numbers whose parameters are tensors, with densities and gradients.",
    "nbgrad.distributions.constraints": "What parameters and values may be.",
    "nbgrad.distributions.utils": "What distributions share.",
    "nbgrad.autograd": "Gradients, grad modes, functions of one's own, checks.",
    "nbgrad.autograd.functional": "Jacobians, Hessians and products with them, of functions of tensors.",
    "nbgrad.autograd.forward_ad": "Forward mode: tensors with tangents.",
    "nbgrad.autograd.graph": "The graph: nodes, edges, hooks, saved tensors.",
    "nbgrad.func": "Transforms of functions.",
    "nbgrad.utils": "Kernels as they run; and for checkpoints, pictures and files the modules below.",
    "nbgrad.utils.data": "Datasets, samplers and loaders.",
    "nbgrad.utils.checkpoint": "Values that are computed again in backward, not kept.",
    "nbgrad.utils.viz": "A graph as a picture.",
    "nbgrad.utils.safetensors": "Files in the safetensors format.",
    "nbgrad.overrides": "Classes and modes that take functions over.",
    "nbgrad.library": "Operators of one's own.",
    "nbgrad.fx": "Programs as graphs.",
    "nbgrad.testing": "Comparing tensors in tests.",
    "nbgrad.random": "The random stream.",
    "nbgrad.profiler": "Where time goes.",
    "nbgrad.serialization": "Which classes a file may hold.",
}
"""Each page, and a line on it."""


def page(path: str) -> str:
    """Markdown: a list of the names, then each with its signature and docstring, by the file or story that it comes from."""
    found = dict(names(path))
    groups: dict[str, list[str]] = {}
    for name, thing in found.items():
        groups.setdefault(group(path, thing), []).append(name)
    text = [f"# {path}", "", PAGES[path], ""]
    values = groups.pop("", [])
    for title in sorted(groups, key=place):
        if len(groups) > 1:
            text += [
                f"## {title}",
                "",
                f"*{escaped(about(title))}*",
                "",
                " · ".join(f"[`{n}`](#{n})" for n in groups[title]),
                "",
            ]
        for name in groups[title]:
            text += entry(path, name, found[name], "###" if len(groups) > 1 else "##")
    if values:
        text += [
            "## Values",
            "",
            *(f"- `{name}`: `{shown(found[name], type(found[name]).__name__)}`" for name in values),
            "",
        ]
    return "\n".join(text)


def names(path: str) -> Iterator[tuple[str, Any]]:
    """The public names and what they are, without modules and without what was only imported to write annotations."""
    owner = nbgrad.Tensor if path == "nbgrad.Tensor" else importlib.import_module(path)
    for name in sorted(set(dir(owner) if path in DIRECT else getattr(owner, "__all__", dir(owner)))):
        thing = inspect.getattr_static(owner, name) if inspect.isclass(owner) else getattr(owner, name)
        foreign = (getattr(thing, "__module__", None) or "nbgrad").split(".")[0] not in ("nbgrad", "torch")
        annotation = not path.endswith("Tensor") and path != "nbgrad" and name == "Tensor"
        if not (
            name.startswith("_") or isinstance(thing, ModuleType) or foreign or annotation or is_absent(thing)
        ):
            yield name, thing


DIRECT = ("nbgrad", "nbgrad.Tensor", "nbgrad.nn", "nbgrad.special", "nbgrad.random", "nbgrad.nn.utils")


def home(thing: Any) -> str:
    """The module that says what a thing is: of an op made of a scalar function, where that stands."""
    if isinstance(thing, property):
        thing = thing.fget
    op = getattr(inspect.unwrap(thing) if callable(thing) else thing, "op", None)
    body = getattr(op, "_body", None)
    return str(getattr(body if callable(body) else thing, "__module__", "") or "nbgrad")


def group(path: str, thing: Any) -> str:
    """Under which heading it stands; values under none."""
    if not callable(thing) and not isinstance(thing, property):
        return ""
    parts = home(thing).split(".")
    if path in ("nbgrad", "nbgrad.Tensor"):
        return ".".join(parts[:3] if parts[1:2] == ["ops"] else parts[:2])
    return (
        path if parts[0] == "torch" else ".".join(parts)
    )  # some types say PyTorch's module, as their names are shown


def place(title: str) -> tuple[bool, int, str]:
    """Ops first, then as the stories stand on each other."""
    return not title.startswith("nbgrad.ops"), LEVEL.get(story_of(title), 0), title


def about(title: str) -> str:
    """What a module says of itself, in its first sentence."""
    try:
        said = importlib.import_module(title).__doc__ or ""
    except ImportError:
        return ""
    return " ".join(said.split("\n\n")[0].split())


def entry(path: str, name: str, thing: Any, level: str) -> list[str]:
    prefix = path.replace("nbgrad", "torch", 1).replace("torch.Tensor", "Tensor")
    text = [f"{level} {escaped(name)}", ""]
    if isinstance(thing, property):
        return [*text, *said(thing.fget.__doc__ or "")]
    lines = signatures._table().get(f"{prefix}.{name}".removeprefix("torch."), [" out"])
    out = any(" out" in line for line in lines)
    text += ["{.wrap}", "```python", f"{prefix}.{signature(name, thing, prefix == 'Tensor', out)}", "```", ""]
    doc = own_doc(thing)
    if path == "nbgrad.Tensor":
        return [*text, *method(name, doc)]
    text += said(doc)
    if inspect.isclass(thing):
        for member, function in vars(thing).items():
            if not member.startswith("_") and inspect.isfunction(function) and (words := own_doc(function)):
                text += [f"**`{signature(member, function, bound=True)}`**", "", *said(words)]
    return text


def method(name: str, doc: str) -> list[str]:
    """What a method does; of one that is also a function, where it is described."""
    base = name.removesuffix("_")
    built = {n: f for n in (name, base) if not is_absent(f := getattr(nbgrad, n, None))}
    function = built.get(name) or built.get(base)
    if not callable(function) or (doc and doc != own_doc(function) and not name.endswith("_")):
        return said(doc)
    where = name if built.get(name) else base
    how = "In place: see" if name != base and where == base else "See"
    return [f"{how} [`torch.{where}`](nbgrad.md#{where}).", ""]


def own_doc(thing: Any) -> str:
    """Its own docstring: `inspect.getdoc` would give a class that says nothing the words of the class above it."""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def signature(name: str, thing: Any, bound: bool = False, out: bool = True) -> str:
    """As one would write the call, with what kinds are known; of a method without the tensor; without `out` where that is refused."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    parameters = list(found.parameters.values())
    parameters = [p for p in parameters if p.name != "out" or (out and not bound)]
    if bound:
        first_is_self = parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL
        parameters = parameters[bool(first_is_self) :]
    written: list[str] = []
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not any(w.startswith("*") for w in written):
            written.append("*")
        written.append(parameter(p))
        others = parameters[parameters.index(p) + 1 :]
        if p.kind is p.POSITIONAL_ONLY and not any(o.kind is p.POSITIONAL_ONLY for o in others):
            written.append("/")
    gives = "" if inspect.isclass(thing) else kind(found.return_annotation)
    return f"{name}({', '.join(written)}){f' -> {gives}' if gives else ''}"


def parameter(p: inspect.Parameter) -> str:
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    annotation = kind(p.annotation)
    default = "" if p.default is p.empty else shown(p.default)
    if annotation:
        return f"{stars}{p.name}: {annotation}" + (f" = {default}" if default else "")
    return f"{stars}{p.name}" + (f"={default}" if default else "")


def kind(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty or annotation in ("Any", Any):
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace("builtins.", "")


def shown(value: Any, otherwise: str = "...") -> str:
    """A value, unless all that its `repr` says is an address."""
    text = value.__name__ if inspect.isfunction(value) or inspect.isclass(value) else repr(value)
    return otherwise if " object at 0x" in text else text


def said(doc: str) -> list[str]:
    """A docstring as Markdown: paragraphs, and examples as blocks."""
    text: list[str] = []
    fenced = False
    for line in doc.splitlines():
        if line.startswith(">>>") and not fenced:
            fenced = True
            text += ["", "```pycon"]
        if fenced and not line.strip():
            fenced = False
            text += ["```", ""]
        text.append(line if fenced else escaped(line))
    return [*text, *(["```"] if fenced else []), ""]


def escaped(line: str) -> str:
    """A line of prose in which only backticks mean something."""
    return re.sub(r"(`[^`]*`)|([*_<\[\]])", lambda m: m[1] or f"\\{m[2]}", line)


def slug(title: str) -> str:
    """The anchor of a heading: of a name, that; of words, those with hyphens."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") if " " in title else title
