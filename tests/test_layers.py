"""A story of nbgrad imports only from those below it, and no file leads back to itself."""

import ast
import subprocess
import sys

from tests.map import LEVEL, MODULES, ROOT, arrows, imports, name_of, story_of


def test_every_file_stands_in_a_story() -> None:
    assert {story_of(name_of(path)) for path in MODULES} - {"ops"} <= LEVEL.keys()


def test_arrows_lead_down() -> None:
    for (story, used), where in arrows().items():
        assert "ops" in (story, used) or LEVEL[used] < LEVEL[story], f"{story} reaches up to {used}: {where}"


def test_no_file_leads_back_to_itself() -> None:
    """Packages apart: an `__init__` re-exports what is inside of it."""
    below = {
        name_of(path): {module for _, module in imports(path)}
        for path in MODULES
        if path.name != "__init__.py"
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"a circle: {' -> '.join((*trail[trail.index(module) :], module))}"
        if module in below and module not in done:
            for used in below[module]:
                visit(used, (*trail, module))
            done.add(module)

    for module in below:
        visit(module, ())


def test_a_story_says_what_it_promises() -> None:
    heads = {path: path.read_text(encoding="utf-8")[:4] for path in MODULES}
    assert [path for path, head in heads.items() if not head.startswith(('"""', 'r"""'))] == []


def test_base_and_expr_import_nothing_of_nbgrad_but_base() -> None:
    for story in ("base", "expr"):
        for path in (ROOT / story).rglob("*.py"):
            used = [imported for _, imported in imports(path) if imported.split(".")[0] == "nbgrad"]
            assert all(imported.startswith((f"nbgrad.{story}", "nbgrad.base")) for imported in used), path


def test_numba_stays_in_kernels() -> None:
    """Kernels are the only jitted code."""
    for path in MODULES:
        if not name_of(path).startswith("nbgrad.kernels"):
            assert not any(used.split(".")[0] in ("numba", "llvmlite") for _, used in imports(path)), path


def test_cuda_is_imported_where_it_compiles() -> None:
    """What numba-cuda needs to be told stands in one file, what CUDA's driver and libraries do in three; who has no GPU needs none."""
    found = {name_of(path) for path in MODULES if _imports_cuda(ast.parse(path.read_text(encoding="utf-8")))}
    assert found == {f"nbgrad.kernels.cuda.{name}" for name in ("blas", "compile", "real", "solver")}
    code = "import sys, nbgrad.kernels.cuda.real; sys.exit(bool({'numba.cuda', 'cuda'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _imports_cuda(module: ast.Module) -> bool:
    named = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            named |= {f"{node.module}.{alias.name}" for alias in node.names}
    return any(name.startswith(("cuda.", "numba.cuda")) or name == "cuda" for name in named)


def test_numba_is_loaded_by_the_first_kernel() -> None:
    """It takes longer than all the rest."""
    code = "import sys, nbgrad; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
