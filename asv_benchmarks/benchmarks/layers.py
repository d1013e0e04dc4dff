"""Layers on images and sequences, forward and backward: depthwise convolution, pooling, an LSTM, and images read at places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .common import LIBS, library, some

Layer = tuple[
    Callable[..., Any], tuple[int, ...]
]  # of a library's tensor that requires gradients, of this size


def _depthwise(T: Any) -> Layer:
    w = T.rand(128, 1, 3, 3, requires_grad=True)
    return lambda x: T.nn.functional.conv2d(x, w, padding=1, groups=128), (32, 128, 28, 28)


def _pool(size: int, **settings: int) -> Callable[[Any], Layer]:
    return lambda T: (lambda x: T.nn.functional.max_pool2d(x, size, **settings), (32, 32, 28, 28))


def _lstm(T: Any) -> Layer:
    layer = T.nn.LSTM(64, 64)
    return lambda x: layer(x)[0], (64, 16, 64)


def _sampled(mode: str) -> Callable[[Any], Layer]:
    def made(T: Any) -> Layer:
        grid = T.rand(4, 64, 64, 2) * 2 - 1
        sample = T.nn.functional.grid_sample
        return lambda x: sample(x, grid, mode=mode, align_corners=False), (4, 8, 64, 64)

    return made


KINDS: dict[str, Callable[[Any], Layer]] = {
    "depthwise": _depthwise,
    "max_pool_2": _pool(2),
    "max_pool_3": _pool(3),
    "max_pool_3_overlapping": _pool(3, stride=2, padding=1),
    "lstm": _lstm,
    "sample_bilinear": _sampled("bilinear"),
    "sample_bicubic": _sampled("bicubic"),
}


class Layers:
    params = (LIBS, some(KINDS))
    param_names = ("lib", "kind")

    def setup(self, lib: str, kind: str) -> None:
        self.T = T = library(lib)
        self.run, size = KINDS[kind](T)
        self.x = T.rand(*size, requires_grad=True)
        self.by = T.rand(*self.run(self.x).shape)
        self.time_forward_and_backward(lib, kind)

    def time_forward(self, lib: str, kind: str) -> None:
        with self.T.no_grad():
            self.run(self.x)

    def time_forward_and_backward(self, lib: str, kind: str) -> None:
        self.x.grad = None
        self.run(self.x).backward(self.by)
