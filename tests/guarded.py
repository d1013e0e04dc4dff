"""Every case of the table with each buffer between pages that nobody may touch: `python -m tests.guarded`.

NumPy is given an allocator of its own (`Guard`), so that every array (the memory of tensors, what a kernel reads of a geometry, indices)
ends where a page begins that can neither be read nor written; in a second run it begins where such a page ends. A kernel that reaches
beyond its buffer dies there. What is written on the other side, into the rest of the page, is seen when the array is freed. New memory
is filled with ones, in the second run with other bits: a result that differs between the two rests on memory that nobody has written.

The cases run in child processes, some at a time; a death is told as the case's name, and the next child goes on behind it. In the second
run all launches are shared among threads, however small. `--whole` takes every dtype in every shape and layout.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import mmap
import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

MODES = ("end", "start")
FILL = {"end": 0xFF, "start": 0x5A}
CASES_EACH = 48  # of one child: a process may have 65,530 mappings, and plans keep arrays


# ---------------------------------------------------------------- the allocator


class _Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator)]


_SET_HANDLER = 304  # PyDataMem_SetHandler, by its place in NumPy's C interface


class Handler:
    """What NumPy asks for memory: functions of Numba's for malloc, calloc, realloc and free, which take and give addresses as integers."""

    def __init__(self, name: str, functions: Sequence[Any]) -> None:
        self.functions, self.name = functions, b"mem_handler"
        of = ctypes.pythonapi.PyCapsule_New
        of.restype, of.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.handler = _Handler(name.encode(), 1, _Allocator(None, *[f.address for f in functions]))
        self.capsule = of(ctypes.addressof(self.handler), self.name, None)

    def install(self) -> Any:
        """For all arrays that are made from now on, in this thread. Gives what was asked before."""
        return set_handler(self.capsule)


def set_handler(capsule: Any) -> Any:
    from numpy._core import _multiarray_umath

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    interface = pointer(_multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    table = ctypes.cast(interface, ctypes.POINTER(ctypes.c_void_p))
    set_ = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER] or 0)
    return set_(capsule)


