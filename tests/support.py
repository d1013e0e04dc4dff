"""What the tests share: the module under test, and its stand-in for torch.

`NBGRAD_TEST_SUBJECT=torch` runs the suite on torch instead: a check of the tests themselves.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

SUBJECT = os.environ.get("NBGRAD_TEST_SUBJECT", "nbgrad")

T = importlib.import_module(SUBJECT)


class Alias(MetaPathFinder, Loader):
    """Finds `torch.x` as the module's own `x`, the same object and not a second copy of its file."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname.startswith("torch.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.target + spec.name.removeprefix("torch"))
        self.specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already; the import system only wrote its spec over. Its own modules keep their names."""
        assert module.__spec__ is not None
        module.__spec__ = self.specs[module.__spec__.name]
        for name in [n for n in sys.modules if n.startswith(module.__name__ + ".")]:
            sys.modules.setdefault("torch" + name.removeprefix(self.target), sys.modules[name])


@contextlib.contextmanager
def as_torch(module: ModuleType) -> Iterator[None]:
    """`module`, with its submodules, answers to `import torch` inside the block."""
    if module.__name__ == "torch":
        yield
        return

    def take_torch() -> dict[str, ModuleType]:
        return {n: sys.modules.pop(n) for n in list(sys.modules) if n == "torch" or n.startswith("torch.")}

    hidden, alias = take_torch(), Alias(module.__name__)
    sys.modules["torch"] = module
    sys.meta_path.insert(0, alias)
    try:
        yield
    finally:
        sys.meta_path.remove(alias)
        take_torch()
        sys.modules.update(hidden)
