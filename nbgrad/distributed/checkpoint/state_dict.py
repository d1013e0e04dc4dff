"""States of models and optimisers by the names that parameters have in the bare model, however it is wrapped.

Promises that what one process, or many, has written can be given to a model that is wrapped in another way, and to an optimiser whose
parameters come in another order. Each process has a model as a whole: nothing is sharded.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.pytree import tree_map
from nbgrad.core.tensor import Tensor
from nbgrad.distributed import _groups
from nbgrad.distributed._objects import broadcast_object_list
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parallel.distributed import DistributedDataParallel
from nbgrad.ops.make.filled import zeros_like
from nbgrad.optim.optimizer import Optimizer

_WRAPPED = ("_checkpoint_wrapped_module", "_orig_mod")
_STATE, _GROUPS, _PARAMS = "state", "param_groups", "params"


@dataclass
class StateDictOptions:
    """How states are told and taken. `full_state_dict` with `cpu_offload` gives them to the first process alone; `broadcast_from_rank0`
    takes the first process's, wherever it is given.

    >>> from torch.distributed.checkpoint.state_dict import StateDictOptions
    >>> StateDictOptions().strict
    True
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _warn_of_modules() -> None:
    warnings.warn(
        "Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. This feature can be achieved by "
        "manually filtering out the state_dict returned from get_state_dict.",
        FutureWarning,
        stacklevel=3,
    )


def _bare(model: Module, name: str) -> str:
    """A name without the modules that only wrap others."""
    kept, at = [], model
    for part in name.split("."):
        if part not in _WRAPPED and not (part == "module" and isinstance(at, DistributedDataParallel)):
            kept.append(part)
        at = getattr(at, part, None)  # type: ignore[assignment]
    return ".".join(kept)


def _named(model: Module) -> dict[int, tuple[str, Tensor]]:
    """Each parameter, by its id, with its first name."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, p in model.named_parameters():
        found.setdefault(id(p), (_bare(model, name), p))
    return found


def _given(state: Any, options: StateDictOptions) -> Any:
    """The state as a caller gets it."""
    if not options.cpu_offload:
        return state
    if options.full_state_dict and _groups.is_initialized() and _groups.get_rank() != 0:
        return {}
    return tree_map(lambda v: v.detach().cpu() if isinstance(v, Tensor) else v, state)


def _taken(state: Any, options: StateDictOptions) -> Any:
    if not options.broadcast_from_rank0:
        return state
    held = [state]
    broadcast_object_list(held, src=0)
    return held[0]


# ---------------------------------------------------------------- models


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a model, or of some modules in it, by the bare model's names.

    >>> from torch.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(nn.Linear(2, 1)))
    ['weight', 'bias']
    """
    options = _checked(options)
    state: Any = OrderedDict((_bare(model, key), value) for key, value in model.state_dict().items())
    if options.ignore_frozen_params:
        frozen = {name for name, p in _named(model).values() if not p.requires_grad}
        state = OrderedDict((key, value) for key, value in state.items() if key not in frozen)
    if submodules:
        _warn_of_modules()
        state = dict(_of_modules(model, state, submodules, options.keep_submodule_prefixes))
    return _given(state, options)


def _of_modules(
    model: Module, state: dict[str, Any], modules: Iterable[Module], prefixed: bool
) -> Iterator[tuple[str, Any]]:
    for name, module in model.named_modules():
        if module in modules:
            prefix = f"{_bare(model, name)}."
            yield from [
                (key if prefixed else key.removeprefix(prefix), value)
                for key, value in state.items()
                if key.startswith(prefix)
            ]


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Give a model a state that goes by the bare model's names; what is missing in it and what was not expected is returned.

    >>> from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    >>> net = nn.Linear(2, 1)
    >>> set_model_state_dict(net, get_model_state_dict(net))
    <All keys matched successfully>
    """
    options = _checked(options)
    state = dict(_taken(model_state_dict, options))
    own = {key: state.pop(_bare(model, key)) for key in model.state_dict() if _bare(model, key) in state}
    return model.load_state_dict({**own, **state}, strict=options.strict)


# ---------------------------------------------------------------- optimisers


def _several(optimizers: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _begin(optimizer: Optimizer) -> None:
    """A step that changes nothing, after which there is a state."""
    params = [p for group in optimizer.param_groups for p in group[_PARAMS]]
    if optimizer.state or any([p.grad is not None for p in params]):
        return
    for p in params:
        if p.requires_grad:
            p.grad = zeros_like(p)
    before = [group.get("lr") for group in optimizer.param_groups]
    for group, lr in zip(optimizer.param_groups, before):
        if lr is not None:
            group["lr"] = zeros_like(lr) if isinstance(lr, Tensor) else 0.0
    optimizer.step()
    for group, lr in zip(optimizer.param_groups, before):
        if lr is not None:
            group["lr"] = lr
    optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of an optimiser, or of several, in which parameters go by the bare model's names. One that has taken no step takes one that
    changes nothing.

    >>> from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
    >>> net = nn.Linear(2, 1)
    >>> state = get_optimizer_state_dict(net, torch.optim.Adam(net.parameters()))
    >>> list(state["state"]), state["param_groups"][0]["params"]
    (['weight', 'bias'], ['weight', 'bias'])
    """
    options = _checked(options)
    named = _named(model)
    kept = None
    if submodules:
        _warn_of_modules()
        kept = {id(p) for module in submodules for p in module.parameters()}
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _several(optimizers):
        _begin(optimizer)
        told = optimizer.state_dict()
        names: dict[int, str] = {}
        for group, numbered in zip(optimizer.param_groups, told[_GROUPS]):
            names |= {k: named[id(p)][0] for k, p in zip(numbered[_PARAMS], group[_PARAMS])}
            chosen = [k for k, p in zip(numbered[_PARAMS], group[_PARAMS]) if kept is None or id(p) in kept]
            state |= {names[k]: told[_STATE][k] for k in chosen if k in told[_STATE]}
            groups.append({**numbered, _PARAMS: [names[k] for k in chosen]})
    whole: dict[str, Any] = {_STATE: state, _GROUPS: groups}
    return _given(_flat(whole) if options.flatten_optimizer_state_dict else whole, options)


