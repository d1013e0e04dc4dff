"""Modules called with tensors that are not theirs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nbgrad.core.tensor import Tensor


def called_with(
    module: Any, values: dict[str, Tensor], args: Any, kwargs: dict[str, Any] | None, tie: bool, strict: bool
) -> Any:
    """What the module gives with these tensors for its parameters and buffers."""
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _with_values(module, values, tie, strict):
        return module(*args, **({} if kwargs is None else kwargs))


@contextmanager
def _with_values(module: Any, values: dict[str, Tensor], tie: bool, strict: bool) -> Iterator[None]:
    """The module holds these tensors inside; what it writes to them by name it writes back to `values`."""
    own = dict(module.named_parameters(remove_duplicate=False)) | dict(
        module.named_buffers(remove_duplicate=False)
    )
    if tie:
        values = _with_tied(own, values)
    if strict:
        unexpected, missing = [k for k in values if k not in own], [k for k in own if k not in values]
        if unexpected or missing:
            told = [f"Unexpected key(s): {', '.join(map(repr, unexpected))}."] if unexpected else []
            told += [f"Missing key(s): {', '.join(map(repr, missing))}."] if missing else []
            raise RuntimeError(
                f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(told)
            )
    places = []
    for value in values.values():
        if not isinstance(value, Tensor):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
    for name, value in values.items():
        if name not in own:
            continue  # PyTorch, too, takes no notice unless `strict` says so
        path, _, last = name.rpartition(".")
        owner = module.get_submodule(path)
        table = owner._parameters if last in owner._parameters else owner._buffers
        places.append((table, last, table[last]))
        table[last] = value
    try:
        yield
    finally:
        for table, last, before in reversed(places):
            table[last] = before


def _with_tied(own: dict[str, Tensor], values: dict[str, Tensor]) -> dict[str, Tensor]:
    """One value for all names of a parameter that has several."""
    names: dict[int, list[str]] = {}
    for name, t in own.items():
        names.setdefault(id(t), []).append(name)
    out = dict(values)
    for group in names.values():
        given = {id(values[n]): values[n] for n in group if n in values}
        if len(given) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(group)}, which are tied. Consider using tie_weights=False"
            )
        for value in given.values():
            out |= dict.fromkeys(group, value)
    return out


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """What `torch.func.functional_call` does, which is to be used.

    >>> torch.func.functional_call(nn.Linear(1, 1, bias=False), {"weight": torch.tensor([[2.0]])}, torch.ones(1))
    tensor([2.])
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future version of "
        "PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return called_with(module, parameters_and_buffers, args, kwargs, tie_weights, strict)


__all__ = ["functional_call"]
