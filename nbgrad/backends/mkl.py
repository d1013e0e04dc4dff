"""Intel's library of linear algebra, which nbgrad does not use."""


def is_available() -> bool:
    """Whether it is used: it is not, where PyTorch's answer is what it was built with.

    >>> import nbgrad
    >>> nbgrad.backends.mkl.is_available()
    False
    """
    return False
