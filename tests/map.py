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
    *("base", "expr", "tape", "kernels", "memory", "core", "history", "dispatch"),
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
        "ops.make",
    ),
    *(
        "exchange",
        "autograd",
        "special",
        "linalg",
        "random",
        "nn",
        "func",
        "optim",
        "utils",
        "profiler",
        "serialization",
        "cuda",
        "backends",
    ),
    *("__init__", "__main__"),
]
LEVEL = {story: level for level, story in enumerate(STORIES)}
MODULES = sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    """`nbgrad/ops/reduce/sums.py` -> `nbgrad.ops.reduce.sums`; a package's `__init__.py` -> the package."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def story_of(module: str) -> str:
    parts = module.split(".")[1:3] or ["__init__"]
    return ".".join(parts) if parts[0] == "ops" else parts[0]


@cache
def _names() -> frozenset[str]:
    return frozenset(map(name_of, MODULES))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module of nbgrad) for every import in the file, those inside functions included and those for types alone left out."""
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = _for_types(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            # `from nbgrad import ops` imports the module ops, `from nbgrad.ops.views.views import t` does not.
            names = [f"{source}.{a.name}" if f"{source}.{a.name}" in _names() else source for a in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "nbgrad")


def _for_types(tree: ast.Module) -> set[ast.AST]:
    """What stands under `if TYPE_CHECKING:`; an annotation is no dependency of the running program."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            found.update(inner for statement in node.body for inner in ast.walk(statement))
    return found


def arrows() -> dict[tuple[str, str], set[str]]:
    """(story, the story that it imports from) -> where."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in MODULES:
        for line, module in imports(path):
            pair = story_of(name_of(path)), story_of(module)
            if pair[0] != pair[1]:
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
