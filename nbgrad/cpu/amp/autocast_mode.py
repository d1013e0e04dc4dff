"""PyTorch's `torch.cpu.amp.autocast_mode`."""

from nbgrad.amp.older import autocast_of

autocast = autocast_of("cpu")

__all__ = ["autocast"]
