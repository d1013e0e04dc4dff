"""Compiled functions of numbers and arrays: what goes in and comes out, what is kept on disk, who may have written it."""

import gc
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import nbgrad
from nbgrad.kernels import entries, functions

pytestmark = pytest.mark.skipif(not entries.HERE, reason="no images on this machine")


def parts(x, n, flag):
    y = np.zeros((n, 2))
    if n > 3:
        raise ValueError("too many")
    for i in range(n):
        y[i, 0] = x[i]
    if flag:
        x[0] = 7.0
    return y, x[0], flag, n, x


TEXT = "def parts(x, n, flag):\n" + "\n".join(
    [
        *("    y = np.zeros((n, 2))", "    if n > 3:", "        raise ValueError('too many')"),
        *("    for i in range(n):", "        y[i, 0] = x[i]", "    if flag:", "        x[0] = 7.0"),
        "    return y, x[0], flag, n, x\n",
    ]
)


def made(text: str = TEXT, name: str = "parts") -> functions.Compiled:
    return functions.Compiled(functions.plain(name, text, {}, "a test"), text, {})


@pytest.mark.slow
def test_arguments_of_another_kind_than_the_last_call_s_are_seen() -> None:
    text = "def kind(x, a):\n    return x[0, 1] + a\n"
    f = made(text, "kind")
    x = np.arange(6.0).reshape(2, 3)
    lay = [x, x.T, np.asfortranarray(x), np.arange(24.0).reshape(4, 6)[::2, ::2], x[:1, :2], x[:, 1:]]
    lay += [x.astype(np.float32), x.astype(np.int64), x.view(type("Own", (np.ndarray,), {}))]
    apart = np.empty(6 * 8 + 1, np.uint8)[1:].view(np.float64).reshape(2, 3)  # not where a float may stand
    apart[...] = x
    lay.append(apart)
    for a in lay * 2:
        for number in (1.5, 2, True, np.float64(0.5), np.float32(0.25)):
            for _ in range(2):
                assert f(a, number) == a[0, 1] + number
    with pytest.raises(TypeError):
        f(x, 1.0, 2.0)
    with pytest.raises(TypeError):
        f(x)
    assert f(x, 1.0) == 2.0


@pytest.mark.slow
def test_arguments_and_results_of_every_kind() -> None:
    f = made()
    draw = np.random.default_rng(0)
    for dtype in (np.float64, np.float32, np.int32):
        for lay in (lambda a: a, lambda a: a[::2], lambda a: a[::-1], lambda a: a[1:]):
            x = lay(draw.integers(0, 9, 8).astype(dtype))
            want = parts(x.copy(), 2, True)
            y, first, flag, n, same = f(x, np.int16(2), np.bool_(True))
            assert np.array_equal(y, want[0]) and first == 7 and (flag, n) == (True, 2)
            assert type(flag) is bool and type(n) is int
            assert np.shares_memory(same, x) and same.dtype == x.dtype and same.strides == x.strides
            assert not np.shares_memory(y, x) and y.flags.writeable
    assert all(isinstance(e, entries.Entry) for e in f._entries.values())
    with pytest.raises(ValueError, match="too many"):
        f(np.ones(5), 4, False)
    held = f(np.ones(5), 2, False)[4]  # whose argument is gone
    gc.collect()
    assert held.tolist() == [1.0] * 5
    fixed = np.ones(3)
    fixed.flags.writeable = False
    assert not f(fixed, 1, False)[4].flags.writeable
    with pytest.raises(TypeError):
        f._entries["float64:1C", "q", "?"](np.ones(3), 2.5, False)
    with pytest.raises(TypeError):
        f._entries["float64:1C", "q", "?"](np.ones((3, 3)), 2, False)
    with pytest.raises(TypeError):
        f._entries["float64:1C", "q", "?"](None, 2, False)


@pytest.mark.slow
def test_what_no_image_can_be_made_of_is_numbas() -> None:
    f = made()
    odd = np.frombuffer(bytearray(41), np.float64, 5, 1)
    assert not odd.flags.aligned
    assert f(odd, 1, True)[1] == 7.0
    assert f._entries["", "q", "?"] is f.jitted


@pytest.mark.slow
def test_memory_is_given_back() -> None:
    f = made("def parts(n):\n    y = np.zeros(n)\n    z = y[1:]\n    return y, z\n")
    import resource

    for k in range(300):
        y, z = f(1 << 17)  # 1 MB
        y[1] = k
        assert z[0] == k
        if k == 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del y
    assert z[0] == 299.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.slow
def test_threads() -> None:
    f = made(
        "def parts(x, a):\n    s = 0.0\n    for i in range(len(x)):\n        s += a * x[i]\n    return s\n"
    )
    wrong: list[float] = []
    x = np.ones(100)

    def work(k: int) -> None:
        for _ in range(500):
            found = f(x, float(k))
            wrong.extend([] if found == 100.0 * k else [found])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


PROGRAM = """
import math, sys, time
import numpy as np
import nbgrad

@nbgrad.differentiable
def f(x, a):
    s = 0.0
    for i in range(len(x)):
        s += math.exp(x[i] * a)
    return s

x = np.arange(3.0)
begin = time.process_time()
made = f._make("adjoint", f._kinds((x, 0.5)), None)
written = time.process_time()
value, (by_x, by_a) = f.value_and_grad(x, 0.5)
print("numba" in sys.modules, float(value), by_x.tolist(), float(by_a), time.process_time() - written)
"""


@pytest.mark.slow
def test_a_second_process_reads_it_without_numba(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o700)

    def run() -> list[str]:
        environment = {
            "NBGRAD_CACHE_DIR": str(kept),
            "PATH": "",
            "PYTHONPATH": str(Path(nbgrad.__file__).parents[1]),
        }
        done = subprocess.run(
            [sys.executable, str(tmp_path / "program.py")], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    first, second = run(), run()
    assert (first[0], second[0]) == ("True", "False") and first[1:-1] == second[1:-1]
    assert float(second[-1]) < 0.25  # some 0.005 s where nobody else computes
    (found,) = kept.glob("f_adjoint*.entry")
    assert found.with_suffix(".py").read_text().startswith("def f_adjoint(")
    data = bytearray(found.read_bytes())
    data[-9] ^= 1  # what somebody has changed is not run, but made again
    found.write_bytes(bytes(data))
    assert run()[0] == "True"
    assert run()[0] == "False"
