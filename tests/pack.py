"""The file of ready kernels that a wheel brings: `python -m tests.pack` writes it into the package, or where it is told to.

It holds what `python -m nbgrad warmup` compiles, and products for each width of vectors, made for the level x86-64-v3 on any machine of
x86-64: the same bytes each time. A release writes it before `python -m build`; git does not keep it.
"""

import sys
from pathlib import Path

from nbgrad import warmup
from nbgrad.kernels import build, pack, products


def main(place: str = pack.PLACE) -> None:
    warmup.usual()
    for bits in (256, 512):
        for code in ("f4", "f8"):
            products.tile_kernel(code, bits)
    images = build.images()
    Path(place).write_bytes(pack.packed(images))
    print(f"{len(images)} kernels, {Path(place).stat().st_size} bytes, in {place}")


if __name__ == "__main__":
    main(*sys.argv[1:])
