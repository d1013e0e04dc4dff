"""What PyTorch lets a program ask and set of the whole process, and its checks of conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nbgrad.base.warn import warn_once
from nbgrad.core.tensor import Tensor
from nbgrad.kernels.launch import thread_count
from nbgrad.memory.device import set_default_device
from nbgrad.memory.dtypes import bool_, dtype, set_default_dtype
from nbgrad.ops.host.storage import UntypedStorage
from nbgrad.ops.host.typed import TypedStorage
from nbgrad.ops.make import constructors

_UNTOLD: Final = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an enhancement request "
    "to PyTorch.)"
)
_interop: list[int] = []  # what was set, once
has_lapack, has_mkl, has_openmp = True, False, False


def get_num_interop_threads() -> int:
    """How many threads PyTorch would run scripts on: what was set, and 1 until then, as there are none.

    >>> torch.get_num_interop_threads() > 0
    True
    """
    return _interop[0] if _interop else 1


def set_num_interop_threads(num: int) -> None:
    """How many threads PyTorch would run scripts on. It is kept, once in a process, and changes nothing here."""
    thread_count("set_num_interop_threads", num)
    if _interop:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or set_num_interop_threads called"
        )
    _interop.append(num)


def set_flush_denormal(mode: bool) -> bool:
    """Let numbers that are too small for a full mantissa become 0. False, as it was not done: kernels compute with them.

    >>> import nbgrad
    >>> nbgrad.set_flush_denormal(True)
    False
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return False


def is_vulkan_available() -> bool:
    """Whether there is Vulkan to compute with: never.

    >>> torch.is_vulkan_available()
    False
    """
    return False


def set_default_tensor_type(t: Any, /) -> None:
    """Make the dtype of a type such as `torch.DoubleTensor`, or its name, the default one.

    >>> torch.set_default_tensor_type(torch.DoubleTensor)
    >>> torch.tensor(0.5).dtype
    torch.float64
    >>> torch.set_default_tensor_type("torch.FloatTensor")
    """
    warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    if isinstance(t, str):
        t = constructors.every.get(t)
    made = getattr(t, "dtype", None)
    if not isinstance(made, dtype):
        raise TypeError("invalid type object")
    elsewhere = t in constructors.of_cuda
    if elsewhere:
        constructors.need_place(t)
    if not made.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    set_default_dtype(made)
    if elsewhere:
        set_default_device("cuda")


def typename(obj: Any, /) -> str:
    """The name of an object's type, with its module.

    >>> torch.typename(torch.ones(1)), torch.typename(3)
    ('torch.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    module = getattr(named, "__module__", "") or ""
    name: str = getattr(named, "__qualname__", None) or named.__name__
    return name if module in ("", "builtins") else f"{module}.{name}"


def is_storage(obj: Any, /) -> bool:
    """Whether it is a storage.

    >>> torch.is_storage(torch.ones(1).untyped_storage()), torch.is_storage([])
    (True, False)
    """
    return isinstance(obj, (UntypedStorage, TypedStorage))


# ---------------------------------------------------------------- checks


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None) -> None:
    if not isinstance(cond, bool):
        if isinstance(cond, Tensor):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert that all "
                "elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(_UNTOLD if message is None else str(message()))


def _check(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Callable[[], Any] | None = None, *, max: Any = None) -> None:
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None
) -> None:
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(
    input: Any, assert_msg: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(
            f"_assert_async(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    if not bool(input):
        raise RuntimeError(assert_msg)


__all__ = [
    *("get_num_interop_threads", "has_lapack", "has_mkl", "has_openmp", "is_storage", "is_vulkan_available"),
    *("set_default_tensor_type", "set_flush_denormal", "set_num_interop_threads", "typename"),
]
