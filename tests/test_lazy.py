"""What few programs need costs the import nothing, and is there when it is named."""

import subprocess
import sys

PROGRAM = """
import sys
import nbgrad as torch
late = {"distributions", "utils.checkpoint", "utils.hooks", "utils.viz", "autograd.profiler", "profiler"}
assert not {f"nbgrad.{name}" for name in late} & set(sys.modules)
torch.utils.checkpoint.checkpoint, torch.utils.hooks.RemovableHandle, torch.utils.viz.svg
torch.autograd.profiler.profile, torch.profiler.schedule
torch.distributions.Normal, torch.distributions.normal.Normal
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
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=600)


def test_they_are_listed_before() -> None:
    """Else what completes names, and the site's pages, would show them by what was used before."""
    code = "import nbgrad, sys; assert {'load', 'smm', 'distributions'} <= {*dir(nbgrad)}; assert 'nbgrad.sparse' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


EVERY = """
import importlib, pkgutil, sys, warnings
import nbgrad
warnings.simplefilter("ignore")
for found in pkgutil.walk_packages(nbgrad.__path__, "nbgrad."):
    if not any(part.startswith("_") or part in ("expr", "kernels", "ops") for part in found.name.split(".")[1:]):
        try:
            module = importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            assert error.name == "tensorboard", error  # which writes for nbgrad.utils.tensorboard
            continue
        for name in {*dir(module), *getattr(module, "__all__", ())}:
            if not hasattr(module, name):
                print(f"{found.name}.{name}")
missing = {name for name in dir(nbgrad) if not hasattr(nbgrad, name)}
assert not missing, missing
classes = {name for name in dir(nbgrad.nn) if isinstance(getattr(nbgrad.nn, name), type)}
assert {"Linear", "Module", "Parameter"} <= classes
"""


def test_modules_list_what_exists() -> None:
    done = subprocess.run([sys.executable, "-c", EVERY], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_all_of_nn_at_once() -> None:
    """`from torch.nn import *` gives the modules too, which are loaded when they are asked for."""
    code = "from nbgrad.nn import *; print(Sequential(Linear(2, 1)), functional.__name__, init.__name__, Parameter.__name__)"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.splitlines()[-1] == ") nbgrad.nn.functional nbgrad.nn.init Parameter", shown


WHILE_TRACED = """
import nbgrad as torch
class Asks(torch.nn.Module):
    def forward(self, x):
        return x if torch.jit.is_tracing() else x + 1  # the first to name torch.jit
torch.fx.symbolic_trace(Asks())
layer = torch.nn.Linear(2, 1)
print(*torch.jit.trace_module(layer, {"forward": torch.ones(1, 2)})(torch.ones(1, 2)).shape)
"""


def test_what_comes_while_a_program_is_traced_keeps_nothing_of_that() -> None:
    shown = subprocess.run([sys.executable, "-c", WHILE_TRACED], capture_output=True, text=True)
    assert (shown.stdout, shown.returncode) == ("1 1\n", 0), shown.stderr
