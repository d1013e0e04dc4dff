"""The stories of nbgrad, from below, and who imports whom: `python -m tests.map` prints them with their files, lines and arrows."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "nbgrad"

# From below. A story imports only from those before it; `ops` is one for each family.
STORIES = [
    *("base", "names", "expr", "tape", "kernels", "adjoints", "memory", "core", "history", "dispatch"),
    *(
        "ops.views",
        "ops.pointwise",
        "ops.reduce",
        "ops.index",
        "ops.arrange",
        "ops.host",
        "ops.order",
        "ops.linear",
        "ops.rows",
        "ops.sequence",
        "ops.make",
        "ops.windows",
        "ops.transform",
    ),
    *(
        "return_types",
        "exchange",
        "autograd",
        "special",
        "linalg",
        "fft",
        "_holding",
        "_to_sparse",
        "sparse",
        "_to_kinds",
        "random",
        "futures",
        "distributed",
        "__future__",
        "nn",
        "nested",
        "_quantized",
        "func",
        "amp",
        "distributions",
        "optim",
        "distributed.optim",
        "distributed.checkpoint",
        "overrides",
        "_ops",
        "library",
        "_aten",
        "testing",
        *(
            "jit",
            "_jit_internal",
            "_tensor_str",
            "_utils",
            "_tensor",
            "compiled",
            "compiler",
            "_compile",
            "_guards",
            "_dynamo",
            "_subclasses",
            "hub",
            "types",
            "storage",
            "process",
            "_foreach",
        ),
        "_C",
        "_VF",
        "_functorch",
        "utils",
        *("xpu", "mps", "mtia", "multiprocessing"),
        "masked",
        *("signal", "quasirandom", "_lowrank", "_rare", "_control", "_vmap_internals", "onnx"),
        "fx",
        "export",
        "profiler",
        "serialization",
        *("_queues", "accelerator"),
        "cpu",
        "cuda",
        "backends",
    ),
    *("torch_version", "version", "__init__", "__config__", "as_torch", "warmup", "__main__"),
]
LEVEL = {story: level for level, story in enumerate(STORIES)}
MODULES = sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    """`nbgrad/ops/reduce/sums.py` -> `nbgrad.ops.reduce.sums`; a package's `__init__.py` -> the package."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def story_of(module: str) -> str:
    parts = module.split(".")[1:3] or ["__init__"]
    whole = ".".join(parts)
    return whole if parts[0] == "ops" or whole in LEVEL else parts[0]


@cache
def _names() -> frozenset[str]:
    return frozenset(map(name_of, MODULES))


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """(line, module) for every import in the file, those inside functions included and those for types alone left out."""
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    return tuple(
        (node.lineno, name)
        for node in _import_statements(ast.parse(path.read_text(encoding="utf-8")))
        for name in _modules(node, package.split("."))
    )


def _import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            # an annotation is no dependency of the running program
            yield from _import_statements(ast.Module(child.orelse, []))
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _import_statements(child)


def _modules(node: ast.Import | ast.ImportFrom, package: list[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = package[: len(package) - node.level + 1] if node.level else []
    source = ".".join([*base, *([node.module] if node.module else [])])
    # `from nbgrad import ops` imports the module ops, `from nbgrad.ops.views.views import t` does not.
    return [f"{source}.{a.name}" if f"{source}.{a.name}" in _names() else source for a in node.names]


def arrows() -> dict[tuple[str, str], set[str]]:
    """(story, the story that it imports from) -> where."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in MODULES:
        for line, module in imports(path):
            pair = story_of(name_of(path)), story_of(module)
            if module.split(".")[0] == "nbgrad" and pair[0] != pair[1]:
                found[pair].add(f"{path.relative_to(ROOT.parent)}:{line}: {module}")
    return found


def main() -> None:
    drawn = arrows()
    for story in STORIES:
        mine = [path for path in MODULES if story_of(name_of(path)) == story]
        lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in mine}
        from_below = [below for below in STORIES if (story, below) in drawn]
        print(
            f"{story}  {len(mine)} files, {sum(lines.values())} lines  <- {' '.join(from_below) or 'nothing'}"
        )
        for path in mine:
            print(f"    {path.relative_to(ROOT)}  {lines[path]}")
    up = [pair for pair in drawn if LEVEL[pair[1]] > LEVEL[pair[0]]]
    print(f"{len(STORIES)} stories, {len(MODULES)} files, {len(drawn)} arrows, {len(up)} of them upwards")


if __name__ == "__main__":
    main()
