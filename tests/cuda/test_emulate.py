"""CUDA's texts run on the CPU: what is rewritten, what is refused, and that a grid leaves what the CPU's kernel does."""

import numpy as np
import pytest

from nbgrad.kernels import build, calls
from nbgrad.kernels.cuda.emulate import Unemulable, emulated
from nbgrad.kernels.cuda.spread import spread
from tests.cuda.emulation import alike, kinds
from tests.cuda.texts import Table, backwards, given, kept, of_host, one_in, spread_of

HEAD = "from numba import cuda\n"


def test_threads_go_round_with_the_grid() -> None:
    text = f"{HEAD}def @NAME@(n, o):\n for i in range(cuda.grid(1), n, cuda.gridsize(1)): o[i] += i"
    for n, blocks in ((1000, 4), (1000, 1), (256, 3), (0, 1)):
        (found,) = alike("counted", text, ["i8", "*i8"], blocks, [n, np.ones(1200, np.int64)])
        assert found.tolist() == [i + 1 if i < n else 1 for i in range(1200)]


def test_a_thread_that_returns_leaves_the_others() -> None:
    text = f"{HEAD}def @NAME@(n, o):\n if cuda.threadIdx.x >= n:\n  return\n o[cuda.blockIdx.x * n + cuda.threadIdx.x] = 1"
    (found,) = alike("returned", text, ["i8", "*i8"], 2, [3, np.zeros(8, np.int64)])
    assert found.tolist() == [1, 1, 1, 1, 1, 1, 0, 0]


def test_one_thread_alone_may_return_from_anywhere() -> None:
    text = "def @NAME@(start, stop, o):\n at = start\n while at < stop:\n  if o[at]:\n   return\n  o[at] = 7\n  at += 1"
    source, params = spread("ends", text, ["i8", "i8", "*i8"], alone=True)
    (found,) = alike("ends", source, params, 2, [5, np.array([0, 0, 1, 0, 0])])
    assert found.tolist() == [7, 7, 1, 0, 0]


def test_an_order_that_matters_is_seen() -> None:
    text = f"{HEAD}def @NAME@(n, o):\n o[0] = cuda.grid(1)"
    with pytest.raises(AssertionError, match="depends on the order of threads"):
        alike("raced", text, ["i8", "*i8"], 1, [1, np.zeros(1, np.int64)])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("for i in range(n):\n  if o[i]: return", "returns out of a loop"),
        ("for i in range(cuda.grid(1), n, cuda.gridsize(1)):\n  n = i", "sets what its range is made of"),
        ("o[0] = cuda.laneid", "asks for cuda.laneid"),
        ("block_ = 1", "the name `block_`"),
    ],
)
def test_what_is_refused_is_named(body: str, says: str) -> None:
    with pytest.raises(Unemulable, match=f"^odd: .*{says}"):
        emulated("odd", f"{HEAD}def @NAME@(n, o):\n {body}", ["i8", "*i8"])


@pytest.mark.cuda
def test_all_that_is_spread_is_emulated(table: Table) -> None:
    for text in table:
        made = None if of_host(text) else spread_of(text, table[text])
        if made is not None:
            emulated(text.name, *made)


@pytest.mark.cuda
def test_a_grid_writes_what_the_cpu_writes(table: Table, whole: bool) -> None:
    """To the bit, in every order, with as many blocks as hold all items and with fewer."""
    launched = [
        text
        for text, launch in table.items()
        if launch is not None and not of_host(text) and not backwards(text, launch)
    ]
    compared = 0
    for text in launched if whole else one_in(16, launched):
        launch = table[text]
        assert launch is not None
        made = spread_of(text, launch)
        if made is None:
            continue
        source, params = made
        expected = given(text, launch)
        compiled = build.kernel(text.name, text.source, text.params)
        calls.by_ctypes(kinds(text.params[2:]))(compiled.address, launch.items, *expected)
        for blocks in (1, 3):
            found = alike(text.name, source, params, blocks, [launch.items, *given(text, launch)])
            assert kept(text, found) == kept(text, expected), f"{text.name} {text.params}"
        compared += 1
    assert compared > 100
