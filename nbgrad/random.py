"""`torch.random`: the default generator's seed and state, and a stretch of program that leaves them as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.ops.make.generator import default_generator as default_generator
from nbgrad.ops.make.generator import initial_seed as initial_seed
from nbgrad.ops.make.generator import manual_seed as manual_seed
from nbgrad.ops.make.generator import seed as seed


def get_rng_state() -> Tensor:
    """The state of the default generator as a tensor of bytes, laid out as PyTorch's is.

    >>> state = torch.get_rng_state()
    >>> state.dtype, state.shape
    (torch.uint8, torch.Size([5056]))
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator into a state that `get_rng_state` gave: what was drawn since then comes again.

    >>> state = torch.get_rng_state()
    >>> first = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(torch.rand(2), first)
    True
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:
    """What is drawn inside does not count outside. The CPU is the only device here.

    >>> with torch.random.fork_rng():
    ...     inside = torch.rand(2)
    >>> torch.equal(torch.rand(2), inside)
    True
    """
    if not enabled:
        yield
        return
    kept = default_generator.state()
    try:
        yield
    finally:
        default_generator.restore(kept)


__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
