"""PyTorch's `torch.cuda.random`: the generators of GPUs, of which there is none to seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.cuda._gpus import need


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's generator.

    >>> torch.cuda.get_rng_state() if torch.cuda.is_available() else "none"
    'none'
    """
    need()


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' generators.

    >>> torch.cuda.get_rng_state_all()
    []
    """
    return []


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Put a GPU's generator into a state that `get_rng_state` gave: nothing where there is none.

    >>> torch.cuda.set_rng_state(torch.get_rng_state())
    """


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Put all GPUs' generators into states that `get_rng_state_all` gave: nothing where there is none.

    >>> torch.cuda.set_rng_state_all([])
    """


def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator: nothing where there is none.

    >>> torch.cuda.manual_seed(0)
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs: nothing where there is none.

    >>> torch.cuda.manual_seed_all(0)
    """
    int(seed)


def seed() -> None:
    """Seed the current GPU's generator from the system's entropy: nothing where there is none.

    >>> torch.cuda.seed()
    """


def seed_all() -> None:
    """Seed all GPUs' generators from the system's entropy: nothing where there is none.

    >>> torch.cuda.seed_all()
    """


def initial_seed() -> int:
    """The seed of the current GPU's generator.

    >>> torch.cuda.initial_seed() if torch.cuda.is_available() else "none"
    'none'
    """
    need()
