"""The bits of what cases come to, to compare kernels by our front with those by Numba.

`python -m tests.kernels.bits whole float32,float64 exp softmax` prints a digest for each case and dtype (`brief`: first samples), and at
last whether Numba was needed; `$NBGRAD_COMPILER` says who compiles.
"""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests import derive
from tests.cases import CASES, FLOATS, OpCase, Sample, draw, samples
from tests.compare import array, leaves
from tests.support import T

TIMES = 23  # of lengths, for a sample that is long enough for loops made vectors, several at a time, and what they leave over


def grown(case: OpCase, dtype: str) -> Sample:
    rng = np.random.default_rng(1)
    shapes = [tuple(n * TIMES if n > 1 else n for n in shape) for shape in case.shapes[0]]
    return Sample(
        f"{dtype} {shapes}",
        tuple(draw(case, k, s, dtype, rng) for k, s in enumerate(shapes)),
        "c" * case.arity,
    )


def results(case: OpCase, dtype: str, brief: bool) -> Iterator[Any]:
    drawn = [*samples(case, dtype)][: 1 if brief else None]
    for sample in [*drawn, *([grown(case, dtype)] if dtype in FLOATS and not brief else [])]:
        T.manual_seed(0)
        try:
            yield from leaves(case.fn(T, *sample.tensors(T)))
            if case.differentiable and dtype in FLOATS:
                first, second = derive.second_order(T, case, sample)
                yield from [g for g in (*first, *second) if g is not None]
        except (RuntimeError, ValueError, IndexError, TypeError) as error:  # of a sample that is too long
            yield str(error)


def digest(case: OpCase, dtype: str, brief: bool = False) -> str:
    found = hashlib.sha256()
    for value in results(case, dtype, brief):
        if isinstance(value, T.Tensor):
            found.update(
                f"{value.dtype} {tuple(value.shape)}".encode() + np.ascontiguousarray(array(value)).tobytes()
            )
        else:
            found.update(repr(value).encode())
    return found.hexdigest()[:16]


def lines(dtypes: Sequence[str], names: Sequence[str], brief: bool = False) -> Iterator[str]:
    for name in names:
        for dtype in dtypes:
            if dtype in CASES[name].dtypes:
                yield f"{name} {dtype} {digest(CASES[name], dtype, brief)}"


if __name__ == "__main__":
    brief = sys.argv[1] == "brief"
    for line in lines(sys.argv[2].split(","), sys.argv[3:], brief):
        print(line, flush=True)
    print("numba" in sys.modules)
