"""Texts whose threads wait for each other: a block gives what CUDA promises, in every order, and what it does not promise is seen."""

import numpy as np
import pytest

from nbgrad.kernels.cuda.emulate import Unemulable, emulated
from tests.cuda.emulation import alike, seen, without_barriers

HEAD = "from numba import cuda\nimport numpy as np\nA = np.float64\n"
SUM = (
    HEAD
    + """
def @NAME@(n, meta, o, x):
    part = cuda.shared.array(256, A)
    t = cuda.threadIdx.x
    for item in range(cuda.blockIdx.x, n, cuda.gridDim.x):
        total = A(0)
        k = t
        while k < meta[0]:
            total = total + A(x[item * meta[0] + k])
            k += 256
        part[t] = total
        cuda.syncthreads()
        for level in range(8):
            half = 128 >> level
            if t < half:
                part[t] = part[t] + part[t + half]
            cuda.syncthreads()
        if t == 0:
            o[item] = part[0]
        cuda.syncthreads()
"""
)
PARAMS = ["i8", "*i8", "*f8", "*f4"]


def sums(source: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    x = np.random.default_rng(0).standard_normal((5, 1000)).astype(np.float32)
    _, found, _ = alike("sums", source, PARAMS, 2, [5, np.array([1000]), np.zeros(5), x])
    assert np.allclose(found, x.sum(1, dtype=np.float64), rtol=1e-12)
    return found


def test_a_block_adds_up_by_a_tree() -> None:
    sums(SUM)


def test_each_barrier_is_missed() -> None:
    texts = list(without_barriers(SUM))
    assert len(texts) == 3
    for text in texts:
        assert seen(lambda text=text: sums(text))


def test_what_threads_keep_over_a_barrier_is_theirs() -> None:
    text = f"""{HEAD}
def @NAME@(n, o):
    part = cuda.shared.array(256, np.int64)
    mine = cuda.local.array(2, np.int64)
    t = cuda.threadIdx.x
    kept = t * t
    mine[0] = t
    mine[1] = kept + 1
    part[t] = t
    cuda.syncthreads()
    other = part[255 - t]
    cuda.syncthreads()
    if t >= n:
        kept += other
    o[t] = kept + mine[0] + mine[1]
"""
    (found,) = alike("kept", text, ["i8", "*i8"], 1, [200, np.zeros(256, np.int64)])
    t = np.arange(256)
    assert (found == 2 * t * t + 1 + t + np.where(t >= 200, 255 - t, 0)).all()


@pytest.mark.parametrize(
    ("shuffle", "source"),
    [
        ("shfl_down_sync({}, v, 3)", lambda t: np.where(t % 32 + 3 < 32, t + 3, t)),
        ("shfl_up_sync({}, v, 2)", lambda t: np.where(t % 32 >= 2, t - 2, t)),
        ("shfl_xor_sync({}, v, 5)", lambda t: t ^ 5),
        ("shfl_sync({}, v, 7)", lambda t: t // 32 * 32 + 7),
    ],
)
def test_shuffles(shuffle: str, source: object) -> None:
    assert callable(source)
    call = shuffle.format("0xFFFFFFFF")
    text = f"{HEAD}def @NAME@(n, o):\n t = cuda.threadIdx.x\n v = t * n\n w = cuda.{call}\n o[t] = w"
    (found,) = alike("shuffled", text, ["i8", "*i8"], 1, [3, np.zeros(256, np.int64)])
    assert (found == 3 * source(np.arange(256))).all()


def test_memory_that_nobody_has_written_is_no_number() -> None:
    text = f"{HEAD}def @NAME@(n, o):\n part = cuda.shared.array(256, A)\n o[cuda.threadIdx.x] = part[n]"
    (found,) = alike("unwritten", text, ["i8", "*f8"], 1, [3, np.zeros(256)])
    assert np.isnan(found).all()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if t < 3:\n        cuda.syncthreads()", "wait for each other in `if t < 3:`"),
        (
            "for k in range(t):\n        cuda.syncthreads()",
            r"a loop over `range\(t\)`, which they may not share",
        ),
        ("while n > 0:\n        cuda.syncthreads()", "wait for each other in `while n > 0:`"),
        ("part[t] = 1\n    v = cuda.shfl_sync(0xFFFFFFFF, n, 0)\n    o[t] = part[0]", "who writes `part`"),
        (
            "for k in range(n):\n        part[t] = part[t + k]",
            "a loop that writes `part` and reads it elsewhere",
        ),
        ("for k in range(n):\n        k = 3\n        cuda.syncthreads()", "`k`, which counts a loop"),
        ("v = cuda.shfl_sync(3, n, 0)", "a shuffle of some lanes"),
        (
            "for k in range(n):\n        part[t] = k\n        cuda.syncthreads()\n        o[t] = part[255]",
            "who writes `part`",
        ),
        (
            "for k in range(n):\n        o[t] = o[255 - t]\n        v = cuda.shfl_sync(0xFFFFFFFF, n, 0)",
            "who writes `o`",
        ),
        ("v = o\n    cuda.syncthreads()\n    w = v[0]\n    v = o", "of what type is `v`"),
        ("mine = cuda.local.array(n, A)", "the size or type of an array"),
    ],
)
def test_what_is_refused_is_named(body: str, says: str) -> None:
    text = f"{HEAD}def @NAME@(n, o):\n    part = cuda.shared.array(256, A)\n    t = cuda.threadIdx.x\n    {body}\n"
    with pytest.raises(Unemulable, match=f"^odd: .*{says}"):
        emulated("odd", text, ["i8", "*i8"])
