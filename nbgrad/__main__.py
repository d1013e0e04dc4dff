"""`python -m nbgrad run script.py [arguments]`: runs a script that imports torch with nbgrad in its place; `launch` runs it in several
processes, `warmup` compiles for later, `coverage` tells what of PyTorch is there.

So do `run -m module` and `run -`, which reads standard input. Promises the program that `torch` is nbgrad, and that all else (arguments,
`__main__`, where modules are found, exit status) is as under `python script.py`. What nbgrad lacks is refused by name.
"""

from __future__ import annotations

import builtins
import os
import runpy
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

from nbgrad.as_torch import install

USAGE = """usage: python -m nbgrad run script.py [arguments]
       python -m nbgrad run -m module [arguments]
       python -m nbgrad run - [arguments]          (the program is read from standard input)
       python -m nbgrad launch --nproc N script.py [arguments]    (or -m module: N processes, by MPI)
       python -m nbgrad warmup [script.py [arguments]]
       python -m nbgrad coverage [torch.module ...] [--all] [--against torch] [--json FILE]

Runs a program that imports torch with nbgrad in its place. `launch` runs it in N processes, which `torch.distributed` lets work together,
by the mpiexec that is there, whose options may stand before the script (if they have values, before `-- script.py`). `warmup` says
afterwards how many kernels are kept for the next run; without a script it compiles what most programs ask for. `coverage` counts which
of PyTorch's names work, and lists those of a module that raise when they are used."""


def run(program: str, arguments: Sequence[str]) -> None:
    """What `python` does with a script, or `-`."""
    path: str | None = None
    if program == "-":
        text = sys.stdin.buffer.read()
    else:
        path = os.path.abspath(program)
        try:
            with open(program, "rb") as f:
                text = f.read()
        except OSError as error:
            python = os.path.basename(sys.executable)
            print(
                f"{python}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr
            )
            raise SystemExit(2) from None
    install()
    sys.argv[:] = [program, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = "" if path is None else os.path.dirname(os.path.realpath(program))
    code = compile(text, "<stdin>" if path is None else program, "exec", dont_inherit=True)
    _as_main(code, {"__file__": path or "<stdin>", "__cached__": None})


def run_module(name: str, arguments: Sequence[str]) -> None:
    """What `python -m` does."""
    install()
    sys.argv[:] = ["-m", *arguments]
    try:
        _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
    except ImportError as error:
        print(f"{sys.executable}: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    sys.argv[0] = spec.origin
    _as_main(
        code,
        dict(
            __file__=spec.origin,
            __cached__=spec.cached,
            __loader__=spec.loader,
            __package__=spec.parent,
            __spec__=spec,
        ),
    )


def warm_up(program: Sequence[str]) -> None:
    """Runs a script, or what is usual, for the kernels that it asks for."""
    from nbgrad import warmup

    try:
        if program:
            run(program[0], program[1:])
        else:
            warmup.usual()
    finally:  # of a script that ends with `sys.exit`, too
        warmup.report()


def _as_main(code: CodeType, names: dict[str, Any]) -> None:
    main = ModuleType("__main__")
    main.__dict__.update(names, __builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def command(arguments: Sequence[str]) -> None:
    match arguments:
        case ["-h" | "--help"] | ["run" | "warmup", "-h" | "--help", *_]:
            print(USAGE)
        case ["coverage", *rest]:
            from nbgrad.names import coverage

            raise SystemExit(coverage.command(rest))
        case ["launch", "--nproc", *rest] if len(rest) > 1 and rest[0].isdecimal():
            from nbgrad.distributed import _launching

            _launching.launch(int(rest[0]), rest[1:])
        case ["_one_of_many", *rest]:
            from nbgrad.distributed import _launching

            _launching.one_of_many(lambda: command(["run", *rest]))
        case ["run", "-m", module, *rest]:
            run_module(module, rest)
        case ["run", program, *rest] if program == "-" or not program.startswith("-"):
            run(program, rest)
        case ["warmup", *rest] if not (rest and rest[0].startswith("-")):
            warm_up(rest)
        case _:
            print(USAGE, file=sys.stderr)
            raise SystemExit(2)


if __name__ == "__main__":
    command(sys.argv[1:])
