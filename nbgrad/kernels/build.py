"""From readable source to machine code at an address, once per machine.

Promises its callers that a kernel whose name, source, signature, options, Numba and kind of processor are the same is compiled once:
the source is shown in a file of its own (read it, copy it), the machine code kept beside it, both named by the hash of all that
decides them. `store.py` has where they lie, and why what lies there may be run: of nothing that is read is anything executed or
unpickled but machine code with its digest. What is not found whole is made again; what a wheel brings (`pack.py`) was compiled for
all. Nothing is compiled at import.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from nbgrad.base.source import Source, note
from nbgrad.base.tables import Table, cached
from nbgrad.expr.making import LOCK, uninterrupted
from nbgrad.kernels import compiling, image, libcalls, pack, processor, progress
from nbgrad.kernels.processor import HERE
from nbgrad.kernels.store import blake2b, store

if TYPE_CHECKING:
    from pathlib import Path

_kernels: Table[tuple[str, str, str, bool, bool | None], Kernel] = Table("kernels.build.kernels", None)
_natives: Table[tuple[str, str, tuple[str, ...]], dict[str, int]] = Table("kernels.build.natives", None)
_IMPORT = re.compile(r"^from nbgrad\.kernels\.([\w.]+) import ([\w, ]+).*\n", re.MULTILINE)
_CALLED = re.compile(r"^from nbgrad\.kernels\.([\w.]+) import [\w(]", re.MULTILINE)


class Kernel:
    """A compiled function, called by address; `source` is what it was made from and `path` where that lies."""

    __slots__ = ("address", "contract", "name", "params", "place", "source")

    def __init__(self, name: str, source: str, params: str, place: str, contract: bool, address: int) -> None:
        self.name, self.source, self.params, self.place = name, source, params, place
        self.contract, self.address = contract, address

    @property
    def path(self) -> Path:
        from pathlib import Path

        return Path(self.place)

    def python(self) -> Callable[..., None]:
        """The same body, un-jitted: runs on NumPy arrays."""
        return load_source(self.name, self.source, self.place)

    def jitted(self) -> Any:
        """The same body as a function of Numba, which compiles it for the arrays that it is called with, and inspects it."""
        from numba import njit

        return njit(**compiling.options(self.contract))(self.python())

    def __repr__(self) -> str:
        return f"<kernel {self.name}({self.params}) from {self.place}>"


def load_source(name: str, source: str, path: str) -> Callable[..., None]:
    """Run a kernel's source and return its function; tracebacks and Numba find the text in the file."""
    namespace: dict[str, Any] = {"__name__": f"nbgrad_kernel_{name}", "__file__": path}
    exec(compile(source, path, "exec"), namespace)
    function: Callable[..., None] = namespace[name]
    return function


@cached(1)
def machine() -> str:
    """What, beside the source and its compiler's text, decides the machine code. Told without Numba, which takes longer to import than
    kernels to load."""
    settings = [(name, value) for name in _SETTINGS if (value := os.environ.get(name)) is not None]
    versions = [_version(package) for package in ("numba", "llvmlite")]
    python = sys.version_info[:2], sys.abiflags, object.__basicsize__, bytes.__basicsize__
    return repr((versions, python, settings, processor.level() or _processor(), processor.beyond()))


