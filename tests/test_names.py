"""PyTorch's names: each is found, and what is not built says so when it is used."""

import importlib
import io
import pickle
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from nbgrad.names import coverage
from nbgrad.names.absent import NotBuiltError, is_absent
from nbgrad.names.finder import own
from tests.support import T

EVERY = """
import importlib.util, warnings
from nbgrad.names import table
warnings.simplefilter("error")
import torch
found = importlib.util.find_spec("tensorboard")
for path in table.modules():
    if found is None and path.startswith("torch.utils.tensorboard"):
        continue  # PyTorch's wants it, too
    module = importlib.import_module(path)
    assert module.__spec__ is not None and module.__file__, path
    for name in table.names(path):
        getattr(module, name)
print(len(table.modules()))
"""


def test_every_module_is_imported_and_every_name_found() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nbgrad", "run", "-"], input=EVERY, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert int(done.stdout) > 1000


@pytest.mark.parametrize("path", coverage.MAIN)
def test_no_name_is_absent(path: str) -> None:
    assert [n for n, its in coverage.of(path, coverage.public(path)).items() if its == coverage.ABSENT] == []


@pytest.mark.oracle
def test_no_name_of_torch_is_absent(torch: ModuleType) -> None:
    found = coverage.table_of(coverage.MAIN, "torch")
    assert [
        (path, n) for path, names in found.items() for n, its in names.items() if its == coverage.ABSENT
    ] == []
    assert sum(its == coverage.WORKS for names in found.values() for its in names.values()) > 1700


@pytest.mark.slow
@pytest.mark.oracle
def test_the_table_is_fresh(torch: ModuleType) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.names", "--check"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


USES: dict[str, Any] = {
    "sparse_bsr": lambda o: T.ones(2).new_zeros(2, layout=o),
    "jit.export_opnames": lambda f: f(1),
    "export.ExportGraphSignature": lambda c: c(),
    "fx.passes.graph_drawer.FxGraphDrawer": lambda c: type("Mine", (c,), {})({}, 1),
    "package.PackageImporter": lambda c: c("file"),
    "distributed.breakpoint": lambda f: f(0),
    "Tensor.to_sparse_bsr": lambda f: T.ones(2).to_sparse_bsr(1),
    "Tensor.to_sparse_bsc": lambda f: f(T.ones(2), 1),
    "onnx.export": lambda f: f(1, file=2),
}


@pytest.mark.parametrize("name", USES)
def test_what_is_not_built_says_so_when_it_is_used(name: str) -> None:
    where, _, last = name.rpartition(".")
    owner = T.Tensor if where == "Tensor" else importlib.import_module(own(f"torch.{where}".rstrip(".")))
    thing = getattr(owner, last)
    assert is_absent(thing) and getattr(owner, last) is thing
    with pytest.raises(
        NotBuiltError, match=rf"^nbgrad has no torch\.{name}: .*, see `python -m nbgrad coverage torch"
    ) as told:
        USES[name](thing)
    assert isinstance(told.value, NotImplementedError)


def test_a_class_that_is_not_built_serves_annotations() -> None:
    graph, error, kind = T.export.ShapesCollection, T.distributed.DistError, T.distributed.HashStore
    assert not isinstance(1, graph) and issubclass(type("G", (graph,), {}), graph)
    assert str(graph[int]) == "torch.export.ShapesCollection[int]" and (graph | None)
    assert issubclass(error, RuntimeError) and is_absent(error) and is_absent(kind)
    assert T.nn.attention.SDPBackend.MATH.name == "MATH"


def test_an_object_that_is_not_built() -> None:
    thing = T.quantization.default_qconfig
    assert not hasattr(thing, "add") and repr(thing).endswith("default_qconfig, which is not in nbgrad>")
    with pytest.raises(NotBuiltError, match=r"nbgrad has no torch\..*default_qconfig"):
        thing.add(1, 2)


def test_what_is_built_is_found_under_every_path() -> None:
    from nbgrad.nn.modules import loss

    assert loss.MSELoss is T.nn.MSELoss
    assert importlib.import_module("nbgrad.functional").einsum is T.einsum
    assert importlib.import_module("nbgrad._tensor").Tensor is T.Tensor


def test_what_nobody_has_is_missed() -> None:
    for module in (T, T.nn, T.fx, T.nn.modules):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nonsense'"):
            getattr(module, "nonsense")  # noqa: B009
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        importlib.import_module("nbgrad.nonsense")


def test_the_table_is_not_read_at_import() -> None:
    code = "import nbgrad; from nbgrad.names import table; print(table._text.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "0\n"


def test_coverage_of_a_module(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert coverage.command(["torch.export", "--json", str(tmp_path / "found.json")]) == 0
    assert "  raises: " in (out := capsys.readouterr().out) and "ShapesCollection" in out
    assert '"ShapesCollection": "raises"' in (tmp_path / "found.json").read_text()
    assert coverage.command(["torch.nonsense"]) == 2


@pytest.mark.oracle
def test_versions_compare(torch: ModuleType) -> None:
    texts = [
        "1.10.0a",
        "1.10.0",
        "2.13.0+cpu",
        "2.13",
        "2.0.0.dev2024",
        "2.0.0.post1",
        "2.1.0rc2+git1",
        "v2.13.0",
        "3",
        "x",
        "2.13.0+cpu.1",
    ]
    others = [*texts, (1, 10), (2, 13, 0), (2, 13, 1), [3]]
    ours, theirs = T.torch_version.TorchVersion, torch.torch_version.TorchVersion
    for text in texts:
        for other in others:
            for compare in ("__lt__", "__le__", "__eq__", "__ge__", "__gt__"):
                got, want = [getattr(kind(text), compare)(other) for kind in (ours, theirs)]
                assert got == want, (text, compare, other)
    assert T.torch_version.__version__ >= (2, 13) and T.torch_version.__version__ == "2.13.0+nbgrad"


def test_functions_pickle() -> None:
    """By the path that users know."""
    for path in ("", "Tensor", "nn.functional", "linalg", "special", "fft", "func", "autograd"):
        owner = attrgetter(path)(T) if path else T
        for name in dir(owner):
            thing = getattr(owner, name)
            if name[0] != "_" and isinstance(thing, FunctionType) and not is_absent(thing):
                assert pickle.loads(pickle.dumps(thing)) is thing, (path, name)
    kept, file = [T.tanh, T.nn.functional.relu, T.Tensor.add, T.complex64], io.BytesIO()
    T.save(kept, file)
    assert b"nbgrad" not in file.getvalue()
    found = T.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert all(a is b for a, b in zip(found, kept, strict=True))
    assert (T.Tensor.add.__module__, T.Tensor.add.__qualname__) == ("nbgrad", "Tensor.add")
    assert T.typename(T.tanh) == "nbgrad.tanh"


@pytest.mark.parametrize("name", ["Tensor", "dtype", "device", "Size", "Generator"])
def test_classes_are_found_where_they_say(name: str) -> None:
    kind = getattr(T, name)
    assert (kind.__module__, kind.__qualname__) == ("nbgrad._C" if name == "Generator" else "nbgrad", name)
    assert pickle.loads(pickle.dumps(kind)) is kind
