"""Products of matrices: by the register tile of `kernels/cpu/products.py`, or by the BLAS that NumPy carries, cut over our own threads.

Promises the ops a launch for the product of two batches: `tiles(...)` of float32, float64, int32 and int64, where the machine's vectors
are known, and `product(...)` of float32 and float64, wherever NumPy's BLAS is an OpenBLAS with 64-bit integers, as in its wheels
(elsewhere `found()` is None, and NumPy multiplies); `by_tiles` says which is quicker. A small product by BLAS costs half of
`numpy.matmul`, which looks at its operands anew each time. Large ones OpenBLAS would cut over threads of its own, which spin while
they wait, as OpenMP's do: on two cores a training step of a wide MLP took 41 ms in place of 4. So from the sizes on where it would,
OpenBLAS is told to keep to one thread, and ours cut the rows (or columns) of the result.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached
from nbgrad.kernels import build, processor
from nbgrad.kernels.cpu import products as texts
from nbgrad.kernels.cpu.products import AS_IT_LIES, COPIED, PAD, PART, RUN, TURNED
from nbgrad.kernels.launch import Launch, launcher
from nbgrad.kernels.tile import FLOOR, LINE, PLUS, SHAPES, WIDE

_BLAS = '''"""Products by BLAS: rows (or columns) start..stop of the results, counted through all matrices of the batch."""
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
    names = "sgemm", "dgemm", "sgemv", "dgemv"
    named = [function(f"cblas_{f}") for f in names]
    threads, set_threads = function("openblas_get_num_threads"), function("openblas_set_num_threads")
    if threads is None or set_threads is None or None in named:
        return None
    threads.argtypes, threads.restype = (), ctypes.c_int
    set_threads.argtypes, set_threads.restype = (ctypes.c_int,), None
    addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in named]
    return Blas(dict(zip(names, addresses)), threads, set_threads)


@cached(16)
def function(name: str) -> Any:
    """A function of NumPy's BLAS; None where that is not an OpenBLAS with 64-bit integers."""
    library = ctypes.CDLL(importlib.import_module("numpy.linalg._umath_linalg").__file__)
    return getattr(library, f"scipy_{name}64_", None) or getattr(library, f"{name}64_", None)


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


# ---------------------------------------------------------------- by the tile

_FEW_READ = (
    1 << 15
)  # numbers of a matrix that is multiplied by a vector, which are read at a few per 0.001 us
_FEW = 64**3  # multiplications of which the lock is kept, up to 5 us
_SHARED = 96**3  # from which threads share them, about 7 us; and items that there shall then be at least
# Where there are fewer, and `k` has as many parts, each part is an item: 64 numbers from 200,000 x 64, float32 on a Zen 5, were read by one
# of two threads in 2.3 ms; with lines of four vectors in 1.3; in parts by two in 0.8.
_ITEMS = 8
_FEW_ROWS = 4 * _ITEMS  # below which long ones are cut into runs: four are multiplied at a time
_SHARED_SUMS = 1 << 18  # numbers of parts from which threads add them up
_GROUPS = 4  # of columns where strips of y are copied or turned, so that few pieces of the work do so with the same ones
# Bytes of an operand from which it is copied, part by part, where each number is read often enough. On a Zen 5, one thread, a float32
# product of 256 takes 137 us as all lies and 140 with y copied (269 and 274 with AVX2, but 304 and 274 where x is turned), of 1024
# 11.2 and 10.3 ms (24.4 and 18.5). On a Zen 4 one of 256 x 512 x 512 in four pieces is at 96 % of its best as all lies and at 94 with y
# copied (78 and 89 with AVX2), of 128 x 512 x 768, x turned, at 95 and 92 (65 and 88): wide tiles want it of what no cache near holds.
# To copy x gains nothing: 10.3 and 10.6 ms, 2048 93.8 and 94.5; caches that hold fewer lines of one place want it, where rows are a
# power of two apart.
# On a Sapphire Rapids, in the time of PyTorch's: 512 x 512 x 512 1.28 as all lies, 1.15 with y copied; x turned, whose parts of lines lie
# apart, 1.46 and 1.05, of 1000 1.7 and 1.2.
_LARGE_Y, _LARGE_Y_WIDE, _OFTEN_Y = 256 << 10, 512 << 10, 64
_LARGE_X, _LARGE_X_TURNED, _OFTEN_X = 4 << 20, 512 << 10, 256

# Matrices of up to so many rows and columns are multiplied number by number if there are many: 1000 of 4 x 4 took 48 us by the tile, or
# 77 where y was turned, and take 13.
_NUMBERS, _MANY, _SHARED_FEW = 4, 64, 1 << 18


