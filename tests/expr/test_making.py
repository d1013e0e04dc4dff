"""One thread makes code at a time; interrupts wait for its end, and forks too."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import pytest

from nbgrad.expr.making import LOCK, uninterrupted


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(100))  # a step of the interpreter, at which it looks for signals


def test_an_interrupt_is_raised_once_at_the_end() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), uninterrupted(), LOCK:
        interrupt()
        reached.append("after one")
        with uninterrupted(), LOCK:
            interrupt()
        reached.append("after a block inside")
    assert reached == ["after one", "after a block inside"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert not LOCK._is_owned()  # type: ignore[attr-defined]


def test_an_error_inside_is_the_interrupts_context() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, uninterrupted(), LOCK:
        interrupt()
        raise ValueError("inside")
    assert isinstance(raised.value.__context__, ValueError)


def test_the_users_own_handler_is_called() -> None:
    called = []

    def own(number: int, frame: object) -> None:
        called.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        with uninterrupted(), LOCK:
            interrupt()
            assert called == []
        assert called == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is own
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with uninterrupted(), LOCK:
            interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_who_waits_for_another_thread_can_be_interrupted() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with uninterrupted(), LOCK:
            held.set()
            done.wait(100)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(100)
    with pytest.raises(KeyboardInterrupt):  # also of a signal that comes early, as where the machine is busy
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with uninterrupted(), LOCK:
            raise AssertionError("the other thread has it")
    done.set()
    other.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with uninterrupted(), LOCK:
        pass


class Link:
    other: object


@pytest.mark.parametrize("collects", [True, False])
def test_cycles_made_inside_are_collected_there(collects: bool) -> None:
    gone: list[bool] = []
    if not collects:
        gc.disable()
    try:
        with uninterrupted(), LOCK:
            a, b = Link(), Link()
            a.other, b.other = b, a
            watch = weakref.ref(a, lambda _: gone.append(True))
            del a, b
        assert bool(gone) is collects
        assert gc.isenabled() is collects
        assert (watch() is None) is collects
    finally:
        gc.enable()


FORK = """
import os, threading, time
from nbgrad.expr.making import LOCK
held = threading.Event()
def hold():
    with LOCK:
        held.set()
        time.sleep(0.3)
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    os._exit(0 if LOCK.acquire(timeout=100) else 1)
assert os.waitpid(child, 0)[1] == 0
with LOCK:
    print("free")
"""


def test_a_process_forks_when_nobody_makes_code() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "free\n", "")
