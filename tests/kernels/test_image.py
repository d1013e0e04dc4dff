"""Machine code as images: laid out, filled in and run as LLVM's linker would; never writable where it is executed; else refused."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nbgrad.kernels import build, image, processor, store
from tests.kernels.test_build import COUNTING, PROGRAM

pytestmark = pytest.mark.skipif(not processor.HERE, reason="no images on this machine")

# Calls of functions with and without a slot of their own, a table read by index, and one of addresses.
TEXT = """
@numbers = internal constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@ways = internal constant [2 x ptr] [ptr @twice, ptr @atan]
declare double @sin(double)
declare double @atan(double)

define internal double @twice(double %x) noinline {
  %y = fadd double %x, %x
  ret double %y
}

define void @mixed(i64 %start, i64 %stop, ptr %x) {
  br label %loop
loop:
  %i = phi i64 [%start, %0], [%next, %loop]
  %at = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %at
  %s = call double @sin(double %v)
  %k = and i64 %i, 3
  %at_number = getelementptr double, ptr @numbers, i64 %k
  %number = load double, ptr %at_number
  %sum = fadd double %s, %number
  %odd = and i64 %i, 1
  %at_way = getelementptr ptr, ptr @ways, i64 %odd
  %way = load ptr, ptr %at_way
  %y = call double %way(double %sum)
  store double %y, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %stop
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
CALL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def run(address: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    x = np.arange(12.0)
    CALL(address)(0, 12, x.ctypes.data)
    return x


WANT = np.sin(np.arange(12.0)) + np.tile([1.5, 2.5, 3.5, 4.5], 3)
WANT = np.where(np.arange(12) % 2, np.arctan(WANT), 2 * WANT)


def mapped(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, _, end = line.split()[0].partition("-")
        if int(begin, 16) <= address < int(end, 16):
            return line.split()[1]
    raise LookupError(hex(address))


def test_an_image_runs_wherever_it_lies() -> None:
    made = image.made(TEXT, ["mixed"])
    places = [image.loaded(made) for _ in range(3)]
    addresses = {found["mixed"] for found in places if found is not None}
    assert len(addresses) == 3
    for address in addresses:
        np.testing.assert_array_equal(run(address), WANT)


def test_code_is_read_and_executed_but_not_written() -> None:
    found = image.loaded(image.made(TEXT, ["mixed"]))
    assert found is not None
    assert mapped(found["mixed"]) == "r-xp"


def test_no_memory_of_a_process_is_written_and_executed() -> None:
    program = PROGRAM + "print(*[line for line in open('/proc/self/maps') if 'wx' in line.split()[1]])"
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)  # all is kept
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["4.6592"]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> store.Store:
    made = store._at(str(tmp_path / "kernels"))
    monkeypatch.setattr(build, "store", lambda: made)
    return made


def counted(kernel: build.Kernel) -> list[float]:
    x = np.zeros(4)
    CALL(kernel.address)(0, 4, x.ctypes.data)
    return x.tolist()


def make() -> build.Kernel:
    return build._make("counting", COUNTING, "i8 i8 *f8", False)


def files(kept: store.Store) -> set[str]:
    return {p.suffix for p in kept.path.iterdir()} - {""}


def test_what_becomes_of_the_file_later_changes_nothing(kept: store.Store) -> None:
    make()
    loaded = make()
    loaded.path.with_suffix(".bin").write_bytes(b"")
    assert counted(loaded) == [0, 1, 2, 3]


def test_every_change_of_an_image_is_seen(kept: store.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each of its parts: digest, names, code."""
    path = make().path.with_suffix(".bin")
    whole = path.read_bytes()
    monkeypatch.setattr(image, "loaded", lambda data: pytest.fail("it would run"))
    for at in (0, 31, 32, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert build._load(path.stem, [path.stem]) is None
        path.write_bytes(whole[:at])
        assert build._load(path.stem, [path.stem]) is None


def test_what_is_no_image_is_kept_as_numba_keeps_it(
    kept: store.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> bytes:
        raise image.Refused("a reason")

    with monkeypatch.context() as patch:
        patch.setattr(image, "made", refuse)
        assert counted(make()) == [0, 1, 2, 3]
    assert files(kept) == {".py", ".obj"}
    monkeypatch.setattr(build, "load_source", None)  # it is not compiled again
    assert counted(make()) == [0, 1, 2, 3]


def test_where_there_are_no_images(kept: store.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(build, "HERE", False)
        build.machine.cache_clear()  # type: ignore[attr-defined]
        for _ in range(2):
            assert counted(make()) == [0, 1, 2, 3]
            np.testing.assert_array_equal(run(build.native("mixed", TEXT, ["mixed"], "test")["mixed"]), WANT)
    build.machine.cache_clear()  # type: ignore[attr-defined]
    assert files(kept) == {".py", ".ll", ".obj"}


REFUSED = {
    "another language": "define i64* @f() {",
    "a variable": "@v = global i64 1\ndefine i64 @f() {\n %r = load i64, ptr @v\n store i64 0, ptr @v\n ret i64 %r\n}",
    "a thread's variable": "@v = thread_local global i64 1\ndefine ptr @f() {\n ret ptr @v\n}",
    "is not there": "declare void @nobody_has_this()\ndefine void @f() {\n call void @nobody_has_this()\n ret void\n}",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_an_image_is_refused(text: str) -> None:
    with pytest.raises(image.Refused):
        image.made(text, ["f"])


def test_an_image_that_calls_what_is_gone_is_not_loaded() -> None:
    made = image.made(TEXT, ["mixed"])
    assert image.loaded(made.replace(b" atan", b" gone")) is None


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    env = {**os.environ, "NBGRAD_CACHE_DIR": str(tmp_path_factory.mktemp("warm") / "kernels")}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=env, stdout=subprocess.DEVNULL)
    yield env


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_warm_process_imports_no_compiler(warm: dict[str, str], threads: str) -> None:
    program = (
        "import sys\n"
        + PROGRAM
        + "(torch.ones(100_000) * 2).sum()\n" * (threads == "2")
        + "print([m for m in ('numba', 'llvmlite') if m in sys.modules])"
    )
    env = {**warm, "OMP_NUM_THREADS": threads}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], check=True, env=env, capture_output=True, text=True
        )
    assert done.stdout.split("\n")[1] == "[]"


def test_a_processor_is_told_without_a_compiler() -> None:
    """What decides the code must differ where Numba's own answer does."""
    told = processor.model()
    assert "model" in told and "flags" in told
    assert "MHz" not in told
