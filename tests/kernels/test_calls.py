"""One function for every list of arguments: what a kernel is passed, and what Python is told of what cannot be."""

import gc
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import build, calls


def written(kinds: str) -> str:
    """A kernel in LLVM's language that writes all that it is given to the buffer that it is given first."""
    types = {"b": "ptr", "q": "i64", "d": "double"}
    params = ", ".join(["i64 %start", "i64 %stop", *(f"{types[k]} %a{n}" for n, k in enumerate(kinds))])
    lines = [("i64", "%start"), ("i64", "%stop"), *((types[k], f"%a{n}") for n, k in enumerate(kinds))]
    body = []
    for n, (kind, name) in enumerate(lines):
        body += [f"  %p{n} = getelementptr i64, ptr %a0, i64 {n}", f"  store {kind} {name}, ptr %p{n}"]
    return "\n".join([f"define void @written({params}) {{", *body, "  ret void", "}"])


def drawn(kinds: str) -> list[Any]:
    source = random.Random(kinds)
    return [
        np.zeros(8, np.uint8)
        if k == "b"
        else source.randrange(-(2**62), 2**62)
        if k == "q"
        else source.random()
        for k in kinds
    ]


def passed(call: Callable[..., None], kinds: str) -> None:
    address = build.native("written", written(kinds), ["written"], "test")["written"]
    given = drawn(kinds)
    given[0] = np.zeros(8 * (len(kinds) + 2), np.uint8)
    assert call(address, 77, *given) is None
    got = given[0].view(np.int64)
    assert got[:2].tolist() == [0, 77]
    for k, value, word in zip(kinds, given, got[2:]):
        want = value.ctypes.data if k == "b" else np.array(value).view(np.int64) if k == "d" else value
        assert word == want


LISTS = [
    *("b", "bb", "bbbb", "bbbbb", "bbbbbbbbb", "bd", "bdq", "bqd", "bbbbdddd", "bqqqqqqqqqqq"),
    *("b" + "d" * n for n in (8, 9, 12, 40)),
    *("b" + "qd" * n for n in (4, 9, 20, 60)),
    *("b" * n + "dq" * n for n in (5, 30)),
    "b" * 120,
]


@pytest.mark.parametrize("kinds", LISTS)
def test_a_kernel_gets_what_it_is_given(kinds: str) -> None:
    assert calls.fits(kinds) or not calls.GENERAL
    if calls.GENERAL:
        passed(calls.function("quick", kinds), kinds)
        passed(calls.function("free", kinds), kinds)
    passed(calls.by_ctypes(kinds), kinds)


def test_what_does_not_fit_is_left_to_ctypes() -> None:
    from nbgrad.kernels.launch import launcher

    kinds = "b" * 200
    assert not calls.fits(kinds)
    for parallel in (False, True):
        passed(launcher(200, "", parallel), kinds)


def test_a_shared_range_is_passed_in_pieces() -> None:
    from nbgrad.kernels import crew

    kinds = "b" + "q" * 12 + "d" * 12
    if not calls.GENERAL:
        return
    share = calls.function("shared", kinds)
    passed(lambda address, n, *rest: share(address, n, crew.hire(1), 1, 1, *rest), kinds)


@pytest.mark.parametrize("way", ["quick", "free", "shared"])
def test_what_cannot_be_passed_is_told(way: str) -> None:
    if not calls.GENERAL:
        return
    call, crew = calls.function(way, "bqd"), (0, 0, 1) if way == "shared" else ()
    b = np.zeros(8, np.uint8)
    with pytest.raises(TypeError):
        call(0, 1, *crew, b, 1)
    with pytest.raises(TypeError):
        call(0, 1, *crew, b, [], 1.0)
    with pytest.raises(TypeError):
        call(0, 1, *crew, b, 1, [])
    with pytest.raises(TypeError):
        call(None, 1, *crew, b, 1, 1.0)
    with pytest.raises(TypeError):
        call(0, [], *crew, b, 1, 1.0)
    with pytest.raises(TypeError):
        call(0, 1, *crew, b, 1, 1.0, 1.0)
    for large in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            call(0, 1, *crew, b, large, 1.0)
    if crew:
        with pytest.raises(TypeError):
            call(0, 1, 0, None, 1, b, 1, 1.0)


def test_numbers_of_other_types() -> None:
    """As Numba took them: what has an integer's value, or a float's; -1, which Python's interface gives for an error, too."""
    call = calls.function("quick", "bqd") if calls.GENERAL else calls.by_ctypes("bqd")
    address = build.native("written", written("bqd"), ["written"], "test")["written"]
    out = np.zeros(40, np.uint8)
    for whole, real in ((-1, -1.0), (True, 2), (np.int64(-1), np.float32(-1)), (np.int8(3), np.float64(0.5))):
        call(address, -1, out, whole, real)
        assert out.view(np.int64)[[1, 3]].tolist() == [-1, int(whole)]
        assert out.view(np.float64)[4] == float(real)
    if calls.GENERAL:
        call(address, 0, out, 2.75, 1.0)
        assert out.view(np.int64)[3] == 2


def test_nothing_is_kept_of_what_is_passed() -> None:
    call = calls.function("quick", "bqd") if calls.GENERAL else calls.by_ctypes("bqd")
    address = build.native("written", written("bqd"), ["written"], "test")["written"]
    out, number = np.zeros(40, np.uint8), 12345.678
    before = sys.getrefcount(out), sys.getrefcount(number), sys.getrefcount(None)
    for _ in range(1000):
        call(address, 1, out, 2.75, number)
    after = sys.getrefcount(out), sys.getrefcount(number), sys.getrefcount(None)
    assert after[:2] == before[:2]
    assert abs(after[2] - before[2]) < 100


def test_a_function_outlives_what_python_has_let_go_of() -> None:
    """One that is called, and counted down, in the last collection of a process."""
    program = (
        "import nbgrad as torch, gc\n"
        "class Last:\n"
        "    def __init__(self): self.me, self.x, self.mul = self, torch.ones(3), torch.mul\n"
        "    def __del__(self, print=print): print((self.x * 2).tolist())\n"
        "last = Last()\n"
        "(last.x * 2).sum(); (torch.ones(100_000) * 2).sum()\n"
        "gc.disable()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_list_is_part_of_its_function() -> None:
    """`self` is a text that lives as long as the function."""
    made = [calls.function("quick", "b" + "q" * n) for n in range(1, 50)] if calls.GENERAL else []
    gc.collect()
    for n, call in enumerate(made, 1):
        address = build.native("written", written("b" + "q" * n), ["written"], "test")["written"]
        out = np.zeros(8 * (n + 3), np.uint8)
        call(address, 0, out, *range(n))
        assert out.view(np.int64)[3:].tolist() == list(range(n))
