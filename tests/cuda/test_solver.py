"""Factors of matrices by cuSOLVER without it: what it would be asked is done by NumPy on a device that the CPU plays, and libraries that
only write down what they were given stand beside the null driver. That its own numbers are right only a GPU can say."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from nbgrad.memory import backend
from tests.compare import assert_same
from tests.cuda.null import library, play
from tests.cuda.played import Solver
from tests.support import T


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Solver:
    driver: Any = backend.of(T.device("cuda", 0)).driver
    made = Solver()
    monkeypatch.setattr(driver, "solver", made)
    return made


def _well(*shape: int) -> Any:
    """Far from singular, of another layout in each half of the batch."""
    return T.randn(*shape, dtype=T.float64) + 3 * T.eye(*shape[-2:], dtype=T.float64)


PROGRAMS = (
    lambda a, b: T.linalg.solve(a, b),
    lambda a, b: T.linalg.solve(a.mT, b[:, :, 0]),
    lambda a, b: T.linalg.solve(a, b.mT, left=False),
    lambda a, b: T.linalg.inv(a[0]),
    lambda a, b: T.linalg.inv(a[:, ::2, ::2]),
    lambda a, b: T.linalg.cholesky(a @ a.mT),
    lambda a, b: T.linalg.cholesky(a.mT @ a, upper=True),
    lambda a, b: T.cholesky_solve(b, T.linalg.cholesky(a @ a.mT)),
    lambda a, b: T.linalg.solve_triangular(a, b, upper=True),
    lambda a, b: T.linalg.solve_triangular(a.mT, b.mT, upper=False, left=False, unitriangular=True),
    lambda a, b: T.linalg.lu_solve(*T.linalg.lu_factor(a), b),
    lambda a, b: T.linalg.lu_solve(*T.linalg.lu_factor(a), b.mT, left=False, adjoint=True),
    lambda a, b: T.linalg.det(a),
    lambda a, b: T.logdet(a @ a.mT),
    lambda a, b: T.linalg.slogdet(a)[1],
    lambda a, b: (lambda q, r: q @ r)(*T.linalg.qr(b)),
    lambda a, b: (lambda q, r: q @ r)(*T.linalg.qr(b.mT)),
    lambda a, b: T.linalg.qr(b.detach(), mode="complete").R,
    lambda a, b: T.linalg.householder_product(*T.geqrf(b.detach())),
    lambda a, b: T.linalg.eigvalsh(a @ a.mT),
    lambda a, b: T.linalg.svdvals(b.mT),
    lambda a, b: T.linalg.pinv(b),
    lambda a, b: T.linalg.lstsq(a, b).solution,
    lambda a, b: T.linalg.matrix_exp(a / 8),
    lambda a, b: T.linalg.matrix_norm(b, "nuc"),
    lambda a, b: T.linalg.cond(a),
    lambda a, b: T.distributions.MultivariateNormal(b[:, :, 0], a @ a.mT).log_prob(b[:, :, 1]),
)


@pytest.mark.emulated
@pytest.mark.parametrize("program", range(len(PROGRAMS)))
def test_programs_are_solved_there(program: int, played: Solver) -> None:
    a, b = _well(2, 4, 4).mT, T.randn(2, 4, 3, dtype=T.float64)
    found = []
    for where in ("cuda", "cpu"):
        given = [t.detach().to(where).requires_grad_() for t in (a, b)]
        y = PROGRAMS[program](*given)
        if y.requires_grad:
            (y * y).sum().backward()
        found.append([y.detach().cpu(), *[t.grad.cpu() for t in given if t.grad is not None]])
    assert_same(found[0], found[1], str(program), tol=10)
    assert played.asked


@pytest.mark.emulated
def test_what_cannot_be_solved_is_said(played: Solver) -> None:
    none, a = T.zeros(2, 3, 3, device="cuda"), T.eye(3, device="cuda").expand(2, 3, 3).clone()
    a[1, 2, 2] = 0
    for words, f in (
        (r"linalg.inv: \(Batch element 1\): The diagonal element 3 is zero", lambda: T.linalg.inv(a)),
        (r"linalg.solve: \(Batch element 1\): The solver failed", lambda: T.linalg.solve(a, a)),
        (r"linalg.cholesky: \(Batch element 1\): The factor", lambda: T.linalg.cholesky(a)),
        (r"lu_factor: \(Batch element 0\): U\[1,1\] is zero", lambda: T.linalg.lu_factor(none)),
        ("pivots passed to lu_unpack must be between", lambda: T.lu_unpack(a, none[..., 0].int())),
    ):
        with pytest.raises(RuntimeError, match=words):
            f()
    assert T.linalg.inv_ex(a).info.tolist() == T.linalg.cholesky_ex(a).info.tolist() == [0, 3]
    assert T.linalg.det(a).tolist() == [1, 0] and T.linalg.slogdet(none)[0].tolist() == [0, 0]


@pytest.mark.emulated
@pytest.mark.parametrize(
    "call",
    [
        T.linalg.matrix_exp,
        T.linalg.det,
        T.linalg.svdvals,
        T.linalg.inv,
        T.linalg.cholesky,
        T.linalg.qr,
        T.linalg.eigh,
    ],
)
def test_of_complex_matrices_nothing_is_asked(call: Any, played: Solver) -> None:
    """Of `matrix_exp` the real parts would be taken without a word."""
    with pytest.raises(
        NotImplementedError, match=r"no CUDA kernel in this release; move its operand with .cpu\(\)$"
    ):
        call(T.ones(2, 2, dtype=T.complex64, device="cuda"))
    assert not played.asked


@pytest.mark.emulated
def test_nothing_is_asked_of_nothing(played: Solver) -> None:
    nothing = T.ones(0, 3, 3, device="cuda"), T.ones(2, 0, 0, device="cuda")
    for a in nothing:
        for f in (T.linalg.inv, T.linalg.cholesky, T.linalg.svd, T.linalg.eigh, T.linalg.qr, T.linalg.lu):
            f(a)
    assert T.linalg.solve(T.eye(3, device="cuda"), T.ones(3, 0, device="cuda")).shape == (3, 0)
    assert T.linalg.det(nothing[1]).tolist() == [1, 1] and "getrs" not in played.asked
    assert T.linalg.svd(T.ones(3, 0, device="cuda")).U.shape == (3, 3)


# What takes its arguments by the types of NVIDIA's headers, and writes them down behind the routine's number.
_STUB = """
#include <stdint.h>
#include <stdlib.h>
typedef void *P;
int64_t seen[64], at, stream;
int status, create;
#define I (int64_t)
#define SAW(...) { int64_t given[] = {__VA_ARGS__}; for (int i = 0; i < sizeof given / 8; i++) seen[i] = given[i]; at++; return status; }
int cublasCreate_v2(P *h) { *h = malloc(8); return 0; }
int cublasSetStream_v2(P h, P s) { return 0; }
int cublasStrsm_v2(P h, int side, int part, int turned, int unit, int m, int n, const float *one, const float *A, int lda, float *B,
                   int ldb)
    SAW(1, side, part, turned, unit, m, n, *one == 1, I A, lda, I B, ldb)
