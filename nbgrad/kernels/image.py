"""Machine code as flat images: bytes that a process copies into memory of its own and runs, without Numba or LLVM.

Promises who compiles that `made(module, symbols)` is an image of what LLVM's text (or module) defines: the sections of the object
that it becomes, laid side by side, with what is relative resolved; behind them a slot for each function that is called and not
defined (of libm, the C library, Python). `loaded(image)` fills the slots and gives the addresses of the symbols. What cannot be laid
out so raises `Refused`, and its kernel is kept as Numba keeps code.

An image is code. It comes from a compiler of this process, or from a file that `store.py` vouches for, whose bytes are copied as they
were read and judged: what becomes of the file later changes nothing. The copy is writable until its slots are filled and
executable from then on, never both; and it stays for as long as the process, as threads and Python's exit may be in it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import Table, cached
from nbgrad.kernels.processor import level

_ALIGN = 64
_FUNCTION = b"\xff\x25"  # jmp *[rip + ...]: through a slot
_places: Table[str, int] = Table(
    "kernels.image.places", None
)  # of what images define for each other, by name


class Refused(Exception):
    """Why an object cannot be an image."""


# ---------------------------------------------------------------- from LLVM to an object


@cached(2)
def _target(known: str | None) -> Any:
    """The machine that code is made for: the level, or this one, as Numba sees it. The model `large` keeps constants in registers that
    `small`, of code that may stand anywhere, reads again in each round of a loop (gelu 17 % slower)."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    cpu = known or os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    features = "" if known else os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        found = binding.get_host_cpu_features()
        for name in found:
            if name.startswith("avx") and not _wide(cpu):
                found[name] = False
        features = found.flatten()
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        cpu, features, opt=3, reloc="pic", codemodel="large"
    )


def _wide(cpu: str) -> bool:
    """Whether Numba uses AVX on this processor: the first that had it lost by it."""
    asked = os.environ.get("NUMBA_ENABLE_AVX")
    return bool(int(asked)) if asked else cpu not in ("corei7-avx", "core-avx-i", "sandybridge", "ivybridge")


def made(
    module: Any,
    symbols: Sequence[str],
    optimised: bool = False,
    unrolled: bool = True,
    known: str | None = None,
) -> bytes:
    """The image of a module of LLVM, given as text or parsed, in which others find `symbols`. Unless `optimised` LLVM's passes are
    run over it first (O3, with loops made vectors, and `unrolled`). A level that is `known` is what it is made for, else this
    machine's.

    A kernel's symbol is a C function without a result, of what its signature says: i64 for each integer, double for
    each float, ptr for each pointer, in that order. Nothing else may be seen from outside, so all other definitions
    become `hidden`, and what is declared only has to be found by `place_of`. The lock of `expr/making.py` is to be held."""
    from llvmlite import binding

    machine = _target(known or level())
    if isinstance(module, str):
        try:
            module = binding.parse_assembly(module)
        except RuntimeError as error:
            raise Refused("a text that this release of LLVM does not read") from error
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        module.verify()
    if not optimised:
        tuning = binding.create_pipeline_tuning_options(speed_level=3)
        tuning.loop_vectorization, tuning.loop_unrolling = True, unrolled
        builder = binding.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.linkage.name not in _LOCAL and value.name not in symbols:
            value.visibility = "hidden"
    return linked(machine.emit_object(module), symbols)


_RELATIVE = (
    ".data.rel.ro",
    ".ldata.rel.ro",
)  # read by the code; older LLVMs, of the large model, say the latter
_LOCAL = ("internal", "private")  # which LLVM wants to have no other visibility

# ---------------------------------------------------------------- from an object to an image

