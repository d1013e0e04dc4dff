"""From Python to a kernel's machine code, for any list of arguments: three functions and a crew's life, in LLVM's language.

Promises the launchers `function(way, kinds)`: a function of Python that takes a kernel's address, the end of its range, and then what
`kinds` says, a letter each: `b` an array of bytes, whose memory the kernel gets, `q` an integer, `d` a float. Of the ways `quick`
keeps Python's lock, `free` gives it back meanwhile, and `shared`, which takes a crew, how many helpers may take part and the
number of pieces before the rest, shares the range with the helpers of `crew.py`. To write a launcher for each list took 60 to 110
ms of compiling each, and 0.17 us more a call.

Promises who records a program that `watch(told)` calls `told(kinds, *arguments)` of every launch of the process before it is done, and that
`play` does again what `program` has laid out, all of it in one call from Python. Nobody watching costs a launch two loads.

That one function does for all rests on how C passes arguments (System V's rules on x86, ARM's own): the first integers and addresses
in general registers, the first eight floats in those of vectors, and what is left behind one another on the stack. So the
arguments are laid out in these three rows and all registers are filled; a kernel reads those that it has. Elsewhere, and of more
arguments than `STACK` has room for, `ctypes` calls: 3 us, on one thread.

Of what stands for memory only that it is a NumPy array is checked, as that of another device is none: where the address of its data stands,
behind the head of the object, is NumPy's C interface. So an array that is handed in has to lie without gaps, as tensors' memory does.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy import ndarray

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached
from nbgrad.kernels import build

WAYS = ("quick", "free", "shared")
# General registers of arguments, and of floats; words on the stack that are passed, the fewest that do.
GENERAL = {"x86_64": 6, "aarch64": 8}.get(platform.machine(), 0) if sys.platform == "linux" else 0
FLOATS = 8
STACK = (0, 4, 16, 120)
# Words of a call: the kernel's address, how many floats and words on the stack there are, and the three rows.
_FLOATS, _BEHIND, _FIRST = 1, 2, 3
_IN_VECTORS = _FIRST + GENERAL
_ON_STACK = _IN_VECTORS + FLOATS
WORDS = _ON_STACK + STACK[-1]
FREES = 3  # the word of a program that says whether Python's lock is given back
# Words of a crew, in cache lines of their own: the ticket; pieces done; of the launch: its call, length of the range and of a piece; who
# sleeps, and what they sleep on. The ticket holds how many helpers may take part and the pieces that nobody has taken: from the
# first up to the last. The caller takes the first and helpers the last, so that the same memory mostly stays in the cache of the same
# core. To take one is to replace the very value of the ticket that showed it: whoever did so knows that the launch
# it belongs to waits for the piece, so what stands in the crew is about that launch.
TICKET, DONE, CALL, LENGTH, STEP, SLEEPERS, MUTEX, CONDITION, SIZE = 0, 8, 16, 17, 18, 24, 32, 40, 48
SPINS = 4000  # pauses before a thread without work goes to sleep, about 0.2 ms: the next launch of a training step comes before
PATIENCE = 2000  # pauses before a thread that waits for the last piece gives its core away at each

_CREW = """
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

; The number of a piece that is now this thread's to run, or -1; the caller is helper -1.
define internal i64 @take(ptr %crew, i64 %helper) {
  %ticket = getelementptr i64, ptr %crew, i64 $TICKET
  %begin = load atomic i64, ptr %ticket seq_cst, align 8
  br label %look
look:
  %seen = phi i64 [%begin, %0], [%now, %try]
  %allowed = ashr i64 %seen, 32
  %first = and i64 %seen, 65535
  %rest = lshr i64 %seen, 16
  %stop = and i64 %rest, 65535
  %may = icmp slt i64 %helper, %allowed
  %some = icmp ne i64 %first, %stop
  %go = and i1 %may, %some
  br i1 %go, label %try, label %none
try:
  %calls = icmp slt i64 %helper, 0
  %without_first = add i64 %seen, 1
  %without_last = sub i64 %seen, 65536
  %new = select i1 %calls, i64 %without_first, i64 %without_last
  %pair = cmpxchg ptr %ticket, i64 %seen, i64 %new seq_cst seq_cst
  %now = extractvalue {i64, i1} %pair, 0
  %won = extractvalue {i64, i1} %pair, 1
  br i1 %won, label %mine, label %look
mine:
  %last = sub i64 %stop, 1
  %piece = select i1 %calls, i64 %first, i64 %last
  ret i64 %piece
none:
  ret i64 -1
}

