"""The CPU's texts that the case table asks for, each with a launch of it, of several items where there is one.

`python -m tests.cuda.texts FILE PART [--whole]` writes those of a part of the table, in a process of its own, since a plan that is there
asks for nothing.
"""

import os
import pickle
import sys
import warnings
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nbgrad.kernels import build
from nbgrad.kernels.cuda.families import own
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.cuda.spread import Unspreadable, spread
from nbgrad.memory import backend
from tests import derive
from tests.cases import CASES, OpCase, by_name, samples
from tests.compare import leaves
from tests.cuda import recorded
from tests.support import T

# Only for the CPU: products in registers, BLAS, and places of grids that are worked out side by side (a device has one a thread).
HOST = ("nbgrad.kernels.cpu.tile", "nbgrad.kernels.cpu.blas", "for nth in range(many)")
DTYPES = {
    **{
        "f2": np.uint16,
        "g2": np.uint16,
        "f4": np.float32,
        "f8": np.float64,
        "b1": np.bool_,
        "u1": np.uint8,
        "u4": np.uint32,
    },
    **{
        "i1": np.int8,
        "i2": np.int16,
        "i4": np.int32,
        "i8": np.int64,
        "c8": np.complex64,
        "c16": np.complex128,
    },
}
# What counts along, and so is for one thread; what only the host's texts import.
COUNTS = {"bounds", "count_b1", "nonzero_b1", "turned_f4", "turned_f8"}
COUNTS |= {f"{name}_{code}" for name in ("most", "same") for code in DTYPES}
COUNTS |= {f"pour_i{size}" for size in (1, 2, 4, 8)}


class Text(NamedTuple):
    """`own` is what a device has in its place."""

    name: str
    source: str
    params: tuple[str, ...]
    own: Own | None = None
    family: str = ""


def _text(name: str, source: str, params: Sequence[str]) -> Text:
    return Text(name, str(source), tuple(params), own(name, source), getattr(source, "family", ""))


class Launch(NamedTuple):
    """So many items, whether they are for one thread, and buffers as they were, then numbers."""

    items: int
    alone: bool
    args: tuple[Any, ...]


Table = dict[Text, Launch | None]


def of_host(text: Text) -> bool:
    return any(module in text.source for module in HOST)


def alone(text: Text, launch: Launch | None) -> bool:
    """Whether all items are for one thread."""
    return text.name in COUNTS or (launch is not None and launch.alone)


def backwards(text: Text, launch: Launch) -> bool:
    """Whether it walks to before where it points, of which nothing is recorded: a step of its geometry is negative."""
    steps = text.name.endswith(("_rows", "_general")) and text.params[2:3] == ("*i8",)
    return steps and bool((launch.args[0].view(np.int64) < 0).any())


def given(text: Text, launch: Launch) -> list[Any]:
    """The launch's memory as arrays of their dtypes, and its numbers."""
    made = []
    for code, value in zip(text.params[2:], launch.args, strict=True):
        if code[0] == "*":
            dtype = np.dtype(DTYPES[code[1:]])
            value = value.reshape(-1).view(np.uint8)
            value = value[: value.size // dtype.itemsize * dtype.itemsize].copy().view(dtype)
        made.append(value)
    return made


def spread_of(text: Text, launch: Launch | None) -> tuple[str, tuple[str, ...]] | None:
    """The CPU's text over a grid's threads; None where that cannot be, as a device has a kernel of its own for such launches."""
    by_one = alone(text, launch)
    try:
        return spread(text.name, text.source, text.params, by_one)
    except Unspreadable:
        assert text.own is not None and (text.own.alone if by_one else text.own.many), text.name
        return None


def kept(text: Text, args: list[Any]) -> list[bytes]:
    """All memory but a sort's scratch."""
    looked_at = args[:3] if text.name.startswith("ranks_") else args
    return [a.tobytes() for a in looked_at if isinstance(a, np.ndarray)]


def asked(folder: Path, whole: bool) -> Table:
    found: Table = {}
    for part in recorded.parts(folder, __spec__.name, whole, os.environ):
        for text, launch in part.items():
            if launch is not None and launch.items > min(_items(found.get(text)), 1):
                found[text] = launch
            else:
                found.setdefault(text, launch)
    return dict(sorted(found.items(), key=lambda pair: pair[0][:3]))


def _items(launch: Launch | None) -> int:
    return 0 if launch is None else launch.items


def one_in(count: int, texts: list[Text]) -> list[Text]:
    """Those whose names and parameters decide it: a change elsewhere takes no others."""
    return [t for t in texts if zlib.crc32(f"{t.name} {t.params}".encode()) % count == 0]


def record(part: int, whole: bool) -> Table:
    """Of each case of a part forward and, of floats, backward: in float32 and in one other of its dtypes; `whole` in all of them."""
    by_address: dict[int, Text] = {}
    seen: dict[Text, Launch] = {}
    launcher = backend.CPU.launch

    def kernel(name: str, source: str, params: Any, **options: Any) -> build.Kernel:
        made = build.kernel(name, source, params, **options)
        by_address[made.address] = _text(name, source, params)
        return made

    def launch(buffers: int, numbers: str, n: int, quick: bool = False) -> Any:
        run = launcher(buffers, numbers, n, quick)

        def watched(address: int, items: int, *args: Any) -> None:
            text = by_address.get(address)
            if text is not None and items > min(_items(seen.get(text)), 1):
                kept = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)
                seen[text] = Launch(items, n <= 1, kept)
            run(address, items, *args)

        return watched

    backend.CPU.kernel, backend.CPU.launch = staticmethod(kernel), staticmethod(launch)
    for case in recorded.of_part(CASES, part):
        usual = "float32" if "float32" in case.dtypes else case.dtypes[0]
        others = [d for d in case.dtypes if d != usual]
        for dtype in (usual, *(others if whole else by_name(case, others, 1))):
            run(case, dtype, layouts=whole or dtype == usual)
    every = {_text(name, source, codes.split()) for name, source, codes, *_ in build._kernels}
    return {text: seen.get(text) for text in every}


def run(case: OpCase, dtype: str, layouts: bool) -> None:
    for sample in samples(case, dtype, layouts=layouts):
        # what PyTorch refuses of a dtype asks for nothing
        with warnings.catch_warnings(), suppress(RuntimeError, TypeError):
            warnings.simplefilter("ignore")
            backward = case.differentiable and "float" in dtype
            tensors = sample.tensors(T, requires_grad=backward)
            if not backward:
                case.fn(T, *tensors)
            elif any(t.requires_grad for t in leaves(case.fn(T, *tensors))):
                derive.gradients(T, case, sample, create_graph=False)


def main(file: str, part: str, *options: str) -> None:
    Path(file).write_bytes(pickle.dumps(record(int(part), "--whole" in options)))


if __name__ == "__main__":
    from tests.cuda import texts  # whose classes the readers know, as they do not those of this module

    texts.main(*sys.argv[1:])
