"""From readable source to machine code at an address, once per machine.

Promises its callers that a kernel whose name, source, signature, options, Numba and CPU are the same is compiled once: the
source is written to a file of its own (read it, copy it), the machine code beside it, both named by the hash of all that
decides them, created by rename and never rewritten. What is found broken there is deleted and made again; a directory that
cannot be used is replaced by a temporary one. Nothing is compiled at import.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

_lock = threading.RLock()
_kernels: dict[tuple[str, str, str, bool], Kernel] = {}
_HEADER = struct.Struct("<8s32sQQ")  # magic, sha256 of what follows, sizes of object code and bitcode
_MAGIC = b"nbgrad1\n"
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


@lru_cache(maxsize=1)
def cache_dir() -> Path:
    """Where kernels are kept: $NBGRAD_CACHE_DIR, else nbgrad under the user's cache directory; ours alone (0700)."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    wanted = Path(os.environ.get("NBGRAD_CACHE_DIR") or os.path.join(base, "nbgrad"))
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            found = wanted.stat()
            if found.st_uid != os.getuid():
                raise PermissionError(f"{wanted} belongs to somebody else")
            if found.st_mode & 0o077:
                wanted.chmod(0o700)
        with tempfile.TemporaryFile(dir=wanted):
            pass
    except OSError:
        wanted = Path(tempfile.mkdtemp(prefix="nbgrad-"))
    return wanted


def write_once(path: Path, data: bytes) -> None:
    """Create `path` whole or not at all; whoever comes second finds it there. A full disk costs the cache, not the user."""
    try:
        fd, part = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    except OSError:
        return
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(data)
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)


@lru_cache(maxsize=1)
def machine() -> str:
    """What, beside the source, decides the machine code."""
    import numba
    from numba.core.registry import cpu_target

    magic = cpu_target.target_context.codegen().magic_tuple()
    return repr((numba.__version__, sys.version_info[:2], magic))


@cache
def _text(module: str) -> str:
    path = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    return hashlib.sha256(path.read_bytes()).hexdigest()


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


@lru_cache(maxsize=1)
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
        with _lock:
            found = _kernels.get(key) or _kernels.setdefault(key, _make(*key))
    return found


def _make(name: str, source: str, signature: str, contract: bool) -> Kernel:
    source, digest = _settled(source, name, signature, contract)
    name = f"{name}_{digest}"
    source = source.replace("@NAME@", name)
    path = cache_dir() / f"{name}.py"
    code = path.with_suffix(".bin")
    loaded = _load(code, name)
    if loaded is None:
        if not path.exists():
            write_once(path, source.encode())
        loaded, data = _compile(name, source, signature, contract, path)
        write_once(code, data)
    address, library = loaded
    return Kernel(name, source, signature, path, address, library)


def _codegen() -> Any:
    from numba.core.registry import cpu_target

    return cpu_target.target_context.codegen()


def _runtime() -> None:
    """Make Numba's runtime known to the linker, which otherwise happens when something is first compiled."""
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    rtsys.initialize(cpu_target.target_context)


def _load(path: Path, name: str) -> tuple[int, object] | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) >= _HEADER.size:
        magic, digest, a, b = _HEADER.unpack_from(data)
        body = data[_HEADER.size :]
        if magic == _MAGIC and len(body) >= a + b and hashlib.sha256(body).digest() == digest:
            symbol = body[a + b :].decode()
            if b"NRT_" in body[:a]:  # a function that could not be inlined: its caller names Numba's runtime
                _runtime()
            library = _codegen().unserialize_library((name, "object", (body[:a], body[a : a + b])))
            address = library.get_pointer_to_function(symbol)
            if address:
                return address, library
    discard(path)
    return None


def discard(path: Path) -> None:
    """Remove a file that cannot be used; if even that is refused, the next writer replaces it."""
    try:
        path.unlink()
    except OSError:
        return


def _compile(
    name: str, source: str, signature: str, contract: bool, path: Path
) -> tuple[tuple[int, object], bytes]:
    from numba import cfunc, types

    function = load_source(name, source, path)
    table = _types()
    options: dict[str, Any] = {"error_model": "numpy"}
    if contract:
        options["fastmath"] = {"contract"}
    made = cfunc(types.void(*(table[p] for p in signature.split())), **options)(function)
    library: Any = made._library
    _, _, (code, bitcode) = library.serialize_using_object_code()
    body = code + bitcode + made.native_name.encode()
    header = _HEADER.pack(_MAGIC, hashlib.sha256(body).digest(), len(code), len(bitcode))
    return (made.address, library), header + body


def njit_entry(name: str, source: str) -> Callable[..., None]:
    """The compiled entry point of an `@njit(signature, cache=True)` function: a launcher. Numba keeps its code beside it."""
    import importlib.util

    source, digest = _settled(source)
    name = f"{name}_{digest}"
    path = cache_dir() / f"{name}.py"
    text = source.replace("@NAME@", name)
    if not path.exists():
        write_once(path, text.encode())
    for attempt in range(2):
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # Numba's cache unpickles by module name
        try:
            spec.loader.exec_module(module)
            break
        except Exception:
            # A truncated or foreign file in the cache: forget all that belongs to this launcher, once.
            if attempt:
                raise
            for broken in [path, *(cache_dir() / "__pycache__").glob(f"{name}*")]:
                discard(broken)
            write_once(path, text.encode())
    function = getattr(module, name)
    entry: Callable[..., None] = function.overloads[function.signatures[0]].entry_point
    return entry
