"""`torch.testing._utils`: what tests do that draw random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nbgrad.memory import gpu, philox
from nbgrad.random import get_rng_state, manual_seed, set_rng_state


@contextmanager
def freeze_rng_state() -> Iterator[None]:
    """What is drawn inside does not count outside.

    >>> with torch.testing._utils.freeze_rng_state():
    ...     inside = torch.rand(2)
    >>> torch.equal(torch.rand(2), inside)
    True
    """
    kept = get_rng_state()
    streams = [philox.of(gpu.current.index)] if gpu.device_count() else []
    on_device = [stream.state() for stream in streams]
    try:
        yield
    finally:
        for stream, state in zip(streams, on_device):
            stream.restore(state)
        set_rng_state(kept)


def wrapper_set_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `op` gives when it draws from seed 42; the generator is left as it was.

    >>> first, second = (torch.testing._utils.wrapper_set_seed(torch.rand, 2) for _ in range(2))
    >>> torch.equal(first, second)
    True
    """
    with freeze_rng_state():
        manual_seed(42)
        return op(*args, **kwargs)
