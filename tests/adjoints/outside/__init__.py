"""Small numeric programs as people write them, each with its arguments: what `test_outside.py` takes values and gradients of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Cases(list[tuple[Callable[..., Any], tuple[Any, ...]]]):
    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)

    def r(self, *shape: int) -> Any:
        return self.draw.normal(size=shape)

    def pos(self, *shape: int) -> Any:
        return self.draw.uniform(0.3, 2.0, size=shape)

    def case(self, *args: Any) -> Callable[[Any], Any]:
        def keep(f: Any) -> Any:
            self.append((f, args))
            return f

        return keep
