"""Intel's library of networks, which nbgrad does not use. Its switch can be set, and changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nbgrad.backends._switches import guard

enabled = True


def is_available() -> bool:
    """Whether it is used: it is not, where PyTorch's answer is what it was built with.

    >>> import nbgrad
    >>> nbgrad.backends.mkldnn.is_available()
    False
    """
    return False


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """In a `with`, the switch is set so.

    >>> import nbgrad
    >>> with nbgrad.backends.mkldnn.flags(enabled=False):
    ...     nbgrad.backends.mkldnn.enabled
    False
    """
    module: Any = sys.modules[__name__]
    before = module.enabled
    module.enabled = enabled
    try:
        yield
    finally:
        module.enabled = before


guard(__name__, {"enabled": "set_enabled_mkldnn"})
__all__ = ["enabled", "flags", "is_available"]
