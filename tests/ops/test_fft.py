"""Fourier transforms of all lengths that are done in different ways, beside NumPy's; what they keep; pieces of signals."""

import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import build
from nbgrad.kernels.cpu import fft as kernels
from nbgrad.ops.transform.fft import _held
from nbgrad.ops.transform.passes import Factors, Lane, Passes, factors
from tests.support import T

# One pass; two where there are few; longer than the room, in two and in three; with a large prime, in one pass and in more.
LENGTHS = (1, 2, 7, 12, 61, 64, 101, 103, 120, 131, 1009, 1024, 2048, 2 * 2053, 3**8, 10007, 2**13)
TOLERANCE = {"float32": 1e-6, "float64": 5e-15}
RNG = np.random.default_rng(0)


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def assert_near(got: Any, want: Any, dtype: str, label: Any) -> None:
    error = abs(got.numpy() - want).max() / max(abs(want).max(), 1e-300)
    assert error < TOLERANCE[dtype], (label, error)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", LENGTHS)
def test_of_each_length(n: int, dtype: str) -> None:
    """Few and many transforms, along the last dimension and along the first."""
    to = {"float32": T.complex64, "float64": T.complex128}[dtype]
    for shape, dim in (((n,), 0), ((n, 3), 0), ((2, n), 1), ((9, n), 1), ((n, 17), 0)):
        x = numbers(*shape)
        z, label = T.from_numpy(x).to(to), (shape, dim)
        x = z.numpy().astype(complex)
        assert_near(T.fft.fft(z, dim=dim), np.fft.fft(x, axis=dim), dtype, ("fft", label))
        assert_near(T.fft.ifft(z, dim=dim), np.fft.ifft(x, axis=dim), dtype, ("ifft", label))
        assert_near(T.fft.rfft(z.real, dim=dim), np.fft.rfft(x.real, axis=dim), dtype, ("rfft", label))
        assert_near(T.fft.fft(z.real, dim=dim), np.fft.fft(x.real, axis=dim), dtype, ("fft of real", label))
        half = z.narrow(dim, 0, n // 2 + 1)
        want = np.fft.irfft(half.numpy().astype(complex), n, axis=dim)
        assert_near(T.fft.irfft(half, n, dim), want, dtype, ("irfft", label))


@pytest.mark.parametrize("n", [4, 8, 12, 16, 20, 1024])
def test_quarters_of_a_turn_are_whole_numbers(n: int) -> None:
    """So that a wave of one place shows zeros, and not 6e-17 in the notation of powers."""
    at = n // 4
    for dtype in (T.float32, T.float64):
        wave = T.fft.fft(T.eye(n, dtype=dtype)[1])
        assert [complex(wave[k * at]) for k in range(4)] == [1, -1j, -1, 1j], (n, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_of_real_numbers_the_first_and_the_middle_are_real(dtype: str) -> None:
    for n in (1, 6, 9, 18, 134, 1000, 4096, 2 * 2053, 20014):
        for many in (1, 9):
            x = T.tensor(RNG.standard_normal((many, n)), dtype=getattr(T, dtype))
            for made in (T.fft.rfft(x), T.fft.fft(x), T.fft.rfft(x.t(), dim=0).t(), T.fft.ihfft(x)):
                assert not made[:, 0].imag.any(), (n, many)
                assert n % 2 or not made[:, n // 2].imag.any(), (n, many)


def test_along_several_dimensions_of_any_layout() -> None:
    x = numbers(6, 5, 4)
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        z = T.from_numpy(x).permute(order)
        w = x.transpose(order)
        for dim in ((0, 1), (2, 0), (0, 1, 2), (1,)):
            assert_near(T.fft.fftn(z, dim=dim), np.fft.fftn(w, axes=dim), "float64", (order, dim))
            got, want = T.fft.rfftn(z.real, dim=dim), np.fft.rfftn(w.real, axes=dim)
            assert_near(got, want, "float64", ("rfftn", order, dim))
            got, want = T.fft.irfftn(z, dim=dim), np.fft.irfftn(w, axes=dim)
            assert_near(got, want, "float64", ("irfftn", order, dim))


def test_many_at_once_are_each_by_itself() -> None:
    """Lanes and threads change no bit."""
    x = T.randn(40, 600, dtype=T.float64)
    whole = T.fft.rfft(x)
    assert all(T.equal(T.fft.rfft(x[k : k + 8]), whole[k : k + 8]) for k in range(0, 40, 8))
    threads = T.get_num_threads()
    try:
        T.set_num_threads(1)
        assert T.equal(T.fft.rfft(x), whole)
    finally:
        T.set_num_threads(threads)


@pytest.mark.parametrize(("n", "primes"), [(1, ()), (96, (4, 4, 2, 3)), (343, (7, 7, 7)), (2 * 97, (2, 97))])
def test_factors(n: int, primes: tuple[int, ...]) -> None:
    assert factors(n) == primes


@pytest.mark.parametrize(
    ("code", "lanes", "longest"), [("f8", *kernels.ON_DEVICE), ("f4", kernels.LANES["f4"], 12)]
)
def test_the_text_runs_as_python(code: str, lanes: int, longest: int) -> None:
    """As a device has it, a transform a thread; and as the CPU does, side by side, the last of them fewer."""
    source, params = kernels.along(code, "complex", "complex", lanes, longest)
    kernel = build.kernel("fft_text", source, params, True, False)
    passes = Passes(lanes, longest)
    passes.add(12, 0, 1, 2, 2, [Lane(11, 24, 24)])
    (step,) = passes.steps
    of = {"f4": np.complex64, "f8": np.complex128}[code]
    x, o = numbers(11, 12).astype(of), np.zeros((11, 12), of)
    roots = Factors("roots", (12,)).numbers(code).view(code)
    flat = [a.reshape(-1).view(code) for a in (o, x)]
    items = -(-11 // lanes)
    kernel.python()(0, items, np.array(step.meta()), *flat, roots, roots, roots, 0.5, -0.5, 1.0)
    np.testing.assert_allclose(o, np.fft.fft(x).conj() / 2, rtol=0, atol=1e-6 if code == "f4" else 1e-14)


def test_pairs_of_real_numbers_run_as_python_too() -> None:
    """Eleven transforms of 24 numbers, the last three side by side with copies of the last; to them, and back."""
    x, back = RNG.standard_normal((11, 24)), np.zeros((11, 24))
    o, roots = np.zeros((11, 13), complex), Factors("roots", (24,)).numbers("f8").view("f8")
    of, to = (a.reshape(-1).view("f8") for a in (x, o))
    half = Passes(4, 16), Passes(4, 16)
    half[0].add(24, 0, 1, 1, 2, [Lane(11, 24, 26)], "real", "half", keep=13)
    half[1].add(24, 0, 1, 2, 1, [Lane(11, 26, 24)], "half", "real", have=13, sign=-1.0, sign_out=-1.0)
    for passes, source, target in ((half[0], of, to), (half[1], to, back.reshape(-1))):
        (step,) = passes.steps
        text = build.kernel("fft_text", *kernels.along("f8", step.of, step.to, 4, 16), True, False)
        numbers = step.by, step.by * step.sign_out, step.sign
        text.python()(0, 3, np.array(step.meta()), target, source, roots, roots, roots, *numbers)
    np.testing.assert_allclose(o, np.fft.rfft(x), rtol=0, atol=1e-14)
    np.testing.assert_allclose(back, 24 * x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [6, 64, 100, 1024])
def test_real_numbers_that_are_no_neighbours(n: int) -> None:
    x = RNG.standard_normal((3, 9, 2 * n))
    for shape, dim in (((3, 9, n), 2), ((9, n, 3), 1)):
        wide = x.transpose(1, 2, 0) if dim == 1 else x
        at = [slice(None)] * 3
        at[dim] = slice(None, None, 2)
        t, want = T.from_numpy(wide)[tuple(at)], wide[tuple(at)]
        assert t.shape == shape
        assert_near(T.fft.rfft(t, dim=dim), np.fft.rfft(want, axis=dim), "float64", (shape, dim))
        assert_near(T.fft.fft(t, dim=dim), np.fft.fft(want, axis=dim), "float64", (shape, dim))
        z = T.fft.rfft(t, dim=dim)
        assert_near(T.fft.irfft(z, dim=dim), want, "float64", (shape, dim))
        out = T.empty(shape, dtype=T.float64).transpose(0, 2)
        assert_near(
            T.fft.irfft(z.transpose(0, 2), n, 2 - dim, out=out), want.transpose(2, 1, 0), "float64", dim
        )


@pytest.mark.parametrize("n", [1, 3, 6, 7, 12, 33, 134])
@pytest.mark.parametrize(
    ("shape", "dim"), [((6,), 0), ((2, 9), 1), ((9, 2), 0), ((2, 70), 1), ((2, 6, 3), 1)]
)
def test_of_another_length(n: int, shape: tuple[int, ...], dim: int) -> None:
    """Cut, or padded with zeros, by the short way, which is remembered, and with a history of two nodes."""
    x = T.from_numpy(numbers(*shape))
    for t in (x, x.real):
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            if t.is_complex() and name in ("rfft", "ihfft"):
                continue
            leaf = t.detach().clone().requires_grad_()
            for _ in range(2):
                made = getattr(T.fft, name)(leaf, n, dim)
                want = getattr(np.fft, name)(t.detach().numpy(), n, axis=dim)
                assert_near(made.detach().resolve_conj(), want, "float64", (name, t.dtype))
            g = T.ones_like(made)
            (got,) = T.autograd.grad(made, leaf, g)
            have = t.shape[dim]
            whole = T.zeros(*shape[:dim], 140, *shape[dim + 1 :], dtype=t.dtype)
            whole.narrow(dim, 0, have).copy_(t)
            there = (
                whole.narrow(dim, 0, n // 2 + 1 if name in ("irfft", "hfft") else n).clone().requires_grad_()
            )
            again = getattr(T.fft, name)(there, n, dim)
            (want,) = T.autograd.grad(again, there, g)
            few = min(have, want.shape[dim])
            np.testing.assert_allclose(got.narrow(dim, 0, few), want.narrow(dim, 0, few), rtol=0, atol=1e-12)
            assert not got.narrow(dim, few, have - few).any()


def test_what_is_no_number_stays_in_its_own_transform() -> None:
    x = T.ones(16, 64)
    x[3, 5] = x[8, 0] = float("nan")
    for made in (T.fft.rfft(x), T.fft.fft(x), T.fft.irfft(T.complex(x, x)), T.fft.ifft(T.complex(x, x))):
        assert {int(k) for k in T.isnan(made).any(1).nonzero()} == {3, 8}


def test_large_tables_are_not_held_by_plans() -> None:
    """However many lengths a program has transformed, memory holds the tables of a few."""
    x = T.ones(2**14)
    T.fft.fft(x)
    kept = weakref.ref(_held(T.ones(1)._spec.backend, Factors("turns", (128, 128)), "f4"))
    assert kept() is not None
    _held.cache_clear()
    gc.collect()
    assert kept() is None
    assert T.fft.fft(x)[0] == 2**14


def test_a_signal_comes_back() -> None:
    x = T.randn(2, 50, dtype=T.float64)
    for how in ({}, {"hop_length": 3}, {"win_length": 12}, {"normalized": True}, {"onesided": False}):
        window = T.hann_window(how.get("win_length", 16), dtype=T.float64)
        z = T.stft(x, 16, window=window, return_complex=True, **how)
        T.testing.assert_close(T.istft(z, 16, window=window, length=50, **how), x)
    z = T.stft(T.complex(x, -x), 16, window=T.hann_window(16, dtype=T.float64))
    back = T.istft(z, 16, window=T.hann_window(16, dtype=T.float64), return_complex=True, length=50)
    T.testing.assert_close(back, T.complex(x, -x))


def test_pieces_aligned_to_the_window() -> None:
    """Their zeros are around the signal."""
    x, window = T.randn(60, dtype=T.float64), T.rand(7, dtype=T.float64)
    how = {"window": window, "center": False, "return_complex": True}
    got = T.stft(x, 16, 5, 7, align_to_window=True, **how)
    want = T.stft(T.nn.functional.pad(x, (4, 5)), 16, 5, 7, **how)
    assert T.equal(got, want) and got.shape == (9, 11)


def test_without_a_window_a_warning_comes_once() -> None:
    T.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            T.istft(T.stft(T.ones(32), 8, return_complex=True), 8)
    finally:
        T.set_warn_always(False)
    assert [str(w.message)[:65] for w in told] == [
        "A window was not provided. A rectangular window will be applied,w",
        "A window was not provided. A rectangular window will be applied.P",
    ]


def test_vmap_and_forward_mode() -> None:
    x = T.randn(3, 4, 6, dtype=T.float64)
    got = T.func.vmap(lambda t: T.fft.rfft2(t))(x)
    assert T.equal(got, T.fft.rfft2(x))
    got = T.func.vmap(lambda t: T.fft.fft(t, dim=0), in_dims=1)(T.complex(x, x))
    T.testing.assert_close(got, T.fft.fft(T.complex(x, x).movedim(1, 0), dim=1))
    value, tangent = T.func.jvp(lambda t: T.fft.irfft(T.fft.rfft(t) ** 2), (x,), (x,))
    T.testing.assert_close(tangent, 2 * value)
