"""Launching from threads and from forked processes, and products by BLAS among them."""

import subprocess
import sys

import pytest

from tests.support import T

# Four threads launch parallel kernels at once; then a forked child, whose parent has helpers that it has not, does too.
PROGRAM = """
import os, sys, threading
import nbgrad as torch
from nbgrad.kernels import launch
launch.set_num_threads(int(sys.argv[1]))
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


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads_and_forks(threads: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, threads],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "right"), done.stderr


def test_number_of_threads_is_checked() -> None:
    import nbgrad

    with pytest.raises(RuntimeError, match="set_num_threads expects a positive integer"):
        nbgrad.set_num_threads(0)
    with pytest.raises(RuntimeError, match="expects an int, but got str"):
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


def test_a_range_is_run_once_however_it_is_cut() -> None:
    """Sizes around the pieces' limits, with more threads than pieces, after helpers have gone to sleep and while they are awake."""
    import time

    import nbgrad

    before = nbgrad.get_num_threads()
    try:
        for threads in (2, 3, 40):
            nbgrad.set_num_threads(threads)
            for n in (16384, 16385, 20001, 65537):
                x = nbgrad.zeros(n)
                for _ in range(20):
                    x.add_(1)
                time.sleep(0.002)
                x.add_(1)
                assert bool((x == 21).all())
    finally:
        nbgrad.set_num_threads(before)


def test_blas_keeps_to_one_thread_while_ours_multiply() -> None:
    import numpy as np

    import nbgrad
    from nbgrad.kernels import products

    blas = products.found()
    if blas is None:  # NumPy multiplies by another library than that of its wheels
        return
    before = nbgrad.get_num_threads(), blas.threads()
    seen = []
    a, b = np.random.default_rng(0).standard_normal((2, 130, 130))
    try:
        blas.set_threads(2)
        for threads in (1, 2):
            nbgrad.set_num_threads(threads)
            assert np.allclose((nbgrad.from_numpy(a) @ nbgrad.from_numpy(b)).numpy(), a @ b)
            products.alone(lambda: seen.append(blas.threads()))()
            assert blas.threads() == 2
            with pytest.raises(ZeroDivisionError):
                products.alone(lambda: 1 // 0)()
            assert blas.threads() == 2
        assert seen == [1, 1]
    finally:
        nbgrad.set_num_threads(before[0])
        blas.set_threads(before[1])


@pytest.mark.parametrize("setter", ["set_num_threads", "set_num_interop_threads"])
@pytest.mark.parametrize(("count", "kind"), [(2**31, "long"), (-(2**31) - 1, "long"), (2**63, "long long")])
def test_more_threads_than_an_int_counts(setter: str, count: int, kind: str) -> None:
    """They were started, one after another, until there was no memory left."""
    before = T.get_num_threads()
    with pytest.raises(ValueError, match=f"^Overflow when unpacking {kind}$"):
        getattr(T, setter)(count)
    assert T.get_num_threads() == before
