"""What machine code is made for.

Promises who compiles `level()`: on x86-64 with AVX2 and FMA, which all but the oldest have, code is made for the level x86-64-v3 and not
for the very processor. So kernels give the same bits on all of these machines, the order of sums included, which else would depend
on how wide vectors are; a cache serves all that have vectors as wide; and a wheel can bring kernels ready (`pack.py`). What comes to
the same on vectors of any width has the machine's full ones (`vector_bits`): products, of which each element is one chain of fused
operations, and kernels that compute (exp, tanh, erf) and gather nothing in an order that LLVM chooses. `NBGRAD_CPU=x86-64-v3` keeps
them, too, to AVX2; `NBGRAD_CPU=native` asks for code of this machine's own. Below that level, too, code is for the machine.
"""

from __future__ import annotations

import os
import platform
import struct
import sys

from nbgrad.base.tables import cached

# Where images of machine code are known to run; elsewhere LLVM keeps and loads the code. ARM's want another list of relocations, and
# their instruction caches to be told.
HERE = (
    sys.platform == "linux"
    and platform.machine() == "x86_64"
    and sys.implementation.name == "cpython"
    and "t" not in sys.abiflags  # without Python's lock: nobody has tried
    and struct.calcsize("P") == 8
)
LEVEL = "x86-64-v3"
# Its features, as Linux calls them, which shows those that the system lets programs use.
_NEEDED = {
    *("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"),
    *("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
}
_WIDER = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}  # of x86-64-v4
_TOLD = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
# Of Numba's settings those that name a processor, or what it can do.
NAMING = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX")


@cached(1)
def model() -> str:
    """The processor and what it can do, as Linux says of the first one. LLVM, which could tell, takes longer to import than kernels to
    load."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        first = f.read(1 << 14).partition("\n\n")[0]
    return "\n".join(line for line in first.split("\n") if line.partition(":")[0].strip() in _TOLD)


def _flags() -> set[str]:
    return set(next((line for line in model().split("\n") if line.startswith("flags")), "").split())


@cached(1)
def level() -> str | None:
    """The level that code is made for; None if that is this very processor, or one that settings name."""
    if not HERE or os.environ.get("NBGRAD_CPU") == "native" or any(name in os.environ for name in NAMING):
        return None
    return LEVEL if _flags() >= _NEEDED else None


@cached(1)
def beyond() -> bool:
    """Whether there are wider vectors than the level's."""
    return level() is not None and vector_bits() == 512


@cached(1)
def vector_bits() -> int | None:
    """How wide vectors are in which a machine fuses multiplications and additions; None where that is not known."""
    if platform.machine() in ("aarch64", "arm64"):
        return 128
    if not HERE or any(name in os.environ for name in NAMING) or not _flags() >= _NEEDED:
        return None
    return 512 if os.environ.get("NBGRAD_CPU") != LEVEL and _flags() >= _WIDER else 256
