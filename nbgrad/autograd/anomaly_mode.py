"""Anomaly mode: nodes remember where they were recorded, and backward tells it when one of them fails or gives NaN."""

from __future__ import annotations

import warnings

from nbgrad.tape.modes import set_anomaly, shared

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_anomaly_enabled",
    "set_detect_anomaly",
]


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on: see `torch.autograd.detect_anomaly`.

    >>> torch.is_anomaly_enabled()
    False
    """
    return shared.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, if it is on, refuses gradients that are NaN.

    >>> torch.is_anomaly_check_nan_enabled()
    True
    """
    return shared.check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off for all threads; `check_nan` says whether it refuses gradients that are NaN.

    >>> torch.set_anomaly_enabled(True)
    >>> torch.is_anomaly_enabled()
    True
    >>> torch.set_anomaly_enabled(False)
    """
    set_anomaly(mode, check_nan)


class detect_anomaly:
    """Anomaly mode inside the block: backward refuses gradients that are NaN (unless `check_nan` is false), and a node that fails
    says where it was recorded. It is one switch for all threads, and slow, of which a warning is given.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with torch.autograd.detect_anomaly():
    ...         torch.is_anomaly_enabled()
    True
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self._before = shared.anomaly, shared.check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        set_anomaly(True, self.check_nan)

    def __exit__(self, *_: object) -> None:
        set_anomaly(*self._before)


class set_detect_anomaly:
    """Switch anomaly mode on or off, at once; as a context manager also put back what was there before. See `detect_anomaly`.

    >>> with torch.autograd.set_detect_anomaly(True):
    ...     torch.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = shared.anomaly, shared.check_nan
        set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        set_anomaly(*self._before)
