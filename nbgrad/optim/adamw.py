"""PyTorch's path to AdamW."""

from nbgrad.optim.adam import AdamW as AdamW

__all__ = ["AdamW"]
