"""PyTorch's `torch.jit._trace`, by which libraries ask whether a module was traced."""

from __future__ import annotations

from nbgrad.jit._script import TopLevelTracedModule as TopLevelTracedModule
from nbgrad.jit._script import TracedModule as TracedModule
