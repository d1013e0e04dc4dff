"""What programs ask before they use a GPU: there is none in this release, which computes on the CPU."""

from __future__ import annotations


def is_available() -> bool:
    """Whether there is a GPU to compute on: not in this release.

    >>> import nbgrad
    >>> nbgrad.cuda.is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """Whether a GPU is in use: never.

    >>> import nbgrad
    >>> nbgrad.cuda.is_initialized()
    False
    """
    return False


def device_count() -> int:
    """How many GPUs there are: 0.

    >>> import nbgrad
    >>> nbgrad.cuda.device_count()
    0
    """
    return 0


def manual_seed(seed: int) -> None:
    """Nothing, as in PyTorch where there is no GPU.

    >>> import nbgrad
    >>> nbgrad.cuda.manual_seed(0)
    """


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Nothing: no memory of a GPU is kept.

    >>> import nbgrad
    >>> nbgrad.cuda.empty_cache()
    """


__all__ = ["device_count", "empty_cache", "is_available", "is_initialized", "manual_seed", "manual_seed_all"]
