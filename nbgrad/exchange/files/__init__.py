"""Files of tensors: `save` and `load`.

Promises users PyTorch's own formats: what either writes, the other reads (`torch.load(..., weights_only=True)`). A file is a
zip archive without compression that holds `data.pkl`, a pickle of the object in which a tensor is a record of (storage,
offset, size, stride), and per storage its memory in `data/0`, `data/1`, ...; tensors that share memory share it again when loaded.
Of the older form it is such a pickle with the memory behind it, and may begin anywhere in a file.

Loading runs no code, unless the user says `weights_only=False` or trusts a class: the pickle is read by a machine that knows
the opcodes of plain data and the few names in `names.py`, and refuses every other by name. Saving writes beside the target and
renames, so that a failed save leaves the file that was there.
"""

from nbgrad.exchange.files.names import add_safe_globals as add_safe_globals
from nbgrad.exchange.files.names import clear_safe_globals as clear_safe_globals
from nbgrad.exchange.files.names import get_safe_globals as get_safe_globals
from nbgrad.exchange.files.names import safe_globals as safe_globals
from nbgrad.exchange.files.reading import LoadEndianness as LoadEndianness
from nbgrad.exchange.files.reading import get_default_load_endianness as get_default_load_endianness
from nbgrad.exchange.files.reading import get_unsafe_globals_in_checkpoint as get_unsafe_globals_in_checkpoint
from nbgrad.exchange.files.reading import load as load
from nbgrad.exchange.files.reading import set_default_load_endianness as set_default_load_endianness
from nbgrad.exchange.files.writing import Path as Path
from nbgrad.exchange.files.writing import replacing as replacing
from nbgrad.exchange.files.writing import save as save
