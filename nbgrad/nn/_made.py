"""The factories of modules' parameters, which judge sizes as PyTorch's public ones do."""

from __future__ import annotations

from typing import Any

from nbgrad import _creation
from nbgrad._arguments import guard

empty: Any = guard("empty", _creation.empty)
zeros: Any = guard("zeros", _creation.zeros)
ones: Any = guard("ones", _creation.ones)
