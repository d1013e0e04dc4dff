"""What few programs need costs the import nothing, and is there when it is named."""

import subprocess
import sys

PROGRAM = """
import sys
import nbgrad as torch
late = {"utils.checkpoint", "utils.hooks", "utils.viz", "autograd.profiler", "profiler"}
assert not {f"nbgrad.{name}" for name in late} & set(sys.modules)
torch.utils.checkpoint.checkpoint, torch.utils.hooks.RemovableHandle, torch.utils.viz.svg
torch.autograd.profiler.profile, torch.profiler.schedule
from nbgrad.utils import checkpoint, viz
for module in (torch.utils, torch.autograd):
    try:
        module.nothing
    except AttributeError as error:
        assert str(error) == f"module {module.__name__!r} has no attribute 'nothing'"
    else:
        raise AssertionError(module)
"""


def test_submodules_come_when_they_are_named() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
