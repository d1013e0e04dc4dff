"""What libraries write on functions that are for PyTorch's exporter alone; they are left as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_F = TypeVar("_F")


def parse_args(*arg_descriptors: str) -> Callable[[_F], _F]:
    """What the arguments of a function for the exporter are."""
    return lambda fn: fn


def quantized_args(
    *arg_q_descriptors: bool,
    scale: float | None = None,
    zero_point: int | None = None,
    quantize_output: bool = True,
) -> Callable[[_F], _F]:
    """Which arguments of a function for the exporter are quantised."""
    return lambda fn: fn
