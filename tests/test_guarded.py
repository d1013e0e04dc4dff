"""The table between unreadable pages (`tests/guarded.py`), and whether that sees anything at all."""

import pytest

from tests import guarded
from tests.cases import CASES

pytestmark = pytest.mark.slow


def test_no_case_reaches_beyond_its_buffers(whole: bool) -> None:
    """Every sixth case: all take four minutes (`--whole`, or `python -m tests.guarded`)."""
    names = list(CASES) if whole else list(CASES)[::6]
    count, wrong = guarded.guard(names, whole)
    assert not wrong, "\n".join(wrong)
    assert count > 5 * len(names)


PLANTED = """
import ctypes
from tests.cases import CASES, OpCase, UNARY

def plant(name, fn):
    CASES[name] = OpCase(name, fn, (((3, 4),),), dtypes=("float64",), differentiable=False)

plant("reads behind", lambda T, x: x + ctypes.string_at(x.data_ptr(), 8 * 12 + 1)[0])
plant("reads before", lambda T, x: x + ctypes.string_at(x.data_ptr() - 1, 1)[0])
plant("writes behind", lambda T, x: ctypes.memset(x.data_ptr() + 8 * 12, 0, 1))
plant("writes before", lambda T, x: ctypes.memset(x.data_ptr() - 1, 0, 1))
plant("nobody wrote", lambda T, x: T.empty(4))
plant("as it should", lambda T, x: x + 1)
"""


def test_what_reaches_beyond_is_seen() -> None:
    names = [
        "reads behind",
        "reads before",
        "neg",
        "writes behind",
        "writes before",
        "nobody wrote",
        "as it should",
    ]
    _, wrong = guarded.guard(names, code=PLANTED)
    told = {name: [line for line in wrong if line.startswith(f"{name},")] for name in names}
    assert not told["neg"] and not told["as it should"], wrong
    assert all("SIGSEGV (end)" in line for line in told["reads behind"]) and told["reads behind"]
    assert all("SIGSEGV (start)" in line for line in told["reads before"]) and told["reads before"]
    for name in ("writes behind", "writes before"):
        assert told[name] and all("SIGSEGV" in line and "SIGABRT" in line for line in told[name]), wrong
    assert any("nobody has written" in line for line in told["nobody wrote"])
