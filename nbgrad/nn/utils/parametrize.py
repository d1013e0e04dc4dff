"""Parameters that are computed from others: `module.weight` is what modules make of `module.parametrizations.weight.original`.

Promises modules that a parametrised tensor reads as an attribute as before, is trained by way of its originals, and can be assigned
where the modules know their inverse (`right_inverse`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.container import ModuleDict, ModuleList
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter

_cache: dict[tuple[int, str], Tensor] = {}
_caching = 0


@contextmanager
def cached() -> Iterator[None]:
    """Within the block each parametrised tensor is computed once.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> with nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _inverse(parametrization: Any, value: Any) -> Any:
    try:
        return parametrization.right_inverse(value) if hasattr(parametrization, "right_inverse") else value
    except NotImplementedError:
        return value


class ParametrizationList(ModuleList):
    """The modules that make one tensor, and its original (or `original0`, `original1` and so on, as many as the first module takes):
    what `module.parametrizations.<name>` is.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> [name for name, _ in layer.parametrizations.weight.named_parameters()]
    ['original0', 'original1']
    """

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new = original
            for module in reversed(list(self)):
                new = _inverse(module, new)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            if new.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            original.data = new.detach()
            _register(self, "original", original)
        else:
            for k, each in enumerate(new):
                if not isinstance(each, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                        f"{k} of the sequence with type {type(each).__name__}."
                    )
                own = Parameter(each, original.requires_grad) if isinstance(original, Parameter) else each
                _register(self, f"original{k}", own.requires_grad_(original.requires_grad))
        if not unsafe:
            _check(self(), shape, dtype, ("unparametrized {}", "parametrized {}"), "unless `unsafe`")

    def _originals(self) -> list[Any]:
        return (
            [self.original]
            if self.is_tensor
            else [getattr(self, f"original{k}") for k in range(self.ntensors)]
        )

    def right_inverse(self, value: Any) -> None:
        """Let the originals be such that the tensor is `value`, by the modules' own `right_inverse`. Assigning to the attribute
        calls it.

        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 1))
        >>> layer.weight = torch.tensor([[3.0, 4.0]])
        >>> layer.parametrizations.weight.original0.item()
        5.0
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor and not isinstance(value, Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            if not self.is_tensor and not isinstance(value, Sequence):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
                )
            values = [value] if self.is_tensor else list(value)
            if len(values) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length "
                    f"{len(values)}."
                )
            for k, (own, new) in enumerate(zip(self._originals(), values)):
                if own.dtype != new.dtype:
                    which = "The tensor" if self.is_tensor else f"Tensor {k}"
                    name = "original" if self.is_tensor else f"original{k}"
                    raise ValueError(
                        f"{which} returned by `right_inverse` has dtype {new.dtype} while `{name}` has dtype {own.dtype}"
                    )
                own.data = new.detach()

    def forward(self) -> Any:
        first, *others = list(self)
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _check(found: Any, shape: Any, dtype: Any, words: tuple[str, str], unless: str) -> None:
    if not isinstance(found, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
    for what, before, after in (("dtype", dtype, found.dtype), ("shape", shape, found.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, {unless} flag is enabled.\n"
                f"{words[0].format(what)}: {before}\n{words[1].format(what)}: {after}"
            )


class _Copied:
    """What the class of a parametrised module has beside its own."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__dict__ = deepcopy(self.__dict__, memo)
        return made

    def __getstate__(self) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )


def _attribute(name: str) -> property:
    def read(self: Any) -> Any:
        if not _caching:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def write(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def _check_inverse(parametrization: Any, made: Any, before: Tensor, where: str) -> None:
    """Whether what a further parametrization gives back is as what it was given."""
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(made)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for word in ("dtype", "shape"):
        if getattr(back, word) != getattr(before, word):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {word} as {where}, unless the `unsafe` flag "
                f"is enabled.\n{where}.{word}: {getattr(before, word)}\nreturned {word}: {getattr(back, word)}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """From here on `module.<tensor_name>` is what the module `parametrization` makes of what it was: that is kept as the original,
    and trained. With a `right_inverse` it begins as that gives. `unsafe` leaves out the checks of shape and dtype.

    >>> class Positive(nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = nn.Linear(2, 1)
    >>> _ = nn.utils.parametrize.register_parametrization(layer, "weight", Positive())
    >>> layer.weight > 0
    tensor([[True, True]])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            before = getattr(module, tensor_name)
            words = f"module.{tensor_name}.{{}}", f"parametrization(module.{tensor_name}).{{}}"
            made = parametrization(before)
            _check(made, before.shape, before.dtype, words, "unless the `unsafe`")
            _check_inverse(parametrization, made, before, f"module.{tensor_name}")
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            kind = type(module)
            module.__class__ = type(f"Parametrized{kind.__name__}", (_Copied, kind), {"_plain": kind})
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _attribute(tensor_name))
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether any tensor of the module, or the one named, is made by a parametrisation.

    >>> nn.utils.parametrize.is_parametrized(nn.Linear(2, 3))
    False
    """
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Let the tensor be plain again: with its present value, or, with `leave_parametrized=False`, as its original is.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> layer = nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> nn.utils.parametrize.is_parametrized(layer)
    False
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made: Any = module.parametrizations[tensor_name]
    if made.is_tensor:
        tensor = made.original
        if leave_parametrized:
            with no_grad():
                tensor.data = getattr(module, tensor_name).detach()
    elif leave_parametrized:
        tensor = getattr(module, tensor_name)
        tensor = Parameter(tensor) if tensor.requires_grad else tensor
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of "
            "tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type_before_parametrizations(module)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before any of its tensors was parametrised.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> type(layer).__name__, nn.utils.parametrize.type_before_parametrizations(layer).__name__
    ('ParametrizedLinear', 'Linear')
    """
    found: type = getattr(type(module), "_plain", type(module))
    return found


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Module:
    """Let `to_module` have the parametrizations of `from_module`, the modules themselves, and its values; of all tensors or of one.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> other = nn.utils.parametrize.transfer_parametrizations_and_params(layer, nn.Linear(2, 3))
    >>> (other.weight == layer.weight).all()
    tensor(True)
    """
    if is_parametrized(from_module):
        for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
            if not hasattr(to_module, name):
                setattr(to_module, name, Parameter(getattr(from_module, name)))
            given = from_module.parametrizations[name]
            for module in given:
                register_parametrization(to_module, name, module)
            own = to_module.parametrizations[name]
            for k, original in enumerate(given._originals()):
                setattr(own, "original" if given.is_tensor else f"original{k}", original)
    moved: Module = to_module
    return moved


__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]
