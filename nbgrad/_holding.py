"""Tensors that hold others: what sparse, nested and masked tensors have in common.

Promises that such a tensor has no history of its own: the one of the values that it holds is what it shows, so that gradients of every
order are those of ordinary ops, and what a leaf's values get is its `grad`. What it is asked for that its kind has no form of is refused by
name. A kind says how others stand in its values' places (`with_values`), and what of a tensor stands there (`values_in`).
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from types import FunctionType
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

from nbgrad.autograd import _run
from nbgrad.core import tensor as _core
from nbgrad.core.overrides import NEVER, disabled, elsewhere
from nbgrad.core.tensor import Tensor
from nbgrad.memory.storage import Marked, Nothing, spec

Forms: TypeAlias = dict[str, Callable[..., Any]]  # what functions and methods do, by their names


def naming(forms: Forms) -> Callable[..., Callable[..., Any]]:
    """A decorator: let functions and methods of these names be this one, where an argument is of the kind that has these forms."""

    def form(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            forms.update(dict.fromkeys(names, function))
            return function

        return add

    return form


# What such a tensor says as a dense one does.
SAME = frozenset(
    [
        *(
            "size",
            "dim",
            "ndimension",
            "numel",
            "nelement",
            "element_size",
            "is_floating_point",
            "is_complex",
        ),
        *("is_signed", "get_device", "is_tensor", "is_conj", "is_neg", "resolve_conj", "resolve_neg"),
    ]
)


def _is_on(kind: str, self: Tensor) -> bool:
    return self._spec.device.type == kind


class Holding(Tensor):
    """What a kind of such tensors inherits."""

    __slots__ = ("_held",)
    _held: Tensor

    __torch_function__ = disabled
    _own: ClassVar[frozenset[str]]  # what a class says itself, before it is completed

    def __init_subclass__(cls) -> None:
        cls._own = frozenset(vars(cls))

    def with_values(self, values: Tensor) -> Any:
        """Others in the places of these."""
        raise NotImplementedError

    def values_in(self, t: Any) -> Tensor:
        """What a tensor of this shape has in these places."""
        raise NotImplementedError

    def gradient(self, got: Tensor) -> Any:
        """A gradient of the values as one of the tensor."""
        return self.with_values(got)

    def told(self) -> Any:
        """What a file says of it: who makes it again, and of what."""
        raise NotImplementedError

    def __reduce_ex__(self, protocol: Any) -> Any:
        if vars(self).get("_is_param", False):
            from nbgrad.exchange.files.tensors import rebuild_parameter  # which an import does not pay for

            return rebuild_parameter, (self.detach(), self.requires_grad, OrderedDict())
        return self.told()

    @property
    def requires_grad(self) -> bool:
        """Whether what is computed from the tensor is recorded."""
        return self._held.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._held.requires_grad = value

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made the tensor."""
        return self._held.is_leaf

    @property
    def retains_grad(self) -> bool:
        """Whether `grad` is kept though the tensor is no leaf."""
        return self._held.retains_grad

    @property
    def grad_fn(self) -> Any:
        """The node that made the values."""
        return self._held.grad_fn

    @property
    def grad(self) -> Tensor | None:
        """The gradient, where the tensor has elements."""
        got = self._held.grad
        return None if got is None else self.gradient(got)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self._held.grad = None if value is None else self.values_in(value)

    @grad.deleter
    def grad(self) -> None:
        self._held.grad = None

    @property
    def data(self) -> Any:
        """The same without history."""
        return self.with_values(self._held.data)

    @data.setter
    def data(self, value: Any) -> None:
        self._held.data = self.values_in(value)

    def __format__(self, how: str) -> str:
        return object.__format__(self, how)

    def __hash__(self) -> int:
        return id(self)


for _name in ("shape", "dtype", "device", "ndim", "itemsize"):
    setattr(Holding, _name, property(attrgetter(f"_spec.{_name}"), doc=getattr(Tensor, _name).__doc__))
for _name in ("cpu", "cuda", "meta"):
    setattr(Holding, f"is_{_name}", property(partial(_is_on, _name), doc="Whether it is there."))
Holding._own = frozenset(vars(Holding))

H = TypeVar("H", bound=Holding)


