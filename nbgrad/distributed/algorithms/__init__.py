"""`torch.distributed.algorithms`: ways to train together."""

from nbgrad.distributed.algorithms.join import Join as Join
from nbgrad.distributed.algorithms.join import Joinable as Joinable
from nbgrad.distributed.algorithms.join import JoinHook as JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
