"""PyTorch's path to what takes calls below its functions, in the dispatcher: there is none here, which who enters such a mode is told."""

from __future__ import annotations

from typing import Any, NoReturn

from nbgrad.core.tensor import Tensor

_INSTEAD = "nbgrad has no {}: there is no dispatcher below the functions; torch.overrides.TorchFunctionMode takes the functions themselves"


class TorchDispatchMode:
    """A mode below the functions: it can be defined, not entered."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(_INSTEAD.format("torch.utils._python_dispatch.TorchDispatchMode"))

    def __exit__(self, *_: object) -> None:
        pass

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """One that calls what was called."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether a tensor wraps others and says how: never, as none has `__torch_dispatch__`."""
    return False


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    return False


def transform_subclass(
    t: Tensor, callback: Any, outer_size: Any = None, outer_stride: Any = None
) -> NoReturn:
    """Refused: there are no such tensors."""
    raise NotImplementedError(_INSTEAD.format("torch.utils._python_dispatch.transform_subclass"))


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> NoReturn:
    """Refused: it is called in `__torch_dispatch__`."""
    raise NotImplementedError(_INSTEAD.format("torch.utils._python_dispatch.return_and_correct_aliasing"))


def _get_current_dispatch_mode() -> None:
    return None


def _get_current_dispatch_mode_stack() -> list[Any]:
    return []
