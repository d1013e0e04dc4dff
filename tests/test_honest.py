"""Names that have an honest meaning where PyTorch's machinery behind them is not: scripts, compilers, futures, checks."""

import copy
import subprocess
import sys
import threading
from types import ModuleType
from typing import Any, Optional

import pytest

from nbgrad.names.absent import NotBuiltError
from tests.support import T

SAME = (
    "script_method",
    "ignore",
    "export",
    "unused",
    "interface",
    "script_if_tracing",
)


@pytest.mark.parametrize("name", SAME)
def test_scripts_are_what_was_given(name: str) -> None:
    layer = T.nn.Linear(2, 1)
    mark = getattr(T.jit, name)
    assert mark(layer) is layer and mark(T.tanh) is T.tanh and not T.jit.is_scripting()


class Twice(T.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = T.nn.ModuleList([T.nn.Linear(2, 2), T.nn.Dropout(0.5)])
        self.layers.append(self.layers[0])
        self.register_buffer("shift", T.ones(2))
        self.factor = 3

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x * self.factor + self.shift if x.sum() > 0 or self.training else -x


SCRIPTED = """
RecursiveScriptModule(
  original_name=Twice
  (layers): RecursiveScriptModule(
    original_name=ModuleList
    (0): RecursiveScriptModule(original_name=Linear)
    (1): RecursiveScriptModule(original_name=Dropout)
    (2): RecursiveScriptModule(original_name=Linear)
  )
)"""


@pytest.mark.parametrize("make", [T.jit.script, lambda m: T.jit.trace(m, T.ones(1, 2))])
def test_scripted_modules_share_parameters_and_come_back_from_files(make: Any, tmp_path: Any) -> None:
    module, x = Twice().eval(), T.tensor([[1.0, 2.0]])
    made = make(module)
    assert isinstance(made, T.jit.ScriptModule) and isinstance(made, Twice) and make(made) is made
    assert T.jit.script(made) is made and made.layers[0] is made.layers[2] is not module.layers[0]
    assert all(a is b for a, b in zip(made.parameters(), module.parameters(), strict=True))
    made.train()
    assert made.layers[1].training and not module.training and not module.layers[1].training
    made.eval().double()
    assert made.shift.dtype is T.float64 and module.shift.dtype is T.float32
    module = Twice().eval()
    made = make(module)
    assert T.equal(made(x), module(x))
    with pytest.raises(RuntimeError, match="does not have a __getstate__ method defined"):
        T.save(made, tmp_path / "whole.pt")
    for other in (copy.deepcopy(made), copy.copy(made)):
        assert type(other) is type(made) and T.equal(other(x), module(x))
    assert copy.deepcopy(made).layers[0].weight is not module.layers[0].weight
    file = tmp_path / "scripted.pt"
    made.save(file)
    for other in (T.jit.load(file), T.load(file, weights_only=False)):
        assert f"\n{other}" == SCRIPTED and not other.training and T.equal(other(x), module(x))
        assert other.layers[0] is other.layers[2]
    assert T.jit.freeze(made)(x).requires_grad is False and made(x).requires_grad
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        T.jit.freeze(made.train())


@pytest.mark.filterwarnings("ignore:nbgrad.compile has one way")
def test_compile_takes_functions_and_modules() -> None:
    layer = T.nn.Linear(2, 1)
    assert T.compile(layer, mode="max-autotune", fullgraph=True)._orig_mod is layer
    assert (
        T.compile(dynamic=True)(T.tanh)(T.zeros(1)).item() == 0.0
        and T.compiler.disable(T.tanh)(T.zeros(1)).item() == 0.0
    )
    assert T.compile(T.tanh, disable=True) is T.tanh and T.compile(T.tanh, backend="eager") is T.tanh


TYPES = [list[int], dict[str, int], Optional[int], tuple[int, float], int, (str, list[int]), int | None]  # noqa: UP045


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:The inner type of a container is lost")
@pytest.mark.parametrize("value", [1, None, [1], [1, "a"], [], {"a": 1}, {1: 1}, (1, 2.0), (1, 2), "a"])
def test_isinstance_of_containers(value: Any, torch: ModuleType) -> None:
    for kind in TYPES:
        assert T.jit.isinstance(value, kind) == torch.jit.isinstance(value, kind), kind


def futures(T: Any) -> list[str]:
    told = []

    def tell(call: Any) -> None:
        try:
            told.append(repr(call()))
        except Exception as error:
            told.append(f"{type(error).__name__} {str(error).splitlines()[0]}")

    one, two = T.futures.Future(), T.futures.Future()
    after = one.then(lambda f: f.value() + 1)
    both = T.futures.collect_all([one, two])
    tell(one.done)
    one.set_result(3)
    tell(after.wait)
    tell(both.done)
    tell(lambda: two.set_exception("no"))
    two.set_exception(ValueError("foo"))
    tell(two.wait)
    tell(two.value)
    tell(lambda: one.set_result(4))
    tell(lambda: one.then(lambda f: 1 / 0).wait())
    tell(both.wait)
    tell(lambda: T.futures.wait_all([one, two]))
    tell(lambda: T.futures.wait_all([one, after]))
    tell(lambda: T.futures.collect_all([]).wait())
    tell(lambda: T.futures.Future(devices=["cpu"]))
    tell(lambda: __import__("pickle").dumps(one))
    return told


@pytest.mark.oracle
def test_futures(torch: ModuleType) -> None:
    assert futures(T) == futures(torch)


def test_a_future_is_waited_for_by_another_thread() -> None:
    coming: Any = T.futures.Future()
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(coming.wait()))
    thread.start()
    coming.set_result(5)
    thread.join(100)
    assert got == [5]


