"""Modules and parameters in lists and dicts."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.module import Module, _addindent, typename
from nbgrad.nn.parameter import Parameter

Self = TypeVar("Self", bound="Module")


class Container(Module):
    """Modules under the names of keywords; `Module` itself has long done as much, and this warns.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     net = nn.Container(first=nn.ReLU())
    >>> net.first
    ReLU()
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """What `Sequential` and `ModuleList` share: modules named by their position."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def _key(self, index: Any) -> str:
        index, n = operator.index(index), len(self)
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of range")
        return str(index % n)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def _name_at(self, index: Any) -> str:
        self._key(index)
        return list(self._modules)[operator.index(index)]

    def _renumber(self, modules: list[Module]) -> None:
        self.__dict__["_modules"] = {str(k): m for k, m in enumerate(modules)}


class Sequential(_Numbered):
    """Modules one after another, each given what the one before gave. An OrderedDict gives them names, else these are their numbers.
    It is a list too: indices, slices, `+`, `*`.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> net(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    >>> net[1]
    ReLU()
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], OrderedDict)
        for name, module in args[0].items() if named else enumerate(args):
            self.add_module(str(name), module)

    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: int) -> Module: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def forward(self, input: Any) -> Tensor:
        for module in self:
            input = module(input)
        return input

    def append(self: Self, module: Module) -> Self:
        """Put a module at the end, and give the whole.

        >>> len(nn.Sequential(nn.ReLU()).append(nn.Tanh()))
        2
        """
        self.add_module(str(len(self._modules)), module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Put a module before the one at `index`, and give the whole.

        >>> nn.Sequential(nn.ReLU()).insert(0, nn.Tanh())[0]
        Tanh()
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index + n if index < 0 else index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Put all modules of another one at the end, and give the whole.

        >>> len(nn.Sequential(nn.ReLU()).extend(nn.Sequential(nn.Tanh(), nn.ReLU())))
        3
        """
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: Any) -> Module:
        """Take the module at an index out, and give it.

        >>> nn.Sequential(nn.ReLU(), nn.Tanh()).pop(0)
        ReLU()
        """
        module: Module = self[key]
        del self[key]
        return module

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return self.extend(other)

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * _times(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        modules = list(self)
        for _ in range(_times(other) - 1):
            self.extend(modules)
        return self


def _times(other: Any) -> int:
    if not isinstance(other, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(Sequential())} and {type(other)}")
    if other <= 0:
        raise ValueError(f"Non-positive multiplication factor {other} for {type(Sequential())}")
    return other


class ModuleList(_Numbered):
    """A list whose modules are registered: indices, slices, `append`, `+`. It computes nothing itself.

    >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: int) -> Module: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *list(other)])

    def __iadd__(self, other: Iterable[Module]) -> ModuleList:
        return self.extend(other)

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one at `index`.

        >>> layers = nn.ModuleList([nn.ReLU()])
        >>> layers.insert(0, nn.Tanh())
        >>> layers[0]
        Tanh()
        """
        if not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def append(self: Self, module: Module) -> Self:
        """Put a module at the end, and give the list.

        >>> len(nn.ModuleList().append(nn.ReLU()))
        1
        """
        self.add_module(str(len(self._modules)), module)
        return self

    def pop(self, key: Any) -> Module:
        """Take the module at an index out, and give it.

        >>> nn.ModuleList([nn.ReLU(), nn.Tanh()]).pop(-1)
        Tanh()
        """
        module: Module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Put all the modules at the end, and give the list.

        >>> len(nn.ModuleList([nn.ReLU()]).extend([nn.Tanh(), nn.ReLU()]))
        3
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Neighbours that print alike are printed once, with their count."""
        shown = [repr(module) for module in self]
        if not shown:
            return f"{self._get_name()}()"
        lines, start = [], 0
        for k in range(1, len(shown) + 1):
            if k == len(shown) or shown[k] != shown[start]:
                one = k == start + 1
                where = f"({start})" if one else f"({start}-{k - 1})"
                lines.append(_addindent(f"{where}: {'' if one else f'{k - start} x '}{shown[start]}", 2))
                start = k
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)"


