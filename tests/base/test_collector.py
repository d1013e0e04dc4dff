"""Python's collector while the package is imported: it rests, and goes on as it was."""

import subprocess
import sys
import threading

from nbgrad.base import collector

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
print(seen, before[0] == gc.isenabled(), before[1] or gc.get_freeze_count() > 50_000, len(gc.get_objects(2)) > 10_000)
"""


def told(before: str) -> str:
    done = [sys.executable, "-c", PROGRAM.format(before=before)]
    return subprocess.run(done, check=True, capture_output=True, text=True).stdout


def test_an_import_is_not_looked_through_at_any_time() -> None:
    """Python 3.12 begins with objects frozen, and so has one look at the import."""
    assert told("gc.unfreeze()") == "[] True True False\n"


def test_what_a_large_program_has_made_is_not_left_alone() -> None:
    assert told("gc.unfreeze(); much = [[] for _ in range(60_000)]") == "[] True False True\n"


def test_a_collector_that_was_off_stays_so() -> None:
    assert told("gc.disable()").startswith("[] True")


def test_what_was_frozen_stays_so() -> None:
    assert told("gc.freeze()").split()[-2] == "True"


def test_a_look_at_all_objects_keeps_no_tuple_that_another_thread_fills() -> None:
    """Who holds such a tuple keeps it from growing."""
    kept, found, wrong = Kept(), [], []
    interval = sys.getswitchinterval()

    def fill() -> None:
        while not found:
            try:
                tuple(k for k in range(200))
            except SystemError as error:
                wrong.append(error)
                return

    sys.setswitchinterval(1e-6)
    try:
        other = threading.Thread(target=fill)
        other.start()
        looks = [collector.alive(Kept) for _ in range(50)]
        found.append(True)
        other.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    assert all(look == [kept] for look in looks)


class Kept:
    def __init__(self) -> None:
        self.cycle = self  # which the collector knows


def test_what_stands_in_place_of_the_class_is_not_asked() -> None:
    class Proxy:
        @property
        def __class__(self) -> type:
            raise RuntimeError("asked")

    proxies = [Proxy()]
    assert collector.alive(Proxy) == proxies
