"""PyTorch's `torch.cuda.random`: the generators of GPUs, which are seeded without starting one; without a GPU there is none to seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.cuda._gpus import need
from nbgrad.memory import gpu, philox
from nbgrad.memory.device import device as _device
from nbgrad.ops.host.values import of_array


def _stream(device: Any = "cuda") -> philox.Philox:
    index = device if isinstance(device, int) else _device(device).index
    return philox.of(gpu.current.index if index is None else index)


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's generator.

    >>> torch.cuda.get_rng_state() if torch.cuda.is_available() else "none"
    'none'
    """
    need()
    return of_array(_stream(device).state())


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' generators.

    >>> torch.cuda.get_rng_state_all()
    []
    """
    return [get_rng_state(index) for index in range(gpu.device_count())]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Put a GPU's generator into a state that `get_rng_state` gave: nothing where there is none.

    >>> torch.cuda.set_rng_state(torch.get_rng_state())
    """
    if gpu.device_count():
        _stream(device).restore(new_state.detach()._host())


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Put all GPUs' generators into states that `get_rng_state_all` gave: nothing where there is none.

    >>> torch.cuda.set_rng_state_all([])
    """
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator: nothing where there is none.

    >>> torch.cuda.manual_seed(0)
    """
    seed = int(seed)
    if gpu.device_count():
        _stream().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs: nothing where there is none.

    >>> torch.cuda.manual_seed_all(0)
    """
    philox.seed_all(int(seed))


def seed() -> None:
    """Seed the current GPU's generator from the system's entropy: nothing where there is none.

    >>> torch.cuda.seed()
    """
    manual_seed(philox.entropy())


def seed_all() -> None:
    """Seed all GPUs' generators from the system's entropy, all with one seed: nothing where there is none.

    >>> torch.cuda.seed_all()
    """
    manual_seed_all(philox.entropy())


def initial_seed() -> int:
    """The seed of the current GPU's generator.

    >>> torch.cuda.initial_seed() if torch.cuda.is_available() else "none"
    'none'
    """
    need()
    return _stream().seed