def _flat(state: dict[str, Any]) -> dict[str, Any]:
    flat = {f"{_STATE}.{name}.{key}": v for name, of in state[_STATE].items() for key, v in of.items()}
    for group in state[_GROUPS]:
        for name in group[_PARAMS]:
            flat |= {f"{_GROUPS}.{name}.{key}": v for key, v in group.items() if key != _PARAMS}
    return flat


def _of_flat(flat: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Each parameter's settings are a group of their own."""
    state: dict[str, Any] = {}
    groups = []
    for name in names:
        for kind in (_STATE, _GROUPS):
            start = f"{kind}.{name}."
            found = {key[len(start) :]: v for key, v in flat.items() if key.startswith(start)}
            if kind == _STATE and found:
                state[name] = found
            elif found:
                groups.append({**found, _PARAMS: [name]})
    return {_STATE: state, _GROUPS: groups}


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Give an optimiser, or several, a state in which parameters go by the bare model's names. A group has the settings that its first
    parameter has there.

    >>> from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
    >>> net = nn.Linear(2, 1)
    >>> first, other = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(net.parameters(), lr=0.2)
    >>> set_optimizer_state_dict(net, other, get_optimizer_state_dict(net, first))
    >>> other.param_groups[0]["lr"]
    0.1
    """
    options = _checked(options)
    named = _named(model)
    told = _taken(optim_state_dict, options)
    if options.flatten_optimizer_state_dict:
        told = _of_flat(told, [name for name, _ in named.values()])
    settings = {name: group for group in told[_GROUPS] for name in group[_PARAMS]}
    for optimizer in _several(optimizers):
        state: dict[int, Any] = {}
        groups, numbered = [], 0
        for group in optimizer.param_groups:
            names = [named[id(p)][0] for p in group[_PARAMS]]
            numbers = range(numbered, numbered := numbered + len(names))
            state |= {k: told[_STATE][name] for k, name in zip(numbers, names) if name in told[_STATE]}
            found: dict[str, Any] = next((settings[name] for name in names if name in settings), {})
            groups.append({**group, **found, _PARAMS: list(numbers)})
        with no_grad():
            optimizer.load_state_dict({_STATE: state, _GROUPS: groups})


# ---------------------------------------------------------------- both


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`get_model_state_dict` and `get_optimizer_state_dict`.

    >>> from torch.distributed.checkpoint.state_dict import get_state_dict
    >>> net = nn.Linear(2, 1)
    >>> of_model, of_optimizer = get_state_dict(net, torch.optim.Adam(net.parameters()))
    >>> list(of_model) == list(of_optimizer["state"])
    True
    """
    of_model = get_model_state_dict(model, submodules=submodules, options=options)
    several = _several(optimizers)
    if not several:
        return of_model, {}
    return of_model, get_optimizer_state_dict(model, several, submodules=submodules, options=options)


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """`set_optimizer_state_dict` and `set_model_state_dict`.

    >>> from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    >>> net = nn.Linear(2, 1)
    >>> optimizer = torch.optim.Adam(net.parameters())
    >>> of_model, of_optimizer = get_state_dict(net, optimizer)
    >>> set_state_dict(net, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer)
    <All keys matched successfully>
    """
    several = _several(optimizers)
    if several:
        set_optimizer_state_dict(model, several, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
