"""What all optimisers are: groups of parameters with options, state per parameter, hooks around a step.

Promises users PyTorch's `Optimizer`: the layout of `state_dict()` is the same, so either loads what the other saved; and
promises the optimisers that their `step` runs between the hooks.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.optim._outside import *  # noqa: F403
from nbgrad.tape.node import HookTable, RemovableHandle, register

Params = Iterable[Tensor | dict[str, Any] | tuple[str, Tensor]]


class _Required:
    """Stands in `defaults` for an option that every group must bring."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _type_name(x: object) -> str:
    module, name = type(x).__module__, type(x).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


_pre_hooks: HookTable = OrderedDict()
_post_hooks: HookTable = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` before a step of any optimiser; it may return others of both. The handle's `remove()` takes it
    off again.
    """
    return register(_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` after a step of any optimiser."""
    return register(_post_hooks, hook)


def _between_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        self: Optimizer = args[0]
        if "_zero_grad_profile_name" not in self.__dict__:
            # It stands before another optimiser, and has never been made as one.
            return step(*args, **kwargs)
        if "_opt_called" in self.__dict__:  # a schedule wants to know
            self._opt_called = True
        for hook in [*_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()]:
            result = hook(self, args, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}."
                    )
                args, kwargs = result
        out = step(*args, **kwargs)
        for hook in [*self._optimizer_step_post_hooks.values(), *_post_hooks.values()]:
            hook(self, args, kwargs)
        return out

    hooked._between_hooks = True  # type: ignore[attr-defined]
    return hooked


def tracks_steps(optimizer: Optimizer) -> bool:
    """Whether `optimizer.step` still is the one of its class."""
    return hasattr(optimizer.step, "_between_hooks")


class Optimizer:
    """The base: a subclass hands its defaults to `__init__` and says what `step` does. `params` are tensors, or pairs of a name and
    a tensor, or dicts, each a group with options of its own; `param_groups` holds the groups, `state` what is kept of each
    parameter.

    >>> class Plain(torch.optim.Optimizer):
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.data.add_(p.grad, alpha=-group["lr"])
    >>> p = nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([5.0])
    >>> Plain([p], {"lr": 0.1}).step()
    >>> p.data
    tensor([0.5000])
    """

    _HOOKS = (
        "_optimizer_step_pre_hooks",
        "_optimizer_step_post_hooks",
        "_optimizer_state_dict_pre_hooks",
        "_optimizer_state_dict_post_hooks",
        "_optimizer_load_state_dict_pre_hooks",
        "_optimizer_load_state_dict_post_hooks",
    )
    _opt_called: bool
    _optimizer_step_pre_hooks: HookTable
    _optimizer_step_post_hooks: HookTable
    _optimizer_state_dict_pre_hooks: HookTable
    _optimizer_state_dict_post_hooks: HookTable
    _optimizer_load_state_dict_pre_hooks: HookTable
    _optimizer_load_state_dict_post_hooks: HookTable

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _between_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + params.type()
            )
        self.state: dict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._prepare()
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """What is neither saved nor copied: made by the constructor, and by what makes one without it."""
        for name in self._HOOKS:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {i}"] if i else [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # -- groups -------------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Another group of parameters, a dict with "params" and options; those that it does not name are the defaults.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
        >>> optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.5})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.5]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        params, names = _named([given] if isinstance(given, Tensor) else list(given))
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {_type_name(p)}"
                )
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
            param_group.setdefault(name, default)
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        known = set(chain.from_iterable(group["params"] for group in self.param_groups))
        if ("param_names" in param_group) != any(
            "param_names" in g for g in self.param_groups or [param_group]
        ):
            without = "without" if "param_names" not in param_group else "with"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {without} names to the optimizer"
            )
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Options of the groups, and state by the number that a parameter has, counted through the groups; the tensors are those in
        use.

        >>> p = nn.Parameter(torch.zeros(1))
        >>> p.grad = torch.ones(1)
        >>> optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
        >>> optimizer.step()
        >>> optimizer.state_dict()["state"]
        {0: {'momentum_buffer': tensor([1.])}}
        """
        for hook in list(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        for p in chain.from_iterable(group["params"] for group in self.param_groups):
            numbers.setdefault(id(p), len(numbers))
        groups = [
            {k: v for k, v in group.items() if k != "params"}
            | {"params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        packed: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in list(self._optimizer_state_dict_post_hooks.values()):
            replaced = hook(self, packed)
            packed = packed if replaced is None else replaced
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take options and state from a state dict, whose groups have to have as many parameters as these; state is cast to the
        parameters' dtype.

        >>> one, other = (torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr) for lr in (0.1, 0.2))
        >>> one.load_state_dict(other.state_dict())
        >>> one.param_groups[0]["lr"]
        0.2
        """
        state_dict = state_dict.copy()
        for hook in list(self._optimizer_load_state_dict_pre_hooks.values()):
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        owners = {}
        for group, loaded in zip(groups, saved):
            owners.update({n: (p, loaded) for n, p in zip(loaded["params"], group["params"])})
            loaded["params"] = group["params"]
            if "param_names" in group and "param_names" not in loaded:
                loaded["param_names"] = group["param_names"]
        state: dict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owners:
                p, loaded = owners[key]
                state[p] = _fitted(value, p, loaded)
            else:
                state[key] = value
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def _accelerator_graph_capture_health_check(self) -> None:
        """Nothing; copies of PyTorch's optimisers begin their steps by it."""

    def _cuda_graph_capture_health_check(self) -> None:
        warnings.warn("Use _accelerator_graph_capture_health_check instead", DeprecationWarning, stacklevel=2)

    def _patch_step_function(self) -> None:
        """Puts the hooks around `step`, which is done when a class is made; optimisers that stand before others call it."""

    # -- what users call ----------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; with `set_to_none=False` fill them with zeros.

        >>> p = nn.Parameter(torch.zeros(1))
        >>> p.grad = torch.ones(1)
        >>> torch.optim.SGD([p]).zero_grad()
        >>> p.grad is None
        True
        """
        for p in chain.from_iterable(group["params"] for group in self.param_groups):
            grad = p.grad
            if grad is None:
                continue
            if set_to_none:
                p.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters by their gradients, those without one staying as they are. A `closure`, if given, is called first
        with gradients enabled, and its loss is the result.

        >>> p = nn.Parameter(torch.tensor([1.0]))
        >>> def closure():
        ...     loss = (p**2).sum()
        ...     loss.backward()
        ...     return loss
        >>> torch.optim.SGD([p], lr=0.1).step(closure).item(), p.item()
        (1.0, 0.800000011920929)
        """
        raise NotImplementedError

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` before a step, the optimizer first among args; it may return others of both.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
        >>> handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("before"))
        >>> optimizer.step()
        before
        """
        return register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` after a step.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
        >>> handle = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: print("after"))
        >>> optimizer.step()
        after
        """
        return register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` before a state dict is made.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
        >>> handle = optimizer.register_state_dict_pre_hook(lambda optimizer: print("saving"))
        >>> state = optimizer.state_dict()
        saving
        """
        return register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` after a state dict is made; it may return another one.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
        >>> handle = optimizer.register_state_dict_post_hook(lambda optimizer, state: {**state, "epoch": 3})
        >>> optimizer.state_dict()["epoch"]
        3
        """
        return register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` before a state dict is loaded; it may return another one.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
        >>> handle = optimizer.register_load_state_dict_pre_hook(lambda optimizer, state: print(list(state)))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        ['state', 'param_groups']
        """
        return register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` after a state dict was loaded.

        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
        >>> handle = optimizer.register_load_state_dict_post_hook(lambda optimizer: print("loaded"))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        loaded
        """
        return register(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _named(params: list[Any]) -> tuple[list[Any], list[str]]:
    """Parameters, and their names if they are pairs of both."""
    if not any(isinstance(p, tuple) for p in params):
        return params, []
    if not all(isinstance(p, tuple) for p in params):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [pair[1] for pair in params], [pair[0] for pair in params]


def _fitted(value: Any, p: Tensor, group: dict[str, Any], key: str = "") -> Any:
    """Loaded state in the dtype of its parameter, and where that is. Counts stay as they are, but for what kernels read."""
    if isinstance(value, Tensor):
        if key == "step":
            return value.float().to(p.device) if group.get("capturable") or group.get("fused") else value
        return value.to(p.device, p.dtype) if p.is_floating_point() else value.to(p.device)
    if isinstance(value, dict):
        return {k: _fitted(v, p, group, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_fitted(v, p, group) for v in value)  # type: ignore[call-arg]
    return value
