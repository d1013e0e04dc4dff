"""From a CUDA text to PTX, and to a cubin, on any machine: no driver is asked.

Promises `compiled(name, source, params, capability)`, whose `cubin()` nvJitLink assembles; what numba-cuda 0.30 wants for that
stands here and nowhere else, and is imported at the first kernel. Both come with the extra `cuda`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from nbgrad.kernels import build
from nbgrad.kernels.codes import FLOAT8

Capability = tuple[int, int]
_SCALARS = {
    **{"f4": "float32", "f8": "float64", "f2": "uint16", "g2": "uint16", "b1": "uint8", "u1": "uint8"},
    **{"u2": "uint16", "u4": "uint32", "u8": "uint64", **dict.fromkeys(FLOAT8, "uint8")},
    **{"i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u4": "uint32"},
}


class Cubin(NamedTuple):
    """Machine code for one kind of device, and what its assembler says of it."""

    code: bytes
    log: str

    def _said(self, pattern: str) -> int:
        return sum(int(n) for n in re.findall(pattern, self.log))

    @property
    def registers(self) -> int:
        """Of a thread."""
        return self._said(r"Used (\d+) registers")

    @property
    def stack(self) -> int:
        """Bytes of a thread's own memory, arrays included."""
        return self._said(r"(\d+) bytes stack frame")

    @property
    def spills(self) -> int:
        """Bytes that went to memory for want of registers."""
        return self._said(r"(\d+) bytes spill (?:stores|loads)")


class Compiled(NamedTuple):
    """A kernel as PTX, which any device of the capability or a later one takes."""

    name: str
    source: str
    capability: Capability
    ptx: str

    @property
    def entry(self) -> str:
        """What the kernel is called there."""
        found = re.search(r"\.entry (\w+)\(", self.ptx)
        assert found is not None
        return found[1]

    @property
    def float64(self) -> int:
        """How many of its instructions compute in float64; conversions and memory do not count."""
        return len(
            re.findall(
                r"^\s*(?:@%p\d+ )?(?:add|sub|mul|fma|mad|div|rcp|sqrt|rsqrt|neg|abs|min|max)[.\w]*\.f64",
                self.ptx,
                re.M,
            )
        )

    @property
    def params(self) -> int:
        """How many parameters a launch gives it."""
        return len(re.findall(r"\.param", self.ptx.split(".entry", 1)[1].split(")", 1)[0]))

    def cubin(self) -> Cubin:
        """Assembled for devices of the capability."""
        from cuda.bindings import nvjitlink

        handle = nvjitlink.create(2, [f"-arch=sm_{self.capability[0]}{self.capability[1]}", "-verbose"])
        text = self.ptx.encode()
        try:
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), self.name)
            nvjitlink.complete(handle)
            log = bytearray(nvjitlink.get_info_log_size(handle))
            nvjitlink.get_info_log(handle, log)
            code = bytearray(nvjitlink.get_linked_cubin_size(handle))
            nvjitlink.get_linked_cubin(handle, code)
        finally:
            nvjitlink.destroy(handle)
        return Cubin(bytes(code), log.decode().rstrip("\0"))


def compiled(name: str, source: str, params: Sequence[str], capability: Capability = (9, 0)) -> Compiled:
    """`source` has a function @NAME@ whose parameters have these codes."""
    source = source.replace("@NAME@", name)
    with _no_device_asked(capability) as cuda:
        from numba import types  # after cuda, which numba-cuda puts in the place of Numba's own

        kinds = [getattr(types, _SCALARS[code.lstrip("*")]) for code in params]
        passed = [types.CPointer(kind) if code[0] == "*" else kind for code, kind in zip(params, kinds)]
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # numba-cuda's of versions, NVVM's of what it does for old devices
            kernel = _with_its_functions(build.load_source(name, source, f"<{name}>"), cuda)
            ptx, _ = cuda.compile_ptx(kernel, types.void(*passed), cc=capability)
    return Compiled(name, source, capability, str(ptx))


def _with_its_functions(kernel: Callable[..., None], cuda: Any) -> Callable[..., None]:
    """What the text defines beside the kernel, as what a kernel can call."""
    names = kernel.__globals__
    for name, value in list(names.items()):
        if isinstance(value, FunctionType) and value is not kernel and value.__globals__ is names:
            names[name] = cuda.jit(device=True)(value)
    return kernel


@contextmanager
def _no_device_asked(capability: Capability) -> Iterator[Any]:
    """numba.cuda, which asks for the current device whenever a kernel calls a function of `cuda.jit`, only to learn what it can."""
    if not hasattr(np, "row_stack"):  # NumPy 2.5 has dropped it; numba-cuda 0.30 reads it
        np.row_stack = np.vstack  # type: ignore[attr-defined, unused-ignore]
    from numba import cuda
    from numba.cuda import dispatcher

    asked = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield cuda
    finally:
        dispatcher.get_current_device = asked
