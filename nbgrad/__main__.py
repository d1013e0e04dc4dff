"""`python -m nbgrad run script.py [arguments]`: runs a script that imports torch with nbgrad in its place.

Promises the script that `torch` and every `torch.x.y` are nbgrad's own modules, found when they are imported, and that all
else (arguments, `__main__`, where modules are found, exit status) is as under `python script.py`. What nbgrad lacks is
refused by name.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

import nbgrad

USAGE = "usage: python -m nbgrad run script.py [arguments]"
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
        try:
            found = getattr(nbgrad, name)
        except AttributeError:
            raise AttributeError(f"module 'torch' has no attribute {name!r} {_STANDS_IN}") from None
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
        if not fullname.startswith(("torch.", "functorch")):
            return None
        try:
            module = importlib.import_module(_own_name(fullname))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("nbgrad."):
                raise
            raise ModuleNotFoundError(f"No module named {fullname!r} {_STANDS_IN}", name=fullname) from None
        self._specs[fullname] = module.__spec__
        return spec_from_loader(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(_own_name(spec.name))

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


def run(script: str, arguments: Sequence[str]) -> None:
    try:
        with open(script, "rb") as f:
            text = f.read()
    except OSError as error:
        program = os.path.basename(sys.executable)
        print(
            f"{program}: can't open file {os.path.abspath(script)!r}: [Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    take_place()
    sys.argv[:] = [script, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=os.path.abspath(script), __builtins__=builtins, __cached__=None, __annotations__={}
    )
    sys.modules["__main__"] = main
    exec(compile(text, script, "exec", dont_inherit=True), main.__dict__)


def command(arguments: Sequence[str]) -> None:
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return
    if len(arguments) < 2 or arguments[0] != "run":
        print(USAGE, file=sys.stderr)
        raise SystemExit(2)
    run(arguments[1], arguments[2:])


if __name__ == "__main__":
    command(sys.argv[1:])
