"""What libraries mark functions with that call others in other processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn


def _require_initialized(func: Callable[..., Any]) -> Callable[..., NoReturn]:
    """Refuse a function until processes can call one another, which they cannot."""

    @wraps(func)
    def refuse(*args: Any, **named: Any) -> NoReturn:
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")

    return refuse
