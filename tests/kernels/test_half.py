"""float16 in kernels: every bit pattern, both ways, compiled and un-jitted, against NumPy."""

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import build
from nbgrad.kernels.cpu import half
from tests.support import T

BITS = np.arange(65536, dtype=np.uint16)
HALVES = BITS.view(np.float16)
SIGNALLING = np.isnan(HALVES) & (BITS & 0x200 == 0)


def test_every_float16_as_float32() -> None:
    got = T.from_numpy(HALVES).float().numpy().view(np.uint32)
    want = HALVES.astype(np.float32).view(np.uint32)
    # A signalling NaN becomes a quiet one, as IEEE 754 (and PyTorch) has it; NumPy keeps it.
    np.testing.assert_array_equal(got, np.where(SIGNALLING, want | 0x400000, want))


def test_every_float16_from_float32() -> None:
    got = T.from_numpy(HALVES.astype(np.float32)).half().numpy().view(np.uint16)
    np.testing.assert_array_equal(got, np.where(SIGNALLING, BITS | 0x200, BITS))


def test_rounding_to_float16() -> None:
    """Both neighbours of each midpoint, the midpoint itself (to even), denormals, what overflows, and random bits."""
    finite = np.sort(HALVES[np.isfinite(HALVES)].astype(np.float32))
    middle = (finite[1:] + finite[:-1]) / 2
    limits = np.array(
        [65504, 65519.996, 65520, 65536, 1e38, np.inf, 2**-24, 2**-25, 2**-26, 1e-45], np.float32
    )
    random = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    up, down = (np.nextafter(middle, np.float32(way)) for way in (np.inf, -np.inf))
    x = np.concatenate([finite, middle, up, down, limits, -limits, random[~np.isnan(random)]])
    with np.errstate(over="ignore"):
        want = x.astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(T.from_numpy(x).half().numpy().view(np.uint16), want)


@pytest.mark.parametrize("at", [0x0000, 0x8000, 0x0001, 0x03FF, 0x3C00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00])
def test_the_helpers_say_the_same_un_jitted(at: int) -> None:
    wide = half.from_half(BITS[at])
    assert wide.dtype == np.float32
    assert half.to_half(wide) == BITS[at]


# ---------------------------------------------------------------- what LLVM may call

_CALLER = """
declare {to} @{name}({of})

define void @caller_{name}(ptr %out, ptr %in, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from = getelementptr {of}, ptr %in, i64 %i
  %x = load {of}, ptr %from
  %y = call {to} @{name}({of} %x)
  %where = getelementptr {to}, ptr %out, i64 %i
  store {to} %y, ptr %where
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""
_TYPES = {"half": np.float16, "float": np.float32, "double": np.float64}


def converted(name: str, of: str, to: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the linked function makes of each value, called as LLVM calls it."""
    build._libcalls()
    caller = f"caller_{name}"
    text = _CALLER.format(name=name, of=of, to=to)
    address = build.native(caller, text, [caller], "test")[caller]
    out = np.empty(x.size, _TYPES[to])
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call(address)(out.ctypes.data, x.ctypes.data, x.size)
    return out


@pytest.mark.parametrize(("name", "to"), [("__extendhfsf2", "float"), ("__extendhfdf2", "double")])
def test_calls_that_widen(name: str, to: str) -> None:
    got = converted(name, "half", to, HALVES)
    want = HALVES.astype(_TYPES[to])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(("name", "of"), [("__truncsfhf2", "float"), ("__truncdfhf2", "double")])
def test_calls_that_narrow(name: str, of: str) -> None:
    """Each float16, each midpoint and its neighbours (to even, once), what overflows, and random bits."""
    kind = _TYPES[of]
    finite = np.sort(HALVES[np.isfinite(HALVES)].astype(kind))
    middle = (finite[1:] + finite[:-1]) / 2
    ends = np.array(
        [65519.9999, 65520, 65536, 2.0**17, 1e38, 2**-25, 2**-26, 1e-40, np.nan, np.inf, 0.0], kind
    )
    up, down = (np.nextafter(middle, kind(way)) for way in (np.inf, -np.inf))
    raw = np.random.default_rng(0).bytes(1 << 20)
    x = np.concatenate([finite, middle, up, down, ends, -ends, np.frombuffer(raw, kind)])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        want = x.astype(np.float16)
    got = converted(name, of, "half", x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


def test_a_call_that_no_source_has() -> None:
    """LLVM takes the sign from the float64 by rounding it to float16."""
    x = T.ones(5, dtype=T.float16)
    assert x.copysign_(-T.ones(5, dtype=T.float64)).tolist() == [-1.0] * 5


_MIXED = """
import warnings
import nbgrad as T
from tests.dispatch.test_overlap import IN_PLACE, OUT

warnings.simplefilter("ignore")
DTYPES = [getattr(T, d) for d in "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()]
done = 0
for d in DTYPES:
    for to, of in ((T.float16, d), (d, T.float16), (T.bfloat16, d), (d, T.bfloat16)):
        def made(dtype, k):
            return (T.arange(6, dtype=T.float64) + k).to(dtype)
        calls = [(lambda n=n: getattr(made(to, 1), n)(made(of, 2))) for n in IN_PLACE.split()]
        calls += [(lambda a=a, f=f: f(T, T.empty(6, dtype=to), [made(of, k) for k in range(a)])) for a, f in OUT.values()]
        for call in calls:
            try:
                call()
                done += 1
            except (RuntimeError, ZeroDivisionError):  # PyTorch's refusals of a dtype
                pass
print(done)
"""


@pytest.mark.slow
def test_narrow_with_every_dtype() -> None:
    """In place and by `out=`. A call left unresolved ends the process."""
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", _MIXED], capture_output=True, text=True, cwd=root, timeout=600
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert int(ran.stdout) > 800
