"""One product of two matrices, or vectors, or batches: by the BLAS where it can read them, by NumPy where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.base.tables import PLANS, Table
from nbgrad.core.tensor import Tensor, empty, hooks, requires, wrap
from nbgrad.kernels import products
from nbgrad.kernels.cpu import few
from nbgrad.kernels.cpu import reduce as reductions
from nbgrad.kernels.cuda import products as elements
from nbgrad.kernels.cuda.blas import gemm_of
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.reduce.reduction import RUN, SUM, reduction
from nbgrad.ops.views.copy import copier, to_dtype, zeros

_matmul, _array, _empty = np.matmul, np.ndarray, np.empty
_bytes = np.dtype(np.uint8)
_LONG = 10000  # elements of a vector from which OpenBLAS cuts a dot product
_FEW_PRODUCTS = 3000  # of complex numbers, which are done before a BLAS has begun
_NO_STATIC: dict[str, Any] = {}
Run = Callable[[Tensor, Tensor], Tensor]
Adding = Callable[[Tensor, Tensor, Tensor], Tensor]
Check = Callable[[Spec, Spec], None]
Rule = Callable[..., Tensor]


def _known(check: Check, turn: str) -> Any:
    """The product without history. What it comes to depends on specs only, so it is checked and worked out once: `find` tells."""
    runs: Table[tuple[Spec, Spec], Run] = Table("ops.linear.blas.runs", PLANS)
    run_of = runs.get

    def find(a: Spec, b: Spec) -> Run:
        read_a = _turned(a) if turn == "tn" else a
        read_b = _turned(b) if turn == "nt" else b
        check(read_a, read_b)
        return runs.keep((a, b), (_conjugating if turn == "cn" else _make)(read_a, read_b))

    def run(a: Tensor, b: Tensor) -> Tensor:
        return (run_of((a._spec, b._spec)) or find(a._spec, b._spec))(a, b)

    def adding(c: Spec, a: Spec, b: Spec) -> Adding | None:
        return _adding(c, a, _turned(b) if turn == "nt" else b)

    run.find, run.adding = find, adding  # type: ignore[attr-defined]
    return run


def _product_of(a: Spec, b: Spec) -> Spec:
    """In the dtype of both, but for batches without elements."""
    return spec(b.dtype, (*a.shape[:-1], *(b.shape[-1:] if b.ndim > 1 else ())), None, a.device)


def _make(a: Spec, b: Spec) -> Run:
    backend.same((a.device, b.device))
    out = _product_of(a, b)
    d = out.dtype
    if not out.numel or not a.shape[-1]:
        return lambda x, y: zeros(out)
    if not out.backend.holds:
        return lambda x, y: empty(out)
    if d.is_complex:
        if out.backend is not backend.cpu:
            return _by_parts(a, b)
        return _of_few(a, b, out) or _by_numpy(a, b, out)
    if not out.ndim and d.is_floating_point:
        return _inner(a, b, out)
    if out.backend is not backend.cpu:
        return _by_library(a, b, out) or _of_elements(a, b, out)
    by_tile = _by_tile(out)
    read = _as_tiles_read(a, b) if by_tile else (_as_blas_reads(a), _as_blas_reads(b))
    if read != (a, b):
        product, first, second = _make(*read), _reader(a, read[0]), _reader(b, read[1])
        return lambda x, y: to_dtype(product(first(x), second(y)), d)
    if by_tile:
        return _by_tiles(a, b, out)
    return _by_blas(a, b, out) or _by_numpy(a, b, out)


def _by_parts(a: Spec, b: Spec) -> Run:
    """Of complex numbers, where nothing multiplies them: four products of their parts."""
    parts = [sp.like(sp.shape, tuple([2 * s for s in sp.strides]), sp.dtype.to_real()) for sp in (a, b)]
    product = _make(*parts)

    def halves(t: Tensor, sp: Spec) -> tuple[Tensor, Tensor]:
        return wrap(t._buf, sp), wrap(sp.backend.view(t._buf, sp.itemsize), sp)

    def run(x: Tensor, y: Tensor) -> Tensor:
        (x_re, x_im), (y_re, y_im) = halves(x, parts[0]), halves(y, parts[1])
        re = e.sub(product(x_re, y_re), product(x_im, y_im))
        made: Tensor = e.complex(re, e.add(product(x_re, y_im), product(x_im, y_re)))
        return made

    return run


def _of_elements(a: Spec, b: Spec, out: Spec) -> Run:
    """Where there is no BLAS: of operands that lie in any way."""
    x = a.like((1, *a.shape), (0, *a.strides)) if a.ndim == 1 else a
    y = b.like((*b.shape, 1), (*b.strides, 0)) if b.ndim == 1 else b
    steps = [(0, *sp.strides)[-3:] for sp in (x, y)]
    rows, columns, code = x.shape[-2], y.shape[-1], out.dtype.code
    count = out.numel // (rows * columns)
    side = elements.side(code, rows, columns, count)
    source, signature = elements.product(code, side)
    address = out.backend.kernel(f"product_{code}_{side}", source, signature).address
    tiles = count * -(-rows // side) * -(-columns // side)
    launch = out.backend.launch(4, "", tiles * side * side)
    meta = out.backend.constants([rows, columns, x.shape[-1], *steps[0], *steps[1]])

    def run(x: Tensor, y: Tensor) -> Tensor:
        made = empty(out)
        launch(address, out.numel, meta, made._buf, x._buf, y._buf)
        return made

    return run


def _by_library(a: Spec, b: Spec, out: Spec) -> Run | None:
    """A device's, where it has one."""
    served: Any = out.backend
    if served.driver.blas is None:
        return None
    x, y, count, apart = _matrices(a, b)
    g = gemm_of(out.dtype.code, x, y, apart, count)
    if g is None:
        return None

    def run(x: Tensor, y: Tensor) -> Tensor:
        made = empty(out)
        served.multiply(g, x._buf, y._buf, made._buf)
        return made

    return run


