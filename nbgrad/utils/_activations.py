"""Modules around others that do not keep what backward needs: they compute it again, or keep it on a CPU.

Promises that a wrapped model goes by the names of a bare one, in `named_parameters` and in states of both directions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from nbgrad.autograd.graph import save_on_cpu
from nbgrad.nn.modules.module import Module
from nbgrad.utils.checkpoint import checkpoint

_WITHIN = "_checkpoint_wrapped_module."


class CheckpointImpl(Enum):
    """Which of the two ways of `torch.utils.checkpoint` is gone."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


def _renamed(state: dict[str, Any], start: str, to: str) -> None:
    for key in [k for k in state if k.startswith(start)]:
        state[to + key[len(start) :]] = state.pop(key)


def _without(module: Module, state: dict[str, Any], prefix: str, *_: Any) -> dict[str, Any]:
    _renamed(state, prefix + _WITHIN, prefix)
    return state


def _within(module: Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    _renamed(state, prefix, prefix + _WITHIN)


class ActivationWrapper(Module, ABC):
    """What wrappers have in common: attributes, items and names are those of the module inside."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without)
        self.register_load_state_dict_pre_hook(_within)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any: ...

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_WITHIN[:-1]), name)

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_WITHIN, ""), parameter


class OffloadWrapper(ActivationWrapper):
    """Keeps what backward needs in a CPU's memory."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Computes again what backward needs, by `checkpoint_fn` or `torch.utils.checkpoint.checkpoint`."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = partial(checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT)
        self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner = self._checkpoint_wrapped_module
        if not kwargs or self.checkpoint_impl is not CheckpointImpl.REENTRANT:
            return self.checkpoint_fn(inner, *args, **kwargs)

        def by_place(*values: Any) -> Any:  # that way takes no names
            return inner(*values[: len(args)], **dict(zip(kwargs, values[len(args) :])))

        return self.checkpoint_fn(by_place, *args, *kwargs.values())


def offload_wrapper(module: Module) -> Module:
    """The module, what its backward needs being kept in a CPU's memory.

    >>> from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper
    >>> list(offload_wrapper(nn.Linear(2, 1)).state_dict())
    ['weight', 'bias']
    """
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """The module, each of whose calls is a checkpoint: by `checkpoint_fn`, or `torch.utils.checkpoint.checkpoint`, with the keywords.

    >>> from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    >>> checkpoint_wrapper(nn.Linear(2, 1))(torch.ones(2)).shape
    torch.Size([1])
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wrap those modules inside of a model, but not itself, for which `check_fn` says so, or else `auto_wrap_policy(module=, recurse=,
    nonwrapped_numel=)`, inner ones first.

    >>> from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    >>> net = nn.Sequential(nn.Linear(2, 1), nn.ReLU())
    >>> apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, nn.Linear))
    >>> [type(m).__name__ for m in net]
    ['CheckpointWrapper', 'ReLU']
    """
    if auto_wrap_policy is not None and not callable(auto_wrap_policy):
        raise ValueError(f"Expected {auto_wrap_policy} to be callable or be a pre-defined wrap policy")

    def wraps(module: Module, recurse: bool, numel: int) -> bool:
        if auto_wrap_policy is None:
            return recurse or check_fn(module)
        return auto_wrap_policy(module=module, recurse=recurse, nonwrapped_numel=numel)

    def inside(module: Module) -> int:
        """Wrap what is in it, and tell how many numbers have been wrapped."""
        numel = sum([p.numel() for p in module.parameters()])
        if not wraps(module, True, numel):
            return 0
        wrapped = 0
        for name, child in list(module.named_children()):
            of_child, within = sum([p.numel() for p in child.parameters()]), inside(child)
            if wraps(child, False, of_child - within):
                setattr(module, name, checkpoint_wrapper_fn(child))
                within = of_child
            wrapped += within
        return wrapped

    inside(model)
