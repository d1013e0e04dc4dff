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
