"""Factors of matrices by cuSOLVER, where its wheel (`nvidia-cusolver`) or a toolkit has it; triangular systems by cuBLAS, which it brings.

Promises a `Library` whose routines are LAPACK's, called through their pointers: matrices lie by columns, what is found takes the place of
what was given, and `info` says where a matrix failed. Arguments stand in `ROUTINES` in the order in which the library takes them.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from ctypes import c_byte, c_double, c_float, c_int, c_void_p
from typing import Any, Final

from nbgrad.base.tables import cached
from nbgrad.kernels.cuda.blas import check

LOWER, UPPER = 0, 1
AS_IT_IS, TURNED = 0, 1
_LEFT: Final = 0
_LETTERS: Final = {"f4": "S", "f8": "D"}
_STATUS: Final = (
    *("SUCCESS", "NOT_INITIALIZED", "ALLOC_FAILED", "INVALID_VALUE", "ARCH_MISMATCH", "MAPPING_ERROR"),
    *("EXECUTION_FAILED", "INTERNAL_ERROR", "MATRIX_TYPE_NOT_SUPPORTED", "NOT_SUPPORTED"),
)
# What a routine takes after the handle, and what is asked for how much `work` it wants, in elements; "" where it wants none.
ROUTINES: Final = {
    "getrf": ("rows columns A ld work pivots info", "rows columns A ld"),
    "getrs": ("turned rows columns A ld pivots B ldB info", ""),
    "laswp": ("columns A ld first last pivots step", ""),
    "potrf": ("part rows A ld work size info", "part rows A ld"),
    "geqrf": ("rows columns A ld tau work size info", "rows columns A ld"),
    "orgqr": ("rows columns depth A ld tau work size info", "rows columns depth A ld tau"),
    "syevd": ("vectors part rows A ld values work size info", "vectors part rows A ld values"),
    "gesvd": ("left right rows columns A ld values U ldU V ldV work size rest info", "rows columns"),
    "trsm": ("part turned unit rows columns A ld B ldB", ""),  # cuBLAS's
}
_POINTERS: Final = {"A", "B", "U", "V", "info", "pivots", "rest", "tau", "values", "work"}
_BYTES: Final = {"left", "right"}
Values = Mapping[str, int]


def _kind(name: str) -> Any:
    return c_void_p if name in _POINTERS else c_byte if name in _BYTES else c_int


class Library:
    """For one device, in whose context it is made and called. Of several threads one asks at a time, as a stream is the handle's."""

    def __init__(self, library: Any, blas: Any) -> None:
        self._library, self._blas = library, blas
        self._handle, self._blas_handle = c_void_p(), c_void_p()
        self._asking, self._stream = threading.Lock(), -1
        _check(library.cusolverDnCreate(ctypes.byref(self._handle)), "cusolverDnCreate")
        check(blas.cublasCreate_v2(ctypes.byref(self._blas_handle)), "cublasCreate")

    def size(self, routine: str, code: str, values: Values) -> int:
        """Elements of its own memory that a routine wants."""
        names = ROUTINES[routine][1]
        if not names:
            return 0  # it wants none
        name, found = f"cusolverDn{_LETTERS[code]}{routine}_bufferSize", c_int()
        with self._asking:
            self._ask(name, names, values, ctypes.byref(found))
        return found.value

    def run(self, routine: str, code: str, values: Values, stream: int) -> None:
        """`values` are numbers and addresses, by the names that `ROUTINES` has."""
        with self._asking:
            if stream != self._stream:
                _check(
                    self._library.cusolverDnSetStream(self._handle, c_void_p(stream)), "cusolverDnSetStream"
                )
                check(self._blas.cublasSetStream_v2(self._blas_handle, c_void_p(stream)), "cublasSetStream")
                self._stream = stream
            if routine == "trsm":
                self._triangular(code, values)
            else:
                self._ask(f"cusolverDn{_LETTERS[code]}{routine}", ROUTINES[routine][0], values)

    def _ask(self, name: str, names: str, values: Values, *more: Any) -> None:
        given = [_kind(part)(values[part]) for part in names.split()]
        _check(getattr(self._library, name)(self._handle, *given, *more), name)

    def _triangular(self, code: str, values: Values) -> None:
        one = (c_double if code == "f8" else c_float)(1)
        name = f"cublas{_LETTERS[code]}trsm_v2"
        given = [_kind(part)(values[part]) for part in ROUTINES["trsm"][0].split()]
        given.insert(5, ctypes.byref(one))  # a factor of the right side
        status = getattr(self._blas, name)(self._blas_handle, c_int(_LEFT), *given)
        check(status, name)


def _check(status: int, name: str) -> None:
    if status:
        said = _STATUS[status] if status < len(_STATUS) else status
        raise RuntimeError(f"cusolver error: CUSOLVER_STATUS_{said}, when calling `{name}( ... )`")


@cached(1)
def _found() -> Any:
    """Both libraries, if they are there."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return tuple(ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path) for name in ("cusolver", "cublas"))
    except Exception:  # whatever a package has to say of its not being there
        return None


def library() -> Library | None:
    """For the device in whose context the thread is; None where there is none, or it does not start."""
    found = _found()
    if found is None:
        return None
    try:
        return Library(*found)
    except RuntimeError:
        return None
