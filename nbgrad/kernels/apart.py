"""Of a text that Numba made: that the turns of loops which gather in any order touch no memory of each other.

Promises `apart(text)`: to LLVM it says what `dialect_code.py` says where it writes a loop itself (`_turns_are_apart`, which tells why), of
the innermost loops that hold one of `fold.py`'s operations and write something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_NAME = r'("[^"]+"|[\w.$-]+)'
_FUNCTION = re.compile(r"^define [^\n]*\{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(rf"^{_NAME}:")
_WAY = re.compile(rf"label %{_NAME}")
_GATHERS = re.compile(r" = (fadd|fmul) reassoc |call nsz |select nnan nsz ")
_TOUCHES = re.compile(r"^  (store |(%\S+ = )?(tail )?(load |call (?!.*@llvm\.)))")
_NUMBER = re.compile(r"^!(\d+) = ", re.MULTILINE)


def apart(text: str) -> str:
    count = 1 + max((int(n) for n in _NUMBER.findall(text)), default=-1)
    said: list[str] = []

    def marked(function: re.Match[str]) -> str:
        lines = function[1].split("\n")
        for loop, latch in _gathering(lines):
            group, says, own = (f"!{count + len(said) + k}" for k in range(3))
            said.append(f"{group} = distinct !{{}}")
            said.append(f'{says} = !{{!"llvm.loop.parallel_accesses", {group}}}')
            said.append(f"{own} = distinct !{{{own}, {says}}}")
            for k in loop:
                if _TOUCHES.match(lines[k]):
                    lines[k] += f", !llvm.access.group {group}"
            lines[latch] += f", !llvm.loop {own}"
        begin, end = function.start(1) - function.start(), function.end(1) - function.start()
        return function[0][:begin] + "\n".join(lines) + function[0][end:]

    text = _FUNCTION.sub(marked, text)
    return f"{text}\n{chr(10).join(said)}\n" if said else text


def _gathering(lines: Sequence[str]) -> Iterator[tuple[Sequence[int], int]]:
    """The lines of each such loop, and the last of them, by which it begins again: loops of one block, as Numba's passes leave them."""
    begin, name = 0, ""
    for k, line in enumerate(lines):
        found = _BLOCK.match(line)
        if found is not None:
            begin, name = k + 1, found[1]
        elif line.startswith("  br ") and "!" not in line and name in _WAY.findall(line):
            loop = range(begin, k + 1)
            stores = any(lines[at].startswith("  store ") for at in loop)
            if stores and any(_GATHERS.search(lines[at]) for at in loop):
                yield loop, k
