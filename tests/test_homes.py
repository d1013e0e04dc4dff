"""What classes and functions are called where nbgrad stands in torch's place, and pickles that go from one library to the other."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support import T

WALK = """
import json, sys
from importlib import import_module
import nbgrad
nbgrad.install()
import torch
import torch.distributions, torch.fx, torch.utils.data, torch.utils.checkpoint, torch.masked, torch.profiler, torch.distributed.checkpoint

told, lost = {}, []
for path in sys.argv[1].split():
    module = import_module(path)
    for name in getattr(module, "__all__", ()) or [n for n in dir(module) if n[0] != "_"]:
        value = getattr(module, name)
        if isinstance(value, type):
            told[f"{path}.{name}"] = value.__module__, value.__qualname__
for module in [m for name, m in sys.modules.items() if name.startswith("torch")]:
    for name, value in list(vars(module).items()):
        home = getattr(value, "__module__", None) or ""
        if isinstance(value, type) and home.startswith("torch") and "_nbgrad_absent" not in vars(value):
            if value.__qualname__.isidentifier() and getattr(import_module(home), value.__qualname__, None) is not value:
                lost.append((home, value.__qualname__))
print(json.dumps([told, sorted(set(lost))]))
"""
MODULES = """torch torch.nn torch.nn.parameter torch.nn.utils.parametrize torch.optim torch.optim.lr_scheduler torch.optim.swa_utils
torch.utils.data torch.utils.hooks torch.distributions torch.distributions.constraints torch.autograd torch.autograd.graph
torch.autograd.profiler torch.amp torch.profiler torch.fx torch.storage torch.cuda torch.masked torch.distributed"""
# Made when they are asked for, or for this place alone; and what has another name in PyTorch's own text.
OTHER = {
    "torch": "ScriptFunction CompilationUnit DisableTorchFunction DisableTorchFunctionSubclass Future",
    "torch.nn": "UninitializedTensorMixin",
}


def python(code: str, *arguments: str, input: bytes = b"") -> bytes:
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(command, input=input, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def walked() -> Any:
    return json.loads(python(WALK, MODULES))


def test_classes_are_found_by_their_names(walked: Any) -> None:
    """As pickle looks for them; what a node saved cannot be pickled."""
    assert walked[1] == [["torch._C._autograd", "SavedTensor"]]
    assert len(walked[0]) > 300


@pytest.mark.oracle
def test_classes_have_pytorchs_names(walked: Any, torch: ModuleType) -> None:
    from importlib import import_module

    other = {f"{path}.{name}" for path, names in OTHER.items() for name in names.split()}
    wrong = {}
    for path, (home, name) in walked[0].items():
        where, _, attribute = path.rpartition(".")
        theirs = getattr(import_module(where), attribute, None)
        if (
            isinstance(theirs, type)
            and path not in other
            and (theirs.__module__, theirs.__qualname__) != (home, name)
        ):
            wrong[path] = (home, name), (theirs.__module__, theirs.__qualname__)
    assert wrong == {}


OBJECTS = """
torch.manual_seed(0)
nn = torch.nn
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.MultiheadAttention(3, 1), nn.LSTM(3, 2), nn.Conv2d(1, 1, 1), nn.PReLU())
model[0](torch.ones(1, 2)).sum().backward()
optimizer = torch.optim.AdamW(model.parameters())
optimizer.step()
noted = torch.ones(2)
noted.about = "this"
held = dict(
    model=model, optimizer=optimizer, schedule=torch.optim.lr_scheduler.StepLR(optimizer, 1), noted=noted,
    leaf=torch.ones(3, requires_grad=True), turned=torch.arange(6.0).view(2, 3).t()[1:], parameter=nn.Parameter(torch.ones(2)),
    bits=torch.tensor([1.5, -2.0], dtype=torch.bfloat16), complex=torch.tensor([1 + 2j]), none=torch.ones(0), number=torch.tensor(3),
    sparse=torch.eye(2).to_sparse(), rows=torch.eye(2).to_sparse_csr(), without=torch.ones(2, device="meta"),
    kinds=[torch.float32, torch.Size([2]), torch.device("cpu"), torch.Tensor, nn.LazyLinear, torch.optim.AdamW],
    functions=[nn.functional.relu, torch.stft, torch.add, torch.Tensor.add, torch.linalg.norm, nn.functional.linear],
    law=torch.distributions.Normal(0.0, 1.0), loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(2))),
    generator=torch.Generator().manual_seed(3),
)
"""
SHOW = """
def shown(held):
    model, state = held["model"], held["optimizer"].state_dict()
    drawn = torch.rand(2, generator=held["generator"])
    lines = [model, [v.tolist() for v in model.state_dict().values()], state["param_groups"], state["state"][0], held["noted"].about]
    lines += [held[k] for k in ("schedule leaf turned parameter bits complex none number sparse rows without".split())][1:]
    lines += [held["turned"].stride(), [str(k) for k in held["kinds"]], [f.__name__ for f in held["functions"]], held["law"], drawn]
    return [*map(str, lines), [b[0].tolist() for b in held["loader"]], type(held["schedule"]).__name__]
