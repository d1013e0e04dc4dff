"""The functions of `kernels/tile.py` for kernels, by their names: `outer_f4_12x2x16((k, a, ...))` is a call of what is defined there.

Who imports a name gets its definition with the call. Un-jitted they are loops over numbers at addresses, whose products and sums are
rounded twice where the tile's are once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

from nbgrad.kernels import tile
from nbgrad.kernels.tile import FLOOR, MORE, PLUS, functions

_REALS: dict[str, Any] = {
    **{"f4": ctypes.c_float, "f8": ctypes.c_double, "i4": ctypes.c_int32, "i8": ctypes.c_int64},
}


def _loop(name: str) -> Callable[..., None]:
    kind, code, shape = name.split("_")
    real, counts = _REALS[code], [int(n) for n in shape.split("x")]
    size, width = (
        ctypes.sizeof(real),
        counts[-1] * (counts[-2] if len(counts) > 1 and kind != "shifts" else 1),
    )

    def at(address: int) -> Any:
        return real.from_address(int(address))

    def outer(
        k: int, a: int, row: int, along: int, b: int, ldb: int, c: int, ldc: int, have: int, columns: int,
        how: int, d: int, ldd: int,
    ) -> None:  # fmt: skip
        for i in range(min(have, counts[0])):
            for j in range(min(columns, width) if kind == "edge" else width):
                total = real(0).value
                for p in range(k):
                    far = ctypes.c_int64.from_address(ldb + 8 * p).value if kind == "tabled" else p * ldb
                    line = ctypes.c_int64.from_address(row + 8 * i).value if kind == "lined" else i * row
                    x, y = at(a + line + p * along).value, at(b + far + j * size).value
                    total = real(x * y + total).value
                place = at(c + i * ldc + j * size)
                total = real(place.value + total).value if how & MORE else total
                total = real(at(d + i * ldd + j * size).value + total).value if how & PLUS else total
                place.value = real(0).value if how & FLOOR and total < 0 else total

    def move(source: int, source_step: int, to: int, to_step: int, rows: int, columns: int) -> None:
        for i in range(rows):
            for j in range(width):
                there = at(source + i * source_step + j * size).value if j < columns else real(0).value
                at(to + i * to_step + j * size).value = there

    def turn(source: int, source_step: int, have: int, to: int, to_step: int, k: int) -> None:
        for p in range(-(-k // width) * width):
            for i in range(width):
                there = (
                    at(source + min(i, have - 1) * source_step + p * size).value if p < k else real(0).value
                )
                at(to + p * to_step + i * size).value = there

    def dots(k: int, a: int, row: int, b: int, have: int, to: int) -> None:
        for i in range(min(have, counts[0])):
            total = real(0).value
            for p in range(k):
                total = real(at(a + i * row + p * size).value * at(b + p * size).value + total).value
            at(to + i * size).value = total

    def there(base: int, table: int, k: int) -> int:
        return base + ctypes.c_int64.from_address(table + 8 * k).value

    def taps(
        k: int, a: int, b: int, table: int, ldb: int, c: int, ldc: int, have: int, columns: int, add: int
    ) -> None:
        for i in range(min(have, counts[0])):
            for j in range(min(columns, width)):
                total = real(0).value
                for p in range(k):
                    y = at(there(b + i * ldb + j * size, table, p)).value
                    total = real(at(a + p * size).value * y + total).value
                at(c + i * ldc + j * size).value = real(total + at(add).value).value

    def shifts(
        rows: int, g: int, ldg: int, x: int, ldx: int, table: int, have: int, columns: int, sums: int
    ) -> None:
        for t in range(min(have, counts[0])):
            for j in range(min(columns, width)):
                place = at(sums + (t * width + j) * size)
                for r in range(rows):
                    product = (
                        at(g + r * ldg + j * size).value * at(there(x, table, t) + r * ldx + j * size).value
                    )
                    place.value = real(place.value + product).value

    def lines(lines: int, places: int, blocks: int, rows: int, step: int, by: int) -> None:
        for k in range(blocks * width):
            factor, more = (at(by + (k % 2 + far) * size).value for far in (0, 2))
            for j in range(width):
                there = lines + (ctypes.c_int64.from_address(places + 8 * j).value + k) * size
                here = rows + k * step + j * size
                source, to = (there, here) if kind == "linesin" else (here, there)
                at(to).value = real(at(source).value * factor).value + more

    known: dict[str, Callable[..., None]] = {
        "linesin": lines,
        "linesout": lines,
        "move": move,
        "turn": turn,
        "dots": dots,
        "taps": taps,
        "shifts": shifts,
    }
    return known.get(kind, outer)


def _define(name: str) -> Callable[..., None]:
    loop = _loop(name)
    count = len(tile.params(name))

    def call(given: tuple[int, ...]) -> None:
        loop(*given)

    @type_callable(call)
    def typing(context: Any) -> Any:
        return lambda given: types.void if len(given) == count else None

    @lower_builtin(call, types.UniTuple)
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        text = "\n".join(tile.definitions(name).values())
        context.active_code_library.add_llvm_module(binding.parse_assembly(text))
        word = ir.IntType(64)
        made = ir.FunctionType(ir.VoidType(), [word] * count)
        function = cgutils.get_or_insert_function(builder.module, made, name)
        builder.call(function, cgutils.unpack_tuple(builder, args[0]))
        return context.get_dummy_value()

    return call


globals().update({name: _define(name) for name in functions()})


def full_width() -> None:
    """Said in a kernel that calls tiles of 512 bits: its own loops, too, are for machines that have such vectors. Numba knows its own."""


@type_callable(full_width)
def _nothing(context: Any) -> Any:
    return lambda: types.void


@lower_builtin(full_width)
def _lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return context.get_dummy_value()
