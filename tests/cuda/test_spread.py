"""The CPU's texts over a grid's threads: what each thread does, un-jitted."""

import random
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels.cuda.spread import Unspreadable, spread
from tests.cuda.texts import COUNTS, Table, alone, given, kept, of_host, spread_of

pytestmark = pytest.mark.cuda


def test_a_loop_over_the_items_is_one_over_the_grid() -> None:
    source = 'def @NAME@(start, stop, o, x):\n    """Copy."""\n    for i in range(start, stop):\n        o[i] = x[i]'
    text, params = spread("copy", source, ["i8", "i8", "*f4", "*f4"])
    assert "for i in range(cuda.grid(1), items, cuda.gridsize(1)):\n        o[i] = x[i]" in text
    assert params == ("i8", "*f4", "*f4")


def test_other_loops_take_ranges_of_one_item() -> None:
    source = "def @NAME@(start, stop, o):\n    at = start\n    while at < stop:\n        o[at] = 1\n        at += 1"
    text, _ = spread("ones", source, ["i8", "i8", "*f4"])
    assert "for start in range(cuda.grid(1), items, cuda.gridsize(1)):\n        stop = start + 1\n" in text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("total = 0\n for i in range(start, stop): total += o[i]\n o[0] = total", "counts along total"),
        ("last = 0\n for i in range(start, stop):\n  o[i] = last\n  last = i", "counts along last"),
        ("at = start\n while at < stop:\n  at += 1\n  if o[at]: return", "may return"),
        ("for items in range(start, stop): o[items] = 1", "the name `items`"),
        ("o[0] = 1", "no loop over its items"),
    ],
)
def test_what_is_refused_is_named(body: str, says: str) -> None:
    with pytest.raises(Unspreadable, match=f"^odd: .*{says}"):
        spread("odd", f"def @NAME@(start, stop, o):\n {body}", ["i8", "i8", "*f4"])


def test_all_that_the_table_asks_for_is_spread(table: Table) -> None:
    """But for what a device has kernels of its own for."""
    asked = [text for text in table if text.own is None]
    refused = set()
    for text in asked:
        try:
            spread(text.name, text.source, text.params)
        except Unspreadable as error:
            assert str(error).startswith(f"{text.name}: ")
            refused.add(text.name)
    assert len(table) > 2000
    assert refused == {text.name for text in asked if text.name in COUNTS or of_host(text)}


def load(source: str, **names: Any) -> Any:
    """A text as a function of Python."""
    exec(source.replace("@NAME@", "kernel").replace("from numba import cuda\n", ""), names)
    return names["kernel"]


def test_threads_in_any_order_write_what_the_cpu_writes(table: Table) -> None:
    """To the bit, all memory but a sort's scratch; for every text with a launch, each thread un-jitted."""
    compared = several = 0
    for text, launch in table.items():
        if launch is None or of_host(text):
            continue
        made = spread_of(text, launch)
        if made is None:
            continue
        source, _ = made
        here = SimpleNamespace(thread=0, count=max(2, min(launch.items, 7)))
        cuda = SimpleNamespace(
            grid=lambda _, here=here: here.thread, gridsize=lambda _, here=here: here.count
        )
        expected, found = given(text, launch), given(text, launch)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                load(text.source)(0, launch.items, *expected)
            except ValueError:  # Python's math refuses what gives a NaN when compiled
                continue
            kernel = load(source, cuda=cuda)
            for thread in random.Random(text.name).sample(range(here.count), here.count):
                here.thread = thread
                kernel(launch.items, *found)
        assert kept(text, expected) == kept(text, found), f"{text.name} {text.params}"
        compared += 1
        several += launch.items > 1 and not alone(text, launch)
    assert compared > 2000 and several > 1500
