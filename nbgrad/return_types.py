"""PyTorch's `torch.return_types`: the tuples with names that functions of several results give."""

from nbgrad.dispatch.return_types import *  # noqa: F403
