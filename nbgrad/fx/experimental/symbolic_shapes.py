"""What libraries ask of sizes that PyTorch's compiler does not know yet: here all are known, so that each question has its answer."""

from __future__ import annotations

from typing import Any


def guard_or_false(a: Any) -> bool:
    """Whether it is so."""
    return bool(a)


guard_or_true = guard_bool = guard_size_oblivious = statically_known_true = guard_or_false


def guard_int(a: Any) -> int:
    """A size."""
    return int(a)


def guard_float(a: Any) -> float:
    """A number."""
    return float(a)


def is_concrete_int(a: Any) -> bool:
    """Whether a size is known: it is."""
    return True


is_concrete_bool = is_concrete_float = is_concrete_int


def free_symbols(val: Any) -> set[Any]:
    """The sizes in it that are not known: none."""
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: Any) -> bool:
    """Whether a size in it is not known: none."""
    return False


has_free_unbacked_symbols = has_free_symbols


def sym_and(x: Any, *others: Any) -> bool:
    """Whether all are so."""
    return all((x, *others))


def sym_or(x: Any, *others: Any) -> bool:
    """Whether one is so."""
    return any((x, *others))


def sym_eq(x: Any, y: Any) -> bool:
    """Whether two sizes, or tuples of them, are the same."""
    return bool(x == y)
