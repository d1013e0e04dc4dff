"""Fourier transforms: one and many, of complex and of real numbers, of pictures and cubes, of pieces of a signal; forward and backward."""

from __future__ import annotations

from typing import Any

from .common import LIBS, library, some

CALLS = (
    *(
        "fft.fft(z)",
        "fft.rfft(x)",
        "fft.irfft(z)",
        "fft.fft(x)",
        "fft.fft(z, dim=0)",
        "fft.rfft(x, n=3 * n // 2)",
    ),
    *("fft.fft(z[0])", "fft.rfft(x[0])", "fft.fft2(z)", "fft.rfft2(x)", "fft.fftn(cubes)", "fft.fftshift(z)"),
    *("T.stft(x, n // 4, window=window, return_complex=True)", "T.istft(pieces, n // 4, window=window)"),
    "fft.irfft(fft.rfft(x, n=2 * n) * fft.rfft(x[:1], n=2 * n), n=2 * n)",
)


class Transforms:
    params = (
        LIBS,
        some(CALLS),
        ((4, 16), (64, 256), (64, 1000), (64, 1024), (16, 4096)),
        ("float32", "float64"),
    )
    param_names = ("lib", "call", "shape", "dtype")

    def setup(self, lib: str, call: str, shape: tuple[int, int], dtype: str) -> None:
        T = library(lib)
        T.manual_seed(0)
        n, real = shape[1], getattr(T, dtype)
        x = T.randn(*shape, dtype=real, requires_grad=True)
        z = T.complex(x.detach(), x.detach().flip(1)).requires_grad_()
        scope: dict[str, Any] = {"T": T, "fft": T.fft, "x": x, "z": z, "n": n}
        scope |= {"cubes": z.reshape(-1, 4, 4, 4), "window": T.hann_window(n // 4, dtype=real)}
        scope["pieces"] = (
            T.stft(x, n // 4, window=scope["window"], return_complex=True).detach().requires_grad_()
        )
        self.call = eval(f"lambda: {call}", scope)
        self.made = self.call()
        self.g, self.leaves, self.grad = T.ones_like(self.made), [x, z, scope["pieces"]], T.autograd.grad
        self.time_backward(lib, call, shape, dtype)

    def time_call(self, lib: str, call: str, shape: tuple[int, int], dtype: str) -> None:
        self.call()

    def time_backward(self, lib: str, call: str, shape: tuple[int, int], dtype: str) -> None:
        self.grad(self.made, self.leaves, self.g, retain_graph=True, allow_unused=True)
