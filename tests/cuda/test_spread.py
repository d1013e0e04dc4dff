"""The CPU's texts over a grid's threads: what each thread does, un-jitted, and that they compile, all without a device.

One in eight of what the case table asks for is compiled, by their names; `--whole`, by hand, compiles all, in every dtype: half an hour
of a processor.
"""

import random
import re
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels.cuda.compile import Capability, Compiled, compiled
from nbgrad.kernels.cuda.spread import Unspreadable, spread
from tests.cuda.texts import COUNTS, Table, Text, alone, given, kept, of_host, one_in

pytestmark = pytest.mark.cuda

OTHERS: list[Capability] = [(7, 5), (8, 0), (12, 0)]
# Of float32, what computes in float64: sums and products, scalars of rows and of pow, functions with loops, angles brought near 0.
FLOAT64 = re.compile(
    r"(mean|sum|nansum|prod|dot|norm\d|norm_p|cumsum|cumprod|logcumsumexp|recurrence|var|std|logsumexp|inner"
    r"|(batch|layer|rms)_norm|(log_)?softmax|nll|cross_entropy|pow|atan2"
    r"|special_\w*(polynomial|bessel|airy|zeta)|igammac?|polygamma|digamma|(mv)?lgamma"
    r"|sin|cos|tan|sinc)_\w+"
)


@pytest.fixture(scope="session")
def part(table: Table, whole: bool) -> list[Text]:
    """What is compiled."""
    texts = [text for text in table if not of_host(text)]
    return texts if whole else one_in(8, texts)


def built(table: Table, text: Text, capability: Capability = (9, 0)) -> Compiled:
    source, params = spread(text.name, text.source, text.params, alone(text, table[text]))
    made = compiled(text.name, source, params, capability)
    assert made.params == len(params), text.name
    return made


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
    refused = set()
    for text in table:
        try:
            spread(text.name, text.source, text.params)
        except Unspreadable as error:
            assert str(error).startswith(f"{text.name}: ")
            refused.add(text.name)
    assert len(table) > 2000
    assert refused == COUNTS | {text.name for text in table if of_host(text)}


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
        source, _ = spread(text.name, text.source, text.params, alone(text, launch))
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


@pytest.mark.parametrize("shard", range(8))
def test_texts_compile_and_keep_to_registers(table: Table, part: list[Text], shard: int) -> None:
    for text in part[shard::8]:
        made = built(table, text)
        assert ".target sm_90" in made.ptx
        assert made.cubin().spills == 0, text.name
        floats = {code[-2:] for code in text.params if code in ("*f2", "*f4", "*f8")}
        if floats and "f8" not in floats and not FLOAT64.fullmatch(text.name):
            assert made.float64 == 0, text.name


@pytest.mark.parametrize("capability", OTHERS)
def test_for_other_devices(table: Table, part: list[Text], capability: Capability) -> None:
    for text in part[::8]:
        made = built(table, text, capability)
        assert f".target sm_{capability[0]}{capability[1]}" in made.ptx
        assert made.cubin().spills == 0, text.name
