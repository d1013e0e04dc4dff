"""PyTorch's `torch.return_types`: the tuples with names that functions of several results give."""

from nbgrad.dispatch.return_types import *  # noqa: F403
from nbgrad.dispatch.return_types import _lu_with_info as _lu_with_info
from nbgrad.dispatch.return_types import _lu_with_info_out as _lu_with_info_out
