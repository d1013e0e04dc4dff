"""A uniform number out of many, by its place: what kernels of a device call that need as many as chance will have it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

U, W = np.uint32, np.uint64


@register_jitable
def unit(at: Any, item: Any, seed: Any, offset: Any) -> Any:
    """Of [0, 1), in float64: number `at` of an item's own, two of which are four words of Philox 4x32-10. Those that are counted by 0
    there are other kernels'."""
    where = offset // 4 + (item >> 32)
    c0, c1, c2, c3 = U(where & 0xFFFFFFFF), U(where >> 32), U(item & 0xFFFFFFFF), U((at >> 1) + 1)
    k0, k1 = U(seed & 0xFFFFFFFF), U((seed >> 32) & 0xFFFFFFFF)
    for _ in range(10):
        one = W(0xD2511F53) * W(c0)
        two = W(0xCD9E8D57) * W(c2)
        c0, c1, c2, c3 = (
            U(U(two >> W(32)) ^ U(c1 ^ k0)),
            U(two & W(0xFFFFFFFF)),
            U(U(one >> W(32)) ^ U(c3 ^ k1)),
            U(one & W(0xFFFFFFFF)),
        )
        k0 = U(k0 + U(0x9E3779B9))
        k1 = U(k1 + U(0xBB67AE85))
    bits = (W(c0) << W(32)) | W(c1)
    if at & 1:
        bits = (W(c2) << W(32)) | W(c3)
    return np.float64(np.int64(bits >> W(11))) * 1.1102230246251565e-16
