"""CUDA kernels of our own, as the case table asks for them, on the CPU against the CPU's kernels.

One in sixteen of the texts, by their names; `--whole`, by hand, takes all.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import build, calls
from nbgrad.kernels.cuda.own import Own
from tests.cuda.emulation import alike, kinds, seen, without_barriers
from tests.cuda.texts import Launch, Table, Text, alone, given, one_in

pytestmark = pytest.mark.cuda

EXACT = ("templates.", "cpu.index.", "cpu.sort.")  # families that round as the CPU does


@pytest.fixture(scope="session")
def part(table: Table, whole: bool) -> list[tuple[Text, Own]]:
    """What is tried: of formulas few, of other families many."""
    found = [text for text in table if text.own is not None]
    formulas = [text for text in found if text.family == "templates.elementwise"]
    others = [text for text in found if text.family != "templates.elementwise"]
    chosen = found if whole else [*one_in(32, formulas), *one_in(3, others)]
    return [(text, text.own) for text in chosen if text.own is not None]


def same(family: str, got: Any, want: Any) -> bool:
    if family.startswith(EXACT) or want.dtype.kind != "f":
        return bool(got.tobytes() == want.tobytes())
    rtol = 1e-12 if want.dtype == np.float64 else 4e-6
    return bool(np.allclose(got, want, rtol=rtol, atol=rtol, equal_nan=True))


def unturned(name: str, got: Any, want: Any) -> Any:
    """Angles of running sums of complex numbers less the whole turns that hang on the order in which parts are joined."""
    if not name.startswith("logcumsumexp_c"):
        return got
    turns = np.round((got - want) / (2 * np.pi))
    return np.where(np.arange(got.size) % 2 == 1, got - turns * (2 * np.pi), got).astype(got.dtype)


@pytest.mark.parametrize("shard", range(4))
def test_a_grid_gives_what_the_cpu_gives(table: Table, part: list[tuple[Text, Own]], shard: int) -> None:
    """In every order of threads, with few blocks and with many."""
    compared = 0
    for text, own in part[shard::4]:
        launch = table[text]
        if launch is None or not (own.alone if alone(text, launch) else own.many):
            continue
        want = given(text, launch)
        cpu = build.kernel(text.name, text.source, text.params)
        calls.by_ctypes(kinds(text.params[2:]))(cpu.address, launch.items, *want)
        want = [a for a in want if isinstance(a, np.ndarray)]
        for blocks in (1, 5):
            found = alike(text.name, own.source, own.params, blocks, [launch.items, *given(text, launch)])
            for g, w in zip(found, want, strict=True):
                g = unturned(text.name, g, w)
                assert same(text.family, g, w), f"{text.name} {text.params}: {g} is not {w}"
        compared += 1
    assert compared > 10


def _size(launch: Launch | None) -> int:
    return sum(a.nbytes for a in launch.args if isinstance(a, np.ndarray)) if launch else 0


def test_each_barrier_is_missed(table: Table) -> None:
    """Of one text of every shape that a family's have; not of those that join truth values, of which many hide one that is wrong, and not
    of copies and of scans of several arrays: lines are shorter here than a stretch of theirs (`test_turned.py`, `test_long.py`); nor of
    rows that are so few that all lie abreast in the blocks, where none follows another."""
    shapes: dict[tuple[str, int, int], Text] = {}
    for text, launch in table.items():
        apart = text.name.startswith(("any", "all", "copy", "cummax", "cummin", "recurrence"))
        apart |= text.family.startswith("cpu.rows.") and launch is not None and launch.items <= 64
        if text.own is not None and launch is not None and "syncthreads" in text.own.source and not apart:
            lines = text.own.source.count("\n")
            key = text.family, text.own.source.count("syncthreads"), lines // 8
            shapes[key] = max(shapes.get(key, text), text, key=lambda t: _size(table[t]))
    removed, missed = 0, []
    for text in shapes.values():
        own, launch = text.own, table[text]
        assert own is not None and launch is not None
        for k, source in enumerate(without_barriers(own.source)):
            args = [launch.items, *given(text, launch)]
            if not seen(partial(alike, text.name, source, own.params, 2, args)):
                missed.append(f"{text.family} {text.name} {text.params}: barrier {k}")
            removed += 1
    assert removed > 20 and not missed, "\n".join(missed)
