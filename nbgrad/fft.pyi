"""Fourier transforms, made by `python -m tests.stubs`."""

from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Sequence

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.ops.host.attributes import layout as _layout

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

def fft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fftfreq(
    n: _int,
    d: _float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def fftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fftshift(input: Tensor, dim: Sequence[_int] | _int | None = None) -> Tensor: ...
def hfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def hfft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def hfftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifftshift(input: Tensor, dim: Sequence[_int] | _int | None = None) -> Tensor: ...
def ihfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ihfft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ihfftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def irfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def irfft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def irfftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def rfft(
    input: Tensor,
    n: _int | None = None,
    dim: _int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def rfft2(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def rfftfreq(
    n: _int,
    d: _float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def rfftn(
    input: Tensor,
    s: Sequence[_int] | _int | None = None,
    dim: Sequence[_int] | _int | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
