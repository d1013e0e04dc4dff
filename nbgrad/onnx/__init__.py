"""PyTorch's `torch.onnx` for libraries that ask whether they are exported, or say how that is to be done: nothing is exported here, and
`export` is refused by name."""

from __future__ import annotations

from typing import Any


def is_in_onnx_export() -> bool:
    """Whether this runs to be exported: it does not.

    >>> torch.onnx.is_in_onnx_export()
    False
    """
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """How an operator is to be exported, which none is."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """That an operator is not to be exported so."""
