"""Products by cuBLAS without it: what it would be asked is done by NumPy on a device that the CPU plays, and a library that only writes
down what it was given stands beside the null driver."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels.cuda import blas
from nbgrad.memory import backend
from tests.compare import assert_same
from tests.cuda.null import library, play
from tests.support import T

NUMPYS = {"f4": np.float32, "f8": np.float64, "f2": np.float16}


def _matrix(address: int, code: str, shape: tuple[int, int], steps: tuple[int, int]) -> Any:
    """A matrix by its first element, as far as it reaches."""
    kind = np.dtype(NUMPYS[code])
    most = sum((n - 1) * s for n, s in zip(shape, steps)) + 1
    memory = (ctypes.c_char * (most * kind.itemsize)).from_address(address)
    return np.ndarray(shape, kind, memory, 0, tuple([s * kind.itemsize for s in steps]))


class Played:
    """Of cuBLAS, which counts by columns: o = op(y) @ op(x)."""

    def __init__(self) -> None:
        self.asked: list[blas.Gemm] = []

    def gemm(self, g: blas.Gemm, x: int, y: int, o: int, room: int, stream: int) -> None:
        self.asked.append(g)
        size, kind = np.dtype(NUMPYS[g.code]).itemsize, np.float64 if g.code == "f8" else np.float32
        for (rows, columns), turned, line in zip(((g.m, g.k), (g.k, g.n)), g.turned, g.lines, strict=True):
            assert line >= (columns if turned else rows)
        assert room
        for k in range(g.matrices):
            places = y + k * g.steps[0] * size, x + k * g.steps[1] * size
            first, second = (
                _matrix(at, g.code, shape, (line, 1) if turned else (1, line))
                for at, shape, turned, line in zip(places, ((g.m, g.k), (g.k, g.n)), g.turned, g.lines)
            )
            made = _matrix(o + k * g.step * size, g.code, (g.m, g.n), (1, g.m))
            made[...] = first.astype(kind) @ second.astype(kind)


@pytest.mark.emulated
@pytest.mark.parametrize("dtype", [T.float32, T.float16])
def test_products_are_asked_of_the_library(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    driver: Any = backend.of(T.device("cuda", 0)).driver
    played = Played()
    monkeypatch.setattr(driver, "blas", played)
    monkeypatch.setattr(blas, "FEWEST", 0)
    a, b, c = T.randn(5, 7, dtype=dtype), T.randn(7, 3, dtype=dtype), T.randn(4, 5, 7, dtype=dtype)
    v, wide = T.randn(7, dtype=dtype), T.randn(9, 10, dtype=dtype)
    F = T.nn.functional
    programs = (
        lambda a, b, c, v, wide: a @ b,
        lambda a, b, c, v, wide: a.t().contiguous().t() @ b,
        lambda a, b, c, v, wide: a @ b.t().contiguous().t(),
        lambda a, b, c, v, wide: a.t() @ a,
        lambda a, b, c, v, wide: wide[:5, 1:8] @ wide[1:8, 2:5],
        lambda a, b, c, v, wide: wide.t()[:5, 1:8] @ wide.t()[1:8, 2:5],
        lambda a, b, c, v, wide: wide[::2, ::2] @ wide[::2, ::2],  # which cuBLAS cannot read
        lambda a, b, c, v, wide: c @ b,
        lambda a, b, c, v, wide: T.bmm(c, c.mT),
        lambda a, b, c, v, wide: T.bmm(c.mT, c),
        lambda a, b, c, v, wide: c.transpose(0, 1) @ b,
        lambda a, b, c, v, wide: a @ v,
        lambda a, b, c, v, wide: v @ b,
        lambda a, b, c, v, wide: a[:1] @ b,
        lambda a, b, c, v, wide: a @ b[:, :1],
        lambda a, b, c, v, wide: T.addmm(a[:, :3], a, b),
        lambda a, b, c, v, wide: F.linear(c, a),
        lambda a, b, c, v, wide: T.einsum("bik,kj->bij", c, b),
    )
    for k, program in enumerate(programs):
        before, found = len(played.asked), []
        g = T.randn(*program(a, b, c, v, wide).shape, dtype=dtype)
        for where in ("cuda", "cpu"):
            given = [t.detach().to(where).requires_grad_() for t in (a, b, c, v, wide)]
            y = program(*given)
            y.backward(g.to(where))
            found.append([y.detach().cpu(), *[t.grad.cpu() for t in given if t.grad is not None]])
        assert_same(found[0], found[1], f"{k}", tol=4)
        assert (len(played.asked) > before) is (k != 6)
    many = len(played.asked)
    (T.ones(3, 3, device="cuda", dtype=T.int64) @ T.ones(3, 3, device="cuda", dtype=T.int64)).tolist()
    T.ones(3, 0, device="cuda") @ T.ones(0, 3, device="cuda")
    assert len(played.asked) == many  # what is no float, or nothing, our own kernels do


@pytest.mark.cuda
def test_small_products_are_our_own() -> None:
    args = ("f4", (31, 32, 32, 1), (32, 32, 32, 1), (0, 0), 1)
    assert blas.gemm_of(*args) is None
    large = blas.gemm_of("f4", (32, 32, 32, 1), (32, 32, 32, 1), (0, 0), 1)
    assert large == ("f4", (False, False), 32, 32, 32, (32, 32), (0, 0), 1024, 1)


# What writes down the numbers that it was given; `blas_status` is what it answers.
_STUB = """
#include <stdint.h>
#include <stdlib.h>
typedef void *P;
int64_t blas_seen[32], blas_calls[8];
int blas_status = 0, blas_create = 0;
int cublasCreate_v2(P *handle) { *handle = malloc(8); return blas_create; }
int cublasSetStream_v2(P handle, P stream) { blas_calls[0]++; blas_calls[4] = (int64_t)stream; return 0; }
int cublasSetWorkspace_v2(P handle, P room, size_t bytes) { blas_calls[1]++; blas_calls[5] = room ? (int64_t)bytes : 0; return 0; }
int cublasSetMathMode(P handle, int mode) { blas_calls[2]++; blas_calls[6] = mode; return 0; }
int cublasGemmStridedBatchedEx(P handle, int ta, int tb, int m, int n, int k, const void *alpha, P a, int at, int lda, int64_t sa,
                               P b, int bt, int ldb, int64_t sb, const void *beta, P c, int ct, int ldc, int64_t sc, int count,
                               int compute, int algorithm) {
    int64_t seen[] = {ta, tb, m, n, k, (int64_t)a, at, lda, sa, (int64_t)b, bt, ldb, sb, (int64_t)c, ct, ldc, sc, count, compute, algorithm,
                      at == 1 ? *(double *)alpha == 1 && *(double *)beta == 0 : *(float *)alpha == 1 && *(float *)beta == 0};
    for (int i = 0; i < 21; i++) blas_seen[i] = seen[i];
    blas_calls[3]++;
    return blas_status;
}
"""

_BEGIN = """
import ctypes
null = ctypes.CDLL("libcublas.so.13")
seen, calls = (ctypes.c_int64 * 32).in_dll(null, "blas_seen"), (ctypes.c_int64 * 8).in_dll(null, "blas_calls")
status = ctypes.c_int.in_dll(null, "blas_status")
import nbgrad as torch
"""

_PROGRAM = """
a, b = torch.ones(64, 48, device="cuda"), torch.ones(48, 32, device="cuda")
y = a @ b
# the turned result: b's lines first
want = [0, 0, 32, 64, 48, b.data_ptr(), 0, 32, 0, a.data_ptr(), 0, 48, 0, y.data_ptr(), 0, 32, 2048, 1, 68, -1, 1]
assert seen[:21] == want, (seen[:21], want)
assert calls[:4] == [1, 1, 0, 1] and calls[5] == 32 << 20
torch.cuda.synchronize()
y = a.t() @ a
assert seen[:5] == [0, 1, 48, 48, 64] and [seen[7], seen[11]] == [48, 48]
y = a @ a.t()
assert seen[:5] == [1, 0, 64, 64, 48]
c = torch.ones(5, 64, 48, device="cuda", dtype=torch.float64)
y = c @ c.mT
assert seen[:5] == [1, 0, 64, 64, 48] and [seen[8], seen[12], seen[16], seen[17]] == [3072, 3072, 4096, 5]
assert [seen[6], seen[10], seen[14], seen[18], seen[20]] == [1, 1, 1, 70, 1]

