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
    return shared.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    return shared.check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    set_anomaly(mode, check_nan)


class detect_anomaly:
    """Anomaly mode inside the block; it is one switch for all threads, and slow."""

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
    """Acts when it is made; as a context manager also puts back what was there before."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = shared.anomaly, shared.check_nan
        set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        set_anomaly(*self._before)
