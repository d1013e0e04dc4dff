"""What nbgrad remembers is bounded, counted, and forgotten when it is out of date."""

import ast
import gc
import subprocess
import sys
import threading

import nbgrad as torch
from nbgrad.base import tables
from nbgrad.base.tables import Table, cached
from nbgrad.memory.storage import spec
from nbgrad.utils import tables as counted
from nbgrad.utils._tables import Row
from tests.map import MODULES, name_of


def row(name: str) -> Row:
    (found,) = [r for r in counted(name) if r.name == name]
    return found


def test_a_full_table_is_begun_anew() -> None:
    table: Table[int, int] = Table("test.full", 3)
    assert [table.keep(k, -k) for k in range(3)] == [0, -1, -2]
    assert len(table) == 3
    assert table.keep(3, -3) == -3
    assert table == {3: -3}


def test_without_a_bound_nothing_goes() -> None:
    table: Table[int, int] = Table("test.lasting", None)
    for k in range(10000):
        table.keep(k, k)
    assert len(table) == 10000


def test_a_table_goes_with_who_has_it() -> None:
    table: Table[int, int] = Table("test.gone", 3)
    other: Table[int, int] = Table("test.gone", 3)
    table.keep(1, 1)
    other.keep(1, 1)
    assert row("test.gone") == ("test.gone", 2, 2, 3)
    del other
    gc.collect()
    assert row("test.gone") == ("test.gone", 1, 1, 3)


def test_forgetting() -> None:
    rests: Table[int, int] = Table("test.rests", 3, "the weather")
    stays: Table[int, int] = Table("test.stays", 3)
    rests.keep(1, 1)
    stays.keep(1, 1)
    tables.forget("the weather")
    assert (len(rests), len(stays)) == (0, 1)


def test_a_look_up_is_that_of_a_dict() -> None:
    assert Table.get is dict.get
    assert type(Table("test.plain", 3).get) is type({}.get)


def test_cached_functions_are_counted() -> None:
    calls = []

    @cached(2)
    def double(n: int) -> int:
        calls.append(n)
        return 2 * n

    assert [double(1), double(2), double(3), double(3)] == [2, 4, 6, 6]
    assert calls == [1, 2, 3]
    (found,) = [r for r in counted("test_cached") if r.name.endswith("double")]
    assert (found.tables, found.entries, found.bound) == (1, 2, 2)


def test_how_they_are_shown() -> None:
    table: Table[int, int] = Table("test.shown", 3)
    lasting: Table[int, int] = Table("test.shown_for_ever", None)
    empty: Table[int, int] = Table("test.shown_empty", 3)
    table.keep(1, 1)
    lasting.keep(1, 1)
    assert repr(counted("test.shown")).splitlines() == [
        "test.shown                1 of 3",
        "test.shown_for_ever       1 of any number",
        "and 1 names without entries",
    ]
    assert not empty


def test_threads_fill_a_table_together() -> None:
    table: Table[int, int] = Table("test.threads", 50)

    def fill(start: int) -> None:
        for k in range(start, start + 20000):
            assert table.keep(k % 997, k) == k
            table.get(k % 997)

    threads = [threading.Thread(target=fill, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(table) <= 50 + len(threads)


MANY = """
import nbgrad as torch
from nbgrad.base import tables
from nbgrad.utils import tables as counted

for t in tables.living():  # as many shapes as go over bounds that are this small take less time
    if isinstance(t, tables.Table) and t.bound is not None:
        t.bound = 20
for n in range(1, 60):
    w = torch.ones(n, 2, requires_grad=True)
    y = torch.cat([w.t() * 2.0, (w + 1)[:, None].sum(1).t()]).expand(3, 4, n).softmax(-1)
    y = y.transpose(0, 1)[1:].reshape(-1).cumsum(0) @ torch.zeros(9 * n) + torch.matmul(w.t(), w).sum()
    y.backward()
    w.detach().clone().add_(1.0).sort()
rows = counted()
full = [r.name for r in rows if r.bound == 20 and r.entries > 20 * r.tables]
assert not full, full
busy = [r.name for r in rows if r.bound == 20 and r.entries]
assert len(busy) >= 8, busy
assert len([r for r in rows if r.entries > 0]) > 20, rows
"""


def test_a_program_of_many_shapes_stays_within_the_bounds() -> None:
    subprocess.run([sys.executable, "-c", MANY], check=True)


def test_a_new_default_dtype_forgets() -> None:
    x = torch.ones(3, dtype=torch.int64)
    assert (x / 2).dtype is torch.float32
    assert torch.zeros(2).dtype is torch.float32
    assert row("core.op.plans").entries
    torch.set_default_dtype(torch.float64)
    try:
        resting = [t for t in tables.living() if isinstance(t, Table) and t.rests_on]
        assert resting
        assert not any(resting)
        assert (x / 2).dtype is torch.float64
        assert torch.zeros(2).dtype is torch.float64
        assert row("memory.storage.specs").entries, "what does not rest on it stays"
    finally:
        torch.set_default_dtype(torch.float32)
    assert (x / 2).dtype is torch.float32


def test_a_forked_child_keeps_its_tables_and_hires_helpers_of_its_own() -> None:
    code = """
import os, nbgrad as torch
from nbgrad.kernels import crew
from nbgrad.utils import tables
torch.set_num_threads(2)
x = torch.ones(100000)
(x * 2).sum()
kept, hired = tables(), crew._hired
child = os.fork()
if not child:
    # Threads do not live in a child, kernels and plans do.
    same = tables() == kept and hired > 0 and crew._hired == 0
    os._exit(0 if same and (x * 2).sum().item() == 200000 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and crew._hired == hired
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_say_where_they_stand() -> None:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Table":
                match node.args[0]:
                    case ast.Constant(value=name):
                        assert f"nbgrad.{name}".startswith(f"{name_of(path)}."), (path, name)


def test_specs_are_kept_within_their_bound() -> None:
    for n in range(row("memory.storage.specs").bound or 0):
        spec(torch.float32, (n, 1, 7), None, torch.device("cpu"))
    found = row("memory.storage.specs")
    assert found.bound is not None and found.entries <= found.bound


def test_nothing_is_remembered_elsewhere() -> None:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "functools":
                names = {alias.name for alias in node.names}
                assert name_of(path) == "nbgrad.base.tables" or not names & {"cache", "lru_cache"}, path
            if isinstance(node, ast.Attribute) and node.attr in ("cache", "lru_cache"):
                assert ast.unparse(node.value) not in ("functools", "ft"), path
