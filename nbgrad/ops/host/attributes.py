"""What tensors of real numbers on a CPU answer to questions that PyTorch asks of all its kinds: which parts they have, how they are
laid out, where they are."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.core.signatures import kind_name
from nbgrad.core.tensor import Tensor, fix, hooks
from nbgrad.dispatch.elementwise import inplace as write
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.stanza import method, method_alone, stanza
from nbgrad.expr import prims as p
from nbgrad.memory import dtypes
from nbgrad.ops.views.copy import fill_, to_dtype, zero_
from nbgrad.ops.views.order import transpose

# ---------------------------------------------------------------- parts of numbers


def real(input: Tensor) -> Tensor:
    return input


def imag(input: Tensor) -> Tensor:
    raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")


@method
def conj(input: Tensor) -> Tensor:
    return input


_conj_physical = stanza(lambda input: input, name="conj_physical", method=False, shared=False)


@method_alone
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    return input if out is None else into("conj_physical", out, input, (input,))


@method
def conj_physical_(input: Tensor) -> Tensor:
    return write(_conj_physical.op, (input,))


@method
def resolve_conj(input: Tensor) -> Tensor:
    return input


@method
def is_conj(input: Tensor) -> bool:
    return False


@method
def resolve_neg(input: Tensor) -> Tensor:
    return input


@method
def is_neg(input: Tensor) -> bool:
    return False


# Of a number without imaginary part: pi below 0.
angle = stanza(
    lambda input: p.where(p.isnan(input), math.nan, p.where(p.lt(input, 0), math.pi, 0.0)),
    name="angle",
    promote="float",
    inplace=False,
)


@method
def adjoint(input: Tensor) -> Tensor:
    if input.ndim == 1:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    if not input.ndim:
        return hooks.alias(input)
    return transpose(input, -2, -1)


def _set_real(self: Tensor, value: Any) -> None:
    if isinstance(value, Tensor):
        self.copy_(value)
    elif isinstance(value, (int, float)):
        self.fill_(value)
    else:
        raise TypeError(f"can't assign a {kind_name(value)} to a {self.type()}")


Tensor.real = property(real, _set_real)  # type: ignore[assignment, method-assign]

# ---------------------------------------------------------------- layout and place


class layout:
    """How elements are stored; here always with strides."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"


class memory_format(layout):
    """In which order of dimensions; here always the usual one."""


strided = layout("strided")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
newaxis = None

Tensor.layout = property(lambda self: strided)  # type: ignore[assignment, method-assign]
fix("layout")


def _always(answer: bool) -> property:
    return property(lambda self: answer)


_OTHER_PLACES = ("ipu", "maia", "meta", "mkldnn", "mps", "mtia", "vulkan", "xla", "xpu")
_OTHER_KINDS = ("nested", "quantized", "sparse", "sparse_csr")
for _name in (f"is_{_kind}" for _kind in (*_OTHER_PLACES, *_OTHER_KINDS)):
    setattr(Tensor, _name, _always(False))
Tensor.is_cpu = _always(True)  # type: ignore[assignment, method-assign]


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    return False


@method
def is_shared(self: Tensor) -> bool:
    return False


@method
def get_device(input: Tensor) -> int:
    return -1


@method
def dim_order(self: Tensor) -> tuple[int, ...]:
    """Dimensions from the one with the largest steps on."""
    return tuple(sorted(range(self.ndim), key=lambda d: -self.stride(d)))


@method
def dense_dim(self: Tensor) -> int:
    return self.ndim


@method
def sparse_dim(self: Tensor) -> int:
    return 0


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    return self if dtype is None else to_dtype(self, dtype)


@method
def is_distributed(input: Tensor) -> bool:
    return False


def is_inference(input: Tensor) -> bool:
    return input.is_inference()


def is_signed(input: Tensor) -> bool:
    return input.dtype not in (dtypes.uint8, dtypes.bool_)


# ---------------------------------------------------------------- methods that are functions too


def detach(input: Tensor) -> Tensor:
    return input.detach()


def fill(input: Tensor, value: Any) -> Tensor:
    return fill_(input.clone(), value)


__all__ = [
    *(
        "adjoint",
        "angle",
        "conj",
        "conj_physical",
        "conj_physical_",
        "contiguous_format",
        "detach",
        "fill",
        "fill_",
        "get_device",
        "imag",
    ),
    *(
        "is_conj",
        "is_distributed",
        "is_inference",
        "is_neg",
        "is_signed",
        "layout",
        "memory_format",
        "newaxis",
        "preserve_format",
        "real",
        "resolve_conj",
        "resolve_neg",
        "strided",
    ),
    "zero_",
]
