"""Cases of Fourier transforms. Complex results are compared by their parts, as complex operands are made of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.making import FLOATS, Operands, case, op

SIGNALS: tuple[Operands, ...] = (((3, 4),), ((2, 3, 5),), ((1,),), ((2, 103),), ((130,),))
PAIRS: tuple[Operands, ...] = (((3, 4), (3, 4)), ((5,), (5,)), ((2, 3, 4), (2, 3, 4)), ((130,), (130,)))
PLANES: tuple[Operands, ...] = (((3, 4),), ((4, 1, 5),), ((2, 3, 4),))
PLANE_PAIRS: tuple[Operands, ...] = (((3, 4), (3, 4)), ((4, 2, 5), (4, 2, 5)))


def _parts(T: Any, t: Any) -> Any:
    return T.view_as_real(t.resolve_conj()) if t.is_complex() else t


def of_real(name: str, label: str, *shapes: Operands, **how: Any) -> None:
    case(label, lambda T, x: _parts(T, getattr(T.fft, name)(x, **how)), *shapes, tol=20.0)


def of_complex(name: str, label: str, *shapes: Operands, **how: Any) -> None:
    def call(T: Any, re: Any, im: Any) -> Any:
        return _parts(T, getattr(T.fft, name)(T.complex(re, im), **how))

    case(label, call, *shapes, dtypes=FLOATS, unlike=("float16",), tol=20.0)


for one in ("fft", "ifft", "rfft", "ihfft"):
    of_real(one, f"fft_{one}", *SIGNALS)
    of_real(one, f"fft_{one}_how", *PLANES, n=5, dim=0, norm="ortho")
for one in ("irfft", "hfft"):
    of_real(one, f"fft_{one}", ((3, 4),), ((2, 3, 5),), ((2, 34),), ((66,),))
    of_real(one, f"fft_{one}_how", *PLANES, n=7, dim=0, norm="forward")
for one in ("fft", "ifft", "irfft", "hfft"):
    of_complex(one, f"fft_{one}_complex", *PAIRS)
    of_complex(one, f"fft_{one}_complex_how", ((3, 4), (3, 4)), n=3, dim=0, norm="ortho")
for one in ("fft2", "ifft2", "rfft2", "ihfft2", "fftn", "ifftn", "rfftn", "ihfftn"):
    of_real(one, f"fft_{one}", *PLANES)
    of_real(one, f"fft_{one}_how", *PLANES, s=(2, 6), norm="forward")
for one in ("fft2", "ifft2", "irfft2", "hfft2", "fftn", "ifftn", "irfftn", "hfftn"):
    of_complex(one, f"fft_{one}_complex", *PLANE_PAIRS)
    of_complex(one, f"fft_{one}_complex_how", *PLANE_PAIRS, s=(5, 3), dim=(1, 0), norm="ortho")
for one in ("fftshift", "ifftshift"):
    op(f"{one}", ((3, 4),), ((5,),), ((2, 3, 4),), forms="", where="fft", ref=getattr(np.fft, one))
    op(f"{one}/dim", ((3, 4),), ((2, 3, 5),), forms="", where="fft", args=(-1,))

WAVES: tuple[Operands, ...] = (((2, 40), (8,)), ((37,), (8,)))


def _stft(T: Any, x: Any, window: Any, **how: Any) -> Any:
    return T.view_as_real(T.stft(x, 8, window=window, return_complex=True, **how))


def _istft(T: Any, re: Any, im: Any, **how: Any) -> Any:
    return T.istft(T.complex(re, im), 8, window=T.ones(8, dtype=re.dtype), **how)


case("stft", _stft, *WAVES, dtypes=FLOATS, tol=20.0)
case(
    "stft_how",
    lambda T, x, w: _stft(T, x, w, hop_length=3, center=False, normalized=True, onesided=False),
    *WAVES,
    dtypes=FLOATS,
    layouts=False,  # of an expanded signal PyTorch's gradient is that of its memory
    tol=20.0,
)
case(
    "stft_short",
    lambda T, x, w: T.view_as_real(T.stft(x, 12, 5, 8, w, pad_mode="constant", return_complex=True)),
    *WAVES,
    dtypes=FLOATS,
    tol=20.0,
)
SPECTRA: tuple[Operands, ...] = (((5, 7), (5, 7)), ((2, 5, 4), (2, 5, 4)))
case("istft", _istft, *SPECTRA, dtypes=FLOATS, unlike=("float16",), tol=20.0)
case(
    "istft_how",
    lambda T, a, b: _istft(T, a, b, hop_length=4, center=False, normalized=True, length=15),
    *SPECTRA,
    dtypes=FLOATS,
    unlike=("float16",),
    tol=20.0,
)
case(
    "fft_frequencies",
    lambda T, x: x * T.fft.fftfreq(4, 0.5) + T.fft.rfftfreq(7, d=2.0),
    ((3, 4),),
    dtypes=FLOATS,
)
