"""PyTorch's path to marks and types for its scripts, which libraries import: nothing is scripted, so they mark nothing."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from nbgrad.futures import Future as Future
from nbgrad.jit import _drop as _drop
from nbgrad.jit import _isinstance as _isinstance
from nbgrad.jit import _overload as _overload
from nbgrad.jit import _overload_method as _overload_method
from nbgrad.jit import export as export
from nbgrad.jit import ignore as ignore
from nbgrad.jit import is_scripting as is_scripting
from nbgrad.jit import unused as unused

T = typing.TypeVar("T")
Final = typing.Final


def _copy_to_script_wrapper(fn: T) -> T:
    """The method itself."""
    return fn


class BroadcastingListCls:
    """For annotations: a list, or one value for all of it."""

    def __getitem__(self, types: Any) -> Any:
        return Any


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingListCls()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """One function that calls one of two, by an argument."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    fn.__doc__, fn.__name__, fn.__module__ = if_true.__doc__ or if_false.__doc__, func_name, module_name
    return fn


__all__ = [
    *(
        "BroadcastingList1",
        "BroadcastingList2",
        "BroadcastingList3",
        "Final",
        "Future",
        "boolean_dispatch",
        "export",
    ),
    *("ignore", "is_scripting", "unused"),
]
