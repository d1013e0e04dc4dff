"""nbgrad as a tool of GradBench: `python -m asv_benchmarks.gradbench [--tensors] [--multithreaded]` answers on stdout what it is sent on
stdin, a line of JSON each.

    gradbench run --eval 'gradbench repo eval gmm' --tool 'python -m asv_benchmarks.gradbench'
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

import nbgrad
from asv_benchmarks.gradbench.programs import LOOPS, TENSORS, Asked

Table = dict[str, dict[str, Asked]]


def evaluated(asked: Asked, given: Any) -> dict[str, Any]:
    """At least `min_runs` runs, for at least `min_seconds` (GradBench's first versions: `runs` of them); each is timed."""
    least, seconds = (1, 0.0)
    if isinstance(given, dict):
        least, seconds = int(given.get("min_runs", given.get("runs", 1))), float(given.get("min_seconds", 0))
    args = asked.prepare(given)
    timings: list[dict[str, Any]] = []
    spent = 0
    while len(timings) < max(least, 1) or spent < seconds * 1e9:
        began = time.perf_counter_ns()
        found = asked.run(*args)
        took = time.perf_counter_ns() - began
        timings.append({"name": "evaluate", "nanoseconds": took})
        spent += took
    return {"success": True, "output": asked.show(found), "timings": timings}


def answer(table: Table, message: dict[str, Any]) -> dict[str, Any]:
    kind = message["kind"]
    if kind == "start":
        return {"tool": "nbgrad"}
    if kind == "define":
        known = message["module"] in table
        return {"success": known} if known else {"success": False, "error": f"no module {message['module']}"}
    if kind == "evaluate":
        asked = table.get(message["module"], {}).get(message["function"])
        if asked is None:
            return {"success": False, "error": f"no function {message['module']}::{message['function']}"}
        try:
            return evaluated(asked, message["input"])
        except Exception as error:
            return {"success": False, "error": "".join(traceback.format_exception(error))}
    return {}


def answers(table: Table, lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        message = json.loads(line)
        yield json.dumps({"id": message["id"]} | answer(table, message))
        if message["kind"] == "end":
            return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensors", action="store_true")
    parser.add_argument("--multithreaded", action="store_true")
    given = parser.parse_args()
    if not given.multithreaded:
        nbgrad.set_num_threads(1)
    for line in answers(TENSORS if given.tensors else LOOPS, iter(sys.stdin)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
