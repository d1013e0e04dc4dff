"""Tensors of which some elements are masked: functions that take a mask, and `MaskedTensor`, which has one.

Reductions and normalisations here see what the mask lets through; the others count as what changes nothing. A mask has the input's shape or
one that broadcasts to it.

>>> x = torch.masked.masked_tensor(torch.tensor([1.0, 0.0, 4.0]), torch.tensor([True, False, True]))
>>> x.log().sum(), torch.masked.mean(x, 0)
(MaskedTensor(  1.3863, True), tensor(2.5000))
"""

from nbgrad.masked import _forms as _forms
from nbgrad.masked._functions import amax as amax
from nbgrad.masked._functions import amin as amin
from nbgrad.masked._functions import argmax as argmax
from nbgrad.masked._functions import argmin as argmin
from nbgrad.masked._functions import cumprod as cumprod
from nbgrad.masked._functions import cumsum as cumsum
from nbgrad.masked._functions import log_softmax as log_softmax
from nbgrad.masked._functions import logaddexp as logaddexp
from nbgrad.masked._functions import logsumexp as logsumexp
from nbgrad.masked._functions import mean as mean
from nbgrad.masked._functions import median as median
from nbgrad.masked._functions import norm as norm
from nbgrad.masked._functions import normalize as normalize
from nbgrad.masked._functions import prod as prod
from nbgrad.masked._functions import softmax as softmax
from nbgrad.masked._functions import softmin as softmin
from nbgrad.masked._functions import std as std
from nbgrad.masked._functions import sum as sum
from nbgrad.masked._functions import var as var
from nbgrad.masked._tensor import MaskedTensor as MaskedTensor
from nbgrad.masked._tensor import as_masked_tensor as as_masked_tensor
from nbgrad.masked._tensor import is_masked_tensor as is_masked_tensor
from nbgrad.masked._tensor import masked_tensor as masked_tensor

__all__ = [
    *("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"),
    *(
        "amax",
        "amin",
        "argmax",
        "argmin",
        "cumprod",
        "cumsum",
        "log_softmax",
        "logaddexp",
        "logsumexp",
        "mean",
    ),
    *("median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"),
]
