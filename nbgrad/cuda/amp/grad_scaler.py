"""PyTorch's `torch.cuda.amp.grad_scaler`."""

from nbgrad.amp.grad_scaler import OptState as OptState
from nbgrad.amp.older import scaler_of

GradScaler = scaler_of("cuda")

__all__ = ["GradScaler"]
