"""Where PyTorch keeps what its compiler follows programs with; libraries ask whether it does."""

from __future__ import annotations


def active_fake_mode() -> None:
    """The mode under which tensors only stand for others: there is none.

    >>> torch._guards.active_fake_mode()
    """
