"""Files in the safetensors format: named tensors, and text about them; nothing that could be run.

A file is the length of a header (8 bytes, little-endian), the header (JSON: per name a dtype, a shape and where its bytes begin and
end), and the bytes. A header that is too large, or that describes bytes which are not there, overlap or leave gaps, is refused.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.exchange.files import Path, replacing
from nbgrad.kernels.codes import FLOAT8
from nbgrad.memory import dtypes
from nbgrad.ops.make.data import from_numpy
from nbgrad.ops.make.filled import empty

_MAX_HEADER = 100_000_000  # what the format's own reader accepts

_CODES = {
    dtypes.bool_: "BOOL",
    dtypes.uint8: "U8",
    dtypes.int8: "I8",
    dtypes.int16: "I16",
    dtypes.int32: "I32",
    dtypes.int64: "I64",
    dtypes.float16: "F16",
    dtypes.bfloat16: "BF16",
    dtypes.float32: "F32",
    dtypes.float64: "F64",
    dtypes.uint16: "U16",
    dtypes.uint32: "U32",
    dtypes.uint64: "U64",
    **{dtypes.of_code(code): f"F8_{bits.removesuffix('fn').upper()}" for code, bits in FLOAT8.items()},
    dtypes.of_code("t1"): "F8_E8M0",
}
_DTYPES = {code: d for d, code in _CODES.items()}


class SafetensorError(Exception):
    """A file, or what is to be written, is not what the format allows.

    >>> from nbgrad.utils import safetensors
    >>> try:
    ...     safetensors.load(b"no file")
    ... except safetensors.SafetensorError:
    ...     print("refused")
    refused
    """


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file that holds the tensors by their names, and `metadata`, text by names.

    >>> from nbgrad.utils import safetensors
    >>> safetensors.load(safetensors.save({"w": torch.tensor([1.0, 2.0])}))
    {'w': tensor([1., 2.])}
    """
    return b"".join(_pieces(tensors, metadata))


