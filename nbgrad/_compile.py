"""Where PyTorch keeps the mark of what is to be left out of compiled programs, and where optimisers of libraries look for it."""

from __future__ import annotations

from typing import Any

from nbgrad.compiler import disable


def _disable_dynamo(fn: Any = None, recursive: bool = True) -> Any:
    """`compiler.disable`, also as a decorator that is given settings.

    >>> torch._disable_dynamo(max)(1, 2), torch._disable_dynamo(recursive=False)(max)(1, 2)
    (2, 2)
    """
    return disable(fn, recursive)
