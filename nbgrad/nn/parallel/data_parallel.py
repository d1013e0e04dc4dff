"""A module whose batch is shared out among devices: here the CPU or one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.core.pytree import tree_map
from nbgrad.core.tensor import Tensor
from nbgrad.memory import gpu
from nbgrad.memory.device import device as _device
from nbgrad.nn.modules.module import Module


def _chosen(device_ids: Sequence[Any] | None) -> list[int]:
    """The numbers of devices, of which there may be one."""
    given = range(gpu.device_count()) if device_ids is None else device_ids
    found = [n if isinstance(n, int) else _device(n).index or 0 for n in given]
    if len(found) > 1:
        raise NotImplementedError(
            f"DataParallel(): several devices are not supported by this release: {found}"
        )
    return found


def _check_place(module: Module, where: _device) -> None:
    for t in (*module.parameters(), *module.buffers()):
        if t.device != where:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {where} (device_ids[0]) but found one of them on device: "
                f"{t.device}"
            )


def _moved(values: Any, where: _device) -> Any:
    return tree_map(lambda x: x.to(where) if isinstance(x, Tensor) else x, values)


class DataParallel(Module):
    """`module`, called as it is; of a GPU, there, with what it is called with. Its state dict's keys begin with "module.".

    >>> net = nn.DataParallel(nn.Linear(2, 3))
    >>> net(torch.ones(4, 2)).shape, [*net.state_dict()]
    (torch.Size([4, 3]), ['module.weight', 'module.bias'])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids = _chosen(device_ids) if gpu.device_count() else []
        if self.device_ids:
            self.dim = dim
            self.output_device = self.device_ids[0] if output_device is None else output_device
            self.src_device_obj = _device("cuda", self.device_ids[0])
            module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        where = self.src_device_obj
        _check_place(self.module, where)
        return self.module(*_moved(inputs, where), **_moved(kwargs, where))


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """What `module` makes of `inputs` on a GPU, which there must be.

    >>> nn.parallel.data_parallel(nn.ReLU(), torch.ones(2)) if torch.cuda.is_available() else "none"
    'none'
    """
    if not gpu.device_count():
        raise RuntimeError("device type could not be determined")
    where = _device("cuda", _chosen(device_ids)[0])
    _check_place(module, where)
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*_moved(given, where), **_moved(module_kwargs or {}, where))


__all__ = ["DataParallel", "data_parallel"]
