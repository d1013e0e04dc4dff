"""Copies of what lies turned, by tiles: against NumPy, of any size, and none of their barriers may be missing."""

import numpy as np
import pytest

from nbgrad.expr.node import var
from nbgrad.kernels import templates
from nbgrad.kernels.cuda.families import own
from nbgrad.kernels.cuda.own import Own
from tests.cuda.emulation import alike, seen, without_barriers


def _copies(code: str) -> Own:
    inputs = (templates.Operand("x", code, "g"),)
    kind = templates.computed(code)
    found = own("copy", templates.elementwise("copy", (var("x"),), inputs, (code,), kind, True, "g")[0])
    assert found is not None
    return found


def _copied(source: str, params: tuple[str, ...], code: str, rows: int, columns: int, to_rows: bool) -> None:
    """Three matrices of so many rows, from where columns lie together to where rows do, or the other way round."""
    x = np.arange(3 * rows * columns).astype({"f2": "u2", "g2": "u2"}.get(code, code))
    by_rows, by_columns = (rows * columns, columns, 1), (rows * columns, 1, rows)
    to, source_steps = (by_rows, by_columns) if to_rows else (by_columns, by_rows)
    steps = [to[1], to[0], source_steps[1], source_steps[0], to[2], source_steps[2]]
    meta = np.array([2, columns, rows, 3, *steps, 1], np.int64)
    for blocks in (1, 3):
        _, found, _ = alike("copy", source, params, blocks, [3 * rows, meta, np.zeros_like(x), x])
        shape = (3, columns, rows) if to_rows else (3, rows, columns)
        assert (found.reshape(3, -1) == x.reshape(shape).swapaxes(1, 2).reshape(3, -1)).all()


@pytest.mark.parametrize("code", ["f4", "f8", "f2", "i8", "u1"])
@pytest.mark.parametrize("to_rows", [False, True])
def test_against_numpy(code: str, to_rows: bool) -> None:
    made = _copies(code)
    for rows, columns in ((32, 32), (70, 33), (9, 65)):
        _copied(made.source, made.params, code, rows, columns, to_rows)


def test_each_barrier_is_missed() -> None:
    made = _copies("f4")
    texts = list(without_barriers(made.source))
    assert len(texts) == 2
    for text in texts:
        assert seen(lambda text=text: _copied(text, made.params, "f4", 70, 33, True))
