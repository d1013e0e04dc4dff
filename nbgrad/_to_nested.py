"""What dense tensors answer to what is asked of nested ones, whose module is loaded when one is made."""

from __future__ import annotations

from typing import Any, NoReturn

from nbgrad._holding import refuse
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.stanza import method


@method
def to_padded_tensor(self: Tensor, padding: float, output_size: Any = None) -> NoReturn:
    """Of nested tensors: all parts in one dense tensor.

    >>> torch.nested.nested_tensor([[1.0, 2.0], [3.0]]).to_padded_tensor(0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    refuse("to_padded_tensor", "CPU")
