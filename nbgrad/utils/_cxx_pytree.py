"""PyTorch's path to the trees that a package of C++ makes quick where it is installed: here they are the same."""

from nbgrad.utils._pytree import *  # noqa: F403
