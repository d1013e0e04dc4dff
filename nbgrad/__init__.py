"""nbgrad: PyTorch's autograd on NumPy arrays, every kernel a Numba function.

>>> import nbgrad as torch
>>> x = torch.arange(4.0, requires_grad=True)
>>> y = 2 * torch.dot(x, x)
>>> y.backward()
>>> x.grad
tensor([ 0.,  4.,  8., 12.])
"""
from nbgrad._tensor import Tensor
from nbgrad._layout import Size
from nbgrad._dtypes import *
from nbgrad._dtypes import float32, float64, int64, int32, bool
from nbgrad.ops.elementwise import *
from nbgrad.ops.elementwise import where, pow, add, sub, div
from nbgrad.ops.copy import *
from nbgrad.ops.movement import *
from nbgrad._creation import *
