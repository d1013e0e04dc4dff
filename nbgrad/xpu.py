"""`torch.xpu`: a kind of device that is not here, as what asks for one is told."""

from typing import NoReturn


def is_available() -> bool:
    """Whether there is one: no.

    >>> torch.xpu.is_available()
    False
    """
    return False


def device_count() -> int:
    """How many there are: none.

    >>> torch.xpu.device_count()
    0
    """
    return 0


def is_initialized() -> bool:
    """Whether one has been used: never.

    >>> torch.xpu.is_initialized()
    False
    """
    return False


def _nothing(*_: object, **__: object) -> None:
    """Where there is none there is nothing to do."""


def _none(*_: object, **__: object) -> int:
    """No byte is used."""
    return 0


def _refused(*_: object, **__: object) -> NoReturn:
    """Of a device that is not here."""
    raise AssertionError("Torch not compiled with XPU enabled")


empty_cache = manual_seed = manual_seed_all = seed = seed_all = _nothing
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _none
synchronize = current_device = set_device = get_device_name = get_device_properties = _refused
get_device_capability = get_rng_state = current_stream = mem_get_info = init = initial_seed = _refused


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether it computes in bfloat16: there is none.

    >>> torch.xpu.is_bf16_supported()
    False
    """
    return False