_HEAD = struct.Struct(
    "<4s12x2H20xQ10x3H"
)  # magic, kind and machine; where the sections' table is; how large and how many; names
_SECTION = struct.Struct(
    "<2I4Q2I2Q"
)  # name, kind, flags, address, offset, size, link, info, alignment, size of an entry
_SYMBOL = struct.Struct("<I2BH2Q")  # name, what it is, who sees it, section, value, size
_RELOCATION = struct.Struct("<2Qq")  # where, symbol and kind, addend
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8  # kinds of sections
_WRITABLE, _ALLOCATED = 1, 2  # what a section may be


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def linked(code: bytes, symbols: Iterable[str]) -> bytes:
    """The image of an object file."""
    magic, kind, machine, table, size, count, names = _HEAD.unpack_from(code)
    if (magic, kind, machine, size) != (b"\x7fELF", _RELOCATABLE, _X86_64, _SECTION.size):
        raise Refused("no object of this machine")
    sections = [_Section(*_SECTION.unpack_from(code, table + k * size)) for k in range(count)]
    named = [
        _symbol(code, sections, s, k) for s in sections if s.kind == _SYMBOLS for k in range(s.size // 24)
    ]
    relocations = {s.info: s for s in sections if s.kind == _RELOCATIONS}
    places: dict[int, int] = {}
    blob = bytearray()
    wanted = [section for name, section, _ in named if name in symbols]
    while wanted:
        at = wanted.pop()
        if at in places:
            continue
        section = sections[at]
        name = _text(code, sections[names].offset + section.name)
        written = section.flags & _WRITABLE and not name.startswith(_RELATIVE)  # but by who loads it
        if written or not section.flags & _ALLOCATED or section.kind == _NO_BITS:
            raise Refused("the code writes to memory of its own")
        blob += bytes(-len(blob) % max(section.align, _ALIGN))
        places[at] = len(blob)
        blob += code[section.offset : section.offset + section.size]
        wanted += [
            named[symbol][1]
            for _, symbol, _, _ in _relocations(code, relocations.get(at))
            if named[symbol][1]
        ]
    linker = _Linker(blob, places, named)
    for at, begin in places.items():
        for offset, symbol, kind, addend in _relocations(code, relocations.get(at)):
            linker.resolve(begin + offset, symbol, kind, addend)
    return linker.image(symbols)


def _symbol(code: bytes, sections: Sequence[_Section], table: _Section, k: int) -> tuple[str, int, int]:
    """Its name, the section where it is defined (0 if nowhere), the place there."""
    name, _, _, section, value, _ = _SYMBOL.unpack_from(code, table.offset + k * _SYMBOL.size)
    if section >= 0xFF00:  # absolute ones say what the file was made of, common ones are memory to write to
        section = 0
    return _text(code, sections[table.link].offset + name), section, value


def _text(code: bytes, begin: int) -> str:
    return code[begin : code.index(b"\0", begin)].decode()


def _relocations(code: bytes, table: _Section | None) -> Iterable[tuple[int, int, int, int]]:
    """Of one section: place, symbol, kind, addend."""
    if table is not None:
        for k in range(table.size // _RELOCATION.size):
            where, what, addend = _RELOCATION.unpack_from(code, table.offset + k * _RELOCATION.size)
            yield where, what >> 32, what & 0xFFFFFFFF, addend


class _Linker:
    """Behind the sections come the ways to what is called by a jump, and the slots; `slots` begin where a GOT would."""

    def __init__(
        self, blob: bytearray, places: dict[int, int], named: Sequence[tuple[str, int, int]]
    ) -> None:
        self.blob, self.places, self.named = blob, places, named
        called = dict.fromkeys(name for name, section, _ in named if name and not section)
        self.ways, at = {}, len(blob) + -len(blob) % 16
        for name in called:
            self.ways[name], at = at, at + 16
        self.base, self.slots = at, {}
        for name in called:
            self.slots[name], at = at, at + 8
        blob += bytes(at - len(blob))
        for name, way in self.ways.items():
            blob[way : way + 6] = _FUNCTION + struct.pack("<i", self.slots[name] - way - 6)
        self.fixed: list[
            tuple[int, int]
        ] = []  # where addresses of the image's own stand, which loading tells
        self.others: list[tuple[int, str]] = []  # and those of others
        self.used: set[str] = set()

    def place(self, symbol: int, by_way: bool) -> int:
        name, section, value = self.named[symbol]
        if section:
            return self.places[section] + value
        if not by_way:
            raise Refused(f"the place of {name} is not known")
        self.used.add(name)
        return self.ways[name]

    def resolve(self, at: int, symbol: int, kind: int, addend: int) -> None:
        name, section, _ = self.named[symbol]
        if kind == 1 and section:  # R_X86_64_64
            self.fixed.append((at, self.place(symbol, False) + addend))
            return
        if kind == 1 and not addend:
            self.used.add(name)
            self.others.append((at, name))
            return
        if kind in (2, 4):  # PC32, PLT32
            value, form = self.place(symbol, kind == 4) + addend - at, "<i"
        elif kind == 24:  # PC64
            value, form = self.place(symbol, False) + addend - at, "<q"
        elif kind == 25:  # GOTOFF64
            value, form = self.place(symbol, False) + addend - self.base, "<q"
        elif kind == 31:  # PLTOFF64
            value, form = self.place(symbol, True) + addend - self.base, "<q"
        elif kind in (26, 29):  # GOTPC32, GOTPC64
            value, form = self.base + addend - at, "<i" if kind == 26 else "<q"
        elif kind == 27 and not section:  # GOT64
            self.used.add(name)
            value, form = self.slots[name] + addend - self.base, "<q"
        elif kind in (9, 41, 42) and not section:  # GOTPCREL and its shorter forms
            self.used.add(name)
            value, form = self.slots[name] + addend - at, "<i"
        else:
            raise Refused(f"a relocation of kind {kind} is not known")
        struct.pack_into(form, self.blob, at, value)

    def image(self, symbols: Iterable[str]) -> bytes:
        found = {
            name: self.places[section] + value
            for name, section, value in self.named
            if section in self.places
        }
        for name in self.used:
            if place_of(name) is None:
                raise Refused(f"{name} is not there")
        head = [f"={found[name]} {name}" for name in symbols]
        head += [f"?{self.slots[name]} {name}" for name in self.slots if name in self.used]
        head += [f"?{at} {name}" for at, name in self.others]
        head += [f"+{at} {place}" for at, place in self.fixed]
        text = "\n".join(head).encode()
        return struct.pack("<I", len(text)) + text + self.blob


# ---------------------------------------------------------------- from an image to memory


@cached(1)
def _memory() -> tuple[Callable[..., int], Callable[..., int]]:
    """mmap and mprotect. What Python's own module maps it takes back at its exit, when threads may still be in it."""
    library = ctypes.CDLL(None, use_errno=True)
    word, size = ctypes.c_void_p, ctypes.c_size_t
    take, protect = library.mmap, library.mprotect
    take.restype, take.argtypes = word, (word, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    protect.restype, protect.argtypes = ctypes.c_int, (word, size, ctypes.c_int)
    return take, protect


@cached(1)
def _libraries() -> tuple[Any, ...]:
    return ctypes.pythonapi, ctypes.CDLL(None), ctypes.CDLL("libm.so.6")


@cached(None)
def _found(name: str) -> int | None:
    for library in _libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value
    return None


def place_of(name: str) -> int | None:
    """The address of a function of another image, of Python, the C library or libm."""
    return _places.get(name) or _found(name)


def provide(name: str, address: int) -> None:
    """Let images that are made or loaded from now on find a function by this name."""
    _places[name] = address


def provided() -> list[tuple[str, int]]:
    return list(_places.items())


def loaded(image: bytes) -> dict[str, int] | None:
    """The addresses of an image's symbols, once it lies in memory; None if something that it calls is not there."""
    (length,) = struct.unpack_from("<I", image)
    blob = image[4 + length :]
    symbols: dict[str, int] = {}
    slots: list[tuple[int, int]] = []
    fixed: list[tuple[int, int]] = []
    for line in image[4 : 4 + length].decode().split("\n"):
        at, _, what = line[1:].partition(" ")
        if line[0] == "=":
            symbols[what] = int(at)
        elif line[0] == "+":
            fixed.append((int(at), int(what)))
        else:
            place = place_of(what)
            if place is None:
                return None
            slots.append((int(at), place))
    take, protect = _memory()
    size = len(blob) + -len(blob) % mmap.PAGESIZE
    begin = take(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if begin in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"no room for {size} bytes of machine code")
    ctypes.memmove(begin, blob, len(blob))
    for place, value in (*slots, *((place, begin + own) for place, own in fixed)):
        ctypes.c_uint64.from_address(begin + place).value = value
    if protect(begin, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "machine code may not be executed")
    return {name: begin + place for name, place in symbols.items()}
