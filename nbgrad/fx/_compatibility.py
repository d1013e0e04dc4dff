"""PyTorch's marks of what it promises to keep, which libraries put on methods of their tracers, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """A decorator that would say in the docstring whether a function is here to stay: it is left as it is.

    >>> @torch.fx._compatibility.compatibility(is_backward_compatible=True)
    ... def kept(): ...
    >>> kept.__doc__ is None
    True
    """
    return lambda fn: fn
