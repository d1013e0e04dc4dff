"""DLPack: memory shared with whatever library speaks it (torch, JAX, CuPy, NumPy), nothing copied.

NumPy makes and reads the capsules. Promises users PyTorch's refusals: of a tensor that requires grad, of a stream on the CPU.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor, requires
from nbgrad.memory.device import device as _device
from nbgrad.ops.make.data import lent

_CONSUMED = (
    "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have "
    "already constructed a tensor from it once."
)


class DLDeviceType(IntEnum):
    """The kinds of devices, as numbers of the DLPack protocol, that a capsule's memory may lie on.

    >>> int(torch.utils.dlpack.DLDeviceType.kDLCPU)
    1
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3


def _dlpack(
    self: Tensor, *, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: Any = None
) -> Any:
    """A capsule over the tensor's memory."""
    if requires(self):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    asked = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    return self._host().__dlpack__(**{name: value for name, value in asked.items() if value is not None})


def _dlpack_device(self: Tensor) -> tuple[DLDeviceType, int]:
    """Kind and number of the device, as DLPack counts them.

    >>> torch.ones(2).__dlpack_device__()[1]
    0
    """
    return DLDeviceType.kDLCPU, self.device.index or 0


for _name, _method in {"__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device}.items():
    setattr(Tensor, _name, _method)


class _Capsule:
    """A bare capsule as an object that hands it out."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **asked: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLDeviceType.kDLCPU, 0


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array, or of a capsule; with `copy` in memory of its own.

    >>> x = torch.zeros(2)
    >>> torch.from_dlpack(x)[0] = 5.0
    >>> x
    tensor([5., 0.])
    """
    bare = not hasattr(ext_tensor, "__dlpack__")
    if bare:
        if type(ext_tensor).__name__ != "PyCapsule":
            raise RuntimeError(_CONSUMED)
        if device is not None or copy is not None:
            raise AssertionError(
                "device and copy kwargs not supported when ext_tensor is already a DLPack capsule."
            )
    if device is not None:
        _device(device)
    try:
        array = np.from_dlpack(_Capsule(ext_tensor) if bare else ext_tensor)
    except ValueError:
        if bare:
            raise RuntimeError(_CONSUMED) from None
        raise
    t = lent(array)
    return t.clone() if copy else t


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule over the tensor's memory, for another library to take, once.

    >>> x = torch.tensor([1.0, 2.0])
    >>> y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    >>> y.data_ptr() == x.data_ptr()
    True
    """
    return _dlpack(tensor)


__all__ = ["from_dlpack"]
