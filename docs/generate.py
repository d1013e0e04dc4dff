"""What mkdocs calls when it builds this site: pages that come from the code are written here, and nowhere kept."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import kernel  # noqa: E402
import pictures  # noqa: E402
import reference  # noqa: E402


def on_files(files: Files, config: Any) -> Files:
    pages = {f"api/{path.removeprefix('nbgrad.')}.md": reference.page(path) for path in reference.PAGES}
    pages["map.md"] = pictures.page()
    pages["graph.svg"] = pictures.graph()
    pages["kernel.md"] = kernel.page()
    pages["examples.md"] = examples()
    pages["benchmarks.md"] = benchmarks()
    pages["contributing.md"] = from_root("CONTRIBUTING.md")
    pages["changelog.md"] = from_root("CHANGELOG.md")
    pages["api/index.md"] = index()
    for where, text in pages.items():
        files.append(File.generated(config, where, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """`<!-- README: heading -->` becomes what stands in the README under that heading, so that it stands in one place."""
    return re.sub(r"<!-- README: (.*) -->", lambda m: section(from_root("README.md"), m[1]), markdown)


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
            f'??? note "examples/{file.name}"',
            "",
            "    ```python",
            *("    " + line for line in source.splitlines()),
            "    ```",
            "",
        ]
    return "\n".join(text)


EXAMPLES = """# Examples

Programs in `examples/`, written as for PyTorch. Below each command stand lines that it prints; a test holds that nbgrad prints
them, and, but for the two that use nbgrad's own functions, PyTorch too. `--short` takes seconds. `pip install -e '.[examples]'`
adds plots and scikit-learn's data. """


def benchmarks() -> str:
    """What is written of figures, and a list of all that the suite measures, from its files."""
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
    text = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    return text.replace("<!-- the suite's files -->", "\n".join(rows))
