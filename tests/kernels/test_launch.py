"""Launching from threads and from forked processes, under both of Numba's threading layers."""

import os
import subprocess
import sys

import pytest

# Two threads launch parallel kernels at once; then a forked child, whose parent has used threads, does too.
PROGRAM = """
import os, threading
import nbgrad as torch
from nbgrad.kernels import launch
launch.set_num_threads(2)
x = torch.arange(100_000.0)
want = float((x * x).detach()[99_999])
bad = []
def work():
    for _ in range(50):
        y = x * x
        if float(y[99_999]) != want or float(y[1]) != 1.0:
            bad.append(y)
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not bad
pid = os.fork()
if pid == 0:
    work()
    os._exit(1 if bad else 0)
assert os.waitpid(pid, 0)[1] == 0
work()
print("right")
"""


@pytest.mark.parametrize("layer", ["workqueue", "omp"])
def test_threads_and_forks(layer: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "right"), done.stderr


def test_number_of_threads_is_checked() -> None:
    import nbgrad

    with pytest.raises(RuntimeError, match="set_num_threads expects a positive integer"):
        nbgrad.set_num_threads(0)
    with pytest.raises(TypeError):
        nbgrad.set_num_threads("2")  # type: ignore[arg-type]
    before = nbgrad.get_num_threads()
    nbgrad.set_num_threads(1)
    assert nbgrad.get_num_threads() == 1
    nbgrad.set_num_threads(before)


def test_sum_does_not_depend_on_threads() -> None:
    import numpy as np

    import nbgrad

    values = np.random.default_rng(0).standard_normal(300_003).astype(np.float32)
    x, before = nbgrad.from_numpy(values), nbgrad.get_num_threads()
    sums = []
    for n in (1, 2):
        nbgrad.set_num_threads(n)
        sums.append((float(x.sum()), x.reshape(3, -1).sum(0).tolist()))
    nbgrad.set_num_threads(before)
    assert sums[0] == sums[1]
    assert sums[0][0] == pytest.approx(float(values.astype(np.float64).sum()), rel=1e-6)
