"""The layers of nbgrad: a module imports only from layers above its own, or from its own layer."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "nbgrad"

# Topmost first; names are relative to nbgrad. What stands on one line may import each other.
LAYERS = [
    ["expr"],
    ["_dtypes", "_device", "_layout"],
    ["kernels"],
    ["_backend"],
    ["_storage", "_op"],
    ["_tape"],
    [
        "_tensor",
        "_arguments",
        "_backward",
        "_plan",
        "_saved",
        "_rules",
        "_record",
        "_transforms",
        "_dispatch",
        "_prepared",
    ],
    ["ops"],
    ["_creation", "_random", "_sampling", "_windows", "_printing", "_numpy", "_dlpack"],
    [
        "elementwise",
        "autograd",
        "nn",
        "optim",
        "linalg",
        "random",
        "special",
        "func",
        "utils",
        "profiler",
        "compiler",
        "testing",
        "_serialization",
        "serialization",
        "backends",
        "cuda",
    ],
    ["__init__", "__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

MODULES = sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    """`nbgrad/ops/reduce.py` -> `nbgrad.ops.reduce`; a package's `__init__.py` -> the package."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def level_of(module: str) -> int:
    parts = module.split(".")
    return LEVEL[parts[1] if len(parts) > 1 else "__init__"]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module of nbgrad) for every import in the file, those inside functions included."""
    known = {name_of(p) for p in MODULES}
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            # `from nbgrad import ops` imports the module ops, `from nbgrad.ops import add` does not.
            names = [f"{source}.{a.name}" if f"{source}.{a.name}" in known else source for a in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "nbgrad":
                yield node.lineno, name


def type_checking_lines(path: Path) -> set[int]:
    """Lines under `if TYPE_CHECKING:`; an annotation is no dependency of the running program."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            lines.update(range(node.lineno, (node.body[-1].end_lineno or node.lineno) + 1))
    return lines


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_only_from_above(path: Path) -> None:
    own, name = level_of(name_of(path)), name_of(path)
    skipped = type_checking_lines(path)
    below = [
        f"{path.name}:{line}: {imported}"
        for line, imported in imports(path)
        if line not in skipped and level_of(imported) > own
    ]
    assert not below, f"{name} reaches down: {below}"


def test_expr_imports_nothing_of_nbgrad() -> None:
    for path in (ROOT / "expr").rglob("*.py"):
        assert all(imported.startswith("nbgrad.expr") for _, imported in imports(path)), path


def test_numba_stays_in_kernels() -> None:
    """Kernels are the only jitted code."""
    for path in MODULES:
        if not name_of(path).startswith("nbgrad.kernels"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = (
                    [a.name for a in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
                assert not any(n.split(".")[0] in ("numba", "llvmlite") for n in names), path


def test_numba_is_loaded_by_the_first_kernel() -> None:
    """It takes longer than all the rest."""
    code = "import sys, nbgrad; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
