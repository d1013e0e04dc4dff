"""PyTorch's `torch.amp`: mixed precision.

Promises scripts that within `autocast` products and convolutions compute in 16 bits and what needs more range or digits in 32, by
PyTorch's lists, and that `GradScaler` keeps small gradients of float16 from vanishing.
"""

from nbgrad.amp.autocast_mode import autocast as autocast
from nbgrad.amp.autocast_mode import custom_bwd as custom_bwd
from nbgrad.amp.autocast_mode import custom_fwd as custom_fwd
from nbgrad.amp.autocast_mode import is_autocast_available as is_autocast_available
from nbgrad.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
