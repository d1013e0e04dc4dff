"""Classes of tensors that have a word of their own in files. Who defines one hands it in, so that files know nothing of those above."""

from __future__ import annotations

known: dict[str, type] = {}  # by name; `exchange.files` says how each is kept
