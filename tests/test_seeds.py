"""Five notebooks that people wrote for PyTorch, run cell by cell with nbgrad as torch.

A seed is the notebook as text: `In [n]:`, the code, a blank line, what was shown, then prose. Where code ends
and output begins cannot be told from the text (`tensor([0., 1.])` is Python, too): CELLS counts the lines of each.
"""

import ast
import contextlib
import io
import re
import warnings
from pathlib import Path

import pytest

from tests.errors import REFUSALS
from tests.support import T, as_torch

SEEDS = Path(__file__).parent / "seeds"

# Seed -> for each cell, in the order of the notebook: (label, lines of code, lines of output).
CELLS = {
    "000_7a3291c6393d4ef6": [("43", 4, 0), ("46", 30, 0), ("57", 23, 0), ("74", 11, 0)],
    "001_6b05dcf81c00dcf3": [
        ("1", 1, 0),
        ("2", 2, 1),
        ("3", 3, 0),
        ("5", 1, 1),
        ("4", 2, 1),
        ("6", 2, 1),
        ("8", 1, 2),
        ("9", 1, 1),
        ("10", 1, 1),
        ("11", 4, 1),
        ("18", 1, 2),
        ("20", 4, 1),
        ("22", 1, 1),
        ("64", 7, 1),
        ("66", 1, 4),
        ("67", 3, 1),
        ("68", 9, 0),
        ("79", 5, 1),
        ("80", 1, 1),
    ],
    "002_ad422d25ec9974e1": [
        ("26", 13, 1),
        ("27", 1, 0),
        ("28", 5, 6),
        ("29", 13, 7),
        ("30", 11, 6),
        ("31", 5, 2),
        ("32", 2, 1),
        (" ", 13, 0),
        ("34", 5, 2),
        ("23", 5, 2),
        ("35", 3, 1),
        ("40", 3, 3),
    ],
    "003_e098977270c1702c": [
        ("8", 2, 0),
        ("12", 5, 1),
        ("19", 2, 1),
        ("34", 1, 1),
        ("23", 4, 1),
        ("26", 6, 2),
        ("31", 8, 3),
        ("32", 5, 3),
        ("2", 8, 2),
        ("3", 2, 0),
        ("4", 2, 2),
        ("5", 7, 2),
        ("6", 3, 1),
        ("7", 2, 1),
    ],
    "004_0efd4410a84118f9": [("5", 39, 8), ("8", 16, 3)],
}

# The cells that are not compared as they stand, and why.
NEWER_TEXT = {  # the seed shows an older release: its text -> 2.13's
    ("002", "29"): [("<MulBackward\\b", "<MulBackward0"), ("<MeanBackward1\\b", "<MeanBackward0")],
    ("002", "32"): [(r"RuntimeError: Trying .*", REFUSALS["backward twice"].text)],
}
MASKED = {  # what differs from run to run
    ("002", "29"): r"0x[0-9a-f]+",  # an address
    ("002", "40"): r" *-?\d\.\d{4}",  # unseeded random numbers
}
NOT_RUN = {
    ("002", " ")
}  # the author did not run it (`In [None]`): run here, but it has no output to compare with
WARNS = {
    ("002", "29"): 2
}  # `.grad` of a non-leaf, read twice: 2.13 warns (on stderr), the release of the seed did not

Cell = tuple[str, str, str]


def read_cells(seed: str) -> list[Cell]:
    """(label, source, expected output) of each cell."""
    lines = (SEEDS / f"{seed}.txt").read_text(encoding="utf-8").split("\n")
    starts = [i + 1 for i, line in enumerate(lines) if re.fullmatch(r"In \[(\d+|None)\]:", line)]
    assert len(starts) == len(CELLS[seed])
    cells = []
    for start, (label, n_code, n_out) in zip(starts, CELLS[seed], strict=True):
        assert label in (" ", lines[start - 1][4:-2])
        code, out = lines[start : start + n_code], lines[start + n_code + 1 : start + n_code + 1 + n_out]
        cells.append((label, "\n".join(code), "\n".join(out)))
    return cells


def shown(value: object) -> str:
    """A cell's last value as IPython shows it: a tuple that does not fit in 79 columns has an item a line."""
    if isinstance(value, tuple):
        items = [repr(item) for item in value]
        line = "(" + ", ".join(items) + ")"
        return line if len(line) <= 79 else "(" + ",\n ".join(items) + ")"
    return repr(value)


def run_cell(source: str, namespace: dict[str, object]) -> str:
    """What the cell prints, then its last value or its error, joined as in the text of the notebooks."""
    body, last = ast.parse(source).body, None
    if isinstance(body[-1], ast.Expr):
        last = ast.Expression(body.pop().value)
    stdout, blocks = io.StringIO(), []
    with contextlib.redirect_stdout(stdout):
        try:
            exec(compile(ast.Module(body, []), "<cell>", "exec"), namespace)
            value = eval(compile(last, "<cell>", "eval"), namespace) if last else None
            if value is not None:
                blocks.append(shown(value))
        except RuntimeError as error:
            blocks.append(f"RuntimeError: {error}")
    if stdout.getvalue():
        blocks.insert(0, stdout.getvalue())
    return "\n\n".join(blocks).rstrip("\n")


@pytest.mark.parametrize("seed", CELLS)
def test_notebook(seed: str) -> None:
    number = seed[:3]
    namespace: dict[str, object] = {"__name__": "__main__"}
    if number == "003":
        namespace["torch"] = T  # its later cells say `torch`, its import says `as t`
    with as_torch(T):
        for label, source, expected in read_cells(seed):
            key = (number, label)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                got = run_cell(source, namespace)
            assert len(caught) == WARNS.get(key, 0), [str(w.message) for w in caught]
            for old, new in NEWER_TEXT.get(key, ()):
                expected = re.sub(old, lambda _, new=new: new, expected)
            if key in MASKED:
                got, expected = (re.sub(MASKED[key], "#", text) for text in (got, expected))
            if key not in NOT_RUN:
                assert got == expected.rstrip("\n"), f"In [{label}]"
