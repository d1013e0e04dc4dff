"""Fourier transforms of short pieces of a signal, and the signal of which they are."""

from __future__ import annotations

from typing import Any

from nbgrad.base.warn import warn, warn_once
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.stanza import method
from nbgrad.ops.arrange.padding import constant_pad_nd, pad
from nbgrad.ops.arrange.parts import windows_back
from nbgrad.ops.make.filled import ones
from nbgrad.ops.pointwise.parts import complex as _complex
from nbgrad.ops.views.parts import imag, real, view_as_real
from nbgrad.ops.views.slices import narrow

_NO_WINDOW = (
    "A window was not provided. A rectangular window will be applied{}To suppress this warning and use a rectangular window, "
    "explicitly set `window=torch.ones(n_fft, device=<device>)`."
)
_LEAKS = (
    ",which is known to cause spectral leakage. Other windows such as torch.hann_window or torch.hamming_window are recommended "
    "to reduce spectral leakage."
)
_AGAIN = ".Please provide the same window used by stft to make the inversion lossless."
_NEEDS_COMPLEX = (
    "stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True in a "
    "future PyTorch release."
)
_PAIRS = (
    "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex tensors for all inputs, and "
    "return_complex=False will raise an error.\nNote: you can still call torch.view_as_real on the complex output to recover the old "
    "return format."
)
_SHORTER = (
    "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please check your "
    "center and hop_length settings."
)


def _sizes(shape: Any) -> str:
    return f"[{', '.join([str(n) for n in shape])}]"


def _type(t: Tensor) -> str:
    return f"torch.{t.dtype.scalar_name}Tensor"


