"""Calling kernels by address with the pointers of NumPy buffers.

Promises the dispatcher two callables per list of arguments, `launch(address, n, *buffers, *numbers)`: one runs the range
0..n on this thread, one cuts it over threads. Every buffer is a one-dimensional C-contiguous uint8 array (that is what a
tensor's memory is, so no other layout can arrive), which is why the compiled entry point may be called directly: measured
0.20 us against 0.34 us through Numba's type dispatch, whose layout checks have nothing to check here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from nbgrad.kernels import build

Launch = Callable[..., None]

PARALLEL_FROM = 16384  # elements; measured break-even of two threads on a multiply
_lock = threading.Lock()
_busy = threading.Lock()  # the workqueue layer aborts the process when two threads enter it at once
_serial: dict[tuple[int, str], Launch] = {}
_parallel: dict[tuple[int, str], Launch] = {}
_threads = 0
_forked = False

_SOURCE = '''"""Calls a kernel by address: {n} buffers, numbers {numbers!r}, {how}."""
from numba import njit, prange, types
from nbgrad.kernels.launch import call_address, pointer

buffer = types.Array(types.uint8, 1, "C")
'''

_SERIAL = """
@njit(types.void(types.int64, types.int64, {types}), nogil=True, cache=True)
def @NAME@(address, n, {names}):
    call_address(address, 0, n, ({pointers}))
"""

_PARALLEL = """
@njit(types.void(types.int64, types.int64, types.int64, {types}), nogil=True, parallel=True, cache=True)
def @NAME@(address, n, threads, {names}):
{bind}
    step = (n + threads - 1) // threads
    if n >= 4096:  # whole cache lines per thread, so that no two write one
        step = (step + 63) // 64 * 64
    for t in prange(threads):
        start = t * step
        stop = min(start + step, n)
        if start < stop:
            call_address(address, start, stop, ({pointers}))
"""


def __getattr__(name: str) -> Any:
    """`call_address` and `pointer`, made when the first launcher asks: importing this module must not import Numba."""
    if name in ("call_address", "pointer"):
        globals().update(_intrinsics())
        return globals()[name]
    raise AttributeError(name)


def _intrinsics() -> dict[str, Any]:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def call_address(typing, address, start, stop, args):
        def codegen(context, builder, signature, values):
            address, start, stop, packed = values
            args = [start, stop, *cgutils.unpack_tuple(builder, packed)]
            function = ir.FunctionType(ir.VoidType(), [a.type for a in args])
            builder.call(builder.inttoptr(address, function.as_pointer()), args)
            return context.get_dummy_value()

        return types.void(address, types.int64, types.int64, args), codegen

    @intrinsic
    def pointer(typing, array):
        def codegen(context, builder, signature, values):
            data = context.make_array(signature.args[0])(context, builder, values[0]).data
            return builder.ptrtoint(data, ir.IntType(64))

        return types.int64(array), codegen

    return {"call_address": call_address, "pointer": pointer}


def launcher(buffers: int, numbers: str, parallel: bool) -> Launch:
    """`numbers` holds one letter per number after the buffers: d for float64, q for int64."""
    table = _parallel if parallel else _serial
    found = table.get((buffers, numbers))
    if found is None:
        with _lock:
            found = table.get((buffers, numbers))
            if found is None:
                found = _threaded(buffers, numbers) if parallel else _compile(buffers, numbers, False)
                table[buffers, numbers] = found
    return found


def _compile(buffers: int, numbers: str, parallel: bool) -> Launch:
    bs = [f"b{k}" for k in range(buffers)]
    ns = [f"n{k}" for k in range(len(numbers))]
    ps = [f"p{k}" for k in range(buffers)] if parallel else [f"pointer({b})" for b in bs]
    fill = dict(
        types=", ".join(
            ["buffer"] * buffers + [{"d": "types.float64", "q": "types.int64"}[c] for c in numbers]
        ),
        names=", ".join(bs + ns),
        pointers=", ".join(ps + ns) + ",",
        bind="\n".join(f"    p{k} = pointer(b{k})" for k in range(buffers)),
    )
    head = _SOURCE.format(n=buffers, numbers=numbers, how="in parallel" if parallel else "on this thread")
    source = head + (_PARALLEL if parallel else _SERIAL).format(**fill)
    return build.njit_entry(f"launch_{buffers}{numbers}_{'parallel' if parallel else 'serial'}", source)


def _threaded(buffers: int, numbers: str) -> Launch:
    serial = launcher_unlocked(buffers, numbers)
    cut: Launch | None = None

    def launch(address: int, n: int, *args: Any) -> None:
        nonlocal cut
        threads = get_num_threads()
        # A forked child must not use its parent's OpenMP; a second thread must not enter the workqueue layer.
        if threads == 1 or _forked or not _busy.acquire(blocking=False):
            serial(address, n, *args)
            return
        try:
            if cut is None:
                cut = _compile(buffers, numbers, True)
            cut(address, n, threads, *args)
        finally:
            _busy.release()

    return launch


def launcher_unlocked(buffers: int, numbers: str) -> Launch:
    found = _serial.get((buffers, numbers))
    if found is None:
        found = _serial[buffers, numbers] = _compile(buffers, numbers, False)
    return found


def get_num_threads() -> int:
    global _threads
    if not _threads:
        import numba

        _threads = int(numba.get_num_threads())
    return _threads


def set_num_threads(n: int) -> None:
    global _threads
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _threads = n


def _in_child() -> None:
    global _forked, _lock, _busy
    _forked, _lock, _busy = True, threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
