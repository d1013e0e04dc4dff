"""What PyTorch calls the settings that its nodes keep, where an op here has another name for one, or needs none.

Promises users that `grad_fn._saved_<name>` answers to PyTorch's names. A dimension counted from the end is shown as it is counted from the
start, where PyTorch shows it as an unsigned number.
"""

from __future__ import annotations

from typing import Any

from nbgrad.ops.pointwise import activations as a
from nbgrad.ops.pointwise import arithmetic
from nbgrad.ops.pointwise import functions as s
from nbgrad.ops.views import join, slices


def _renamed(function: Any, **names: str) -> None:
    """Each of the op's own names and PyTorch's."""
    function.op.public = {**function.op.public, **names}


def _kept(function: Any, **values: Any) -> None:
    """Values, or functions of the op's static arguments, that no rule here reads."""
    function.op.shown = {**function.op.shown, **values}


# ---------------------------------------------------------------- elementwise

for _function in (a._leaky_relu, a._leaky_relu_in_place):
    _renamed(_function, slope="negative_slope")
_renamed(a._hardtanh, low="min_val", high="max_val")
for _function in (a._elu, a._elu_in_place):
    _renamed(_function, negative="alpha", positive="scale", inner="input_scale")
for _function in (a._celu, a._celu_in_place):
    _renamed(_function, negative="alpha")
_kept(a._gelu_erf, approximate="none")
_kept(a._gelu_tanh, approximate="tanh")
for _function in (arithmetic._add, arithmetic._sub, arithmetic._rsub):
    _kept(_function, alpha=1)

for _exponent, _function in arithmetic._FLOAT_POWERS.items():
    _kept(_function, exponent=_exponent)
_kept(s._logit, eps=None)

# ---------------------------------------------------------------- views, joins

for _function in (slices._unbind, slices._split, slices._split_with_sizes):
    _kept(_function, dim=lambda parts: parts["dim"])
_kept(slices._split, split_size=lambda parts: parts["sizes"][0])
_kept(slices._split_with_sizes, split_sizes=lambda parts: parts["sizes"])
_kept(slices._slice, end=lambda dim, start, length, step: start + length * step)
for _function in (join._cat, join._stack):
    _kept(_function, dim=lambda parts: parts.dim)
