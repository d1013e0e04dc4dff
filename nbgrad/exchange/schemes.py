"""How whole numbers stand for real ones: words that quantised tensors and files share."""

from __future__ import annotations


class qscheme:
    """How whole numbers stand for real ones.

    >>> torch.per_tensor_affine
    torch.per_tensor_affine
    """

    __module__ = "nbgrad"

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


per_tensor_affine, per_tensor_symmetric = qscheme("per_tensor_affine"), qscheme("per_tensor_symmetric")
per_channel_affine, per_channel_symmetric = qscheme("per_channel_affine"), qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")
SCHEMES = {f"{s}".partition(".")[2]: s for s in vars().copy().values() if isinstance(s, qscheme)}