def _by_tile(out: Spec) -> bool:
    """Whether kernels of our own are to multiply."""
    if not out.ndim or out.dtype is dtypes.bool_ or out.dtype.is_complex:
        return False
    return products.by_tiles(not out.dtype.is_floating_point)


def _matrices(a: Spec, b: Spec) -> tuple[Any, Any, int, tuple[int, int]]:
    """Each operand's rows, columns and steps, how many pairs there are, and how far apart; a vector is a row, or a column."""
    row, column = (
        a.like((1, *a.shape), (1, *a.strides)),
        b.like((*b.shape, 1), (*b.strides, 1)),
    )
    x, y = (row if a.ndim == 1 else a), (column if b.ndim == 1 else b)
    left, right = ((*sp.shape[-2:], *sp.strides[-2:]) for sp in (x, y))
    batch, apart = (a.shape[0], (a.strides[0], b.strides[0])) if a.ndim == 3 else (1, (0, 0))
    return left, right, batch, apart


def _by_tiles(a: Spec, b: Spec, out: Spec) -> Run:
    """A vector is multiplied by rows that lie so, or as a row by lines that do."""
    (m, k, row, along), (_, n, down, across), batch, apart = _matrices(a, b)
    code, first, second = out.dtype.code, (m, k, row, along), (k, n, down, across)
    rows, swapped = _rows_read(first, second)
    few = None if rows else products.written_out(code, first, second, batch, apart)
    if swapped:
        first, second, apart = (n, k, across, down), (k, m, along, row), apart[::-1]
    nbytes = out.numel * out.itemsize
    backend.check_size(nbytes)
    if few or rows:
        launch, address, items, numbers, joined = few or products.dots(code, first, batch, apart)
        room = 0
    else:
        launch, address, items, room, numbers, joined = products.tiles(code, first, second, batch, apart)
    if joined is not None:
        join, join_address, count, parts_nbytes, sizes = joined
        beside = () if rows else (numbers, numbers)

        def run_in_parts(x: Tensor, y: Tensor) -> Tensor:
            parts, buf = _empty(parts_nbytes, _bytes), _empty(nbytes, _bytes)
            if swapped:
                x, y = y, x
            launch(address, items, x._buf, y._buf, parts, *beside, numbers)
            join(join_address, count, parts, buf, sizes)
            return wrap(buf, out)

        return run_in_parts

    def run(x: Tensor, y: Tensor) -> Tensor:
        buf = _empty(nbytes, _bytes)
        launch(address, items, x._buf, y._buf, buf, numbers, buf, numbers)
        return wrap(buf, out)

    def run_swapped(x: Tensor, y: Tensor) -> Tensor:
        return run(y, x)

    def run_in_room(x: Tensor, y: Tensor) -> Tensor:
        buf = _empty(nbytes, _bytes)
        launch(address, items, x._buf, y._buf, buf, _empty(room, _bytes), buf, numbers)
        return wrap(buf, out)

    def run_rows(x: Tensor, y: Tensor) -> Tensor:
        buf = _empty(nbytes, _bytes)
        launch(address, items, x._buf, y._buf, buf, numbers)
        return wrap(buf, out)

    def run_columns(x: Tensor, y: Tensor) -> Tensor:
        return run_rows(y, x)

    if few or rows:
        return run_columns if rows and swapped else run_rows
    return run_swapped if swapped else run_in_room if room else run


