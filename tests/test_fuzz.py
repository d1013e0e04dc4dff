"""Some of the fuzzer's calls; `python -m tests.fuzz` makes as many as are wanted."""

import sys
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from nbgrad.core.signatures import signatures
from tests import fuzz
from tests.support import T

pytestmark = pytest.mark.oracle

CALLS = 2000


def test_calls(torch: ModuleType) -> None:
    results = list(fuzz.results(0, 0, CALLS, shrink=False))
    assert len(results) == CALLS and len({r.number for r in results}) == CALLS
    counts = Counter(r.how for r in results)
    wrong = [str(r) for r in results if r.how == "process"]
    assert not wrong, "\n\n".join(wrong)
    unlike = [str(r) for r in results if r.how in ("type", "form")]
    assert len(unlike) <= CALLS // 70, "\n\n".join(unlike)
    assert counts["text"] <= CALLS // 3, counts


def test_a_call_comes_from_its_number() -> None:
    assert str(fuzz.draw(3, 17)) == str(fuzz.draw(3, 17)) != str(fuzz.draw(3, 18))


def test_what_differs_is_seen_and_made_small(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fuzzer that finds nothing would pass everything."""
    call = fuzz.Call("torch.add", (("", "torch.ones(2, 3)"), ("", "'a'"), ("alpha", "2")))
    assert fuzz.compared(call)[0] in ("", "text")
    monkeypatch.setattr(T, "add", lambda *args, **kwargs: args[0])
    found = fuzz.compared(call)
    assert found[0] == "type"
    assert str(fuzz.smallest(call, found)[0]) == "torch.add(torch.ones(2, 3), 'a')"


CHILD = """
import json, os, sys
first = int(sys.argv[sys.argv.index("--first") + 1])
for number in range(first, 7):
    print(json.dumps({"number": number, "call": "f()"}), flush=True)
    if number == 5:
        os._exit(3)
    print(json.dumps({"number": number, "call": "f()", "found": ["", "1", "1"]}), flush=True)
"""


def test_a_call_that_ends_the_process_is_told() -> None:
    found = list(fuzz.results(0, 4, 3, child_is=[sys.executable, "-c", CHILD]))
    assert [(r.number, r.how, r.nbgrad) for r in found] == [
        (4, "", "1"),
        (5, "process", "ends with 3"),
        (6, "", "1"),
    ]


def _by_name(call: fuzz.Call, way: Any, others: bool) -> fuzz.Call | None:
    """The call with its arguments under PyTorch's names, or NumPy's where it has some."""
    positional = [text for name, text in call.args if not name]
    names = [p.name for p in way.parameters[: len(positional)] if not p.named_only]
    if len(names) < len(positional) or not names or way.of_python or {"self", "from"} & {*names}:
        return None
    also = [fuzz.NUMPY_NAMES.get(n, n) for n in names]
    return call.of(
        list(zip(also if others else names, positional, strict=True)) + [a for a in call.args if a[0]]
    )


@pytest.mark.parametrize("others", [False, True], ids=["own", "numpy"])
def test_arguments_by_all_their_names(torch: ModuleType, others: bool) -> None:
    unlike = []
    for path in fuzz.names():
        for way in signatures(path):
            for call in fuzz.typical().get(path, [])[:1]:
                named = _by_name(call, way, others)
                if named and not any(a[0] for a in call.args):
                    want, got = (fuzz.kind(fuzz.made(named, m)) for m in (torch, T))
                    if want != got:
                        unlike.append(f"{named}: {got or 'taken'}, not {want or 'taken'}")
    assert not unlike, "\n".join(unlike)
