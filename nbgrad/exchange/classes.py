"""Classes of tensors that have a word of their own in files. Who defines one hands it in, so that files know nothing of those above."""

from __future__ import annotations

from typing import Any

known: dict[
    str, Any
] = {}  # by name, classes and what makes an instance; `exchange.files.tensors` says how each is kept