int cusolverDnCreate(P *h) { *h = malloc(8); return create; }
int cusolverDnSetStream(P h, P s) { stream = I s; return 0; }
int cusolverDnSgetrf_bufferSize(P h, int m, int n, float *A, int lda, int *size) { *size = m * n + lda; return status; }
int cusolverDnSgetrf(P h, int m, int n, float *A, int lda, float *work, int *pivots, int *info)
    SAW(2, m, n, I A, lda, work != 0, I pivots, I info)
int cusolverDnSgetrs(P h, int turned, int n, int many, const float *A, int lda, const int *pivots, float *B, int ldb, int *info)
    SAW(3, turned, n, many, I A, lda, I pivots, I B, ldb, I info)
int cusolverDnDpotrf_bufferSize(P h, int part, int n, double *A, int lda, int *size) { *size = 77; return 0; }
int cusolverDnDpotrf(P h, int part, int n, double *A, int lda, double *work, int size, int *info)
    SAW(4, part, n, I A, lda, work != 0, size, I info)
int cusolverDnSgeqrf_bufferSize(P h, int m, int n, float *A, int lda, int *size) { *size = 5; return 0; }
int cusolverDnSgeqrf(P h, int m, int n, float *A, int lda, float *tau, float *work, int size, int *info)
    { return 0; }
int cusolverDnSorgqr_bufferSize(P h, int m, int n, int k, const float *A, int lda, const float *tau, int *size) { *size = 6; return 0; }
int cusolverDnSorgqr(P h, int m, int n, int k, float *A, int lda, const float *tau, float *work, int size, int *info)
    SAW(5, m, n, k, I A, lda, tau != 0, work != 0, size, info != 0)
int cusolverDnSsyevd_bufferSize(P h, int how, int part, int n, const float *A, int lda, const float *w, int *size) { *size = 8; return 0; }
int cusolverDnSsyevd(P h, int how, int part, int n, float *A, int lda, float *w, float *work, int size, int *info)
    SAW(6, how, part, n, I A, lda, I w, work != 0, size, info != 0)
