"""`torch.mps`: a kind of device that is not here, as what asks for one is told."""


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
