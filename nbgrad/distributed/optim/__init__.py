"""`torch.distributed.optim`: optimisers of several processes. This package only re-exports."""

from nbgrad.distributed.optim.zero_redundancy_optimizer import (
    ZeroRedundancyOptimizer as ZeroRedundancyOptimizer,
)

__all__ = ["ZeroRedundancyOptimizer"]
