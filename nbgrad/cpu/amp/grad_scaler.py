"""PyTorch's `torch.cpu.amp.grad_scaler`."""

from nbgrad.amp.older import scaler_of

GradScaler = scaler_of("cpu")

__all__ = ["GradScaler"]
