"""`Module`: parameters, buffers and other modules under names, called as a function.

Promises the modules that stand on it: what is assigned is registered by its class, every walk over the tree meets a shared tensor once,
a state dict holds the module's own tensors, and hooks run in PyTorch's order and with its arguments.
"""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar, overload

from nbgrad import __future__
from nbgrad.autograd.grad_mode import no_grad
from nbgrad.base.ours import is_ours
from nbgrad.core.signatures import check, kind_name
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import bfloat16, dtype, float16, float32, float64
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.nn.modules import _everywhere
from nbgrad.nn.modules._everywhere import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from nbgrad.nn.modules._everywhere import (
    _global_buffer_registration_hooks as _global_buffer_registration_hooks,
)
from nbgrad.nn.modules._everywhere import (
    _global_module_registration_hooks as _global_module_registration_hooks,
)
from nbgrad.nn.modules._everywhere import (
    _global_parameter_registration_hooks as _global_parameter_registration_hooks,
)
from nbgrad.nn.modules._hooks import BackwardHook, Hook, WithModule, hook_old_way, silenced
from nbgrad.nn.modules._loading import load_one
from nbgrad.nn.parameter import Buffer, Parameter, is_lazy
from nbgrad.ops.host.storage import share_all
from nbgrad.ops.host.swap import swap_tensors
from nbgrad.ops.make.filled import empty_like
from nbgrad.tape.node import RemovableHandle, register

Self = TypeVar("Self", bound="Module")

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
_UNREACHED = (
    "Reached a code path in Module.{}_extra_state() that should never be called. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
)


class _Keys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class _IncompatibleKeys(_Keys):
    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def typename(value: Any) -> str:
    """How messages name the type of a value."""
    if isinstance(value, Tensor):
        name: str = value.type()
        return name
    if kind_name(value)[:6] == "torch.":
        return kind_name(value)
    kind: Any = value if hasattr(value, "__qualname__") else type(value)
    if kind.__module__ in ("builtins", "", None):
        return kind.__qualname__
    return f"{'torch' if kind.__module__.startswith('nbgrad') else ''}{kind.__module__.removeprefix('nbgrad')}.{kind.__qualname__}"


def _forward_unimplemented(self: Any, *input: Any) -> None:
    """What a module computes when it is called; a subclass says it. Called as `module(...)`, so that hooks run too.

    >>> class Double(nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Double()(torch.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


def with_own_init(cls: type[Module]) -> None:
    """Let refusals name the constructor as the class's own, as it is in PyTorch, where here classes share one."""
    if "__init__" not in cls.__dict__ and is_ours(cls.__module__):
        shared: Any = cls.__init__
        own = FunctionType(
            shared.__code__, shared.__globals__, "__init__", shared.__defaults__, shared.__closure__
        )
        own.__kwdefaults__, own.__annotations__ = shared.__kwdefaults__, shared.__annotations__
        own.__module__, own.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
        cls.__init__ = own  # type: ignore[method-assign]


if TYPE_CHECKING:
    _Given = ParamSpec("_Given")
    _Result = TypeVar("_Result", covariant=True)

    class _Forward(Protocol[_Given, _Result]):
        """What a call of a module takes and gives: that of its `forward`."""

        def forward(self, *args: _Given.args, **kwargs: _Given.kwargs) -> _Result: ...


_FROM_META = (
    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving "
    "module from meta to a different device."
)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[_device | None, _dtype | None, bool, Any]:
    """What the arguments of a module's `to` say: the device, the dtype, whether not to wait, and the memory format."""
    check("Tensor.to", args, kwargs)
    flags = [arg for arg in args if isinstance(arg, bool)]
    if kwargs.get("copy") or any(flags[1:]):
        raise RuntimeError(".to() does not accept copy argument")
    like, device, dtype = [kwargs.get(name) for name in ("tensor", "device", "dtype")]
    for arg in args:
        if isinstance(arg, Tensor):
            like = arg
        elif isinstance(arg, _dtype):
            dtype = arg
        elif isinstance(arg, (str, int, _device)) and not isinstance(arg, bool):
            device = arg
    if like is not None:
        device, dtype = like.device, like.dtype
    hurry = bool(kwargs.get("non_blocking") or any(flags))
    return None if device is None else _device(device), dtype, hurry, kwargs.get("memory_format")


