"""What the tests share: the module under test, and its stand-in for torch.

`NBGRAD_TEST_SUBJECT=torch` runs the suite on torch instead: a check of the tests themselves.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType

SUBJECT = os.environ.get("NBGRAD_TEST_SUBJECT", "nbgrad")

T = importlib.import_module(SUBJECT)


@contextlib.contextmanager
def as_torch(module: ModuleType) -> Iterator[None]:
    """`module`, with its submodules, answers to `import torch` inside the block."""

    def torch_names() -> list[str]:
        return [n for n in sys.modules if n == "torch" or n.startswith("torch.")]

    if module.__name__ == "torch":
        yield
        return
    hidden = {name: sys.modules.pop(name) for name in torch_names()}
    prefix = module.__name__ + "."
    for name in list(sys.modules):
        if name.startswith(prefix):
            sys.modules["torch." + name.removeprefix(prefix)] = sys.modules[name]
    sys.modules["torch"] = module
    try:
        yield
    finally:
        for name in torch_names():
            del sys.modules[name]
        sys.modules.update(hidden)
