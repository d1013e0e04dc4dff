"""DLPack: memory shared with whatever library speaks it (torch, JAX, CuPy, NumPy), nothing copied.

NumPy makes and reads the capsules of the CPU's memory, `capsules.py` those of a GPU's, and who knows no DLPack is shown that as a
`__cuda_array_interface__`. Promises users PyTorch's refusals: of a tensor that requires grad, of a stream on the CPU.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, cast

import numpy as np

from nbgrad.core.tensor import Tensor, hooks, requires, storage_of, wrap
from nbgrad.kernels.codes import NARROW
from nbgrad.kernels.cuda.launch import streams
from nbgrad.memory import dtypes, gpu
from nbgrad.memory.device import cpu
from nbgrad.memory.device import device as _device
from nbgrad.memory.storage import spec
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
    if self.is_cuda:
        new = max_version is not None and max_version[0] >= 1
        return _on_device(self, stream, new)
    if stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    bits = self.dtype.bits  # of what NumPy does not have: it is shown integers
    shown = self if bits is None else self.view(dtypes.from_numpy_dtype(bits))
    asked = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    capsule = shown._host().__dlpack__(**{name: value for name, value in asked.items() if value is not None})
    if bits is not None:
        from nbgrad.exchange import capsules

        capsules.say(capsule, self.dtype.code)
    return capsule


def _on_device(self: Tensor, stream: int | None, new: bool) -> Any:
    """A capsule whose taker's stream waits for what the memory waits for."""
    serves, index = _serves(self), self.device.index
    if index != gpu.current.index:
        raise BufferError(
            f"Can't export tensors on a different CUDA device index. Expected: {index}. Current device: {gpu.current.index}."
        )
    if stream == 2:
        raise BufferError("per-thread default stream is not supported.")
    if stream == 0:
        raise AssertionError("unsupported stream on CUDA: 0.")
    _follow(serves, 0 if stream in (None, 1) else stream)
    from nbgrad.exchange import capsules  # of which programs without a GPU need nothing

    sp = self._spec
    return capsules.made(
        self, self.data_ptr(), (capsules.CUDA, index), sp.dtype.code, sp.shape, sp.strides, new
    )


def _serves(tensor: Tensor) -> gpu.CUDA:
    serves: Any = tensor._spec.backend
    return cast(gpu.CUDA, serves)


def _follow(serves: gpu.CUDA, stream: int | None) -> None:
    """Let another stream wait for what the current one was asked; -1 is nobody's."""
    if stream is not None and stream not in (-1, streams.current):
        event = serves.driver.event(False)
        serves.driver.record(event, streams.current)
        serves.driver.hold(stream, event)


def _cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """The tensor's memory on a GPU, for libraries that know no DLPack; there is none on the CPU."""
    if not self.is_cuda:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.{self.dtype.scalar_name}Tensor If CUDA data is required "
            "use tensor.cuda() to copy tensor to device memory."
        )
    if requires(self):
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use var.detach() to get "
            "Variable that doesn't require grad."
        )
    sp = self._spec
    return {
        "typestr": sp.dtype.np.str if sp.dtype.bits is None else f"<V{sp.itemsize}",
        "shape": tuple(sp.shape),
        "strides": None if sp.contiguous else tuple([s * sp.itemsize for s in sp.strides]),
        "data": (self.data_ptr() if sp.numel else 0, False),
        "stream": streams.current or 1,
        "version": 3,
    }


def _dlpack_device(self: Tensor) -> tuple[DLDeviceType, int]:
    """Kind and number of the device, as DLPack counts them.

    >>> torch.ones(2).__dlpack_device__()[1]
    0
    """
    kind = DLDeviceType.kDLCUDA if self.is_cuda else DLDeviceType.kDLCPU
    return kind, self.device.index or 0


for _name, _method in {
    "__cuda_array_interface__": property(_cuda_array_interface),
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
}.items():
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
    where = None if device is None else _device(device)
    if not bare and ext_tensor.__dlpack_device__()[0] == DLDeviceType.kDLCUDA:
        t = _from_device(ext_tensor)
        t = t if where is None else t.to(where)
        return t.clone() if copy else t
    try:
        array = np.from_dlpack(_Capsule(ext_tensor) if bare else ext_tensor)
    except ValueError:
        if bare:
            raise RuntimeError(_CONSUMED) from None
        raise
    except RuntimeError as error:
        found = _beside_numpy(ext_tensor, bare)
        if found is None:
            raise error
        t = found
    else:
        t = lent(array)
    return t.clone() if copy else t


class _Memory:
    """Bytes of another library's, offered to NumPy."""

    def __init__(self, shown: Any, nbytes: int) -> None:
        self.owner = shown.owner
        self.__array_interface__ = {
            "data": (shown.address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def _beside_numpy(source: Any, bare: bool) -> Tensor | None:
    """A tensor over another library's memory on the CPU, of a dtype that NumPy does not have."""
    from nbgrad.exchange import capsules

    capsule = source if bare else source.__dlpack__()
    code, kind = capsules.seen(capsule)
    if code not in NARROW or code == "f2" or kind != capsules.CPU:
        return None
    shown = capsules.taken(capsule)
    sp = spec(dtypes.of_code(code), shown.shape, shown.strides, cpu)
    memory = np.asarray(_Memory(shown, sp.nbytes)) if sp.numel else np.empty(0, np.uint8)
    t = wrap(memory, sp)
    storage_of(t).lent = True
    return t


def _from_device(source: Any) -> Tensor:
    """A tensor over another library's memory on a GPU, behind what its own stream was asked."""
    _, index = source.__dlpack_device__()
    serves = gpu.of(_device("cuda", index))
    asked = {"stream": streams.current or 1}
    try:
        capsule = source.__dlpack__(**asked, max_version=(1, 0))
    except TypeError:  # from before there were versions
        capsule = source.__dlpack__(**asked)
    from nbgrad.exchange import capsules

    shown = capsules.taken(capsule)
    if shown.code in NARROW:
        d = dtypes.of_code(shown.code)
    else:
        d = dtypes.from_numpy_dtype(np.dtype("?" if shown.code[0] == "b" else shown.code))
    sp = spec(d, shown.shape, shown.strides, serves.device)
    t = wrap(serves.foreign(shown.address, sp.nbytes, shown.owner), sp)
    storage_of(t).lent = True
    return t


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule over the tensor's memory, for another library to take, once.

    >>> x = torch.tensor([1.0, 2.0])
    >>> y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    >>> y.data_ptr() == x.data_ptr()
    True
    """
    return _dlpack(tensor)


hooks.from_dlpack = from_dlpack
__all__ = ["from_dlpack"]
