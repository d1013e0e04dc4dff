"""PyTorch's `torch.serialization`: saving, loading, and what loading may trust."""

from nbgrad.exchange.files import LoadEndianness as LoadEndianness
from nbgrad.exchange.files import add_safe_globals as add_safe_globals
from nbgrad.exchange.files import clear_safe_globals as clear_safe_globals
from nbgrad.exchange.files import get_default_load_endianness as get_default_load_endianness
from nbgrad.exchange.files import get_safe_globals as get_safe_globals
from nbgrad.exchange.files import get_unsafe_globals_in_checkpoint as get_unsafe_globals_in_checkpoint
from nbgrad.exchange.files import load as load
from nbgrad.exchange.files import safe_globals as safe_globals
from nbgrad.exchange.files import save as save
from nbgrad.exchange.files import set_default_load_endianness as set_default_load_endianness
from nbgrad.exchange.files.tensors import get_layout as _get_layout  # noqa: F401  which pickles name

__all__ = [
    "LoadEndianness",
    "add_safe_globals",
    "clear_safe_globals",
    "get_default_load_endianness",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
    "set_default_load_endianness",
]
