"""PyTorch's path to what its libraries read of the compiled part: of the overriding of functions, and of how it was built."""

from typing import Any

from nbgrad.core.overrides import NOBODY, disabled
from nbgrad.core.tensor import Tensor, storage_of
from nbgrad.overrides import DisableTorchFunction as DisableTorchFunction
from nbgrad.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from nbgrad.process import has_lapack as has_lapack
from nbgrad.process import has_mkl as has_mkl
from nbgrad.process import has_openmp as has_openmp
from nbgrad.tape.modes import state

_disabled_torch_function_impl = disabled
TensorBase = Tensor
_TensorMeta = type(Tensor)
has_spectral = False
_has_cuda = _has_cudnn = _has_magma = _has_mkldnn = _has_mps = _has_xpu = False


def _get_tracing_state() -> None:
    """What is being traced: nothing."""


def _are_functorch_transforms_active() -> bool:
    """Whether this runs within `vmap` or one of `torch.func`."""
    return bool(state.levels or state.transforms)


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode of `torch.overrides` is on here, and asked."""
    return bool(state.functions) and state.asked > NOBODY


def _is_alias_of(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors share memory."""
    return storage_of(one) is storage_of(other)


def _log_api_usage_once(*event: str) -> None:
    """Tell PyTorch's makers what is used: nobody is told."""


def _jit_set_profiling_executor(enabled: bool) -> bool:
    """How scripts run, which are none."""
    return False


_jit_set_profiling_mode = _jit_set_profiling_executor


def _jit_override_can_fuse_on_cpu(enabled: bool) -> None:
    """How scripts are fused, which are none."""


_jit_override_can_fuse_on_gpu = _jit_override_can_fuse_on_cpu
_jit_set_texpr_fuser_enabled = _jit_override_can_fuse_on_cpu


def _get_privateuse1_backend_name() -> Any:
    """The name of a kind of device that a library has added: none has."""
    return "privateuseone"