class ModuleDict(Module):
    """A dict whose modules are registered, in the order in which they came. It computes nothing itself.

    >>> acts = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
    >>> acts["relu"](torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take all modules out.

        >>> acts = nn.ModuleDict({"relu": nn.ReLU()})
        >>> acts.clear()
        >>> len(acts)
        0
        """
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take the module of a key out, and give it.

        >>> nn.ModuleDict({"relu": nn.ReLU()}).pop("relu")
        ReLU()
        """
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names.

        >>> list(nn.ModuleDict({"relu": nn.ReLU()}).keys())
        ['relu']
        """
        return self._modules.keys()

    def items(self) -> Any:
        """Pairs of a name and a module.

        >>> list(nn.ModuleDict({"relu": nn.ReLU()}).items())
        [('relu', ReLU())]
        """
        return self._modules.items()

    def values(self) -> Any:
        """The modules.

        >>> list(nn.ModuleDict({"relu": nn.ReLU()}).values())
        [ReLU()]
        """
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Put in the modules of a dict, or of pairs of a name and a module, in place of those of the same name.

        >>> acts = nn.ModuleDict()
        >>> acts.update([("relu", nn.ReLU())])
        >>> "relu" in acts
        True
        """
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _pairs(name: str, given: Any) -> list[tuple[Any, Any]]:
    """The items of a mapping, or of a list of pairs."""
    if not isinstance(given, Iterable):
        spelled = name.replace("Parameter", "Parameters")  # as PyTorch spells it here
        raise TypeError(
            f"{spelled}.update should be called with an iterable of key/value pairs, but got {type(given).__name__}"
        )
    if isinstance(given, (Mapping, ModuleDict, ParameterDict)):
        return list(given.items())
    pairs = []
    for k, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{k} should be Iterable; is{type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{name} update sequence element #{k} has length {len(pair)}; 2 is required")
        pairs.append(pair)
    return pairs


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(value: Any, dtype: str) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    word = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{word} containing: [{dtype} of size {'x'.join(str(n) for n in value.size())}]"


class ParameterList(Module):
    """A list whose tensors are parameters of the module; other values are kept as they are.

    >>> nn.ParameterList([torch.zeros(2), torch.zeros(3, 4)])
    ParameterList(
        (0): Parameter containing: [torch.float32 of size 2]
        (1): Parameter containing: [torch.float32 of size 3x4]
    )
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _key(self, index: Any) -> str:
        index, n = operator.index(index), len(self)
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of range")
        return str(index % n)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[k] for k in range(*index.indices(len(self)))])
        return getattr(self, self._key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._key(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Put a value at the end, a tensor as a parameter, and give the list.

        >>> nn.ParameterList().append(torch.zeros(2))[0]
        Parameter containing:
        tensor([0., 0.], requires_grad=True)
        """
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Put all the values at the end, tensors as parameters, and give the list.

        >>> len(nn.ParameterList([torch.zeros(2)]).extend([torch.zeros(2), torch.zeros(3)]))
        3
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({k}): {_described(v, str(v.dtype) if isinstance(v, Tensor) else '')}"
            for k, v in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict whose tensors are parameters of the module; other values are kept as they are.

    >>> weights = nn.ParameterDict({"left": torch.zeros(2)})
    >>> weights["left"]
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._attribute(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another one of the same parameters, which both share.

        >>> weights = nn.ParameterDict({"left": torch.zeros(2)})
        >>> weights.copy()["left"] is weights["left"]
        True
        """
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is `default` if there was none.

        >>> nn.ParameterDict().setdefault("left", torch.zeros(2))
        Parameter containing:
        tensor([0., 0.], requires_grad=True)
        """
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take all values out.

        >>> weights = nn.ParameterDict({"left": torch.zeros(2)})
        >>> weights.clear()
        >>> len(weights)
        0
        """
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take the value of a key out, and give it.

        >>> nn.ParameterDict({"left": torch.zeros(2)}).pop("left")
        Parameter containing:
        tensor([0., 0.], requires_grad=True)
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last key and its value out, and give both.

        >>> nn.ParameterDict({"left": torch.zeros(2)}).popitem()[0]
        'left'
        """
        key = list(self._keys)[-1]
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default` if there is none.

        >>> nn.ParameterDict().get("left", 7)
        7
        """
        if key in self._keys:
            return self[key]
        return default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new one that has these keys, all with the value `default`.

        >>> list(nn.ParameterDict().fromkeys(["left", "right"], torch.zeros(2)))
        ['left', 'right']
        """
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> Any:
        """The names.

        >>> list(nn.ParameterDict({"left": torch.zeros(2)}).keys())
        ['left']
        """
        return self._keys.keys()

    def items(self) -> Any:
        """Pairs of a name and a value.

        >>> dict(nn.ParameterDict({"left": torch.zeros(2)}).items())
        {'left': Parameter containing:
        tensor([0., 0.], requires_grad=True)}
        """
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Any:
        """The values.

        >>> list(nn.ParameterDict({"left": torch.zeros(2)}).values())
        [Parameter containing:
        tensor([0., 0.], requires_grad=True)]
        """
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Put in the values of a dict, by the order of its keys (an OrderedDict by its own order), or of pairs of a name and a
        value.

        >>> weights = nn.ParameterDict()
        >>> weights.update([("left", torch.zeros(2))])
        >>> weights["left"].requires_grad
        True
        """
        pairs = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs.sort(key=operator.itemgetter(0))
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({k}): {_described(v, typename(v))}" for k, v in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> ParameterDict:
        joined = other.copy()
        joined.update(self)
        return joined

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self


__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
