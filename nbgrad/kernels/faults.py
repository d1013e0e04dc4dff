"""What a kernel tells of an operand that it could not take: a flag of four integers, 0 as long as all was well.

Promises the backends that whoever reads a flag can say what it was: its number here, then the value that was met, the size that it had to
fit, and the dimension. The first that is told stays. On a device nobody waits for it: the kernel leaves out what it could not do,
goes on, and the flag is looked at by the next call that waits. Numbers are part of kernels' texts, and so stay as they are.
"""

from __future__ import annotations

from typing import Final

from nbgrad.base.source import Lines

BYTES: Final = 32
TARGET: Final = 4  # a class that is none, of a loss
ROW: Final = 3  # a row of a table that is none, of an embedding
INDEX: Final = 1
ELEMENT: Final = 2  # an index for each element, whose error PyTorch has made another one
NUMBER: Final = 5  # an element by its number
SLICE: Final = 6
COPIED: Final = 7
NOWHERE: Final = 8
RATE: Final = 9  # of Poisson's numbers, below 0

_BOUNDS: Final = "index {value} is out of bounds for dimension {dim} with size {size}"
_FAULTS: Final[dict[int, tuple[type[Exception], str]]] = {
    INDEX: (IndexError, _BOUNDS),
    ELEMENT: (RuntimeError, _BOUNDS),
    ROW: (IndexError, "index out of range in self"),
    TARGET: (IndexError, "Target {value} is out of bounds."),
    NUMBER: (IndexError, "out of range: tried to access index {value} on a tensor of {size} elements."),
    SLICE: (RuntimeError, "INDICES element is out of DATA bounds, id={value} axis_dim={size}"),
    COPIED: (IndexError, f"index_copy_(): {_BOUNDS}"),
    NOWHERE: (IndexError, "index is out of bounds for dimension with size 0"),
    RATE: (RuntimeError, "invalid Poisson rate, expected rate to be non-negative"),
}


def error(number: int, value: int, size: int, dim: int) -> Exception:
    """What a flag says.

    >>> error(INDEX, 12, 10, 0)
    IndexError('index 12 is out of bounds for dimension 0 with size 10')
    """
    kind, words = _FAULTS[number]
    return kind(words.format(value=value, size=size, dim=dim))


def tell(number: str | int, value: str, size: str, dim: str, many: bool = False) -> Lines:
    """Lines of a kernel that set its `flag`, unless it is set; with `many`, where threads may meet, which import `claimed`."""
    more = [f"flag[1] = {value}", f"flag[2] = {size}", f"flag[3] = {dim}"]
    if many:
        return [f"if claimed(flag, 0, {number}):", more]
    return ["if flag[0] == 0:", [*more, f"flag[0] = {number}"]]
