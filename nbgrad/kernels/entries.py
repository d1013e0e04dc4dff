"""Functions of numbers and arrays that give numbers and arrays, as machine code that is kept on disk and called by address.

Promises `functions.py` an `Entry` for a text and the kinds of its arguments: made by Numba once per machine, kept as kernels are
(`build.py`, `store.py`), and loaded in another process without Numba. The code takes a row of words (a number is one; an array is its
memory, its lengths and its strides), and writes another row, which `struct` takes apart as C lays it out. Python's lock is given back
meanwhile.

What the code calls of Numba's runtime, memory that is counted, is written here and laid into each image: an array that is returned
belongs to Python from then on. What else of Numba it calls (BLAS) is asked of Numba's helpers, which imports Numba and compiles
nothing. What no image can be made of raises `Refused`.
"""

from __future__ import annotations

import ctypes
import pickle
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.kernels import build, compiling, image, progress
from nbgrad.kernels.launch import untold
from nbgrad.kernels.processor import HERE
from nbgrad.kernels.store import store

Refused = image.Refused
_OTHER = 2

# Memory as Numba counts it: how often it is used, two words for who frees it otherwise, where its data stands, its size.
_RUNTIME = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare ptr @llvm.ptrmask.p0.i64(ptr, i64)
define linkonce_odr noalias ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) alwaysinline {
  %wide = zext i32 %align to i64
  %head = add i64 %wide, 48
  %whole = add i64 %size, %head
  %less = icmp ult i64 %whole, %size
  br i1 %less, label %none, label %take
take:
  %made = call ptr @malloc(i64 %whole)
  %null = icmp eq ptr %made, null
  br i1 %null, label %none, label %fill
fill:
  store i64 1, ptr %made
  %minus = sub i64 %wide, 1
  %past = add i64 %minus, 48
  %above = getelementptr i8, ptr %made, i64 %past
  %mask = xor i64 %minus, -1
  %begin = call ptr @llvm.ptrmask.p0.i64(ptr %above, i64 %mask)
  %dtor = getelementptr i64, ptr %made, i64 1
  store i64 0, ptr %dtor
  %info = getelementptr i64, ptr %made, i64 2
  store i64 0, ptr %info
  %data = getelementptr i64, ptr %made, i64 3
  store ptr %begin, ptr %data
  %long = getelementptr i64, ptr %made, i64 4
  store i64 %size, ptr %long
  %other = getelementptr i64, ptr %made, i64 5
  store i64 0, ptr %other
  ret ptr %made
none:
  ret ptr null
}
define linkonce_odr noalias ptr @NRT_MemInfo_alloc(i64 %size) {
  %made = call ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 16)
  ret ptr %made
}
define linkonce_odr void @NRT_MemInfo_call_dtor(ptr %memory) {
  call void @free(ptr %memory)
  ret void
}
define linkonce_odr noalias ptr @NRT_Allocate(i64 %size) {
  %made = call ptr @malloc(i64 %size)
  ret ptr %made
}
define linkonce_odr void @NRT_Free(ptr %memory) {
  call void @free(ptr %memory)
  ret void
}
"""

# A function of Python's: the address of an entry, the row for its results, and the arguments. Behind the type of arrays and the number of
# words `self` holds three words for each: `d` a float, `q` an integer, `?` what is true or not, `a` an array; the type that it has to
# be of, or an array's dtype, or 0 if that is known; and an array's dimensions, with two rows of flags above: those that are looked at, and
# what they are. Arguments of another kind are answered by 2.
_CALL = """
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_BadArgument()
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
define ptr @entry(ptr %self, ptr %args, i64 %count) {
  %at_size = getelementptr i8, ptr %self, i64 $HEAD
  %bytes = load i64, ptr %at_size
  %told_bytes = sub i64 %bytes, 16
  %size = udiv i64 %told_bytes, 24
  %at_array = getelementptr i8, ptr %self, i64 $BYTES
  %array = load ptr, ptr %at_array, align 1
  %at_words = getelementptr i8, ptr %at_array, i64 8
  %room = load i64, ptr %at_words, align 1
  %kinds = getelementptr i8, ptr %at_array, i64 16
  %wanted = add i64 %size, 2
  %right = icmp eq i64 %count, %wanted
  br i1 %right, label %begin, label %refuse
refuse:
  %refused = call i32 @PyErr_BadArgument()
  ret ptr null
begin:
  %words = alloca i64, i64 %room, align 16
  %entry_object = load ptr, ptr %args
  %address = call i64 @PyLong_AsLongLong(ptr %entry_object)
  %at_out = getelementptr ptr, ptr %args, i64 1
  %out_object = load ptr, ptr %at_out
  %at_out_data = getelementptr i8, ptr %out_object, i64 $HEAD
  %out = load ptr, ptr %at_out_data
  %rest = getelementptr ptr, ptr %args, i64 2
  br label %next
next:
  %k = phi i64 [0, %begin], [%k1, %stored]
  %at = phi i64 [0, %begin], [%at1, %stored]
  %more = icmp slt i64 %k, %size
  br i1 %more, label %take, label %laid
laid:
  %full = icmp eq i64 %at, %room
  br i1 %full, label %go, label %refuse
take:
  %at_kind = getelementptr [3 x i64], ptr %kinds, i64 %k
  %kind = load i64, ptr %at_kind, align 1
  %at_wanted = getelementptr i64, ptr %at_kind, i64 1
  %wanted_type = load ptr, ptr %at_wanted, align 1
  %lenient = icmp eq ptr %wanted_type, null
  %at_object = getelementptr ptr, ptr %rest, i64 %k
  %object = load ptr, ptr %at_object
  %at_type = getelementptr i8, ptr %object, i64 $TYPE
  %type = load ptr, ptr %at_type
  %place = getelementptr i64, ptr %words, i64 %at
  %is_memory = icmp eq i64 %kind, 97
  br i1 %is_memory, label %memory, label %number
number:
  %same_type = icmp eq ptr %type, %wanted_type
  %right_type = or i1 %lenient, %same_type
  br i1 %right_type, label %take_number, label %other
take_number:
  switch i64 %kind, label %integer [i64 100, label %float
                                    i64 63, label %truth]
other:
  %told_other = call ptr @PyLong_FromLong(i64 2)
  ret ptr %told_other
truth:
  %true = call i32 @PyObject_IsTrue(ptr %object)
  %true_word = sext i32 %true to i64
  store i64 %true_word, ptr %place
  %unknown = icmp slt i32 %true, 0
  br i1 %unknown, label %bad, label %stored
integer:
  %whole = call i64 @PyLong_AsLongLong(ptr %object)
  store i64 %whole, ptr %place
  %maybe = icmp eq i64 %whole, -1
  br i1 %maybe, label %look, label %stored
float:
  %real = call double @PyFloat_AsDouble(ptr %object)
  store double %real, ptr %place
  %odd = fcmp oeq double %real, -1.0
  br i1 %odd, label %look, label %stored
look:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %stored, label %bad
memory:
  %at_data = getelementptr i8, ptr %object, i64 $HEAD
  br i1 %lenient, label %any_array, label %just_array
any_array:
  %is_array = call i32 @PyType_IsSubtype(ptr %type, ptr %array)
  %no_array = icmp eq i32 %is_array, 0
  br i1 %no_array, label %refuse, label %fields
just_array:
  %exact = icmp eq ptr %type, %array
  br i1 %exact, label %look_inside, label %other
look_inside:
  %at_dtype = getelementptr i8, ptr %at_data, i64 40
  %dtype = load ptr, ptr %at_dtype
  %same_dtype = icmp eq ptr %dtype, %wanted_type
  %at_shape = getelementptr i64, ptr %at_kind, i64 2
  %told_shape = load i64, ptr %at_shape, align 1
  %told_rank = and i64 %told_shape, 65535
  %above = lshr i64 %told_shape, 16
  %mask = and i64 %above, 65535
  %want = lshr i64 %told_shape, 32
  %at_flags = getelementptr i8, ptr %at_data, i64 48
  %flags_short = load i32, ptr %at_flags
  %flags = zext i32 %flags_short to i64
  %seen = and i64 %flags, %mask
  %same_flags = icmp eq i64 %seen, %want
  %at_own_rank = getelementptr i8, ptr %at_data, i64 8
  %own_rank_short = load i32, ptr %at_own_rank
  %own_rank = zext i32 %own_rank_short to i64
  %same_rank = icmp eq i64 %own_rank, %told_rank
  %same_two = and i1 %same_dtype, %same_flags
  %same_all = and i1 %same_two, %same_rank
  br i1 %same_all, label %fields, label %other
fields:
  %data = load i64, ptr %at_data
  store i64 %data, ptr %place
  %at_rank = getelementptr i8, ptr %at_data, i64 8
  %rank_short = load i32, ptr %at_rank
  %rank = zext i32 %rank_short to i64
  %at_lengths = getelementptr i8, ptr %at_data, i64 16
  %lengths = load ptr, ptr %at_lengths
  %at_strides = getelementptr i8, ptr %at_data, i64 24
  %strides = load ptr, ptr %at_strides
  %twice = mul i64 %rank, 2
  %long = add i64 %twice, 1
  %end = add i64 %at, %long
  %over = icmp sgt i64 %end, %room
  br i1 %over, label %refuse, label %axis
axis:
  %j = phi i64 [0, %fields], [%j1, %copy]
  %inside = icmp slt i64 %j, %rank
  br i1 %inside, label %copy, label %stored
copy:
  %at_length = getelementptr i64, ptr %lengths, i64 %j
  %length = load i64, ptr %at_length
  %j1 = add i64 %j, 1
  %to_length = getelementptr i64, ptr %place, i64 %j1
  store i64 %length, ptr %to_length
  %at_stride = getelementptr i64, ptr %strides, i64 %j
  %stride = load i64, ptr %at_stride
  %behind = add i64 %rank, %j1
  %to_stride = getelementptr i64, ptr %place, i64 %behind
  store i64 %stride, ptr %to_stride
  br label %axis
stored:
  %took = phi i64 [1, %integer], [1, %float], [1, %truth], [1, %look], [%long, %axis]
  %at1 = add i64 %at, %took
  %k1 = add i64 %k, 1
  br label %next
go:
  %function = inttoptr i64 %address to ptr
  %thread = call ptr @PyEval_SaveThread()
  %status = call i32 %function(ptr %words, ptr %out)
  call void @PyEval_RestoreThread(ptr %thread)
  %told = sext i32 %status to i64
  %answer = call ptr @PyLong_FromLong(i64 %told)
  ret ptr %answer
bad:
  ret ptr null
}
"""

# A kernel over a range of parts: of the words that an entry takes the first two are each thread's own. What failed stands in `failed`.
_PARTS = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @parts(i64 %start, i64 %stop, ptr %words, ptr %failed, i64 %count, i64 %address) {
  %own = alloca i64, i64 %count, align 16
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %words, i64 %bytes, i1 false)
  store i64 %start, ptr %own
  %at_stop = getelementptr i64, ptr %own, i64 1
  store i64 %stop, ptr %at_stop
  %out = alloca i64
  %function = inttoptr i64 %address to ptr
  %status = call i32 %function(ptr %own, ptr %out)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %end, label %tell
tell:
  %what = load i64, ptr %out
  %at_what = getelementptr i64, ptr %failed, i64 1
  store atomic i64 %what, ptr %at_what seq_cst, align 8
  store atomic i64 1, ptr %failed seq_cst, align 8
  br label %end
end:
  ret void
}
"""


