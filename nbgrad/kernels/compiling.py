"""What Numba makes of a kernel: a module of LLVM, linked, and what else is asked of Numba and its engine.

Promises the builder a `library` whose one symbol is a C function by the kernel's name. An image is made of its `text`, with LLVM's passes
for the level that images are for, not for this processor, whose wider vectors would add up in another order; where that cannot be,
the library is `finished` in Numba's engine, `packed` to be kept, and `unpacked` in another process. Whoever gets here holds the lock of
`expr/making.py`, and `lock()`. Nothing of Numba or LLVM is imported before.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.kernels import image
from nbgrad.kernels.codes import FLOAT8

_SIZE = struct.Struct("<Q")  # of the object code, which bitcode follows
_LLVM = {
    "f4": "float",
    "f8": "double",
    "i8": "i64",
    "i4": "i32",
    "u4": "i32",
    "i2": "i16",
    "f2": "i16",
    "g2": "i16",
}


def lock() -> AbstractContextManager[Any]:
    """LLVM is entered for others' functions, too, by way of Numba and under its lock."""
    if "numba" not in sys.modules:
        return nullcontext()
    from numba.core.compiler_lock import global_compiler_lock

    return global_compiler_lock


def codegen() -> Any:
    from numba.core.registry import cpu_target

    return cpu_target.target_context.codegen()


@cached(1)
def _types() -> dict[str, Any]:
    from numba import types as t

    plain = dict(f4=t.float32, f8=t.float64, i8=t.int64, i4=t.int32, i2=t.int16, i1=t.int8, u1=t.uint8)
    plain |= dict(
        b1=t.uint8, f2=t.uint16, g2=t.uint16, u2=t.uint16, u4=t.uint32, u8=t.uint64
    )  # as kernels see their memory
    plain |= dict.fromkeys(FLOAT8, t.uint8)
    plain |= dict(c8=t.complex64, c16=t.complex128)
    return plain | {"*" + k: t.CPointer(v) for k, v in plain.items()}


def options(contract: bool) -> dict[str, Any]:
    """What Numba is told of a kernel: that nothing raises, without which loops would not be vectors, and whether multiplications
    and additions may fuse."""
    return {"error_model": "numpy"} | ({"fastmath": {"contract"}} if contract else {})


def library(name: str, function: Callable[..., None], params: Sequence[str], contract: bool) -> Any:
    """Numba's function for machines behind one of C's: there is nothing to return, and nothing fails."""
    import numba  # noqa: F401  its lock is to be taken once it is there

    with lock():
        return _library(name, function, params, contract)


def _library(name: str, function: Callable[..., None], params: Sequence[str], contract: bool) -> Any:
    from llvmlite import binding
    from numba import types

    made = _compiled(function, [_types()[p] for p in params], types.void, options(contract))
    library, inner = made.library, made.fndesc.llvm_func_name
    library.add_llvm_module(binding.parse_assembly(_entry(name, inner, params)))
    library._final_module.get_function(inner).linkage = "internal"
    _linked(library)
    return library


def library_of_results(function: Callable[..., Any], params: Sequence[Any]) -> tuple[Any, str, Any]:
    """Of a function of Numba's types what it holds, not optimised; the name there of its function for machines; and what it returns."""
    made = _compiled(function, params, None, options(False))
    _linked(made.library)
    return made.library, made.fndesc.llvm_func_name, made.signature.return_type


def _compiled(function: Callable[..., Any], params: Sequence[Any], result: Any, given: Any) -> Any:
    from numba.core import ccallback, compiler, registry

    class Compiler(ccallback._CFuncCompiler):  # type: ignore[misc, name-defined]
        def _customize_flags(self, flags: Any) -> Any:
            flags = super()._customize_flags(flags)
            flags.no_cfunc_wrapper = True  # it calls Python to tell of errors
            return flags

    return Compiler(function, registry.cpu_target, given, {}, compiler.Compiler).compile(params, result)


def _linked(library: Any) -> None:
    library._optimize_final_module = library._finalize_final_module = _nothing
    library.finalize()
    del library._optimize_final_module, library._finalize_final_module


def _nothing() -> None:
    pass


def text(library: Any) -> str:
    """What it holds, linked and not optimised."""
    return str(library._final_module)


def finished(library: Any) -> Any:
    _symbols()
    library._optimize_final_module()
    library._finalize_final_module()
    return library


def _entry(name: str, inner: str, params: Sequence[str]) -> str:
    types = [_LLVM.get(p, "ptr" if p[0] == "*" else "i8") for p in params]
    given = ", ".join(["ptr %none", "ptr %error", *(f"{t} %{k}" for k, t in enumerate(types))])
    return f"""
declare i32 @"{inner}"({", ".join(["ptr", "ptr", *types])})
define void @{name}({", ".join(f"{t} %{k}" for k, t in enumerate(types))}) {{
  %none = alloca ptr
  %error = alloca ptr
  %status = call i32 @"{inner}"({given})
  ret void
}}
"""


def library_of_text(name: str, text: str) -> Any:
    from llvmlite import binding

    made = codegen().create_library(name)
    made.enable_object_caching()
    made.add_llvm_module(binding.parse_assembly(text))
    made.finalize()
    return made


def packed(library: Any) -> bytes:
    _, _, (code, bitcode) = library.serialize_using_object_code()
    return _SIZE.pack(len(code)) + code + bitcode


def unpacked(name: str, data: bytes) -> Any:
    (size,) = _SIZE.unpack_from(data)
    code, bitcode = data[_SIZE.size : _SIZE.size + size], data[_SIZE.size + size :]
    _symbols()
    return codegen().unserialize_library((name, "object", (code, bitcode)))


def addresses(library: Any, symbols: Sequence[str]) -> dict[str, int]:
    """Numba's engine keeps the code, which is called by address."""
    return {name: library.get_pointer_to_function(name) for name in symbols}


def _symbols() -> None:
    """Make known to LLVM's linker what code may call: Numba's runtime, which else happens when something is first compiled, and what
    images have of each other."""
    from llvmlite import binding
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    rtsys.initialize(cpu_target.target_context)
    for name, address in image.provided():
        if not binding.address_of_symbol(name):
            binding.add_symbol(name, address)
