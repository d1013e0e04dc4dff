"""Modules called with tensors that are not theirs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from nbgrad.core.tensor import Tensor

_ABSENT: Final = object()


def _functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """What the module gives with these tensors for its parameters and buffers."""
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **({} if kwargs is None else kwargs))


@contextmanager
def _reparametrize_module(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """The module holds these tensors inside; what it then has by their names itself is written back to them."""
    values = parameters_and_buffers
    if tie_weights:
        values = _with_tied(_named(module), values)
    if strict:
        own = _named(module)
        unexpected, missing = sorted(values.keys() - own.keys()), sorted(own.keys() - values.keys())
        if unexpected or missing:
            told = [f"Unexpected key(s): {', '.join(map(repr, unexpected))}."] if unexpected else []
            told += [f"Missing key(s): {', '.join(map(repr, missing))}."] if missing else []
            raise RuntimeError(
                f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(told)
            )
    for value in values.values():
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
    before: list[tuple[str, Any]] = []
    try:
        for name, value in values.items():
            before.append((name, _exchanged(module, name, value)))
        yield
    finally:
        for name, value in reversed(before) if stack_weights else before:
            after = _exchanged(module, name, value)
            if name in parameters_and_buffers and after is not _ABSENT:
                parameters_and_buffers[name] = after


def _named(module: Any) -> dict[str, Tensor]:
    named = dict(module.named_parameters(remove_duplicate=False))
    return named | dict(module.named_buffers(remove_duplicate=False))


def _exchanged(module: Any, name: str, value: Any) -> Any:
    """What a module had by this name, which now is the value, also where neither a parameter nor a buffer is called so."""
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    for table in (owner._parameters, owner._buffers):
        if last in table:
            before = table[last]
            if value is _ABSENT:
                del table[last]
            else:
                table[last] = value
            return before
    before = getattr(owner, last, _ABSENT)
    if before is not _ABSENT and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{last}`: {before} is not an instance of torch.Tensor")
    if value is not _ABSENT:
        setattr(owner, last, value)
    elif before is not _ABSENT:
        delattr(owner, last)
    return before


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
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


__all__ = ["functional_call"]
