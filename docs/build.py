"""Builds the site: `python -m docs.build [where]`, into `site/` unless told. A warning, as of a link that leads nowhere, is an error.

Pages that come from the code are written beside the others in a directory of their own, which goes when the site stands.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

from docs import kernel, pictures, reference
from nbgrad.names import coverage

DOCS = Path(__file__).parent
ROOT = DOCS.parent


def main() -> int:
    where = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    with tempfile.TemporaryDirectory() as made:
        for name, text in pages().items():
            file = Path(made, "pages", name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        strict = ["--fail-on-warning", "--keep-going", "--quiet", "--nitpicky"]
        return build_main(
            [*strict, "-c", str(DOCS), "-d", str(Path(made, "read")), str(Path(made, "pages")), str(where)]
        )


def pages() -> dict[str, str]:
    """Every file of the site, by its place."""
    found = {file.name: written(file.read_text(encoding="utf-8")) for file in DOCS.glob("*.md")}
    found |= {f"api/{path.removeprefix('nbgrad.')}.md": reference.page(path) for path in reference.PAGES}
    found["index.md"] += contents()
    return found | {
        "coverage.md": covered(),
        "map.md": pictures.page(),
        "graph.svg": pictures.graph(),
        "kernel.md": kernel.page(),
        "examples.md": examples(),
        "contributing.md": from_root("CONTRIBUTING.md"),
        "changelog.md": from_root("CHANGELOG.md"),
        "api/index.md": index(),
    }


def written(text: str) -> str:
    """What a page leaves to be filled in: a section of the README, so that it stands in one place, and the files of the benchmarks."""
    text = re.sub(r"<!-- README: (.*) -->", lambda m: section(from_root("README.md"), m[1]), text)
    return text.replace("<!-- the suite's files -->", benchmarks())


def contents() -> str:
    """What stands beside every page."""
    guides = [
        "porting",
        "kernel",
        "differentiating",
        "running",
        "several_processes",
        "compiling",
        "coverage",
        "map",
        "examples",
        "benchmarks",
        "contributing",
        "changelog",
    ]
    names = [
        f"{path.removeprefix('nbgrad.')} <api/{path.removeprefix('nbgrad.')}>" for path in reference.PAGES
    ]
    trees = {"Guide": ["Quick start <self>", *guides], "Reference": ["Overview <api/index>", *names]}
    return "".join(
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```", ""])
        for caption, entries in trees.items()
    )


def section(text: str, heading: str) -> str:
    _, found, rest = text.partition(f"\n## {heading}\n")
    assert found, f"README has no heading {heading!r}"
    return rest.partition("\n## ")[0].strip()


def from_root(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def index() -> str:
    rows = [
        f"| [`{path}`]({path.removeprefix('nbgrad.')}.md) | {said} |"
        for path, said in reference.PAGES.items()
    ]
    return "\n".join([REFERENCE, "| module | |", "|---|---|", *rows, ""])


REFERENCE = """# Reference

Names, signatures and docstrings, asked of the library when this site was built. Signatures say `torch`, as a program that begins with
`import nbgrad as torch` does. `help(torch.exp)` shows the same.
"""


def covered() -> str:
    """How much of each module of PyTorch's works, and what of it does not."""
    found = coverage.table_of(coverage.MAIN)
    rows, lists = ["| module | works | raises |", "|---|---|---|"], []
    for path, names in found.items():
        raises = [name for name, its in names.items() if its == coverage.RAISES]
        rows.append(f"| `{path}` | {len(names) - len(raises)} | {len(raises)} |")
        if raises:
            told = ", ".join(f"`{name}`" for name in raises)
            lists += [f"## {path}", "", f"Raise when they are used: {told}.", ""]
    return "\n".join([COVERAGE, *rows, "", *lists])


COVERAGE = """# Coverage

Every public name of PyTorch 2.13 can be imported. What is built works; what is not says so when it is used, in one line that names it, why
it is not here and what to do instead. `python -m nbgrad coverage torch.nn` prints the same of any module.
"""


def examples() -> str:
    """Each with what its docstring says, and its text to open."""
    text = [EXAMPLES]
    for file in sorted((ROOT / "examples").glob("*.py")):
        source = file.read_text(encoding="utf-8")
        title, _, rest = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
        prose, _, commands = rest.partition("\n$ ")
        text += [f"## {file.stem}", "", title, "", prose.strip(), ""]
        text += ["```console", f"$ {commands.strip()}", "```", ""]
        text += [
            f"<details><summary>examples/{file.name}</summary>",
            "",
            "```python",
            source.rstrip(),
            "```",
            "",
            "</details>",
            "",
        ]
    return "\n".join(text)


EXAMPLES = """# Examples

Programs in `examples/`, written as for PyTorch. Below each command stand lines that it prints; a test holds that nbgrad prints
them, and, but for the two that use nbgrad's own functions, PyTorch too. `--short` takes seconds. `pip install -e '.[examples]'`
adds plots and scikit-learn's data.
"""


def benchmarks() -> str:
    """A list of all that the suite measures, from its files."""
    rows = ["| theme | what it measures | benchmarks |", "|---|---|---|"]
    for file in sorted((ROOT / "asv_benchmarks" / "benchmarks").glob("[a-z]*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found = [
            f"`{node.name}.{f.name}`" if isinstance(node, ast.ClassDef) else f"`{f.name}`"
            for node in tree.body
            for f in (node.body if isinstance(node, ast.ClassDef) else [node])
            if isinstance(f, ast.FunctionDef) and re.match("time_|peakmem_|mem_|track_", f.name)
        ]
        if found:
            said = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
            rows.append(f"| `{file.stem}` | {said.replace('|', chr(92) + '|')} | {', '.join(found)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
