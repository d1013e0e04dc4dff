"""By which kernels attention is to be computed, for scripts that choose: it is kept, and changes nothing here."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence
from typing import Final


class SDPBackend(enum.Enum):
    """Ways to compute attention.

    >>> torch.nn.attention.SDPBackend.MATH
    <SDPBackend.MATH: 0>
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return int(self.value)


# What `torch.backends.cuda` says of each.
enabled: Final = {"math": True, "flash": True, "mem_efficient": True, "cudnn": True}
_WORDS = dict(zip(enabled, list(SDPBackend)[1:]))


@contextlib.contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict[str, object]]:
    """Within the block, `torch.backends.cuda` says that attention may be computed in these ways alone.

    >>> with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    ...     torch.backends.cuda.flash_sdp_enabled()
    False
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {type(backends).__name__}"
        )
    chosen: Sequence[SDPBackend] = [backends] if isinstance(backends, SDPBackend) else backends
    before = dict(enabled)
    try:
        enabled.update({word: backend in chosen for word, backend in _WORDS.items()})
        yield {}
    finally:
        enabled.update(before)


__all__ = ["SDPBackend", "sdpa_kernel"]
