"""Products of matrices by cuBLAS, where its wheel (`nvidia-cublas`) or a toolkit has it; elsewhere our own tiles multiply.

Promises `gemm_of(...)`, the arguments that cuBLAS wants for matrices which lie by rows, and a `Library` that is called through its
pointers. cuBLAS counts by columns: it is given the turned operands, the second one first, and writes the turned result. How exactly
float32 is multiplied is for `switches` to say at each call.
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Final

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached

# CUDA's numbers: of dtypes, of how it is computed in, of errors.
_KINDS: Final = {"f4": 0, "f8": 1, "f2": 2, "g2": 14}
_BY_FLOAT32, _BY_TF32, _BY_FLOAT64 = 68, 77, 70
_DEFAULT: Final = -1  # algorithm
_NO_NARROW_SUMS: Final = 16  # a mode
_STATUS: Final = {
    1: "NOT_INITIALIZED",
    3: "ALLOC_FAILED",
    7: "INVALID_VALUE",
    8: "ARCH_MISMATCH",
    11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED",
    14: "INTERNAL_ERROR",
    15: "NOT_SUPPORTED",
}
WORKSPACE: Final = 32 << 20  # bytes: what NVIDIA advises from Hopper on
FEWEST: Final = 1 << 15  # multiplications


class Switches:
    """What `torch.backends.cuda.matmul` sets: whether float32 may be rounded to TF32, and of which dtypes no sum may be rounded midway."""

    tf32 = False
    whole_sums: frozenset[str] = frozenset()


switches: Final = Switches()


class Gemm(NamedTuple):
    """Of the turned result rows, columns and depth; of both operands whether they are turned, the step from line to line and from matrix
    to matrix; of the result the latter; and how many matrices."""

    code: str
    turned: tuple[bool, bool]
    m: int
    n: int
    k: int
    lines: tuple[int, int]
    steps: tuple[int, int]
    step: int
    matrices: int


def gemm_of(
    code: str, x: tuple[int, int, int, int], y: tuple[int, int, int, int], apart: tuple[int, int], count: int
) -> Gemm | None:
    """Of operands given by rows, columns and the steps between both; None where cuBLAS does not read them."""
    (rows, depth, *_), (_, columns, *_) = x, y
    first, second = _line(*y), _line(*x)
    if code not in _KINDS or first is None or second is None or count * rows * columns * depth < FEWEST:
        return None
    lines, turned = (first[1], second[1]), (first[0], second[0])
    if max(rows, columns, depth, count, *lines) >= 1 << 31:
        return None
    return Gemm(code, turned, columns, rows, depth, lines, apart[::-1], rows * columns, count)


def _line(rows: int, columns: int, down: int, along: int) -> tuple[bool, int] | None:
    """Whether a matrix lies by columns, and how far apart its lines are."""
    if (along == 1 or columns == 1) and (down >= columns or rows == 1):
        return False, max(down if rows > 1 else columns, 1)
    if (down == 1 or rows == 1) and (along >= rows or columns == 1):
        return True, max(along if columns > 1 else rows, 1)
    return None


@cached(1)
def _found() -> Any:
    """The library, if there is one."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        found = load_nvidia_dynamic_lib("cublas")
        library = ctypes.CDLL(found.abs_path)
    except Exception:  # whatever a package has to say of its not being there
        return None
    handle, number = c_void_p, c_int
    library.cublasCreate_v2.argtypes = [ctypes.POINTER(c_void_p)]
    library.cublasSetStream_v2.argtypes = [handle, c_void_p]
    library.cublasSetWorkspace_v2.argtypes = [handle, c_void_p, c_size_t]
    library.cublasSetMathMode.argtypes = [handle, number]
    operand: list[Any] = [c_void_p, number, number, c_int64]
    library.cublasGemmStridedBatchedEx.argtypes = [
        *(handle, number, number, number, number, number, c_void_p),
        *operand,
        *operand,
        c_void_p,
        *operand,
        *(number, number, number),
    ]
    return library


class Library:
    """For one device, in whose context it is made and called. Of several threads one asks at a time, as a stream is the handle's."""

    def __init__(self, library: Any) -> None:
        self._library, self._gemm = library, library.cublasGemmStridedBatchedEx
        self._handle, self._asking = c_void_p(), threading.Lock()
        check(library.cublasCreate_v2(ctypes.byref(self._handle)), "cublasCreate")
        self._stream: int | None = None
        self._mode = 0
        self._numbers = {"f4": (c_float(1), c_float(0)), "f8": (c_double(1), c_double(0))}

    def _ask(self, name: str, *args: Any) -> None:
        check(getattr(self._library, name)(self._handle, *args), name)

    def gemm(self, g: Gemm, x: int, y: int, o: int, room: int, stream: int) -> None:
        """`room` is `WORKSPACE` bytes, which the stream's next calls may have as well."""
        kind = _KINDS[g.code]
        one, none = self._numbers["f8" if g.code == "f8" else "f4"]
        by = _BY_FLOAT64 if g.code == "f8" else _BY_TF32 if g.code == "f4" and switches.tf32 else _BY_FLOAT32
        mode = _NO_NARROW_SUMS if g.code in switches.whole_sums else 0
        with self._asking:
            if stream != self._stream:
                self._ask("cublasSetStream_v2", stream)
                self._stream = stream
            self._ask("cublasSetWorkspace_v2", room, WORKSPACE)
            if mode != self._mode:
                self._ask("cublasSetMathMode", mode)
                self._mode = mode
            status = self._gemm(
                *(self._handle, *g.turned, g.m, g.n, g.k, ctypes.byref(one)),
                *(y, kind, g.lines[0], g.steps[0], x, kind, g.lines[1], g.steps[1], ctypes.byref(none)),
                *(o, kind, g.m, g.step, g.matrices, by, _DEFAULT),
            )
        check(status, "cublasGemmStridedBatchedEx")


def check(status: int, name: str) -> None:
    if status:
        said = _STATUS.get(status, str(status))
        raise RuntimeError(
            f"CUDA error: CUBLAS_STATUS_{said} when calling `{name.removesuffix('_v2')}( ... )`"
        )


def library() -> Library | None:
    """For the device in whose context the thread is; None where there is none, or it does not start."""
    found = _found()
    if found is None:
        return None
    try:
        return Library(found)
    except RuntimeError:
        return None
