"""PyTorch's `torch.cuda.amp.common`."""

from nbgrad.memory.device import gpus


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU to cast for.

    >>> torch.cuda.amp.common.amp_definitely_not_available() != torch.cuda.is_available()
    True
    """
    return not gpus.count()


__all__ = ["amp_definitely_not_available"]
