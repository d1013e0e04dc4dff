"""The host's whole way to a GPU, over a driver that counts and runs no kernel: launches, memory, copies, errors, time."""

import pytest

from tests.cuda.null import play

pytestmark = pytest.mark.cuda

MLP = """
from nbgrad import nn
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to("cuda")
x, y = torch.randn(32, 64).to("cuda"), torch.randn(32, 10).to("cuda")
loss = nn.MSELoss()

def step():
    model.zero_grad()
    loss(model(x), y).backward()

step()
step()
"""


def test_a_step_uploads_nothing_and_waits_for_nothing() -> None:
    out = play(MLP + "print(null.asked(step))")
    found = eval(out)
    assert set(found) <= {"launches", "copies"}
    assert found["launches"] <= 20


def test_a_thousand_steps_leave_nothing_behind() -> None:
    out = play(
        MLP
        + """
from nbgrad.memory import gpu
pool = gpu.of(torch.device("cuda")).pool
before, lent = null.bytes, pool.all.count
for _ in range(1000):
    step()
print(null.bytes - before, pool.all.count - lent)
"""
    )
    assert out.split() == ["0", "0"]


def test_the_host_is_quick() -> None:
    """Generously: the machine may be busy."""
    out = play(
        MLP
        + """
import time
a, b = torch.ones(4).to("cuda"), torch.ones(4).to("cuda")
def took(f, count):
    f()
    best = 1e9
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            f()
        best = min(best, (time.perf_counter() - start) / count * 1e6)
    return best
print(took(lambda: a * b, 2000), took(step, 40))
"""
    )
    product, whole = map(float, out.split())
    assert product < 30 and whole < 3000
