"""PyTorch's path to what its libraries read of the compiled part: of the overriding of functions, and of how it was built."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nbgrad.core.overrides import NOBODY, disabled
from nbgrad.core.signatures import functions
from nbgrad.core.tensor import Tensor, storage_of
from nbgrad.memory.device import device
from nbgrad.memory.gpu import device_count
from nbgrad.ops.linear.systems import LinAlgError as LinAlgError
from nbgrad.ops.linear.systems import _LinAlgError as _LinAlgError
from nbgrad.ops.make.generator import Generator as Generator
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


def _get_accelerator(check: bool | None = None) -> Any:
    """The device of which there is more than the CPU, or that."""
    return device("cuda" if device_count() else "cpu")


def _get_cudnn_enabled() -> bool:
    """Whether cuDNN would be used, as the switch stands."""
    return bool(import_module(f"{__name__.partition('.')[0]}.backends.cudnn").enabled)


def _mps_is_available() -> bool:
    """Whether there is a device of this kind: no."""
    return False


def _get_tracing_state() -> None:
    """What is being traced: nothing."""


def _is_tracing() -> bool:
    """Whether anything is being traced: nothing."""
    return False


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


def _get_default_device() -> str:
    """The kind of device of the default type of tensors, which libraries ask to leave it out of what they print; `set_default_device`
    changes nothing in it.

    >>> torch._C._get_default_device()
    'cpu'
    """
    return "cpu"


def _get_privateuse1_backend_name() -> Any:
    """The name of a kind of device that a library has added: none has."""
    return "privateuseone"


class DispatchKeySet:
    """Kinds of computation (`DispatchKey`) together, for libraries that name them; nothing is chosen by them here.

    >>> keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU) | torch._C.DispatchKeySet(torch._C.DispatchKey.Python)
    >>> keys, keys.has(torch._C.DispatchKey.CUDA)
    (DispatchKeySet(CPU, Python), False)
    """

    __slots__ = ("_keys",)

    def __init__(self, *keys: Any) -> None:
        self._keys = frozenset(keys)

    def _of(self, keys: frozenset[Any]) -> DispatchKeySet:
        return DispatchKeySet(*keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys - other._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def add(self, key: Any) -> DispatchKeySet:
        """These and one more."""
        return self._of(self._keys | {key})

    def remove(self, key: Any) -> DispatchKeySet:
        """These without one."""
        return self._of(self._keys - {key})

    def has(self, key: Any) -> bool:
        """Whether it is among them."""
        return key in self._keys

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(key.name for key in self._keys))})"


class _ExcludeDispatchKeyGuard:
    """A context in which kinds of computation would be passed over; none is asked for here.

    >>> with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
    ...     torch.ones(1) + 1
    tensor([2.])
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        self.keys = keys

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...


class _OfTorch(type):
    def __getattr__(cls, name: str) -> Any:
        found = getattr(import_module(__name__.partition(".")[0]), name, None) if name in dir(cls) else None
        if found is None:
            raise AttributeError(f"type object '_VariableFunctions' has no attribute '{name}'")
        return found

    def __dir__(cls) -> list[str]:
        return functions("torch")


class _VariableFunctionsClass(metaclass=_OfTorch):
    """PyTorch's functions of tensors by their names, which libraries look up here, and its pickles: those of `torch`.

    >>> torch._C._VariableFunctions.add(torch.ones(1), 2)
    tensor([3.])
    """


_VariableFunctions = _VariableFunctionsClass
