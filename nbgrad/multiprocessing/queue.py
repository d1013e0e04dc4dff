"""PyTorch's `torch.multiprocessing.queue`: queues of Python's, over connections that send what is pickled as `multiprocessing` pickles."""

from __future__ import annotations

import multiprocessing.queues
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any


class ConnectionWrapper:
    """A connection whose `send` shares tensors."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn

    def send(self, obj: Any) -> None:
        """Send an object."""
        self.conn.send_bytes(ForkingPickler.dumps(obj, pickle.HIGHEST_PROTOCOL))

    def recv(self) -> Any:
        """Receive one."""
        return pickle.loads(self.conn.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        if "conn" in self.__dict__:
            return getattr(self.conn, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute 'conn'")


Queue = multiprocessing.queues.Queue
SimpleQueue = multiprocessing.queues.SimpleQueue
