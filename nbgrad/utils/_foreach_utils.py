"""Lists of tensors by device and dtype, which libraries of optimisers ask for before they call `torch._foreach_*`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype

TensorListList = list[list[Tensor | None]]
Indices = list[int]
_foreach_supported_types = [Tensor]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Where PyTorch computes lists of tensors in one."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Where PyTorch has a step of an optimiser in one."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _expected(holds: bool, text: str) -> None:
    if not holds:
        raise RuntimeError(
            f"Expected {text} to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement "
            "request to PyTorch.)"
        )


def _group_tensors_by_device_and_dtype(
    tensorlistlist: TensorListList, with_indices: bool = False
) -> dict[tuple[_device, _dtype], tuple[list[list[Any]], Indices]]:
    """The lists apart by the device and dtype of the first one's tensors; with what place each had, if that is asked."""
    _expected(bool(tensorlistlist), "!nested_tensorlist.empty()")
    first = tensorlistlist[0]
    _expected(bool(first), "!nested_tensorlist[0].empty()")
    _expected(
        all(len(one) in (0, len(first)) for one in tensorlistlist),
        "std::all_of( nested_tensorlist.cbegin(), nested_tensorlist.cend(), [&](const auto& tensorlist) -> bool { return "
        "tensorlist.size() == num_tensors || tensorlist.size() == 0; })",
    )
    found: dict[tuple[_device, _dtype], tuple[list[list[Any]], Indices]] = {}
    for k, t in enumerate(first):
        if t is None:
            raise RuntimeError(
                f"Tensors of the first list of nested Tensor lists are supposed to be defined but the {k}-th Tensor is not."
            )
        lists, places = found.setdefault((t.device, t.dtype), ([[] for _ in tensorlistlist], []))
        for part, whole in zip(lists, tensorlistlist):
            if whole:
                part.append(whole[k])
        if with_indices:
            places.append(k)
    return found


def _device_has_foreach_support(device: _device) -> bool:
    """Whether lists of tensors are computed in one there, by PyTorch's word."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: Iterable[Tensor | None], device: _device) -> bool:
    """Whether they are of these."""
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)
