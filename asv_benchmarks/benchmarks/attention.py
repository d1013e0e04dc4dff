"""Attention, forward and backward: many short sequences, few long ones, with a causal mask and with one that is given; and its memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

from .common import LIBS, library, skip, some

SHAPES = {"12x4x64x32": (12, 4, 64, 32), "2x8x512x64": (2, 8, 512, 64)}
KINDS: dict[str, Any] = {
    "plain": lambda T, n: {},
    "causal": lambda T, n: {"is_causal": True},
    "mask": lambda T, n: {"attn_mask": T.ones(n, n, dtype=T.bool).tril()},
}


class Attention:
    params = (LIBS, some(SHAPES), some(KINDS))
    param_names = ("lib", "shape", "kind")

    def setup(self, lib: str, shape: str, kind: str) -> None:
        T = library(lib)
        size = SHAPES[shape]
        tensors = [T.randn(*size).requires_grad_() for _ in range(3)]
        by, more = T.randn(*size), KINDS[kind](T, size[-2])
        attend = T.nn.functional.scaled_dot_product_attention

        def forward() -> Any:
            with T.no_grad():
                return attend(*tensors, **more)

        def step() -> Any:
            return T.autograd.grad(attend(*tensors, **more), tensors, by)

        self.forward, self.step = forward, step
        forward()
        step()

    def time_forward(self, lib: str, shape: str, kind: str) -> None:
        self.forward()

    def time_forward_and_backward(self, lib: str, shape: str, kind: str) -> None:
        self.step()

    def track_peak_of_a_step(self, lib: str, shape: str, kind: str) -> int:
        if lib != "nbgrad":
            skip("only NumPy's memory is counted")
        tracemalloc.start()
        try:
            self.step()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    track_peak_of_a_step.unit = "bytes"  # type: ignore[attr-defined]
