"""By which kernels attention is to be computed, for scripts that choose: it is kept, and changes nothing here."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence

from nbgrad.backends import cuda


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


_SWITCHES = {
    SDPBackend.MATH: (cuda.math_sdp_enabled, cuda.enable_math_sdp),
    SDPBackend.FLASH_ATTENTION: (cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
    SDPBackend.EFFICIENT_ATTENTION: (cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp),
    SDPBackend.CUDNN_ATTENTION: (cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp),
}


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
    before = {backend: enabled() for backend, (enabled, _) in _SWITCHES.items()}
    try:
        for backend, (_, enable) in _SWITCHES.items():
            enable(backend in chosen)
        yield {}
    finally:
        for backend, (_, enable) in _SWITCHES.items():
            enable(before[backend])


__all__ = ["SDPBackend", "sdpa_kernel"]
