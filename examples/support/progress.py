"""How far an example is: one line that is written over on a terminal, four lines in a file."""

import sys


def progress(done: int, total: int, text: str) -> None:
    """To be called after each of `total` steps."""
    terminal = sys.stdout.isatty()
    if done == total or done % max(total // (100 if terminal else 4), 1) == 0:
        print(f"\r{text}" if terminal else text, end="" if terminal and done < total else "\n", flush=True)
