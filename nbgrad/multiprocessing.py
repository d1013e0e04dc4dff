"""`torch.multiprocessing`: Python's own. Tensors go to other processes by copy."""

import multiprocessing
from multiprocessing import *  # noqa: F403

__all__ = list(multiprocessing.__all__)
