"""From readable source to machine code at an address, once per machine.

Promises its callers that a kernel whose name, source, signature, options, Numba and CPU are the same is compiled once: the
source is shown in a file of its own (read it, copy it), the machine code kept beside it, both named by the hash of all that
decides them. `store.py` has where they lie, and why what lies there may be run: of nothing that is read is anything executed or
unpickled but machine code with its digest. What is not found whole is made again. Nothing is compiled at import.
"""

from __future__ import annotations

import hashlib
import re
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nbgrad.base.source import Source, note
from nbgrad.base.tables import Table, cached
from nbgrad.expr.making import LOCK, uninterrupted
from nbgrad.kernels import libcalls
from nbgrad.kernels.progress import compiling
from nbgrad.kernels.store import store

_kernels: Table[tuple[str, str, str, bool], Kernel] = Table("kernels.build.kernels", None)
_HEADER = struct.Struct("<QQ")  # sizes of object code and bitcode; what follows them is symbols, a line each
_IMPORT = re.compile(r"^from nbgrad\.kernels\.([\w.]+) import ([\w, ]+).*\n", re.MULTILINE)


class Kernel:
    """A compiled function, called by address; `source` is what it was made from and `path` where that lies."""

    __slots__ = ("address", "library", "name", "params", "path", "source")

    def __init__(
        self, name: str, source: str, params: str, path: Path, address: int, library: object
    ) -> None:
        self.name, self.source, self.params, self.path = name, source, params, path
        self.address, self.library = address, library

    def python(self) -> Callable[..., None]:
        """The same body, un-jitted: runs on NumPy arrays."""
        return load_source(self.name, self.source, self.path)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({self.params}) from {self.path}>"


def load_source(name: str, source: str, path: Path | str) -> Callable[..., None]:
    """Run a kernel's source and return its function; tracebacks and Numba find the text in the file."""
    namespace: dict[str, Any] = {"__name__": f"nbgrad_kernel_{name}", "__file__": str(path)}
    exec(compile(source, str(path), "exec"), namespace)
    function: Callable[..., None] = namespace[name]
    return function


@cached(1)
def machine() -> str:
    """What, beside the source, decides the machine code."""
    import numba
    from numba.core.registry import cpu_target

    magic = cpu_target.target_context.codegen().magic_tuple()
    python = sys.version_info[:2], sys.abiflags, object.__basicsize__  # which launchers are made for
    return repr((numba.__version__, python, magic))


@cached(None)
def _text(module: str) -> str:
    """The hash of a helper's text, and of the texts that it calls."""
    text = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    called = [_text(match[1]) for match in _IMPORT.finditer(text)]
    return hashlib.sha256(repr((text, called)).encode()).hexdigest()


def _settled(source: str, *what: Any) -> tuple[str, str]:
    """`source` without the imports of helpers that it does not use, and a hash of all that decides its machine code. The helpers'
    text is inlined there, so it counts as well."""
    assigned = set(re.findall(r"^(\w+) = ", source, re.MULTILINE))
    used = set(re.findall(r"\w+", _IMPORT.sub("", source))) - assigned
    helpers = set()

    def kept(match: re.Match[str]) -> str:
        module, names = match[1], [n for n in re.findall(r"\w+", match[2]) if n in used]
        helpers.update([_text(module)] if names else [])
        return f"from nbgrad.kernels.{module} import {', '.join(names)}\n" if names else ""

    source = _IMPORT.sub(kept, source)
    text = repr((source, what, sorted(helpers), machine()))
    return source, hashlib.sha256(text.encode()).hexdigest()[:20]


@cached(1)
def _types() -> dict[str, Any]:
    from numba import types as t

    plain = dict(f4=t.float32, f8=t.float64, i8=t.int64, i4=t.int32, i2=t.int16, i1=t.int8, u1=t.uint8)
    plain |= dict(b1=t.uint8, f2=t.uint16, u4=t.uint32)  # as kernels see their memory
    return plain | {"*" + k: t.CPointer(v) for k, v in plain.items()}


def kernel(name: str, source: str, params: Sequence[str], contract: bool = False) -> Kernel:
    """The compiled form of function `{name}_{hash}` in `source`, whose text says `@NAME@` for its own name.

    `params` are codes: f2 f4 f8 i8 i4 i2 i1 u1 u4 b1, with * for a pointer. `contract` lets multiplications and additions fuse.
    """
    signature = " ".join(params)
    key = (name, source, signature, contract)
    found = _kernels.get(key)
    if found is None:
        with uninterrupted(), LOCK:
            found = _kernels.get(key) or _kernels.setdefault(key, _make(*key))
    return found