# Who compiles, and of Numba's settings those that change what it makes of a kernel.
_SETTINGS = [
    *("NBGRAD_COMPILER", "NUMBA_OPT", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE"),
    *processor.NAMING,
]


@cached(1)
def _makers() -> list[str]:
    by_numba = ["apart"] if os.environ.get("NBGRAD_COMPILER") == "numba" else []
    return [*map(_text, ("image", "compiling", "dialect", *by_numba))]


def _version(package: str) -> str:
    """The text in which versioneer keeps it, else what the package says."""
    for place in sys.path:
        with suppress(OSError):
            return _read(os.path.join(place, package, "_version.py"))
    return str(__import__(package).__version__)


def _processor() -> str:
    return processor.model() if HERE else repr(compiling.codegen().magic_tuple())


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as f:
        return f.read()


def digest(what: Any) -> str:
    """A hash of what a name is to stand for."""
    return blake2b(repr(what).encode(), digest_size=16).hexdigest()


@cached(None)
def _text(module: str) -> str:
    """The hash of a helper's text, and of the texts that it calls."""
    text = _read(os.path.join(os.path.dirname(__file__), *module.split(".")) + ".py")
    called = [_text(match[1]) for match in _CALLED.finditer(text)]
    return digest((text, called))


def _settled(source: str, *what: Any) -> tuple[str, str, str]:
    """`source` without the imports of helpers that it does not use; a hash of all that decides its machine code; and one of what does so
    on every machine of a level. The helpers' text is inlined there, so it counts as well."""
    helpers = set()
    if _IMPORT.search(source) is not None:
        assigned = set(re.findall(r"^(\w+) = ", source, re.MULTILINE))
        used = set(re.findall(r"\w+", _IMPORT.sub("", source))) - assigned

        def kept(match: re.Match[str]) -> str:
            module, names = match[1], [n for n in re.findall(r"\w+", match[2]) if n in used]
            helpers.update([_text(module)] if names else [])
            return f"from nbgrad.kernels.{module} import {', '.join(names)}\n" if names else ""

        source = _IMPORT.sub(kept, source)
    decides = source, what, sorted(helpers), _makers()
    return source, digest((decides, machine()))[:20], digest(decides)[:20]


def titled(name: str, text: str, what: Any, modules: Sequence[str]) -> str:
    """A name for what is made of a text by these modules, with the hash of all that decides it; the text is shown under it."""
    text, found, _ = _settled(text, name, what, [*map(_text, modules)])
    _shown(f"{name}_{found}.py", text)
    return f"{name}_{found}"


def kernel(
    name: str, source: str, params: Sequence[str], contract: bool = False, unrolled: bool | None = True
) -> Kernel:
    """The compiled form of function `{name}_{hash}` in `source`, whose text says `@NAME@` for its own name.

    `params` are codes: f2 g2 f4 f8 i8 i4 i2 i1 u1 u4 b1, with * for a pointer. `contract` lets multiplications and additions fuse. Where
    each element is worked alone, loops need not be `unrolled` once they are vectors: it is as quick, and up to a third less to compile.
    None says that the text is written as vectors: none of LLVM's passes are run over it, which take more than half of the time.
    """
    signature = " ".join(params)
    key = (name, source, signature, contract, unrolled)
    found = _kernels.get(key)
    if found is None:
        with uninterrupted(), LOCK:
            found = _kernels.get(key) or _kernels.setdefault(key, _make(*key))
    return found


def _make(name: str, source: str, signature: str, contract: bool, unrolled: bool | None = True) -> Kernel:
    source, digest, common = _settled(source, name, signature, contract, unrolled)
    name = f"{name}_{digest}"
    source = source.replace("@NAME@", name)
    path = _shown(f"{name}.py", source)
    if "kernels.cpu.half" in source:
        _libcalls()  # which of them LLVM calls is for it to say
    found = _brought(common) or _load(name, [name])
    if found is None:
        with _turn(name):
            found = (_load(name, [name]) if _together() else None) or _compiled_here(
                name, source, path, signature.split(), contract, unrolled
            )
    (address,) = found.values()
    return Kernel(name, source, signature, path, contract, address)


def _compiled_here(name: str, *args: Any) -> dict[str, int]:
    with progress.compiling(name):
        return _compiled(name, *args)


@cached(1)
def _together() -> bool:
    """Whether a launcher of MPI's began this process with others, all of which soon ask for the same kernels."""
    sizes = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
    return any(os.environ.get(name, "0") not in ("0", "1") for name in sizes)


def _turn(name: str) -> AbstractContextManager[None]:
    """Where processes began together one of a machine compiles, and the others wait and load what it has kept."""
    kept = store() if _together() else None
    return nullcontext() if kept is None else kept.turn(name)


def _compiled(
    name: str, source: str, path: str, params: Sequence[str], contract: bool, unrolled: bool | None
) -> dict[str, int]:
    """By our own front, which takes a fiftieth of the time of Numba's; what that does not know, and everything where `$NBGRAD_COMPILER` is
    `numba`, by Numba. The bits are the same. (As a pipeline of Numba's the front would cost 4 ms more a kernel, and 0.4 s until
    Numba is there.)"""
    if HERE and os.environ.get("NBGRAD_COMPILER") != "numba":
        from nbgrad.kernels import dialect

        with suppress(dialect.Refused, image.Refused):
            text = dialect.written(name, source, params, contract, processor.beyond())
            with compiling.lock():
                return _kept(name, _image(text, name, unrolled))
    function = load_source(name, source, path)
    with compiling.lock():
        library = compiling.library(name, function, params, contract)
        if HERE:
            with suppress(image.Refused):
                from nbgrad.kernels.apart import apart

                text = apart(compiling.text(library))
                return _kept(name, image.made(text, [name], unrolled=unrolled is not False))
        return _kept_by_numba(name, compiling.finished(library), [name])


def _shown(file: str, source: str) -> str:
    """Where the source lies, for people."""
    kept = store()
    if kept is None:
        return file
    kept.show(file, source)
    return os.path.join(kept.place, file)


# Where Python's objects have what texts in LLVM's language read: behind the head, which the type ends; and what bytes hold, whose size
# counts a zero at the end.
_FIELDS = {
    "HEAD": object.__basicsize__,
    "TYPE": object.__basicsize__ - 8,
    "BYTES": bytes.__basicsize__ - 1,
}


def filled(text: str, **holes: Any) -> str:
    """A text in LLVM's own language, which is full of braces, with what its `$NAMES` stand for."""
    known = _FIELDS | holes
    return re.sub(r"\$(\w+)", lambda m: str(known[m[1]]), text)


def native(name: str, text: str, symbols: Sequence[str], title: str) -> dict[str, int]:
    """The addresses of functions that a text in LLVM's own language defines, made and kept as kernels are; listed under the title."""
    with uninterrupted(), LOCK:
        key = (name, text, tuple(symbols))
        return _natives.get(key) or _natives.setdefault(key, _native(*key, title))


def _native(name: str, text: str, symbols: Sequence[str], title: str) -> dict[str, int]:
    _, digest, common = _settled(text, name)
    name = f"{name}_{digest}"
    path = _shown(f"{name}.ll", text)
    note(Source(title, ", ".join(symbols), path, text))
    found = _brought(common) or _load(name, symbols)
    if found is None:
        with _turn(name):
            found = (_load(name, symbols) if _together() else None) or _compiled_native(name, text, symbols)
    return found


def _compiled_native(name: str, text: str, symbols: Sequence[str]) -> dict[str, int]:
    with progress.compiling(name), compiling.lock():
        if HERE:
            return _kept(name, image.made(text, symbols))
        return _kept_by_numba(name, compiling.library_of_text(name, text), symbols)


_BEYOND = ".512"  # behind the name of what is for machines with vectors beyond the level's


def _brought(common: str) -> dict[str, int] | None:
    """The addresses of what the package has brought for all machines of this one's level."""
    if processor.level() is None or os.environ.get("NBGRAD_COMPILER") == "numba":
        return None
    found = (pack.find(common + _BEYOND) if processor.beyond() else None) or pack.find(common)
    return None if found is None else image.loaded(found)


def images() -> dict[str, bytes]:
    """Of all that this process has asked for, made for the level: what `pack.packed` is to hold. What is left to Numba is left out."""
    from nbgrad.kernels import dialect

    made = {}
    for name, text, symbols in _natives:
        made[_settled(text, name)[2]] = image.made(text, symbols, known=processor.LEVEL)
    for name, source, signature, contract, unrolled in _kernels:
        source, _, common = _settled(source, name, signature, contract, unrolled)
        name = f"{name}_{common}"
        with suppress(dialect.Refused, image.Refused):
            source, codes = source.replace("@NAME@", name), signature.split()
            texts = [dialect.written(name, source, codes, contract, beyond) for beyond in (False, True)]
            for key, text in zip((common, common + _BEYOND), dict.fromkeys(texts)):
                made[key] = _image(text, name, unrolled, processor.LEVEL)
    return made


def _image(text: str, name: str, unrolled: bool | None, known: str | None = None) -> bytes:
    return image.made(text, [name], unrolled is None, bool(unrolled), known)


@cached(1)
def _libcalls() -> None:
    """Make the conversions of float16 known to whoever links."""
    found = native("libcalls", libcalls.TEXT, list(libcalls.NAMES.values()), "conversions of float16")
    for call, function in libcalls.NAMES.items():
        image.provide(call, found[function])


def _load(name: str, symbols: Sequence[str]) -> dict[str, int] | None:
    """The addresses of what was kept under this name."""
    kept = store()
    if kept is None:
        return None
    if HERE:
        data = kept.read(f"{name}.bin")
        found = image.loaded(data) if data is not None else None
        if found is not None:
            return found
    data = kept.read(_of_numba(name))
    if data is None:
        return None
    with compiling.lock():
        return compiling.addresses(compiling.unpacked(name, data), symbols)


def _kept(name: str, made: bytes) -> dict[str, int]:
    kept = store()
    if kept is not None:
        kept.write(f"{name}.bin", made)
    found = image.loaded(made)
    assert found is not None  # what it calls was found when it was made
    return found


def _kept_by_numba(name: str, library: Any, symbols: Sequence[str]) -> dict[str, int]:
    kept = store()
    if kept is not None:
        kept.write(_of_numba(name), compiling.packed(library))
    return compiling.addresses(library, symbols)


def _of_numba(name: str) -> str:
    """The file of what Numba's own engine keeps, which is for this very processor."""
    return f"{name}.{digest(_processor())[:8]}.obj"
