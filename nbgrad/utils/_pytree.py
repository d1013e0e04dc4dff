"""PyTorch's path to `nbgrad.core.pytree`, which libraries import though it is private."""

from nbgrad.core.pytree import *  # noqa: F403
