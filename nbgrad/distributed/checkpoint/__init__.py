"""`torch.distributed.checkpoint`: a state of several processes, kept in a directory. This package only re-exports."""

from nbgrad.distributed.checkpoint._files import CheckpointException as CheckpointException
from nbgrad.distributed.checkpoint._files import load as load
from nbgrad.distributed.checkpoint._files import save as save

__all__ = ["CheckpointException", "load", "save"]
