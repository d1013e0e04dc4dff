"""What threads need to share the pieces of a launch: atomic integers and sleep. For kernels only.

A crew is a block of int64 that all its threads see. Its ticket holds how many helpers may take part, and the pieces of the launch
that nobody has taken: from the first up to the last. The caller takes the first and helpers the last, so that the same memory mostly
stays in the cache of the same core. To take one is to replace the very value of the ticket that showed it: whoever did so knows that
the launch it belongs to waits for the piece, so what stands in the block is about that launch.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from nbgrad.kernels.cpu.call import call

# Places in the block, in cache lines of their own: the ticket; pieces done; of the launch: what runs a piece, its arguments, length
# of the range and of a piece; functions of the C library; who sleeps, and what they sleep on.
TICKET, DONE, RUN, ARGS, LENGTH, STEP, LOCK, UNLOCK, WAIT, WAKE, YIELD = (
    0,
    8,
    16,
    17,
    18,
    19,
    24,
    25,
    26,
    27,
    28,
)
SLEEPERS, MUTEX, CONDITION, SIZE = 32, 40, 56, 72
_FIELD = 16  # bits of a number in the ticket: the first piece, one after the last, helpers
_MASK = (1 << _FIELD) - 1
SPINS = 4000  # pauses before a thread without work goes to sleep, about 0.2 ms: the next launch of a training step comes before
PATIENCE = 2000  # pauses before a thread that waits for the last piece gives its core away at each
_INT = ir.IntType(64)


def _at(builder: Any, crew: Any, place: Any) -> Any:
    """The word of the block at `place`."""
    return builder.gep(builder.inttoptr(crew, _INT.as_pointer()), [place])


@intrinsic
def get(typing: Any, crew: Any, place: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_at(builder, *args), "seq_cst", 8)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def put(typing: Any, crew: Any, place: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _at(builder, *args[:2]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def count(typing: Any, crew: Any, place: Any, more: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _at(builder, *args[:2]), args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def replaced(typing: Any, crew: Any, place: Any, old: Any, new: Any) -> Any:
    """Whether `old` stood there, and `new` does now."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pair = builder.cmpxchg(_at(builder, *args[:2]), args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def pause(typing: Any) -> Any:
    """Tells an x86 core that this thread waits in a loop."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            function = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, function, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def address_of(typing: Any, pointer: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(args[0], _INT)

    return types.int64(pointer), codegen


@njit
def take(crew, helper):
    """The number of a piece that is now this thread's to run, or -1; the caller is helper -1."""
    ticket = get(crew, TICKET)
    while helper < ticket >> 2 * _FIELD:
        first, stop = ticket & _MASK, ticket >> _FIELD & _MASK
        if first == stop:
            break
        if replaced(crew, TICKET, ticket, ticket + 1 if helper < 0 else ticket - (1 << _FIELD)):
            return first if helper < 0 else stop - 1
        ticket = get(crew, TICKET)
    return -1


@njit
def run(crew, piece):
    start = piece * get(crew, STEP)
    call(get(crew, RUN), (get(crew, ARGS), start, min(start + get(crew, STEP), get(crew, LENGTH))))
    count(crew, DONE, 1)


@njit
def sleep(crew, helper):
    """Until there is a piece to take; gives it back."""
    mutex = crew + 8 * MUTEX
    call(get(crew, LOCK), (mutex,))
    count(crew, SLEEPERS, 1)
    piece = take(crew, helper)
    while piece < 0:
        call(get(crew, WAIT), (crew + 8 * CONDITION, mutex))
        piece = take(crew, helper)
    count(crew, SLEEPERS, -1)
    call(get(crew, UNLOCK), (mutex,))
    return piece


@njit
def help_always(crew, helper):
    """The life of a helper."""
    spins = 0
    while True:
        piece = take(crew, helper)
        if piece < 0 and spins >= SPINS:
            piece = sleep(crew, helper)
        if piece >= 0:
            run(crew, piece)
            spins = 0
        else:
            spins += 1
            pause()


@njit
def share(n, crew, helpers, pieces, function, args):
    """Run 0..n in pieces, with whoever is awake or wakes in time: a helper that comes late finds nothing to do."""
    step = (n + pieces - 1) // pieces
    if n >= 4096:  # whole cache lines, so that no two threads write one
        step = (step + 63) // 64 * 64
    pieces = (n + step - 1) // step
    put(crew, RUN, function)
    put(crew, ARGS, args)
    put(crew, LENGTH, n)
    put(crew, STEP, step)
    put(crew, DONE, 0)
    put(crew, TICKET, helpers << 2 * _FIELD | pieces << _FIELD)
    if get(crew, SLEEPERS):
        call(get(crew, LOCK), (crew + 8 * MUTEX,))
        call(get(crew, WAKE), (crew + 8 * CONDITION,))
        call(get(crew, UNLOCK), (crew + 8 * MUTEX,))
    piece = take(crew, -1)
    while piece >= 0:
        run(crew, piece)
        piece = take(crew, -1)
    spins = 0
    while get(crew, DONE) < pieces:
        pause()
        spins += 1
        if spins > PATIENCE:
            call(get(crew, YIELD), ())
