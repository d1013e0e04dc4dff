"""BLAS by its address, for kernels: `gemm_f4(address, (order, ...))` is a call of the C function `cblas_sgemm` that lies there.

Integers are 64 bits wide, matrices are given by their addresses, and the product replaces what lies in the result. Un-jitted, they
are the same calls through ctypes.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

_REALS = {"f4": (ir.FloatType(), ctypes.c_float), "f8": (ir.DoubleType(), ctypes.c_double)}
# Parameters by letter: w(ord), i(nteger), p(ointer); 1 and 0 are the factors of the product and of what the result held.
_GEMM, _GEMV = "wwwiii1pipi0pi", "wwii1pipi0pi"


def _define(code: str, params: str) -> Any:
    number, c_real = _REALS[code]
    integer = ir.IntType(64)
    c_types = {"w": ctypes.c_int, "i": ctypes.c_int64, "p": ctypes.c_void_p, "1": c_real, "0": c_real}
    llvm = {"w": ir.IntType(32), "i": integer, "p": integer, "1": number, "0": number}

    def call(address: int, given: tuple[int, ...]) -> None:
        values = iter(given)
        function = ctypes.CFUNCTYPE(None, *(c_types[p] for p in params))(int(address))
        function(*(float(p) if p in "01" else int(next(values)) for p in params))

    @type_callable(call)
    def typing(context: Any) -> Any:
        return lambda address, given: types.void

    @lower_builtin(call, types.int64, types.UniTuple)
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = iter(cgutils.unpack_tuple(builder, args[1]))
        passed = [ir.Constant(number, float(p)) if p in "01" else next(values) for p in params]
        passed = [builder.trunc(v, llvm[p]) if p == "w" else v for p, v in zip(params, passed, strict=True)]
        function = ir.FunctionType(ir.VoidType(), [llvm[p] for p in params])
        builder.call(builder.inttoptr(args[0], function.as_pointer()), passed)
        return context.get_dummy_value()

    return call


gemm_f4, gemm_f8 = (_define(code, _GEMM) for code in _REALS)
gemv_f4, gemv_f8 = (_define(code, _GEMV) for code in _REALS)