class Joined(NamedTuple):
    """`launch(address, n, parts, out, numbers)` adds up what a product left in that many bytes of `parts`."""

    launch: Launch
    address: int
    n: int
    parts: int
    numbers: Any


class Product(NamedTuple):
    """`launch(address, n, x, y, out, numbers)` on the buffers of the operands and of the result multiplies them; or writes parts in the
    result's place, which are then to be `joined`."""

    launch: Launch
    address: int
    n: int
    numbers: Any
    joined: Joined | None = None


class Tiled(NamedTuple):
    """`launch(address, n, x, y, out, room, added, numbers)`, with that many bytes of `room`, multiplies, or writes parts that are then to
    be `joined`."""

    launch: Launch
    address: int
    n: int
    room: int
    numbers: Any
    joined: Joined | None


def by_tiles(integers: bool) -> bool:
    """Whether the tile, or rows, are to multiply. They are quicker than BLAS, or as quick with vectors, where BLAS's bits depend on how
    many threads there are; of integers NumPy has no more than loops (256 x 256 x 256 of int64: 12 to 45 ms, the tile 0.33). Over PyTorch's
    time, float32, one thread of a Zen 5 (rows x columns x depth: with AVX-512, with AVX2; BLAS):

    16 x 16 x 16: .33, .31; .46. 64 x 64 x 64: .39, .68; .79. 256 x 256 x 256: .42, .82; .87. 1024 x 1024 x 1024: .49, .89; .87.
    4 x 1024 x 1024: .28, .53; .76. 32 x 10 x 512: .20, .34; .36. 64 x 1000 x 512: .44, .82; .89. 1 x 64 x 64: .27, .20; .25.
    1 x 1024 x 1024: .96, 1.02; .90. 64 x 1 x 64: .38; .39. 1024 x 1 x 1024: .92; .81. 3000 x 1 x 100: .82; .78. 1 x 1 x 100000: 1.17; 1.06.
    NEON: not measured.
    """
    bits = processor.vector_bits()
    return bits is not None and (integers or bits >= 256 or found() is None)