torch.backends.cuda.matmul.allow_tf32 = True
a @ b
assert seen[18] == 77
c @ c.mT
assert seen[18] == 70
torch.set_float32_matmul_precision("highest")
a @ b
assert seen[18] == 68
for dtype, number in (torch.float16, 2), (torch.bfloat16, 14):
    h = torch.ones(64, 64, device="cuda", dtype=dtype)
    h @ h
    assert [seen[6], seen[14], seen[18], seen[20]] == [number, number, 68, 1]
assert calls[2] == 0
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
h @ h
assert calls[2] == 1 and calls[6] == 16
a @ b
assert calls[2] == 2 and calls[6] == 0

side = torch.cuda.Stream()
with torch.cuda.stream(side):
    a @ b
assert calls[0] == 2 and calls[4] == side.cuda_stream
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    a @ b
assert calls[0] == 3
before = calls[3]
torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
torch.ones(64, 64, device="cuda", dtype=torch.int64) @ torch.ones(64, 64, device="cuda", dtype=torch.int64)
assert calls[3] == before

status.value = 13
try:
    a @ b
except RuntimeError as error:
    assert str(error) == "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmStridedBatchedEx( ... )`", error
else:
    raise AssertionError
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the null driver finds it, and what NVIDIA's has beside it."""
    folder = Path(library())
    source = tmp_path_factory.mktemp("blas") / "blas.c"
    source.write_text(_STUB)
    for name in ("libcublas.so.13", "libcublasLt.so.13"):
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", source.parent / name, source], check=True)
    return f"{folder}:{source.parent}"


@pytest.mark.cuda
def test_what_cublas_is_given(stub: str) -> None:
    play(_PROGRAM, _BEGIN, LD_LIBRARY_PATH=stub)


@pytest.mark.cuda
def test_a_library_that_does_not_start_is_none(stub: str) -> None:
    play(
        """
ctypes.c_int.in_dll(null, "blas_create").value = 1
torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
assert calls[3] == 0
""",
        _BEGIN,
        LD_LIBRARY_PATH=stub,
    )
