"""In which memory format the weights of convolutions lie."""

from typing import Any, TypeVar

from nbgrad.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from nbgrad.nn.modules.module import Module

_M = TypeVar("_M", bound=Module)


def _convert(module: Module, memory_format: Any, kinds: tuple[type[Module], ...]) -> None:
    for layer in module.modules():
        if isinstance(layer, kinds):
            weight: Any = layer.weight
            laid = weight.detach().clone(memory_format=memory_format)
            weight.data = laid.resize_(laid.size(), memory_format=memory_format)


def convert_conv2d_weight_memory_format(module: _M, memory_format: Any) -> _M:
    """Lay the weights of all `Conv2d` and `ConvTranspose2d` in `module` out in `memory_format`, and give it back: what such a layer makes
    of any image then lies so, too.

    >>> conv = nn.utils.convert_conv2d_weight_memory_format(nn.Conv2d(3, 8, 2), torch.channels_last)
    >>> conv(torch.ones(1, 3, 5, 5)).stride()
    (128, 1, 32, 8)
    """
    _convert(module, memory_format, (Conv2d, ConvTranspose2d))
    return module


def convert_conv3d_weight_memory_format(module: _M, memory_format: Any) -> _M:
    """The same of `Conv3d` and `ConvTranspose3d`.

    >>> conv = nn.utils.convert_conv3d_weight_memory_format(nn.Conv3d(3, 8, 2), torch.channels_last_3d)
    >>> conv.weight.stride()
    (24, 1, 12, 6, 3)
    """
    _convert(module, memory_format, (Conv3d, ConvTranspose3d))
    return module