def save_file(
    tensors: Mapping[str, Tensor], filename: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Write the tensors by their names, and `metadata`, text by names, to a file, which is replaced as a whole.

    >>> import tempfile
    >>> from nbgrad.utils import safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     safetensors.save_file({"w": torch.tensor([1.0, 2.0])}, f"{folder}/net.safetensors")
    ...     safetensors.load_file(f"{folder}/net.safetensors")
    {'w': tensor([1., 2.])}
    """
    with replacing(filename) as f:
        for piece in _pieces(tensors, metadata):
            f.write(piece)


def _pieces(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> Iterator[Any]:
    header: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(x, str) for pair in metadata.items() for x in pair):
            raise SafetensorError("metadata must be text by text")
        header["__metadata__"] = dict(metadata)
    arrays, end = [], 0
    # Wide elements first, so that all lie at multiples of their size.
    for name, t in sorted(tensors.items(), key=lambda item: (-_checked(*item).itemsize, item[0])):
        seen = t.detach()
        if t.dtype.bits is not None:  # which NumPy does not have
            seen = seen.view(dtypes.from_numpy_dtype(t.dtype.bits))
        array = np.ascontiguousarray(seen.numpy()).reshape(-1)
        header[name] = {
            "dtype": _CODES[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        arrays.append(array)
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for array in arrays:
        yield array.astype(array.dtype.newbyteorder("<"), copy=False).view(np.uint8).data


def _checked(name: Any, t: Any) -> Tensor:
    if not isinstance(name, str) or name == "__metadata__":
        raise SafetensorError(f"a tensor cannot be called {name!r}")
    if not isinstance(t, Tensor):
        raise SafetensorError(f"{name!r} is no tensor but a {type(t).__name__}")
    return t


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file's bytes.

    >>> from nbgrad.utils import safetensors
    >>> safetensors.load(safetensors.save({"n": torch.tensor(3)}))["n"]
    tensor(3)
    """
    return _parse(memoryview(data))[0]


def load_file(filename: Path, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a file, on a device.

    >>> import tempfile
    >>> from nbgrad.utils import safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     safetensors.save_file({"n": torch.tensor(3)}, f"{folder}/n.safetensors")
    ...     safetensors.load_file(f"{folder}/n.safetensors")["n"]
    tensor(3)
    """
    if str(device) != "cpu":
        raise SafetensorError(f"device {device}: this release has the CPU only")
    with open(filename, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        length = _header_length(f.read(8), size)
        f.seek(0)
        return _parse(memoryview(f.read(size)), length)[0]


def load_metadata(filename: Path) -> dict[str, str]:
    """The text that was saved with the tensors.

    >>> import tempfile
    >>> from nbgrad.utils import safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     safetensors.save_file({}, f"{folder}/n.safetensors", {"step": "7"})
    ...     safetensors.load_metadata(f"{folder}/n.safetensors")
    {'step': '7'}
    """
    with open(filename, "rb") as f:
        return _parse(memoryview(f.read()))[1]


def _header_length(start: Any, size: int) -> int:
    if len(start) < 8:
        raise SafetensorError("the header is too small: the file has fewer than 8 bytes")
    (length,) = struct.unpack("<Q", start)
    if length > _MAX_HEADER:
        raise SafetensorError(f"the header is too large: {length} bytes")
    if length + 8 > size:
        raise SafetensorError(f"the header has {length} bytes, the file {size}")
    return int(length)


def _parse(data: memoryview, length: int | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    if length is None:
        length = _header_length(data[:8], len(data))
    header, body = _header(bytes(data[8 : 8 + length])), data[8 + length :]
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SafetensorError("metadata must be text by text")
    entries = {name: _entry(name, entry) for name, entry in header.items()}
    end = 0
    for name, (_, _, begin, stop) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != end:
            raise SafetensorError(
                f"{name!r} begins at byte {begin}, where {end} was next: bytes overlap or are missing"
            )
        end = stop
    if end != len(body):
        raise SafetensorError(f"the header describes {end} bytes, and {len(body)} are there")
    found = {}
    for name, (d, shape, begin, stop) in entries.items():
        if begin == stop:  # NumPy counts the other dimensions
            found[name] = empty(shape, dtype=d)
            continue
        kind = d.bits or d.np
        array = np.frombuffer(bytearray(body[begin:stop]), kind.newbyteorder("<")).astype(kind, copy=False)
        if d is dtypes.bool_:  # of which sums expect 0 and 1
            array = array.view(np.uint8) != 0
        found[name] = from_numpy(array.reshape(shape)).view(d)
    return found, metadata


def _header(text: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise SafetensorError("a name stands twice in the header")
        return dict(pairs)

    try:
        header = json.loads(text.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise SafetensorError(f"the header is no JSON: {error}") from error
    if not text.startswith(b"{") or not isinstance(header, dict):
        raise SafetensorError("the header is no JSON object")
    return header


def _entry(name: str, entry: Any) -> tuple[dtypes.dtype, tuple[int, ...], int, int]:
    match entry:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [begin, end], **rest} if not rest:
            numbers = (*shape, begin, end)
        case _:
            raise SafetensorError(f"{name!r} is described by {entry!r}")
    if code not in _DTYPES:
        raise SafetensorError(f"{name!r} has the dtype {code!r}, which this release does not have")
    if any(type(n) is not int or n < 0 for n in numbers) or len(shape) > 64:
        raise SafetensorError(f"{name!r} has the shape {shape} and lies at {begin}, {end}")
    d = _DTYPES[code]
    room = 8 * d.itemsize
    for n in shape:
        room *= n
        if room >= 2**64:
            raise SafetensorError(f"{name!r}: overflow computing buffer size from shape and/or element type")
    if end - begin != prod(shape) * d.itemsize:
        raise SafetensorError(f"{name!r} has {end - begin} bytes, and its shape {shape} needs another number")
    return d, tuple(shape), begin, end


__all__ = ["SafetensorError", "load", "load_file", "load_metadata", "save", "save_file"]
