"""Switches of a library that is not there: they can be set, and change nothing."""

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether the library is there: never.

    >>> import nbgrad
    >>> nbgrad.backends.cudnn.is_available()
    False
    """
    return False


def version() -> None:
    """Its version: None, as it is not there.

    >>> import nbgrad
    >>> print(nbgrad.backends.cudnn.version())
    None
    """
    return None
