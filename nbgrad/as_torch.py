"""nbgrad in the place of torch: `nbgrad.install()`, or `pytest -p nbgrad.as_torch`.

Promises a program that `torch` and every `torch.x.y` are nbgrad's own modules, found when they are imported, and that PyTorch itself is
never loaded, also where it is installed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

import nbgrad
from nbgrad.base import ours
from nbgrad.exchange.files.pickles import pickle_as_torch
from nbgrad.names import finder, homes
from nbgrad.torch_version import TorchVersion
from nbgrad.torch_version import __version__ as VERSION

_MISSING = object()
_STANDS_IN = f"(nbgrad {nbgrad.__version__} stands in its place)"


class Torch(ModuleType):
    """The module `torch`: nbgrad's names, and PyTorch's version, whose behaviour they have."""

    __version__: TorchVersion = VERSION

    def __init__(self) -> None:
        super().__init__("torch", nbgrad.__doc__)
        own = {k: v for k, v in vars(nbgrad).items() if not (k.startswith("__") and k.endswith("__"))}
        self.__dict__.update(own)
        self.__path__: list[str] = []  # a package, whose modules Alias finds
        self.__file__ = nbgrad.__file__
        self.__spec__ = ModuleSpec("torch", Alias(), origin=nbgrad.__file__, is_package=True)
        self.__loader__ = self.__spec__.loader
        self.__package__ = "torch"

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

    def __reduce__(self) -> Any:
        return importlib.import_module, ("torch",)


def _own_name(name: str) -> str:
    """What PyTorch's module is here."""
    return "nbgrad" + (name.removeprefix("torch") if name.startswith("torch.") else f"._functorch.{name}")


class _Installed(Distribution):
    """What `importlib.metadata` tells of torch, which many libraries ask for its version."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"nbgrad stands in torch's place: there is no {path}")


class Alias(DistributionFinder, Loader):
    """Finds `torch.x`, and `functorch`, as nbgrad's own `x`, the same object and not a second copy of its file."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith("torch.") and fullname.partition(".")[0] != "functorch":
            if fullname in _SPAWNS:
                return _then(PathFinder.find_spec(fullname, path), _tell_children_of)  # type: ignore[arg-type]
            return None
        known = fullname in sys.modules
        module = self._module(fullname)
        if module is None:
            raise ModuleNotFoundError(f"No module named {fullname!r} {_STANDS_IN}", name=fullname)
        if not known:  # what a finder has put there is loaded by its own spec, a second time
            sys.modules.pop(fullname, None)
        self._specs[fullname] = module.__spec__
        return spec_from_loader(fullname, self, origin=getattr(module.__spec__, "origin", None))

    def get_code(self, fullname: str) -> Any:
        """What `python -m` runs."""
        name = _own_name(fullname)
        spec = importlib.util.find_spec(name)
        get = getattr(spec and spec.loader, "get_code", None)
        if get is None:
            raise ImportError(f"No code object available for {fullname}")
        return get(name)

    def _module(self, fullname: str) -> ModuleType | None:
        try:
            return importlib.import_module(_own_name(fullname))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("nbgrad."):
                raise
            return None

    def find_distributions(self, context: Any = DistributionFinder.Context()) -> Iterator[Distribution]:  # noqa: B008
        """Of torch, as of 2.13."""
        if context.name is None or context.name == "torch":
            yield _Installed()

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


class _InChild:
    """Unpickled in a process that Python starts anew, before that imports the program: there, too, torch is nbgrad."""

    def __init__(self, path: list[str]) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"import sys; sys.path[:] = {self.path!r}; import nbgrad; nbgrad.install()",)


_SPAWNS = ("multiprocessing.spawn", "joblib.externals.loky.backend.spawn", "loky.backend.spawn")


def _told_to_children(prepared: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def told(name: str, *more: Any) -> dict[str, Any]:
        data = prepared(name, *more)
        if name == "ignore":  # a fork server, which would import the program for all, and torch with it
            data.pop("init_main_from_path", None)
        return {"torch": _InChild(data["sys_path"]), **data}

    return told


def _tell_children_of(module: Any) -> None:
    """What a module that starts processes tells them comes after nbgrad."""
    module.get_preparation_data = _told_to_children(module.get_preparation_data)


def _then(spec: ModuleSpec | None, act: Callable[[Any], None]) -> ModuleSpec | None:
    """A module's spec, by which it is handed on once it has run."""
    if spec is not None and spec.loader is not None:
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            act(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


def install() -> None:
    """From here on `import torch` gives nbgrad, in this process and in those that `multiprocessing` or joblib start from it. Refused where
    torch is loaded already.

    >>> import nbgrad
    >>> nbgrad.install()
    >>> import torch
    >>> torch.__version__ >= "2.0"
    True
    """
    there = sys.modules.get("torch")
    if isinstance(there, Torch):
        return
    if there is not None:
        raise RuntimeError(
            f"torch is loaded already, from {getattr(there, '__file__', None)}: nbgrad.install() must come before what imports it"
        )
    made = Torch()
    sys.modules["torch"] = made
    made.torch = made  # type: ignore[attr-defined]  # as PyTorch's own file imports itself
    ours.call("torch")
    for module in [m for name, m in sys.modules.items() if name.partition(".")[0] == "nbgrad"]:
        homes.rename(module)
    finder.heard.filled = homes.rename
    pickle_as_torch()
    sys.meta_path.insert(0, made.__loader__)  # type: ignore[arg-type]
    for name in _SPAWNS:
        if name in sys.modules:
            _tell_children_of(sys.modules[name])


def pytest_load_initial_conftests() -> None:
    """Pytest's, with `-p nbgrad.as_torch`: before any test is collected."""
    install()
