"""Of what frequencies the numbers of a transform are, and the order in which these come."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.prepared import call_of, settled
from nbgrad.memory import dtypes, layout
from nbgrad.ops.arrange.orders import roll, rolled
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.factories import of_numbers
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.join import cat


def _frequencies(
    name: str, n: int, d: float, parts: Sequence[tuple[int, int]], out: Tensor | None, given: dict[str, Any]
) -> Tensor:
    if out is not None:
        given = {**given, "dtype": out.dtype}
    asked = dtypes.get_default_dtype() if given["dtype"] is None else dtypes.to_dtype(given["dtype"])
    if not asked.inexact:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    grad = given["requires_grad"]
    where = {key: given[key] for key in ("layout", "device") if given[key] is not None}
    counted = cat([arange(low, high, **where) for low, high in parts])
    made = to_dtype(counted, asked) * (1.0 / (n * d) if n * d else inf)
    if out is not None:
        return into(f"fft_{name}", out, made, ())
    return made.requires_grad_() if grad else made


@of_numbers
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies, in cycles per unit, of the `n` numbers that `fft` gives of samples which are `d` apart: 0 and those above it, then
    those below.

    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    given = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _frequencies("fftfreq", n, d, [(0, (n + 1) // 2), (-(n // 2), 0)], out, given)


@of_numbers
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The same of the `n // 2 + 1` numbers that `rfft` gives of `n` samples.

    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    given = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _frequencies("rfftfreq", n, d, [(0, n // 2 + 1)], out, given)


def _shifted(input: Tensor, dim: Any, up: int) -> Any:
    along = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = tuple([layout.own_dim(d, input.ndim) for d in along])
    if not dims:
        return roll(input, (), ())
    shifts = tuple([(tuple.__getitem__(input.shape, d) + up) // 2 for d in dims])
    return call_of(rolled, input, shifts=shifts, dims=dims)


@settled
def fftshift(input: Tensor, dim: Any = None) -> Any:
    """Frequencies in order, along each of `dim` or along all: those below 0, which `fft` gives last, come first.

    >>> torch.fft.fftshift(torch.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted(input, dim, 0)


@settled
def ifftshift(input: Tensor, dim: Any = None) -> Any:
    """What `fftshift` has put in order as `ifft` wants it.

    >>> torch.fft.ifftshift(torch.arange(-2, 3))
    tensor([ 0,  1,  2, -2, -1])
    """
    return _shifted(input, dim, 1)


__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]