def _make(name: str, source: str, signature: str, contract: bool) -> Kernel:
    source, digest = _settled(source, name, signature, contract)
    name = f"{name}_{digest}"
    source = source.replace("@NAME@", name)
    path = _shown(name, source)
    loaded = _load(name)
    if loaded is None:
        with compiling(name):
            library, symbol = _compiled(name, source, signature, contract, path)
        _keep(name, library, symbol)
    else:
        library, (symbol,) = loaded
    return Kernel(name, source, signature, path, library.get_pointer_to_function(symbol), library)


def _shown(name: str, source: str) -> Path:
    """Where the source lies, for people."""
    kept = store()
    if kept is None:
        return Path(f"{name}.py")
    kept.show(f"{name}.py", source)
    return kept.path / f"{name}.py"


def _codegen() -> Any:
    from numba.core.registry import cpu_target

    return cpu_target.target_context.codegen()


def _runtime() -> None:
    """Make Numba's runtime known to the linker, which otherwise happens when something is first compiled."""
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    rtsys.initialize(cpu_target.target_context)


@cached(1)
def _libcalls() -> Any:
    """Make the conversions of float16 known to the linker. The library is kept: its code is called by address."""
    _, digest = _settled(libcalls.TEXT)
    name = f"libcalls_{digest}"
    loaded = _load(name)
    if loaded is not None:
        library = loaded[0]
    else:
        from numba.core.compiler_lock import global_compiler_lock

        with global_compiler_lock:
            library = libcalls.compiled(_codegen(), name)
        _keep(name, library, *libcalls.NAMES.values())
    libcalls.provide(library)
    return library


def _keep(name: str, library: Any, *symbols: str) -> None:
    _, _, (code, bitcode) = library.serialize_using_object_code()
    kept = store()
    if kept is not None:
        sizes = _HEADER.pack(len(code), len(bitcode))
        kept.write(f"{name}.bin", sizes + code + bitcode + "\n".join(symbols).encode())


def _load(name: str) -> tuple[Any, list[str]] | None:
    """The library that was kept under this name, and its symbols."""
    kept = store()
    data = kept.read(f"{name}.bin") if kept is not None else None
    if data is None:
        return None
    from numba.core.compiler_lock import global_compiler_lock

    code_size, bitcode_size = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    code, rest = body[:code_size], body[code_size:]
    if b"NRT_" in code:  # a function that could not be inlined: its caller names Numba's runtime
        _runtime()
    if any(call.encode() in code for call in libcalls.NAMES):
        _libcalls()
    with global_compiler_lock:  # as LLVM is entered for others' functions, too
        library = _codegen().unserialize_library((name, "object", (code, rest[:bitcode_size])))
    return library, rest[bitcode_size:].decode().split("\n")


def _compiled(name: str, source: str, signature: str, contract: bool, path: Path) -> tuple[Any, str]:
    from numba import cfunc, types

    function = load_source(name, source, path)
    if "kernels.cpu.half" in source:
        _libcalls()  # which of them LLVM will call is not known yet
    table = _types()
    options: dict[str, Any] = {"error_model": "numpy"}
    if contract:
        options["fastmath"] = {"contract"}
    made = cfunc(types.void(*(table[p] for p in signature.split())), **options)(function)
    return made._library, made.native_name


def njit_entry(name: str, source: str) -> Callable[..., None]:
    """The compiled entry point of an `@njit(signature)` function: a launcher. What Numba would keep of it is a pickle; here it is kept as
    a kernel is, by the machine code of the function that Python calls, and the place where that looks for its environment."""
    with uninterrupted(), LOCK:
        title = f"launcher {name}"
        source, digest = _settled(source)
        name = f"{name}_{digest}"
        source = source.replace("@NAME@", name)
        path = _shown(name, source)
        note(Source(title, source.partition("\n")[0].strip('"'), str(path), source))
        loaded = _load(name)
        if loaded is not None:
            return _entry(name, *loaded)
        with compiling(name):
            function: Any = load_source(name, source, path)
        made = function.overloads[function.signatures[0]]
        if not made.environment.consts:  # objects of Python, which a launcher has no use for
            _keep(name, made.library, made.fndesc.llvm_cpython_wrapper_name, made.fndesc.env_name)
        entry: Callable[..., None] = made.entry_point
        return entry


def _entry(name: str, library: Any, symbols: list[str]) -> Callable[..., None]:
    """As Numba makes it of what it has compiled (`CPUContext.get_executable`)."""
    from numba import _dynfunc

    wrapper, environment_name = symbols
    environment = _dynfunc.Environment({})
    entry: Callable[..., None] = _dynfunc.make_function(
        sys.modules[__name__], name, "", library.get_pointer_to_function(wrapper), environment, (library,)
    )
    library.codegen.set_env(environment_name, environment)
    return entry
