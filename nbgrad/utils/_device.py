"""PyTorch's path to the mode that makes new tensors on a device."""

from __future__ import annotations

from typing import Any

from nbgrad.core.overrides import by_path
from nbgrad.memory.device import device as _device
from nbgrad.overrides import TorchFunctionMode

CURRENT_DEVICE = None
_MAKERS = """
    empty empty_permuted empty_strided ones arange bartlett_window blackman_window eye full fill hamming_window hann_window kaiser_window
    linspace logspace nested_tensor rand randn randint randperm range sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor
    tril_indices triu_indices vander zeros asarray tensor as_tensor scalar_tensor fft.fftfreq fft.rfftfreq
"""


def _device_constructors() -> set[Any]:
    """The functions that make tensors of none."""
    return {by_path[name].public() for name in _MAKERS.split() if name in by_path}


class DeviceContext(TorchFunctionMode):
    """Within it, new tensors are made on a device where nothing else is said, as in `with torch.device(...)`, which is quicker.

    >>> from nbgrad.utils._device import DeviceContext
    >>> with DeviceContext("meta"):
    ...     torch.ones(2).device
    device(type='meta')
    """

    def __init__(self, device: Any) -> None:
        self.device = _device(device)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if named.get("device") is None and func in _device_constructors():
            named["device"] = self.device
        return func(*args, **named)


def device_decorator(device: Any, func: Any) -> Any:
    """A function that runs within such a mode."""
    from functools import wraps

    @wraps(func)
    def on_device(*args: Any, **kwargs: Any) -> Any:
        with DeviceContext(device):
            return func(*args, **kwargs)

    return on_device
