"""What modules do to their settings, and to the keys of state dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """What makes a setting one value for each of `n` dimensions: a sequence is taken as it is, anything else stands for all."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single, _pair = _ntuple(1, "_single"), _ntuple(2, "_pair")
_triple, _quadruple = _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """The elements from the last on, each `n` times: paddings of dimensions as `F.pad` takes them."""
    return tuple([x for x in reversed(t) for _ in range(n)])


def _list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """Sizes, of which None leaves that of `defaults`, whose last elements belong to them."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if n is None else n for n, d in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict: Any, prefix: str) -> None:
    """Take `prefix` off the keys that begin with it, in place: a state dict of a `DataParallel` becomes one of its module.

    >>> state = nn.DataParallel(nn.Linear(2, 3)).state_dict()
    >>> nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    >>> [*state]
    ['weight', 'bias']
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    whole = prefix.replace(".", "")  # the module's own entry has no dot
    for key in [key for key in metadata if key and (key == whole or key.startswith(prefix))]:
        metadata[key[len(prefix) :]] = metadata.pop(key)


__all__ = ["consume_prefix_in_state_dict_if_present"]
