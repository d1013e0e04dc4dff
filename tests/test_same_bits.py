"""That bits depend on nothing but numbers, shapes and strides (`tests/same_bits.py`), and whether that sees anything at all."""

import numpy as np
import pytest

from tests import same_bits
from tests.cases import CASES, OpCase

ROWS = ("softmax", "log_softmax_first", "layer_norm", "rms_norm_weight", "batch_norm_plain", "sum_dim", "var")
OTHERS = (
    "exp",
    "cumsum",
    "matmul",
    "conv2d",
    "max_pool2d",
    "lstm_cell",
    "attention",
    "scatter_reduce_sum",
    "norm",
)


def test_rows_have_the_same_bits_wherever_they_lie() -> None:
    taken, wrong = same_bits.check(ROWS[:3], ["float32"], (45,))
    assert not wrong and taken >= 12


@pytest.mark.slow
def test_cases_have_the_same_bits_wherever_they_lie(whole: bool) -> None:
    """All of them take an hour (`--whole`, or `python -m tests.same_bits`)."""
    names, dtypes, counts = [*same_bits.MORE, *ROWS, *OTHERS], ["float32"], (45, 40000)
    if whole:
        names, dtypes, counts = [*same_bits.MORE, *CASES], list(same_bits.FLOATING), same_bits.MANY
    taken, wrong = same_bits.check(names, dtypes, counts)
    assert not wrong, "\n".join(wrong)
    assert taken >= 3 * len(names)


def test_what_depends_on_something_else_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def plant(name: str, fn: object) -> None:
        case = OpCase(name, fn, (((3, 4),),), dtypes=("float32",), differentiable=False)  # type: ignore[arg-type]
        monkeypatch.setitem(same_bits.MORE, name, case)

    plant("its address", lambda T, x: x + x.data_ptr() % 64)
    plant("new memory", lambda T, x: T.empty(5000).mul(0.5))
    plant("threads", lambda T, x: x + T.get_num_threads())
    plant("the result's address", lambda T, x: (lambda y: y + (y.data_ptr() - x.data_ptr()) % 4096)(x * 2))
    plant("nothing else", lambda T, x: np.float32(2) * x)
    names = ("its address", "new memory", "threads", "the result's address", "nothing else")
    told = {name: same_bits.check([name], ["float32"], (45,))[1] for name in names}
    assert told.pop("nothing else") == []
    assert all(told.values()), told
