"""What libraries ask PyTorch's compiler about itself."""

from __future__ import annotations

from typing import Any

from nbgrad.memory.device import device


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions of such a device's tensors are compiled: on a CPU.

    >>> torch._dynamo.utils.is_compile_supported("cpu")
    True
    """
    return device(device_type).type == "cpu"


__all__ = ["is_compile_supported"]
