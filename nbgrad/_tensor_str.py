"""PyTorch's path to how a tensor prints, which libraries read: its options, and the text of a tensor or of its numbers alone."""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.ops.host import printing
from nbgrad.ops.host.printing import get_printoptions as get_printoptions
from nbgrad.ops.host.printing import options as PRINT_OPTS
from nbgrad.ops.host.printing import printoptions as printoptions
from nbgrad.ops.host.printing import set_printoptions as set_printoptions
from nbgrad.ops.views.join import cat

__all__ = ["PRINT_OPTS", "get_printoptions", "get_summarized_data", "printoptions", "set_printoptions"]


class _Formatter:
    """How the numbers of a tensor are written.

    >>> torch._tensor_str._Formatter(torch.tensor([1.5, 200.0])).format(1.5)
    '  1.5000'
    """

    def __init__(self, tensor: Tensor) -> None:
        self.floating_dtype = tensor.dtype.is_floating_point
        self._how = printing.Formatter(tensor.reshape(-1).tolist(), self.floating_dtype)
        self.int_mode, self.sci_mode, self.max_width = self._how.whole, self._how.sci, self._how.width

    def width(self) -> int:
        return self.max_width

    def format(self, value: Any) -> str:
        return self._how.format(value)


def get_summarized_data(self: Tensor) -> Tensor:
    """The elements at both ends of each dimension, as many as are printed of a large tensor.

    >>> torch._tensor_str.get_summarized_data(torch.arange(2000))
    tensor([   0,    1,    2, 1997, 1998, 1999])
    """
    edge = PRINT_OPTS.edgeitems
    for dim, size in enumerate(self.shape):
        if size > 2 * edge:
            self = cat((self.narrow(dim, 0, edge), self.narrow(dim, size - edge, edge)), dim)
    return self


def _tensor_str(self: Tensor, indent: int) -> str:
    return "[]" if self.numel() == 0 else printing.contents(self, indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    return printing.add_suffixes(tensor_str, suffixes, indent, force_newline)


def _str(self: Tensor, *, tensor_contents: Any = None) -> str:
    return Tensor.__repr__(self, tensor_contents=tensor_contents)  # type: ignore[call-arg]


_str_intern = _str
