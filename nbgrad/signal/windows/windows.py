"""Windows of signals, of `M` numbers: symmetric ones, or with `sym=False` the first `M` of a symmetric one that is longer by one, as a
spectrum wants them. With `requires_grad` they keep the history of how they were made, as PyTorch's do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory.dtypes import float32, float64, get_default_dtype
from nbgrad.ops.host.attributes import strided
from nbgrad.ops.make.counted import arange, linspace
from nbgrad.ops.make.data import tensor
from nbgrad.ops.make.filled import empty, ones


def _window(
    name: str,
    M: int,
    made: Callable[..., Tensor],
    dtype: Any,
    layout: Any,
    device: Any,
    requires_grad: bool,
    *,
    one: bool = False,
    refused: Callable[[], None] | None = None,
) -> Tensor:
    """`made` of a function that gives `M` places between two numbers; where there is `one` number, and the place has no meaning, 1."""
    dtype = get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if refused is not None:
        refused()
    where = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    if M == 0:
        return empty(0, **where)
    return ones(1, **where) if one and M == 1 else made(lambda start, end: linspace(start, end, M, **where))


def _refused(wrong: bool, text: str) -> None:
    if wrong:
        raise ValueError(text)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-|k - center| / tau)` for k = 0, 1 ... The `center` is the middle, and may be another place if `sym` is False.

    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """

    def refused() -> None:
        _refused(tau <= 0, f"Tau must be positive, got: {tau} instead.")
        _refused(sym and center is not None, "Center must be None for symmetric windows")

    def made(places: Any) -> Tensor:
        middle = (M if not sym and M > 1 else M - 1) / 2.0 if center is None else center
        share = 1 / tau
        return places(-middle * share, (-middle + (M - 1)) * share).abs().neg().exp()

    return _window("exponential", M, made, dtype, layout, device, requires_grad, refused=refused)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`sin(pi * (k + 0.5) / M)` for k = 0, 1 ...

    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    step = math.pi / (M + 1 if not sym and M > 1 else M or 1)
    return _window(
        "cosine",
        M,
        lambda places: places(0.5 * step, (0.5 + (M - 1)) * step).sin(),
        dtype,
        layout,
        device,
        requires_grad,
    )


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-((k - (M - 1) / 2) / std) ** 2 / 2)` for k = 0, 1 ...

    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """

    def refused() -> None:
        _refused(std <= 0, f"Standard deviation must be positive, got: {std} instead.")

    def made(places: Any) -> Tensor:
        start, share = -(M if not sym and M > 1 else M - 1) / 2.0, 1 / (std * math.sqrt(2))
        return (-places(start * share, (start + (M - 1)) * share).pow(2)).exp()

    return _window("gaussian", M, made, dtype, layout, device, requires_grad, refused=refused)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`i0(beta * sqrt(1 - (2 * k / (M - 1) - 1) ** 2)) / i0(beta)` for k = 0, 1 ... A larger `beta` makes it narrower.

    >>> torch.signal.windows.kaiser(4, beta=2.0)
    tensor([0.4387, 0.9330, 0.9330, 0.4387])
    """

    def refused() -> None:
        _refused(beta < 0, f"beta must be non-negative, got: {beta} instead.")

    def made(places: Any) -> Tensor:
        width = tensor(beta, dtype=get_default_dtype() if dtype is None else dtype, device=device)
        start = -width
        end = width.minimum(start + (M - 1) * (2.0 * width / (M - 1 if sym else M)))
        return (width * width - places(start, end).pow(2)).sqrt().i0() / width.i0()

    return _window("kaiser", M, made, dtype, layout, device, requires_grad, one=True, refused=refused)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`0.54 - 0.46 * cos(2 * pi * k / (M - 1))` for k = 0, 1 ...

    >>> torch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`(1 - cos(2 * pi * k / (M - 1))) / 2` for k = 0, 1 ...

    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`0.42 - 0.5 * cos(2 * pi * k / (M - 1)) + 0.08 * cos(4 * pi * k / (M - 1))` for k = 0, 1 ...

    >>> torch.signal.windows.blackman(4)[1:3]
    tensor([0.6300, 0.6300])
    """
    return _cosines("blackman", M, [0.42, 0.5, 0.08], sym, dtype, layout, device, requires_grad)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle: `1 - |2 * k / (M - 1) - 1|` for k = 0, 1 ...

    >>> torch.signal.windows.bartlett(3)
    tensor([0., 1., 0.])
    """
    return _window(
        "bartlett",
        M,
        lambda places: 1 - places(-1, -1 + (M - 1) * (2 / (M - 1 if sym else M))).abs(),
        dtype,
        layout,
        device,
        requires_grad,
        one=True,
    )


def _cosines(
    name: str, M: int, a: Any, sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool
) -> Tensor:
    def made(places: Any) -> Tensor:
        if not isinstance(a, Iterable):
            raise TypeError("Coefficients must be a list/tuple")
        _refused(not a, "Coefficients cannot be empty")
        k = places(0, (M - 1) * (2 * math.pi / (M - 1 if sym else M)))
        where = {"dtype": k.dtype, "device": device, "requires_grad": requires_grad}
        weights = tensor([(-1) ** i * w for i, w in enumerate(a)], **where)
        times = arange(weights.shape[0], **where)
        return (weights.unsqueeze(-1) * (times.unsqueeze(-1) * k).cos()).sum(0)

    return _window(name, M, made, dtype, layout, device, requires_grad, one=True)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`a[0] - a[1] * cos(2 * pi * k / (M - 1)) + a[2] * cos(4 * pi * k / (M - 1)) - ...` for k = 0, 1 ...

    >>> torch.signal.windows.general_cosine(3, a=[0.46, 0.23, 0.31])
    tensor([0.5400, 1.0000, 0.5400])
    """
    return _cosines("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`alpha - (1 - alpha) * cos(2 * pi * k / (M - 1))` for k = 0, 1 ...

    >>> torch.signal.windows.general_hamming(3, alpha=0.75)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return _cosines("general_cosine", M, [alpha, 1.0 - alpha], sym, dtype, layout, device, requires_grad)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`0.3636 - 0.4892 * cos(t) + 0.1366 * cos(2 * t) - 0.0106 * cos(3 * t)`, where t = 2 * pi * k / (M - 1), for k = 0, 1 ...

    >>> torch.signal.windows.nuttall(5)[1:4]
    tensor([0.2270, 1.0000, 0.2270])
    """
    return _cosines(
        "general_cosine",
        M,
        [0.3635819, 0.4891775, 0.1365995, 0.0106411],
        sym,
        dtype,
        layout,
        device,
        requires_grad,
    )
