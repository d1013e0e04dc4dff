"""PyTorch's path to what its libraries read of the compiled part: here, of the overriding of functions."""

from nbgrad.core.overrides import disabled
from nbgrad.overrides import DisableTorchFunction as DisableTorchFunction
from nbgrad.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

_disabled_torch_function_impl = disabled
