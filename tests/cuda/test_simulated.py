"""One kernel of each kind by numba-cuda's simulator and by the emulation: they leave the same."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nbgrad.expr.node import var
from nbgrad.kernels import templates
from nbgrad.kernels.cpu import lines, reduce, rows, scan
from nbgrad.kernels.cuda.families import own
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.cuda.products import product
from tests.cuda.emulation import run

pytestmark = pytest.mark.cuda


def made(source: str) -> Own:
    found = own("kernel", source)
    assert found is not None
    return found


def test_the_simulator_agrees(tmp_path: Path) -> None:
    pytest.importorskip("numba_cuda")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 50)).astype(np.float32)
    two = tuple(templates.Operand(name, "f4", "g") for name in "xw")
    strided = templates.elementwise("t", (var("x") * var("w"),), two, ("f4",), "f4", True, "g")[0]
    total = reduce.reduction(
        "sum", var("x"), "sum", var("r"), "f4", "f4", "f8", "f4", True, False, short=False
    )[0]
    running = scan.along("cumsum", "f4", "f8", "f4", False)[0]
    largest = lines.extreme("max", "f4", "f4", False, True)[0]
    logsumexp = rows.short(lines.LOGSUMEXP, "f4")[0]
    flat = x.ravel()

    def out() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.zeros(flat.size, np.float32)

    def meta(*numbers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.array(numbers, np.int64)

    launches = [
        (
            made(strided),
            1,
            [3, meta(1, 50, 3, 50, 50, 1, 1, 1, 3), out(), flat, flat],
        ),  # times the transposed
        (made(total), 2, [3, meta(1, 1, 50, 1, 1, 150, 3, 50, 1, 0), out(), flat]),
        (made(product("f4", 64)[0]), 1, [9, meta(3, 3, 50, 0, 50, 1, 0, 1, 50), out(), flat, flat]),
        (made(running), 1, [3, meta(0, 50, 3, 3, 0, 1, 50, 0, 1, 50), out(), flat]),
        (made(largest), 1, [3, meta(0, 50, 3, 3, 0, 0, 1, 0, 1, 50), out(), out().astype(int), flat]),
        (made(logsumexp), 1, [1, meta(50, 3), out(), flat]),
    ]
    file = tmp_path / "launches.pickle"
    file.write_bytes(pickle.dumps([("kernel", k.source, blocks, args) for k, blocks, args in launches]))
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run([sys.executable, "-m", "tests.cuda.simulated", file], check=True, env=env)
    for (kernel, blocks, args), want in zip(launches, pickle.loads(file.read_bytes()), strict=True):
        run("kernel", kernel.source, kernel.params, blocks, args, (1, 0))
        found = [a for a in args if isinstance(a, np.ndarray)]
        assert any(a.any() for a in found[1:-1])
        for a, b in zip(found, want, strict=True):
            assert np.allclose(a, b, rtol=1e-6, atol=1e-6), kernel.source
