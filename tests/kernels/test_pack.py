"""Kernels that a wheel brings: the same file each time, taken where they may be, and then nothing is compiled."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbgrad
from nbgrad.kernels import build, image, pack, processor, store
from tests.kernels.test_build import COUNTING
from tests.kernels.test_image import counted, make

pytestmark = pytest.mark.skipif(processor.level() is None, reason="no machine of the level")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    made = store._at(str(tmp_path / "kernels"))
    monkeypatch.setattr(build, "store", lambda: made)
    monkeypatch.setattr(pack, "PLACE", str(tmp_path / "some.pack"))
    pack._read.cache_clear()  # type: ignore[attr-defined]
    yield tmp_path / "some.pack"
    pack._read.cache_clear()  # type: ignore[attr-defined]


@pytest.fixture
def brought(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack with the one kernel of `make`."""
    key = ("counting", COUNTING, "i8 i8 *f8", False, True)
    with monkeypatch.context() as patch:
        patch.setattr(build, "_kernels", {key: None})
        patch.setattr(build, "_natives", {})
        place.write_bytes(pack.packed(build.images()))
    return place


def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_compiled", lambda *args: pytest.fail("it is compiled"))


def test_what_was_brought_is_not_compiled(brought: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_compiler(monkeypatch)
    kernel = make()
    assert counted(kernel) == [0, 1, 2, 3]
    assert kernel.path.read_text() == kernel.source  # which is shown all the same
    assert not kernel.path.with_suffix(".bin").exists()


EXP = """from nbgrad.kernels.cpu.vmath import fma


def @NAME@(start, stop, o):
    for i in range(start, stop):
        o[i] = fma(o[i], o[i], o[i])
"""


def test_what_computes_is_brought_for_wider_vectors_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(build, "_kernels", {("exp", EXP, "i8 i8 *f8", False, True): None})
        patch.setattr(build, "_natives", {})
        images = build.images()
    common = build._settled(EXP, "exp", "i8 i8 *f8", False, True)[2]
    assert list(images) == [common, f"{common}.512"] and images[common] != images[f"{common}.512"]
    place.write_bytes(pack.packed(images))
    for wider, key in ((False, common), (True, f"{common}.512")):
        monkeypatch.setattr(processor, "beyond", lambda wider=wider: wider)
        monkeypatch.setattr(image, "loaded", lambda data: data)
        assert build._brought(common) == images[key]


def test_it_is_what_this_machine_compiles(brought: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from the kernel's name, which is the image's first line."""
    images: list[bytes] = []
    made = image.loaded
    monkeypatch.setattr(image, "loaded", lambda data: images.append(data) or made(data))
    make()
    brought.unlink()
    pack._read.cache_clear()  # type: ignore[attr-defined]
    make()
    assert len(images) == 2 and len({data[4:].partition(b"counting_")[2][20:] for data in images}) == 1


def damage(data: bytes, how: str) -> bytes:
    middle = len(data) // 2
    changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    return {"cut": data[:middle], "empty": b"", "changed": changed, "a digest": data[:32]}[how]


@pytest.mark.parametrize("how", ["cut", "empty", "changed", "a digest"])
def test_what_is_not_whole_is_not_used(brought: Path, how: str) -> None:
    brought.write_bytes(damage(brought.read_bytes(), how))
    assert counted(make()) == [0, 1, 2, 3]
    assert make().path.with_suffix(".bin").exists()


def test_another_text_is_another_kernel(brought: Path) -> None:
    other = build._make("counting", COUNTING.replace("= i", "= i + 1"), "i8 i8 *f8", False)
    assert counted(other) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "name, value", [("NBGRAD_CPU", "native"), ("NUMBA_CPU_NAME", "generic"), ("NBGRAD_COMPILER", "numba")]
)
def test_who_asks_for_other_code_gets_it(
    brought: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    for known in (processor.level, build.machine):
        monkeypatch.setattr(sys.modules[known.__module__], known.__name__, known.__wrapped__)  # type: ignore[attr-defined]
    assert counted(make()) == [0, 1, 2, 3]
    assert make().path.with_suffix(".bin").exists()


@pytest.mark.parametrize("without", ["avx2", "fma", "f16c"])
def test_a_machine_below_the_level_has_code_of_its_own(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = processor.model()
    assert f" {without} " in told
    monkeypatch.setattr(processor, "model", lambda: told.replace(f" {without} ", " "))
    assert processor.level.__wrapped__() is None  # type: ignore[attr-defined]


def packed(folder: Path, seed: str) -> Path:
    env = os.environ | {"PYTHONHASHSEED": seed}
    made = folder / f"{seed}.pack"
    subprocess.run([sys.executable, "-m", "tests.pack", str(made)], check=True, env=env, cwd=ROOT)
    return made


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The package as a wheel lays it down, without the pack and with it; and the pack made once more."""
    folder = tmp_path_factory.mktemp("packs")
    for form in ("without", "with"):
        shutil.copytree(
            Path(nbgrad.__file__).parent, folder / form / "nbgrad", ignore=shutil.ignore_patterns("*.pack")
        )
    first, again = packed(folder, "1"), packed(folder, "2")
    shutil.copy(first, folder / "with" / "nbgrad" / "kernels" / Path(pack.PLACE).name)
    return {"first": first, "again": again, "without": folder / "without", "with": folder / "with"}


@pytest.mark.slow
def test_it_is_the_same_each_time(installed: dict[str, Path]) -> None:
    assert installed["first"].read_bytes() == installed["again"].read_bytes()


# All numbers that a program leaves, to the bit.
TOLD = """
import hashlib, sys
found = hashlib.sha256()
for value in list(globals().values()):
    tensors = value.parameters() if isinstance(value, torch.nn.Module) else [value]
    for t in tensors:
        if isinstance(t, torch.Tensor):
            for one in (t, t.grad):
                found.update(b"" if one is None else one.detach().numpy().tobytes())
print(found.hexdigest(), [m for m in ("numba", "llvmlite") if m in sys.modules])
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["gradient", "network", "gpt", "session"])
def test_a_first_program_compiles_nothing(
    what: str, installed: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And comes to the same bits."""
    monkeypatch.syspath_prepend(str(ROOT / "asv_benchmarks"))
    from benchmarks.startup import FIRST

    program = (
        FIRST[what].replace("import nbgrad as torch", "import nbgrad as torch\ntorch.manual_seed(0)") + TOLD
    )
    told = {}
    for form in ("without", "with"):
        env = os.environ | {"NBGRAD_CACHE_DIR": str(tmp_path / form), "NBGRAD_COMPILE_LOG": "1"}
        env |= {"PYTHONPATH": str(installed[form])}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, check=True, env=env, cwd=tmp_path, capture_output=True, text=True)
        told[form] = done.stdout.split(maxsplit=1)
        assert ("nbgrad: compiled" in done.stderr) == (form == "without")
    assert told["with"][0] == told["without"][0]
    assert told["with"][1] == "[]\n"
