"""Where the random streams of GPUs stand: PyTorch's generators of Philox 4x32-10, a seed and how far it was used.

Promises samplers `take(steps)`, the seed and the offset that a launch begins with, and that there is one default stream a device before
any driver is asked, so that to seed all devices starts none.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Final

import numpy as np

from nbgrad.base.tables import Table

Array = np.ndarray[Any, np.dtype[Any]]
_DEFAULT_SEED: Final = 67280421310721
_STATE: Final = 16  # bytes of a state, as PyTorch's


class Philox:
    def __init__(self, seed: int = _DEFAULT_SEED) -> None:
        self.lock = threading.Lock()
        self.seed, self.offset = seed % 2**64, 0

    def manual_seed(self, seed: int) -> None:
        with self.lock:
            self.seed, self.offset = seed % 2**64, 0

    def take(self, steps: int) -> tuple[int, int]:
        """The seed, and the offset from which a launch may use so many; they are counted in fours."""
        with self.lock:
            offset = self.offset
            self.offset = offset + -(-steps // 4) * 4
            return self.seed, offset

    def state(self) -> Array:
        with self.lock:
            return np.array([self.seed, self.offset], np.uint64).view(np.uint8)

    def restore(self, state: Array) -> None:
        if state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.size not in (_STATE, _STATE // 2):  # a seed alone is what PyTorch wrote once
            raise RuntimeError("RNG state is wrong size")
        words = np.ascontiguousarray(state).reshape(-1).view(np.uint64).tolist()
        offset = words[1] if len(words) > 1 else 0
        if offset % 4:
            raise RuntimeError("offset must be a multiple of 4")
        with self.lock:
            self.seed, self.offset = words[0], offset


class _Seeded:
    """With what streams begin that nobody has used yet."""

    __slots__ = ("seed",)
    seed: int


_seeded: Final = _Seeded()
_seeded.seed = _DEFAULT_SEED
_made: Table[int, Philox] = Table("memory.philox.made", None)


def of(index: int) -> Philox:
    """The default stream of a device."""
    found = _made.get(index)
    return _made.setdefault(index, Philox(_seeded.seed)) if found is None else found


def seed_all(seed: int) -> None:
    """Begin the stream of every device with this seed, of those to come as well."""
    _seeded.seed = seed % 2**64
    for stream in _made.values():
        stream.manual_seed(seed)


def entropy() -> int:
    """A seed from the operating system: 53 bits, as PyTorch's, which are exact in a float."""
    return int.from_bytes(os.urandom(8), "little") >> 11
