"""Calls of functions of matrices that are compiled by themselves, and kept, for all whose text calls them (`entries.py`).

Promises Numba a function that stands for one: it takes float64 arrays of two dimensions in any layout, and gives nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin


def stand_in(name: str, symbol: str, address: int, count: int) -> Callable[..., None]:
    """For the entry of that symbol, with so many arguments."""
    binding.add_symbol(symbol, address)  # for code that is not kept

    def call(*args: Any) -> None:
        raise NotImplementedError(f"{name} is called by compiled code")

    class Typed(AbstractTemplate):  # type: ignore[misc]
        key = call

        def generic(self, args: Any, kws: Any) -> Any:
            fits = [isinstance(a, types.Array) and a.ndim == 2 and a.dtype == types.float64 for a in args]
            return signature(types.none, *args) if not kws and len(args) == count and all(fits) else None

    infer_global(call, types.Function(Typed))

    @lower_builtin(call, *[types.Array] * count)
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word = ir.IntType(64)
        words = cgutils.alloca_once(builder, word, 5 * count)
        at = 0
        for of, a in zip(sig.args, args):
            array = context.make_array(of)(context, builder, a)
            lengths, strides = (cgutils.unpack_tuple(builder, t) for t in (array.shape, array.strides))
            for part in (builder.ptrtoint(array.data, word), *lengths, *strides):
                builder.store(part, builder.gep(words, [ir.Constant(word, at)]))
                at += 1
        out = cgutils.alloca_once(builder, word)
        of_entry = ir.FunctionType(ir.IntType(32), [word.as_pointer()] * 2)
        status = builder.call(cgutils.get_or_insert_function(builder.module, of_entry, symbol), [words, out])
        with builder.if_then(cgutils.is_not_null(builder, status), likely=False):
            told = f"{name.partition('_')[0]} did not converge"
            context.call_conv.return_user_exc(builder, ValueError, (told,))
        return context.get_dummy_value()

    return call
