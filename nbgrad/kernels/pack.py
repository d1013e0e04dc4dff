"""Kernels that come with the package: a file beside this one, of images for x86-64-v3, and of what computes also for AVX-512; a release
makes it (`python -m tests.pack`).

Promises `build.py` the image by the hash of all that decides it but the version of LLVM: what a program asks for first is there
without a compiler. The file is read whole and its digest checked; it is as good as the `.py` files that it lies among, and who can
change it can change them. Where there is none, as in a checkout, or it was cut, kernels are compiled.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from nbgrad.base.tables import cached
from nbgrad.kernels.processor import LEVEL
from nbgrad.kernels.store import blake2b

PLACE = os.path.join(os.path.dirname(__file__), f"{LEVEL}.pack")
_DIGEST_SIZE = 32
_LENGTH = struct.Struct("<I")


def packed(images: Mapping[str, bytes]) -> bytes:
    """The file: a digest of the rest; a line for each image with its key, where it begins and how long it is; the images."""
    lines, at = [], 0
    for key in sorted(images):
        lines.append(f"{key} {at} {len(images[key])}")
        at += len(images[key])
    index = "\n".join(lines).encode()
    body = _LENGTH.pack(len(index)) + index + b"".join(images[key] for key in sorted(images))
    return _digest(body) + body


def _digest(body: bytes | memoryview) -> bytes:
    return blake2b(body, digest_size=_DIGEST_SIZE).digest()


@cached(1)
def _read() -> dict[str, memoryview]:
    try:
        with open(PLACE, "rb") as f:
            data = memoryview(f.read())
    except OSError:
        return {}
    body = data[_DIGEST_SIZE:]
    if len(body) < _LENGTH.size or _digest(body) != data[:_DIGEST_SIZE]:
        return {}
    (length,) = _LENGTH.unpack_from(body)
    first = _LENGTH.size + length
    index = [line.split() for line in str(body[_LENGTH.size : first], "ascii").split("\n")]
    return {key: body[first + int(at) :][: int(size)] for key, at, size in index}


def find(key: str) -> bytes | None:
    """The image, if the package has brought it."""
    found = _read().get(key)
    return None if found is None else bytes(found)
