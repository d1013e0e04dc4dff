"""`python -m nbgrad run script.py [arguments]`: runs a script that imports torch with nbgrad in its place; `warmup` compiles for later.

So do `run -m module` and `run -`, which reads standard input. Promises the program that `torch` and every `torch.x.y` are nbgrad's own
modules, found when they are imported, and that all else (arguments, `__main__`, where modules are found, exit status) is as
under `python script.py`. What nbgrad lacks is refused by name.
"""

from __future__ import annotations

import builtins
import importlib
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType, ModuleType
from typing import Any

import nbgrad

USAGE = """usage: python -m nbgrad run script.py [arguments]
       python -m nbgrad run -m module [arguments]
       python -m nbgrad run - [arguments]          (the program is read from standard input)
       python -m nbgrad warmup [script.py [arguments]]

Runs a program that imports torch with nbgrad in its place. `warmup` says afterwards how many kernels are kept for the next run;
without a script it compiles what most programs ask for."""
_MISSING = object()
_STANDS_IN = f"(nbgrad {nbgrad.__version__} stands in its place)"


class Torch(ModuleType):
    """The module `torch`: nbgrad's names, and PyTorch's version, whose behaviour they have."""

    __version__ = f"2.13.0+nbgrad.{nbgrad.__version__}"

    def __init__(self) -> None:
        super().__init__("torch", nbgrad.__doc__)
        own = {k: v for k, v in vars(nbgrad).items() if not (k.startswith("__") and k.endswith("__"))}
        self.__dict__.update(own)
        self.__path__: list[str] = []  # a package, whose modules Alias finds
        self.__file__ = nbgrad.__file__

    def __getattr__(self, name: str) -> object:
        # Not raised while another is handled: what the program itself is handling would be hidden.
        found = getattr(nbgrad, name, _MISSING)
        if found is _MISSING:
            raise AttributeError(
                f"module 'torch' has no attribute {name!r} {_STANDS_IN}", name=name, obj=self
            )
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*dir(nbgrad), *self.__dict__})


def _own_name(name: str) -> str:
    """What PyTorch's module is here."""
    return "nbgrad" + (name.removeprefix("torch") if name.startswith("torch.") else f".func._{name}")


class Alias(MetaPathFinder, Loader):
    """Finds `torch.x`, and `functorch`, as nbgrad's own `x`, the same object and not a second copy of its file."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith("torch.") and fullname.partition(".")[0] != "functorch":
            return None
        module = self._module(fullname)
        if module is None:
            raise ModuleNotFoundError(f"No module named {fullname!r} {_STANDS_IN}", name=fullname)
        self._specs[fullname] = module.__spec__
        return spec_from_loader(fullname, self)

    def _module(self, fullname: str) -> ModuleType | None:
        try:
            return importlib.import_module(_own_name(fullname))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("nbgrad."):
                raise
            return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """It has run already; the import system only wrote its spec over. Its own modules get their names here too: to import one,
        as `torch.autograd.gradcheck`, is not to put it in the place of what its package calls so."""
        assert module.__spec__ is not None
        module.__spec__ = self._specs[module.__spec__.name]
        inside = module.__name__ + "."
        for name in [n for n in sys.modules if n.startswith(inside)]:
            sys.modules.setdefault("torch" + name.removeprefix("nbgrad"), sys.modules[name])


def take_place() -> None:
    """From here on `import torch` gives nbgrad."""
    sys.modules["torch"] = Torch()
    sys.meta_path.insert(0, Alias())


def run(program: str, arguments: Sequence[str]) -> None:
    """What `python` does with a script, or `-`."""
    path: str | None = None
    if program == "-":
        text = sys.stdin.buffer.read()
    else:
        path = os.path.abspath(program)
        try:
            with open(program, "rb") as f:
                text = f.read()
        except OSError as error:
            python = os.path.basename(sys.executable)
            print(
                f"{python}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr
            )
            raise SystemExit(2) from None
    take_place()
    sys.argv[:] = [program, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = "" if path is None else os.path.dirname(os.path.realpath(program))
    code = compile(text, "<stdin>" if path is None else program, "exec", dont_inherit=True)
    _as_main(code, {"__file__": path or "<stdin>", "__cached__": None})


def run_module(name: str, arguments: Sequence[str]) -> None:
    """What `python -m` does."""
    take_place()
    sys.argv[:] = ["-m", *arguments]
    try:
        _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
    except ImportError as error:
        print(f"{sys.executable}: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    sys.argv[0] = spec.origin
    _as_main(
        code,
        dict(
            __file__=spec.origin,
            __cached__=spec.cached,
            __loader__=spec.loader,
            __package__=spec.parent,
            __spec__=spec,
        ),
    )


def warm_up(program: Sequence[str]) -> None:
    """Runs a script, or what is usual, for the kernels that it asks for."""
    from nbgrad import warmup

    try:
        if program:
            run(program[0], program[1:])
        else:
            warmup.usual()
    finally:  # of a script that ends with `sys.exit`, too
        warmup.report()


def _as_main(code: CodeType, names: dict[str, Any]) -> None:
    main = ModuleType("__main__")
    main.__dict__.update(names, __builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def command(arguments: Sequence[str]) -> None:
    match arguments:
        case ["-h" | "--help"] | ["run" | "warmup", "-h" | "--help", *_]:
            print(USAGE)
        case ["run", "-m", module, *rest]:
            run_module(module, rest)
        case ["run", program, *rest] if program == "-" or not program.startswith("-"):
            run(program, rest)
        case ["warmup", *rest] if not (rest and rest[0].startswith("-")):
            warm_up(rest)
        case _:
            print(USAGE, file=sys.stderr)
            raise SystemExit(2)


if __name__ == "__main__":
    command(sys.argv[1:])