def _rows_read(x: products.Matrix, y: products.Matrix) -> tuple[bool, bool]:
    """Whether a vector is multiplied by each of the rows of a matrix; and whether that, or lines for the tile, is the second operand
    turned. `y` is the second operand, of a column or a row `x` the first."""
    (m, k, _, along), (_, n, down, across) = x, y
    if n == 1 and (along == 1 or k == 1):
        return True, False
    if m == 1 and n > 1 and across != 1 and (down == 1 or k == 1):
        return True, True
    return False, n == 1 and m > 1


def _adding(c: Spec, a: Spec, b: Spec) -> Adding | None:
    """The product with something added to each part of the result while it is in registers; None where it lies otherwise than in
    rows, or others multiply. The bits are those of an addition afterwards."""
    out = _product_of(a, b)
    if out.backend is not backend.cpu or not (out.numel and a.shape[-1] and _by_tile(out)):
        return None
    _, steps = layout.expand(c.shape, c.strides, out.shape)
    if _as_tiles_read(a, b) != (a, b) or steps[-1] != 1 or 1 in out.shape[-2:] or out.ndim == 1:
        return None
    added, matrices = ((0, *steps)[-3], steps[-2]), _matrices(a, b)
    if products.tiles(out.dtype.code, *matrices).joined is not None:
        return None  # parts are added up first
    launch, address, n, room, numbers, _ = products.tiles(out.dtype.code, *matrices, added)
    nbytes = out.numel * out.itemsize

    def run(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        buf = _empty(nbytes, _bytes)
        launch(address, n, x._buf, y._buf, buf, _empty(room, _bytes) if room else numbers, z._buf, numbers)
        return wrap(buf, out)

    return run


def _by_blas(a: Spec, b: Spec, out: Spec) -> Run | None:
    code = out.dtype.code
    if code not in ("f4", "f8") or not out.ndim:
        return None
    known = products.product(code, *_matrices(a, b))
    if known is None:
        return None
    launch, address, n, numbers, _ = known
    nbytes = out.numel * out.itemsize

    def run(x: Tensor, y: Tensor) -> Tensor:
        buf = _empty(nbytes, _bytes)
        launch(address, n, x._buf, y._buf, buf, numbers)
        return wrap(buf, out)

    return run


def _inner(a: Spec, b: Spec, out: Spec) -> Run:
    """Of two lines; long ones are cut as those that are summed."""
    n, d = a.numel, out.dtype
    count = -(-n // RUN) if n >= 2 * RUN else 1
    sums = out if count == 1 else out.like((count,), dtype=dtypes.float64)
    steps = (a.strides[0], b.strides[0])
    contiguous = n == 1 or steps == (1, 1)
    source, signature = reductions.inner(d.code, d.kind, sums.dtype.code, contiguous)
    name = f"dot_{d.code}_{sums.dtype.code}_{'runs' if contiguous else 'strided'}"
    address = out.backend.kernel(name, source, signature, contract=True).address
    launch = out.backend.launch(4, "", n // 2 if count > 1 else 1, n < FEW)
    meta = out.backend.constants([n, RUN if count > 1 else n, *steps])
    joined = reduction(SUM, sums, (0,), False, d, "f8") if count > 1 else None
    nbytes, allocate = sums.nbytes, sums.allocate

    def run(x: Tensor, y: Tensor) -> Tensor:
        buf = allocate(nbytes, _bytes)
        launch(address, count, meta, buf, x._buf, y._buf)
        made = wrap(buf, sums)
        return made if joined is None else joined(made)

    return run


def _conjugating(a: Spec, b: Spec) -> Run:
    """Of two lines, the conjugate of the first one times the second."""
    if not a.dtype.is_complex or not a.numel or not a.backend.holds:
        return _make(a, b)
    few = _of_few(a, b, _product_of(a, b), True) if a.backend is backend.cpu else None
    if few is not None:
        return few
    product = _make(_dense(a), b)
    return lambda x, y: product(hooks.conj(wrap(x._buf, a)), y)


def _of_few(a: Spec, b: Spec, out: Spec, conjugated: bool = False) -> Run | None:
    """Of complex matrices, or of the conjugates of the first ones, where there is little to multiply."""
    (m, k, row, along), (_, n, down, across), count, apart = _matrices(a, b)
    if m * n * k > _FEW_PRODUCTS:
        return None
    code, allocate, nbytes = out.dtype.code, out.allocate, out.nbytes
    name = f"few_products_{code}{'_conjugated' * conjugated}"
    address = out.backend.kernel(name, *few.product(code, conjugated)).address
    launch = out.backend.launch(4, "", out.numel if count > 1 else 1, out.numel < FEW)
    meta = out.backend.constants([m, n, k, apart[0], row, along, apart[1], down, across])

    def run(x: Tensor, y: Tensor) -> Tensor:
        buf = allocate(nbytes, _bytes)
        launch(address, count, meta, buf, x._buf, y._buf)
        return wrap(buf, out)

    return run


def _by_numpy(a: Spec, b: Spec, out: Spec) -> Run:
    kind, nbytes = out.dtype.np, out.numel * out.itemsize
    shape_a, shape_b, shape = tuple(a.shape), tuple(b.shape), tuple(out.shape)
    steps_a, steps_b = (tuple([s * sp.itemsize for s in sp.strides]) for sp in (a, b))
    multiply = products.alone(_matmul) if a.numel > _LONG else _matmul
    if out.dtype.inexact:  # NumPy warns of what comes of infinities
        multiply = np.errstate(all="ignore")(multiply)

    def run(x: Tensor, y: Tensor) -> Tensor:
        buf = _empty(nbytes, _bytes)
        multiply(
            _array(shape_a, kind, x._buf, 0, steps_a),
            _array(shape_b, kind, y._buf, 0, steps_b),
            _array(shape, kind, buf),
        )
        return wrap(buf, out)

    return run


_WIDER = {d: dtypes.float32 for d in dtypes.all_dtypes if d.narrow} | dict.fromkeys(
    (dtypes.int16, dtypes.int8, dtypes.uint8), dtypes.int32
)


def _as_tiles_read(a: Spec, b: Spec) -> tuple[Spec, Spec]:
    """What the product reads in their place: at least 32 bits (a narrow sum is not rounded at each step, and of integers the low bits
    are the same), and no second operand, or vector for rows, that is strewn."""
    a, b = (sp.like(dtype=_WIDER[sp.dtype]) if sp.dtype in _WIDER else sp for sp in (a, b))
    x, y, _, _ = _matrices(a, b)
    rows, swapped = _rows_read(x, y)
    if rows:
        step, size = (x[3], x[1]) if swapped else (y[2], y[0])
        if step == 1 or size == 1:
            return a, b
        return (_dense(a), b) if swapped else (a, _dense(b))
    if swapped:
        return (a if products.readable((*x[1::-1], *x[:1:-1])) else _dense(a)), b
    return a, (b if products.readable(y) else _dense(b))


def _dense(sp: Spec) -> Spec:
    return spec(sp.dtype, sp.shape, None, sp.device)


def _as_blas_reads(sp: Spec) -> Spec:
    """What the product reads in place of `sp`: no BLAS has what is narrow (and a sum is not rounded at each step), and where it cannot
    read the strides NumPy would do without it, in 20 times the time at 256 x 256."""
    if sp.dtype.narrow:
        sp = sp.like(dtype=dtypes.float32)
    return sp if _for_blas(sp) else _dense(sp)


def _reader(sp: Spec, read: Spec) -> Callable[[Tensor], Tensor]:
    """What gives the memory of a tensor that lies as `sp`, as `read`."""
    return _itself if read is sp else copier(sp, read)


def _itself(t: Tensor) -> Tensor:
    return t


def _turned(sp: Spec) -> Spec:
    """The matrices of `sp`, each read as its transpose."""
    if sp.ndim < 2:
        return sp
    *batch, rows, columns = sp.shape
    *steps, down, along = sp.strides
    return sp.like((*batch, columns, rows), (*steps, along, down))


def _for_blas(sp: Spec) -> bool:
    """One dimension of the matrix in steps of 1, the other in steps that skip no less than a row."""
    if sp.ndim == 1:
        return sp.strides[0] == 1 or sp.shape[0] == 1
    (rows, columns), (down, along) = sp.shape[-2:], sp.strides[-2:]
    return (along == 1 and down >= columns) or (down == 1 and along >= rows) or rows == columns == 1


def _folds(a: Tensor, b: Tensor) -> bool:
    left = a.ndim >= b.ndim
    large, small = (a._spec, b) if left else (_turned(b._spec), a)
    if large.ndim < 3 or small.ndim > 2:
        return False
    if requires(small):
        return True  # else its gradient would be as large as the batch before it is summed
    if a.ndim == 2:
        return False
    shape, steps = large.shape, large.strides
    return not large.numel or all(steps[d] == steps[d + 1] * shape[d + 1] for d in range(large.ndim - 2))
