"""Products by tiles: matrices that lie in any way, of any size, in batches, against NumPy."""

import numpy as np
import pytest

from nbgrad.kernels.cuda.compile import compiled
from nbgrad.kernels.cuda.families import own
from nbgrad.kernels.cuda.products import product
from tests.cuda.emulation import alike, seen, without_barriers


def multiplied(
    source: str, code: str, sizes: tuple[int, int, int], batch: int, turned: bool, blocks: int
) -> None:
    rows, columns, depth = sizes
    rng = np.random.default_rng(0)
    made = [rng.integers(-9, 9, (batch, *shape)).astype(code) for shape in ((rows, depth), (depth, columns))]
    given = [np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2) if turned else a for a in made]
    steps = [[s // a.itemsize for s in a.strides] for a in given]
    meta = np.array([rows, columns, depth, *steps[0], *steps[1]], np.int64)
    out = np.zeros(batch * rows * columns, code)
    flat = [a.swapaxes(1, 2).ravel() if turned else a.ravel() for a in given]
    bits = [a.view(np.uint16) if code == "f2" else a for a in (out, *flat)]
    params = ["i8", "*i8", *[f"*{code}"] * 3]
    _, found, *_ = alike("tiles", source, params, blocks, [out.size, meta, *bits])
    want = np.matmul(*[a.astype(np.float64) for a in made]).ravel()
    assert (found.view(code).astype(np.float64) == want).all()


@pytest.mark.parametrize(("code", "side"), [("f4", 64), ("f8", 64), ("f2", 64), ("i8", 64), ("f4", 128)])
@pytest.mark.parametrize("turned", [False, True])
def test_against_numpy(code: str, turned: bool, side: int) -> None:
    """Whole numbers, so that no order of additions matters."""
    found = own("product", product(code, side)[0])
    assert found is not None
    large = ((130, 135, 17), 2, 3)
    for sizes, batch, blocks in (((70, 65, 33), 2, 3), ((3, 5, 1), 3, 1), ((64, 64, 16), 1, 2), large):
        multiplied(found.source, code, sizes, batch, turned, blocks)


def test_each_barrier_is_missed() -> None:
    found = own("product", product("f4", 64)[0])
    assert found is not None
    texts = list(without_barriers(found.source))
    assert len(texts) == 2
    for text in texts:
        assert seen(lambda text=text: multiplied(text, "f4", (70, 65, 33), 1, False, 1))


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("code", "side"), [("f4", 64), ("f8", 64), ("f2", 64), ("i8", 64), ("f4", 128), ("f2", 128)]
)
def test_sums_stay_in_registers(code: str, side: int) -> None:
    found = own("product", product(code, side)[0])
    assert found is not None
    for capability in ((9, 0), (7, 5)):
        made = compiled("product", found.source, found.params, capability)
        assert (made.cubin().spills, made.cubin().stack) == (0, 0)
        assert made.cubin().registers <= side + 64
        assert (made.float64 > 0) is (code == "f8")
