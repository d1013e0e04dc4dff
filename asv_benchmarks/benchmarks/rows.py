"""Ops over rows, forward and backward: softmax, losses over classes, normalisation, look-ups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .common import LIBS, library


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def classes(n: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, n, shape)


# name: (what is computed from T, x and the rest; the arrays, of which floats are trained)
WORK: dict[str, tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]] = {
    "softmax": (lambda T, x: T.softmax(x, 1), (drawn(1024, 1000),)),
    "softmax_columns": (lambda T, x: T.softmax(x, 0), (drawn(1024, 1000),)),
    "cross_entropy": (
        lambda T, x, t: T.nn.functional.cross_entropy(x, t),
        (drawn(4096, 1000), classes(1000, 4096)),
    ),
    "cross_entropy_small": (
        lambda T, x, t: T.nn.functional.cross_entropy(x, t),
        (drawn(32, 10), classes(10, 32)),
    ),
    "softmax_short": (lambda T, x: T.softmax(x, 1), (drawn(10_000, 8),)),
    "cross_entropy_short": (
        lambda T, x, t: T.nn.functional.cross_entropy(x, t),
        (drawn(10_000, 8), classes(8, 10_000)),
    ),
    "layer_norm_short": (
        lambda T, x, w, b: T.nn.functional.layer_norm(x, (8,), w, b),
        (drawn(10_000, 8), drawn(8), drawn(8)),
    ),
    "layer_norm": (
        lambda T, x, w, b: T.nn.functional.layer_norm(x, (512,), w, b),
        (drawn(2048, 512), drawn(512), drawn(512)),
    ),
    "rms_norm": (
        lambda T, x, w: T.nn.functional.rms_norm(x, (512,), w),
        (drawn(2048, 512), drawn(512)),
    ),
    "batch_norm": (
        lambda T, x, w, b: T.nn.functional.batch_norm(x, None, None, w, b, training=True),
        (drawn(512, 512), drawn(512), drawn(512)),
    ),
    "embedding": (
        lambda T, w, i: T.nn.functional.embedding(i, w),
        (drawn(10000, 128), classes(10000, 64, 64)),
    ),
}


class Rows:
    params = (LIBS, tuple(WORK))
    param_names = ("lib", "op")

    def setup(self, lib: str, op: str) -> None:
        T = library(lib)
        fn, arrays = WORK[op]
        given = [T.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        trained = [t for t in given if t.requires_grad]
        weight = T.ones_like(fn(T, *given).detach())

        def step() -> None:
            fn(T, *given).backward(weight)
            for t in trained:
                t.grad = None

        self.step = step
        step()

    def time_forward_and_backward(self, lib: str, op: str) -> None:
        self.step()
