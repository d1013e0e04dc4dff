"""`torch.utils.hooks`: what registering a hook returns."""

from nbgrad._tape.node import RemovableHandle

__all__ = ["RemovableHandle"]
