"""What the processor can do, for programs that ask."""

from __future__ import annotations

import numpy as np


def get_cpu_capability() -> str:
    """The widest vectors that PyTorch would use here: "DEFAULT", "AVX2", "AVX512" and the like.

    >>> torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "NO AVX", "AVX2", "AVX512", "VSX", "Z VECTOR", "SVE256", "NEON")
    True
    """
    found = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    if all(found.get(name) for name in ("AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ")):
        return "AVX512"
    return "AVX2" if found.get("AVX2") else "DEFAULT"
