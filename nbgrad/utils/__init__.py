"""`nbgrad.utils`: what PyTorch has no name for."""

from nbgrad.kernels import build
from nbgrad.kernels.build import Kernel


def kernels(name: str = "") -> list[Kernel]:
    """The kernels that this process has built or loaded whose name begins so, in that order.

    Each has its `name`, its `source` (Python, as Numba compiles it), the `path` of that source in the cache, and
    `python()`: the same function un-jitted, for NumPy arrays.
    """
    return [kernel for kernel in build._kernels.values() if kernel.name.startswith(name)]


__all__ = ["kernels"]
