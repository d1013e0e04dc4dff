"""Several kernels done by strips: all of them on the first part of their ranges, then all on the next.

Promises `blocks()`, the address of a kernel whose items are such parts and whose one argument is a table, and `table(parts, room)`, the
words of that. What the kernels leave to one another and nobody else reads is in memory on the stack, as much as a part needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached
from nbgrad.kernels import build, calls

# The table: how many calls there are, and bytes of room; of each call its length in words, items in a part, words that move and words of
# its own, these, and of each that moves which it is and by how many bytes the place of its first item moves back from part to part.
_BLOCKS = """
define void @blocks(i64 %start, i64 %stop, ptr %table) {
  %count = load i64, ptr %table
  %at_room = getelementptr i64, ptr %table, i64 1
  %bytes = load i64, ptr %at_room
  %room = alloca i8, i64 %bytes, align 64
  %base = ptrtoint ptr %room to i64
  %call = alloca [$WORDS x i64], align 16
  %first = getelementptr i64, ptr %table, i64 2
  br label %part
part:
  %b = phi i64 [%start, %0], [%b1, %parted]
  %some = icmp slt i64 %b, %stop
  br i1 %some, label %look, label %end
look:
  %k = phi i64 [0, %part], [%k1, %run]
  %at = phi ptr [%first, %part], [%next, %run]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %take, label %parted
take:
  %length = load i64, ptr %at
  %at_items = getelementptr i64, ptr %at, i64 1
  %items = load i64, ptr %at_items
  %at_moves = getelementptr i64, ptr %at, i64 2
  %moves = load i64, ptr %at_moves
  %at_words = getelementptr i64, ptr %at, i64 3
  %words = load i64, ptr %at_words
  %from = getelementptr i64, ptr %at, i64 4
  %moved = getelementptr i64, ptr %from, i64 %words
  br label %copy
copy:
  %w = phi i64 [0, %take], [%w1, %copy_one]
  %more_words = icmp slt i64 %w, %words
  br i1 %more_words, label %copy_one, label %move
copy_one:
  %from_word = getelementptr i64, ptr %from, i64 %w
  %value = load i64, ptr %from_word
  %to_word = getelementptr i64, ptr %call, i64 %w
  store i64 %value, ptr %to_word
  %w1 = add i64 %w, 1
  br label %copy
move:
  %m = phi i64 [0, %copy], [%m1, %move_one]
  %more_moves = icmp slt i64 %m, %moves
  br i1 %more_moves, label %move_one, label %run
move_one:
  %row = mul i64 %m, 2
  %at_which = getelementptr i64, ptr %moved, i64 %row
  %which = load i64, ptr %at_which
  %at_step = getelementptr i64, ptr %at_which, i64 1
  %step = load i64, ptr %at_step
  %far = mul i64 %b, %step
  %place = getelementptr i64, ptr %call, i64 %which
  %offset = load i64, ptr %place
  %there = add i64 %offset, %base
  %back = sub i64 %there, %far
  store i64 %back, ptr %place
  %m1 = add i64 %m, 1
  br label %move
run:
  %begin = mul i64 %b, %items
  %last = add i64 %begin, %items
  call void @invoke(ptr %call, i64 %begin, i64 %last)
  %next = getelementptr i64, ptr %at, i64 %length
  %k1 = add i64 %k, 1
  br label %look
parted:
  %b1 = add i64 %b, 1
  br label %part
end:
  ret void
}
"""


class Part(NamedTuple):
    """A call, its arguments, and how many of its items are in a part."""

    call: calls.Call
    args: Sequence[Any]
    items: int


class Strip(NamedTuple):
    """An argument: how far it is into the room, and bytes of a part."""

    offset: int
    step: int


@cached(1)
def blocks() -> int:
    text = build.filled(_BLOCKS, WORDS=calls.WORDS) + calls.invoke()
    return build.native("blocks", text, ["blocks"], "kernels by strips")["blocks"]


def table(parts: Sequence[Part], room: int) -> list[Any]:
    """What `calls.program` takes for the kernel's argument."""
    words: list[Any] = [len(parts), room]
    for call, args, items in parts:
        laid, placed, _ = calls.laid(call, args)
        moves: list[int] = []
        for place, value in placed:
            if isinstance(value, Strip):
                moves += [place, value.step]
                value = value.offset
            laid[place] = value
        words += [4 + len(laid) + len(moves), items, len(moves) // 2, len(laid), *laid, *moves]
    return words