# ---------------------------------------------------------------- calls


@cached(1)
def _call() -> int:
    return build.native("entry", build.filled(_CALL), ["entry"], "calls of plain functions")["entry"]


@cached(1)
def _parts() -> int:
    return build.native("parts", _PARTS, ["parts"], "parts of plain functions")["parts"]


@cached(256)
def _caller(codes: tuple[str, ...], strict: bool) -> Callable[..., int]:
    """A function of Python's for arguments that `codes` tell, which they are known to be, unless it is `strict`."""
    from nbgrad.kernels import calls

    told = sum(1 + 2 * _rank(c) if ":" in c else 1 for c in codes).to_bytes(8, sys.byteorder)
    for c in codes:
        if ":" in c:
            mask, want = _FLAGS[c[-1]]
            told += struct.pack(
                "=3q",
                ord("a"),
                strict and id(np.dtype(c.partition(":")[0])),
                _rank(c) | mask << 16 | want << 32,
            )
        else:
            told += struct.pack("=3q", ord(c), strict and id(_TYPES[c]), 0)
    return calls.python_function("entry", _call(), id(np.ndarray).to_bytes(8, sys.byteorder) + told)


_TYPES = {"d": float, "q": int, "?": bool}
_ALIGNED, _BOTH = 0x100, 0x3  # NumPy's flags; an array may lie in C's order, in Fortran's, or in both
_FLAGS = {
    "C": (_ALIGNED | 1, _ALIGNED | 1),
    "F": (_ALIGNED | _BOTH, _ALIGNED | 2),
    "A": (_ALIGNED | _BOTH, _ALIGNED),
}


