"""nbgrad as a tool of GradBench: the protocol, and all twelve programs against references in NumPy, to 1e-8."""

import json
from typing import Any

import numpy as np
import pytest

from asv_benchmarks.gradbench.__main__ import answer, answers
from asv_benchmarks.gradbench.programs import LOOPS, TENSORS
from nbgrad.adjoints.api import Made
from tests.adjoints.gradbench import expected, inputs

CASES = [
    pytest.param(table, module, function, id=f"{name}-{module}-{function}")
    for name, table in (("loops", LOOPS), ("tensors", TENSORS))
    for module, functions in table.items()
    for function in functions
]


def agrees(found: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            agrees(found[key], wanted[key])
    else:
        assert np.shape(found) == np.shape(wanted)
        np.testing.assert_allclose(
            np.array(found), np.real(wanted), rtol=1e-8, atol=1e-8 * max(1, np.max(np.abs(wanted)))
        )


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """With `--whole`, else it is what Numba would compile that is run: to compile takes minutes."""
    if not whole:
        monkeypatch.setattr(Made, "compiled", property(lambda made: made.plain))


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("table", "module", "function"), CASES)
def test_program(table: Any, module: str, function: str, whole: bool) -> None:
    if table is TENSORS and module in ("particle", "saddle") and not whole:
        pytest.skip("a descent on a tape takes a minute")
    for given in inputs()[module]:
        message = {"kind": "evaluate", "module": module, "function": function, "input": given}
        found = answer(table, json.loads(json.dumps(message)))
        assert found["success"], found["error"]
        wanted = expected(module, function, given)
        agrees(json.loads(json.dumps(found["output"])), wanted)


def test_all_twelve() -> None:
    assert len(LOOPS) == 12 and LOOPS.keys() == TENSORS.keys() == inputs().keys()


def test_protocol() -> None:
    sent = [
        {"kind": "start", "eval": "lse"},
        {"kind": "define", "module": "lse"},
        {
            "kind": "evaluate",
            "module": "lse",
            "function": "primal",
            "input": {"x": [0.0, 0.0], "min_runs": 3, "min_seconds": 0},
        },
        {"kind": "analysis", "of": 2, "valid": True},
        {"kind": "define", "module": "unknown"},
        {"kind": "evaluate", "module": "lse", "function": "unknown", "input": {}},
        {"kind": "evaluate", "module": "lse", "function": "primal", "input": {"y": 1}},
        {"kind": "end"},
    ]
    lines = (json.dumps({"id": k} | message) for k, message in enumerate(sent))
    start, define, evaluate, analysis, unknown, missing, wrong, end = map(json.loads, answers(TENSORS, lines))
    assert start == {"id": 0, "tool": "nbgrad"}
    assert define == {"id": 1, "success": True}
    assert evaluate["output"] == pytest.approx(np.log(2)) and evaluate["success"]
    assert [t["name"] for t in evaluate["timings"]] == ["evaluate"] * 3
    assert all(isinstance(t["nanoseconds"], int) for t in evaluate["timings"])
    assert analysis == {"id": 3} and end == {"id": 7}
    assert unknown == {"id": 4, "success": False, "error": "no module unknown"}
    assert missing == {"id": 5, "success": False, "error": "no function lse::unknown"}
    assert not wrong["success"] and "KeyError" in wrong["error"]