class Guard(Handler):
    """An allocator for NumPy, compiled by Numba. A block is a page for its size, a guard, the data's pages, a guard."""

    def __init__(self, mode: str) -> None:
        from numba import carray, cfunc, types

        at_end, fill, page = mode == "end", np.uint8(FILL[mode]), mmap.PAGESIZE
        libc = ctypes.CDLL(None)
        i64, i32 = ctypes.c_int64, ctypes.c_int
        map_, protect, unmap, abort = libc.mmap, libc.mprotect, libc.munmap, libc.abort
        map_.argtypes, map_.restype = [i64, i64, i32, i32, i32, i64], i64
        protect.argtypes, protect.restype = [i64, i64, i32], i32
        unmap.argtypes, unmap.restype = [i64, i64], i32
        abort.argtypes, abort.restype = [], None
        readable, private = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        address = types.int64

        from numba import njit
        from numba.core import cgutils
        from numba.extending import intrinsic

        @intrinsic
        def bytes_at(typing: Any, where: Any) -> Any:
            def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                return builder.inttoptr(values[0], cgutils.voidptr_t)

            return types.CPointer(types.uint8)(where), emit

        @njit
        def allocate(size: int, byte: int) -> int:
            size = max(size, 1)
            pages = (size + page - 1) // page * page
            block = map_(0, pages + 3 * page, readable, private, -1, 0)
            if block == -1:
                return 0
            first = block + 2 * page
            protect(block + page, page, 0)
            protect(first + pages, page, 0)
            head = carray(bytes_at(block), page).view(np.int64)
            head[0], head[1], head[2] = pages, size, first + pages - size if at_end else first
            data = carray(bytes_at(first), pages)
            data[:] = fill
            begin = head[2] - first
            data[begin : begin + size] = byte
            return head[2]

        @njit
        def release(where: int) -> None:
            if where == 0:
                return
            first = where // page * page
            block = first - 2 * page
            head = carray(bytes_at(block), page).view(np.int64)
            pages, size = head[0], head[1]
            if head[2] != where:
                abort()
            data = carray(bytes_at(first), pages)
            begin = where - first
            for k in range(pages):
                if not begin <= k < begin + size and data[k] != fill:
                    abort()
            unmap(block, pages + 3 * page)

        def malloc(ctx: int, size: int) -> int:
            return allocate(size, fill)

        def calloc(ctx: int, count: int, size: int) -> int:
            return allocate(count * size, np.uint8(0))

        def realloc(ctx: int, old: int, size: int) -> int:
            where = allocate(size, fill)
            if old and where:
                head = carray(bytes_at(old // page * page - 2 * page), page).view(np.int64)
                kept = min(size, head[1])
                carray(bytes_at(where), kept)[:] = carray(bytes_at(old), kept)
                release(old)
            return where

        def free(ctx: int, where: int, size: int) -> None:
            release(where)

        super().__init__(
            "guarded",
            [
                cfunc(address(address, address))(malloc),
                cfunc(address(address, address, address))(calloc),
                cfunc(address(address, address, address))(realloc),
                cfunc(types.void(address, address, address))(free),
            ],
        )


# ---------------------------------------------------------------- cases, in a child


def tight(T: ModuleType, t: Any) -> Any:
    """The same, in memory that holds what it shows and no element more."""
    extent = 1 + sum(s * (n - 1) for s, n in zip(t.stride(), t.shape)) if t.numel() else 0
    memory = T.empty(extent, dtype=t.dtype)
    if 0 in t.stride() and t.numel():  # expanded
        return t
    return T.as_strided(memory, tuple(t.shape), t.stride()).copy_(t)


def runs(T: ModuleType, case: Any, whole: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is computed of a case, by name: its values, its gradients of first and second order, in place, by `out=`, under autocast."""
    from tests import derive
    from tests.cases import DTYPES, SMALL, Sample, method, samples

    class Tight(Sample):
        def tensors(self, T: ModuleType, requires_grad: bool = False) -> list[Any]:
            made = [tight(T, t) for t in super().tensors(T)]
            return [t.requires_grad_() if requires_grad and t.dtype.is_floating_point else t for t in made]

    def drawn(dtype: str, **how: bool) -> Iterator[Any]:
        return (Tight(s.label, s.arrays, s.layouts) for s in samples(case, dtype, **how))

    full = "float64" if "float64" in case.dtypes else case.dtypes[0]
    for dtype in [d for d in (DTYPES if whole else case.dtypes) if d not in case.unlike]:
        every = whole or dtype == full
        drawn_of = list(drawn(dtype, layouts=every, broadcast=every))
        if dtype in SMALL and not whole:
            drawn_of = drawn_of[:1]
        for sample in drawn_of:
            yield f"{sample.label}", lambda s=sample: case.fn(T, *s.tensors(T))
            if "i" in case.forms and (whole or dtype not in SMALL):
                yield f"{sample.label} in place", lambda s=sample: method(case, s.tensors(T), "_")
            if "o" in case.forms and every:
                yield f"{sample.label} out=", partial(_into_out, T, case, sample)
    if "float32" in case.dtypes:
        sample = next(iter(drawn("float32")))
        for dtype in ("bfloat16", "float16"):
            yield f"{dtype} under autocast", partial(_under_autocast, T, case, sample, getattr(T, dtype))
    if case.differentiable and "float64" in case.dtypes:
        for sample in drawn("float64"):
            yield f"{sample.label} gradient", lambda s=sample: derive.gradients(T, case, s, False)[0]
        for sample in drawn("float64", in_turn=not whole):
            yield f"{sample.label} second order", lambda s=sample: derive.second_order(T, case, s)


def _under_autocast(T: ModuleType, case: Any, sample: Any, dtype: Any) -> Any:
    operands = [t.to(dtype) if t.dtype == T.float32 else t for t in sample.tensors(T)]
    with T.autocast("cpu"):
        return case.fn(T, *operands)


def _into_out(T: ModuleType, case: Any, sample: Any) -> Any:
    tensors = sample.tensors(T)
    like = case.fn(T, *tensors)
    out = T.zeros(tuple(like.shape)[::-1], dtype=like.dtype).permute(*reversed(range(like.ndim)))
    return getattr(T, case.op)(*tensors, *case.args, **dict(case.kwargs), out=out)


def play(whole: bool, names: Sequence[str]) -> None:
    """Says what begins, then the digest of what came of it."""
    from tests.cases import CASES
    from tests.compare import array, leaves, outcome
    from tests.support import T

    for name in names:
        for label, run in runs(T, CASES[name], whole):
            sys.stdout.write(f"{name}\t{label}\t")
            sys.stdout.flush()
            T.manual_seed(0)
            digest = hashlib.sha256()
            for leaf in leaves(outcome(run)):
                value = (
                    array(leaf) if isinstance(leaf, T.Tensor) else np.frombuffer(repr(leaf).encode(), "u1")
                )
                if value.dtype.kind == "f":
                    value = np.where(np.isnan(value), 0, value)  # of NaNs there are many
                digest.update(value.tobytes())
            sys.stdout.write(f"{digest.hexdigest()[:16]}\n")
            sys.stdout.flush()


def serve(mode: str, whole: bool, names: Sequence[str]) -> None:
    """Runs the cases in children of this process, which has compiled the allocator; tells of a death in a line of its own."""
    allocator = Guard(mode)
    from nbgrad.kernels import launch

    warnings.simplefilter("ignore")
    if mode == "start":
        launch.PARALLEL_FROM = 2  # what must be done in order is launched as if it were one element
    left = list(names)
    while left:
        part = left[:CASES_EACH]
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(writer, 1)
            code = 1
            try:
                allocator.install()
                play(whole, part)
                code = 0
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        os.close(writer)
        with os.fdopen(reader) as lines:
            told = lines.readlines()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.writelines(line for line in told if line.endswith("\n"))
        if code:
            name, label, _ = told[-1].split("\t")
            how = signal.Signals(-code).name if code < 0 else "an exception"
            sys.stdout.write(f"{name}\t{label}\tdied: {how}\n")
            part = part[: part.index(name) + 1]
        left = left[len(part) :]


# ---------------------------------------------------------------- all of them, in the parent


def guard(names: Sequence[str], whole: bool = False, code: str = "") -> tuple[int, list[str]]:
    """Run the cases of these names in both modes, beside each other: how many runs there were, and what was wrong with them. `code`
    is run before: what a test of this file plants."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    wrong = []
    servers = {
        mode: subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"{code}\nfrom tests.guarded import serve\nserve({mode!r}, {whole!r}, {list(names)!r})",
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        for mode in MODES
    }
    for mode, server in servers.items():
        told, _ = server.communicate()
        if server.returncode:
            wrong.append(f"the runs of mode {mode!r} ended with {server.returncode}")
        for line in told.splitlines():
            name, label, digest = line.split("\t")
            found.setdefault((name, label), {})[mode] = digest
    for (name, label), digests in found.items():
        deaths = [f"{digest} ({mode})" for mode, digest in digests.items() if digest.startswith("died")]
        if deaths:
            wrong.append(f"{name}, {label}: {', '.join(deaths)}")
        elif len(set(digests.values())) > 1:
            wrong.append(f"{name}, {label}: rests on memory that nobody has written")
    return len(found), wrong


def main() -> int:
    from tests.cases import CASES

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("cases", nargs="*", help="names of cases; all if none is given")
    parser.add_argument("--whole", action="store_true", help="every dtype, shape and layout")
    options = parser.parse_args()
    count, wrong = guard(options.cases or list(CASES), options.whole)
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(f"{count} runs of cases, {len(wrong)} of them wrong\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
