"""What the pages for people show as Python runs, and gives what stands beside it."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
BESIDE = re.compile(r"(\S.*?) +# (tensor\(.*)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "page"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        text = re.sub("^    ", "", block, flags=re.MULTILINE) if block.startswith("    ") else block
        exec(compile(text, str(page), "exec"), scope)
        for expression, shown in BESIDE.findall(text):
            assert repr(eval(expression, scope)) == shown, expression


def test_some_page_shows_values() -> None:
    """Else the comparison above would pass for want of anything to compare."""
    assert sum(len(BESIDE.findall(page.read_text(encoding="utf-8"))) for page in PAGES) >= 3
