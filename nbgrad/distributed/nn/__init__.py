"""`torch.distributed.nn`: collectives through which gradients pass. This package only re-exports."""

from nbgrad.distributed.nn import functional as functional
from nbgrad.distributed.nn.functional import all_gather as all_gather
from nbgrad.distributed.nn.functional import all_reduce as all_reduce
from nbgrad.distributed.nn.functional import all_to_all as all_to_all
from nbgrad.distributed.nn.functional import all_to_all_single as all_to_all_single
from nbgrad.distributed.nn.functional import broadcast as broadcast
from nbgrad.distributed.nn.functional import gather as gather
from nbgrad.distributed.nn.functional import reduce as reduce
from nbgrad.distributed.nn.functional import reduce_scatter as reduce_scatter
from nbgrad.distributed.nn.functional import scatter as scatter

__all__ = [
    *("all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast"),
    *("functional", "gather", "reduce", "reduce_scatter", "scatter"),
]
