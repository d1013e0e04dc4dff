"""PyTorch's path to what a tensor is within a vmap."""

from nbgrad.autograd._vmap import _add_batch_dim as _add_batch_dim
from nbgrad.autograd._vmap import _remove_batch_dim as _remove_batch_dim
from nbgrad.autograd._vmap import get_unwrapped as get_unwrapped
from nbgrad.autograd._vmap import is_batchedtensor as is_batchedtensor
