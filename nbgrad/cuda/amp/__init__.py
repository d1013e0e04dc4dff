"""PyTorch's `torch.cuda.amp`: older names of what `torch.amp` has."""

from nbgrad.amp.older import custom_bwd as custom_bwd
from nbgrad.amp.older import custom_fwd as custom_fwd
from nbgrad.cuda.amp.autocast_mode import autocast as autocast
from nbgrad.cuda.amp.common import amp_definitely_not_available as amp_definitely_not_available
from nbgrad.cuda.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]
