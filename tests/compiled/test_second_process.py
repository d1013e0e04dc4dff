"""What one process compiled another runs: of a step that was compiled before no kernel is compiled again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_STEP = """
import nbgrad as torch
from nbgrad import nn
torch.manual_seed(0)
F = nn.functional
model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = torch.randn(8, 16), torch.arange(8) % 4

@torch.compile(fullgraph=True)
def step():
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

for _ in range(6):
    loss = step()
print(step.explain().graph_count, loss.item().hex())
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "NBGRAD_CACHE_DIR": str(tmp_path), "NBGRAD_COMPILE_LOG": "1"}
    told = [
        subprocess.run([sys.executable, "-c", _STEP], env=env, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert told[0].stdout == told[1].stdout and told[1].stdout.startswith("1 ")
    assert "nbgrad: compiled " in told[0].stderr
    assert "nbgrad: compiled " not in told[1].stderr


def test_compiles_after_an_override() -> None:
    """The first step of a process in which a class overrides functions already: it ended in a KeyError."""
    program = """
import nbgrad as torch
class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args):
        return super().__torch_function__(*args)
torch.ones(1).as_subclass(Own)
p = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([p], lr=0.5)
@torch.compile(fullgraph=True)
def step(x):
    optimizer.zero_grad()
    (p * x).sum().backward()
    optimizer.step()
for _ in range(4):
    step(torch.ones(2))
print(p.tolist(), step.explain().graph_count)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "[-1.0, -1.0] 1\n"