def dots(code: str, x: Matrix, batch: int, steps: tuple[int, int]) -> Product:
    """`batch` products of matrices, whose rows lie in steps of 1, with vectors that do."""
    (rows, k), row, size = x[:2], x[2], int(code[1])
    work = batch * rows * k
    launch = launcher(4, "", work > _PARALLEL_GEMV, quick=work <= _FEW_READ)
    long = code[0] == "f" and work > _PARALLEL_GEMV and batch * rows < _FEW_ROWS
    cuts = -(-k // RUN) if long else 1
    numbers = np.array([rows, k, size * steps[0], size * row, size * steps[1], cuts], np.int64)
    joined = joined_of(code, batch, cuts, rows)
    return Product(launch, _dots_kernel(code), batch * cuts * rows, numbers.view(np.uint8), joined)


def joined_of(code: str, batch: int, cuts: int, size: int) -> Joined | None:
    """What adds up the parts, as many as there are `cuts`, of `batch` results of `size` numbers; one part is the result."""
    if cuts == 1:
        return None
    source, params = texts.added_up(code)
    address = build.kernel(f"added_up_{code}", source, params).address
    n = batch * size
    launch = launcher(3, "", n * cuts > _SHARED_SUMS)
    return Joined(
        launch, address, n, n * cuts * int(code[1]), np.array([cuts, size], np.int64).view(np.uint8)
    )


@cached(4)
def _dots_kernel(code: str) -> int:
    source, params = texts.dots(code)
    return build.kernel(f"dots_{code}", source, params, unrolled=None if code[0] == "f" else True).address


def written_out(
    code: str, x: Matrix, y: Matrix, batch: int = 1, steps: tuple[int, int] = (0, 0)
) -> Product | None:
    """The same of many matrices of a few numbers, whatever their steps; None where they are others."""
    (m, k, *x_steps), (_, n, *y_steps) = x, y
    if batch < _MANY or max(m, k, n) > _NUMBERS:
        return None
    source, params = texts.written_out(code, m, k, n)
    address = build.kernel(f"products_{m}x{k}x{n}_{code}", source, params, contract=True).address
    work = batch * m * n * k
    launch = launcher(4, "", work > _SHARED_FEW, quick=work <= _FEW)
    numbers = np.array([steps[0], *x_steps, steps[1], *y_steps], np.int64)
    return Product(launch, address, batch, numbers.view(np.uint8))


def _counts(shape: tuple[int, int], steps: tuple[int, int]) -> tuple[int, int]:
    """Steps of a matrix, those along a dimension of one element being 1."""
    down, along = steps
    return (down if shape[0] > 1 else 1, along if shape[1] > 1 else 1)


def readable(y: Matrix) -> bool:
    """Whether the second operand can be read as it lies: one of its steps is 1."""
    return 1 in _counts(y[:2], y[2:])


def tiles(
    code: str,
    x: Matrix,
    y: Matrix,
    batch: int = 1,
    steps: tuple[int, int] = (0, 0),
    added: tuple[int, int] | None = None,
    floor: bool = False,
    bits: int = 0,
) -> Tiled:
    """`batch` products of matrices of dtype `code` that lie `steps` elements apart, of which the second is `readable`. Something may be
    `added`, whose matrices and rows are so many elements apart and whose columns one, and what is negative then made 0. The machine's
    vectors unless `bits` says other."""
    bits = bits or processor.vector_bits() or 0
    (high, _), most, lanes = SHAPES[bits][code]
    (m, k), n, size, wide = x[:2], y[1], int(code[1]), most * lanes
    row, along = _counts(x[:2], x[2:])
    down, across = _counts(y[:2], y[2:])
    work, up, strips = m * n * k, -(-m // high), -(-n // wide)
    shared = batch * work > _SHARED
    part = -(-k // -(-k // PART))
    then = (0 if added is None else PLUS) + (FLOOR if floor else 0)
    large = _LARGE_Y_WIDE if bits == WIDE else _LARGE_Y
    turned = TURNED if across != 1 else COPIED if k * n * size >= large and m >= _OFTEN_Y else AS_IT_LIES
    # Where memory is not copied, a row is read a line at a time: parts of lines would be read in steps.
    line = LINE * lanes if m == 1 and turned == AS_IT_LIES else wide
    tall = shared and not then and batch * up * -(-n // line) < _ITEMS and k >= _ITEMS * PART
    cuts = -(-k // part) if tall else 1
    copied = AS_IT_LIES
    large = _LARGE_X if along == 1 else _LARGE_X_TURNED
    if m * k * size >= large and n >= _OFTEN_X and 1 in (row, along) and cuts == 1:
        copied = COPIED if along == 1 else TURNED
    fewest = _GROUPS if turned and not copied else 1
    wanted = max(-(-_ITEMS // (batch * cuts * up)), -(-fewest // (batch * cuts)))
    groups = min(strips, wanted) if shared else 1
    width = -(-(-(-strips // groups) * wide) // line) * line
    groups = -(-n // width)
    step = high * (-(-part // wide) * wide + PAD)
    apart, ldd = added or (0, 0)
    numbers = [up, groups, m, n, k, part, width, then, cuts]
    numbers += [steps[0] * size, row * size, along * size, copied]
    numbers += [size * s for s in (step, steps[1], down, across)] + [turned, apart * size, ldd * size]
    launch = launcher(6, "", shared, quick=work * batch <= _FEW)
    items = batch * cuts * groups * up
    room = items * step * size if copied else 0
    told, joined = np.array(numbers, np.int64).view(np.uint8), joined_of(code, batch, cuts, m * n)
    return Tiled(launch, tile_kernel(code, bits), items, room, told, joined)


@cached(16)
def tile_kernel(code: str, bits: int) -> int:
    """The address of the kernel on vectors of so many bits."""
    source, params = texts.product(code, bits)
    return build.kernel(f"tiles_{code}", source, params, unrolled=None).address


# ---------------------------------------------------------------- by BLAS


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
    return Product(launch, _blas_kernel(code), batch * rows, np.array(numbers, np.int64).view(np.uint8))


def _turned(matrix: Matrix) -> Matrix:
    rows, columns, down, along = matrix
    return columns, rows, along, down


def _read(matrix: Matrix) -> tuple[int, int]:
    """How BLAS is told where a matrix lies: turned or not, and the step that is not 1."""
    _, columns, down, along = matrix
    return (_AS_IT_LIES, down) if along == 1 and down >= columns else (_TURNED, max(along, 1))


@cached(2)
def _blas_kernel(code: str) -> int:
    names = {"gemm": f"gemm_{code}", "gemv": f"gemv_{code}", "as_it_lies": _AS_IT_LIES}
    numbers = [f"numbers[{k}]" for k in range(16)]
    source = _BLAS.format(
        **names, numbers=", ".join(numbers[:10]), steps=", ".join(numbers[10:15]), swapped=numbers[15]
    )
    return build.kernel(f"product_{code}", source, ["i8", "i8", "i8", "i8", "i8", "*i8"]).address
