"""What is looked at before any test runs, in less than a minute: `python -m tests.check`; `.ci/run` begins with it.

Every check runs, also after one that fails; the exit status counts those that failed.
"""

import subprocess
import sys
import time
from pathlib import Path

CHECKS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
    "stubs": ["tests.stubs", "--check"],
    "layers": ["pytest", "--quiet", "tests/test_layers.py"],
}


def main() -> int:
    failed = 0
    for name, command in CHECKS.items():
        start = time.perf_counter()
        status = subprocess.run([sys.executable, "-m", *command], cwd=Path(__file__).parent.parent).returncode
        failed += status != 0
        print(f"{name}: {'FAILED' if status else 'ok'}, {time.perf_counter() - start:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
