"""The register tile of products: functions in LLVM's own language, of vectors as wide as the machine's.

Promises kernels (by way of `cpu/tile.py`, under whose names they call them) a definition for each name, whoever compiles:

`outer_f4_12x2x16(k, a, row, along, b, ldb, c, ldc, have, columns, how, d, ldd)`, whose addresses and steps are in bytes, multiplies 12 rows
of `a` by `k` rows of two vectors of 16 of `b`: an element of `c` is one chain of fused multiplications and additions, k ascending, so its
bits are those of any other shape. Of the rows only `have` exist; those beyond are the last again. With `edge` in place of `outer` only
`columns` columns exist. `how` is a sum: `MORE`, if the chain is added to what `c` holds; `PLUS`, if then a row of `d` is; `FLOOR`, if
what is negative becomes 0. Of integers it is sums of products, which wrap.

`tabled_f4_12x2x16` is `outer` for rows of `b` that lie anywhere: at `b` and the next of the int64 that stand from the address `ldb` on;
`lined` in its place is for rows of `a` that do, with their places at the address `row`.

`taps_f4_4x2x16(k, a, b, table, ldb, c, ldc, have, columns, add)` is for rows of `b` that are not shared: a number of `a` multiplies in 4
rows, `ldb` apart, what lies the table's place behind each. The number at `add` is added to each chain.
`shifts_f4_9x16(rows, g, ldg, x, ldx, table, have, columns, sums)` multiplies rows of one vector `g` by those of `x`, seen from each of 9
places, lane by lane, and adds that to 9 vectors `sums`. Beyond `columns` nothing is read.

`move_f4_2x16(source, source_step, to, to_step, rows, columns)` copies that many columns of at most two vectors, with zeros behind.
`turn_f4_16(source, source_step, have, to, to_step, k)` writes `k` rows of 16 numbers, of which each comes from another line; of the lines,
too, those beyond are the last again. It writes whole blocks: up to 15 rows more.
`linesin_f4_8(lines, places, blocks, rows, step, by)` turns 8 lines, which begin at the places (int64, in numbers) of a table, into rows
`step` apart, 8 numbers of each line for each block. At `by` are two factors, of even and of odd rows, and two numbers that are added then.
`linesout_f4_8`, of the same arguments, turns rows, times the factors, into lines.
`dots_f4_4x2x8(k, a, row, b, have, to)` multiplies each of 4 rows by one vector: a row's sum is that of 16 chains, which meet in pairs. That
shape is the same on all machines, since bits depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached

MORE, PLUS, FLOOR = 1, 2, 4
MIDDLE = 8  # rows of another `edge` where tiles are higher: a recurrent layer's, which takes that many through the steps
LINE = 16  # vectors of the tile of one row, which reads lines of up to 1 KB: of 8 it takes a fifth longer
HALF = LINE // 2  # of which eight chains keep both units busy
QUARTER = LINE // 4  # for matrices 64 wide, which take 1.8 of the time where they are read as two halves
_KINDS = {"f4": ("float", 32), "f8": ("double", 64), "i4": ("i32", 32), "i8": ("i64", 64)}
WIDE = 512  # bits of a vector that asks for more than the level that code is made for
BEYOND = '"target-cpu"="x86-64-v4"'  # what a function says that asks so


class Shape(NamedTuple):
    """The two heights of tiles, vectors in a row, and lanes of a vector."""

    rows: tuple[int, int]
    vectors: int
    lanes: int


# By how wide vectors are. Of AVX's 16 registers 12 hold sums, of the 32 of AVX-512 and of NEON 24. GFLOP/s of a core of a Zen 5 whose
# best are 131 and 262: 6 x 2 x 8 131, 4 x 3 x 8 130; 12 x 2 x 16 262, 14 x 2 260, 8 x 3 258, 4 x 2 229. NEON's is not measured.
SHAPES: dict[int, dict[str, Shape]] = {
    512: {c: Shape((12, 4), 2, 64 // int(c[1])) for c in _KINDS},
    256: {c: Shape((6, 4), 2, 32 // int(c[1])) for c in _KINDS},
    128: {c: Shape((8, 4), 3, 16 // int(c[1])) for c in _KINDS},
}


OUTER = ("k", "a", "row", "along", "b", "ldb", "c", "ldc", "have", "columns", "how", "d", "ldd")
MOVE = ("source", "source_step", "to", "to_step", "rows", "columns")
TAPS = ("k", "a", "b", "table", "ldb", "c", "ldc", "have", "columns", "add")
SHIFTS = ("rows", "g", "ldg", "x", "ldx", "table", "have", "columns", "sums")
WINDOW = 9  # places of `shifts`, those of a 3 x 3 window
DOTS = ("k", "a", "row", "b", "have", "to")
LINES = ("lines", "places", "blocks", "rows", "step", "by")
TURN = ("source", "source_step", "have", "to", "to_step", "k")


class _Text:
    """The lines of a function on vectors, with names for what they make; `declared` are the intrinsics that they call."""

    def __init__(self, code: str, lanes: int) -> None:
        self.kind, self.bits = _KINDS[code]
        self.float = code[0] == "f"
        self.lanes, self.size = lanes, self.bits // 8
        self.vector, self.mask_type = f"<{lanes} x {self.kind}>", f"<{lanes} x i1>"
        self.lines: list[str] = []
        self.made_later: list[str] = []  # at the end of the loop
        self.declared: dict[str, str] = {}
        self.count = 0

    def line(self, text: str) -> None:
        self.lines.append(text)

    def made(self, operation: str, name: str = "") -> str:
        self.count += 1
        name = name or f"%v{self.count}"
        self.line(f"{name} = {operation}")
        return name

    def start(self, label: str) -> None:
        """A block that the one before leads to."""
        self.line(f"br label %{label}")
        self.line(f"{label}:")

    def intrinsic(self, name: str, result: str, params: str, given: str, to: str = "") -> str:
        name = f"llvm.{name}.v{self.lanes}{'f' if self.float else 'i'}{self.bits}" + ".p0" * name.startswith(
            "masked"
        )
        self.declared[name] = f"declare {result} @{name}({params})"
        call = f"call {result} @{name}({given})"
        if result == "void":
            self.line(call)
            return ""
        return self.made(call, to)

    def flag(self, flags: str, flag: int) -> str:
        return self.made(f"icmp ne i64 {self.made(f'and i64 {flags}, {flag}')}, 0")

    def place(self, base: str, far: int | str) -> str:
        """An address in bytes."""
        return base if far == 0 else self.made(f"add i64 {base}, {far}")

    def pointer(self, address: str) -> str:
        return self.made(f"inttoptr i64 {address} to ptr")

    def load(self, address: str, mask: str = "") -> str:
        p, v = self.pointer(address), self.vector
        if not mask:
            return self.made(f"load {v}, ptr {p}, align {self.size}")
        given = f"ptr {p}, i32 {self.size}, {self.mask_type} {mask}, {v} zeroinitializer"
        return self.intrinsic("masked.load", v, f"ptr, i32, {self.mask_type}, {v}", given)

    def store(self, value: str, address: str, mask: str = "") -> None:
        p, v = self.pointer(address), self.vector
        if not mask:
            self.line(f"store {v} {value}, ptr {p}, align {self.size}")
            return
        given = f"{v} {value}, ptr {p}, i32 {self.size}, {self.mask_type} {mask}"
        self.intrinsic("masked.store", "void", f"{v}, ptr, i32, {self.mask_type}", given)

    def fetch(self, address: str) -> None:
        """Memory that will be written is on its way to the cache meanwhile."""
        self.declared["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        self.line(f"call void @llvm.prefetch.p0(ptr {self.pointer(address)}, i32 1, i32 3, i32 1)")

    def everywhere(self, kind: str, value: str) -> str:
        """A vector of one number."""
        of = f"<{self.lanes} x {kind}>"
        one = self.made(f"insertelement {of} poison, {kind} {value}, i32 0")
        places = f"<{self.lanes} x i32> zeroinitializer"
        return self.made(f"shufflevector {of} {one}, {of} poison, {places}")

    def number(self, address: str) -> str:
        """A vector of the number that lies there."""
        one = self.made(f"load {self.kind}, ptr {self.pointer(address)}, align {self.size}")
        return self.everywhere(self.kind, one)

    def mask(self, columns: str, first: int | str) -> str:
        """Which lanes stand for columns, of which the first lane is number `first`."""
        left = self.made(f"sub i64 {columns}, {first}")
        left = self.everywhere("i32", self.made(f"trunc i64 {left} to i32"))
        lanes = ", ".join(f"i32 {k}" for k in range(self.lanes))
        return self.made(f"icmp slt <{self.lanes} x i32> <{lanes}>, {left}")

    def fma(self, x: str, y: str, z: str, name: str) -> None:
        v = self.vector
        if self.float:
            self.intrinsic("fma", v, f"{v}, {v}, {v}", f"{v} {x}, {v} {y}, {v} {z}", name)
        else:
            self.made(f"add {v} {self.made(f'mul {v} {x}, {y}')}, {z}", name)

    def shuffled(self, x: str, y: str, places: list[int]) -> str:
        mask = ", ".join(f"i32 {k}" for k in places)
        v = self.vector
        return self.made(f"shufflevector {v} {x}, {v} {y}, <{self.lanes} x i32> <{mask}>")

    def rows_of(self, start: str, step: str, count: int, have: str) -> list[str]:
        """The addresses of rows; those beyond the first `have` are the last again."""
        last = self.made(f"sub i64 {have}, 1")
        found = [start]
        for k in range(1, count):
            exists = self.made(f"icmp slt i64 {k}, {have}")
            at = self.made(f"select i1 {exists}, i64 {k}, i64 {last}")
            found.append(self.place(start, self.made(f"mul i64 {at}, {step}")))
        return found

    def rows_at(self, start: str, table: str, count: int, have: str) -> list[str]:
        """The same of rows that lie from `start` as far as a table of int64 says."""
        places = self.rows_of(table, "8", count, have)
        return [self.place(start, self.made(f"load i64, ptr {self.pointer(at)}")) for at in places]

    def text(self, name: str, params: tuple[str, ...]) -> str:
        wide = self.lanes * self.bits == WIDE
        attributes = f' {BEYOND} "prefer-vector-width"="512"' if wide else ""
        head = f"define weak_odr hidden void @{name}({', '.join(f'i64 %{p}' for p in params)})"
        return "\n".join([f"{head} noinline nounwind{attributes} {{", "entry:", *self.lines, "ret void", "}"])


def _outer(w: _Text, rows: int, vectors: int, kind: str) -> None:
    far = w.lanes * w.size
    room = w.made(f"alloca [{rows * vectors} x {w.vector}], align 64")
    w.made(f"ptrtoint ptr {room} to i64", "%sums")
    masks = [w.mask("%columns", j * w.lanes) if kind == "edge" else "" for j in range(vectors)]
    a = w.rows_at("%a", "%row", rows, "%have") if kind == "lined" else w.rows_of("%a", "%row", rows, "%have")
    c = w.rows_of("%c", "%ldc", rows, "%have")
    cells = [(i, j) for i in range(rows) for j in range(vectors)]
    for i, j in cells:
        w.fetch(w.place(c[i], j * far))
    w.start("loop")
    for counter, begin in (("n", "0"), ("pa", "0"), ("pb", "%ldb" if kind == "tabled" else "%b")):
        w.made(f"phi i64 [ {begin}, %entry ], [ %{counter}1, %loop ]", f"%{counter}")
    for i, j in cells:
        w.made(f"phi {w.vector} [ zeroinitializer, %entry ], [ %next{i}.{j}, %loop ]", f"%sum{i}.{j}")
    b_row = "%pb"
    if kind == "tabled":
        b_row = w.place("%b", w.made(f"load i64, ptr {w.pointer('%pb')}"))
    b = [w.load(w.place(b_row, j * far), masks[j]) for j in range(vectors)]
    for i in range(rows):
        x = w.number(w.place(a[i], "%pa"))
        for j in range(vectors):
            w.fma(x, b[j], f"%sum{i}.{j}", f"%next{i}.{j}")
    for counter, by in (("n", "1"), ("pa", "%along"), ("pb", "8" if kind == "tabled" else "%ldb")):
        w.made(f"add i64 %{counter}, {by}", f"%{counter}1")
    w.made("icmp slt i64 %n1, %k", "%again")
    w.line("br i1 %again, label %loop, label %done")
    w.line("done:")
    w.made("icmp eq i64 %how, 0", "%plain")
    w.line("br i1 %plain, label %kept, label %other")
    w.line("kept:")
    for i, j in cells:
        w.store(f"%next{i}.{j}", w.place(c[i], j * far), masks[j])
    w.line("ret void")
    w.line("other:")
    for i, j in cells:
        w.store(f"%next{i}.{j}", w.place("%sums", (i * vectors + j) * far))
    w.made(f"icmp slt i64 %have, {rows}", "%few")
    w.made(f"select i1 %few, i64 %have, i64 {rows}", "%count")
    more, plus, floor = (w.flag("%how", flag) for flag in (MORE, PLUS, FLOOR))
    w.start("rows")
    for name, begin in (("%r", "0"), ("%pc", "%c"), ("%pd", "%d"), ("%ps", "%sums")):
        w.made(f"phi i64 [ {begin}, %other ], [ {name}1, %rows ]", name)
    for j in range(vectors):
        at, v = w.place("%pc", j * far), w.vector
        total = w.load(w.place("%ps", j * far))
        for told, other in ((more, at), (plus, w.place("%pd", j * far))):
            added = w.made(f"{'fadd' if w.float else 'add'} {v} {w.load(other, masks[j])}, {total}")
            total = w.made(f"select i1 {told}, {v} {added}, {v} {total}")
        below = w.made(f"{'fcmp olt' if w.float else 'icmp slt'} {v} {total}, zeroinitializer")
        low = w.made(f"select i1 {floor}, {w.mask_type} {below}, {w.mask_type} zeroinitializer")
        w.store(w.made(f"select {w.mask_type} {low}, {v} zeroinitializer, {v} {total}"), at, masks[j])
    for name, by in (("%r", "1"), ("%pc", "%ldc"), ("%pd", "%ldd"), ("%ps", str(vectors * far))):
        w.made(f"add i64 {name}, {by}", f"{name}1")
    w.made("icmp slt i64 %r1, %count", "%further")
    w.line("br i1 %further, label %rows, label %end")
    w.line("end:")


def _taps(w: _Text, rows: int, vectors: int) -> None:
    far, v = w.lanes * w.size, w.vector
    masks = [w.mask("%columns", j * w.lanes) for j in range(vectors)]
    b, c = (w.rows_of(f"%{name}", f"%ld{name}", rows, "%have") for name in "bc")
    add = w.number("%add")
    cells = [(i, j) for i in range(rows) for j in range(vectors)]
    w.start("loop")
    for counter, begin in (("n", "0"), ("pa", "%a"), ("pt", "%table")):
        w.made(f"phi i64 [ {begin}, %entry ], [ %{counter}1, %loop ]", f"%{counter}")
    for i, j in cells:
        w.made(f"phi {v} [ zeroinitializer, %entry ], [ %next{i}.{j}, %loop ]", f"%sum{i}.{j}")
    x, place = w.number("%pa"), w.made(f"load i64, ptr {w.pointer('%pt')}")
    for i in range(rows):
        row = w.place(b[i], place)
        for j in range(vectors):
            w.fma(x, w.load(w.place(row, j * far)), f"%sum{i}.{j}", f"%next{i}.{j}")
    for counter, by in (("n", 1), ("pa", w.size), ("pt", 8)):
        w.made(f"add i64 %{counter}, {by}", f"%{counter}1")
    w.made("icmp slt i64 %n1, %k", "%again")
    w.line("br i1 %again, label %loop, label %done")
    w.line("done:")
    for i, j in cells:
        total = w.made(f"{'fadd' if w.float else 'add'} {v} %next{i}.{j}, {add}")
        w.store(total, w.place(c[i], j * far), masks[j])


def _shifts(w: _Text) -> None:
    far, v = w.lanes * w.size, w.vector
    mask = w.mask("%columns", 0)
    x = w.rows_at("%x", "%table", WINDOW, "%have")
    was = [w.load(w.place("%sums", t * far)) for t in range(WINDOW)]
    w.start("loop")
    for counter, begin in (("n", "0"), ("pg", "%g"), ("px", "0")):
        w.made(f"phi i64 [ {begin}, %entry ], [ %{counter}1, %loop ]", f"%{counter}")
    for t in range(WINDOW):
        w.made(f"phi {v} [ {was[t]}, %entry ], [ %next{t}, %loop ]", f"%sum{t}")
    g = w.load("%pg", mask)
    for t in range(WINDOW):
        w.fma(w.load(w.place(x[t], "%px"), mask), g, f"%sum{t}", f"%next{t}")
    for counter, by in (("n", "1"), ("pg", "%ldg"), ("px", "%ldx")):
        w.made(f"add i64 %{counter}, {by}", f"%{counter}1")
    w.made("icmp slt i64 %n1, %rows", "%again")
    w.line("br i1 %again, label %loop, label %done")
    w.line("done:")
    for t in range(WINDOW):
        w.store(f"%next{t}", w.place("%sums", t * far))


def _counted(w: _Text, step: int, end: str, *moved: tuple[str, str]) -> None:
    """Begins a loop of `%n` below `end`; `moved` are addresses and how far they go in a round."""
    w.made(f"icmp slt i64 0, {end}", "%some")
    w.line("br i1 %some, label %loop, label %done")
    w.line("loop:")
    for name, by, begin in (("%n", str(step), "0"), *((f"%at_{at}", by, f"%{at}") for at, by in moved)):
        w.made(f"phi i64 [ {begin}, %entry ], [ {name}1, %loop ]", name)
        w.made_later.append(f"{name}1 = add i64 {name}, {by}")


def _again(w: _Text, end: str) -> None:
    w.lines += w.made_later
    w.made(f"icmp slt i64 %n1, {end}", "%again")
    w.line("br i1 %again, label %loop, label %done")
    w.line("done:")


def _move(w: _Text, vectors: int) -> None:
    far = w.lanes * w.size
    masks = [w.mask("%columns", j * w.lanes) for j in range(vectors)]
    _counted(w, 1, "%rows", ("source", "%source_step"), ("to", "%to_step"))
    for j in range(vectors):
        w.store(w.load(w.place("%at_source", j * far), masks[j]), w.place("%at_to", j * far))
    _again(w, "%rows")


def _turn(w: _Text) -> None:
    """In the first of log2(lanes) rounds lanes of lines half of all apart meet, and so on."""
    n, half = w.lanes, w.lanes // 2
    w.made(f"mul i64 %to_step, {n}", "%block")
    lines = w.rows_of("0", "%source_step", n, "%have")
    _counted(w, n, "%k", ("source", str(n * w.size)), ("to", "%block"))
    mask = w.mask("%k", "%n")
    v = [w.load(w.place("%at_source", line), mask) for line in lines]
    low = [place for k in range(half) for place in (k, n + k)]
    high = [place for k in range(half, n) for place in (k, n + k)]
    for _ in range(n.bit_length() - 1):
        v = [w.shuffled(v[k], v[k + half], places) for k in range(half) for places in (low, high)]
    for k in range(n):
        w.store(v[k], w.place("%at_to", w.made(f"mul i64 %to_step, {k}")))
    _again(w, "%k")


def _turned(w: _Text, v: list[str]) -> list[str]:
    """Of both halves of vectors, each by itself, as there are instructions for that."""
    n, half = w.lanes, w.lanes // 2
    quarter = half // 2
    low, high = (
        [side + k + line for side in (0, half) for k in range(first, first + quarter) for line in (0, n)]
        for first in (0, quarter)
    )
    for _ in range(half.bit_length() - 1):
        v = [w.shuffled(v[k], v[k + quarter], places) for k in range(quarter) for places in (low, high)]
    return v


def _lines(w: _Text, out: bool) -> None:
    n, half, v = w.lanes, w.lanes // 2, w.vector
    part = f"<{half} x {w.kind}>"
    w.made(f"mul i64 %step, {n}", "%block")
    places = [w.made(f"load i64, ptr {w.pointer(w.place('%places', 8 * k))}") for k in range(n)]
    places = [w.made(f"mul i64 {place}, {w.size}") for place in places]
    by = [w.number(w.place("%by", k * w.size)) for k in range(4)]
    _counted(w, 1, "%blocks", ("lines", str(n * w.size)), ("rows", "%block"))
    lines = [w.place("%at_lines", place) for place in places]
    rows = [w.place("%at_rows", w.made(f"mul i64 %step, {k}")) for k in range(n)]

    def mask(places: Iterable[int]) -> str:
        named = [f"i32 {k}" for k in places]
        return f"<{len(named)} x i32> <{', '.join(named)}>"

    def scaled(x: str, k: int) -> str:
        return w.intrinsic("fma", v, f"{v}, {v}, {v}", f"{v} {x}, {v} {by[k % 2]}, {v} {by[2 + k % 2]}")

    for first in (0, half):
        ends = [
            [w.pointer(w.place(lines[k + other], first * w.size)) for other in (0, half)] for k in range(half)
        ]
        if out:
            found = _turned(w, [scaled(w.load(rows[first + k]), first + k) for k in range(half)])
            for both, two in zip(found, ends):
                for side, end in enumerate(two):
                    taken = mask(range(side * half, side * half + half))
                    one = w.made(f"shufflevector {v} {both}, {v} poison, {taken}")
                    w.line(f"store {part} {one}, ptr {end}, align {w.size}")
            continue
        given = []
        for two in ends:
            low, high = (w.made(f"load {part}, ptr {end}, align {w.size}") for end in two)
            given.append(w.made(f"shufflevector {part} {low}, {part} {high}, {mask(range(n))}"))
        for k, there in enumerate(_turned(w, given)):
            w.store(scaled(there, first + k), rows[first + k])
    _again(w, "%blocks")


def _dots(w: _Text) -> None:
    rows, n, v = 4, w.lanes, w.vector
    far, cells = n * w.size, [(i, j) for i in range(rows) for j in range(2)]
    a = w.rows_of("%a", "%row", rows, "%have")
    to = w.rows_of("%to", str(w.size), rows, "%have")
    w.made(f"and i64 %k, {-2 * n}", "%whole")
    w.made("icmp slt i64 0, %whole", "%some")
    w.line("br i1 %some, label %loop, label %tail")

    def added(at: str, sums: str, names: str, masks: tuple[str, str]) -> None:
        for j, mask in enumerate(masks):
            there = w.place(at, j * far)
            y = w.load(w.place("%b", there), mask)
            for i in range(rows):
                w.fma(w.load(w.place(a[i], there), mask), y, f"{sums}{i}.{j}", f"{names}{i}.{j}")

    w.line("loop:")
    for counter in ("n", "at"):
        w.made(f"phi i64 [ 0, %entry ], [ %{counter}1, %loop ]", f"%{counter}")
    for i, j in cells:
        w.made(f"phi {v} [ zeroinitializer, %entry ], [ %next{i}.{j}, %loop ]", f"%sum{i}.{j}")
    added("%at", "%sum", "%next", ("", ""))
    w.made(f"add i64 %n, {2 * n}", "%n1")
    w.made(f"add i64 %at, {2 * far}", "%at1")
    w.made("icmp slt i64 %n1, %whole", "%again")
    w.line("br i1 %again, label %loop, label %tail")
    w.line("tail:")
    w.made("phi i64 [ 0, %entry ], [ %at1, %loop ]", "%behind")
    for i, j in cells:
        w.made(f"phi {v} [ zeroinitializer, %entry ], [ %next{i}.{j}, %loop ]", f"%so_far{i}.{j}")
    w.made("sub i64 %k, %whole", "%rest")
    added("%behind", "%so_far", "%all", (w.mask("%rest", 0), w.mask("%rest", n)))
    for i in range(rows):
        total, apart = w.made(f"fadd {v} %all{i}.0, %all{i}.1"), n // 2
        while apart:
            total = w.made(f"fadd {v} {total}, {w.shuffled(total, total, [k ^ apart for k in range(n)])}")
            apart //= 2
        one = w.made(f"extractelement {v} {total}, i32 0")
        w.line(f"store {w.kind} {one}, ptr {w.pointer(to[i])}, align {w.size}")


class _Named(NamedTuple):
    params: tuple[str, ...]
    code: str
    lanes: int
    write: Callable[[_Text], None]


def _named() -> Iterator[tuple[str, _Named]]:
    for shapes in SHAPES.values():
        for code, ((high, low), most, lanes) in shapes.items():
            for kind, rows, vectors in (
                ("outer", 1, LINE),
                ("outer", 1, HALF),
                ("outer", 1, QUARTER),
                ("outer", high, most),
                ("edge", high, most),
                ("edge", high, 1),
                ("edge", low, most),
                ("tabled", high, most),
                ("tabled", high, 1),
                ("tabled", low, most),
                ("lined", high, most),
                ("lined", high, 1),
            ):
                write = partial(_outer, rows=rows, vectors=vectors, kind=kind)
                yield f"{kind}_{code}_{rows}x{vectors}x{lanes}", _Named(OUTER, code, lanes, write)
            if high > MIDDLE:
                write = partial(_outer, rows=MIDDLE, vectors=most, kind="edge")
                yield f"edge_{code}_{MIDDLE}x{most}x{lanes}", _Named(OUTER, code, lanes, write)
            for vectors in {most, -(-high // lanes)}:
                write = partial(_move, vectors=vectors)
                yield f"move_{code}_{vectors}x{lanes}", _Named(MOVE, code, lanes, write)
            yield f"turn_{code}_{lanes}", _Named(TURN, code, lanes, _turn)
            write = partial(_taps, rows=low, vectors=most)
            yield f"taps_{code}_{low}x{most}x{lanes}", _Named(TAPS, code, lanes, write)
            yield f"shifts_{code}_{WINDOW}x{lanes}", _Named(SHIFTS, code, lanes, _shifts)
    for code, lanes in (("f4", 8), ("f8", 4)):
        yield f"dots_{code}_4x2x{lanes}", _Named(DOTS, code, lanes, _dots)
        for kind, out in (("in", False), ("out", True)):
            yield f"lines{kind}_{code}_{lanes}", _Named(LINES, code, lanes, partial(_lines, out=out))


@cached(1)
def functions() -> dict[str, _Named]:
    """What there is, by name."""
    return dict(_named())


def params(name: str) -> tuple[str, ...]:
    return functions()[name].params


@cached(None)
def definitions(name: str) -> dict[str, str]:
    """The function and the intrinsics that it calls, by name."""
    names, code, lanes, write = functions()[name]
    w = _Text(code, lanes)
    write(w)
    return w.declared | {name: w.text(name, names)}
