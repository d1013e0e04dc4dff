"""Python's collector while the package is imported: it rests, and goes on as it was."""

import subprocess
import sys

PROGRAM = """
import gc
seen = []
gc.callbacks.append(lambda phase, info: seen.append(phase))
{before}
before = gc.isenabled(), gc.get_freeze_count() > 0
import numpy
gc.collect(0)
seen.clear()
import nbgrad
print(seen, before == (gc.isenabled(), gc.get_freeze_count() > 0), len(gc.get_objects(2)) > 10_000)
"""


def told(before: str) -> str:
    done = [sys.executable, "-c", PROGRAM.format(before=before)]
    return subprocess.run(done, check=True, capture_output=True, text=True).stdout


def test_an_import_is_not_looked_through() -> None:
    """Python 3.12 begins with objects frozen, and so has one look at the import."""
    assert told("gc.unfreeze()") == "[] True True\n"


def test_a_collector_that_was_off_stays_so() -> None:
    assert told("gc.disable()") == "[] True False\n"


def test_what_was_frozen_stays_so() -> None:
    assert told("gc.freeze()").split()[-2] == "True"
