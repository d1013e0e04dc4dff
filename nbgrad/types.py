"""PyTorch's `torch.types`: names for annotations."""

from __future__ import annotations

import os
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import IO, TypeAlias

from nbgrad.autograd.graph import GradientEdge
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import device as _device
from nbgrad.memory.layout import Size
from nbgrad.ops.host.storage import UntypedStorage as Storage

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_TensorOrTensorsOrGradEdge: TypeAlias = Tensor | Sequence[Tensor] | GradientEdge | Sequence[GradientEdge]
_size: TypeAlias = Size | list[_int] | tuple[_int, ...]
Number: TypeAlias = _int | _float | _bool
_Number = (_int, _float, _bool)
FileLike: TypeAlias = _str | os.PathLike[_str] | IO[_bytes]
Device: TypeAlias = _device | _str | _int | None

__all__ = ["Device", "FileLike", "Number", "Storage"]
