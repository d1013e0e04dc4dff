"""Running sums and products within a vector: un-jitted and compiled they are the same."""

import ctypes
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import build
from nbgrad.kernels.cpu import prefix, scan


@pytest.mark.parametrize("kind", ["cumsum", "cumprod"])
@pytest.mark.parametrize("reverse", [False, True])
def test_bodies(kind: str, reverse: bool) -> None:
    source, _ = scan.along(kind, "f8", "f8", "f8", reverse)
    body: Any = build.load_source("body", source.replace("@NAME@", "body"), "<test>")
    x = np.random.default_rng(0).uniform(0.5, 1.5, (3, 21))
    out = np.zeros(63)
    begin, step = (20, -1) if reverse else (0, 1)
    body(0, 3, np.array([0, 21, 3, 3, begin, step, 21, begin, step, 21]), out, x.reshape(-1))
    lines = x[:, ::-1] if reverse else x
    want = np.cumsum(lines, 1) if kind == "cumsum" else np.cumprod(lines, 1)
    np.testing.assert_allclose(out.reshape(3, 21), want[:, ::-1] if reverse else want, 1e-14)


def test_a_vector_is_its_loop() -> None:
    x, out, told = np.arange(1, 9, dtype=np.int8), np.zeros(8, np.int64), np.zeros(8, np.int64)
    source = (
        "from nbgrad.kernels.cpu.prefix import running_sums_back\n\n\n"
        "def @NAME@(o, x):\n    running_sums_back(o, 7, x, 7, 100)\n"
    )
    kernel = build.kernel("prefix_test", source, ["*i8", "*i1"])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(kernel.address)(out.ctypes.data, x.ctypes.data)
    assert prefix.running_sums_back(told, 7, x, 7, np.int64(100)) == 136
    assert out.tolist() == told.tolist() == [136, 135, 133, 130, 126, 121, 115, 108]
