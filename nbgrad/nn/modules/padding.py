"""Padding as modules: by the kind of padding, and by how many dimensions are padded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nbgrad.core.tensor import Tensor
from nbgrad.nn import functional as F
from nbgrad.nn.modules.module import Module, with_own_init


class _Pad(Module):
    """`padding` is one length for all sides, or two per dimension, the last dimension first."""

    dims = 1
    mode = "constant"
    value: float | None

    def __init_subclass__(cls) -> None:
        with_own_init(cls)

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, Iterable) else (padding,) * (2 * self.dims)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.pad(input, self.padding, self.mode, self.value)

    def _check_input_dim(self, input: Tensor) -> None:
        if self.mode == "circular" and input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(
                f"expected {self.dims + 1}D or {self.dims + 2}D input (got {input.dim()}D input)"
            )

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _Zero(_ConstantPadNd):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_Pad):
    value = None
    mode = "reflect"


class _ReplicationPadNd(_Pad):
    value = None
    mode = "replicate"


class _CircularPadNd(_Pad):
    value = None
    mode = "circular"


class ConstantPad1d(_ConstantPadNd):
    """`value` before and behind the last dimension; `padding` is a length, or (before, behind). A negative length cuts.

    >>> nn.ConstantPad1d((1, 2), 9.0)(torch.tensor([[1.0, 2.0]]))
    tensor([[9., 1., 2., 9., 9.]])
    """


class ConstantPad2d(_ConstantPadNd):
    """`value` around the last two dimensions; `padding` is a length, or (left, right, top, bottom).

    >>> nn.ConstantPad2d((1, 0, 0, 1), 9.0)(torch.tensor([[1.0, 2.0]]))
    tensor([[9., 1., 2.],
            [9., 9., 9.]])
    """

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """`value` around the last three dimensions; `padding` is a length, or two per dimension, the last dimension first.

    >>> nn.ConstantPad3d(1, 9.0)(torch.zeros(1, 2, 3)).shape
    torch.Size([3, 4, 5])
    """

    dims = 3


class ZeroPad1d(_Zero, ConstantPad1d):
    """Zeros before and behind the last dimension; `padding` is a length, or (before, behind).

    >>> nn.ZeroPad1d(1)(torch.tensor([[1.0, 2.0]]))
    tensor([[0., 1., 2., 0.]])
    """


class ZeroPad2d(_Zero, ConstantPad2d):
    """Zeros around the last two dimensions; `padding` is a length, or (left, right, top, bottom).

    >>> nn.ZeroPad2d((1, 0, 0, 1))(torch.tensor([[1.0, 2.0]]))
    tensor([[0., 1., 2.],
            [0., 0., 0.]])
    """

    dims = 2


class ZeroPad3d(_Zero, ConstantPad3d):
    """Zeros around the last three dimensions; `padding` is a length, or two per dimension, the last dimension first.

    >>> nn.ZeroPad3d(1)(torch.zeros(1, 2, 3)).shape
    torch.Size([3, 4, 5])
    """

    dims = 3


class ReflectionPad1d(_ReflectionPadNd):
    """The last dimension goes on mirrored at its ends, which are not repeated; `padding` is a length, or (before, behind).

    >>> nn.ReflectionPad1d((2, 1))(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2.]])
    """


class ReflectionPad2d(_ReflectionPadNd):
    """The last two dimensions go on mirrored at their ends; `padding` is a length, or (left, right, top, bottom).

    >>> nn.ReflectionPad2d((1, 0, 0, 1))(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[1., 0., 1.],
             [3., 2., 3.],
             [1., 0., 1.]]])
    """

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The last three dimensions go on mirrored at their ends; `padding` is a length, or two per dimension, the last dimension first.

    >>> nn.ReflectionPad3d(1)(torch.zeros(1, 2, 2, 3)).shape
    torch.Size([1, 4, 4, 5])
    """

    dims = 3


class ReplicationPad1d(_ReplicationPadNd):
    """The ends of the last dimension, repeated; `padding` is a length, or (before, behind).

    >>> nn.ReplicationPad1d((2, 1))(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 1., 2., 3., 3.]])
    """


class ReplicationPad2d(_ReplicationPadNd):
    """The edges of the last two dimensions, repeated; `padding` is a length, or (left, right, top, bottom).

    >>> nn.ReplicationPad2d((1, 0, 0, 1))(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[0., 0., 1.],
             [2., 2., 3.],
             [2., 2., 3.]]])
    """

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The faces of the last three dimensions, repeated; `padding` is a length, or two per dimension, the last dimension first.

    >>> nn.ReplicationPad3d(1)(torch.zeros(1, 1, 2, 3)).shape
    torch.Size([1, 3, 4, 5])
    """

    dims = 3


class CircularPad1d(_CircularPadNd):
    """The last dimension goes on with its other end; `padding` is a length, or (before, behind).

    >>> nn.CircularPad1d((2, 1))(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[2., 3., 1., 2., 3., 1.]])
    """


class CircularPad2d(_CircularPadNd):
    """The last two dimensions go on with their other ends; `padding` is a length, or (left, right, top, bottom).

    >>> nn.CircularPad2d((1, 0, 0, 1))(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[1., 0., 1.],
             [3., 2., 3.],
             [1., 0., 1.]]])
    """

    dims = 2


class CircularPad3d(_CircularPadNd):
    """The last three dimensions go on with their other ends; `padding` is a length, or two per dimension, the last dimension first.

    >>> nn.CircularPad3d(1)(torch.zeros(1, 1, 2, 3)).shape
    torch.Size([1, 3, 4, 5])
    """

    dims = 3


__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]
