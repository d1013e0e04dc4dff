"""Elements that are moved and not computed with: turned, shifted, joined, padded, taken by index or mask; of 100 x 100 and a million."""

from __future__ import annotations

from typing import Any

from .common import LIBS, library, some

MOVES = (
    *("x.flip(0)", "x.flip(1)", "x.rot90()", "x.roll(1, 0)", "x.roll(1, 1)", "x.roll(1)"),
    *("T.cat((x, x))", "T.cat((x, x), 1)", "T.stack((x, x), 2)", "T.hstack((x, x))"),
    *("pad(x, (1, 1))", "pad(image, (1, 1, 1, 1), mode='reflect')"),
    *("x.index_select(1, i)", "x[:, i]", "x.gather(1, k)", "x.scatter(1, k, x)", "x.index_add(1, i, x)"),
    *("mask.nonzero()", "x[mask]", "T.where(mask)", "x.masked_scatter(mask, x)"),
    *("line.unique_consecutive()", "whole.bincount()", "one_hot(i, len(i))", "T.linspace(0, 1, x.numel())"),
)


class Moves:
    params = (LIBS, some(MOVES), (100, 1000))
    param_names = ("lib", "call", "side")

    def setup(self, lib: str, call: str, side: int) -> None:
        T = library(lib)
        T.manual_seed(0)
        x = T.randn(side, side)
        scope: dict[str, Any] = {"T": T, "x": x, "mask": x > 0, "image": x.reshape(1, 4, side // 4, side)}
        scope |= {"i": T.randint(0, side, (side,)), "k": T.randint(0, side, (side, side))}
        scope |= {"whole": scope["k"].reshape(-1), "line": x.round().reshape(-1).sort()[0]}
        scope |= {"pad": T.nn.functional.pad, "one_hot": T.nn.functional.one_hot}
        self.call = eval(f"lambda: {call}", scope)
        self.call()

    def time_call(self, lib: str, call: str, side: int) -> None:
        self.call()
