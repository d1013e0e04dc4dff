"""`torch.mtia`: a kind of device that is not here, as what asks for one is told."""


def is_available() -> bool:
    """Whether there is one: no.

    >>> torch.mtia.is_available()
    False
    """
    return False


def device_count() -> int:
    """How many there are: none.

    >>> torch.mtia.device_count()
    0
    """
    return 0


def is_initialized() -> bool:
    """Whether one has been used: never.

    >>> torch.mtia.is_initialized()
    False
    """
    return False