define internal void @run(ptr %crew, i64 %piece) {
  %at_step = getelementptr i64, ptr %crew, i64 $STEP
  %step = load atomic i64, ptr %at_step seq_cst, align 8
  %at_length = getelementptr i64, ptr %crew, i64 $LENGTH
  %length = load atomic i64, ptr %at_length seq_cst, align 8
  %at_call = getelementptr i64, ptr %crew, i64 $CALL
  %call = load atomic ptr, ptr %at_call seq_cst, align 8
  %start = mul i64 %piece, %step
  %end = add i64 %start, %step
  %whole = icmp slt i64 %end, %length
  %stop = select i1 %whole, i64 %end, i64 %length
  call void @invoke(ptr %call, i64 %start, i64 %stop)
  %done = getelementptr i64, ptr %crew, i64 $DONE
  %was = atomicrmw add ptr %done, i64 1 seq_cst
  ret void
}

; Until there is a piece to take; gives it back.
define internal i64 @sleep(ptr %crew, i64 %helper) {
  %mutex = getelementptr i64, ptr %crew, i64 $MUTEX
  %condition = getelementptr i64, ptr %crew, i64 $CONDITION
  %sleepers = getelementptr i64, ptr %crew, i64 $SLEEPERS
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %were = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %look
look:
  %piece = call i64 @take(ptr %crew, i64 %helper)
  %none = icmp slt i64 %piece, 0
  br i1 %none, label %wait, label %up
wait:
  %woken = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
up:
  %was = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %freed = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret i64 %piece
}

; The life of a helper.
define void @help(ptr %crew, i64 %helper) {
  br label %look
look:
  %spins = phi i64 [0, %0], [0, %work], [%more, %idle]
  %found = call i64 @take(ptr %crew, i64 %helper)
  %none = icmp slt i64 %found, 0
  br i1 %none, label %without, label %work
without:
  %tired = icmp sge i64 %spins, $SPINS
  br i1 %tired, label %rest, label %idle
rest:
  %given = call i64 @sleep(ptr %crew, i64 %helper)
  br label %work
work:
  %piece = phi i64 [%found, %look], [%given, %rest]
  call void @run(ptr %crew, i64 %piece)
  br label %look
idle:
  %more = add i64 %spins, 1
  $PAUSE
  br label %look
}