"""
INSTALLED = "import sys, pickle, json\nimport nbgrad\nnbgrad.install()\nimport torch\n"
WRITE = f"{INSTALLED}{OBJECTS}\nsys.stdout.buffer.write(pickle.dumps(held))"
READ = f"{INSTALLED}{SHOW}\nprint(json.dumps(shown(pickle.load(sys.stdin.buffer))))"


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning", "ignore:TypedStorage:UserWarning")
def test_pickles_go_both_ways(torch: ModuleType) -> None:
    """Of whole models, optimisers, loaders: what one library writes, the other reads."""
    scope: dict[str, Any] = {"torch": torch}
    exec(OBJECTS + SHOW, scope)
    wanted = json.loads(json.dumps(scope["shown"](pickle.loads(pickle.dumps(scope["held"])))))
    here = json.loads(json.dumps(scope["shown"](pickle.loads(python(WRITE)))))
    there = json.loads(python(READ, input=pickle.dumps(scope["held"])))
    for got in (here, there):
        assert [a for a, b in zip(got, wanted) if a != b and "function" not in str(a)] == []


def test_pickles_of_a_process_without_it() -> None:
    """Where programs import nbgrad by its name, so do its pickles, and they are read where it stands in torch's place."""
    model = T.nn.Sequential(T.nn.Linear(2, 1), T.nn.LazyLinear(1))
    written = pickle.dumps([model, T.ones(2), T.optim.AdamW, T.add])
    assert type(model[0]).__module__ == "nbgrad.nn.modules.linear" and b"torch.nn" not in written
    code = f"{INSTALLED}m, x, a, f = pickle.load(sys.stdin.buffer)\nprint(type(m[0]), a is torch.optim.AdamW, f(m[0](x), 1).shape)"
    assert (
        python(code, input=written).decode()
        == "<class 'torch.nn.modules.linear.Linear'> True torch.Size([1])\n"
    )


def test_modules_are_loaded_once() -> None:
    """Under either name, whichever comes first."""
    code = f"{INSTALLED}import torch.storage, torch.fx, nbgrad.hub, torch.hub\n"
    for name in ("storage", "fx", "fx.graph", "hub"):
        code += f"assert sys.modules['torch.{name}'] is sys.modules['nbgrad.{name}']\n"
    python(f"{code}assert torch.storage is nbgrad.storage and torch.BoolStorage is torch.storage.BoolStorage")


def test_a_process_with_it_reads_its_own() -> None:
    code = f"{INSTALLED}{OBJECTS}{SHOW}\nagain = pickle.loads(pickle.dumps(held))\nassert shown(again) == shown(held)"
    python(code)


def test_processes_of_joblib_are_told(tmp_path: Path) -> None:
    """Its own way of starting them is found when it is loaded; and what it pickles by name must be loaded, or it copies the code."""
    package = tmp_path / "loky" / "backend"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    text = "import sys\ndef get_preparation_data(name, main=True):\n    return dict(name=name, main=main, sys_path=sys.path)\n"
    (package / "spawn.py").write_text(text)
    code = f"""{INSTALLED}
sys.path.insert(0, {str(tmp_path)!r})
from loky.backend import spawn
told = spawn.get_preparation_data("a", False)
assert list(told) == ["torch", "name", "main", "sys_path"] and told["main"] is False
assert pickle.loads(pickle.dumps(torch)) is torch
pickle.dumps([torch.ones(1), torch.optim.AdamW, torch.utils.data.default_collate])
for name in ("_utils", "_tensor", "storage", "optim.adamw", "utils.data._utils.collate"):
    assert f"torch.{{name}}" in sys.modules, name
"""
    python(code)


def test_traces_name_operators_as_elsewhere() -> None:
    """An operator's module begins with torch, too, but it is found in `torch.ops`."""
    traced = "from torch.fx.experimental.proxy_tensor import make_fx\nprint(make_fx(torch.relu)(torch.ones(2)).code)"
    assert "relu = torch.ops.aten.relu.default(" in python(INSTALLED + traced).decode()


def test_what_classes_inherit_takes_functions_that_are_called_torchs() -> None:
    asked = "print(torch.Tensor.__torch_function__(torch.add, (torch.Tensor,), (torch.ones(1), 1)))"
    assert python(INSTALLED + asked).decode() == "tensor([2.])\n"
