"""`torch.nn.parallel`: modules on several devices, of which there is at most one here. This package only re-exports."""

from nbgrad.nn.parallel.data_parallel import DataParallel as DataParallel
from nbgrad.nn.parallel.data_parallel import data_parallel as data_parallel
from nbgrad.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