def checks(T: Any) -> list[str]:
    told = []
    for name in ("_check", "_check_index", "_check_value", "_check_type", "_check_not_implemented"):
        for cond in (True, False, 1, T.tensor(True)):
            for message in (None, lambda: 5, "text"):
                try:
                    told.append(repr(getattr(T, name)(cond, message)))
                except Exception as error:
                    told.append(f"{type(error).__name__} {error}")
    for bad in (T.tensor([True, False]), T.ones(2), 3):
        try:
            T._check_tensor_all(bad)
        except Exception as error:
            told.append(f"{type(error).__name__} {error}")
    told.append(str([T.typename(v) for v in (T.ones(1), 3, "a", [], len)]))
    return told


@pytest.mark.oracle
def test_checks(torch: ModuleType) -> None:
    assert checks(T) == checks(torch)


LATE = """
import torch
import nbgrad
try:
    nbgrad.install()
except RuntimeError as error:
    print(error)
"""
EARLY = """
import nbgrad
nbgrad.install()
nbgrad.install()
import torch, torch.nn.functional as F, importlib.metadata, importlib.util, sys
from torch.optim.optimizer import ParamsT
print(torch.__version__, importlib.metadata.version("torch"), importlib.util.find_spec("torch").name, F.relu is nbgrad.nn.functional.relu)
try:
    import torch._C._nonsense
except ImportError as error:
    print(type(error).__name__)
print(sorted(n for n in sys.modules if n.split(".")[0] == "torch" and "/torch/" in (getattr(sys.modules[n], "__file__", "") or "")))
"""


def test_installed_in_a_process() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["2.13.0+nbgrad 2.13.0+nbgrad torch True", "ModuleNotFoundError", "[]"]


@pytest.mark.oracle
def test_not_installed_where_torch_is_loaded(torch: ModuleType) -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True)
    assert done.stdout.startswith("torch is loaded already, from ") and done.stderr == ""


def test_for_tests_of_others(tmp_path: Any) -> None:
    """`pytest -p nbgrad.as_torch`: a conftest sees it, too."""
    (tmp_path / "conftest.py").write_text("import torch; assert 'nbgrad' in torch.__version__\n")
    (tmp_path / "test_it.py").write_text(
        "import torch\ndef test(): assert torch.ones(2).sum() == 2 and 'nbgrad' in torch.__file__\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "nbgrad.as_torch",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_what_is_not_there_of_hubs_and_scripts() -> None:
    for call in (
        lambda: T.hub.load("a", "b"),
        lambda: T.jit.script(T.nn.Tanh()).graph,
        lambda: T.jit.CompilationUnit(),
    ):
        with pytest.raises(NotBuiltError):
            call()
