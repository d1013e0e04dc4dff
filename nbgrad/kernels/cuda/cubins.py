"""Machine code of GPUs, made once per machine: kept where the CPU's kernels are, by the same rules.

Promises `cubin(name, source, params, capability)`; what decides it decides its file's name, so a kernel that was compiled before asks
for no compiler, and one whose helpers or packages have changed is compiled anew. `store.py` says why what lies there may be run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from nbgrad.base.tables import cached
from nbgrad.kernels import build, compiling, progress
from nbgrad.kernels.cuda.compile import Capability, compiled
from nbgrad.kernels.store import store

_CALLED = re.compile(r"^\s*from nbgrad\.kernels((?:\.\w+)*) import ([\w, ]+)", re.MULTILINE)
_KERNELS = Path(__file__).parent.parent
_PACKAGES = ("numba", "llvmlite", "numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink")


def cubin(name: str, source: str, params: Sequence[str], capability: Capability) -> tuple[str, bytes]:
    """The code of a CUDA text for devices of this capability, and the name that its kernel has there."""
    major, minor = capability
    decides = name, source, tuple(params), capability, _helpers(source), _makers()
    name = f"{name}_sm{major}{minor}_{build.digest(decides)[:20]}"
    kept = store()
    data = kept.read(f"{name}.cubin") if kept is not None else None
    if data is None:
        with progress.compiling(name), compiling.lock():
            made = compiled(name, source, params, capability)
            data = made.entry.encode() + b"\n" + made.cubin().code
        if kept is not None:
            kept.show(f"{name}.py", made.source)
            kept.write(f"{name}.cubin", data)
    entry, _, code = data.partition(b"\n")
    return entry.decode(), code


def _helpers(source: str) -> list[str]:
    """The hashes of what the text calls."""
    return [_helper(path) for path in sorted(set(_called(source)))]


def _called(text: str) -> Iterator[Path]:
    for package, names in _CALLED.findall(text):
        place = _KERNELS.joinpath(*package.split(".")[1:])
        asked = [place / name.strip() for name in names.split(",")] if place.is_dir() else [place]
        for module in asked:
            yield module / "__init__.py" if module.is_dir() else module.with_suffix(".py")


@cached(None)
def _helper(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return build.digest((text, _helpers(text)))


@cached(1)
def _makers() -> list[str]:
    maker = (_KERNELS / "cuda" / "compile.py").read_text(encoding="utf-8")
    return [build.digest(maker), *[_version(package) for package in _PACKAGES]]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # of a toolkit that the system brings
        return ""
