"""Machine code of GPUs, made once per machine: kept where the CPU's kernels are, by the same rules.

Promises `cubin(name, source, params, capability)`; what decides it decides its file's name, so a kernel that was compiled before asks
for no compiler, and one whose helpers or packages have changed is compiled anew. `store.py` says why what lies there may be run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata

from nbgrad.base.tables import cached
from nbgrad.kernels import build, compiling, progress
from nbgrad.kernels.cuda.compile import Capability, compiled
from nbgrad.kernels.store import store

_CALLED = re.compile(r"^from nbgrad\.kernels\.([\w.]+) import (\w+)", re.MULTILINE)
_MAKERS = ("numba", "llvmlite", "numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink")


def cubin(name: str, source: str, params: Sequence[str], capability: Capability) -> tuple[str, bytes]:
    """The code of a CUDA text for devices of this capability, and the name that its kernel has there."""
    major, minor = capability
    decides = name, source, tuple(params), capability, _helpers(source), _versions()
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
    called = {f"cuda.{what}" if module == "cuda" else module for module, what in _CALLED.findall(source)}
    return [build.text_of(module) for module in sorted({"cuda.compile", *called})]


@cached(1)
def _versions() -> list[str]:
    return [_version(package) for package in _MAKERS]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # of a toolkit that the system brings
        return ""