; Run 0..n in pieces, with whoever is awake or wakes in time: a helper that comes late finds nothing to do.
define internal void @share(ptr %crew, i64 %helpers, i64 %wanted, i64 %n, ptr %call) {
  %n_up = add i64 %n, %wanted
  %n_less = sub i64 %n_up, 1
  %even = sdiv i64 %n_less, %wanted
  %padded = add i64 %even, 63
  %lines = and i64 %padded, -64
  %long = icmp sge i64 %n, 4096
  %step = select i1 %long, i64 %lines, i64 %even  ; whole cache lines, so that no two threads write one
  %n_step = add i64 %n, %step
  %n_last = sub i64 %n_step, 1
  %pieces = sdiv i64 %n_last, %step
  %at_call = getelementptr i64, ptr %crew, i64 $CALL
  store atomic ptr %call, ptr %at_call seq_cst, align 8
  %at_length = getelementptr i64, ptr %crew, i64 $LENGTH
  store atomic i64 %n, ptr %at_length seq_cst, align 8
  %at_step = getelementptr i64, ptr %crew, i64 $STEP
  store atomic i64 %step, ptr %at_step seq_cst, align 8
  %done = getelementptr i64, ptr %crew, i64 $DONE
  store atomic i64 0, ptr %done seq_cst, align 8
  %allowed = shl i64 %helpers, 32
  %stop = shl i64 %pieces, 16
  %value = or i64 %allowed, %stop
  %ticket = getelementptr i64, ptr %crew, i64 $TICKET
  store atomic i64 %value, ptr %ticket seq_cst, align 8
  %sleepers = getelementptr i64, ptr %crew, i64 $SLEEPERS
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %some = icmp ne i64 %asleep, 0
  br i1 %some, label %wake, label %look
wake:
  %mutex = getelementptr i64, ptr %crew, i64 $MUTEX
  %condition = getelementptr i64, ptr %crew, i64 $CONDITION
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %told = call i32 @pthread_cond_broadcast(ptr %condition)
  %freed = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %look
look:
  %piece = call i64 @take(ptr %crew, i64 -1)
  %none = icmp slt i64 %piece, 0
  br i1 %none, label %wait, label %work
work:
  call void @run(ptr %crew, i64 %piece)
  br label %look
wait:
  %spins = phi i64 [0, %look], [%more, %spin], [%more, %yield]
  %so_far = load atomic i64, ptr %done seq_cst, align 8
  %open = icmp slt i64 %so_far, %pieces
  br i1 %open, label %spin, label %end
spin:
  $PAUSE
  %more = add i64 %spins, 1
  %weary = icmp sgt i64 %more, $PATIENCE
  br i1 %weary, label %yield, label %wait
yield:
  %yielded = call i32 @sched_yield()
  br label %wait
end:
  ret void
}
"""

# In Python's fast form: what the function was made with, its arguments, how many; a new reference, or null where an error is set.
_CALLS = """
@_Py_NoneStruct = external global i8
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyNumber_Long(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare i32 @PyErr_BadArgument()
declare i32 @PyType_IsSubtype(ptr, ptr)
declare void @PyErr_SetString(ptr, ptr)
@PyExc_RuntimeError = external global ptr
@two_devices = internal constant [79 x i8] c"Expected all tensors to be on the same device, but found at least two devices!\\00"
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; An integer of Python, or what it makes one of, and whether that failed.
define internal {i64, i1} @whole(ptr %object) alwaysinline {
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  %odd = icmp eq i64 %value, -1
  br i1 %odd, label %ask, label %good
ask:
  %slow = call {i64, i1} @whole_of_another(ptr %object)
  ret {i64, i1} %slow
good:
  %pair = insertvalue {i64, i1} {i64 0, i1 false}, i64 %value, 0
  ret {i64, i1} %pair
}

define internal {i64, i1} @whole_of_another(ptr %object) noinline cold {
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %minus_one, label %convert
minus_one:
  ret {i64, i1} {i64 -1, i1 false}
convert:
  call void @PyErr_Clear()
  %number = call ptr @PyNumber_Long(ptr %object)
  %without = icmp eq ptr %number, null
  br i1 %without, label %failed, label %take
take:
  %value = call i64 @PyLong_AsLongLong(ptr %number)
  call void @Py_DecRef(ptr %number)
  %again = call ptr @PyErr_Occurred()
  %bad = icmp ne ptr %again, null
  %pair = insertvalue {i64, i1} {i64 0, i1 false}, i64 %value, 0
  %told = insertvalue {i64, i1} %pair, i1 %bad, 1
  ret {i64, i1} %told
failed:
  ret {i64, i1} {i64 0, i1 true}
}

; Calls who watches with the function's kinds and the arguments; whether that failed.
define internal i1 @tell(ptr %told, ptr %self, ptr %args, i64 %count) noinline cold {
  %more = add i64 %count, 1
  %all = alloca ptr, i64 %more
  store ptr %self, ptr %all
  br label %next
next:
  %k = phi i64 [0, %0], [%k1, %copy]
  %some = icmp slt i64 %k, %count
  br i1 %some, label %copy, label %call
copy:
  %k1 = add i64 %k, 1
  %from = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %from
  %to = getelementptr ptr, ptr %all, i64 %k1
  store ptr %object, ptr %to
  br label %next
call:
  call void @Py_IncRef(ptr %told)
  %answer = call ptr @PyObject_Vectorcall(ptr %told, ptr %all, i64 %more, ptr null)
  call void @Py_DecRef(ptr %told)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %end, label %fine
fine:
  call void @Py_DecRef(ptr %answer)
  br label %end
end:
  ret i1 %failed
}

; Python's lock is given back while a kernel runs, but not while somebody is told of launches: what other threads made meanwhile would look
; like what the call that is recorded makes.
define internal ptr @give_back(ptr %self) {
  %at_watch = getelementptr i8, ptr %self, i64 $BYTES
  %watch = load ptr, ptr %at_watch, align 1
  %told = load ptr, ptr %watch
  %alone = icmp eq ptr %told, null
  br i1 %alone, label %give, label %keep
give:
  %thread = call ptr @PyEval_SaveThread()
  ret ptr %thread
keep:
  ret ptr null
}

define internal void @take_again(ptr %thread) {
  %kept = icmp eq ptr %thread, null
  br i1 %kept, label %end, label %take
take:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %end
end:
  ret void
}

; Lays the arguments out as C passes them: the kernel's address and the range's end, which come first, and those from `from` on. Whether
; that failed.
define internal i1 @lay(ptr %self, ptr %args, i64 %count, i64 %from, ptr %call) {
  %at_size = getelementptr i8, ptr %self, i64 $HEAD
  %bytes = load i64, ptr %at_size
  %size = sub i64 %bytes, 16
  %at_watch = getelementptr i8, ptr %self, i64 $BYTES
  %watch = load ptr, ptr %at_watch, align 1
  %told = load ptr, ptr %watch
  %alone = icmp eq ptr %told, null
  br i1 %alone, label %unseen, label %seen
seen:
  %objects = call i1 @tell(ptr %told, ptr %self, ptr %args, i64 %count)
  br i1 %objects, label %bad, label %unseen
unseen:
  %at_array = getelementptr i8, ptr %at_watch, i64 8
  %array = load ptr, ptr %at_array, align 1
  %kinds = getelementptr i8, ptr %at_watch, i64 16
  %wanted = add i64 %size, %from
  %right = icmp eq i64 %count, %wanted
  br i1 %right, label %begin, label %refuse
refuse:
  %refused = call i32 @PyErr_BadArgument()
  ret i1 true
begin:
  %kernel = load ptr, ptr %args
  %address_pair = call {i64, i1} @whole(ptr %kernel)
  %no_address = extractvalue {i64, i1} %address_pair, 1
  br i1 %no_address, label %bad, label %range
range:
  %address = extractvalue {i64, i1} %address_pair, 0
  store i64 %address, ptr %call
  %at_n = getelementptr ptr, ptr %args, i64 1
  %n_object = load ptr, ptr %at_n
  %n_pair = call {i64, i1} @whole(ptr %n_object)
  %no_n = extractvalue {i64, i1} %n_pair, 1
  br i1 %no_n, label %bad, label %range_end
range_end:
  %n = extractvalue {i64, i1} %n_pair, 0
  %row = getelementptr i64, ptr %call, i64 $FIRST
  %vectors = getelementptr i64, ptr %call, i64 $IN_VECTORS
  %stack = getelementptr i64, ptr %call, i64 $ON_STACK
  %stop = getelementptr i64, ptr %row, i64 1
  store i64 %n, ptr %stop
  %rest = getelementptr ptr, ptr %args, i64 %from
  br label %next
next:
  %k = phi i64 [0, %range_end], [%k1, %stored]
  %general = phi i64 [2, %range_end], [%general1, %stored]
  %floats = phi i64 [0, %range_end], [%floats1, %stored]
  %behind = phi i64 [0, %range_end], [%behind1, %stored]
  %more = icmp slt i64 %k, %size
  br i1 %more, label %take, label %laid
take:
  %at_kind = getelementptr i8, ptr %kinds, i64 %k
  %kind = load i8, ptr %at_kind
  %at_object = getelementptr ptr, ptr %rest, i64 %k
  %object = load ptr, ptr %at_object
  switch i8 %kind, label %integer [i8 98, label %buffer
                                   i8 100, label %float]
buffer:
  %at_type = getelementptr i8, ptr %object, i64 $TYPE
  %type = load ptr, ptr %at_type
  %is_array = icmp eq ptr %type, %array
  br i1 %is_array, label %memory, label %other
other:
  %derived = call i32 @PyType_IsSubtype(ptr %type, ptr %array)
  %is_derived = icmp ne i32 %derived, 0
  br i1 %is_derived, label %memory, label %elsewhere
elsewhere:
  %error_type = load ptr, ptr @PyExc_RuntimeError
  call void @PyErr_SetString(ptr %error_type, ptr @two_devices)
  ret i1 true
memory:
  %field = getelementptr i8, ptr %object, i64 $HEAD
  %data = load i64, ptr %field
  br label %in_general
integer:
  %pair = call {i64, i1} @whole(ptr %object)
  %no_integer = extractvalue {i64, i1} %pair, 1
  %value = extractvalue {i64, i1} %pair, 0
  br i1 %no_integer, label %bad, label %in_general
in_general:
  %word = phi i64 [%data, %memory], [%value, %integer]
  %room = icmp slt i64 %general, $GENERAL
  br i1 %room, label %register, label %on_stack
register:
  %at_general = getelementptr i64, ptr %row, i64 %general
  store i64 %word, ptr %at_general
  br label %stored
float:
  %real = call double @PyFloat_AsDouble(ptr %object)
  %odd = fcmp oeq double %real, -1.0
  br i1 %odd, label %float_error, label %number
float_error:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %number, label %bad
number:
  %room_for_float = icmp slt i64 %floats, $COUNT_FLOATS
  br i1 %room_for_float, label %vector, label %bits
vector:
  %at_float = getelementptr double, ptr %vectors, i64 %floats
  store double %real, ptr %at_float
  br label %stored
bits:
  %real_bits = bitcast double %real to i64
  br label %on_stack
on_stack:
  %pushed = phi i64 [%word, %in_general], [%real_bits, %bits]
  %at_stack = getelementptr i64, ptr %stack, i64 %behind
  store i64 %pushed, ptr %at_stack
  br label %stored
stored:
  %g = phi i64 [1, %register], [0, %vector], [0, %on_stack]
  %f = phi i64 [0, %register], [1, %vector], [0, %on_stack]
  %b = phi i64 [0, %register], [0, %vector], [1, %on_stack]
  %general1 = add i64 %general, %g
  %floats1 = add i64 %floats, %f
  %behind1 = add i64 %behind, %b
  %k1 = add i64 %k, 1
  br label %next
laid:
  %at_floats = getelementptr i64, ptr %call, i64 $FLOATS
  store i64 %floats, ptr %at_floats
  %at_behind = getelementptr i64, ptr %call, i64 $BEHIND
  store i64 %behind, ptr %at_behind
  ret i1 false
bad:
  ret i1 true
}

define internal ptr @none() alwaysinline {
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

define ptr @quick(ptr %self, ptr %args, i64 %count) {
  %call = alloca [$WORDS x i64], align 16
  %failed = call i1 @lay(ptr %self, ptr %args, i64 %count, i64 2, ptr %call)
  br i1 %failed, label %error, label %go
go:
  %at_n = getelementptr i64, ptr %call, i64 $STOP
  %n = load i64, ptr %at_n
  call void @invoke(ptr %call, i64 0, i64 %n)
  %none = call ptr @none()
  ret ptr %none
error:
  ret ptr null
}

define ptr @free(ptr %self, ptr %args, i64 %count) {
  %call = alloca [$WORDS x i64], align 16
  %failed = call i1 @lay(ptr %self, ptr %args, i64 %count, i64 2, ptr %call)
  br i1 %failed, label %error, label %go
go:
  %at_n = getelementptr i64, ptr %call, i64 $STOP
  %n = load i64, ptr %at_n
  %thread = call ptr @give_back(ptr %self)
  call void @invoke(ptr %call, i64 0, i64 %n)
  call void @take_again(ptr %thread)
  %none = call ptr @none()
  ret ptr %none
error:
  ret ptr null
}

define ptr @shared(ptr %self, ptr %args, i64 %count) {
  %call = alloca [$WORDS x i64], align 16
  %failed = call i1 @lay(ptr %self, ptr %args, i64 %count, i64 5, ptr %call)
  br i1 %failed, label %error, label %crew
crew:
  %at_crew = getelementptr ptr, ptr %args, i64 2
  %crew_object = load ptr, ptr %at_crew
  %crew_pair = call {i64, i1} @whole(ptr %crew_object)
  %no_crew = extractvalue {i64, i1} %crew_pair, 1
  br i1 %no_crew, label %error, label %helpers
helpers:
  %at_helpers = getelementptr ptr, ptr %args, i64 3
  %helpers_object = load ptr, ptr %at_helpers
  %helpers_pair = call {i64, i1} @whole(ptr %helpers_object)
  %no_helpers = extractvalue {i64, i1} %helpers_pair, 1
  br i1 %no_helpers, label %error, label %pieces
pieces:
  %at_pieces = getelementptr ptr, ptr %args, i64 4
  %pieces_object = load ptr, ptr %at_pieces
  %pieces_pair = call {i64, i1} @whole(ptr %pieces_object)
  %no_pieces = extractvalue {i64, i1} %pieces_pair, 1
  br i1 %no_pieces, label %error, label %go
go:
  %crew_address = extractvalue {i64, i1} %crew_pair, 0
  %crew_place = inttoptr i64 %crew_address to ptr
  %helpers_count = extractvalue {i64, i1} %helpers_pair, 0
  %pieces_count = extractvalue {i64, i1} %pieces_pair, 0
  %at_n = getelementptr i64, ptr %call, i64 $STOP
  %n = load i64, ptr %at_n
  %thread = call ptr @give_back(ptr %self)
  call void @share(ptr %crew_place, i64 %helpers_count, i64 %pieces_count, i64 %n, ptr %call)
  call void @take_again(ptr %thread)
  %none = call ptr @none()
  ret ptr %none
error:
  ret ptr null
}
"""

# A program done again: how many calls there are, how many words are replaced and where the calls begin; whether Python's lock is given
# back; of each word that is replaced its place, which of the arrays given it is the address of, and how far into that; then the calls,
# each behind its length in words and the pieces of its range, 0 for one that is this thread's alone.
_PLAY = """
define ptr @play(ptr %self, ptr %args, i64 %count) {
  %program_object = load ptr, ptr %args
  %at_data = getelementptr i8, ptr %program_object, i64 $HEAD
  %program = load ptr, ptr %at_data
  %at_crew = getelementptr ptr, ptr %args, i64 1
  %crew_object = load ptr, ptr %at_crew
  %crew_address = call i64 @PyLong_AsLongLong(ptr %crew_object)
  %crew = inttoptr i64 %crew_address to ptr
  %at_helpers = getelementptr ptr, ptr %args, i64 2
  %helpers_object = load ptr, ptr %at_helpers
  %helpers = call i64 @PyLong_AsLongLong(ptr %helpers_object)
  %together = icmp sgt i64 %helpers, 0
  %buffers = getelementptr ptr, ptr %args, i64 3
  %calls = load i64, ptr %program
  %at_patches = getelementptr i64, ptr %program, i64 1
  %patches = load i64, ptr %at_patches
  %at_begin = getelementptr i64, ptr %program, i64 2
  %begin = load i64, ptr %at_begin
  %at_lock = getelementptr i64, ptr %program, i64 3
  %lock = load i64, ptr %at_lock
  %frees = icmp ne i64 %lock, 0
  %table = getelementptr i64, ptr %program, i64 4
  br label %patch
patch:
  %p = phi i64 [0, %0], [%p1, %place]
  %more_patches = icmp slt i64 %p, %patches
  br i1 %more_patches, label %place, label %patched
place:
  %row = mul i64 %p, 3
  %at_row = getelementptr i64, ptr %table, i64 %row
  %where = load i64, ptr %at_row
  %at_which = getelementptr i64, ptr %at_row, i64 1
  %which = load i64, ptr %at_which
  %at_offset = getelementptr i64, ptr %at_row, i64 2
  %offset = load i64, ptr %at_offset
  %at_array = getelementptr ptr, ptr %buffers, i64 %which
  %array = load ptr, ptr %at_array
  %at_memory = getelementptr i8, ptr %array, i64 $HEAD
  %memory = load i64, ptr %at_memory
  %word = add i64 %memory, %offset
  %at_word = getelementptr i64, ptr %program, i64 %where
  store i64 %word, ptr %at_word
  %p1 = add i64 %p, 1
  br label %patch
patched:
  br i1 %frees, label %release, label %start
release:
  %thread = call ptr @PyEval_SaveThread()
  br label %start
start:
  %held = phi ptr [null, %patched], [%thread, %release]
  %first = getelementptr i64, ptr %program, i64 %begin
  br label %look
look:
  %k = phi i64 [0, %start], [%k1, %done]
  %at = phi ptr [%first, %start], [%next, %done]
  %more = icmp slt i64 %k, %calls
  br i1 %more, label %run, label %end
run:
  %length = load i64, ptr %at
  %at_pieces = getelementptr i64, ptr %at, i64 1
  %pieces = load i64, ptr %at_pieces
  %call = getelementptr i64, ptr %at, i64 2
  %at_n = getelementptr i64, ptr %call, i64 $STOP
  %n = load i64, ptr %at_n
  %long = icmp sgt i64 %pieces, 0
  %with = and i1 %long, %together
  br i1 %with, label %share, label %alone
share:
  call void @share(ptr %crew, i64 %helpers, i64 %pieces, i64 %n, ptr %call)
  br label %done
alone:
  call void @invoke(ptr %call, i64 0, i64 %n)
  br label %done
done:
  %k1 = add i64 %k, 1
  %next = getelementptr i64, ptr %at, i64 %length
  br label %look
end:
  br i1 %frees, label %take, label %give
take:
  call void @PyEval_RestoreThread(ptr %held)
  br label %give
give:
  %none = call ptr @none()
  ret ptr %none
}
"""


def invoke() -> str:
    """Calls a kernel with all registers full, and as many words on the stack as there are, or some more."""
    lines = [
        "define internal void @invoke(ptr %call, i64 %start, i64 %stop) {",
        "  %address = load ptr, ptr %call",
        f"  %at_behind = getelementptr i64, ptr %call, i64 {_BEHIND}",
        "  %behind = load i64, ptr %at_behind",
        f"  %at_floats = getelementptr i64, ptr %call, i64 {_FLOATS}",
        "  %floats = load i64, ptr %at_floats",
        "  %some = icmp ne i64 %floats, 0",
    ]
    ahead = [f"i64 %g{k}" for k in range(2, GENERAL)]
    for k in range(2, GENERAL):
        lines.append(f"  %at_g{k} = getelementptr i64, ptr %call, i64 {_FIRST + k}")
        lines.append(f"  %g{k} = load i64, ptr %at_g{k}")
    cases = [(with_floats, words) for with_floats in (0, 1) for words in STACK]
    for k, (with_floats, words) in enumerate(cases):
        test, after = f"%case{k}", f"%else{k}" if k + 1 < len(cases) else "%none"
        lines += [
            f"  %fits{k} = icmp sle i64 %behind, {words}",
            f"  %which{k} = icmp eq i1 %some, {with_floats}",
        ]
        lines += [
            f"  {test}_is = and i1 %fits{k}, %which{k}",
            f"  br i1 {test}_is, label {test}, label {after}",
        ]
        lines += [f"{test[1:]}:"]
        passed = ["i64 %start", "i64 %stop", *ahead]
        rows = [("double", _IN_VECTORS, FLOATS * with_floats), ("i64", _ON_STACK, words)]
        for kind, row, count in rows:
            for at in range(row, row + count):
                lines.append(f"  %at{k}_{at} = getelementptr i64, ptr %call, i64 {at}")
                lines.append(f"  %word{k}_{at} = load {kind}, ptr %at{k}_{at}")
                passed.append(f"{kind} %word{k}_{at}")
        lines += [f"  call void %address({', '.join(passed)})", "  ret void", f"{after[1:]}:"]
    return "\n".join([*lines, "  unreachable", "}"])


def _text() -> str:
    x86 = platform.machine() == "x86_64"
    holes = {
        **{
            name: globals()[name]
            for name in ("TICKET", "DONE", "CALL", "LENGTH", "STEP", "SLEEPERS", "MUTEX")
        },
        **{"CONDITION": CONDITION, "SPINS": SPINS, "PATIENCE": PATIENCE, "WORDS": WORDS, "GENERAL": GENERAL},
        **{"FLOATS": _FLOATS, "BEHIND": _BEHIND, "FIRST": _FIRST, "STOP": _FIRST + 1, "COUNT_FLOATS": FLOATS},
        **{"IN_VECTORS": _IN_VECTORS, "ON_STACK": _ON_STACK},
        "PAUSE": "call void @llvm.x86.sse2.pause()" if x86 else "",
    }
    text = build.filled(_CREW + _CALLS + _PLAY, **holes)
    return text + ("declare void @llvm.x86.sse2.pause()\n" if x86 else "") + invoke()


@cached(1)
def _functions() -> dict[str, int]:
    return build.native("calls", _text(), [*WAYS, "play", "help"], "launchers of kernels")


def locked() -> bool:
    """Whether one thread at a time runs Python."""
    asked: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return asked is None or asked()


def helper() -> int:
    """The address of a helper's life: a C function of a crew's address and the helper's number."""
    return _functions()["help"]


class _Method(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FAST = 0x80  # METH_FASTCALL


@cached(None)
def _method(name: str, address: int) -> int:
    """What Python knows a function by. Its objects read it to the end of the process, when memory that Python counts may be gone."""
    take = ctypes.pythonapi.PyMem_RawMalloc
    take.restype, take.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    text = name.encode() + b"\0"
    place = take(ctypes.sizeof(_Method) + len(text))
    ctypes.memmove(place + ctypes.sizeof(_Method), text, len(text))
    method = _Method.from_address(place)
    ctypes.c_void_p.from_buffer(method).value = place + ctypes.sizeof(_Method)
    method.function, method.flags = address, _FAST
    return int(place)


def fits(kinds: str) -> bool:
    """Whether these functions can pass what a list says."""
    floats = kinds.count("d")
    general = len(kinds) - floats + 2
    return GENERAL > 0 and max(general - GENERAL, 0) + max(floats - FLOATS, 0) <= STACK[-1]


def function(way: str, kinds: str, told: bool = True) -> Callable[..., None]:
    """Of launches that are not `told` nobody who watches hears."""
    watched = ctypes.addressof(_watching if told else _nobody)
    known = b"".join([word.to_bytes(8, sys.byteorder) for word in (watched, id(ndarray))])
    return python_function(way, _functions()[way], known + kinds.encode())


def python_function(name: str, address: int, told: bytes) -> Callable[..., Any]:
    """The function of Python's that is C's `(told, arguments, how many)` at an address."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made: Callable[..., Any] = make(_method(name, address), told, None)
    return made


_watching = ctypes.c_int64(0)  # the address of who is told of launches
_nobody = ctypes.c_int64(0)
_KINDS = 16  # where kinds begin in what a launch tells of its function


@contextmanager
def watch(told: Callable[..., Any]) -> Iterator[None]:
    """Have `told` called before each launch of the process, whichever thread's it is."""
    _watching.value = id(told)
    try:
        yield
    finally:
        _watching.value = 0


class Call(NamedTuple):
    """A launch that was seen: what its arguments are, the kernel's address, the end of its range, in how many pieces that may be cut (0 if
    it may not), and the arguments."""

    kinds: str
    address: int
    n: int
    pieces: int
    args: tuple[Any, ...]


def seen(told: tuple[Any, ...]) -> Call:
    """What `watch` has told of a launch."""
    function, address, n, *rest = told
    kinds = function[_KINDS:].decode()
    pieces = rest[2] if len(rest) > len(kinds) else 0
    return Call(kinds, int(address), int(n), pieces, tuple(rest[len(rest) - len(kinds) :]))


def laid(call: Call, values: Sequence[Any]) -> tuple[list[int], list[tuple[int, Any]], list[tuple[int, int]]]:
    """The words of a call; which of them are to be something that is no number, and what; which are floats that have an `index`."""
    words = [0] * WORDS
    words[0], words[_FIRST + 1] = call.address, call.n
    general, floats, behind = 2, 0, 0
    placed: list[tuple[int, Any]] = []
    asked: list[tuple[int, int]] = []
    for kind, value in zip(call.kinds, values):
        if kind == "d" and floats < FLOATS:
            place, floats = _IN_VECTORS + floats, floats + 1
        elif kind != "d" and general < GENERAL:
            place, general = _FIRST + general, general + 1
        else:
            place, behind = _ON_STACK + behind, behind + 1
        if isinstance(value, list | tuple):
            placed.append((place, value))
        elif kind == "d":
            if hasattr(value, "index"):
                asked.append((place, value.index))
            words[place] = int.from_bytes(struct.pack("=d", value), sys.byteorder, signed=True)
        else:
            words[place] = int(value)
    words[_FLOATS], words[_BEHIND] = floats, behind
    return words[: _ON_STACK + next(room for room in STACK if behind <= room)], placed, asked


def program(
    calls: Sequence[tuple[Call, Sequence[Any]]], frees: bool, asked: list[tuple[int, int]] | None = None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What `play` takes: the calls, each with its arguments, numbers as they are. Memory is an address, a pair of which array given to
    `play` it is in and how far into that, or a list of words of these kinds, which become a part of the program. Of floats that
    have an `index`, `asked` is told in which word they are."""
    patches: list[int] = []
    body: list[int] = []
    tables: list[tuple[int, list[Any]]] = []
    for call, values in calls:
        words, placed, numbers = laid(call, values)
        if asked is not None:
            asked += [(len(body) + 2 + place, index) for place, index in numbers]
        for place, value in placed:
            if isinstance(value, list):
                tables.append((len(body) + 2 + place, value))
            else:
                patches += [len(body) + 2 + place, *value]
        body += [2 + len(words), call.pieces, *words]
    places = []
    for place, table in tables:
        places.append((place, len(body)))
        for word in table:
            if isinstance(word, tuple):
                patches += [len(body), *word]
            body.append(0 if isinstance(word, tuple) else word)
    begin = 4 + len(patches)
    if asked is not None:
        asked[:] = [(begin + place, index) for place, index in asked]
    patches[::3] = [place + begin for place in patches[::3]]
    made = np.array([len(calls), len(patches) // 3, begin, frees, *patches, *body], np.int64)
    for place, at in places:
        made[begin + place] = made.ctypes.data + 8 * (begin + at)
    return made


@cached(1)
def player() -> Callable[..., None]:
    """`play(program, crew, helpers, *arrays)`."""
    return function("play", "")


def by_ctypes(kinds: str) -> Callable[..., None]:
    """What `free` would be, of any list and anywhere."""
    types = [{"b": ctypes.c_void_p, "q": ctypes.c_int64, "d": ctypes.c_double}[k] for k in kinds]
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, *types)

    def launch(address: int, n: int, *args: Any) -> None:
        prototype(address)(0, n, *[a.ctypes.data if k == "b" else a for a, k in zip(args, kinds)])

    return launch
