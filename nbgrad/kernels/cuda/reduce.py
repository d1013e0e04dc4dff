"""Reductions: so many lanes to a result, joined by a tree in shared memory.

Promises what the CPU's kernels give (`kernels/cpu/reduce.py`), in an order that depends on shapes alone: 4, 32 or 256 neighbouring lanes
walk a row; 8 lanes, each a row of threads, walk 32 columns. A lane adds up 16 elements at most in their own dtype, and these in the
accumulator's.
"""

from __future__ import annotations

from nbgrad.base.source import fill
from nbgrad.expr.node import Expr
from nbgrad.kernels.cpu import reduce
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.templates import SCALARS, halves, read, write

WORK = 512  # elements of columns, counted by fours, that a block takes

_RUNS = """
def @NAME@(items, meta, o, x{numbers}):
    parts = cuda.shared.array(256, {share})
    {once}
    thread = cuda.threadIdx.x
    dk = meta[0]
    dr = meta[1]
    n = meta[2]
    step = meta[3]
    outer = meta[4]
    total_length = meta[5]
    whole = n * outer
    levels = 8 if whole > 1024 else 5 if whole > 32 else 2
    lanes = 1 << levels
    lane = thread & (lanes - 1)
    rows = 256 >> levels
    for base in range(cuda.blockIdx.x * rows, items, cuda.gridDim.x * rows):
        row = base + (thread >> levels)
        total = {identity}
        if row < items:
            rest = np.uint64(row)
            begin = np.int64(0)
            for e in range(dk):
                size = np.uint64(meta[6 + e])
                left = rest // size
                begin += np.int64(rest - left * size) * meta[6 + dk + e]
                rest = left
            length = min(n, total_length - row * n) if outer == 1 else whole
            {lost}
            k = lane
            while outer == 1 and k + 15 * lanes < length:
                q = begin + k * step
                far = lanes * step
                {read_ahead}
                up = {first}
                {fold_ahead}
                k += 16 * lanes
                part = {part}
                {add}
            while k < length:
                up = {first}
                last = min(k + 16 * lanes, length)
                while k < last:
                    q = begin + k * step
                    if outer > 1:
                        rest = np.uint64(k)
                        left = rest // np.uint64(n)
                        q = begin + np.int64(rest - left * np.uint64(n)) * step
                        rest = left
                        for e in range(dr):
                            size = np.uint64(meta[6 + 2 * dk + e])
                            left = rest // size
                            q += np.int64(rest - left * size) * meta[6 + 2 * dk + dr + e]
                            rest = left
                    {load}
                    {prologue}
                    up = {fold}
                    k += lanes
                part = {part}
                {add}
            {gathered}
        parts[thread] = total
        cuda.syncthreads()
        for level in range(levels):
            half = lanes >> (level + 1)
            if lane < half:
                total = {kept}
                part = {other}
                parts[thread] = {joined}
            cuda.syncthreads()
        if lane == 0 and row < items:
            total = {kept}
            {finish}
            o[row] = {result}
        cuda.syncthreads()
"""

_COLUMNS = """
def @NAME@(items, meta, o, x{numbers}):
    parts = cuda.shared.array(256, {share})
    {once}
    thread = cuda.threadIdx.x
    dk = meta[0]
    dr = meta[1]
    m = meta[2]
    outer = meta[4]
    total_length = meta[5]
    tiles = (m + 31) // 32
    all_tiles = items // meta[3] * tiles
    lane = thread >> 5
    for tile in range(cuda.blockIdx.x, all_tiles, cuda.gridDim.x):
        row = tile // tiles
        column = (tile - row * tiles) * 32 + (thread & 31)
        total = {identity}
        if column < m:
            rest = np.uint64(row)
            begin = column
            for e in range(dk):
                size = np.uint64(meta[6 + e])
                left = rest // size
                begin += np.int64(rest - left * size) * meta[6 + dk + e]
                rest = left
            length = min(outer, total_length - row * outer)
            {lost}
            k = lane
            while dr == 1 and k + 120 < length:
                far = meta[7 + 2 * dk]
                q = begin + k * far
                far = 8 * far
                {read_ahead}
                up = {first}
                {fold_ahead}
                k += 128
                part = {part}
                {add}
            while k < length:
                up = {first}
                last = min(k + 128, length)
                while k < last:
                    rest = np.uint64(k)
                    q = begin
                    for e in range(dr):
                        size = np.uint64(meta[6 + 2 * dk + e])
                        left = rest // size
                        q += np.int64(rest - left * size) * meta[6 + 2 * dk + dr + e]
                        rest = left
                    {load}
                    {prologue}
                    up = {fold}
                    k += 8
                part = {part}
                {add}
            {gathered}
        parts[thread] = total
        cuda.syncthreads()
        for level in range(3):
            half = 128 >> level
            if thread < half:
                total = {kept}
                part = {other}
                parts[thread] = {joined}
            cuda.syncthreads()
        if thread < 32 and column < m:
            total = {kept}
            {finish}
            o[row * m + column] = {result}
        cuda.syncthreads()
"""


