"""Kernels of convolutions by themselves: none of their barriers may be missing, and sums stay in registers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels.cuda import convolution as kernels
from nbgrad.kernels.cuda.compile import compiled
from nbgrad.kernels.cuda.families import own
from nbgrad.kernels.cuda.own import Own
from tests.cuda.emulation import alike, seen, without_barriers

IMAGES, CHANNELS, ROWS, HIGH, WIDE = 2, 4, 70, 9, 8
SIZES = (HIGH - 2, WIDE - 2)


def _own(found: kernels.Code) -> Own:
    made = own("convolution", found[0])
    assert made is not None
    return made


def _geometry(parts: int, share: int) -> np.ndarray:
    """Of 3 x 3 taps without margins."""
    image, plane = CHANNELS * HIGH * WIDE, HIGH * WIDE
    head = [ROWS, 1, CHANNELS * 9, IMAGES, 1, *SIZES, 1, HIGH, WIDE, 1, 1, 1]
    head += [image, image, 0, WIDE, 1, 0, CHANNELS * 9]
    area = SIZES[0] * SIZES[1]
    head += [ROWS * area, area, 0, SIZES[1], 1, 0, 0, 0, parts, share]
    taps = [(c, y, x) for c in range(CHANNELS) for y in range(3) for x in range(3)]
    table = [[c * plane + y * WIDE + x, 0, y, x, k] for k, (c, y, x) in enumerate(taps)]
    return np.array([*head, *[0] * (kernels.HEAD - len(head)), *np.array(table).ravel()], np.int64)


def _patches(x: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(
        x, (3, 3), (2, 3)
    )  # images, channels, lines, columns, taps
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, CHANNELS * 9)


def _data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (IMAGES, CHANNELS, HIGH, WIDE), (ROWS, CHANNELS * 9), (IMAGES, ROWS, *SIZES)
    x, w, g = (rng.integers(-4, 5, shape).astype("f4") for shape in shapes)
    return x, w, g


def _summed(source: str, params: tuple[str, ...]) -> None:
    x, w, g = _data()
    args = [g.size, _geometry(1, 0), np.zeros_like(g).ravel(), x.ravel(), w.ravel(), w.ravel()]
    for blocks in (1, 2):
        found = alike("convolution", source, params, blocks, args)[1]
        want = (_patches(x) @ w.T).reshape(IMAGES, *SIZES, ROWS).transpose(0, 3, 1, 2)
        assert (found.reshape(g.shape) == want).all()


def _weighed(source: str, params: tuple[str, ...]) -> None:
    x, _, g = _data()
    made = np.zeros((2, ROWS, CHANNELS * 9), "f4")
    args = [made.size, _geometry(2, 43), made.ravel(), g.ravel(), x.ravel()]
    found = alike("weights", source, params, 2, args)[1].reshape(made.shape)
    assert (found.sum(0) == g.transpose(1, 0, 2, 3).reshape(ROWS, -1) @ _patches(x)).all()


KERNELS = [(kernels.sums, True, _summed), (kernels.sums, False, _summed)]
KERNELS += [(kernels.weights, True, _weighed), (kernels.weights, False, _weighed)]


@pytest.mark.parametrize(("make", "tiled", "run"), KERNELS)
def test_each_barrier_is_missed(make: Any, tiled: bool, run: Callable[..., None]) -> None:
    made = _own(make("f4", tiled))
    run(made.source, made.params)
    texts = list(without_barriers(made.source))
    assert len(texts) == (2 if tiled else 0 if make is kernels.sums else 3)
    for text in texts:
        assert seen(lambda text=text: run(text, made.params))


@pytest.mark.cuda
@pytest.mark.parametrize("tiled", [False, True])
def test_sums_stay_in_registers(tiled: bool) -> None:
    for make in (kernels.sums, kernels.weights):
        found = _own(make("f4", tiled))
        for capability in ((9, 0), (7, 5)):
            made = compiled("convolution", found.source, found.params, capability)
            assert (made.cubin().spills, made.cubin().stack, made.float64) == (0, 0, 0)
            assert made.cubin().registers <= 128
