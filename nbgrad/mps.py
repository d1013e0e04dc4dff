"""`torch.mps`: a kind of device that is not here, as what asks for one is told."""

from collections.abc import Callable
from typing import NoReturn


def is_available() -> bool:
    """Whether there is one: no.

    >>> torch.mps.is_available()
    False
    """
    return False


def device_count() -> int:
    """How many there are: none.

    >>> torch.mps.device_count()
    0
    """
    return 0


def _refusing(name: str, told: str) -> Callable[..., NoReturn]:
    def function(*_: object, **__: object) -> NoReturn:
        raise RuntimeError(f"Cannot execute {told}() without MPS backend.")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Of a device that is not here."
    return function


empty_cache = _refusing("empty_cache", "emptyCache")
synchronize = _refusing("synchronize", "deviceSynchronize")
current_allocated_memory = _refusing("current_allocated_memory", "getCurrentAllocatedMemory")
driver_allocated_memory = _refusing("driver_allocated_memory", "getDriverAllocatedMemory")
recommended_max_memory = _refusing("recommended_max_memory", "getRecommendedMaxMemory")
seed = _refusing("seed", "getDefaultGenerator")
get_rng_state = _refusing("get_rng_state", "getDefaultGenerator")


def manual_seed(seed: int) -> None:
    """Where there is none there is nothing to do."""
