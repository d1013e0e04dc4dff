"""PyTorch's `torch.cpu.amp`: older names of what `torch.amp` has."""

from nbgrad.cpu.amp.autocast_mode import autocast as autocast
from nbgrad.cpu.amp.grad_scaler import GradScaler as GradScaler