def held_in(cls: type[H], values: Tensor, shape: Any) -> H:
    """A tensor of a kind with these values; of its shape only kernels would read."""
    out: H = _core.new(cls)
    out._buf, out._spec = Nothing(), Marked(spec(values.dtype, shape, None, values.device))
    out._rg = out._nr = 0
    out._storage = out._node = out._view = out._ad = None
    out._held = values
    return out


# ---------------------------------------------------------------- who answers


def answer(by_name: Forms, where: str) -> Callable[..., Any]:
    """What a kind of tensor that has these forms makes of a call."""

    def answered(name: str, args: Any, named: Any) -> partial[Any] | None:
        if name in by_name:
            return partial(by_name[name], *args, **named)
        return None if name in SAME else partial(refuse, name, where)

    return answered


def refuse(name: str, where: str = "SparseCPU") -> NoReturn:
    """Say that there is no form of an op for a kind."""
    if where == "MaskedTensor":
        raise TypeError(
            f"Multiple dispatch failed for 'torch.ops.aten.{name}'; all __torch_dispatch__ handlers returned NotImplemented"
        )
    dense = ", see to_dense()" if where[:6] == "Sparse" else ""
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{where}' backend: nbgrad has it for dense tensors only{dense}."
    )


def complete(kind: type, by_name: Forms, where: str) -> None:
    """Let instances of a kind answer: methods that have a form are that, others that Tensor has are refused, and functions come to the
    same when they meet one."""
    inherited = {name for one in kind.__mro__ for name in vars(one).get("_own", ())}
    own = inherited | set(vars(kind)) | NEVER | SAME
    for name, found in vars(Tensor).items():
        if name in own:
            continue
        if type(found) is FunctionType:
            setattr(kind, name, by_name[name] if name in by_name else _refusing(name, where))
        elif type(found) is property and name[:3] != "is_":
            setattr(kind, name, property(_refusing(name, where)))
    elsewhere[kind] = answer(by_name, where)


def _refusing(name: str, where: str) -> Callable[..., Any]:
    def refused(self: Tensor, *args: Any, **named: Any) -> NoReturn:
        refuse(name, where)

    return refused


# ---------------------------------------------------------------- history


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (tuple, list)) else [given]


def held(given: Any) -> Any:
    """Of tensors their values, where they hold some."""
    if isinstance(given, (tuple, list)):
        return [held(one) for one in given]
    return given._held if isinstance(given, Holding) else given


def _weights(outputs: Any, grads: Any) -> Any:
    if grads is None:
        return None
    return [_weight(o, g) for o, g in zip(_several(outputs), _several(grads))]


def _weight(output: Any, g: Any) -> Any:
    if g is None:
        return None
    if isinstance(output, Holding):
        return output.values_in(g)
    return g.to_dense() if isinstance(g, Holding) else g


def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
    self._held.requires_grad_(requires_grad)
    return self


def detach(self: Any) -> Any:
    return self.with_values(self._held.detach())


def clone(self: Any, *, memory_format: Any = None) -> Any:
    return self.with_values(self._held.clone())


def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    if id(self) in memo:
        return memo[id(self)]
    made = memo[id(self)] = requires_grad_(clone(detach(self)), self.requires_grad)
    if self.grad is not None:
        made.grad = copy.deepcopy(self.grad, memo)
    return made


def retain_grad(self: Any) -> None:
    self._held.retain_grad()


def register_hook(self: Any, hook: Callable[[Tensor], Tensor | None]) -> Any:
    def called(g: Tensor) -> Tensor | None:
        got = hook(self.with_values(g))
        return None if got is None else self.values_in(got)

    return self._held.register_hook(called)


def backward(
    outputs: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
    grad_tensors: Any = None,
) -> None:
    weights = _weights(outputs, gradient if grad_tensors is None else grad_tensors)
    _run.backward(held(outputs), weights, retain_graph, create_graph, inputs=held(inputs))


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **named: Any) -> tuple[Any, ...]:
    found = _run.grad(held(outputs), held(inputs), _weights(outputs, grad_outputs), *args, **named)
    pairs = zip(_several(inputs), found)
    return tuple([t.gradient(g) if isinstance(t, Holding) and g is not None else g for t, g in pairs])


history: Forms = {
    "requires_grad_": requires_grad_,
    "detach": detach,
    "clone": clone,
    "__deepcopy__": deepcopy,
    "retain_grad": retain_grad,
    "register_hook": register_hook,
    "backward": backward,
    "grad": grad,
}
