"""What users switch for the whole process, where stories far apart must know it."""

from __future__ import annotations

from typing import Final


class _Determinism:
    """Whether results must not depend on which thread comes first: 1 to warn, 2 to refuse what cannot do so."""

    __slots__ = ("level",)
    level: int


determinism: Final = _Determinism()
determinism.level = 0
