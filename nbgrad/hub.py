"""PyTorch's `torch.hub`, of which the directory is here: nbgrad has no code for networks, so nothing is fetched."""

from __future__ import annotations

import os
from urllib.parse import urlparse as urlparse  # libraries take it from here

_dir: list[str] = []  # what was set


def _get_torch_home() -> str:
    """Where PyTorch keeps what programs fetch."""
    home = os.getenv("TORCH_HOME") or os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.expanduser(home)


def get_dir() -> str:
    """Where models that were fetched are kept: `$TORCH_HOME/hub`, unless another directory was set.

    >>> import os
    >>> os.path.basename(torch.hub.get_dir())
    'hub'
    """
    return _dir[-1] if _dir else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep them in another directory.

    >>> before = torch.hub.get_dir()
    >>> torch.hub.set_dir("/models")
    >>> torch.hub.get_dir()
    '/models'
    >>> torch.hub.set_dir(before)
    """
    _dir[:] = [os.path.expanduser(d)]


__all__ = ["get_dir", "set_dir"]
