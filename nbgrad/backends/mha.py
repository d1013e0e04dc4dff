"""Whether a transformer's encoder, where it only infers, reads what padding hides as nothing: PyTorch's fast path for attention."""

from __future__ import annotations

from nbgrad.base.switches import attention


def get_fastpath_enabled() -> bool:
    """What `set_fastpath_enabled` was told last; at first True.

    >>> import nbgrad
    >>> nbgrad.backends.mha.get_fastpath_enabled()
    True
    """
    return attention.fast


def set_fastpath_enabled(value: bool) -> None:
    """With False a `nn.TransformerEncoder` computes all places, also those that padding hides; else it gives zeros there where it infers.

    >>> import nbgrad
    >>> nbgrad.backends.mha.set_fastpath_enabled(True)
    """
    attention.fast = value