def _ahead(load: str, k: int) -> str:
    """A load of one of 16 elements that a lane folds: all are asked for before the first is waited for."""
    return load.replace("a = ", f"a{k} = ", 1).replace("[q]", f"[q + {k} * far]" if k else "[q]")


def reduction(
    title: str,
    prologue: Expr,
    combine: str,
    finish: Expr,
    code: str,
    kind: str,
    accumulator: str,
    out: str,
    contiguous: bool,
    columns: bool,
    numbers: tuple[str, ...] = (),
    identity: str = "",
    short: bool = False,
) -> Own:
    """Of rows, whether they lie together or not, or of columns."""
    p = reduce.pieces(title, prologue, combine, finish, code, kind, accumulator, out, numbers, identity)
    fold = p.join("up", p.value, p.held, p.scalar)
    truth = accumulator == "b1"
    shared = "parts[{}] != 0" if truth else "parts[{}]"
    source = fill(
        _COLUMNS if columns else _RUNS,
        **p.holes,
        share="np.uint8" if truth else SCALARS[accumulator],
        lost=["lost = A(0)"] * p.compensated,
        prologue=p.prologue,
        fold=fold,
        read_ahead=[_ahead(p.holes["load"], k) for k in range(16)],
        fold_ahead=[line for k in range(16) for line in (f"a = a{k}", *p.prologue, f"up = {fold}")],
        part="up" if p.same else "A(up)",
        gathered=p.tail[: p.compensated],
        kept=shared.format("thread"),
        other=shared.format("thread + half"),
        joined=p.join("total", "part", accumulator, "A"),
        finish=p.tail[p.compensated :],
        result=p.result,
    )
    return Own(p.head + source, ("i8", *p.codes), WORK if columns else 0)


_INNER = '''"""Sums of the products of two lines' elements, one for each run of `length`: a block a run."""
import numpy as np
{preamble}
F = {scalar}


def @NAME@(items, meta, o, x, y):
    parts = cuda.shared.array(256, np.float64)
    thread = cuda.threadIdx.x
    n = meta[0]
    length = meta[1]
    x_step = meta[2]
    y_step = meta[3]
    for run in range(cuda.blockIdx.x, items, cuda.gridDim.x):
        end = min(run * length + length, n)
        total = np.float64(0)
        k = run * length + thread
        while k < end:
            up = F(0)
            last = min(k + 4096, end)
            while k < last:
                up = up + {x} * {y}
                k += 256
            total += np.float64(up)
        parts[thread] = total
        cuda.syncthreads()
        for level in range(8):
            half = 128 >> level
            if thread < half:
                parts[thread] = parts[thread] + parts[thread + half]
            cuda.syncthreads()
        if thread == 0:
            total = parts[0]
            o[run] = {result}
        cuda.syncthreads()
'''


def inner(code: str, kind: str, out: str, contiguous: bool) -> Own:
    """Of floats; 16 products are added up in `kind`, these in float64."""
    x, y = ("x[k]", "y[k]") if contiguous else ("x[k * x_step]", "y[k * y_step]")
    source = _INNER.format(
        preamble=halves((code, out)),
        scalar=SCALARS[kind],
        x=read(x, code, kind, False),
        y=read(y, code, kind, False),
        result=write("total", out, "f8"),
    )
    return Own(source, ("i8", "*i8", "*" + out, "*" + code, "*" + code))
