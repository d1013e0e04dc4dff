"""PyTorch's path to what workers are told."""

from nbgrad.utils.data.worker import WorkerInfo as WorkerInfo
from nbgrad.utils.data.worker import _generate_state as _generate_state
from nbgrad.utils.data.worker import get_worker_info as get_worker_info