class Module:
    """The base of all networks. A subclass makes its parts in `__init__`, after `super().__init__()`, and computes in `forward`.
    Parameters, buffers and modules that are assigned to attributes are registered: `parameters()`, `to()`, `state_dict()` and the
    others know them.

    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.by = nn.Parameter(torch.tensor(3.0))
    ...     def forward(self, x):
    ...         return self.by * x
    >>> Scale()(torch.ones(2))
    tensor([3., 3.], grad_fn=<MulBackward0>)
    >>> dict(Scale().named_parameters())
    {'by': Parameter containing:
    tensor(3., requires_grad=True)}
    """

    training: bool
    dump_patches = False
    _version = 1
    call_super_init = False
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]
    _is_full_backward_hook: bool | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
            )
        if not self.call_super_init and args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        put = super().__setattr__
        put("training", True)
        for name in ("_parameters", "_buffers", "_modules"):
            put(name, {})
        put("_non_persistent_buffers_set", set())
        put("_is_full_backward_hook", None)
        for name in _HOOK_TABLES:
            put(name, OrderedDict())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward: Callable[..., Any] = _forward_unimplemented

    # -- registering ---------------------------------------------------------------------------------------------------

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor that is no parameter as attribute `name`; with `persistent`, state dicts hold it.

        >>> module = nn.Module()
        >>> module.register_buffer("mean", torch.zeros(2))
        >>> module.state_dict()["mean"]
        tensor([0., 0.])
        """
        self._check_name("buffer", "_buffers", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Keep a parameter as attribute `name`, as assigning it does; None says that there may be one, and is not.

        >>> module = nn.Module()
        >>> module.register_parameter("bias", nn.Parameter(torch.zeros(2)))
        >>> [name for name, _ in module.named_parameters()]
        ['bias']
        """
        self._check_name("parameter", "_parameters", name)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = registered("parameter", self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Keep a module as attribute `name`, as assigning it does.

        >>> net = nn.Module()
        >>> net.add_module("first", nn.ReLU())
        >>> net
        Module(
          (first): ReLU()
        )
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._modules[name] = registered("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Alias of `add_module`.

        >>> net = nn.Module()
        >>> net.register_module("first", nn.ReLU())
        >>> net.first
        ReLU()
        """
        self.add_module(name, module)

    def _check_name(self, kind: str, table: str, name: Any) -> None:
        if table not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"attribute '{name}' already exists")

    # -- attributes ----------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        """What is assigned is registered by its class; a name that is registered takes only its kind, or None."""
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            self._modules[name] = registered("module", self, name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            self._modules[name] = registered("module", self, name, value)
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
                )
            kept = (
                value.persistent
                if isinstance(value, Buffer)
                else name not in self._non_persistent_buffers_set
            )
            if type(self).register_buffer is Module.register_buffer:
                self.register_buffer(name, value, kept)
            else:
                self._register_buffer_in_its_way(name, value, kept)
        else:
            super().__setattr__(name, value)

    def _register_buffer_in_its_way(self, name: str, value: Tensor | None, persistent: bool) -> None:
        """By a subclass's own function, which may know of persistent buffers only."""
        if "persistent" in inspect.signature(self.register_buffer).parameters:
            self.register_buffer(name, value, persistent)
        elif not persistent:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without the persistent "
                "argument is not allowed."
            )
        else:
            self.register_buffer(name, value)

    def _forget(self, name: str, but: str) -> None:
        """Whatever the name stood for, other than in this table."""
        for table in ("_parameters", "_buffers", "_modules"):
            if table != but:
                self.__dict__[table].pop(name, None)
        self.__dict__.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[:1].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOK_TABLES:  # what an older pickle lacks
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted name; of "", this one.

        >>> nn.Sequential(nn.Sequential(nn.ReLU())).get_submodule("0.0")
        ReLU()
        """
        module: Any = self
        for item in target.split(".") if target else ():
            if not hasattr(module, item):
                raise AttributeError(f"{module._get_name()} has no attribute `{item}`")
            module = getattr(module, item)
            if not isinstance(module, Module):
                raise AttributeError(f"`{item}` is not an nn.Module")
        found: Module = module
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted name, in place of the one there; without `strict`, also where there is none.

        >>> net = nn.Sequential(nn.Sequential(nn.ReLU()))
        >>> net.set_submodule("0.0", nn.Tanh())
        >>> net[0][0]
        Tanh()
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted name.

        >>> nn.Sequential(nn.Linear(2, 3)).get_parameter("0.weight").shape
        torch.Size([3, 2])
        """
        _, name, found = self._member(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted name.

        >>> nn.Sequential(nn.BatchNorm1d(2)).get_buffer("0.running_var")
        tensor([1., 1.])
        """
        module, name, found = self._member(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        buffer: Tensor = found
        return buffer

    def _member(self, target: str) -> tuple[Module, str, Any]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name, getattr(module, name)

    # -- walking -------------------------------------------------------------------------------------------------------

    def _named_members(
        self,
        members: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        walk = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in walk:
            for name, member in members(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, with `recurse`, of all below it, each once: what optimisers are given.

        >>> [tuple(p.shape) for p in nn.Linear(2, 3).parameters()]
        [(3, 2), (3,)]
        """
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Pairs of a dotted name and a parameter, of this module and, with `recurse`, of all below it; `prefix` stands before the
        names. With `remove_duplicate` each parameter comes once.

        >>> [name for name, _ in nn.Sequential(nn.Linear(2, 3)).named_parameters()]
        ['0.weight', '0.bias']
        """
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, with `recurse`, of all below it, each once.

        >>> list(nn.BatchNorm1d(2).buffers())
        [tensor([0., 0.]), tensor([1., 1.]), tensor(0)]
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Pairs of a dotted name and a buffer, of this module and, with `recurse`, of all below it; `prefix` stands before the
        names.

        >>> [name for name, _ in nn.BatchNorm1d(2).named_buffers()]
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """The modules right below this one, each once.

        >>> list(nn.Sequential(nn.ReLU(), nn.Tanh()).children())
        [ReLU(), Tanh()]
        """
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Pairs of a name and a module, of those right below this one.

        >>> list(nn.Sequential(nn.ReLU(), nn.Tanh()).named_children())
        [('0', ReLU()), ('1', Tanh())]
        """
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, parents first; each once, or as often as it is there.

        >>> [type(m).__name__ for m in nn.Sequential(nn.Sequential(nn.ReLU())).modules()]
        ['Sequential', 'Sequential', 'ReLU']
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Pairs of a dotted name and a module: this one, named "", and all below it, each once. Those in `memo` are left out.

        >>> [name for name, _ in nn.Sequential(nn.Sequential(nn.ReLU())).named_modules()]
        ['', '0', '0.0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(
                    memo, f"{prefix}.{name}" if prefix else name, remove_duplicate
                )

    # -- changing all at once ------------------------------------------------------------------------------------------

    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` with every module, children first, and give this module.

        >>> net = nn.Sequential(nn.ReLU()).apply(lambda module: print(type(module).__name__))
        ReLU
        Sequential
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace what parameters, their gradients and buffers hold; a parameter stays the same object, but on another device."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            if __future__.get_swap_module_params_on_conversion():
                self._swap_converted(name, param, fn)
                continue
            with no_grad():
                held, before = fn(param), param.grad
                grad = None if before is None else fn(before)
            other = held.device is not param.device or held.layout is not param.layout
            if other or __future__.get_overwrite_module_params_on_conversion():
                if is_lazy(param):
                    lazy: Any = type(param)
                    elsewhere = lazy(param.requires_grad, device=held.device, dtype=held.dtype)
                else:
                    elsewhere = Parameter(held, param.requires_grad)
                self._parameters[name] = elsewhere
                if before is not None and grad is not None:
                    elsewhere.grad = grad.requires_grad_(before.requires_grad)
                continue
            param.data = held
            if before is not None and grad is not None:
                before.data = grad
        for name, buffer in self._buffers.items():
            if buffer is None:
                continue
            if is_lazy(buffer):
                buffer.data = fn(buffer)
            else:
                self._buffers[name] = fn(buffer)
        return self

    def _swap_converted(self, name: str, param: Parameter, fn: Callable[[Tensor], Tensor]) -> None:
        """Let a parameter and its gradient, which stay the same objects, be what `fn` makes of them."""
        with no_grad():
            held: Tensor = fn(param)
        grad = param.grad
        param.grad = None  # or the parameter would have a claim on it
        try:
            # A view of the parameter would have a claim on it, too.
            held = Parameter(held, requires_grad=param.requires_grad)
            swap_tensors(param, held)
        except Exception as error:
            param.grad = grad
            raise RuntimeError(f"_apply(): Couldn't swap {self._get_name()}.{name}") from error
        if grad is None:
            return
        with no_grad():
            converted = fn(grad)
        converted.requires_grad_(grad.requires_grad)
        try:
            swap_tensors(grad, converted)
        except Exception as error:
            raise RuntimeError(f"_apply(): Couldn't swap {self._get_name()}.{name}.grad") from error
        param.grad = grad

    @overload
    def to(
        self: Self,
        device: Device | None = ...,
        dtype: dtype | None = ...,
        non_blocking: bool = ...,
        *,
        memory_format: Any = ...,
    ) -> Self: ...
    @overload
    def to(self: Self, dtype: dtype, non_blocking: bool = ..., *, memory_format: Any = ...) -> Self: ...
    @overload
    def to(self: Self, tensor: Tensor, non_blocking: bool = ..., *, memory_format: Any = ...) -> Self: ...
    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """`to(device, dtype)`, `to(dtype)`, `to(tensor)`: floating parameters and buffers are cast, all are moved, and those of four or
        five dimensions laid out in `memory_format`, in place; the module itself is given back.

        >>> nn.Linear(2, 3).to(torch.float64).weight.dtype
        torch.float64
        >>> nn.Conv2d(3, 8, 2).to(memory_format=torch.channels_last).weight.stride()
        (12, 1, 6, 3)
        """
        where, dtype, hurry, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules might not work as "
                "expected when using complex tensors as parameters or buffers. Please file an issue at "
                "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does not work as expected.",
                stacklevel=2,
            )

        def convert(t: Tensor) -> Tensor:
            wanted = dtype if dtype is not None and (t.is_floating_point() or t.is_complex()) else t.dtype
            if where is not None and t.is_meta and where.type != "meta":
                raise NotImplementedError(_FROM_META)
            lies = memory_format if t.ndim in (4, 5) else None
            return t.to(where or t.device, wanted, hurry, memory_format=lies)

        return self._apply(convert)

    def _cast(self: Self, d: _dtype) -> Self:
        return self._apply(lambda t: t.to(d) if t.is_floating_point() else t)

    def type(self: Self, dst_type: dtype | str) -> Self:
        """Cast all parameters and buffers, integers too, to a dtype (or the name of a tensor's type).

        >>> nn.Linear(2, 3).type(torch.float64).weight.dtype
        torch.float64
        """
        return self._apply(lambda t: t.type(dst_type))

    def float(self: Self) -> Self:
        """Cast floating parameters and buffers to float32, and give the module.

        >>> nn.Linear(2, 3).double().float().weight.dtype
        torch.float32
        """
        return self._cast(float32)

    def double(self: Self) -> Self:
        """Cast floating parameters and buffers to float64, and give the module.

        >>> nn.Linear(2, 3).double().weight.dtype
        torch.float64
        """
        return self._cast(float64)

    def bfloat16(self: Self) -> Self:
        """Cast floating parameters and buffers to bfloat16, and give the module.

        >>> nn.Linear(2, 3).bfloat16().weight.dtype
        torch.bfloat16
        """
        return self._cast(bfloat16)

    def half(self: Self) -> Self:
        """Cast floating parameters and buffers to float16, and give the module.

        >>> nn.Linear(2, 3).half().weight.dtype
        torch.float16
        """
        return self._cast(float16)

    def cuda(self: Self, device: Device | None = None) -> Self:
        """Move all parameters and buffers to a GPU, and give the module; refused where there is none.

        >>> nn.Flatten().cuda()
        Flatten(start_dim=1, end_dim=-1)
        """
        return self._apply(lambda t: t.cuda(device))

    def cpu(self: Self) -> Self:
        """Move all parameters and buffers to the CPU, and give the module.

        >>> nn.Linear(2, 3).cpu().weight.device
        device(type='cpu')
        """
        return self._apply(lambda t: t.cpu())

    def share_memory(self: Self) -> Self:
        """Lay all parameters and buffers where other processes see them, too, and give the module.

        >>> nn.Linear(2, 3).share_memory().weight.is_shared()
        True
        """
        held = [t for t in (*self.parameters(), *self.buffers()) if not is_lazy(t)]
        share_all([*held, *[t.grad for t in held if t.grad is not None]])
        return self._apply(lambda t: t.share_memory_())

    def train(self: Self, mode: bool = True) -> Self:
        """Set `training` of this module and all below it, and give the module: dropout and batch normalisation look at it.

        >>> nn.Sequential(nn.Dropout()).train(False)[0].training
        False
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def to_empty(self: Self, *, device: Device | None, recurse: bool = True) -> Self:
        """Move to a device, with new memory whose values are anything.

        >>> nn.Linear(2, 3).to_empty(device="cpu").weight.shape
        torch.Size([3, 2])
        """
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def eval(self: Self) -> Self:
        """`train(False)`.

        >>> nn.Dropout().eval()(torch.ones(3))
        tensor([1., 1., 1.])
        """
        return self.train(False)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile its calls where they stand, as `torch.compile(module, ...)` does those of a new module: no name of a parameter changes.

        >>> layer = nn.Linear(2, 1)
        >>> layer.compile(backend="eager")
        >>> layer(torch.ones(3, 2)).shape, list(layer.state_dict())
        (torch.Size([3, 1]), ['weight', 'bias'])
        """
        forward = type(self).forward.__get__(self)
        compiled = import_module("nbgrad.compiler").compile(forward, *args, **kwargs)
        if compiled is not forward:  # which `backend="eager"` leaves
            self.__dict__["forward"] = compiled

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if hasattr(state.get("forward"), "explain"):  # a copy is not compiled, as in PyTorch
            del state["forward"]
        return state

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Let all parameters require grad, or none, and give the module.

        >>> nn.Linear(2, 3).requires_grad_(False).weight.requires_grad
        False
        """
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; with `set_to_none=False` fill them with zeros.

        >>> net = nn.Linear(1, 1)
        >>> net(torch.ones(1)).backward()
        >>> net.zero_grad()
        >>> net.weight.grad is None
        True
        """
        for param in self.parameters():
            if param.grad is not None:
                if set_to_none:
                    param.grad = None
                    continue
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()

    # -- state ---------------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """What else a state dict is to hold; a subclass that has such state overrides this and `set_extra_state`.

        >>> class Counter(nn.Module):
        ...     count = 3
        ...     def get_extra_state(self):
        ...         return self.count
        >>> Counter().state_dict()["_extra_state"]
        3
        """
        raise RuntimeError(_UNREACHED.format("get"))

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave, from a state dict that is loaded; a subclass says how.

        >>> class Counter(nn.Module):
        ...     def set_extra_state(self, state):
        ...         self.count = state
        ...     get_extra_state = lambda self: self.count
        >>> counter = Counter()
        >>> counter.load_state_dict({"_extra_state": 3})
        <All keys matched successfully>
        >>> counter.count
        3
        """
        raise RuntimeError(_UNREACHED.format("set"))

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """This module's own tensors, without those of the modules below."""
        kept = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        for name, value in (*self._parameters.items(), *kept.items()):
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """All parameters and persistent buffers by their dotted names; the tensors share memory with the module's, and require grad
        only with `keep_vars`. The dict's attribute `_metadata` holds each module's version.

        >>> {name: tuple(t.shape) for name, t in nn.Sequential(nn.Linear(2, 3)).state_dict().items()}
        {'0.weight': (3, 2), '0.bias': (3,)}
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to https://pytorch.org/docs/main/generated/"
                "torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination, prefix = destination or given["destination"], prefix or given.get("prefix", "")
            keep_vars = keep_vars or given.get("keep_vars", False)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for key, hook in self._state_dict_hooks.items():
            got = hook(self, destination, prefix, local)
            if key in self._state_dict_hooks_public:
                if got is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif got is not None:
                destination = got
        return destination

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Copy this module's own tensors from a state dict; what does not fit is noted, not raised."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        kept = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        own = {k: v for k, v in (*self._parameters.items(), *kept.items()) if v is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, value in own.items():
            key = prefix + name
            if key in state_dict:
                load_one(self, name, key, value, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or key == extra:
                    continue
                first, dot, _ = key[len(prefix) :].partition(".")
                if first not in (self._modules if dot else own):
                    unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy from a state dict into this module and all below it (with `assign`, take its tensors over). With `strict`, the keys
        have to be the module's own; what is missing or too much is in the result.

        >>> one, other = nn.Linear(2, 3), nn.Linear(2, 3)
        >>> one.load_state_dict(other.state_dict())
        <All keys matched successfully>
        >>> torch.equal(one.weight, other.weight)
        True
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        copied: Any = OrderedDict(state_dict)
        if metadata is not None:
            copied._metadata = metadata

        _load(self, copied, "", metadata or {}, assign, (missing, unexpected, errors))
        if strict:
            for words, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    listed = ", ".join(f'"{k}"' for k in keys)
                    errors.insert(0, f"{words} key(s) in state_dict: {listed}. ")
        if errors:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors)
            )
        return _IncompatibleKeys(missing, unexpected)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` before the module's tensors are collected.

        >>> net = nn.Linear(2, 3, bias=False)
        >>> handle = net.register_state_dict_pre_hook(lambda module, prefix, keep_vars: module.weight.data.zero_())
        >>> net.state_dict()["weight"].sum()
        tensor(0.)
        """
        return register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` after the module's tensors are collected; it changes the dict in place,
        and gives None.

        >>> net = nn.Linear(2, 3)
        >>> handle = net.register_state_dict_post_hook(lambda module, state, *rest: state.update(bias=None))
        >>> net.state_dict()["bias"] is None
        True
        """
        return register(self._state_dict_hooks, hook, marks=[(self._state_dict_hooks_public, True)])

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """The same, but what it returns takes the dict's place."""
        return register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` before the module
        loads its own; it may change the dict and the lists in place.

        >>> net = nn.Linear(2, 3)
        >>> handle = net.register_load_state_dict_pre_hook(lambda module, state, *rest: state.pop("old"))
        >>> net.load_state_dict({**net.state_dict(), "old": torch.zeros(1)})
        <All keys matched successfully>
        """
        return register(self._load_state_dict_pre_hooks, WithModule(hook, self))

    def _register_load_state_dict_pre_hook(self, hook: Hook, with_module: bool = False) -> RemovableHandle:
        """The same without the module, unless it is asked for."""
        return register(self._load_state_dict_pre_hooks, WithModule(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """`hook(module, incompatible_keys)` after a module has loaded; it may change the two lists of keys in place.

        >>> net = nn.Linear(2, 3)
        >>> handle = net.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
        >>> net.load_state_dict({})
        <All keys matched successfully>
        """
        return register(self._load_state_dict_post_hooks, hook)

    # -- calling -------------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` before `forward`; what it returns, if not None, are the arguments. With `with_kwargs` it is
        `hook(module, args, kwargs)`, which returns both. `prepend` puts it before the hooks that are there.

        >>> net = nn.ReLU()
        >>> handle = net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        >>> net(torch.tensor([1.0]))
        tensor([2.])
        """
        marks = [(self._forward_pre_hooks_with_kwargs, with_kwargs)]
        return register(self._forward_pre_hooks, hook, prepend, marks)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """`hook(module, args, result)` after `forward`, with `always_call` even if that raised; what it returns, if not None, is the
        result. With `with_kwargs` it is `hook(module, args, kwargs, result)`.

        >>> net = nn.ReLU()
        >>> handle = net.register_forward_hook(lambda module, args, result: 10 * result)
        >>> net(torch.tensor([1.0]))
        tensor([10.])
        """
        marks = [
            (self._forward_hooks_with_kwargs, with_kwargs),
            (self._forward_hooks_always_called, always_call),
        ]
        return register(self._forward_hooks, hook, prepend, marks)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` when the gradients of the outputs are known; what it returns, if not None, replaces them.

        >>> net, x = nn.Tanh(), torch.zeros(1, requires_grad=True)
        >>> handle = net.register_full_backward_pre_hook(lambda module, grads: (5 * grads[0],))
        >>> net(x).backward()
        >>> x.grad
        tensor([5.])
        """
        return register(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` when the gradients of the inputs are known; what it returns, if not None, replaces
        those of the inputs.

        >>> net, x = nn.Tanh(), torch.zeros(1, requires_grad=True)
        >>> handle = net.register_full_backward_hook(lambda module, inputs, outputs: print(inputs, outputs))
        >>> net(x).backward()
        (tensor([1.]),) (tensor([1.]),)
        """
        return self._register_backward_hook(hook, True, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """PyTorch's old way: `hook(module, grad_input, grad_output)` at the node that made the first output, whose gradients are not
        the module's where its forward makes several nodes. `register_full_backward_hook` is the new one.

        >>> net, x = nn.Tanh(), torch.zeros(1, requires_grad=True) * 2
        >>> handle = net.register_backward_hook(lambda module, inputs, outputs: print(inputs))
        >>> net(x).backward()
        (tensor([1.]),)
        """
        return self._register_backward_hook(hook, False)

    def _register_backward_hook(self, hook: Hook, full: bool, prepend: bool = False) -> RemovableHandle:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
            )
        self._is_full_backward_hook = full
        return register(self._backward_hooks, hook, prepend)

    if TYPE_CHECKING:

        def __call__(
            self: _Forward[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs
        ) -> _Result: ...

    else:

        def __call__(self, *args, **kwargs):
            if not (
                self._backward_hooks
                or self._forward_hooks
                or self._forward_pre_hooks
                or self._backward_pre_hooks
                or _global_forward_hooks
                or _global_forward_pre_hooks
                or _global_backward_hooks
                or _global_backward_pre_hooks
            ):
                return self.forward(*args, **kwargs)
            return self._call_with_hooks(args, kwargs)

    _call_impl = _wrapped_call_impl = __call__  # names that classes which derive from this call it by

    def _replicate_for_data_parallel(self) -> Any:
        replica = self.__new__(type(self))
        vars(replica).update(vars(self), _parameters={}, _is_replica=True)
        replica._buffers, replica._modules = self._buffers.copy(), self._modules.copy()
        return replica

    def _call_with_hooks(self, args: Any, kwargs: Any) -> Any:
        result: Any = None
        called: set[int] = set()
        try:
            for key, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
                if key in self._forward_pre_hooks_with_kwargs:
                    got = hook(self, args, kwargs)
                    if got is None:
                        continue
                    if not (isinstance(got, tuple) and len(got) == 2):
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {got}."
                        )
                    args, kwargs = got
                else:
                    got = hook(self, args)
                    if got is not None:
                        args = got if isinstance(got, tuple) else (got,)
            some = self._backward_hooks or _global_backward_hooks
            backward = self._backward_hooks_of(True) if some else []
            before = [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
            watched = BackwardHook(self, backward, before) if backward or before else None
            if watched is not None:
                args = watched.setup_input_hook(args)
            result = self.forward(*args, **kwargs)
            for key, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
                called.add(key)
                got = self._call_forward_hook(key, hook, args, kwargs, result)
                result = result if got is None else got
            if watched is not None:
                if not isinstance(result, (Tensor, tuple)):
                    _not_hooked(result)
                result = watched.setup_output_hook(result)
            some = self._backward_hooks or _global_backward_hooks  # as forward may register one
            old = self._backward_hooks_of(False) if some else []
            if old:
                hook_old_way([WithModule(hook, self) for hook in old], args, result)
            return result
        except Exception:
            self._call_always(args, kwargs, result, called)
            raise

    def _backward_hooks_of(self, full: bool) -> list[Hook]:
        """The hooks of one kind; others of the two tables are of the other."""
        kind = _everywhere._global_is_full_backward_hook
        everywhere = _global_backward_hooks.values() if kind is full else ()
        own = self._backward_hooks.values() if self._is_full_backward_hook is full else ()
        return [*everywhere, *own]

    def _call_forward_hook(self, key: int, hook: Hook, args: Any, kwargs: Any, result: Any) -> Any:
        if key in self._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _call_always(self, args: Any, kwargs: Any, result: Any, called: set[int]) -> None:
        """The hooks that run even where `forward` raised; what they raise in turn is a warning."""
        for where, hooks, always in (
            ("global module", _global_forward_hooks, _global_forward_hooks_always_called),
            ("module", self._forward_hooks, self._forward_hooks_always_called),
        ):
            for key, hook in hooks.items():
                if key in always and key not in called:
                    try:
                        got = self._call_forward_hook(key, hook, args, kwargs, result)
                        result = result if got is None else got
                    except Exception as error:
                        silenced(where, error)

    # -- showing -------------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands in the parentheses when the module is printed; a subclass says more.

        >>> nn.Linear(2, 3).extra_repr()
        'in_features=2, out_features=3, bias=True'
        """
        return ""

    def __repr__(self) -> str:
        text = self.extra_repr()
        extra = text.split("\n") if text else []
        children = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        lines = [*extra, *children]
        if len(extra) == 1 and not children:
            return f"{self._get_name()}({extra[0]})"
        if not lines:
            return f"{self._get_name()}()"
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)"


_HOOK_TABLES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_hooks_public",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def _addindent(s_: str, numSpaces: int) -> str:
    """All lines but the first, so many spaces further in; those that are blank are empty."""
    first, *others = s_.split("\n")
    return "\n".join([first, *[" " * numSpaces + line if line.strip() else "" for line in others]])


def _not_hooked(result: Any) -> None:
    warnings.warn(
        f"For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received {type(result)}",
        stacklevel=4,
    )


def _load(
    module: Module,
    local: dict[str, Any],
    prefix: str,
    metadata: Mapping[str, Any],
    assign: bool,
    noted: tuple[list[str], list[str], list[str]],
) -> None:
    """A module's own tensors, those of the modules in it, then its hooks. Keys that are missing, those too much and errors are noted."""
    known = metadata.get(prefix[:-1], {})
    if assign:
        known["assign_to_params_buffers"] = assign
    module._load_from_state_dict(local, prefix, known, True, *noted)
    for name, child in module._modules.items():
        if child is not None:
            path = f"{prefix}{name}."
            _load(
                child, {k: v for k, v in local.items() if k.startswith(path)}, path, metadata, assign, noted
            )
    keys = _IncompatibleKeys(*noted[:2])
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                "if incompatible_keys need to be modified, it should be done inplace."
            )


__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
