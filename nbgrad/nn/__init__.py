"""`nbgrad.nn`: parameters, and the functions that networks are made of."""

from nbgrad.nn import functional as functional
from nbgrad.nn.parameter import Parameter as Parameter

__all__ = ["Parameter", "functional"]