def _rank(code: str) -> int:
    return int(code[code.index(":") + 1 : -1])


OTHER = object()  # what a quick call gives for arguments that it is not made for


class Entry:
    """What is called: numbers and arrays in, numbers and arrays out. `codes` says what each argument is, which is not asked again; `quick`
    looks itself whether they are that."""

    __slots__ = (
        "_address",
        "_arrays",
        "_call",
        "_none",
        "_row",
        "_rows",
        "_single",
        "_size",
        "_strict",
        "_words",
    )
    OTHER = OTHER

    def __init__(self, address: int, codes: Sequence[str], results: str) -> None:
        self._address = address
        self._words = struct.Struct(
            "@" + "".join(["q" * (1 + 2 * _rank(c)) if ":" in c else c.replace("?", "q") for c in codes])
        )
        self._call = _caller(tuple(codes), False)
        self._strict = _caller(tuple(codes), True)
        listed = results.split()
        self._single = listed[:1] == ["one"]
        self._none = listed == ["none"]
        fields, self._arrays = "@", []
        at = 0
        for code in [] if self._none else listed[1:]:
            if ":" in code:
                dtype, rank = code.split(":")
                self._arrays.append((at, np.dtype(dtype), int(rank)))
                fields += "5q" + "q" * 2 * int(rank)
                at += 5 + 2 * int(rank)
            else:
                fields += code
                at += 1
        self._row = struct.Struct(fields)
        self._rows: list[Any] = []  # of results, that nobody writes to now
        self._size = max(-(-self._row.size // 8), 1)

    def __call__(self, *args: Any) -> Any:
        return self._called(self._call, args)

    def quick(self, *args: Any) -> Any:
        """As if it were called, or OTHER."""
        return self._called(self._strict, args)

    def in_parts(self, n: int, args: Sequence[Any]) -> bool:
        """Calls it, which gives nothing, with parts of the range 0..n before the arguments, each thread of the crew with some. Whether
        there is a crew."""
        launch = untold()
        if launch is None:
            return False
        words: list[Any] = [0, n]
        for a in args:
            if isinstance(a, np.ndarray):
                words += [a.__array_interface__["data"][0], *a.shape, *a.strides]
            else:
                words.append(bool(a) if isinstance(a, np.bool_) else a)  # NumPy's is no integer
        failed = np.zeros(2, np.int64)
        row = np.frombuffer(self._words.pack(*words), np.uint8)
        launch(_parts(), n, row, failed, len(words), self._address)
        if failed[0]:
            raise _told(int(failed[1]))
        return True

    def _called(self, call: Callable[..., int], args: tuple[Any, ...]) -> Any:
        rows = self._rows
        out: Any = rows.pop() if rows else np.empty(self._size, np.int64)
        status = call(self._address, out, *args)
        if status:
            if status == _OTHER:
                rows.append(out)
                return OTHER
            raise _told(int(out[0]))
        found: Any = self._row.unpack_from(out)
        rows.append(out)
        if self._none:
            return None
        if self._arrays:
            found = self._with_arrays(found, args)
        return found[0] if self._single else found

    def _with_arrays(self, row: Sequence[Any], args: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        at = 0
        for begin, dtype, rank in self._arrays:
            found += row[at:begin]
            at = begin + 5 + 2 * rank
            found.append(_array(row[begin:at], dtype, rank, args))
        return (*found, *row[at:])


class _Memory:
    """An array's memory, which Numba's code took or which is a part of an argument's."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, told: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = told

    def __del__(self) -> None:
        if isinstance(self.owner, int):
            uses = ctypes.c_size_t.from_address(self.owner)
            uses.value -= 1  # under Python's lock, and no code that runs has it any longer
            if not uses.value:
                _free()(self.owner)


@cached(1)
def _free() -> Callable[[int], None]:
    free = ctypes.CDLL(None).free
    free.restype, free.argtypes = None, (ctypes.c_void_p,)
    return free


def _array(words: Sequence[int], dtype: np.dtype[Any], rank: int, args: Sequence[Any]) -> Any:
    owner, data = words[0], words[4]
    lengths, strides = tuple(words[5 : 5 + rank]), tuple(words[5 + rank :])
    fixed = not owner and any(isinstance(a, np.ndarray) and not a.flags.writeable for a in args)
    told = {"version": 3, "shape": lengths, "strides": strides, "typestr": dtype.str, "data": (data, fixed)}
    return np.asarray(_Memory(owner or args, told))


class _Builtins(pickle.Unpickler):
    """Exceptions of Python's own, with what they say: the text stands in the code that has just run."""

    def find_class(self, module: str, name: str) -> Any:
        found = getattr(__import__("builtins"), name, None) if module == "builtins" else None
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            raise pickle.UnpicklingError(name)
        return found


def _told(place: int) -> BaseException:
    """The exception that is described there."""
    if not place:
        return RuntimeError("a compiled function failed")
    text = ctypes.c_void_p.from_address(place).value or 0
    size = ctypes.c_int32.from_address(place + 8).value
    try:
        what, args, *_ = _Builtins(BytesIO(ctypes.string_at(text, size))).load()
    except (pickle.UnpicklingError, ValueError, TypeError):
        return ValueError("operands of different lengths")  # which is told with what they were
    if not args:
        return what() if isinstance(what, type) else RuntimeError("a compiled function failed")
    return what(*(a for a in args))


# ---------------------------------------------------------------- making


def entry(
    name: str, text: str, function: Callable[[], Any], helpers: Mapping[str, str], codes: Sequence[str]
) -> Entry:
    """For arguments that `codes` tell: `d`, `q`, `?`, or of an array its dtype, `:`, its dimensions and C, F or A. `function` gives the
    text's as Numba shall see it, `helpers` are the texts of what it calls, by name."""
    address, results, _ = _placed(name, text, function, helpers, codes)
    return Entry(address, codes, results)


def outside(
    name: str, text: str, function: Callable[[], Any], helpers: Mapping[str, str], codes: Sequence[str]
) -> tuple[str, int]:
    """The same for other code: the symbol by which images find it, and where it stands."""
    address, _, symbol = _placed(name, text, function, helpers, codes)
    image.provide(symbol, address)
    return symbol, address


def _placed(
    name: str, text: str, function: Callable[[], Any], helpers: Mapping[str, str], codes: Sequence[str]
) -> tuple[int, str, str]:
    """Where it stands, what its results are, and its symbol."""
    if not HERE:
        raise Refused("images are of another machine")
    name = build.titled(name, text, (tuple(codes), sorted(helpers.items())), ("entries",))
    kept = store()
    data = None if kept is None else kept.read(f"{name}.entry")
    found = None if data is None else _loaded(data)
    if found is None:
        with progress.compiling(name):
            results, made = _made(name, function(), codes)
        if kept is not None:
            kept.write(f"{name}.entry", results.encode() + b"\n" + made)
        found = _loaded(results.encode() + b"\n" + made)
    if found is None:
        raise Refused("what it calls is not there")
    return *found, name


def _loaded(data: bytes) -> tuple[int, str] | None:
    results, _, body = data.partition(b"\n")
    found = image.loaded(body)
    if found is None:
        _ask_numba()
        found = image.loaded(body)
    return None if found is None else (next(iter(found.values())), results.decode())


@cached(1)
def _ask_numba() -> None:
    """Let images find Numba's helpers."""
    from numba import _helperlib

    helpers: dict[str, int] = vars(_helperlib)["c_helpers"]

    for name, address in helpers.items():
        image.provide(f"numba_{name}", address)


def _made(name: str, function: Callable[..., Any], codes: Sequence[str]) -> tuple[str, bytes]:
    """What the results are, and the image."""
    import numba  # noqa: F401  its lock is to be taken once it is there

    with compiling.lock():
        _ask_numba()
        library, inner, returned = compiling.library_of_results(function, [_type(c) for c in codes])
        results = _results(returned)
        module = library._final_module
        from llvmlite import binding

        module.link_in(binding.parse_assembly(_RUNTIME))
        taken = [p.type for p in module.get_function(inner).arguments]
        module.link_in(binding.parse_assembly(_row(name, inner, codes, [str(t) for t in taken])))
        module.get_function(inner).linkage = "internal"
        return results, image.made(_apart(str(module), inner), [name])


def _apart(module: str, inner: str) -> str:
    """Tells LLVM that the arrays which a function takes share no memory that is written: who calls has seen to that. It stays a function,
    as LLVM forgets some of it of what it has written out."""
    found = re.search(rf'^define internal .*i32 @"?{re.escape(inner)}"?\(.*(?= {{$)', module, re.MULTILINE)
    assert found is not None
    begin, end = found.span()
    head = re.sub(r"ptr (%arg\.\w+\.4\b)", r"ptr noalias \1", module[begin:end])
    return f"{module[:begin]}{head} noinline{module[end:]}"


def _type(code: str) -> Any:
    import numba
    from numba import types

    if ":" not in code:
        return {"d": types.float64, "q": types.int64, "?": types.boolean}[code]
    dtype, _, rest = code.partition(":")
    return types.Array(numba.from_dtype(np.dtype(dtype)), int(rest[:-1]), rest[-1])


def _results(of: Any) -> str:
    from numba import types
    from numba.np import numpy_support

    def told(t: Any) -> str:
        t = types.unliteral(t)
        if isinstance(t, types.Array):
            return f"{numpy_support.as_dtype(t.dtype).str}:{t.ndim}"
        if isinstance(t, types.Boolean):
            return "?"
        found = {
            "float64": "d",
            "float32": "f",
            "int64": "q",
            "uint64": "Q",
            "int32": "i",
            "uint32": "I",
        }.get(str(t))
        if found is None:
            raise Refused(f"a result of type {t}")
        return found

    if isinstance(of, types.NoneType):
        return "none"
    if isinstance(of, types.BaseTuple):
        return " ".join(["all", *map(told, of.types)])
    return f"one {told(of)}"


def _row(name: str, inner: str, codes: Sequence[str], types: Sequence[str]) -> str:
    """The entry: words become arguments as Numba's code takes them."""
    lines: list[str] = []
    given: list[str] = []
    at = 0

    def word(type_: str = "i64") -> str:
        nonlocal at
        lines.append(f"  %p{at} = getelementptr i64, ptr %words, i64 {at}")
        lines.append(f"  %w{at} = load {type_}, ptr %p{at}")
        at += 1
        return f"{type_} %w{at - 1}"

    for code in codes:
        if ":" in code:
            dtype, _, rest = code.partition(":")
            rank, first = int(rest[:-1]), len(given)
            data = word("ptr")
            lengths = [word() for _ in range(rank)]
            strides = [word() for _ in range(rank)]
            total = "1"
            for k, length in enumerate(lengths):
                lines.append(f"  %n{first}_{k} = mul i64 {total}, {length.split()[1]}")
                total = f"%n{first}_{k}"
            size = np.dtype(dtype).itemsize
            given += ["ptr null", "ptr null", f"i64 {total}", f"i64 {size}", data, *lengths, *strides]
        elif code == "?":
            whole = word().split()[1]
            lines.append(f"  %b{at} = trunc i64 {whole} to i8")
            given.append(f"i8 %b{at}")
        else:
            given.append(word("double" if code == "d" else "i64"))
    if [g.split()[0] for g in given] != list(types[2:]):
        raise Refused("arguments are passed in another way")
    return f"""
declare i32 @"{inner}"(ptr, ptr{"".join(", " + t for t in types[2:])})
define i32 @{name}(ptr %words, ptr %out) {{
{chr(10).join(lines)}
  %error = alloca ptr
  store ptr null, ptr %error
  %status = call i32 @"{inner}"({", ".join(["ptr %out", "ptr %error", *given])})
  %good = icmp eq i32 %status, 0
  %none = icmp eq i32 %status, -2
  %fine = or i1 %good, %none
  br i1 %fine, label %done, label %failed
failed:
  %what = load i64, ptr %error
  store i64 %what, ptr %out
  ret i32 1
done:
  ret i32 0
}}
"""


__all__ = ["Entry", "Refused", "entry", "outside"]
