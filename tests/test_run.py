"""`python -m nbgrad run script.py`: the script sees nbgrad as torch, and all else as under `python script.py`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import T


def run(
    *arguments: str, cwd: Path | None = None, nbgrad: bool = True, input: str | None = None
) -> tuple[int, str, str]:
    command = [sys.executable, *(["-m", "nbgrad", "run"] if nbgrad else []), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=input)
    return done.returncode, done.stdout, done.stderr


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


TRAINING = """
import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch.autograd.functional
import torch.optim.lr_scheduler as schedules

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 8)
        self.outer = nn.Linear(8, 1)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


net = Net().to(device)
optimizer = optim.Adam(net.parameters(), lr=0.05)
schedule = schedules.StepLR(optimizer, 10)
x = torch.randn(64, 2)
loader = DataLoader(TensorDataset(x, x[:, :1] * x[:, 1:]), batch_size=16, shuffle=True)
for epoch in range(10):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(net(inputs), targets)
        loss.backward()
        optimizer.step()
    schedule.step()
torch.save(net.state_dict(), "net.pt")
again = Net()
again.load_state_dict(torch.load("net.pt"))
assert torch.equal(again(x), net(x))
print(f"{loss.item():.4f}", optimizer.param_groups[0]["lr"], list(net.state_dict()))
print(torch.autograd.functional.jacobian(torch.sin, torch.zeros(1)))
"""


@pytest.mark.oracle
def test_a_training_script(tmp_path: Path) -> None:
    """Written for PyTorch, it prints what it prints under PyTorch."""
    path = written(tmp_path / "train.py", TRAINING)
    code, out, err = run(path, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert (code, out) == run(path, cwd=tmp_path, nbgrad=False)[:2]


def test_names_of_torch(tmp_path: Path) -> None:
    program = """
import torch, sys
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader
assert torch.nn is nn and sys.modules["torch.nn.functional"] is F and F.__name__ == "nbgrad.nn.functional"
assert torch.utils.data.DataLoader is DataLoader and torch.optim.SGD is optim.SGD
print(torch.cuda.is_available(), torch.cuda.device_count())
"""
    assert run(written(tmp_path / "names.py", program)) == (0, "False 0\n", "")


SAME = """
import os, sys, pickle, helper
class Here: pass
kind: int = 1
print(__annotations__)
again = pickle.loads(pickle.dumps(Here()))
main = sys.modules["__main__"]
print(sys.argv, __name__, __file__, sys.path[0], main.Here is Here, type(again) is Here, helper.value, __doc__)
print(sorted(k for k in globals() if k.startswith("__")))
sys.exit(7)
"""


def test_as_python_runs_it(tmp_path: Path) -> None:
    """Arguments, names, where modules are found, exit status."""
    (tmp_path / "deep").mkdir()
    written(tmp_path / "deep" / "helper.py", "value = 3")
    written(tmp_path / "deep" / "same.py", SAME)
    arguments = ("deep/same.py", "a", "--b=c")
    assert run(*arguments, cwd=tmp_path) == run(*arguments, cwd=tmp_path, nbgrad=False)


@pytest.mark.parametrize("script", ["raise ValueError('no')", "import sys; sys.exit('told')", "1 +", None])
def test_failures_as_python_has_them(script: str | None, tmp_path: Path) -> None:
    path = str(tmp_path / "fails.py")
    if script is not None:
        written(tmp_path / "fails.py", script)
    (code, out, err), (want, _, told) = run(path), run(path, nbgrad=False)
    assert (code, out) == (want, "")
    assert err.splitlines()[-1].rpartition(":")[2] == told.splitlines()[-1].rpartition(":")[2]


MISSING = """
import torch
def told(text):
    try:
        exec(text)
    except (ImportError, AttributeError) as error:
        print(type(error).__name__, error)
