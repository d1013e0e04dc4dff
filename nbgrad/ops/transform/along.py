"""Fourier transforms as users call them: along one dimension or several, of what length, divided by what.

Each comes to one of the three ops of `fft`, of a tensor cut or padded with zeros to the length that was asked for. Of what PyTorch asks
first, that is refused first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nbgrad.base.records import NamedTuple
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.prepared import call_of, in_turn, settled
from nbgrad.memory import dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Marked
from nbgrad.ops.arrange.padding import _constant, _padded, _told, constant_pad_nd
from nbgrad.ops.pointwise.parts import conj, conj_physical
from nbgrad.ops.transform.fft import (
    BY_COUNT,
    BY_ROOT,
    NONE,
    _fft_c2c,
    _fft_c2r,
    _fft_r2c,
    padded_c2c,
    padded_r2c,
)
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.slices import _slice, narrow


def _normalization(norm: Any, forward: bool) -> int:
    if norm == "ortho":
        return BY_ROOT
    if norm not in (None, "backward", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return BY_COUNT if forward is (norm == "forward") else NONE


def _promoted(input: Tensor, to_complex: bool) -> Tensor:
    """Of a dtype that there are transforms of."""
    d = input._spec.dtype
    if d.narrow:
        raise RuntimeError(f"Unsupported dtype {d.scalar_name}")
    d = d if d.inexact else dtypes.get_default_dtype()
    d = d.to_complex() if to_complex else d
    return input if d is input._spec.dtype else to_dtype(input, d)


def _check_length(n: int) -> None:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _resized(input: Tensor, dims: Ints, sizes: Ints) -> Tensor:
    """Cut at the end, or with zeros there."""
    pad = [0] * 2 * input.ndim
    for d, n in zip(dims, sizes):
        have = tuple.__getitem__(input.shape, d)
        pad[2 * (input.ndim - 1 - d) + 1] = max(0, n - have)
        if have > n:
            input = narrow(input, d, 0, n)
    return constant_pad_nd(input, pad) if any(pad) else input


def _check_out(name: str, out: Tensor | None, to_complex: bool) -> None:
    if isinstance(out, Tensor) and not (out.dtype.is_complex if to_complex else out.dtype.is_floating_point):
        kind = "complex" if to_complex else "floating point"
        raise RuntimeError(f"{name} expects a {kind} output tensor, but got {out.dtype.scalar_name}")


def _of_resized(op: Any, input: Tensor, at: int, n: int, **how: Any) -> Any:
    """A settled answer, of what is cut or padded first: nothing is copied for it but where half of a transform is padded."""
    sp, have = input._spec, tuple.__getitem__(input.shape, at)
    if n < have:
        cut = {"dim": at, "start": 0, "length": n, "step": 1}
        shape = (*input.shape[:at], n, *input.shape[at + 1 :])
        between = sp.like(shape, sp.strides)
        second = op.at(between, how)
        return in_turn(partial(_slice, **cut), between, second, second.run)
    pad = [0] * 2 * (input.ndim - at)
    pad[-1] = n - have
    first, between = call_of(_constant, input, pad=tuple(pad), value=_told(input, 0)), _padded(sp, tuple(pad))
    second, at_once = op.at(between, how), _AT_ONCE.get(op)
    if at_once:
        return in_turn(first, between, second, at_once(sp, between, **how))
    return in_turn(first, between, second, lambda t: second.run(first.run(t)))


_AT_ONCE: dict[Any, Callable[..., Any]] = {_fft_c2c: padded_c2c, _fft_r2c: padded_r2c}


def _done(op: Any, x: Tensor, input: Tensor, out: Tensor | None, **how: Any) -> Any:
    if x is input and out is None:
        return call_of(op, x, **how)
    made = op(x, **how)
    if out is None:
        return made
    # An `out` of real numbers that is empty is laid out anew.
    return into(f"_{op.op.name}", out, made if made.is_complex() else made.contiguous(), (input,))


# ---------------------------------------------------------------- along one dimension


def _one_way(x: Tensor, input: Tensor, n: int, dim: int, out: Tensor | None) -> bool:
    """Whether all that is to be done first is to change the length."""
    if x is not input or out is not None or type(input._spec) is Marked:
        return False
    return input.numel() > 0 and n != tuple.__getitem__(input.shape, dim)


def _of_length(x: Tensor, n: int | None, dim: int) -> Tensor:
    return x if n is None else _resized(x, (dim,), (n,))


def _c2c(
    name: str, input: Tensor, n: int | None, dim: int, norm: Any, forward: bool, out: Tensor | None
) -> Any:
    _check_out(name, out, True)
    at = layout.own_dim(dim, input.ndim)
    _check_length(tuple.__getitem__(input.shape, at) if n is None else n)
    how = {"dim": (at,), "normalization": _normalization(norm, forward), "forward": forward}
    if n is not None and _one_way(input, input, n, at, out):
        return _of_resized(_fft_c2c, input, at, n, **how)
    return _done(_fft_c2c, _of_length(input, n, at), input, out, **how)


def _r2c(
    name: str,
    input: Tensor,
    n: int | None,
    dim: int,
    norm: Any,
    forward: bool,
    onesided: bool,
    out: Tensor | None,
) -> Any:
    if input.dtype.is_complex:
        raise RuntimeError(f"{name} expects a real input tensor, but got {input.dtype.scalar_name}")
    _check_out(name, out, True)
    x = _promoted(input, False)
    at = layout.own_dim(dim, x.ndim)
    _check_length(tuple.__getitem__(x.shape, at) if n is None else n)
    how = {"dim": (at,), "normalization": _normalization(norm, forward), "onesided": onesided}
    if forward and n is not None and _one_way(x, input, n, at, out):
        return _of_resized(_fft_r2c, input, at, n, **how)
    x = _of_length(x, n, at)
    if forward:
        return _done(_fft_r2c, x, input, out, **how)
    return conj_physical(_fft_r2c(x, **how), out=out)


def _c2r(
    name: str, input: Tensor, n: int | None, dim: int, norm: Any, forward: bool, out: Tensor | None
) -> Any:
    _check_out(name, out, False)
    x = _promoted(input, True)
    at = layout.own_dim(dim, x.ndim)
    length = 2 * (tuple.__getitem__(x.shape, at) - 1) if n is None else n
    _check_length(length)
    how = {"dim": (at,), "normalization": _normalization(norm, forward), "last_dim_size": length}
    if not forward and n is not None and _one_way(x, input, n // 2 + 1, at, out):
        return _of_resized(_fft_c2r, input, at, n // 2 + 1, **how)
    x = x if n is None else _resized(x, (at,), (n // 2 + 1,))
    return _done(_fft_c2r, conj(x) if forward else x, input, out, **how)


@settled
def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Any:
    """The Fourier transform along `dim`: number k of it is the sum of `x[j] * exp(-2j * pi * j * k / n)` over all j. `n` cuts the input, or
    pads it with zeros. It is divided by nothing ("backward"), by n ("forward"), or by its root ("ortho").

    >>> torch.fft.fft(torch.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([ 3.+0.j,  1.-2.j, -1.+0.j,  1.+2.j])
    """
    if input._spec.dtype.is_complex:
        return _c2c("fft", input, n, dim, norm, True, out)
    return _r2c("fft", input, n, dim, norm, True, False, out)


@settled
def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Any:
    """What `fft` with the same `norm` makes this of: the sums are of `exp(+2j * pi * j * k / n)`, and by default divided by n.

    >>> torch.fft.ifft(torch.tensor([3.0, 1 - 2j, -1.0, 1 + 2j]))
    tensor([1.+0.j, 2.+0.j, 0.+0.j, 0.+0.j])
    """
    if input._spec.dtype.is_complex:
        return _c2c("ifft", input, n, dim, norm, False, out)
    return _r2c("ifft", input, n, dim, norm, False, False, out)


@settled
def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Any:
    """The first `n // 2 + 1` numbers of the Fourier transform of real ones; those after them are conjugates of these.

    >>> torch.fft.rfft(torch.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([ 3.+0.j,  1.-2.j, -1.+0.j])
    """
    return _r2c("rfft", input, n, dim, norm, True, True, out)


@settled
def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Any:
    """The real numbers of which `input` is the `rfft`. There are `n` of them, an even number unless it is given.

    >>> torch.fft.irfft(torch.tensor([3.0, 1 - 2j, -1.0]))
    tensor([1., 2., 0., 0.])
    """
    return _c2r("irfft", input, n, dim, norm, False, out)


@settled
def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Any:
    """The Fourier transform, which is real, of numbers whose second half are conjugates of the first, which is given.

    >>> torch.fft.hfft(torch.tensor([1.0, 2.0, 0.0]))
    tensor([ 5.,  1., -3.,  1.])
    """
    return _c2r("hfft", input, n, dim, norm, True, out)


@settled
def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Any:
    """The first half of what `hfft` makes these real numbers of; the second are conjugates of it.

    >>> torch.fft.ihfft(torch.tensor([5.0, 1.0, -3.0, 1.0])).real
    tensor([1., 2., 0.])
    """
    return _r2c("ihfft", input, n, dim, norm, False, True, out)


# ---------------------------------------------------------------- along several


class _Asked(NamedTuple):
    """The dimensions, and how many numbers there shall be along each."""

    dims: Ints
    sizes: Ints


def _ints(given: Any) -> Ints | None:
    return given if given is None else (given,) if isinstance(given, int) else tuple(given)


def _asked(input: Tensor, s: Any, dim: Any) -> _Asked:
    sizes, dims = _ints(s), _ints(dim)
    if dims is not None:
        dims = tuple([layout.own_dim(d, input.ndim) for d in dims])
        if len({*dims}) < len(dims):
            raise RuntimeError("FFT dims must be unique")
    if sizes is not None:
        if dims is not None and len(dims) != len(sizes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(sizes) > input.ndim:
            raise RuntimeError(
                f"Got shape with {len(sizes)} values but input tensor only has {input.ndim} dimensions."
            )
        dims = tuple(range(input.ndim - len(sizes), input.ndim)) if dims is None else dims
        sizes = tuple([tuple.__getitem__(input.shape, d) if n == -1 else n for d, n in zip(dims, sizes)])
    else:
        dims = tuple(range(input.ndim)) if dims is None else dims
        sizes = tuple([tuple.__getitem__(input.shape, d) for d in dims])
    for n in sizes:
        _check_length(n)
    return _Asked(dims, sizes)


def _asked_half(name: str, input: Tensor, s: Any, dim: Any) -> tuple[_Asked, int]:
    """The same of a half of numbers, and how many there are of real ones."""
    dims, sizes = _asked(input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    given = _ints(s)
    last = (
        2 * (tuple.__getitem__(input.shape, dims[-1]) - 1) if given is None or given[-1] == -1 else given[-1]
    )
    _check_length(last)
    return _Asked(dims, (*sizes[:-1], last // 2 + 1)), last


def _c2c_n(input: Tensor, s: Any, dim: Any, norm: Any, forward: bool, out: Tensor | None) -> Any:
    dims, sizes = _asked(input, s, dim)
    x = _resized(_promoted(input, True), dims, sizes)
    by = _normalization(norm, forward)
    _check_out("fftn", out, True)
    return _done(_fft_c2c, x, input, out, dim=dims, normalization=by, forward=forward)


def _r2c_n(input: Tensor, s: Any, dim: Any, norm: Any, out: Tensor | None) -> Any:
    if input.dtype.is_complex:
        raise RuntimeError(f"rfftn expects a real-valued input tensor, but got {input.dtype.scalar_name}")
    dims, sizes = _asked(input, s, dim)
    if not dims:
        raise RuntimeError("rfftn must transform at least one axis")
    x = _resized(_promoted(input, False), dims, sizes)
    by = _normalization(norm, True)
    _check_out("rfftn", out, True)
    return _done(_fft_r2c, x, input, out, dim=dims, normalization=by, onesided=True)


def _c2r_n(input: Tensor, s: Any, dim: Any, norm: Any, out: Tensor | None) -> Any:
    (dims, sizes), last = _asked_half("irfftn", input, s, dim)
    x = _resized(_promoted(input, True), dims, sizes)
    by = _normalization(norm, False)
    _check_out("irfftn", out, False)
    return _done(_fft_c2r, x, input, out, dim=dims, normalization=by, last_dim_size=last)


@settled
def fft2(
    input: Tensor,
    s: Any = None,
    dim: Any = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """`fftn` along the last two dimensions.

    >>> torch.fft.fft2(torch.eye(2))
    tensor([[2.+0.j, 0.+0.j],
            [0.+0.j, 2.+0.j]])
    """
    return _c2c_n(input, s, dim, norm, True, out)


@settled
def ifft2(
    input: Tensor,
    s: Any = None,
    dim: Any = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """`ifftn` along the last two dimensions.

    >>> torch.fft.ifft2(torch.full((2, 2), 4.0))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return _c2c_n(input, s, dim, norm, False, out)


@settled
def rfft2(
    input: Tensor,
    s: Any = None,
    dim: Any = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """`rfftn` along the last two dimensions.

    >>> torch.fft.rfft2(torch.ones(2, 2))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return _r2c_n(input, s, dim, norm, out)


@settled
def irfft2(
    input: Tensor,
    s: Any = None,
    dim: Any = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """`irfftn` along the last two dimensions.

    >>> torch.fft.irfft2(torch.tensor([[6 + 0j, 0j], [0j, 0j]]), s=(2, 3))
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    return _c2r_n(input, s, dim, norm, out)


@settled
def fftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """The Fourier transform along each of `dim`, by default along all. `s` says how many numbers there are along each: there the input is
    cut or padded with zeros, -1 leaving it as it is. `norm` is as in `fft`, with the product of these for n.

    >>> torch.fft.fftn(torch.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _c2c_n(input, s, dim, norm, True, out)


@settled
def ifftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """What `fftn` with the same `norm` makes this of.

    >>> torch.fft.ifftn(torch.tensor([[4.0, 0.0], [0.0, 0.0]])).real
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _c2c_n(input, s, dim, norm, False, out)


@settled
def rfftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """`fftn` of real numbers; along the last of `dim` only the first half, of which the second are conjugates.

    >>> torch.fft.rfftn(torch.ones(2, 3)).shape
    torch.Size([2, 2])
    """
    return _r2c_n(input, s, dim, norm, out)


@settled
def irfftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """The real numbers of which `input` is the `rfftn`. Along the last of `dim` there is an even number of them, unless `s` says how many.

    >>> x = torch.arange(6.0).reshape(2, 3)
    >>> torch.fft.irfftn(torch.fft.rfftn(x), s=x.shape).allclose(x)
    True
    """
    return _c2r_n(input, s, dim, norm, out)


@settled
def hfftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """The Fourier transform, which is real, of numbers of which the first half along the last of `dim` is given; the second are
    conjugates of it. As in `hfft`, that dimension gets an even size unless `s` says another.

    >>> torch.fft.hfftn(torch.ones(2, 2))
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _hfftn(input, s, dim, norm, out)


@settled
def hfft2(
    input: Tensor,
    s: Any = None,
    dim: Any = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """`hfftn` along the last two dimensions.

    >>> torch.fft.hfft2(torch.ones(2, 2), s=(2, 3))
    tensor([[6., 0., 0.],
            [0., 0., 0.]])
    """
    return _hfftn(input, s, dim, norm, out)


def _hfftn(input: Tensor, s: Any, dim: Any, norm: Any, out: Tensor | None) -> Any:
    _check_out("hfftn", out, False)
    (dims, sizes), last = _asked_half("hfftn", input, s, dim)
    x = _resized(_promoted(input, True), dims, sizes)
    by = _normalization(norm, True)
    if len(dims) > 1:
        x = _fft_c2c(x, dim=dims[:-1], normalization=by, forward=True)
    return _done(_fft_c2r, conj(x), input, out, dim=dims[-1:], normalization=by, last_dim_size=last)


@settled
def ihfftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """What `hfftn` makes these real numbers of, along the last of `dim` the first half.

    >>> torch.fft.ihfftn(torch.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _ihfftn(input, s, dim, norm, out)


@settled
def ihfft2(
    input: Tensor,
    s: Any = None,
    dim: Any = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """`ihfftn` along the last two dimensions.

    >>> torch.fft.ihfft2(torch.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _ihfftn(input, s, dim, norm, out)


def _ihfftn(input: Tensor, s: Any, dim: Any, norm: Any, out: Tensor | None) -> Any:
    dims, sizes = _asked(input, s, dim)
    if not dims:
        raise RuntimeError("ihfftn must transform at least one axis")
    x = _resized(_promoted(input, False), dims, sizes)
    if x.dtype.is_complex:
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {x.dtype.scalar_name}")
    _check_out("ihfftn", out, True)
    by = _normalization(norm, False)
    made = conj(_fft_r2c(x, dim=dims[-1:], normalization=by, onesided=True))
    return _done(_fft_c2c, made, input, out, dim=dims[:-1], normalization=by, forward=False)


__all__ = [
    *("fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn"),
    *("irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftn"),
]
