"""`python -m nbgrad run script.py`: the script sees nbgrad as torch, and all else as under `python script.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import T


def run(*arguments: str, cwd: Path | None = None, nbgrad: bool = True) -> tuple[int, str, str]:
    command = [sys.executable, *(["-m", "nbgrad", "run"] if nbgrad else []), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
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
w = nn.Parameter(torch.zeros(2))
optimizer = optim.SGD([w], lr=0.5)
schedule = schedules.StepLR(optimizer, 1)
x = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
for (batch,) in DataLoader(TensorDataset(x), batch_size=2):
    F.relu(batch @ w + 1).sum().backward()
    optimizer.step()
    schedule.step()
print(w.tolist(), optimizer.param_groups[0]["lr"])
print(torch.autograd.functional.jacobian(torch.sin, torch.zeros(1)))
"""


def test_a_training_script(tmp_path: Path) -> None:
    code, out, err = run(written(tmp_path / "train.py", TRAINING))
    assert (code, err) == (0, "")
    assert out == "[-2.0, -0.5] 0.05\ntensor([[1.]])\n"


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
    assert last == f"False torch 2.13.0+nbgrad.{version}"


def test_usage() -> None:
    for arguments in (["-m", "nbgrad"], ["-m", "nbgrad", "walk", "x"]):
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("usage: python -m nbgrad run script.py")
