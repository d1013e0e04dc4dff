"""Products of matrices by the BLAS that NumPy carries, called by address and cut over our own threads.

Promises the ops a launch for the product of two batches of float32 or float64, wherever NumPy's BLAS is an OpenBLAS with
64-bit integers, as in its wheels (elsewhere `found()` is None, and NumPy multiplies). A small product costs half of
`numpy.matmul`, which looks at its operands anew each time. Large ones OpenBLAS would cut over threads of its own, which spin while
they wait, as OpenMP's do: on two cores a training step of a wide MLP took 41 ms in place of 4. So from the sizes on where it would,
OpenBLAS is told to keep to one thread, and ours cut the rows (or columns) of the result.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.kernels import build
from nbgrad.kernels.launch import Launch, launcher

_SOURCE = '''"""Products by BLAS: rows (or columns) start..stop of the results, counted through all matrices of the batch."""
from nbgrad.kernels.cpu.blas import {gemm}, {gemv}


def @NAME@(start, stop, x, y, o, numbers):
    address, order, turn_x, turn_y, rows, n, k, ldx, ldy, ldo = {numbers}
    x_matrix, y_matrix, o_matrix, x_row, o_row = {steps}
    if {swapped}:
        x, y = y, x
    at = start
    while at < stop:
        matrix = at // rows
        row = at - matrix * rows
        m = min(rows - row, stop - at)
        a = x + matrix * x_matrix + row * x_row
        b = y + matrix * y_matrix
        c = o + matrix * o_matrix + row * o_row
        if n:
            {gemm}(address, (order, turn_x, turn_y, m, n, k, a, ldx, b, ldy, c, ldo))
        elif turn_x == {as_it_lies}:
            {gemv}(address, (order, turn_x, m, k, a, ldx, b, ldy, c, ldo))
        else:
            {gemv}(address, (order, turn_x, k, m, a, ldx, b, ldy, c, ldo))
        at += m
'''

# BLAS's words: how matrices are read, and whether one is turned.
_BY_ROWS, _BY_COLUMNS = 101, 102
_AS_IT_LIES, _TURNED = 111, 112
# Multiplications up to which OpenBLAS uses one thread anyway: of two matrices, of a matrix and a vector.
_ALONE_GEMM, _ALONE_GEMV = 64**3, 9216
_PARALLEL_GEMV = 65536

_turn = threading.Lock()

Matrix = tuple[int, int, int, int]  # rows, columns, and the steps from row to row and from column to column


class Blas(NamedTuple):
    addresses: dict[str, int]
    threads: Callable[[], int]
    set_threads: Callable[[int], None]


@cached(1)
def found() -> Blas | None:
    """The functions of NumPy's BLAS, which any module linked with it leads to."""
    library = ctypes.CDLL(importlib.import_module("numpy.linalg._umath_linalg").__file__)
    for prefix in ("scipy_", ""):
        try:
            named = {
                f: getattr(library, f"{prefix}cblas_{f}64_") for f in ("sgemm", "dgemm", "sgemv", "dgemv")
            }
            threads = getattr(library, f"{prefix}openblas_get_num_threads64_")
            set_threads = getattr(library, f"{prefix}openblas_set_num_threads64_")
        except AttributeError:
            continue
        threads.argtypes, threads.restype = (), ctypes.c_int
        set_threads.argtypes, set_threads.restype = (ctypes.c_int,), None
        addresses = {f: ctypes.cast(function, ctypes.c_void_p).value or 0 for f, function in named.items()}
        return Blas(addresses, threads, set_threads)
    return None


def alone(function: Callable[..., Any], otherwise: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """`function`, with BLAS at one thread meanwhile; `otherwise` (else itself) while another thread does the same."""
    blas = found()
    if blas is None:
        return function
    _, get, put = blas

    def call(*args: Any) -> Any:
        if _turn.locked():
            return (otherwise or function)(*args)
        with _turn:
            threads = get()
            try:
                put(1)
                return function(*args)
            finally:
                put(threads)

    return call


class Product(NamedTuple):
    """`launch(address, n, x, y, out, numbers)` on the buffers of the operands and of the result multiplies them."""

    launch: Launch
    address: int
    n: int
    numbers: Any


def product(
    code: str, x: Matrix, y: Matrix, batch: int = 1, steps: tuple[int, int] = (0, 0)
) -> Product | None:
    """`batch` products of matrices of dtype `code` that lie `steps` elements apart; None where no such BLAS was found. Each matrix
    has one step of 1, as BLAS wants it."""
    blas = found()
    if blas is None:
        return None
    (m, k), n = x[:2], y[1]
    swapped = n > 1 and n > m // 2  # columns are cut where they are not few: up to 15 % faster than rows
    vector = m == 1 or n == 1
    if vector:
        first, order, length, step = (_turned(y) if swapped else x), _BY_ROWS, 0, 1
        inner = x[3] if swapped else y[2]
        turn, leading = _read(first)
        turn_2, along = _AS_IT_LIES, first[2]
    else:
        first, second, order, length, step = (y, x, _BY_COLUMNS, m, 1) if swapped else (x, y, _BY_ROWS, n, n)
        turn, leading = _read(first)
        turn_2, inner = _read(second)
        along = first[3] if swapped else first[2]
    rows = n if swapped else m
    apart = steps[::-1] if swapped else steps
    kind = "s" if code == "f4" else "d"
    address = blas.addresses[kind + ("gemv" if vector else "gemm")]
    size = 4 if code == "f4" else 8
    numbers = [address, order, turn, turn_2, rows, length, k, leading, max(inner, 1), 1 if vector else n]
    numbers += [size * number for number in (*apart, m * n, along, step)] + [swapped]
    work = m * n * k
    parallel = batch * work > (_PARALLEL_GEMV if vector else _ALONE_GEMM)
    launch = launcher(4, "", parallel, 1)
    if work > (_ALONE_GEMV if vector else _ALONE_GEMM):
        launch = alone(launch, launcher(4, "", False))
    return Product(launch, _kernel(code), batch * rows, np.array(numbers, np.int64).view(np.uint8))


def _turned(matrix: Matrix) -> Matrix:
    rows, columns, down, along = matrix
    return columns, rows, along, down


def _read(matrix: Matrix) -> tuple[int, int]:
    """How BLAS is told where a matrix lies: turned or not, and the step that is not 1."""
    _, columns, down, along = matrix
    return (_AS_IT_LIES, down) if along == 1 and down >= columns else (_TURNED, max(along, 1))


@cached(2)
def _kernel(code: str) -> int:
    names = {"gemm": f"gemm_{code}", "gemv": f"gemv_{code}", "as_it_lies": _AS_IT_LIES}
    numbers = [f"numbers[{k}]" for k in range(16)]
    source = _SOURCE.format(
        **names, numbers=", ".join(numbers[:10]), steps=", ".join(numbers[10:15]), swapped=numbers[15]
    )
    return build.kernel(f"product_{code}", source, ["i8", "i8", "i8", "i8", "i8", "*i8"]).address
