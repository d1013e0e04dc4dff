"""What a package index would hand out: the wheel and the source distribution hold what they should, and both install and work."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import nbgrad

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
VERSION = nbgrad.__version__
NAME = f"nbgrad-{VERSION}"
PACK = "nbgrad/kernels/x86-64-v3.pack"
TOP = ("CHANGELOG.md", "CONTRIBUTING.md")
FORMS = {"wheel": f"{NAME}-py3-none-any.whl", "sdist": f"{NAME}.tar.gz"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both, of a checkout where kernels were packed; the wheel is made from the source distribution, as a user's own
    would be."""
    folder, source = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source")
    for path in ("nbgrad", "tests", "examples", "docs"):
        shutil.copytree(ROOT / path, source / path, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
    for path in (*TOP, "README.md", "pyproject.toml", ".gitignore", "LICENSE"):
        shutil.copy(ROOT / path, source)
    (source / PACK).write_bytes(b"")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in folder.iterdir()} == set(FORMS.values())
    return folder


def files(*folders: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        # Other tests write bytecode meanwhile, under names that are there for a moment.
        if path.is_file() and path.parent.name != "__pycache__" and path.suffix != ".png"
    }


def judge(metadata: Message) -> None:
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {line.partition(">")[0] for line in needed} == {"numba", "numpy"}
    assert (metadata["Name"], metadata["Version"]) == ("nbgrad", VERSION)
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
    assert str(metadata.get_payload()).startswith("# nbgrad")


def test_the_wheel_holds_the_package_and_its_licence(built: Path) -> None:
    with zipfile.ZipFile(built / FORMS["wheel"]) as wheel:
        about = {f"{NAME}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
        assert set(wheel.namelist()) == files("nbgrad") | about | {PACK}
        judge(message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA")))


def test_the_source_distribution_holds_what_it_is_tested_with(built: Path) -> None:
    with tarfile.open(built / FORMS["sdist"]) as sdist:
        about = {
            *TOP,
            PACK,
            "LICENSE",
            "README.md",
            "pyproject.toml",
            "PKG-INFO",
            ".gitignore",
        }
        held = {member.name.removeprefix(f"{NAME}/") for member in sdist if member.isfile()}
        assert held == files("nbgrad", "tests", "examples", "docs") | about
        stream = sdist.extractfile(f"{NAME}/PKG-INFO")
        assert stream is not None
        judge(message_from_bytes(stream.read()))


PROGRAM = """
import nbgrad
x = nbgrad.ones(3, requires_grad=True)
(x * x).sum().backward()
print(nbgrad.__file__, nbgrad.__version__, x.grad.tolist())
"""


@pytest.mark.parametrize("form", FORMS)
def test_it_installs_and_computes_a_gradient(form: str, built: Path, tmp_path: Path) -> None:
    """Beside the packages that are here, so that nothing is fetched."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(built / FORMS[form])], check=True)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split(maxsplit=2) == [
        str(tmp_path / "nbgrad" / "__init__.py"),
        VERSION,
        "[2.0, 2.0, 2.0]\n",
    ]
