"""PyTorch's `torch.signal`: what prepares signals."""

from nbgrad.signal import windows as windows