told("torch.nonsense")
told("import torch.nonsense")
told("import torch.nn.nonsense.more")
told("from torch import nonsense")
told("from torch.nn import Nonsense")
print(hasattr(torch, "nonsense"), torch.__name__, torch.__version__)
"""


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    code, out, err = run(written(tmp_path / "missing.py", MISSING))
    version = T.__version__
    assert (code, err) == (0, "")
    *lines, last = out.splitlines()
    assert [line.partition(" (/")[0] for line in lines] == [
        f"AttributeError module 'torch' has no attribute 'nonsense' (nbgrad {version} stands in its place)",
        f"ModuleNotFoundError No module named 'torch.nonsense' (nbgrad {version} stands in its place)",
        f"ModuleNotFoundError No module named 'torch.nn.nonsense' (nbgrad {version} stands in its place)",
        "ImportError cannot import name 'nonsense' from 'torch'",
        "ImportError cannot import name 'Nonsense' from 'nbgrad.nn'",
    ]
    assert last == "False torch 2.13.0+nbgrad"


HANDLING = """
import torch
def cause(text):
    try:
        try:
            raise KeyError("the program's own")
        except KeyError:
            exec(text)
    except Exception as error:
        print(type(error).__name__, repr(error.__context__), error.__suppress_context__)
cause("torch.nonsense")
cause("import torch.nonsense")
cause("from torch.nn.nonsense import more")
try:
    torch.nonsense
except AttributeError as error:
    print(error.name, error.obj is torch)
"""


def test_what_is_missing_does_not_hide_what_the_program_handles() -> None:
    code, out, err = run("-", input=HANDLING)
    own = """KeyError("the program's own") False"""
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"AttributeError {own}",
        f"ModuleNotFoundError {own}",
        f"ModuleNotFoundError {own}",
        "nonsense True",
    ]


def test_standard_input(tmp_path: Path) -> None:
    written(tmp_path / "helper.py", "value = 3")
    program = SAME.replace("__file__", "'no file'")
    assert run("-", "a", cwd=tmp_path, input=program) == run(
        "-", "a", cwd=tmp_path, nbgrad=False, input=program
    )
    assert run("-", input="import torch; print(torch.ones(2).sum())") == (0, "tensor(2.)\n", "")


MODULE = """
import sys, torch
from . import helper
main = sys.modules["__main__"]
print(sys.argv[1:], __name__, __package__, __spec__.name, __file__ == sys.argv[0], helper.value, main.helper is helper)
print(sorted(k for k in globals() if k.startswith("__")))
sys.exit(7)
"""


@pytest.mark.parametrize("name", ["package.module", "package"])
def test_a_module(tmp_path: Path, name: str) -> None:
    (tmp_path / "package").mkdir()
    written(tmp_path / "package" / "__init__.py", "")
    written(tmp_path / "package" / "helper.py", "value = 3")
    for file in ("module.py", "__main__.py"):
        written(tmp_path / "package" / file, MODULE.replace("torch", "os"))
    want = run("-m", name, "a", "-b", cwd=tmp_path, nbgrad=False)
    assert want[0] == 7
    assert run("-m", name, "a", "-b", cwd=tmp_path) == want
    written(tmp_path / "package" / "module.py", MODULE)
    assert run("-m", "package.module", cwd=tmp_path)[0] == 7
    assert run("-m", "no_such_module") == run("-m", "no_such_module", nbgrad=False)


def warmed(cache: Path, *program: str) -> tuple[str, str, list[str]]:
    """What a warm-up prints on both streams, and which kernels its directory has then."""
    command = [sys.executable, "-m", "nbgrad", "warmup", *program]
    env = os.environ | {"NBGRAD_CACHE_DIR": str(cache), "NBGRAD_COMPILE_LOG": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    return done.stdout, done.stderr, sorted(f.stem.rpartition("_")[0] for f in cache.glob("*.py"))


STARTED = """
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader


def double(found, x):
    found.put([torch.__name__, torch.Tensor is type(x), (x * 2).tolist()])


if __name__ == "__main__":
    for how in "spawn", "forkserver":
        context = mp.get_context(how)
        found = context.Queue()
        child = context.Process(target=double, args=(found, torch.ones(2)))
        child.start()
        print(found.get(timeout=100))
        child.join()
    print(list(DataLoader(torch.arange(4), 2, num_workers=1, multiprocessing_context="spawn")))
