"""A library's own tests on nbgrad and, beside, on PyTorch, by hand:

    python -m tests.libraries.own einops-0.8.2 --torch .venv/bin/python --here libraries/bin/python einops/tests

The first is an unpacked source distribution; `--torch` and `--here` are interpreters that have what the tests need, the one with PyTorch
and the other without. What passes on PyTorch and not here is listed, and the exit code is 1 if anything is.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

PASSED = re.compile(r"^PASSED (\S+)", re.MULTILINE)
ROOT = Path(__file__).parents[2]


def passed(python: str, where: Path, arguments: list[str], path: str) -> set[str]:
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "-rp", *arguments],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    found = set(PASSED.findall(done.stdout))
    if not found:
        raise SystemExit(f"{python}: nothing passed\n{done.stdout}{done.stderr}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--torch", required=True)
    parser.add_argument("--here", default=sys.executable)
    options, tests = parser.parse_known_args()
    where = options.sources.resolve()
    there = passed(options.torch, where, tests, str(where))
    ours = passed(options.here, where, ["-p", "nbgrad.as_torch", *tests], f"{ROOT}{os.pathsep}{where}")
    missing = sorted(there - ours)
    print(*missing, f"{len(there)} pass on PyTorch, {len(there & ours)} of them here", sep="\n")
    raise SystemExit(bool(missing))


if __name__ == "__main__":
    main()