def _shown(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _call(name: str, input: str, window: Tensor | None, **settings: Any) -> str:
    """The call as PyTorch's refusals show it."""
    said = "None" if window is None else f"{_type(window)}{{{_sizes(window.shape)}}}"
    before = ", ".join([f"{key}={settings.pop(key)}" for key in ("n_fft", "hop_length", "win_length")])
    after = ", ".join([f"{key}={_shown(value)}" for key, value in settings.items()])
    return f"{name}({input}, {before}, window={said}, {after})"


def _centred(window: Tensor, n_fft: int) -> Tensor:
    """With zeros on both sides."""
    left = (n_fft - len(window)) // 2
    return constant_pad_nd(window, (left, n_fft - len(window) - left)) if n_fft > len(window) else window


@method
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Fourier transforms of pieces of a signal, which may overlap: `n_fft` numbers from every `hop_length`-th on (by default a quarter of
    that), times a `window` of `win_length`. Result [..., k, t] is number k of piece t, whose middle is at `t * hop_length` if it is to be
    `center`; for that the signal goes on at both ends as `pad_mode` says. Of real signals only the first half is given, unless `onesided`
    is false. It is divided by the root of `n_fft` if `normalized`.

    >>> x = torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    >>> torch.stft(x, 4, 4, window=torch.ones(4), center=False, return_complex=True).abs()
    tensor([[4., 0.],
            [0., 0.],
            [0., 4.]])
    """
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        shape = input.shape
        wide = input.view([1] * (3 - len(shape)) + list(shape))
        wide = pad(wide, (n_fft // 2,) * 2, pad_mode)
        input = wide.view(wide.shape[-len(shape) :])
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    of_complex = input.is_complex() or (window is not None and window.is_complex())
    gives_complex = of_complex if return_complex is None else return_complex
    if window is None:
        warn_once(_NO_WINDOW.format(_LEAKS))
    if not gives_complex:
        if return_complex is None:
            raise RuntimeError(_NEEDS_COMPLEX)
        warn_once(_PAIRS)

    def refuse(what: str) -> RuntimeError:
        settings: dict[str, Any] = {"n_fft": n_fft, "hop_length": hop, "win_length": length}
        settings |= {"normalized": normalized}
        settings |= {
            "onesided": onesided,
            "return_complex": return_complex,
            "align_to_window": align_to_window,
        }
        shown = _call("stft", f"{_type(input)}{_sizes(input.shape)}", window, **settings)
        return RuntimeError(f"{shown} : expected {what}")

    if not input.dtype.inexact:
        raise refuse("a tensor of floating point or complex values")
    if input.ndim not in (1, 2):
        raise refuse("a 1D or 2D tensor")
    signal = input if input.ndim == 2 else input.unsqueeze(0)
    if align_to_window:
        left = (n_fft - length) // 2
        signal = constant_pad_nd(signal, (left, n_fft - length - left))
    have = signal.shape[1]
    if not 0 < n_fft <= have:
        raise refuse(f"0 < n_fft < {have}, but got n_fft={length}")
    if hop <= 0:
        raise refuse(f"hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise refuse(f"0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and tuple(window.shape) != (length,):
        raise refuse(
            f"a 1D window tensor of size equal to win_length={length}, but got window with size {_sizes(window.shape)}"
        )
    if window is None and length < n_fft:
        window = ones(length, dtype=input.dtype, device=input.device)
    pieces = signal.unfold(1, n_fft, hop)
    if window is not None:
        pieces = pieces * _centred(window, n_fft)
    if pieces.dtype.narrow:
        raise RuntimeError(f"MKL FFT doesn't support tensors of type: {pieces.dtype.scalar_name}")
    from nbgrad.ops.transform.fft import BY_ROOT, NONE, _fft_c2c, _fft_r2c  # which few programs need

    by = BY_ROOT if normalized else NONE
    if pieces.is_complex():
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        made = _fft_c2c(pieces, dim=(2,), normalization=by, forward=True)
    else:
        made = _fft_r2c(pieces, dim=(2,), normalization=by, onesided=onesided is None or bool(onesided))
    made = made.transpose(1, 2)
    made = made if input.ndim == 2 else made.squeeze(0)
    shown: Tensor = made if gives_complex else view_as_real(made)
    return shown


@method
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal of which `stft`, called so, gives `input`: pieces times the window add up, and are divided by what the squares of the
    windows add up to, which may be 0 nowhere. It is cut, or goes on with zeros, to `length`.

    >>> x, window = torch.arange(16.0), torch.hann_window(8)
    >>> y = torch.istft(torch.stft(x, 8, window=window, return_complex=True), 8, window=window)
    >>> y.allclose(x, atol=1e-5)
    True
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if window is None:
        warn_once(_NO_WINDOW.format(_AGAIN))

    def refuse(what: str) -> RuntimeError:
        settings: dict[str, Any] = {"n_fft": n_fft, "hop_length": hop, "win_length": win_length}
        settings |= {"center": center}
        settings |= {"normalized": normalized, "onesided": onesided, "length": length}
        settings |= {"return_complex": return_complex}
        where = f"{input.device.type.upper()}{input.dtype.scalar_name}Type{_sizes(input.shape)}"
        return RuntimeError(_call("istft", where, window, **settings) + what)

    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    parts = view_as_real(input)
    bins, count = parts.size(-3), parts.size(-2)
    if not input.numel():
        raise refuse(" : input tensor cannot be empty.")
    if input.ndim not in (2, 3):
        raise refuse(f" : expected a tensor with 3 or 4 dimensions, but got {input.ndim + 1}")
    half = bins != n_fft if onesided is None else onesided
    if bins != (n_fft // 2 + 1 if half else n_fft):
        wanted = "n_fft / 2 + 1 when onesided=True" if half else "n_fft when onesided=False"
        raise refuse(
            f" : expected the frequency dimension (3rd to the last) of the input tensor to match {wanted}, but got {bins}"
        )
    if not 0 < hop <= win_length:
        raise refuse(" : expected 0 < hop_length <= win_length")
    if not 0 < win_length <= n_fft:
        raise refuse(" : expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.shape) != (win_length,):
        raise refuse(" : Invalid window shape. window has to be 1D and length of `win_length`")
    made = ones(win_length, dtype=input.dtype.to_real(), device=input.device) if window is None else window
    wide = _centred(made, n_fft)
    pieces = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(1, 2)
    from nbgrad.ops.transform.fft import BY_COUNT, BY_ROOT, _fft_c2c, _fft_c2r

    by = BY_ROOT if normalized else BY_COUNT
    if return_complex:
        if half:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        parts = _fft_c2c(pieces, dim=(2,), normalization=by, forward=False)
    else:
        if wide.is_complex():
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        parts = narrow(pieces, 2, 0, n_fft // 2 + 1)
        parts = _fft_c2r(parts, dim=(2,), normalization=by, last_dim_size=n_fft)
    whole = n_fft + hop * (count - 1)
    sums = _added(parts * wide, whole, hop)
    weights = _added((wide * wide).expand(1, count, n_fft), whole, hop)
    start = n_fft // 2 if center else 0
    end = whole - start if length is None else start + length
    signal, weights = sums[:, start:end], weights[:, start:end]
    if weights._spec.backend.holds and bool(weights.abs().min() < 1e-11):
        raise refuse(" window overlap add min: 1\n[ CPUBoolType{} ]")
    signal = signal / weights
    signal = signal if input.ndim == 3 else signal.squeeze(0)
    if end > whole:
        warn(_SHORTER)
        signal = constant_pad_nd(signal, (0, end - whole))
    return signal


def _added(pieces: Tensor, whole: int, hop: int) -> Tensor:
    """Of each signal its pieces at their places."""
    if pieces.is_complex():
        made: Tensor = _complex(_added(real(pieces), whole, hop), _added(imag(pieces), whole, hop))
        return made
    signals, _, n_fft = pieces.shape
    return windows_back(pieces, pieces._spec.plain.like((signals, whole)), 1, n_fft, hop)


__all__ = ["istft", "stft"]
