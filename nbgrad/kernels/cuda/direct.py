"""From Python to a device's launch in machine code: what C's `cuLaunchKernel` takes is laid out without a step of Python's in between.

Promises `launcher(...)`: a function `launch(kernel, n, *arguments)` that reads addresses out of buffers, counts the blocks and calls the
driver's function, with Python's lock given back meanwhile. All that is not plain it leaves to another function, of Python's, with the same
arguments: a kernel that is not loaded yet, what is no buffer of a device, a number that is none, and a thread of which
it does not know which device and stream its work goes to. That is known of one thread at a time, which `enter` names and anything that
changes it makes `forget`. So the device that the CPU plays is launched on by the same code, up to the function that is called.

A kernel of a device is given 8 bytes for each argument, whose places stand in a row that a null ends. Where a slot of an object lies is
looked up in one whose value is known.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached
from nbgrad.kernels import build, calls

MOST: Final = 1 << 61  # items that machine code counts
THREAD, DEVICE, STREAM, LAST = range(4)  # words of `_now`
_now: Final = (ctypes.c_int64 * 4)()
_kept: Final[list[Any]] = []  # what functions know by address
# Words of what a function knows: those of the moment, its device, the driver's function; whom it leaves calls to, and failures; the types
# of kernels and buffers, and where in them the code and the address lie; elements, how many arguments there are, and their kinds.
_KNOWN: Final = (
    *("NOW", "OF", "FUNCTION", "SLOW", "FAILED", "KERNEL", "BLOCK", "BUFFER", "AT_CODE", "AT_ADDRESS"),
    *("ELEMENTS", "SIZE", "KINDS"),
)

_TEXT = """
@_Py_NoneStruct = external global i8
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyThreadState_Get()
declare i64 @PyThreadState_GetID(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define internal i64 @known(ptr %self, i64 %which) alwaysinline {
  %begin = getelementptr i8, ptr %self, i64 $BYTES
  %at = getelementptr i64, ptr %begin, i64 %which
  %word = load i64, ptr %at, align 1
  ret i64 %word
}

define ptr @launch(ptr %self, ptr %args, i64 %count) {
  %size = call i64 @known(ptr %self, i64 $SIZE)
  %wanted = add i64 %size, 2
  %right = icmp eq i64 %count, %wanted
  br i1 %right, label %kernel, label %slow
kernel:
  %object = load ptr, ptr %args
  %at_type = getelementptr i8, ptr %object, i64 $TYPE
  %type = load i64, ptr %at_type
  %kernels = call i64 @known(ptr %self, i64 $KERNEL)
  %is_kernel = icmp eq i64 %type, %kernels
  br i1 %is_kernel, label %code, label %slow
code:
  %offset = call i64 @known(ptr %self, i64 $AT_CODE)
  %at_slot = getelementptr i8, ptr %object, i64 %offset
  %packed = load ptr, ptr %at_slot
  %unloaded = icmp eq ptr %packed, null
  br i1 %unloaded, label %slow, label %moment
moment:
  %now_address = call i64 @known(ptr %self, i64 $NOW)
  %now = inttoptr i64 %now_address to ptr
  %thread = call ptr @PyThreadState_Get()
  %id = call i64 @PyThreadState_GetID(ptr %thread)
  %named = load i64, ptr %now
  %same_thread = icmp eq i64 %id, %named
  br i1 %same_thread, label %device, label %slow
device:
  %at_device = getelementptr i64, ptr %now, i64 $DEVICE
  %entered = load i64, ptr %at_device
  %of = call i64 @known(ptr %self, i64 $OF)
  %same_device = icmp eq i64 %entered, %of
  br i1 %same_device, label %range, label %slow
range:
  %at_n = getelementptr ptr, ptr %args, i64 1
  %n_object = load ptr, ptr %at_n
  %n = call i64 @PyLong_AsLongLong(ptr %n_object)
  %none = icmp eq i64 %n, 0
  br i1 %none, label %end, label %some
some:
  %less = sub i64 %n, 1
  %plain = icmp ult i64 %less, $MOST
  br i1 %plain, label %room, label %odd
room:
  %all = add i64 %size, 1
  %values = alloca i64, i64 %all
  %ends = add i64 %size, 2
  %places = alloca ptr, i64 %ends
  store i64 %n, ptr %values
  store ptr %values, ptr %places
  %at_last_place = getelementptr ptr, ptr %places, i64 %all
  store ptr null, ptr %at_last_place
  %known = getelementptr i8, ptr %self, i64 $BYTES
  %kinds = getelementptr i64, ptr %known, i64 $KINDS
  %rest = getelementptr ptr, ptr %args, i64 2
  %block = call i64 @known(ptr %self, i64 $BLOCK)
  %buffer = call i64 @known(ptr %self, i64 $BUFFER)
  %at_address = call i64 @known(ptr %self, i64 $AT_ADDRESS)
  br label %next
next:
  %k = phi i64 [0, %room], [%k1, %stored]
  %more = icmp slt i64 %k, %size
  br i1 %more, label %take, label %grid
take:
  %k1 = add i64 %k, 1
  %at_kind = getelementptr i8, ptr %kinds, i64 %k
  %kind = load i8, ptr %at_kind
  %at_argument = getelementptr ptr, ptr %rest, i64 %k
  %argument = load ptr, ptr %at_argument
  %at_value = getelementptr i64, ptr %values, i64 %k1
  %at_place = getelementptr ptr, ptr %places, i64 %k1
  store ptr %at_value, ptr %at_place
  switch i8 %kind, label %integer [i8 98, label %memory
                                   i8 100, label %float]
memory:
  %at_memory_type = getelementptr i8, ptr %argument, i64 $TYPE
  %memory_type = load i64, ptr %at_memory_type
  %is_block = icmp eq i64 %memory_type, %block
  %is_buffer = icmp eq i64 %memory_type, %buffer
  %is_memory = or i1 %is_block, %is_buffer
  br i1 %is_memory, label %address, label %slow
address:
  %at_number = getelementptr i8, ptr %argument, i64 %at_address
  %number = load ptr, ptr %at_number
  %unset = icmp eq ptr %number, null
  br i1 %unset, label %slow, label %integer
integer:
  %whole = phi ptr [%argument, %take], [%number, %address]
  %value = call i64 @PyLong_AsLongLong(ptr %whole)
  store i64 %value, ptr %at_value
  %minus_one = icmp eq i64 %value, -1
  br i1 %minus_one, label %doubted, label %stored
float:
  %real = call double @PyFloat_AsDouble(ptr %argument)
  store double %real, ptr %at_value
  %is_minus_one = fcmp oeq double %real, -1.0
  br i1 %is_minus_one, label %doubted, label %stored
doubted:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %stored, label %odd
stored:
  br label %next
grid:
  %code_word = getelementptr i8, ptr %packed, i64 $BYTES
  %function_code = load i64, ptr %code_word, align 1
  %at_items = getelementptr i64, ptr %code_word, i64 1
  %items = load i64, ptr %at_items, align 1
  %at_most = getelementptr i64, ptr %code_word, i64 2
  %most = load i64, ptr %at_most, align 1
  %at_work = getelementptr i64, ptr %code_word, i64 3
  %work = load i64, ptr %at_work, align 1
  %by_work = icmp ne i64 %work, 0
  %elements = call i64 @known(ptr %self, i64 $ELEMENTS)
  %counted = select i1 %by_work, i64 %elements, i64 %n
  %a_block = select i1 %by_work, i64 %work, i64 %items
  %up = add i64 %counted, %a_block
  %up_less = sub i64 %up, 1
  %blocks_wanted = udiv i64 %up_less, %a_block
  %few = icmp ult i64 %blocks_wanted, %most
  %blocks = select i1 %few, i64 %blocks_wanted, i64 %most
  %grid_x = trunc i64 %blocks to i32
  %at_stream = getelementptr i64, ptr %now, i64 $STREAM
  %stream = load i64, ptr %at_stream
  %at_last = getelementptr i64, ptr %now, i64 $LAST
  store i64 %function_code, ptr %at_last
  %entry_address = call i64 @known(ptr %self, i64 $FUNCTION)
  %entry = inttoptr i64 %entry_address to ptr
  %running = call ptr @PyEval_SaveThread()
  %status = call i32 %entry(i64 %function_code, i32 %grid_x, i32 1, i32 1, i32 $THREADS, i32 1, i32 1, i32 0,
                         i64 %stream, ptr %places, ptr null)
  call void @PyEval_RestoreThread(ptr %running)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %end, label %failed
end:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
failed:
  %wide = sext i32 %status to i64
  %told = call ptr @PyLong_FromLongLong(i64 %wide)
  %no_memory = icmp eq ptr %told, null
  br i1 %no_memory, label %error_set, label %tell
tell:
  %at_told = alloca ptr
  store ptr %told, ptr %at_told
  %teller_address = call i64 @known(ptr %self, i64 $FAILED)
  %teller = inttoptr i64 %teller_address to ptr
  %answer = call ptr @PyObject_Vectorcall(ptr %teller, ptr %at_told, i64 1, ptr null)
  call void @Py_DecRef(ptr %told)
  ret ptr %answer
error_set:
  ret ptr null
odd:
  call void @PyErr_Clear()
  br label %slow
slow:
  %other_address = call i64 @known(ptr %self, i64 $SLOW)
  %other = inttoptr i64 %other_address to ptr
  %result = call ptr @PyObject_Vectorcall(ptr %other, ptr %args, i64 %count, ptr null)
  ret ptr %result
}
"""


def _text(threads: int) -> str:
    holes = {
        **{name: k for k, name in enumerate(_KNOWN)},
        **{"DEVICE": DEVICE, "STREAM": STREAM, "LAST": LAST, "MOST": MOST, "THREADS": threads},
    }
    return build.filled(_TEXT, **holes)


@cached(1)
def _address(threads: int) -> int:
    return build.native("device", _text(threads), ["launch"], "launcher of CUDA's kernels")["launch"]


def works() -> bool:
    """Whether there is such a function: where C's rules are those of `calls.py`, and one thread at a time runs Python."""
    return calls.GENERAL > 0 and calls.locked()


def packed(code: int, items: int, most: int, work: int) -> bytes:
    """What is known of a kernel once it is loaded."""
    return struct.pack("4q", code, items, most, work)


@cached(None)
def _place(kind: type, slot: str) -> int:
    """How far into its objects what stands in a slot lies."""
    made: Any = object.__new__(kind)
    value = 0x123456789ABC
    getattr(kind, slot).__set__(made, value)
    words = (ctypes.c_int64 * (kind.__basicsize__ // 8)).from_address(id(made))
    (found,) = [8 * k for k in range(object.__basicsize__ // 8, len(words)) if words[k] == id(value)]
    return found


class Target(NamedTuple):
    """A device, by the address of the C function that launches on it, with blocks of so many threads. What that returns is told to
    `failed` unless it is 0. A kernel, a type and a slot, has there what is `packed`, and what is of one of two types an `address`."""

    function: int
    device: Any
    failed: Callable[[int], None]
    kernel: tuple[type, str]
    buffers: tuple[type, type]  # the second derived of the first
    threads: int


def launcher(to: Target, kinds: str, elements: int, slow: Callable[..., None]) -> Callable[..., None]:
    """Of `kinds` there is a letter for each argument: `b` a buffer, `q` an integer, `d` a float."""
    buffer, block = to.buffers
    words = {
        **{"NOW": ctypes.addressof(_now), "OF": id(to.device), "FUNCTION": to.function, "SLOW": id(slow)},
        **{"FAILED": id(to.failed), "KERNEL": id(to.kernel[0]), "BLOCK": id(block), "BUFFER": id(buffer)},
        **{"AT_CODE": _place(*to.kernel), "AT_ADDRESS": _place(buffer, "address")},
        **{"ELEMENTS": elements, "SIZE": len(kinds)},
    }
    _kept.append((to, slow))
    known = b"".join([words[name].to_bytes(8, sys.byteorder) for name in _KNOWN[:-1]])
    return calls.python_function("launch", _address(to.threads), known + kinds.encode())


@cached(1)
def _thread() -> Callable[[], int]:
    state, number = ctypes.pythonapi.PyThreadState_Get, ctypes.pythonapi.PyThreadState_GetID
    state.restype = number.restype = ctypes.c_void_p
    number.restype, number.argtypes = ctypes.c_uint64, (ctypes.c_void_p,)
    return lambda: int(number(state()))


def enter(device: Any, stream: int) -> None:
    """This thread's work goes to this stream of the device, in whose context it is."""
    struct.pack_into(
        "3q", _now, 0, _thread()(), id(device), stream
    )  # in one step, as other threads write there


def forget() -> None:
    """Somebody's work goes elsewhere from now on."""
    _now[THREAD] = 0  # of no thread: they are counted from 1


def last() -> int:
    """The code that was launched last."""
    return _now[LAST]


def note(code: int) -> None:
    """Of a launch that went another way."""
    _now[LAST] = code


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
