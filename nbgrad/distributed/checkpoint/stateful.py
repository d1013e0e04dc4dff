"""What `torch.distributed.checkpoint` asks of objects that keep their own state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """What has a `state_dict`, and takes one again.

    >>> from torch.distributed.checkpoint.stateful import Stateful
    >>> isinstance(nn.Linear(1, 1), Stateful), isinstance(1, Stateful)
    (True, False)
    """

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...
