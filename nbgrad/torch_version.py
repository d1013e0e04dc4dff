"""PyTorch's `torch.torch_version`: whose behaviour nbgrad has, in a form that libraries compare."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_FORM = re.compile(
    r"\s*v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|beta|preview|pre|rc|a|b|c)[-_.]?(\d*))?"
    r"(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d*))?(?:[-_.]?(dev)[-_.]?(\d*))?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*",
    re.IGNORECASE,
)
_BEFORE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


def _key(text: str) -> tuple[Any, ...]:
    """By which versions are in order: numbers, what came before a release and after it, what was added to it."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"Invalid version: {text!r}")
    epoch, numbers, before, count, bare, after, again, dev, of_dev, added = match.groups()
    release = [int(part) for part in numbers.split(".")]
    while release and not release[-1]:
        release.pop()
    later = bare is not None or after is not None
    pre: tuple[Any, ...] = (1,) if later or dev is None else (-1,)
    if before is not None:
        pre = (0, _BEFORE.get(before.lower(), before.lower()), int(count or 0))
    parts = re.split(r"[-_.]", added.lower()) if added else []
    local = [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]
    post = int(bare or again or 0) if later else -1
    return int(epoch or 0), release, pre, post, (1,) if dev is None else (0, int(of_dev or 0)), local


class TorchVersion(str):
    """A version as a text, which compares as a version does: with other texts and with tuples of numbers.

    >>> torch.torch_version.TorchVersion("1.10.0a") < (1, 10), torch.torch_version.TorchVersion("1.10.0") > "1.9"
    (True, True)
    """

    def _compare(self, other: Any, method: str) -> Any:
        text = other
        if isinstance(other, Iterable) and not isinstance(other, str):
            text = ".".join([str(part) for part in other])
        try:
            return getattr(_key(self), method)(_key(text))
        except (ValueError, TypeError):
            return getattr(str(self), method)(other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "__gt__")

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "__lt__")

    def __eq__(self, other: Any) -> Any:
        return self._compare(other, "__eq__")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "__ge__")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "__le__")

    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0+nbgrad")
__all__ = ["TorchVersion"]
