"""PyTorch's `torch.cuda.amp.autocast_mode`."""

from nbgrad.amp.older import autocast_of
from nbgrad.amp.older import custom_bwd as custom_bwd
from nbgrad.amp.older import custom_fwd as custom_fwd

autocast = autocast_of("cuda")

__all__ = ["autocast", "custom_bwd", "custom_fwd"]
