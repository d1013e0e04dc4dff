"""Errors of PyTorch's compiler, by its path to them."""

from nbgrad.compiler import InvalidBackend as InvalidBackend

__all__ = ["InvalidBackend"]
