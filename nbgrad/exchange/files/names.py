"""The names that a file may ask for: those that are known, by which `save` writes them, and those that the user trusts."""

from __future__ import annotations

import codecs
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pickle import UnpicklingError
from typing import Any, NamedTuple

from nbgrad.core.tensor import Tensor
from nbgrad.exchange.files import tensors
from nbgrad.exchange.files.tensors import WHOLE
from nbgrad.exchange.schemes import SCHEMES
from nbgrad.memory import dtypes as _dtypes
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Size


class StorageKind(NamedTuple):
    """What PyTorch's files call `torch.FloatStorage` and its like."""

    dtype: dtype


def encode(text: str, encoding: str) -> bytes:
    """How the protocol that PyTorch uses spells bytes."""
    if encoding != "latin1":
        raise UnpicklingError(f"bytes are encoded as {encoding!r}")
    return text.encode("latin1")


UNTYPED = StorageKind(_dtypes.uint8)


def _kinds() -> dict[tuple[str, str], Any]:
    dtypes = {("torch", d.name): d for d in (*_dtypes.all_dtypes, *_dtypes.kept_dtypes)}
    return dtypes | {
        ("torch", f"{d.scalar_name}Storage"): StorageKind(d) for d in (*_dtypes.all_dtypes, *WHOLE)
    }


NAMES: dict[tuple[str, str], Any] = (
    {
        ("torch._utils", "_rebuild_tensor_v2"): tensors.rebuild_tensor,
        ("torch._utils", "_rebuild_tensor_v3"): tensors.rebuild_tensor_of,
        ("torch.storage", "UntypedStorage"): UNTYPED,
        ("torch._utils", "_rebuild_parameter"): tensors.rebuild_parameter,
        ("torch._utils", "_rebuild_meta_tensor_no_storage"): tensors.rebuild_meta,
        ("torch._utils", "_rebuild_sparse_tensor"): tensors.rebuild_sparse,
        ("torch._utils", "_rebuild_wrapper_subclass"): tensors.rebuild_wrapper,
        ("torch._utils", "_rebuild_qtensor"): tensors.rebuild_quantized,
        ("torch._utils", "_rebuild_nested_tensor"): tensors.rebuild_nested,
        ("torch.serialization", "_get_layout"): tensors.get_layout,
        ("torch._utils", "_rebuild_parameter_with_state"): tensors.rebuild_parameter_with_state,
        ("torch._tensor", "_rebuild_from_type_v2"): tensors.rebuild_from_type,
        ("torch", "Tensor"): Tensor,
        ("torch", "Size"): Size,
        ("torch", "device"): device,
        ("collections", "OrderedDict"): OrderedDict,
        ("collections", "Counter"): Counter,
        ("builtins", "set"): set,
        ("builtins", "complex"): complex,
        ("_codecs", "encode"): encode,
    }
    | _kinds()
    | {("torch", name): scheme for name, scheme in SCHEMES.items()}
)
SPELLED = {id(thing): name for name, thing in NAMES.items()} | {id(codecs.encode): ("_codecs", "encode")}
KINDS = {d: NAMES["torch", f"{d.scalar_name}Storage"] for d in (*_dtypes.all_dtypes, *WHOLE)}
trusted: dict[tuple[str, str], Any] = {}  # what the user trusts


def spelled(thing: Any) -> tuple[str, str]:
    """The name by which a file knows a class or function: nbgrad's own have PyTorch's."""
    module, name = str(thing.__module__), thing.__qualname__
    if module.partition(".")[0] != "nbgrad":
        return module, name
    if getattr(sys.modules["nbgrad"], name, None) is thing:  # wherever it was made
        module = "nbgrad"
    return "torch" + module.removeprefix("nbgrad"), name


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` make and call these classes and functions, each given as it is or with its full name in files.

    >>> from fractions import Fraction
    >>> torch.serialization.add_safe_globals([Fraction])
    >>> Fraction in torch.serialization.get_safe_globals()
    True
    >>> torch.serialization.clear_safe_globals()
    """
    for thing in safe_globals:
        if isinstance(thing, tuple):
            found, name = thing
            module, _, attribute = name.rpartition(".")
            trusted[module, attribute] = found
        else:
            trusted[spelled(thing)] = thing


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has added.

    >>> torch.serialization.get_safe_globals()
    []
    """
    return list(trusted.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` has added.

    >>> torch.serialization.clear_safe_globals()
    >>> torch.serialization.get_safe_globals()
    []
    """
    trusted.clear()


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """`add_safe_globals` for the `with` block.

    >>> from fractions import Fraction
    >>> with torch.serialization.safe_globals([Fraction]):
    ...     torch.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    """
    before = dict(trusted)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        trusted.clear()
        trusted.update(before)
