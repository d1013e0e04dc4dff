"""Python's own `pickle`, writing tensors as PyTorch does."""

from __future__ import annotations

import io
from importlib import import_module
from types import FunctionType
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.exchange.files.names import NAMES
from nbgrad.exchange.files.tensors import told
from nbgrad.exchange.files.writing import write_older
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Storage
from nbgrad.ops.host.storage import UntypedStorage
from nbgrad.ops.host.typed import TypedStorage


def _as_storage(storage: Storage, d: dtype, untyped: bool) -> TypedStorage | UntypedStorage:
    bare = UntypedStorage._of(storage)
    return bare if untyped else TypedStorage._of(bare, d)


@cached(None)
def _load_homes() -> None:
    """Of the functions that pickles name: some libraries ask whether these are loaded, and copy their code if not."""
    for module in ("_tensor", "_utils", "serialization", "storage"):
        import_module(f"nbgrad.{module}")


def _reduce_tensor(self: Tensor, protocol: object) -> tuple[Any, ...]:
    _load_homes()
    return told(self, _as_storage)


def _reduce_storage(self: TypedStorage | UntypedStorage) -> tuple[Any, ...]:
    file = io.BytesIO()
    write_older(self, file)
    return import_module("nbgrad.storage")._load_from_bytes, (file.getvalue(),)


def pickle_as_torch() -> None:
    """From here on Python's own `pickle` writes tensors as PyTorch does, which reads it."""
    for (module, name), thing in NAMES.items():
        if type(thing) is FunctionType and module.startswith("torch"):
            thing.__module__, thing.__name__, thing.__qualname__ = module, name, name
    Tensor.__reduce_ex__ = _reduce_tensor  # type: ignore[assignment]
    for kind in (TypedStorage, UntypedStorage):
        kind.__reduce__ = _reduce_storage  # type: ignore[method-assign]
