"""PyTorch's `torch.distributed` where there is one process: it says so to programs that ask, and refuses the rest by name."""

from __future__ import annotations


def is_available() -> bool:
    """Whether processes can work together: they cannot.

    >>> import nbgrad
    >>> nbgrad.distributed.is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """Whether they have begun to.

    >>> torch.distributed.is_initialized()
    False
    """
    return False


def is_backend_available(backend: str) -> bool:
    """Whether there is a library of that name by which processes talk: none.

    >>> import nbgrad
    >>> nbgrad.distributed.is_backend_available("gloo")
    False
    """
    return False


def is_gloo_available() -> bool:
    """Whether there is Gloo: no.

    >>> import nbgrad
    >>> nbgrad.distributed.is_gloo_available()
    False
    """
    return False


def is_mpi_available() -> bool:
    """Whether there is MPI: no.

    >>> torch.distributed.is_mpi_available()
    False
    """
    return False


def is_nccl_available() -> bool:
    """Whether there is NCCL: no.

    >>> torch.distributed.is_nccl_available()
    False
    """
    return False


def is_ucc_available() -> bool:
    """Whether there is UCC: no.

    >>> torch.distributed.is_ucc_available()
    False
    """
    return False


def is_xccl_available() -> bool:
    """Whether there is XCCL: no.

    >>> torch.distributed.is_xccl_available()
    False
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher of PyTorch's began this process: no.

    >>> torch.distributed.is_torchelastic_launched()
    False
    """
    return False


__all__ = [
    *("is_available", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available"),
    *("is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available"),
]
