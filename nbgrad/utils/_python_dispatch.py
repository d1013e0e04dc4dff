"""Modes that take PyTorch's operators over, below its functions and its gradients, and what tensors that wrap others are handled by.

What a mode is handed are the operators that functions come to, with PyTorch's names, schemas and arguments. Where nbgrad computes at once
what PyTorch makes of several operators, the most used are told as PyTorch's (`nbgrad/_aten/composites.py`); others are told by their own
name, and what has none (steps of optimisers, recurrent layers, what a compiled or captured step runs) is not told. A backward's nodes are
told in the operators of PyTorch's formulas where `nbgrad/_aten/formulas.py` has them; sums into `grad` of a leaf, and the `detach` by which
PyTorch keeps what it saves, are not.

>>> from torch.utils._python_dispatch import TorchDispatchMode
>>> class Log(TorchDispatchMode):
...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
...         print(func)
...         return func(*args, **(kwargs or {}))
>>> x = torch.ones(2, requires_grad=True)
>>> with Log():
...     y = (x * 3).sum()
aten.mul.Tensor
aten.sum.default
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self
from warnings import warn

from nbgrad._ops import OpOverload
from nbgrad.core import overrides
from nbgrad.core.tensor import Tensor, storage_of
from nbgrad.memory.storage import Nothing
from nbgrad.tape.modes import state


class TorchDispatchMode:
    """While it is on (`with mode:`), every operator is its own `__torch_dispatch__(func, types, args, kwargs)`, those of a backward
    too. Inside of that, calls go to the mode below."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    def __exit__(self, *_: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Deprecated: `with Mode():` does it."""
        warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """One that calls what was called."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


_looking = overrides.looking()
_users: list[object] = []  # of modes, in all threads


def _push_mode(mode: Any) -> None:
    _users.append(overrides.take_below())
    _looking.__enter__()
    state.below = (*state.below, mode)


def _pop_mode(mode_key: Any = None) -> Any:
    if not state.below:
        raise AssertionError("Trying to pop from empty mode stack")
    *rest, mode = state.below
    state.below = tuple(rest)
    _looking.__exit__()
    overrides.leave_below(_users.pop())
    return mode


@contextmanager
def _pop_mode_temporarily(mode_key: Any = None) -> Iterator[Any]:
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Within it, no mode is on."""
    modes, state.below = state.below, ()
    try:
        yield list(modes)
    finally:
        state.below = modes


def _get_current_dispatch_mode() -> Any:
    return state.below[-1] if state.below else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    return list(state.below)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    return bool(state.below)


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    return bool(state.below)


# ---------------------------------------------------------------- tensors that wrap others


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether a tensor wraps others and says how, by `__tensor_flatten__` and `__tensor_unflatten__`.

    >>> from torch.utils._python_dispatch import is_traceable_wrapper_subclass
    >>> is_traceable_wrapper_subclass(torch.ones(2))
    False
    """
    own = isinstance(t, Tensor) and type(t) is not Tensor
    return own and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """The same of a class."""
    own = issubclass(t, Tensor) and t is not Tensor
    return own and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def transform_subclass(
    t: Any, callback: Callable[[str, Tensor], Tensor], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """Such a tensor with `callback(name, tensor)` in the place of each that it wraps."""
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    attrs, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in attrs}
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    if made.shape != size or made.stride() != stride:
        raise AssertionError(f"expected return value to have size {size} and stride {stride}")
    return made


def return_and_correct_aliasing(func: OpOverload, args: Any, kwargs: Any, out: Any) -> Any:
    """What a handler of a wrapping class returns of `out`: the argument itself where the operator writes to it (`add_`, `out=`), a tensor
    that shares the argument's record of memory where it is a view of one."""
    schema = func._schema
    named = {a.name: v for a, v in zip([a for a in schema.arguments if not a.kwarg_only], args)} | dict(
        kwargs or {}
    )
    written = [a.name for a in schema.arguments if a.is_write]
    if written and schema.returns and "!" in "".join(schema.returns):
        found = [named[name] for name in written]
        return found[0] if len(found) == 1 else type(out)(found)
    shared_with = [a.name for a in schema.arguments if a.alias_info is not None and not a.is_write]
    for name in shared_with:
        base = named.get(name)
        for one in out if isinstance(out, (tuple, list)) else (out,):
            if (
                isinstance(base, Tensor)
                and isinstance(one, Tensor)
                and type(one._buf) is type(base._buf) is Nothing
            ):
                one._storage = storage_of(base)
    return out