int cusolverDnSgesvd_bufferSize(P h, int m, int n, int *size) { *size = 9; return 0; }
int cusolverDnSgesvd(P h, signed char u, signed char v, int m, int n, float *A, int lda, float *s, float *U, int ldu, float *V, int ldv,
                     float *work, int size, float *rest, int *info)
    SAW(7, u, v, m, n, A != 0, lda, I s, I U, ldu, I V, ldv, work != 0, size, rest != 0, info != 0)
int cusolverDnSlaswp(P h, int n, float *A, int lda, int first, int last, const int *pivots, int step)
    SAW(8, n, I A, lda, first, last, I pivots, step)
"""
_BEGIN = """
import ctypes
null = ctypes.CDLL("libcusolver.so.12")
seen = (ctypes.c_int64 * 64).in_dll(null, "seen")
at, status, stream = ctypes.c_int64.in_dll(null, "at"), ctypes.c_int.in_dll(null, "status"), ctypes.c_int64.in_dll(null, "stream")
import nbgrad as torch
"""
_PROGRAM = """
L = torch.linalg
a = torch.ones(3, 3, device="cuda")
made = L.lu_factor_ex(a)
assert seen[:4] == [2, 3, 3, made.LU.data_ptr()] and seen[4:8] == [3, 1, made.pivots.data_ptr(), made.info.data_ptr()], seen[:8]
x = L.solve_ex(a, torch.ones(3, 2, device="cuda")).result
assert seen[0] == 2  # the second time, of its info
L.solve(a, torch.ones(2, 3, device="cuda"), left=False)
assert seen[:4] == [3, 1, 3, 2] and [seen[5], seen[8]] == [3, 3], seen[:10]
wide = torch.ones(5, 3, 3, device="cuda", dtype=torch.float64)
before = at.value
found = L.cholesky(wide)
assert at.value == before + 5 and seen[:3] == [4, 0, 3] and seen[3] == found.data_ptr() + 4 * 72 and seen[4:7] == [3, 1, 77], seen[:8]
L.cholesky(wide, upper=True)
assert seen[1] == 1
q, r = L.qr(torch.ones(4, 2, device="cuda"), mode="complete")
assert seen[:10] == [5, 4, 4, 2, q.data_ptr(), 4, 1, 1, 6, 1], seen[:10]
values, vectors = L.eigh(a, "U")
assert seen[:10] == [6, 1, 1, 3, vectors.data_ptr(), 3, values.data_ptr(), 1, 8, 1], seen[:10]
u, s, vh = L.svd(torch.ones(4, 2, device="cuda"))
assert seen[:16] == [7, 65, 65, 4, 2, 1, 4, s.data_ptr(), u.data_ptr(), 4, vh.data_ptr(), 2, 1, 9, 0, 1], seen[:16]
L.svd(torch.ones(2, 4, device="cuda"), full_matrices=False)
assert seen[1:5] == [83, 83, 4, 2]
b = torch.ones(3, 2, device="cuda")
x = L.solve_triangular(a, b, upper=True, unitriangular=True)
assert seen[:12] == [1, 0, 0, 1, 1, 3, 2, 1, a.data_ptr(), 3, x.data_ptr(), 3], seen[:12]
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    L.eigvalsh(a)
assert stream.value == side.cuda_stream
status.value = 6
try:
    L.lu_factor(a)
except RuntimeError as error:
    assert str(error) == "cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling `cusolverDnSgetrf_bufferSize( ... )`", error
else:
    raise AssertionError
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the null driver finds it, and what NVIDIA's has beside it."""
    folder = Path(library())
    source = tmp_path_factory.mktemp("solver") / "solver.c"
    source.write_text(_STUB)
    made = source.with_name("libcusolver.so.12")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-w", "-o", made, source], check=True)
    for other in ("libcublas.so.13", "libcublasLt.so.13", "libcusparse.so.12"):
        source.with_name(other).symlink_to(made)
    return f"{folder}:{source.parent}"


@pytest.mark.cuda
def test_what_cusolver_is_given(stub: str) -> None:
    play(_PROGRAM, _BEGIN, LD_LIBRARY_PATH=stub)


@pytest.mark.cuda
def test_a_library_that_does_not_start_is_none(stub: str) -> None:
    play(
        """
ctypes.c_int.in_dll(null, "create").value = 1
try:
    torch.linalg.inv(torch.eye(2, device="cuda"))
except NotImplementedError as error:
    assert "linalg.inv: no CUDA kernel in this release; move its operand with .cpu(), or pip install 'nbgrad[cusolver]'" in str(error)
else:
    raise AssertionError
""",
        _BEGIN,
        LD_LIBRARY_PATH=stub,
    )