"""


def test_processes_started_anew(tmp_path: Path) -> None:
    script = written(tmp_path / "started.py", STARTED)
    code, out, err = run(script)
    assert (code, out) == (
        0,
        "['torch', True, [2.0, 2.0]]\n" * 2 + "[tensor([0, 1]), tensor([2, 3])]\n",
    ), err


def test_a_warmup_keeps_what_a_script_asks_for(tmp_path: Path) -> None:
    script = written(tmp_path / "s.py", "import sys, torch\nprint(torch.ones(int(sys.argv[1])).sinh().shape)")
    (tmp_path / "cache").mkdir()
    out, told, kernels = warmed(tmp_path / "cache", script, "3")
    assert out == "torch.Size([3])\n"
    assert f"kernels are kept in {tmp_path / 'cache'}" in told and "compiled sinh" in told
    assert any(name.startswith("sinh_f4") for name in kernels)
    assert "compiled" not in warmed(tmp_path / "cache", script, "3")[1]


@pytest.mark.slow
def test_a_warmup_without_a_script_serves_a_first_step(tmp_path: Path) -> None:
    warmed(tmp_path)
    step = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU(), torch.nn.Linear(4, 3))
optimizer = torch.optim.AdamW(net.parameters())
torch.nn.functional.cross_entropy(net(torch.randn(5, 8)), torch.tensor([0, 1, 2, 0, 1])).backward()
optimizer.step()
"""
    assert "compiled" not in warmed(tmp_path, written(tmp_path / "step.txt", step))[1]


def test_usage() -> None:
    for arguments in (["-m", "nbgrad"], ["-m", "nbgrad", "walk", "x"]):
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("usage: python -m nbgrad run script.py")
    for arguments in (["--help"], ["-h"]):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "") and out.startswith("usage: python -m nbgrad run script.py")


OLD_TRANSFORMS = """
import warnings
warnings.simplefilter("ignore")
import torch, functorch
from functorch import combine_state_for_ensemble, grad, make_functional, make_functional_with_buffers, vmap

model = torch.nn.Linear(2, 1)
with torch.no_grad():
    model.weight.fill_(2.0), model.bias.fill_(1.0)
f, p = make_functional(model)
print(type(f).__name__, [tuple(q.shape) for q in p], [q.requires_grad for q in p], f(p, torch.ones(1, 2)))
print([q.requires_grad for q in make_functional(model, disable_autograd_tracking=True)[1]])
print(grad(lambda p: f(p, torch.ones(3, 2)).sum())(p))
norm = torch.nn.BatchNorm1d(2)
f, p, b = make_functional_with_buffers(norm)
print(f(p, b, torch.tensor([[1.0, 0.0], [3.0, 4.0]])).shape, b, norm.running_mean)
print(vmap(combine_state_for_ensemble([model, model])[0], (0, 0, None))(*combine_state_for_ensemble([model, model])[1:], torch.ones(3, 2)))
warnings.simplefilter("error")
for call in (lambda: functorch.jacrev(torch.sin), lambda: make_functional(norm)):
    try:
        call()
    except FutureWarning as told:
        print(told)
warnings.simplefilter("ignore")
for call in (lambda: make_functional(norm), lambda: combine_state_for_ensemble([])):
    try:
        call()
    except RuntimeError as error:
        print(error)
from functorch.compile import make_boxed_compiler, make_boxed_func, min_cut_rematerialization_partition
boxed = make_boxed_func(lambda a, b: a - b)
print(boxed([torch.tensor(3), 1]), boxed._boxed_call, make_boxed_compiler(lambda program, inputs: program)(max, None)([2, 3]))
"""


@pytest.mark.oracle
def test_functorch(tmp_path: Path, torch: object) -> None:
    """The older package of transforms, whose names warn of the newer ones."""
    path = written(tmp_path / "old.py", OLD_TRANSFORMS)
    (code, out, err), (_, want, _) = run(path), run(path, nbgrad=False)
    assert (code, err, out) == (0, "", want)
