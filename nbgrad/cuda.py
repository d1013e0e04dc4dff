"""What programs ask before they use a GPU: there is none in this release, which computes on the CPU."""

from __future__ import annotations


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed: int) -> None:
    """Nothing, as in PyTorch where there is no GPU."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Nothing: no memory of a GPU is kept."""


__all__ = ["device_count", "empty_cache", "is_available", "is_initialized", "manual_seed", "manual_seed_all"]
