"""PyTorch's path to what makes a context manager a decorator too."""

from nbgrad.autograd.grad_mode import Mode as _DecoratorContextManager
from nbgrad.autograd.grad_mode import Plain as _NoParamDecoratorContextManager

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager"]
