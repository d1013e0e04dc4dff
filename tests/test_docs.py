"""What the pages for people show as Python runs, and gives what stands beside it; the pages of names can be made."""

import re
from pathlib import Path
from typing import Any

import pytest

from docs import reference

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
BESIDE = re.compile(r"(\S.*?) +# (tensor\(.*)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "page"}
    whole = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(whole):
        block = found[1]
        text = re.sub("^    ", "", block, flags=re.MULTILINE) if block.startswith("    ") else block
        above = "\n" * whole.count(
            "\n", 0, found.start(1)
        )  # so that a function's source is found in the page
        exec(compile(above + text, str(page), "exec"), scope)
        for expression, shown in BESIDE.findall(text):
            assert repr(eval(expression, scope)) == shown, expression


def test_some_page_shows_values() -> None:
    """Else the comparison above would pass for want of anything to compare."""
    assert sum(len(BESIDE.findall(page.read_text(encoding="utf-8"))) for page in PAGES) >= 3


def test_every_public_name_is_on_a_page() -> None:
    for path in reference.PAGES:
        page = reference.page(path)
        shown = set(page.splitlines())
        names = [name for name, _ in reference.names(path)]
        missing = [
            name
            for name in names
            if not shown & {f"{level} {reference.escaped(name)}" for level in ("##", "###")}
            and f"- `{name}`: " not in page
        ]
        assert not missing, path
        assert " object at 0x" not in page, "an address, another one at each build"


def test_signatures_are_as_one_calls() -> None:
    from nbgrad import Tensor, hypot

    assert reference.signature("hypot", hypot, out=True) == "hypot(input, other, *, out=None)"
    assert reference.signature("hypot", Tensor.hypot, bound=True) == "hypot(other)"
    assert reference.signature("softmax", Tensor.softmax, bound=True).startswith(
        "softmax(dim: int, dtype=None)"
    )


def test_out_is_shown_where_it_is_taken() -> None:
    page = reference.page("nbgrad")
    assert "torch.isreal(input)\n" in page and "torch.lcm(input, other, *, out=None)\n" in page
