"""Products by the register tile: any shape, layout, width of vectors and number of threads, against NumPy in float64, and bit by bit."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nbgrad as T
from nbgrad.kernels import build, processor, products, tile
from nbgrad.kernels.cpu import products as texts
from nbgrad.kernels.products import Matrix
from tests.kernels.test_dialect import assert_same_bits

Array = np.ndarray[Any, Any]
MOST = processor.vector_bits() or 0
WIDTHS = [bits for bits in tile.SHAPES if bits <= MOST]

pytestmark = pytest.mark.skipif(not MOST, reason="no vectors that are known")

# Rows, columns, depth: nothing but one, edges of tiles and of vectors, parts of k, blocks of rows.
SIZES = [
    (1, 1, 1),
    (2, 3, 4),
    (4, 32, 7),
    (5, 17, 16),
    (12, 16, 383),
    (13, 33, 385),
    (25, 8, 64),
    (8, 31, 769),
]
LARGE = [(1, 230, 800), (1, 600, 2000), (193, 40, 30), (64, 300, 1000), (201, 65, 400)]
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "rows": lambda a: a.copy(),
    "columns": lambda a: np.ascontiguousarray(a.T).T,
    "inside": lambda a: np.pad(a, ((0, 0), (3, 2)))[:, 3:-2],
    "strewn": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
}


def matrix(a: Array) -> Matrix:
    rows, columns = a.shape
    down, along = (s // a.itemsize for s in a.strides)
    return rows, columns, down, along


def address(a: Array) -> int:
    return int(a.ctypes.data)


def multiplied(x: Array, y: Array, bits: int, added: Array | None = None, floor: bool = False) -> Array:
    """By the kernel, one thread."""
    out = np.empty((x.shape[0], y.shape[1]), x.dtype)
    out.view(np.uint8).fill(255)  # NaN, as floats
    steps = None if added is None else (0, added.strides[0] // added.itemsize)
    found = products.tiles(x.dtype.str[1:], matrix(x), matrix(y), 1, (0, 0), steps, floor, bits)
    room = np.empty(found.room + 1, np.uint8)
    kinds = [ctypes.c_int64] * 7 + [ctypes.c_void_p]
    given = [
        0,
        found.n,
        *map(address, (x, y, out, room, out if added is None else added)),
        address(found.numbers),
    ]
    ctypes.CFUNCTYPE(None, *kinds)(found.address)(*given)
    return out


def drawn(shape: tuple[int, int], code: str) -> Array:
    rng = np.random.default_rng(sum(shape))
    if code[0] == "i":
        ends = np.iinfo(code)
        return rng.integers(ends.min, ends.max, shape, code, endpoint=True)
    return rng.standard_normal(shape).astype(code)


def assert_near(found: Array, x: Array, y: Array) -> None:
    """Within what the rounding of every operation may add up to; integers wrap."""
    if x.dtype.kind == "i":
        assert (found == x @ y).all()
        return
    exact = x.astype(np.longdouble) @ y.astype(np.longdouble)
    size = np.abs(x).astype(np.longdouble) @ np.abs(y).astype(np.longdouble)
    depth = x.shape[1]
    assert (np.abs(found - exact) <= (depth + 1) * np.finfo(x.dtype).eps / 2 * size).all()


@pytest.mark.parametrize("code", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("sizes", SIZES + LARGE, ids=lambda s: "x".join(map(str, s)))
def test_widths_and_layouts_give_the_same_bits(code: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    x, y = drawn((m, k), code), drawn((k, n), code)
    found = set()
    for first in LAYOUTS.values():
        for name, second in LAYOUTS.items():
            if name != "strewn":
                found |= {multiplied(first(x), second(y), bits).tobytes() for bits in WIDTHS}
    assert len(found) == 1
    assert_near(np.frombuffer(found.pop(), code).reshape(m, n), x, y)


@pytest.mark.parametrize("code", ["f4", "f8"])
def test_what_is_copied_gives_the_same_bits(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m, n, k = 201, 70, 500
    x, y = drawn((m, k), code), drawn((k, n), code)
    want = multiplied(x, y, WIDTHS[0]).tobytes()
    for name in ("_LARGE_X", "_OFTEN_X", "_LARGE_Y", "_LARGE_Y_WIDE", "_OFTEN_Y"):
        monkeypatch.setattr(products, name, 0)
    for first in ("rows", "columns", "strewn"):
        for second in ("rows", "columns"):
            for bits in WIDTHS:
                found = multiplied(LAYOUTS[first](x), LAYOUTS[second](y), bits)
                assert found.tobytes() == want, (first, second, bits)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("code", ["f4", "f8"])
@pytest.mark.parametrize("sizes", [(5, 17, 16), (14, 40, 500)])
def test_something_is_added_and_cut_at_zero(code: str, sizes: tuple[int, int, int], bits: int) -> None:
    m, n, k = sizes
    x, y = drawn((m, k), code), drawn((k, n), code)
    product, row = multiplied(x, y, bits), drawn((1, n), code)
    for added in (row, drawn((m, n), code)):
        with_row = np.broadcast_to(added, (m, n))
        assert multiplied(x, y, bits, with_row).tobytes() == (product + added).tobytes()
        cut = multiplied(x, y, bits, with_row, floor=True)
        assert cut.tobytes() == np.where(product + added < 0, 0, product + added).astype(code).tobytes()
    x[1, 3] = np.nan
    assert np.isnan(multiplied(x, y, bits, floor=True)[1]).all()


@pytest.mark.parametrize("code", ["f4", "f8", "i8"])
def test_un_jitted_it_is_the_same_product(code: str) -> None:
    source, _ = texts.product(code, WIDTHS[-1])
    body: Any = build.load_source("body", source.replace("@NAME@", "body"), "<test>")
    x, y = drawn((7, 5), code), LAYOUTS["columns"](drawn((5, 9), code))
    out = np.zeros((7, 9), code)
    found = products.tiles(code, matrix(x), matrix(y), added=(0, 0), bits=WIDTHS[-1])
    row = drawn((1, 9), code)
    body(0, found.n, address(x), address(y), address(out), 0, address(row), found.numbers.view(np.int64))
    np.testing.assert_allclose(out, x @ y + row, 1e-5 if code == "f4" else 1e-13)


@pytest.mark.parametrize("code", ["f4", "f8", "i8"])
def test_un_jitted_rows_are_the_same(code: str) -> None:
    source, params = texts.dots(code)
    body: Any = build.load_source("body", source.replace("@NAME@", "body"), "<test>")
    x, v, out = drawn((7, 9), code), drawn((1, 9), code), np.zeros(7, code)
    numbers = products.dots(code, matrix(x), 1, (0, 0)).numbers.view(np.int64)
    given = (x.reshape(-1), v[0], out) if params[2][0] == "*" else map(address, (x, v, out))
    with np.errstate(over="ignore"):
        body(0, 7, *given, numbers)
    np.testing.assert_allclose(out, x @ v[0], 1e-5 if code == "f4" else 1e-13)


@pytest.mark.slow
def test_numba_makes_the_same_of_it() -> None:
    source, params = texts.product("f4", WIDTHS[-1])
    x, y = drawn((14, 9), "f4"), LAYOUTS["columns"](drawn((9, 35), "f4"))
    found = products.tiles("f4", matrix(x), matrix(y), bits=WIDTHS[-1])
    out = np.zeros((14, 35), "f4")
    assert_same_bits(
        source.replace("@NAME@", "kernel"),
        tuple(params),
        *(0, found.n, address(x), address(y), address(out), 0, address(out), found.numbers.view(np.int64)),
    )
    assert out.tobytes() == multiplied(x, y, WIDTHS[-1]).tobytes()
    source, params = texts.dots("f8")
    x, v, sums = drawn((6, 45), "f8"), drawn((1, 45), "f8"), np.zeros(6)
    numbers = products.dots("f8", matrix(x), 1, (0, 0)).numbers.view(np.int64)
    given = (0, 6, *map(address, (x, v, sums)), numbers)
    assert_same_bits(source.replace("@NAME@", "kernel"), tuple(params), *given)
    np.testing.assert_allclose(sums, x @ v[0], 1e-13)


def test_threads_and_other_rows_change_no_bit() -> None:
    x = T.tensor(drawn((403, 129), "f4"))
    w, many = T.tensor(drawn((300, 129), "f4")), T.tensor(drawn((36, 1000), "f8")).reshape(4, 90, 100)
    before, found = T.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            T.set_num_threads(threads)
            results = (x.t() @ x, x @ w.t(), many @ many.mT, x[:5] @ w.t(), w[:2] @ x.t())
            found.append([r.numpy().tobytes() for r in results])
    finally:
        T.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    assert (x[:5] @ w.t()).numpy().tobytes() == (x @ w.t())[:5].numpy().tobytes()
    assert (many[2] @ many[2].t()).numpy().tobytes() == (many @ many.mT)[2].numpy().tobytes()


@pytest.mark.parametrize("dtype", [T.float32, T.float64, T.int64])
@pytest.mark.parametrize("sizes", [(1, 64, 20001), (10, 7, 25003), (4, 33, 7072), (3, 1, 30011)])
def test_parts_of_a_long_sum_that_threads_share_have_the_bits_of_one_walk(
    sizes: tuple[int, int, int], dtype: T.dtype
) -> None:
    m, n, k = sizes
    code = {T.float32: "f4", T.float64: "f8", T.int64: "i8"}[dtype]
    x, y = drawn((m, k), code), drawn((k, n), code)
    rows = n == 1
    found = products.dots(code, matrix(x), 1, (0, 0)) if rows else products.tiles(code, matrix(x), matrix(y))
    assert (found.joined is not None and found.n >= 8) or (rows and code == "i8")
    many = drawn((100, n), code) if rows else drawn((k, 300), code)
    before = T.get_num_threads()
    whole = T.from_numpy(np.vstack([x, drawn((100, k), code)]) if rows else x)
    want = (whole @ T.from_numpy(y if rows else np.hstack([y, many])))[:m, :n].contiguous()
    try:
        for threads in (1, 2, 3):
            T.set_num_threads(threads)
            for name in ("rows", "inside") if rows else LAYOUTS:
                a, b = T.from_numpy(LAYOUTS[name](x)), T.from_numpy(LAYOUTS["inside"](y))
                one = a @ b
                assert one.numpy().tobytes() == want.numpy().tobytes()
                pair = a.expand(2, m, k) @ b.expand(2, k, n)
                assert pair.numpy().tobytes() == T.stack([want, want]).numpy().tobytes()
                added = T.from_numpy(drawn((1, n), code))
                assert T.addmm(added, a, b).numpy().tobytes() == (want + added).numpy().tobytes()
    finally:
        T.set_num_threads(before)


def test_un_jitted_parts_are_added_up_in_their_order() -> None:
    source, _ = texts.added_up("f4")
    body: Any = build.load_source("body", source.replace("@NAME@", "body"), "<test>")
    parts, out = drawn((2 * 7, 5), "f4").reshape(2, 7, 5), np.zeros(10, "f4")
    body(0, 3, parts.reshape(-1), out, np.array([7, 5]))
    body(3, 10, parts.reshape(-1), out, np.array([7, 5]))
    want = parts[:, 0]
    for k in range(1, 7):
        want = want + parts[:, k]
    assert out.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", [T.float32, T.float64, T.int64, T.int32])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (3, 2, 4), (2, 1, 3), (1, 4, 2), (3, 3, 1)])
def test_many_of_a_few_numbers_have_the_bits_of_each_alone(
    sizes: tuple[int, int, int], dtype: T.dtype
) -> None:
    m, n, k = sizes
    x, y = (T.tensor(drawn((products._MANY * a, b), "f8") * 9).to(dtype) for a, b in ((m, k), (k, n)))
    x, y = x.reshape(-1, m, k), y.reshape(-1, k, n)
    for first in (x, x.mT.contiguous().mT, x[3:4].expand(x.shape)):
        for second in (y, y.mT.contiguous().mT, y[:1].expand(y.shape)):
            alone = [a @ b for a, b in zip(first, second, strict=True)]
            assert (first @ second).numpy().tobytes() == T.stack(alone).numpy().tobytes()


def test_what_is_no_number_stays_where_it_is() -> None:
    x, y = drawn((14, 20), "f4"), drawn((20, 37), "f4")
    x[3, 4], x[5, 6], y[7, 8] = np.nan, np.inf, -np.inf
    y[6, 10], y[6, 11] = 0, -1
    with np.errstate(invalid="ignore"):
        want = x.astype(np.float64) @ y.astype(np.float64)
    found = (T.tensor(x) @ T.tensor(y)).numpy()
    assert (np.isnan(found) == np.isnan(want)).all() and (np.isinf(found) == np.isinf(want)).all()
    np.testing.assert_allclose(found[np.isfinite(want)], want[np.isfinite(want)], 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", [T.float32, T.float64])
def test_operands_that_overlap(dtype: T.dtype) -> None:
    line = T.randn(300, dtype=dtype)
    windows, a = line.as_strided((60, 40), (3, 1)), line.as_strided((30, 60), (1, 1))
    batch = line.as_strided((3, 30, 60), (0, 2, 1))
    for left, right in ((a, windows), (windows.t(), windows), (batch, windows), (batch, batch.mT)):
        want = left.double().numpy() @ right.double().numpy()
        np.testing.assert_allclose((left @ right).numpy(), want, 1e-3 if dtype is T.float32 else 1e-12, 1e-4)
    one = line[:1].expand(40, 40)
    np.testing.assert_allclose((one @ one.t()).numpy(), 40 * one.numpy() ** 2, 1e-5)


@pytest.mark.parametrize("shape", [(37,), (1, 37), (20, 37), (20, 1), (1,), ()])
@pytest.mark.parametrize("dtype", [T.float32, T.float64])
def test_what_is_added_in_the_tile_has_the_bits_of_two_steps(shape: tuple[int, ...], dtype: T.dtype) -> None:
    x, w = T.randn(20, 500, dtype=dtype), T.randn(37, 500, dtype=dtype)
    c = T.randn(shape, dtype=dtype)
    for found in (T.addmm(c, x, w.t()), T.baddbmm(c, x[None], w.t()[None])[0]):
        assert (found == x @ w.t() + c).all()
    assert (T.addmm(c, x, w.t(), beta=2, alpha=3) == 3 * (x @ w.t()) + 2 * c).all()
    each = T.randn(3, 20, 37, dtype=dtype)[:, :, ::2]
    batch = x.expand(3, 20, 500) @ w.t()[:, ::2]
    assert (T.baddbmm(each, x.expand(3, 20, 500), w.t()[:, ::2].expand(3, 500, 19)) == batch + each).all()
    turned = T.randn(37, 20, dtype=dtype).t()
    assert (T.addmm(turned, x, w.t()) == x @ w.t() + turned).all()


@pytest.mark.parametrize("dtype", [T.uint8, T.int8, T.int16, T.int32, T.int64])
def test_integers_wrap(dtype: T.dtype) -> None:
    ends = T.iinfo(dtype)
    x, y = (T.randint(ends.min, ends.max, shape, dtype=dtype) for shape in ((3, 20, 70), (3, 70, 9)))
    for left, right in ((x, y), (x[0], y[0]), (x[1].t(), x[2]), (x[:, :1], y[:, :, ::2]), (x[0], y[0, :, 0])):
        found = left @ right
        assert found.dtype is dtype
        np.testing.assert_array_equal(found.numpy(), left.numpy() @ right.numpy())
    np.testing.assert_array_equal(
        T.addmm(x[0, :, :9], x[0], y[0]).numpy(), x[0].numpy() @ y[0].numpy() + x[0, :, :9].numpy()
    )


@pytest.mark.parametrize("dtype", [T.float32, T.float64, T.int64])
@pytest.mark.parametrize("sizes", [(1, 1), (5, 1), (1, 9), (40, 600), (300, 70), (3, 5000)])
def test_vectors(sizes: tuple[int, int], dtype: T.dtype) -> None:
    (rows, k), kind = sizes, str(dtype).removeprefix("torch.")
    numbers = np.random.default_rng(0).integers(-99, 99, (2, rows, k)) / (1 if dtype is T.int64 else 8)
    vectors = np.random.default_rng(1).integers(-99, 99, (2, k)) / (1 if dtype is T.int64 else 8)
    for layout in LAYOUTS.values():
        for of in (lambda v: v, lambda v: np.repeat(v, 3)[::3]):
            x, v = T.from_numpy(layout(numbers[0].astype(kind))), T.from_numpy(of(vectors[0].astype(kind)))
            want = numbers[0] @ vectors[0]  # exact
            for found in (x @ v, v @ x.t(), (x @ v[:, None])[:, 0], (v[None] @ x.t())[0]):
                np.testing.assert_array_equal(found.numpy(), want)
    batch, each = T.from_numpy(numbers.astype(kind)), T.from_numpy(vectors.astype(kind))
    want = np.einsum("bij,bj->bi", numbers, vectors)
    for found in ((batch @ each[:, :, None])[:, :, 0], (each[:, None] @ batch.mT)[:, 0]):
        np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("dtype", [T.float32, T.float64])
def test_vectors_have_the_same_bits_for_any_number_of_threads(dtype: T.dtype) -> None:
    x, v, w = (T.randn(shape, dtype=dtype) for shape in ((301, 1025), (1025,), (301,)))
    before, found = T.get_num_threads(), set()
    try:
        for threads in (1, 2, 3):
            T.set_num_threads(threads)
            found.add(b"".join(r.numpy().tobytes() for r in (x @ v, w @ x, x.t() @ w, v @ x.t())))
    finally:
        T.set_num_threads(before)
    assert len(found) == 1
    assert ((w @ x) == (w.expand(2, 301) @ x)[0]).all()
