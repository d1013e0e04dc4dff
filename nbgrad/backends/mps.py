"""Apple's GPUs, which nbgrad does not run on."""


def is_available() -> bool:
    """Whether there is a GPU of Apple's to compute on: never.

    >>> import nbgrad
    >>> nbgrad.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """Whether nbgrad was built for Apple's GPUs: it was not.

    >>> import nbgrad
    >>> nbgrad.backends.mps.is_built()
    False
    """
    return False
