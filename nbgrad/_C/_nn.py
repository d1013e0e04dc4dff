"""PyTorch's path to what its libraries read of the compiled part of networks."""

from nbgrad.nn.modules.module import _parse_to as _parse_to
