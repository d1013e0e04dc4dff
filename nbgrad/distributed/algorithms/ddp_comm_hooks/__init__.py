"""`torch.distributed.algorithms.ddp_comm_hooks`: what `DistributedDataParallel` may do with its buckets. This package only re-exports."""

from nbgrad.distributed.algorithms.ddp_comm_hooks import default_hooks as default_hooks

__all__ = ["default_hooks"]
