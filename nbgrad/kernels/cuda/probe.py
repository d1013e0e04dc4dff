"""Whether there is a GPU to compute on, and if not, why: asked of the driver's library alone, which takes no package.

Promises that a machine without a driver answers at once, as PyTorch's build without CUDA does.
"""

from __future__ import annotations

import ctypes
import os

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached

LEAST = 13000  # CUDA's version, as its driver says it, that the packages of the extra are for
_NEEDED = ("cuda.core", "cuda.bindings", "numba_cuda")
_COMPILER = (0, 30)  # of numba-cuda, as the extra asks for it
_INSTALL = "pip install 'nbgrad[cuda]'"
_NO_BUILD = "Torch not compiled with CUDA enabled"


class Found(NamedTuple):
    """Of a driver: how many devices it has, and which version of CUDA it knows."""

    devices: int
    version: int


@cached(1)
def found() -> Found | None:
    """What the driver says; None where there is none."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return None
    count, version = ctypes.c_int(), ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(version)) or library.cuInit(0):
        return Found(0, version.value)
    library.cuDeviceGetCount(ctypes.byref(count))
    return Found(count.value, version.value)


@cached(1)
def refusal() -> Exception | None:
    """Why no GPU can be used here; None where one can."""
    driver = found()
    if driver is None:
        return AssertionError(_NO_BUILD)
    missing = [name for name in _NEEDED if not _is_there(name)]
    if missing:
        return AssertionError(f"{_NO_BUILD}: there is a driver, but no {', '.join(missing)}; {_INSTALL}")
    from importlib import metadata  # only now, as it reads files as mails are read

    version = metadata.version("numba-cuda")
    if tuple(map(int, version.split(".")[:2])) != _COMPILER:
        wanted = ".".join(map(str, _COMPILER))
        return AssertionError(
            f"{_NO_BUILD}: kernels are compiled by numba-cuda {wanted}, and this is {version}; {_INSTALL}"
        )
    if driver.version < LEAST:
        return RuntimeError(
            f"The NVIDIA driver on your system is too old (found version {driver.version}). Please update your GPU driver by "
            "downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
        )
    return None if driver.devices else RuntimeError("No CUDA GPUs are available")


def _is_there(name: str) -> bool:
    from importlib import util

    try:
        return util.find_spec(name) is not None
    except ModuleNotFoundError:  # not even its package
        return False


def devices() -> int:
    """How many can be used: 0 where something is missing."""
    driver = found()
    return driver.devices if driver is not None and refusal() is None else 0


_process = os.getpid()


def forked() -> bool:
    """Whether this process is a child of one that had asked its driver, which answers no child; of none, none is left to ask."""
    asked = bool(found.cache_info().currsize)  # type: ignore[attr-defined]
    return os.getpid() != _process and asked and found() is not None


def check() -> None:
    """Refuse to begin where nothing can be used, in words of what to do; and in a child of a process that had asked its driver."""
    if forked():
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
        )
    reason = refusal()
    if reason is not None:
        raise type(reason)(*reason.args)
